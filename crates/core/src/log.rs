//! What a shard knows of its log: which sessions are in it, how far it is committed, and which
//! answers wait for that.
//!
//! The log itself is the shell's, behind [`Sink::log`]. A session is durable if it outlives its
//! connection and a log is kept; of others nothing is written, and nobody waits.

use crate::base::Cycle;
use crate::keys::{Lsn, SessionKey, Ticket};
use crate::message::Delivery;
use crate::record::Record;
use crate::sink::Sink;
use std::collections::VecDeque;

/// The log of a shard, as seen from inside.
#[derive(Debug, Default)]
pub(crate) struct Log {
    is_on: bool,
    /// The last record.
    last: Lsn,
    /// All records up to this one outlive a crash.
    committed: Lsn,
    /// The last record before the present request, or the last that was committed since.
    mark: Lsn,
    /// The last that a session is over.
    gone: Lsn,
    /// What the durable sessions are called in the log, by their keys; nothing without a log.
    sessions: Vec<Lsn>,
    /// Answers that wait for a record to be committed, in the order of the log.
    waits: VecDeque<(Lsn, Ticket)>,
    /// Whether answers that may leave wait for a later turn.
    pub(crate) is_put_off: bool,
    records: u64,
    /// Where the last base that is done begins and ends.
    base: Option<(Lsn, Lsn)>,
    /// The one that is on its way.
    cycle: Option<Box<Cycle>>,
}

/// Places for waiting answers whose memory is kept.
const WAITS_KEPT: usize = 1_024;

impl Log {
    pub(crate) fn keep(&mut self) {
        self.is_on = true;
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Records so far.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Waits of answers, of those included that nobody is there for any more.
    pub(crate) fn waits(&self) -> usize {
        self.waits.len()
    }

    /// A request begins: its answer waits for what is recorded from here on.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.mark = self.last;
    }

    /// The last record of the present request, if it is not committed yet.
    #[inline]
    pub(crate) fn logged(&self) -> Option<Lsn> {
        (self.last > self.mark).then_some(self.last)
    }

    /// The present request changes nothing because of what others have recorded: its answer waits
    /// for that.
    pub(crate) fn rely_on_all(&mut self) {
        self.mark = self.committed;
    }

    /// `ticket` waits until this record, the last so far, is committed.
    pub(crate) fn wait(&mut self, lsn: Lsn, ticket: Ticket) {
        self.waits.push_back((lsn, ticket));
    }

    /// `ticket` waits until all that was recorded so far is committed.
    pub(crate) fn wait_for_last(&mut self, ticket: Ticket) {
        self.wait(self.last, ticket);
    }

    /// All up to this record outlives a crash from now on.
    pub(crate) fn note_committed(&mut self, lsn: Lsn) {
        debug_assert!(lsn <= self.last || !self.is_on, "only what was recorded is committed");
        self.committed = lsn.max(self.committed);
        // Nobody waits for what was committed before the answer was made.
        self.mark = self.mark.max(self.committed);
    }

    pub(crate) fn committed(&self) -> Lsn {
        self.committed
    }

    /// Whether an answer may leave.
    pub(crate) fn has_met(&self) -> bool {
        self.waits.front().is_some_and(|&(lsn, _)| lsn <= self.committed)
    }

    /// The next answer that waited for what is committed by now.
    pub(crate) fn take_met(&mut self) -> Option<Ticket> {
        let Self { waits, committed, .. } = self;
        let (_, ticket) = waits.pop_front_if(|&mut (lsn, _)| lsn <= *committed)?;
        if waits.is_empty() {
            // The memory of a slow disk's burst goes with it.
            waits.shrink_to(WAITS_KEPT);
        }
        Some(ticket)
    }

    /// What the session is called in the log, if it is durable.
    #[inline]
    pub(crate) fn session(&self, key: SessionKey) -> Option<Lsn> {
        self.sessions.get(key.0 as usize).copied().filter(|&session| session != Lsn::NONE)
    }

    pub(crate) fn append(&mut self, record: &Record<'_>, sink: &mut impl Sink) -> Lsn {
        debug_assert!(self.is_on, "nothing is recorded without a log");
        let lsn = sink.log(record);
        debug_assert!(lsn > self.last || lsn == Lsn::NONE, "the log grows");
        self.last = lsn.max(self.last);
        self.records += 1;
        lsn
    }

    /// Appends the record that is made of a durable session's name; nothing for others.
    #[inline]
    pub(crate) fn append_of<'r>(
        &mut self,
        key: SessionKey,
        record: impl FnOnce(Lsn) -> Record<'r>,
        sink: &mut impl Sink,
    ) {
        if let Some(session) = self.session(key) {
            self.append(&record(session), sink);
        }
    }

    /// A session is durable from its first record on, which names it.
    pub(crate) fn name(&mut self, key: SessionKey, session: Lsn) {
        let at = key.0 as usize;
        if self.sessions.len() <= at {
            self.sessions.resize(at + 1, Lsn::NONE);
        }
        self.sessions[at] = session;
    }

    /// The session is over, or ends with its connection from now on.
    pub(crate) fn end_session(&mut self, key: SessionKey, sink: &mut impl Sink) {
        if let Some(session) = self.session(key) {
            self.sessions[key.0 as usize] = Lsn::NONE;
            self.gone = self.append(&Record::Gone { session }, sink);
        }
    }

    /// Whether a session is over that would be back after a crash now.
    pub(crate) fn may_bring_back(&self) -> bool {
        self.gone > self.committed
    }

    /// Begins a base, unless one is on its way. Says whether it did.
    pub(crate) fn begin_base(&mut self, sink: &mut impl Sink) -> bool {
        let begins = self.is_on && self.cycle.is_none();
        if begins {
            let base = self.append(&Record::Base, sink);
            self.cycle = Some(Box::new(Cycle::new(base, self.base.is_none())));
        }
        begins
    }

    pub(crate) fn take_cycle(&mut self) -> Option<Box<Cycle>> {
        self.cycle.take()
    }

    /// The base is not done yet.
    pub(crate) fn put_back(&mut self, cycle: Box<Cycle>) {
        self.cycle = Some(cycle);
    }

    /// All of the base is logged.
    pub(crate) fn end_base(&mut self, cycle: &Cycle, sink: &mut impl Sink) {
        let end = self.append(&Record::BaseEnd, sink);
        self.base = Some((cycle.base, end));
    }

    /// Whether the base waited until now for what it logged to be committed.
    pub(crate) fn base_goes_on(&mut self) -> bool {
        let Self { cycle, committed, .. } = self;
        let goes_on_at = cycle.as_mut().map(|cycle| &mut cycle.goes_on_at);
        goes_on_at.is_some_and(|at| at.take_if(|lsn| *lsn <= *committed).is_some())
    }

    pub(crate) fn base(&self) -> Option<(Lsn, Lsn)> {
        self.base
    }

    pub(crate) fn is_basing(&self) -> bool {
        self.cycle.is_some()
    }

    /// The last record.
    pub(crate) fn last(&self) -> Lsn {
        self.last
    }

    /// No durable session has a key as large.
    pub(crate) fn sessions_end(&self) -> usize {
        self.sessions.len()
    }

    /// The record of a message; made when the first durable session gets it.
    pub(crate) fn message(&mut self, delivery: &mut Delivery<'_>, sink: &mut impl Sink) -> Lsn {
        if delivery.lsn == Lsn::NONE {
            let Delivery { topic, payload, qos, retain, expires_at, .. } = *delivery;
            let properties = delivery.properties.as_bytes();
            let message = Record::Message { topic, payload, properties, qos, retain, expires_at };
            delivery.lsn = self.append(&message, sink);
        }
        delivery.lsn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slotmap::SlotMap;

    #[test]
    fn an_answer_waits_for_its_record_and_no_later_one() {
        let mut tickets = SlotMap::<Ticket, ()>::with_key();
        let (first, second) = (tickets.insert(()), tickets.insert(()));
        let mut log = Log { last: Lsn(9), ..Log::default() };
        log.wait(Lsn(5), first);
        log.wait(Lsn(9), second);
        log.note_committed(Lsn(4));
        assert_eq!((log.has_met(), log.take_met()), (false, None));
        log.note_committed(Lsn(8));
        assert_eq!((log.take_met(), log.take_met()), (Some(first), None));
        // What was committed stays so.
        log.note_committed(Lsn(1));
        log.note_committed(Lsn(9));
        assert_eq!((log.take_met(), log.waits()), (Some(second), 0));
    }

    #[test]
    fn a_request_has_logged_what_came_after_its_beginning() {
        let mut log = Log { last: Lsn(3), ..Log::default() };
        log.begin();
        assert_eq!(log.logged(), None);
        log.last = Lsn(5);
        assert_eq!(log.logged(), Some(Lsn(5)));
        log.begin();
        assert_eq!(log.logged(), None);
    }

    #[test]
    fn a_session_is_durable_while_it_has_a_name() {
        let mut log = Log::default();
        assert_eq!(log.session(SessionKey(2)), None);
        log.name(SessionKey(2), Lsn(7));
        assert_eq!(log.session(SessionKey(2)), Some(Lsn(7)));
        assert_eq!((log.session(SessionKey(1)), log.session(SessionKey(3))), (None, None));
    }
}
