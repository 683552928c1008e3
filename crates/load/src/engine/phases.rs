//! Connect, subscribe, warm up, measure, drain, leave.

use super::book::{ClientSink, Slot, State};
use super::{Edge, Engine};
use crate::baton::Status;
use crate::cpu::ThreadCpu;
use crate::outcome::{End, Phase};
use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr};
use weir_reactor::{Io, now_us};

/// Connections under way at once; more would measure the generator's own queue.
const CONNECTING_MAX: usize = 1000;

/// Where clients come back at a rate, more may be: then they are looked at no more often.
const LOOK_US: u64 = 10_000;

/// After connections have failed for this long and not one was made, there is no broker.
const UNREACHABLE_US_MAX: u64 = 1_000_000;

/// A run with more than this share of its connections or subscriptions failed measures something
/// else than was planned; fewer are counted.
const FAILED_SHARE_MAX: f64 = 0.5;

/// How long late messages are listened for after drain, and how long the broker gets to close.
const GRACE_US: u64 = 1_000_000;

/// A broker that went away takes this long to take all of its connections with it.
const GOING_US: u64 = 200_000;

/// Publishing begins this long after the last SUBACK.
const LEAD_US: u64 = 10_000;

impl Engine<'_> {
    /// Ends the run early; what is measured so far is kept.
    pub(super) fn stop_run(&mut self, end: End) {
        self.ending.end = Some(end);
        self.ending.decided_us = now_us();
    }

    /// Ends publishing now: what is due by now is still sent, and what is owed waited for.
    pub(super) fn finish(&mut self, now: u64) {
        let is_publishing = self.clock.is_publishing();
        self.clock.finish(now);
        if self.baton.is_some() || self.clock.is_setting_up() {
            return self.stop_run(End::Stopped);
        }
        if is_publishing {
            self.publishing.end_at(now);
        }
    }

    /// Does what the phase asks for now, and goes to the next when it is over.
    pub(super) fn advance(&mut self, io: &mut Io) {
        let now = now_us();
        self.ping(now, io);
        if self.ending.end.is_some() {
            return self.leave(now, io);
        }
        self.act(now, io);
        match self.clock.phase() {
            Phase::Connect => self.connect_due(now, io),
            Phase::Subscribe => self.subscribe_due(now, io),
            Phase::WarmUp | Phase::Measure => {
                let ends_us = self.clock.end_us();
                if now >= ends_us {
                    self.next_phase(ends_us);
                }
            }
            Phase::Drain => self.drain(now),
        }
    }

    /// When the next connection is due, while there is room for it.
    pub(super) fn next_connect_us(&self) -> Option<u64> {
        let is_open = self.clock.phase() == Phase::Connect
            && self.connecting.next < self.clients.len()
            && self.has_room_to_connect();
        is_open.then(|| {
            let place = self.book.slots[self.connecting.next].client - self.connecting.skipped;
            let offset_us = f64::from(place) * 1e6 / self.plan.connect.rate_per_s;
            self.clock.start_us() + offset_us as u64
        })
    }

    pub(super) fn has_room_to_connect(&self) -> bool {
        self.connecting.open.len() < CONNECTING_MAX
    }

    /// Passes over clients that join later.
    fn skip_joining(&mut self) {
        let is_away = |slot: &Slot| slot.state == State::Away && slot.lost_us == 0;
        while self.book.slots.get(self.connecting.next).is_some_and(is_away) {
            self.connecting.next += 1;
            self.connecting.skipped += 1;
        }
    }

    fn connect_due(&mut self, now: u64, io: &mut Io) {
        self.skip_joining();
        while let Some(due_us) = self.next_connect_us().filter(|&due_us| due_us <= now) {
            // While there was no room, it was the broker's answers that were late.
            self.watch.connected(now - due_us.max(self.connecting.held_us));
            let client = self.connecting.next as u32;
            self.connecting.next += 1;
            self.connect(client, io);
            self.skip_joining();
        }
        if !self.has_room_to_connect() {
            self.connecting.held_us = now;
        }
        self.expire_connects(now, io);
        self.judge_connects(now);
        if self.ending.end.is_none()
            && self.connecting.next == self.clients.len()
            && self.connecting.open.is_empty()
        {
            self.next_phase(now);
        }
    }

    /// Ends the run when there is no broker, or none that lets enough clients in.
    fn judge_connects(&mut self, now: u64) {
        let planned = self.book.connections.planned;
        let failed: u64 = self.book.connections.failed.values().sum();
        let is_over = failed as f64 > planned as f64 * FAILED_SHARE_MAX;
        let is_silent = self.book.connections.connected == 0 && self.book.unreachable == failed;
        let since_us =
            self.book.unreachable_since_us.map_or(0, |since_us| now.saturating_sub(since_us));
        if is_silent && failed > 0 && (is_over || since_us > UNREACHABLE_US_MAX) {
            self.stop_run(End::BrokerGone(String::new()));
        } else if is_over {
            let cause = &self.book.last_cause;
            let text = format!("{failed} of {planned} connections failed, the last: {cause}");
            self.stop_run(End::SetupFailed(text));
        }
    }

    pub(super) fn connect(&mut self, client: u32, io: &mut Io) {
        let now = now_us();
        let place = self.book.slots[client as usize].client;
        let source = self.plan.sources.map(|sources| {
            let step = place / sources.connections_each.max(1);
            IpAddr::V4(Ipv4Addr::from(u32::from(sources.first).wrapping_add(step)))
        });
        let slot = &mut self.book.slots[client as usize];
        slot.asked_us = now;
        slot.state = State::Connecting;
        slot.reached_us = 0;
        let target = self.plan.node(slot.rotation.node());
        match io.connect(self.transports.of(place), target, source) {
            Ok(token) => {
                let deadline_us = now + u64::from(self.plan.connect.timeout_ms) * 1_000;
                self.connecting.open.push(deadline_us, client);
                self.bind_token(token, client);
            }
            Err(error) if self.is_returning() && self.book.slots[client as usize].lost_us > 0 => {
                self.lose_for_now(client, &error.to_string());
            }
            Err(error) => self.book.failed(client, &error.to_string()),
        }
    }

    /// Forgets connections that are made or failed, and fails those that take too long.
    pub(super) fn expire_connects(&mut self, now: u64, io: &mut Io) {
        let is_many = self.connecting.open.len() > CONNECTING_MAX;
        if !is_many || now >= self.connecting.looked_us + LOOK_US {
            let slots = &self.book.slots;
            self.connecting.open.keep(|client| slots[client as usize].state == State::Connecting);
            self.connecting.looked_us = now;
        }
        let timeout_us = u64::from(self.plan.connect.timeout_ms) * 1_000;
        while let Some(client) = self.connecting.open.take_late(now) {
            let slot = &self.book.slots[client as usize];
            if slot.state != State::Connecting || slot.asked_us + timeout_us > now {
                continue;
            }
            if let Some(token) = slot.token {
                io.abort(token);
            }
            self.lose(client, "no CONNACK in time");
        }
    }

    /// Forgets subscriptions that are answered, and gives up on those that take too long.
    pub(super) fn expire_subscribes(&mut self, now: u64, io: &mut Io) {
        let slots = &self.book.slots;
        self.subscribing.keep(|client| slots[client as usize].state == State::Subscribing);
        while let Some(client) = self.subscribing.take_late(now) {
            if self.is_returning() && self.book.slots[client as usize].lost_us > 0 {
                if let Some(token) = self.book.slots[client as usize].token {
                    io.abort(token);
                }
                self.lose(client, "no SUBACK in time");
                continue;
            }
            let open = self.book.slots[client as usize].subscriptions_open;
            (0..open).for_each(|_| self.book.unsubscribed("no SUBACK in time"));
            self.book.slots[client as usize].subscriptions_open = 0;
            self.book.slots[client as usize].state = State::Ready;
            self.book.ready += 1;
        }
    }

    fn subscribe_due(&mut self, now: u64, io: &mut Io) {
        self.expire_subscribes(now, io);
        if !self.subscribing.is_empty() {
            return;
        }
        let operations = &self.book.subscriptions;
        let failed: u64 = operations.failed.values().sum();
        if failed as f64 > operations.asked as f64 * FAILED_SHARE_MAX {
            let cause = operations.failed.keys().next().cloned().unwrap_or_default();
            let text = format!("{failed} of {} subscriptions failed ({cause})", operations.asked);
            return self.stop_run(End::SetupFailed(text));
        }
        // All slices begin together, and all runs that go abreast.
        let go_us = match self.baton {
            None => self.cue.go_us(now, LEAD_US),
            Some(baton) => baton.go_us(),
        };
        let Some(go_us) = go_us else { return };
        let start_us = self.plan.shifts.map_or(go_us, |shifts| shifts.cycle_from(go_us));
        self.publishing.begin(self.plan, start_us);
        self.book.inspection.begin(self.publishing.schedules());
        self.clock.publish_from(start_us);
        if let Some((measure_us, _)) = self.clock.measure_us() {
            self.cue.begin(measure_us);
        }
        self.next_phase(now);
    }

    pub(super) fn edge(&self) -> Edge {
        let traffic = self.book.recorder.counts.traffic();
        Edge { at_us: now_us(), cpu: ThreadCpu::now(), traffic }
    }

    fn next_phase(&mut self, end_us: u64) {
        match self.clock.phase() {
            Phase::Connect => self.connected.1 = self.edge(),
            Phase::WarmUp => self.edges.0 = self.edge(),
            Phase::Measure => self.edges.1 = self.edge(),
            Phase::Subscribe | Phase::Drain => {}
        }
        self.clock.advance(end_us);
    }

    /// Waits for what is owed: unsent, unacknowledged, undelivered. Then the books are closed, and
    /// if something was lost it is listened for a while longer, so that late is told from never.
    fn drain(&mut self, now: u64) {
        if self.book.audit.is_closed() {
            if now >= self.clock.start_us() + GRACE_US {
                self.stop_run(End::Completed);
            }
            return;
        }
        let is_settled = self.is_settled(now);
        if !is_settled && now < self.clock.end_us() {
            return;
        }
        self.close_books();
        self.next_phase(now);
        if is_settled {
            self.stop_run(End::Completed);
        }
    }

    /// Whether nothing more can come that is owed.
    fn is_settled(&self, now: u64) -> bool {
        match self.baton {
            None => {
                self.is_drained(now)
                    && self.book.audit.delivered() >= self.book.owed
                    && self.is_course_settled()
            }
            // What is owed here may be published elsewhere.
            Some(baton) => baton.is_settled(),
        }
    }

    /// Whether nothing more can become owed.
    fn is_drained(&self, now: u64) -> bool {
        let book = &self.book;
        let is_sent = self.next_due_us(now).is_none() && book.backlog == 0;
        // A refused message may have been delivered all the same and would hide one that was not.
        let is_countable = book.recorder.counts.publish_failures == 0;
        (is_sent || !self.is_sending(now)) && book.open == 0 && is_countable
    }

    /// What the others need to know.
    pub(super) fn status(&self) -> Status {
        let is_drain = self.clock.phase() == Phase::Drain;
        Status {
            phase: self.clock.phase(),
            is_ready: self.clock.phase() == Phase::Subscribe && self.subscribing.is_empty(),
            is_drained: is_drain && self.is_drained(now_us()),
            connected: self.book.live,
            sent: self.book.recorder.counts.published,
            received: self.book.recorder.counts.received,
            owed: self.book.owed,
            delivered: self.book.audit.delivered(),
        }
    }

    /// Sends DISCONNECT to all, lets the broker close, and cuts what is left.
    fn leave(&mut self, now: u64, io: &mut Io) {
        let is_going = matches!(self.ending.end, Some(End::BrokerGone(_)))
            && now < self.ending.decided_us + GOING_US
            && self.book.live > 0;
        if is_going {
            return;
        }
        if !std::mem::replace(&mut self.ending.is_leaving, true) {
            // An early end: the phase is closed where it stands. In measure, no edge was seen yet.
            self.clock.close(now);
            if self.clock.phase() == Phase::Measure {
                self.edges.1 = self.edge();
            }
            self.close_books();
            self.clock.restart(now);
            self.disconnect_all(io);
            // At least one turn, in which the DISCONNECTs leave.
            return;
        }
        let is_gone = self.book.slots.iter().all(|slot| slot.token.is_none());
        if is_gone || now >= self.clock.start_us() + GRACE_US {
            for client in 0..self.book.slots.len() as u32 {
                if let Some(token) = self.release_token(client) {
                    io.abort(token);
                }
            }
            self.drop_old(io);
            self.ending.is_over = true;
        }
    }

    fn disconnect_all(&mut self, io: &mut Io) {
        for client in 0..self.book.slots.len() as u32 {
            let slot = &mut self.book.slots[client as usize];
            slot.state = State::Done;
            let Some(token) = slot.token else { continue };
            let mut sink = ClientSink { io, token, client, book: &mut self.book };
            self.clients[client as usize].disconnect(&mut sink);
        }
    }

    /// Sends PINGREQ for clients that were silent for a keep alive.
    fn ping(&mut self, now: u64, io: &mut Io) {
        while let Some(&Reverse((due_us, client))) = self.pings.peek() {
            if due_us > now {
                return;
            }
            self.pings.pop();
            let slot = &mut self.book.slots[client as usize];
            slot.is_pinging = false;
            let Some(token) = slot.token else { continue };
            let listens_since_us = slot.heard_us.max(slot.stalled_until_us);
            let is_quiet = now >= listens_since_us + u64::from(self.plan.keep_alive_s) * 1_000_000;
            let has_pinged = slot.pinged_us > slot.heard_us;
            let is_owed = has_pinged || self.clients[client as usize].open_count() > 0;
            if is_quiet && is_owed && self.is_returning() {
                io.abort(token);
                self.lose(client, "nothing heard for a keep alive");
                continue;
            }
            let timeout_us = self.clients[client as usize].poll_timeout();
            if let Some(late_us) = timeout_us.and_then(|us| now.checked_sub(us)) {
                self.watch.pinged(late_us);
                self.book.slots[client as usize].pinged_us = now;
            }
            let mut sink = ClientSink { io, token, client, book: &mut self.book };
            let of = &mut self.clients[client as usize];
            of.handle_timeout(now, &mut sink);
            if let Some(next_us) = of.poll_timeout() {
                self.book.slots[client as usize].is_pinging = true;
                self.pings.push(Reverse((next_us, client)));
            }
        }
    }
}
