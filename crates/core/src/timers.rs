//! Deadlines of connections and sessions, each owner with at most one of a kind.

use crate::keys::{ConnKey, Micros, SessionKey};
use std::collections::BTreeSet;

/// Whose deadline it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// Time to CONNECT, then keep alive.
    Connection(ConnKey),
    /// The will of an absent session is due.
    Will(SessionKey),
    /// An absent session ends.
    Expiry(SessionKey),
}

/// Deadlines in the order of time. Setting and clearing cost a tree operation; a keep alive is
/// set again only when it falls due, not at every packet.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    deadlines: BTreeSet<(Micros, Timer)>,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Micros, timer: Timer) {
        self.deadlines.insert((at, timer));
    }

    pub(crate) fn clear(&mut self, at: Micros, timer: Timer) {
        self.deadlines.remove(&(at, timer));
    }

    pub(crate) fn next(&self) -> Option<Micros> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Takes the earliest deadline that is not after `now`.
    pub(crate) fn take_due(&mut self, now: Micros) -> Option<Timer> {
        let &(at, _) = self.deadlines.first()?;
        if at > now {
            return None;
        }
        self.deadlines.pop_first().map(|(_, timer)| timer)
    }
}
