//! The client against bytes: what it writes and says for what a server sends.

use proptest::prelude::*;
use weir_client::{Client, ClientError, ConnectOptions, Event, PublishError, Sink};
use weir_wire::packet::{
    Connect, Disconnect, SubscribeBuf, SubscriptionOptions, UnsubscribeBuf, Will,
};
use weir_wire::{Packet, PacketId, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version};

/// What a client wrote and said, in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Record {
    written: Vec<u8>,
    events: Vec<String>,
    packets: usize,
}

impl Sink for Record {
    fn write(&mut self, bytes: &[u8]) {
        self.written.extend_from_slice(bytes);
    }

    fn packet(&mut self, _packet: &Packet<'_>) {
        self.packets += 1;
    }

    fn event(&mut self, event: Event<'_>) {
        self.events.push(match event {
            Event::Message(publish) => {
                let payload = String::from_utf8_lossy(publish.payload);
                format!("message {} {payload} dup {}", publish.topic, publish.dup)
            }
            Event::Subscribed { packet_id, codes } => {
                format!("subscribed {} {codes:?}", packet_id.value())
            }
            Event::Unsubscribed { packet_id } => format!("unsubscribed {}", packet_id.value()),
            Event::Acknowledged { tag, reason } => format!("acknowledged {tag} {}", reason.name()),
            other => format!("{other:?}"),
        });
    }
}

impl Record {
    /// What came since the last time.
    fn take(&mut self) -> (Vec<u8>, Vec<String>) {
        let Self { written, events, .. } = std::mem::take(self);
        (written, events)
    }
}

fn options(version: Version) -> ConnectOptions<'static> {
    ConnectOptions {
        version,
        client_id: "c",
        clean_start: true,
        keep_alive_s: 10,
        session_expiry_s: 0,
        user_name: None,
        password: None,
    }
}

/// A client that has said CONNECT at time 0 and got `connack`.
fn connected(version: Version, connack: &[u8]) -> (Client, Record) {
    let (mut client, mut record) = (Client::new(version), Record::default());
    client.connect(&options(version), 0, &mut record);
    assert_eq!(client.handle(connack, 0, &mut record), Ok(connack.len()));
    assert!(client.is_live());
    record.take();
    (client, record)
}

fn live_311() -> (Client, Record) {
    connected(Version::V311, &[0x20, 2, 0, 0])
}

fn publish(
    client: &mut Client,
    record: &mut Record,
    qos: QoS,
    tag: u64,
) -> Result<(), PublishError> {
    client.publish(("t", b"x", qos, false), tag, 5, &mut Vec::new(), record)
}

#[test]
fn connect_is_the_first_packet_and_connack_makes_it_live() {
    let (mut client, mut record) = (Client::new(Version::V311), Record::default());
    client.connect(&options(Version::V311), 0, &mut record);
    let connect = [0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 10, 0, 1, b'c'];
    assert_eq!(record.take().0, connect);
    assert!(!client.is_live());
    assert_eq!(
        publish(&mut client, &mut record, QoS::AtMostOnce, 1),
        Err(PublishError::NotConnected)
    );
    assert_eq!(client.handle(&[0x20, 2, 1, 0], 1, &mut record), Ok(4));
    assert_eq!(record.events, ["Connected { session_present: true }"]);
    assert!(client.is_live() && record.written.is_empty());
}

#[test]
fn a_refused_client_is_not_live_and_hears_nothing_more() {
    for (version, connack, reason) in [
        (Version::V311, &[0x20, 2, 0, 5][..], "NotAuthorized"),
        (Version::V5, &[0x20, 3, 0, 0x87, 0], "NotAuthorized"),
    ] {
        let (mut client, mut record) = (Client::new(version), Record::default());
        client.connect(&options(version), 0, &mut record);
        let bytes = [connack, &[0x30, 4, 0, 1, b't', b'x']].concat();
        assert_eq!(client.handle(&bytes, 1, &mut record), Ok(bytes.len()));
        assert_eq!(record.events, [format!("Refused({reason})")]);
        assert!(!client.is_live());
    }
}

#[test]
fn a_packet_before_connack_breaks_the_protocol() {
    let (mut client, mut record) = (Client::new(Version::V311), Record::default());
    client.connect(&options(Version::V311), 0, &mut record);
    let result = client.handle(&[0x30, 4, 0, 1, b't', b'x'], 1, &mut record);
    assert!(matches!(result, Err(ClientError::Protocol(_))), "{result:?}");
    assert_eq!(record.events, [""; 0]);
}

#[test]
fn a_packet_that_no_server_sends_breaks_the_protocol() {
    const CONNECT: [u8; 14] = [0x10, 12, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 9, 0, 0];
    for (bytes, what) in [
        (&[0xC0, 0][..], "a PINGREQ, which only clients send"),
        (&CONNECT, "a CONNECT, which only clients send"),
        (&[0x82, 6, 0, 1, 0, 1, b't', 0], "a SUBSCRIBE, which only clients send"),
        (&[0xA2, 5, 0, 1, 0, 1, b't'], "an UNSUBSCRIBE, which only clients send"),
        (&[0xE0, 0], "a DISCONNECT, which only clients send before MQTT 5.0"),
        (&[0x20, 2, 0, 0], "a second CONNACK"),
    ] {
        let (mut client, mut record) = live_311();
        let result = client.handle(bytes, 1, &mut record);
        assert_eq!(result, Err(ClientError::Protocol(what)));
        assert_eq!(record.events, [""; 0]);
    }
    let (mut client, mut record) = connected(Version::V5, &[0x20, 3, 0, 0, 0]);
    let result = client.handle(&[0xF0, 0], 1, &mut record);
    assert_eq!(result, Err(ClientError::Protocol("an AUTH that nobody asked for")));
}

#[test]
fn bytes_that_are_not_mqtt_are_an_error() {
    let (mut client, mut record) = live_311();
    let result = client.handle(&[0x00, 0], 1, &mut record);
    assert!(matches!(result, Err(ClientError::Wire(_))), "{result:?}");
}

#[test]
fn received_messages_are_answered_as_their_qos_asks() {
    let (mut client, mut record) = live_311();
    let qos_0 = [0x30, 4, 0, 1, b't', b'0'];
    let qos_1 = [0x3A, 6, 0, 1, b't', 0, 7, b'1'];
    let qos_2 = [0x34, 6, 0, 1, b't', 0, 8, b'2'];
    let bytes = [&qos_0[..], &qos_1, &qos_2].concat();
    assert_eq!(client.handle(&bytes, 1, &mut record), Ok(bytes.len()));
    let (written, events) = record.take();
    assert_eq!(written, [0x40, 2, 0, 7, 0x50, 2, 0, 8]);
    let said = ["message t 0 dup false", "message t 1 dup true", "message t 2 dup false"];
    assert_eq!(events, said);
}

#[test]
fn a_caller_may_take_messages_and_acknowledge_them_itself() {
    let (mut client, mut record) = live_311();
    let bytes = [0x32, 6, 0, 1, b't', 0, 7, b'x', 0x40, 2, 0, 1];
    let (publish, used) = client.peek_message(&bytes).unwrap().unwrap();
    assert_eq!((publish.topic, publish.payload, used), ("t", &b"x"[..], 8));
    assert_eq!(record.take().0, [], "it is the caller's to answer");
    client.acknowledge(publish.packet_id.unwrap(), publish.qos, 9, &mut record);
    assert_eq!(record.take(), (vec![0x40, 2, 0, 7], vec![]));
    assert_eq!(client.peek_message(&bytes[..7]), Ok(None), "not all of it");
    assert_eq!(client.peek_message(&bytes[8..]), Ok(None), "no PUBLISH");
    let released = [0x34, 6, 0, 1, b't', 0, 7, b'x'];
    let (publish, _) = client.peek_message(&released).unwrap().unwrap();
    client.acknowledge(publish.packet_id.unwrap(), publish.qos, 9, &mut record);
    assert_eq!(record.take(), (vec![0x50, 2, 0, 7], vec![]));
    assert!(matches!(client.peek_message(&[0x36, 0]), Err(ClientError::Wire(_))));
    client.closed();
    assert_eq!(client.peek_message(&bytes), Ok(None), "of a connection that is gone");
    client.acknowledge(PacketId::FIRST, QoS::AtLeastOnce, 9, &mut record);
    assert_eq!(record.take().0, []);
    let (client, _) = connected(Version::V5, &[0x20, 3, 0, 0, 0]);
    assert!(matches!(client.peek_message(&aliased(b"t", 1)), Err(ClientError::Protocol(_))));
}

#[test]
fn a_qos_2_message_is_told_once_until_it_is_released() {
    let (mut client, mut record) = live_311();
    let message = [0x34, 6, 0, 1, b't', 0, 8, b'2'];
    let again = [0x3C, 6, 0, 1, b't', 0, 8, b'2'];
    let bytes = [&message[..], &again].concat();
    client.handle(&bytes, 1, &mut record).unwrap();
    let (written, events) = record.take();
    assert_eq!(written, [0x50, 2, 0, 8, 0x50, 2, 0, 8], "each is answered");
    assert_eq!(events.len(), 1, "one is told");

    client.handle(&[0x62, 2, 0, 8], 2, &mut record).unwrap();
    assert_eq!(record.take().0, [0x70, 2, 0, 8]);
    client.handle(&message, 3, &mut record).unwrap();
    assert_eq!(record.take().1.len(), 1, "the identifier is free again");
    client.handle(&[0x62, 2, 0, 99], 4, &mut record).unwrap();
    assert_eq!(record.take().0, [0x70, 2, 0, 99], "an unknown release is answered");
}

#[test]
fn a_client_that_connects_again_goes_on_only_where_the_server_has_the_session() {
    let message = [0x3C, 6, 0, 1, b't', 0, 8, b'2'];
    for (session_present, told) in [(1, 0), (0, 1)] {
        let (mut client, mut record) = live_311();
        client.handle(&message, 1, &mut record).unwrap();
        client.closed();
        assert!(!client.is_live() && client.poll_timeout().is_none());
        client.connect(&options(Version::V311), 2, &mut record);
        client.handle(&[0x20, 2, session_present, 0], 3, &mut record).unwrap();
        record.take();
        client.handle(&message, 4, &mut record).unwrap();
        assert_eq!(record.take().1.len(), told, "session present: {session_present}");
    }
}

#[test]
fn qos_0_is_written_and_forgotten() {
    let (mut client, mut record) = live_311();
    publish(&mut client, &mut record, QoS::AtMostOnce, 1).unwrap();
    assert_eq!(record.take().0, [0x30, 4, 0, 1, b't', b'x']);
    assert_eq!(client.open_count(), 0);
}

#[test]
fn acknowledgements_find_their_message_in_any_order() {
    let (mut client, mut record) = live_311();
    for tag in [10, 11, 12] {
        publish(&mut client, &mut record, QoS::AtLeastOnce, tag).unwrap();
    }
    assert_eq!(record.take().0[..8], [0x32, 6, 0, 1, b't', 0, 1, b'x']);
    assert_eq!(client.open_tags().collect::<Vec<_>>(), [10, 11, 12]);
    client.handle(&[0x40, 2, 0, 3, 0x40, 2, 0, 1], 6, &mut record).unwrap();
    assert_eq!(record.take().1, ["acknowledged 12 Success", "acknowledged 10 Success"]);
    assert_eq!(client.open_tags().collect::<Vec<_>>(), [11]);
    client.handle(&[0x40, 2, 0, 2], 8, &mut record).unwrap();
    assert_eq!(record.take().1, ["acknowledged 11 Success"]);
    assert_eq!(client.open_count(), 0);
}

#[test]
fn an_acknowledgement_of_nothing_that_is_open_breaks_the_protocol_of_a_new_session() {
    const OPEN: [(QoS, u64); 2] = [(QoS::AtLeastOnce, 1), (QoS::ExactlyOnce, 2)];
    // PUBACK, PUBREC and PUBCOMP of each message, and of none.
    for (kind, packet_id, is_new_fault, is_fault) in [
        (0x40, 1, false, false),
        (0x40, 2, true, true),
        (0x40, 3, true, false),
        (0x50, 1, true, false),
        (0x50, 2, false, false),
        (0x50, 3, true, false),
        (0x70, 1, true, true),
        (0x70, 2, true, true),
        (0x70, 3, true, false),
    ] {
        for (session_present, expected) in [(0, is_new_fault), (1, is_fault)] {
            let (mut client, mut record) = connected(Version::V311, &[0x20, 2, session_present, 0]);
            for (qos, tag) in OPEN {
                publish(&mut client, &mut record, qos, tag).unwrap();
            }
            let result = client.handle(&[kind, 2, 0, packet_id], 6, &mut record);
            let is_broken = matches!(result, Err(ClientError::Protocol(_)));
            assert_eq!(is_broken, expected, "{kind:x} {packet_id} {session_present}: {result:?}");
        }
    }
}

#[test]
fn qos_2_is_done_when_it_is_complete() {
    let (mut client, mut record) = live_311();
    publish(&mut client, &mut record, QoS::ExactlyOnce, 5).unwrap();
    record.take();
    client.handle(&[0x50, 2, 0, 1, 0x50, 2, 0, 1], 6, &mut record).unwrap();
    let (written, events) = record.take();
    assert_eq!(written, [0x62, 2, 0, 1, 0x62, 2, 0, 1], "every PUBREC gets its PUBREL");
    assert_eq!((events.len(), client.open_count()), (0, 1));
    client.handle(&[0x70, 2, 0, 1], 7, &mut record).unwrap();
    assert_eq!(record.take().1, ["acknowledged 5 Success"]);
    assert_eq!(client.open_count(), 0);
}

#[test]
fn a_refusal_of_5_ends_the_exchange_with_its_reason() {
    let (mut client, mut record) = connected(Version::V5, &[0x20, 3, 0, 0, 0]);
    publish(&mut client, &mut record, QoS::AtLeastOnce, 1).unwrap();
    publish(&mut client, &mut record, QoS::ExactlyOnce, 2).unwrap();
    record.take();
    client.handle(&[0x40, 3, 0, 1, 0x97, 0x50, 3, 0, 2, 0x87], 6, &mut record).unwrap();
    let (written, events) = record.take();
    assert_eq!(events, ["acknowledged 1 Quota exceeded", "acknowledged 2 Not authorized"]);
    assert_eq!((written.len(), client.open_count()), (0, 0), "no PUBREL after a refusal");
}

#[test]
fn the_window_of_5_is_the_servers_receive_maximum() {
    let (mut client, mut record) = connected(Version::V5, &[0x20, 6, 0, 0, 3, 0x21, 0, 2]);
    publish(&mut client, &mut record, QoS::AtLeastOnce, 1).unwrap();
    publish(&mut client, &mut record, QoS::ExactlyOnce, 2).unwrap();
    record.take();
    let full = Err(PublishError::WindowFull);
    assert_eq!(publish(&mut client, &mut record, QoS::AtLeastOnce, 3), full);
    assert_eq!(record.take().0.len(), 0, "nothing is written");
    publish(&mut client, &mut record, QoS::AtMostOnce, 4).unwrap();
    client.handle(&[0x40, 2, 0, 1], 6, &mut record).unwrap();
    publish(&mut client, &mut record, QoS::AtLeastOnce, 5).unwrap();
    assert_eq!(publish(&mut client, &mut record, QoS::AtLeastOnce, 6), full);
}

#[test]
fn identifiers_go_round_and_none_is_used_twice() {
    let (mut client, mut record) = live_311();
    publish(&mut client, &mut record, QoS::AtLeastOnce, 0).unwrap();
    let mut tag = 0_u64;
    loop {
        tag += 1;
        record.take();
        if publish(&mut client, &mut record, QoS::AtLeastOnce, tag).is_err() {
            break;
        }
        let [.., high, low, _] = record.written[..] else { panic!("a PUBLISH") };
        assert_ne!([high, low], [0, 1], "1 is open all the time");
        client.handle(&[0x40, 2, high, low], 6, &mut record).unwrap();
        assert_eq!(record.events, [format!("acknowledged {tag} Success")]);
    }
    assert!(tag > 60_000, "one that is never answered stops the rest only after a round: {tag}");
    client.handle(&[0x40, 2, 0, 1], 6, &mut record).unwrap();
    for tag in 0..70_000 {
        record.take();
        publish(&mut client, &mut record, QoS::AtLeastOnce, tag).unwrap();
        let [.., high, low, _] = record.written[..] else { panic!("a PUBLISH") };
        assert_ne!([high, low], [0, 0]);
        client.handle(&[0x40, 2, high, low], 6, &mut record).unwrap();
        assert_eq!(client.open_count(), 0);
    }
}

#[test]
fn subscribe_and_unsubscribe_are_answered_by_their_identifier() {
    let (mut client, mut record) = live_311();
    let first = client.subscribe("a/#", QoS::AtLeastOnce, 1, &mut record);
    assert_eq!(record.take().0, [0x82, 8, 0, 1, 0, 3, b'a', b'/', b'#', 1]);
    let second = client.unsubscribe("a", 1, &mut record);
    assert_eq!(record.take().0, [0xA2, 5, 0, 2, 0, 1, b'a']);
    client.handle(&[0x90, 3, 0, 1, 0x80, 0xB0, 2, 0, 2], 2, &mut record).unwrap();
    assert_eq!(record.take().1, ["subscribed 1 [128]", "unsubscribed 2"]);
    assert_eq!((first.value(), second.value()), (1, 2));
    publish(&mut client, &mut record, QoS::AtLeastOnce, 9).unwrap();
    assert_eq!(client.subscribe("b", QoS::AtMostOnce, 3, &mut record).value(), 4);
    client.handle(&[0x40, 2, 0, 3], 4, &mut record).unwrap();
    assert_eq!(record.take().1, ["acknowledged 9 Success"]);
}

#[test]
fn a_silent_client_pings_once_a_keep_alive() {
    let (mut client, mut record) = live_311();
    assert_eq!(client.poll_timeout(), Some(10_000_000));
    client.handle_timeout(9_999_999, &mut record);
    assert_eq!(record.take().0, [0; 0]);
    client.handle_timeout(10_000_000, &mut record);
    assert_eq!(record.take().0, [0xC0, 0]);
    assert_eq!(client.poll_timeout(), Some(20_000_000));
    client.handle(&[0xD0, 0], 10_000_100, &mut record).unwrap();
    assert_eq!(client.poll_timeout(), Some(20_000_000), "reading does not keep alive");
    client.handle(&[0x32, 6, 0, 1, b't', 0, 7, b'1'], 12_000_000, &mut record).unwrap();
    assert_eq!(client.poll_timeout(), Some(22_000_000), "writing does");
}

#[test]
fn the_servers_keep_alive_overrules_ours() {
    let (client, _) = connected(Version::V5, &[0x20, 6, 0, 0, 3, 0x13, 0, 3]);
    assert_eq!(client.poll_timeout(), Some(3_000_000));
    let (client, _) = connected(Version::V5, &[0x20, 6, 0, 0, 3, 0x13, 0, 0]);
    assert_eq!(client.poll_timeout(), None);
}

#[test]
fn after_disconnect_nothing_is_written_or_heard() {
    let (mut client, mut record) = live_311();
    client.disconnect(&mut record);
    assert_eq!(record.take().0, [0xE0, 0]);
    let message = [0x30, 4, 0, 1, b't', b'x'];
    assert_eq!(client.handle(&message, 1, &mut record), Ok(message.len()));
    client.disconnect(&mut record);
    client.handle_timeout(u64::MAX, &mut record);
    assert_eq!(record, Record::default());
    assert_eq!(
        publish(&mut client, &mut record, QoS::AtMostOnce, 1),
        Err(PublishError::NotConnected)
    );
}

#[test]
fn a_disconnect_from_the_server_is_told_with_its_reason() {
    let (mut client, mut record) = connected(Version::V5, &[0x20, 3, 0, 0, 0]);
    client.handle(&[0xE0, 1, 0x8B], 1, &mut record).unwrap();
    assert_eq!(record.events, [format!("Disconnected({:?})", ReasonCode::ServerShuttingDown)]);
    assert!(!client.is_live());
}

/// A live client of 5.0 whose CONNECT allowed two topic aliases.
fn live_5_with_aliases() -> (Client, Record) {
    let (mut client, mut record) = (Client::new(Version::V5), Record::default());
    let mut properties = PropertiesBuf::new();
    properties.push(Property::TopicAliasMaximum(2));
    let will = Will {
        topic: "w",
        payload: b"gone",
        qos: QoS::AtLeastOnce,
        retain: true,
        properties: Properties::EMPTY,
    };
    let connect = Connect {
        version: Version::V5,
        clean_start: true,
        keep_alive_s: 10,
        client_id: "c",
        will: Some(will),
        user_name: Some("u"),
        password: Some(b"p"),
        properties: properties.as_properties(),
    };
    client.connect_with(&connect, 0, &mut record);
    let mut bytes = Vec::new();
    connect.encode(&mut bytes);
    assert_eq!(record.take().0, bytes, "as it was given");
    assert_eq!(client.handle(&[0x20, 3, 0, 0, 0], 0, &mut record), Ok(5));
    record.take();
    (client, record)
}

/// PUBLISH of QoS 0 with `topic`, `alias` and the payload `x`.
fn aliased(topic: &[u8], alias: u8) -> Vec<u8> {
    let body = [&[0, topic.len() as u8], topic, &[3, 0x23, 0, alias, b'x']].concat();
    [&[0x30, body.len() as u8], &body[..]].concat()
}

#[test]
fn an_aliased_message_has_the_topic_the_alias_was_set_to() {
    let (mut client, mut record) = live_5_with_aliases();
    let bytes = [aliased(b"a", 2), aliased(b"", 2), aliased(b"b", 2), aliased(b"", 2)].concat();
    client.handle(&bytes, 1, &mut record).unwrap();
    let said = ["a", "a", "b", "b"].map(|topic| format!("message {topic} x dup false"));
    assert_eq!(record.events, said);
    assert_eq!(record.packets, 4);
}

#[test]
fn an_alias_that_is_not_set_or_not_allowed_breaks_the_protocol() {
    for bytes in [aliased(b"", 1), aliased(b"a", 0), aliased(b"a", 3)] {
        let (mut client, mut record) = live_5_with_aliases();
        let result = client.handle(&bytes, 1, &mut record);
        assert!(matches!(result, Err(ClientError::Protocol(_))), "{bytes:?}: {result:?}");
    }
    let (mut client, mut record) = connected(Version::V5, &[0x20, 3, 0, 0, 0]);
    let result = client.handle(&aliased(b"a", 1), 1, &mut record);
    assert!(matches!(result, Err(ClientError::Protocol(_))), "none was allowed: {result:?}");
}

#[test]
fn an_answer_of_another_request_or_with_another_number_of_codes_breaks_the_protocol() {
    for answer in [
        &[0x90, 4, 0, 2, 0, 0][..], // another identifier
        &[0x90, 5, 0, 1, 0, 0, 0],  // two codes for one filter
        &[0xB0, 4, 0, 1, 0, 0],     // UNSUBACK
    ] {
        let (mut client, mut record) = connected(Version::V5, &[0x20, 3, 0, 0, 0]);
        client.subscribe("a", QoS::AtMostOnce, 1, &mut record);
        let result = client.handle(answer, 2, &mut record);
        assert!(matches!(result, Err(ClientError::Protocol(_))), "{answer:?}: {result:?}");
        assert_eq!(record.events, [""; 0]);
    }
    for answer in [&[0xB0, 4, 0, 2, 0, 0][..], &[0xB0, 5, 0, 1, 0, 0, 0], &[0x90, 4, 0, 1, 0, 0]] {
        let (mut client, mut record) = connected(Version::V5, &[0x20, 3, 0, 0, 0]);
        client.unsubscribe("a", 1, &mut record);
        let result = client.handle(answer, 2, &mut record);
        assert!(matches!(result, Err(ClientError::Protocol(_))), "{answer:?}: {result:?}");
    }
    // A second answer to the same request, and one to a request of a connection that is gone.
    let (mut client, mut record) = live_311();
    client.subscribe("a", QoS::AtMostOnce, 1, &mut record);
    let suback = [0x90, 3, 0, 1, 0];
    assert_eq!(client.handle(&suback, 2, &mut record), Ok(5));
    assert!(client.handle(&suback, 2, &mut record).is_err());
    client.subscribe("a", QoS::AtMostOnce, 3, &mut record);
    client.connect(&options(Version::V311), 4, &mut record);
    client.handle(&[0x20, 2, 0, 0], 5, &mut record).unwrap();
    assert!(client.handle(&[0x90, 3, 0, 2, 0], 6, &mut record).is_err());
}

#[test]
fn a_packet_that_is_too_long_is_known_by_its_header() {
    // 256 MB each, of which five bytes have come.
    let header = |first: u8| [first, 0xFF, 0xFF, 0xFF, 0x7F];
    let (mut client, mut record) = (Client::new(Version::V5), Record::default());
    client.connect(&options(Version::V5), 0, &mut record);
    for first in [0x20, 0x30] {
        let result = client.handle(&header(first), 1, &mut record);
        assert!(matches!(result, Err(ClientError::Wire(_))), "before CONNACK: {result:?}");
    }
    let (mut client, mut record) = live_311();
    for first in [0x20, 0x40, 0x90, 0xB0, 0xD0] {
        let result = client.handle(&header(first), 1, &mut record);
        assert!(matches!(result, Err(ClientError::Wire(_))), "after CONNACK: {result:?}");
    }
    let message = [0x30, 0xFA, 0xFF, 0xFF, 0x7F];
    assert_eq!(client.handle(&message, 1, &mut record), Ok(0), "one that was subscribed to");
}

#[test]
fn properties_and_options_are_written_as_given() {
    let (mut client, mut record) = live_5_with_aliases();
    let mut user = PropertiesBuf::new();
    user.push(Property::UserProperty("k", "v"));
    let user_bytes = [0x26, 0, 1, b'k', 0, 1, b'v'];
    let mut filters = SubscribeBuf::new();
    let no_local = SubscriptionOptions { no_local: true, ..SubscriptionOptions::default() };
    filters.push("a", no_local);
    filters.push("b", SubscriptionOptions { qos: QoS::ExactlyOnce, ..no_local });
    client.subscribe_with(&filters, user.as_properties(), 1, &mut record);
    let expected =
        [&[0x82, 18, 0, 1, 7][..], &user_bytes, &[0, 1, b'a', 4, 0, 1, b'b', 6]].concat();
    assert_eq!(record.take().0, expected);

    let mut filters = UnsubscribeBuf::new();
    filters.push("a");
    client.unsubscribe_with(&filters, user.as_properties(), 1, &mut record);
    let expected = [&[0xA2, 13, 0, 2, 7][..], &user_bytes, &[0, 1, b'a']].concat();
    assert_eq!(record.take().0, expected);

    let message = ("t", &b"x"[..], QoS::AtMostOnce, false);
    let mut scratch = Vec::new();
    client.publish_with(message, user.as_properties(), 1, 2, &mut scratch, &mut record).unwrap();
    let expected = [&[0x30, 12, 0, 1, b't', 7][..], &user_bytes, b"x"].concat();
    assert_eq!(record.take().0, expected);

    let disconnect =
        Disconnect { reason: ReasonCode::DisconnectWithWill, properties: user.as_properties() };
    client.disconnect_with(&disconnect, &mut record);
    assert_eq!(record.take().0, [&[0xE0, 9, 4, 7][..], &user_bytes].concat());
    assert!(!client.is_live());
}

proptest! {
    /// However the network cuts the bytes, the client writes and says the same.
    #[test]
    fn any_split_of_the_bytes_is_the_same_to_the_client(
        packets in prop::collection::vec(0_usize..6, 1..20),
        cuts in prop::collection::vec(1_usize..9, 1..40),
    ) {
        const PACKETS: [&[u8]; 6] = [
            &[0x30, 4, 0, 1, b't', b'0'],
            &[0x32, 6, 0, 1, b't', 0, 7, b'1'],
            &[0x34, 6, 0, 1, b't', 0, 8, b'2'],
            &[0x62, 2, 0, 8],
            &[0x40, 2, 0, 1],
            &[0xD0, 0],
        ];
        let bytes: Vec<u8> = packets.iter().flat_map(|&at| PACKETS[at]).copied().collect();
        let start = || {
            // Of a resumed session, so that a PUBACK may come twice.
            let (mut client, mut record) = connected(Version::V311, &[0x20, 2, 1, 0]);
            publish(&mut client, &mut record, QoS::AtLeastOnce, 3).unwrap();
            (client, record)
        };
        let (mut whole, mut at_once) = start();
        prop_assert_eq!(whole.handle(&bytes, 1, &mut at_once), Ok(bytes.len()));
        let (mut client, mut piecewise) = start();
        let (mut consumed, mut known, mut cuts) = (0, 0, cuts.iter().cycle());
        while known < bytes.len() {
            known = bytes.len().min(known + cuts.next().unwrap());
            consumed += client.handle(&bytes[consumed..known], 1, &mut piecewise).unwrap();
        }
        prop_assert_eq!(consumed, bytes.len());
        prop_assert_eq!(at_once, piecewise);
    }
}
