//! A broker in a thread, and a client that reads and writes packets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_broker::{Config, Server, Stopper};
use weir_wire::packet::{Connect, SubscribeBuf, SubscriptionOptions};
use weir_wire::{
    Frame, Packet, PacketId, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version,
};

pub(crate) struct Broker {
    pub(crate) address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Broker {
    pub(crate) fn start(config: Config) -> Self {
        let config = Config { listen: vec!["127.0.0.1:0".into()], ..config };
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let server = Server::bind(&config).unwrap();
            tell.send((server.addresses()[0], server.stopper())).unwrap();
            server.run().unwrap();
        });
        let (address, stopper) = told.recv().unwrap();
        Self { address, stopper, thread: Some(thread) }
    }

    pub(crate) fn connect(&self, client_id: &str, properties: &[Property<'_>]) -> Client {
        let mut client = Client::open(self.address);
        client.send(&connect(client_id, properties));
        client
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

pub(crate) fn connect(client_id: &str, properties: &[Property<'_>]) -> Vec<u8> {
    let mut buffer = PropertiesBuf::new();
    properties.iter().for_each(|&property| buffer.push(property));
    let mut bytes = Vec::new();
    Connect { properties: buffer.as_properties(), ..Connect::new(Version::V5, client_id) }
        .encode(&mut bytes);
    bytes
}

pub(crate) fn subscribe(filter: &str, qos: QoS) -> Vec<u8> {
    let mut filters = SubscribeBuf::new();
    filters.push(filter, SubscriptionOptions { qos, ..Default::default() });
    let mut bytes = Vec::new();
    filters
        .subscribe(Version::V5, PacketId::FIRST, Properties::EMPTY)
        .encode(Version::V5, &mut bytes);
    bytes
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    /// What it reads packets as.
    pub(crate) version: Version,
    bytes: Vec<u8>,
}

impl Client {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream, version: Version::V5, bytes: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next packet, given to `look`; nothing at the end of the stream.
    pub(crate) fn packet<T>(&mut self, look: impl Fn(&Packet<'_>) -> T) -> Option<T> {
        loop {
            if let Some(frame) = Frame::check(&self.bytes, u32::MAX).unwrap() {
                let found = look(&Packet::decode(self.version, frame).unwrap());
                let bytes = frame.bytes;
                self.bytes.drain(..bytes);
                return Some(found);
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
            }
        }
    }

    /// Subscribes and waits until it is granted.
    pub(crate) fn subscribe(&mut self, filter: &str, qos: QoS) {
        self.send(&subscribe(filter, qos));
        let code = self.packet(|packet| match packet {
            Packet::SubAck(suback) => suback.codes[0],
            other => panic!("{other:?}"),
        });
        assert_eq!(code, Some(qos as u8));
    }

    pub(crate) fn connack(&mut self) -> Option<ReasonCode> {
        self.packet(|packet| match packet {
            Packet::ConnAck(connack) => connack.reason,
            other => panic!("{other:?}"),
        })
    }

    /// Reason and data of an AUTH or CONNACK.
    pub(crate) fn auth(&mut self) -> (ReasonCode, Vec<u8>) {
        let read = |packet: &Packet<'_>| {
            let (reason, properties) = match packet {
                Packet::Auth(auth) => (auth.reason, auth.properties),
                Packet::ConnAck(connack) => (connack.reason, connack.properties),
                other => panic!("{other:?}"),
            };
            let data = properties.find(|property| match property {
                Property::AuthenticationData(data) => Some(data.to_vec()),
                _ => None,
            });
            (reason, data.unwrap_or_default())
        };
        self.packet(read).unwrap()
    }

    pub(crate) fn ended(&mut self) -> bool {
        self.packet(|_| ()).is_none()
    }
}
