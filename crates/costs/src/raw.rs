//! What the system itself takes for a message, on this machine in this minute: the unit of every
//! target. Absolute microseconds wander by a quarter on a shared machine; ratios to these do not.
//!
//! R is one `send` of 36 bytes over loopback, in turn over as many sockets as a use case has; the
//! receiver waits with epoll on another core, as a broker's clients do, so that a send carries what
//! a real one does: the way into the other's socket, its wake, memory that both cores touch. V is
//! the `recv` there, with its share of the waiting. Both are CPU time, with that of the kernel's
//! network threads (`ksoftirqd`) spread over both.

use anyhow::{Context, ensure};
use rustix::event::epoll;
use rustix::net::{RecvFlags, SendFlags};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A message on the wire: 16 bytes of payload, as the suite's fan-out has it.
const BYTES: [u8; 36] = [0x61; 36];

/// Passes over all sockets before the first that counts.
const WARM_UP: usize = 3;

const EVENTS_MAX: usize = 1024;

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

/// Measures for `duration`, sending on core `cpus[0]` and receiving on core `cpus[1]`.
///
/// # Errors
/// What the system says: too many open files, a core that is not there.
pub fn measure(sockets: usize, duration: Duration, cpus: [usize; 2]) -> anyhow::Result<Raw> {
    ensure!(sockets > 0, "at least one socket");
    let (near, far) = connect(sockets)?;
    let taken = Arc::new(AtomicU64::new(0));
    let receiver = {
        let taken = Arc::clone(&taken);
        std::thread::spawn(move || pin(cpus[1]).and_then(|()| receive(&far, &taken)))
    };
    pin(cpus[0])?;
    let mut sent = 0;
    let mut pass = || -> anyhow::Result<Duration> {
        let start = cpu_time();
        send(&near)?;
        let time = cpu_time() - start;
        sent += near.len() as u64;
        // What is not taken yet would join what comes next in one receive.
        while taken.load(Ordering::Acquire) < sent && !receiver.is_finished() {
            std::hint::spin_loop();
        }
        Ok(time)
    };
    for _ in 0..WARM_UP {
        pass()?;
    }
    let softirq = softirq_us();
    let (mut sending, mut passes) = (Duration::ZERO, 0_u32);
    let until = Instant::now() + duration;
    while Instant::now() < until && !receiver.is_finished() {
        sending += pass()?;
        passes += 1;
    }
    let softirq = softirq_us() - softirq;
    // The end of the streams ends the receiver.
    drop(near);
    let receiving = receiver.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))??;
    let count = f64::from(passes) * sockets as f64;
    let softirq_us = softirq / count;
    let received = taken.load(Ordering::Acquire) as f64;
    Ok(Raw {
        sockets,
        send_us: sending.as_secs_f64() * 1e6 / count + softirq_us / 2.0,
        receive_us: receiving.as_secs_f64() * 1e6 / received + softirq_us / 2.0,
        softirq_us,
    })
}

fn pin(cpu: usize) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).with_context(|| format!("core {cpu}"))
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

/// Takes what comes until the streams end. The result is the thread's CPU time.
fn receive(far: &[TcpStream], taken: &AtomicU64) -> anyhow::Result<Duration> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (at, socket) in far.iter().enumerate() {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&epoll, socket, epoll::EventData::new_u64(at as u64), flags)?;
    }
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut buffer = [0; 256];
    let start = cpu_time();
    loop {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let socket = &far[event.data.u64() as usize];
            match rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Ok(cpu_time() - start),
                Ok((bytes, _)) => {
                    taken.fetch_add((bytes / BYTES.len()) as u64, Ordering::AcqRel);
                }
                Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
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
