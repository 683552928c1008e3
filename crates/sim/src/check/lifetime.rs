//! Connections end when they must, and not before.

use crate::finding::Checker;
use crate::model::Model;
use crate::names::ConnNo;
use weir_core::Micros;
use weir_wire::packet::Packet;

/// The shard closed a connection. Called before the model knows it as closed.
pub fn closed(model: &mut Model, number: ConnNo) {
    let conn = &model.conns[number.0];
    let is_silent = if conn.session.is_none() {
        // No CONNECT came.
        let connect_timeout = Micros::from_secs(model.limits.connect_timeout_s);
        model.now >= conn.opened_at + connect_timeout
    } else {
        conn.silence_max.0 > 0 && model.now >= conn.heard_at + conn.silence_max
    };
    let has_left = conn.is_leaving && conn.owed.is_empty();
    let is_excused = conn.is_refused
        || is_silent
        || has_left
        || model.is_closing(number)
        || model.is_blamed(conn.client);
    // Of one that has left already nothing is said when its client has come to another node.
    let is_taken_over = conn.is_leaving && model.is_claimed(conn.client);
    let is_excused = is_excused || is_taken_over || model.may_be_refused(number);
    if !conn.is_open || !is_excused {
        let what = format!("connection {} was closed without a reason", number.0);
        model.fail(Checker::Lifetime, what);
    }
}

/// The shard wrote a packet.
pub fn wrote(model: &mut Model, number: ConnNo, packet: &Packet<'_>) {
    let conn = &model.conns[number.0];
    let is_first = matches!(packet, Packet::ConnAck(_));
    let fault = if !conn.is_open {
        "comes after its end"
    } else if is_first != (conn.owed_connack.is_some() || conn.asking.is_some())
        && !matches!(packet, Packet::Disconnect(_))
    {
        "comes where CONNACK has its place"
    } else {
        return;
    };
    model.fail(Checker::Lifetime, format!("connection {}: {packet:?} {fault}", number.0));
}

/// Time has passed: whoever was silent too long is gone [MQTT-3.1.2-22].
pub fn passed(model: &mut Model) {
    for at in 0..model.conns.len() {
        let conn = &model.conns[at];
        let deadline = if !conn.is_open {
            continue;
        } else if conn.session.is_none() {
            conn.opened_at.max(conn.excused_at) + Micros::from_secs(model.limits.connect_timeout_s)
        } else if conn.silence_max.0 > 0
            && !conn.is_paused
            && !conn.is_leaving
            && conn.owed_connack.is_none()
            // With few answers that may wait, messages that wait for the log keep it from being
            // read from its CONNACK on, which nobody sees while it sends nothing.
            && !(model.is_logged && conn.is_resumed && model.limits.answers_held_max < 4)
        {
            conn.heard_at.max(conn.excused_at) + conn.silence_max
        } else {
            continue;
        };
        if deadline <= model.now {
            let what = format!("connection {at} is silent for too long and still there");
            model.fail(Checker::Lifetime, what);
        }
    }
}
