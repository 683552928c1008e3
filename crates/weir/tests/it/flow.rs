//! `weir flow` as a process: against `weir broker`, and against an end of the connection that
//! the test holds, where the order of packets is what matters.

use crate::support::Broker;
use crate::support::blocking::decode;
use crate::support::mqtt::Peer;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Command, Stdio};
use tempfile::NamedTempFile;
use weir_wire::packet::{Ack, Publish};
use weir_wire::{Packet, PacketId, Properties, Property, QoS, Version};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Messages with `p.mcc` come back on a topic of it.
const CELLS: &str = r#"
[[flow]]
name = "cells"
from = "ud/#"
qos = 1
when = 'has(payload.p.mcc) && payload.p.mcc > 200'
to = "cells/{payload.p.mcc}/{topic[1]}"
payload = 'payload.p'
"#;

fn file(rules: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rules).unwrap();
    file
}

/// Where a broker that a test plays is reached.
fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// `weir flow run` that is subscribed.
struct Run {
    child: Child,
    log: BufReader<ChildStderr>,
    _file: NamedTempFile,
}

impl Drop for Run {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Run {
    fn spawn(rules: &str, address: &str, options: &str) -> Self {
        let file = file(rules);
        let mut child = Command::new(WEIR)
            .args(["flow", "run", file.path().to_str().unwrap(), "--broker", address])
            .args(options.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log, _file: file }
    }

    fn start(rules: &str, address: &str, options: &str) -> Self {
        let mut run = Self::spawn(rules, address, options);
        run.wait_for("run on");
        run
    }

    fn wait_for(&mut self, part: &str) {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(self.log.read_line(&mut line).unwrap() > 0, "it ended before {part:?}");
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Exit code, standard output, the rest of standard error.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut log) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.log.read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), out, log)
    }

    fn stop(self) -> (Option<i32>, String, String) {
        self.signal(Signal::TERM);
        self.end()
    }
}

fn with_mcc(mcc: u32, number: u32) -> String {
    format!(r#"{{"tp":"ud","p":{{"mcc":{mcc},"n":{number}}}}}"#)
}

#[test]
fn matches_are_republished_in_every_version_and_qos() {
    for version in ["5", "311"] {
        for qos in [0, 1] {
            let broker = Broker::start();
            let rules = CELLS.replace("qos = 1", &format!("qos = {qos}\npublish_qos = {qos}"));
            let mut sub = Peer::client(&broker.address, "sub");
            sub.subscribe("cells/#", QoS::AtLeastOnce);
            let run = Run::start(&rules, &broker.address, &format!("-V {version}"));
            let mut source = Peer::client(&broker.address, "pub");
            source.publish("ud/a", &with_mcc(257, 1), Some(1), false);
            source.publish("ud/a", &with_mcc(100, 2), Some(2), false);
            source.publish("ud/a", "no JSON", Some(3), false);
            source.publish("ud/a", r#"{"p":{}}"#, Some(4), false);
            source.publish("other/a", &with_mcc(257, 5), Some(5), false);
            source.publish("ud/b", &with_mcc(310, 6), Some(6), false);
            let came = [sub.message(), sub.message()].map(|one| (one.topic, one.payload, one.qos));
            let expected = [
                ("cells/257/a".into(), r#"{"mcc":257,"n":1}"#.into(), QoS::from_u8(qos).unwrap()),
                ("cells/310/b".into(), r#"{"mcc":310,"n":6}"#.into(), QoS::from_u8(qos).unwrap()),
            ];
            assert_eq!(came, expected);
            let (code, out, log) = run.stop();
            assert_eq!(code, Some(0), "{log}");
            assert!(out.starts_with("received 5, matched 2, published 2"), "{out}");
            assert!(out.contains("cells: seen 5, matched 2, published 2, not_json 1"), "{out}");
        }
    }
}

#[test]
fn a_message_is_acknowledged_after_its_result_and_in_its_turn() {
    let (listener, address) = listen();
    let mut run = Run::spawn(CELLS, &address, "");
    let mut broker = Peer::serve(&listener, false, &[]);
    run.wait_for("run on");
    broker.publish("ud/a", &with_mcc(257, 1), Some(11), false);
    let first = broker.message();
    assert_eq!((first.topic.as_str(), first.qos), ("cells/257/a", QoS::AtLeastOnce));
    broker.publish("ud/a", "{}", Some(5), false);
    // Its result shows that all before it was handled: no PUBACK stands before it.
    broker.publish("ud/a", &with_mcc(257, 2), None, false);
    let second = broker.message();
    assert_eq!((second.payload.as_str(), second.qos), (r#"{"mcc":257,"n":2}"#, QoS::AtMostOnce));
    broker.acknowledge(first.packet_id);
    assert_eq!([broker.acknowledged(), broker.acknowledged()], [11, 5]);
    assert_eq!(run.stop().0, Some(0));
}

#[test]
fn a_refused_result_does_not_hold_its_message_for_ever() {
    let (listener, address) = listen();
    let run = Run::spawn(CELLS, &address, "");
    let mut broker = Peer::serve(&listener, false, &[]);
    broker.publish("ud/a", &with_mcc(257, 1), Some(1), false);
    let result = broker.message();
    let packet_id = PacketId::new(result.packet_id).unwrap();
    broker.send(&Packet::PubAck(Ack {
        packet_id,
        reason: weir_wire::ReasonCode::NotAuthorized,
        properties: Properties::EMPTY,
    }));
    assert_eq!(broker.acknowledged(), 1);
    let (_, out, _) = run.stop();
    assert!(out.contains("refused 1"), "{out}");
}

#[test]
fn what_a_lost_connection_left_open_is_acknowledged_only_once_it_came_again() {
    let (listener, address) = listen();
    let run = Run::spawn(CELLS, &address, "-i keeps");
    let mut old = Peer::serve(&listener, false, &[]);
    old.publish("ud/a", &with_mcc(257, 1), Some(1), false);
    old.publish("ud/a", &with_mcc(257, 2), Some(2), false);
    let results = [old.message(), old.message()];
    old.acknowledge(results[1].packet_id);
    drop(old);
    // The session is there: nothing is subscribed to again, nothing acknowledged by itself.
    let mut new = Peer::serve(&listener, true, &[]);
    new.publish("ud/a", &with_mcc(257, 1), Some(1), true);
    let again = new.message();
    assert_eq!(again.payload, r#"{"mcc":257,"n":1}"#);
    // An answer to a result of the old connection says nothing of the new one.
    new.acknowledge(again.packet_id + 1);
    new.acknowledge(again.packet_id);
    assert_eq!(new.acknowledged(), 1);
    let (code, out, log) = run.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(out.contains("redelivered 1") && out.contains("unsettled 2"), "{out}");
    assert!(log.contains("connecting again"), "{log}");
}

#[test]
fn results_wait_while_the_window_of_the_broker_is_full() {
    let (listener, address) = listen();
    let run = Run::spawn(CELLS, &address, "");
    let mut broker = Peer::serve(&listener, false, &[Property::ReceiveMaximum(2)]);
    for number in 1..=5 {
        broker.publish("ud/a", &with_mcc(257, number), Some(number as u16), false);
    }
    let mut open = vec![broker.message().packet_id, broker.message().packet_id];
    // Of QoS 0, so it does not wait, and nothing of QoS 1 stands before it.
    broker.publish("ud/a", &with_mcc(257, 9), None, false);
    assert_eq!(broker.message().qos, QoS::AtMostOnce);
    for number in 3..=5 {
        broker.acknowledge(open.remove(0));
        assert_eq!(u32::from(broker.acknowledged()), number - 2);
        let result = broker.message();
        assert_eq!(result.payload, format!(r#"{{"mcc":257,"n":{number}}}"#));
        open.push(result.packet_id);
    }
    open.into_iter().for_each(|packet_id| broker.acknowledge(packet_id));
    assert_eq!([broker.acknowledged(), broker.acknowledged()], [4, 5]);
    assert_eq!(run.stop().0, Some(0));
}

/// Mosquitto 2.0 sends more than our Receive Maximum once messages have queued, and all of it again
/// in a resumed session. To leave it would be to leave it for ever.
#[test]
fn what_a_broker_sends_beyond_our_receive_maximum_is_taken() {
    for session_present in [false, true] {
        let (listener, address) = listen();
        let run = Run::spawn(CELLS, &address, "--receive-maximum 2 -i kept");
        let mut broker = Peer::serve(&listener, session_present, &[]);
        if session_present {
            broker.answer_subscribe(&[1]);
        }
        for number in 1..=4 {
            broker.publish("ud/a", &with_mcc(257, number), Some(number as u16), session_present);
        }
        let results: Vec<_> = (0..4).map(|_| broker.message().packet_id).collect();
        results.into_iter().for_each(|packet_id| broker.acknowledge(packet_id));
        assert_eq!([(); 4].map(|()| broker.acknowledged()), [1, 2, 3, 4]);
        let (code, out, log) = run.stop();
        assert_eq!(code, Some(0), "{log}");
        assert!(out.starts_with("received 4, ") && out.contains("beyond window 2"), "{out}");
    }
}

#[test]
fn a_hostile_broker_is_left_with_one_line() {
    for (answer, part) in [
        (&[0x90, 5, 0, 1, 0, 1, 1][..], "another number of codes"),
        (&[0x90, 4, 0, 2, 0, 1], "not asked for"),
        (&[0x90, 0xFF, 0xFF, 0xFF, 0x7F], "larger than the limit of 262144"),
        (b"\x90\x0c\x00\x01\x08\x1f\x00\x05\x1b[2J\n\x87", "0x87): \\u{1b}[2J\\n\n"),
    ] {
        let (listener, address) = listen();
        let run = Run::spawn(CELLS, &address, "-i kept");
        let mut broker = Peer::serve(&listener, true, &[]);
        broker.packet().expect("SUBSCRIBE");
        broker.send_bytes(answer);
        let (code, _, log) = run.end();
        assert_eq!((code, log.lines().count()), (Some(1), 1), "{log}");
        assert!(log.contains(part), "{log}");
    }
}

/// Any payload comes back as it is.
const ECHO: &str = "[[flow]]\nname = \"echo\"\nfrom = \"ud/#\"\nqos = 1\nto = \"out\"\n";

/// Takes all results that come while the window is of one, and says of how many messages each is
/// acknowledged, until the connection ends.
fn settle(broker: &mut Peer) -> Vec<u16> {
    let mut acknowledged = Vec::new();
    while let Some(bytes) = broker.packet() {
        match decode(Version::V5, &bytes) {
            Packet::Publish(publish) => broker.acknowledge(publish.packet_id.unwrap().value()),
            Packet::PubAck(ack) => acknowledged.push(ack.packet_id.value()),
            Packet::Disconnect(_) => break,
            packet => panic!("{packet:?}"),
        }
    }
    acknowledged
}

#[test]
fn messages_without_room_for_their_results_come_again_on_a_new_connection() {
    let (listener, address) = listen();
    let mut run = Run::spawn(ECHO, &address, "-i kept");
    let mut broker = Peer::serve(&listener, false, &[Property::ReceiveMaximum(1)]);
    run.wait_for("run on");
    let payload = "x".repeat(20_000_000);
    // The result of one is on its way, those of three wait, and for the others there is no room.
    broker.publish("ud/a", "x", Some(1), false);
    (2..=6).for_each(|number| broker.publish("ud/a", &payload, Some(number), false));
    assert_eq!(settle(&mut broker), [1, 2, 3, 4]);
    drop(broker);
    let mut broker = Peer::serve(&listener, true, &[Property::ReceiveMaximum(1)]);
    for number in [5, 6] {
        broker.publish("ud/a", &payload, Some(number), true);
        let result = broker.message().packet_id;
        broker.acknowledge(result);
        assert_eq!(broker.acknowledged(), number);
    }
    let (code, out, log) = run.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(out.starts_with("received 6, ") && out.contains("deferred 2"), "{out}");
    assert!(log.contains("more than there is room for"), "{log}");
}

#[test]
fn a_message_whose_results_alone_have_no_room_holds_nobody_up() {
    let (listener, address) = listen();
    let twice = format!("{ECHO}{}", ECHO.replace("echo", "again"));
    let run = Run::spawn(&twice, &address, "-i kept");
    let mut broker = Peer::serve(&listener, false, &[Property::ReceiveMaximum(1)]);
    broker.publish("ud/a", &"x".repeat(70_000_000), Some(1), false);
    broker.publish("ud/a", "y", Some(2), false);
    for acknowledged in [&[1][..], &[], &[2]] {
        let result = broker.message().packet_id;
        broker.acknowledge(result);
        acknowledged.iter().for_each(|&number| assert_eq!(broker.acknowledged(), number));
    }
    let (code, out, log) = run.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(out.contains("overflowed 1") && out.contains("published 3"), "{out}");
}

#[test]
fn more_messages_than_there_are_identifiers_come_again_on_a_new_connection() {
    let (listener, address) = listen();
    let mut run = Run::spawn(ECHO, &address, "-i kept");
    let mut broker = Peer::serve(&listener, false, &[Property::ReceiveMaximum(1)]);
    run.wait_for("run on");
    for number in 1..=u16::MAX {
        broker.publish("ud/a", "x", Some(number), false);
    }
    broker.publish("ud/a", "y", Some(1), false);
    assert_eq!(settle(&mut broker), (1..=u16::MAX).collect::<Vec<_>>());
    drop(broker);
    let mut broker = Peer::serve(&listener, true, &[]);
    broker.publish("ud/a", "y", Some(1), true);
    let result = broker.message();
    assert_eq!(result.payload, "y");
    broker.acknowledge(result.packet_id);
    assert_eq!(broker.acknowledged(), 1);
    let (code, out, log) = run.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(out.contains("deferred 1"), "{out}");
}

/// Another program subscribed at QoS 2 under the same client identifier.
#[test]
fn a_message_of_qos_2_that_a_session_holds_is_taken() {
    let (listener, address) = listen();
    let run = Run::spawn(CELLS, &address, "-i kept");
    let mut broker = Peer::serve(&listener, true, &[]);
    broker.answer_subscribe(&[1]);
    let released = PacketId::new(8).unwrap();
    broker.send(&Packet::PubRel(Ack::success(released)));
    let packet_id = PacketId::new(9);
    broker.send(&Packet::Publish(Publish {
        dup: true,
        qos: QoS::ExactlyOnce,
        retain: false,
        topic: "ud/a",
        packet_id,
        properties: Properties::EMPTY,
        payload: with_mcc(257, 1).as_bytes(),
    }));
    assert_eq!(broker.packet().unwrap(), [0x70, 2, 0, 8], "PUBCOMP");
    let result = broker.message();
    broker.acknowledge(result.packet_id);
    assert_eq!(broker.packet().unwrap(), [0x50, 2, 0, 9], "PUBREC");
    broker.send(&Packet::PubRel(Ack::success(packet_id.unwrap())));
    assert_eq!(broker.packet().unwrap(), [0x70, 2, 0, 9], "PUBCOMP");
    assert_eq!(run.stop().0, Some(0));
}

#[test]
fn at_the_end_messages_stay_with_the_broker_and_open_results_are_told() {
    let (listener, address) = listen();
    let mut run = Run::spawn(CELLS, &address, "");
    let mut broker = Peer::serve(&listener, false, &[]);
    run.wait_for("run on");
    broker.publish("ud/a", &with_mcc(257, 1), Some(1), false);
    let _result = broker.message();
    run.signal(Signal::INT);
    // DISCONNECT, or the end, comes without an acknowledgement.
    let last = broker.packet().expect("DISCONNECT");
    assert_eq!(last[0], 0xE0, "{last:?}");
    assert_eq!(broker.packet(), None);
    let (code, out, log) = run.end();
    assert_eq!(code, Some(1));
    assert!(log.contains("1 results"), "{log}");
    assert!(out.starts_with("received 1, matched 1"), "{out}");
}

#[test]
fn a_result_longer_than_the_broker_takes_is_not_sent() {
    let (listener, address) = listen();
    let run = Run::spawn(CELLS, &address, "");
    let mut broker = Peer::serve(&listener, false, &[Property::MaximumPacketSize(60)]);
    let long = format!(r#"{{"p":{{"mcc":257,"text":"{}"}}}}"#, "x".repeat(60));
    broker.publish("ud/a", &long, Some(1), false);
    assert_eq!(broker.acknowledged(), 1);
    broker.publish("ud/a", &with_mcc(257, 1), Some(2), false);
    assert_eq!(broker.message().payload, r#"{"mcc":257,"n":1}"#);
    drop(broker);
    let (_, out, _) = run.stop();
    assert!(out.contains("too large 1"), "{out}");
}

#[test]
fn threads_share_the_messages_and_each_comes_back_once() {
    let broker = Broker::start();
    let mut sub = Peer::client(&broker.address, "sub");
    sub.subscribe("cells/#", QoS::AtMostOnce);
    let run = Run::start(CELLS, &broker.address, "--threads 3 --client-id shared");
    let mut source = Peer::client(&broker.address, "pub");
    let mut came = BTreeMap::new();
    for number in 1..=300 {
        source.publish("ud/a", &with_mcc(257, number), Some(number as u16), false);
    }
    for _ in 0..300 {
        *came.entry(sub.message().payload).or_insert(0) += 1;
    }
    assert_eq!(came.len(), 300, "each once");
    let (code, out, log) = run.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(out.starts_with("received 300, matched 300, published 300"), "{out}");
}

/// A rate that lets one message through, and a rule that says when all have been seen.
const LIMITED: &str = r#"
[[flow]]
name = "limited"
from = "in/#"
qos = 1
to = "out/limited"
throttle_per_s = 0.001

[[flow]]
name = "all"
from = "in/#"
qos = 1
to = "out/all"
"#;

#[test]
fn a_rate_is_the_rules_with_any_number_of_threads_and_in_the_broker() {
    const MESSAGES: u16 = 60;
    let folder = tempfile::tempdir().unwrap();
    let config = |shards: u32| {
        let path = folder.path().join("weir.toml");
        std::fs::write(&path, format!("shards = {shards}\n{LIMITED}")).unwrap();
        path
    };
    for threads in [1, 2, 3] {
        for is_beside in [true, false] {
            let path = config(threads);
            let arguments = ["--config", path.to_str().unwrap()];
            let broker = Broker::start_with(if is_beside { &[] } else { &arguments });
            let mut sub = Peer::client(&broker.address, "sub");
            sub.subscribe("out/+", QoS::AtLeastOnce);
            let beside = || Run::start(LIMITED, &broker.address, &format!("--threads {threads}"));
            let _run = is_beside.then(beside);
            // Enough clients that each thread of the broker has some.
            for client in 0..6 {
                let mut source = Peer::client(&broker.address, &format!("source-{client}"));
                for number in 1..=MESSAGES / 6 {
                    source.publish("in/a", "", Some(number), false);
                    source.acknowledged();
                }
            }
            let (mut limited, mut all) = (0, 0);
            while all < MESSAGES {
                match &*sub.message().topic {
                    "out/all" => all += 1,
                    _ => limited += 1,
                }
            }
            assert_eq!(limited, 1, "beside it: {is_beside}, threads: {threads}");
        }
    }
}

#[test]
fn the_broker_warns_of_a_rule_that_no_message_can_match() {
    let rules = LIMITED.replacen("to =", "when = 'qos > 2'\nto =", 1);
    for (rules, warns) in [(LIMITED, false), (&rules, true)] {
        let file = file(rules);
        let output =
            Command::new(WEIR).args(["broker", "--check", "--config"]).arg(file.path()).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0));
        let log = String::from_utf8(output.stderr).unwrap();
        let warning = "limited: no message can match its `when`";
        assert_eq!(log.contains(warning), warns, "{log}");
    }
}

#[test]
fn what_cannot_be_run_ends_with_one_line_and_its_code() {
    let (listener, address) = listen();
    let run = Run::spawn(CELLS, &address, "");
    let mut broker = Peer::new(listener.accept().unwrap().0, Version::V5);
    broker.packet().unwrap();
    broker.send(&Packet::ConnAck(weir_wire::packet::ConnAck {
        session_present: false,
        reason: weir_wire::ReasonCode::Success,
        properties: Properties::EMPTY,
    }));
    broker.answer_subscribe(&[0x87]);
    let (code, _, log) = run.end();
    assert!(code == Some(1) && log.contains("Not authorized"), "{log}");

    drop(listener);
    let (code, _, log) = Run::spawn(CELLS, &address, "").end();
    assert!(code == Some(1) && log.contains("cannot connect"), "{log}");
    let (code, _, log) = Run::spawn("[[flow]]\nname = 1\n", &address, "").end();
    assert!(code == Some(2) && log.contains("line 2"), "{log}");
    let (code, _, log) = Run::spawn(CELLS, &address, "--group a/b").end();
    assert!(code == Some(2) && log.contains("--group"), "{log}");
}

fn check(rules: &str) -> (Option<i32>, String, String) {
    let file = file(rules);
    let output = Command::new(WEIR).args(["flow", "check"]).arg(file.path()).output().unwrap();
    let [out, log] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), out, log)
}

#[test]
fn check_prints_the_rules_or_says_what_is_wrong_where() {
    let (code, out, log) = check(CELLS);
    assert_eq!((code, log.as_str()), (Some(0), ""));
    assert!(out.contains("cells: ud/# (QoS 1), when has(payload.p.mcc)"), "{out}");
    assert!(out.contains("-> cells/{payload.p.mcc}/{topic[1]}"), "{out}");
    assert!(out.contains("subscribes to ud/#, QoS 1") && !out.contains("warning"), "{out}");
    let (code, out, _) = check(&CELLS.replace("has(payload.p.mcc)", "qos > 2"));
    assert_eq!(code, Some(0));
    assert!(out.contains("warning: cells: no message can match its `when`\n"), "{out}");

    let bad = CELLS.replace("&& payload", "&& && payload");
    let again = CELLS.replace("\"cells\"", "\"again\"").replace("ud/#", "cells/#");
    let back = again.replace("cells/{payload.p.mcc}", "ud/{payload.p.mcc}");
    let half = CELLS.replace("\"cells\"", "\"half\"").replace("ud/#", "+/a");
    let twice = CELLS.replace("qos = 1", "qos = 2");
    let filtered = CELLS.replace("ud/#", "$filter/qos%20>%200/ud/#");
    for (rules, parts) in [
        (bad, &["cells", "when"][..]),
        (format!("{CELLS}{back}"), &["loop", "cells", "again"]),
        (format!("{CELLS}{half}"), &["ud/#", "+/a"]),
        (twice, &["cells", "QoS"]),
        (filtered, &["cells", "from", "`when`"]),
        (String::new(), &["no [[flow]]"]),
    ] {
        let (code, out, log) = check(&rules);
        assert_eq!((code, out.as_str(), log.lines().count()), (Some(2), "", 1), "{log}");
        assert!(parts.iter().all(|part| log.contains(part)), "{log}");
    }
}

/// `weir bench weir-stack` and the lines to and from it.
struct Stack {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Drop for Stack {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stack {
    fn start(broker: &Broker, options: &str) -> Self {
        let mut child = Command::new(WEIR)
            .args(["bench", "weir-stack", "--host", "127.0.0.1", "--port", broker.port()])
            .args(["--in", "ud/#", "--out", "cells"])
            .args(options.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.starts_with("ready weir-"), "{line}");
        assert_eq!(line.split_whitespace().count(), 5, "{line}");
        Self { child, lines }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn counts(&mut self) -> BTreeMap<String, u64> {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let words = line.trim().strip_prefix("counts ").unwrap().split(' ');
        let parsed = words.map(|word| word.split_once('=').unwrap());
        parsed.map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect()
    }

    /// Asks until a counter has come to `least`.
    fn wait_for(&mut self, name: &str, least: u64) {
        while self.ask()[name] < least {}
    }

    fn ask(&mut self) -> BTreeMap<String, u64> {
        self.say("counts");
        self.counts()
    }

    /// The last counts, after `stop` or the end of input.
    fn stop(mut self, is_said: bool) -> BTreeMap<String, u64> {
        if is_said {
            self.say("stop");
        }
        drop(self.child.stdin.take());
        let counts = self.counts();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        counts
    }
}

#[test]
fn a_stack_subscribes_and_publishes_back_by_the_line_protocol() {
    let broker = Broker::start();
    let place = r#"{"p":{"mcc":1,"mnc":2,"lac":3,"cell_id":4},"n":1}"#;
    for json in ["flow", "serde_json"] {
        for qos in [0, 1] {
            let mut sub = Peer::client(&broker.address, "sub");
            sub.subscribe("cells", QoS::AtLeastOnce);
            let options = format!("--workflow workflow --qos {qos} --rate 0 --json {json}");
            let mut stack = Stack::start(&broker, &options);
            let mut source = Peer::client(&broker.address, "pub");
            source.publish("ud/1", place, Some(1), false);
            source.publish("ud/1", r#"{"p":{"mcc":1},"n":2}"#, Some(2), false);
            source.publish("ud/1", "{", Some(3), false);
            let came = sub.message();
            assert_eq!((came.payload.as_str(), came.qos as u8), (place, qos));
            stack.wait_for("received", 3);
            let counts = stack.stop(qos == 0);
            let values = ["received", "matched", "published", "failed"].map(|name| counts[name]);
            assert_eq!(values, [3, 1, 1, 1], "{json}, QoS {qos}");
        }
    }
    let mut stack = Stack::start(&broker, "--workflow subscribe --qos 1 --rate 0");
    let mut source = Peer::client(&broker.address, "pub");
    source.publish("ud/1", "anything", Some(1), false);
    stack.wait_for("received", 1);
    assert_eq!(stack.stop(true)["matched"], 0);
}

#[test]
fn a_stack_publishes_and_connects_once_it_is_started() {
    let broker = Broker::start();
    let mut sub = Peer::client(&broker.address, "sub");
    sub.subscribe("cells", QoS::AtMostOnce);
    let mut stack = Stack::start(&broker, "--workflow publish --qos 1 --rate 500");
    assert_eq!(stack.ask()["published"], 0);
    stack.say("start");
    let came: Vec<_> = (0..20).map(|_| sub.message().payload).collect();
    assert!(came.iter().all(|payload| payload.len() == 300), "{came:?}");
    assert_eq!(came.iter().filter(|payload| payload.contains("cell_id")).count(), 2);
    assert!(stack.stop(true)["published"] >= 20);

    let mut stack = Stack::start(&broker, "--workflow connect --rate 200");
    stack.say("start");
    stack.wait_for("connects", 20);
    assert!(stack.stop(false)["connects"] >= 20);
}
