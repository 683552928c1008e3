//! The connections of a shard, by the keys of its shell.

use super::connection::{Connection, Live, Phase};
use crate::keys::{ConnKey, SessionKey, Ticket};
use crate::pages::Pages;
use std::collections::VecDeque;

/// Every connection of a shard.
#[derive(Debug, Default)]
pub(super) struct Connections(Pages<Connection>);

impl Connections {
    /// A new one; its key is free.
    pub(super) fn add(&mut self, conn: ConnKey, connection: Connection) {
        debug_assert!(self.get(conn).is_none(), "a key is free before it is used again");
        self.0.insert_at(conn.0 as usize, connection);
    }

    pub(super) fn take(&mut self, conn: ConnKey) -> Option<Connection> {
        self.0.take(conn.0 as usize)
    }

    #[inline]
    pub(super) fn get(&self, conn: ConnKey) -> Option<&Connection> {
        self.0.get(conn.0 as usize)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, conn: ConnKey) -> Option<&mut Connection> {
        self.0.get_mut(conn.0 as usize)
    }

    #[inline]
    pub(super) fn live(&self, conn: ConnKey) -> Option<&Live> {
        match &self.get(conn)?.phase {
            Phase::Live(live) => Some(live),
            Phase::AwaitConnect(_) | Phase::AwaitAuth(_) => None,
        }
    }

    #[inline]
    pub(super) fn live_mut(&mut self, conn: ConnKey) -> Option<&mut Live> {
        self.get_mut(conn)?.live_mut()
    }

    /// The session of the connection's client, once that is known.
    pub(super) fn session(&self, conn: ConnKey) -> Option<SessionKey> {
        self.live(conn).map(|live| live.session)
    }

    /// The connection's answers that wait, if it ever had any.
    pub(super) fn held_answers(&self, conn: ConnKey) -> Option<&VecDeque<Ticket>> {
        self.live(conn)?.cold.as_ref().map(|cold| &cold.answers)
    }

    /// All that may be there.
    pub(super) fn keys(&self) -> impl Iterator<Item = ConnKey> + use<> {
        (0..self.0.end()).map(|at| ConnKey(at as u32))
    }
}
