//! What runs beside the threads that serve, changed while the broker runs: bridges, tokens, the
//! service, and what the broker says of itself.

use crate::access;
use crate::fake_service::{Fake, json as says};
use crate::support::Broker;
use crate::support::asked::said;
use crate::support::live::{LISTEN, Live, free, is_served, left};
use crate::support::mqtt::Peer;
use crate::support::tokens::{SECRET, now_s, token};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use weir_wire::{QoS, ReasonCode, Version};

fn bridge(name: &str, address: &str, topic: &str) -> String {
    format!(
        "[[bridge]]\nname = \"{name}\"\naddresses = [\"mqtt://{address}\"]\nretry_ms_min = 50\n\
         retry_ms_max = 200\ntopics = [{{ pattern = \"{topic}/#\", qos = 1 }}]\n"
    )
}

fn subscriber(address: &str) -> Peer {
    let mut peer = Peer::client(address, "subscriber");
    peer.subscribe("#", QoS::AtLeastOnce);
    peer
}

/// Publishes with QoS 1, and waits until that is acknowledged.
fn publish(of: &mut Peer, topic: &str) {
    of.publish(topic, "x", Some(7), false);
    assert_eq!(of.acknowledged(), 7);
}

/// The topic of the next message, which is acknowledged.
fn next(of: &mut Peer) -> String {
    let message = of.message();
    if message.packet_id > 0 {
        of.acknowledge(message.packet_id);
    }
    message.topic
}

/// How often a bridge has connected; nothing if it is not there.
fn connects(live: &Live, name: &str) -> Option<u64> {
    let lines = said(&live.ctl(&["bridges", "--json"]));
    let all = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut of_name = all.filter(|bridge| bridge["name"] == name);
    of_name.next().and_then(|bridge| bridge["counters"]["connects"].as_u64())
}

#[test]
fn bridges_come_change_and_go_one_by_one() {
    let (first, second, nowhere) = (Broker::start(), Broker::start(), free());
    let mut live = Live::start(LISTEN);
    let mut publisher = Peer::client(&live.broker.address, "publisher");
    let up = |address: &str, topic: &str| bridge("up", address, topic);
    live.change(&format!("{LISTEN}{}", up(&first.address, "a")));
    live.broker.says("bridge connected");
    let (mut at_first, mut at_second) = (subscriber(&first.address), subscriber(&second.address));
    publish(&mut publisher, "a/1");
    assert_eq!(next(&mut at_first), "a/1");
    // Another one leaves it alone, and so does a file that is wrong.
    let other = bridge("other", &second.address, "o");
    live.change(&format!("{LISTEN}{other}{}", up(&first.address, "a")));
    live.broker.says("bridge connected");
    let password = "user_name = \"u\"\npassword_file = \"/none\"\ntopics";
    let wrong = up(&second.address, "a").replace("topics", password);
    let (refused, code) = live.reload(&format!("{LISTEN}{other}{wrong}"));
    assert!(code == Some(2) && refused.contains("bridge.password_file"), "{refused}");
    assert_eq!((connects(&live, "up"), connects(&live, "other")), (Some(1), Some(1)));
    publish(&mut publisher, "o/1");
    assert_eq!(next(&mut at_second), "o/1");
    // What waits goes where the bridge leads now.
    live.change(&format!("{LISTEN}{other}{}", up(&format!("127.0.0.1:{nowhere}"), "a")));
    publish(&mut publisher, "a/2");
    live.change(&format!("{LISTEN}{other}{}", up(&second.address, "a")));
    assert_eq!(next(&mut at_second), "a/2");
    assert_eq!(connects(&live, "other"), Some(1), "it was left alone");
    // Other topics: no more of what was there.
    live.change(&format!("{LISTEN}{}", up(&second.address, "b")));
    live.broker.says("a bridge is gone, and its empty queue");
    assert_eq!(connects(&live, "other"), None);
    publish(&mut publisher, "a/3");
    publish(&mut publisher, "b/1");
    assert_eq!(next(&mut at_second), "b/1");
    // One that is gone keeps what waits for it, gets no more, and has it when it is back.
    live.change(&format!("{LISTEN}{}", up(&format!("127.0.0.1:{nowhere}"), "b")));
    publish(&mut publisher, "b/2");
    live.change(LISTEN);
    let line = live.broker.says("messages wait in its queue");
    assert!(line.contains("messages=1"), "{line}");
    publish(&mut publisher, "b/3");
    live.change(&format!("{LISTEN}{}", up(&second.address, "b")));
    publish(&mut publisher, "b/4");
    assert_eq!([next(&mut at_second), next(&mut at_second)], ["b/2", "b/4"]);
}

/// What a client with this token is told.
fn shows(live: &Live, token: &str) -> ReasonCode {
    let address = &live.broker.address;
    access::offer(address, (None, Some(token)), "t", Version::V5, None).connack().unwrap()
}

#[test]
fn tokens_come_change_and_go_with_the_clients_that_they_let_in() {
    let mut live = Live::start(LISTEN);
    std::fs::write(live.path("secret"), format!("{SECRET}\n")).unwrap();
    std::fs::write(live.path("short"), "short\n").unwrap();
    let mut nobody = live.join("nobody");
    let jwt = |file: &str, more: &str| {
        format!(
            "{LISTEN}[auth]\nallow_anonymous = true\n[auth.jwt]\nalgorithms = [\"HS256\"]\n\
             secret_file = \"{{}}/{file}\"\n{more}"
        )
    };
    let right = token(SECRET, &json!({"sub": "ann", "exp": now_s() + 600, "iss": "us"}));
    let enter = |live: &Live| {
        let address = &live.broker.address;
        access::offer(address, (None, Some(&right)), "ann", Version::V5, None)
    };
    live.change(&jwt("secret", ""));
    let mut ann = enter(&live);
    assert_eq!(ann.connack(), Some(ReasonCode::Success));
    // What cannot be had changes nothing, and what decides nothing ends nobody.
    let (refused, code) = live.reload(&jwt("short", ""));
    assert!(code == Some(2) && refused.contains("32 bytes"), "{refused}");
    live.change(&jwt("secret", "refresh_s = 100\n"));
    assert!(is_served(&mut ann));
    live.change(&jwt("secret", "issuer = \"them\"\n"));
    assert_eq!(left(&mut ann), Some(ReasonCode::NotAuthorized));
    assert_eq!(shows(&live, &right), ReasonCode::BadUserNameOrPassword);
    live.change(&jwt("secret", "issuer = \"us\"\n"));
    let mut ann = enter(&live);
    assert_eq!(ann.connack(), Some(ReasonCode::Success));
    live.change(LISTEN);
    assert_eq!(left(&mut ann), Some(ReasonCode::NotAuthorized));
    assert!(is_served(&mut nobody), "nobody has vouched for it");
}

/// It waits for the old service while the new one is there already.
#[test]
fn another_service_is_asked_from_now_on_and_the_old_one_answers_who_asked_it() {
    let ((asked, is_asked), (go, gate)) = (channel(), channel::<()>());
    let (asked, gate) = (Mutex::new(asked), Mutex::new(gate));
    let old = Fake::start(move |_| {
        asked.lock().unwrap().send(()).unwrap();
        // The test is over if nobody says it.
        let _ = gate.lock().unwrap().recv();
        says(r#"{"result": "allow"}"#)
    });
    let new = Fake::start(|_| says(r#"{"result": "deny"}"#));
    let mut live = Live::start(LISTEN);
    let of = |fake: &Fake, more: &str| {
        format!(
            "{LISTEN}[auth]\nallow_anonymous = true\n[auth.http]\nurl = \"{}\"\ncache_s = 0\n\
             timeout_ms = 30000\n{more}",
            fake.url("/")
        )
    };
    live.change(&of(&old, ""));
    let offer = |live: &Live, id: &str| {
        let names = (Some("ann"), Some("pencil"));
        access::offer(&live.broker.address, names, id, Version::V5, None)
    };
    let mut waiting = offer(&live, "waiting");
    is_asked.recv().unwrap();
    live.change(&of(&new, ""));
    assert_eq!(offer(&live, "late").connack(), Some(ReasonCode::BadUserNameOrPassword));
    go.send(()).unwrap();
    assert_eq!(waiting.connack(), Some(ReasonCode::Success));
    // Where only the way of asking changes, nobody goes.
    live.change(&of(&new, "pool = 2\nqueue = 3\n"));
    assert!(is_served(&mut waiting));
    live.change(LISTEN);
    assert_eq!(left(&mut waiting), Some(ReasonCode::NotAuthorized));
}

#[test]
fn what_the_broker_says_of_itself_begins_changes_and_ends() {
    let file = "listen = [\"127.0.0.1:0\"]\nshards = 2\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weir.toml");
    std::fs::write(&path, file).unwrap();
    // Without [control] there is no thread for it at first.
    let mut broker =
        Broker::by(Command::new(env!("CARGO_BIN_EXE_weir")).arg("broker").arg(&path)).unwrap();
    let change = |broker: &mut Broker, sys: &str| {
        std::fs::write(&path, format!("{file}{sys}")).unwrap();
        broker.signal(Signal::HUP);
        broker.says("were read again");
    };
    let mut watcher = Peer::client(&broker.address, "watcher");
    watcher.subscribe("$SYS/#", QoS::AtMostOnce);
    let mut until = |what: &dyn Fn(&str, &str) -> bool| {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let message = watcher.message();
            if what(&message.topic, &message.payload) {
                return;
            }
            assert!(Instant::now() < deadline, "{message:?}");
        }
    };
    change(&mut broker, "[sys]\ninterval_s = 1\n");
    until(&|topic, payload| topic == "$SYS/broker/version" && payload.starts_with("weir"));
    change(&mut broker, "[sys]\ninterval_s = 1\nclient_events_per_s_max = 9\n");
    drop(Peer::client(&broker.address, "visitor"));
    until(&|topic, _| topic.ends_with("/clients/visitor/connected"));
    change(&mut broker, "");
    until(&|topic, payload| topic == "$SYS/broker/version" && payload.is_empty());
    change(&mut broker, "[sys]\ninterval_s = 1\n");
    until(&|topic, payload| topic == "$SYS/broker/version" && payload.starts_with("weir"));
    // Who has said no name reads no more of it.
    change(&mut broker, "[sys]\ninterval_s = 1\nreaders = [\"*\"]\n");
    let mut reader =
        access::offer(&broker.address, (Some("ann"), None), "reader", Version::V5, None);
    assert_eq!(reader.connack(), Some(ReasonCode::Success));
    assert_eq!(reader.subscribe("$SYS/broker/version", QoS::AtMostOnce), Some(0));
    assert!(reader.next().is_some(), "the retained version");
    let mut nobody = Peer::client(&broker.address, "nobody");
    nobody.subscribe("$SYS/#", QoS::AtMostOnce);
    nobody.subscribe("a", QoS::AtMostOnce);
    nobody.publish("a", "x", None, false);
    assert_eq!(nobody.message().topic, "a", "nothing else came before");
}
