//! How close a broker stays to its memory ceiling while clients ask for as much as they can.
//!
//! Each attack would take several times the ceiling. Four attackers send without waiting for more
//! than a window of answers, and the broker's resident memory is looked at all the while.

use crate::broker::Broker;
use crate::client::{self, publish, read_some, subscribe};
use crate::witness::Witness;
use procfs::process::Process;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weir_wire::QoS;

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

/// What was seen of a broker under an attack.
pub(crate) struct Seen {
    /// The most resident memory, in bytes.
    pub(crate) most_bytes: u64,
    /// Messages to an absent session that were acknowledged meanwhile.
    pub(crate) acknowledged: usize,
    /// Those of them that it was not given when it came back.
    pub(crate) lost: usize,
}

impl Attack {
    /// Attacks a broker.
    ///
    /// # Errors
    /// The broker does not start, or ends.
    pub(crate) fn run(&self, broker: &Broker) -> anyhow::Result<Seen> {
        let (address, until) = (broker.address, Instant::now() + ATTACK_MAX);
        let done = AtomicUsize::new(0);
        let mut most_bytes = 0;
        let mut witness = Witness::new(address)?;
        let watched = std::thread::scope(|scope| -> anyhow::Result<()> {
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
            let witness = &mut witness;
            scope.spawn(move || witness.publish(until));
            while done.load(Ordering::Acquire) < ATTACKERS {
                most_bytes = most_bytes.max(resident_bytes(broker)?);
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(())
        });
        watched?;
        Ok(Seen { most_bytes, acknowledged: witness.acknowledged(), lost: witness.lost()? })
    }
}

fn resident_bytes(broker: &Broker) -> anyhow::Result<u64> {
    let process = Process::new(broker.pid().as_raw_pid())?;
    Ok(process.statm()?.resident * procfs::page_size())
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
        client::connect(self.address, id, expiry_s, will)
    }
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
