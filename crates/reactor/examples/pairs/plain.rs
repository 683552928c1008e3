//! Files, epoll, and a system call for each read and send.

use super::{Ends, Failure, MESSAGE_BYTES, Means, Watch};
use rustix::event::epoll;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use rustix::time::Timespec;
use std::time::Duration;

/// Of a turn.
const EVENTS: usize = 1024;

/// How long a busy poll may take, in microseconds.
const BUSY_POLL_US: i32 = 50;

pub(super) fn serve(ends: &Ends, means: Means, watch: &mut Watch) -> Result<(), Failure> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (at, socket) in ends.sockets.iter().enumerate() {
        match means {
            Means::QuickAck(on) => set(socket, libc::IPPROTO_TCP, libc::TCP_QUICKACK, on.into())?,
            Means::BusyPoll => set(socket, libc::SOL_SOCKET, libc::SO_BUSY_POLL, BUSY_POLL_US)?,
            _ => {}
        }
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, socket, epoll::EventData::new_u64(at as u64), flags)?;
    }
    let count = if let Means::Events(count) = means { count } else { EVENTS };
    let mut events = Vec::with_capacity(count);
    let (mut buffer, mut out) = ([0; 64 * 1024], Vec::new());
    let tick = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let send_to = |(to, bytes): (usize, usize)| -> Result<(), Errno> {
        send(&ends.sockets[to], &[7; 16 * MESSAGE_BYTES][..bytes], SendFlags::NOSIGNAL).map(drop)
    };
    loop {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), Some(&tick))?;
        let mut messages = 0;
        for event in &events {
            let at = event.data.u64() as usize;
            let read = match recv(&ends.sockets[at], &mut buffer[..], RecvFlags::empty()) {
                Ok((read, _)) => read,
                Err(Errno::AGAIN) => continue,
                Err(error) => return Err(error.into()),
            };
            let Some(answers) = ends.answers(at, read) else { continue };
            messages += (read / MESSAGE_BYTES) as u64;
            match means {
                Means::AtOnce => answers.into_iter().try_for_each(send_to)?,
                _ => out.extend(answers),
            }
        }
        out.drain(..).try_for_each(send_to)?;
        if watch.is_over(messages) {
            return Ok(());
        }
        if let Means::Rest(us) = means {
            std::thread::sleep(Duration::from_micros(us));
        }
    }
}

#[expect(unsafe_code, reason = "rustix has not these options")]
fn set(socket: &OwnedFd, level: i32, option: i32, value: i32) -> Result<(), Failure> {
    let length = size_of::<i32>() as libc::socklen_t;
    let value = (&raw const value).cast();
    // SAFETY: the option is an int and lives through the call.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, length) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}
