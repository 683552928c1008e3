//! Clients that lose their connections while the run lasts, and come back: by a step of the plan,
//! by their own will, or because the broker went away.

use super::Engine;
use super::book::{ClientSink, Slot, State};
use crate::outcome::AnomalyKind;
use crate::plan::Plan;
use crate::recorder::Counts;
use crate::steps::{Action, ClientStep, Pulse, Returns, SessionKept, Sessions, StepsOutcome};
use foldhash::fast::FixedState;
use hashbrown::HashSet;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_reactor::{Io, Token, now_us};
use weir_wire::packet::{Ack, Publish};
use weir_wire::{PacketKind, Properties};

/// Clients that act or come back in one turn; the rest of them follow in the next.
const ACTIONS_PER_TURN_MAX: usize = 512;

/// How far one step is done.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    step: ClientStep,
    /// First client of the group.
    first: u32,
    /// Times done in full.
    round: u64,
    /// Clients that have acted in this round.
    acted: u32,
}

impl Cursor {
    /// When the next client is to act, from the begin of measure; nothing when all is done.
    fn due_us(&self, measure_us: u64) -> Option<u64> {
        let step = &self.step;
        if step.clients == 0 || (self.round > 0 && step.every_ms == 0) {
            return None;
        }
        let spread_us = step.over_ms * 1_000 * u64::from(self.acted) / u64::from(step.clients);
        let due_us = (step.at_ms + self.round * step.every_ms) * 1_000 + spread_us;
        (due_us < measure_us).then_some(due_us)
    }

    fn advance(&mut self) {
        self.acted += 1;
        if self.acted == self.step.clients {
            (self.acted, self.round) = (0, self.round + 1);
        }
    }
}

/// What is planned for clients and what was seen of it.
#[derive(Debug, Default)]
pub(super) struct StepRunner {
    cursors: Vec<Cursor>,
    measure_us: u64,
    /// When clients that are away try to come back.
    returning: BinaryHeap<Reverse<(u64, u32)>>,
    /// Before then none does, so that they keep to their rate; nanoseconds.
    next_return_ns: u64,
    /// When clients that don't read are to read again.
    stalled: BinaryHeap<Reverse<(u64, u32, u32)>>,
    /// Connections whose clients have another one by now.
    taken_over: HashSet<Token, FixedState>,
    pub(super) returns: Returns,
    pulse: Pulse,
    has_pulse: bool,
    /// Counters at the last beat.
    before: Counts,
    gone_before: u64,
    back_before: u64,
}

impl StepRunner {
    pub(super) fn new(plan: &Plan) -> Self {
        let first = |group: u16| {
            plan.groups[..usize::from(group)].iter().map(|group| group.clients).sum::<u32>()
        };
        let cursor = |step: &ClientStep| Cursor {
            step: *step,
            first: first(step.group),
            round: 0,
            acted: 0,
        };
        Self {
            cursors: plan.course.steps.iter().map(cursor).collect(),
            measure_us: plan.phases.measure_ms * 1_000,
            has_pulse: plan.course.has_pulse,
            ..Self::default()
        }
    }

    pub(super) fn into_outcome(self, sessions: Sessions) -> StepsOutcome {
        StepsOutcome { returns: self.returns, pulse: self.pulse, sessions }
    }

    /// Whether this connection was one that its client has left behind.
    pub(super) fn forget_old(&mut self, token: Token) -> bool {
        self.taken_over.remove(&token)
    }

    fn gone(&self) -> u64 {
        self.returns.lost.values().sum::<u64>() + self.returns.ended
    }
}

impl Engine<'_> {
    /// Whether clients come back by themselves.
    pub(super) fn is_returning(&self) -> bool {
        self.plan.course.return_after_ms.is_some()
    }

    /// The next step or return, for the loop's timeout.
    pub(super) fn next_act_us(&self) -> Option<u64> {
        let measured = self.clock.measure_us().filter(|_| self.ending.end.is_none());
        let step = measured.and_then(|(start_us, _)| {
            let due = self.runner.cursors.iter();
            due.filter_map(|c| c.due_us(self.runner.measure_us)).min().map(|us| start_us + us)
        });
        let back = self.next_return().map(|(due_us, _)| due_us);
        let read = self.runner.stalled.peek().map(|&Reverse((due_us, _, _))| due_us);
        step.into_iter().chain(back).chain(read).min()
    }

    /// Does what is due of the steps.
    pub(super) fn act(&mut self, now: u64, io: &mut Io) {
        self.step(now, io);
        self.read_again(now, io);
        self.come_back(now, io);
    }

    fn step(&mut self, now: u64, io: &mut Io) {
        let Some((start_us, _)) = self.clock.measure_us() else { return };
        let measure_us = self.runner.measure_us;
        for _ in 0..ACTIONS_PER_TURN_MAX {
            let due = |at: &usize| {
                let due_us = self.runner.cursors[*at].due_us(measure_us)?;
                (start_us + due_us <= now).then_some(due_us)
            };
            let next =
                (0..self.runner.cursors.len()).filter(|at| due(at).is_some()).min_by_key(due);
            let Some(at) = next else { return };
            let Cursor { step, first, acted, .. } = self.runner.cursors[at];
            self.runner.cursors[at].advance();
            self.act_of(first + acted, &step, now, io);
        }
    }

    /// One client does its part of a step. One that is not connected has nothing to do.
    fn act_of(&mut self, client: u32, step: &ClientStep, now: u64, io: &mut Io) {
        let back_us = now + step.for_ms * 1_000;
        let state = self.book.slots[client as usize].state;
        match step.action {
            Action::Join if state == State::Away => self.return_at(client, now),
            Action::Stall if state == State::Ready => {
                let Some(token) = self.book.slots[client as usize].token else { return };
                io.pause(token);
                self.book.slots[client as usize].stalled_until_us = back_us;
                self.runner.stalled.push(Reverse((back_us, client, token.0)));
            }
            Action::Leave if state == State::Ready => {
                let Some(token) = self.release_token(client) else { return };
                let mut sink = ClientSink { io, token, client, book: &mut self.book };
                self.clients[client as usize].disconnect(&mut sink);
                io.close(token);
                self.go_away(client, now);
                self.return_at(client, back_us);
            }
            Action::Cut if state == State::Ready => {
                self.cut(client, now, io);
                self.return_at(client, back_us);
            }
            Action::TakeOver if state == State::Ready => {
                let Some(token) = self.release_token(client) else { return };
                self.runner.taken_over.insert(token);
                self.go_away(client, now);
                self.connect(client, io);
            }
            _ => {}
        }
    }

    /// Resets a client's connection.
    pub(super) fn cut(&mut self, client: u32, now: u64, io: &mut Io) {
        if let Some(token) = self.release_token(client) {
            io.abort(token);
        }
        self.go_away(client, now);
    }

    /// A client that was ready is away by our own doing.
    fn go_away(&mut self, client: u32, now: u64) {
        let slot = &mut self.book.slots[client as usize];
        slot.state = State::Away;
        slot.lost_us = now;
        self.book.ready -= 1;
        self.book.live -= 1;
        self.runner.returns.ended += 1;
        self.clients[client as usize].closed();
    }

    /// A connection ended by no doing of ours; its client comes back.
    pub(super) fn lose_for_now(&mut self, client: u32, cause: &str) {
        let now = now_us();
        let slot = &mut self.book.slots[client as usize];
        let cause = match slot.disconnect.take() {
            Some(reason) => format!("DISCONNECT: {}", reason.name()),
            None => cause.to_owned(),
        };
        if slot.state == State::Connecting {
            *self.runner.returns.attempts_failed.entry(cause).or_default() += 1;
            slot.rotation.fail();
        } else {
            self.book.ready -= u64::from(slot.state == State::Ready);
            self.book.live -= 1;
            *self.runner.returns.lost.entry(cause).or_default() += 1;
        }
        self.book.recorder.counts.connect_failures += 1;
        if slot.lost_us == 0 {
            slot.lost_us = now;
        }
        slot.state = State::Away;
        self.clients[client as usize].closed();
        let after_ms = self.plan.course.return_after_ms.unwrap_or_default();
        self.return_at(client, now + u64::from(after_ms) * 1_000);
    }

    fn return_at(&mut self, client: u32, at_us: u64) {
        self.runner.returning.push(Reverse((at_us, client)));
    }

    fn come_back(&mut self, now: u64, io: &mut Io) {
        if !self.clock.is_setting_up() {
            self.expire_connects(now, io);
            self.expire_subscribes(now, io);
        }
        for _ in 0..ACTIONS_PER_TURN_MAX {
            let Some((due_us, client)) = self.next_return().filter(|&(due_us, _)| due_us <= now)
            else {
                break;
            };
            self.runner.returning.pop();
            if self.book.slots[client as usize].state != State::Away {
                continue;
            }
            if let Some(rate_per_s) = self.plan.course.return_rate_per_s {
                let last_ns = self.runner.next_return_ns.max(due_us * 1_000);
                self.runner.next_return_ns = last_ns + (1e9 / rate_per_s) as u64;
            }
            self.connect(client, io);
        }
    }

    /// Which client tries to come back next, and when; nothing while there is no room.
    fn next_return(&self) -> Option<(u64, u32)> {
        let &Reverse((due_us, client)) = self.runner.returning.peek()?;
        if self.plan.course.return_rate_per_s.is_some() {
            return Some((due_us.max(self.runner.next_return_ns / 1_000), client));
        }
        self.has_room_to_connect().then_some((due_us, client))
    }

    fn read_again(&mut self, now: u64, io: &mut Io) {
        while let Some(&Reverse((due_us, client, token))) = self.runner.stalled.peek() {
            if due_us > now {
                return;
            }
            self.runner.stalled.pop();
            if self.book.slots[client as usize].token == Some(Token(token)) {
                // What came meanwhile has not been heard.
                self.book.slots[client as usize].heard_us = now;
                io.resume(Token(token));
            }
        }
    }

    /// A client is ready once more: what it had open is written again.
    pub(super) fn note_return(&mut self, client: u32, io: &mut Io, token: Token) {
        let slot = &mut self.book.slots[client as usize];
        let (lost_us, has_session) = (std::mem::take(&mut slot.lost_us), slot.has_session);
        let publisher = slot.publisher;
        if lost_us == 0 {
            // One that joins is not back; what was due before it came is sent now.
            if let Some(publisher) = publisher {
                self.send_due(publisher, now_us(), io);
            }
            return;
        }
        let group = &self.plan.groups[usize::from(slot.group)];
        let kept = match has_session {
            true => SessionKept::Resumed,
            false if group.clean_start.unwrap_or(self.plan.clean_start) => SessionKept::Clean,
            false => SessionKept::New,
        };
        slot.session = slot.session.max(kept);
        let returns = &mut self.runner.returns;
        returns.returned += 1;
        returns.resumed += u64::from(has_session);
        returns.delay.saturating_record(now_us().saturating_sub(lost_us));
        let Some(publisher) = publisher else { return };
        if has_session {
            self.resend(publisher, client, io, token);
        } else {
            self.publish_again(publisher, client, io, token);
        }
        self.send_due(publisher, now_us(), io);
    }

    /// The broker has the session: PUBLISH with DUP, or PUBREL, under the same identifier
    /// [MQTT-4.4.0-1].
    fn resend(&mut self, publisher: u32, client: u32, io: &mut Io, token: Token) {
        let open: Vec<_> = self.clients[client as usize].open_messages().collect();
        for message in open {
            let mut bytes = Vec::new();
            let version = self.plan.version.on_wire();
            if message.is_released {
                let ack = Ack::success(message.packet_id);
                ack.encode(PacketKind::PubRel, version, &mut bytes);
            } else {
                let payload = self.payload_of(publisher, message.tag as u32);
                let of = &self.book.publishers[publisher as usize];
                let (qos, retain, topic) = (of.qos, of.retain, &of.topic);
                let (packet_id, properties) = (Some(message.packet_id), Properties::EMPTY);
                Publish { dup: true, qos, retain, topic, packet_id, properties, payload: &payload }
                    .encode(version, &mut bytes);
            }
            io.write(token, &bytes);
            self.runner.returns.resent += 1;
        }
    }

    /// The broker has forgotten: what it never acknowledged is published anew. What it had at QoS 2
    /// (PUBREC) may be delivered already, and is not published twice.
    fn publish_again(&mut self, publisher: u32, client: u32, io: &mut Io, token: Token) {
        let open: Vec<_> = self.clients[client as usize].open_messages().collect();
        self.clients[client as usize].forget_open();
        for message in open {
            let tag = message.tag;
            if message.is_released {
                self.book.open -= 1;
                self.book.publishers[publisher as usize].orphans.push(tag as u32);
                continue;
            }
            let payload = self.payload_of(publisher, tag as u32);
            let of = &self.book.publishers[publisher as usize];
            let (qos, retain, topic) = (of.qos, of.retain, std::rc::Rc::clone(&of.topic));
            let message = (&*topic, &payload[..], qos, retain);
            let now = now_us();
            let Self { book, clients, .. } = self;
            let scratch = &mut Vec::new();
            let mut sink = ClientSink { io, token, client, book };
            let again = clients[client as usize].publish(message, tag, now, scratch, &mut sink);
            if again.is_ok() {
                self.runner.returns.resent += 1;
            } else {
                self.book.open -= 1;
                self.book.publishers[publisher as usize].orphans.push(tag as u32);
            }
        }
    }

    /// Cuts the client whose will is due: the broker publishes it.
    pub(super) fn leave_will(&mut self, publisher: u32, intended_us: u64, now: u64, io: &mut Io) {
        let client = self.book.publishers[publisher as usize].client;
        if self.book.slots[client as usize].state != State::Ready {
            return;
        }
        self.cut(client, now, io);
        if let Some(after_ms) = self.plan.course.return_after_ms {
            self.return_at(client, now + u64::from(after_ms) * 1_000);
        }
        let of = &mut self.book.publishers[publisher as usize];
        of.cut_us = intended_us;
        of.note_send(now.saturating_sub(intended_us));
        self.book.backlog -= 1;
        self.book.recorder.counts.published += 1;
        self.book.owed += u64::from(self.book.audit.receivers_of(publisher));
    }

    /// Adds what the turn brought to the pulse.
    pub(super) fn beat(&mut self) {
        let runner = &mut self.runner;
        let (true, Some((start_us, _))) = (runner.has_pulse, self.clock.measure_us()) else {
            return;
        };
        runner.pulse.start_us = start_us;
        let (counts, before) = (self.book.recorder.counts, runner.before);
        let (gone, back) = (runner.gone(), runner.returns.returned);
        let (gone_before, back_before) = (runner.gone_before, runner.back_before);
        runner.before = counts;
        (runner.gone_before, runner.back_before) = (gone, back);
        if let Some(beat) = runner.pulse.beat(now_us()) {
            beat.received += (counts.received - before.received) as u32;
            beat.acknowledged += (counts.acknowledged - before.acknowledged) as u32;
            beat.gone += (gone - gone_before) as u32;
            beat.back += (back - back_before) as u32;
        }
    }

    /// Clients that were there once, are away, and are to come back.
    pub(super) fn away(&self) -> u64 {
        if !self.is_returning() {
            return 0;
        }
        let is_away = |slot: &&Slot| {
            let is_back = matches!(slot.state, State::Ready | State::Done | State::Failed);
            slot.lost_us > 0 && !is_back
        };
        self.book.slots.iter().filter(is_away).count() as u64
    }

    /// What has become of the subscribers' sessions, and of what was owed to them.
    pub(super) fn sessions(&self) -> Sessions {
        let mut sessions = Sessions::default();
        let kept = |slot: &Slot| if slot.lost_us > 0 { SessionKept::Away } else { slot.session };
        for slot in &self.book.slots {
            let group = &self.plan.groups[usize::from(slot.group)];
            if !group.subscriptions.is_empty() {
                let kept = if group.is_shared() { SessionKept::Shared } else { kept(slot) };
                sessions.entry(kept).or_default().clients += 1;
            }
        }
        for (client, is_shared, of) in self.book.audit.troubles() {
            let Some(slot) = self.book.slots.get(client as usize) else { continue };
            let kept = if is_shared { SessionKept::Shared } else { kept(slot) };
            let sum = sessions.entry(kept).or_default();
            sum.lost += of.lost;
            sum.duplicated += of.duplicated;
        }
        sessions
    }

    /// Whether nothing of the steps is under way any more: all are back, and the broker has closed
    /// what was taken over.
    pub(super) fn is_course_settled(&self) -> bool {
        self.away() == 0 && self.runner.taken_over.is_empty()
    }

    /// Clients that came late and were not let in by the end.
    fn fail_joining(&mut self) {
        for client in 0..self.book.slots.len() as u32 {
            let slot = &self.book.slots[client as usize];
            if slot.state == State::Connecting && slot.lost_us == 0 && self.ending.end.is_none() {
                self.book.unreachable(client, "no CONNACK by the end");
            }
        }
    }

    /// The books are closed: what was lost is put where it was due, and who is away is counted.
    pub(super) fn close_course(&mut self) {
        self.runner.returns.away_at_end = self.away();
        self.fail_joining();
        self.runner.returns.old_left_open = self.runner.taken_over.len() as u64;
        if !self.runner.has_pulse {
            return;
        }
        let Self { runner, book, publishing, .. } = self;
        for anomaly in book.audit.anomalies().iter().filter(|a| a.kind == AnomalyKind::Lost) {
            let slot = book.slots.get(anomaly.publisher as usize);
            let Some(publisher) = slot.and_then(|slot| slot.publisher) else { continue };
            let of = &book.publishers[publisher as usize];
            let Some(due_us) = publishing.intended_of(of, anomaly.sequence) else { continue };
            if let Some(beat) = runner.pulse.beat(due_us) {
                beat.lost += 1;
            }
        }
    }

    /// Cuts what clients have left behind.
    pub(super) fn drop_old(&mut self, io: &mut Io) {
        self.runner.taken_over.drain().for_each(|token| io.abort(token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_a_step_act_evenly_and_again_until_measure_ends() {
        let step = ClientStep {
            at_ms: 100,
            group: 0,
            action: Action::Cut,
            clients: 4,
            over_ms: 40,
            for_ms: 0,
            every_ms: 500,
        };
        let mut cursor = Cursor { step, first: 0, round: 0, acted: 0 };
        let mut times = Vec::new();
        while let Some(due_us) = cursor.due_us(1_000_000) {
            times.push(due_us / 1_000);
            cursor.advance();
        }
        assert_eq!(times, [100, 110, 120, 130, 600, 610, 620, 630]);
    }
}
