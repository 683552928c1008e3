//! What goes into the log of a session as a whole, and the answers that wait for it.

use super::Shard;
use super::rest::Common;
use super::slices::Work;
use crate::answers::Reply;
use crate::keys::{ConnKey, Lsn, Micros, SessionKey, Ticket};
use crate::record::Record;
use crate::session::Will;
use crate::sink::Sink;
use weir_wire::PacketId;
use weir_wire::packet::SubscriptionOptions;

/// Steps of an answer that waited.
const ANSWER_STEPS: u64 = 4;

impl Shard {
    /// Writes every change of what outlives a crash into [`Sink::log`] from here on. Comes before
    /// the first connection.
    pub fn keep_log(&mut self) {
        self.log.keep();
    }

    /// All records up to this one outlive a crash: the answers that promise it leave.
    pub fn committed(&mut self, lsn: Lsn, now: Micros, sink: &mut impl Sink) {
        self.slices.begin();
        self.log.note_committed(lsn);
        self.go_on_with_base(now);
        self.tell_safe(sink);
        self.answer_logged(now, sink);
        self.settle(now, sink);
        self.come_to_rest(now, sink);
    }

    /// Sends what waited for the log, as far as the steps of this input allow: after a disk that
    /// was slow it can be much.
    pub(super) fn answer_logged(&mut self, now: Micros, sink: &mut impl Sink) {
        while self.log.has_met() {
            if self.slices.is_spent() {
                if !std::mem::replace(&mut self.log.is_put_off, true) {
                    self.slices.put_off(Work::Log, now);
                }
                return;
            }
            let Some(ticket) = self.log.take_met() else { return };
            self.slices.add(ANSWER_STEPS);
            self.met(ticket, now, sink);
        }
    }

    /// A request begins whose answer waits for what it mails and records.
    #[inline]
    pub(super) fn begin_answer(&mut self) {
        self.answers.begin();
        self.log.begin();
    }

    /// Whether the answer to the present request has to wait.
    #[inline]
    pub(super) fn must_wait(&self) -> bool {
        self.answers.has_mailed() || self.log.logged().is_some() || self.outbox.own().is_some()
    }

    /// An answer that waits for what the present request mailed and recorded, and for `more`
    /// beside it.
    pub(super) fn insert_answer(
        &mut self,
        conn: Option<ConnKey>,
        reply: Reply,
        more: u32,
        now: Micros,
    ) -> Ticket {
        let logged = self.log.logged();
        let more = more + u32::from(logged.is_some());
        let ticket = self.answers.insert(conn, reply, more, now);
        if let Some(lsn) = logged {
            self.log.wait(lsn, ticket);
        }
        ticket
    }

    /// An answer that waits already waits for what the present request mailed and recorded too.
    pub(super) fn add_waits(&mut self, ticket: Ticket) {
        self.answers.add_mailed(ticket);
        if let Some(lsn) = self.log.logged()
            && let Some(answer) = self.answers.get_mut(ticket)
        {
            answer.open += 1;
            self.log.wait(lsn, ticket);
        }
    }

    /// A message of QoS 2 is where it has to be: from now on its identifier is no new one, in the
    /// commit of what was recorded of the message here.
    pub(super) fn log_noted(
        &mut self,
        key: SessionKey,
        packet_id: Option<PacketId>,
        sink: &mut impl Sink,
    ) {
        if let Some(packet_id) = packet_id {
            self.log.append_of(key, |session| Record::Noted { session, packet_id }, sink);
        }
    }

    /// All other shards have a message of QoS 2. Its identifier is recorded only now: otherwise a
    /// crash of those shards would lose what its publisher is told to have been delivered already.
    /// Says whether the PUBREC waits for that.
    pub(super) fn waits_for_note(&mut self, ticket: Ticket, sink: &mut impl Sink) -> bool {
        let Self { answers, clients, log, .. } = self;
        let Some(answer) = answers.get_mut(ticket) else { return false };
        let Reply::Ack(ack) = &mut answer.reply else { return false };
        let is_to_note = std::mem::take(&mut ack.is_to_note)
            && !ack.reason.is_error()
            && clients[ack.session].is_unreleased(ack.packet_id);
        let Some(session) = log.session(ack.session).filter(|_| is_to_note) else { return false };
        let lsn = log.append(&Record::Noted { session, packet_id: ack.packet_id }, sink);
        answer.open += 1;
        log.wait(lsn, ticket);
        true
    }

    /// A filter was granted, and is in force.
    pub(super) fn log_subscribed(
        &mut self,
        key: SessionKey,
        name: &str,
        options: SubscriptionOptions,
        common: &Common,
        sink: &mut impl Sink,
    ) {
        let (condition, subscription_id) = (common.condition.as_deref(), common.subscription_id);
        let record =
            |session| Record::Subscribed { session, name, condition, options, subscription_id };
        self.log.append_of(key, record, sink);
    }

    /// A client is connected: its session is durable from now on, or no longer.
    #[inline]
    pub(super) fn log_connected(
        &mut self,
        key: SessionKey,
        will: Option<&Will>,
        sink: &mut impl Sink,
    ) {
        if self.log.is_on() {
            self.log_session_of(key, will, sink);
        }
    }

    fn log_session_of(&mut self, key: SessionKey, will: Option<&Will>, sink: &mut impl Sink) {
        let Self { clients, log, .. } = self;
        let session = &clients[key];
        if !session.outlives_connection() {
            return log.end_session(key, sink);
        }
        let named = log.session(key);
        let record = Record::Session {
            session: named.unwrap_or(Lsn::NONE),
            client_id: &session.client_id,
            expiry_s: session.expiry_s,
            will: will.map(Will::record),
        };
        let lsn = log.append(&record, sink);
        if named.is_none() {
            log.name(key, lsn);
        }
    }
}
