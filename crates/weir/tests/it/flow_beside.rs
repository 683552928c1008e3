//! `weir flow run` beside a broker, killed with SIGKILL or cut off again and again while messages
//! of QoS 1 come at a steady rate. Every result comes at least once, and nothing is stuck.
//!
//! A proxy stands between it and the broker, so that a cut loses what is on its way. What is killed
//! stays away for some messages: those queue at the broker, and Mosquitto 2.0 then sends more than
//! our Receive Maximum. `WEIR_MOSQUITTO` names another program than the installed one.

use crate::support::blocking::decode;
use crate::support::mqtt::Peer;
use crate::support::{Broker, tool};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use weir_wire::{Packet, QoS, Version};

const RULES: &str = "[[flow]]\nname = \"echo\"\nfrom = \"in/#\"\nqos = 1\nto = \"out\"\n";

/// Messages a second.
const RATE: u64 = 3_000;

/// Whoever waits longer for the next result waits for ever.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// The broker; ended with the value.
enum Beside {
    Weir(Broker),
    Mosquitto { child: Child, address: String, _folder: tempfile::TempDir },
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Self::Mosquitto { child, .. } = self {
            // It may have ended already; then there is nothing to end.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Beside {
    /// Mosquitto, if there is one.
    fn mosquitto() -> Option<Self> {
        let named = std::env::var_os("WEIR_MOSQUITTO").map(PathBuf::from);
        let program = named.or_else(|| tool(&["mosquitto"]))?;
        let folder = tempfile::tempdir().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = folder.path().join("mosquitto.conf");
        // Its queue holds 1,000 messages by default and drops what comes then.
        let text = format!(
            "listener {} 127.0.0.1\nallow_anonymous true\n\
             max_queued_messages 0\nset_tcp_nodelay true\n",
            free.port()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(program);
        let child = command.arg("-c").arg(&config).stderr(Stdio::null()).spawn().unwrap();
        let address = free.to_string();
        while TcpStream::connect(&address).is_err() {
            std::thread::yield_now();
        }
        Some(Self::Mosquitto { child, address, _folder: folder })
    }

    fn address(&self) -> &str {
        match self {
            Self::Weir(broker) => &broker.address,
            Self::Mosquitto { address, .. } => address,
        }
    }
}

/// Both sockets of the connection that the proxy carries.
type Carried = Arc<Mutex<Vec<TcpStream>>>;

/// Carries bytes between the flow and the broker, for one connection after the other.
fn proxy(listener: &TcpListener, broker: &str, carried: &Carried) {
    for flow in listener.incoming().map_while(Result::ok) {
        let Ok(broker) = TcpStream::connect(broker) else { return };
        [&flow, &broker].into_iter().for_each(|end| end.set_nodelay(true).unwrap());
        let ends = [&flow, &broker].map(|end| end.try_clone().unwrap());
        *carried.lock().unwrap() = ends.into();
        let (to_broker, to_flow) = (broker.try_clone().unwrap(), flow.try_clone().unwrap());
        std::thread::spawn(move || pump(broker, to_flow));
        std::thread::spawn(move || pump(flow, to_broker));
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 16_384];
    while let Ok(read) = from.read(&mut bytes) {
        if read == 0 || to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    // Each end may have gone already.
    [from, to].iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
}

/// Ends the connection on both sides at once; what is on its way is lost.
fn cut(carried: &Carried) {
    carried.lock().unwrap().drain(..).for_each(|end| drop(end.shutdown(Shutdown::Both)));
}

/// `weir flow run`; ended with the value.
struct Flow(Child);

impl Drop for Flow {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Flow {
    fn start(rules: &Path, address: &str) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["flow", "run", rules.to_str().unwrap(), "--quiet", "--client-id", "beside"])
            .args(["--broker", address])
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }
}

/// How often the result of each message came, and who waits for them.
#[derive(Default)]
struct Results {
    times: Mutex<Vec<u32>>,
    changed: Condvar,
}

impl Results {
    fn collect(&self, mut sub: Peer) {
        loop {
            let result = sub.message();
            let Ok(number) = result.payload.parse::<usize>() else { return };
            sub.acknowledge(result.packet_id);
            let mut times = self.times.lock().unwrap();
            let length = times.len().max(number + 1);
            times.resize(length, 0);
            times[number] += 1;
            self.changed.notify_all();
        }
    }

    /// Waits until the messages from `first` to the one before `end` have their results.
    fn wait_for(&self, first: u64, end: u64) {
        let times = self.times.lock().unwrap();
        // Those before it have come: to look at all for each result would take all the time.
        let mut next = first as usize;
        let is_short = |times: &mut Vec<u32>| {
            next += times.iter().skip(next).take_while(|&&times| times > 0).count();
            (next as u64) < end
        };
        let (times, timeout) =
            self.changed.wait_timeout_while(times, STUCK_AFTER, is_short).unwrap();
        let came = times.iter().skip(first as usize).filter(|&&times| times > 0).count();
        assert!(!timeout.timed_out(), "{came} results from {first} to {end}: stuck, or lost");
    }
}

/// Publishes at the rate until it is told to stop; every number below `published` is accepted.
fn publish(mut source: Peer, published: &AtomicU64, stop: &AtomicBool) {
    let begun = Instant::now();
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        let due = begun.elapsed().as_millis() as u64 * RATE / 1_000;
        let first = number;
        while number < due.min(first + 1_000) {
            let packet_id = (number % 60_000) as u16 + 1;
            source.publish("in/1", &number.to_string(), Some(packet_id), false);
            number += 1;
        }
        for _ in first..number {
            let bytes = source.packet().expect("PUBACK");
            assert!(matches!(decode(Version::V311, &bytes), Packet::PubAck(_)));
        }
        published.store(number, Ordering::Release);
        // The load, not a wait for something.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until so many more were published.
fn let_pass(published: &AtomicU64, more: u64) {
    let end = published.load(Ordering::Acquire) + more;
    while published.load(Ordering::Acquire) < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// `kills` and `cuts` in turn. Says how many results came again.
fn withstand(name: &str, beside: &Beside, kills: u32, cuts: u32) {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("flow.toml");
    std::fs::write(&rules, RULES).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let carried = Carried::default();
    let (there, to) = (Arc::clone(&carried), beside.address().to_owned());
    std::thread::spawn(move || proxy(&listener, &to, &there));

    let mut sub = Peer::client(beside.address(), "sub");
    sub.subscribe("out", QoS::AtLeastOnce);
    let results = Arc::new(Results::default());
    let collected = Arc::clone(&results);
    let collector = std::thread::spawn(move || collected.collect(sub));
    let mut flow = Flow::start(&rules, &address);
    let (published, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let source = Peer::client(beside.address(), "source");
    let (counted, stopped) = (Arc::clone(&published), Arc::clone(&stop));
    let publisher = std::thread::spawn(move || publish(source, &counted, &stopped));
    // The first result says that it is subscribed: from here on nothing may be lost.
    while results.times.lock().unwrap().is_empty() {
        std::thread::yield_now();
    }
    let first = results.times.lock().unwrap().iter().position(|&times| times > 0).unwrap() as u64;
    let mut random = 6_u64;
    for fault in 0..kills + cuts {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        // Often before it has caught up with what queued.
        let_pass(&published, (random >> 33) % 1_000);
        assert_eq!(flow.0.try_wait().unwrap(), None, "fault {fault}: it has ended by itself");
        if fault < kills {
            drop(flow);
            let_pass(&published, (random >> 40) % 3_000);
            flow = Flow::start(&rules, &address);
        } else {
            cut(&carried);
        }
        if fault % 5 == 4 {
            results.wait_for(first, published.load(Ordering::Acquire));
        }
    }
    stop.store(true, Ordering::Release);
    publisher.join().unwrap();
    let published = published.load(Ordering::Acquire);
    results.wait_for(first, published);
    assert_eq!(flow.0.try_wait().unwrap(), None, "it has ended by itself");
    drop(flow);
    let mut last = Peer::client(beside.address(), "last");
    last.publish("out", "last", None, false);
    collector.join().unwrap();
    let times = results.times.lock().unwrap();
    let again: u32 = times[first as usize..].iter().map(|&times| times - 1).sum();
    let messages = published - first;
    eprintln!("{name}: {kills} kills, {cuts} cuts, {messages} messages, {again} results again");
}

#[test]
fn nothing_is_stuck_or_lost_beside_mosquitto() {
    let Some(mosquitto) = Beside::mosquitto() else { return };
    withstand("mosquitto", &mosquitto, 2, 2);
}

#[test]
fn nothing_is_stuck_or_lost_beside_weir_broker() {
    withstand("weir broker", &Beside::Weir(Broker::start()), 2, 2);
}

#[test]
#[ignore = "a sweep: make test-long"]
fn nothing_is_stuck_or_lost_in_twenty_kills_and_twenty_cuts() {
    withstand("weir broker", &Beside::Weir(Broker::start()), 20, 20);
    if let Some(mosquitto) = Beside::mosquitto() {
        withstand("mosquitto", &mosquitto, 20, 20);
    }
}
