//! What the broker says of itself below `$SYS`.

use crate::access;
use crate::support::Broker;
use crate::support::blocking::Blocking;
use crate::support::live::offer;
use crate::support::mosquitto::Mosquitto;
use crate::support::mqtt::{self, Message, Peer};
use std::collections::BTreeSet;
use std::path::Path;
use weir_wire::packet::{Publish, SubscribeBuf, SubscriptionOptions};
use weir_wire::{Packet, PacketId, Properties, QoS, ReasonCode, Version};

/// What Mosquitto has and Weir does not: docs/sys.md says why.
const MISSING: [&str; 14] = [
    "heap/current",
    "heap/maximum",
    "load/messages/received/15min",
    "load/messages/received/1min",
    "load/messages/received/5min",
    "load/messages/sent/15min",
    "load/messages/sent/1min",
    "load/messages/sent/5min",
    "messages/received",
    "messages/sent",
    "messages/stored",
    "publish/bytes/received",
    "publish/bytes/sent",
    "store/messages",
];

/// A broker with two threads and this in its file. There is no `[control]`.
fn start(folder: &Path, lines: &str) -> Broker {
    let file = folder.join("weir.toml");
    std::fs::write(&file, format!("shards = 2\n{lines}")).unwrap();
    Broker::start_with(&["--config", file.to_str().unwrap()])
}

/// Figures are published once, when the broker starts.
const ONCE: &str = "[sys]\ninterval_s = 60000\n";

/// Asks for a filter, and goes on at once: figures may come before SUBACK.
fn ask(peer: &mut Peer, filter: &str, qos: QoS) {
    let mut filters = SubscribeBuf::new();
    let options = SubscriptionOptions { qos, ..SubscriptionOptions::default() };
    filters.push(filter, options);
    let subscribe = filters.subscribe(Version::V311, PacketId::FIRST, Properties::EMPTY);
    peer.send(&Packet::Subscribe(subscribe));
}

/// The next message, whatever else comes before.
fn next(peer: &mut Peer) -> Message {
    let mut packets = std::iter::from_fn(|| peer.packet());
    packets.find_map(|bytes| mqtt::message(Version::V311, &bytes)).expect("PUBLISH")
}

/// Messages to a new client until each of these topics was among them.
fn up_to(broker: &Broker, client_id: &str, filter: &str, wanted: &[&str]) -> Vec<Message> {
    let mut peer = Peer::client(&broker.address, client_id);
    ask(&mut peer, filter, QoS::ExactlyOnce);
    let mut messages: Vec<Message> = Vec::new();
    while !wanted.iter().all(|topic| messages.iter().any(|message| message.topic == *topic)) {
        messages.push(next(&mut peer));
    }
    messages
}

/// The last that is published.
const LAST: &str = "$SYS/broker/load/sockets/15min";

const VERSION: &str = "$SYS/broker/version";

#[test]
fn figures_are_published_and_kept_for_whoever_comes_later() {
    let folder = tempfile::tempdir().unwrap();
    let broker = start(folder.path(), ONCE);
    up_to(&broker, "first", "$SYS/#", &[LAST]);
    let topics = [VERSION, "$SYS/broker/uptime", "$SYS/broker/retained messages/count", LAST];
    let all = up_to(&broker, "second", "$SYS/#", &topics);
    assert!(all.iter().all(|message| message.retain && message.qos == QoS::AtMostOnce), "{all:?}");
    let payload = |topic| &all.iter().find(|message| message.topic == topic).unwrap().payload;
    assert!(payload(VERSION).starts_with("weir version "), "{}", payload(VERSION));
    assert!(payload(topics[1]).ends_with(" seconds"), "{}", payload(topics[1]));
    assert_eq!((payload(topics[2]), payload(LAST)), (&"0".into(), &"0.00".into()));
}

#[test]
fn a_wildcard_at_the_beginning_does_not_bring_them_and_nobody_else_publishes_there() {
    let folder = tempfile::tempdir().unwrap();
    let broker = start(folder.path(), ONCE);
    let before = up_to(&broker, "first", VERSION, &[VERSION]);
    let mut peer = Peer::client(&broker.address, "c");
    peer.subscribe("#", QoS::AtMostOnce);
    peer.subscribe("+/broker/version", QoS::AtMostOnce);
    let mut other = Blocking::connect(&*broker.address, Version::V5).unwrap();
    other.join("other", None, &[]).unwrap();
    assert_eq!(other.connack(), Some(ReasonCode::Success));
    let refused = access::publish(&mut other, VERSION, true, "mine");
    assert_eq!(refused, ReasonCode::NotAuthorized);
    peer.publish("other", "x", None, false);
    assert_eq!(peer.message().topic, "other");
    let after = up_to(&broker, "second", VERSION, &[VERSION]);
    assert_eq!(after[0].payload, before[0].payload);
}

#[test]
fn with_rights_only_who_has_one_for_it_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let rights = folder.path().join("rights");
    std::fs::write(&rights, "topic readwrite #\ntopic read $SYS/broker/uptime\n").unwrap();
    let lines = format!("[auth]\nallow_anonymous = true\nacl_file = {rights:?}\n{ONCE}");
    let broker = start(folder.path(), &lines);
    let messages = up_to(&broker, "c", "$SYS/#", &["$SYS/broker/uptime"]);
    assert_eq!(messages.len(), 1, "{messages:?}");
    let mut peer = Peer::client(&broker.address, "d");
    peer.subscribe("$SYS/#", QoS::AtMostOnce);
    assert_eq!(peer.message().topic, "$SYS/broker/uptime");
    peer.subscribe("a", QoS::AtMostOnce);
    peer.publish("a", "x", None, false);
    assert_eq!(peer.message().topic, "a", "nothing came in between");
}

#[test]
fn they_are_no_clients_messages_and_a_restart_forgets_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let bounds = "[limits]\nretained_messages_max = 1\n";
    let lines = format!("{bounds}[store]\npath = {store:?}\n");
    let mut broker = start(folder.path(), &format!("{lines}{ONCE}"));
    up_to(&broker, "first", "$SYS/#", &[LAST]);
    let publish = |broker: &Broker| {
        let mut peer = Peer::client(&broker.address, "p");
        peer.send(&Packet::Publish(Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: true,
            topic: "mine",
            packet_id: PacketId::new(1),
            properties: Properties::EMPTY,
            payload: b"x",
        }));
        assert_eq!(peer.acknowledged(), 1);
    };
    publish(&broker);
    // The bound has room for it.
    assert_eq!(up_to(&broker, "c", "mine", &["mine"])[0].payload, "x");
    broker.child.kill().unwrap();
    broker.child.wait().unwrap();
    let broker = start(folder.path(), &lines);
    let mut peer = Peer::client(&broker.address, "d");
    peer.subscribe("$SYS/#", QoS::AtMostOnce);
    peer.subscribe("mine", QoS::AtMostOnce);
    assert_eq!(peer.message().topic, "mine", "and nothing of $SYS");
}

/// Everything that is published below `$SYS/broker` in some rounds, without that.
fn topics(address: &str) -> BTreeSet<String> {
    let mut peer = Peer::client(address, "reader");
    ask(&mut peer, "$SYS/broker/#", QoS::AtMostOnce);
    let (mut topics, mut rounds) = (BTreeSet::new(), 0);
    while rounds < 4 {
        let message = next(&mut peer);
        let topic = message.topic.strip_prefix("$SYS/broker/").unwrap().to_owned();
        rounds += u32::from(topic == "uptime");
        topics.insert(topic);
    }
    topics
}

#[test]
fn mosquitto_has_the_same_topics_and_some_more() {
    let Some(mosquitto) = Mosquitto::start("allow_anonymous true\nsys_interval 1") else { return };
    let theirs = topics(&format!("127.0.0.1:{}", mosquitto.port));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mosquitto.conf");
    std::fs::write(&file, "allow_anonymous true\nsys_interval 1\n").unwrap();
    let broker = Broker::start_with(&["--mosquitto", file.to_str().unwrap()]);
    let ours = topics(&broker.address);
    assert_eq!(ours.difference(&theirs).collect::<Vec<_>>(), [""; 0]);
    let is_named = |topic: &&String| MISSING.iter().any(|missing| topic.starts_with(missing));
    let missing: Vec<_> = theirs.difference(&ours).filter(|topic| !is_named(topic)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn clients_that_come_and_go_are_said_where_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let broker = start(folder.path(), "[sys]\nclient_events_per_s_max = 100\n");
    let mut reader = Peer::client(&broker.address, "reader");
    reader.subscribe("$SYS/brokers/+/clients/+/connected", QoS::AtMostOnce);
    reader.subscribe("$SYS/brokers/+/clients/+/disconnected", QoS::AtMostOnce);
    let said = |message: &Message| {
        let fields: serde_json::Value = serde_json::from_str(&message.payload).unwrap();
        (message.topic.rsplit('/').next().unwrap().to_owned(), fields)
    };
    drop(Peer::client(&broker.address, "c/1"));
    let come = reader.message();
    assert!(come.topic.ends_with("/clients/c%2F1/connected") && !come.retain, "{come:?}");
    let (_, fields) = said(&come);
    let named =
        ["clientid", "ipaddress", "proto_ver", "keepalive"].map(|name| fields[name].clone());
    assert_eq!(named, ["c/1".into(), "127.0.0.1".into(), 4.into(), serde_json::Value::from(0)]);
    let (what, fields) = said(&reader.message());
    assert_eq!(
        (&*what, &fields["clientid"], &fields["reason"]),
        ("disconnected", &"c/1".into(), &"tcp_closed".into())
    );
}

#[test]
fn whose_client_has_gone_is_said_with_a_user_that_nobody_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let broker = start(folder.path(), "[sys]\nclient_events_per_s_max = 100\n");
    let mut reader = Peer::client(&broker.address, "reader");
    reader.subscribe("$SYS/brokers/+/clients/+/disconnected", QoS::AtMostOnce);
    for client_id in ["a", "b", "c", "d"] {
        // Some of them go to the other thread.
        let (client, reason) = offer(&broker.address, client_id, Some("ann"));
        assert_eq!(reason, ReasonCode::Success);
        drop(client);
        let fields: serde_json::Value = serde_json::from_str(&reader.message().payload).unwrap();
        assert_eq!((&fields["clientid"], &fields["username"]), (&client_id.into(), &"ann".into()));
    }
}
