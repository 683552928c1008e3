//! What may happen in a step.

use super::line::{BrokerEnd, Line};
use super::{CLIENTS, World};
use crate::chance::Chance;
use crate::client::Client;
use crate::message::Message;
use crate::names::{ClientNo, ConnNo, MessageNo};
use crate::topics::{FILTERS, SHARES, TOPICS};
use weir_core::Micros;
use weir_wire::packet::{
    Connect, Disconnect, PINGREQ, RetainHandling, SubscribeBuf, SubscriptionOptions,
    UnsubscribeBuf, Will,
};
use weir_wire::{Properties, PropertiesBuf, Property, QoS, ReasonCode};

/// What a client asks for in CONNECT.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) is_clean: bool,
    pub(super) keep_alive_s: u16,
    pub(super) expiry_s: u32,
    pub(super) receive_maximum: Option<u16>,
    pub(super) packet_bytes_max: Option<u32>,
    pub(super) aliases: u16,
    pub(super) has_will: bool,
}

impl World {
    /// One step of a run.
    pub fn step(&mut self, step: usize) {
        self.chance = Chance::new(self.seed, step as u64 + 1);
        self.pressure.at(step);
        self.model.now = Micros(self.now().0 + self.chance.below(2000) as u64);
        let client = ClientNo(self.chance.below(CLIENTS));
        let moves = if self.moves.are_on { 4 } else { 0 };
        // A freeze that lasts leaves little to a run.
        let mail = if self.shards[0].is_frozen() { 150 } else { 22 };
        let [commits, bases, crashes] = self.crashes.weights();
        let (pages, publish) = if self.pages.is_on() { (16, 120) } else { (0, 40) };
        let weights = [
            24, mail, 22, publish, 7, 3, 8, 2, 2, 3, 2, 3, 3, 1, 8, moves, commits, bases, pages,
            crashes,
        ];
        match self.chance.weighted(&weights) {
            0 => self.carry_up(),
            1 => self.carry_mail(),
            2 => self.carry_down(),
            3 => self.publish(client),
            4 => self.subscribe(client),
            5 => self.unsubscribe(client),
            6 => self.connect_one(),
            7 => self.cut(client),
            8 => self.disconnect(client),
            9 => self.hold_or_release(client),
            10 => self.slow_down(client),
            11 => self.ping(client),
            12 => self.let_pass(),
            13 => self.take_over(client),
            14 => drop(self.answer_one()),
            15 => self.move_one(),
            16 => self.commit_one(),
            17 => self.base_one(),
            18 => drop(self.answer_page()),
            _ if self.copies.are_on => self.lose_or_go_on(),
            _ => self.crash(),
        }
        self.follow_lost();
    }

    /// Bytes of some connections come to their shards, split anywhere.
    fn carry_up(&mut self) {
        for _ in 0..self.chance.between(1, 6) {
            let line = ConnNo(self.chance.below(self.lines.len()));
            let Some(count) = self.lines.get(line.0).map(|line| line.up.len()) else { return };
            if count > 0 {
                let some = self.chance.between(1, count);
                let all_or_some = if self.chance.one_in(3) { some } else { count };
                self.send_up(line, all_or_some);
            }
        }
        self.notice_ends();
    }

    /// Some bytes of one connection come to its shard.
    pub(super) fn send_up(&mut self, conn: ConnNo, count: usize) {
        let mut left = count;
        while left > 0 && matches!(self.lines[conn.0].end, BrokerEnd::At(..)) {
            let part = if self.is_one_packet { self.next_packet(conn).min(left) } else { left };
            self.receive(conn, part);
            left -= part;
        }
    }

    /// Bytes until the packet that the connection is in is whole.
    fn next_packet(&self, conn: ConnNo) -> usize {
        let line = &self.lines[conn.0];
        let behind = line.unconsumed.len();
        let bytes: Vec<u8> = line.unconsumed.iter().chain(&line.up).copied().collect();
        match weir_wire::Frame::check(&bytes, u32::MAX) {
            Ok(Some(frame)) => frame.bytes.saturating_sub(behind).max(1),
            _ => line.up.len(),
        }
    }

    /// Letters between some pairs of shards arrive; those of others are held up for long.
    fn carry_mail(&mut self) {
        if self.chance.one_in(8) {
            let Self { mail, chance, held_up, .. } = self;
            *held_up = mail.keys().filter(|_| chance.one_in(3)).copied().collect();
        }
        for _ in 0..self.chance.between(1, 16) {
            let is_held_up = |pair: &(usize, usize)| self.held_up.contains(pair);
            let busy: Vec<(usize, usize)> = self
                .mail
                .iter()
                .filter(|(pair, letters)| !letters.is_empty() && !is_held_up(pair))
                .map(|(&pair, _)| pair)
                .collect();
            if busy.is_empty() {
                return;
            }
            let (from, to) = self.chance.pick(&busy);
            self.deliver(from, to);
        }
    }

    fn carry_down(&mut self) {
        for _ in 0..self.chance.between(1, 4) {
            let client = ClientNo(self.chance.below(CLIENTS));
            if self.clients[client.0].is_slow {
                continue;
            }
            let Some(conn) = self.clients[client.0].conn else { continue };
            let count = self.lines[conn.0].down.len();
            let some = self.chance.between(0, count);
            let count = if self.chance.one_in(3) { some } else { count };
            self.read(client, count);
        }
    }

    /// Some messages in a row, often on one topic.
    fn publish(&mut self, number: ClientNo) {
        let qos_of = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
        let (topic, qos) = (self.chance.pick(TOPICS), self.chance.pick(&qos_of));
        for _ in 0..self.chance.between(1, 3) {
            let is_same = self.chance.one_in(2);
            let topic = if is_same { topic } else { self.chance.pick(TOPICS) };
            let qos = if is_same { qos } else { self.chance.pick(&qos_of) };
            self.publish_one(number, topic, qos);
        }
    }

    fn publish_one(&mut self, number: ClientNo, topic: &'static str, qos: QoS) {
        let chance = &mut self.chance;
        let client = &self.clients[number.0];
        if !client.is_connected || (qos > QoS::AtMostOnce && !client.has_room()) {
            return;
        }
        let is_v5 = client.version.is_v5();
        let retain = chance.one_in(6);
        let is_empty = retain && chance.one_in(4);
        let message = Message {
            publisher: number,
            topic,
            qos,
            retain,
            is_empty,
            expiry_s: (is_v5 && chance.one_in(8)).then(|| chance.pick(&[1, 20])),
            padding_bytes: chance.pick(&[0, 0, 20, 150]),
            is_will: false,
        };
        let is_aliased = is_v5 && !is_empty && chance.one_in(4);
        let message_no = self.model.add_message(message);
        let (client, line, messages) = self.parts(number);
        if let Some(line) = line {
            client.publish(message_no, &messages[message_no.0], is_aliased, &mut line.up);
        }
    }

    /// A client, its connection, and all messages.
    fn parts(&mut self, number: ClientNo) -> (&mut Client, Option<&mut Line>, &[Message]) {
        let Self { clients, lines, model, .. } = self;
        let client = &mut clients[number.0];
        let line = client.conn.map(|conn| &mut lines[conn.0]);
        (client, line, &model.messages)
    }

    fn subscribe(&mut self, number: ClientNo) {
        if !self.clients[number.0].is_connected {
            return;
        }
        let is_v5 = self.clients[number.0].version.is_v5();
        let mut filters: Vec<&'static str> = Vec::new();
        for _ in 0..self.chance.between(1, 2) {
            let list = if self.chance.one_in(3) { SHARES } else { FILTERS };
            let filter = self.chance.pick(list);
            if !filters.contains(&filter) {
                filters.push(filter);
            }
        }
        let mut buffer = SubscribeBuf::new();
        for filter in filters {
            let chance = &mut self.chance;
            let is_shared = filter.starts_with("$share/");
            let mut options = SubscriptionOptions {
                qos: chance.pick(&[
                    QoS::AtMostOnce,
                    QoS::AtLeastOnce,
                    QoS::ExactlyOnce,
                    QoS::ExactlyOnce,
                ]),
                ..SubscriptionOptions::default()
            };
            if is_v5 {
                options.no_local = !is_shared && chance.one_in(5);
                options.retain_as_published = chance.one_in(4);
                options.retain_handling = chance.pick(&[
                    RetainHandling::Send,
                    RetainHandling::Send,
                    RetainHandling::SendIfNew,
                    RetainHandling::DontSend,
                ]);
            }
            buffer.push(filter, options);
        }
        self.send_subscribe(number, &buffer);
    }

    /// Sends a SUBSCRIBE.
    pub(super) fn send_subscribe(&mut self, number: ClientNo, buffer: &SubscribeBuf) {
        let (client, line, _) = self.parts(number);
        if let Some(line) = line {
            let packet_id = client.ask();
            let packet = buffer.subscribe(client.version, packet_id, Properties::EMPTY);
            packet.encode(client.version, &mut line.up);
        }
    }

    fn unsubscribe(&mut self, number: ClientNo) {
        if !self.clients[number.0].is_connected {
            return;
        }
        let list = if self.chance.one_in(3) { SHARES } else { FILTERS };
        let subscribed = self.model.alive.get(&number).map(|&session| {
            let all = &self.model.sessions[session.0].subscriptions;
            all.keys().copied().collect::<Vec<_>>()
        });
        let subscribed = subscribed.filter(|all| !all.is_empty() && !self.chance.clone().one_in(5));
        let filter = self.chance.pick(subscribed.as_deref().unwrap_or(list));
        let mut buffer = UnsubscribeBuf::new();
        buffer.push(filter);
        let (client, line, _) = self.parts(number);
        if let Some(line) = line {
            let packet_id = client.ask();
            let packet = buffer.unsubscribe(packet_id, Properties::EMPTY);
            packet.encode(client.version, &mut line.up);
        }
    }

    fn connect_one(&mut self) {
        let away: Vec<_> = (0..CLIENTS).filter(|&at| self.clients[at].conn.is_none()).collect();
        if !away.is_empty() {
            let client = ClientNo(self.chance.pick(&away));
            let ask = self.any_ask(client);
            self.connect(client, ask);
        }
    }

    /// A second connection of the same client; the first is not looked at any more.
    fn take_over(&mut self, client: ClientNo) {
        if self.clients[client.0].conn.is_some() {
            let ask = self.any_ask(client);
            self.connect(client, ask);
        }
    }

    pub(super) fn any_ask(&mut self, client: ClientNo) -> Ask {
        let is_v5 = self.clients[client.0].version.is_v5();
        let chance = &mut self.chance;
        let is_clean = chance.one_in(5);
        let expiry_s = chance.pick(&[0, 4, 60, u32::MAX, u32::MAX]);
        Ask {
            is_clean,
            keep_alive_s: chance.pick(&[0, 0, 5, 30]),
            expiry_s: match (is_v5, is_clean) {
                (true, _) => expiry_s,
                (false, true) => 0,
                (false, false) => u32::MAX,
            },
            receive_maximum: is_v5.then(|| chance.pick(&[None, Some(1), Some(4)])).flatten(),
            packet_bytes_max: is_v5.then(|| chance.pick(&[None, None, Some(60)])).flatten(),
            aliases: if is_v5 { chance.pick(&[0, 2, 9]) } else { 0 },
            has_will: chance.one_in(2),
        }
    }

    /// Makes a connection and sends CONNECT.
    pub(super) fn connect(&mut self, number: ClientNo, mut ask: Ask) {
        ask.is_clean |= self.clients[number.0].must_start_clean;
        let version = self.clients[number.0].version;
        if !version.is_v5() {
            ask.expiry_s = if ask.is_clean { 0 } else { u32::MAX };
        }
        let conn = self.model.add_conn(number, version);
        let mut line = Line {
            number: conn,
            client: number,
            version,
            end: BrokerEnd::Closed,
            is_client_open: true,
            up: Vec::new(),
            connect: Vec::new(),
            is_paused: false,
            unconsumed: Vec::new(),
            down: Vec::new(),
            partial: Vec::new(),
        };
        let will = ask.has_will.then(|| self.will(number));
        self.write_connect(number, ask, will, &mut line.up);
        self.trace.add(format_args!("client {} connects as {}, {ask:?}", number.0, conn.0));
        self.lines.push(line);
        self.clients[number.0].connects(conn, ask.is_clean, ask.expiry_s);
        let shard = self.shard_for(number);
        self.open(shard, conn);
    }

    fn will(&mut self, publisher: ClientNo) -> MessageNo {
        let is_v5 = self.clients[publisher.0].version.is_v5();
        // One that is due while memory is short is not retained, and nobody is told.
        let may_retain = !self.pressure.is_on();
        let chance = &mut self.chance;
        self.model.add_message(Message {
            publisher,
            topic: chance.pick(TOPICS),
            qos: chance.pick(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce]),
            retain: chance.one_in(4) && may_retain,
            is_empty: false,
            expiry_s: (is_v5 && chance.one_in(6)).then(|| chance.pick(&[1, 20])),
            padding_bytes: 0,
            is_will: true,
        })
    }

    fn write_connect(
        &mut self,
        number: ClientNo,
        ask: Ask,
        will: Option<MessageNo>,
        out: &mut Vec<u8>,
    ) {
        let version = self.clients[number.0].version;
        let (mut properties, mut of_will) = (PropertiesBuf::new(), PropertiesBuf::new());
        if ask.expiry_s > 0 {
            properties.push(Property::SessionExpiryInterval(ask.expiry_s));
        }
        if let Some(maximum) = ask.receive_maximum {
            properties.push(Property::ReceiveMaximum(maximum));
        }
        if let Some(bytes) = ask.packet_bytes_max {
            properties.push(Property::MaximumPacketSize(bytes));
        }
        if ask.aliases > 0 {
            properties.push(Property::TopicAliasMaximum(ask.aliases));
        }
        let message = will.map(|will| (&self.model.messages[will.0], will));
        let payload = message.map(|(message, number)| message.payload(number));
        if version.is_v5() {
            of_will.push(Property::WillDelayInterval(self.chance.pick(&[0, 0, 2, 20])));
            if let Some(seconds) = message.and_then(|(message, _)| message.expiry_s) {
                of_will.push(Property::MessageExpiryInterval(seconds));
            }
        }
        let will = message.zip(payload.as_deref()).map(|((message, _), payload)| Will {
            topic: message.topic,
            payload,
            qos: message.qos,
            retain: message.retain,
            properties: of_will.as_properties(),
        });
        Connect {
            clean_start: ask.is_clean,
            keep_alive_s: ask.keep_alive_s,
            will,
            properties: properties.as_properties(),
            ..Connect::new(version, &number.client_id())
        }
        .encode(out);
    }

    /// The network cuts the connection; what was on its way is lost.
    pub(super) fn cut(&mut self, number: ClientNo) {
        let Some(conn) = self.clients[number.0].conn else { return };
        self.close_client_end(conn);
        self.lines[conn.0].up.clear();
        self.cut_from_broker(conn);
    }

    /// The client's end of a connection is closed.
    pub(super) fn close_client_end(&mut self, conn: ConnNo) {
        let line = &mut self.lines[conn.0];
        line.is_client_open = false;
        line.down.clear();
        let client = &mut self.clients[line.client.0];
        if client.conn == Some(line.number) {
            client.leaves();
        }
    }

    fn disconnect(&mut self, number: ClientNo) {
        let client = &self.clients[number.0];
        if !client.is_connected {
            return;
        }
        let mut properties = PropertiesBuf::new();
        let mut reason = ReasonCode::Success;
        let mut expiry_s = client.expiry_s;
        if client.version.is_v5() {
            reason = self.chance.pick(&[ReasonCode::Success, ReasonCode::DisconnectWithWill]);
            if client.expiry_s > 0 && self.chance.one_in(3) {
                expiry_s = self.chance.pick(&[0, 3, 100]);
                properties.push(Property::SessionExpiryInterval(expiry_s));
            }
        }
        self.send_disconnect(number, reason, &properties, expiry_s);
    }

    /// Sends DISCONNECT and closes the client's end.
    pub(super) fn send_disconnect(
        &mut self,
        number: ClientNo,
        reason: ReasonCode,
        properties: &PropertiesBuf,
        expiry_s: u32,
    ) {
        let (client, line, _) = self.parts(number);
        let Some(line) = line else { return };
        // It cannot know whether the broker hears of that.
        client.must_start_clean |= client.expiry_s > 0 && expiry_s == 0;
        client.expiry_s = expiry_s;
        Disconnect { reason, properties: properties.as_properties() }
            .encode(client.version, &mut line.up);
        let conn = line.number;
        self.close_client_end(conn);
    }

    fn hold_or_release(&mut self, number: ClientNo) {
        let is_holding = self.chance.one_in(2);
        let count = self.chance.between(0, 10);
        let (client, line, _) = self.parts(number);
        client.is_holding = is_holding;
        if let Some(line) = line {
            client.release(count, &mut line.up);
        }
    }

    fn slow_down(&mut self, number: ClientNo) {
        self.clients[number.0].is_slow = self.chance.one_in(2);
    }

    fn ping(&mut self, number: ClientNo) {
        let (client, line, _) = self.parts(number);
        if let Some(line) = line.filter(|_| client.is_connected) {
            line.up.extend_from_slice(&PINGREQ);
        }
    }

    fn let_pass(&mut self) {
        let micros = self.chance.pick(&[100_000, 1_000_000, 3_000_000, 9_000_000]) as u64;
        let end = Micros(self.now().0 + micros + self.chance.below(1000) as u64);
        // What is due by now is done in any case.
        let end = end.min(self.copies.unlisted_until()).max(self.now());
        self.trace.add(format_args!("time passes to {}", end.0));
        self.pass(end);
    }
}
