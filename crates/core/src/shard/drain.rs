//! Clients that are sent to another server: those that come, and those that are here.

use super::Shard;
use super::connection::Refusal;
use crate::drain::Drain;
use crate::keys::{ConnKey, Micros};
use crate::sink::Sink;
use std::sync::Arc;
use weir_wire::{PropertiesBuf, Property, ReasonCode};

const DETAIL: &str = "the broker is being drained";

const CLOSING_DETAIL: &str = "this node is being stopped";

impl Shard {
    /// Refuses each CONNECT from now on, and says where to go instead; with nothing, no more.
    pub fn set_drain(&mut self, drain: Option<Arc<Drain>>) {
        self.drain = drain;
    }

    /// Sends clients away that are connected, at most `clients_max` of those whose keys begin at
    /// `from`. Their sessions stay, as they would if the connections were lost. Returns how many
    /// these are, and where to go on; nothing once all keys were looked at.
    pub fn send_away(
        &mut self,
        from: ConnKey,
        clients_max: usize,
        now: Micros,
        sink: &mut impl Sink,
    ) -> (usize, Option<ConnKey>) {
        let Some(drain) = self.drain.clone() else { return (0, None) };
        self.slices.begin();
        let (mut sent, mut next) = (0, None);
        for conn in self.connections.keys().skip(from.0 as usize) {
            if sent == clients_max {
                next = Some(conn);
                break;
            }
            if self.is_live(conn) {
                self.end(conn, Refusal::new(drain.reason(), DETAIL), now, sink);
                sent += 1;
            }
        }
        self.settle(now, sink);
        self.come_to_rest(now, sink);
        (sent, next)
    }

    /// The connections that there are, from this key on.
    pub fn conns_from(&self, from: ConnKey) -> impl Iterator<Item = ConnKey> {
        let keys = self.connections.keys().skip(from.0 as usize);
        keys.filter(|&conn| self.connections.get(conn).is_some())
    }

    /// Whether there are connections whose client is not known yet.
    pub fn awaits_connects(&self) -> bool {
        self.conns_from(ConnKey(0)).any(|conn| !self.is_live(conn))
    }

    /// Why a CONNECT is refused now, whoever it comes from.
    pub(super) fn check_drain(&self) -> Result<(), Refusal> {
        match &self.drain {
            None if self.claims.is_closing => {
                Err(Refusal::new(ReasonCode::UseAnotherServer, CLOSING_DETAIL))
            }
            None => Ok(()),
            Some(drain) => Err(Refusal::new(drain.reason(), DETAIL)),
        }
    }

    /// Says where to go, behind what is said already.
    pub(super) fn say_reference(&self, reason: ReasonCode, properties: &mut PropertiesBuf) {
        let drain = self.drain.as_ref().filter(|drain| drain.reason() == reason);
        if let Some(reference) = drain.and_then(|drain| drain.reference.as_deref()) {
            properties.push(Property::ServerReference(reference));
        }
    }
}
