//! Bases: what is there is logged anew, in slices between the other inputs, so that all that was
//! logged before means nothing.

use super::Shard;
use super::slices::Work;
use crate::anew::{SessionAnew, retained_record};
use crate::base::{Cycle, Renamed};
use crate::keys::{Claim, Lsn, Micros, SessionKey};
use crate::own::is_brokers_own;
use crate::parcel::{Content, Parcel};
use crate::record::Record;
use crate::session::Session;
use crate::sink::Sink;
use std::sync::Arc;

/// Steps of a record, beside the bytes of a message.
const RECORD_STEPS: u64 = 2;

/// Steps of a retained message, which is searched for.
const RETAINED_STEPS: u64 = 8;

/// Bytes that are copied in a step.
pub(super) const COPIED_BYTES: u64 = 1_024;

impl Shard {
    /// Begins to log anew all that is there, unless that is on its way already. It goes on by
    /// itself, a slice whenever the one before is committed; [`Shard::base`] says when it is done.
    ///
    /// The first base of a log is that of the start: it takes up what [`Shard::restored`] brings,
    /// and goes on until [`Shard::end_base`].
    pub fn begin_base(&mut self, now: Micros, sink: &mut impl Sink) {
        let is_first = self.log.base().is_none();
        if self.log.begin_base(sink) && !is_first {
            self.slices.put_off(Work::Base, now);
        }
    }

    /// Takes up what was in a log, and logs it anew. Comes between [`Shard::begin_base`] and
    /// [`Shard::end_base`].
    pub fn restored(&mut self, parcel: Parcel, now: Micros, sink: &mut impl Sink) {
        let client_id = parcel.client_id().map(Box::from);
        let retained = match &parcel.0 {
            Content::Retained(message) => Some(Arc::clone(message)),
            Content::Session(..) | Content::Admitted(..) => None,
        };
        self.arrived(parcel, None, now, sink);
        let key = client_id.and_then(|client_id: Box<str>| self.clients.find(&client_id));
        let Some(mut cycle) = self.log.take_cycle() else { return };
        if let Some(key) = key {
            self.log_session(key, &mut cycle.renamed, sink);
            self.look_at_length(key, sink);
        }
        if let Some(message) = retained {
            self.log.append(&retained_record(&message), sink);
        }
        self.log.put_back(cycle);
    }

    /// Ends the base that is on its way, with all that is still to be logged for it.
    pub fn end_base(&mut self, now: Micros, sink: &mut impl Sink) {
        while let Some(cycle) = self.log.take_cycle() {
            self.slices.begin();
            self.log_slice(cycle, now, sink);
        }
    }

    /// Where the last base that is done begins and ends in the log. Once its end is committed, what
    /// comes before its beginning means nothing.
    pub fn base(&self) -> Option<(Lsn, Lsn)> {
        self.log.base()
    }

    /// Whether a base is on its way.
    pub fn is_basing(&self) -> bool {
        self.log.is_basing()
    }

    /// The turn of the base has come.
    pub(super) fn base_in_turn(&mut self, now: Micros, sink: &mut impl Sink) {
        let Some(cycle) = self.log.take_cycle() else { return };
        self.log_slice(cycle, now, sink);
        self.go_on_with_base(now);
    }

    /// Gives the base another turn, if what it logged is committed.
    pub(super) fn go_on_with_base(&mut self, now: Micros) {
        if self.log.base_goes_on() {
            self.slices.put_off(Work::Base, now);
        }
    }

    /// Logs anew what the steps of this input allow.
    fn log_slice(&mut self, mut cycle: Box<Cycle>, now: Micros, sink: &mut impl Sink) {
        let is_over = self.log_sessions(&mut cycle, sink)
            && (cycle.is_first || self.log_retained(&mut cycle, now, sink))
            && self.log_outbox(&mut cycle, sink)
            && self.forget_renamed(&mut cycle);
        if is_over {
            self.log.end_base(&cycle, sink);
        } else {
            cycle.goes_on_at = Some(self.log.last());
            self.log.put_back(cycle);
        }
    }

    /// Says whether that was all of them.
    fn log_sessions(&mut self, cycle: &mut Cycle, sink: &mut impl Sink) -> bool {
        while cycle.session < self.log.sessions_end() {
            if self.slices.is_spent() {
                return false;
            }
            self.slices.add(1);
            let key = SessionKey(cycle.session as u32);
            cycle.session += 1;
            if self.log.session(key).is_some_and(|session| session < cycle.base) {
                self.log_session(key, &mut cycle.renamed, sink);
            }
        }
        true
    }

    /// Says whether that was all of them. Expired ones are dropped on the way: what is not logged
    /// anew is not in the store.
    fn log_retained(&mut self, cycle: &mut Cycle, now: Micros, sink: &mut impl Sink) -> bool {
        let Self { retained, log, slices, .. } = self;
        // One that was published behind this place meanwhile has been logged then.
        while !slices.is_spent() {
            let after = cycle.retained.as_ref().map(|message| &*message.topic);
            let Some(message) = retained.next(after).map(Arc::clone) else { return true };
            slices.add(RETAINED_STEPS + message.bytes() / COPIED_BYTES);
            if message.is_expired(now) {
                retained.drop_expired(&message.topic);
            } else if !is_brokers_own(&message.topic) {
                log.append(&retained_record(&message), sink);
            }
            cycle.retained = Some(message);
        }
        false
    }

    /// Says whether all are forgotten.
    fn forget_renamed(&mut self, cycle: &mut Cycle) -> bool {
        while !self.slices.is_spent() {
            if !cycle.renamed.forget_one() {
                return true;
            }
            self.slices.add(1);
        }
        false
    }

    /// Logs a session that came from another node, if it outlives its connection.
    pub(super) fn log_taken(&mut self, key: SessionKey, sink: &mut impl Sink) {
        if self.log.is_on() && self.clients[key].outlives_connection() {
            self.log_session(key, &mut Renamed::default(), sink);
            self.look_at_length(key, sink);
        }
    }

    /// Writes all of a session, under a new name: older records of it mean nothing then. One that
    /// had a name is gone under that one: this says that its copy is whole.
    fn log_session(&mut self, key: SessionKey, renamed: &mut Renamed, sink: &mut impl Sink) {
        let subscriptions = self.moved_subscriptions(key);
        let claim = self.claims.rank(key);
        // One whose CONNACK waits is connected, as its CONNECT has recorded it.
        let conn = self.connection_of(key);
        // One that leaves has none any more, but would have it again if it stayed.
        let leaving_until = self.claims.leaving_until(key);
        let Self { answers, clients, connections, log, slices, .. } = self;
        let records = log.records();
        let Session { client_id, expiry_s, window, cold, .. } = &clients[key];
        let absence = cold.as_ref().and_then(|cold| cold.absence.as_deref());
        let live = conn.and_then(|conn| connections.live(conn));
        let deadlines = absence.map(|absence| (absence.expires_at, absence.will_at));
        let noted = cold.iter().flat_map(|cold| &cold.unreleased).copied();
        let anew = SessionAnew {
            client_id,
            expiry_s: *expiry_s,
            will: match conn {
                None => absence.and_then(|absence| absence.will.as_deref()),
                Some(_) => live.and_then(|live| live.cold.as_ref()?.will.as_deref()),
            },
            deadlines: conn.is_none().then(|| deadlines.unwrap_or((leaving_until, None))),
            subscriptions: &subscriptions,
            // Others are still to say whether they take a message: it is noted after that.
            unreleased: noted.filter(|&packet_id| !answers.is_to_note(key, packet_id)),
            window,
        };
        let (session, bytes) = anew.tell(renamed, &mut |record| log.append(record, sink));
        if let Some(before) = log.session(key) {
            log.append(&Record::Gone { session: before }, sink);
        }
        if claim != Claim::NONE {
            log.append(&Record::Claimed { session, claim }, sink);
        }
        log.name(key, session);
        slices.add((log.records() - records) * RECORD_STEPS + bytes / COPIED_BYTES);
    }
}
