//! What clients may publish and read, where the broker asks.

use super::Shard;
use super::connection::Refusal;
use super::publish::NotTaken;
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::rights::{Policy, User};
use crate::session::Will;
use crate::sink::Sink;
use std::sync::Arc;
use weir_wire::ReasonCode;
use weir_wire::packet::Publish;

const FORBIDDEN: NotTaken =
    NotTaken { reason: ReasonCode::NotAuthorized, detail: "its client may not publish there" };

impl Shard {
    /// Has clients publish and read what this policy lets them, and no more. It holds at once for
    /// those that are connected, once the first was set before any client came.
    pub fn set_policy(&mut self, policy: Arc<Policy>) {
        self.clients.set_policy(policy);
    }

    /// Notes whose client each is that comes from now on, for [`Shard::end_clients_of`] and
    /// [`crate::ClientState::user`].
    pub fn know_users(&mut self) {
        self.clients.rights.get_or_insert_default();
    }

    /// Ends the connections of users that are among these: they are not let in any more by what
    /// they said. Their sessions stay, as they would if the connections were lost.
    pub fn end_clients_of(
        &mut self,
        is_among: impl Fn(&str) -> bool,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.slices.begin();
        let Some(rights) = &self.clients.rights else { return };
        for session in rights.sessions_of(is_among) {
            if self.clients.get(session).is_none() {
                continue;
            }
            if let Some(conn) = self.connection_of(session) {
                let detail = "its user is gone, or has another password";
                self.end(conn, Refusal::new(ReasonCode::NotAuthorized, detail), now, sink);
            }
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
    pub(super) fn note_user(&mut self, session: SessionKey, user: Option<&str>) {
        if let Some(rights) = &mut self.clients.rights {
            rights.set_user(session, User::new(user));
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
        if self.clients.may_write(key, &will.topic) {
            self.due.wills.push(will);
        } else {
            self.note_forbidden(None, key, &will.topic, sink);
        }
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
