//! What a shell is asked beside its connections: counters for the log, users and rights that were
//! read again, and what the control thread wants.

use super::{Guard, Output, Rates, SHORT_UNREAD_BYTES, Shell};
use crate::auth::access::AccessWay;
use crate::auth::hasher::HasherWay;
use crate::auth::{Bans, Until, Whom};
use crate::content::FlowOfShard;
use crate::control::{Answer, ShardCounters, own_message};
use crate::letter::Letter;
use crate::reload::{NewSettings, Reload};
use std::sync::Arc;
use weir_control::{Request, Whom as Named};
use weir_core::{ConnKey, Kicked, Limits, Micros, Partition, Shard, ShardId, Unwelcome};
use weir_flow::Flow;
use weir_reactor::{Io, Joint, ToOutside};

/// What a connection may have of answers that its client does not take, in bytes, beside messages.
const UNREAD_ANSWERS_BYTES: usize = 64 * 1024;

/// Output that a client does not take, in bytes, over which it is read no more.
pub(crate) fn unread_bytes_max(limits: &Limits) -> usize {
    limits.output_bytes_max + limits.packet_bytes_max as usize + UNREAD_ANSWERS_BYTES
}

impl Guard {
    /// The same bound, lower while memory is short.
    fn unread_bytes_max_now(&self, now_us: u64) -> usize {
        match self.memory.is_short(Micros(now_us)) {
            true => self.unread_bytes_max.min(SHORT_UNREAD_BYTES),
            false => self.unread_bytes_max,
        }
    }
}

impl Shell {
    /// Takes what is this shard's alone of a configuration that was read again.
    pub(crate) fn take_up(
        &mut self,
        flow: Option<Option<Flow>>,
        hasher: Option<HasherWay>,
        access: Option<Option<AccessWay>>,
        control: Option<ToOutside<Answer>>,
        joints: Vec<Joint<Letter>>,
    ) {
        match flow {
            None => {}
            Some(None) => self.shard.clear_rules(),
            Some(Some(flow)) => self.shard.set_rules(Box::new(FlowOfShard(flow))),
        }
        joints.into_iter().for_each(|joint| self.mailbox.join(joint));
        self.control = control.or(self.control.take());
        hasher.into_iter().for_each(|way| self.guard.auth.set_hasher(way));
        access.into_iter().for_each(|way| self.guard.auth.set_access(way));
    }

    /// Goes by what was read again.
    pub(crate) fn reload(&mut self, reload: Arc<Reload>, io: &mut Io) {
        if let Some(settings) = &reload.settings {
            self.set(settings, io);
        }
        let (shard, mut output) = self.parts(io);
        match &reload.policy {
            Some(policy) => shard.set_policy(Arc::clone(policy)),
            // It is not about rights.
            None if reload.settings.is_none() => {}
            None => shard.clear_policy(),
        }
        shard.end_clients_of(|user| reload.ends(Some(user), None), output.now(), &mut output);
        let vouched = reload.settings.as_ref().map_or(&[][..], |settings| &settings.ends_vouched);
        shard.end_clients_vouched_for(vouched, output.now(), &mut output);
        if reload.ends(None, None) {
            shard.end_anonymous(output.now(), &mut output);
        }
        if let Some(bans) = &reload.bans {
            output.guard.admission().set_bans(Arc::clone(bans));
            output.end_banned(bans, shard);
        }
        if let Some(look) = &reload.certificates {
            look.ended(output.end_uncertified(shard));
        }
        for client_id in &reload.bridges_gone {
            leave_queue(client_id, shard, &mut output);
        }
        self.guard.reloaded.add(reload);
    }

    /// Goes by another configuration.
    fn set(&mut self, settings: &NewSettings, io: &mut Io) {
        let Self { shard, guard, .. } = self;
        shard.set_limits(&settings.limits);
        shard.set_share(settings.share.clone());
        if settings.has_authentication {
            shard.set_authentication(true);
        }
        if settings.auth.knows_users() {
            shard.know_users();
        }
        let share_percent = settings.limits.client_share_percent;
        guard.auth.set(&settings.auth, settings.allows_anonymous, share_percent);
        guard.log.set_share(share_percent);
        settings.sys.set_events(&mut guard.events);
        guard.doors = Arc::clone(&settings.doors);
        guard.unread_bytes_max = unread_bytes_max(&settings.limits);
        io.set_unread_max(guard.unread_bytes_max_now(io.now_us()));
        let now = Micros(weir_reactor::now_us());
        settings.removed.iter().for_each(|&id| guard.farewell.gone(id, now));
        let waiting = Rates::change(&mut guard.rates, &settings.limits, &settings.process);
        self.resumed.extend(waiting);
    }

    /// Writes every counter to the log.
    pub(crate) fn log_counters(&mut self, io: &Io) {
        self.guard.log.sum_up(Micros(u64::MAX));
        let (rss_bytes, rss_bytes_max) = self.guard.memory.bytes();
        let (stats, admission) = (self.shard.stats(), self.guard.admission().stats);
        let (shard, log, io) = (self.guard.own.0, self.guard.log.counts(), io.stats());
        tracing::info!(
            shard,
            ?stats,
            ?admission,
            accept_errors = io.accept_errors,
            transport_errors = io.transport_errors,
            passwords = ?self.guard.auth.password_counts(),
            rate_pauses = self.guard.rate_pauses(),
            certificates_ended = self.guard.certificates.ended,
            traced = ?self.guard.trace_counts,
            sys_events_dropped = self.guard.events_dropped(),
            access = ?self.guard.auth.access_counts(),
            log_lines_left_out = log.left_out,
            log_lines_lost = log.lost,
            rss_bytes,
            rss_bytes_max,
            "counters"
        );
        if let Some(journal) = &self.guard.journal {
            tracing::info!(shard, store = ?journal.counts(), "counters of the store");
        }
        if let Some(conditions) = self.shard.conditions()
            && stats.condition_checks > 0
        {
            tracing::info!(shard, ?conditions, "counters of conditions");
        }
        if let Some(flow) = self.shard.rules() {
            tracing::info!(shard, ?flow, "counters of rules");
        }
    }
}

impl Output<'_> {
    /// Ends who is here already and banned by one of these. Says how many these are.
    fn end_banned(&mut self, bans: &Bans, shard: &mut Shard) -> u64 {
        let (log, io) = (&self.guard.log, &mut *self.io);
        let mut is_address_banned = |conn| {
            let peer = bans.has_addresses().then(|| log.peer_of(conn, io)).flatten();
            peer.is_some_and(|peer| bans.has_address(peer.ip()))
        };
        let own_conns = &self.guard.own_conns;
        let is_banned = |(conn, client_id, user): &(ConnKey, &str, Option<&str>)| {
            !own_conns.contains(conn)
                && (bans.has_client(client_id)
                    || user.is_some_and(|user| bans.has_user(user))
                    || is_address_banned(*conn))
        };
        let banned: Vec<ConnKey> =
            shard.connected().filter(is_banned).map(|(conn, ..)| conn).collect();
        shard.end_unwelcome(&banned, Unwelcome::Banned, self.now(), self);
        banned.len() as u64
    }

    /// Ends a client that has come from another shard, if it was on its way when it would have been
    /// ended. Its sender went by the first `reloads` of them.
    pub(super) fn look_again(&mut self, conn: ConnKey, reloads: u32, shard: &mut Shard) {
        self.meet_traced(conn, shard);
        let Some(why) = self.unwelcome(conn, reloads, shard) else { return };
        self.guard.certificates.ended += u64::from(why == Unwelcome::Certificate);
        shard.end_unwelcome(&[conn], why, self.now(), self);
    }

    fn unwelcome(&mut self, conn: ConnKey, reloads: u32, shard: &Shard) -> Option<Unwelcome> {
        if !self.guard.certificates.lets_in(conn, &self.guard.doors) {
            return Some(Unwelcome::Certificate);
        }
        if self.guard.own_conns.contains(&conn) {
            return None;
        }
        // Before its CONNECT, the rest is still to be asked.
        let ((client_id, user), voucher) = (shard.who(conn)?, shard.voucher(conn));
        let peer = self.guard.log.peer_of(conn, self.io).map(|peer| peer.ip());
        match user {
            _ if self.guard.admission().has_banned(peer, client_id, user) => {
                Some(Unwelcome::Banned)
            }
            _ if self.guard.farewell.is_gone(conn) => Some(Unwelcome::ListenerGone),
            user if self.guard.reloaded.has_ended((user, voucher), reloads) => {
                Some(match (user, voucher) {
                    (_, Some(_)) => Unwelcome::VoucherGone,
                    (Some(_), None) => Unwelcome::UserGone,
                    (None, None) => Unwelcome::Anonymous,
                })
            }
            _ => None,
        }
    }

    /// The same of one ban, which the control thread has understood before.
    fn end_named(&mut self, Named { kind, name }: &Named, shard: &mut Shard) -> u64 {
        let Ok(whom) = Whom::parse(kind, name) else { return 0 };
        let mut bans = Bans::default();
        bans.keep_out(&whom, Until::FOR_EVER);
        self.end_banned(&bans, shard)
    }

    fn counters(&self, shard: &Shard, answers_dropped: u64) -> ShardCounters {
        let (rss_bytes, rss_bytes_max) = self.guard.memory.bytes();
        ShardCounters {
            stats: shard.stats(),
            answers_dropped,
            io: self.io.stats(),
            admission: self.guard.admission().stats,
            log: self.guard.log.counts(),
            passwords: self.guard.auth.password_counts(),
            access: self.guard.auth.access_counts(),
            rate_pauses: self.guard.rate_pauses(),
            certificates_ended: self.guard.certificates.ended,
            traced: self.guard.trace_counts,
            events_dropped: self.guard.events_dropped(),
            drain: self.guard.farewell.drain_state(shard),
            connections_sent_away: self.guard.farewell.sent_away,
            latency: self.guard.latency.durations,
            handshakes: self.guard.handshakes(),
            journal: self.guard.journal.as_ref().map(|journal| journal.counts()),
            rss_bytes,
            rss_bytes_max,
        }
    }

    /// Does what the control thread asks. Nothing if the answer comes later.
    pub(super) fn answer(
        &mut self,
        request: Request,
        shard: &mut Shard,
        answers_dropped: u64,
    ) -> Option<Answer> {
        Some(match request {
            Request::Clients { from, clients_max } => {
                Answer::Clients(shard.clients(from, clients_max.into()))
            }
            Request::Client(id) => Answer::Client(shard.client(&id)),
            Request::Kick(id) => Answer::Kicked(shard.kick(&id, self.now(), self)),
            Request::EndClient(id) => {
                let ended = shard.end_client(&id, self.now(), self);
                Answer::ClientEnded(ended != Kicked::Unknown)
            }
            Request::Subscriptions { client_id, from, subscriptions_max } => Answer::Subscriptions(
                shard.subscriptions(&client_id, from, subscriptions_max.into()),
            ),
            Request::Retained { filter, after, messages_max } => {
                let (after, now) = (after.as_deref(), self.now());
                Answer::Retained(shard.retained_messages(&filter, after, messages_max.into(), now))
            }
            Request::Publish(message) => {
                let published = shard.publish(&own_message(message), self.now(), self);
                Answer::Published(published)
            }
            Request::PublishSys { topic, payload } => {
                let (message, now) = ((&*topic, payload.as_bytes()), self.now());
                Answer::PublishedSys(shard.publish_sys(message, true, now, self))
            }
            Request::Counters => Answer::Counters(Box::new(self.counters(shard, answers_dropped))),
            Request::Drops(query) => {
                Answer::Drops(self.guard.log.drops().map(|drops| drops.page(&query))?)
            }
            Request::Outlook { client_id, topic } => {
                Answer::Outlook(shard.outlook(&client_id, &topic, self).map(Box::new))
            }
            Request::Trace(wish) => Answer::Trace(Box::new(self.trace(wish, shard))),
            Request::Top(wish) => Answer::Top(Box::new(self.top(wish, shard))),
            Request::Drain(order) => Answer::Drain(self.drain(order, shard)),
            Request::Listeners => {
                Answer::Listeners(self.guard.farewell.counts(shard.stats().connections))
            }
            Request::EndBanned(whom) => Answer::EndedBanned(self.end_named(&whom, shard)),
            Request::Partitions => {
                let held = shard.partitions().map(|Partition(number)| number).collect();
                let sessions = shard.stats().sessions;
                Answer::Partitions(weir_control::Partitions { held, sessions })
            }
            Request::Move { partition, to } => {
                let now = self.now();
                match shard.move_partition(Partition(partition), ShardId(to), now, self) {
                    Ok(()) => return None,
                    Err(not_moved) => Answer::Moved(Err(not_moved)),
                }
            }
        })
    }
}

/// A bridge is gone. Its queue is over with it if it is empty; what waits in it was acknowledged to
/// whoever published it, and stays until somebody says so.
fn leave_queue(client_id: &str, shard: &mut Shard, output: &mut Output<'_>) {
    match shard.waiting(client_id) {
        // It is another shard's, or did not outlive its connection.
        None => {}
        Some(0) => {
            shard.end_client(client_id, output.now(), output);
            tracing::info!(client_id, "a bridge is gone, and its empty queue");
        }
        Some(messages) => tracing::warn!(
            client_id,
            messages,
            "a bridge is gone, and messages wait in its queue: they go on when a bridge of this \
             name is there again, or end with DELETE /api/v1/sessions/ and the client identifier"
        ),
    }
}
