//! What a letter costs from one node to another: microseconds of CPU of both processes, by letters
//! per batch, over TCP and over Zenoh in turn.
//!
//!     cargo run --release -p weir-carrier --features zenoh --example links -- [SECONDS] [ROUNDS]
//!
//! Two processes on loopback: one sends batches when they are due, the other takes them.

use anyhow::{Context, Result, bail, ensure};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use weir_carrier::tcp::{self, Tcp};
use weir_carrier::{Carrier, Lost, NodeAddress, Outlet, Post};
use weir_cluster::{Inbox, Link, LinkSettings, Peer, Slot};
use weir_core::{Mail, Message, Micros, ShardId, Wall};
use weir_reactor::{Waker, now_us};
use weir_wire::{PropertiesBuf, QoS};

const WALL: Wall = Wall(0);

/// Letters per batch, and per second.
const LOADS: [(u64, u64); 3] = [(1, 20_000), (10, 100_000), (100, 400_000)];

/// Bytes of a letter, without the shards that it goes between.
const LETTER_BYTES: usize = 36;

const KINDS: &[&str] = &[
    "tcp",
    #[cfg(feature = "zenoh")]
    "zenoh",
];

fn main() -> Result<()> {
    let log = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN);
    log.with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["receive", kind, port, letters] => receive(kind, port.parse()?, letters.parse()?),
        [] => compare(4, 3),
        [seconds] => compare(seconds.parse()?, 3),
        [seconds, rounds] => compare(seconds.parse()?, rounds.parse()?),
        _ => bail!("usage: links [SECONDS] [ROUNDS]"),
    }
}

fn compare(seconds: u64, rounds: usize) -> Result<()> {
    for (batch, rate) in LOADS {
        let mut costs = vec![Vec::new(); KINDS.len()];
        for _ in 0..rounds {
            for (kind, costs) in KINDS.iter().zip(&mut costs) {
                costs.push(measure(kind, batch, rate, seconds)?);
            }
        }
        print!("{batch:>3} letters a batch, {rate:>6}/s:");
        let medians: Vec<f64> = costs.iter_mut().map(|costs| median(costs)).collect();
        for ((kind, median), costs) in KINDS.iter().zip(&medians).zip(&costs) {
            let (least, most) = (costs[0], costs[costs.len() - 1]);
            print!("  {kind} {median:.2} us ({least:.2} to {most:.2})");
        }
        if let [tcp, zenoh] = medians[..] {
            print!("  zenoh : tcp {:.2}", zenoh / tcp);
        }
        println!();
    }
    Ok(())
}

fn median(costs: &mut [f64]) -> f64 {
    costs.sort_by(f64::total_cmp);
    costs[costs.len() / 2]
}

/// Microseconds of CPU a letter, in both processes.
fn measure(kind: &str, batch: u64, rate: u64, seconds: u64) -> Result<f64> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let letters = rate * seconds;
    let mut receiver = Command::new(std::env::current_exe()?)
        .args(["receive", kind, &port.to_string(), &letters.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let cost = send(kind, port, (batch, rate, letters), &mut receiver);
    receiver.kill()?;
    receiver.wait()?;
    cost
}

fn send(
    kind: &str,
    port: u16,
    (batch, rate, letters): (u64, u64, u64),
    receiver: &mut Child,
) -> Result<f64> {
    let mut carrier = carrier(kind, 1, 0)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    carrier.join(Slot(0), NodeAddress { addresses: vec![address], host: "localhost".into() });
    let mut desk = Desk::new(1, 0);
    while !desk.link.is_up() {
        carrier.turn(Some(Duration::from_millis(10)), &mut desk)?;
    }
    let (began_us, cpu_us) = (now_us(), cpu_us());
    desk.load = Some(Load { batch, began_us, rate, sent: 0, letters });
    while desk.link.letters() > 0 || desk.load.as_ref().is_some_and(|load| load.sent < letters) {
        let due_us = desk.load.as_ref().map_or(0, Load::due_us);
        let wait_us = due_us.saturating_sub(now_us()).min(10_000);
        carrier.turn(Some(Duration::from_micros(wait_us)), &mut desk)?;
    }
    let own_us = self::cpu_us() - cpu_us;
    let took_us = now_us() - began_us;
    let late = took_us as f64 / (letters as f64 * 1e6 / rate as f64);
    ensure!(late < 1.2, "{kind}: {letters} letters took {took_us} us: the machine is too slow");
    let mut line = String::new();
    BufReader::new(receiver.stdout.take().context("its output")?).read_line(&mut line)?;
    let theirs_us: u64 = line.trim().parse().context("what the receiver says")?;
    Ok((own_us + theirs_us) as f64 / letters as f64)
}

/// Takes so many letters and says what that has cost.
fn receive(kind: &str, port: u16, letters: u64) -> Result<()> {
    let mut carrier = carrier(kind, 0, port)?;
    // It is the other one that connects.
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    carrier.join(Slot(1), NodeAddress { addresses: vec![address], host: "localhost".into() });
    let mut desk = Desk::new(0, 1);
    while !desk.link.is_up() {
        carrier.turn(Some(Duration::from_millis(10)), &mut desk)?;
    }
    let cpu_us = cpu_us();
    while desk.notes.letters < letters {
        carrier.turn(Some(Duration::from_millis(10)), &mut desk)?;
    }
    println!("{}", self::cpu_us() - cpu_us);
    // The last ones are acknowledged, until the sender ends this.
    loop {
        carrier.turn(Some(Duration::from_millis(10)), &mut desk)?;
    }
}

fn carrier(kind: &str, own: u8, port: u16) -> Result<Box<dyn Carrier>> {
    let (own, waker) = (Slot(own), Waker::new()?);
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match kind {
        "tcp" => {
            let listener = weir_reactor::listen(listen)?;
            Ok(Box::new(Tcp::new(tcp::Settings { own, listener, tls: None }, waker)?))
        }
        #[cfg(feature = "zenoh")]
        "zenoh" => {
            use weir_carrier::zenoh::{Settings, Zenoh};
            let settings = Settings { cluster: "lab".into(), own, listen, tls: None };
            Ok(Box::new(Zenoh::new(settings, waker)?))
        }
        _ => bail!("there is no carrier {kind}"),
    }
}

/// Of all threads of this process, in microseconds.
fn cpu_us() -> u64 {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    cpu.tv_sec as u64 * 1_000_000 + cpu.tv_nsec as u64 / 1_000
}

/// What is to be sent.
struct Load {
    batch: u64,
    began_us: u64,
    rate: u64,
    sent: u64,
    letters: u64,
}

impl Load {
    /// When the next batch is due.
    fn due_us(&self) -> u64 {
        if self.sent >= self.letters {
            return u64::MAX;
        }
        self.began_us + (self.sent + self.batch) * 1_000_000 / self.rate
    }
}

#[derive(Default)]
struct Notes {
    letters: u64,
    resets: u64,
}

impl Inbox for Notes {
    fn up(&mut self, _peer: Peer) {}

    fn reset(&mut self, _lost: u64) {
        self.resets += 1;
    }

    fn letter(&mut self, _from: ShardId, _to: ShardId, _mail: Mail) {
        self.letters += 1;
    }
}

/// A node with one link.
struct Desk {
    peer: Slot,
    link: Link,
    notes: Notes,
    load: Option<Load>,
    /// Each has a message of its own.
    mails: Vec<Mail>,
}

impl Desk {
    fn new(own: u8, peer: u8) -> Self {
        let settings = LinkSettings {
            cluster: "lab".into(),
            own: Slot(own),
            peer: Slot(peer),
            incarnation: now_us(),
            window_bytes: LinkSettings::WINDOW_BYTES,
            frame_bytes_max: LinkSettings::FRAME_BYTES_MAX,
        };
        let (peer, link, notes) = (Slot(peer), Link::new(settings), Notes::default());
        let mails = std::iter::repeat_with(letter).take(128).collect();
        Self { peer, link, notes, load: None, mails }
    }
}

/// A letter of [`LETTER_BYTES`].
fn letter() -> Mail {
    let of = |payload: usize| Mail::Publish {
        message: Arc::new(Message {
            topic: "plant/7/temp".into(),
            payload: vec![b'1'; payload],
            properties: PropertiesBuf::new(),
            qos: QoS::AtMostOnce,
            retain: false,
            expires_at: None,
            stamp: None,
        }),
        to_subscribers: true,
        picks: std::iter::empty().collect(),
        number: None,
        mailed: None,
    };
    let mut empty = Vec::new();
    of(0).encode(WALL, &mut empty);
    of(LETTER_BYTES - empty.len())
}

impl Post for Desk {
    fn peer_up(&mut self, _out: &mut dyn Outlet, _node: Slot) {
        self.link.connected(Micros(now_us()));
    }

    fn peer_down(&mut self, _out: &mut dyn Outlet, _node: Slot, _lost: Lost) {
        self.link.disconnected();
    }

    fn received(&mut self, out: &mut dyn Outlet, node: Slot, bytes: &[u8]) -> usize {
        let taken = self.link.received(bytes, Micros(now_us()), WALL, &mut self.notes);
        taken.unwrap_or_else(|error| {
            eprintln!("{error}");
            out.renew(node);
            bytes.len()
        })
    }

    fn turn_end(&mut self, out: &mut dyn Outlet) {
        let now = Micros(now_us());
        if let Err(error) = self.link.handle_timeout(now) {
            eprintln!("{error}");
            out.renew(self.peer);
        }
        // Each batch is a frame of its own, also where several are due.
        while let Some(load) = self.load.as_mut().filter(|load| load.due_us() <= now.0) {
            for number in load.sent..load.sent + load.batch {
                let mail = &self.mails[number as usize % self.mails.len()];
                let _ = self.link.push(ShardId(0), ShardId(1), mail, WALL);
            }
            load.sent += load.batch;
            flush(&mut self.link, self.peer, now, out);
        }
        flush(&mut self.link, self.peer, now, out);
    }
}

fn flush(link: &mut Link, peer: Slot, now: Micros, out: &mut dyn Outlet) {
    while out.has_room(peer)
        && let Some(frame) = link.flush(now)
    {
        out.send(peer, frame);
    }
}
