//! A client that keeps to the standard: it acknowledges, keeps what it must, and sends it again.

use crate::message::Message;
use crate::names::{ConnNo, MessageNo, SessionNo};
use std::collections::{BTreeSet, VecDeque};
use weir_wire::packet::{Ack, Packet, Publish};
use weir_wire::{PacketId, PacketKind, QoS, ReasonCode, Version};

/// Its packet identifiers go round below this, so that they come again soon.
const PACKET_IDS: u16 = 40;

/// PUBLISH packets that it has in flight at most.
pub(crate) const FLIGHTS_MAX: usize = 8;

/// One client, connected or not.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its version of MQTT.
    pub(crate) version: Version,
    /// The connection it uses.
    pub(crate) conn: Option<ConnNo>,
    /// Whether CONNACK has come on it.
    pub(crate) is_connected: bool,
    /// Seconds that its session outlives the connection.
    pub(crate) expiry_s: u32,
    /// It gave its state up and has to say so in its next CONNECT.
    pub(crate) must_start_clean: bool,
    /// It acknowledges nothing for a while.
    pub(crate) is_holding: bool,
    /// It reads nothing for a while.
    pub(crate) is_slow: bool,
    /// The session that its state is of.
    session: Option<SessionNo>,
    flights: Vec<Flight>,
    /// QoS 2 messages received and not yet released.
    received: BTreeSet<u16>,
    /// Acknowledgements that it holds back.
    held: VecDeque<(PacketKind, PacketId)>,
    /// Identifiers of SUBSCRIBE and UNSUBSCRIBE packets.
    asked: BTreeSet<u16>,
    /// Packets that it is to send again.
    unsent: VecDeque<Vec<u8>>,
    /// Topics that it has set up aliases for, from 1.
    aliases: Vec<&'static str>,
    last_id: u16,
}

/// A PUBLISH of its own that is not done.
#[derive(Debug)]
struct Flight {
    packet_id: PacketId,
    message: MessageNo,
    is_received: bool,
}

/// What a packet meant to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing that its application would know.
    Nothing,
    /// A message for its application.
    Message,
    /// The answer to its CONNECT.
    ConnAck {
        /// Session Present.
        is_present: bool,
    },
    /// Something that answers nothing it said.
    Strange,
}

impl Client {
    /// A client that is not connected.
    pub(crate) fn new(version: Version) -> Self {
        Self {
            version,
            conn: None,
            is_connected: false,
            expiry_s: 0,
            must_start_clean: false,
            is_holding: false,
            is_slow: false,
            session: None,
            flights: Vec::new(),
            received: BTreeSet::new(),
            held: VecDeque::new(),
            asked: BTreeSet::new(),
            unsent: VecDeque::new(),
            aliases: Vec::new(),
            last_id: 0,
        }
    }

    /// It begins to use a connection, and sends CONNECT.
    pub(crate) fn connects(&mut self, conn: ConnNo, is_clean: bool, expiry_s: u32) {
        self.leaves();
        self.conn = Some(conn);
        self.expiry_s = expiry_s;
        if is_clean {
            self.forget();
            self.must_start_clean = true;
        }
    }

    /// It uses its connection no more. Without CONNACK it does not know what became of its session.
    pub(crate) fn leaves(&mut self) {
        self.conn = None;
        self.held.clear();
        self.asked.clear();
        self.unsent.clear();
        self.aliases.clear();
        let was_connected = std::mem::take(&mut self.is_connected);
        if was_connected && self.expiry_s == 0 {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.flights.clear();
        self.received.clear();
        self.session = None;
    }

    /// CONNACK came, of this session of the broker's. A client cannot know whether Session Present
    /// means the session that its state is of, or one made since by a CONNECT whose CONNACK was
    /// lost; here it does.
    pub(crate) fn connected(
        &mut self,
        is_present: bool,
        session: Option<SessionNo>,
        messages: &[Message],
    ) {
        self.is_connected = true;
        self.must_start_clean = false;
        if !is_present || self.session != session {
            self.forget();
        }
        self.session = session;
        // [MQTT-4.4.0-1]
        for flight in &self.flights {
            let (id, mut bytes) = (flight.packet_id, Vec::new());
            if flight.is_received {
                Ack::success(id).encode(PacketKind::PubRel, self.version, &mut bytes);
            } else {
                let message = &messages[flight.message.0];
                message.encode_again(flight.message, id, self.version, &mut bytes);
            }
            self.unsent.push_back(bytes);
        }
    }

    /// It has read what there was: now it sends again what it must, `count` packets at most. Not
    /// before its answers, or a client whose own queue is full, and whose PUBLISH is refused for
    /// it, would never empty it.
    pub(crate) fn has_read(&mut self, count: usize, out: &mut Vec<u8>) {
        for bytes in self.unsent.drain(..count.min(self.unsent.len())) {
            out.extend(bytes);
        }
    }

    /// Whether it may publish with an acknowledgement.
    pub(crate) fn has_room(&self) -> bool {
        self.flights.len() < FLIGHTS_MAX
    }

    /// Whether an exchange of its own is not done.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.flights.is_empty() || !self.asked.is_empty()
    }

    /// Publishes, by topic alias if it is said so.
    pub(crate) fn publish(
        &mut self,
        number: MessageNo,
        message: &Message,
        is_aliased: bool,
        out: &mut Vec<u8>,
    ) {
        let packet_id = (message.qos > QoS::AtMostOnce).then(|| self.next_id());
        if let Some(packet_id) = packet_id {
            self.flights.push(Flight { packet_id, message: number, is_received: false });
        }
        let alias = is_aliased.then(|| self.alias(message.topic));
        message.encode(number, packet_id, alias, self.version, out);
    }

    /// The alias of a topic, and whether the broker knows it already.
    fn alias(&mut self, topic: &'static str) -> (u16, bool) {
        match self.aliases.iter().position(|&known| known == topic) {
            Some(at) => (at as u16 + 1, true),
            None => {
                self.aliases.push(topic);
                (self.aliases.len() as u16, false)
            }
        }
    }

    /// An identifier for a SUBSCRIBE or UNSUBSCRIBE.
    pub(crate) fn ask(&mut self) -> PacketId {
        let id = self.next_id();
        self.asked.insert(id.value());
        id
    }

    fn next_id(&mut self) -> PacketId {
        loop {
            self.last_id = self.last_id % PACKET_IDS + 1;
            let is_used = self.asked.contains(&self.last_id)
                || self.flights.iter().any(|flight| flight.packet_id.value() == self.last_id);
            if let Some(id) = PacketId::new(self.last_id).filter(|_| !is_used) {
                return id;
            }
        }
    }

    /// A packet came; answers go to `out`.
    pub(crate) fn hear(&mut self, packet: &Packet<'_>, out: &mut Vec<u8>) -> Heard {
        match packet {
            Packet::ConnAck(connack) if connack.reason == ReasonCode::Success => {
                return Heard::ConnAck { is_present: connack.session_present };
            }
            Packet::Publish(publish) => return self.hear_publish(publish, out),
            Packet::PubAck(ack) => return self.finish(ack.packet_id),
            Packet::PubRec(ack) if ack.reason.is_error() => return self.finish(ack.packet_id),
            Packet::PubRec(ack) => {
                let mut flights = self.flights.iter_mut();
                let Some(flight) = flights.find(|flight| flight.packet_id == ack.packet_id) else {
                    return Heard::Strange;
                };
                flight.is_received = true;
                Ack::success(ack.packet_id).encode(PacketKind::PubRel, self.version, out);
            }
            Packet::PubRel(ack) => {
                self.received.remove(&ack.packet_id.value());
                self.answer(PacketKind::PubComp, ack.packet_id, out);
            }
            Packet::PubComp(ack) => return self.finish(ack.packet_id),
            Packet::SubAck(suback) => return self.answered(suback.packet_id),
            Packet::UnsubAck(unsuback) => return self.answered(unsuback.packet_id),
            _ => {}
        }
        Heard::Nothing
    }

    fn hear_publish(&mut self, publish: &Publish<'_>, out: &mut Vec<u8>) -> Heard {
        let Some(id) = publish.packet_id else { return Heard::Message };
        if publish.qos == QoS::AtLeastOnce {
            self.answer(PacketKind::PubAck, id, out);
            return Heard::Message;
        }
        let is_new = self.received.insert(id.value());
        self.answer(PacketKind::PubRec, id, out);
        if is_new { Heard::Message } else { Heard::Nothing }
    }

    fn finish(&mut self, packet_id: PacketId) -> Heard {
        let place = self.flights.iter().position(|flight| flight.packet_id == packet_id);
        place.map_or(Heard::Strange, |place| {
            self.flights.remove(place);
            Heard::Nothing
        })
    }

    fn answered(&mut self, packet_id: PacketId) -> Heard {
        if self.asked.remove(&packet_id.value()) { Heard::Nothing } else { Heard::Strange }
    }

    fn answer(&mut self, kind: PacketKind, id: PacketId, out: &mut Vec<u8>) {
        if self.is_holding || !self.held.is_empty() {
            // Later ones go behind those held [MQTT-4.6.0-2 to -4].
            self.held.push_back((kind, id));
        } else {
            Ack::success(id).encode(kind, self.version, out);
        }
    }

    /// Sends up to `count` of the acknowledgements it held back.
    pub(crate) fn release(&mut self, count: usize, out: &mut Vec<u8>) {
        for (kind, id) in self.held.drain(..count.min(self.held.len())) {
            Ack::success(id).encode(kind, self.version, out);
        }
    }
}
