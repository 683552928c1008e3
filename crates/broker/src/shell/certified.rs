//! Clients that have shown certificates: they are looked at again when authorities or lists of
//! revoked certificates have changed.

use super::Output;
use crate::listener::{Certified, Doors};
use crate::shrink;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use weir_core::{ConnKey, Shard, Unwelcome};
use weir_reactor::ListenerId;
use weir_transport::tls::Shown;

/// Those of a shard. Connections that have shown none are not here, but for their handshake.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    by: HashMap<ConnKey, (ListenerId, Option<Box<Shown>>), RandomState>,
    /// How many connections were ended by a look at them.
    pub(super) ended: u64,
}

impl Certificates {
    /// The connection may show some to this listener.
    pub(super) fn expect(&mut self, conn: ConnKey, by: ListenerId) {
        self.by.insert(conn, (by, None));
    }

    /// It has shown these. Says whether they let it in: the listener may have other authorities by
    /// now than it had for the handshake.
    pub(super) fn learnt(&mut self, conn: ConnKey, shown: Box<Shown>, doors: &Doors) -> bool {
        let Some((by, of)) = self.by.get_mut(&conn) else { return true };
        let lets_in = counts(doors, *by, &shown);
        *of = Some(shown);
        lets_in
    }

    /// All handshakes are over: a connection that has shown none is not kept.
    pub(super) fn settle(&mut self, conn: ConnKey) {
        if self.by.get(&conn).is_some_and(|(_, shown)| shown.is_none()) {
            self.take(conn);
        }
    }

    /// The connection is over, or goes to another shard.
    pub(super) fn take(&mut self, conn: ConnKey) -> Option<Certified> {
        let (by, shown) = self.by.remove(&conn)?;
        shrink::table(&mut self.by);
        Some((by, shown?))
    }

    /// The connection comes from another shard.
    pub(super) fn arrived(&mut self, conn: ConnKey, (by, shown): Certified) {
        self.by.insert(conn, (by, Some(shown)));
    }

    /// Whether the connection would be let in by what it has shown.
    pub(super) fn lets_in(&self, conn: ConnKey, doors: &Doors) -> bool {
        let of = self.by.get(&conn);
        of.is_none_or(|(by, shown)| shown.as_ref().is_none_or(|shown| counts(doors, *by, shown)))
    }
}

fn counts(doors: &Doors, by: ListenerId, shown: &Shown) -> bool {
    let door = doors.get(usize::from(by.0)).and_then(Option::as_ref);
    door.is_none_or(|door| door.lets_in(shown))
}

impl Output<'_> {
    /// Ends who would not be let in any more by its certificate. Says how many these are.
    pub(super) fn end_uncertified(&mut self, shard: &mut Shard) -> u64 {
        let (certificates, doors) = (&self.guard.certificates, &self.guard.doors);
        let keys = certificates.by.keys().copied();
        let gone: Vec<ConnKey> = keys.filter(|conn| !certificates.lets_in(*conn, doors)).collect();
        shard.end_unwelcome(&gone, Unwelcome::Certificate, self.now(), self);
        self.guard.certificates.ended += gone.len() as u64;
        gone.len() as u64
    }
}
