//! Traces: what clients and the broker say to each other, by the API and by `weir ctl trace`.

use crate::api::Served;
use crate::support::asked::Asked;
use crate::support::blocking::Blocking;
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use weir_wire::packet::{Ack, Connect, Disconnect, Publish, SubscribeBuf, Will};
use weir_wire::packet::{SubscriptionOptions, UnsubscribeBuf};
use weir_wire::{Packet, PacketId, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version};

/// An admin's way to the traces of a broker.
struct Tracer(Served);

impl Tracer {
    fn start(more: &str) -> Self {
        Self(Served::start(more))
    }

    fn json(&self, method: &str, path: &str) -> (u16, Value) {
        let (status, answer) = self.0.ask(method, path, Some(&self.0.admin));
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// Begins one, and says its path.
    fn begin(&self, query: &str) -> String {
        let (status, begun) = self.json("POST", &format!("/api/v1/traces?{query}"));
        assert_eq!(status, 200, "{begun}");
        format!("/api/v1/traces/{}", begun["id"])
    }

    /// Its events once there are so many.
    fn events(&self, path: &str, count: usize) -> Vec<Value> {
        let mut events = Vec::new();
        while events.len() < count {
            let path = format!("{path}/events?after={}&wait_s=5", events.len());
            let (status, answer) = self.0.get(&path, Some(&self.0.admin));
            assert_eq!(status, 200, "{answer}");
            let body = answer.split_once("\r\n\r\n").unwrap().1;
            events.extend(body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        events
    }

    /// What is said of it once it has ended.
    fn ended(&self, path: &str) -> Value {
        loop {
            let trace = self.json("GET", path).1;
            if !trace["ended"].is_null() {
                return trace;
            }
            // There is an answer when it has ended.
            let events = format!("{path}/events?after={}&wait_s=5", trace["events"]);
            assert_eq!(self.0.get(&events, Some(&self.0.admin)).0, 200);
        }
    }

    fn connect(&self, version: Version) -> Blocking {
        Blocking::connect(&*self.0.broker.address, version).unwrap()
    }
}

fn connect(of: &mut Blocking, client_id: &str, user: Option<(&str, &str)>) {
    let version = of.version;
    of.send(&Packet::Connect(Connect {
        keep_alive_s: 30,
        will: Some(Will {
            topic: "will",
            payload: b"gone",
            qos: QoS::AtLeastOnce,
            retain: false,
            properties: Properties::EMPTY,
        }),
        user_name: user.map(|(name, _)| name),
        password: user.map(|(_, password)| password.as_bytes()),
        ..Connect::new(version, client_id)
    }))
    .unwrap();
    assert_eq!(of.connack(), Some(ReasonCode::Success));
}

fn id(number: u16) -> PacketId {
    PacketId::new(number).unwrap()
}

pub(crate) fn publish<'a>(topic: &'a str, payload: &'a [u8], qos: QoS) -> Packet<'a> {
    let packet_id = (qos != QoS::AtMostOnce).then(|| id(7));
    let (properties, dup, retain) = (Properties::EMPTY, false, false);
    Packet::Publish(Publish { dup, qos, retain, topic, packet_id, properties, payload })
}

/// Each as `DIRECTION PACKET`.
fn kinds(events: &[Value]) -> Vec<String> {
    let text = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
    events.iter().map(|it| format!("{} {}", text(it, "direction"), text(it, "packet"))).collect()
}

/// All that a client and the broker say to each other, one after the other.
fn talk(of: &mut Blocking, client_id: &str) {
    connect(of, client_id, None);
    let mut filters = SubscribeBuf::new();
    filters.push("a/+", SubscriptionOptions { qos: QoS::ExactlyOnce, ..Default::default() });
    let subscribe = filters.subscribe(of.version, id(3), Properties::EMPTY);
    of.send(&Packet::Subscribe(subscribe)).unwrap();
    of.next().unwrap();
    of.send(&publish("a/b", b"one", QoS::ExactlyOnce)).unwrap();
    // PUBLISH and PUBREC.
    (0..2).for_each(|_| _ = of.next().unwrap());
    of.send(&Packet::PubRec(Ack::success(id(1)))).unwrap();
    of.next().unwrap();
    of.send(&Packet::PubComp(Ack::success(id(1)))).unwrap();
    of.send(&Packet::PubRel(Ack::success(id(7)))).unwrap();
    of.next().unwrap();
    of.send(&publish("b", &[0xFF; 1000], QoS::AtLeastOnce)).unwrap();
    of.next().unwrap();
    let mut filters = UnsubscribeBuf::new();
    filters.push("a/+");
    of.send(&Packet::Unsubscribe(filters.unsubscribe(id(4), Properties::EMPTY))).unwrap();
    of.next().unwrap();
    of.send(&Packet::PingReq).unwrap();
    of.next().unwrap();
    let (reason, properties) = (ReasonCode::Success, Properties::EMPTY);
    of.send(&Packet::Disconnect(Disconnect { reason, properties })).unwrap();
    assert_eq!(of.next(), None);
}

const TALK: [&str; 19] = [
    "in CONNECT",
    "out CONNACK",
    "in SUBSCRIBE",
    "out SUBACK",
    "in PUBLISH",
    "out PUBLISH",
    "out PUBREC",
    "in PUBREC",
    "out PUBREL",
    "in PUBCOMP",
    "in PUBREL",
    "out PUBCOMP",
    "in PUBLISH",
    "out PUBACK",
    "in UNSUBSCRIBE",
    "out UNSUBACK",
    "in PINGREQ",
    "out PINGRESP",
    "in DISCONNECT",
];

#[test]
fn what_is_traced_is_what_was_exchanged_in_each_version() {
    let tracer = Tracer::start("");
    for version in [Version::V31, Version::V311, Version::V5] {
        let path = tracer.begin("kind=client&name=c");
        talk(&mut tracer.connect(version), "other");
        // Another connection of the client is in it too.
        (0..2).for_each(|_| talk(&mut tracer.connect(version), "c"));
        let events = tracer.events(&path, 2 * TALK.len());
        assert_eq!(kinds(&events), [TALK, TALK].concat());
        let names = ["seq", "client_id", "address"];
        for (number, event) in (1..).zip(&events) {
            assert_eq!(
                names.map(|name| &event[name]),
                [&json!(number), &json!("c"), &json!("127.0.0.1")]
            );
        }
        let one = &events[4];
        assert_eq!(
            [&one["topic"], &one["payload"], &one["qos"], &one["packet_id"], &one["bytes"]],
            [&json!("a/b"), &json!("one"), &json!(2), &json!(7), &json!(events[5]["bytes"])]
        );
        assert_eq!(events[2]["filters"][0]["filter"], "a/+");
        assert_eq!(events[0]["will"]["payload"], "gone");
        let long = &events[12];
        assert_eq!(
            (&long["payload_bytes"], &long["payload_encoding"]),
            (&json!(1000), &json!("base64"))
        );
        assert!(long["payload"].as_str().unwrap().len() < 400, "{long}");
        assert_eq!(tracer.json("DELETE", &path).0, 204);
        assert_eq!(tracer.json("GET", &path).0, 404);
    }
}

#[test]
fn passwords_and_tokens_are_hidden() {
    let tracer = Tracer::start("");
    let path = tracer.begin("kind=client&name=c");
    let token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4ifQ.c2lnbmF0dXJl";
    connect(&mut tracer.connect(Version::V5), "c", Some(("ann", "open sesame")));
    connect(&mut tracer.connect(Version::V311), "c", Some((token, "open sesame")));
    let events = tracer.events(&path, 4);
    let connects: Vec<_> = events.iter().filter(|event| event["packet"] == "CONNECT").collect();
    assert_eq!(
        (&connects[0]["user_name"], &connects[0]["password"]),
        (&json!("ann"), &json!("(hidden)"))
    );
    assert_eq!(connects[1]["user_name"], "(a token)");
    let all = format!("{events:?}");
    assert!(!all.contains("sesame") && !all.contains(token), "{all}");
    let (_, list) = tracer.json("GET", "/api/v1/traces");
    assert_eq!(
        (&list["traces"][0]["kind"], &list["traces"][0]["name"]),
        (&json!("client"), &json!("c"))
    );
}

#[test]
fn clients_that_are_here_are_traced_and_stay_so_on_another_thread() {
    let tracer = Tracer::start("");
    let mut of = tracer.connect(Version::V5);
    connect(&mut of, "c", None);
    let path = tracer.begin("kind=client&name=c");
    let ping = |of: &mut Blocking| {
        of.send(&Packet::PingReq).unwrap();
        of.next().unwrap();
    };
    ping(&mut of);
    // Every partition to the other thread: the client's is among them.
    for partition in 0..=255 {
        let query = |shard| format!("/api/v1/partitions/{partition}?shard={shard}");
        let (status, _) = tracer.json("PUT", &query(0));
        assert!([204, 409].contains(&status));
        if status == 409 {
            assert_eq!(tracer.json("PUT", &query(1)).0, 204);
        }
        // Tokens have so many requests a second.
        if partition % 40 == 39 {
            ping(&mut of);
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }
    ping(&mut of);
    let events = tracer.events(&path, 2 * 8);
    assert!(events.iter().all(|event| event["client_id"] == "c"), "{events:?}");
    assert_eq!(events.len(), 16);
}

#[test]
fn topics_are_traced_in_and_out_with_their_aliases() {
    let tracer = Tracer::start("");
    let path = tracer.begin("kind=topic&name=t/%2B");
    let mut of = tracer.connect(Version::V5);
    of.join("c", None, &[Property::TopicAliasMaximum(5)]).unwrap();
    assert_eq!(of.connack(), Some(ReasonCode::Success));
    of.subscribe("#", QoS::AtMostOnce);
    let mut properties = PropertiesBuf::new();
    properties.push(Property::TopicAlias(2));
    for topic in ["t/long", "", "other"] {
        let properties =
            if topic == "other" { Properties::EMPTY } else { properties.as_properties() };
        let (qos, packet_id, dup, retain) = (QoS::AtMostOnce, None, false, false);
        let payload = b"x";
        of.send(&Packet::Publish(Publish {
            dup,
            qos,
            retain,
            topic,
            packet_id,
            properties,
            payload,
        }))
        .unwrap();
        of.next().unwrap();
    }
    of.send(&publish("t/2", &[b'y'; 10_000], QoS::AtMostOnce)).unwrap();
    of.next().unwrap();
    let events = tracer.events(&path, 6);
    let expected = ["in PUBLISH", "out PUBLISH"];
    assert_eq!(kinds(&events), [expected; 3].concat());
    let topics: Vec<_> = events.iter().map(|event| event["topic"].as_str().unwrap()).collect();
    assert_eq!(topics, ["t/long", "t/long", "t/long", "t/long", "t/2", "t/2"]);
    for long in &events[4..] {
        assert_eq!(
            (&long["payload_bytes"], long["payload"].as_str().unwrap().len()),
            (&json!(10_000), 256)
        );
    }
    assert!(events.iter().all(|event| event["client_id"] == "c"));
}

#[test]
fn users_and_addresses_are_traced() {
    let tracer = Tracer::start("");
    let user = tracer.begin("kind=user&name=ann");
    let address = tracer.begin("kind=address&name=127.0.0.0/8");
    let elsewhere = tracer.begin("kind=address&name=192.0.2.1");
    connect(&mut tracer.connect(Version::V311), "a", Some(("ann", "x")));
    connect(&mut tracer.connect(Version::V311), "b", Some(("bob", "x")));
    assert_eq!(kinds(&tracer.events(&user, 2)), ["in CONNECT", "out CONNACK"]);
    assert_eq!(tracer.events(&address, 4).len(), 4);
    assert_eq!(tracer.json("GET", &elsewhere).1["events"], 0);
}

#[test]
fn a_trace_has_bounds_and_there_are_few() {
    let tracer = Tracer::start("");
    let small = tracer.begin("kind=client&name=c&bytes_max=600");
    let short = tracer.begin("kind=client&name=c&for_s=1");
    talk(&mut tracer.connect(Version::V5), "c");
    let (sized, timed) = (tracer.ended(&small), tracer.ended(&short));
    assert_eq!((&sized["ended"], &timed["ended"]), (&json!("size"), &json!("time")));
    assert!(sized["bytes"].as_u64().unwrap() <= 600, "{sized}");
    assert!((1..TALK.len() as u64).contains(&sized["events"].as_u64().unwrap()), "{sized}");
    assert_eq!(tracer.events(&short, TALK.len()).len(), TALK.len());
    // Two have ended, and give their places.
    let all: Vec<_> = (0..4).map(|_| tracer.begin("kind=client&name=c")).collect();
    assert_eq!(tracer.json("POST", "/api/v1/traces?kind=client&name=c").0, 409);
    assert_eq!(tracer.json("GET", &small).0, 404);
    all.iter().for_each(|path| assert_eq!(tracer.json("DELETE", path).0, 204));
    for query in [
        "kind=client&name=",
        "kind=topic&name=a/%23/b",
        "kind=address&name=x",
        "kind=x&name=y",
        "kind=client&name=c&for_s=0",
        "kind=client&name=c&bytes_max=99999999",
    ] {
        let (status, why) = tracer.json("POST", &format!("/api/v1/traces?{query}"));
        assert_eq!(status, 400, "{query}: {why}");
    }
}

#[test]
fn only_an_admin_traces_and_sees_traces() {
    let tracer = Tracer::start("");
    let path = tracer.begin("kind=client&name=c");
    let served = &tracer.0;
    for (method, path) in [
        ("POST", "/api/v1/traces?kind=client&name=c"),
        ("GET", "/api/v1/traces"),
        ("GET", &path),
        ("GET", &format!("{path}/events")),
        ("DELETE", &path),
    ] {
        assert_eq!(served.ask(method, path, Some(&served.viewer)).0, 403, "{method} {path}");
        assert_eq!(served.ask(method, path, None).0, 401, "{method} {path}");
    }
}

#[test]
fn ctl_prints_lines_as_they_come_and_deletes_the_trace() {
    let asked = Asked::start(|_| String::new());
    let mut ctl = Command::new(env!("CARGO_BIN_EXE_weir"));
    ctl.args(["ctl", "--socket"]).arg(&asked.socket);
    ctl.args(["trace", "--client", "c", "--for", "2s"]).stdout(Stdio::piped());
    let child = ctl.stderr(Stdio::piped()).spawn().unwrap();
    // Until it has begun, there may be any number of connections.
    let output = std::thread::scope(|scope| {
        let output = scope.spawn(move || child.wait_with_output().unwrap());
        while !output.is_finished() {
            let mut client = asked.join("c", true);
            client.send(&Packet::PingReq);
            client.packet().unwrap();
        }
        output.join().unwrap()
    });
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds = kinds(&events);
    let talk = ["in CONNECT", "out CONNACK", "in PINGREQ", "out PINGRESP"];
    assert!(kinds.windows(4).any(|four| four == talk), "{kinds:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with(&format!("{} packets in ", events.len())), "{said}");
}
