//! Brokers in processes that may have few files open: nobody is left without an answer.

use crate::support::{Broker, Client, connect};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use weir_broker::{Config, ControlConfig, IoBackend};
use weir_control::Caller;
use weir_reactor::Backend;
use weir_wire::ReasonCode;

/// Set for the child, which is the broker.
const CHILD: &str = "WEIR_BROKER_FILE_LIMIT";

const FILES_MAX: u64 = 256;
const SHARDS: u16 = 4;

/// Far too long to be met.
const LONG: Duration = Duration::from_secs(60);

/// A broker in a process of its own, which ends with this.
struct Limited {
    child: Child,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
    caller: Caller,
    _folder: tempfile::TempDir,
}

impl Limited {
    /// `of` is the test that is run as the broker as well.
    fn start(of: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("ctl");
        let mut child = Command::new("sh")
            .args(["-c", &format!("ulimit -n {FILES_MAX}; exec \"$@\""), "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &format!("file_limit::{of}"), "--nocapture"])
            .env(CHILD, &socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = output.by_ref().lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("at ")?.parse().ok());
        let address = address.expect("the broker says where it listens");
        let caller = Caller::new(&socket).unwrap();
        Self { child, output, address, caller, _folder: folder }
    }

    /// Of all shards.
    fn counter(&self, name: &str) -> u64 {
        let reply = self.caller.get("/api/v1/counters").unwrap();
        let counters: Value = serde_json::from_slice(&reply.body).unwrap();
        counters["sum"][name].as_u64().unwrap()
    }

    /// A client that has said who it is, and has not heard yet.
    fn client(&self, at: usize) -> Client {
        let mut client = Client::open(self.address);
        client.send(&connect(&format!("client-{at}"), &[]));
        client
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.child.stdin.take());
        let mut rest = String::new();
        let is_read = self.output.read_to_string(&mut rest).is_ok();
        let is_well = self.child.wait().is_ok_and(|status| status.success());
        assert!(is_read && is_well || std::thread::panicking(), "{rest}");
    }
}

/// In the child: the broker, until the parent goes. False in the parent.
fn is_broker(io: IoBackend, prepare: impl FnOnce(&Broker) -> Vec<File>) -> bool {
    let Some(socket) = std::env::var_os(CHILD) else { return false };
    let control = ControlConfig { socket: Some(socket.into()), ..ControlConfig::default() };
    let broker = Broker::start(Config { shards: SHARDS, io, control, ..Config::default() });
    let files = prepare(&broker);
    println!("\nat {}", broker.address);
    let _ = std::io::stdin().read(&mut [0]);
    drop(files);
    true
}

#[test]
fn a_storm_waits_to_be_accepted_and_the_operator_is_answered() {
    const CLIENTS: usize = 400;
    if is_broker(IoBackend::Epoll, |_| Vec::new()) {
        return;
    }
    let broker = Limited::start("a_storm_waits_to_be_accepted_and_the_operator_is_answered");
    let clients: Vec<Client> = (0..CLIENTS).map(|at| broker.client(at)).collect();
    let begun = Instant::now();
    while broker.counter("accept_errors") == 0 {
        assert!(begun.elapsed() < LONG, "the limit is not reached");
    }
    assert!(broker.counter("connections") < FILES_MAX);
    // Whoever leaves makes room for the next.
    for (at, mut client) in clients.into_iter().enumerate() {
        assert_eq!(client.connack(), Some(ReasonCode::Success), "client {at}");
    }
}

#[test]
fn a_client_of_another_shard_is_told_that_no_file_is_left_for_its_way() {
    const CLIENTS: usize = 40;
    if let Err(error) = Backend::IoUring.check() {
        assert!(std::env::var_os("CI").is_none(), "{error}");
        return eprintln!("not tested: {error}");
    }
    let all_files = |broker: &Broker| {
        // Each shard has what it needs by then.
        for at in 0..CLIENTS {
            let mut client = broker.connect(&format!("client-{at}"), &[]);
            assert_eq!(client.connack(), Some(ReasonCode::Success));
        }
        std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
    };
    if is_broker(IoBackend::IoUring, all_files) {
        return;
    }
    let of = "a_client_of_another_shard_is_told_that_no_file_is_left_for_its_way";
    let broker = Limited::start(of);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|at| broker.client(at)).collect();
    let reasons: Vec<_> = clients.iter_mut().map(Client::connack).collect();
    let count = |reason| reasons.iter().filter(|&&found| found == Some(reason)).count();
    let (served, refused) = (count(ReasonCode::Success), count(ReasonCode::ServerBusy));
    assert_eq!(served + refused, CLIENTS, "{reasons:?}");
    assert!(served > 0 && refused > 0, "{served} were served");
}
