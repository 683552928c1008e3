//! A TCP proxy on a thread of its own that troubles the way to a broker: delay, loss, and
//! connections that are dead without either side being told. It knows nothing of MQTT.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_chance::Chance;
use weir_reactor::{Closed, Handler, Io, ListenerId, Reactor, Token, Transport, Waker, now_us};

/// Bytes on their way in one direction of one connection; beyond, its sender is not read.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A segment that is lost comes after this time: the least that TCP waits before it sends again.
const RESEND_US: u64 = 200_000;

const TURN_MAX: Duration = Duration::from_millis(50);

/// What is wrong with the way. The default is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Impairment {
    /// Added each way.
    pub delay_us: u64,
    /// Segments of a million that have to be sent again.
    pub loss_ppm: u32,
    /// Every connection there is, and every new one while it lasts, is dead for good: what is sent
    /// into it vanishes, and it is not closed.
    pub is_dead: bool,
}

#[derive(Debug, Default)]
struct Shared {
    delay_us: AtomicU64,
    loss_ppm: AtomicU32,
    is_dead: AtomicBool,
    /// Times the way has died: one that is clear again at once is not missed.
    deaths: AtomicU64,
    is_over: AtomicBool,
}

/// A running proxy. Dropping it ends it, and with it all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy to `target` on a free port of this host.
    ///
    /// # Errors
    /// What the system says of sockets and epoll.
    pub fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let (of_thread, (tell, told)) = (Arc::clone(&shared), mpsc::channel());
        let thread = std::thread::spawn(move || {
            // A reactor stays on its thread.
            let mut reactor = match Reactor::new() {
                Ok(reactor) => reactor,
                Err(error) => return drop(tell.send(Err(error))),
            };
            let listening =
                reactor.listen(ListenerId(0), listener, Transport::Plain).map(|()| reactor.waker());
            if tell.send(listening).is_ok() {
                Path::new(target, of_thread).serve(&mut reactor);
            }
        });
        let waker = told.recv().map_err(|_| io::Error::other("the proxy's thread has ended"))??;
        Ok(Self { address, shared, waker, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on the way is like this.
    pub fn set(&self, impairment: Impairment) {
        self.shared.delay_us.store(impairment.delay_us, Ordering::Relaxed);
        self.shared.loss_ppm.store(impairment.loss_ppm, Ordering::Relaxed);
        self.shared.is_dead.store(impairment.is_dead, Ordering::Relaxed);
        self.shared.deaths.fetch_add(u64::from(impairment.is_dead), Ordering::Relaxed);
        self.waker.wake();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // One that broke down has nothing left to end.
            let _ = thread.join();
        }
    }
}

/// One connection of a pair, and what is on its way to it.
#[derive(Debug)]
struct End {
    peer: Token,
    is_dead: bool,
    /// Nothing may be written before it is connected.
    is_up: bool,
    waiting: VecDeque<(u64, Vec<u8>)>,
    waiting_bytes: usize,
    /// The time under which it stands in the heap; 0 where it does not.
    listed_us: u64,
    /// Its peer is not read, as too much waits here.
    holds_peer: bool,
}

struct Path {
    target: SocketAddr,
    shared: Arc<Shared>,
    ends: HashMap<Token, End>,
    /// Who has something waiting, and when it is due.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// Deaths seen.
    deaths: u64,
    chance: Chance,
}

impl Path {
    fn new(target: SocketAddr, shared: Arc<Shared>) -> Self {
        let (ends, due) = (HashMap::new(), BinaryHeap::new());
        Self { target, shared, ends, due, deaths: 0, chance: Chance::new(0x5EED) }
    }

    fn serve(&mut self, reactor: &mut Reactor) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            let wait_us = self.due.peek().map(|Reverse((at_us, _))| at_us.saturating_sub(now_us()));
            let wait = wait_us.map_or(TURN_MAX, |us| Duration::from_micros(us).min(TURN_MAX));
            if reactor.turn(Some(wait), self).is_err() {
                return;
            }
        }
    }

    fn note_death(&mut self) {
        let deaths = self.shared.deaths.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.deaths, deaths) != deaths {
            for end in self.ends.values_mut() {
                end.is_dead = true;
                end.waiting.clear();
                end.waiting_bytes = 0;
            }
        }
    }

    /// Sends what is due to `token`, as far as its socket takes it.
    fn forward(&mut self, io: &mut Io, token: Token, now: u64) {
        let Some(end) = self.ends.get_mut(&token).filter(|end| end.is_up) else { return };
        while end.waiting.front().is_some_and(|&(due_us, _)| due_us <= now)
            && io.pending(token) <= WAITING_BYTES_MAX
        {
            let Some((_, bytes)) = end.waiting.pop_front() else { break };
            end.waiting_bytes -= bytes.len();
            io.write(token, &bytes);
        }
        // Once: what stands behind the first is listed when the first is gone.
        if let Some(&(due_us, _)) = end.waiting.front().filter(|&&(due_us, _)| due_us > now)
            && end.listed_us != due_us
        {
            end.listed_us = due_us;
            self.due.push(Reverse((due_us, token.0)));
        }
        if end.holds_peer && end.waiting_bytes + io.pending(token) <= WAITING_BYTES_MAX / 2 {
            end.holds_peer = false;
            io.resume(end.peer);
        }
    }

    fn pair(&mut self, token: Token, peer: Token, is_up: bool) {
        let (is_dead, waiting) = (false, VecDeque::new());
        let (waiting_bytes, listed_us, holds_peer) = (0, 0, false);
        let end = End { peer, is_dead, is_up, waiting, waiting_bytes, listed_us, holds_peer };
        self.ends.insert(token, end);
    }
}

impl Handler for Path {
    fn accepted(&mut self, io: &mut Io, token: Token, _by: ListenerId, _peer: SocketAddr) {
        self.note_death();
        if self.shared.is_dead.load(Ordering::Relaxed) {
            self.pair(token, token, true);
            self.ends.entry(token).and_modify(|end| end.is_dead = true);
            return;
        }
        match io.connect(&Transport::Plain, self.target, None) {
            Ok(peer) => {
                self.pair(token, peer, true);
                self.pair(peer, token, false);
            }
            Err(_) => io.abort(token),
        }
    }

    fn connected(&mut self, io: &mut Io, token: Token) {
        if let Some(end) = self.ends.get_mut(&token) {
            end.is_up = true;
        }
        self.forward(io, token, now_us());
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        self.note_death();
        let Some(end) = self.ends.get(&token).filter(|end| !end.is_dead) else {
            return bytes.len();
        };
        let (to, now) = (end.peer, now_us());
        let loss_ppm = self.shared.loss_ppm.load(Ordering::Relaxed);
        let mut due_us = now + self.shared.delay_us.load(Ordering::Relaxed);
        if loss_ppm > 0 && (self.chance.bits() % 1_000_000) < u64::from(loss_ppm) {
            due_us += RESEND_US;
        }
        let Some(peer) = self.ends.get_mut(&to) else { return bytes.len() };
        // TCP keeps the order: what comes behind a lost segment waits for it.
        due_us = due_us.max(peer.waiting.back().map_or(0, |&(due_us, _)| due_us));
        peer.waiting.push_back((due_us, bytes.to_vec()));
        peer.waiting_bytes += bytes.len();
        if peer.waiting_bytes + io.pending(to) > WAITING_BYTES_MAX && !peer.holds_peer {
            peer.holds_peer = true;
            io.pause(token);
        }
        self.forward(io, to, now);
        bytes.len()
    }

    fn drained(&mut self, io: &mut Io, token: Token) {
        self.forward(io, token, now_us());
    }

    fn closed(&mut self, io: &mut Io, token: Token, _cause: Closed) {
        let Some(end) = self.ends.remove(&token) else { return };
        if end.is_dead || end.peer == token {
            return;
        }
        // What was on its way still arrives; then the other side hears of the end.
        if let Some(peer) = self.ends.remove(&end.peer) {
            peer.waiting.into_iter().for_each(|(_, bytes)| io.write(end.peer, &bytes));
            io.close(end.peer);
        }
    }

    fn turn_end(&mut self, io: &mut Io) {
        self.note_death();
        let now = now_us();
        while self.due.peek().is_some_and(|Reverse((due_us, _))| *due_us <= now) {
            let Some(Reverse((_, token))) = self.due.pop() else { return };
            self.forward(io, Token(token), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    /// A server that sends back what it gets, for so many connections.
    fn echo(connections: usize) -> (SocketAddr, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move || {
            for stream in listener.incoming().take(connections) {
                let (mut from, mut to) = (stream.as_ref().unwrap(), stream.as_ref().unwrap());
                // It ends with the connection, in whichever way.
                let _ = io::copy(&mut from, &mut to);
            }
        };
        (address, std::thread::spawn(serve))
    }

    fn round_trip(stream: &mut TcpStream, bytes: &[u8]) -> Duration {
        let begin = Instant::now();
        let mut back = vec![0; bytes.len()];
        stream.write_all(bytes).unwrap();
        stream.read_exact(&mut back).unwrap();
        assert_eq!(back, bytes);
        begin.elapsed()
    }

    #[test]
    fn bytes_pass_in_order_and_a_delay_is_added_each_way() {
        let (target, echo) = echo(1);
        let proxy = Proxy::start(target).unwrap();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        let bytes: Vec<u8> = (0..100_000u32).map(|at| at as u8).collect();
        round_trip(&mut stream, &bytes);
        proxy.set(Impairment { delay_us: 40_000, ..Impairment::default() });
        assert!(round_trip(&mut stream, b"ping") >= Duration::from_millis(80));
        drop(stream);
        echo.join().unwrap();
    }

    #[test]
    fn a_lost_segment_comes_after_the_time_of_a_resend() {
        let (target, echo) = echo(1);
        let proxy = Proxy::start(target).unwrap();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        proxy.set(Impairment { loss_ppm: 1_000_000, ..Impairment::default() });
        let waited = round_trip(&mut stream, b"ping");
        assert!(waited >= Duration::from_micros(2 * RESEND_US), "{waited:?}");
        drop(stream);
        echo.join().unwrap();
    }

    #[test]
    fn a_dead_connection_stays_open_and_silent_and_a_new_one_works_afterwards() {
        let (target, echo) = echo(2);
        let proxy = Proxy::start(target).unwrap();
        let mut dead = TcpStream::connect(proxy.address()).unwrap();
        round_trip(&mut dead, b"alive");
        proxy.set(Impairment { is_dead: true, ..Impairment::default() });
        let mut born_dead = TcpStream::connect(proxy.address()).unwrap();
        for stream in [&mut dead, &mut born_dead] {
            stream.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
            stream.write_all(b"anybody?").unwrap();
            let error = stream.read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "open, and nothing comes");
        }
        proxy.set(Impairment::default());
        dead.write_all(b"still?").unwrap();
        assert!(dead.read(&mut [0; 8]).is_err(), "dead for good");
        // Ends both connections to the echo, so that its thread takes the next.
        drop(proxy);
        drop((dead, born_dead));
        let proxy = Proxy::start(target).unwrap();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        round_trip(&mut stream, b"again");
        drop(stream);
        echo.join().unwrap();
    }
}
