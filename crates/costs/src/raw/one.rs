//! Sender and receiver on one thread.

use super::{BYTES, Raw, Softirq, Spent, WARM_UP, cpu_time, pin, send};
use anyhow::ensure;
use rustix::net::RecvFlags;
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub(super) fn measure(
    near: &[TcpStream],
    far: &[TcpStream],
    duration: Duration,
    core: usize,
) -> anyhow::Result<Raw> {
    pin(core)?;
    let softirq = Softirq::of(core);
    let [mut sending, mut receiving] = [Spent::default(); 2];
    for _ in 0..WARM_UP {
        send(near)?;
        receive(far)?;
    }
    let until = Instant::now() + duration;
    while Instant::now() < until {
        timed(&mut sending, &softirq, near.len(), || send(near))?;
        timed(&mut receiving, &softirq, far.len(), || receive(far))?;
    }
    Ok(Raw::new(sending, receiving))
}

fn timed(
    spent: &mut Spent,
    softirq: &Softirq,
    messages: usize,
    pass: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (softirq_start, start) = (softirq.time(), cpu_time());
    pass()?;
    spent.cpu += cpu_time() - start;
    spent.softirq += softirq.time().saturating_sub(softirq_start);
    spent.messages += messages as u64;
    Ok(())
}

fn receive(far: &[TcpStream]) -> anyhow::Result<()> {
    let mut buffer = [0; 256];
    for socket in far {
        // Over loopback what was sent is there when the send returns, unless the kernel's network
        // thread has taken over: then it comes when that has had its turn on this core.
        let bytes = loop {
            match rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((bytes, _)) => break bytes,
                Err(rustix::io::Errno::AGAIN) => std::thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        };
        ensure!(bytes == BYTES.len(), "{bytes} bytes came instead of {}", BYTES.len());
    }
    Ok(())
}
