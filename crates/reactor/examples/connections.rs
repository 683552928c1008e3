//! What a connection costs: `connections COUNT [epoll|io_uring|auto]` holds so many between two
//! processes over loopback, checks that they live, and prints time, CPU and memory of both sides.

use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_reactor::{Backend, Closed, Handler, Io, ListenerId, Reactor, Token, Transport, Waker};

/// Connects under way at once.
const IN_FLIGHT_MAX: usize = 240;

/// Connections from one source address.
const PER_SOURCE: usize = 10_000;

/// Connections that are given a byte, which the other side must see.
const POKES: usize = 20_000;

const TURN_MAX: Duration = Duration::from_millis(50);

#[derive(Default)]
struct Count {
    opened: usize,
    closed: usize,
    bytes: usize,
}

impl Handler for Count {
    fn accepted(&mut self, _io: &mut Io, _token: Token, _: ListenerId, _peer: SocketAddr) {
        self.opened += 1;
    }
    fn connected(&mut self, _io: &mut Io, _token: Token) {
        self.opened += 1;
    }
    fn received(&mut self, _io: &mut Io, _token: Token, bytes: &[u8]) -> usize {
        self.bytes += bytes.len();
        bytes.len()
    }
    fn closed(&mut self, _io: &mut Io, _token: Token, _cause: Closed) {
        self.closed += 1;
    }
    fn turn_end(&mut self, _io: &mut Io) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |index: usize| arguments.get(index).map_or("", String::as_str);
    let count = text(0).parse().map_err(|_| "usage: connections COUNT [epoll|io_uring|auto]")?;
    let backend = match text(1) {
        "" | "io_uring" => Backend::IoUring,
        "epoll" => Backend::Epoll,
        "auto" => Backend::Auto,
        other => return Err(format!("{other} is not epoll, io_uring or auto").into()),
    };
    match text(2) {
        "" => serve(count, backend, &arguments[..]),
        address => hold(count, backend, address.parse()?),
    }
}

/// The accepting side, which starts the other.
fn serve(count: usize, backend: Backend, arguments: &[String]) -> Result<(), Box<dyn Error>> {
    let listener = weir_reactor::listen("127.0.0.1:0".parse()?)?;
    let address = listener.local_addr()?;
    let mut reactor = Reactor::with_backend(Waker::new()?, backend)?;
    reactor.listen(ListenerId(0), listener, Transport::Plain)?;
    let mut client = Command::new(std::env::current_exe()?)
        .arg(&arguments[0])
        .arg(arguments.get(1).map_or("io_uring", String::as_str))
        .arg(address.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut seen = Count::default();
    let begun = Instant::now();
    while seen.opened < count && client.try_wait()?.is_none() {
        reactor.turn(Some(TURN_MAX), &mut seen)?;
    }
    // What was accepted last is not polled yet.
    reactor.turn(Some(Duration::ZERO), &mut seen)?;
    report("accepted", &seen, begun);
    let pokes = POKES.min(count);
    (0..pokes).for_each(|poke| reactor.io().write(Token((poke * (count / pokes)) as u32), b"."));
    reactor.turn(Some(Duration::ZERO), &mut seen)?;
    let mut lines = BufReader::new(client.stdout.take().ok_or("no output")?).lines();
    let deadline = Instant::now() + Duration::from_secs(1);
    while Instant::now() < deadline {
        reactor.turn(Some(TURN_MAX), &mut seen)?;
    }
    drop(client.stdin.take());
    while let Some(line) = lines.next().transpose()? {
        println!("{line}");
    }
    client.wait()?;
    let begun = Instant::now();
    while reactor.io().connections() > 0 && begun.elapsed() < Duration::from_secs(60) {
        reactor.turn(Some(TURN_MAX), &mut seen)?;
    }
    report("closed", &seen, begun);
    Ok(())
}

/// The connecting side: holds its connections until its input ends.
fn hold(count: usize, backend: Backend, address: SocketAddr) -> Result<(), Box<dyn Error>> {
    let mut reactor = Reactor::with_backend(Waker::new()?, backend)?;
    let mut seen = Count::default();
    let begun = Instant::now();
    let mut next = 0;
    while seen.opened + seen.closed < count {
        while next < count && next - seen.opened - seen.closed < IN_FLIGHT_MAX {
            let source = (next / PER_SOURCE) as u32;
            let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + source);
            reactor.io().connect(&Transport::Plain, address, Some(IpAddr::from(source)))?;
            next += 1;
        }
        reactor.turn(Some(TURN_MAX), &mut seen)?;
    }
    report("connected", &seen, begun);
    let waker = reactor.waker();
    let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let flag = std::sync::Arc::clone(&is_over);
    let input = std::thread::spawn(move || {
        // The other side says that it is over by closing; an error says the same.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        flag.store(true, std::sync::atomic::Ordering::Release);
        waker.wake();
    });
    while !is_over.load(std::sync::atomic::Ordering::Acquire) {
        reactor.turn(None, &mut seen)?;
    }
    input.join().map_err(|_| "reading the input failed")?;
    println!("saw {} of {} bytes", seen.bytes, POKES.min(count));
    Ok(())
}

fn report(what: &str, seen: &Count, begun: Instant) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu_s = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    let taken_s = begun.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("?").trim();
    println!(
        "{what}: {} opened, {} closed, {taken_s:.1} s, CPU so far {cpu_s:.2} s ({:.1} us each), \
         RSS {rss}",
        seen.opened,
        seen.closed,
        cpu_s * 1e6 / seen.opened.max(1) as f64,
    );
}
