//! Packet identifiers are not used twice at a time, DUP stands on what is sent again and only
//! there, and no more is in flight than the client takes, nor a longer packet.

use crate::finding::Checker;
use crate::model::{Model, Out, OutStep};
use crate::names::{ConnNo, MessageNo, SessionNo};
use weir_wire::PacketId;
use weir_wire::packet::Publish;

/// Bytes were written.
pub fn size(model: &mut Model, conn: ConnNo, bytes: usize) {
    let maximum = model.conns[conn.0].packet_bytes_max;
    if bytes > maximum {
        // [MQTT-3.1.2-24]
        let what = format!("connection {}: a packet of {bytes} bytes, not {maximum}", conn.0);
        model.fail(Checker::InFlight, what);
    }
}

/// A PUBLISH was written.
pub fn publish(
    model: &mut Model,
    conn: ConnNo,
    session: SessionNo,
    message: Option<MessageNo>,
    publish: &Publish<'_>,
) {
    let Some(packet_id) = publish.packet_id.map(PacketId::value) else { return };
    if model.session(session).ended.is_some() {
        return;
    }
    let at = model.at;
    let known = model.session(session).out.get(&packet_id).copied();
    let resent = model.conns[conn.0].resent;
    let fault = match known {
        // It may have waited for the log until its connection, or the broker, was gone.
        None if publish.dup && model.is_logged && model.conns[conn.0].is_resumed => None,
        None if publish.dup => Some("DUP on what was not sent before"),
        None => None,
        // [MQTT-2.2.1-4]
        Some(_) if !publish.dup => Some("its packet identifier is in use"),
        Some(out) if (out.message, out.qos) != (message, publish.qos) => {
            Some("sent again, it is another message")
        }
        // [MQTT-4.3.3-6]
        Some(out) if out.step == OutStep::PubComp => Some("sent again after PUBREC"),
        // [MQTT-4.4.0-1]
        Some(out) if out.conn == conn => Some("sent again on the same connection"),
        // [MQTT-4.6.0-1] is the client's; the server's order is as it was.
        Some(out) if out.at < resent => Some("sent again out of its order"),
        Some(_) => None,
    };
    let out = Out {
        message,
        qos: publish.qos,
        step: OutStep::First,
        conn,
        at: known.map_or(at, |out| out.at),
    };
    if known.is_some() {
        model.conns[conn.0].resent = out.at;
    }
    let open = &mut model.sessions[session.0].out;
    open.insert(packet_id, out);
    // [MQTT-3.3.4-9]
    let count = open.values().filter(|out| out.conn == conn).count();
    let maximum = model.conns[conn.0].receive_maximum;
    let fault = fault.or((count > maximum).then_some("over the Receive Maximum"));
    if let Some(fault) = fault {
        let name = message.map_or("nothing".into(), |message| format!("m{}", message.0));
        let what = format!("connection {}: #{packet_id}, {name}: {fault}", conn.0);
        model.fail(Checker::InFlight, what);
    }
}

/// A PUBREL was written: its PUBREC has come. An identifier that is not known is answered, as the
/// PUBREC may be of a session long gone.
pub fn pubrel(model: &mut Model, conn: ConnNo, packet_id: u16) {
    let Some(session) = model.conns[conn.0].session else { return };
    let known = model.session(session).out.get(&packet_id);
    if known.is_some_and(|out| out.step == OutStep::First) {
        let what = format!("connection {}: PUBREL #{packet_id} before PUBREC", conn.0);
        model.fail(Checker::InFlight, what);
    }
}

/// Every exchange is over, but for what was too long to be sent again.
pub fn calm(model: &mut Model) {
    for number in model.alive.clone().into_values() {
        let drops = &model.recent.drops;
        let messages = &model.messages;
        let session = &mut model.sessions[number.0];
        let conn = session.conn;
        session.out.retain(|_, out| {
            let topic = out.message.map(|message| messages[message.0].topic);
            let is_dropped = topic.is_some_and(|topic| drops.contains_key(&(number, topic)));
            Some(out.conn) == conn || !is_dropped
        });
        if let Some((packet_id, out)) = session.out.first_key_value() {
            let what = format!("session {}: #{packet_id} is never done: {out:?}", number.0);
            model.fail(Checker::InFlight, what);
        }
    }
}
