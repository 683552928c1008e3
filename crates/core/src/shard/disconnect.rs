//! DISCONNECT from a client.

use super::Shard;
use super::connection::{AwaitAuth, Phase, Refusal, connect_again};
use crate::keys::{ConnKey, Micros};
use crate::sink::{Notice, Sink};
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
            let session = &mut self.clients[live.session];
            if session.expiry_s == 0 && expiry_s > 0 {
                // What was sent was not kept: the client said it would not come back
                // [MQTT-3.14.2-2].
                return Err(Refusal::protocol("a session expiry after none in CONNECT"));
            }
            session.expiry_s = expiry_s.min(limit_s);
        }
        // [MQTT-3.14.4-3]: the will goes, but for the one reason that asks for it.
        let is_will_due = disconnect.reason != ReasonCode::Success;
        self.tell_left(conn, Some(disconnect.reason), sink);
        let is_held = self.holds_answers(conn);
        if is_held || expiry_s.is_some() {
            self.log_leaving(conn, is_will_due, expiry_s.is_some(), sink);
        }
        // What the client asked for before is answered first; its DISCONNECT holds from now on.
        if !is_held {
            sink.close(conn);
            self.forget_live(conn, is_will_due, now, sink);
        }
        Ok(())
    }

    /// What DISCONNECT says of the session and its will holds also after a crash, which may come
    /// before the client's answers have left. If the session ends with its connection, what is sent
    /// from here on is not kept.
    #[cold]
    fn log_leaving(
        &mut self,
        conn: ConnKey,
        is_will_due: bool,
        has_expiry: bool,
        sink: &mut impl Sink,
    ) {
        let Some(live) = self.connections.live_mut(conn) else { return };
        let key = live.session;
        let cold = live.cold();
        let lost = cold.will.take_if(|_| !is_will_due);
        cold.is_leaving = true;
        if lost.is_some() || has_expiry {
            let will = cold.will.take();
            self.log_connected(key, will.as_deref(), sink);
            if let Some(live) = self.connections.live_mut(conn) {
                live.cold().will = will;
            }
        }
    }

    /// Whether its client has sent DISCONNECT.
    pub(super) fn is_leaving(&self, conn: ConnKey) -> bool {
        let cold = self.connections.live(conn).and_then(|live| live.cold.as_ref());
        cold.is_some_and(|cold| cold.is_leaving)
    }

    /// Ends a connection after the client's DISCONNECT: nothing is sent after it [MQTT-3.14.4-1].
    pub(super) fn leave(&mut self, conn: ConnKey, now: Micros, sink: &mut impl Sink) {
        sink.close(conn);
        self.forget_live(conn, true, now, sink);
    }

    /// Says of a connection that it ends from the client's side.
    pub(super) fn tell_left(
        &self,
        conn: ConnKey,
        reason: Option<ReasonCode>,
        sink: &mut impl Sink,
    ) {
        let client_id = match self.connections.session(conn) {
            Some(session) => &self.clients[session].client_id,
            None => match self.connections.get(conn).map(|connection| &connection.phase) {
                Some(Phase::AwaitAuth(waiting)) => claimed_id(waiting),
                Some(_) => "",
                None => return,
            },
        };
        sink.notice(Notice::Left { conn, client_id, reason });
    }
}

#[cold]
fn claimed_id(waiting: &AwaitAuth) -> &str {
    connect_again(&waiting.connect).map_or("", |connect| connect.client_id)
}
