//! A broker whose listener has a transport with layers: the shards notice nothing.

use super::*;
use crate::config::IoBackend;
use masked::{Masks, Side};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use weir_reactor::Transport;
use weir_transport::{Layers, Recipe, Scratch};
use weir_wire::packet::{Connect, Publish, SubscribeBuf, SubscriptionOptions};
use weir_wire::{Frame, Packet, PacketId, Properties, PropertiesBuf, Property, QoS, Version};

mod learnt;

#[path = "../../../transport/tests/it/masked.rs"]
mod masked;

const CLIENTS: usize = 24;

struct Client {
    stream: TcpStream,
    layers: Layers,
    scratch: Scratch,
    network: Vec<u8>,
    plain: Vec<u8>,
}

impl Client {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let layers = Masks::new(Side::Client, 2).layers();
        let (scratch, network, plain) = (Scratch::default(), Vec::new(), Vec::new());
        let mut client = Self { stream, layers, scratch, network, plain };
        client.layers.begin(&mut client.network, &mut client.scratch);
        while !client.layers.is_open() {
            client.exchange();
        }
        client
    }

    fn exchange(&mut self) {
        let Self { stream, layers, scratch, network, plain } = self;
        stream.write_all(network).unwrap();
        network.clear();
        let mut bytes = [0; 4096];
        let read = stream.read(&mut bytes).unwrap();
        assert!(read > 0, "the end of the stream");
        layers.received(&bytes[..read], plain, network, scratch).unwrap();
    }

    fn send(&mut self, bytes: &[u8]) {
        self.layers.send(bytes, &mut self.network, &mut self.scratch);
        // In two parts, so that a frame is on its way when a shard looks at it.
        let (first, last) = self.network.split_at(self.network.len() / 2);
        self.stream.write_all(first).unwrap();
        self.stream.write_all(last).unwrap();
        self.network.clear();
    }

    fn packet<T>(&mut self, look: impl Fn(&Packet<'_>) -> T) -> T {
        loop {
            if let Some(frame) = Frame::check(&self.plain, u32::MAX).unwrap() {
                let found = look(&Packet::decode(Version::V311, frame).unwrap());
                let bytes = frame.bytes;
                self.plain.drain(..bytes);
                return found;
            }
            self.exchange();
        }
    }
}

fn connect_and_subscribe(client_id: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Connect::new(Version::V311, client_id).encode(&mut bytes);
    let mut filters = SubscribeBuf::new();
    filters.push("all", SubscriptionOptions::default());
    let subscribe = filters.subscribe(Version::V311, PacketId::FIRST, Properties::EMPTY);
    subscribe.encode(Version::V311, &mut bytes);
    bytes
}

fn publish(payload: &[u8]) -> Vec<u8> {
    let (topic, packet_id, properties) = ("all", None, Properties::EMPTY);
    let (dup, qos, retain) = (false, QoS::AtMostOnce, false);
    let mut bytes = Vec::new();
    Publish { dup, qos, retain, topic, packet_id, properties, payload }
        .encode(Version::V311, &mut bytes);
    bytes
}

/// A transport with a fault: the shard that accepts by it panics.
#[derive(Debug)]
struct Faulty;

impl Recipe for Faulty {
    fn layers(&self) -> Layers {
        panic!("planted")
    }
}

#[test]
fn a_shard_that_panics_ends_the_broker_and_its_clients_hear_of_it() {
    for shards in [1, 4] {
        let listen = vec!["127.0.0.1:0".into(), "127.0.0.1:0".into()];
        let mut server = Server::bind(&Config { listen, shards, ..Config::default() }).unwrap();
        server.listeners[1].transport = Transport::Layered(Arc::new(Faulty));
        let addresses = server.addresses().to_vec();
        let thread = std::thread::spawn(move || server.run());
        let mut clients: Vec<TcpStream> = (0..CLIENTS)
            .map(|at| {
                let mut stream = TcpStream::connect(addresses[0]).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                stream.write_all(&connect_and_subscribe(&format!("client-{at}"))).unwrap();
                stream.read_exact(&mut [0; 4]).unwrap();
                stream
            })
            .collect();
        let _fatal = TcpStream::connect(addresses[1]).unwrap();
        let error = thread.join().unwrap().unwrap_err();
        assert!(matches!(&error, ServeError::Shard { why, .. } if why == "it panicked"), "{error}");
        for client in &mut clients {
            // The end of the stream or a reset: none is left waiting.
            let ended = client.read_to_end(&mut Vec::new());
            let is_mute = ended.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock);
            assert!(!is_mute);
        }
    }
}

#[test]
fn clients_below_layers_move_between_shards_and_get_every_message() {
    for (shards, io) in [(1, IoBackend::Epoll), (3, IoBackend::Epoll), (3, IoBackend::IoUring)] {
        if let Err(error) = Backend::from(io).check() {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            continue;
        }
        let listen = vec!["127.0.0.1:0".into()];
        let config = Config { listen, shards, io, ..Config::default() };
        let mut server = Server::bind(&config).unwrap();
        let masks = Masks::new(Side::Server, 2);
        server.listeners[0].transport = Transport::Layered(Arc::new(masks));
        let (address, stopper) = (server.addresses()[0], server.stopper());
        let thread = std::thread::spawn(move || server.run());
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::open(address)).collect();
        for (at, client) in clients.iter_mut().enumerate() {
            // Both at once: the second is what a shard hands over unread, with the layers' state.
            client.send(&connect_and_subscribe(&format!("client-{at}")));
            client.packet(|packet| assert!(matches!(packet, Packet::ConnAck(_)), "{packet:?}"));
            client.packet(|packet| assert!(matches!(packet, Packet::SubAck(_)), "{packet:?}"));
        }
        for at in 0..CLIENTS {
            clients[at].send(&publish(&[at as u8; 300]));
            for client in &mut clients {
                client.packet(|packet| match packet {
                    Packet::Publish(publish) => assert_eq!(publish.payload, [at as u8; 300]),
                    other => panic!("{other:?}"),
                });
            }
        }
        stopper.stop();
        thread.join().unwrap().unwrap();
    }
}
