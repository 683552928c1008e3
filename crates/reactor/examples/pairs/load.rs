//! The far ends: messages by a schedule, an acknowledgement for each that comes.

use super::{ACK_BYTES, Failure, MESSAGE_BYTES};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use rustix::time::Timespec;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Messages that are sent before something is read again.
const BURST_MAX: u64 = 64;

/// Until it is ended.
pub(super) fn run(address: SocketAddr, pairs: usize, rate: u64) -> Result<(), Failure> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut streams = Vec::with_capacity(2 * pairs);
    for at in 0..2 * pairs {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        // No port stays taken.
        sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &stream, epoll::EventData::new_u64(at as u64), flags)?;
        streams.push(stream);
    }
    let (mut sent, begun) = (0u64, Instant::now());
    let mut events = Vec::with_capacity(1024);
    let mut buffer = [0; 4096];
    loop {
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
        for _ in 0..(due - sent).min(BURST_MAX) {
            // In an order that is none.
            let publisher = (sent.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize % pairs;
            send(&streams[publisher], &[7; MESSAGE_BYTES], SendFlags::NOSIGNAL)?;
            sent += 1;
        }
        let next = begun + Duration::from_secs_f64((sent + 1) as f64 / rate as f64);
        let rest = next.saturating_duration_since(Instant::now());
        let rest = Timespec { tv_sec: 0, tv_nsec: i64::from(rest.subsec_nanos()) };
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&rest))?;
        for event in &events {
            let at = event.data.u64() as usize;
            let read = match recv(&streams[at], &mut buffer[..], RecvFlags::empty()) {
                Ok((0, _)) => return Ok(()),
                Ok((read, _)) => read,
                Err(Errno::AGAIN) => 0,
                Err(error) => return Err(error.into()),
            };
            let messages = if at < pairs { 0 } else { read / MESSAGE_BYTES };
            if messages > 0 {
                let acks = vec![7; messages * ACK_BYTES];
                send(&streams[at], &acks, SendFlags::NOSIGNAL)?;
            }
        }
    }
}
