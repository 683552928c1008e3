//! Nothing is sent for the first time that has expired, and what is left of its time is said
//! [MQTT-3.3.2-5, 3.3.2-6].

use crate::finding::Checker;
use crate::model::Model;
use crate::names::{ConnNo, MessageNo};
use weir_wire::packet::Publish;
use weir_wire::{Property, QoS};

/// A PUBLISH without DUP was written.
pub fn copy(model: &mut Model, conn: ConnNo, message: MessageNo, publish: &Publish<'_>) {
    let Some(seconds) = model.message(message).expiry_s else { return };
    let said = publish.properties.find(|property| match property {
        Property::MessageExpiryInterval(seconds) => Some(seconds),
        _ => None,
    });
    let is_v5 = model.conns[conn.0].version.is_v5();
    if said.is_some() != is_v5 || said.is_some_and(|said| said > seconds) {
        let what = format!("m{} lives {seconds} s, and is said to live {said:?}", message.0);
        model.fail(Checker::Expiry, what);
    }
    // What expires in a letter is still delivered, and what is retained comes by letter as well.
    let mut intakes = model.recent.intakes.iter().filter(|intake| intake.message == message);
    let may_go = |expires_at: weir_core::Micros| model.now < expires_at;
    // At QoS 2 it is on its way when it is in the log, and waits for that; at QoS 1 it may wait
    // behind that.
    let session = model.conns[conn.0].session.map(|session| model.session(session));
    let is_durable =
        model.conns[conn.0].is_resumed || session.is_some_and(|session| session.expiry_s > 0);
    let is_on_its_way = model.is_logged && is_durable && publish.qos > QoS::AtMostOnce;
    // A will that may be sent has no time of its own.
    let is_fresh = publish.retain
        || is_on_its_way
        || model.may_be_sent(message)
        || intakes.any(|intake| {
            let settled_at = intake.settled_at.unwrap_or(model.now);
            intake.expires_at.is_none_or(|at| may_go(at) || settled_at >= at)
        });
    if !is_fresh {
        model.fail(Checker::Expiry, format!("m{} was sent after it had expired", message.0));
    }
}
