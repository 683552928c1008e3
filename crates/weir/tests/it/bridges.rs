//! `[[bridge]]`: a broker that relays to another, Weir and Mosquitto, while either is there, is
//! killed, and is back.

use crate::support::asked::{Asked, said as told};
use crate::support::blocking::Blocking;
use crate::support::certificates::Authority;
use crate::support::live::free;
use crate::support::mqtt::Peer;
use crate::support::served::serve;
use crate::support::{Broker, tool};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use weir_wire::{QoS, ReasonCode, Version};

/// All that a bridge of these tests relays.
const TOPICS: &str = r#"
topics = [
  { pattern = "out/#", qos = 1, remote_prefix = "site/" },
  { pattern = "in/#", direction = "in", qos = 2, local_prefix = "hub/" },
  { pattern = "both/#", direction = "both", qos = 1 },
]
retry_ms_min = 50
retry_ms_max = 200
"#;

/// A broker with a bridge to `remote`, and more lines of both.
fn bridged(folder: &Path, remote: &str, broker: &str, bridge: &str) -> Broker {
    let file = folder.join("weir.toml");
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nshards = 2\n{broker}\n\
         [[bridge]]\nname = \"up\"\naddresses = [\"mqtt://{remote}\"]\n{TOPICS}{bridge}\n"
    );
    std::fs::write(&file, text).unwrap();
    Broker::try_start(&["--config", file.to_str().unwrap()]).expect("it starts")
}

fn subscriber(address: &str, filter: &str) -> Peer {
    let mut peer = Peer::client(address, "subscriber");
    peer.subscribe(filter, QoS::AtLeastOnce);
    peer
}

/// Publishes with QoS 1, and waits until that is acknowledged.
fn publish(of: &mut Peer, topic: &str, payload: &str) {
    of.publish(topic, payload, Some(7), false);
    assert_eq!(of.acknowledged(), 7);
}

/// The next message, which is acknowledged.
fn next(of: &mut Peer) -> (String, String) {
    let message = of.message();
    if message.packet_id > 0 {
        of.acknowledge(message.packet_id);
    }
    (message.topic, message.payload)
}

fn said(topic: &str, payload: &str) -> (String, String) {
    (topic.to_owned(), payload.to_owned())
}

/// Each direction between two brokers, and that nothing comes twice.
fn relays(local: &str, remote: &str) {
    let (mut here, mut there) = (subscriber(local, "#"), subscriber(remote, "#"));
    let mut at = [Peer::client(local, "publisher"), Peer::client(remote, "publisher")];
    publish(&mut at[0], "out/a", "1");
    assert_eq!(next(&mut here), said("out/a", "1"));
    assert_eq!(next(&mut there), said("site/out/a", "1"));
    publish(&mut at[1], "in/a", "2");
    assert_eq!(next(&mut there), said("in/a", "2"));
    assert_eq!(next(&mut here), said("hub/in/a", "2"));
    // What would come back would come before the next.
    for (from, payload) in [(0, "3"), (1, "4"), (0, "5"), (1, "6")] {
        publish(&mut at[from], "both/a", payload);
        assert_eq!(next(&mut here), said("both/a", payload));
        assert_eq!(next(&mut there), said("both/a", payload));
    }
    publish(&mut at[0], "elsewhere", "7");
    publish(&mut at[0], "out/b", "8");
    assert_eq!(next(&mut there), said("site/out/b", "8"));
}

#[test]
fn two_brokers_relay_in_each_direction_and_nothing_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let remote = Broker::start();
    let mut local = bridged(folder.path(), &remote.address, "", "");
    local.says("bridge connected");
    relays(&local.address, &remote.address);
    let mut here = subscriber(&local.address, "$SYS/broker/connection/+/state");
    assert_eq!(here.message().payload, "1");
}

/// Messages come by each transport, and not from whoever is not trusted.
#[test]
fn a_bridge_speaks_tls_and_websocket() {
    for scheme in ["mqtts", "ws", "wss"] {
        let (there, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (remote, url, authority) = serve(scheme, there.path());
        let file = folder.path().join("weir.toml");
        let start = |tls: String| {
            let text = format!(
                "listen = [\"127.0.0.1:0\"]\n[[bridge]]\nname = \"up\"\n\
                 addresses = [{url:?}]\n{TOPICS}{tls}"
            );
            std::fs::write(&file, text).unwrap();
            Broker::try_start(&["--config", file.to_str().unwrap()]).unwrap()
        };
        let mut local = start(format!("[bridge.tls]\nca = {:?}\n", authority.file()));
        local.says("bridge connected");
        drop(local);
        if scheme != "ws" {
            let other = Authority::new("others", there.path());
            let mut local = start(format!("[bridge.tls]\nca = {:?}\n", other.file()));
            let line = local.says("trying again");
            assert!(line.contains("(see ca in [bridge.tls])"), "{line}");
        }
        drop(remote);
    }
}

/// What is for clients that come by a listener is not for bridges.
#[test]
fn a_bridge_needs_no_rights_and_nobody_else_can_be_it() {
    let folder = tempfile::tempdir().unwrap();
    let rights = folder.path().join("rights");
    std::fs::write(&rights, "topic write out/#\n").unwrap();
    let remote = Broker::start();
    let more = format!(
        "auth.allow_anonymous = true\nauth.acl_file = {rights:?}\n\
         limits.messages_per_second_max = 1\n"
    );
    let mut local = bridged(folder.path(), &remote.address, &more, "");
    local.says("bridge connected");
    let mut there = subscriber(&remote.address, "#");
    let mut publisher = Peer::client(&local.address, "publisher");
    publish(&mut publisher, "out/a", "1");
    assert_eq!(next(&mut there), said("site/out/a", "1"));
    let mut thief = Blocking::connect(&*local.address, Version::V5).unwrap();
    thief.join("$weir/bridge/up", None, &[]).unwrap();
    assert_eq!(thief.connack(), Some(ReasonCode::ClientIdentifierNotValid));
}

/// A process that ends with the value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Mosquitto on this port; nothing if it is not installed.
fn mosquitto(folder: &Path, port: u16) -> Option<Process> {
    let file = folder.join("m.conf");
    let text = format!("listener {port} 127.0.0.1\nallow_anonymous true\nuser root\n");
    std::fs::write(&file, text).unwrap();
    let program = tool(&["mosquitto"])?;
    let mut command = Command::new(program);
    let child = command.arg("-c").arg(&file).stderr(Stdio::null()).spawn().unwrap();
    let (process, deadline) = (Process(child), Instant::now() + Duration::from_secs(60));
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < deadline, "mosquitto does not listen");
        std::thread::yield_now();
    }
    Some(process)
}

#[test]
fn mosquitto_is_bridged_to_in_each_version() {
    for (version, dialect) in [("auto", "MQTT 5.0"), ("3.1.1", "MQTT 3.1.1 for bridges")] {
        let (folder, port) = (tempfile::tempdir().unwrap(), free());
        let remote = format!("127.0.0.1:{port}");
        let more = format!("version = {version:?}\nnotifications = \"both\"\nclient_id = \"me\"\n");
        let mut local = bridged(folder.path(), &remote, "", &more);
        // Who is not there has not refused a version.
        local.says("trying again");
        let Some(_mosquitto) = mosquitto(folder.path(), port) else { return };
        assert!(local.says("bridge connected").contains(dialect));
        for address in [&local.address, &remote] {
            let mut watcher = subscriber(address, "$SYS/broker/connection/me/state");
            assert_eq!(watcher.message().payload, "1");
        }
        relays(&local.address, &remote);
    }
}

/// Gets all of these payloads, in any order, more than once if need be.
fn gets_all(of: &mut Peer, count: u32) {
    let mut missing: BTreeSet<String> = (0..count).map(|number| number.to_string()).collect();
    while !missing.is_empty() {
        missing.remove(&next(of).1);
    }
}

/// The remote broker forgets all that is not retained.
#[test]
fn what_is_published_while_the_line_is_down_arrives_when_it_is_back() {
    const COUNT: u32 = 500;
    let (folder, port) = (tempfile::tempdir().unwrap(), free());
    let Some(remote) = mosquitto(folder.path(), port) else { return };
    let address = format!("127.0.0.1:{port}");
    let mut local = bridged(folder.path(), &address, "", "");
    local.says("bridge connected");
    let mut publisher = Peer::client(&local.address, "publisher");
    let publish_some = |publisher: &mut Peer, numbers: std::ops::Range<u32>| {
        for number in numbers {
            let text = number.to_string();
            publisher.publish_retained(&format!("out/{number}"), &text, 7);
            assert_eq!(publisher.acknowledged(), 7);
        }
    };
    publish_some(&mut publisher, 0..COUNT / 2);
    drop(remote);
    local.says("trying again");
    publish_some(&mut publisher, COUNT / 2..COUNT);
    // What the first had is gone with it.
    let _remote = mosquitto(folder.path(), port).unwrap();
    local.says("bridge connected");
    let mut there = subscriber(&address, "site/out/#");
    let mut missing: BTreeSet<u32> = (COUNT / 2..COUNT).collect();
    while !missing.is_empty() {
        missing.remove(&next(&mut there).1.parse().unwrap());
    }
}

#[test]
fn what_was_acknowledged_is_relayed_after_a_kill_of_the_own_broker() {
    const COUNT: u32 = 300;
    let (folder, port) = (tempfile::tempdir().unwrap(), free());
    let address = format!("127.0.0.1:{port}");
    let store = format!("store.path = {:?}\n", folder.path().join("store"));
    let mut local = bridged(folder.path(), &address, &store, "");
    local.says("trying again");
    let mut publisher = Peer::client(&local.address, "publisher");
    for number in 0..COUNT {
        publish(&mut publisher, "out/n", &number.to_string());
    }
    // SIGKILL.
    local.child.kill().unwrap();
    local.child.wait().unwrap();
    let remote = Broker::try_start(&["--listen", &address]).unwrap();
    let mut there = subscriber(&remote.address, "site/out/#");
    let mut local = bridged(folder.path(), &address, &store, "");
    local.says("bridge connected");
    gets_all(&mut there, COUNT);
}

/// A connection of the bridge's, and the number of the protocol in its CONNECT.
fn accepted(listener: &TcpListener) -> (TcpStream, u8) {
    let mut stream = listener.accept().unwrap().0;
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[4..8], *b"MQTT");
    (stream, head[8])
}

#[test]
fn a_broker_that_refuses_a_version_is_asked_in_another() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let _local = bridged(folder.path(), &address, "", "");
    // Unacceptable protocol version; the second time without a word.
    let (mut stream, level) = accepted(&listener);
    assert_eq!(level, 5);
    stream.write_all(&[0x20, 2, 0, 1]).unwrap();
    let (stream, level) = accepted(&listener);
    assert_eq!(level, 0x84);
    drop(stream);
    assert_eq!(accepted(&listener).1, 4);
}

#[test]
fn a_lazy_bridge_connects_for_messages_and_leaves() {
    let folder = tempfile::tempdir().unwrap();
    let remote = Broker::start();
    let lazy = "start = \"lazy\"\nthreshold = 2\nidle_s = 1\n";
    let mut local = bridged(folder.path(), &remote.address, "", lazy);
    let mut there = subscriber(&remote.address, "site/out/#");
    let mut publisher = Peer::client(&local.address, "publisher");
    for round in 0..2 {
        for number in 0..2 {
            publish(&mut publisher, "out/n", &format!("{round} {number}"));
        }
        for number in 0..2 {
            assert_eq!(next(&mut there).1, format!("{round} {number}"));
        }
        local.says("bridge connected");
        local.says("bridge idle");
    }
}

/// The second address is used while nobody is at the first, and is left for it.
#[test]
fn the_next_address_is_tried_and_a_circle_of_bridges_ends() {
    let folder = tempfile::tempdir().unwrap();
    let remote = Broker::start();
    let second = format!("addresses = [\"mqtt://127.0.0.1:{}\", ", free());
    let file = folder.path().join("weir.toml");
    // A circle by itself: what goes out by one topic comes in by the other.
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n\
         [[bridge]]\nname = \"there\"\n{second}\"mqtt://{0}\"]\n\
         topics = [{{ pattern = \"a/#\", qos = 1 }}]\n\
         [[bridge]]\nname = \"back\"\naddresses = [\"mqtt://{0}\"]\n\
         topics = [{{ pattern = \"a/#\", direction = \"in\", qos = 1 }}]\n",
        remote.address
    );
    std::fs::write(&file, text).unwrap();
    let mut local = Broker::try_start(&["--config", file.to_str().unwrap()]).unwrap();
    local.says("bridge connected");
    local.says("bridge connected");
    let mut here = subscriber(&local.address, "#");
    let mut publisher = Peer::client(&local.address, "publisher");
    publish(&mut publisher, "a/b", "1");
    // Its own, and one of each time that it has come around: it passes two bridges each time.
    for _ in 0..=4 {
        assert_eq!(next(&mut here), said("a/b", "1"));
    }
    publish(&mut publisher, "end", "2");
    assert_eq!(next(&mut here), said("end", "2"));
}

#[test]
fn a_bridge_is_shown_with_what_waits_for_it_and_why() {
    let address = format!("127.0.0.1:{}", free());
    let asked = Asked::start(|_| {
        format!("[[bridge]]\nname = \"up\"\naddresses = [\"mqtt://{address}\"]\n{TOPICS}\n")
    });
    let mut publisher = Peer::client(&asked.broker.address, "publisher");
    publish(&mut publisher, "out/a", "1");
    publish(&mut publisher, "out/a", "2");
    let shown = told(&asked.ctl(&["bridges"]));
    let lines: Vec<_> = shown.lines().collect();
    let down = format!("up                down        0        0        2        0  {address}");
    assert_eq!(lines[1], down);
    assert!(lines[2].contains("cannot connect to ") && lines[2].contains(&address), "{shown}");

    let _remote = Broker::try_start(&["--listen", &address]).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let up = format!("up                up          2        0        0        0  {address}");
    loop {
        let shown = told(&asked.ctl(&["bridges"]));
        if shown.lines().nth(1) == Some(&up) && shown.lines().count() == 2 {
            break;
        }
        assert!(Instant::now() < deadline, "{shown}");
    }
    let json: Value = serde_json::from_str(&told(&asked.ctl(&["bridges", "--json"]))).unwrap();
    assert_eq!(json["client_id"], "$weir/bridge/up");
    assert_eq!(json["counters"]["messages_out"], 2);
}
