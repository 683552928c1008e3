//! The memory ceiling: three floods, each of which would take twice the ceiling, end in refusals
//! with reasons; the process stays within a tenth of its ceiling; who is served goes on being
//! served. `WEIR_CEILING_MIB` sets another ceiling than the quick one.

use crate::support::Broker;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use weir_wire::packet::{
    Ack, Connect, Disconnect, Publish, SubscribeBuf, SubscriptionOptions, Will,
};
use weir_wire::{
    Frame, Packet, PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode,
    Version,
};

/// A flood stops after so many refusals: then it is sure that more would follow.
const REFUSALS: usize = 500;

struct Client {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl Client {
    /// Nothing where the broker cuts the connection before CONNACK.
    fn connect(
        broker: &Broker,
        client_id: &str,
        expiry_s: u32,
        will: &[u8],
    ) -> Option<(Self, ReasonCode)> {
        let stream = TcpStream::connect(&broker.address).ok()?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut client = Self { stream, bytes: Vec::new() };
        let mut properties = PropertiesBuf::new();
        if expiry_s > 0 {
            properties.push(Property::SessionExpiryInterval(expiry_s));
        }
        let will = (!will.is_empty()).then_some(Will {
            topic: "will",
            payload: will,
            qos: QoS::AtMostOnce,
            retain: false,
            properties: Properties::EMPTY,
        });
        let mut bytes = Vec::new();
        Connect {
            version: Version::V5,
            clean_start: true,
            keep_alive_s: 0,
            client_id,
            will,
            user_name: None,
            password: None,
            properties: properties.as_properties(),
        }
        .encode(&mut bytes);
        client.stream.write_all(&bytes).ok()?;
        let reason = client.packet(|packet| match packet {
            Packet::ConnAck(connack) => connack.reason,
            other => panic!("{other:?}"),
        })?;
        Some((client, reason))
    }

    fn joined(broker: &Broker, client_id: &str, expiry_s: u32) -> Self {
        let (client, reason) = Self::connect(broker, client_id, expiry_s, b"").unwrap();
        assert_eq!(reason, ReasonCode::Success);
        client
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn packet<T>(&mut self, look: impl Fn(&Packet<'_>) -> T) -> Option<T> {
        loop {
            if let Some(frame) = Frame::check(&self.bytes, u32::MAX).unwrap() {
                let found = look(&Packet::decode(Version::V5, frame).unwrap());
                let bytes = frame.bytes;
                self.bytes.drain(..bytes);
                return Some(found);
            }
            let mut buffer = [0; 65_536];
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
            }
        }
    }

    fn subscribe(&mut self, filter: &str) {
        let mut filters = SubscribeBuf::new();
        filters.push(filter, SubscriptionOptions { qos: QoS::AtLeastOnce, ..Default::default() });
        let mut bytes = Vec::new();
        filters
            .subscribe(Version::V5, PacketId::FIRST, Properties::EMPTY)
            .encode(Version::V5, &mut bytes);
        self.send(&bytes);
        let codes = self.packet(|packet| match packet {
            Packet::SubAck(suback) => suback.codes.to_vec(),
            other => panic!("{other:?}"),
        });
        assert_eq!(codes, Some(vec![1]));
    }

    /// Publishes with QoS 1 and waits for the answer.
    fn publish(&mut self, topic: &str, retain: bool, payload: &[u8]) -> ReasonCode {
        let mut bytes = Vec::new();
        Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain,
            topic,
            packet_id: Some(PacketId::FIRST),
            properties: Properties::EMPTY,
            payload,
        }
        .encode(Version::V5, &mut bytes);
        self.send(&bytes);
        let reason = self.packet(|packet| match packet {
            Packet::PubAck(ack) => ack.reason,
            other => panic!("{other:?}"),
        });
        reason.unwrap()
    }

    fn disconnect(mut self) {
        let mut bytes = Vec::new();
        Disconnect { reason: ReasonCode::Success, properties: Properties::EMPTY }
            .encode(Version::V5, &mut bytes);
        self.send(&bytes);
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
        let mib = std::env::var("WEIR_CEILING_MIB").map_or(48, |text| text.parse().unwrap());
        let ceiling_bytes: u64 = mib * 1024 * 1024;
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!("[process]\nmemory_bytes_max = {ceiling_bytes}\n");
        std::fs::write(file.path(), text).unwrap();
        let broker = Broker::start_with(&["--config", file.path().to_str().unwrap()]);
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
            let mut ack = Vec::new();
            Ack::success(packet_id).encode(PacketKind::PubAck, Version::V5, &mut ack);
            self.subscriber.send(&ack);
        }
        self.look();
        let percent = self.rss_bytes_max * 100 / self.ceiling_bytes;
        println!(
            "{what}: {taken} taken, then refused; at most {} of {} KiB ({percent} %)",
            self.rss_bytes_max / 1024,
            self.ceiling_bytes / 1024
        );
        assert!(percent <= 110, "{what}: {percent} % of the ceiling");
        assert!(percent >= 80, "{what}: refused long before the ceiling: {percent} %");
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
    let payload = vec![b'q'; 4_000];
    // Each queue is bounded to 16 MiB by itself.
    let sessions = 2 * test.ceiling_bytes as usize / (16 * 1024 * 1024);
    for at in 0..sessions {
        let mut absent = Client::joined(&test.broker, &format!("absent-{at}"), 1000);
        absent.subscribe(&format!("queue/{at}"));
        absent.disconnect();
    }
    // Who publishes on another thread than the session's cannot be refused; some are on each.
    let mut floods: Vec<Client> =
        (0..8).map(|at| Client::joined(&test.broker, &format!("flood-{at}"), 0)).collect();
    let most = (2 * test.ceiling_bytes) as usize / payload.len();
    let (mut taken, mut refused) = (0, 0);
    for at in 0..most {
        let flood = &mut floods[at / sessions % 8];
        match flood.publish(&format!("queue/{}", at % sessions), false, &payload) {
            ReasonCode::Success => taken += 1,
            reason => {
                assert_eq!(reason, ReasonCode::QuotaExceeded);
                refused += 1;
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
    test.finish("queues of absent sessions, 4 kB a message", taken);
    for at in 0..sessions {
        // A clean start of a session that is known is let in, and its queue goes.
        drop(Client::connect(&test.broker, &format!("absent-{at}"), 0, b""));
    }
    test.recovers();
}

fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}
