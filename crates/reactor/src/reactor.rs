//! The loop: wait, read and handle, end of turn, flush, reap.

mod accept;
mod decode;
mod read;

use crate::backend::Backend;
use crate::handler::Handler;
use crate::io::{HANDSHAKES_MAX, Io, LISTENER, RINGS, WAKER};
use crate::socket::{Closed, Descriptor, State};
use crate::token::Token;
use crate::uring::Ready;
use crate::waker::Waker;
use accept::Listeners;
use read::{Batch, READ_BYTES};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::time::Timespec;
use std::io;
use std::time::Duration;

/// Events taken in one turn.
const EVENTS_MAX: usize = 1024;

/// Sockets and their readiness, on one thread.
pub struct Reactor {
    io: Io,
    waker: Waker,
    listeners: Listeners,
    events: Vec<epoll::Event>,
    buffer: Box<[u8]>,
    batch: Batch,
}

impl Reactor {
    /// A reactor without connections, each of which will be an open file.
    ///
    /// # Errors
    /// What the system says of epoll and eventfd.
    pub fn new() -> io::Result<Self> {
        Self::with_waker(Waker::new()?)
    }

    /// A reactor that `waker` wakes. A reactor stays on its thread, a waker can be made before.
    ///
    /// # Errors
    /// What the system says of epoll.
    pub fn with_waker(waker: Waker) -> io::Result<Self> {
        Self::with_backend(waker, Backend::Epoll)
    }

    /// A reactor with a say in what holds its connections.
    ///
    /// # Errors
    /// What the system says of epoll; with [`Backend::IoUring`], of io_uring.
    pub fn with_backend(waker: Waker, backend: Backend) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(WAKER);
        epoll::add(&epoll, waker.fd(), data, epoll::EventFlags::IN)?;
        let mut io = Io::new(epoll, backend);
        if backend == Backend::IoUring {
            io.begin_rings()?;
        }
        Ok(Self {
            io,
            waker,
            listeners: Listeners::default(),
            events: Vec::with_capacity(EVENTS_MAX),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            batch: Batch::default(),
        })
    }

    /// What wakes this reactor from other threads.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The connections, between turns.
    pub fn io(&mut self) -> &mut Io {
        &mut self.io
    }

    /// One turn. Waits at most `timeout` for something to happen; `None` waits for ever.
    ///
    /// # Errors
    /// What the system says of `epoll_wait`; errors of one connection go to the handler.
    pub fn turn(
        &mut self,
        timeout: Option<Duration>,
        handler: &mut impl Handler,
    ) -> io::Result<()> {
        self.wait(timeout)?;
        handler.turn_begin(&mut self.io);
        self.io.stats.turns += 1;
        self.tell_drained(handler);
        self.read_again(handler);
        self.dispatch(handler);
        handler.turn_end(&mut self.io);
        self.io.flush();
        self.io.reap();
        let rest_us = self.io.turn_over();
        self.gather_input(rest_us);
        Ok(())
    }

    /// Lets input gather, unless there is something to do. Nobody has to wake the thread meanwhile:
    /// it looks at everything when it goes on.
    fn gather_input(&mut self, rest_us: u64) {
        if rest_us == 0 || self.io.has_work() {
            return;
        }
        let due_us = self.next_deadline_us().unwrap_or(u64::MAX);
        let rest_us = rest_us.min(due_us.saturating_sub(self.io.done_us));
        if rest_us > 0 {
            std::thread::sleep(Duration::from_micros(rest_us));
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let mut timeout = timeout;
        if let Some(rings) = &mut self.io.rings {
            // What was closed at the end of the last turn; what happened meanwhile.
            rings.run_all();
        }
        if self.io.has_work() {
            timeout = Some(Duration::ZERO);
        } else if let Some(until_us) = self.next_deadline_us() {
            let rest = Duration::from_micros(until_us.saturating_sub(crate::now_us()));
            timeout = Some(timeout.map_or(rest, |timeout| timeout.min(rest)));
        }
        if let Some(rings) = &mut self.io.rings
            && timeout != Some(Duration::ZERO)
            && !rings.fall_asleep()
        {
            timeout = Some(Duration::ZERO);
        }
        let timeout = timeout.map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        });
        self.events.clear();
        let events = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.io.epoll, events, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(rings) = &mut self.io.rings {
            rings.wake_up();
        }
        self.io.read_clock();
        self.io.turn_us = self.io.now_us;
        self.io.handshakes_left = HANDSHAKES_MAX;
        if self.io.gather.turn_begins(self.io.now_us, self.io.stats.writes) {
            self.io.end_gathering();
        }
        Ok(())
    }

    /// When the reactor itself has something to do: a lingering connection, a resting listener,
    /// output that gathered.
    fn next_deadline_us(&self) -> Option<u64> {
        let lingering_us = self.io.lingering.front().map(|&(deadline_us, _)| deadline_us);
        let rest_until_us = self.listeners.rest_until_us();
        let rest_until_us = rest_until_us.map(|us| if self.io.is_freed { 0 } else { us });
        let due = [lingering_us, rest_until_us, self.io.gather.due_us()];
        due.into_iter().flatten().min()
    }

    fn dispatch(&mut self, handler: &mut impl Handler) {
        self.accept_again(handler);
        let events = std::mem::take(&mut self.events);
        for event in &events {
            match event.data.u64() {
                WAKER => {
                    self.waker.clear();
                    handler.woken(&mut self.io);
                }
                // What happened there was taken after the wait.
                RINGS => {}
                data if data >= LISTENER => self.accept((data - LISTENER) as usize, handler),
                data => self.ready(Token(data as u32), event.flags, handler),
            }
        }
        self.events = events;
        self.dispatch_rings(handler);
    }

    /// Handles what happened on direct descriptors; what is over the bound waits for a turn.
    fn dispatch_rings(&mut self, handler: &mut impl Handler) {
        for _ in 0..EVENTS_MAX {
            let Some(ready) = self.io.rings.as_mut().and_then(|rings| rings.ready.pop_front())
            else {
                break;
            };
            self.direct_ready(ready, handler);
        }
        self.read_batch(handler);
        if let Some(rings) = &mut self.io.rings {
            rings.trim();
        }
    }

    fn direct_ready(&mut self, ready: Ready, handler: &mut impl Handler) {
        let Some(socket) = self.io.sockets.get_mut(ready.token.0 as usize) else { return };
        let (Descriptor::Direct(slot), Some(rings)) = (&socket.descriptor, &mut self.io.rings)
        else {
            return;
        };
        if socket.serial != ready.serial || socket.state == State::Dead {
            return;
        }
        if socket.state == State::Connecting {
            if ready.result.is_ok() {
                rings.poll(*slot, socket.serial, ready.token);
            }
            self.finish_connect(ready.token, ready.result.map(drop), handler);
            return;
        }
        if ready.is_last {
            rings.poll(*slot, socket.serial, ready.token);
        }
        // An error of the poll itself is found by the read.
        let flags = ready.result.map_or(u32::MAX, u32::from);
        self.ready(ready.token, epoll::EventFlags::from_bits_truncate(flags), handler);
    }

    fn ready(&mut self, token: Token, flags: epoll::EventFlags, handler: &mut impl Handler) {
        let Some(socket) = self.io.sockets.get_mut(token.0 as usize) else { return };
        let ended = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
        if socket.state == State::Connecting
            && let Descriptor::File(fd) = &socket.descriptor
        {
            let result = sockopt::socket_error(fd).and_then(|result| result);
            if !self.finish_connect(token, result, handler) {
                return;
            }
        }
        if flags.contains(epoll::EventFlags::OUT) {
            self.io.writable(token);
        }
        if flags.intersects(epoll::EventFlags::IN | ended) {
            self.read(token, flags.intersects(ended), handler);
        }
    }

    /// Says whether the connection is there.
    fn finish_connect(
        &mut self,
        token: Token,
        result: Result<(), Errno>,
        handler: &mut impl Handler,
    ) -> bool {
        if let Err(errno) = result {
            fail(&mut self.io, token, Closed::Error(errno), handler);
            return false;
        }
        let socket = &mut self.io.sockets[token.0 as usize];
        socket.state = State::Live;
        handler.reached(token);
        if self.io.begin_layers(token) {
            handler.connected(&mut self.io, token);
        }
        true
    }

    fn tell_drained(&mut self, handler: &mut impl Handler) {
        for token in std::mem::take(&mut self.io.drained) {
            let socket = self.io.sockets.get(token.0 as usize);
            if socket.is_some_and(|socket| socket.state == State::Live) {
                handler.drained(&mut self.io, token);
            }
        }
    }

    fn read_again(&mut self, handler: &mut impl Handler) {
        // What is listed meanwhile waits for the next turn, so that nobody is read for ever.
        for token in std::mem::take(&mut self.io.again) {
            if let Some(socket) = self.io.sockets.get_mut(token.0 as usize) {
                socket.again = false;
                self.read(token, true, handler);
            }
        }
        self.read_batch(handler);
    }
}

/// The connection ended by itself: its owner hears of it, unless it was closing.
fn fail(io: &mut Io, token: Token, cause: Closed, handler: &mut impl Handler) {
    let socket = &io.sockets[token.0 as usize];
    let is_lingering = socket.state == State::Lingering;
    // After that, a read finds no more than an end.
    let cause = socket.broken().map_or(cause, Closed::Error);
    io.kill(token);
    if !is_lingering {
        handler.closed(io, token, cause);
    }
}
