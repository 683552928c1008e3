use super::*;

const CONNACK_PLACE: Place = Place::Packet(PacketKind::ConnAck);
const PUBLISH_PLACE: Place = Place::Packet(PacketKind::Publish);

fn place_with(bit: u16) -> Place {
    if bit == WILL {
        return Place::Will;
    }
    [
        PacketKind::Connect,
        PacketKind::ConnAck,
        PacketKind::Publish,
        PacketKind::PubAck,
        PacketKind::PubRec,
        PacketKind::PubRel,
        PacketKind::PubComp,
        PacketKind::Subscribe,
        PacketKind::SubAck,
        PacketKind::Unsubscribe,
        PacketKind::UnsubAck,
        PacketKind::PingReq,
        PacketKind::PingResp,
        PacketKind::Disconnect,
        PacketKind::Auth,
    ]
    .into_iter()
    .map(Place::Packet)
    .find(|place| place.bit() == bit)
    .unwrap()
}

/// Every property with a value that is valid anywhere.
const EVERY: &[Property<'_>] = &[
    Property::PayloadFormatIndicator(1),
    Property::MessageExpiryInterval(7),
    Property::ContentType("json"),
    Property::ResponseTopic("a/b"),
    Property::CorrelationData(&[1, 2]),
    Property::SubscriptionIdentifier(300),
    Property::SessionExpiryInterval(0xFFFF_FFFF),
    Property::AssignedClientIdentifier("c"),
    Property::ServerKeepAlive(60),
    Property::AuthenticationMethod("SCRAM"),
    Property::AuthenticationData(&[9]),
    Property::RequestProblemInformation(0),
    Property::WillDelayInterval(5),
    Property::RequestResponseInformation(1),
    Property::ResponseInformation("r"),
    Property::ServerReference("s"),
    Property::ReasonString("why"),
    Property::ReceiveMaximum(1),
    Property::TopicAliasMaximum(0),
    Property::TopicAlias(0),
    Property::MaximumQoS(1),
    Property::RetainAvailable(0),
    Property::UserProperty("k", "v"),
    Property::MaximumPacketSize(1),
    Property::WildcardSubscriptionAvailable(1),
    Property::SubscriptionIdentifierAvailable(1),
    Property::SharedSubscriptionAvailable(1),
];

fn block(properties: &[Property<'_>]) -> Vec<u8> {
    let mut buf = PropertiesBuf::new();
    for &property in properties {
        buf.push(property);
    }
    buf.into_bytes()
}

fn check(place: Place, properties: &[Property<'_>]) -> Result<(), WireError> {
    Properties::check(place, &block(properties)).map(|_| ())
}

#[test]
fn every_property_is_in_the_table_once_and_reads_as_written() {
    assert_eq!(TABLE.len(), EVERY.len());
    for (&property, &(id, _)) in EVERY.iter().zip(TABLE) {
        assert_eq!(property.id(), id);
        let bytes = block(&[property]);
        assert_eq!(bytes[0], id as u8);
        let mut reader = Reader::new(&bytes);
        assert_eq!(read(&mut reader), Ok(property));
        assert!(reader.is_empty());
        for end in 0..bytes.len() {
            assert!(matches!(read(&mut Reader::new(&bytes[..end])), Err(WireError::Malformed(_))));
        }
    }
}

#[test]
fn properties_have_the_bytes_of_the_standard() {
    let bytes = [
        0x11, 0, 0, 0, 10, // session expiry interval
        0x21, 0, 20, // receive maximum
        0x26, 0, 1, b'k', 0, 2, b'v', b'w', // user property
        0x19, 1, // request response information
    ];
    let place = Place::Packet(PacketKind::Connect);
    let properties = Properties::check(place, &bytes).unwrap();
    let expected = [
        Property::SessionExpiryInterval(10),
        Property::ReceiveMaximum(20),
        Property::UserProperty("k", "vw"),
        Property::RequestResponseInformation(1),
    ];
    assert_eq!(properties.iter().collect::<Vec<_>>(), expected);
    assert_eq!(block(&expected), bytes);
}

#[test]
fn a_property_is_taken_only_where_table_2_4_has_it() {
    for &property in EVERY {
        let (_, places) = TABLE[EVERY.iter().position(|&other| other == property).unwrap()];
        for bit in (0..16).map(|shift| 1 << shift) {
            // Authentication data stands only with its method.
            let with_method = [Property::AuthenticationMethod("m"), property];
            let is_data = property.id() == PropertyId::AuthenticationData;
            let result = check(place_with(bit), &with_method[usize::from(!is_data)..]);
            if places & bit == 0 {
                assert!(matches!(result, Err(WireError::Malformed(_))), "{property:?} {bit:b}");
            } else {
                assert_eq!(result, Ok(()), "{property:?} {bit:b}");
            }
        }
    }
}

#[test]
fn only_user_properties_and_subscription_identifiers_of_publish_may_repeat() {
    for &property in EVERY {
        let (_, places) = TABLE[EVERY.iter().position(|&other| other == property).unwrap()];
        for bit in (0..16).map(|shift| 1 << shift).filter(|bit| places & bit != 0) {
            let may_repeat = match property.id() {
                PropertyId::UserProperty => true,
                PropertyId::SubscriptionIdentifier => place_with(bit) == PUBLISH_PLACE,
                _ => false,
            };
            let result = check(place_with(bit), &[property, property]);
            let refused = matches!(result, Err(WireError::ProtocolError(_)));
            assert_eq!(refused, !may_repeat, "{property:?} {bit:b}");
        }
    }
}

#[test]
fn values_out_of_range_are_protocol_errors() {
    for property in [
        Property::ReceiveMaximum(0),
        Property::MaximumPacketSize(0),
        Property::MaximumQoS(2),
        Property::RetainAvailable(2),
        Property::WildcardSubscriptionAvailable(255),
        Property::SubscriptionIdentifierAvailable(2),
        Property::SharedSubscriptionAvailable(2),
    ] {
        let result = check(CONNACK_PLACE, &[property]);
        assert!(matches!(result, Err(WireError::ProtocolError(_))), "{property:?}");
    }
    for property in [Property::PayloadFormatIndicator(2), Property::SubscriptionIdentifier(0)] {
        let result = check(PUBLISH_PLACE, &[property]);
        assert!(matches!(result, Err(WireError::ProtocolError(_))), "{property:?}");
    }
}

#[test]
fn a_response_topic_with_a_wildcard_is_malformed() {
    let result = check(PUBLISH_PLACE, &[Property::ResponseTopic("a/+")]);
    assert!(matches!(result, Err(WireError::Malformed(_))));
}

#[test]
fn authentication_data_without_a_method_is_a_protocol_error() {
    let result = check(CONNACK_PLACE, &[Property::AuthenticationData(b"x")]);
    assert!(matches!(result, Err(WireError::ProtocolError(_))));
}

#[test]
fn numbers_that_are_no_property_are_malformed() {
    let known: Vec<u8> = TABLE.iter().map(|&(id, _)| id as u8).collect();
    for number in (0..=255).filter(|number| !known.contains(number)) {
        let bytes = [number, 0, 0, 0, 0];
        let result = Properties::check(PUBLISH_PLACE, &bytes);
        assert!(matches!(result, Err(WireError::Malformed(_))), "{number}");
    }
}

#[test]
fn properties_being_written_take_checked_ones_and_can_be_forgotten() {
    let mut buf = PropertiesBuf::new();
    buf.push(Property::ReasonString("why"));
    let user = block(&[Property::UserProperty("k", "v")]);
    buf.extend(Properties::check(CONNACK_PLACE, &user).unwrap());
    let written: Vec<_> = buf.as_properties().iter().collect();
    assert_eq!(written, [Property::ReasonString("why"), Property::UserProperty("k", "v")]);
    buf.clear();
    assert!(buf.as_properties().is_empty());
}

#[test]
fn bytes_that_were_never_checked_end_the_iteration() {
    let buf = PropertiesBuf::from_bytes(vec![0x01, 1, 0x26, 0, 9]);
    let properties: Vec<_> = buf.as_properties().iter().collect();
    assert_eq!(properties, [Property::PayloadFormatIndicator(1)]);
}
