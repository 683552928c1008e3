//! How close a broker stays to its memory ceiling while clients ask for as much as they can.
//!
//! Each attack would take several times the ceiling. Four attackers send without waiting for more
//! than a window of answers, and the broker's resident memory is looked at all the while.

use anyhow::Context as _;
use procfs::process::Process;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weir_wire::packet::{Connect, Publish, SubscribeBuf, SubscriptionOptions, Will};
use weir_wire::{PacketId, Properties, PropertiesBuf, Property, QoS, Version};

const ATTACKERS: usize = 4;

/// An attack ends after this time: by then all of them have met the ceiling.
const ATTACK_MAX: Duration = Duration::from_secs(5);

/// Bytes of answers that are read at once, and never looked at.
const ANSWER_BYTES: usize = 64 * 1024;

/// An attack: what one attacker does until its time is over.
pub(crate) struct Attack {
    /// What it is.
    pub(crate) name: &'static str,
    act: fn(&Attacker<'_>) -> std::io::Result<()>,
}

/// All of them.
pub(crate) const ATTACKS: [Attack; 5] = [
    Attack { name: "queues of absent sessions, 4 kB a message", act: absent_queues },
    Attack { name: "wills of 60 kB", act: wills },
    Attack { name: "filters of 60 kB", act: filters },
    Attack { name: "16 topic aliases of 65 kB per client", act: aliases },
    Attack { name: "QoS 0 to clients that do not read", act: non_readers },
];

impl Attack {
    /// Attacks a broker. Returns the most resident memory that it was seen with, in bytes.
    ///
    /// # Errors
    /// The broker does not start, or ends.
    pub(crate) fn run(&self, broker: &Broker) -> anyhow::Result<u64> {
        let (address, until) = (broker.address, Instant::now() + ATTACK_MAX);
        let done = AtomicUsize::new(0);
        let mut most = 0;
        std::thread::scope(|scope| {
            for number in 0..ATTACKERS {
                let (done, act) = (&done, self.act);
                scope.spawn(move || {
                    // A connection that the broker cuts ends nothing but itself.
                    while Instant::now() < until {
                        let _ = act(&Attacker { address, number, until: &until });
                    }
                    done.fetch_add(1, Ordering::Release);
                });
            }
            while done.load(Ordering::Acquire) < ATTACKERS {
                most = most.max(broker.resident()?);
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(most)
        })
    }
}

/// A broker in a process of its own.
#[derive(Debug)]
pub(crate) struct Broker {
    child: Child,
    address: SocketAddr,
}

impl Broker {
    /// Starts `program` with so many shards and such a ceiling, in bytes.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start(program: &str, shards: u16, ceiling_bytes: u64) -> anyhow::Result<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let path = std::env::temp_dir().join(format!("weir-ceiling-{port}.toml"));
        let text = format!(
            "listen = [\"{address}\"]\nshards = {shards}\n\
             [process]\nmemory_bytes_max = {ceiling_bytes}\n"
        );
        std::fs::write(&path, text)?;
        let child = Command::new(program)
            .args(["broker", "--config"])
            .arg(&path)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("{program} does not start"))?;
        let broker = Self { child, address };
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            anyhow::ensure!(Instant::now() < deadline, "the broker does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::fs::remove_file(&path)?;
        Ok(broker)
    }

    /// Resident bytes.
    ///
    /// # Errors
    /// It is gone.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        let process = Process::new(self.child.id().cast_signed())?;
        Ok(process.statm()?.resident * procfs::page_size())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Attacker<'a> {
    address: SocketAddr,
    number: usize,
    until: &'a Instant,
}

impl Attacker<'_> {
    fn is_over(&self) -> bool {
        Instant::now() >= *self.until
    }

    /// A connection whose CONNECT is sent and not answered yet.
    fn connect(&self, id: &str, expiry_s: u32, will: &[u8]) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.set_write_timeout(Some(Duration::from_secs(1)))?;
        let mut properties = PropertiesBuf::new();
        if expiry_s > 0 {
            properties.push(Property::SessionExpiryInterval(expiry_s));
        }
        let will = (!will.is_empty()).then_some(Will {
            topic: "will",
            payload: will,
            qos: QoS::AtMostOnce,
            retain: false,
            properties: Properties::EMPTY,
        });
        let connect = Connect {
            version: Version::V5,
            clean_start: false,
            keep_alive_s: 0,
            client_id: id,
            will,
            user_name: None,
            password: None,
            properties: properties.as_properties(),
        };
        let mut bytes = Vec::new();
        connect.encode(&mut bytes);
        stream.write_all(&bytes)?;
        Ok(stream)
    }
}

/// Reads what has come, and waits if it is nothing.
fn read_some(stream: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<()> {
    match stream.read(buffer)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn subscribe(filters: &[String]) -> Vec<u8> {
    let mut buf = SubscribeBuf::new();
    let options = SubscriptionOptions { qos: QoS::AtLeastOnce, ..SubscriptionOptions::default() };
    filters.iter().for_each(|filter| buf.push(filter, options));
    let mut bytes = Vec::new();
    let subscribe = buf.subscribe(Version::V5, PacketId::FIRST, Properties::EMPTY);
    subscribe.encode(Version::V5, &mut bytes);
    bytes
}

fn publish(topic: &str, qos: QoS, packet_id: u16, alias: u16, payload: &[u8]) -> Vec<u8> {
    let mut properties = PropertiesBuf::new();
    if alias > 0 {
        properties.push(Property::TopicAlias(alias));
    }
    let mut bytes = Vec::new();
    let publish = Publish {
        dup: false,
        qos,
        retain: false,
        topic,
        packet_id: PacketId::new(packet_id),
        properties: properties.as_properties(),
        payload,
    };
    publish.encode(Version::V5, &mut bytes);
    bytes
}

fn absent_queues(attacker: &Attacker<'_>) -> std::io::Result<()> {
    const SESSIONS: usize = 20;
    /// Messages sent before an answer is waited for.
    const WINDOW: usize = 64;
    let (number, mut buffer) = (attacker.number, vec![0; ANSWER_BYTES]);
    for at in 0..SESSIONS {
        let mut session = attacker.connect(&format!("absent-{number}-{at}"), 1000, b"")?;
        read_some(&mut session, &mut buffer)?;
        session.write_all(&subscribe(&[format!("queue/{number}/{at}")]))?;
        read_some(&mut session, &mut buffer)?;
    }
    let mut publisher = attacker.connect(&format!("flood-{number}"), 0, b"")?;
    let payload = vec![b'q'; 4_000];
    while !attacker.is_over() {
        for at in 0..WINDOW {
            let topic = format!("queue/{number}/{}", at % SESSIONS);
            let id = at as u16 + 1;
            publisher.write_all(&publish(&topic, QoS::AtLeastOnce, id, 0, &payload))?;
        }
        read_some(&mut publisher, &mut buffer)?;
    }
    Ok(())
}

fn wills(attacker: &Attacker<'_>) -> std::io::Result<()> {
    let will = vec![b'w'; 60_000];
    let mut kept = Vec::new();
    while !attacker.is_over() {
        let id = format!("will-{}-{}", attacker.number, kept.len());
        // Who is refused makes place for others.
        match attacker.connect(&id, 0, &will) {
            Ok(stream) if kept.len() < 4_000 => kept.push(stream),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Ok(())
}

fn filters(attacker: &Attacker<'_>) -> std::io::Result<()> {
    let mut buffer = vec![0; ANSWER_BYTES];
    let mut client = attacker.connect(&format!("filters-{}", attacker.number), 0, b"")?;
    read_some(&mut client, &mut buffer)?;
    for round in 0.. {
        if attacker.is_over() {
            break;
        }
        let name = |at| format!("{}/{round}/{at}/{}", attacker.number, "f".repeat(60_000));
        let filters: Vec<String> = (0..10).map(name).collect();
        client.write_all(&subscribe(&filters))?;
        read_some(&mut client, &mut buffer)?;
    }
    Ok(())
}

fn aliases(attacker: &Attacker<'_>) -> std::io::Result<()> {
    let mut kept = Vec::new();
    while !attacker.is_over() && kept.len() < 1_000 {
        let mut client =
            attacker.connect(&format!("aliases-{}-{}", attacker.number, kept.len()), 0, b"")?;
        let topic = "a".repeat(65_000);
        for alias in 1..=16 {
            if client.write_all(&publish(&topic, QoS::AtMostOnce, 0, alias, b"")).is_err() {
                break;
            }
        }
        kept.push(client);
    }
    while !attacker.is_over() {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn non_readers(attacker: &Attacker<'_>) -> std::io::Result<()> {
    let mut buffer = vec![0; ANSWER_BYTES];
    let mut deaf = Vec::new();
    for at in 0..100 {
        let mut client = attacker.connect(&format!("deaf-{}-{at}", attacker.number), 0, b"")?;
        client.write_all(&subscribe(&["flood/#".to_owned()]))?;
        read_some(&mut client, &mut buffer)?;
        deaf.push(client);
    }
    let mut publisher = attacker.connect(&format!("loud-{}", attacker.number), 0, b"")?;
    let message = publish("flood/a", QoS::AtMostOnce, 0, 0, &vec![b'x'; 3_000]);
    while !attacker.is_over() {
        publisher.write_all(&message)?;
    }
    Ok(())
}
