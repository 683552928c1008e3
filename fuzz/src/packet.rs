//! The property of one packet: what decodes encodes, borrows from its input, and comes back.
//!
//! Shared by the fuzz targets and by the ordinary test of `weir-wire` that replays what they once
//! found, so it knows `weir_wire` alone.

use std::ops::Range;
use weir_wire::packet::{Connect, Publish};
use weir_wire::{
    Frame, Packet, PacketId, PacketKind, Properties, PropertiesBuf, ReasonCode, Version, WireError,
};

/// Versions that are tried on the same input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// 3.1 and 3.1.1.
    V3,
    /// 5.0.
    V5,
}

/// The target of one kind of packet in one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the target, of its corpus, and of its folder of regressions.
    pub name: &'static str,
    /// What the input is the body of.
    pub kind: PacketKind,
    /// How it is read.
    pub family: Family,
}

/// Every target of a packet.
pub const TARGETS: &[Target] = &[
    Target { name: "publish_v3", kind: PacketKind::Publish, family: Family::V3 },
    Target { name: "publish_v5", kind: PacketKind::Publish, family: Family::V5 },
    Target { name: "connect_v3", kind: PacketKind::Connect, family: Family::V3 },
    Target { name: "connect_v5", kind: PacketKind::Connect, family: Family::V5 },
    Target { name: "subscribe_v3", kind: PacketKind::Subscribe, family: Family::V3 },
    Target { name: "subscribe_v5", kind: PacketKind::Subscribe, family: Family::V5 },
    Target { name: "unsubscribe_v3", kind: PacketKind::Unsubscribe, family: Family::V3 },
    Target { name: "unsubscribe_v5", kind: PacketKind::Unsubscribe, family: Family::V5 },
    Target { name: "connack_v3", kind: PacketKind::ConnAck, family: Family::V3 },
    Target { name: "connack_v5", kind: PacketKind::ConnAck, family: Family::V5 },
    Target { name: "suback_v3", kind: PacketKind::SubAck, family: Family::V3 },
    Target { name: "suback_v5", kind: PacketKind::SubAck, family: Family::V5 },
    Target { name: "unsuback_v3", kind: PacketKind::UnsubAck, family: Family::V3 },
    Target { name: "unsuback_v5", kind: PacketKind::UnsubAck, family: Family::V5 },
    Target { name: "auth_v5", kind: PacketKind::Auth, family: Family::V5 },
    Target { name: "disconnect_v3", kind: PacketKind::Disconnect, family: Family::V3 },
    Target { name: "disconnect_v5", kind: PacketKind::Disconnect, family: Family::V5 },
    Target { name: "puback_v3", kind: PacketKind::PubAck, family: Family::V3 },
    Target { name: "puback_v5", kind: PacketKind::PubAck, family: Family::V5 },
    Target { name: "pubrec_v3", kind: PacketKind::PubRec, family: Family::V3 },
    Target { name: "pubrec_v5", kind: PacketKind::PubRec, family: Family::V5 },
    Target { name: "pubrel_v3", kind: PacketKind::PubRel, family: Family::V3 },
    Target { name: "pubrel_v5", kind: PacketKind::PubRel, family: Family::V5 },
    Target { name: "pubcomp_v3", kind: PacketKind::PubComp, family: Family::V3 },
    Target { name: "pubcomp_v5", kind: PacketKind::PubComp, family: Family::V5 },
    Target { name: "pingreq_v3", kind: PacketKind::PingReq, family: Family::V3 },
    Target { name: "pingreq_v5", kind: PacketKind::PingReq, family: Family::V5 },
    Target { name: "pingresp_v3", kind: PacketKind::PingResp, family: Family::V3 },
    Target { name: "pingresp_v5", kind: PacketKind::PingResp, family: Family::V5 },
];

/// Flags of the fixed header, in the first byte of an input.
pub const FLAGS: u8 = 0x0F;

/// Bytes that the remaining length is longer than it needs to be, in the first byte of an input.
const PADDING: u8 = 0x30;

/// Runs the property of a packet target on an input: a byte of [`FLAGS`] and padding, then the
/// packet's body. The body of CONNECT begins behind its protocol name and level.
///
/// # Panics
/// If the property does not hold.
pub fn check(kind: PacketKind, family: Family, input: &[u8]) {
    let Some((&head, body)) = input.split_first() else { return };
    let versions: &[Version] = match family {
        Family::V3 => &[Version::V31, Version::V311],
        Family::V5 => &[Version::V5],
    };
    for &version in versions {
        let protocol = if kind == PacketKind::Connect { protocol(version) } else { &[] };
        let bytes = framed((kind as u8) << 4 | head & FLAGS, head & PADDING, protocol, body);
        match Frame::check(&bytes, u32::MAX) {
            Ok(Some(frame)) => check_frame(version, frame),
            Ok(None) => panic!("a whole packet is taken for an incomplete one"),
            Err(error) => check_error(error),
        }
    }
}

/// Protocol name and level, as CONNECT begins with them.
pub const fn protocol(version: Version) -> &'static [u8] {
    match version {
        Version::V31 => b"\x00\x06MQIsdp\x03",
        Version::V311 => b"\x00\x04MQTT\x04",
        Version::V5 => b"\x00\x04MQTT\x05",
    }
}

/// A packet with a remaining length of its own making.
fn framed(first: u8, padding: u8, protocol: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    let (mut rest, mut padding) =
        (protocol.len() + body.len(), padding >> PADDING.trailing_zeros());
    while rest >= 0x80 || padding > 0 {
        bytes.push(rest as u8 | 0x80);
        padding = if rest < 0x80 { padding - 1 } else { padding };
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes.extend_from_slice(protocol);
    bytes.extend_from_slice(body);
    bytes
}

/// One error has one reason code, and it is one of decoding.
pub fn check_error(error: WireError) {
    let expected = match error {
        WireError::Malformed(_) => ReasonCode::MalformedPacket,
        WireError::ProtocolError(_) => ReasonCode::ProtocolError,
        WireError::PacketTooLarge { .. } => ReasonCode::PacketTooLarge,
        WireError::UnsupportedVersion { .. } => ReasonCode::UnsupportedProtocolVersion,
    };
    assert_eq!(error.reason(), expected);
}

/// Decodes the body of a frame and, if that is a packet, makes the round trip with it.
///
/// # Panics
/// If the property does not hold.
pub fn check_frame(version: Version, frame: Frame<'_>) {
    let packet = match Packet::decode(version, frame) {
        Ok(packet) => packet,
        Err(error) => return check_error(error),
    };
    assert_eq!(kind_of(&packet), frame.kind);
    let version = match packet {
        // It says its own.
        Packet::Connect(Connect { version, .. }) => version,
        _ => version,
    };
    check_borrows(&packet, frame.body);
    check_properties(&packet, version);

    let mut bytes = Vec::new();
    packet.encode(version, &mut bytes);
    // Encoding makes no more of a packet than it was: only a short form of one byte may grow.
    assert!(bytes.len() <= frame.bytes + 2, "{} bytes of {}", bytes.len(), frame.bytes);
    assert!(bytes.capacity() <= 4 * frame.bytes + 64, "{} bytes reserved", bytes.capacity());
    let again = match Frame::check(&bytes, u32::MAX) {
        Ok(Some(again)) if again.bytes == bytes.len() => again,
        other => panic!("encoded to no packet: {other:?} of {bytes:02x?}"),
    };
    assert_eq!(Packet::decode(version, again), Ok(packet), "the round trip changes the packet");
    let mut canonical = Vec::new();
    packet.encode(version, &mut canonical);
    assert_eq!(canonical, bytes, "encoding twice differs");
    if let Packet::Publish(publish) = &packet {
        check_places(publish, version);
    }
}

/// The kind that a decoded packet belongs to.
pub const fn kind_of(packet: &Packet<'_>) -> PacketKind {
    match packet {
        Packet::Connect(_) => PacketKind::Connect,
        Packet::ConnAck(_) => PacketKind::ConnAck,
        Packet::Publish(_) => PacketKind::Publish,
        Packet::PubAck(_) => PacketKind::PubAck,
        Packet::PubRec(_) => PacketKind::PubRec,
        Packet::PubRel(_) => PacketKind::PubRel,
        Packet::PubComp(_) => PacketKind::PubComp,
        Packet::Subscribe(_) => PacketKind::Subscribe,
        Packet::SubAck(_) => PacketKind::SubAck,
        Packet::Unsubscribe(_) => PacketKind::Unsubscribe,
        Packet::UnsubAck(_) => PacketKind::UnsubAck,
        Packet::PingReq => PacketKind::PingReq,
        Packet::PingResp => PacketKind::PingResp,
        Packet::Disconnect(_) => PacketKind::Disconnect,
        Packet::Auth(_) => PacketKind::Auth,
    }
}

/// The properties of a packet, where its kind has any.
pub const fn properties_of<'a>(packet: &Packet<'a>) -> Properties<'a> {
    match packet {
        Packet::Connect(connect) => connect.properties,
        Packet::ConnAck(connack) => connack.properties,
        Packet::Publish(publish) => publish.properties,
        Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubRel(ack) | Packet::PubComp(ack) => {
            ack.properties
        }
        Packet::Subscribe(subscribe) => subscribe.properties,
        Packet::SubAck(suback) => suback.properties,
        Packet::Unsubscribe(unsubscribe) => unsubscribe.properties,
        Packet::UnsubAck(unsuback) => unsuback.properties,
        Packet::PingReq | Packet::PingResp => Properties::EMPTY,
        Packet::Disconnect(disconnect) => disconnect.properties,
        Packet::Auth(auth) => auth.properties,
    }
}

/// Every part of a packet lies inside the body it was decoded from.
fn check_borrows(packet: &Packet<'_>, body: &[u8]) {
    let body = body.as_ptr_range();
    is_inside(&body, properties_of(packet).as_bytes());
    match packet {
        Packet::Connect(connect) => {
            is_inside(&body, connect.client_id.as_bytes());
            is_inside(&body, connect.user_name.unwrap_or_default().as_bytes());
            is_inside(&body, connect.password.unwrap_or_default());
            if let Some(will) = &connect.will {
                is_inside(&body, will.topic.as_bytes());
                is_inside(&body, will.payload);
                is_inside(&body, will.properties.as_bytes());
            }
        }
        Packet::Publish(publish) => {
            is_inside(&body, publish.topic.as_bytes());
            is_inside(&body, publish.payload);
        }
        Packet::Subscribe(subscribe) => {
            assert!(subscribe.filters().count() > 0);
            subscribe.filters().for_each(|(filter, _)| is_inside(&body, filter.as_bytes()));
        }
        Packet::Unsubscribe(unsubscribe) => {
            assert!(unsubscribe.filters().count() > 0);
            unsubscribe.filters().for_each(|filter| is_inside(&body, filter.as_bytes()));
        }
        Packet::SubAck(suback) => is_inside(&body, suback.codes),
        Packet::UnsubAck(unsuback) => is_inside(&body, unsuback.codes),
        _ => {}
    }
}

fn is_inside(body: &Range<*const u8>, part: &[u8]) {
    let part_at = part.as_ptr_range();
    let is_inside = body.start <= part_at.start && part_at.end <= body.end;
    assert!(part.is_empty() || is_inside, "a part lies outside of the packet");
}

/// Properties are read to their end, say what they were, and are not there before 5.0.
fn check_properties(packet: &Packet<'_>, version: Version) {
    let will = match packet {
        Packet::Connect(connect) => connect.will.map_or(Properties::EMPTY, |will| will.properties),
        _ => Properties::EMPTY,
    };
    for properties in [properties_of(packet), will] {
        assert!(version.is_v5() || properties.is_empty(), "properties before 5.0");
        let mut again = PropertiesBuf::new();
        properties.iter().for_each(|property| again.push(property));
        assert_eq!(again.as_properties(), properties);
    }
}

/// The places that the encoder of PUBLISH names are those of the flags and the identifier.
fn check_places(publish: &Publish<'_>, version: Version) {
    let mut bytes = vec![0xFF];
    let places = publish.encode(version, &mut bytes);
    assert_eq!(places.flags_at, 1);
    assert_eq!(bytes[places.flags_at] >> 4, PacketKind::Publish as u8);
    let packet_id = places.packet_id_at.map(|at| u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    assert_eq!(packet_id, publish.packet_id.map(PacketId::value));
}
