//! Every request is answered once, by what answers it, and in the order of the requests.

use crate::finding::Checker;
use crate::model::{Model, Owed};
use crate::names::ConnNo;
use weir_wire::PacketKind;

/// An answer that says yes. Returns the place of the intake that a PUBACK or PUBREC stands for, if
/// there is one; nothing if it is wrong.
pub fn answered(
    model: &mut Model,
    conn: ConnNo,
    kind: PacketKind,
    packet_id: u16,
) -> Option<Option<usize>> {
    let owed = due(model, conn, kind, packet_id)?;
    model.promise(conn, owed.promises);
    Some(owed.intake)
}

/// An answer that says no: nothing has changed, so nothing is promised.
pub fn refused(
    model: &mut Model,
    conn: ConnNo,
    kind: PacketKind,
    packet_id: u16,
) -> Option<Option<usize>> {
    Some(due(model, conn, kind, packet_id)?.intake)
}

fn due(model: &mut Model, conn: ConnNo, kind: PacketKind, packet_id: u16) -> Option<Owed> {
    let next = model.conns[conn.0].owed.pop_front();
    match next {
        Some(owed) if (owed.kind, owed.packet_id) == (kind, packet_id) => Some(owed),
        _ => {
            let owed = next.map(|owed| (owed.kind, owed.packet_id));
            let what = format!("connection {}: {kind:?} #{packet_id} but due is {owed:?}", conn.0);
            model.fail(Checker::Answers, what);
            None
        }
    }
}

/// PINGRESP stands behind no other answer.
pub fn ponged(model: &mut Model, conn: ConnNo) {
    let owed = &mut model.conns[conn.0].owed;
    match owed.iter().position(|owed| owed.kind == PacketKind::PingResp) {
        Some(at) => drop(owed.remove(at)),
        None => model.fail(Checker::Answers, format!("connection {}: a PINGRESP too many", conn.0)),
    }
}

/// PUBREL answers PUBREC, or is owed to a session that was resumed.
pub fn pubrel(model: &mut Model, conn: ConnNo, packet_id: u16) {
    let session = model.conns[conn.0].session;
    if session.is_none() {
        let what = format!("connection {}: PUBREL #{packet_id} to nobody", conn.0);
        model.fail(Checker::Answers, what);
    }
}

/// The codes of a SUBACK: what was asked for.
pub fn codes(model: &mut Model, places: &[usize], codes: &[u8]) {
    let asked = |&place: &usize| {
        let subscribe = &model.recent.subscribes[place];
        let options = &model.subscription(subscribe.subscription).options;
        options.iter().find(|&&(at, _)| at == subscribe.noted).map_or(0, |(_, it)| it.qos as u8)
    };
    let asked: Vec<u8> = places.iter().map(asked).collect();
    if asked != codes {
        model.fail(Checker::Answers, format!("SUBACK {codes:?} to a SUBSCRIBE of {asked:?}"));
    }
}

/// Nothing is owed.
pub fn calm(model: &mut Model) {
    for at in 0..model.conns.len() {
        let conn = &model.conns[at];
        if !conn.is_live {
            continue;
        }
        let owed: Vec<_> = conn.owed.iter().map(|owed| (owed.kind, owed.packet_id)).collect();
        if conn.owed_connack.is_some() || !owed.is_empty() {
            let what = format!("connection {at} waits for {owed:?}");
            model.fail(Checker::Answers, what);
        } else if conn.is_leaving {
            let what = format!("connection {at} should have been closed");
            model.fail(Checker::Lifetime, what);
        }
    }
}
