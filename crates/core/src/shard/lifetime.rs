//! How connections and sessions end: by fault, by silence, by time.

use super::Shard;
use super::connection::{Connection, Phase, Refusal, connect_again};
use super::due::Overflowed;
use super::reasons::reason_string;
use crate::keys::{Claim, ConnKey, Micros, SessionKey};
use crate::mail::Mail;
use crate::message::Delivery;
use crate::record::Record;
use crate::routing::{News, SubscriptionRecord};
use crate::session::{Absence, Will};
use crate::sink::{Notice, Sink};
use crate::timers::Timer;
use weir_wire::packet::Disconnect;
use weir_wire::{Properties, ReasonCode, Version};

/// DISCONNECT with a reason and an empty property length.
const PLAIN_DISCONNECT_BYTES: usize = 4;

/// Within this time what lies unread in a silent connection's socket is read.
const UNREAD_GRACE: Micros = Micros(100_000);

/// Until a session is looked at again that would be over, but whose client waits for it.
const LOOK_AGAIN: Micros = Micros(1_000_000);

/// Steps of taking out a subscription.
const UNSUBSCRIBE_STEPS: u64 = 4;

impl Shard {
    /// Ends a connection for a fault of its peer, a bound, or the broker's own reasons: says why
    /// where the protocol lets it, then closes. The will is due.
    pub(super) fn end(
        &mut self,
        conn: ConnKey,
        refusal: Refusal,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        if self.is_leaving(conn) {
            return self.leave(conn, now, sink);
        }
        let Some(connection) = self.connections.get_mut(conn) else { return };
        let Refusal { reason, detail } = refusal;
        let Phase::Live(live) = &connection.phase else {
            return self.end_unknown(conn, refusal, sink);
        };
        let session = live.session;
        if live.version.is_v5()
            && let Some(attachment) = self.clients[session].attachment
        {
            // [MQTT-3.14.2-3]
            let mut properties = reason_string(&attachment, detail, PLAIN_DISCONNECT_BYTES);
            self.say_reference(reason, &mut properties);
            let mut bytes = Vec::new();
            Disconnect { reason, properties: properties.as_properties() }
                .encode(Version::V5, &mut bytes);
            if bytes.len() > attachment.packet_bytes_max as usize {
                bytes.clear();
                Disconnect { reason, properties: Properties::EMPTY }
                    .encode(Version::V5, &mut bytes);
            }
            sink.write(conn, &bytes);
        }
        self.stats.connections_ended += 1;
        self.stats.refusals.add(reason);
        let client_id = &self.clients[session].client_id;
        let (user_name, was_live) = (None, true);
        sink.notice(Notice::Ended { conn, client_id, user_name, was_live, reason, detail });
        sink.close(conn);
        self.forget_live(conn, true, now, sink);
    }

    /// Ends a connection that has no client yet.
    fn end_unknown(&mut self, conn: ConnKey, refusal: Refusal, sink: &mut impl Sink) {
        let Refusal { reason, detail } = refusal;
        match self.connections.get_mut(conn).map(|connection| &connection.phase) {
            Some(Phase::AwaitAuth(_)) if reason != ReasonCode::KeepAliveTimeout => {
                return self.refuse_unknown(conn, refusal, sink);
            }
            // Whoever sent the rest may not speak MQTT at all.
            _ if reason == ReasonCode::UnsupportedProtocolVersion => {
                return self.refuse_connect(conn, Version::V311, None, refusal, sink);
            }
            _ => {}
        }
        let connection = self.drop_connection(conn);
        let connect = match connection.as_ref().map(|connection| &connection.phase) {
            Some(Phase::AwaitAuth(waiting)) => connect_again(&waiting.connect),
            _ => None,
        };
        let (client_id, user_name) =
            connect.map_or(("", None), |connect| (connect.client_id, connect.user_name));
        self.stats.connections_ended += 1;
        self.stats.refusals.add(reason);
        let was_live = false;
        sink.notice(Notice::Ended { conn, client_id, user_name, was_live, reason, detail });
        sink.close(conn);
    }

    /// Takes the connection out of the table, with its timer.
    pub(super) fn drop_connection(&mut self, conn: ConnKey) -> Option<Connection> {
        self.timers.connections.clear(conn);
        let connection = self.connections.take(conn)?;
        self.stats.connections -= 1;
        if let Phase::Live(live) = &connection.phase {
            *self.stats.connected(live.version) -= 1;
        }
        self.forget_questions(&connection);
        Some(connection)
    }

    /// The connection is gone: its session goes too, or is absent from now on.
    pub(super) fn forget_live(
        &mut self,
        conn: ConnKey,
        is_will_due: bool,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(mut connection) = self.drop_connection(conn) else { return };
        let parked = connection.take_parked();
        self.release_answers(&connection, now, sink);
        self.leave_session(connection, is_will_due, now, sink);
        if let Some(parked) = parked {
            // What is subscribed to is so for good, and the rest is not.
            self.met(parked.ticket, now, sink);
        }
    }

    pub(super) fn leave_session(
        &mut self,
        mut connection: Connection,
        is_will_due: bool,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let will = connection.take_will();
        let Phase::Live(live) = connection.phase else { return };
        let key = live.session;
        self.arriving.remove(&key);
        let session = &mut self.clients[key];
        session.attachment = None;
        let expiry_s = session.expiry_s;
        let mut will = will.filter(|_| is_will_due);
        if expiry_s == 0 {
            will.into_iter().for_each(|will| self.owe_will(key, *will, sink));
            return self.end_session(key, sink);
        }
        if let Some(now_due) = will.take_if(|will| will.delay_s == 0) {
            self.owe_will(key, *now_due, sink);
        }
        let expires_at = (expiry_s != u32::MAX).then(|| now + Micros::from_secs(expiry_s));
        let will_at = will.as_ref().map(|will| now + Micros::from_secs(will.delay_s.min(expiry_s)));
        if let Some(at) = expires_at {
            self.timers.set(at, Timer::Expiry(key));
        }
        if let Some(at) = will_at {
            self.timers.set(at, Timer::Will(key));
        }
        if will.is_none() {
            self.tell_will_over(key, sink);
        }
        self.log.append_of(key, |session| Record::Absent { session, expires_at, will_at }, sink);
        if expires_at.is_some() || will_at.is_some() {
            self.clients[key].cold().absence =
                Some(Box::new(Absence { will, will_at, expires_at }));
        }
        self.tell_presence(key, sink);
    }

    /// The client is back, or its session is over: what was to happen in its absence will not.
    /// Returns the will that waited.
    pub(super) fn end_absence(&mut self, key: SessionKey) -> Option<Box<Will>> {
        self.take_absence(key)?.will
    }

    /// Takes the session's deadlines away.
    pub(super) fn take_absence(&mut self, key: SessionKey) -> Option<Box<Absence>> {
        let absence = self.clients[key].take_absence()?;
        if let Some(at) = absence.will_at {
            self.timers.clear(at, Timer::Will(key));
        }
        if let Some(at) = absence.expires_at {
            self.timers.clear(at, Timer::Expiry(key));
        }
        Some(absence)
    }

    /// The session is over: subscriptions, queue and all. A delayed will is due with it
    /// [MQTT-3.1.2-8].
    pub(super) fn end_session(&mut self, key: SessionKey, sink: &mut impl Sink) {
        if self.claims.is_any_moving() {
            self.end_moving(key, sink);
        }
        self.tell_will_over(key, sink);
        if let Some(will) = self.end_absence(key) {
            self.owe_will_at_end(key, *will, sink);
        }
        self.claims.hold(key, Claim::NONE);
        self.slices.add(self.answers.forget_session(key));
        let cold = self.clients[key].cold.as_mut();
        let records = cold.map(|cold| std::mem::take(&mut cold.subscriptions));
        for &record in records.iter().flat_map(|records| records.iter()) {
            self.end_subscription(record, sink);
            self.slices.add(UNSUBSCRIBE_STEPS);
        }
        self.log.end_session(key, sink);
        self.bury_queue(key);
        self.clients.remove(key);
    }

    /// Takes out the session's subscription at `at` of its records.
    pub(super) fn unsubscribe_at(&mut self, key: SessionKey, at: usize, sink: &mut impl Sink) {
        let session = &mut self.clients[key];
        let record = self.filters.take_record(&mut session.cold().subscriptions, at);
        session.drop_cold_if_unused();
        self.end_subscription(record, sink);
    }

    /// Takes a subscription out of the index, whose record its session has no more.
    fn end_subscription(&mut self, record: SubscriptionRecord, sink: &mut impl Sink) {
        let (moved, gone) = self.filters.unsubscribe(record);
        *self.stats.subscriptions_like(gone.as_ref()) -= 1;
        if let Some(moved) = moved {
            self.clients[moved].cold().subscriptions.moved(record);
        }
        for shard in self.place.others() {
            match gone.clone() {
                None => break,
                Some(News::Interest(filter)) => sink.mail(shard, Mail::InterestGone { filter }),
                Some(News::Member(share, member)) => {
                    sink.mail(shard, Mail::Left { share, member });
                }
            }
        }
    }

    /// The connection's timer: no CONNECT came, or nothing came for one and a half keep alives.
    pub(super) fn connection_due(&mut self, conn: ConnKey, now: Micros, sink: &mut impl Sink) {
        let timeout_s = self.bounds.limits.connect_timeout_s;
        let until = self.connections.get(conn).and_then(Connection::until);
        if until.is_some_and(|until| until <= now) {
            return self.time_is_over(conn, now, sink);
        }
        let by = self.connections.get(conn).and_then(Connection::authenticated_by);
        if by.is_some_and(|by| by <= now) {
            return self.end_unauthenticated(conn, now, sink);
        }
        if self.freeze.is_some()
            && let Some(connection) = self.connections.get_mut(conn)
        {
            connection.excuse(now);
        }
        let due = self.connections.get_mut(conn).and_then(|connection| connection.due(timeout_s));
        if due.is_none_or(|due| due > now) || self.is_paused(conn, now) {
            return self.set_deadline(conn, now);
        }
        if sink.has_unread(conn) {
            // The thread is behind, not the client.
            return self.timers.connections.set(conn, now + UNREAD_GRACE, now);
        }
        let is_live = self.connections.session(conn).is_some();
        let detail = if is_live { "" } else { "not connected in time" };
        // [MQTT-3.1.2-22]
        self.end(conn, Refusal::new(ReasonCode::KeepAliveTimeout, detail), now, sink);
    }

    /// What vouched for the connection's client does so no more.
    fn time_is_over(&mut self, conn: ConnKey, now: Micros, sink: &mut impl Sink) {
        if self.freeze.is_some() {
            return self.timers.connections.set(conn, now + UNREAD_GRACE, now);
        }
        let detail = "what it authenticated by has expired";
        self.end(conn, Refusal::new(ReasonCode::MaximumConnectTime, detail), now, sink);
    }

    /// Its client has begun to authenticate again, and was not done in time.
    fn end_unauthenticated(&mut self, conn: ConnKey, now: Micros, sink: &mut impl Sink) {
        if self.freeze.is_some() || sink.has_unread(conn) {
            // The thread is behind, not the client.
            return self.timers.connections.set(conn, now + UNREAD_GRACE, now);
        }
        self.stats.reauthentications_late += 1;
        let detail = "not authenticated again in time";
        self.end(conn, Refusal::new(ReasonCode::NotAuthorized, detail), now, sink);
    }

    pub(super) fn will_due(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        if let Some(at) = self.waits_for_nodes(key, now) {
            if let Some(absence) = self.clients[key].absence() {
                absence.will_at = Some(at);
                self.timers.set(at, Timer::Will(key));
            }
            return;
        }
        self.send_will(key, sink);
    }

    /// Publishes the will of an absent client.
    pub(super) fn send_will(&mut self, key: SessionKey, sink: &mut impl Sink) {
        self.tell_will_over(key, sink);
        let Some(absence) = self.clients[key].absence() else { return };
        absence.will_at = None;
        let (expires_at, will_at) = (absence.expires_at, None);
        // In the input that publishes the will: a crash has both or none.
        self.log.append_of(key, |session| Record::Absent { session, expires_at, will_at }, sink);
        if let Some(will) = absence.will.take() {
            self.owe_will(key, *will, sink);
        }
    }

    pub(super) fn session_due(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        let waits_until = self.waits_for_nodes(key, now);
        // Its client has come in time, and waits for other nodes, or to another, where the session
        // is still to go.
        let client_id = &*self.clients[key].client_id;
        let is_here = |ticket| self.answers.get(ticket).is_some_and(|it| it.conn.is_some());
        let is_awaited = self.claims.waiting.contains_key(client_id)
            || self.claims.asking.get(client_id).copied().is_some_and(is_here);
        let is_awaited_until = is_awaited.then_some(now + LOOK_AGAIN);
        if let Some(absence) = self.clients[key].absence() {
            // A will is due with the end of its session, and waits as it does by itself.
            absence.expires_at =
                waits_until.filter(|_| absence.will.is_some()).or(is_awaited_until);
            if let Some(at) = absence.expires_at {
                return self.timers.set(at, Timer::Expiry(key));
            }
        }
        self.stats.sessions_expired += 1;
        self.end_session(key, sink);
    }

    /// Ends what a queue that ran over ends. It may have done so already: one input can run over
    /// many times.
    pub(super) fn end_overflowed(
        &mut self,
        overflowed: Overflowed,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let (Overflowed::Connected(key) | Overflowed::Absent(key) | Overflowed::Long(key)) =
            overflowed;
        let Some(session) = self.clients.get(key) else { return };
        match (overflowed, session.attachment) {
            (Overflowed::Connected(_), Some(attachment)) => {
                self.stats.queue_overflows += 1;
                let refusal = Refusal::new(ReasonCode::QuotaExceeded, "its queue is full");
                self.end(attachment.conn, refusal, now, sink);
            }
            (Overflowed::Absent(_), None) => {
                self.stats.queue_overflows += 1;
                let client_id = &session.client_id;
                sink.notice(Notice::SessionEnded { client_id, cause: "queue full" });
                if let Some(conn) = self.connection_of(key) {
                    // Its CONNACK says of the session what is true no longer.
                    let refusal = Refusal::new(ReasonCode::QuotaExceeded, "its queue is full");
                    self.end(conn, refusal, now, sink);
                }
                if self.clients.get(key).is_some() {
                    self.end_session(key, sink);
                }
            }
            (Overflowed::Connected(_), None)
            | (Overflowed::Absent(_), Some(_))
            | (Overflowed::Long(_), _) => {}
        }
    }

    pub(super) fn publish_will(&mut self, will: &Will, now: Micros, sink: &mut impl Sink) {
        let expires_at = will.message_expiry_s.map(|seconds| now + Micros::from_secs(seconds));
        let mut delivery = Delivery::from_parts(
            &will.topic,
            &will.payload,
            will.properties.as_properties(),
            (will.qos, will.retain),
            expires_at,
            None,
        );
        delivery.is_mailed_will = self.mails_will(will);
        delivery.is_gathered = delivery.is_mailed_will;
        self.publish_own(&mut delivery, will.origin, now, sink);
        self.apply_rules(&delivery, |_| will.origin, now, sink);
        self.post_present(None, now);
        if self.claims.is_stand_in {
            self.stay_until_all_have_heard(now, sink);
        }
    }
}
