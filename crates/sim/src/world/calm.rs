//! Reading, and the calm: everybody connects, all is delivered, and the books are looked at.

use super::actions::Ask;
use super::host::packets;
use super::line::BrokerEnd;
use super::{CLIENTS, World};
use crate::check;
use crate::client::{Client, Heard};
use crate::finding::Checker;
use crate::message::Message;
use crate::names::{ClientNo, ConnNo};
use crate::topics::TOPICS;
use crate::trace::Line as Text;
use weir_wire::packet::{Packet, SubscribeBuf, SubscriptionOptions};
use weir_wire::{PropertiesBuf, Property, QoS, ReasonCode, Version};

/// Rounds until everything must have been delivered.
const ROUNDS_MAX: usize = 2000;

/// A connection whose session stays.
const KEPT: Ask = Ask {
    is_clean: false,
    keep_alive_s: 0,
    expiry_s: u32::MAX,
    receive_maximum: None,
    packet_bytes_max: None,
    aliases: 0,
    has_will: false,
};

impl World {
    /// The client reads some bytes and answers what they say.
    pub(super) fn read(&mut self, number: ClientNo, count: usize) {
        let Some(conn) = self.clients[number.0].conn else { return };
        let line = &mut self.lines[conn.0];
        let was_waiting = !line.down.is_empty();
        let more: Vec<u8> = line.down.drain(..count.min(line.down.len())).collect();
        line.partial.extend_from_slice(&more);
        let is_drained = was_waiting && line.down.is_empty();
        let bytes = std::mem::take(&mut line.partial);
        let mut consumed = 0;
        while let Ok(Some(frame)) = weir_wire::Frame::check(&bytes[consumed..], u32::MAX) {
            let packet = &bytes[consumed..consumed + frame.bytes];
            packets(packet, self.lines[conn.0].version, |packet| self.hear(number, conn, packet));
            consumed += frame.bytes;
        }
        let line = &mut self.lines[conn.0];
        line.partial = bytes[consumed..].to_vec();
        self.clients[number.0].has_read(self.resend_max, &mut line.up);
        if is_drained {
            self.drained(conn);
        }
        self.notice_ends();
    }

    fn hear(&mut self, number: ClientNo, conn: ConnNo, packet: &Packet<'_>) {
        let Self { clients, lines, model, trace, .. } = self;
        let client = &mut clients[number.0];
        let up = &mut lines[conn.0].up;
        trace.add(format_args!("  client {} on {} reads {}", number.0, conn.0, Text(packet)));
        match (client.hear(packet, up), packet) {
            (Heard::Message, Packet::Publish(publish)) => {
                if let Some(message) = Message::number(publish.payload) {
                    model.arrived(conn, message, publish.qos, publish.retain);
                }
            }
            (Heard::ConnAck { is_present }, _) => {
                let session = model.conns[conn.0].session;
                // Before 3.1.1 it is not said.
                let is_present = is_present || client.version == Version::V31;
                client.connected(is_present, session, &model.messages);
            }
            (Heard::Strange, packet) => {
                let what = format!("client {} did not ask for {packet:?}", number.0);
                model.fail(Checker::Answers, what);
            }
            _ => {}
        }
    }

    /// Each end of a connection sees that the other is closed, behind what it sent.
    pub(super) fn notice_ends(&mut self) {
        for at in 0..self.lines.len() {
            let line = &self.lines[at];
            let conn = line.number;
            let is_up_empty = line.up.is_empty();
            match line.end {
                BrokerEnd::Closed if line.is_client_open && line.down.is_empty() => {
                    self.close_client_end(conn);
                }
                BrokerEnd::At(..) if !line.is_client_open && is_up_empty => {
                    self.cut_from_broker(conn);
                }
                _ => {}
            }
        }
    }

    /// Everything that is on its way arrives, and what follows from it, until nothing does. Says
    /// whether something did.
    fn carry_all(&mut self) -> bool {
        let mut is_moved = self.go_on();
        while self.answer_one() {
            is_moved = true;
        }
        for at in 0..self.lines.len() {
            let count = self.lines[at].up.len();
            if count > 0 && matches!(self.lines[at].end, BrokerEnd::At(..)) {
                is_moved = true;
                self.send_up(ConnNo(at), count);
            }
        }
        is_moved |= self.commit_all();
        is_moved |= self.go_on_with_lost();
        while self.answer_page() {
            is_moved = true;
        }
        self.notice_ends();
        let pairs: Vec<(usize, usize)> = self.mail.keys().copied().collect();
        for (from, to) in pairs {
            while self.deliver(from, to) {
                is_moved = true;
            }
        }
        for at in 0..self.clients.len() {
            let Some(conn) = self.clients[at].conn else { continue };
            let line = &mut self.lines[conn.0];
            let (count, client) = (line.down.len(), &mut self.clients[at]);
            (client.is_holding, client.is_slow) = (false, false);
            let before = line.up.len();
            client.release(usize::MAX, &mut line.up);
            self.read(ClientNo(at), count);
            is_moved |= count > 0 || self.lines[conn.0].up.len() > before;
        }
        is_moved
    }

    /// Until nothing moves.
    pub(super) fn carry_until_quiet(&mut self) {
        for _ in 0..ROUNDS_MAX {
            if !self.carry_all() || !self.model.findings.is_empty() {
                return;
            }
        }
        self.model.fail(Checker::Answers, "no end of packets".into());
    }

    /// Everybody connects, all is delivered, and the books are looked at.
    pub fn calm(&mut self) {
        self.trace.add(format_args!("calm"));
        self.pressure.ends();
        self.resend_max = 1;
        // One by one, and in turn: a client whose full queue keeps others from publishing gets to
        // empty it.
        for turn in 0..ROUNDS_MAX {
            self.carry_until_quiet();
            let is_away = |&at: &usize| self.clients[at].conn.is_none();
            let in_turn = (turn..turn + CLIENTS).map(|at| at % CLIENTS);
            let Some(away) = in_turn.into_iter().find(is_away) else { break };
            if !self.model.findings.is_empty() {
                break;
            }
            self.connect(ClientNo(away), KEPT);
        }
        if !self.model.findings.is_empty() {
            return;
        }
        self.probe();
        let first = check::retained::got(&self.model, self.last_probe());
        for _ in 1..self.size.nodes {
            self.dismiss_probe();
            self.probe();
            let probe = self.last_probe();
            check::retained::same(&mut self.model, &first, probe);
        }
        for at in 0..self.clients.len() {
            if self.clients[at].is_connected && self.clients[at].is_waiting() {
                let what = format!("client {at} waits for an acknowledgement");
                self.model.fail(Checker::Answers, what);
            }
        }
        self.check_thawed();
        self.check_places();
        check::calm(&mut self.model);
        if self.model.findings.is_empty() {
            self.model.forget();
        }
        self.dismiss_probe();
        let is_over = self.model.findings.is_empty();
        if self.size.nodes > 1 && !self.copies.are_on && is_over && self.chance.one_in(2) {
            self.lose_one();
        }
        self.resend_max = usize::MAX;
        self.keep_no_older_books();
    }

    /// A fresh subscriber asks for everything that is retained; the next one does so on the next
    /// node.
    fn probe(&mut self) {
        let filters = ["#", "$own/#"];
        let number = self.add_probe();
        let mut buffer = SubscribeBuf::new();
        let qos = QoS::ExactlyOnce;
        for filter in filters {
            buffer.push(filter, SubscriptionOptions { qos, ..SubscriptionOptions::default() });
        }
        self.send_subscribe(number, &buffer);
        self.carry_until_quiet();
        check::retained::fresh(&mut self.model, number, &filters);
    }

    fn add_probe(&mut self) -> ClientNo {
        let number = ClientNo(CLIENTS + self.probes);
        self.probes += 1;
        self.clients.push(Client::new(Version::V5));
        self.connect(number, Ask { is_clean: true, expiry_s: 0, ..KEPT });
        self.carry_until_quiet();
        number
    }

    fn last_probe(&self) -> ClientNo {
        ClientNo(CLIENTS + self.probes - 1)
    }

    fn dismiss_probe(&mut self) {
        let number = self.last_probe();
        self.send_disconnect(number, ReasonCode::Success, &PropertiesBuf::new(), 0);
        self.carry_until_quiet();
    }

    /// Every session is ended and every retained message cleared: the shards have to hold nothing.
    pub fn end(&mut self) {
        self.trace.add(format_args!("end"));
        let none = PropertiesBuf::new();
        for client in (0..CLIENTS).map(ClientNo) {
            if self.clients[client.0].version.is_v5() && self.clients[client.0].expiry_s > 0 {
                let mut properties = PropertiesBuf::new();
                properties.push(Property::SessionExpiryInterval(0));
                self.send_disconnect(client, ReasonCode::Success, &properties, 0);
            } else {
                // Before 5.0 a session ends with a clean one in its place.
                self.connect(client, Ask { is_clean: true, expiry_s: 0, ..KEPT });
                self.carry_until_quiet();
                self.send_disconnect(client, ReasonCode::Success, &none, 0);
            }
        }
        self.carry_until_quiet();
        while let Some(due) = self.model.last_orphan() {
            self.pass(due);
            self.carry_until_quiet();
        }
        // The last wills were published: now it is known what is retained.
        self.clear_retained();
        self.check_pages_are_gone();
        for (at, shard) in self.shards.iter().enumerate() {
            check::balance::end(&mut self.model, at, &shard.stats(), shard.poll_timeout());
        }
    }

    fn clear_retained(&mut self) {
        let number = self.add_probe();
        for &topic in TOPICS {
            let message = self.model.add_message(Message {
                publisher: number,
                topic,
                qos: QoS::AtMostOnce,
                retain: true,
                is_empty: true,
                expiry_s: None,
                padding_bytes: 0,
                is_will: false,
            });
            let Some(conn) = self.clients[number.0].conn else { continue };
            let Self { clients, lines, model, .. } = self;
            let up = &mut lines[conn.0].up;
            clients[number.0].publish(message, &model.messages[message.0], false, up);
        }
        self.carry_until_quiet();
        self.dismiss_probe();
    }

    /// The counters of all shards.
    pub fn stats(&self) -> Vec<weir_core::Stats> {
        let present = self.shards.iter().map(weir_core::Shard::stats);
        self.crashes.stats.iter().copied().chain(present).collect()
    }

    /// How often the fault that was asked for was committed.
    pub fn strikes(&self) -> usize {
        self.saboteur.count
    }
}
