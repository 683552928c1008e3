//! Content over TCP: filtered subscriptions in both forms and versions, and `[[flow]]` rules.

use crate::support::{Broker, Client};
use weir_broker::Config;
use weir_wire::packet::{Connect, Publish, SubscribeBuf, SubscriptionOptions};
use weir_wire::{
    Packet, PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version,
};

const Q1: QoS = QoS::AtLeastOnce;

/// A message of the form that trackers send.
fn telemetry(speed: u32, cell: bool, n: u32) -> String {
    let cell = if cell { r#","mcc":257,"mnc":2,"lac":78,"cell_id":29421"# } else { "" };
    format!(
        r#"{{"t":1700000000,"f":1,"tp":"ud","pos":{{"y":53.9,"x":27.4,"z":221,"s":{speed},"c":118,
            "sc":12}},"i":3,"o":1,"p":{{"hdop":0.8{cell}}},"n":{n}}}"#
    )
}

fn join(broker: &Broker, client_id: &str, version: Version) -> Client {
    let mut client = Client::open(broker.address);
    client.version = version;
    let mut bytes = Vec::new();
    Connect::new(version, client_id).encode(&mut bytes);
    client.send(&bytes);
    assert_eq!(client.connack(), Some(ReasonCode::Success));
    client
}

/// Codes and reason string of the SUBACK.
fn subscribe(client: &mut Client, filters: &[&str], condition: Option<&str>) -> (Vec<u8>, String) {
    let mut list = SubscribeBuf::new();
    for filter in filters {
        list.push(filter, SubscriptionOptions { qos: Q1, ..Default::default() });
    }
    let mut properties = PropertiesBuf::new();
    if let Some(condition) = condition {
        properties.push(Property::UserProperty("filter", condition));
    }
    let mut bytes = Vec::new();
    list.subscribe(client.version, PacketId::FIRST, properties.as_properties())
        .encode(client.version, &mut bytes);
    client.send(&bytes);
    let read = |packet: &Packet<'_>| match packet {
        Packet::SubAck(suback) => {
            let reason = suback.properties.find(|property| match property {
                Property::ReasonString(text) => Some(text.to_owned()),
                _ => None,
            });
            (suback.codes.to_vec(), reason.unwrap_or_default())
        }
        other => panic!("{other:?}"),
    };
    client.packet(read).unwrap()
}

fn publish(client: &mut Client, topic: &str, payload: &str) {
    let mut bytes = Vec::new();
    Publish {
        dup: false,
        qos: Q1,
        retain: false,
        topic,
        packet_id: Some(PacketId::FIRST),
        properties: Properties::EMPTY,
        payload: payload.as_bytes(),
    }
    .encode(client.version, &mut bytes);
    client.send(&bytes);
}

/// The next packet, which is a PUBLISH: topic and payload. Acknowledged.
fn delivered(client: &mut Client) -> (String, String) {
    let read = |packet: &Packet<'_>| match packet {
        Packet::Publish(publish) => {
            let payload = String::from_utf8(publish.payload.to_vec()).unwrap();
            (publish.topic.to_owned(), payload, publish.packet_id)
        }
        other => panic!("{other:?}"),
    };
    let (topic, payload, packet_id) = client.packet(read).unwrap();
    if let Some(packet_id) = packet_id {
        let [high, low] = packet_id.value().to_be_bytes();
        client.send(&[PacketKind::PubAck.first_byte(), 2, high, low]);
    }
    (topic, payload)
}

fn acknowledged(client: &mut Client) {
    let is_ack = client.packet(|packet| matches!(packet, Packet::PubAck(_)));
    assert_eq!(is_ack, Some(true));
}

/// Enough clients that each of two shards has some.
const CLIENTS: usize = 6;

#[test]
fn subscribers_of_both_versions_get_what_fulfils_their_conditions_on_every_shard() {
    let broker = Broker::start(Config { shards: 2, ..Config::default() });
    let mut fast: Vec<Client> = (0..CLIENTS)
        .map(|at| {
            let mut client = join(&broker, &format!("fast-{at}"), Version::V5);
            let granted = subscribe(&mut client, &["ud/#"], Some("payload.pos.s > 80"));
            assert_eq!(granted, (vec![1], String::new()));
            client
        })
        .collect();
    let cells = "$filter/has(payload.p.mcc)%20&&%20topic.startsWith('ud%2F')/ud/+";
    let mut celled: Vec<Client> = (0..CLIENTS)
        .map(|at| {
            let mut client = join(&broker, &format!("celled-{at}"), Version::V311);
            assert_eq!(subscribe(&mut client, &[cells], None).0, [1]);
            client
        })
        .collect();
    let mut publisher = join(&broker, "publisher", Version::V311);
    let messages: Vec<String> = (0..60).map(|n| telemetry(60 + n % 40, n % 10 == 0, n)).collect();
    for message in &messages {
        publish(&mut publisher, "ud/7", message);
        acknowledged(&mut publisher);
    }
    // No JSON: no match, and nothing ends.
    publish(&mut publisher, "ud/7", "{\"pos\":{\"s\":");
    acknowledged(&mut publisher);
    let last = telemetry(99, true, 1000);
    publish(&mut publisher, "ud/7", &last);
    acknowledged(&mut publisher);
    let expect = |client: &mut Client, wanted: &dyn Fn(u32) -> bool| {
        for n in (0..60).filter(|&n| wanted(n)) {
            assert_eq!(delivered(client).1, messages[n as usize]);
        }
        assert_eq!(delivered(client).1, last);
    };
    fast.iter_mut().for_each(|client| expect(client, &|n| 60 + n % 40 > 80));
    celled.iter_mut().for_each(|client| expect(client, &|n| n % 10 == 0));
}

#[test]
fn a_bad_condition_is_refused_with_its_place_in_5_and_with_0x80_before() {
    let broker = Broker::start(Config { shards: 1, ..Config::default() });
    let mut new = join(&broker, "new", Version::V5);
    let (codes, reason) = subscribe(&mut new, &["ud/#"], Some("payload.pos.s > > 80"));
    assert_eq!(codes, [ReasonCode::TopicFilterInvalid as u8]);
    assert!(reason.starts_with("at byte "), "{reason}");
    let mut old = join(&broker, "old", Version::V311);
    let filters = ["$filter/payload.pos.s%20>%20>/ud/#", "ud/#"];
    assert_eq!(subscribe(&mut old, &filters, None).0, [0x80, 1]);
    assert_eq!(subscribe(&mut new, &["$share/g/$filter/qos%20==%201/ud/#"], None).0, [1]);
}

const RULES: &str = r##"
[[flow]]
name = "cells"
from = "ud/#"
when = 'has(payload.p.mcc) && has(payload.p.mnc)'
to = "cells/{payload.p.mcc}/{topic[1]}"
payload = 'payload.p'
publish_qos = 1
retain = true

[[flow]]
name = "seen"
from = "cells/#"
to = "seen/{topic[2]}"
"##;

#[test]
fn a_rules_result_is_accepted_before_the_message_is_acknowledged_and_goes_on_to_other_rules() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), RULES).unwrap();
    let config = Config { shards: 2, ..Config::read(file.path()).unwrap() };
    let broker = Broker::start(config);
    let mut both = join(&broker, "both", Version::V5);
    assert_eq!(subscribe(&mut both, &["#"], None).0, [1]);
    let message = telemetry(70, true, 1);
    publish(&mut both, "ud/7", &message);
    assert_eq!(delivered(&mut both), ("ud/7".into(), message.clone()));
    let cell = r#"{"hdop":0.8,"mcc":257,"mnc":2,"lac":78,"cell_id":29421}"#;
    assert_eq!(delivered(&mut both), ("cells/257/7".into(), cell.into()));
    assert_eq!(delivered(&mut both), ("seen/7".into(), cell.into()));
    acknowledged(&mut both);
    publish(&mut both, "ud/8", &telemetry(70, false, 2));
    assert_eq!(delivered(&mut both).0, "ud/8");
    acknowledged(&mut both);
    // Retained, and filtered for who comes later.
    let mut late = join(&broker, "late", Version::V311);
    assert_eq!(
        subscribe(&mut late, &["$filter/payload.mcc%20==%20257%20&&%20retain/cells/#"], None).0,
        [1]
    );
    assert_eq!(delivered(&mut late), ("cells/257/7".into(), cell.into()));
}

/// A condition that goes through a list once for each of its elements; no two numbers are alike.
fn costly(number: u32) -> String {
    format!("payload.l.all(a, payload.l.all(b, a == b && b < {number}))")
}

#[test]
fn costly_conditions_of_one_client_do_not_silence_anothers() {
    const MESSAGES: usize = 10;
    for shards in [1, 2] {
        let broker = Broker::start(Config { shards, ..Config::default() });
        let mut greedy = join(&broker, "greedy", Version::V5);
        for number in 100..112 {
            let condition = costly(number).replace('&', "%26").replace(' ', "%20");
            let name = format!("$filter/{condition}/t");
            assert_eq!(subscribe(&mut greedy, &[&name], None), (vec![1], String::new()));
        }
        let mut other = join(&broker, "other", Version::V5);
        assert_eq!(subscribe(&mut other, &["t"], Some(&costly(99))), (vec![1], String::new()));
        let mut publisher = join(&broker, "publisher", Version::V5);
        let payload = format!("{{\"l\":[{}]}}", ["1"; 80].join(","));
        for _ in 0..MESSAGES {
            publish(&mut publisher, "t", &payload);
            acknowledged(&mut publisher);
        }
        for _ in 0..MESSAGES {
            assert_eq!(delivered(&mut other), ("t".into(), payload.clone()));
            // The cheapest of its own have room beside it.
            assert_eq!(delivered(&mut greedy), ("t".into(), payload.clone()));
        }
        // Its own are left out, which it is told at once when it asks for more.
        let (codes, reason) = subscribe(&mut greedy, &["u"], Some("payload.l.size() > 0"));
        let told = format!("left out {MESSAGES} times: ");
        assert!(codes == [1] && reason.starts_with(&told), "{codes:?} {reason}");
    }
}

#[test]
fn a_client_is_told_that_no_message_can_match_its_condition() {
    let broker = Broker::start(Config::default());
    let mut client = join(&broker, "client", Version::V5);
    for condition in ["qos > 2", "false && payload.a > 1"] {
        let told = subscribe(&mut client, &["t"], Some(condition));
        assert_eq!(told, (vec![1], "no message can match the condition".into()), "{condition}");
    }
    assert_eq!(subscribe(&mut client, &["t"], Some("qos > 1")), (vec![1], String::new()));
}
