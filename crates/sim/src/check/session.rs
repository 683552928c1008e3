//! Session Present says whether there is a session [MQTT-3.2.2-2, 3.2.2-3].

use crate::finding::Checker;
use crate::model::Model;
use crate::names::ConnNo;
use weir_wire::packet::ConnAck;
use weir_wire::{ReasonCode, Version};

/// A CONNACK was written.
pub fn connack(model: &mut Model, conn: ConnNo, connack: &ConnAck<'_>) {
    let owed = model.conns[conn.0].owed_connack.take();
    if owed.is_none() && connack.reason != ReasonCode::Success && model.may_be_refused(conn) {
        return;
    }
    // Before 3.1.1 there is no such flag.
    let has_flag = model.conns[conn.0].version > Version::V31;
    let owed = owed.map(|is_present| is_present && has_flag);
    let said = (connack.reason == ReasonCode::Success).then_some(connack.session_present);
    if said != owed || owed.is_none() {
        let what = format!(
            "connection {}: CONNACK {:?} with Session Present {}, the session is there: {owed:?}",
            conn.0, connack.reason, connack.session_present
        );
        model.fail(Checker::Session, what);
    }
}
