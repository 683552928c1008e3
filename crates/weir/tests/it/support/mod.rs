//! A broker for a test, and the tools a test needs.

pub(crate) mod asked;
pub(crate) mod between;
#[path = "../../../../wire/tests/blocking/mod.rs"]
pub(crate) mod blocking;
pub(crate) mod certificates;
pub(crate) mod command;
pub(crate) mod connect;
pub(crate) mod flow;
pub(crate) mod line;
pub(crate) mod live;
pub(crate) mod mosquitto;
pub(crate) mod mqtt;
pub(crate) mod results;
pub(crate) mod served;
pub(crate) mod tokens;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

/// How long a test waits for what a broker is to say.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether a log says something in this time, or ends.
pub(crate) fn log_comes(log: &BufReader<ChildStderr>, within: Duration) -> bool {
    let within = Timespec::try_from(within).unwrap();
    let mut pipe = [PollFd::new(log.get_ref(), PollFlags::IN)];
    !log.buffer().is_empty() || poll(&mut pipe, Some(&within)) == Ok(1)
}

/// What asks for a WebSocket.
pub(crate) const WEB_SOCKET_REQUEST: &str = "GET /mqtt HTTP/1.1\r\nHost: localhost\r\n\
    Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

/// `weir broker` as a process of its own; ended with the value.
pub(crate) struct Broker {
    pub(crate) child: Child,
    pub(crate) address: String,
    /// Where it serves HTTP, if it does.
    pub(crate) http: Option<String>,
    /// Where it speaks WebSocket without TLS, if it does.
    pub(crate) websocket: Option<String>,
    /// Lines of its log from before it was ready.
    early: VecDeque<String>,
    /// Kept open, so that the broker can go on writing it.
    log: BufReader<ChildStderr>,
}

impl Broker {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// With more arguments of `weir broker`.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let broker = Self::try_start(&[&["--listen", "127.0.0.1:0"], arguments].concat());
        broker.expect("the broker ended before it listened")
    }

    /// With these arguments alone; nothing if it ends before it listens.
    pub(crate) fn try_start(arguments: &[&str]) -> Option<Self> {
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        Self::by(weir.arg("broker").args(arguments))
    }

    /// By this command; nothing if it ends before it listens.
    pub(crate) fn by(command: &mut Command) -> Option<Self> {
        let mut child = command
            .env("NO_COLOR", "1")
            .env_remove("WEIR_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let (mut address, mut http, mut websocket) = (None, None, None);
        let mut early = VecDeque::new();
        // It listens before it serves.
        let address = loop {
            let mut line = String::new();
            if log.read_line(&mut line).unwrap() == 0 {
                child.wait().unwrap();
                eprintln!("it said before it ended: {early:#?}");
                return None;
            }
            if let Some((_, listening)) = line.split_once("listening on ") {
                let listening = listening.trim();
                if let Some(place) = listening.strip_suffix(" with WebSocket") {
                    websocket = Some(place.to_owned());
                }
                match listening.strip_suffix(" (HTTP)") {
                    Some(place) => http = Some(place.to_owned()),
                    None => _ = address.get_or_insert_with(|| listening.to_owned()),
                }
            }
            if line.trim_end().ends_with(" ready") {
                break address.expect("it listens by then");
            }
            early.push_back(line);
        };
        Some(Self { child, address, http, websocket, early, log })
    }

    /// Sends it this signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The next line of its log with this in it. A broker that says nothing for long fails the
    /// test.
    pub(crate) fn says(&mut self, part: &str) -> String {
        let mut line = String::new();
        while !line.contains(part) {
            if let Some(early) = self.early.pop_front() {
                line = early;
                continue;
            }
            line.clear();
            assert!(log_comes(&self.log, PATIENCE), "it does not say {part}");
            assert!(self.log.read_line(&mut line).unwrap() > 0, "it ended without {part}");
        }
        line
    }

    pub(crate) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first of `names` that can be run. Missing tools skip a test, but fail it where CI is set.
pub(crate) fn tool(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    let found = names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| file.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{names:?} is not installed; run scripts/setup");
        eprintln!("skipped: {names:?} is not installed; scripts/setup installs it");
    }
    found
}
