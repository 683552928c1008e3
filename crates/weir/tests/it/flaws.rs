//! The flaws that benchmarks of brokers are known for, each shown caught: docs/honesty.md names
//! who has them.

use crate::fake_broker::{FakeBroker, Faults};
use crate::support::results::results;
use crate::support::{Broker, tool};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use weir_wire::{Frame, Packet, Version};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A use case of one group of publishers and one of subscribers to all they publish.
fn use_case(folder: &Path, publishers: u32, rate_per_s: u32, subscribers: u32, qos: u8) -> String {
    let file = folder.join("flaw.toml");
    let text = format!(
        "name = \"flaw\"\nrevision = 1\nabout = \"a flaw, shown\"\nmqtt_version = \"3.1.1\"\n\
         connect_rate_per_s = 1000\n\
         [[group]]\nname = \"subscriber\"\nclients = {subscribers}\n\
         client_id = \"w{{run}}-sub-{{i}}\"\nscales = false\n\
         subscriptions = [{{ filter = \"flaw/+\", qos = {qos} }}]\n\
         [[group]]\nname = \"publisher\"\nclients = {publishers}\n\
         client_id = \"w{{run}}-pub-{{i}}\"\nscales = false\n\
         publish = {{ topic = \"flaw/{{i}}\", qos = {qos}, rate_per_s = {rate_per_s}, \
         payload_bytes = 16 }}\n"
    );
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// `weir bench run` of a file, not yet started.
fn run(file: &str, broker: &str, seconds: &str, out: &Path) -> Command {
    let mut command = Command::new(WEIR);
    command
        .args(["bench", "run", file, "--broker", broker, "--pin", "none"])
        .args(["--duration", seconds, "--warm-up", "0s", "--out"])
        .arg(out)
        .env_remove("WEIR_LOG")
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// The only result below `out`.
fn result(out: &Path) -> Value {
    results(out).remove(0).0
}

fn reasons(result: &Value) -> String {
    result["verdict"]["reasons"].to_string()
}

/// The child that runs `program`: below the suite a guard, below that the broker.
fn child_of(parent: i32, program: &str) -> i32 {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    let children: Vec<i32> =
        children.unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let is_it = |pid: &&i32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| name.trim() == program)
    };
    *children.iter().find(is_it).unwrap_or_else(|| panic!("no {program} in {children:?}"))
}

/// Stops a process for so long: that nothing happens meanwhile is the flaw to be shown.
fn freeze(pid: Pid, length: Duration) {
    kill_process(pid, Signal::STOP).unwrap();
    std::thread::sleep(length);
    kill_process(pid, Signal::CONT).unwrap();
}

/// Ended with the value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A closed loop, or a clock that starts when a message leaves, says 9 ms of a broker that stood
/// still for seconds; and no line at all while it does.
#[test]
fn a_freeze_at_qos_1_is_in_every_latency_that_counts_from_the_intended_time() {
    const FREEZE: Duration = Duration::from_millis(2_500);
    let broker = Broker::start();
    let child = Command::new(WEIR)
        .args(["bench", "pub", "-p", broker.port(), "-c", "1", "-I", "10", "-t", "flaw/%i"])
        .args(["-q", "1", "--subscribers", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut bench = Ended(child);
    let mut lines = BufReader::new(bench.0.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains(" recv total=") {
        assert!(lines.read_line(&mut text).unwrap() > 0, "{text}");
    }
    freeze(Pid::from_child(&broker.child), FREEZE);
    kill_process(Pid::from_child(&bench.0), Signal::INT).unwrap();
    lines.read_to_string(&mut text).unwrap();
    bench.0.wait().unwrap();
    let max_ms = |row: &str| -> f64 {
        let line = text.lines().find(|line| line.trim_start().starts_with(row));
        let line = line.unwrap_or_else(|| panic!("no {row}:\n{text}"));
        let (_, max) = line.split_once("max=").unwrap();
        max.split("ms").next().unwrap().parse().unwrap()
    };
    let least_ms = FREEZE.as_secs_f64() * 1e3 - 100.0;
    for row in ["acknowledged", "due to received"] {
        assert!(max_ms(row) >= least_ms, "{row}:\n{text}");
    }
    assert!(text.contains("s recv total=") && text.contains(" rate=0.00/sec"), "{text}");
    assert!(text.contains(" owed, 0 lost, 0 twice"), "late is not lost:\n{text}");
}

/// Mosquitto as shipped keeps 1,000 messages a client and drops what is beyond, acknowledged or
/// not. A benchmark that does not audit takes what is missing for latency, or for nothing.
#[test]
fn mosquittos_default_queue_limit_is_named_as_loss_and_fails_the_run() {
    if tool(&["mosquitto"]).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = use_case(folder.path(), 50, 100, 1, 1);
    let mut bench = Ended(run(&file, "mosquitto", "4s", folder.path()).spawn().unwrap());
    let mut lines = BufReader::new(bench.0.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("measure") {
        assert!(lines.read_line(&mut text).unwrap() > 0, "it ended before measure:\n{text}");
    }
    let broker = child_of(child_of(bench.0.id() as i32, "weir"), "mosquitto");
    freeze(Pid::from_raw(broker).unwrap(), Duration::from_millis(1_500));
    lines.read_to_string(&mut text).unwrap();
    assert_eq!(bench.0.wait().unwrap().code(), Some(1), "{text}");
    let result = result(folder.path());
    let measure = &result["measure"];
    assert!(measure["lost"].as_u64() > Some(0), "{measure}");
    assert_eq!(measure["unacknowledged"], 0, "it acknowledged what it dropped: {measure}");
    assert!(reasons(&result).contains("deliveries lost"), "{}", reasons(&result));
    assert_ne!(result["verdict"]["status"], "passed");
}

/// A broker that acknowledges everything and delivers most of it: without a ledger its success is
/// 100 %.
#[test]
fn a_broker_that_acknowledges_and_drops_is_failed_message_by_message() {
    let fake = FakeBroker::start(Faults { seed: 0xD0, lost: 0.02, ..Faults::default() });
    let folder = tempfile::tempdir().unwrap();
    let file = use_case(folder.path(), 5, 100, 2, 1);
    let broker = format!("mqtt://{}", fake.address);
    let output = run(&file, &broker, "2s", folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let result = result(folder.path());
    let deeds = fake.stop();
    let measure = &result["measure"];
    assert_eq!((&measure["unacknowledged"], &measure["refused"]), (&0.into(), &0.into()));
    assert!(deeds.anomalies.len() > 5, "a broker that drops nothing shows nothing");
    assert_eq!(measure["lost"], deeds.anomalies.len() as u64, "{measure}");
    assert!(reasons(&result).contains("deliveries lost"), "{}", reasons(&result));
    assert!(result["rates"]["success"].as_f64() < Some(1.0), "{}", result["rates"]);
}

/// A broker that does next to nothing, in a process of its own, and its URL.
fn null_broker() -> (Ended, String) {
    let mut null = Ended(
        Command::new(WEIR)
            .args(["bench", "null-broker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut address = String::new();
    BufReader::new(null.0.stdout.take().unwrap()).read_line(&mut address).unwrap();
    (null, format!("mqtt://{}", address.trim()))
}

/// The result of a use case during which `victim` stood still for 1.6 s, once `phase` was told of.
fn stopped(use_case: &str, scale: &str, phase: &str, victim: fn(&Child, &Child) -> Pid) -> Value {
    let (null, broker) = null_broker();
    let folder = tempfile::tempdir().unwrap();
    let mut command = run(use_case, &broker, "5s", folder.path());
    let mut bench = Ended(command.args(["--scale", scale]).spawn().unwrap());
    let mut lines = BufReader::new(bench.0.stderr.take().unwrap());
    let mut text = String::new();
    while !text.lines().any(|line| line.trim_start().starts_with(phase)) {
        assert!(lines.read_line(&mut text).unwrap() > 0, "it ended before {phase}:\n{text}");
    }
    freeze(victim(&bench.0, &null.0), Duration::from_millis(1_600));
    lines.read_to_string(&mut text).unwrap();
    bench.0.wait().unwrap();
    result(folder.path())
}

/// The same of the broker. Where the host had no time for the generator either, nothing can be said
/// of the broker's silence, and it is tried again.
fn broker_stopped(use_case: &str, scale: &str, phase: &str, window: &str) -> Value {
    let mut seen = Vec::new();
    for _ in 0..5 {
        let result = stopped(use_case, scale, phase, |_, null| Pid::from_child(null));
        let absent_us = result["generator"][window]["absent_us"].as_u64().unwrap();
        if absent_us < 200_000 {
            return result;
        }
        seen.push(absent_us);
    }
    panic!("the generator itself was absent for {seen:?} us");
}

fn assert_invalid_for_absence(result: &Value, window: &str) {
    assert_eq!(result["verdict"]["status"], "invalid", "{}", reasons(result));
    assert!(reasons(result).contains("the load generator was late: absent"), "{}", reasons(result));
    let longest_us = result["generator"][window]["absent_us_max"].as_u64();
    assert!(longest_us > Some(1_500_000), "{}", result["generator"]);
}

/// At one message a second a stop of the generator is in one or two messages: too few for a
/// percentile of its lag, and all of what is said of the broker.
#[test]
fn a_generator_that_stood_still_in_a_slow_fan_out_makes_the_run_invalid() {
    let result = stopped("fanout-1-1K-1-1K", "0.02", "measure", |bench, _| Pid::from_child(bench));
    assert_invalid_for_absence(&result, "late_measure");
}

#[test]
fn a_generator_that_stood_still_between_pairs_makes_the_run_invalid() {
    let result = stopped("p2p-1K-1K-1K-1K", "0.02", "measure", |bench, _| Pid::from_child(bench));
    assert_invalid_for_absence(&result, "late_measure");
}

#[test]
fn a_generator_that_stood_still_on_a_shared_subscription_makes_the_run_invalid() {
    let of = "sharedsub-1K-5-1K-1K";
    let result = stopped(of, "0.02", "measure", |bench, _| Pid::from_child(bench));
    assert_invalid_for_absence(&result, "late_measure");
}

/// Passes on what clients and a broker say, and tells of every connection.
fn tapped(broker: &str) -> (String, Receiver<()>) {
    let broker = broker.trim_start_matches("mqtt://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (teller, told) = channel();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(broker)) = (client, TcpStream::connect(&broker)) else { break };
            let ways =
                [(client.try_clone().unwrap(), broker.try_clone().unwrap()), (broker, client)];
            for (mut from, mut to) in ways {
                std::thread::spawn(move || {
                    // An end of either side is an end of the other.
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
            // Nobody may listen any more.
            let _ = teller.send(());
        }
    });
    (format!("mqtt://{address}"), told)
}

#[test]
fn a_generator_that_stood_still_while_it_connected_makes_the_run_invalid() {
    /// More than the suite makes itself to look at the broker, and less than half of all.
    const CONNECTIONS: usize = 60;
    let (_null, broker) = null_broker();
    let (broker, connections) = tapped(&broker);
    let folder = tempfile::tempdir().unwrap();
    let mut command = run("conn-tcp-10K-100", &broker, "1s", folder.path());
    let mut bench = Ended(command.args(["--scale", "0.02"]).spawn().unwrap());
    let mut stderr = bench.0.stderr.take().unwrap();
    for _ in 0..CONNECTIONS {
        connections.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    freeze(Pid::from_child(&bench.0), Duration::from_millis(1_600));
    std::io::copy(&mut stderr, &mut std::io::sink()).unwrap();
    bench.0.wait().unwrap();
    assert_invalid_for_absence(&result(folder.path()), "late_setup");
}

/// A broker ends the connections of clients that send no PINGREQ in time. That is no fault of it if
/// the generator did not run to send any.
#[test]
fn a_generator_that_stood_still_beyond_a_keep_alive_makes_the_run_invalid() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("idle.toml");
    let text = "name = \"idle\"\nrevision = 1\nabout = \"idle clients\"\nkeep_alive_s = 1\n\
                mqtt_version = \"3.1.1\"\nconnect_rate_per_s = 100\n[[group]]\nname = \"idle\"\n\
                clients = 20\nclient_id = \"w{run}-{i}\"\nscales = false\n";
    std::fs::write(&file, text).unwrap();
    let result = stopped(file.to_str().unwrap(), "1", "measure", |bench, _| Pid::from_child(bench));
    assert_invalid_for_absence(&result, "late_measure");
}

/// The other way round nothing is the generator's: the broker's silence is named as such.
#[test]
fn a_broker_that_stood_still_is_named_as_silent_and_is_not_the_generators_fault() {
    let result = broker_stopped("p2p-1K-1K-1K-1K", "0.02", "measure", "late_measure");
    let silence = &result["silences"][0];
    assert!(silence["length_s"].as_f64() > Some(1.0), "{}", result["silences"]);
    let marks = result["marks"].to_string();
    assert!(marks.contains("the broker was silent"), "{marks}");
    let max_us = result["latencies"]["end_to_end"]["max_us"].as_u64();
    assert!(max_us > Some(1_400_000), "{max_us:?}");
}

/// Nor while it owes CONNACKs and no message flows yet, which is all that some use cases measure.
#[test]
fn a_broker_that_stood_still_while_clients_connected_is_named_as_silent() {
    let result = broker_stopped("conn-tcp-10K-100", "0.04", "connect", "late_setup");
    let silence = &result["silences"][0];
    assert!(silence["length_s"].as_f64() > Some(1.0), "{}", result["silences"]);
    let max_us = result["latencies"]["connect"]["max_us"].as_u64();
    assert!(max_us > Some(1_400_000), "{max_us:?}");
}

/// Far more than one thread can send: what it then measures is itself, and says nothing of the
/// broker.
#[test]
fn a_generator_that_is_overloaded_makes_the_run_invalid() {
    let (_null, broker) = null_broker();
    let folder = tempfile::tempdir().unwrap();
    let file = use_case(folder.path(), 10, 1_000_000, 1, 0);
    let output = run(&file, &broker, "1s", folder.path()).args(["--again", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let mut both = results(folder.path());
    both.sort_by_key(|(result, _)| result["invalid_before"] != json!([]));
    let [(first, first_folder), (again, _)] = &both[..] else { panic!("{} runs", both.len()) };
    for result in [first, again] {
        assert_eq!(result["verdict"]["status"], "invalid", "{}", reasons(result));
        assert!(reasons(result).contains("the load generator"), "{}", reasons(result));
    }
    let name = first_folder.file_name().unwrap().to_str().unwrap();
    let told = format!("in place of an invalid run (1 of 1): {name}: ");
    assert!(reasons(again).contains(&told), "{}", reasons(again));
    assert!(!reasons(first).contains(&told), "{}", reasons(first));
    let before = [json!({ "folder": name, "reasons": first["verdict"]["reasons"] })];
    assert_eq!(again["invalid_before"], Value::from(before.to_vec()));
}

/// Bytes of the first PUBLISH that a client sends, and of its payload. Acknowledges all.
fn first_publish(mut stream: TcpStream) -> (usize, usize) {
    let (mut bytes, mut found) = (Vec::new(), None);
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "a publisher says goodbye");
        bytes.extend_from_slice(&chunk[..count]);
        let mut at = 0;
        while let Some(frame) = Frame::check(&bytes[at..], u32::MAX).unwrap() {
            at += frame.bytes;
            let length = frame.bytes;
            match Packet::decode(Version::V5, frame).unwrap() {
                Packet::Connect(_) => stream.write_all(&[0x20, 3, 0, 0, 0]).unwrap(),
                Packet::Publish(publish) => {
                    found.get_or_insert((length, publish.payload.len()));
                    let [high, low] = publish.packet_id.unwrap().value().to_be_bytes();
                    stream.write_all(&[0x40, 2, high, low]).unwrap();
                }
                Packet::Disconnect(_) => return found.unwrap(),
                other => panic!("a publisher does not send {other:?}"),
            }
        }
        bytes.drain(..at);
    }
}

/// A payload said to be 16 bytes was 40 on the wire, with the tool's own text before it.
#[test]
fn a_payload_is_on_the_wire_as_long_as_it_is_said_to_be() {
    for bytes in [16, 256] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let server = std::thread::spawn(move || first_publish(listener.accept().unwrap().0));
        let output = Command::new(WEIR)
            .args(["bench", "pub", "-p", &port, "-c", "1", "-I", "5", "-L", "3", "-q", "1"])
            .args(["-t", "flaw/%i", "-s", &bytes.to_string()])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (publish, payload) = server.join().unwrap();
        assert_eq!(payload, bytes);
        let said = format!("a PUBLISH of {publish} B with a payload of {payload} B");
        assert!(text.contains(&said), "{said}:\n{text}");
    }
}

/// The page on flaws names tests; each of them is there.
#[test]
fn every_test_that_the_page_names_exists() {
    let page = include_str!("../../../../docs/honesty.md");
    let sources = [
        include_str!("flaws.rs"),
        include_str!("emqtt.rs"),
        include_str!("bench.rs"),
        include_str!("../../../load/tests/it/calibration.rs"),
        include_str!("../../../load/src/agent/line.rs"),
        include_str!("../../../bench/src/doctor/check/tests.rs"),
        include_str!("../../../bench/tests/it/report.rs"),
    ]
    .concat();
    let words = page.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let names: Vec<&str> = words.filter(|word| word.matches('_').count() >= 3).collect();
    assert!(names.len() >= 12, "{names:?}");
    for name in names {
        assert!(sources.contains(&format!("fn {name}()")), "there is no test {name}");
    }
}
