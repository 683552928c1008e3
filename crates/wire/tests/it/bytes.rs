//! Packets as bytes, written by hand from the rules of the standards: good ones are decoded and
//! encoded back, bad ones give the one reason code that is theirs.

use weir_wire::packet::{
    Ack, Auth, ConnAck, Connect, Disconnect, PINGREQ, PINGRESP, Publish, PublishPlaces,
    RetainHandling, SubAck, SubscribeBuf, SubscriptionOptions, UnsubAck, UnsubscribeBuf, Will,
};
use weir_wire::{
    Frame, Packet, PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode,
    Version, WireError,
};

use ReasonCode::{MalformedPacket, ProtocolError, UnsupportedProtocolVersion};
use Version::{V5, V31, V311};

const ALL: [Version; 3] = [V31, V311, V5];
const BEFORE_5: [Version; 2] = [V31, V311];

fn decode(version: Version, bytes: &[u8]) -> Result<Packet<'_>, WireError> {
    let frame = Frame::check(bytes, u32::MAX)?.expect("a whole packet");
    assert_eq!(frame.bytes, bytes.len(), "the table's packet has a wrong length");
    Packet::decode(version, frame)
}

/// The bytes are the packet, and the packet is the bytes.
#[track_caller]
fn same(versions: &[Version], bytes: &[u8], packet: &Packet<'_>) {
    for &version in versions {
        takes(version, bytes, packet);
        let mut out = Vec::new();
        packet.encode(version, &mut out);
        assert_eq!(out, bytes, "{version:?}");
    }
}

/// The bytes are the packet, though not its shortest form.
#[track_caller]
fn takes(version: Version, bytes: &[u8], packet: &Packet<'_>) {
    assert_eq!(decode(version, bytes), Ok(*packet), "{version:?}");
}

#[track_caller]
fn refuses(versions: &[Version], reason: ReasonCode, bytes: &[u8]) {
    for &version in versions {
        let result = decode(version, bytes).map_err(WireError::reason);
        assert_eq!(result, Err(reason), "{version:?} {bytes:02X?}");
    }
}

fn id(value: u16) -> PacketId {
    PacketId::new(value).expect("not zero")
}

fn properties(list: &[Property<'_>]) -> PropertiesBuf {
    let mut buf = PropertiesBuf::new();
    for &property in list {
        buf.push(property);
    }
    buf
}

const CONNECT: Connect<'_> = Connect {
    version: V311,
    clean_start: true,
    keep_alive_s: 60,
    client_id: "ab",
    will: None,
    user_name: None,
    password: None,
    properties: Properties::EMPTY,
};

#[test]
fn connect_names_its_version() {
    let connect = Packet::Connect(CONNECT);
    same(&ALL, b"\x10\x0E\0\x04MQTT\x04\x02\0\x3C\0\x02ab", &connect);
    let connect = Packet::Connect(Connect { version: V31, ..CONNECT });
    same(&ALL, b"\x10\x10\0\x06MQIsdp\x03\x02\0\x3C\0\x02ab", &connect);
    let connect = Packet::Connect(Connect { version: V5, ..CONNECT });
    same(&ALL, b"\x10\x0F\0\x04MQTT\x05\x02\0\x3C\0\0\x02ab", &connect);
}

#[test]
fn connect_carries_will_user_name_and_password() {
    let will = Will {
        topic: "w",
        payload: b"\0\xFF",
        qos: QoS::AtLeastOnce,
        retain: true,
        properties: Properties::EMPTY,
    };
    let connect = Connect {
        clean_start: false,
        client_id: "",
        will: Some(will),
        user_name: Some("u"),
        password: Some(b"\xFE"),
        ..CONNECT
    };
    let bytes = b"\x10\x19\0\x04MQTT\x04\xEC\0\x3C\0\0\0\x01w\0\x02\0\xFF\0\x01u\0\x01\xFE";
    same(&ALL, bytes, &Packet::Connect(connect));

    let of_will = properties(&[Property::WillDelayInterval(1)]);
    let of_packet = properties(&[Property::ReceiveMaximum(2)]);
    let will = Will { properties: of_will.as_properties(), ..will };
    let properties = of_packet.as_properties();
    let connect = Connect { version: V5, will: Some(will), properties, ..connect };
    let bytes = b"\x10\x23\0\x04MQTT\x05\xEC\0\x3C\x03\x21\0\x02\0\0\
        \x05\x18\0\0\0\x01\0\x01w\0\x02\0\xFF\0\x01u\0\x01\xFE";
    same(&ALL, bytes, &Packet::Connect(connect));
}

#[test]
fn a_password_alone_is_allowed_in_5_and_malformed_before() {
    let connect = Connect { version: V5, password: Some(b"p"), ..CONNECT };
    let bytes = b"\x10\x12\0\x04MQTT\x05\x42\0\x3C\0\0\x02ab\0\x01p";
    same(&ALL, bytes, &Packet::Connect(connect));
    let bytes = b"\x10\x11\0\x04MQTT\x04\x42\0\x3C\0\x02ab\0\x01p";
    refuses(&ALL, MalformedPacket, bytes);
}

#[test]
fn connect_of_3_1_may_leave_out_the_user_name_it_flags() {
    let connect = Packet::Connect(Connect { version: V31, ..CONNECT });
    takes(V31, b"\x10\x10\0\x06MQIsdp\x03\xC2\0\x3C\0\x02ab", &connect);
    refuses(&ALL, MalformedPacket, b"\x10\x0E\0\x04MQTT\x04\xC2\0\x3C\0\x02ab");
}

#[test]
fn connect_with_an_unknown_protocol_is_unsupported() {
    for bytes in [
        &b"\x10\x0E\0\x04MQTT\x06\x02\0\x3C\0\x02ab"[..],
        b"\x10\x0E\0\x04MQTT\x03\x02\0\x3C\0\x02ab",
        b"\x10\x0E\0\x04MQTT\x84\x02\0\x3C\0\x02ab",
        b"\x10\x0E\0\x04mqtt\x04\x02\0\x3C\0\x02ab",
        b"\x10\x10\0\x06MQIsdp\x04\x02\0\x3C\0\x02ab",
        b"\x10\x07\0\x04MQTT\x7F",
    ] {
        refuses(&ALL, UnsupportedProtocolVersion, bytes);
    }
}

#[test]
fn connect_flags_that_contradict_are_malformed() {
    // Reserved; will QoS or retain without a will.
    for flags in [0x03, 0x0A, 0x12, 0x1A, 0x22] {
        let mut bytes = b"\x10\x0E\0\x04MQTT\x04\x02\0\x3C\0\x02ab".to_vec();
        bytes[9] = flags;
        refuses(&ALL, MalformedPacket, &bytes);
    }
    // Will QoS 3.
    refuses(&ALL, MalformedPacket, b"\x10\x14\0\x04MQTT\x04\x1E\0\x3C\0\x02ab\0\x01w\0\x01x");
}

#[test]
fn connect_that_is_cut_or_goes_on_is_malformed() {
    refuses(&ALL, MalformedPacket, b"\x10\x0F\0\x04MQTT\x04\x02\0\x3C\0\x02ab\0");
    refuses(&ALL, MalformedPacket, b"\x10\x0D\0\x04MQTT\x04\x02\0\x3C\0\x02a");
    refuses(&ALL, MalformedPacket, b"\x10\0");
    refuses(&ALL, MalformedPacket, b"\x10\x06\0\x04MQTT");
    // The length of 5.0 has to be the shortest, that of 3.1.1 has not.
    refuses(&ALL, MalformedPacket, b"\x10\x8F\0\0\x04MQTT\x05\x02\0\x3C\0\0\x02ab");
    takes(V311, b"\x10\x8E\0\0\x04MQTT\x04\x02\0\x3C\0\x02ab", &Packet::Connect(CONNECT));
}

#[test]
fn a_will_topic_is_a_topic_name() {
    refuses(&ALL, MalformedPacket, b"\x10\x14\0\x04MQTT\x04\x06\0\x3C\0\x02ab\0\x01#\0\x01x");
    refuses(&ALL, MalformedPacket, b"\x10\x13\0\x04MQTT\x04\x06\0\x3C\0\x02ab\0\0\0\x01x");
}

#[test]
fn connack_carries_a_return_code_or_a_reason() {
    let (reason, properties) = (ReasonCode::NotAuthorized, Properties::EMPTY);
    let refused = Packet::ConnAck(ConnAck { session_present: false, reason, properties });
    same(&BEFORE_5, b"\x20\x02\0\x05", &refused);
    same(&[V5], b"\x20\x03\0\x87\0", &refused);
    let reason = ReasonCode::Success;
    let resumed = Packet::ConnAck(ConnAck { session_present: true, reason, properties });
    same(&[V311], b"\x20\x02\x01\0", &resumed);
    same(&[V5], b"\x20\x03\x01\0\0", &resumed);
    let fresh = Packet::ConnAck(ConnAck { session_present: false, reason, properties });
    takes(V31, b"\x20\x02\x01\0", &fresh);
}

#[test]
fn connack_of_an_older_server_refuses_5() {
    let reason = UnsupportedProtocolVersion;
    let packet = ConnAck { session_present: false, reason, properties: Properties::EMPTY };
    takes(V5, b"\x20\x02\0\x01", &Packet::ConnAck(packet));
}

#[test]
fn a_wrong_connack_is_refused() {
    refuses(&BEFORE_5, ProtocolError, b"\x20\x02\0\x06");
    refuses(&[V5], ProtocolError, b"\x20\x03\0\x01\0");
    refuses(&[V5], ProtocolError, b"\x20\x03\0\x8E\0");
    refuses(&[V311], ProtocolError, b"\x20\x02\x01\x05");
    refuses(&[V5], ProtocolError, b"\x20\x03\x01\x87\0");
    refuses(&[V311], MalformedPacket, b"\x20\x02\x02\0");
    refuses(&[V5], MalformedPacket, b"\x20\x03\x02\0\0");
    refuses(&[V5], MalformedPacket, b"\x20\x02\0\0");
    refuses(&BEFORE_5, MalformedPacket, b"\x20\x03\0\0\0");
    refuses(&ALL, MalformedPacket, b"\x20\x01\0");
    refuses(&[V5], MalformedPacket, b"\x20\x06\0\0\x03\x23\0\x01");
}

const PUBLISH: Publish<'_> = Publish {
    dup: false,
    qos: QoS::AtMostOnce,
    retain: false,
    topic: "a/b",
    packet_id: None,
    properties: Properties::EMPTY,
    payload: b"hi",
};

#[test]
fn publish_carries_its_flags_in_the_first_byte() {
    same(&BEFORE_5, b"\x30\x07\0\x03a/bhi", &Packet::Publish(PUBLISH));
    same(&[V5], b"\x30\x08\0\x03a/b\0hi", &Packet::Publish(PUBLISH));
    let (dup, retain, packet_id) = (true, true, Some(id(258)));
    let publish = Publish { dup, retain, qos: QoS::ExactlyOnce, packet_id, ..PUBLISH };
    same(&BEFORE_5, b"\x3D\x09\0\x03a/b\x01\x02hi", &Packet::Publish(publish));
    same(&[V5], b"\x3D\x0A\0\x03a/b\x01\x02\0hi", &Packet::Publish(publish));
    let publish = Publish { qos: QoS::AtLeastOnce, packet_id, payload: b"", ..PUBLISH };
    same(&BEFORE_5, b"\x32\x07\0\x03a/b\x01\x02", &Packet::Publish(publish));
}

#[test]
fn publish_says_where_its_changing_parts_are() {
    let payload = [0; 200];
    let packet_id = Some(id(0x0102));
    let publish = Publish { qos: QoS::AtLeastOnce, packet_id, payload: &payload, ..PUBLISH };
    for version in ALL {
        let mut out = vec![9; 3];
        let PublishPlaces { flags_at, packet_id_at } = publish.encode(version, &mut out);
        let packet_id_at = packet_id_at.unwrap();
        assert_eq!(out[flags_at], 0x32);
        assert_eq!(out[packet_id_at..packet_id_at + 2], [1, 2]);
    }
    let places = PUBLISH.encode(V311, &mut Vec::new());
    assert_eq!(places, PublishPlaces { flags_at: 0, packet_id_at: None });
}

#[test]
fn publish_of_5_may_leave_its_topic_to_an_alias() {
    let buf = properties(&[Property::TopicAlias(7)]);
    let publish = Publish { topic: "", properties: buf.as_properties(), ..PUBLISH };
    same(&[V5], b"\x30\x08\0\0\x03\x23\0\x07hi", &Packet::Publish(publish));
    refuses(&[V5], ProtocolError, b"\x30\x05\0\0\0hi");
    refuses(&BEFORE_5, ProtocolError, b"\x30\x04\0\0hi");
}

#[test]
fn publish_with_qos_3_is_malformed() {
    refuses(&ALL, MalformedPacket, b"\x36\x08\0\x01a\0\x01\0hi");
    refuses(&ALL, MalformedPacket, b"\x3E\x08\0\x01a\0\x01\0hi");
}

#[test]
fn publish_with_dup_at_qos_0_is_malformed() {
    refuses(&ALL, MalformedPacket, b"\x38\x06\0\x01a\0hi");
}

#[test]
fn publish_to_a_wildcard_or_bad_text_is_malformed() {
    for bytes in [
        b"\x30\x06\0\x03a/#\0",
        b"\x30\x06\0\x03+/b\0",
        b"\x30\x06\0\x03a\0b\0",
        b"\x30\x06\0\x03\xED\xA0\x80\0",
        b"\x30\x06\0\x03\xFF/b\0",
        b"\x30\x06\0\x05a/b\0",
    ] {
        refuses(&ALL, MalformedPacket, bytes);
    }
}

#[test]
fn publish_with_packet_identifier_0_is_a_protocol_error() {
    refuses(&ALL, ProtocolError, b"\x32\x06\0\x01a\0\0\0");
    refuses(&ALL, MalformedPacket, b"\x32\x04\0\x01a\x01");
}

#[test]
fn publish_with_wrong_properties_is_refused() {
    refuses(&[V5], MalformedPacket, b"\x30\x07\0\x01a\x03\x21\0\x01");
    refuses(&[V5], MalformedPacket, b"\x30\x06\0\x01a\x03\x23\0");
    refuses(&[V5], MalformedPacket, b"\x30\x04\0\x01a\x01");
    refuses(&[V5], MalformedPacket, b"\x30\x05\0\x01a\x80\0");
    refuses(&[V5], ProtocolError, b"\x30\x08\0\x01a\x04\x01\0\x01\0");
    refuses(&[V5], ProtocolError, b"\x30\x06\0\x01a\x02\x01\x02");
    refuses(&[V5], ProtocolError, b"\x30\x06\0\x01a\x02\x0B\0");
}

type Wrap = for<'a> fn(Ack<'a>) -> Packet<'a>;
const ACKS: [(u8, PacketKind, Wrap); 4] = [
    (0x40, PacketKind::PubAck, |ack| Packet::PubAck(ack)),
    (0x50, PacketKind::PubRec, |ack| Packet::PubRec(ack)),
    (0x62, PacketKind::PubRel, |ack| Packet::PubRel(ack)),
    (0x70, PacketKind::PubComp, |ack| Packet::PubComp(ack)),
];

#[test]
fn an_acknowledgement_takes_the_shortest_form() {
    let why = properties(&[Property::ReasonString("no")]);
    for (first, kind, wrap) in ACKS {
        let success = Ack::success(id(10));
        same(&ALL, &[first, 2, 0, 10], &wrap(success));
        takes(V5, &[first, 3, 0, 10, 0], &wrap(success));
        takes(V5, &[first, 4, 0, 10, 0, 0], &wrap(success));

        let (reason, code) = match kind {
            PacketKind::PubAck | PacketKind::PubRec => (ReasonCode::QuotaExceeded, 0x97),
            _ => (ReasonCode::PacketIdentifierNotFound, 0x92),
        };
        let failure = Ack { reason, ..success };
        same(&[V5], &[first, 3, 0, 10, code], &wrap(failure));
        takes(V5, &[first, 4, 0, 10, code, 0], &wrap(failure));
        let explained = Ack { properties: why.as_properties(), ..failure };
        let bytes = [first, 9, 0, 10, code, 5, 0x1F, 0, 2, b'n', b'o'];
        same(&[V5], &bytes, &wrap(explained));

        let mut out = Vec::new();
        explained.encode(kind, V311, &mut out);
        assert_eq!(out, [first, 2, 0, 10]);
    }
}

#[test]
fn a_wrong_acknowledgement_is_refused() {
    for (first, _, _) in ACKS {
        refuses(&ALL, ProtocolError, &[first, 2, 0, 0]);
        refuses(&ALL, MalformedPacket, &[first, 1, 0]);
        refuses(&ALL, MalformedPacket, &[first, 0]);
        refuses(&BEFORE_5, MalformedPacket, &[first, 3, 0, 1, 0]);
        refuses(&[V5], ProtocolError, &[first, 3, 0, 1, 0x8E]);
        refuses(&[V5], ProtocolError, &[first, 3, 0, 1, 0x7F]);
        refuses(&[V5], MalformedPacket, &[first, 5, 0, 1, 0, 0, 0]);
        refuses(&[V5], MalformedPacket, &[first, 5, 0, 1, 0, 2, 0]);
    }
    refuses(&[V5], ProtocolError, b"\x62\x03\0\x01\x10");
    refuses(&[V5], ProtocolError, b"\x40\x03\0\x01\x92");
}

#[test]
fn dup_in_the_header_of_a_pubrel_is_of_3_1_alone() {
    takes(V31, b"\x6A\x02\0\x0A", &Packet::PubRel(Ack::success(id(10))));
    refuses(&[V311, V5], MalformedPacket, b"\x6A\x02\0\x0A");
    refuses(&ALL, MalformedPacket, b"\x60\x02\0\x0A");
    refuses(&ALL, MalformedPacket, b"\x63\x02\0\x0A");
    refuses(&ALL, MalformedPacket, b"\x42\x02\0\x0A");
}

#[test]
fn subscribe_lists_filters_with_options() {
    let mut buf = SubscribeBuf::new();
    let first = SubscriptionOptions { qos: QoS::AtLeastOnce, ..SubscriptionOptions::default() };
    let second = SubscriptionOptions { qos: QoS::ExactlyOnce, ..first };
    buf.push("a/b", first);
    buf.push("c/d", second);
    for version in BEFORE_5 {
        let packet = buf.subscribe(version, id(10), Properties::EMPTY);
        let bytes = b"\x82\x0E\0\x0A\0\x03a/b\x01\0\x03c/d\x02";
        same(&[version], bytes, &Packet::Subscribe(packet));
        let filters: Vec<_> = packet.filters().collect();
        assert_eq!(filters, [("a/b", first), ("c/d", second)]);
    }
}

#[test]
fn subscription_options_of_5_are_dropped_before_it() {
    let options = SubscriptionOptions {
        qos: QoS::AtLeastOnce,
        no_local: true,
        retain_as_published: true,
        retain_handling: RetainHandling::DontSend,
    };
    let mut buf = SubscribeBuf::new();
    buf.push("a", options);
    let number = properties(&[Property::SubscriptionIdentifier(128)]);
    let packet = buf.subscribe(V5, id(1), number.as_properties());
    let bytes = b"\x82\x0A\0\x01\x03\x0B\x80\x01\0\x01a\x2D";
    same(&[V5], bytes, &Packet::Subscribe(packet));
    assert_eq!(packet.filters().collect::<Vec<_>>(), [("a", options)]);

    let packet = buf.subscribe(V311, id(1), Properties::EMPTY);
    let mut out = Vec::new();
    packet.encode(V311, &mut out);
    assert_eq!(out, b"\x82\x06\0\x01\0\x01a\x01");
    let plain = SubscriptionOptions { qos: QoS::AtLeastOnce, ..SubscriptionOptions::default() };
    assert_eq!(packet.filters().collect::<Vec<_>>(), [("a", plain)]);
}

#[test]
fn a_wrong_subscribe_is_refused() {
    refuses(&BEFORE_5, ProtocolError, b"\x82\x02\0\x01");
    refuses(&[V5], ProtocolError, b"\x82\x03\0\x01\0");
    refuses(&BEFORE_5, ProtocolError, b"\x82\x06\0\0\0\x01a\0");
    refuses(&BEFORE_5, MalformedPacket, b"\x82\x05\0\x01\0\x01a");
    refuses(&BEFORE_5, ProtocolError, b"\x82\x06\0\x01\0\x01a\x03");
    refuses(&BEFORE_5, MalformedPacket, b"\x82\x06\0\x01\0\x01a\x04");
    refuses(&BEFORE_5, MalformedPacket, b"\x82\x06\0\x01\0\x01\0\0");
    refuses(&[V5], ProtocolError, b"\x82\x07\0\x01\0\0\x01a\x03");
    refuses(&[V5], ProtocolError, b"\x82\x07\0\x01\0\0\x01a\x30");
    refuses(&[V5], MalformedPacket, b"\x82\x07\0\x01\0\0\x01a\x40");
    refuses(&[V5], ProtocolError, b"\x82\x10\0\x01\0\0\x0A$share/g/a\x04");
    refuses(&ALL, MalformedPacket, b"\x80\x06\0\x01\0\x01a\0");
}

#[test]
fn suback_has_a_code_for_each_filter() {
    let (packet_id, properties) = (id(10), Properties::EMPTY);
    let suback = SubAck { packet_id, properties, codes: &[0, 1, 2, 0x80] };
    same(&BEFORE_5, b"\x90\x06\0\x0A\0\x01\x02\x80", &Packet::SubAck(suback));
    let suback = SubAck { packet_id, properties, codes: &[0, 0x8F] };
    same(&[V5], b"\x90\x05\0\x0A\0\0\x8F", &Packet::SubAck(suback));
    let mut out = Vec::new();
    suback.encode(V311, &mut out);
    assert_eq!(out, b"\x90\x04\0\x0A\0\x80");

    refuses(&BEFORE_5, ProtocolError, b"\x90\x02\0\x0A");
    refuses(&[V5], ProtocolError, b"\x90\x03\0\x0A\0");
    refuses(&BEFORE_5, ProtocolError, b"\x90\x03\0\x0A\x03");
    refuses(&BEFORE_5, ProtocolError, b"\x90\x03\0\x0A\x8F");
    refuses(&[V5], ProtocolError, b"\x90\x04\0\x0A\0\x11");
}

#[test]
fn unsubscribe_lists_filters() {
    let mut buf = UnsubscribeBuf::new();
    buf.push("a/b");
    buf.push("c");
    let packet = buf.unsubscribe(id(10), Properties::EMPTY);
    same(&BEFORE_5, b"\xA2\x0A\0\x0A\0\x03a/b\0\x01c", &Packet::Unsubscribe(packet));
    same(&[V5], b"\xA2\x0B\0\x0A\0\0\x03a/b\0\x01c", &Packet::Unsubscribe(packet));
    assert_eq!(packet.filters().collect::<Vec<_>>(), ["a/b", "c"]);

    refuses(&BEFORE_5, ProtocolError, b"\xA2\x02\0\x0A");
    refuses(&[V5], ProtocolError, b"\xA2\x03\0\x0A\0");
    refuses(&BEFORE_5, MalformedPacket, b"\xA2\x05\0\x0A\0\x02a");
    refuses(&BEFORE_5, ProtocolError, b"\xA2\x05\0\0\0\x01a");
    refuses(&ALL, MalformedPacket, b"\xA0\x05\0\x0A\0\x01a");
}

#[test]
fn unsuback_has_codes_only_in_5() {
    let (packet_id, properties) = (id(10), Properties::EMPTY);
    let unsuback = UnsubAck { packet_id, properties, codes: &[] };
    same(&BEFORE_5, b"\xB0\x02\0\x0A", &Packet::UnsubAck(unsuback));
    let unsuback = UnsubAck { packet_id, properties, codes: &[0, 0x11] };
    same(&[V5], b"\xB0\x05\0\x0A\0\0\x11", &Packet::UnsubAck(unsuback));
    refuses(&BEFORE_5, MalformedPacket, b"\xB0\x03\0\x0A\0");
    refuses(&[V5], ProtocolError, b"\xB0\x03\0\x0A\0");
    refuses(&[V5], ProtocolError, b"\xB0\x04\0\x0A\0\x01");
}

#[test]
fn pings_are_two_bytes() {
    same(&ALL, &PINGREQ, &Packet::PingReq);
    same(&ALL, &PINGRESP, &Packet::PingResp);
    refuses(&ALL, MalformedPacket, b"\xC0\x01\0");
    refuses(&ALL, MalformedPacket, b"\xD0\x01\0");
}

#[test]
fn disconnect_has_a_reason_only_in_5() {
    let (reason, properties) = (ReasonCode::Success, Properties::EMPTY);
    same(&ALL, b"\xE0\0", &Packet::Disconnect(Disconnect { reason, properties }));
    takes(V5, b"\xE0\x01\0", &Packet::Disconnect(Disconnect { reason, properties }));
    takes(V5, b"\xE0\x02\0\0", &Packet::Disconnect(Disconnect { reason, properties }));
    let reason = ReasonCode::SessionTakenOver;
    same(&[V5], b"\xE0\x01\x8E", &Packet::Disconnect(Disconnect { reason, properties }));
    let mut out = Vec::new();
    Disconnect { reason, properties }.encode(V311, &mut out);
    assert_eq!(out, b"\xE0\0");
    refuses(&BEFORE_5, MalformedPacket, b"\xE0\x01\0");
    refuses(&[V5], ProtocolError, b"\xE0\x01\x92");
    refuses(&[V5], MalformedPacket, b"\xE0\x03\0\0\0");
}

#[test]
fn auth_names_its_method_and_is_of_5_alone() {
    let buf = properties(&[Property::AuthenticationMethod("m")]);
    let reason = ReasonCode::ContinueAuthentication;
    let auth = Auth { reason, properties: buf.as_properties() };
    same(&[V5], b"\xF0\x06\x18\x04\x15\0\x01m", &Packet::Auth(auth));
    let empty = Auth { reason: ReasonCode::Success, properties: Properties::EMPTY };
    same(&[V5], b"\xF0\0", &Packet::Auth(empty));
    refuses(&BEFORE_5, MalformedPacket, b"\xF0\0");
    refuses(&[V5], ProtocolError, b"\xF0\x02\x18\0");
    refuses(&[V5], ProtocolError, b"\xF0\x06\x87\x04\x15\0\x01m");
    refuses(&[V5], MalformedPacket, b"\xF0\x01\x18");
}

#[test]
fn after_connect_the_remaining_length_of_5_is_the_shortest() {
    refuses(&[V5], MalformedPacket, b"\xC0\x80\0");
    takes(V311, b"\xC0\x80\0", &Packet::PingReq);
}
