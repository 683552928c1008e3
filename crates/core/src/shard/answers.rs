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
use weir_wire::packet::PINGRESP;

/// How long PINGRESP waits for the answers before it.
const PONG_AFTER: Micros = Micros(1_000_000);

impl Shard {
    /// The end of a turn, before its letters leave: other shards get their receipts, one for all
    /// letters of the turn.
    pub fn turn_end(&mut self, sink: &mut impl Sink) {
        if !self.claims.unseen.is_empty() {
            self.seal_those_that_wait(sink);
        }
        while let Some(owed) = self.answers.receipts.take_owed() {
            let Owed { to, number, retains, pending, done } = owed;
            let is_short = self.bounds.is_short;
            sink.mail(to, Mail::Receipt { number, pending, done, retains, is_short });
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
        let ticket = self.answers.insert(Some(conn), reply, 0, now);
        self.hold(conn, ticket);
    }

    /// PINGRESP says that the broker is there: it does not stand behind an answer that waits for
    /// long, as one does for a node that is lost.
    pub(super) fn on_pingreq(&mut self, conn: ConnKey, now: Micros, sink: &mut impl Sink) {
        let held = self.connections.held_answers(conn);
        let first = held.and_then(|held| self.answers.get(*held.front()?));
        if first.is_some_and(|answer| answer.since + PONG_AFTER <= now) {
            sink.write(conn, &PINGRESP);
        } else {
            self.reply(conn, &PINGRESP, now, sink);
        }
    }

    /// As [`Shard::reply`], but after what the present request has recorded.
    pub(super) fn reply_logged(
        &mut self,
        conn: ConnKey,
        bytes: &[u8],
        now: Micros,
        sink: &mut impl Sink,
    ) {
        if self.log.logged().is_none() {
            return self.reply(conn, bytes, now, sink);
        }
        let reply = Reply::Packet(SmallVec::from_slice(bytes));
        let ticket = self.insert_answer(Some(conn), reply, 0, now);
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

    /// Whether what the connection has sent is not handled now, and then how many bytes of it are
    /// consumed. It waits until the last packet is handled whole, or some answers have left; the
    /// rest of a refused packet is skipped, and whatever follows a DISCONNECT.
    #[inline(never)]
    pub(super) fn set_aside(
        &mut self,
        conn: ConnKey,
        bytes: &[u8],
        now: Micros,
        sink: &mut impl Sink,
    ) -> Option<usize> {
        let held_max = self.bounds.limits.answers_held_max as usize;
        let cold = self.connections.live_mut(conn)?.cold.as_mut()?;
        if cold.is_leaving {
            return Some(bytes.len());
        }
        if cold.skipped_bytes > 0 {
            let skipped = cold.skipped_bytes.min(bytes.len());
            cold.skipped_bytes -= skipped;
            return Some(skipped + self.received(conn, &bytes[skipped..], now, sink));
        }
        cold.is_paused |= cold.answers.len() >= held_max;
        if !cold.is_unread() && cold.parked.is_none() {
            return None;
        }
        sink.pause(conn);
        Some(0)
    }

    /// A letter with a number was handled: its sender gets a receipt at the end of the turn, or
    /// once what the letter recorded here and mailed on outlives a crash too.
    #[inline]
    pub(super) fn answer_letter(&mut self, from: ShardId, number: u64, now: Micros) {
        if !self.must_wait() {
            return self.answers.receipts.note(from, number);
        }
        self.answers.receipts.note_pending(from, number);
        let reply = Reply::Receipt { from, number };
        self.insert_answer(None, reply, 0, now);
    }

    /// Another shard has all letters up to this one; some are pending, others no longer.
    pub(super) fn on_receipt(
        &mut self,
        from: ShardId,
        number: u64,
        pending: &[u64],
        done: &[u64],
        now: Micros,
        sink: &mut impl Sink,
    ) {
        if !self.unreceived.is_empty() {
            self.note_received((from, number), (pending, done), now, sink);
        }
        if self.answers.receipts.has_list(from, number) {
            self.answer_all_claimants(now, sink);
        }
        while let Some(ticket) = self.answers.receipts.take_met(from, number, pending) {
            self.met(ticket, now, sink);
        }
        for &number in done {
            if let Some(ticket) = self.answers.receipts.take_done(from, number) {
                self.met(ticket, now, sink);
            }
        }
    }

    /// One of the things that an answer waits for has happened.
    pub(super) fn met(&mut self, ticket: Ticket, now: Micros, sink: &mut impl Sink) {
        match self.answers.meet(ticket) {
            None => {}
            Some(_) if self.log.is_on() && self.waits_for_note(ticket, sink) => {}
            Some(_) if self.is_claim(ticket) => self.claimed(ticket, now, sink),
            Some(Some(conn)) => self.send_answers(conn, now, sink),
            Some(None) => {
                if let Some(session) = self.finish_unseen(ticket, now, sink) {
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
                Reply::Publish(packet_id) => self.send_held(conn, packet_id, now, sink),
                Reply::ConnAck(bytes) => self.greet_arrived(conn, &bytes, now, sink),
                Reply::Ack(ack) => self.answer_publish(conn, ack, now, sink),
                Reply::Subscribe(subscribe) => self.write_suback(conn, *subscribe, now, sink),
                Reply::Receipt { .. }
                | Reply::Noted { .. }
                | Reply::Letters(_)
                | Reply::Retained { .. }
                | Reply::Verdict
                | Reply::Claim(_)
                | Reply::Switched { .. }
                | Reply::Taken { .. } => {}
            }
        }
        if self.is_leaving(conn) && !self.holds_answers(conn) {
            return self.leave(conn, now, sink);
        }
        let held_max = self.bounds.limits.answers_held_max as usize;
        let Some(connection) = self.connections.get_mut(conn) else { return };
        if let Some(cold) = connection.live_mut().and_then(|live| live.cold.as_mut())
            && (cold.is_paused || cold.is_put_back)
            && cold.answers.len() <= if cold.is_put_back { 0 } else { held_max / 2 }
        {
            (cold.is_paused, cold.is_put_back) = (false, false);
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
            self.forget_question(ticket);
        }
    }

    /// Nobody waits any more for an answer to what was asked of a client. What was claimed comes
    /// all the same.
    pub(super) fn forget_question(&mut self, ticket: Ticket) {
        match self.answers.get_mut(ticket) {
            Some(Answer { conn, reply: Reply::Claim(_), .. }) => *conn = None,
            _ => drop(self.answers.remove(ticket)),
        }
    }

    fn is_claim(&self, ticket: Ticket) -> bool {
        self.claims.is_on()
            && matches!(self.answers.get(ticket), Some(Answer { reply: Reply::Claim(_), .. }))
    }

    /// The connection is gone, and with it whom its answers were for. What a session asked for is
    /// done all the same.
    pub(super) fn release_answers(
        &mut self,
        connection: &Connection,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Phase::Live(Live { cold: Some(cold), .. }) = &connection.phase else { return };
        for &ticket in &cold.answers {
            match self.answers.get_mut(ticket) {
                Some(Answer { conn, open: 1.., reply: Reply::Subscribe(_), .. }) => *conn = None,
                Some(Answer { reply: Reply::Ack(_), .. }) => self.lose_ack(ticket),
                // An absent session takes nothing: what begins goes on when it is back.
                _ => drop(self.finish_unseen(ticket, now, sink)),
            }
        }
    }

    /// Does what an answer that no client gets is for: retained messages may go to the session, a
    /// shard has its receipt.
    fn finish_unseen(
        &mut self,
        ticket: Ticket,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Option<SessionKey> {
        match self.answers.remove(ticket)?.reply {
            Reply::Subscribe(mut subscribe) => {
                self.take_effect(subscribe.session, &mut subscribe.done, now);
                return Some(subscribe.session);
            }
            Reply::Receipt { from, number } => {
                self.note_gone_on(from, number, false, sink);
                self.answers.receipts.note_done(from, number);
            }
            Reply::Noted { from, number, retains } => {
                self.outbox.noting -= 1;
                self.answers.receipts.note_done(from, number);
                self.answers.receipts.note_retains(from, &retains);
            }
            Reply::Retained { from, ticket, refused } => {
                sink.mail(from, Mail::Retained { ticket, refused });
            }
            Reply::Letters(letters) => self.send_letters(*letters, now, sink),
            Reply::Switched { to, way } => {
                self.outbox.noting -= 1;
                self.switch(to, way, now, sink);
            }
            Reply::Taken { client_id, way } => self.say_taken(&client_id, way, now, sink),
            Reply::Ack(_)
            | Reply::Packet(_)
            | Reply::Publish(_)
            | Reply::ConnAck(_)
            | Reply::Verdict
            | Reply::Claim(_) => {}
        }
        None
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
        let is_paused = cold.is_some_and(|cold| cold.is_unread() || cold.is_leaving);
        if is_paused {
            connection.heard(now);
        }
        is_paused
    }
}
