//! The sender on one core, the receiver waiting on another.

use super::{BYTES, Raw, Softirq, Spent, WARM_UP, cpu_time, pin, send};
use rustix::event::epoll;
use rustix::net::RecvFlags;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const EVENTS_MAX: usize = 1024;

pub(super) fn measure(
    near: Vec<TcpStream>,
    far: Vec<TcpStream>,
    duration: Duration,
    cores: [usize; 2],
) -> anyhow::Result<Raw> {
    let taken = Arc::new(AtomicU64::new(0));
    let receiver = {
        let taken = Arc::clone(&taken);
        std::thread::spawn(move || pin(cores[1]).and_then(|()| receive(&far, &taken, cores[1])))
    };
    pin(cores[0])?;
    let softirq = Softirq::of(cores[0]);
    let mut sent = 0;
    let mut pass = |spent: &mut Spent| -> anyhow::Result<()> {
        let (softirq_start, start) = (softirq.time(), cpu_time());
        send(&near)?;
        spent.cpu += cpu_time() - start;
        spent.messages += near.len() as u64;
        sent += near.len() as u64;
        // What is not taken yet would join what comes next in one receive.
        while taken.load(Ordering::Acquire) < sent && !receiver.is_finished() {
            std::hint::spin_loop();
        }
        spent.softirq += softirq.time().saturating_sub(softirq_start);
        Ok(())
    };
    for _ in 0..WARM_UP {
        pass(&mut Spent::default())?;
    }
    let mut sending = Spent::default();
    let until = Instant::now() + duration;
    while Instant::now() < until && !receiver.is_finished() {
        pass(&mut sending)?;
    }
    // The end of the streams ends the receiver.
    drop(near);
    let receiving = receiver.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))??;
    Ok(Raw::new(sending, receiving))
}

/// Takes what comes until the streams end.
fn receive(far: &[TcpStream], taken: &AtomicU64, core: usize) -> anyhow::Result<Spent> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (at, socket) in far.iter().enumerate() {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(&epoll, socket, epoll::EventData::new_u64(at as u64), flags)?;
    }
    let softirq = Softirq::of(core);
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut buffer = [0; 256];
    let (softirq_start, start) = (softirq.time(), cpu_time());
    loop {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let socket = &far[event.data.u64() as usize];
            match rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    return Ok(Spent {
                        cpu: cpu_time() - start,
                        softirq: softirq.time().saturating_sub(softirq_start),
                        messages: taken.load(Ordering::Acquire),
                    });
                }
                Ok((bytes, _)) => {
                    taken.fetch_add((bytes / BYTES.len()) as u64, Ordering::AcqRel);
                }
                Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
