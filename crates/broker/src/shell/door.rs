//! Who comes in, and as whom: what is decided of a connection before its CONNECT.
//!
//! Most are decided on when they are accepted. Where a proxy connects for a client, that waits
//! until it has said where the client is, for as long as a CONNECT may take.

use super::{Guard, Shell};
use crate::admission::{Admission, Carrier};
use crate::listener::{Door, Front};
use std::net::SocketAddr;
use std::sync::Arc;
use weir_core::{ConnKey, Micros};
use weir_reactor::{Io, Learnt, ListenerId, Token, UNIX_PEER};
use weir_wire::ReasonCode;

/// A connection of a proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    by: ListenerId,
    /// Where its client is as far as is known, which is the proxy at first.
    peer: SocketAddr,
}

impl Guard {
    /// Handshakes of TLS of all listeners and threads: full, resumed and failed ones.
    pub(super) fn handshakes(&self) -> [u64; 3] {
        let all = self.doors.iter().flatten().map(|door| door.handshakes());
        all.fold([0; 3], |sum, one| std::array::from_fn(|at| sum[at] + one[at]))
    }
}

impl Shell {
    fn door(&self, by: ListenerId) -> Option<&Arc<Door>> {
        self.guard.doors.get(usize::from(by.0))?.as_ref()
    }

    /// A connection was accepted.
    pub(super) fn let_in(&mut self, io: &mut Io, token: Token, by: ListenerId, peer: SocketAddr) {
        let (conn, now) = (ConnKey(token.0), Micros(io.now_us()));
        let door = self.door(by).cloned();
        let front = door.as_ref().map_or(Front::Client, |door| door.front(peer.ip()));
        match front {
            Front::Client if self.guard.is_fenced && !self.guard.serves_minority => {
                self.shard.opened_refused(conn, ReasonCode::ServerUnavailable, now);
            }
            Front::Client => match self.admission_of(token, by, peer, now) {
                Ok(None) => self.shard.opened(conn, now),
                Ok(Some(reason)) => self.shard.opened_refused(conn, reason, now),
                Err(why) => return self.cut(io, token, peer, why),
            },
            Front::Proxy => {
                if !self.guard.admission().wait(self.guard.place(token.0), peer.ip()) {
                    return self.cut(io, token, peer, "too many wait for what a proxy says");
                }
                self.guard.waiting.insert(conn, Waiting { by, peer });
                self.shard.opened(conn, now);
            }
            Front::Stranger => {
                self.guard.admission().cut_stranger();
                return self.cut(io, token, peer, "it is none of the listener's proxies");
            }
        }
        self.guard.log.accepted(conn, peer);
        self.guard.farewell.came(conn, by);
        if door.as_ref().is_some_and(|door| door.asks_for_certificates()) {
            self.guard.certificates.expect(conn, by);
        }
        if let Some(door) = door
            && door.has_users()
        {
            let name = io.peer_user(token).and_then(|number| door.user(number));
            match name {
                Some(name) => self.guard.auth.learnt(conn, name),
                None => self.drop_opened(io, token, peer, "the user of its process is not known"),
            }
        }
    }

    /// Layers of a connection have opened.
    pub(super) fn note_learnt(&mut self, io: &mut Io, token: Token, learnt: Learnt) {
        let conn = ConnKey(token.0);
        if let Some(name) = learnt.name {
            self.guard.auth.learnt(conn, name);
        }
        let Guard { certificates, doors, log, .. } = &mut self.guard;
        if let Some(shown) = learnt.shown
            && !certificates.learnt(conn, shown, doors)
        {
            let peer = log.peer(conn).unwrap_or(UNIX_PEER);
            return self.drop_opened(io, token, peer, "its certificate does not count any more");
        }
        if io.is_open(token) {
            certificates.settle(conn);
        }
        // Nobody else is believed where its client is.
        let Some(mut waiting) = self.guard.waiting.remove(&conn) else { return };
        waiting.peer = learnt.peer.unwrap_or(waiting.peer);
        let may_say_more = |door: &Arc<Door>| door.forwards(waiting.peer.ip());
        if !io.is_open(token) && self.door(waiting.by).is_some_and(may_say_more) {
            // It is a proxy of HTTP, and the request is still to come.
            self.guard.waiting.insert(conn, waiting);
            return;
        }
        self.admit_known(io, token, waiting);
    }

    /// It is known where the client of a proxy's connection is.
    fn admit_known(&mut self, io: &mut Io, token: Token, Waiting { by, peer }: Waiting) {
        let (conn, now) = (ConnKey(token.0), Micros(io.now_us()));
        self.guard.admission().gone(self.guard.place(token.0));
        if self.guard.log.peer(conn) != Some(peer) {
            self.guard.log.learnt(conn, peer);
        }
        match self.admission_of(token, by, peer, now) {
            Ok(None) => {}
            Ok(Some(reason)) => self.shard.forbid_opened(conn, reason),
            Err(why) => self.drop_opened(io, token, peer, why),
        }
    }

    /// What admission says of a client: nothing, the reason that its CONNECT is to be answered
    /// with, or why it is cut.
    fn admission_of(
        &mut self,
        token: Token,
        by: ListenerId,
        peer: SocketAddr,
        now: Micros,
    ) -> Result<Option<ReasonCode>, &'static str> {
        let (place, is_memory_full) = (self.guard.place(token.0), self.guard.memory.is_full());
        let carrier = match self.door(by) {
            _ if peer == UNIX_PEER => Carrier::Unix,
            None => Carrier::Tcp,
            Some(door) => door.carrier(),
        };
        let admission =
            self.guard.admission().admit(place, peer.ip(), carrier, is_memory_full, now);
        match admission {
            Admission::Serve => Ok(None),
            // It gets no handshake only to be refused.
            Admission::Refuse(reason) if self.door(by).is_some_and(|door| door.has_tls()) => {
                self.guard.admission().gone(place);
                Err(reason.name())
            }
            Admission::Refuse(reason) => Ok(Some(reason)),
            Admission::Banned => Err("banned"),
            Admission::Cut => Err("memory or room for refusals is full"),
        }
    }

    fn cut(&mut self, io: &mut Io, token: Token, peer: SocketAddr, why: &str) {
        self.guard.log.cut(peer, why, Micros(io.now_us()));
        io.abort(token);
    }

    /// Cuts a connection that the shard knows already.
    fn drop_opened(&mut self, io: &mut Io, token: Token, peer: SocketAddr, why: &str) {
        let conn = ConnKey(token.0);
        let (shard, mut output) = self.parts(io);
        shard.closed(conn, output.now(), &mut output);
        self.guard.gone(conn);
        self.cut(io, token, peer, why);
    }
}
