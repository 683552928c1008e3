//! A publisher's side of its session, as a value: what was published and is not over yet.

use std::collections::VecDeque;
use weir_wire::{PacketId, QoS};

/// Which of a publisher's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Which of its topics.
    pub(crate) place: usize,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) number: u32,
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
pub(crate) enum Again {
    /// PUBLISH, with DUP if the session is the same.
    Publish { packet_id: PacketId, message: Message, dup: bool },
    /// PUBREL.
    Release(PacketId),
}

/// What is not over yet, in the order in which it was published.
#[derive(Debug)]
pub(crate) struct Outbox {
    in_flight: VecDeque<InFlight>,
    next: PacketId,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self { in_flight: VecDeque::new(), next: PacketId::FIRST }
    }

    /// How many messages are in flight.
    pub(crate) fn len(&self) -> usize {
        self.in_flight.len()
    }

    /// The messages in flight.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Message> {
        self.in_flight.iter().map(|of| of.message)
    }

    /// Takes a message in, under a packet identifier that is free.
    pub(crate) fn push(&mut self, message: Message) -> PacketId {
        while self.at(self.next).is_some() {
            self.next = self.next.next();
        }
        let packet_id = self.next;
        self.next = self.next.next();
        self.in_flight.push_back(InFlight { packet_id, message, stage: Stage::Published });
        packet_id
    }

    /// PUBACK, or a PUBREC that refuses: the exchange is over. Returns the message.
    pub(crate) fn end(&mut self, packet_id: PacketId) -> Option<Message> {
        let at = self.at(packet_id)?;
        let is_published = self.in_flight[at].stage == Stage::Published;
        let ended = if is_published { self.in_flight.remove(at) } else { None };
        ended.map(|of| of.message)
    }

    /// PUBREC: what follows is PUBREL in any case. Returns the message if this is the first.
    pub(crate) fn release(&mut self, packet_id: PacketId) -> Option<Message> {
        let at = self.at(packet_id)?;
        let of = &mut self.in_flight[at];
        let is_first = of.stage == Stage::Published && of.message.qos == QoS::ExactlyOnce;
        of.stage = if is_first { Stage::Released } else { of.stage };
        is_first.then_some(of.message)
    }

    /// PUBCOMP: the exchange is over.
    pub(crate) fn complete(&mut self, packet_id: PacketId) {
        if let Some(at) = self.at(packet_id)
            && self.in_flight[at].stage == Stage::Released
        {
            self.in_flight.remove(at);
        }
    }

    /// What is to be sent on a new connection, in the order of the first time [MQTT-4.6.0-1]. If
    /// the broker has lost the session, there is nothing to release, and what it has not
    /// acknowledged is published anew.
    pub(crate) fn again(&mut self, is_session_present: bool) -> Vec<Again> {
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
