//! What is shown while a run lasts: the page, its events, the metrics; and kept runs afterwards.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).env_remove("WEIR_LOG").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A request to `http://HOST:PORT/PATH`.
fn ask(url: &str, path: &str) -> TcpStream {
    let address = url.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

fn get(url: &str, path: &str) -> String {
    let mut text = String::new();
    ask(url, path).read_to_string(&mut text).unwrap();
    text
}

/// What follows `name: ` on a line of its own.
fn said(lines: &mut Lines<BufReader<ChildStderr>>, name: &str) -> String {
    let found = lines.find_map(|line| line.unwrap().strip_prefix(name).map(str::to_owned));
    found.unwrap_or_else(|| panic!("{name} was never said"))
}

struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    out: tempfile::TempDir,
}

impl Running {
    /// A run of some seconds on the built-in broker.
    fn start(arguments: &[&str]) -> Self {
        let out = tempfile::tempdir().unwrap();
        let mut child = weir(&["bench", "run", "p2p-1K-1K-1K-1K", "--scale", "0.02"])
            .args(["--duration", "3s", "--warm-up", "500ms", "--pin", "none"])
            .args(arguments)
            .arg("--out")
            .arg(out.path())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines, out }
    }
}

#[test]
fn a_page_and_metrics_follow_a_run_to_its_end() {
    let mut run = Running::start(&["--ui", "web", "--metrics", "127.0.0.1:0"]);
    let page = said(&mut run.lines, "page: ");
    let metrics = said(&mut run.lines, "metrics: ");
    assert!(get(&page, "/").contains("<title>weir bench</title>"));
    let mut events = BufReader::new(ask(&page, "/events")).lines().map(Result::unwrap);
    assert!(events.any(|line| line.starts_with("data: {\"cells\":[")));
    let interval = events.find(|line| line.contains("\"event\":\"interval\"")).unwrap();
    assert!(interval.contains("\"broker_rss_bytes\"") && interval.contains("\"host_cpu_cores\""));
    let text = get(&metrics, "/metrics");
    assert!(text.contains("weir_bench_connections{use_case=\"singlenode-p2p"), "{text}");
    assert!(get(&metrics, "/runs").starts_with("HTTP/1.1 404"), "metrics alone");
    // The last event comes before the connection ends.
    let ended = events.find(|line| line.contains("\"event\":\"ended\"")).unwrap();
    assert!(ended.contains("\"p99_us\""), "{ended}");
    run.lines.for_each(drop);
    assert!(matches!(run.child.wait().unwrap().code(), Some(0 | 1)), "a slow host may fail a run");
    assert!(TcpStream::connect(page[7..].trim_end_matches('/')).is_err(), "it ended with the run");
}

#[test]
fn kept_runs_are_browsed_until_control_c() {
    let mut run = Running::start(&["--ui", "none"]);
    let said = run.lines.map(Result::unwrap).find(|line| !line.starts_with("warning: "));
    assert_eq!(said, None, "nothing but what the host warns of");
    run.child.wait().unwrap();
    let mut child = weir(&["bench", "browse"]).arg(run.out.path()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split(' ').next().unwrap();
    let list = get(url, "/runs");
    assert!(list.contains("\"use_case\":\"singlenode-p2p-1K-1K-1K-1K\""), "{list}");
    let (_, rest) = list.split_once("\"id\":\"").unwrap();
    let id = rest.split('"').next().unwrap();
    assert!(get(url, &format!("/runs/{id}/report")).contains("<html"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_cannot_be_shown_is_said_in_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let web = format!("web={address}");
    for (arguments, part) in [
        (["--ui", "screen"], "not a terminal: choose --ui plain"),
        (["--ui", "gui"], "one of auto, plain, screen, web"),
        (["--ui", "web=here"], "not an address such as"),
        (["--ui", web.as_str()], "choose another with --ui web=ADDRESS"),
        (["--metrics", address.as_str()], "choose another with --metrics ADDRESS"),
    ] {
        let run = Running::start(&arguments);
        let text: Vec<String> = run.lines.map(Result::unwrap).collect();
        let mut child = run.child;
        assert_eq!(child.wait().unwrap().code(), Some(2), "{text:?}");
        assert!(text.join("\n").contains(part), "{part} is missing in {text:?}");
    }
    let output = weir(&["bench", "browse", "/nowhere"]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no folder /nowhere"));
}
