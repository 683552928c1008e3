//! What the system itself takes for a message, on this machine in this minute: the unit of every
//! target. Absolute microseconds wander by a quarter on a shared machine; ratios to these do not.
//!
//! R is one `send` of 36 bytes over loopback, in turn over as many sockets as a use case has, V the
//! `recv` of them. Both are CPU time, with the kernel threads' share that works for the network
//! (`ksoftirqd`) spread over both.

use anyhow::{Context, ensure};
use rustix::net::{RecvFlags, SendFlags};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A message on the wire: 16 bytes of payload, as the suite's fan-out has it.
const BYTES: [u8; 36] = [0x61; 36];

/// Passes over all sockets before the first that counts.
const WARM_UP: usize = 3;

/// CPU microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Raw {
    /// Sockets that took turns.
    pub sockets: usize,
    /// Of a send.
    pub send_us: f64,
    /// Of a receive.
    pub receive_us: f64,
    /// Of the kernel's threads, part of both of the above.
    pub softirq_us: f64,
}

impl Raw {
    /// What a message from one client to another costs at least at QoS 1: two sends (message,
    /// PUBACK) and two receives (message, PUBACK).
    pub fn pair_us(&self) -> f64 {
        2.0 * (self.send_us + self.receive_us)
    }
}

/// Measures for `duration` on core `cpu`.
///
/// # Errors
/// What the system says: too many open files, a core that is not there.
pub fn measure(sockets: usize, duration: Duration, cpu: usize) -> anyhow::Result<Raw> {
    ensure!(sockets > 0, "at least one socket");
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("core {cpu}"))?;
    let pairs = connect(sockets)?;
    for _ in 0..WARM_UP {
        send(&pairs)?;
        receive(&pairs)?;
    }
    let softirq = softirq_us();
    let (mut sending, mut receiving, mut passes) = (Duration::ZERO, Duration::ZERO, 0_u32);
    let until = Instant::now() + duration;
    while Instant::now() < until {
        let start = cpu_time();
        send(&pairs)?;
        let sent = cpu_time();
        receive(&pairs)?;
        sending += sent - start;
        receiving += cpu_time() - sent;
        passes += 1;
    }
    let count = f64::from(passes) * sockets as f64;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / count;
    let softirq_us = (softirq_us() - softirq) / count;
    Ok(Raw {
        sockets,
        send_us: each(sending) + softirq_us / 2.0,
        receive_us: each(receiving) + softirq_us / 2.0,
        softirq_us,
    })
}

/// One end that sends and one that receives.
type Pair = (TcpStream, TcpStream);

fn connect(sockets: usize) -> anyhow::Result<Vec<Pair>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let pair = |_| -> anyhow::Result<Pair> {
        let near = TcpStream::connect(address)?;
        let (far, _) = listener.accept()?;
        near.set_nodelay(true)?;
        far.set_nonblocking(true)?;
        Ok((near, far))
    };
    (0..sockets).map(pair).collect()
}

fn send(pairs: &[Pair]) -> anyhow::Result<()> {
    for (near, _) in pairs {
        let sent = rustix::net::send(near, &BYTES, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?;
        ensure!(sent == BYTES.len(), "a send was cut short");
    }
    Ok(())
}

fn receive(pairs: &[Pair]) -> anyhow::Result<()> {
    let mut buffer = [0; 64];
    for (_, far) in pairs {
        let (received, _) = rustix::net::recv(far, &mut buffer[..], RecvFlags::DONTWAIT)?;
        ensure!(received == BYTES.len(), "not all that was sent is there");
    }
    Ok(())
}

/// Of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// CPU time of the kernel's network threads since boot, in microseconds; 0 where none can be seen.
pub fn softirq_us() -> f64 {
    let ticks: u64 = procfs::process::all_processes()
        .into_iter()
        .flatten()
        .filter_map(|process| process.ok()?.stat().ok())
        .filter(|stat| stat.comm.starts_with("ksoftirqd/"))
        .map(|stat| stat.utime + stat.stime)
        .sum();
    ticks as f64 * 1e6 / procfs::ticks_per_second() as f64
}
