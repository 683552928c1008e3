//! What clients may publish and read, where the broker asks.

use super::Shard;
use super::connect::OWN_CLIENT_IDS;
use super::connection::{Phase, Refusal, connect_again};
use super::publish::NotTaken;
use crate::auth::{Terms, Unwelcome};
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::rights::{Known, OwnRights, Policy, User, Voucher};
use crate::session::Will;
use crate::sink::Sink;
use smallvec::SmallVec;
use std::num::NonZeroU16;
use std::sync::Arc;
use weir_wire::packet::Publish;
use weir_wire::{ReasonCode, Version};

/// Filters of a session that comes back that are looked at once, not in each delivery.
const COVERED_MAX: usize = 16;

const FORBIDDEN: NotTaken =
    NotTaken { reason: ReasonCode::NotAuthorized, detail: "its client may not publish there" };

impl Unwelcome {
    fn refusal(self, is_live: bool) -> Refusal {
        let (reason, detail) = match self {
            // DISCONNECT has no word of its own for it.
            Self::Banned if is_live => (ReasonCode::AdministrativeAction, "it is banned"),
            Self::Banned => (ReasonCode::Banned, "it is banned"),
            Self::UserGone => {
                (ReasonCode::NotAuthorized, "its user is gone, or has another password")
            }
            Self::VoucherGone => {
                (ReasonCode::NotAuthorized, "what has let it in counts no more, or by other rules")
            }
            Self::Certificate => {
                (ReasonCode::NotAuthorized, "its certificate would not let it in any more")
            }
            Self::Anonymous => (ReasonCode::NotAuthorized, "it has not said who it is"),
            Self::ListenerGone => {
                (ReasonCode::AdministrativeAction, "the listener that it came by is gone")
            }
        };
        Refusal::new(reason, detail)
    }
}

impl Shard {
    /// Has clients publish and read what this policy lets them, and no more. It holds at once for
    /// those that are connected; those that came before the first one count as nobody
    /// ([`Shard::know_users`]).
    pub fn set_policy(&mut self, policy: Arc<Policy>) {
        self.know_users();
        self.clients.set_policy(policy);
    }

    /// Has every client do everything, but for rights of its own.
    pub fn clear_policy(&mut self) {
        self.clients.clear_policy();
    }

    /// Notes whose client each is that comes from now on, for [`Shard::end_clients_of`] and
    /// [`crate::ClientState::user`]. Who is here already counts as nobody: what such a client said
    /// of a user was not looked at.
    pub fn know_users(&mut self) {
        if self.clients.rights.is_some() {
            return;
        }
        self.clients.rights.get_or_insert_default();
        let sessions = self.connections.keys().filter_map(|conn| self.connections.session(conn));
        for session in sessions.collect::<Vec<_>>() {
            self.note_user(session, None, None);
        }
    }

    /// Ends the connections of clients that have said no user name, and that nobody vouches for.
    pub fn end_anonymous(&mut self, now: Micros, sink: &mut impl Sink) {
        let is_nobody = |&(conn, _, user): &(ConnKey, &str, Option<&str>)| {
            user.is_none() && self.voucher(conn).is_none() && self.is_live(conn)
        };
        let conns: Vec<_> = self.connected().filter(is_nobody).map(|(conn, ..)| conn).collect();
        self.end_unwelcome(&conns, Unwelcome::Anonymous, now, sink);
    }

    /// Ends the connections of users that are among these: they are not let in any more by what
    /// they said. Their sessions stay, as they would if the connections were lost.
    pub fn end_clients_of(
        &mut self,
        is_among: impl Fn(&str) -> bool,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(rights) = &self.clients.rights else { return };
        let sessions = rights.sessions_of(is_among).into_iter();
        let here = sessions.filter(|session| self.clients.get(*session).is_some());
        let conns: Vec<ConnKey> = here.filter_map(|session| self.connection_of(session)).collect();
        self.end_unwelcome(&conns, Unwelcome::UserGone, now, sink);
    }

    /// Ends the connections of clients that one of these vouches for. Their sessions stay, as they
    /// would if the connections were lost.
    pub fn end_clients_vouched_for(&mut self, by: &[Voucher], now: Micros, sink: &mut impl Sink) {
        let Some(rights) = self.clients.rights.as_ref().filter(|_| !by.is_empty()) else { return };
        let sessions = rights.vouched_for(by).into_iter();
        let here = sessions.filter(|session| self.clients.get(*session).is_some());
        let conns: Vec<ConnKey> = here.filter_map(|session| self.connection_of(session)).collect();
        self.end_unwelcome(&conns, Unwelcome::VoucherGone, now, sink);
    }

    /// Who vouches for the client of a connection that was let in.
    pub fn voucher(&self, conn: ConnKey) -> Option<Voucher> {
        let session = self.connections.session(conn)?;
        self.clients.rights.as_ref()?.voucher(session)
    }

    /// Who is connected, or waits to be let in: the connection, its client identifier, and its user
    /// as far as that is noted ([`Shard::know_users`]).
    pub fn connected(&self) -> impl Iterator<Item = (ConnKey, &str, Option<&str>)> {
        let known = |conn| self.who(conn).map(|(client_id, user)| (conn, client_id, user));
        self.connections.keys().filter_map(known)
    }

    /// The client identifier and user of a connection, as [`Shard::connected`] has them.
    pub fn who(&self, conn: ConnKey) -> Option<(&str, Option<&str>)> {
        match &self.connections.get(conn)?.phase {
            Phase::AwaitConnect(_) => None,
            Phase::AwaitAuth(waiting) => {
                let connect = connect_again(&waiting.connect)?;
                Some((connect.client_id, connect.user_name))
            }
            Phase::Live(live) => {
                let rights = self.clients.rights.as_deref();
                let user = rights.and_then(|rights| rights.user_name(live.session));
                Some((&*self.clients.get(live.session)?.client_id, user))
            }
        }
    }

    /// The same of a connection whose client was let in, with the version of MQTT that it speaks.
    pub fn live_client(&self, conn: ConnKey) -> Option<(&str, Option<&str>, Version)> {
        let version = self.connections.live(conn)?.version;
        self.who(conn).map(|(client_id, user)| (client_id, user, version))
    }

    /// The connection of this client, if it has one.
    pub fn connection_by_id(&self, client_id: &str) -> Option<ConnKey> {
        self.connection_of(self.clients.find(client_id)?)
    }

    /// The topic that a connection's client has set up an alias for.
    pub fn topic_of_alias(&self, conn: ConnKey, alias: NonZeroU16) -> Option<&str> {
        self.connections.live(conn)?.cold.as_ref()?.aliases_in.topic(alias.get())
    }

    /// Whether the connection has a client that was let in.
    pub fn is_live(&self, conn: ConnKey) -> bool {
        self.connections.session(conn).is_some()
    }

    /// Messages that were sent to clients so far.
    pub fn publishes_out(&self) -> u64 {
        self.stats.publishes_out
    }

    /// Messages that clients have published so far.
    pub fn publishes_in(&self) -> u64 {
        self.stats.publishes_in
    }

    /// Ends these connections, which were let in and would not be now. Their wills are sent, and
    /// their sessions stay, as they would if the connections were lost.
    pub fn end_unwelcome(
        &mut self,
        conns: &[ConnKey],
        why: Unwelcome,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.slices.begin();
        for &conn in conns {
            let refusal = why.refusal(self.is_live(conn));
            self.end(conn, refusal, now, sink);
        }
        self.settle(now, sink);
        self.come_to_rest(now, sink);
    }

    /// Does nothing with a PUBLISH but say so, as far as its client's version has a word for it.
    #[cold]
    pub(super) fn forbid(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        publish: &Publish<'_>,
        topic: &str,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        self.note_forbidden(Some(conn), session, topic, sink);
        let reason = match self.clients[session].version().is_v5() {
            true => (FORBIDDEN.reason, FORBIDDEN.detail),
            // It would send what is not acknowledged again and again.
            false => (ReasonCode::Success, ""),
        };
        self.acknowledge(conn, session, publish, reason, None, now, sink)
    }

    /// Notes whose client a session is, where that is asked.
    #[cold]
    pub(super) fn note_user(
        &mut self,
        session: SessionKey,
        user_name: Option<&str>,
        terms: Option<&Terms>,
    ) {
        let shown = terms.and_then(|terms| terms.user.as_deref());
        if shown.is_some() {
            self.know_users();
        }
        let user = User::new(shown.or(user_name));
        // Nobody else has such a client identifier.
        let known = if self.clients[session].client_id.starts_with(OWN_CLIENT_IDS) {
            Known { user, own: OwnRights::All, voucher: Some(Voucher::Broker) }
        } else {
            let own = terms.map_or(OwnRights::Policy, |terms| terms.rights.clone());
            Known { user, own, voucher: terms.and_then(|terms| terms.voucher) }
        };
        self.clients.set_user(session, known);
        self.cover_reads(session);
    }

    /// Finds out whether what a session has subscribed to has to be looked at in each delivery. A
    /// session with many filters is not asked for them all.
    fn cover_reads(&mut self, session: SessionKey) {
        let Self { clients, filters, .. } = self;
        let records = clients[session].subscriptions();
        if clients.rights.is_some() && records.len() <= COVERED_MAX {
            let names: SmallVec<[_; 1]> =
                records.iter().map(|record| filters.filter_of(*record)).collect();
            clients.cover(session, &names);
        }
    }

    /// Whether a will is kept at all. What its client's user may do is asked again when it is due,
    /// but not known any more if a restart comes between.
    #[inline(never)]
    pub(super) fn allows_will(
        &mut self,
        conn: ConnKey,
        key: SessionKey,
        topic: &str,
        sink: &mut impl Sink,
    ) -> bool {
        let is_allowed = self.clients.may_write(key, topic);
        if !is_allowed {
            self.note_forbidden(Some(conn), key, topic, sink);
        }
        is_allowed
    }

    /// A will is due: it is published when the input is over, if its client may.
    #[inline(never)]
    pub(super) fn owe_will(&mut self, key: SessionKey, will: Will, sink: &mut impl Sink) {
        if self.may_publish_will(key, &will, sink) {
            self.due.wills.push(will);
        }
    }

    pub(super) fn may_publish_will(
        &mut self,
        key: SessionKey,
        will: &Will,
        sink: &mut impl Sink,
    ) -> bool {
        let may = self.clients.may_write(key, &will.topic);
        if !may {
            self.note_forbidden(None, key, &will.topic, sink);
        }
        may
    }

    #[cold]
    fn note_forbidden(
        &mut self,
        conn: Option<ConnKey>,
        session: SessionKey,
        topic: &str,
        sink: &mut impl Sink,
    ) {
        self.stats.writes_forbidden += 1;
        self.stats.refusals.add(FORBIDDEN.reason);
        self.note_refused(conn, session, topic, FORBIDDEN, sink);
    }
}
