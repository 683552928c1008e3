//! A client stack that does next to nothing: what the replay server reaches with it is the server's
//! own ceiling, and with a known fault it calibrates the ledger.
//!
//! It speaks the line protocol of adapters on standard input and output. It parses no JSON: it
//! looks for the names of the four fields.

use crate::replay::{FIRST_NUMBER, Recorded};
use std::io::{self, BufRead, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weir_wire::packet::{Ack, Connect, Disconnect, Publish, SubscribeBuf, SubscriptionOptions};
use weir_wire::{Frame, Packet, PacketId, Properties, QoS, ReasonCode, Version};

/// Read at once.
const READ_BYTES: usize = 256 * 1024;

/// A server that says nothing for so long is gone.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What is due is looked for this often.
const TICK: Duration = Duration::from_millis(1);

/// Of so many results one is spoilt.
const FAULT_EVERY: u64 = 10;

/// Largest packet it takes.
const PACKET_BYTES_MAX: u32 = (1024 + 128) * 1024;

/// A topic nobody asked for.
const ELSEWHERE: &str = "elsewhere";

/// A stack that stalls does so once, before this result.
const STALL_AT: u64 = 9;
const STALL: Duration = Duration::from_millis(500);

/// What is done to every tenth result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not published, and counted as if it were.
    Lose,
    /// It is published twice.
    Double,
    /// A byte of it is changed.
    Alter,
    /// Something else is published, too.
    Invent,
    /// It is published to another topic.
    Stray,
    /// It is published with RETAIN.
    Retain,
    /// It is published after the one that follows it.
    Swap,
    /// It is counted twice.
    Overstate,
    /// Everything waits for half a second, once.
    Stall,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "lose" => Ok(Self::Lose),
            "double" => Ok(Self::Double),
            "alter" => Ok(Self::Alter),
            "invent" => Ok(Self::Invent),
            "stray" => Ok(Self::Stray),
            "retain" => Ok(Self::Retain),
            "swap" => Ok(Self::Swap),
            "overstate" => Ok(Self::Overstate),
            "stall" => Ok(Self::Stall),
            _ => Err("a fault is lose, double, alter, invent, stray, retain, swap, overstate or \
                      stall"
                .into()),
        }
    }
}

/// What it is told on its command line.
#[derive(Clone, Debug)]
pub struct NullStack {
    /// Where to connect.
    pub server: SocketAddr,
    /// subscribe, workflow, publish or connect.
    pub workflow: String,
    /// What to subscribe to.
    pub filter: String,
    /// Where results go.
    pub topic: String,
    /// Of both directions: 0 or 1.
    pub qos: u8,
    /// Of publish and connect, operations a second.
    pub rate_per_s: f64,
    /// Whether it speaks MQTT 5.0 instead of 3.1.1.
    pub is_v5: bool,
    /// What it does wrong.
    pub fault: Option<Fault>,
}

#[derive(Default)]
struct Counts {
    received: AtomicU64,
    matched: AtomicU64,
    published: AtomicU64,
    connects: AtomicU64,
    is_over: AtomicBool,
}

/// What is to be sent.
struct Sending {
    bytes: Vec<u8>,
    next: PacketId,
    /// A payload that another is to overtake.
    held: Vec<u8>,
}

impl Sending {
    const fn new() -> Self {
        Self { bytes: Vec::new(), next: PacketId::FIRST, held: Vec::new() }
    }
}

impl NullStack {
    /// Runs until it is told to stop, or `input` ends.
    ///
    /// # Errors
    /// A server that cannot be reached or does not speak MQTT; an `output` nobody reads.
    pub fn run(&self, input: impl BufRead, mut output: impl Write) -> io::Result<()> {
        let counts = Arc::new(Counts::default());
        let mut stream = self.connect(&self.client_id())?;
        if self.is_played() {
            self.subscribe(&mut stream)?;
        }
        let (reader, shared) = (stream.try_clone()?, Arc::clone(&counts));
        let of = self.clone();
        let reading = std::thread::spawn(move || of.read(reader, &shared));
        let mut pacing: Option<JoinHandle<io::Result<()>>> = None;
        let version = env!("CARGO_PKG_VERSION");
        writeln!(output, "ready null-stack {version} weir-{version} none")?;
        output.flush()?;
        for line in input.lines() {
            match line?.trim() {
                "start" if pacing.is_none() && !self.is_played() => {
                    let (to, shared) = (stream.try_clone()?, Arc::clone(&counts));
                    let of = self.clone();
                    pacing = Some(std::thread::spawn(move || of.pace(to, &shared)));
                }
                "counts" => self.say(&mut output, &counts)?,
                "stop" => break,
                _ => {}
            }
        }
        counts.is_over.store(true, Ordering::Relaxed);
        if let Some(pacing) = pacing {
            pacing.join().unwrap_or(Ok(()))?;
        }
        self.leave(&mut stream)?;
        // It ends with the connection.
        reading.join().unwrap_or(Ok(()))?;
        self.say(&mut output, &counts)
    }

    fn is_played(&self) -> bool {
        matches!(&*self.workflow, "subscribe" | "workflow")
    }

    fn version(&self) -> Version {
        if self.is_v5 { Version::V5 } else { Version::V311 }
    }

    fn qos(&self) -> QoS {
        if self.qos == 0 { QoS::AtMostOnce } else { QoS::AtLeastOnce }
    }

    fn client_id(&self) -> String {
        format!("stack-{}", std::process::id())
    }

    fn say(&self, output: &mut impl Write, counts: &Counts) -> io::Result<()> {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (received, matched) = (of(&counts.received), of(&counts.matched));
        let (published, connects) = (of(&counts.published), of(&counts.connects));
        write!(output, "counts received={received} matched={matched}")?;
        writeln!(output, " published={published} failed=0 connects={connects}")?;
        output.flush()
    }

    fn send(&self, stream: &mut TcpStream, packet: &Packet<'_>) -> io::Result<()> {
        let mut bytes = Vec::new();
        packet.encode(self.version(), &mut bytes);
        stream.write_all(&bytes)
    }

    fn connect(&self, client_id: &str) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&self.server, ANSWER_MAX)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let connect = Connect::new(self.version(), client_id);
        self.send(&mut stream, &Packet::Connect(connect))?;
        answer(&mut stream)?;
        Ok(stream)
    }

    fn subscribe(&self, stream: &mut TcpStream) -> io::Result<()> {
        let mut filters = SubscribeBuf::new();
        filters.push(
            &self.filter,
            SubscriptionOptions { qos: self.qos(), ..SubscriptionOptions::default() },
        );
        let subscribe = filters.subscribe(self.version(), PacketId::FIRST, Properties::EMPTY);
        self.send(stream, &Packet::Subscribe(subscribe))?;
        answer(stream)
    }

    fn leave(&self, stream: &mut TcpStream) -> io::Result<()> {
        let (reason, properties) = (ReasonCode::Success, Properties::EMPTY);
        let disconnect = Disconnect { reason, properties };
        self.send(stream, &Packet::Disconnect(disconnect))?;
        stream.shutdown(Shutdown::Write)
    }

    /// Counts what comes and sends back what is to be; ends with the connection.
    fn read(&self, mut stream: TcpStream, counts: &Counts) -> io::Result<()> {
        stream.set_read_timeout(None)?;
        let (mut buffer, mut known) = (vec![0; READ_BYTES], 0);
        let mut to = Sending::new();
        loop {
            let read = match stream.read(&mut buffer[known..]) {
                Ok(0) | Err(_) => return Ok(()),
                Ok(read) => read,
            };
            known += read;
            let mut at = 0;
            while let Ok(Some(frame)) = Frame::check(&buffer[at..known], PACKET_BYTES_MAX) {
                at += frame.bytes;
                if let Ok(Packet::Publish(publish)) = Packet::decode(self.version(), frame) {
                    self.take(&publish, counts, &mut to);
                }
            }
            buffer.copy_within(at..known, 0);
            known -= at;
            stream.write_all(&to.bytes)?;
            to.bytes.clear();
        }
    }

    fn take(&self, of: &Publish<'_>, counts: &Counts, to: &mut Sending) {
        if self.workflow == "workflow" && has_cell(of.payload) {
            let number = counts.matched.fetch_add(1, Ordering::Relaxed);
            let mut payload = of.payload.to_vec();
            let (mut times, mut topic, mut retain, mut counted) = (1, &*self.topic, false, 1);
            let held = std::mem::take(&mut to.held);
            match self.fault.filter(|_| number % FAULT_EVERY == FAULT_EVERY - 1) {
                Some(Fault::Lose) => times = 0,
                Some(Fault::Double) => times = 2,
                Some(Fault::Alter) => payload[8] ^= 1,
                Some(Fault::Invent) => self.publish(b"{}", (topic, retain), to),
                Some(Fault::Stray) => topic = ELSEWHERE,
                Some(Fault::Retain) => retain = true,
                Some(Fault::Overstate) => counted = 2,
                Some(Fault::Swap) => {
                    times = 0;
                    to.held.clone_from(&payload);
                }
                Some(Fault::Stall) if number == STALL_AT => std::thread::sleep(STALL),
                Some(Fault::Stall) | None => {}
            }
            for _ in 0..times {
                self.publish(&payload, (topic, retain), to);
            }
            if !held.is_empty() {
                self.publish(&held, (topic, retain), to);
            }
            counts.published.fetch_add(counted, Ordering::Relaxed);
        }
        counts.received.fetch_add(1, Ordering::Relaxed);
        if let Some(packet_id) = of.packet_id {
            Packet::PubAck(Ack::success(packet_id)).encode(self.version(), &mut to.bytes);
        }
    }

    fn publish(&self, payload: &[u8], (topic, retain): (&str, bool), to: &mut Sending) {
        let qos = self.qos();
        let packet_id = (qos != QoS::AtMostOnce).then_some(to.next);
        to.next = to.next.next();
        let (dup, properties) = (false, Properties::EMPTY);
        Publish { dup, qos, retain, topic, packet_id, properties, payload }
            .encode(self.version(), &mut to.bytes);
    }

    /// Publishes, or connects, at its rate.
    fn pace(&self, mut stream: TcpStream, counts: &Counts) -> io::Result<()> {
        let (begin, mut done) = (Instant::now(), 0);
        let mut to = Sending::new();
        let template = Recorded::new();
        while !counts.is_over.load(Ordering::Relaxed) {
            let due = (begin.elapsed().as_secs_f64() * self.rate_per_s) as u64 + 1;
            while done < due && !counts.is_over.load(Ordering::Relaxed) {
                if self.workflow == "connect" {
                    let client_id = format!("{}-{done}", self.client_id());
                    let mut stream = self.connect(&client_id)?;
                    self.leave(&mut stream)?;
                    counts.connects.fetch_add(1, Ordering::Relaxed);
                } else {
                    // The first message of the feed, with its own number.
                    let payload = &template.of(FIRST_NUMBER).payload;
                    self.publish(payload, (&self.topic, false), &mut to);
                    stream.write_all(&to.bytes)?;
                    to.bytes.clear();
                    counts.published.fetch_add(1, Ordering::Relaxed);
                }
                done += 1;
            }
            std::thread::sleep(TICK);
        }
        Ok(())
    }
}

/// Reads one whole packet and looks at no more of it than its end: the server refuses nothing.
fn answer(stream: &mut TcpStream) -> io::Result<()> {
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let mut body = vec![0; head[1].into()];
    stream.read_exact(&mut body)
}

/// Whether the names of all four fields are there.
fn has_cell(payload: &[u8]) -> bool {
    let has = |name: &[u8]| payload.windows(name.len()).any(|part| part == name);
    [&b"\"cell_id\":"[..], b"\"lac\":", b"\"mnc\":", b"\"mcc\":"].into_iter().all(has)
}
