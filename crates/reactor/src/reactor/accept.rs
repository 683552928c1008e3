//! Accepting connections, as files or straight into direct descriptors.

use super::Reactor;
use crate::backend::Backend;
use crate::handler::Handler;
use crate::io::LISTENER;
use crate::listen::UNIX_PEER;
use crate::socket::State;
use crate::token::{ListenerId, Token};
use crate::uring::{ACCEPTS_MAX, Accepted};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, acceptfrom_with, sockopt};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use weir_transport::Transport;

/// How long accepting rests when the system has no files left, unless one of ours is closed before.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// The listening sockets of a reactor.
#[derive(Default)]
pub(super) struct Listeners {
    /// By the number that epoll knows each by; nothing in the place of one that is gone.
    list: Vec<Option<Listener>>,
    /// They rest until this time, because the system had no files left.
    rest_until_us: Option<u64>,
    /// How often in a row nothing could be accepted: the first time is logged, and the end.
    failures: u64,
    /// Direct descriptors offered to the next batch: twice what the last one took.
    batch: usize,
    accepted: Vec<Accepted>,
}

/// A listening socket, with how those it accepts talk.
struct Listener {
    id: ListenerId,
    fd: OwnedFd,
    /// Of a unix socket, whose peers have no address.
    is_unix: bool,
    transport: Transport,
}

impl Listener {
    /// Has epoll report who wants in.
    fn hear(&self, epoll: &OwnedFd, index: usize) -> io::Result<()> {
        let data = epoll::EventData::new_u64(LISTENER + index as u64);
        // Several reactors may share a listener: a connection wakes one of them.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
        Ok(epoll::add(epoll, &self.fd, data, flags)?)
    }

    /// Others may have the same socket: closing this file does not end what epoll hears of it.
    fn forget(&self, epoll: &OwnedFd) {
        // One that is not heard, since listeners rest, stays so.
        let _ = epoll::delete(epoll, &self.fd);
    }
}

impl Listeners {
    fn get(&self, index: usize) -> Option<&Listener> {
        self.list.get(index)?.as_ref()
    }

    fn all(&self) -> impl Iterator<Item = (usize, &Listener)> {
        let numbered = self.list.iter().enumerate();
        numbered.filter_map(|(index, listener)| Some((index, listener.as_ref()?)))
    }

    pub(super) fn rest_until_us(&self) -> Option<u64> {
        self.rest_until_us
    }
}

impl Reactor {
    /// Accepts connections of `listener` from now on, which the handler knows by `id`: a socket of
    /// TCP or a unix socket. Those of the latter come from [`UNIX_PEER`].
    ///
    /// # Errors
    /// What the system says of fcntl and epoll.
    pub fn listen(
        &mut self,
        id: ListenerId,
        listener: impl Into<OwnedFd>,
        transport: Transport,
    ) -> io::Result<()> {
        let fd = listener.into();
        rustix::io::ioctl_fionbio(&fd, true)?;
        let is_unix = sockopt::socket_domain(&fd)? == AddressFamily::UNIX;
        if !is_unix {
            // Connections inherit it.
            sockopt::set_tcp_nodelay(&fd, true)?;
        }
        let listener = Listener { id, fd, is_unix, transport };
        let list = &mut self.listeners.list;
        let index = list.iter().position(Option::is_none).unwrap_or(list.len());
        // What begins while the others rest is heard with them.
        if self.listeners.rest_until_us.is_none() {
            listener.hear(&self.io.epoll, index)?;
        }
        list.resize_with(list.len().max(index + 1), || None);
        list[index] = Some(listener);
        Ok(())
    }

    /// Accepts no more connections of this listener: its socket is closed. Those that it has
    /// accepted stay.
    pub fn stop(&mut self, id: ListenerId) {
        for place in &mut self.listeners.list {
            if let Some(listener) = place.take_if(|listener| listener.id == id) {
                listener.forget(&self.io.epoll);
            }
        }
    }

    /// Whom this listener accepts from now on talks like this.
    pub fn set_transport(&mut self, id: ListenerId, transport: &Transport) {
        let listeners = self.listeners.list.iter_mut().flatten();
        for listener in listeners.filter(|listener| listener.id == id) {
            listener.transport = transport.clone();
        }
    }

    /// Accepts no more connections: the listening sockets are closed.
    pub fn stop_listening(&mut self) {
        for listener in self.listeners.list.drain(..).flatten() {
            listener.forget(&self.io.epoll);
        }
    }

    /// Accepts what came while the listeners rested, once they have rested enough.
    pub(super) fn accept_again(&mut self, handler: &mut impl Handler) {
        let is_freed = std::mem::take(&mut self.io.is_freed);
        let Some(until_us) = self.listeners.rest_until_us else { return };
        if until_us > self.io.now_us && !is_freed {
            return;
        }
        self.listeners.rest_until_us = None;
        (0..self.listeners.list.len()).for_each(|index| self.accept(index, handler));
        if self.listeners.rest_until_us.is_none() {
            self.hear_again();
        }
    }

    /// There is room again.
    fn hear_again(&mut self) {
        let epoll = &self.io.epoll;
        let mut all = self.listeners.all();
        if let Err(error) = all.try_for_each(|(index, listener)| listener.hear(epoll, index)) {
            drop(all);
            return self.rest(&error);
        }
        drop(all);
        let failures = std::mem::take(&mut self.listeners.failures);
        tracing::info!(failures, "connections can be accepted again");
    }

    pub(super) fn accept(&mut self, index: usize, handler: &mut impl Handler) {
        if self.listeners.rest_until_us.is_some() {
            return;
        }
        for _ in 0..ACCEPTS_MAX {
            if self.io.wants_direct() {
                return self.accept_direct(index, handler);
            }
            let Some(listener) = self.listeners.get(index) else { return };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let accept = |fd: &OwnedFd| acceptfrom_with(fd, flags);
            let accepted = match self.io.backend {
                Backend::Epoll => self.io.file_bound.accept(&listener.fd, accept),
                // It leaves files free by going on with rings.
                Backend::Auto | Backend::IoUring => accept(&listener.fd),
            };
            match accepted {
                Ok((fd, peer)) => {
                    let is_unix = listener.is_unix;
                    self.take_in(index, fd, address(peer, is_unix), handler);
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                // From now on it wants direct ones.
                Err(errno) if self.io.spills(errno) => {}
                Err(errno) => return self.rest(&errno.into()),
            }
        }
    }

    fn take_in(
        &mut self,
        index: usize,
        fd: OwnedFd,
        peer: Option<SocketAddr>,
        handler: &mut impl Handler,
    ) {
        let Some(peer) = peer else { return };
        match self.io.insert(fd) {
            Ok(token) => self.begin(index, token, peer, handler),
            Err(_) => self.io.stats.accept_errors += 1,
        }
    }

    fn begin(&mut self, index: usize, token: Token, peer: SocketAddr, handler: &mut impl Handler) {
        // It is there: it has just accepted the connection.
        let Some(Listener { id, transport, .. }) = self.listeners.get(index) else { return };
        if let Transport::Layered(_) = transport {
            self.io.put_layers(token, transport, true);
            self.io.begin_layers(token);
        }
        handler.accepted(&mut self.io, token, *id, peer);
    }

    /// Accepts into direct descriptors, in batches that grow with what comes.
    fn accept_direct(&mut self, index: usize, handler: &mut impl Handler) {
        let mut left = ACCEPTS_MAX;
        while left > 0 {
            let batch = self.listeners.batch.clamp(1, left);
            let Some(Some(listener)) = self.listeners.list.get(index) else { return };
            let mut slots = Vec::with_capacity(batch);
            while slots.len() < batch {
                match self.io.take_slot() {
                    Ok(slot) => slots.push(slot),
                    Err(_) if !slots.is_empty() => break,
                    Err(error) => return self.rest(&error),
                }
            }
            let Some(rings) = &mut self.io.rings else { return };
            let mut accepted = std::mem::take(&mut self.listeners.accepted);
            let is_unix = listener.is_unix;
            rings.accept(&listener.fd, &slots, &mut accepted);
            let mut failure = None;
            let mut count = 0;
            for accepted in accepted.drain(..) {
                match accepted.map(|(slot, peer)| (slot, address(peer, is_unix))) {
                    Ok((slot, Some(peer))) => {
                        count += 1;
                        let token = self.io.insert_direct(slot, State::Live);
                        self.begin(index, token, peer, handler);
                    }
                    Ok((slot, None)) => {
                        let token = self.io.insert_direct(slot, State::Live);
                        self.io.kill(token);
                    }
                    Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
                    Err(errno) => failure = Some(errno),
                }
            }
            self.listeners.accepted = accepted;
            self.listeners.batch = (count * 2).clamp(1, ACCEPTS_MAX);
            if let Some(errno) = failure {
                return self.rest(&errno.into());
            }
            if count < batch {
                return;
            }
            left -= count;
        }
    }

    /// No files or no memory: connections stay in the backlog for a while. Nothing is heard of
    /// them meanwhile, since a listener that may not accept would end each wait at once.
    fn rest(&mut self, error: &io::Error) {
        self.io.stats.accept_errors += 1;
        if self.listeners.failures == 0 {
            tracing::warn!(%error, "cannot accept connections; trying again until there is room");
        }
        self.listeners.failures += 1;
        self.listeners.all().for_each(|(_, listener)| listener.forget(&self.io.epoll));
        let rest_us = ACCEPT_REST.as_micros() as u64;
        self.listeners.rest_until_us = Some(self.io.now_us + rest_us);
    }
}

/// Where a peer is that was accepted.
fn address(peer: Option<SocketAddrAny>, is_unix: bool) -> Option<SocketAddr> {
    if is_unix { Some(UNIX_PEER) } else { SocketAddr::try_from(peer?).ok() }
}
