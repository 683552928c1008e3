//! Answers to clients, in the order of their requests: at once, or when what they wait for has
//! happened.

use super::Shard;
use super::connection::{Connection, Live, Phase, Refusal};
use crate::answers::{Answer, Reply};
use crate::keys::Ticket;
use crate::keys::{ConnKey, Micros, SessionKey, ShardId};
use crate::mail::Mail;
use crate::receipts::Owed;
use crate::sink::Sink;
use smallvec::SmallVec;
use weir_wire::ReasonCode;

impl Shard {
    /// The end of a turn, before its letters leave: other shards get their receipts, one for all
    /// letters of the turn.
    pub fn turn_end(&mut self, sink: &mut impl Sink) {
        while let Some(Owed { to, number, wants_retains }) = self.answers.receipts.take_owed() {
            let retains = if wants_retains { self.retained.stamps.sent() } else { Box::default() };
            sink.mail(to, Mail::Receipt { number, retains });
        }
    }

    /// Answers a request with a packet that waits for nothing but the answers before it.
    #[inline]
    pub(super) fn reply(&mut self, conn: ConnKey, bytes: &[u8], now: Micros, sink: &mut impl Sink) {
        if !self.holds_answers(conn) {
            return sink.write(conn, bytes);
        }
        let reply = Reply::Packet(SmallVec::from_slice(bytes));
        self.answers.begin();
        let ticket = self.answers.insert(conn, reply, 0, now);
        self.hold(conn, ticket);
    }

    /// Whether an answer of this connection waits.
    #[inline]
    pub(super) fn holds_answers(&self, conn: ConnKey) -> bool {
        !self.answers.is_empty()
            && self.connections.held_answers(conn).is_some_and(|held| !held.is_empty())
    }

    /// Puts an answer behind those that wait already.
    pub(super) fn hold(&mut self, conn: ConnKey, ticket: Ticket) {
        let live = self.connections.get_mut(conn).and_then(Connection::live_mut);
        match live {
            Some(live) => live.cold().answers.push_back(ticket),
            None => drop(self.answers.remove(ticket)),
        }
    }

    /// Whether what the connection sends waits: until its last packet is handled whole, or some of
    /// its answers have left.
    #[inline(never)]
    pub(super) fn must_wait(&mut self, conn: ConnKey) -> bool {
        let held_max = self.bounds.limits.answers_held_max as usize;
        let live = self.connections.get_mut(conn).and_then(Connection::live_mut);
        let Some(cold) = live.and_then(|live| live.cold.as_mut()) else { return false };
        cold.is_paused |= cold.answers.len() >= held_max;
        cold.is_paused || cold.parked.is_some()
    }

    /// Another shard has all letters up to this one.
    pub(super) fn on_receipt(
        &mut self,
        from: ShardId,
        number: u64,
        retains: &[u64],
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.retained.stamps.saw_sent(from, retains);
        while let Some(ticket) = self.answers.receipts.take_met(from, number) {
            self.met(ticket, now, sink);
        }
    }

    /// One of the things that an answer waits for has happened.
    pub(super) fn met(&mut self, ticket: Ticket, now: Micros, sink: &mut impl Sink) {
        match self.answers.meet(ticket) {
            None => {}
            Some(Some(conn)) => self.send_answers(conn, now, sink),
            Some(None) => {
                if let Some(session) = self.finish_unseen(ticket, now) {
                    self.replay(session, now, sink);
                }
            }
        }
    }

    /// Sends the connection's answers up to the first that has to wait.
    fn send_answers(&mut self, conn: ConnKey, now: Micros, sink: &mut impl Sink) {
        while let Some(ticket) = self.take_ready(conn) {
            let Some(Answer { reply, .. }) = self.answers.remove(ticket) else { continue };
            match reply {
                Reply::Packet(bytes) => sink.write(conn, &bytes),
                Reply::Ack(ack) => {
                    if let Some(session) = self.connections.session(conn) {
                        let (id, why) = ((ack.packet_id, ack.qos), (ack.reason, ack.detail));
                        self.write_ack(conn, session, id, why, sink);
                    }
                }
                Reply::Subscribe(subscribe) => self.write_suback(conn, *subscribe, now, sink),
                Reply::Verdict => {}
            }
        }
        let held_max = self.bounds.limits.answers_held_max as usize;
        let Some(connection) = self.connections.get_mut(conn) else { return };
        if let Some(cold) = connection.live_mut().and_then(|live| live.cold.as_mut())
            && cold.is_paused
            && cold.answers.len() <= held_max / 2
        {
            cold.is_paused = false;
            connection.heard(now);
            sink.resume(conn);
        }
    }

    fn take_ready(&mut self, conn: ConnKey) -> Option<Ticket> {
        let Self { connections, answers, .. } = self;
        let live = connections.get_mut(conn)?.live_mut()?;
        live.cold.as_mut()?.answers.pop_front_if(|&mut ticket| answers.is_ready(ticket))
    }

    /// The connection is gone: what the authentication port is still to say of it says nothing.
    pub(super) fn forget_questions(&mut self, connection: &Connection) {
        let asked = match &connection.phase {
            Phase::AwaitConnect(_) => None,
            Phase::AwaitAuth(waiting) => waiting.asked,
            Phase::Live(live) => live.cold.as_ref().and_then(|cold| cold.asked),
        };
        if let Some(ticket) = asked {
            self.answers.remove(ticket);
        }
    }

    /// The connection is gone, and with it whom its answers were for. What a session asked for is
    /// done all the same.
    pub(super) fn release_answers(&mut self, connection: &Connection, now: Micros) {
        let Phase::Live(Live { cold: Some(cold), .. }) = &connection.phase else { return };
        for &ticket in &cold.answers {
            match self.answers.get_mut(ticket) {
                Some(Answer { conn, open: 1.., reply: Reply::Subscribe(_), .. }) => *conn = None,
                // An absent session takes nothing: what begins goes on when it is back.
                _ => drop(self.finish_unseen(ticket, now)),
            }
        }
    }

    /// Does what an answer that nobody gets would have done: retained messages may go to the
    /// session.
    fn finish_unseen(&mut self, ticket: Ticket, now: Micros) -> Option<SessionKey> {
        let Reply::Subscribe(mut subscribe) = self.answers.remove(ticket)?.reply else {
            return None;
        };
        self.take_effect(subscribe.session, &mut subscribe.done, now);
        Some(subscribe.session)
    }

    /// No answer waits for ever: whoever waits for one too long is ended, and may ask again.
    pub(super) fn answers_due(&mut self, now: Micros, sink: &mut impl Sink) {
        for conn in self.answers.take_overdue(now) {
            let refusal = Refusal::new(
                ReasonCode::ImplementationSpecificError,
                "an answer took longer than it may",
            );
            self.end(conn, refusal, now, sink);
        }
    }

    /// A client from which nothing is read is not silent.
    pub(super) fn is_paused(&mut self, conn: ConnKey, now: Micros) -> bool {
        let Some(connection) = self.connections.get_mut(conn) else { return false };
        let cold = connection.live_mut().and_then(|live| live.cold.as_ref());
        let is_paused = cold.is_some_and(|cold| cold.is_paused);
        if is_paused {
            connection.heard(now);
        }
        is_paused
    }
}
