//! What the system itself takes for a message, on this machine in this minute: the unit of every
//! target. Absolute microseconds wander by a quarter on a shared machine; ratios to these do not.
//!
//! R is one `send` of 36 bytes over loopback, in turn over as many sockets as a use case has; V the
//! `recv` of it at the other end. Both are CPU time of the thread, with that of the kernel's
//! network thread (`ksoftirqd`) of its core. There are two forms, see [`Form`].

mod one;
mod two;

use anyhow::{Context, ensure};
use rustix::net::SendFlags;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// A message on the wire: 16 bytes of payload, as the suite's fan-out has it.
const BYTES: [u8; 36] = [0x61; 36];

/// Passes over all sockets before the first that counts.
const WARM_UP: usize = 3;

/// Where the receiver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// On the sender's thread, passive: nobody waits for what is sent, and it is received after
    /// the whole pass. A send carries the way into the other's socket, on a cache that the receives
    /// of the last pass have filled. The targets are stated in this form.
    One,
    /// On another core, waiting with epoll, as a broker's clients do: a send carries the wake too,
    /// and memory that both cores touch. A receive carries its share of the waiting.
    Two,
}

impl Form {
    /// Both, in the order of tables.
    pub const ALL: [Self; 2] = [Self::One, Self::Two];

    /// In tables and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Two => "two",
        }
    }
}

/// CPU microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Raw {
    /// Of a send.
    pub send_us: f64,
    /// Of a receive.
    pub receive_us: f64,
    /// The kernel threads' part of a send.
    pub send_softirq_us: f64,
    /// The kernel threads' part of a receive.
    pub receive_softirq_us: f64,
}

impl Raw {
    /// P: what a message from one client to another costs at least at QoS 1. Two sends (message,
    /// PUBACK) and two receives (message, PUBACK).
    pub fn pair_us(&self) -> f64 {
        2.0 * (self.send_us + self.receive_us)
    }

    fn new(sending: Spent, receiving: Spent) -> Self {
        Self {
            send_us: sending.each_us(sending.cpu + sending.softirq),
            receive_us: receiving.each_us(receiving.cpu + receiving.softirq),
            send_softirq_us: sending.each_us(sending.softirq),
            receive_softirq_us: receiving.each_us(receiving.softirq),
        }
    }
}

/// Measures one form for about `duration`: sends on core `cores[0]`, receives there or on core
/// `cores[1]`. The calling thread stays on `cores[0]` afterwards.
///
/// # Errors
/// What the system says: too many open files, a core that is not there.
pub fn measure(
    form: Form,
    sockets: usize,
    duration: Duration,
    cores: [usize; 2],
) -> anyhow::Result<Raw> {
    ensure!(sockets > 0, "at least one socket");
    let (near, far) = connect(sockets).with_context(|| format!("{sockets} pairs of sockets"))?;
    match form {
        Form::One => one::measure(&near, &far, duration, cores[0]),
        Form::Two => two::measure(near, far, duration, cores),
    }
}

/// CPU time of one side and what it did in it.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    cpu: Duration,
    /// Of the kernel's network thread.
    softirq: Duration,
    messages: u64,
}

impl Spent {
    fn each_us(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.messages.max(1) as f64
    }
}

/// The sending ends, and the receiving ones.
fn connect(sockets: usize) -> anyhow::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let pair = |_| -> anyhow::Result<(TcpStream, TcpStream)> {
        let near = TcpStream::connect(address)?;
        let (far, _) = listener.accept()?;
        near.set_nodelay(true)?;
        far.set_nonblocking(true)?;
        Ok((near, far))
    };
    let pairs: anyhow::Result<Vec<_>> = (0..sockets).map(pair).collect();
    Ok(pairs?.into_iter().unzip())
}

fn send(near: &[TcpStream]) -> anyhow::Result<()> {
    for socket in near {
        let sent = rustix::net::send(socket, &BYTES, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        ensure!(sent == BYTES.len(), "a send was cut short");
    }
    Ok(())
}

fn pin(core: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("core {core}"))
}

/// Of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The kernel's network thread of a core: it does what a send or receive leaves to it.
struct Softirq(Option<PathBuf>);

impl Softirq {
    /// Nothing is counted where the thread cannot be seen.
    fn of(core: usize) -> Self {
        let name = format!("ksoftirqd/{core}");
        let mut all = procfs::process::all_processes().into_iter().flatten().flatten();
        let found = all.find(|process| process.stat().is_ok_and(|stat| stat.comm == name));
        Self(found.map(|process| format!("/proc/{}/schedstat", process.pid).into()))
    }

    /// Its CPU time since boot.
    fn time(&self) -> Duration {
        let text = self.0.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        let ns = text.and_then(|text| text.split_whitespace().next()?.parse().ok());
        Duration::from_nanos(ns.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_that_is_sent_is_received_in_both_forms() {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        let cores: Vec<usize> =
            (0..CpuSet::MAX_CPU).filter(|&at| allowed.is_set(at)).take(2).collect();
        let [Some(&first), last] = [cores.first(), cores.last()] else { return };
        let cores = [first, *last.unwrap_or(&first)];
        // Pinning is of the thread: the next test of this process has a thread of its own.
        let measured = std::thread::spawn(move || {
            Form::ALL.map(|form| measure(form, 20, Duration::from_millis(20), cores).unwrap())
        });
        for raw in measured.join().unwrap() {
            assert!(raw.send_us > 0.0 && raw.receive_us > 0.0, "{raw:?}");
            let pair_us = 2.0 * raw.send_us + 2.0 * raw.receive_us;
            assert!((raw.pair_us() - pair_us).abs() < 1e-9);
        }
    }
}
