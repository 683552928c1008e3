//! `weir bench conn`, `pub` and `sub` as somebody meets them who comes from emqtt-bench.

use crate::support::Broker;
use crate::support::certificates::Authority;
use crate::support::live::free;
use crate::support::served::serve;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// `weir bench` with these arguments at a broker; ended with the value.
struct Bench {
    child: Child,
    lines: BufReader<ChildStdout>,
    seen: String,
}

impl Bench {
    fn start(broker: &Broker, arguments: &str) -> Self {
        Self::with(&format!("{arguments} -h 127.0.0.1 -p {}", broker.port()))
    }

    fn with(arguments: &str) -> Self {
        let mut child = Command::new(WEIR)
            .arg("bench")
            .args(arguments.split(' '))
            .env_remove("WEIR_LOG")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines, seen: String::new() }
    }

    /// Reads on until a line has this in it.
    fn wait_for(&mut self, part: &str) {
        loop {
            let mut line = String::new();
            let count = self.lines.read_line(&mut line).unwrap();
            assert!(count > 0, "it ended before {part:?}:\n{}", self.seen);
            self.seen += &line;
            if line.contains(part) {
                return;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Reads to the end: exit code, and all that was said.
    fn end(mut self) -> (i32, String) {
        self.lines.read_to_string(&mut self.seen).unwrap();
        let status = self.child.wait().unwrap();
        (status.code().unwrap_or(-1), std::mem::take(&mut self.seen))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The summary's line of this name, without it.
fn row<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, summary) = text.split_once("summary\n").unwrap_or_else(|| panic!("no end:\n{text}"));
    let found = summary.lines().find_map(|line| line.trim_start().strip_prefix(name));
    found.unwrap_or_else(|| panic!("no {name:?} in\n{summary}")).trim()
}

/// The last total of a counter.
fn total(text: &str, counter: &str) -> u64 {
    let name = format!("s {counter} total=");
    let last = text.lines().rev().find_map(|line| line.split_once(&name));
    let (_, rest) = last.unwrap_or_else(|| panic!("no {counter}:\n{text}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn publishers_with_an_audience_are_counted_once_and_audited() {
    let broker = Broker::start();
    for (qos, version) in [(0, 4), (1, 5), (2, 4)] {
        let arguments = format!(
            "pub -c 10 -R 1000 -I 20 -t flat/%i -s 32 -q {qos} -V {version} -L 300 --subscribers 2"
        );
        let (_, text) = Bench::start(&broker, &arguments).end();
        assert_eq!((total(&text, "pub"), total(&text, "recv")), (300, 600), "QoS {qos}:\n{text}");
        assert!(row(&text, "connections").starts_with("12 of 12"), "{text}");
        assert!(row(&text, "published").starts_with("300 due, 300 sent, 0 unsent"), "{text}");
        assert!(row(&text, "delivered").starts_with("600 of 600 owed, 0 lost, 0 twice"), "{text}");
        assert!(row(&text, "due to received").contains("p99.9="), "{text}");
        assert!(row(&text, "generator").contains("cores, lag p99="), "{text}");
        if qos > 0 {
            assert_eq!(total(&text, "puback"), 300, "{text}");
            assert!(row(&text, "acknowledged").ends_with("of 300"), "{text}");
        }
    }
}

#[test]
fn every_transport_is_spoken_by_a_url_or_by_the_options_of_emqtt_bench() {
    for scheme in ["mqtts", "ws", "wss"] {
        let folder = tempfile::tempdir().unwrap();
        let (broker, url, authority) = serve(scheme, folder.path());
        let has_tls = scheme != "ws";
        let trust = if has_tls { format!(" --cacertfile {}", authority.file()) } else { "".into() };
        let load = "pub -c 4 -R 100 -I 20 -t flat/%i -q 1 -L 80 --subscribers 2";
        let port = broker.address.split(' ').next().unwrap().rsplit_once(':').unwrap().1;
        let by_options = match scheme {
            "mqtts" => format!("-h localhost -p {port} --ssl"),
            "ws" => format!("-h localhost -p {port} --ws true"),
            _ => format!("-h localhost -p {port} --ws -S true"),
        };
        for place in [format!("-h {url}"), by_options] {
            let (_, text) = Bench::with(&format!("{load} {place}{trust}")).end();
            assert!(row(&text, "connections").starts_with("6 of 6"), "{place}:\n{text}");
            assert!(row(&text, "delivered").starts_with("160 of 160 owed, 0 lost"), "{text}");
            assert!(row(&text, "of it handshake").ends_with("of 6"), "{text}");
            assert_eq!(text.contains("6 full, 0 resumed"), has_tls, "{text}");
        }
        if has_tls {
            let other = Authority::new("other", folder.path()).file();
            let line = format!("conn -c 2 -i 1 -h {url} --cafile {other}");
            let mut bench = Bench::with(&line);
            bench.wait_for(" conn_fail total=2 ");
            bench.signal(Signal::INT);
            let (code, text) = bench.end();
            assert_eq!(code, 1, "{text}");
            assert!(row(&text, "connections").starts_with("0 of 2; 2 failed: "), "{text}");
        }
    }
}

#[test]
fn subscribers_count_payloads_of_anybody_until_ctrl_c() {
    let broker = Broker::start();
    let mut bench = Bench::start(&broker, "sub -c 3 -i 1 -t plain/+ -t other/%i -q 1");
    bench.wait_for(" sub total=6 ");
    bench.wait_for(" recv total=0 rate=0.00/sec");
    for topic in ["plain/x", "other/2", "unheard"] {
        let status = Command::new(WEIR)
            .args(["pub", "-p", broker.port(), "-t", topic, "-m", "hello", "-q", "1"])
            .status()
            .unwrap();
        assert!(status.success());
    }
    bench.wait_for(" recv total=4 ");
    bench.signal(Signal::INT);
    let (code, text) = bench.end();
    assert!(matches!(code, 0 | 1), "a busy host may void a run: {text}");
    assert!(row(&text, "received").starts_with("4, only counted"), "{text}");
}

#[test]
fn connections_are_held_until_ctrl_c() {
    let broker = Broker::start();
    let mut bench = Bench::start(&broker, "conn -c 5 -R 500 -n 100 --prefix held --lowmem");
    bench.wait_for(" conn total=5 ");
    bench.wait_for(" conn total=5 rate=0.00/sec");
    bench.signal(Signal::INT);
    let (code, text) = bench.end();
    assert_eq!(row(&text, "connections"), "5 of 5");
    // A busy host may void a run.
    let verdict = row(&text, "verdict");
    assert!(verdict == "passed" && code == 0 || verdict.starts_with("invalid"), "{code}: {text}");
}

#[test]
fn clients_of_two_runs_do_not_take_each_other_over() {
    let broker = Broker::start();
    let mut first = Bench::start(&broker, "conn -c 5 -R 500 --prefix same");
    first.wait_for(" conn total=5 ");
    let mut second = Bench::start(&broker, "conn -c 5 -R 500 --prefix same -n 5");
    second.wait_for(" conn total=5 ");
    for bench in [first, second] {
        bench.signal(Signal::INT);
        let (_, text) = bench.end();
        assert_eq!(row(&text, "connections"), "5 of 5");
    }
}

#[test]
fn what_is_not_supported_says_so_in_one_line() {
    for (arguments, part) in [
        ("pub --quic -t x", "--quic of emqtt-bench is not supported"),
        ("pub --cafile x -t x", "--cafile: TLS is not spoken; add --ssl"),
        ("pub -t a/%s", "%s is not supported"),
        ("pub -t x -V 3", "-V 4 (MQTT 3.1.1)"),
        ("pub -t x -s 4", "at least 16"),
        ("sub --topics x", "did you mean --topic?"),
        ("sub", "needs a topic filter"),
        ("conn -s", "--prefix"),
        ("conn -c 0", "-c 0"),
        ("conn -h a,b", "one host only"),
    ] {
        let output = Command::new(WEIR).arg("bench").args(arguments.split(' ')).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("weir: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(part), "{arguments}: {text}");
    }
}

#[test]
fn nobody_at_the_address_is_said_in_the_summary() {
    let port = free().to_string();
    let output = Command::new(WEIR).args(["bench", "conn", "-c", "2", "-p", &port]).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(row(&text, "connections").contains("refused"), "{text}");
    assert_eq!(row(&text, "verdict"), "failed");
}
