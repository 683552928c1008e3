//! What is copied and shown, without a shell.

use super::*;
use serde_json::{Value, json};
use weir_core::{Features, Limits, Settings, ShardId, SharePolicy};
use weir_wire::packet::{Auth, Connect, Publish, Will};
use weir_wire::{PacketId, Properties, PropertiesBuf, QoS, ReasonCode};

const CONN: ConnKey = ConnKey(7);

fn shard() -> Shard {
    let (limits, features) = (Limits::default(), Features::default());
    let share = SharePolicy::default();
    Shard::new(ShardId(0), 1, Settings { limits, features, share }, 1)
}

fn party(client_id: &str, version: Version) -> Party {
    let address = Some("192.0.2.7".parse().unwrap());
    Party { client_id: client_id.into(), user: Some("ann".into()), address, version }
}

fn of(kind: &str, name: &str) -> TraceOf {
    TraceOf { kind: kind.into(), name: name.into() }
}

/// A trace of everything that this connection's client says and is told.
fn traces(version: Version) -> Traces {
    let mut traces = Traces::default();
    traces.start(0, &of("client", "c"));
    traces.meet(CONN, party("c", version));
    traces
}

fn bytes(packet: &Packet<'_>, version: Version) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(version, &mut bytes);
    bytes
}

/// What is shown of what came.
fn shown(traces: &mut Traces, bytes: &[u8]) -> Vec<Value> {
    let found = traces.look(CONN, bytes, &shard());
    traces.came(found, bytes.len(), traces.place());
    taken(traces)
}

fn taken(traces: &mut Traces) -> Vec<Value> {
    traces.settle(|_| None);
    let events = traces.take().events;
    events.iter().map(|copied| serde_json::to_value(event(copied)).unwrap()).collect()
}

fn publish<'a>(topic: &'a str, payload: &'a [u8]) -> Packet<'a> {
    let packet_id = PacketId::new(9);
    let (properties, dup, retain, qos) = (Properties::EMPTY, true, false, QoS::AtLeastOnce);
    Packet::Publish(Publish { dup, qos, retain, topic, packet_id, properties, payload })
}

#[test]
fn no_secret_is_copied() {
    let secret = b"open sesame";
    let mut properties = PropertiesBuf::new();
    properties.push(Property::AuthenticationMethod("SCRAM"));
    properties.push(Property::AuthenticationData(secret));
    let properties = properties.as_properties();
    let long = [b'x'; 1000];
    let connect = Packet::Connect(Connect {
        version: Version::V5,
        clean_start: true,
        keep_alive_s: 5,
        client_id: "c",
        will: Some(Will {
            topic: "w",
            payload: &long,
            qos: QoS::AtMostOnce,
            retain: true,
            properties: Properties::EMPTY,
        }),
        user_name: Some("eyJa.eyJb.c"),
        password: Some(secret),
        properties,
    });
    let auth = Packet::Auth(Auth { reason: ReasonCode::Success, properties });
    let came = [bytes(&connect, Version::V5), bytes(&auth, Version::V5)].concat();
    let mut traces = traces(Version::V5);
    traces.meet(CONN, Party { user: Some("eyJa.eyJb.c".into()), ..party("c", Version::V5) });
    let found = traces.look(CONN, &came, &shard());
    assert_eq!(found.len(), 2);
    for (_, copied) in &found {
        let body = copied.body.as_ref().unwrap();
        assert!(!body.windows(4).any(|part| part == &secret[..4]), "{body:?}");
    }
    traces.came(found, came.len(), 0);
    let events = taken(&mut traces);
    let connect = &events[0];
    assert_eq!(connect.get("note"), None, "{connect}");
    assert_eq!(
        [
            &connect["password"],
            &connect["user_name"],
            &connect["user"],
            &connect["will"]["payload"]
        ],
        [&json!("(hidden)"), &json!("(a token)"), &json!("(a token)"), &json!("x".repeat(256))]
    );
    assert_eq!(connect["properties"], json!({ "authentication_method": "SCRAM" }));
    assert_eq!((&events[1]["packet"], &events[1]["data"]), (&json!("AUTH"), &json!("(hidden)")));
    // Nobody knows where the secret is in one that cannot be decoded.
    let broken = [&[0x10, 20][..], secret, &[0; 9]].concat();
    let found = traces.look(CONN, &broken, &shard());
    assert!(found[0].1.body.is_none());
}

#[test]
fn payloads_are_cut_and_their_length_is_said() {
    let mut traces = traces(Version::V311);
    for length in [0, 255, 256, 257, 100_000] {
        let payload = "é".repeat(length);
        let came = bytes(&publish("a/b", payload.as_bytes()), Version::V311);
        let event = &shown(&mut traces, &came)[0];
        let kept = event["payload"].as_str().unwrap();
        assert_eq!(kept.len(), (2 * length).min(256), "{event}");
        assert_eq!(
            (&event["payload_bytes"], &event["bytes"]),
            (&json!(2 * length), &json!(came.len()))
        );
        assert_eq!(
            (&event["topic"], &event["dup"], &event["packet_id"]),
            (&json!("a/b"), &json!(true), &json!(9))
        );
    }
    let long = "x".repeat(5_000);
    let event = &shown(&mut traces, &bytes(&publish(&long, b""), Version::V311))[0];
    assert!(event["note"].as_str().unwrap().contains("too long"), "{event}");
}

#[test]
fn what_came_stands_before_its_answers_and_only_as_far_as_it_was_taken() {
    let mut traces = traces(Version::V311);
    let ping = bytes(&Packet::PingReq, Version::V311);
    let came = [&ping[..], &ping, &ping].concat();
    let found = traces.look(CONN, &came, &shard());
    let place = traces.place();
    traces.sent(CONN, &bytes(&Packet::PingResp, Version::V311));
    traces.came(found, 2 * ping.len(), place);
    let events = taken(&mut traces);
    let packets: Vec<_> = events.iter().map(|event| &event["packet"]).collect();
    assert_eq!(packets, ["PINGREQ", "PINGREQ", "PINGRESP"]);
}

#[test]
fn what_goes_to_another_shard_is_not_said_twice() {
    let mut traces = traces(Version::V311);
    let ping = bytes(&Packet::PingReq, Version::V311);
    let found = traces.look(CONN, &ping, &shard());
    traces.hand_over(CONN);
    traces.came(found, ping.len(), 0);
    assert!(taken(&mut traces).is_empty());
}

#[test]
fn what_has_no_room_is_counted_by_trace() {
    let mut traces = traces(Version::V311);
    traces.start(2, &of("user", "ann"));
    traces.meet(CONN, party("c", Version::V311));
    let came = bytes(&publish("a", &[0; 256]), Version::V311);
    let count = 2 * WAITING_BYTES_MAX / came.len();
    (0..count).for_each(|_| traces.sent(CONN, &came));
    let Taken { events, dropped } = traces.take();
    let missing = (count - events.len()) as u64;
    assert!(missing > 0 && events.iter().map(Copied::bytes).sum::<usize>() <= WAITING_BYTES_MAX);
    assert_eq!(dropped, [missing, 0, missing, 0]);
    traces.sent(CONN, &came);
    assert_eq!(taken(&mut traces).len(), 1, "there is room again");
}

#[test]
fn traces_begin_and_end_by_themselves() {
    let mut traces = traces(Version::V311);
    traces.start(1, &of("address", "192.0.2.0/24"));
    traces.meet(CONN, party("c", Version::V311));
    traces.meet(ConnKey(9), party("d", Version::V311));
    assert_eq!((traces.mark(CONN), traces.mark(ConnKey(9)), traces.mark(ConnKey(1000))), (3, 2, 0));
    let ping = bytes(&Packet::PingReq, Version::V311);
    traces.sent(CONN, &ping);
    traces.sent(ConnKey(9), &ping);
    traces.stop(1);
    assert!(traces.go_on());
    let left = taken(&mut traces);
    assert_eq!((left.len(), &left[0]["client_id"]), (1, &json!("c")));
    assert_eq!((traces.mark(CONN), traces.mark(ConnKey(9))), (1, 0));
    traces.forget(CONN);
    assert_eq!(traces.mark(CONN), 0);
    traces.stop(0);
    assert!(!traces.go_on());
}

#[test]
fn whom_nobody_can_trace_is_named() {
    for (kind, name, part) in [
        ("client", "", "missing"),
        ("address", "here", "here: it must be an address"),
        ("topic", "a/#/b", "a/#/b: it is no topic filter"),
        ("shard", "1", "shard: a trace is of"),
    ] {
        let why = check(&of(kind, name)).unwrap_err();
        assert!(why.contains(part) && !why.contains(" ban"), "{why}");
    }
    for (kind, name) in [("client", "c"), ("user", "u"), ("address", "::1"), ("topic", "$SYS/#")] {
        assert_eq!(check(&of(kind, name)), Ok(()));
    }
}
