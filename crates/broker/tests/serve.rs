//! A whole broker in a thread, seen through sockets: what only the shell decides.

#![allow(clippy::unwrap_used, clippy::allow_attributes, clippy::allow_attributes_without_reason)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_broker::{AuthConfig, Config, ProcessLimits, Server, Stopper, Verifier};
use weir_wire::packet::{Auth, Connect};
use weir_wire::{Frame, Packet, PropertiesBuf, Property, ReasonCode, Version};

struct Broker {
    address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl Broker {
    fn start(config: Config) -> Self {
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

    fn connect(&self, client_id: &str, properties: &[Property<'_>]) -> Client {
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

fn connect(client_id: &str, properties: &[Property<'_>]) -> Vec<u8> {
    let mut buffer = PropertiesBuf::new();
    properties.iter().for_each(|&property| buffer.push(property));
    let mut bytes = Vec::new();
    Connect {
        version: Version::V5,
        clean_start: true,
        keep_alive_s: 0,
        client_id,
        will: None,
        user_name: None,
        password: None,
        properties: buffer.as_properties(),
    }
    .encode(&mut bytes);
    bytes
}

struct Client {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Client {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream, bytes: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next packet, given to `look`; nothing at the end of the stream.
    fn packet<T>(&mut self, look: impl Fn(&Packet<'_>) -> T) -> Option<T> {
        loop {
            if let Some(frame) = Frame::check(&self.bytes, u32::MAX).unwrap() {
                let found = look(&Packet::decode(Version::V5, frame).unwrap());
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

    fn connack(&mut self) -> Option<ReasonCode> {
        self.packet(|packet| match packet {
            Packet::ConnAck(connack) => connack.reason,
            other => panic!("{other:?}"),
        })
    }

    /// Reason and data of an AUTH or CONNACK.
    fn auth(&mut self) -> (ReasonCode, Vec<u8>) {
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

    fn ended(&mut self) -> bool {
        self.packet(|_| ()).is_none()
    }
}

#[test]
fn the_connection_over_the_bound_is_told_and_one_that_ends_makes_room() {
    let process = ProcessLimits { connections_max: 1, ..ProcessLimits::default() };
    let broker = Broker::start(Config { process, ..Config::default() });
    let mut first = broker.connect("a", &[]);
    assert_eq!(first.connack(), Some(ReasonCode::Success));
    let mut second = broker.connect("b", &[]);
    assert_eq!(second.connack(), Some(ReasonCode::QuotaExceeded));
    assert!(second.ended());
    // DISCONNECT, answered by the end of the stream: the place is free from then on.
    first.send(&[0xE0, 0]);
    assert!(first.ended());
    assert_eq!(broker.connect("c", &[]).connack(), Some(ReasonCode::Success));
}

#[test]
fn connects_over_the_rate_are_told() {
    let process = ProcessLimits { connects_per_second_max: 3, ..ProcessLimits::default() };
    let broker = Broker::start(Config { process, ..Config::default() });
    let mut clients: Vec<_> = (0..20).map(|at| broker.connect(&format!("c{at}"), &[])).collect();
    let answers: Vec<_> = clients.iter_mut().map(Client::connack).collect();
    assert_eq!(answers[..3], [Some(ReasonCode::Success); 3]);
    assert!(answers.contains(&Some(ReasonCode::ConnectionRateExceeded)), "{answers:?}");
}

const METHOD: Property<'static> = Property::AuthenticationMethod("SCRAM-SHA-256");

fn with_user() -> Broker {
    let verifier = Verifier::generate("pencil").unwrap().to_string();
    let users = [("ann".to_owned(), verifier)].into();
    let auth = AuthConfig { allow_anonymous: false, users };
    Broker::start(Config { auth, ..Config::default() })
}

fn auth_packet(reason: ReasonCode, data: &[u8]) -> Vec<u8> {
    let mut properties = PropertiesBuf::new();
    properties.push(METHOD);
    properties.push(Property::AuthenticationData(data));
    let mut bytes = Vec::new();
    Auth { reason, properties: properties.as_properties() }.encode(Version::V5, &mut bytes);
    bytes
}

#[test]
fn scram_lets_the_right_password_in_and_again_on_the_live_connection() {
    let broker = with_user();
    let first = Property::AuthenticationData(b"n,,n=ann,r=nonce");
    let mut client = broker.connect("c", &[METHOD, first]);
    let (reason, challenge) = client.auth();
    assert_eq!(reason, ReasonCode::ContinueAuthentication);
    let last = weir_broker::scram_client_final("ann", "pencil", "nonce", &challenge).unwrap();
    client.send(&auth_packet(ReasonCode::ContinueAuthentication, last.as_bytes()));
    let (reason, proof) = client.auth();
    assert_eq!(reason, ReasonCode::Success);
    assert!(proof.starts_with(b"v="));

    client.send(&auth_packet(ReasonCode::ReAuthenticate, b"n,,n=ann,r=other"));
    let (_, challenge) = client.auth();
    let last = weir_broker::scram_client_final("ann", "pencil", "other", &challenge).unwrap();
    client.send(&auth_packet(ReasonCode::ContinueAuthentication, last.as_bytes()));
    assert_eq!(client.auth().0, ReasonCode::Success);
}

#[test]
fn a_wrong_password_no_method_and_another_method_are_refused() {
    let broker = with_user();
    assert_eq!(broker.connect("c", &[]).connack(), Some(ReasonCode::NotAuthorized));
    let other = Property::AuthenticationMethod("SCRAM-SHA-1");
    let refused = broker.connect("c", &[other]).connack();
    assert_eq!(refused, Some(ReasonCode::BadAuthenticationMethod));
    let first = Property::AuthenticationData(b"n,,n=ann,r=nonce");
    let mut client = broker.connect("c", &[METHOD, first]);
    let (_, challenge) = client.auth();
    let last = weir_broker::scram_client_final("ann", "pen", "nonce", &challenge).unwrap();
    client.send(&auth_packet(ReasonCode::ContinueAuthentication, last.as_bytes()));
    assert_eq!(client.connack(), Some(ReasonCode::NotAuthorized));
    assert!(client.ended());
}
