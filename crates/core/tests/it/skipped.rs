//! Packets that are too large to wait for their rest at the memory ceiling.

use crate::net::{Ask, Net, Peer, message};
use weir_core::Stats;
use weir_wire::packet::{PINGREQ, Publish};
use weir_wire::{PacketKind, PropertiesBuf, Property, QoS, ReasonCode, Version};

const CEILING: &str = "the memory ceiling is reached";

/// A packet that may wait for its rest has no more bytes.
const PARTIAL_BYTES_MAX: usize = 16 * 1024;

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 100, ..Ask::default() }
}

fn encoded(publish: &Publish<'_>, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    publish.encode(version, &mut bytes);
    bytes
}

/// Sends bytes in parts, as a socket brings them.
fn send_in_parts(net: &mut Net, peer: Peer, bytes: &[u8]) {
    for part in bytes.chunks(PARTIAL_BYTES_MAX + 1) {
        net.send_bytes(peer, part);
        assert!(net.left(peer) <= PARTIAL_BYTES_MAX, "the rest of the packet is not kept");
    }
}

fn stats(net: &Net) -> Stats {
    net.shards[0].stats()
}

/// A shard at the ceiling, a subscriber to `t`, and a publisher.
fn pressed(version: Version) -> (Net, Peer, Peer) {
    let mut net = Net::new(1);
    let sub = net.join("sub", Ask::default());
    net.subscribe(sub, "t", QoS::ExactlyOnce);
    net.read(sub);
    let ask =
        if version.is_v5() { kept() } else { Ask { version, clean: false, ..Ask::default() } };
    let publ = net.join("pub", ask);
    net.shards[0].set_pressed(true);
    (net, sub, publ)
}

#[test]
fn a_long_message_is_answered_from_its_start_and_its_rest_is_skipped() {
    let payload = "x".repeat(100_000);
    for (qos, answer) in [(QoS::AtLeastOnce, "PUBACK"), (QoS::ExactlyOnce, "PUBREC")] {
        let (mut net, sub, publ) = pressed(Version::V5);
        let mut bytes = encoded(&message("t", qos, 1, &payload), Version::V5);
        // What follows is read as ever.
        bytes.extend_from_slice(&PINGREQ);
        bytes.extend_from_slice(&encoded(&message("t", qos, 2, "short"), Version::V5));
        send_in_parts(&mut net, publ, &bytes);
        let refused = format!("{answer} #1 Quota exceeded: {CEILING}");
        assert_eq!(net.read(publ), [refused, "PINGRESP".into(), format!("{answer} #2 Success")]);
        assert_eq!(net.read(sub), [format!("PUBLISH t q{} #1 short", qos as u8)]);
        let stats = stats(&net);
        assert_eq!((stats.publishes_in, stats.publishes_refused), (2, 1));
        assert_eq!(stats.refusals.count(ReasonCode::QuotaExceeded), 1);
        assert_eq!((stats.connections_ended, net.left(publ)), (0, 0));
    }
}

#[test]
fn a_client_that_comes_back_with_a_long_message_gets_rid_of_it() {
    let (mut net, sub, publ) = pressed(Version::V5);
    net.cut(publ);
    let payload = "x".repeat(1024 * 1024);
    let publ = net.join("pub", kept());
    let again = Publish { dup: true, ..message("t", QoS::ExactlyOnce, 7, &payload) };
    send_in_parts(&mut net, publ, &encoded(&again, Version::V5));
    assert_eq!(net.read(publ), [format!("PUBREC #7 Quota exceeded: {CEILING}")]);
    // Its identifier is free again.
    net.shards[0].set_pressed(false);
    net.publish(publ, "t", QoS::ExactlyOnce, 7, "new");
    assert_eq!(net.read(publ), ["PUBREC #7 Success"]);
    assert_eq!(net.read(sub), ["PUBLISH t q2 #1 new"]);
}

#[test]
fn a_long_message_that_was_taken_before_is_acknowledged_again() {
    let (mut net, sub, publ) = pressed(Version::V5);
    net.shards[0].set_pressed(false);
    let payload = "x".repeat(100_000);
    let publish = message("t", QoS::ExactlyOnce, 7, &payload);
    net.publish_packet(publ, &publish);
    net.cut(publ);
    net.shards[0].set_pressed(true);
    let publ = net.join("pub", kept());
    let again = Publish { dup: true, ..publish };
    send_in_parts(&mut net, publ, &encoded(&again, Version::V5));
    assert_eq!(net.read(publ), ["PUBREC #7 Success"]);
    net.ack(publ, PacketKind::PubRel, 7);
    assert_eq!(net.read(publ), ["PUBCOMP #7 Success"]);
    assert_eq!(net.read(sub).len(), 1);
}

#[test]
fn a_long_message_at_qos_0_is_dropped_and_counted() {
    for version in [Version::V311, Version::V5] {
        let (mut net, sub, publ) = pressed(version);
        let payload = "x".repeat(100_000);
        let long = encoded(&message("t", QoS::AtMostOnce, 0, &payload), version);
        send_in_parts(&mut net, publ, &long);
        net.publish(publ, "t", QoS::AtMostOnce, 0, "short");
        assert_eq!((net.read(publ), net.read(sub)), (vec![], vec!["PUBLISH t q0 short".into()]));
        assert_eq!(stats(&net).publishes_refused, 1);
        assert!(net.wires[0].notices.concat().contains("Refused"));
    }
}

#[test]
fn before_5_a_long_message_that_is_not_taken_is_not_acknowledged() {
    let (mut net, _, publ) = pressed(Version::V311);
    let payload = "x".repeat(100_000);
    let long = encoded(&message("t", QoS::AtLeastOnce, 1, &payload), Version::V311);
    net.send_bytes(publ, &long[..PARTIAL_BYTES_MAX + 1]);
    assert_eq!(net.read(publ), ["closed"]);
}

#[test]
fn what_is_skipped_may_look_like_anything() {
    let (mut net, _, publ) = pressed(Version::V5);
    let pings = "\u{0}".repeat(50_000);
    let mut bytes = encoded(&message("t", QoS::AtLeastOnce, 1, &pings), Version::V5);
    bytes.extend_from_slice(&PINGREQ);
    net.send_bytes(publ, &bytes[..PARTIAL_BYTES_MAX + 1]);
    bytes[PARTIAL_BYTES_MAX + 1..].iter().for_each(|byte| net.send_bytes(publ, &[*byte]));
    let refused = format!("PUBACK #1 Quota exceeded: {CEILING}");
    assert_eq!(net.read(publ), [refused, "PINGRESP".into()]);
}

#[test]
fn a_malformed_start_ends_the_connection() {
    for start in [
        &[0x36, 0x80, 0x80, 0x20, 0, 1, b't', 0, 1, 0][..],
        &[0x32, 0x80, 0x80, 0x20, 0, 1, b'#', 0, 1, 0],
    ] {
        let (mut net, _, publ) = pressed(Version::V5);
        let mut bytes = start.to_vec();
        bytes.resize(PARTIAL_BYTES_MAX + 1, 0);
        net.send_bytes(publ, &bytes);
        assert!(net.read(publ)[0].starts_with("DISCONNECT Malformed"), "{start:?}");
    }
}

#[test]
fn what_a_packet_needs_before_its_payload_is_not_awaited() {
    let (mut net, _, publ) = pressed(Version::V5);
    let mut properties = PropertiesBuf::new();
    let long = "x".repeat(PARTIAL_BYTES_MAX + 1);
    properties.push(Property::UserProperty("name", &long));
    let properties = properties.as_properties();
    let publish = Publish { properties, ..message("t", QoS::AtLeastOnce, 1, "") };
    net.send_bytes(publ, &encoded(&publish, Version::V5)[..PARTIAL_BYTES_MAX + 1]);
    assert!(net.read(publ)[0].starts_with("DISCONNECT Quota exceeded"));
}

#[test]
fn no_other_large_packet_is_awaited() {
    let (mut net, _, publ) = pressed(Version::V5);
    let mut subscribe = vec![0x82, 0x80, 0x80, 0x20, 0, 1, 0, 0xFF, 0xFF];
    subscribe.resize(PARTIAL_BYTES_MAX + 1, b'a');
    // What comes whole before it does not count.
    let mut pings = PINGREQ.repeat(8000);
    pings.extend_from_slice(&subscribe[..1000]);
    net.send_bytes(publ, &pings);
    assert_eq!(net.read(publ), vec!["PINGRESP"; 8000]);
    net.send_bytes(publ, &subscribe[1000..PARTIAL_BYTES_MAX]);
    assert_eq!(net.read(publ), [""; 0]);
    net.send_bytes(publ, &subscribe[PARTIAL_BYTES_MAX..]);
    assert!(net.read(publ)[0].starts_with("DISCONNECT Quota exceeded"));
}

#[test]
fn a_partition_that_moves_takes_along_what_is_still_to_be_skipped() {
    let mut net = Net::new(2);
    let name = net.names()[0][0].clone();
    let publ = net.join(&name, kept());
    net.shards.iter_mut().for_each(|shard| shard.set_pressed(true));
    let payload = "x".repeat(100_000);
    let mut bytes = encoded(&message("t", QoS::AtLeastOnce, 1, &payload), Version::V5);
    bytes.extend_from_slice(&PINGREQ);
    net.send_bytes(publ, &bytes[..50_000]);
    net.move_name(&name, 1);
    assert_eq!(net.shard_of(publ), 1);
    net.send_bytes(publ, &bytes[50_000..]);
    let refused = format!("PUBACK #1 Quota exceeded: {CEILING}");
    assert_eq!(net.read(publ), [refused, "PINGRESP".into()]);
}
