//! DISCONNECT from a client.

use super::Shard;
use super::connection::{Phase, Refusal};
use crate::keys::{ConnKey, Micros};
use crate::sink::Sink;
use weir_wire::packet::Disconnect;
use weir_wire::{Property, ReasonCode};

impl Shard {
    pub(super) fn on_disconnect(
        &mut self,
        conn: ConnKey,
        disconnect: &Disconnect<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        let expiry_s = disconnect.properties.find(|property| match property {
            Property::SessionExpiryInterval(seconds) => Some(seconds),
            _ => None,
        });
        let limit_s = self.bounds.limits.session_expiry_s_max;
        if let Some(expiry_s) = expiry_s
            && let Some(connection) = self.connections.get_mut(conn)
            && let Phase::Live(live) = &connection.phase
        {
            let key = live.session;
            let session = &mut self.clients[key];
            if session.expiry_s == 0 && expiry_s > 0 {
                // What was sent was not kept: the client said it would not come back
                // [MQTT-3.14.2-2].
                return Err(Refusal::protocol("a session expiry after none in CONNECT"));
            }
            session.expiry_s = expiry_s.min(limit_s);
        }
        // [MQTT-3.14.4-3]: the will goes, but for the one reason that asks for it.
        let is_will_due = disconnect.reason != ReasonCode::Success;
        sink.close(conn);
        self.forget_live(conn, is_will_due, now, sink);
        Ok(())
    }
}
