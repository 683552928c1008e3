use super::*;

fn message(qos: QoS, number: u32) -> Message {
    Message { place: 0, qos, retain: false, number }
}

const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

#[test]
fn what_was_not_acknowledged_is_sent_again_in_its_order_and_as_far_as_it_was() {
    let mut outbox = Outbox::default();
    let ids: Vec<PacketId> = [Q1, Q2, Q2, Q1, Q2]
        .iter()
        .zip(0..)
        .map(|(&qos, n)| outbox.push(message(qos, n)))
        .collect();
    assert_eq!(outbox.end(ids[0]), Some(message(Q1, 0)));
    assert_eq!(outbox.release(ids[1]), Some(message(Q2, 1)));
    // A second PUBREC is no news, and PUBACK ends no exchange at QoS 2 that has come so far.
    assert_eq!(outbox.release(ids[1]), None);
    assert_eq!(outbox.end(ids[1]), None);
    assert_eq!(outbox.release(ids[2]), Some(message(Q2, 2)));
    outbox.complete(ids[2]);
    let publish = |at: usize, qos, dup| Again::Publish {
        packet_id: ids[at],
        message: message(qos, at as u32),
        dup,
    };
    let again = [Again::Release(ids[1]), publish(3, Q1, true), publish(4, Q2, true)];
    assert_eq!(outbox.again(true), again);
    assert_eq!(outbox.in_flight(), 3);
    // The session is lost: there is nothing to release.
    assert_eq!(outbox.again(false), [publish(3, Q1, false), publish(4, Q2, false)]);
    assert_eq!(outbox.in_flight(), 2);
}

#[test]
fn a_packet_identifier_is_used_again_when_it_is_free() {
    let mut outbox = Outbox::default();
    let held = outbox.push(message(Q1, 0));
    for number in 1..=u32::from(u16::MAX) {
        let packet_id = outbox.push(message(Q1, number));
        assert_ne!(packet_id, held);
        outbox.end(packet_id);
    }
    assert_eq!(outbox.in_flight(), 1);
    // No PUBCOMP before PUBREC.
    outbox.complete(held);
    assert_eq!(outbox.in_flight(), 1);
}
