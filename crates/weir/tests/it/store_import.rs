//! `weir store import`: what a real Mosquitto keeps comes from Weir.

use crate::store::{join, publish, start};
use crate::store_tool::tool;
use crate::support::blocking::{Blocking, decode};
use crate::support::mosquitto::Mosquitto;
use std::path::Path;
use weir_wire::packet::{Ack, Connect, Publish, SubscribeBuf, SubscriptionOptions};
use weir_wire::{Packet, PacketId, PropertiesBuf, Property, QoS, ReasonCode, Version};

/// A message as it came: topic, payload, QoS, DUP, RETAIN, packet identifier, then the subscription
/// identifier and the content type.
#[derive(Debug, PartialEq, Eq)]
struct Came {
    topic: String,
    payload: String,
    flags: (u8, bool, bool),
    packet_id: u16,
    subscription_id: Option<u32>,
    content_type: Option<String>,
}

fn subscribe(of: &mut Blocking, filter: &str, options: SubscriptionOptions, number: Option<u32>) {
    let mut filters = SubscribeBuf::new();
    filters.push(filter, options);
    let mut properties = PropertiesBuf::new();
    number.into_iter().for_each(|number| {
        properties.push(Property::SubscriptionIdentifier(number));
    });
    let properties = properties.as_properties();
    let subscribe = filters.subscribe(of.version, PacketId::FIRST, properties);
    of.send(&Packet::Subscribe(subscribe)).unwrap();
    let is_granted = of.packet(|packet| matches!(packet, Packet::SubAck(ack) if ack.codes[0] < 3));
    assert_eq!(is_granted, Some(true), "{filter}");
}

fn send(of: &mut Blocking, topic: &str, payload: &str, qos: QoS, retain: bool, packet_id: u16) {
    let mut properties = PropertiesBuf::new();
    properties.push(Property::ContentType("text/plain"));
    of.send(&Packet::Publish(Publish {
        dup: false,
        qos,
        retain,
        topic,
        packet_id: PacketId::new(packet_id),
        properties: properties.as_properties(),
        payload: payload.as_bytes(),
    }))
    .unwrap();
    // PUBACK or PUBREC.
    of.next().unwrap();
}

fn came(of: &mut Blocking) -> Came {
    let version = of.version;
    let bytes = of.next().unwrap();
    let Packet::Publish(publish) = decode(version, &bytes) else { panic!("no PUBLISH: {bytes:?}") };
    let properties = publish.properties;
    Came {
        topic: publish.topic.into(),
        payload: String::from_utf8(publish.payload.to_vec()).unwrap(),
        flags: (publish.qos as u8, publish.dup, publish.retain),
        packet_id: publish.packet_id.map_or(0, PacketId::value),
        subscription_id: properties.find(|property| match property {
            Property::SubscriptionIdentifier(number) => Some(number),
            _ => None,
        }),
        content_type: properties.find(|property| match property {
            Property::ContentType(text) => Some(text.to_owned()),
            _ => None,
        }),
    }
}

fn short(of: &mut Blocking) -> (String, String, u16) {
    let Came { topic, payload, packet_id, .. } = came(of);
    (topic, payload, packet_id)
}

/// A client of MQTT 3.1.1 whose session stays; says whether there was one.
fn join_v3(address: &str, client_id: &str) -> (Blocking, bool) {
    let mut of = Blocking::connect(address, Version::V311).unwrap();
    let connect = Connect { clean_start: false, ..Connect::new(Version::V311, client_id) };
    of.send(&Packet::Connect(connect)).unwrap();
    let is_present = of.packet(|packet| match packet {
        Packet::ConnAck(connack) => connack.session_present,
        other => panic!("no CONNACK: {other:?}"),
    });
    (of, is_present.unwrap())
}

const AT_LEAST_ONCE: SubscriptionOptions = options(QoS::AtLeastOnce);
const EXACTLY_ONCE: SubscriptionOptions = options(QoS::ExactlyOnce);

const fn options(qos: QoS) -> SubscriptionOptions {
    SubscriptionOptions {
        qos,
        no_local: false,
        retain_as_published: false,
        retain_handling: weir_wire::packet::RetainHandling::Send,
    }
}

/// Sessions, subscriptions, what is queued and in flight in each state, and retained messages.
fn fill(address: &str) {
    let (mut away, _) = join(address, "away");
    subscribe(&mut away, "t/#", AT_LEAST_ONCE, Some(7));
    let own = SubscriptionOptions { no_local: true, retain_as_published: true, ..EXACTLY_ONCE };
    subscribe(&mut away, "own/+", own, None);
    drop(away);
    let (mut old, _) = join_v3(address, "old");
    subscribe(&mut old, "t/2", AT_LEAST_ONCE, None);
    drop(old);
    // Its messages are on their way, each in another state.
    let (mut flying, _) = join(address, "flying");
    subscribe(&mut flying, "f", EXACTLY_ONCE, None);
    let (mut publisher, _) = join(address, "publisher");
    send(&mut publisher, "f", "not acknowledged", QoS::AtLeastOnce, false, 1);
    send(&mut publisher, "f", "not received", QoS::ExactlyOnce, false, 2);
    release(&mut publisher, 2);
    send(&mut publisher, "f", "received", QoS::ExactlyOnce, false, 3);
    release(&mut publisher, 3);
    let all: Vec<_> = (0..3).map(|_| short(&mut flying)).collect();
    let (_, payload, packet_id) = &all[2];
    assert_eq!(payload, "received");
    let ack = Ack::success(PacketId::new(*packet_id).unwrap());
    flying.send(&Packet::PubRec(ack)).unwrap();
    let is_released = flying.packet(|packet| matches!(packet, Packet::PubRel(_)));
    assert_eq!(is_released, Some(true));
    for number in 1..=5 {
        let (topic, payload) = (format!("t/{number}"), format!("queued {number}"));
        send(&mut publisher, &topic, &payload, QoS::AtLeastOnce, false, 10 + number);
    }
    send(&mut publisher, "kept/1", "retained", QoS::AtLeastOnce, true, 20);
    send(&mut publisher, "own/1", "retained too", QoS::AtLeastOnce, true, 21);
    // It is not released before the end.
    send(&mut publisher, "t/6", "not released", QoS::ExactlyOnce, false, 22);
    // A clean session is not in the file.
    let mut clean = Blocking::connect(address, Version::V5).unwrap();
    clean.join("clean", None, &[]).unwrap();
    assert_eq!(clean.connack(), Some(ReasonCode::Success));
    subscribe(&mut clean, "t/#", AT_LEAST_ONCE, None);
}

fn release(of: &mut Blocking, packet_id: u16) {
    let ack = Ack::success(PacketId::new(packet_id).unwrap());
    of.send(&Packet::PubRel(ack)).unwrap();
    let is_done = of.packet(|packet| matches!(packet, Packet::PubComp(_)));
    assert_eq!(is_done, Some(true));
}

#[test]
fn what_mosquitto_kept_comes_from_weir() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let lines = format!("allow_anonymous true\npersistence true\npersistence_location {path}/\n");
    let Some(mosquitto) = Mosquitto::start(&lines) else { return };
    fill(&format!("127.0.0.1:{}", mosquitto.port));
    mosquitto.stop();
    let store = folder.path().join("store");
    let file = folder.path().join("mosquitto.db");
    let (code, said, error) =
        tool(&["import", file.to_str().unwrap(), "--to", store.to_str().unwrap()]);
    assert_eq!(code, 0, "{said} {error}");
    // 6 for the first client, 1 for the second, and the one that was not released.
    let amounts =
        "4 sessions, 4 subscriptions, 8 queued messages, 3 in flight, 2 retained messages";
    assert!(said.contains(amounts) && !said.contains("left out"), "{said}");
    assert_eq!(tool(&["check", store.to_str().unwrap()]).0, 0);
    let (code, _, error) =
        tool(&["import", file.to_str().unwrap(), "--to", store.to_str().unwrap()]);
    assert!(code == 2 && error.contains("is a store already"), "{error}");
    taken(&store);
}

/// Everything, from a broker of another number of threads.
fn taken(store: &Path) {
    let broker = start(store, 2);
    let address = &broker.address;
    let (mut away, is_present) = join(address, "away");
    assert!(is_present);
    for number in 1..=5 {
        let of = came(&mut away);
        let expected = (format!("t/{number}"), format!("queued {number}"), (1, false, false));
        assert_eq!((of.topic, of.payload, of.flags), expected);
        assert_eq!((of.subscription_id, of.content_type), (Some(7), Some("text/plain".into())));
    }
    let of = came(&mut away);
    assert_eq!((of.payload.as_str(), of.flags), ("retained too", (1, false, true)));
    assert_eq!(came(&mut away).payload, "not released");
    let (mut flying, is_present) = join(address, "flying");
    assert!(is_present);
    let first = came(&mut flying);
    assert_eq!((first.payload.as_str(), first.flags), ("not acknowledged", (1, true, false)));
    let second = came(&mut flying);
    assert_eq!((second.payload.as_str(), second.flags), ("not received", (2, true, false)));
    assert_eq!(second.packet_id, first.packet_id + 1);
    let third = flying.packet(|packet| match packet {
        Packet::PubRel(ack) => ack.packet_id.value(),
        other => panic!("no PUBREL: {other:?}"),
    });
    assert_eq!(third, Some(first.packet_id + 2));
    let (mut old, is_present) = join_v3(address, "old");
    assert!(is_present);
    assert_eq!(short(&mut old).1, "queued 2");

    // The subscriptions are there with their options: what is published by its client does not
    // come.
    let ack = |packet_id| Packet::PubAck(Ack::success(PacketId::new(packet_id).unwrap()));
    send(&mut away, "own/2", "mine", QoS::AtLeastOnce, false, 1);
    let (mut publisher, is_present) = join(address, "publisher");
    assert!(is_present);
    // Mosquitto had taken this message: it is not a new one when it comes again.
    send(&mut publisher, "t/6", "not released", QoS::ExactlyOnce, false, 22);
    release(&mut publisher, 22);
    publish(&mut publisher, "own/3", "other", 2).unwrap();
    publisher.next().unwrap();
    let next = came(&mut away);
    assert_eq!((next.topic.as_str(), next.payload.as_str()), ("own/3", "other"));
    away.send(&ack(next.packet_id)).unwrap();
    let mut new = Blocking::connect(address, Version::V5).unwrap();
    new.join("new", None, &[]).unwrap();
    assert_eq!(new.connack(), Some(ReasonCode::Success));
    subscribe(&mut new, "#", AT_LEAST_ONCE, None);
    let mut retained =
        [short(&mut new), short(&mut new)].map(|(topic, payload, _)| (topic, payload));
    retained.sort();
    let expected = [("kept/1", "retained"), ("own/1", "retained too")];
    assert_eq!(retained, expected.map(|(topic, payload)| (topic.into(), payload.into())));
}

#[test]
fn what_is_no_persistence_file_is_refused_with_its_byte() {
    let folder = tempfile::tempdir().unwrap();
    let (file, store) = (folder.path().join("file"), folder.path().join("store"));
    std::fs::write(&file, "no database").unwrap();
    let (code, _, error) =
        tool(&["import", file.to_str().unwrap(), "--to", store.to_str().unwrap()]);
    let said = "cannot be imported: byte 0: this is no persistence file of Mosquitto's";
    assert!(code == 2 && error.contains(said) && !store.exists(), "{error}");
}
