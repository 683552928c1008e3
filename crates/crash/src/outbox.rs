//! A publisher's side of its session, as a value: what was published and is not over yet.

use std::collections::VecDeque;
use weir_wire::packet::Ack;
use weir_wire::{Packet, PacketId, QoS};

/// Which of a publisher's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Which of its topics.
    pub place: usize,
    /// At which it is published.
    pub qos: QoS,
    /// Whether it is to be kept.
    pub retain: bool,
    /// The place among those of its topic.
    pub number: u32,
}

/// How far the exchange of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// PUBLISH was sent.
    Published,
    /// PUBREC came, PUBREL was sent.
    Released,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    packet_id: PacketId,
    message: Message,
    stage: Stage,
}

/// What is to be sent again on a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// PUBLISH, with DUP if the session is the same.
    Publish {
        /// As before.
        packet_id: PacketId,
        /// Which.
        message: Message,
        /// Whether the session is the same.
        dup: bool,
    },
    /// PUBREL.
    Release(PacketId),
}

/// What a packet of the broker says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// PUBACK, or a PUBREC that refuses: the exchange is over. Says whether it was accepted.
    Ended(PacketId, bool),
    /// PUBREC: the broker has it.
    Received(PacketId),
    /// PUBCOMP.
    Completed(PacketId),
    /// Nothing.
    Other,
}

impl Answer {
    /// What this packet says.
    pub fn of(packet: &Packet<'_>) -> Self {
        // Those from 0x80 on are refusals.
        let is_accepted = |ack: &Ack<'_>| (ack.reason as u8) < 0x80;
        match packet {
            Packet::PubAck(ack) => Self::Ended(ack.packet_id, is_accepted(ack)),
            Packet::PubRec(ack) if !is_accepted(ack) => Self::Ended(ack.packet_id, false),
            Packet::PubRec(ack) => Self::Received(ack.packet_id),
            Packet::PubComp(ack) => Self::Completed(ack.packet_id),
            _ => Self::Other,
        }
    }
}

/// What is not over yet, in the order in which it was published.
#[derive(Debug)]
pub struct Outbox {
    in_flight: VecDeque<InFlight>,
    next: PacketId,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { in_flight: VecDeque::new(), next: PacketId::FIRST }
    }
}

impl Outbox {
    /// How many messages are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The messages in flight.
    pub fn messages(&self) -> impl Iterator<Item = Message> {
        self.in_flight.iter().map(|of| of.message)
    }

    /// Takes a message in, under a packet identifier that is free.
    pub fn push(&mut self, message: Message) -> PacketId {
        while self.at(self.next).is_some() {
            self.next = self.next.next();
        }
        let packet_id = self.next;
        self.next = self.next.next();
        self.in_flight.push_back(InFlight { packet_id, message, stage: Stage::Published });
        packet_id
    }

    /// PUBACK, or a PUBREC that refuses: the exchange is over. Returns the message.
    pub fn end(&mut self, packet_id: PacketId) -> Option<Message> {
        let at = self.at(packet_id)?;
        let is_published = self.in_flight[at].stage == Stage::Published;
        let ended = if is_published { self.in_flight.remove(at) } else { None };
        ended.map(|of| of.message)
    }

    /// PUBREC: what follows is PUBREL in any case. Returns the message if this is the first.
    pub fn release(&mut self, packet_id: PacketId) -> Option<Message> {
        let at = self.at(packet_id)?;
        let of = &mut self.in_flight[at];
        let is_first = of.stage == Stage::Published && of.message.qos == QoS::ExactlyOnce;
        of.stage = if is_first { Stage::Released } else { of.stage };
        is_first.then_some(of.message)
    }

    /// PUBCOMP: the exchange is over.
    pub fn complete(&mut self, packet_id: PacketId) {
        if let Some(at) = self.at(packet_id)
            && self.in_flight[at].stage == Stage::Released
        {
            self.in_flight.remove(at);
        }
    }

    /// What is to be sent on a new connection, in the order of the first time [MQTT-4.6.0-1]. If
    /// the broker has lost the session, there is nothing to release, and what it has not
    /// acknowledged is published anew.
    pub fn again(&mut self, is_session_present: bool) -> Vec<Again> {
        if !is_session_present {
            self.in_flight.retain(|of| of.stage == Stage::Published);
        }
        let again = |of: &InFlight| match of.stage {
            Stage::Published => {
                let InFlight { packet_id, message, .. } = *of;
                Again::Publish { packet_id, message, dup: is_session_present }
            }
            Stage::Released => Again::Release(of.packet_id),
        };
        self.in_flight.iter().map(again).collect()
    }

    /// Answers come nearly in order, so it is near the front.
    fn at(&self, packet_id: PacketId) -> Option<usize> {
        self.in_flight.iter().position(|of| of.packet_id == packet_id)
    }
}

#[cfg(test)]
mod tests;
