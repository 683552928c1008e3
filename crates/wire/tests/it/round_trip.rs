//! What holds for any packet: decode undoes encode, the split of a stream does not matter, and no
//! bytes make the decoder panic.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use weir_wire::packet::{
    Ack, Auth, ConnAck, Connect, Disconnect, Publish, RetainHandling, SubAck, SubscribeBuf,
    SubscriptionOptions, UnsubAck, UnsubscribeBuf, Will,
};
use weir_wire::{
    Frame, Packet, PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode,
    Version, WireError,
};

use Version::{V5, V31, V311};

/// A packet of some version with its bytes, as its encoder made them.
#[derive(Clone, Debug)]
struct Encoded {
    version: Version,
    bytes: Vec<u8>,
}

/// Encodes, decodes, compares; so every strategy below is itself the test of the inverse.
fn encoded(version: Version, packet: &Packet<'_>) -> Encoded {
    let mut bytes = Vec::new();
    packet.encode(version, &mut bytes);
    let frame = Frame::check(&bytes, u32::MAX).expect("valid").expect("whole");
    assert_eq!(frame.bytes, bytes.len());
    assert_eq!(Packet::decode(version, frame), Ok(*packet));
    Encoded { version, bytes }
}

fn version() -> impl Strategy<Value = Version> {
    select(vec![V31, V311, V5])
}

fn qos() -> impl Strategy<Value = QoS> {
    select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce])
}

fn packet_id() -> impl Strategy<Value = PacketId> {
    (1..=u16::MAX).prop_map(|value| PacketId::new(value).expect("not zero"))
}

fn text() -> impl Strategy<Value = String> {
    "[^\0]{0,20}"
}

fn topic() -> impl Strategy<Value = String> {
    "[^\0+#]{1,150}"
}

fn binary() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..300)
}

fn one(property: Property<'_>) -> Vec<u8> {
    let mut buf = PropertiesBuf::new();
    buf.push(property);
    buf.into_bytes()
}

/// One kind of property, encoded, with any value in range.
macro_rules! kind {
    ($variant:ident, $values:expr) => {
        option::of($values.prop_map(|value| one(Property::$variant((&value).into_value()))))
            .prop_map(Option::unwrap_or_default)
            .boxed()
    };
}

/// Turns an owned value into what a property borrows.
trait IntoValue<'a, T> {
    fn into_value(self) -> T;
}
macro_rules! by_copy {
    ($($number:ty)*) => {
        $(impl<'a> IntoValue<'a, $number> for &'a $number {
            fn into_value(self) -> $number { *self }
        })*
    };
}
by_copy!(u8 u16 u32);
impl<'a> IntoValue<'a, &'a str> for &'a String {
    fn into_value(self) -> &'a str {
        self
    }
}
impl<'a> IntoValue<'a, &'a [u8]> for &'a Vec<u8> {
    fn into_value(self) -> &'a [u8] {
        self
    }
}

fn user_properties() -> BoxedStrategy<Vec<u8>> {
    let pair =
        (text(), text()).prop_map(|(name, value)| one(Property::UserProperty(&name, &value)));
    vec(pair, 0..3).prop_map(|pairs| pairs.concat()).boxed()
}

fn reason_string() -> BoxedStrategy<Vec<u8>> {
    kind!(ReasonString, text())
}

/// Properties of 5.0 out of `kinds` and user properties, in any order; none before.
fn properties(
    version: Version,
    mut kinds: Vec<BoxedStrategy<Vec<u8>>>,
) -> impl Strategy<Value = PropertiesBuf> {
    kinds.push(user_properties());
    kinds.prop_shuffle().prop_map(move |blocks| {
        let bytes = if version.is_v5() { blocks.concat() } else { Vec::new() };
        PropertiesBuf::from_bytes(bytes)
    })
}

fn message_properties() -> Vec<BoxedStrategy<Vec<u8>>> {
    vec![
        kind!(PayloadFormatIndicator, 0..=1_u8),
        kind!(MessageExpiryInterval, any::<u32>()),
        kind!(ContentType, text()),
        kind!(ResponseTopic, topic()),
        kind!(CorrelationData, binary()),
    ]
}

fn authentication() -> BoxedStrategy<Vec<u8>> {
    (text(), binary(), any::<bool>())
        .prop_map(|(method, data, has_data)| {
            let mut bytes = one(Property::AuthenticationMethod(&method));
            if has_data {
                bytes.extend(one(Property::AuthenticationData(&data)));
            }
            bytes
        })
        .boxed()
}

fn maybe(block: BoxedStrategy<Vec<u8>>) -> BoxedStrategy<Vec<u8>> {
    option::of(block).prop_map(Option::unwrap_or_default).boxed()
}

prop_compose! {
    fn will(version: Version)(
        topic in topic(),
        payload in binary(),
        qos in qos(),
        retain: bool,
        properties in properties(version, {
            let mut kinds = message_properties();
            kinds.push(kind!(WillDelayInterval, any::<u32>()));
            kinds
        }),
    ) -> (String, Vec<u8>, QoS, bool, PropertiesBuf) {
        (topic, payload, qos, retain, properties)
    }
}

fn connect(version: Version) -> BoxedStrategy<Encoded> {
    let kinds = vec![
        kind!(SessionExpiryInterval, any::<u32>()),
        kind!(ReceiveMaximum, 1..=u16::MAX),
        kind!(MaximumPacketSize, 1..=u32::MAX),
        kind!(TopicAliasMaximum, any::<u16>()),
        kind!(RequestResponseInformation, 0..=1_u8),
        kind!(RequestProblemInformation, 0..=1_u8),
        maybe(authentication()),
    ];
    let login = (option::of(text()), option::of(binary()));
    (
        any::<bool>(),
        any::<u16>(),
        text(),
        option::of(will(version)),
        login,
        properties(version, kinds),
    )
        .prop_map(move |(clean_start, keep_alive_s, client_id, will, login, properties)| {
            let (user_name, password) = &login;
            let password = password.as_deref().filter(|_| version.is_v5() || user_name.is_some());
            let will = will.as_ref().map(|(topic, payload, qos, retain, properties)| Will {
                topic,
                payload,
                qos: *qos,
                retain: *retain,
                properties: properties.as_properties(),
            });
            let packet = Connect {
                version,
                clean_start,
                keep_alive_s,
                client_id: &client_id,
                will,
                user_name: user_name.as_deref(),
                password,
                properties: properties.as_properties(),
            };
            encoded(version, &Packet::Connect(packet))
        })
        .boxed()
}

fn connack(version: Version) -> BoxedStrategy<Encoded> {
    let kinds = vec![
        kind!(SessionExpiryInterval, any::<u32>()),
        kind!(ReceiveMaximum, 1..=u16::MAX),
        kind!(MaximumQoS, 0..=1_u8),
        kind!(RetainAvailable, 0..=1_u8),
        kind!(MaximumPacketSize, 1..=u32::MAX),
        kind!(AssignedClientIdentifier, text()),
        kind!(TopicAliasMaximum, any::<u16>()),
        kind!(WildcardSubscriptionAvailable, 0..=1_u8),
        kind!(SubscriptionIdentifierAvailable, 0..=1_u8),
        kind!(SharedSubscriptionAvailable, 0..=1_u8),
        kind!(ServerKeepAlive, any::<u16>()),
        kind!(ResponseInformation, text()),
        kind!(ServerReference, text()),
        maybe(authentication()),
        reason_string(),
    ];
    let reasons = vec![
        ReasonCode::Success,
        ReasonCode::UnsupportedProtocolVersion,
        ReasonCode::ClientIdentifierNotValid,
        ReasonCode::ServerUnavailable,
        ReasonCode::BadUserNameOrPassword,
        ReasonCode::NotAuthorized,
    ];
    (any::<bool>(), select(reasons), properties(version, kinds))
        .prop_map(move |(present, reason, properties)| {
            let session_present = present && reason == ReasonCode::Success && version != V31;
            let properties = properties.as_properties();
            encoded(version, &Packet::ConnAck(ConnAck { session_present, reason, properties }))
        })
        .boxed()
}

fn publish(version: Version) -> BoxedStrategy<Encoded> {
    let mut kinds = message_properties();
    let numbers = vec(1..=268_435_455_u32, 0..3).prop_map(|numbers| {
        let blocks = numbers.iter().map(|&number| one(Property::SubscriptionIdentifier(number)));
        blocks.collect::<Vec<_>>().concat()
    });
    kinds.push(numbers.boxed());
    kinds.push(kind!(TopicAlias, any::<u16>()));
    let flags = (any::<bool>(), qos(), any::<bool>(), packet_id());
    (flags, topic(), properties(version, kinds), vec(any::<u8>(), 0..20_000))
        .prop_map(move |((dup, qos, retain, packet_id), topic, properties, payload)| {
            let is_acknowledged = qos != QoS::AtMostOnce;
            let publish = Publish {
                dup: dup && is_acknowledged,
                qos,
                retain,
                topic: &topic,
                packet_id: is_acknowledged.then_some(packet_id),
                properties: properties.as_properties(),
                payload: &payload,
            };
            encoded(version, &Packet::Publish(publish))
        })
        .boxed()
}

fn ack(version: Version) -> BoxedStrategy<Encoded> {
    let kinds =
        vec![PacketKind::PubAck, PacketKind::PubRec, PacketKind::PubRel, PacketKind::PubComp];
    let properties = properties(version, vec![reason_string()]);
    (select(kinds), packet_id(), any::<bool>(), properties)
        .prop_map(move |(kind, packet_id, failed, properties)| {
            let failure = match kind {
                PacketKind::PubAck | PacketKind::PubRec => ReasonCode::NotAuthorized,
                _ => ReasonCode::PacketIdentifierNotFound,
            };
            let reason = if failed && version.is_v5() { failure } else { ReasonCode::Success };
            let ack = Ack { packet_id, reason, properties: properties.as_properties() };
            let packet = match kind {
                PacketKind::PubAck => Packet::PubAck(ack),
                PacketKind::PubRec => Packet::PubRec(ack),
                PacketKind::PubRel => Packet::PubRel(ack),
                _ => Packet::PubComp(ack),
            };
            encoded(version, &packet)
        })
        .boxed()
}

prop_compose! {
    fn options(version: Version)(
        qos in qos(),
        no_local: bool,
        retain_as_published: bool,
        retain_handling in select(vec![
            RetainHandling::Send,
            RetainHandling::SendIfNew,
            RetainHandling::DontSend,
        ]),
    ) -> SubscriptionOptions {
        if version.is_v5() {
            SubscriptionOptions { qos, no_local, retain_as_published, retain_handling }
        } else {
            SubscriptionOptions { qos, ..SubscriptionOptions::default() }
        }
    }
}

fn subscribe(version: Version) -> BoxedStrategy<Encoded> {
    let kinds = vec![kind!(SubscriptionIdentifier, 1..=268_435_455_u32)];
    (packet_id(), vec((text(), options(version)), 1..8), properties(version, kinds))
        .prop_map(move |(packet_id, filters, properties)| {
            let mut buf = SubscribeBuf::new();
            for (filter, options) in &filters {
                buf.push(filter, *options);
            }
            let packet = buf.subscribe(version, packet_id, properties.as_properties());
            let read = packet.filters().map(|(filter, options)| (filter.to_owned(), options));
            assert_eq!(read.collect::<Vec<_>>(), filters);
            encoded(version, &Packet::Subscribe(packet))
        })
        .boxed()
}

fn unsubscribe(version: Version) -> BoxedStrategy<Encoded> {
    (packet_id(), vec(text(), 1..8), properties(version, Vec::new()))
        .prop_map(move |(packet_id, filters, properties)| {
            let mut buf = UnsubscribeBuf::new();
            for filter in &filters {
                buf.push(filter);
            }
            let packet = buf.unsubscribe(packet_id, properties.as_properties());
            assert_eq!(packet.filters().collect::<Vec<_>>(), filters);
            encoded(version, &Packet::Unsubscribe(packet))
        })
        .boxed()
}

fn suback(version: Version) -> BoxedStrategy<Encoded> {
    let codes = vec(select(vec![0, 1, 2, 0x80]), 1..200);
    (packet_id(), codes, properties(version, vec![reason_string()]))
        .prop_map(move |(packet_id, codes, properties)| {
            let properties = properties.as_properties();
            encoded(version, &Packet::SubAck(SubAck { packet_id, properties, codes: &codes }))
        })
        .boxed()
}

fn unsuback(version: Version) -> BoxedStrategy<Encoded> {
    let codes = vec(select(vec![0, 0x11, 0x87]), 1..8);
    (packet_id(), codes, properties(version, vec![reason_string()]))
        .prop_map(move |(packet_id, codes, properties)| {
            let codes = if version.is_v5() { &codes[..] } else { &[] };
            let properties = properties.as_properties();
            encoded(version, &Packet::UnsubAck(UnsubAck { packet_id, properties, codes }))
        })
        .boxed()
}

fn disconnect(version: Version) -> BoxedStrategy<Encoded> {
    let kinds = vec![
        kind!(SessionExpiryInterval, any::<u32>()),
        kind!(ServerReference, text()),
        reason_string(),
    ];
    let reasons =
        vec![ReasonCode::Success, ReasonCode::DisconnectWithWill, ReasonCode::QuotaExceeded];
    (select(reasons), properties(version, kinds))
        .prop_map(move |(reason, properties)| {
            let reason = if version.is_v5() { reason } else { ReasonCode::Success };
            let properties = properties.as_properties();
            encoded(version, &Packet::Disconnect(Disconnect { reason, properties }))
        })
        .boxed()
}

fn auth() -> BoxedStrategy<Encoded> {
    let reasons =
        vec![ReasonCode::Success, ReasonCode::ContinueAuthentication, ReasonCode::ReAuthenticate];
    (select(reasons), properties(V5, vec![authentication(), reason_string()]))
        .prop_map(|(reason, properties)| {
            encoded(V5, &Packet::Auth(Auth { reason, properties: properties.as_properties() }))
        })
        .boxed()
}

fn ping(version: Version) -> BoxedStrategy<Encoded> {
    any::<bool>()
        .prop_map(move |request| {
            encoded(version, if request { &Packet::PingReq } else { &Packet::PingResp })
        })
        .boxed()
}

/// Any packet of `version`.
fn packet(version: Version) -> impl Strategy<Value = Encoded> {
    let mut kinds = vec![
        connect(version),
        connack(version),
        publish(version),
        ack(version),
        subscribe(version),
        suback(version),
        unsubscribe(version),
        unsuback(version),
        disconnect(version),
        ping(version),
    ];
    if version.is_v5() {
        kinds.push(auth());
    }
    proptest::strategy::Union::new(kinds)
}

fn stream() -> impl Strategy<Value = Vec<Encoded>> {
    version().prop_flat_map(|version| vec(packet(version), 1..8))
}

proptest! {
    #[test]
    fn decode_undoes_encode(packet in version().prop_flat_map(packet)) {
        // The strategy compared already; encoding again what was decoded gives the same bytes.
        let frame = Frame::check(&packet.bytes, u32::MAX).unwrap().unwrap();
        let mut again = Vec::new();
        Packet::decode(packet.version, frame).unwrap().encode(packet.version, &mut again);
        prop_assert_eq!(again, packet.bytes);
    }

    #[test]
    fn any_split_of_a_stream_gives_the_same_frames(
        packets in stream(),
        piece_bytes in vec(1..700_usize, 1..20),
    ) {
        let stream: Vec<u8> = packets.iter().flat_map(|packet| packet.bytes.clone()).collect();
        let mut unread = Vec::new();
        let mut frames = Vec::new();
        let mut rest = &stream[..];
        for &count in piece_bytes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at(count.min(rest.len()));
            rest = after;
            unread.extend_from_slice(piece);
            while let Some(frame) = Frame::check(&unread, u32::MAX).unwrap() {
                let bytes = frame.bytes;
                frames.push(unread[..bytes].to_vec());
                unread.drain(..bytes);
            }
        }
        prop_assert!(unread.is_empty());
        prop_assert_eq!(frames, packets.into_iter().map(|packet| packet.bytes).collect::<Vec<_>>());
    }

    #[test]
    fn no_bytes_make_decode_panic(
        version in version(),
        number in 0..16_u8,
        flags in any::<u8>(),
        body in vec(any::<u8>(), 0..100),
    ) {
        let flags = match number { 3 => flags & 0x0F, 6 | 8 | 10 => 2, _ => 0 };
        let mut bytes = vec![number << 4 | flags, body.len() as u8];
        bytes.extend(body);
        read_all(version, &bytes);
        read_all(version, &bytes[1..]);
    }

    #[test]
    fn no_damage_to_a_packet_makes_decode_panic(
        packet in version().prop_flat_map(packet),
        version in version(),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = packet.bytes;
        let at = at.index(bytes.len());
        bytes[at] = byte;
        read_all(packet.version, &bytes);
        read_all(version, &bytes);
    }
}

/// Decodes what is there and reads all that is read lazily.
fn read_all(version: Version, bytes: &[u8]) {
    let Ok(Some(frame)) = Frame::check(bytes, u32::MAX) else { return };
    let Ok(packet) = Packet::decode(version, frame) else { return };
    let properties = match packet {
        Packet::Connect(packet) => packet.properties,
        Packet::Publish(packet) => packet.properties,
        Packet::Subscribe(packet) => {
            assert!(packet.filters().count() > 0);
            packet.properties
        }
        Packet::Unsubscribe(packet) => {
            assert!(packet.filters().count() > 0);
            packet.properties
        }
        Packet::PubAck(packet) => packet.properties,
        Packet::ConnAck(packet) => packet.properties,
        _ => return,
    };
    let mut again = PropertiesBuf::new();
    properties.iter().for_each(|property| again.push(property));
    assert_eq!(again.as_properties(), properties, "iteration reads to the end");
}

/// Wherever a PUBLISH is cut, its start says the same as the whole, or nothing yet.
#[test]
fn the_start_of_a_publish_says_what_the_whole_says() {
    let mut properties = PropertiesBuf::new();
    properties.push(Property::UserProperty("name", "value"));
    for version in [V31, V311, V5] {
        let publish = Publish {
            dup: true,
            qos: QoS::AtLeastOnce,
            retain: true,
            topic: "a/b",
            packet_id: PacketId::new(7),
            properties: if version == V5 { properties.as_properties() } else { Properties::EMPTY },
            payload: &[1; 200],
        };
        let bytes = encoded(version, &Packet::Publish(publish)).bytes;
        let head_bytes = bytes.len() - publish.payload.len();
        for cut in 0..bytes.len() {
            let start = Publish::decode_start(version, &bytes[..cut]);
            let payload = &publish.payload[..cut.saturating_sub(head_bytes)];
            let expected = (Publish { payload, ..publish }, bytes.len());
            assert_eq!(start, Ok((cut >= head_bytes).then_some(expected)), "{version:?} {cut}");
        }
    }
    assert_eq!(Publish::decode_start(V5, &[0x82, 0x80, 0x01, 0, 1, 0]), Ok(None));
    let long_header = Publish::decode_start(V5, &[0x30, 0x81, 0x00, 0]);
    assert!(matches!(long_header, Err(WireError::Malformed(_))), "{long_header:?}");
}
