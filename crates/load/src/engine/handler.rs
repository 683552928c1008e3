//! What the reactor and the clients say, noted.

use super::setup::version_of;
use super::{Book, Engine, State};
use crate::audit::Received;
use crate::outcome::{Connections, End, Phase};
use crate::stamp::Stamp;
use crate::template::expand;
use std::cmp::Reverse;
use std::rc::Rc;
use weir_client::{ConnectOptions, Event, Sink};
use weir_reactor::{Closed, Handler, Io, Token, now_us};
use weir_wire::packet::{Connect, Publish, Will};
use weir_wire::{Properties, PropertiesBuf, Property, QoS, ReasonCode};

/// How long a session that is not to be clean outlives its connection in 5.0; 3.1.1 has no end.
const SESSION_EXPIRY_S: u32 = 3_600;

/// The sink of one client for one call.
pub(super) struct ClientSink<'a> {
    pub(super) io: &'a mut Io,
    pub(super) token: Token,
    pub(super) client: u32,
    pub(super) book: &'a mut Book,
}

impl Sink for ClientSink<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.io.write(self.token, bytes);
    }

    #[inline]
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Message(publish) => {
                self.book.message(self.client, Stamp::find(publish.payload), &publish);
            }
            Event::Acknowledged { tag, reason } => self.book.acknowledged(self.client, tag, reason),
            Event::Connected { session_present } => {
                self.book.connected(self.client, session_present);
            }
            Event::Refused(reason) => {
                self.book.refused(self.client, &format!("refused: {}", reason.name()));
            }
            Event::Subscribed { codes, .. } => self.book.subscribed(self.client, codes),
            Event::Disconnected(reason) => {
                self.book.slots[self.client as usize].disconnect = Some(reason);
            }
            Event::Unsubscribed { .. } => {}
        }
    }
}

impl Book {
    #[inline]
    fn message(&mut self, client: u32, stamp: Option<Stamp>, publish: &Publish<'_>) {
        // A stamp that names what was never sent is not ours.
        let stamp = stamp.filter(|stamp| {
            let publisher = self.publishers.get(stamp.publisher as usize);
            publisher.is_some_and(|publisher| stamp.sequence < publisher.sent)
        });
        let (received, is_measured) = self.audit.receive(client, stamp, publish.dup);
        let counts = &mut self.recorder.counts;
        counts.received += 1;
        match received {
            Received::First => {}
            Received::Reordered => counts.reordered += 1,
            Received::Duplicated => {
                counts.duplicated += 1;
                return;
            }
            Received::Late | Received::Stray => return,
        }
        let Some(stamp) = stamp else { return };
        let publisher = &self.publishers[stamp.publisher as usize];
        if !publisher.is_clocked {
            self.unclocked += u64::from(is_measured);
            return;
        }
        let intended_us = if publish.retain || stamp.intended_us == 0 {
            self.owed_since_us(client, stamp)
        } else {
            stamp.intended_us
        };
        let latency_us = self.read_us.saturating_sub(intended_us);
        self.recorder.end_to_end.record(latency_us, is_measured);
        if is_measured && let Some(delay_us) = publisher.delay_us(stamp.sequence) {
            self.recorder.from_send.saturating_record(latency_us.saturating_sub(delay_us));
        }
    }

    /// A retained message that waited for its subscriber is owed from SUBSCRIBE on, a will from
    /// when its client was to be cut.
    #[cold]
    fn owed_since_us(&self, client: u32, stamp: Stamp) -> u64 {
        let publisher = &self.publishers[stamp.publisher as usize];
        let intended_us = if publisher.is_will { publisher.cut_us } else { stamp.intended_us };
        intended_us.max(self.slots[client as usize].asked_us)
    }

    fn acknowledged(&mut self, client: u32, tag: u64, reason: ReasonCode) {
        let Some(at) = self.slots[client as usize].publisher else { return };
        let sequence = tag as u32;
        self.open -= 1;
        if reason.is_error() {
            self.publishers[at as usize].refused.push(sequence);
            self.recorder.counts.publish_failures += 1;
            return;
        }
        self.owed += u64::from(self.audit.receivers_of(at));
        self.recorder.counts.acknowledged += 1;
        let latency_us = (self.read_us as u32).wrapping_sub((tag >> 32) as u32);
        let is_measured = self.audit.is_measured(at, sequence);
        self.recorder.acknowledge.record(u64::from(latency_us), is_measured);
        if is_measured && let Some(delay_us) = self.publishers[at as usize].delay_us(sequence) {
            let latency_us = u64::from(latency_us) + delay_us;
            self.recorder.acknowledge_from_intended.saturating_record(latency_us);
        }
    }

    fn connected(&mut self, client: u32, session_present: bool) {
        let slot = &mut self.slots[client as usize];
        slot.state = State::Accepted;
        slot.has_session = session_present;
        slot.is_subscribed &= session_present;
        let latency_us = self.read_us.saturating_sub(slot.asked_us);
        self.live += 1;
        self.connections.connected += u64::from(slot.lost_us == 0);
        self.recorder.counts.connected += 1;
        self.recorder.connect.record(latency_us, true);
    }

    /// The client never got a connection, and not because the broker said so.
    pub(super) fn unreachable(&mut self, client: u32, cause: &str) {
        self.unreachable += 1;
        self.unreachable_since_us.get_or_insert_with(now_us);
        self.failed(client, cause);
    }

    /// CONNACK says no. One that was there before tries again: the engine counts that.
    fn refused(&mut self, client: u32, cause: &str) {
        let slot = &mut self.slots[client as usize];
        if slot.lost_us == 0 {
            return self.failed(client, cause);
        }
        slot.state = State::Failed;
        cause.clone_into(&mut self.last_cause);
    }

    /// The client never got a connection.
    pub(super) fn failed(&mut self, client: u32, cause: &str) {
        let slot = &mut self.slots[client as usize];
        slot.state = State::Failed;
        self.recorder.counts.connect_failures += 1;
        cause.clone_into(&mut self.last_cause);
        *self.connections.failed.entry(cause.to_owned()).or_default() += 1;
    }

    /// The other side ended the client's connection.
    pub(super) fn dropped(&mut self, client: u32, cause: &str) {
        let slot = &mut self.slots[client as usize];
        if slot.state == State::Ready {
            self.ready -= 1;
        }
        slot.state = State::Dropped;
        self.live -= 1;
        self.recorder.counts.connect_failures += 1;
        let cause = match slot.disconnect {
            Some(reason) => format!("DISCONNECT: {}", reason.name()),
            None => cause.to_owned(),
        };
        *self.connections.dropped.entry(cause).or_default() += 1;
    }

    fn subscribed(&mut self, client: u32, codes: &[u8]) {
        let slot = &mut self.slots[client as usize];
        let latency_us = self.read_us.saturating_sub(slot.asked_us);
        slot.subscriptions_open = slot.subscriptions_open.saturating_sub(1);
        let is_done = slot.subscriptions_open == 0 && slot.state == State::Subscribing;
        if is_done {
            slot.state = State::Ready;
            slot.is_subscribed = true;
            self.ready += 1;
        }
        match codes.first() {
            Some(&code) if code < 0x80 => {
                self.subscriptions.granted += 1;
                self.recorder.counts.subscribed += 1;
                self.recorder.subscribe.record(latency_us, true);
            }
            code => {
                let reason = code.and_then(|&code| ReasonCode::from_u8(code));
                self.unsubscribed(reason.map_or("refused", ReasonCode::name));
            }
        }
    }

    pub(super) fn unsubscribed(&mut self, cause: &str) {
        self.recorder.counts.subscribe_failures += 1;
        *self.subscriptions.failed.entry(cause.to_owned()).or_default() += 1;
    }
}

impl Engine<'_> {
    fn client_of(&self, token: Token) -> Option<u32> {
        self.by_token.get(token.0 as usize).copied().filter(|&client| client != u32::MAX)
    }

    pub(super) fn bind_token(&mut self, token: Token, client: u32) {
        let at = token.0 as usize;
        if self.by_token.len() <= at {
            self.by_token.resize(at + 1, u32::MAX);
        }
        self.by_token[at] = client;
        self.book.slots[client as usize].token = Some(token);
    }

    pub(super) fn release_token(&mut self, client: u32) -> Option<Token> {
        let token = self.book.slots[client as usize].token.take()?;
        self.by_token[token.0 as usize] = u32::MAX;
        Some(token)
    }

    /// CONNACK has come: subscribe, or be ready.
    fn begin_subscribing(&mut self, client: u32, io: &mut Io, token: Token) {
        let now = now_us();
        let slot = &mut self.book.slots[client as usize];
        let group = &self.plan.groups[usize::from(slot.group)];
        let index = slot.index;
        // A client that is back with its session has its subscriptions, too.
        let has_subscriptions = slot.is_subscribed && slot.lost_us > 0;
        if self.plan.keep_alive_s > 0 && !std::mem::replace(&mut slot.is_pinging, true) {
            let due_us = now + u64::from(self.plan.keep_alive_s) * 1_000_000;
            self.pings.push(Reverse((due_us, client)));
        }
        slot.pinged_us = 0;
        slot.asked_us = now;
        if group.subscriptions.is_empty() || has_subscriptions {
            slot.state = State::Ready;
            self.book.ready += 1;
            return self.note_return(client, io, token);
        }
        slot.state = State::Subscribing;
        slot.subscriptions_open = group.subscriptions.len() as u16;
        self.subscribing.push_back((now + u64::from(self.plan.connect.timeout_ms) * 1_000, client));
        self.book.subscriptions.asked += group.subscriptions.len() as u64;
        for subscription in &group.subscriptions {
            let asked = subscription.asked.as_ref().unwrap_or(&subscription.filter);
            let filter = expand(asked, index, self.plan.run);
            let qos = QoS::from_u8(subscription.qos).unwrap_or_default();
            let mut sink = ClientSink { io, token, client, book: &mut self.book };
            self.clients[client as usize].subscribe(&filter, qos, now, &mut sink);
        }
    }

    /// Half of the connections gone is a broker gone; while connections are still being made, a
    /// few early ones are not yet half.
    fn check_broker(&mut self) {
        let Connections { planned, connected, ref dropped, .. } = self.book.connections;
        let dropped: u64 = dropped.values().sum();
        let few = if self.phase == Phase::Connect { planned.div_ceil(2).min(20) } else { 1 };
        if self.is_returning() {
            return;
        }
        if dropped * 2 >= connected && dropped >= few && self.end.is_none() {
            self.stop_run(End::BrokerGone(String::new()));
        }
    }
}

impl Book {
    /// What was seen of a broker that went away.
    pub(super) fn seen_of_broker(&self) -> String {
        let Connections { connected, dropped, .. } = &self.connections;
        let Some((cause, _)) = dropped.iter().max_by_key(|(_, count)| **count) else {
            return format!("no connection could be made: {}", self.last_cause);
        };
        let dropped: u64 = dropped.values().sum();
        format!("{dropped} of {connected} connections were ended by the broker's side: {cause}")
    }
}

impl Handler for Engine<'_> {
    fn connected(&mut self, io: &mut Io, token: Token) {
        let Some(client) = self.client_of(token) else { return };
        let slot = &self.book.slots[client as usize];
        let group = &self.plan.groups[usize::from(slot.group)];
        let client_id = expand(&group.client_id, slot.index, self.plan.run);
        let clean_start = group.clean_start.unwrap_or(self.plan.clean_start);
        let kept_s = if clean_start { 0 } else { SESSION_EXPIRY_S };
        let publisher = slot.publisher.filter(|_| group.publish.as_ref().is_some_and(|p| p.will));
        let options = ConnectOptions {
            version: version_of(self.plan),
            client_id: &client_id,
            clean_start,
            keep_alive_s: self.plan.keep_alive_s,
            session_expiry_s: group.session_expiry_s.unwrap_or(kept_s),
            user_name: self.plan.user_name.as_deref(),
            password: self.plan.password.as_deref().map(str::as_bytes),
        };
        if let Some(publisher) = publisher {
            return self.connect_with_will(publisher, &options, io, token);
        }
        let mut sink = ClientSink { io, token, client, book: &mut self.book };
        self.clients[client as usize].connect(&options, now_us(), &mut sink);
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let Some(client) = self.client_of(token) else { return bytes.len() };
        let now = now_us();
        self.book.read_us = now;
        self.book.slots[client as usize].heard_us = now;
        let was = self.book.slots[client as usize].state;
        let mut sink = ClientSink { io, token, client, book: &mut self.book };
        let result = self.clients[client as usize].handle(bytes, now, &mut sink);
        let consumed = match result {
            Ok(consumed) => consumed,
            Err(error) => {
                self.lose(client, &error.to_string());
                io.abort(token);
                return bytes.len();
            }
        };
        match self.book.slots[client as usize].state {
            State::Accepted => self.begin_subscribing(client, io, token),
            State::Failed => {
                self.release_token(client);
                io.close(token);
                if self.is_returning() && self.book.slots[client as usize].lost_us > 0 {
                    self.book.slots[client as usize].state = State::Connecting;
                    let cause = self.book.last_cause.clone();
                    self.lose_for_now(client, &cause);
                }
            }
            State::Ready => {
                if was == State::Subscribing {
                    self.note_return(client, io, token);
                }
                if let Some(publisher) = self.book.slots[client as usize].publisher {
                    let of = &self.book.publishers[publisher as usize];
                    if of.sent < of.due {
                        self.send_due(publisher, now, io);
                    }
                }
            }
            _ => {}
        }
        consumed
    }

    fn drained(&mut self, io: &mut Io, token: Token) {
        let Some(client) = self.client_of(token) else { return };
        if let Some(publisher) = self.book.slots[client as usize].publisher {
            self.send_due(publisher, now_us(), io);
        }
    }

    fn closed(&mut self, _io: &mut Io, token: Token, cause: Closed) {
        let Some(client) = self.client_of(token) else {
            self.agenda.forget_old(token);
            return;
        };
        let cause = match cause {
            Closed::ByPeer => "closed by the broker".to_owned(),
            Closed::Error(errno) => std::io::Error::from(errno).to_string(),
            Closed::Transport(error) => error.to_string(),
        };
        self.lose(client, &cause);
    }

    fn turn_end(&mut self, io: &mut Io) {
        self.pick_due(io);
    }
}

impl Engine<'_> {
    /// The connection is gone, by no doing of ours.
    pub(super) fn lose(&mut self, client: u32, cause: &str) {
        self.release_token(client);
        let state = self.book.slots[client as usize].state;
        let was_there = self.book.slots[client as usize].lost_us > 0 || state != State::Connecting;
        if self.is_returning() && was_there && self.end.is_none() {
            return match state {
                State::Connecting | State::Accepted | State::Subscribing | State::Ready => {
                    self.lose_for_now(client, cause);
                }
                _ => {}
            };
        }
        match state {
            State::Connecting => self.book.unreachable(client, cause),
            State::Accepted | State::Subscribing | State::Ready => {
                if self.book.slots[client as usize].state == State::Subscribing {
                    let open = self.book.slots[client as usize].subscriptions_open;
                    (0..open).for_each(|_| self.book.unsubscribed(cause));
                }
                self.book.dropped(client, cause);
                self.check_broker();
            }
            State::Planned | State::Away | State::Failed | State::Dropped | State::Done => {}
        }
    }

    /// A client that publishes by being cut: its message is in its CONNECT.
    fn connect_with_will(
        &mut self,
        publisher: u32,
        options: &ConnectOptions<'_>,
        io: &mut Io,
        token: Token,
    ) {
        let of = &self.book.publishers[publisher as usize];
        let (client, qos, retain) = (of.client, of.qos, of.retain);
        let (topic, payload) = (Rc::clone(&of.topic), self.payload_of(publisher, of.sent));
        let will =
            Will { topic: &topic, payload: &payload, qos, retain, properties: Properties::EMPTY };
        let mut properties = PropertiesBuf::new();
        if options.version.is_v5() && options.session_expiry_s > 0 {
            properties.push(Property::SessionExpiryInterval(options.session_expiry_s));
        }
        let connect = Connect {
            version: options.version,
            clean_start: options.clean_start,
            keep_alive_s: options.keep_alive_s,
            client_id: options.client_id,
            will: Some(will),
            user_name: options.user_name,
            password: options.password,
            properties: properties.as_properties(),
        };
        let mut sink = ClientSink { io, token, client, book: &mut self.book };
        self.clients[client as usize].connect_with(&connect, now_us(), &mut sink);
    }
}
