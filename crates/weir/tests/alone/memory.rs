//! The memory ceiling: three floods, each of which would take twice the ceiling, end in refusals
//! with reasons; the process stays within a tenth of its ceiling; who is served goes on being
//! served. `WEIR_CEILING_MIB` sets another ceiling than the quick one.

use crate::support::blocking::Blocking;
use crate::support::certificates::{Authority, Pair};
use crate::support::line::Line;
use crate::support::{Broker, WEB_SOCKET_REQUEST};
use crate::web_socket::WebSocket;
use std::any::Any;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weir_wire::packet::{Ack, Disconnect, Publish, Will};
use weir_wire::{Packet, PacketId, Properties, Property, QoS, ReasonCode, Version};

/// A flood stops after so many refusals: then it is sure that more would follow.
const REFUSALS: usize = 500;

struct Client(Blocking);

impl Client {
    /// Nothing where the broker cuts the connection before CONNACK.
    fn connect(
        broker: &Broker,
        client_id: &str,
        expiry_s: u32,
        will: &[u8],
    ) -> Option<(Self, ReasonCode)> {
        let mut client = Blocking::connect(&broker.address, Version::V5).ok()?;
        let expiry = [Property::SessionExpiryInterval(expiry_s)];
        let will = (!will.is_empty()).then_some(Will {
            topic: "will",
            payload: will,
            qos: QoS::AtMostOnce,
            retain: false,
            properties: Properties::EMPTY,
        });
        client.join(client_id, will, if expiry_s > 0 { &expiry } else { &[] }).ok()?;
        let reason = client.connack()?;
        Some((Self(client), reason))
    }

    fn joined(broker: &Broker, client_id: &str, expiry_s: u32) -> Self {
        let (client, reason) = Self::connect(broker, client_id, expiry_s, b"").unwrap();
        assert_eq!(reason, ReasonCode::Success);
        client
    }

    fn send(&mut self, packet: &Packet<'_>) {
        self.0.send(packet).unwrap();
    }

    fn packet<T>(&mut self, look: impl FnOnce(&Packet<'_>) -> T) -> Option<T> {
        self.0.packet(look)
    }

    fn subscribe(&mut self, filter: &str) {
        assert_eq!(self.0.subscribe(filter, QoS::AtLeastOnce), Some(1));
    }

    /// Publishes with QoS 1 and waits for the answer.
    fn publish(&mut self, topic: &str, retain: bool, payload: &[u8]) -> ReasonCode {
        self.send(&Packet::Publish(Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain,
            topic,
            packet_id: Some(PacketId::FIRST),
            properties: Properties::EMPTY,
            payload,
        }));
        let reason = self.packet(|packet| match packet {
            Packet::PubAck(ack) => ack.reason,
            other => panic!("{other:?}"),
        });
        reason.unwrap()
    }

    fn disconnect(mut self) {
        let (reason, properties) = (ReasonCode::Success, Properties::EMPTY);
        self.send(&Packet::Disconnect(Disconnect { reason, properties }));
        assert_eq!(self.packet(|_| ()), None);
    }
}

/// A broker with a ceiling, a pair of clients that it serves, and the most memory it was seen with.
struct Test {
    broker: Broker,
    publisher: Client,
    subscriber: Client,
    ceiling_bytes: u64,
    rss_bytes_max: u64,
}

impl Test {
    fn start() -> Self {
        Self::with("")
    }

    /// With this configuration behind that of the ceiling.
    fn with(configuration: &str) -> Self {
        let mib = std::env::var("WEIR_CEILING_MIB").map_or(48, |text| text.parse().unwrap());
        let ceiling_bytes: u64 = mib * 1024 * 1024;
        let file = tempfile::NamedTempFile::new().unwrap();
        let listen = "listen = [\"127.0.0.1:0\"]\n";
        let text =
            format!("{listen}[process]\nmemory_bytes_max = {ceiling_bytes}\n{configuration}");
        std::fs::write(file.path(), text).unwrap();
        let broker = Broker::try_start(&["--config", file.path().to_str().unwrap()]).unwrap();
        let publisher = Client::joined(&broker, "publisher", 0);
        let mut subscriber = Client::joined(&broker, "subscriber", 0);
        subscriber.subscribe("live/#");
        Self { broker, publisher, subscriber, ceiling_bytes, rss_bytes_max: 0 }
    }

    fn look(&mut self) {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.broker.child.id()));
        let pages: u64 = statm.unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let bytes = pages * rustix::param::page_size() as u64;
        self.rss_bytes_max = self.rss_bytes_max.max(bytes);
    }

    /// Sessions whose queues, each bounded to 16 MiB by itself, would take twice the ceiling.
    fn queues(&self) -> usize {
        2 * self.ceiling_bytes as usize / (16 * 1024 * 1024)
    }

    /// Publishes to the topics `queue/0` and so on until enough was refused. Returns how many
    /// messages were taken.
    fn fill(&mut self, queues: usize) -> usize {
        let payload = vec![b'q'; 4_000];
        // Who publishes on another thread than the session's cannot be refused; some are on each.
        let mut floods: Vec<Client> =
            (0..8).map(|at| Client::joined(&self.broker, &format!("flood-{at}"), 0)).collect();
        let most = (2 * self.ceiling_bytes) as usize / payload.len();
        let (mut taken, mut refused) = (0, 0);
        for at in 0..most {
            let flood = &mut floods[at / queues % 8];
            match flood.publish(&format!("queue/{}", at % queues), false, &payload) {
                ReasonCode::Success => taken += 1,
                reason => {
                    assert_eq!(reason, ReasonCode::QuotaExceeded);
                    refused += 1;
                }
            }
            if at % 100 == 0 {
                self.look();
            }
            if refused >= REFUSALS {
                break;
            }
        }
        assert!(refused >= REFUSALS, "{refused} refused");
        taken
    }

    /// Once the flood has given its memory back, new clients are let in again.
    fn recovers(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            match Client::connect(&self.broker, "newcomer", 0, b"") {
                Some((_, ReasonCode::Success)) => return,
                // The broker looks at its memory at intervals.
                _ => std::thread::yield_now(),
            }
        }
        self.look();
        panic!("nobody is let in although the flood is over; {} KiB", self.rss_bytes_max / 1024);
    }

    /// The pair still exchanges messages, and the ceiling held.
    fn finish(&mut self, what: &str, taken: usize) {
        for round in 0..100 {
            let text = format!("{round}");
            assert_eq!(
                self.publisher.publish("live/a", false, text.as_bytes()),
                ReasonCode::Success
            );
            let got = self.subscriber.packet(|packet| match packet {
                Packet::Publish(publish) => (publish.packet_id.unwrap(), publish.payload.to_vec()),
                other => panic!("{other:?}"),
            });
            let (packet_id, payload) = got.unwrap();
            assert_eq!(payload, text.as_bytes());
            self.subscriber.send(&Packet::PubAck(Ack::success(packet_id)));
        }
        self.look();
        let percent = self.rss_bytes_max * 100 / self.ceiling_bytes;
        println!(
            "{what}: {taken} taken, then refused; at most {} of {} KiB ({percent} %)",
            self.rss_bytes_max / 1024,
            self.ceiling_bytes / 1024
        );
        assert!(percent <= 110, "{what}: {percent} % of the ceiling");
        assert!(percent >= 75, "{what}: refused long before the ceiling: {percent} %");
    }
}

#[test]
fn a_connect_storm_ends_in_refusals() {
    let _alone = crate::alone();
    let mut test = Test::start();
    raise_file_limit();
    let will = vec![b'w'; 60_000];
    let most = (2 * test.ceiling_bytes) as usize / will.len();
    let (mut clients, mut refused) = (Vec::new(), 0);
    for at in 0..most {
        match Client::connect(&test.broker, &format!("storm-{at}"), 0, &will) {
            Some((client, ReasonCode::Success)) => clients.push(client),
            Some((_, reason)) => {
                assert_eq!(reason, ReasonCode::QuotaExceeded);
                refused += 1;
            }
            None => refused += 1,
        }
        test.look();
        if refused >= REFUSALS {
            break;
        }
    }
    assert!(refused >= REFUSALS, "{refused} refused");
    test.finish("connect storm, wills of 60 kB", clients.len());
    drop(clients);
    test.recovers();
}

#[test]
fn a_flood_of_retained_messages_ends_in_refusals() {
    let _alone = crate::alone();
    let mut test = Test::start();
    let mut flood = Client::joined(&test.broker, "flood", 0);
    let payload = vec![b'r'; 4_000];
    let most = (2 * test.ceiling_bytes) as usize / payload.len();
    let (mut taken, mut refused) = (0, 0);
    for at in 0..most {
        match flood.publish(&format!("flood/{at}"), true, &payload) {
            ReasonCode::QuotaExceeded => refused += 1,
            reason => {
                assert!(!reason.is_error(), "{reason:?}");
                taken += 1;
            }
        }
        if at % 100 == 0 {
            test.look();
        }
        if refused >= REFUSALS {
            break;
        }
    }
    assert!(refused >= REFUSALS, "{refused} refused");
    test.finish("retained messages of 4 kB", taken);
    for at in 0..taken {
        assert!(!flood.publish(&format!("flood/{at}"), true, b"").is_error());
    }
    test.recovers();
}

#[test]
fn queues_that_build_up_end_in_refusals() {
    let _alone = crate::alone();
    let mut test = Test::start();
    let sessions = test.queues();
    for at in 0..sessions {
        let mut absent = Client::joined(&test.broker, &format!("absent-{at}"), 1000);
        absent.subscribe(&format!("queue/{at}"));
        absent.disconnect();
    }
    let taken = test.fill(sessions);
    test.finish("queues of absent sessions, 4 kB a message", taken);
    for at in 0..sessions {
        // A clean start of a session that is known is let in, and its queue goes.
        drop(Client::connect(&test.broker, &format!("absent-{at}"), 0, b""));
    }
    test.recovers();
}

/// What stands between MQTT and the sockets of a listener.
#[derive(Clone, Copy, Debug)]
enum Over {
    Tls(&'static str),
    WebSocket,
}

/// An address for a listener of its own, and what a configuration says of it.
struct Listener {
    over: Over,
    address: SocketAddr,
    authority: Authority,
    configuration: String,
    _folder: tempfile::TempDir,
}

impl Listener {
    fn new(over: Over) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("a", folder.path());
        // Where it listens is told of the first address only.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let head = format!("[[listener]]\naddress = \"{address}\"\n");
        let configuration = match over {
            Over::WebSocket => format!("{head}websocket = true\n"),
            Over::Tls(record_layer) => {
                let Pair { certificate, key, .. } = authority.valid("broker");
                format!(
                    "{head}[listener.tls]\ncertificate = {certificate:?}\nkey = {key:?}\n\
                     record_layer = {record_layer:?}\n"
                )
            }
        };
        Self { over, address, authority, configuration, _folder: folder }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// A client of 3.1.1 that subscribes at QoS 1, and does not read what comes.
    fn slow(&self, client_id: &str, topic: &str) -> Box<dyn Any> {
        let stream = self.connect();
        match self.over {
            Over::WebSocket => Box::new(subscribed(WebSocket::open(stream), client_id, topic)),
            Over::Tls(_) => Box::new(subscribed(self.authority.connect(stream), client_id, topic)),
        }
    }
}

fn subscribed<S: Read + Write>(stream: S, client_id: &str, topic: &str) -> Line<S> {
    let mut line = Line::join(stream, b"", client_id);
    let head = [0x82, 5 + topic.len() as u8, 0, 1, 0, topic.len() as u8];
    line.says(&[&head[..], topic.as_bytes(), &[1]].concat());
    assert_eq!(line.reads(5).unwrap(), [0x90, 3, 0, 1, 1]);
    line
}

/// Layers hold a part of what a client does not read: it counts, and the ceiling holds.
#[test]
fn slow_subscribers_over_every_layer_end_in_refusals() {
    let _alone = crate::alone();
    for over in [Over::Tls("rustls"), Over::Tls("compact"), Over::WebSocket] {
        let listener = Listener::new(over);
        let mut test = Test::with(&listener.configuration);
        let count = test.queues();
        let slow: Vec<_> =
            (0..count).map(|at| listener.slow(&format!("s{at}"), &format!("queue/{at}"))).collect();
        let taken = test.fill(count);
        test.finish(&format!("slow subscribers over {over:?}"), taken);
        drop(slow);
        test.recovers();
    }
}

/// Connections that begin a handshake and do not end it have no CONNECT that could be refused.
#[test]
fn handshakes_that_hold_memory_end_before_the_ceiling() {
    let _alone = crate::alone();
    raise_file_limit();
    // A ClientHello of 60,000 bytes in records of 15,000, without its end.
    let mut hello = vec![1, 0, 0xEA, 0x60];
    hello.resize(59_999, 0);
    let hello: Vec<u8> = hello
        .chunks(15_000)
        .flat_map(|part| [&[22, 3, 1, (part.len() >> 8) as u8, part.len() as u8], part].concat())
        .collect();
    for over in [Over::Tls("rustls"), Over::Tls("compact"), Over::WebSocket] {
        let listener = Listener::new(over);
        let limits = "[limits]\nconnect_timeout_s = 600\n";
        let mut test = Test::with(&format!("{limits}{}", listener.configuration));
        let start = match over {
            Over::Tls(_) => hello.clone(),
            Over::WebSocket => WEB_SOCKET_REQUEST.as_bytes()[..60].repeat(130),
        };
        let most = (3 * test.ceiling_bytes / 2) as usize / start.len();
        let mut held = Vec::new();
        for _ in 0..most {
            let mut stream = listener.connect();
            // It may have been cut already.
            let _ = stream.write_all(&start);
            held.push(stream);
            test.look();
        }
        test.finish(&format!("half handshakes over {over:?}"), most);
        drop(held);
        test.recovers();
    }
}

fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}
