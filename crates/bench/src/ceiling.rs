//! What one core of this host bears as a load generator, against a broker that does next to
//! nothing, on the other core.

use crate::host::{self, Pinning};
use anyhow::{Context, bail};
use rustix::process::Pid;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_load::outcome::{End, Phase};
use weir_load::plan::{ConnectPlan, Group, Phases, ProtocolVersion, Publish, Subscription};
use weir_load::{Interval, Outcome, Plan, Stop};

const PHASES: Phases = Phases { warm_up_ms: 500, measure_ms: 1_500, drain_ms: 1_000 };

/// The null broker as a process; dropping it ends it.
struct Null {
    child: Child,
    address: SocketAddr,
}

impl Null {
    fn start(program: &Path, core: Option<usize>) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(["bench", "null-broker"])
            // It ends with its input.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the null broker")?;
        if let Some(core) = core {
            let mut cores = rustix::thread::CpuSet::new();
            cores.set(core);
            let pid = Pid::from_child(&child);
            rustix::thread::sched_setaffinity(Some(pid), &cores)
                .context("cannot pin the null broker")?;
        }
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        match line.trim().parse() {
            Ok(address) => Ok(Self { child, address }),
            Err(_) => {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                bail!("the null broker did not say where it listens: {line:?}")
            }
        }
    }
}

impl Drop for Null {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One shape of load.
struct Shape {
    name: &'static str,
    subscribers: u32,
    filter: &'static str,
    publishers: u32,
    rate_per_s: f64,
    qos: u8,
}

const SHAPES: [Shape; 2] = [
    Shape {
        name: "fan-out, QoS 0, 20 publishers, 1,000 subscribers, 16 B",
        subscribers: 1_000,
        filter: "test/#",
        publishers: 20,
        rate_per_s: 100.0,
        qos: 0,
    },
    Shape {
        name: "pairs, QoS 1, 1,000 of them, 16 B, sent and received",
        subscribers: 1_000,
        filter: "test/{i}",
        publishers: 1_000,
        rate_per_s: 40.0,
        qos: 1,
    },
];

/// Measures every shape; about 6 s. `program` is this very program.
///
/// # Errors
/// A null broker that does not start, or a host that bears no load at all.
pub fn measure(program: &Path) -> anyhow::Result<String> {
    let pinning = Pinning::plan(true);
    let mut text = String::from("One core of the load generator, against a null broker ");
    let place = if pinning.load_core.is_some() { "on another core" } else { "on the same core" };
    let _ = writeln!(text, "{place}:");
    for shape in &SHAPES {
        let null = Null::start(program, pinning.broker_core)?;
        let (rate, cpu_us) = run(shape, null.address, pinning.load_core)?;
        let ceiling = 1e6 / cpu_us;
        let _ = writeln!(
            text,
            "  {}:\n    {ceiling:.0} messages per core-second ({cpu_us:.2} us each, measured at \
             {rate:.0}/s)",
            shape.name
        );
    }
    Ok(text)
}

/// Messages a second received in measure, and the generator's CPU time for each.
fn run(shape: &Shape, target: SocketAddr, core: Option<usize>) -> anyhow::Result<(f64, f64)> {
    let plan = plan(shape, target);
    let outcome = std::thread::spawn(move || {
        if let Some(core) = core {
            host::pin_this_thread(core);
        }
        weir_load::run(&plan, &Stop::default(), &mut |_| {})
    });
    let Ok(outcome) = outcome.join() else { bail!("the load generator broke down") };
    let outcome: Outcome = outcome?;
    if outcome.end != End::Completed {
        bail!("the load against the null broker did not finish: {:?}", outcome.end);
    }
    match of_intervals(&outcome.intervals) {
        Some(figures) => Ok(figures),
        None => bail!("nothing came back from the null broker"),
    }
}

/// Of the measure phase; nothing where no message came.
fn of_intervals(intervals: &[Interval]) -> Option<(f64, f64)> {
    let in_measure = intervals.iter().filter(|interval| interval.phase == Phase::Measure);
    let (mut received, mut cpu_us, mut wall_us) = (0, 0.0, 0);
    for interval in in_measure {
        received += interval.received;
        wall_us += interval.length_us;
        cpu_us += interval.generator_cpu_cores * interval.length_us as f64;
    }
    let messages = received as f64;
    (received > 0).then_some((messages * 1e6 / wall_us as f64, cpu_us / messages))
}

fn plan(shape: &Shape, target: SocketAddr) -> Plan {
    let group = |name: &str, clients| Group {
        name: name.into(),
        clients,
        client_id: format!("w{{run}}-{name}-{{i}}"),
        subscriptions: Vec::new(),
        publish: None,
        ..Group::default()
    };
    let mut subscribers = group("sub", shape.subscribers);
    subscribers.subscriptions.push(Subscription::plain(shape.filter, shape.qos));
    let mut publishers = group("pub", shape.publishers);
    publishers.publish = Some(Publish {
        topic: "test/{i}".into(),
        qos: shape.qos,
        rate_per_s: shape.rate_per_s,
        payload_bytes: 16,
        retain: false,
        ..Publish::default()
    });
    Plan {
        version: ProtocolVersion::V311,
        run: std::process::id() as u16,
        keep_alive_s: 300,
        connect: ConnectPlan { rate_per_s: 5_000.0, timeout_ms: 10_000 },
        ..Plan::new(target, vec![subscribers, publishers], PHASES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_those_of_measure_each_interval_by_its_length() {
        let of = |phase, length_us, received, generator_cpu_cores| Interval {
            phase,
            length_us,
            received,
            generator_cpu_cores,
            ..Interval::default()
        };
        let intervals = [
            of(Phase::WarmUp, 1_000_000, 9_999, 1.0),
            of(Phase::Measure, 1_000_000, 1_000, 0.5),
            of(Phase::Measure, 500_000, 2_000, 0.8),
        ];
        assert_eq!(of_intervals(&intervals), Some((2_000.0, 300.0)));
        assert_eq!(of_intervals(&intervals[..1]), None);
    }
}
