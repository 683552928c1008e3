//! PUBLISH of QoS 2 to a durable session: it leaves when its identifier outlives a crash.
//!
//! A client remembers the identifiers of QoS 2 until they are released. If one that it got were
//! forgotten in a crash, the next message with that identifier would be taken for the same one.
//!
//! What follows on the connection at QoS 1 or 2 stays behind it, as what is sent again comes in the
//! order in which it was sent at first [MQTT-4.4.0-1].

use super::connection::Live;
use super::connections::Connections;
use crate::answers::{Answers, Reply};
use crate::keys::{ConnKey, Micros};
use crate::log::Log;
use weir_wire::{PacketId, QoS};

/// Whether a delivery to a durable session has to wait for the log.
#[inline]
pub(super) fn is_held(connections: &mut Connections, conn: ConnKey, qos: QoS) -> bool {
    let has_held = |live: &mut Live| live.cold.as_ref().is_some_and(|it| it.publishes_held > 0);
    qos == QoS::ExactlyOnce || connections.live_mut(conn).is_some_and(has_held)
}

/// A delivery was recorded just now: it leaves after that is committed, in its place among the
/// answers of the connection. So no more wait than may be in flight.
#[cold]
pub(super) fn hold_publish(
    connections: &mut Connections,
    answers: &mut Answers,
    log: &mut Log,
    (conn, packet_id): (ConnKey, PacketId),
    now: Micros,
) {
    let Some(live) = connections.live_mut(conn) else { return };
    let ticket = answers.insert_alone(conn, Reply::Publish(packet_id), now);
    log.wait_for_last(ticket);
    let cold = live.cold();
    cold.answers.push_back(ticket);
    cold.publishes_held += 1;
}
