//! What the reactor and the clients say, noted.

use super::Engine;
use super::book::{ClientSink, State};
use crate::cpu::thread_cpu_us;
use crate::outcome::{Access, Connections, End, Phase};
use crate::plan::Transport;
use crate::template::expand;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::rc::Rc;
use weir_client::ConnectOptions;
use weir_reactor::{Closed, Handler, Io, Token, now_us};
use weir_wire::packet::{Connect, Will};
use weir_wire::{Properties, PropertiesBuf, Property, QoS};

/// How long a client that comes back waits for SUBACK at least: a broker of several nodes may not
/// know for some time whether the one that it lost is gone.
const BACK_US_MAX: u64 = 10_000_000;

/// How long a session that is not to be clean outlives its connection in 5.0; 3.1.1 has no end.
const SESSION_EXPIRY_S: u32 = 3_600;

impl Engine<'_> {
    pub(super) fn bind_token(&mut self, token: Token, client: u32) {
        self.tokens.bind(token, client);
        self.book.slots[client as usize].token = Some(token);
    }

    pub(super) fn release_token(&mut self, client: u32) -> Option<Token> {
        let token = self.book.slots[client as usize].token.take()?;
        self.tokens.release(token);
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
            slot.was_quiet = false;
            self.book.ready += 1;
            return self.note_return(client, io, token);
        }
        slot.state = State::Subscribing;
        slot.subscribed_us = u64::MAX;
        slot.was_quiet = self.book.open == 0 && !slot.has_session;
        let group_at = slot.group;
        slot.subscriptions_open = group.subscriptions.len() as u16;
        let is_back = self.book.slots[client as usize].lost_us > 0;
        let timeout_us = u64::from(self.plan.connect.timeout_ms) * 1_000;
        let timeout_us = if is_back { timeout_us.max(BACK_US_MAX) } else { timeout_us };
        self.subscribing.push(now + timeout_us, client);
        self.book.subscriptions.asked += group.subscriptions.len() as u64;
        for subscription in &group.subscriptions {
            let asked = subscription.asked.as_ref().unwrap_or(&subscription.filter);
            let filter = expand(asked, index, self.plan.run);
            let qos = QoS::from_u8(subscription.qos).unwrap_or_default();
            let mut sink = ClientSink { io, token, client, book: &mut self.book };
            let packet_id = self.clients[client as usize].subscribe(&filter, qos, now, &mut sink);
            self.book.inspection.note_request(client, group_at, packet_id, qos);
        }
    }

    /// Half of the connections gone is a broker gone; while connections are still being made, a
    /// few early ones are not yet half.
    fn check_broker(&mut self) {
        let Connections { planned, connected, ref dropped, .. } = self.book.connections;
        let dropped: u64 = dropped.values().sum();
        let few =
            if self.clock.phase() == Phase::Connect { planned.div_ceil(2).min(20) } else { 1 };
        if self.is_returning() {
            return;
        }
        if dropped * 2 >= connected && dropped >= few && self.ending.end.is_none() {
            self.stop_run(End::BrokerGone(String::new()));
        }
    }
}

impl Handler for Engine<'_> {
    fn turn_begin(&mut self, io: &mut Io) {
        self.watch.wake(io.turn_us(), self.book.recorder.counts.answers(), thread_cpu_us);
    }

    fn reached(&mut self, token: Token) {
        if self.plan.route.transport() != Transport::Plain
            && let Some(client) = self.tokens.client(token)
        {
            self.book.slots[client as usize].reached_us = now_us();
        }
    }

    fn connected(&mut self, io: &mut Io, token: Token) {
        let Some(client) = self.tokens.client(token) else { return };
        let now = now_us();
        self.book.slots[client as usize].opened_us = now;
        let slot = &self.book.slots[client as usize];
        self.book.recorder.counts.opened += u64::from(slot.reached_us > 0);
        let group = &self.plan.groups[usize::from(slot.group)];
        let client_id = expand(&group.client_id, slot.index, self.plan.run);
        let clean_start = group.clean_start.unwrap_or(self.plan.clean_start);
        let kept_s = if clean_start { 0 } else { SESSION_EXPIRY_S };
        let publisher = slot.publisher.filter(|_| group.publish.as_ref().is_some_and(|p| p.will));
        let credentials = &self.plan.credentials;
        let user_name = credentials.user_name.as_deref().map(|name| match self.plan.users {
            0 => Cow::Borrowed(name),
            users => Cow::Owned(format!("{name}-{}", slot.client % users)),
        });
        let options = ConnectOptions {
            version: self.plan.version.on_wire(),
            client_id: &client_id,
            clean_start,
            keep_alive_s: self.plan.keep_alive_s,
            session_expiry_s: group.session_expiry_s.unwrap_or(kept_s),
            user_name: user_name.as_deref(),
            password: credentials.password.as_deref().map(str::as_bytes),
        };
        self.book.access = Some(Access {
            transport: self.plan.route.transport(),
            has_user_name: options.user_name.is_some(),
            has_password: options.password.is_some(),
        });
        if let Some(publisher) = publisher {
            return self.connect_with_will(publisher, &options, io, token);
        }
        let mut sink = ClientSink { io, token, client, book: &mut self.book };
        self.clients[client as usize].connect(&options, now, &mut sink);
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let Some(client) = self.tokens.client(token) else { return bytes.len() };
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
        let Some(client) = self.tokens.client(token) else { return };
        if let Some(publisher) = self.book.slots[client as usize].publisher {
            self.send_due(publisher, now_us(), io);
        }
    }

    fn closed(&mut self, _io: &mut Io, token: Token, cause: Closed) {
        let Some(client) = self.tokens.client(token) else {
            self.runner.forget_old(token);
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
        if self.is_returning() && was_there && self.ending.end.is_none() {
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
