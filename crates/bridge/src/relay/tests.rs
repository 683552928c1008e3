//! The relay between two brokers that a seed drives: bytes come in pieces, connections end at any
//! point, messages are refused for the time being. What a broker has acknowledged to its publisher
//! arrives at the other.

use super::*;
use crate::topics::{Direction, Topic};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use weir_chance::Chance;
use weir_wire::packet::{Ack, ConnAck, Connect, SubAck};
use weir_wire::{Frame, Packet, PacketId, PacketKind, Properties, Property, Version};

/// A broker with one session, of which nothing is lost but connections.
struct Broker {
    /// Of the client's CONNECT.
    version: Version,
    receive_maximum: u16,
    has_session: bool,
    is_connected: bool,
    window: usize,
    /// What the client has subscribed with.
    granted: QoS,
    /// Numbers of messages that wait.
    queue: VecDeque<u64>,
    in_flight: VecDeque<Sent>,
    next: PacketId,
    /// What the client has published and was not answered yet.
    owed: VecDeque<(PacketId, ReasonCode)>,
    /// What the client has published, in order.
    had: Vec<u64>,
    /// Bytes on their way from the client, and to it.
    input: Vec<u8>,
    output: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Sent {
    packet_id: PacketId,
    number: u64,
}

impl Broker {
    fn new(receive_maximum: u16) -> Self {
        Self {
            version: Version::V5,
            receive_maximum,
            has_session: false,
            is_connected: false,
            window: 0,
            granted: QoS::AtMostOnce,
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            next: PacketId::FIRST,
            owed: VecDeque::new(),
            had: Vec::new(),
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Somebody publishes here, and is told that it is safe.
    fn publish(&mut self, number: u64) {
        self.queue.push_back(number);
        self.pump();
    }

    fn cut(&mut self) {
        self.is_connected = false;
        self.owed.clear();
        self.input.clear();
        self.output.clear();
    }

    fn send(&mut self, sent: Sent, dup: bool) {
        let Sent { packet_id, number } = sent;
        Publish {
            dup,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: "t",
            packet_id: Some(packet_id),
            properties: Properties::EMPTY,
            payload: &number.to_be_bytes(),
        }
        .encode(self.version, &mut self.output);
    }

    fn pump(&mut self) {
        while self.is_connected && self.in_flight.len() < self.window {
            let Some(number) = self.queue.pop_front() else { return };
            let sent = Sent { packet_id: self.next, number };
            self.next = self.next.next();
            self.in_flight.push_back(sent);
            self.send(sent, false);
        }
    }

    /// Reads what has come, all of it in whole packets.
    fn read(&mut self, chance: &mut Chance, refuses: bool) {
        let bytes = std::mem::take(&mut self.input);
        let mut at = 0;
        while let Some(frame) = Frame::check(&bytes[at..], u32::MAX >> 4).unwrap() {
            at += frame.bytes;
            let packet = Packet::decode(self.version, frame).unwrap();
            self.handle(&packet, refuses && chance.below(20) == 0);
        }
        self.input = bytes[at..].to_vec();
        for _ in 0..chance.below(self.owed.len() + 1) {
            let Some((packet_id, reason)) = self.owed.pop_front() else { break };
            let properties = Properties::EMPTY;
            Ack { packet_id, reason, properties }.encode(
                PacketKind::PubAck,
                self.version,
                &mut self.output,
            );
        }
        self.pump();
    }

    fn handle(&mut self, packet: &Packet<'_>, refuses: bool) {
        match packet {
            Packet::Connect(connect) => self.connect(connect),
            Packet::Subscribe(subscribe) => {
                self.granted = subscribe.filters().map(|(_, options)| options.qos).max().unwrap();
                let codes = vec![self.granted as u8; subscribe.filters().count()];
                let (packet_id, properties) = (subscribe.packet_id, Properties::EMPTY);
                SubAck { packet_id, properties, codes: &codes }
                    .encode(self.version, &mut self.output);
            }
            Packet::Publish(publish) => self.published(publish, refuses),
            Packet::PubAck(ack) => self.settled(ack.packet_id),
            Packet::Disconnect(_) => self.is_connected = false,
            packet => panic!("{packet:?}"),
        }
    }

    fn connect(&mut self, connect: &Connect<'_>) {
        let maximum = |property| match property {
            Property::ReceiveMaximum(maximum) => Some(maximum),
            _ => None,
        };
        self.version = connect.version;
        let unbounded = if connect.version.is_v5() { u16::MAX } else { 20 };
        self.window = connect.properties.find(maximum).unwrap_or(unbounded).into();
        let mut properties = PropertiesBuf::new();
        properties.push(Property::ReceiveMaximum(self.receive_maximum));
        let session_present = std::mem::replace(&mut self.has_session, true);
        self.is_connected = true;
        ConnAck {
            session_present,
            reason: ReasonCode::Success,
            properties: properties.as_properties(),
        }
        .encode(self.version, &mut self.output);
        for at in 0..self.in_flight.len() {
            self.send(self.in_flight[at], true);
        }
    }

    fn published(&mut self, publish: &Publish<'_>, refuses: bool) {
        let Some(packet_id) = publish.packet_id else { panic!("QoS 0 was not asked for") };
        let is_refused = refuses && self.version.is_v5();
        let reason = if is_refused { ReasonCode::QuotaExceeded } else { ReasonCode::Success };
        self.owed.push_back((packet_id, reason));
        let open = self.owed.len();
        let is_within = !self.version.is_v5() || open <= self.receive_maximum.into();
        assert!(is_within, "beyond the Receive Maximum: {open}");
        if let (false, Ok(number)) = (is_refused, publish.payload.try_into()) {
            self.had.push(u64::from_be_bytes(number));
        }
    }

    fn settled(&mut self, packet_id: PacketId) {
        let at = self.in_flight.iter().position(|sent| sent.packet_id == packet_id);
        self.in_flight.remove(at.expect("what is acknowledged was sent"));
    }
}

/// Both brokers, as the relay's way out.
struct World {
    local: Broker,
    remote: Broker,
}

impl World {
    fn broker(&mut self, end: End) -> &mut Broker {
        match end {
            End::Local => &mut self.local,
            End::Remote => &mut self.remote,
        }
    }
}

impl Port for World {
    fn write(&mut self, end: End, bytes: &[u8]) {
        self.broker(end).input.extend_from_slice(bytes);
    }

    fn pending(&self, _end: End) -> usize {
        0
    }
}

fn settings(dialect: Dialect) -> Settings {
    let topic = |direction| Topic {
        pattern: "t".into(),
        direction,
        qos: QoS::ExactlyOnce,
        local_prefix: String::new(),
        remote_prefix: String::new(),
    };
    Settings {
        mark: 0,
        name: "b".into(),
        remotes: Vec::new(),
        is_round_robin: false,
        local_client_id: "$weir/bridge/b".into(),
        client_id: "b".into(),
        user_name: None,
        password: None,
        dialects: vec![dialect],
        clean_start: false,
        local_clean_start: false,
        keep_alive_s: 0,
        in_flight_max: 9,
        start: Start::Automatic,
        retry: Duration::ZERO..=Duration::ZERO,
        state: crate::StateTopic {
            topic: "$SYS/broker/connection/b/state".into(),
            is_local: true,
            is_remote: true,
        },
        retains: true,
        topics: vec![topic(Direction::Both)],
    }
}

/// A relay, its two brokers, and what happens to them.
struct Sim {
    relay: Relay,
    world: World,
    chance: Chance,
    /// Bytes that the relay has not consumed, by end.
    kept: [Vec<u8>; 2],
    is_prepared: bool,
    has_faults: bool,
    /// Brokers refuse some messages for the time being.
    refuses: bool,
    published: [u64; 2],
}

impl Sim {
    fn new(seed: u64, dialect: Dialect) -> Self {
        let mut chance = Chance::new(seed);
        let (local, remote) = (2 + chance.below(20) as u16, 2 + chance.below(20) as u16);
        let world = World { local: Broker::new(local), remote: Broker::new(remote) };
        let relay = Relay::new(Arc::new(settings(dialect)), Arc::default(), Stale::default());
        let kept = [Vec::new(), Vec::new()];
        let (is_prepared, has_faults, published) = (false, true, [0; 2]);
        let refuses = chance.below(2) == 0;
        let mut sim =
            Self { relay, world, chance, kept, is_prepared, has_faults, refuses, published };
        sim.connect();
        sim
    }

    fn connect(&mut self) {
        let Self { relay, world, .. } = self;
        if self.is_prepared {
            relay.open_remote(0, world);
        } else {
            relay.open_local(Errand::Prepare, 0, world);
        }
    }

    fn drop_both(&mut self) {
        for end in [End::Local, End::Remote] {
            self.relay.forget(end);
            self.world.broker(end).cut();
        }
        self.kept = [Vec::new(), Vec::new()];
        while self.relay.take_news().is_some() {}
    }

    /// As the owner of a relay does it.
    fn react(&mut self) {
        while let Some(news) = self.relay.take_news() {
            let Self { relay, world, .. } = self;
            match news {
                News::Live(End::Remote) => relay.open_local(Errand::Relay, 0, world),
                News::Ready if !self.is_prepared => {
                    self.is_prepared = true;
                    self.drop_both();
                    self.connect();
                }
                News::Live(End::Local) | News::Ready | News::Complaint(_) => {}
                News::Broken(_, Broken::NotNow(..)) | News::Full => {
                    self.drop_both();
                    self.connect();
                }
                news => panic!("{news:?}"),
            }
        }
    }

    /// Some bytes of a broker's output reach the relay.
    fn deliver(&mut self, end: End) {
        if !self.relay.takes(end) {
            return;
        }
        let output = &mut self.world.broker(end).output;
        let all = self.chance.below(4) == 0 || !self.has_faults;
        let count = if all { output.len() } else { self.chance.below(output.len() + 1) };
        let mut bytes = std::mem::take(&mut self.kept[end as usize]);
        bytes.extend(output.drain(..count));
        let consumed = self.relay.received(end, &bytes, 0, &mut self.world);
        self.kept[end as usize] = bytes[consumed..].to_vec();
        self.react();
    }

    fn publish(&mut self, end: End) {
        let number = &mut self.published[end as usize];
        // Before there is a session, nothing is owed to it.
        if self.world.broker(end).granted > QoS::AtMostOnce {
            let sent = *number;
            *number += 1;
            self.world.broker(end).publish(sent);
        }
    }

    fn step(&mut self) {
        let end = if self.chance.below(2) == 0 { End::Local } else { End::Remote };
        match self.chance.below(100) {
            0..2 if self.has_faults => {
                self.drop_both();
                self.connect();
            }
            2..30 if self.has_faults => self.publish(end),
            _ => {
                self.deliver(end);
                let Self { world, chance, refuses, has_faults, .. } = self;
                world.broker(end).read(chance, *refuses && *has_faults);
            }
        }
    }

    /// Runs until nothing moves.
    fn settle(&mut self) {
        self.has_faults = false;
        for _ in 0..100_000 {
            self.step();
            let is_done = |broker: &Broker| broker.queue.is_empty() && broker.in_flight.is_empty();
            if is_done(&self.world.local) && is_done(&self.world.remote) {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    /// What was published at one end arrives at the other, in order if none was refused meanwhile.
    fn check(&self) {
        let ends = [(End::Local, &self.world.remote), (End::Remote, &self.world.local)];
        for (from, to) in ends {
            let (mut seen, mut firsts) = (BTreeSet::new(), Vec::new());
            to.had.iter().for_each(|number| {
                if seen.insert(*number) {
                    firsts.push(*number);
                }
            });
            if self.refuses {
                firsts.sort_unstable();
            }
            let all: Vec<u64> = (0..self.published[from as usize]).collect();
            assert_eq!(firsts, all, "from {from:?}");
        }
    }
}

#[test]
fn whatever_happens_to_connections_nothing_acknowledged_is_lost() {
    for seed in 0..300 {
        for dialect in [Dialect::V5, Dialect::V311] {
            let run = std::panic::catch_unwind(|| {
                let mut sim = Sim::new(seed, dialect);
                for _ in 0..1_500 {
                    sim.step();
                }
                sim.settle();
                sim.check();
                assert!(sim.published.iter().all(|count| *count > 50), "{:?}", sim.published);
            });
            assert!(run.is_ok(), "seed {seed}, {dialect}");
        }
    }
}

/// What a client writes to the remote broker.
#[derive(Default)]
struct Wire {
    bytes: Vec<u8>,
    pending: usize,
}

impl Port for Wire {
    fn write(&mut self, _end: End, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn pending(&self, _end: End) -> usize {
        self.pending
    }
}

#[test]
fn a_bridge_says_so_in_the_number_of_the_protocol() {
    for (dialect, level) in [(Dialect::V5, 5), (Dialect::Bridge311, 0x84), (Dialect::V311, 4)] {
        for client_id in ["b".to_owned(), "b".repeat(200)] {
            let settings = Settings { client_id, ..settings(dialect) };
            let mut relay = Relay::new(Arc::new(settings), Arc::default(), Stale::default());
            let mut wire = Wire::default();
            relay.open_remote(0, &mut wire);
            let name = wire.bytes.windows(4).position(|bytes| bytes == b"MQTT").unwrap();
            assert_eq!(wire.bytes[name + 4], level);
        }
    }
}

#[test]
fn a_broker_that_knows_no_5_is_not_taken_for_one_that_breaks_it() {
    for answer in [CONNACK_BEFORE_5, &[0x20, 3, 0, 0x84, 0]] {
        let settings = Arc::new(settings(Dialect::V5));
        let mut relay = Relay::new(settings, Arc::default(), Stale::default());
        let mut wire = Wire::default();
        relay.open_remote(0, &mut wire);
        relay.received(End::Remote, answer, 0, &mut wire);
        assert!(matches!(relay.take_news(), Some(News::NotSpoken(Dialect::V5))));
    }
}

/// What is taken back first, and what is asked for then; the answers may come in parts.
#[test]
fn what_other_settings_had_subscribed_to_is_taken_back() {
    let stale = Stale { local: vec!["old/#".into(), "t".into()], remote: Vec::new() };
    let answers: [(&[u8], bool); 3] =
        [(&[0xB0, 4, 0, 1, 0, 0], false), (&[0x90, 4, 0, 2, 0, 1], true), (&[], true)];
    for is_present in [true, false] {
        let mut stale = Stale { local: stale.local.clone(), remote: Vec::new() };
        stale.take_out(&settings(Dialect::V5).topics);
        assert_eq!(stale.local, ["old/#"]);
        let settings = Arc::new(settings(Dialect::V5));
        let mut relay = Relay::new(settings, Arc::default(), stale);
        let mut wire = Wire::default();
        relay.open_local(Errand::Prepare, 0, &mut wire);
        wire.bytes.clear();
        relay.received(End::Local, &[0x20, 3, is_present.into(), 0, 0], 0, &mut wire);
        let has_taken_back = wire.bytes.windows(5).any(|bytes| bytes == b"old/#");
        assert_eq!(has_taken_back, is_present, "a session that is not there has none");
        if is_present {
            for (answer, is_ready) in answers {
                relay.received(End::Local, answer, 0, &mut wire);
                assert_eq!(relay.is_ready, is_ready);
            }
        }
        assert!(relay.into_stale().local.is_empty());
    }
}

/// A relay whose clients are both there, and what they wrote last.
fn joined() -> (Relay, Arc<Shared>, Wire) {
    let (shared, mut wire) = (Arc::<Shared>::default(), Wire::default());
    let settings = Arc::new(settings(Dialect::V5));
    let mut relay = Relay::new(settings, Arc::clone(&shared), Stale::default());
    relay.open_remote(0, &mut wire);
    // With a Maximum Packet Size of 100.
    let connack = [0x20, 8, 0, 0, 5, 0x27, 0, 0, 0, 100];
    relay.received(End::Remote, &connack, 0, &mut wire);
    relay.open_local(Errand::Relay, 0, &mut wire);
    relay.received(End::Local, &[0x20, 3, 0, 0, 0], 0, &mut wire);
    let suback = [0x90, 4, 0, 1, 0, 1];
    relay.received(End::Remote, &suback, 0, &mut wire);
    relay.received(End::Local, &suback, 0, &mut wire);
    assert!(relay.is_ready);
    wire.bytes.clear();
    (relay, shared, wire)
}

fn publish(topic: &str, qos: QoS, property: Option<Property<'_>>, bytes: usize) -> Vec<u8> {
    let (mut packet, mut properties) = (Vec::new(), PropertiesBuf::new());
    property.iter().for_each(|property| properties.push(*property));
    let packet_id = (qos > QoS::AtMostOnce).then(|| PacketId::new(7).unwrap());
    let (properties, payload) = (properties.as_properties(), &*vec![b'x'; bytes]);
    Publish { dup: false, qos, retain: false, topic, packet_id, properties, payload }
        .encode(Version::V5, &mut packet);
    packet
}

#[test]
fn what_cannot_be_relayed_is_dropped_counted_and_acknowledged() {
    let hops = |count| Some(Property::UserProperty(crate::HOPS, count));
    for (topic, property, bytes, count) in [
        ("u", None, 1, Count::DroppedUnmatched),
        ("t", hops("8"), 1, Count::DroppedHops),
        ("t", None, 100, Count::DroppedTooLarge),
    ] {
        let (mut relay, shared, mut wire) = joined();
        let packet = publish(topic, QoS::AtLeastOnce, property, bytes);
        relay.received(End::Local, &packet, 0, &mut wire);
        assert_eq!(wire.bytes, [0x40, 2, 0, 7], "{count:?}");
        assert_eq!(shared.counts.of(count), 1, "{count:?}");
    }
}

#[test]
fn a_message_is_acknowledged_once_the_other_broker_has_it() {
    for (reason, count) in [(0, Count::Out), (0x87, Count::DroppedRefused)] {
        let (mut relay, shared, mut wire) = joined();
        let packet = publish("t", QoS::AtLeastOnce, Some(Property::ContentType("c")), 1);
        relay.received(End::Local, &packet, 0, &mut wire);
        let frame = Frame::check(&wire.bytes, 1000).unwrap().unwrap();
        let Packet::Publish(relayed) = Packet::decode(Version::V5, frame).unwrap() else {
            panic!("no PUBLISH: {:?}", wire.bytes);
        };
        let properties: Vec<_> = relayed.properties.iter().collect();
        let expected = [Property::ContentType("c"), Property::UserProperty(crate::HOPS, "1")];
        assert_eq!(properties, expected);
        let [high, low] = relayed.packet_id.unwrap().value().to_be_bytes();
        assert_eq!(frame.bytes, wire.bytes.len(), "and nothing is acknowledged");
        wire.bytes.clear();
        relay.received(End::Remote, &[0x40, 4, high, low, reason, 0], 0, &mut wire);
        assert_eq!(wire.bytes, [0x40, 2, 0, 7]);
        assert_eq!(shared.counts.of(count), 1, "{count:?}");
        assert!(relay.take_news().is_some_and(|news| matches!(news, News::Live(_))));
    }
}

#[test]
fn a_message_of_qos_0_is_dropped_where_too_much_waits() {
    let (mut relay, shared, mut wire) = joined();
    let packet = publish("t", QoS::AtMostOnce, None, 1);
    relay.received(End::Local, &packet, 0, &mut wire);
    wire.pending = OUTPUT_BYTES_MAX + 1;
    wire.bytes.clear();
    relay.received(End::Local, &packet, 0, &mut wire);
    assert!(wire.bytes.is_empty());
    assert_eq!((shared.counts.of(Count::Out), shared.counts.of(Count::DroppedFull)), (1, 1));
}
