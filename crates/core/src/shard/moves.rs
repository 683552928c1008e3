//! A partition moves: its sessions and retained messages leave the shard that held it, and come to
//! the one that holds it next. Every shard tells its replays where to go on.

use super::Shard;
use super::connection::{ColdConnection, Connection, Live, Refusal};
use super::slices::{Walk, Work};
use crate::answers::Subscriptions;
use crate::keys::{ConnKey, Micros, SessionKey, ShardId};
use crate::mail::Mail;
use crate::name::Name;
use crate::parcel::{
    Admitted, Content, MovedConnection, MovedSession, MovedSubscription, Owned, Parcel,
};
use crate::replays::Replays;
use crate::routing::{Subscribed, Subscriber, SubscriptionRecord};
use crate::session::Attachment;
use crate::sink::Sink;
use crate::timers::Timer;
use std::borrow::Cow;
use weir_wire::ReasonCode;
use weir_wire::packet::{RetainHandling, SubscriptionOptions};

/// Steps of a session that leaves or comes, beside its subscriptions, and of one of these.
const SESSION_STEPS: u64 = 32;
const SUBSCRIPTION_STEPS: u64 = 16;

/// Topics that are looked at for a letter of retained messages.
const TOPICS_MAX: usize = 256;

impl Shard {
    /// Goes on with a move: sessions, retained messages, at last the table.
    pub(super) fn walk(&mut self, mut walk: Box<Walk>, now: Micros, sink: &mut impl Sink) {
        let is_over =
            self.walk_sessions(&mut walk, now, sink) && self.walk_retained(&mut walk, sink);
        if is_over {
            self.place.partitions.set_holder(walk.partition, walk.to);
        } else {
            self.slices.put_off(Work::Move(walk), now);
        }
    }

    /// Looks through all sessions. Says whether that was all.
    fn walk_sessions(&mut self, walk: &mut Walk, now: Micros, sink: &mut impl Sink) -> bool {
        let is_holder = self.place.partitions.holder(walk.partition) == self.place.id;
        while walk.session < self.clients.end() {
            if self.slices.is_spent() {
                return false;
            }
            self.slices.add(1);
            let Some(key) = self.clients.step(&mut walk.session) else { continue };
            let session = &mut self.clients[key];
            for replay in session.replays().into_iter().flat_map(|all| all.all_mut()) {
                replay.follow(walk.partition, walk.to, &self.place);
                self.slices.add(1);
            }
            if is_holder && self.place.partitions.of(&session.client_id) == walk.partition {
                self.send_session(key, walk.to, now, sink);
            }
        }
        true
    }

    /// Looks through all retained messages. Says whether that was all.
    fn walk_retained(&mut self, walk: &mut Walk, sink: &mut impl Sink) -> bool {
        if self.place.partitions.holder(walk.partition) != self.place.id {
            return true;
        }
        while !self.slices.is_spent() {
            let Self { retained, place, .. } = self;
            let (messages, next) = retained.take_partition(
                walk.partition,
                &place.partitions,
                walk.after.as_deref(),
                TOPICS_MAX,
            );
            self.slices.add(TOPICS_MAX as u64);
            if !messages.is_empty() {
                sink.mail(walk.to, Mail::MovedRetained { messages });
            }
            walk.after = next;
            if walk.after.is_none() {
                return true;
            }
        }
        false
    }

    /// Takes a session out of this shard and sends it to another.
    fn send_session(&mut self, key: SessionKey, to: ShardId, now: Micros, sink: &mut impl Sink) {
        let conn = self.clients[key].attachment.map(|attachment| attachment.conn);
        if conn.is_some_and(|conn| self.is_authenticating(conn)) {
            // Who asked is not there any more when the answer comes.
            let refusal = Refusal::new(ReasonCode::ServerBusy, "its session moves");
            conn.into_iter().for_each(|conn| self.end(conn, refusal, now, sink));
        }
        let absence = match self.clients.get(key) {
            Some(_) => self.take_absence(key),
            None => return,
        };
        let subscriptions = self.moved_subscriptions(key);
        let known = self.clients.rights.as_ref().and_then(|rights| rights.known(key));
        self.slices.add(SESSION_STEPS + SUBSCRIPTION_STEPS * subscriptions.len() as u64);
        let session = &mut self.clients[key];
        let attachment = session.attachment.take();
        let cold = session.cold.as_mut();
        let (unreleased, replays) = cold.map_or_else(Default::default, |cold| {
            (std::mem::take(&mut cold.unreleased), cold.replays.take())
        });
        let moved = MovedSession {
            client_id: session.client_id.clone(),
            address: session.address,
            known,
            claim: self.claims.rank(key),
            expiry_s: session.expiry_s,
            window: std::mem::take(&mut session.window).without_ways(),
            unreleased,
            absence,
            subscriptions,
            replays: replays.map_or_else(Vec::new, |replays| Replays::into_all(*replays)),
            connection: attachment.and_then(|attachment| self.take_connection(attachment)),
        };
        let conn = attachment.map(|attachment| attachment.conn);
        self.end_session(key, sink);
        sink.send_parcel(to, Parcel(Content::Session(Box::new(moved))), conn);
    }

    fn is_authenticating(&self, conn: ConnKey) -> bool {
        let cold = self.connections.live(conn).and_then(|live| live.cold.as_ref());
        cold.is_some_and(|cold| cold.authenticated_by.is_some())
    }

    pub(super) fn moved_subscriptions(&self, key: SessionKey) -> Vec<MovedSubscription> {
        let records = self.clients[key].subscriptions().iter();
        records.map(|&record| self.moved_subscription(record)).collect()
    }

    pub(super) fn moved_subscription(&self, record: SubscriptionRecord) -> MovedSubscription {
        let (name, condition) = self.filters.named(record);
        let Subscriber { qos, no_local, retain_as_published, subscription_id, .. } =
            self.filters.subscriber(record);
        // It was looked at when the client subscribed.
        let retain_handling = RetainHandling::DontSend;
        let options = SubscriptionOptions { qos, no_local, retain_as_published, retain_handling };
        let subscription_id = Some(subscription_id).filter(|&id| id != 0);
        MovedSubscription { name, condition, options, subscription_id }
    }

    fn take_connection(&mut self, attachment: Attachment) -> Option<MovedConnection> {
        let Live { keep_alive_s, cold, .. } = self.drop_connection(attachment.conn)?.into_live()?;
        // No answer waits and no packet is parked while all shards are at rest.
        let owned = cold.map(|cold| {
            let ColdConnection {
                will,
                aliases_in,
                aliases_out,
                auth_method,
                until,
                skipped_bytes,
                ..
            } = *cold;
            Box::new(Owned { will, aliases_in, aliases_out, auth_method, until, skipped_bytes })
        });
        Some(MovedConnection { attachment, keep_alive_s, owned })
    }

    /// A session comes from the shard that held its partition, or a client from one that let it in.
    /// `conn` is its connection, as the shell names it here; nothing if that was lost on the way.
    pub fn arrived(
        &mut self,
        parcel: Parcel,
        conn: Option<ConnKey>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.slices.begin();
        if let Some(freeze) = &mut self.freeze {
            freeze.note_work();
        }
        match (parcel.0, conn) {
            (Content::Session(moved), conn) => self.take_session(*moved, conn, now, sink),
            (Content::Admitted(admitted), Some(conn)) => {
                self.connections.add(conn, Connection::new(None, now));
                self.stats.connections += 1;
                self.admit_authenticated(conn, admitted, now, sink);
            }
            (Content::Admitted(..), None) => {}
            (Content::Retained(message), _) => self.on_moved_retained(vec![message]),
        }
        self.settle(now, sink);
        self.come_to_rest(now, sink);
    }

    fn take_session(
        &mut self,
        moved: MovedSession,
        conn: Option<ConnKey>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let key = self.clients.add(&moved.client_id, moved.address);
        self.claims.bring(key, moved.claim);
        if let Some(known) = moved.known {
            self.know_users();
            self.clients.set_user(key, known);
        }
        let session = &mut self.clients[key];
        (session.expiry_s, session.window) = (moved.expiry_s, moved.window);
        if !moved.unreleased.is_empty() {
            session.cold().unreleased = moved.unreleased;
        }
        self.retained.adopt_replays(session, moved.replays);
        if let Some(absence) = moved.absence {
            let timers =
                [(absence.will_at, Timer::Will(key)), (absence.expires_at, Timer::Expiry(key))];
            for (at, timer) in timers {
                at.into_iter().for_each(|at| self.timers.set(at, timer));
            }
            session.cold().absence = Some(absence);
        }
        self.slices.add(SESSION_STEPS + SUBSCRIPTION_STEPS * moved.subscriptions.len() as u64);
        let attachment = moved.connection.as_ref().map(|connection| connection.attachment);
        let packet_bytes_max = attachment.filter(|_| conn.is_some()).map(|it| it.packet_bytes_max);
        let done = self.subscribe_again(key, moved.subscriptions, packet_bytes_max, sink);
        // Nobody waits: all shards have noted them before the thaw.
        self.answers.begin();
        self.close_round(done.round, done.news, now);
        match moved.connection {
            Some(connection) => self.take_over_connection(key, connection, conn, now, sink),
            None => self.tell_presence(key, sink),
        }
        // What waits for room in its output may have it by now.
        self.waits_for_thaw(key);
    }

    /// Subscribes as the session was subscribed elsewhere; bounds were looked at there.
    pub(super) fn subscribe_again(
        &mut self,
        key: SessionKey,
        all: Vec<MovedSubscription>,
        packet_bytes_max: Option<u32>,
        sink: &mut impl Sink,
    ) -> Subscriptions {
        let address = self.clients[key].address;
        let round = self.filters.next_round();
        let mut done = Subscriptions { round, ..Subscriptions::default() };
        for MovedSubscription { name, condition, options, subscription_id } in all {
            let Some(name) = Name::parse(&name) else { continue };
            let text = match name.condition() {
                Some(encoded) => encoded.ok(),
                None => condition.as_deref().map(Cow::from),
            };
            let acquired =
                text.map(|text| self.filters.conditions.acquire(&text, address, |_, _| true));
            let Ok(condition) = acquired.transpose() else {
                // Another shard has compiled it, so this one can.
                self.stats.conditions_refused += 1;
                continue;
            };
            let subscriber = Subscriber::new(key, options, subscription_id);
            let Subscribed { news, .. } = self.note(key, name, condition, subscriber, round, sink);
            if options.retain_handling == RetainHandling::Send && name.topic.group.is_none() {
                let replay = self.retained.add_replay(&mut self.clients[key], name, round);
                done.first_replay.get_or_insert(replay);
            }
            done.news.extend(news);
        }
        self.answers.begin();
        self.tell_shards(&done.news, packet_bytes_max, sink);
        done
    }

    fn take_over_connection(
        &mut self,
        key: SessionKey,
        moved: MovedConnection,
        conn: Option<ConnKey>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let MovedConnection { attachment, keep_alive_s, owned } = moved;
        let version = attachment.version;
        let cold = owned.map(|owned| {
            let Owned { will, aliases_in, aliases_out, auth_method, until, skipped_bytes } = *owned;
            Box::new(ColdConnection {
                will,
                aliases_in,
                aliases_out,
                auth_method,
                until,
                skipped_bytes,
                ..ColdConnection::default()
            })
        });
        let mut connection = Connection::new(None, now);
        connection.go_live(Live { session: key, version, keep_alive_s, cold }, now);
        let Some(conn) = conn else {
            return self.leave_session(connection, true, now, sink);
        };
        self.connections.add(conn, connection);
        self.stats.connections += 1;
        *self.stats.connected(version) += 1;
        self.set_deadline(conn, now);
        self.clients[key].attachment = Some(Attachment { conn, ..attachment });
    }

    /// A client that was let in where its session was before goes on to where it is.
    pub(super) fn send_admitted(
        &mut self,
        conn: ConnKey,
        admitted: Box<Admitted>,
        to: ShardId,
        sink: &mut impl Sink,
    ) {
        self.drop_connection(conn);
        sink.send_parcel(to, Parcel(Content::Admitted(admitted)), Some(conn));
    }
}
