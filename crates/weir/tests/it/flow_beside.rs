//! `weir flow run` beside a broker, killed with SIGKILL or cut off again and again while messages
//! of QoS 1 come at a steady rate. Every result comes at least once, and nothing is stuck.
//!
//! A proxy stands between it and the broker, so that a cut loses what is on its way. What is killed
//! stays away for some messages: those queue at the broker, and Mosquitto 2.0 then sends more than
//! our Receive Maximum.

use crate::support::flow::Flow;
use crate::support::mosquitto::Mosquitto;
use crate::support::mqtt::Peer;
use crate::support::{Broker, between};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use weir_wire::QoS;

const RULES: &str = "[[flow]]\nname = \"echo\"\nfrom = \"in/#\"\nqos = 1\nto = \"out\"\n";

/// Messages a second.
const RATE: u64 = 3_000;

/// Whoever waits longer for the next result waits for ever.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Both sockets of the connection that the proxy carries.
type Carried = Arc<Mutex<Vec<TcpStream>>>;

/// Carries bytes between the flow and the broker, for one connection after the other.
fn proxy(listener: &TcpListener, broker: &str, carried: &Carried) {
    for flow in listener.incoming().map_while(Result::ok) {
        let Ok(broker) = TcpStream::connect(broker) else { return };
        *carried.lock().unwrap() = between::carry(flow, broker).into();
    }
}

fn cut(carried: &Carried) {
    between::cut(carried.lock().unwrap().drain(..));
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

    /// The number of the first that comes: the flow is subscribed then, and from there on nothing
    /// may be lost.
    fn first(&self) -> u64 {
        let times = self.times.lock().unwrap();
        let times = self.changed.wait_while(times, |times| times.is_empty()).unwrap();
        times.iter().position(|&times| times > 0).unwrap() as u64
    }

    /// Waits until the messages from `first` to the one before `end` have their results. How long
    /// that takes in all is the machine's affair; that the next one comes is not.
    fn wait_for(&self, first: u64, end: u64) {
        let mut times = self.times.lock().unwrap();
        // Those before it have come: to look at all for each result would take all the time.
        let mut next = first as usize;
        while (next as u64) < end {
            let missing = next;
            let is_missing = |times: &mut Vec<u32>| {
                next += times.iter().skip(next).take_while(|&&times| times > 0).count();
                next == missing
            };
            let waited = self.changed.wait_timeout_while(times, STUCK_AFTER, is_missing);
            let timeout;
            (times, timeout) = waited.unwrap();
            let later = || times.iter().skip(missing).filter(|&&times| times > 0).count();
            assert!(!timeout.timed_out(), "{missing} is lost, or all is stuck: {} came", later());
        }
    }
}

/// How many messages the broker has accepted, and who waits for more.
#[derive(Default)]
struct Published {
    count: Mutex<u64>,
    changed: Condvar,
}

impl Published {
    fn count(&self) -> u64 {
        *self.count.lock().unwrap()
    }

    /// Waits for so many more.
    fn wait_for(&self, more: u64) {
        let count = self.count.lock().unwrap();
        let end = *count + more;
        drop(self.changed.wait_while(count, |count| *count < end).unwrap());
    }

    /// Publishes at the rate until `stop` has no sender any more.
    fn publish(&self, mut source: Peer, stop: &Receiver<()>) {
        let begun = Instant::now();
        let mut number = 0;
        // The pace of the load.
        while stop.recv_timeout(Duration::from_millis(5)) == Err(RecvTimeoutError::Timeout) {
            let due = begun.elapsed().as_millis() as u64 * RATE / 1_000;
            let first = number;
            while number < due.min(first + 1_000) {
                let packet_id = (number % 60_000) as u16 + 1;
                source.publish("in/1", &number.to_string(), Some(packet_id), false);
                number += 1;
            }
            for _ in first..number {
                source.acknowledged();
            }
            *self.count.lock().unwrap() = number;
            self.changed.notify_all();
        }
    }
}

/// `kills` and `cuts` in turn. Says how many results came again.
fn withstand(name: &str, broker: &str, kills: u32, cuts: u32) {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("flow.toml");
    std::fs::write(&rules, RULES).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let carried = Carried::default();
    let (there, to) = (Arc::clone(&carried), broker.to_owned());
    std::thread::spawn(move || proxy(&listener, &to, &there));

    let mut sub = Peer::client(broker, "sub");
    sub.subscribe("out", QoS::AtLeastOnce);
    let results = Arc::new(Results::default());
    let collected = Arc::clone(&results);
    let collector = std::thread::spawn(move || collected.collect(sub));
    let mut flow = Flow::start(&rules, &address, "beside");
    let (published, (stop, stopped)) = (Arc::<Published>::default(), channel());
    let source = Peer::client(broker, "source");
    let counted = Arc::clone(&published);
    let publisher = std::thread::spawn(move || counted.publish(source, &stopped));
    let first = results.first();
    let mut random = 6_u64;
    for fault in 0..kills + cuts {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        // Often before it has caught up with what queued.
        published.wait_for((random >> 33) % 1_000);
        assert!(flow.is_alive(), "fault {fault}: it has ended by itself");
        if fault < kills {
            drop(flow);
            published.wait_for((random >> 40) % 3_000);
            flow = Flow::start(&rules, &address, "beside");
        } else {
            cut(&carried);
        }
        if fault % 5 == 4 {
            results.wait_for(first, published.count());
        }
    }
    drop(stop);
    publisher.join().unwrap();
    let published = published.count();
    results.wait_for(first, published);
    assert!(flow.is_alive(), "it has ended by itself");
    drop(flow);
    let mut last = Peer::client(broker, "last");
    last.publish("out", "last", None, false);
    collector.join().unwrap();
    let times = results.times.lock().unwrap();
    let again: u32 = times[first as usize..].iter().map(|&times| times - 1).sum();
    let messages = published - first;
    eprintln!("{name}: {kills} kills, {cuts} cuts, {messages} messages, {again} results again");
}

fn beside_weir_broker(kills: u32, cuts: u32) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir.toml");
    // On a busy machine it is away for longer than 10,000 messages, and then the oldest is dropped.
    let limits = "[limits]\nqueue_messages_max = 1000000\nqueue_bytes_max = 1073741824\n";
    std::fs::write(&config, limits).unwrap();
    let broker = Broker::start_with(&["--config", config.to_str().unwrap()]);
    withstand("weir broker", &broker.address, kills, cuts);
}

/// Unless it is not installed.
fn beside_mosquitto(kills: u32, cuts: u32) {
    // Its queue holds 1,000 messages by default and drops what comes then.
    let lines = "allow_anonymous true\nmax_queued_messages 0\nset_tcp_nodelay true";
    if let Some(mosquitto) = Mosquitto::start(lines) {
        withstand("mosquitto", &format!("127.0.0.1:{}", mosquitto.port), kills, cuts);
    }
}

#[test]
fn nothing_is_stuck_or_lost_beside_mosquitto() {
    beside_mosquitto(2, 2);
}

#[test]
fn nothing_is_stuck_or_lost_beside_weir_broker() {
    beside_weir_broker(2, 2);
}

#[test]
#[ignore = "a sweep: make test-long"]
fn nothing_is_stuck_or_lost_in_twenty_kills_and_twenty_cuts() {
    beside_weir_broker(20, 20);
    beside_mosquitto(20, 20);
}
