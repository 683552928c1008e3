//! The fake's connections, its routing and its faults.

use super::Deeds;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;
use weir_chance::Chance;
use weir_load::outcome::{Anomaly, AnomalyKind};
use weir_reactor::{Closed, Handler, Io, ListenerId, Token, now_us};
use weir_wire::packet::{Ack, ConnAck, PINGRESP, Publish, SubAck, Subscribe};
use weir_wire::topic::TopicFilter;
use weir_wire::{
    Frame, Packet, PacketId, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version,
};

/// A message held back is let go after this long if no successor came.
const HELD_US_MAX: u64 = 200_000;

/// How a fake lies about what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// SUBACK and deliveries have QoS 0.
    GrantsQos0,
    /// Deliveries have QoS 0, whatever was granted.
    DeliversQos0,
    Topic,
    /// The payload ends behind the stamp.
    Cut,
    /// A byte more.
    Longer,
    /// The last byte alone.
    LastByte,
    /// Every byte behind the stamp.
    Flipped,
    /// The time in the stamp is a second earlier.
    Earlier,
    Retain,
    /// What was stored comes without the flag.
    NoRetain,
    /// A copy goes to a connection without a subscription.
    Elsewhere,
    /// A copy has a sequence that was never sent.
    Unsent,
}

/// What goes wrong. Shares are of deliveries, by chance; `every` is by sequence number.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) seed: u64,
    pub(crate) lost: f64,
    pub(crate) duplicated: f64,
    pub(crate) reordered: f64,
    /// Of every delivery.
    pub(crate) delay_us: u64,
    /// Every so many messages are delivered this much later.
    pub(crate) late: Option<(u32, u64)>,
    /// CONNACK says no.
    pub(crate) refuse_connect: Option<ReasonCode>,
    /// SUBACK says no.
    pub(crate) refuse_subscribe: bool,
    /// CONNACK never comes.
    pub(crate) ignore_connect: bool,
    /// Messages a client may have open, told in CONNACK of 5.0.
    pub(crate) receive_maximum: Option<u16>,
    /// Every so many messages are not acknowledged; every other of them is delivered.
    pub(crate) unacknowledged_every: Option<u32>,
    /// The same, refused with Quota exceeded.
    pub(crate) refused_every: Option<u32>,
    /// Every so many messages come with one of another run beside them.
    pub(crate) stray_every: Option<u32>,
    /// All connections are cut, and none taken, after this many messages.
    pub(crate) gone_after: Option<u64>,
    /// After this many messages nothing is done for this long.
    pub(crate) freeze: Option<(u64, u64)>,
    /// Every so many messages come altered.
    pub(crate) lie: Option<(u32, Lie)>,
}

struct Conn {
    version: Version,
    /// The number at the end of its client identifier.
    number: u32,
    next_id: PacketId,
    has_left: bool,
}

struct Subscription {
    filter: String,
    qos: QoS,
    /// One token, or the members of a shared group and whose turn it is.
    members: Vec<Token>,
    /// Number of the first member; a group is one receiver, whoever of it came first.
    receiver: u32,
    turn: usize,
}

/// One delivery on its way.
#[derive(Clone)]
struct Delivery {
    to: Token,
    qos: QoS,
    dup: bool,
    retain: bool,
    topic: String,
    payload: Vec<u8>,
}

impl Delivery {
    fn tell(&mut self, lie: Lie) {
        let (stamp, rest) = self.payload.split_at_mut(16);
        match lie {
            Lie::GrantsQos0 | Lie::DeliversQos0 => self.qos = QoS::AtMostOnce,
            Lie::Topic => self.topic.push('0'),
            Lie::Cut => self.payload.truncate(16),
            Lie::Longer => self.payload.push(b'.'),
            Lie::LastByte => rest[rest.len() - 1] ^= 1,
            Lie::Flipped => rest.iter_mut().for_each(|byte| *byte ^= 0xFF),
            Lie::Earlier => {
                let time: [u8; 8] = [0, 0]
                    .iter()
                    .chain(&stamp[10..])
                    .copied()
                    .collect::<Vec<_>>()
                    .try_into()
                    .unwrap();
                let time = (u64::from_be_bytes(time) - 1_000_000).to_be_bytes();
                stamp[10..].copy_from_slice(&time[2..]);
            }
            Lie::Retain => self.retain = true,
            Lie::Unsent => stamp[6..10].copy_from_slice(&(u32::MAX - 1).to_be_bytes()),
            Lie::NoRetain | Lie::Elsewhere => {}
        }
    }
}

pub(super) struct Fake {
    faults: Faults,
    conns: HashMap<Token, Conn>,
    subscriptions: Vec<Subscription>,
    /// Every message that was to be retained: its tests publish one on a topic.
    retained: Vec<Delivery>,
    /// By due time and a running number.
    on_the_way: BTreeMap<(u64, u64), Delivery>,
    numbered: u64,
    /// By receiver and publisher, with the time it was held.
    held: HashMap<(Token, u32), (u64, Delivery)>,
    deeds: Deeds,
    is_gone: bool,
}

impl Fake {
    pub(super) fn new(faults: Faults) -> Self {
        Self {
            faults,
            conns: HashMap::new(),
            subscriptions: Vec::new(),
            retained: Vec::new(),
            on_the_way: BTreeMap::new(),
            numbered: 0,
            held: HashMap::new(),
            deeds: Deeds::default(),
            is_gone: false,
        }
    }

    pub(super) fn into_deeds(self) -> Deeds {
        self.deeds
    }

    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    pub(super) fn timeout(&self) -> Option<Duration> {
        let now = now_us();
        let due = self.on_the_way.keys().next().map(|&(due_us, _)| due_us.saturating_sub(now));
        let held = (!self.held.is_empty()).then_some(HELD_US_MAX / 4);
        let wait = due.into_iter().chain(held).min();
        wait.map(Duration::from_micros)
    }

    /// A number from 0 to 1, of this message to this receiver: whatever the order in
    /// which messages come.
    fn chance(&self, receiver: u32, payload: &[u8]) -> f64 {
        let parts = [receiver, publisher_of(payload), sequence_of(payload)];
        let seed = parts
            .into_iter()
            .fold(self.faults.seed, |seed, part| Chance::new(seed).bits() ^ u64::from(part));
        Chance::new(seed).unit()
    }

    fn packet(&mut self, io: &mut Io, token: Token, packet: &Packet<'_>) {
        match packet {
            Packet::Connect(connect) => {
                let digits = connect.client_id.rsplit('-').next().unwrap();
                let number = digits.parse().unwrap();
                let (version, next_id) = (connect.version, PacketId::FIRST);
                self.conns.insert(token, Conn { version, number, next_id, has_left: false });
                if self.faults.ignore_connect {
                    return;
                }
                let reason = self.faults.refuse_connect.unwrap_or(ReasonCode::Success);
                let mut told = PropertiesBuf::new();
                if let Some(maximum) = self.faults.receive_maximum {
                    told.push(Property::ReceiveMaximum(maximum));
                }
                let properties = told.as_properties();
                let connack = ConnAck { session_present: false, reason, properties };
                self.write(io, token, &Packet::ConnAck(connack));
                if reason.is_error() {
                    io.close(token);
                }
            }
            Packet::Subscribe(subscribe) => self.subscribe(io, token, subscribe),
            Packet::Publish(publish) => self.publish(io, token, publish),
            Packet::PubRec(ack) => {
                self.write(io, token, &Packet::PubRel(Ack::success(ack.packet_id)));
            }
            Packet::PubRel(ack) => {
                self.write(io, token, &Packet::PubComp(Ack::success(ack.packet_id)));
            }
            Packet::PingReq => io.write(token, &PINGRESP),
            Packet::Disconnect(_) => {
                self.conns.get_mut(&token).unwrap().has_left = true;
                self.deeds.disconnects += 1;
                io.close(token);
            }
            Packet::PubAck(_) | Packet::PubComp(_) => {}
            other => panic!("a load generator does not send {other:?}"),
        }
    }

    fn subscribe(&mut self, io: &mut Io, token: Token, subscribe: &Subscribe<'_>) {
        let mut codes = Vec::new();
        for (filter, options) in subscribe.filters() {
            let is_lower = self.faults.lie.is_some_and(|(_, lie)| lie == Lie::GrantsQos0);
            let granted = if is_lower { QoS::AtMostOnce } else { options.qos };
            codes.push(if self.faults.refuse_subscribe { 0x80 } else { granted as u8 });
            let is_shared = filter.starts_with("$share/");
            let known = self.subscriptions.iter_mut().find(|s| is_shared && s.filter == filter);
            match known {
                Some(subscription) => subscription.members.push(token),
                None => self.subscriptions.push(Subscription {
                    filter: filter.to_owned(),
                    qos: options.qos,
                    members: vec![token],
                    receiver: if is_shared { u32::MAX } else { self.conns[&token].number },
                    turn: 0,
                }),
            }
        }
        let (packet_id, properties) = (subscribe.packet_id, Properties::EMPTY);
        self.write(io, token, &Packet::SubAck(SubAck { packet_id, properties, codes: &codes }));
        self.replay(token, subscribe);
    }

    /// Stored messages go to a new subscription; a liar's have no RETAIN flag.
    fn replay(&mut self, token: Token, subscribe: &Subscribe<'_>) {
        let retain = !self.faults.lie.is_some_and(|(_, lie)| lie == Lie::NoRetain);
        for (filter, _) in subscribe.filters() {
            let filter = TopicFilter::parse(filter).unwrap();
            let stored = self.retained.iter().filter(|stored| filter.matches(&stored.topic));
            let all: Vec<Delivery> =
                stored.map(|stored| Delivery { to: token, retain, ..stored.clone() }).collect();
            self.deeds.lies += if retain { 0 } else { all.len() as u64 };
            all.into_iter().for_each(|delivery| self.send(delivery, 0));
        }
    }

    fn publish(&mut self, io: &mut Io, token: Token, publish: &Publish<'_>) {
        self.deeds.published += 1;
        if self.faults.gone_after.is_some_and(|after| self.deeds.published > after) {
            self.is_gone = true;
            self.conns.keys().for_each(|&token| io.close(token));
            return;
        }
        if let Some((after, for_us)) = self.faults.freeze
            && after == self.deeds.published
        {
            // The fault itself is that nothing happens for a time.
            std::thread::sleep(Duration::from_micros(for_us));
        }
        if publish.retain {
            let (topic, payload) = (publish.topic.to_owned(), publish.payload.to_vec());
            let (qos, dup, retain) = (publish.qos, false, true);
            self.retained.push(Delivery { to: token, qos, dup, retain, topic, payload });
        }
        let sequence = sequence_of(publish.payload);
        let is_every =
            |every: Option<u32>| every.is_some_and(|every| sequence.is_multiple_of(every));
        let is_silent = is_every(self.faults.unacknowledged_every);
        let is_refused = is_every(self.faults.refused_every);
        if let Some(packet_id) = publish.packet_id
            && !is_silent
        {
            let quota = ReasonCode::QuotaExceeded;
            let reason = if is_refused { quota } else { ReasonCode::Success };
            let ack = Ack { packet_id, reason, properties: Properties::EMPTY };
            let answer = match publish.qos {
                QoS::ExactlyOnce => Packet::PubRec(ack),
                _ => Packet::PubAck(ack),
            };
            self.write(io, token, &answer);
        }
        let every = self.faults.unacknowledged_every.or(self.faults.refused_every).unwrap_or(1);
        let is_unaccepted = is_silent || is_refused;
        self.deeds.unaccepted += u64::from(is_unaccepted);
        if is_unaccepted && (sequence / every) % 2 == 1 {
            return;
        }
        for at in 0..self.subscriptions.len() {
            let filter = TopicFilter::parse(&self.subscriptions[at].filter).unwrap();
            if filter.matches(publish.topic) {
                self.deeds.unaccepted_deliveries += u64::from(is_unaccepted);
                self.deliver(at, publish);
            }
        }
    }

    /// One message for one subscriber or group, with what may go wrong.
    fn deliver(&mut self, at: usize, publish: &Publish<'_>) {
        let subscription = &mut self.subscriptions[at];
        let first = subscription.members[0];
        let to = subscription.members[subscription.turn % subscription.members.len()];
        subscription.turn += 1;
        let qos = subscription.qos.min(publish.qos);
        let (topic, payload) = (publish.topic.to_owned(), publish.payload.to_vec());
        let mut delivery = Delivery { to, qos, dup: false, retain: false, topic, payload };
        let sequence = sequence_of(publish.payload);
        if let Some((every, lie)) = self.faults.lie
            && sequence.is_multiple_of(every)
        {
            self.deeds.lies += u64::from(lie != Lie::NoRetain);
            match lie {
                Lie::Elsewhere | Lie::Unsent => self.add_another(delivery.clone(), lie),
                _ => delivery.tell(lie),
            }
        }
        let stream = (to, publisher_of(publish.payload));

        if self.faults.stray_every.is_some_and(|every| sequence.is_multiple_of(every)) {
            let mut stray = delivery.clone();
            stray.payload[0] ^= 0xFF;
            self.deeds.strays += 1;
            self.send(stray, 0);
        }
        if let Some((every, late_us)) = self.faults.late
            && sequence.is_multiple_of(every)
        {
            self.deeds.late += 1;
            return self.send(delivery, late_us);
        }
        let chance = self.chance(self.subscriptions[at].receiver, publish.payload);
        let Faults { lost, duplicated, reordered, .. } = self.faults;
        if chance < lost {
            return self.note(AnomalyKind::Lost, first, &delivery);
        }
        if chance < lost + reordered && !self.held.contains_key(&stream) {
            self.held.insert(stream, (now_us(), delivery));
            return;
        }
        self.send(delivery.clone(), 0);
        if (lost + reordered..lost + reordered + duplicated).contains(&chance) {
            self.note(AnomalyKind::Duplicated, to, &delivery);
            let dup = qos != QoS::AtMostOnce;
            self.deeds.duplicated_with_dup += u64::from(dup);
            self.send(Delivery { dup, ..delivery }, 0);
        }
        if let Some((_, held)) = self.held.remove(&stream) {
            self.note(AnomalyKind::Reordered, to, &held);
            self.send(held, 0);
        }
    }

    /// Sends a copy that is owed to nobody.
    fn add_another(&mut self, mut copy: Delivery, lie: Lie) {
        let has_none = |token: &&Token| {
            !self.subscriptions.iter().any(|subscription| subscription.members.contains(token))
        };
        if lie == Lie::Elsewhere {
            copy.to = *self.conns.keys().find(has_none).unwrap();
        }
        copy.tell(lie);
        self.send(copy, 0);
    }

    fn note(&mut self, kind: AnomalyKind, to: Token, delivery: &Delivery) {
        self.deeds.anomalies.push(Anomaly {
            kind,
            subscriber: self.conns[&to].number,
            publisher: publisher_of(&delivery.payload),
            sequence: sequence_of(&delivery.payload),
        });
    }

    fn send(&mut self, delivery: Delivery, late_us: u64) {
        let due_us = now_us() + self.faults.delay_us + late_us;
        self.numbered += 1;
        self.on_the_way.insert((due_us, self.numbered), delivery);
    }

    fn write(&self, io: &mut Io, token: Token, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.encode(self.conns[&token].version, &mut bytes);
        io.write(token, &bytes);
    }

    fn write_due(&mut self, io: &mut Io) {
        let now = now_us();
        let is_old = |&(since_us, _): &(u64, Delivery)| since_us + HELD_US_MAX <= now;
        let old: Vec<_> = self.held.extract_if(|_, held| is_old(held)).collect();
        old.into_iter().for_each(|(_, (_, delivery))| self.send(delivery, 0));
        while let Some(entry) = self.on_the_way.first_entry()
            && entry.key().0 <= now
        {
            let delivery = entry.remove();
            let Some(conn) = self.conns.get_mut(&delivery.to) else { continue };
            let packet_id = (delivery.qos != QoS::AtMostOnce).then_some(conn.next_id);
            if packet_id.is_some() {
                conn.next_id = conn.next_id.next();
            }
            self.deeds.deliveries += 1;
            let publish = Publish {
                dup: delivery.dup,
                qos: delivery.qos,
                retain: delivery.retain,
                topic: &delivery.topic,
                packet_id,
                properties: Properties::EMPTY,
                payload: &delivery.payload,
            };
            self.write(io, delivery.to, &Packet::Publish(publish));
        }
    }
}

impl Handler for Fake {
    fn accepted(&mut self, io: &mut Io, token: Token, _by: ListenerId, _peer: SocketAddr) {
        if self.is_gone {
            io.abort(token);
        }
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(frame) = Frame::check(&bytes[at..], u32::MAX).unwrap() {
            at += frame.bytes;
            let version = self.conns.get(&token).map_or(Version::V5, |conn| conn.version);
            self.packet(io, token, &Packet::decode(version, frame).unwrap());
        }
        at
    }

    fn closed(&mut self, _io: &mut Io, token: Token, _cause: Closed) {
        if let Some(conn) = self.conns.remove(&token) {
            self.deeds.cut += u64::from(!conn.has_left);
        }
    }

    fn turn_end(&mut self, io: &mut Io) {
        self.write_due(io);
    }
}

// The stamp, read by other code than the generator's.

fn publisher_of(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[2..6].try_into().unwrap())
}

fn sequence_of(payload: &[u8]) -> u32 {
    u32::from_be_bytes(payload[6..10].try_into().unwrap())
}
