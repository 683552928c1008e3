//! Deadlines of connections and sessions, each owner with at most one of a kind.

use crate::keys::{ConnKey, Micros, SessionKey};
use crate::wheel::Wheel;
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
    /// A will of another node's client is due.
    Watched,
}

/// Deadlines of sessions in the order of time, and those of connections in a wheel: each
/// connection has one, few absent sessions do.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    deadlines: BTreeSet<(Micros, Timer)>,
    pub(crate) connections: Wheel,
}

impl Timers {
    /// Sets a session's deadline.
    pub(crate) fn set(&mut self, at: Micros, timer: Timer) {
        self.deadlines.insert((at, timer));
    }

    /// Forgets a session's deadline.
    pub(crate) fn clear(&mut self, at: Micros, timer: Timer) {
        self.deadlines.remove(&(at, timer));
    }

    pub(crate) fn next(&self) -> Option<Micros> {
        let first = self.deadlines.first().map(|&(at, _)| at);
        first.into_iter().chain(self.connections.next()).min()
    }

    /// Takes a deadline that is not after `now`: of sessions, then of connections, the earliest
    /// each. `due` says when a connection is due by now.
    pub(crate) fn take_due(
        &mut self,
        now: Micros,
        due: impl Fn(ConnKey) -> Option<Micros>,
    ) -> Option<Timer> {
        match self.deadlines.first() {
            Some(&(at, _)) if at <= now => self.deadlines.pop_first().map(|(_, timer)| timer),
            _ => self.connections.take_due(now, due).map(Timer::Connection),
        }
    }
}
