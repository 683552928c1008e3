//! Real clients against `weir broker`: mosquitto_pub and mosquitto_sub, and the client libraries
//! of tests/clients, which all run the same cells.

use crate::support::served::serve;
use crate::support::{Broker, tool};
use serde_json::json;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

/// mosquitto_sub that has subscribed; it ends after `count` messages or 20 s.
struct Sub {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Sub {
    fn start(broker: &Broker, version: &str, arguments: &[&str]) -> Self {
        // Line by line even into a pipe, so that the SUBACK is seen when it comes.
        let mut child = Command::new("stdbuf")
            .args(["-oL", "mosquitto_sub"])
            .args(["-p", broker.port(), "-V", version, "-d", "-v", "-W", "20"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("Subscribed (mid") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "it ended before SUBACK");
        }
        Self { child, output }
    }

    /// The messages, without the debug lines.
    fn messages(mut self) -> Vec<String> {
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        self.child.wait().unwrap();
        text.lines().filter(|line| is_message(line)).map(str::to_owned).collect()
    }
}

fn is_message(line: &str) -> bool {
    !line.starts_with("Client ") && !line.is_empty()
}

/// The first `count` messages of all of `subs`, or what they had when they ended, each with who got
/// it; then they are ended.
fn first_messages<const N: usize>(count: usize, subs: [Sub; N]) -> Vec<(usize, String)> {
    let (messages, arrived) = mpsc::channel();
    let children = subs.into_iter().enumerate().map(|(by, Sub { child, output })| {
        let messages = messages.clone();
        let read = move || {
            let lines = output.lines().map_while(Result::ok).filter(|line| is_message(line));
            lines.for_each(|line| drop(messages.send((by, line))));
        };
        (child, thread::spawn(read))
    });
    let children: Vec<_> = children.collect();
    drop(messages);
    let all = arrived.iter().take(count).collect();
    for (mut child, reader) in children {
        child.kill().unwrap();
        child.wait().unwrap();
        reader.join().unwrap();
    }
    all
}

fn publish(broker: &Broker, version: &str, arguments: &[&str]) {
    let status = Command::new("mosquitto_pub")
        .args(["-p", broker.port(), "-V", version])
        .args(arguments)
        .status()
        .unwrap();
    assert!(status.success(), "mosquitto_pub {arguments:?}: {status}");
}

const VERSIONS: [&str; 2] = ["mqttv311", "mqttv5"];

#[test]
fn mosquitto_clients_exchange_every_qos_in_both_versions() {
    if tool(&["mosquitto_sub"]).is_none() {
        return;
    }
    let broker = Broker::start();
    for version in VERSIONS {
        for qos in ["0", "1", "2"] {
            let sub = Sub::start(&broker, version, &["-t", "m/+/#", "-q", qos, "-C", "3"]);
            for sent in ["0", "1", "2"] {
                let message = format!("{version} {qos} {sent}");
                publish(&broker, version, &["-t", "m/x/y", "-q", sent, "-m", &message]);
            }
            let mut messages = sub.messages();
            messages.sort();
            let expected = ["0", "1", "2"].map(|sent| format!("m/x/y {version} {qos} {sent}"));
            assert_eq!(messages, expected);
        }
    }
}

#[test]
fn mosquitto_clients_see_retained_messages_and_wills() {
    if tool(&["mosquitto_sub"]).is_none() {
        return;
    }
    let broker = Broker::start();
    for version in VERSIONS {
        publish(&broker, version, &["-t", "r/1", "-q", "1", "-m", "kept", "-r"]);
        let sub = Sub::start(&broker, version, &["-t", "r/#", "-q", "1", "-C", "1"]);
        assert_eq!(sub.messages(), ["r/1 kept"]);

        let watcher = Sub::start(&broker, version, &["-t", "will/#", "-q", "1", "-C", "1"]);
        let will =
            ["-t", "x", "--will-topic", "will/a", "--will-payload", "gone", "--will-qos", "1"];
        let mut victim = Sub::start(&broker, version, &will);
        victim.child.kill().unwrap();
        victim.child.wait().unwrap();
        assert_eq!(watcher.messages(), ["will/a gone"]);
    }
}

#[test]
fn mosquitto_clients_resume_a_session() {
    if tool(&["mosquitto_sub"]).is_none() {
        return;
    }
    let broker = Broker::start();
    for version in VERSIONS {
        let mut session = vec!["-i", version, "-c", "-t", "s/#", "-q", "1"];
        if version == "mqttv5" {
            session.extend(["-x", "100"]);
        }
        let first = [&session[..], &["-C", "1"]].concat();
        let sub = Sub::start(&broker, version, &first);
        publish(&broker, version, &["-t", "s/1", "-q", "1", "-m", "here"]);
        assert_eq!(sub.messages(), ["s/1 here"]);
        publish(&broker, version, &["-t", "s/2", "-q", "1", "-m", "away"]);
        // It comes before SUBACK, so all the output is looked at.
        let output = Command::new("mosquitto_sub")
            .args(["-p", broker.port(), "-V", version, "-v", "-W", "20", "-C", "1"])
            .args(&session)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "s/2 away\n");
    }
}

#[test]
fn mosquitto_clients_share_a_subscription() {
    if tool(&["mosquitto_sub"]).is_none() {
        return;
    }
    let broker = Broker::start();
    for version in VERSIONS {
        // Not five each: each thread takes its publishers' messages in turn for itself.
        let member = || Sub::start(&broker, version, &["-t", "$share/g/j/#", "-q", "1"]);
        let members = [member(), member()];
        for number in 0..10 {
            publish(&broker, version, &["-t", "j/1", "-q", "1", "-m", &number.to_string()]);
        }
        let all = first_messages(10, members);
        let mut contents: Vec<&str> = all.iter().map(|(_, message)| &message[..]).collect();
        contents.sort_unstable();
        assert_eq!(contents, (0..10).map(|number| format!("j/1 {number}")).collect::<Vec<_>>());
        for member in 0..2 {
            assert!(all.iter().any(|&(by, _)| by == member), "{member} got none of {all:?}");
        }
    }
}

/// The cells of tests/clients/README.md, for 3.1.1 and 5.0 and for 5.0 alone.
const CELLS: [&str; 7] = ["qos", "order", "retained", "will", "resume", "shared", "takeover"];
const CELLS_OF_5: [&str; 3] = ["aliases", "properties", "expiry"];

/// The listeners of the broker, by the schemes of their URLs.
const SCHEMES: [&str; 4] = ["mqtt", "mqtts", "ws", "wss"];

#[test]
fn python_paho_runs_every_cell_over_every_transport() {
    run_cells(&[".venv/bin/python", "tests/clients/paho/matrix.py"], &SCHEMES);
}

#[test]
fn gmqtt_runs_every_cell_over_tcp_and_tls() {
    run_cells(&[".venv/bin/python", "tests/clients/gmqtt/matrix.py"], &SCHEMES[..2]);
}

#[test]
fn mqttjs_runs_every_cell_over_every_transport() {
    // Node is there, but without its modules the program cannot start.
    if tool(&["node"]).is_some() && is_set_up("tests/clients/mqttjs/node_modules/mqtt") {
        run_cells(&["node", "tests/clients/mqttjs/matrix.js"], &SCHEMES);
    }
}

#[test]
fn go_paho_runs_every_cell_over_every_transport() {
    run_cells(&["tests/clients/gopaho/gopaho"], &SCHEMES);
}

#[test]
#[ignore = "takes Maven and what it fetches: make test-long"]
fn java_paho_runs_every_cell_over_every_transport() {
    run_java("paho");
}

#[test]
#[ignore = "takes Maven and what it fetches: make test-long"]
fn java_hivemq_runs_every_cell_over_every_transport() {
    run_java("hivemq");
}

fn run_java(library: &str) {
    let folder = "tests/clients/java/target";
    if tool(&["java"]).is_some() && is_set_up(folder) {
        let path = format!("{folder}/classes:{folder}/lib/*");
        run_cells(&["java", "-cp", &path, "Main", library], &SCHEMES);
    }
}

/// Runs a program of tests/clients, given from the root of the repository, over each of these
/// transports at the same time, against a broker each: it must print that every cell went well,
/// once.
fn run_cells(command: &[&str], schemes: &[&str]) {
    let is_path = command[0].contains('/');
    if is_path && !is_set_up(command[0]) {
        return;
    }
    let program = if is_path { root().join(command[0]) } else { command[0].into() };
    thread::scope(|scope| {
        for scheme in schemes {
            let program = &program;
            scope.spawn(move || run_cells_over(scheme, program, &command[1..]));
        }
    });
}

fn run_cells_over(scheme: &str, program: &Path, arguments: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (_broker, url, authority) = serve(scheme, folder.path());
    let output = Command::new(program)
        .args(arguments)
        .args([url, authority.file()])
        .current_dir(root())
        .output()
        .unwrap();
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let of_both = ["3.1.1", "5.0"].into_iter().flat_map(|of| CELLS.map(|cell| (of, cell)));
    let of_5 = CELLS_OF_5.map(|cell| ("5.0", cell));
    let expected = of_both.chain(of_5).map(|(of, cell)| format!("ok {of}/{cell}"));
    let lines: Vec<&str> = text.lines().collect();
    let is_complete = lines.iter().copied().eq(expected);
    let what = program.display();
    assert!(is_complete && output.status.success(), "{what} {scheme}:\n{text}{errors}");
}

#[test]
fn a_page_in_a_browser_is_a_client_by_websocket() {
    let modules = ["tests/browser/node_modules", "tests/clients/mqttjs/node_modules/mqtt"];
    if tool(&["node"]).is_none()
        || tool(&["chromium"]).is_none()
        || !modules.iter().all(|it| is_set_up(it))
    {
        return;
    }
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let served = [serve("ws", folders[0].path()), serve("wss", folders[1].path())];
    let mut node = Command::new("node");
    node.arg(root().join("tests/browser/mqtt.mjs")).args(served.iter().map(|(_, url, _)| url));
    let output = node.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text.lines().count(), 2, "{text}{errors}");
    for line in text.lines() {
        let told: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut expected = Vec::new();
        for version in [4, 5] {
            // In the second round it is there already, and not new.
            expected.push(json!([version, "browser/kept", 4, 1, true]));
            for (qos, length) in
                [0, 1, 2].into_iter().flat_map(|qos| [0, 100, 70_000].map(|length| (qos, length)))
            {
                expected.push(json!([version, format!("browser/{qos}"), length, qos, false]));
            }
            expected.push(json!([version, "browser/last", 0, 1, false]));
        }
        assert_eq!(told["came"], json!(expected), "{line}");
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether scripts/setup made this (for what only `make test-long` runs, with --all); if not, the
/// test is skipped, but fails where CI is set.
fn is_set_up(path: &str) -> bool {
    let is_there = root().join(path).exists();
    if !is_there {
        assert!(std::env::var_os("CI").is_none(), "no {path}; run scripts/setup");
        eprintln!("skipped: no {path}; scripts/setup makes it");
    }
    is_there
}
