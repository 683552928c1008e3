//! Connections on their way between threads: what is known of each goes along.

use super::Output;
use crate::letter::Carried;
use std::io;
use weir_core::ConnKey;
use weir_reactor::Token;

impl Output<'_> {
    /// Takes a connection that is to go to another shard, with what is not consumed. On an error
    /// it is still here.
    pub(super) fn take_out(&mut self, token: Token, unread: &[u8]) -> io::Result<Carried> {
        let moved = self.io.give_away(token, unread)?;
        let pass = self.guard.admission().leave(self.guard.place(token.0));
        let name = self.guard.auth.forget_name(ConnKey(token.0));
        self.guard.auth.forget(ConnKey(token.0));
        self.guard.forget_rate(token.0);
        self.guard.hand_over_watched(ConnKey(token.0));
        let peer = self.guard.log.forget(ConnKey(token.0));
        let reloads = self.guard.reloaded.count();
        let certified = self.guard.certificates.take(ConnKey(token.0));
        let is_own = self.guard.own_conns.remove(&ConnKey(token.0));
        let by = self.guard.farewell.left(ConnKey(token.0));
        let user = self.guard.forget_user(ConnKey(token.0));
        Ok(Carried { moved, pass, peer, name, certified, by, reloads, user, is_own })
    }

    /// A connection whose session has gone to another shard, and which cannot follow.
    pub(super) fn lose(&mut self, token: Token, error: &io::Error) {
        let (peer, now) = (self.guard.log.forget(ConnKey(token.0)), self.now());
        self.guard.log.lost(peer, error, now);
        self.io.abort(token);
        self.guard.gone(ConnKey(token.0));
    }

    /// Takes a connection that comes from another shard; what is unread of it comes next.
    pub(super) fn adopt(&mut self, carried: Carried) -> Option<ConnKey> {
        let Carried { moved, pass, peer, name, certified, by, user, is_own, .. } = carried;
        let token = match self.io.adopt(moved) {
            Ok(token) => token,
            Err(error) => {
                let now = self.now();
                self.guard.log.lost(peer, &error, now);
                if let Some(pass) = pass {
                    self.guard.admission().lost(&pass);
                }
                return None;
            }
        };
        if let Some(pass) = pass {
            self.guard.admission().arrive(self.guard.place(token.0), &pass);
        }
        if let Some(peer) = peer {
            self.guard.log.arrived(ConnKey(token.0), peer);
        }
        if let Some(name) = name {
            self.guard.auth.learnt(ConnKey(token.0), name);
        }
        if let Some(certified) = certified {
            self.guard.certificates.arrived(ConnKey(token.0), certified);
        }
        if let (Some(user), Some(events)) = (user, &mut self.guard.events) {
            events.arrived(ConnKey(token.0), user);
        }
        if is_own {
            self.guard.own_conns.insert(ConnKey(token.0));
        }
        self.guard.farewell.came(ConnKey(token.0), by);
        self.resumed.push(token);
        Some(ConnKey(token.0))
    }
}
