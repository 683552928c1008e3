//! What the system's means are worth where a message goes from one connection to another, and an
//! acknowledgement back: a bare loop per means, none of them a broker, with the same load.
//!
//!     cargo run --release -p weir-reactor --example pairs -- [PAIRS] [RATE] [SECONDS] [ROUNDS]
//!
//! Prints for each the CPU of its thread per message, with what `ksoftirqd` did on its core, and
//! that by the CPU of the plain loop in the same round. Pinned to the first core, the load to the
//! second.

mod load;
mod plain;
mod ring;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

type Failure = Box<dyn Error>;

/// Bytes of a message and of an acknowledgement.
const MESSAGE_BYTES: usize = 36;
const ACK_BYTES: usize = 4;

/// Before anything is counted.
const WARM_UP: Duration = Duration::from_secs(1);

/// A way to do the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// One recv per readable socket, and the sends when all are read.
    Plain,
    /// Each send at once.
    AtOnce,
    /// As `Plain`, with so many events per wait.
    Events(usize),
    /// As `Plain`, after a rest of so many microseconds between turns.
    Rest(u64),
    /// As `Plain`, with `TCP_QUICKACK` off or on, set once per socket.
    QuickAck(bool),
    /// As `Plain`, with `SO_BUSY_POLL`.
    BusyPoll,
    /// `io_uring`: multishot receives into provided buffers, all sends with one submission.
    Ring,
}

const ALL: [Means; 9] = [
    Means::Plain,
    Means::AtOnce,
    Means::Events(64),
    Means::Events(8192),
    Means::Rest(500),
    Means::QuickAck(false),
    Means::QuickAck(true),
    Means::BusyPoll,
    Means::Ring,
];

/// The near ends: publishers first, then their subscribers in the same order.
struct Ends {
    sockets: Vec<OwnedFd>,
    pairs: usize,
}

impl Ends {
    /// What of `bytes` from this end goes where: an acknowledgement back, a message on. Of a
    /// subscriber, whose acknowledgements end here, nothing.
    fn answers(&self, from: usize, bytes: usize) -> Option<[(usize, usize); 2]> {
        let messages = bytes / MESSAGE_BYTES;
        (from < self.pairs && messages > 0)
            .then(|| [(from, messages * ACK_BYTES), (from + self.pairs, messages * MESSAGE_BYTES)])
    }
}

/// Whether a loop is to go on, and what it has done.
struct Watch {
    begun: Instant,
    measured: Duration,
    /// CPU and messages when counting began.
    from: Option<(Duration, u64)>,
    messages: u64,
    softirq: Softirq,
}

impl Watch {
    fn new(seconds: u64) -> Self {
        let measured = Duration::from_secs(seconds);
        Self { begun: Instant::now(), measured, from: None, messages: 0, softirq: Softirq::here() }
    }

    /// Called every turn; says when it is over.
    fn is_over(&mut self, messages: u64) -> bool {
        self.messages += messages;
        let passed = self.begun.elapsed();
        if self.from.is_none() && passed >= WARM_UP {
            self.from = Some((thread_cpu() + self.softirq.time(), self.messages));
        }
        passed >= WARM_UP + self.measured
    }

    /// Microseconds per message.
    fn cpu_us(&self) -> f64 {
        let (cpu, messages) = self.from.unwrap_or_default();
        let cpu = thread_cpu() + self.softirq.time() - cpu;
        cpu.as_secs_f64() * 1e6 / (self.messages - messages).max(1) as f64
    }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The kernel's thread that takes network work over on this core.
struct Softirq(Option<String>);

impl Softirq {
    fn here() -> Self {
        let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let is_it = |folder: &std::path::Path| {
            std::fs::read_to_string(folder.join("comm")).is_ok_and(|name| name == "ksoftirqd/0\n")
        };
        let folder = folders.map(|entry| entry.path()).find(|folder| is_it(folder));
        Self(folder.map(|folder| folder.join("schedstat").display().to_string()))
    }

    fn time(&self) -> Duration {
        let text = self.0.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        let ns = text.and_then(|text| text.split(' ').next()?.parse().ok());
        Duration::from_nanos(ns.unwrap_or(0))
    }
}

fn pin(core: usize) -> Result<(), Failure> {
    let mut cores = CpuSet::new();
    cores.set(core);
    Ok(sched_setaffinity(None, &cores)?)
}

/// Ended with its owner.
struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, address, pairs, rate] = &arguments[..]
        && word == "load"
    {
        pin(1)?;
        return load::run(address.parse()?, pairs.parse()?, rate.parse()?);
    }
    let number =
        |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse::<u64>());
    let (pairs, rate) = (number(0, 9_000)? as usize, number(1, 20_000)?);
    let (seconds, rounds) = (number(2, 4)?, number(3, 3)?);
    pin(0)?;
    println!("{pairs} pairs, {rate} messages/s; us per message, and by the plain loop's");
    for round in 1..=rounds {
        let mut plain_us = 0.0;
        for means in ALL {
            let us = measure(means, pairs, rate, seconds)?;
            if means == Means::Plain {
                plain_us = us;
            }
            println!("{round} {:<16} {us:6.2} {:5.2}", format!("{means:?}"), us / plain_us);
        }
    }
    Ok(())
}

fn measure(means: Means, pairs: usize, rate: u64, seconds: u64) -> Result<f64, Failure> {
    let listener = weir_reactor::listen("127.0.0.1:0".parse()?)?;
    let address = listener.local_addr()?.to_string();
    let load = Command::new(std::env::current_exe()?)
        .args(["load", &address, &pairs.to_string(), &rate.to_string()])
        .spawn()?;
    let load = Load(load);
    let sockets = accept(&listener, 2 * pairs)?;
    let ends = Ends { sockets, pairs };
    let mut watch = Watch::new(seconds);
    match means {
        Means::Ring => ring::serve(&ends, &mut watch)?,
        _ => plain::serve(&ends, means, &mut watch)?,
    }
    drop(load);
    Ok(watch.cpu_us())
}

/// The far end opens its connections one after the other.
fn accept(listener: &TcpListener, count: usize) -> Result<Vec<OwnedFd>, Failure> {
    let accept = |_| {
        let (stream, _): (TcpStream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(OwnedFd::from(stream))
    };
    (0..count).map(accept).collect()
}
