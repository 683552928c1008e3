//! What 5.0 lets a client ask for and a broker leave out.

use crate::net::{Ask, Net, message};
use serde::Deserialize;
use serde::de::value::MapDeserializer;
use weir_core::{Features, Limits, Settings};
use weir_wire::packet::{Publish, SubscriptionOptions, Will};
use weir_wire::{PacketKind, Properties, PropertiesBuf, Property, QoS, Version};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

fn net_with(features: Features) -> Net {
    Net::with_settings(1, &Settings { features, ..Settings::default() })
}

/// Bytes of the CONNACK that answers `ask`.
fn connack(net: &mut Net, ask: Ask<'_>) -> Vec<String> {
    let peer = net.connect("c", ask);
    net.properties(peer)
}

/// Proves 5.0:MQTT-3.1.2-26. Proves 5.0:MQTT-3.1.2-27.
#[test]
fn aliases_towards_a_client_stay_within_what_it_allows() {
    let ask = Ask { properties: &[Property::TopicAliasMaximum(1)], ..Ask::default() };
    let mut net = Net::new(1);
    let (sub, plain) = (net.join("sub", ask), net.join("plain", Ask::default()));
    let publ = net.join("pub", Ask::default());
    for peer in [sub, plain] {
        net.subscribe(peer, "#", Q1);
        net.read(peer);
    }
    for topic in ["long/topic", "long/topic", "other/topic"] {
        net.publish(publ, topic, Q0, 0, "x");
    }
    let expected = [
        "PUBLISH long/topic q0 TopicAlias(1) x",
        "PUBLISH  q0 TopicAlias(1) x",
        "PUBLISH other/topic q0 x",
    ];
    assert_eq!(net.read(sub), expected);
    assert!(net.read(plain).iter().all(|line| !line.contains("Alias")));
}

#[test]
fn a_topic_too_short_for_an_alias_goes_by_its_name() {
    let mut net = Net::new(1);
    let ask = Ask { properties: &[Property::TopicAliasMaximum(4)], ..Ask::default() };
    let (sub, publ) = (net.join("sub", ask), net.join("pub", Ask::default()));
    net.subscribe(sub, "#", Q0);
    net.read(sub);
    net.publish(publ, "four", Q0, 0, "x");
    net.publish(publ, "fives", Q0, 0, "x");
    assert_eq!(net.read(sub), ["PUBLISH four q0 x", "PUBLISH fives q0 TopicAlias(1) x"]);
}

#[test]
fn an_alias_set_up_by_a_message_that_was_not_sent_is_not_used() {
    let ask = Ask {
        packet_bytes_max: 40,
        properties: &[Property::TopicAliasMaximum(4)],
        ..Ask::default()
    };
    let mut net = Net::new(1);
    let (sub, publ) = (net.join("sub", ask), net.join("pub", Ask::default()));
    net.subscribe(sub, "#", Q0);
    net.read(sub);
    net.publish(publ, "long/topic", Q0, 0, &"x".repeat(30));
    net.publish(publ, "long/topic", Q0, 0, "y");
    assert_eq!(net.read(sub), ["PUBLISH long/topic q0 TopicAlias(1) y"]);
    assert_eq!(net.shards[0].stats().dropped_too_large, 1);
}

#[test]
fn a_resumed_client_knows_no_alias_of_its_last_connection() {
    let ask = Ask {
        clean: false,
        expiry_s: 100,
        properties: &[Property::TopicAliasMaximum(4)],
        ..Ask::default()
    };
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let sub = net.join("sub", ask);
    net.subscribe(sub, "#", Q1);
    net.publish(publ, "long/topic", Q1, 1, "a");
    net.cut(sub);
    net.publish(publ, "long/topic", Q1, 2, "b");
    let sub = net.connect("sub", ask);
    let expected = [
        "CONNACK Success present",
        "PUBLISH long/topic q1 #1 dup a",
        "PUBLISH long/topic q1 #2 TopicAlias(1) b",
    ];
    assert_eq!(net.read(sub), expected);
}

/// Proves 5.0:MQTT-3.1.2-28. Proves 5.0:MQTT-3.1.2-29. Proves 5.0:MQTT-3.4.2-2.
#[test]
fn words_are_for_those_who_want_them() {
    let limits = Limits { retained_messages_max: 0, ..Default::default() };
    for (wants, size, answer) in [
        (1, 0, "PUBACK #1 Quota exceeded: the retained store is full"),
        (0, 0, "PUBACK #1 Quota exceeded"),
        // They are left out where they do not fit.
        (1, 34, "PUBACK #1 Quota exceeded"),
        (1, 35, "PUBACK #1 Quota exceeded: the retained store is full"),
    ] {
        let mut net = Net::with_limits(1, &limits);
        let properties = [Property::RequestProblemInformation(wants)];
        let ask = Ask { packet_bytes_max: size, properties: &properties, ..Ask::default() };
        let publ = net.join("pub", ask);
        net.publish_packet(publ, &Publish { retain: true, ..message("t", Q1, 1, "x") });
        assert_eq!(net.read(publ), [answer]);
    }
    let why = "a second CONNECT";
    // Without words it is four bytes long.
    for (packet_bytes_max, answer) in [
        (4 + 3 + why.len(), format!("DISCONNECT Protocol Error: {why}")),
        (4 + 3 + why.len() - 1, "DISCONNECT Protocol Error".to_owned()),
    ] {
        let mut net = Net::new(1);
        let packet_bytes_max = packet_bytes_max as u32;
        let peer = net.join("c", Ask { packet_bytes_max, ..Ask::default() });
        net.say_connect(peer, "c", Ask::default());
        assert_eq!(net.read(peer), [answer, "closed".to_owned()]);
    }
}

/// Proves 5.0:MQTT-3.1.2-24.
#[test]
fn a_client_too_narrow_for_the_connack_is_refused() {
    let mut net = Net::new(1);
    for (packet_bytes_max, answer) in
        [(15, &["CONNACK Packet too large", "closed"][..]), (16, &["CONNACK Success"])]
    {
        let mut net = Net::new(1);
        let peer = net.connect("c", Ask { packet_bytes_max, ..Ask::default() });
        assert_eq!(net.read(peer), answer);
    }
    let peer = net.connect("c", Ask { packet_bytes_max: 3, ..Ask::default() });
    assert_eq!(net.read(peer), ["closed"]);
    assert_eq!(net.shards[0].stats().sessions, 0);
}

/// Proves 5.0:MQTT-3.2.2-9. Proves 5.0:MQTT-3.2.2-10. Proves 5.0:MQTT-3.2.2-11.
/// Proves 5.0:MQTT-3.2.2-12. Proves 5.0:MQTT-3.2.2-13. Proves 5.0:MQTT-3.2.2-14.
#[test]
fn what_is_off_is_said_in_connack_and_refused() {
    let mut net = net_with(Features {
        qos_max: Q1,
        retain: false,
        wildcard_subscriptions: false,
        shared_subscriptions: false,
        subscription_identifiers: false,
        ..Features::default()
    });
    let said = connack(&mut net, Ask::default());
    for property in [
        "MaximumQoS(1)",
        "RetainAvailable(0)",
        "WildcardSubscriptionAvailable(0)",
        "SharedSubscriptionAvailable(0)",
        "SubscriptionIdentifierAvailable(0)",
    ] {
        assert!(said.contains(&property.to_owned()), "{said:?}");
    }
    let sub = net.join("sub", Ask::default());
    let options = SubscriptionOptions { qos: Q2, ..Default::default() };
    for (filter, id, code) in
        [("a/#", None, 0xA2), ("$share/g/a", None, 0x9E), ("a", Some(1), 0xA1), ("a", None, 2)]
    {
        net.subscribe_with(sub, filter, options, id);
        assert_eq!(net.read(sub), [format!("SUBACK [{code}]")], "{filter}");
    }
    net.publish(sub, "a", Q2, 1, "x");
    assert_eq!(net.read(sub), ["DISCONNECT QoS not supported", "closed"]);
    let publ = net.join("pub", Ask::default());
    net.publish_packet(publ, &Publish { retain: true, ..message("t", Q1, 1, "x") });
    assert_eq!(net.read(publ), ["DISCONNECT Retain not supported", "closed"]);
    let will =
        |qos, retain| Will { topic: "w", payload: b"", qos, retain, properties: Properties::EMPTY };
    let peer = net.connect("w", Ask { will: Some(will(Q2, false)), ..Ask::default() });
    assert_eq!(net.read(peer), ["CONNACK QoS not supported", "closed"]);
    let peer = net.connect("w", Ask { will: Some(will(Q0, true)), ..Ask::default() });
    assert_eq!(net.read(peer), ["CONNACK Retain not supported", "closed"]);
}

#[test]
fn what_is_on_is_not_said() {
    let said = connack(&mut Net::new(1), Ask::default());
    let expected = ["ReceiveMaximum(1024)", "MaximumPacketSize(1179648)", "TopicAliasMaximum(16)"];
    assert_eq!(said, expected);
    let limits = Limits { topic_alias_maximum: 0, ..Limits::default() };
    let said = connack(&mut Net::with_limits(1, &limits), Ask::default());
    assert_eq!(said, expected[..2]);
}

#[test]
fn a_session_expiry_over_the_bound_is_granted_as_the_bound() {
    let limits = Limits { session_expiry_s_max: 60, ..Limits::default() };
    for (expiry_s, granted) in [(59, false), (60, false), (61, true), (u32::MAX, true)] {
        let mut net = Net::with_limits(1, &limits);
        let peer = net.connect("c", Ask { expiry_s, ..Ask::default() });
        let said = net.properties(peer).contains(&"SessionExpiryInterval(60)".to_owned());
        assert_eq!(said, granted, "{expiry_s}");
        net.cut(peer);
        net.pass(58);
        assert_eq!(net.shards[0].stats().sessions, 1);
        net.pass(2);
        assert_eq!(net.shards[0].stats().sessions, 0);
    }
}

#[test]
fn a_refusal_is_as_wordy_as_the_client_can_take() {
    let limits = Limits { client_id_bytes_max: 3, ..Limits::default() };
    let (reason, words) =
        ("CONNACK Client Identifier not valid", "the client identifier is too long");
    // Fixed header, flags, reason code, property length; identifier and length of the words.
    let bytes = 2 + 1 + 1 + 1 + 3 + words.len() as u32;
    for (packet_bytes_max, answer) in [
        (bytes, Some(format!("{reason}: {words}"))),
        (bytes - 1, Some(reason.to_owned())),
        (5, Some(reason.to_owned())),
        (4, None),
    ] {
        let mut net = Net::with_limits(1, &limits);
        let peer = net.connect("long", Ask { packet_bytes_max, ..Ask::default() });
        let expected: Vec<String> = answer.into_iter().chain(["closed".to_owned()]).collect();
        assert_eq!(net.read(peer), expected, "{packet_bytes_max}");
        net.join("id3", Ask::default());
    }
}

/// Proves 5.0:MQTT-3.2.2-21.
#[test]
fn the_servers_keep_alive_replaces_the_clients() {
    let mut net = net_with(Features { server_keep_alive_s: 10, ..Features::default() });
    let said = connack(&mut net, Ask { keep_alive_s: 1000, ..Ask::default() });
    assert!(said.contains(&"ServerKeepAlive(10)".to_owned()), "{said:?}");
    let peer = net.join("d", Ask { keep_alive_s: 0, ..Ask::default() });
    let older = net.join("e", Ask { version: Version::V311, ..Ask::default() });
    net.pass(16);
    assert_eq!(net.read(peer), ["DISCONNECT Keep Alive timeout", "closed"]);
    // Older clients cannot be told, so theirs holds.
    assert_eq!(net.read(older), [""; 0]);
}

/// Proves 5.0:MQTT-3.1.2-28.
#[test]
fn response_information_is_for_those_who_request_it() {
    let mut net =
        net_with(Features { response_information: "reply/".into(), ..Features::default() });
    let asks = [Property::RequestResponseInformation(1)];
    let said = connack(&mut net, Ask { properties: &asks, ..Ask::default() });
    assert!(said.contains(&"ResponseInformation(\"reply/\")".to_owned()), "{said:?}");
    let said = connack(&mut net, Ask::default());
    assert!(!said.iter().any(|property| property.contains("ResponseInformation")), "{said:?}");
}

#[test]
fn a_payload_that_says_it_is_text_has_to_be() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let mut properties = PropertiesBuf::new();
    properties.push(Property::PayloadFormatIndicator(1));
    let bad = |qos| Publish {
        properties: properties.as_properties(),
        payload: b"\xFF",
        ..message("t", qos, 1, "")
    };
    let why = "Payload format invalid: the payload is not UTF-8";
    net.publish_packet(publ, &bad(Q1));
    net.publish_packet(publ, &bad(Q2));
    assert_eq!(net.read(publ), [format!("PUBACK #1 {why}"), format!("PUBREC #1 {why}")]);
    // The exchange ended with the refusal: the identifier names a new message.
    net.publish_packet(publ, &Publish { payload: "ü".as_bytes(), ..bad(Q2) });
    assert_eq!(net.read(publ), ["PUBREC #1 No matching subscribers"]);
    net.publish_packet(publ, &bad(Q0));
    assert_eq!(net.read(publ), [format!("DISCONNECT {why}"), "closed".into()]);
    let will = Will {
        topic: "w",
        payload: b"\xFF",
        qos: Q0,
        retain: false,
        properties: properties.as_properties(),
    };
    let peer = net.connect("w", Ask { will: Some(will), ..Ask::default() });
    assert_eq!(net.read(peer), [format!("CONNACK {why}"), "closed".into()]);
}

/// Proves 5.0:MQTT-4.9.0-1. Proves 5.0:MQTT-3.3.4-7. Proves 5.0:MQTT-4.4.0-1.
#[test]
fn what_is_owed_is_sent_again_only_as_the_new_receive_maximum_allows() {
    let ask =
        |maximum| Ask { clean: false, expiry_s: 100, receive_maximum: maximum, ..Ask::default() };
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let sub = net.join("sub", ask(10));
    net.subscribe(sub, "t", Q1);
    for id in 1..=4 {
        net.publish(publ, "t", Q1, id, &format!("m{id}"));
    }
    net.cut(sub);
    net.publish(publ, "t", Q1, 5, "m5");
    let sub = net.connect("sub", ask(2));
    let first = ["CONNACK Success present", "PUBLISH t q1 #1 dup m1", "PUBLISH t q1 #2 dup m2"];
    assert_eq!(net.read(sub), first);
    net.publish(publ, "t", Q1, 6, "m6");
    assert_eq!(net.read(sub), [""; 0]);
    for (id, next) in [(2, "#3 dup m3"), (1, "#4 dup m4"), (3, "#5 m5"), (4, "#6 m6")] {
        net.ack(sub, PacketKind::PubAck, id);
        assert_eq!(net.read(sub), [format!("PUBLISH t q1 {next}")]);
    }
    // Cut again with two open: both are owed again, and nothing else.
    net.cut(sub);
    let sub = net.connect("sub", ask(10));
    let again = ["CONNACK Success present", "PUBLISH t q1 #5 dup m5", "PUBLISH t q1 #6 dup m6"];
    assert_eq!(net.read(sub), again);
}

/// Proves 5.0:MQTT-3.3.4-6.
#[test]
fn a_client_does_not_send_subscription_identifiers() {
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let mut properties = PropertiesBuf::new();
    properties.push(Property::SubscriptionIdentifier(1));
    let properties = properties.as_properties();
    net.publish_packet(publ, &Publish { properties, ..message("t", Q0, 0, "x") });
    let lines = net.read(publ);
    assert!(lines[0].starts_with("DISCONNECT Protocol Error"), "{lines:?}");
}

#[test]
fn each_receiver_gets_its_own_shape_of_a_message() {
    let mut kinds = Vec::new();
    for qos in [Q0, Q1, Q2] {
        kinds.extend([
            (Version::V311, qos, false),
            (Version::V5, qos, false),
            (Version::V5, qos, true),
        ]);
    }
    for is_reversed in [false, true] {
        let mut net = Net::new(1);
        let publ = net.join("pub", Ask::default());
        let mut subs = Vec::new();
        for (at, &(version, qos, retain_as_published)) in kinds.iter().enumerate() {
            let sub = net.join(&format!("sub{at}"), Ask { version, ..Ask::default() });
            subs.push((
                sub,
                SubscriptionOptions { qos, retain_as_published, ..Default::default() },
            ));
        }
        if is_reversed {
            subs.reverse();
        }
        for &(sub, options) in &subs {
            net.subscribe_with(sub, "t", options, None);
            net.read(sub);
        }
        net.publish_packet(publ, &Publish { retain: true, ..message("t", Q2, 1, "x") });
        for (sub, options) in subs {
            let packet_id = if options.qos == Q0 { "" } else { " #1" };
            let retain = if options.retain_as_published { " retain" } else { "" };
            let expected = format!("PUBLISH t q{}{packet_id}{retain} x", options.qos as u8);
            assert_eq!(net.read(sub), [expected]);
        }
    }
}

#[test]
fn each_receiver_gets_its_own_alias_of_a_topic() {
    let ask = Ask { properties: &[Property::TopicAliasMaximum(4)], ..Ask::default() };
    let mut net = Net::new(1);
    let publ = net.join("pub", Ask::default());
    let (one, two) = (net.join("one", ask), net.join("two", ask));
    net.subscribe(two, "other/topic", Q0);
    net.publish(publ, "other/topic", Q0, 0, "x");
    for sub in [one, two] {
        net.subscribe(sub, "long/topic", Q0);
        net.read(sub);
    }
    net.publish(publ, "long/topic", Q0, 0, "x");
    net.publish(publ, "long/topic", Q0, 0, "y");
    for (sub, alias) in [(one, 1), (two, 2)] {
        let expected = [
            format!("PUBLISH long/topic q0 TopicAlias({alias}) x"),
            format!("PUBLISH  q0 TopicAlias({alias}) y"),
        ];
        assert_eq!(net.read(sub), expected);
    }
}

#[test]
fn a_maximum_qos_is_read_as_its_number() {
    let read = |number: u8| {
        let fields = [("qos_max", number)].into_iter();
        Features::deserialize(MapDeserializer::<_, serde::de::value::Error>::new(fields))
            .map(|features| features.qos_max)
    };
    assert_eq!([read(0), read(1), read(2)], [Ok(Q0), Ok(Q1), Ok(Q2)]);
    assert!(read(3).unwrap_err().to_string().contains("QoS is 0, 1 or 2"));
}
