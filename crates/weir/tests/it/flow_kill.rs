//! `weir flow run` at QoS 1 with a kept session, killed with SIGKILL again and again: no result is
//! lost, and none comes twice without a redelivery that says so.
//!
//! Between it and `weir broker` stands a proxy that counts packets and kills at numbers that a
//! seed gives. `WEIR_KILLS` and `WEIR_SEED` change how often and when.

use crate::support::Broker;
use crate::support::blocking::decode;
use crate::support::flow::Flow;
use crate::support::mqtt::{self, Peer};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use weir_wire::{Packet, QoS, Version};

const RULES: &str = r#"
[[flow]]
name = "cells"
from = "ud/#"
qos = 1
when = 'has(payload.p.mcc) && has(payload.p.cell_id)'
to = "cells"
publish_qos = 1
"#;

/// A source message matches if its number is even.
fn payload(number: u64) -> String {
    let place = if number.is_multiple_of(2) { r#""mcc":257,"cell_id":1"# } else { r#""temp":21"# };
    format!(r#"{{"tp":"ud","p":{{{place}}},"n":{number}}}"#)
}

fn number(payload: &str) -> u64 {
    payload.rsplit_once("\"n\":").unwrap().1.trim_end_matches('}').parse().unwrap()
}

/// What the proxy saw.
#[derive(Default)]
struct Seen {
    packets: u64,
    /// The process to kill, and at which packet.
    kill: Option<(Pid, u64)>,
    /// How often a message was delivered to the flow.
    deliveries: BTreeMap<u64, u32>,
    /// Of the connection there is: messages delivered and not acknowledged, in their order.
    open: VecDeque<(u16, u64)>,
    /// Results on their way: packet identifier and number.
    results: BTreeMap<u16, u64>,
    /// Messages whose result the broker acknowledged on this connection.
    settled: BTreeSet<u64>,
    faults: Vec<String>,
}

impl Seen {
    fn toward_flow(&mut self, bytes: &[u8]) {
        match decode(Version::V5, bytes) {
            Packet::Publish(_) => {
                let message = mqtt::message(Version::V5, bytes).unwrap();
                let number = number(&message.payload);
                let times = self.deliveries.entry(number).or_default();
                *times += 1;
                if *times > 1 && !message.dup {
                    self.faults.push(format!("{number} came again without DUP"));
                }
                self.open.push_back((message.packet_id, number));
            }
            Packet::PubAck(ack) => {
                let number = self.results.remove(&ack.packet_id.value());
                self.settled.extend(number);
            }
            _ => {}
        }
    }

    fn out_of_flow(&mut self, bytes: &[u8]) {
        match decode(Version::V5, bytes) {
            Packet::Publish(_) => {
                let message = mqtt::message(Version::V5, bytes).unwrap();
                self.results.insert(message.packet_id, number(&message.payload));
            }
            Packet::PubAck(ack) => match self.open.pop_front() {
                Some((packet_id, number)) if packet_id == ack.packet_id.value() => {
                    if number % 2 == 0 && !self.settled.contains(&number) {
                        self.faults.push(format!("{number} acknowledged before its result"));
                    }
                }
                other => self.faults.push(format!("{ack:?} where {other:?} is next")),
            },
            _ => {}
        }
    }

    /// One packet more. Kills, if it is time.
    fn count(&mut self) {
        self.packets += 1;
        if let Some((pid, at)) = self.kill
            && self.packets >= at
        {
            kill_process(pid, Signal::KILL).unwrap();
            self.kill = None;
        }
    }
}

/// Passes packets between the flow and the broker, one connection after the other.
fn proxy(listener: &TcpListener, broker: &str, seen: &Arc<Mutex<Seen>>) {
    for flow in listener.incoming().map_while(Result::ok) {
        let broker = TcpStream::connect(broker).unwrap();
        {
            let mut seen = seen.lock().unwrap();
            seen.open.clear();
            seen.results.clear();
            seen.settled.clear();
        }
        let (to_broker, to_flow) = (broker.try_clone().unwrap(), flow.try_clone().unwrap());
        let there = Arc::clone(seen);
        let back = std::thread::spawn(move || pump(broker, to_flow, &there, Seen::toward_flow));
        pump(flow, to_broker, seen, Seen::out_of_flow);
        back.join().unwrap();
    }
}

fn pump(from: TcpStream, mut to: TcpStream, seen: &Mutex<Seen>, note: fn(&mut Seen, &[u8])) {
    let ends = [from.try_clone().unwrap(), to.try_clone().unwrap()];
    let mut from = Peer::new(from, Version::V5);
    while let Some(bytes) = from.packet() {
        let mut seen = seen.lock().unwrap();
        seen.count();
        note(&mut seen, &bytes);
        drop(seen);
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // The other direction ends with this one. It may have ended already.
    ends.iter().for_each(|end| drop(end.shutdown(Shutdown::Both)));
}

/// How often each result came, and who waits for them.
#[derive(Default)]
struct Results {
    came: Mutex<BTreeMap<u64, u32>>,
    changed: Condvar,
}

impl Results {
    /// Reads results until the one that says it is the last.
    fn collect(&self, mut sub: Peer) {
        loop {
            let result = sub.message();
            if result.payload == "last" {
                return;
            }
            sub.acknowledge(result.packet_id);
            *self.came.lock().unwrap().entry(number(&result.payload)).or_default() += 1;
            self.changed.notify_all();
        }
    }

    /// Waits until so many different ones have come.
    fn wait_for(&self, count: u64) {
        let came = self.came.lock().unwrap();
        let is_short = |came: &mut BTreeMap<u64, u32>| (came.len() as u64) < count;
        let wait = Duration::from_secs(60);
        let (came, timeout) = self.changed.wait_timeout_while(came, wait, is_short).unwrap();
        assert!(!timeout.timed_out(), "{} of {count} results came: some are lost", came.len());
    }

    /// As [`Results::wait_for`], but ends when the process does.
    fn wait_while_alive(&self, flow: &mut Flow, count: u64) {
        let mut came = self.came.lock().unwrap();
        while (came.len() as u64) < count && flow.is_alive() {
            let wait = Duration::from_millis(50);
            came = self.changed.wait_timeout(came, wait).unwrap().0;
        }
    }
}

/// Publishes the messages from `numbers` on, at QoS 1, and takes their acknowledgements.
fn publish(source: &mut Peer, numbers: std::ops::Range<u64>) {
    for number in numbers.clone() {
        let packet_id = (number % 60_000) as u16 + 1;
        source.publish("ud/1", &payload(number), Some(packet_id), false);
    }
    numbers.for_each(|_| {
        source.acknowledged();
    });
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Messages published between two looks at the results.
const BATCH: u64 = 100;

/// A kill comes within so many packets of the one before.
const PACKETS_MAX: u64 = 2_000;

#[test]
fn killed_at_any_packet_it_loses_no_result_and_repeats_only_what_was_redelivered() {
    let (kills, seed) = (variable("WEIR_KILLS", 3), variable("WEIR_SEED", 6));
    eprintln!("{kills} kills, seed {seed}");
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("flow.toml");
    std::fs::write(&rules, RULES).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (there, to) = (Arc::clone(&seen), broker.address.clone());
    std::thread::spawn(move || proxy(&listener, &to, &there));

    let results = Arc::new(Results::default());
    let mut sub = Peer::client(&broker.address, "sub");
    sub.subscribe("cells", QoS::AtLeastOnce);
    let collected = Arc::clone(&results);
    let collector = std::thread::spawn(move || collected.collect(sub));
    let mut source = Peer::client(&broker.address, "source");

    let mut flow = Flow::start(&rules, &address, "killed");
    let mut next = 0;
    let mut random = seed;
    // The first result says that it is subscribed: from here on nothing may be lost.
    while results.came.lock().unwrap().is_empty() {
        publish(&mut source, next..next + 2);
        next += 2;
    }
    let first = *results.came.lock().unwrap().keys().next().unwrap();
    for _ in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        {
            let mut seen = seen.lock().unwrap();
            let at = seen.packets + 1 + (random >> 33) % PACKETS_MAX;
            seen.kill = Some((flow.pid(), at));
        }
        while flow.is_alive() {
            publish(&mut source, next..next + BATCH);
            next += BATCH;
            // Of the last batches some may not have come, so that there is work at any time.
            results.wait_while_alive(&mut flow, (next - first).saturating_sub(5 * BATCH) / 2);
        }
        flow = Flow::start(&rules, &address, "killed");
    }
    publish(&mut source, next..next + BATCH);
    next += BATCH;
    let expected = (next - first).div_ceil(2);
    results.wait_for(expected);
    assert_eq!(flow.stop(), Some(0));
    source.publish("cells", "last", None, false);
    collector.join().unwrap();

    let (came, seen) = (results.came.lock().unwrap(), seen.lock().unwrap());
    assert_eq!(came.len() as u64, expected, "each of {first} to {next}, seed {seed}");
    eprintln!("{kills} kills, {next} messages: {}", judge(&came, &seen));
}

/// Fails at a result that should not be there, or too often. Says what came again.
fn judge(came: &BTreeMap<u64, u32>, seen: &Seen) -> String {
    let first = seen.faults.iter().take(5).collect::<Vec<_>>();
    assert!(first.is_empty(), "{} faults, such as {first:?}", seen.faults.len());
    let mut twice = 0;
    for (number, &times) in came {
        assert_eq!(number % 2, 0, "{number} does not match");
        let deliveries = seen.deliveries[number];
        assert!(times <= deliveries, "{number}: {times} results of {deliveries} deliveries");
        twice += u32::from(times > 1);
    }
    let again = seen.deliveries.values().filter(|&&times| times > 1).count();
    format!("{again} redelivered, {} results, {twice} of them more than once", came.len())
}
