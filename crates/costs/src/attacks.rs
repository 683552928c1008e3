//! One client that asks for as much as it can, and what others feel of it: the longest turn of the
//! shard, and the latency of a victim that publishes at a fixed rate to a subscriber of its own.
//!
//! One thread plays shell: in each turn the attacker's socket is read, the victim's messages that
//! are due are given to the shard, and what is due by the shard's own clock is done.

use crate::packets::{connect, publish};
use std::time::{Duration, Instant};
use weir_core::{ConnKey, Limits, Mail, Micros, Notice, Shard, ShardId, Sink};
use weir_wire::packet::{Publish, SubscribeBuf, SubscriptionOptions, UnsubscribeBuf};
use weir_wire::{PacketId, Properties, QoS, Version};

const ATTACKER: ConnKey = ConnKey(0);
const VICTIM: ConnKey = ConnKey(1);
const SUBSCRIBER: ConnKey = ConnKey(2);

/// What the victim's messages are apart.
const INTERVAL: Duration = Duration::from_micros(200);

/// Its messages before the attack, and at least so many during it or behind it.
const MESSAGES: usize = 10_000;

/// Bytes that a socket is read for at a time.
const READ_BYTES: usize = 256 * 1024;

/// An attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// What it is.
    pub name: &'static str,
    /// What the victim publishes on.
    topic: fn() -> String,
    /// What the shard retains before: topics.
    retained: usize,
    /// What the attacker sends.
    bytes: fn() -> Vec<u8>,
    /// How many filters it is answered for, at least: an attack that is refused whole is none.
    answers: usize,
    /// Whether it is over once it is answered, or lasts.
    lasts: bool,
}

/// All of them.
pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "10,000 filters of 128 levels, each a or +",
        topic: || "a/".repeat(127) + "y",
        retained: 0,
        bytes: shapes,
        answers: 10_000,
        lasts: true,
    },
    Attack {
        name: "1,000 filters that match none of 100,000 retained messages",
        topic: victim,
        retained: 100_000,
        bytes: || subscribe((0..1_000).map(|at| format!("t/+/{at}"))),
        answers: 1_000,
        lasts: false,
    },
    Attack {
        name: "a SUBSCRIBE of 158,556 filters, 10,000 different ones",
        topic: victim,
        retained: 0,
        bytes: || subscribe(names()),
        answers: FILTERS,
        lasts: false,
    },
    Attack {
        name: "the same, and an UNSUBSCRIBE of as many",
        topic: victim,
        retained: 0,
        bytes: || [subscribe(names()), unsubscribe(names())].concat(),
        answers: FILTERS,
        lasts: false,
    },
    Attack {
        name: "10,000 subscriptions, whose session ends",
        topic: victim,
        retained: 0,
        bytes: || {
            let filters = (0..10_000).map(|at| format!("site/{at}/+/device"));
            [subscribe(filters), vec![0xE0, 0]].concat()
        },
        answers: 10_000,
        lasts: false,
    },
];

fn victim() -> String {
    "victim/1".into()
}

/// Filters of a packet just below the largest that is taken.
const FILTERS: usize = 158_556;

/// 10,000 names in turn, of up to four letters.
fn names() -> impl Iterator<Item = String> {
    let letter = |number: usize| char::from(b'a' + (number % 26) as u8);
    let name = move |mut number: usize| {
        let mut name = String::new();
        while name.is_empty() || number > 0 {
            name.push(letter(number));
            number /= 26;
        }
        name
    };
    (0..FILTERS).map(move |at| name(at % 10_000))
}

fn shapes() -> Vec<u8> {
    let filters: Vec<String> = (1..=10_000_u64)
        .map(|number| {
            let mut bits = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut level = |_| {
                bits = bits.rotate_left(7).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                if bits >> 63 == 1 { "+/" } else { "a/" }
            };
            (0..127).map(&mut level).collect::<String>() + "z"
        })
        .collect();
    let packets = filters.chunks(3_000);
    packets.flat_map(|filters| subscribe(filters.iter().cloned())).collect()
}

fn subscribe(filters: impl Iterator<Item = String>) -> Vec<u8> {
    let (mut all, mut bytes) = (SubscribeBuf::new(), Vec::new());
    filters.for_each(|filter| all.push(&filter, SubscriptionOptions::default()));
    let packet = all.subscribe(Version::V311, PacketId::FIRST, Properties::EMPTY);
    packet.encode(Version::V311, &mut bytes);
    bytes
}

fn unsubscribe(filters: impl Iterator<Item = String>) -> Vec<u8> {
    let (mut all, mut bytes) = (UnsubscribeBuf::new(), Vec::new());
    filters.for_each(|filter| all.push(&filter));
    all.unsubscribe(PacketId::FIRST, Properties::EMPTY).encode(Version::V311, &mut bytes);
    bytes
}

/// What the victim felt.
#[derive(Clone, Copy, Debug)]
pub struct Felt {
    /// The longest turn of the shard.
    pub turn_us_max: f64,
    /// The victim's latency from when its messages were due.
    pub latency_us_p99: f64,
    /// The longest.
    pub latency_us_max: f64,
    /// How long it lasted.
    pub seconds: f64,
}

impl Attack {
    /// What the victim feels before the attack, and while it lasts, and what the attack takes of
    /// what is `resident` in memory.
    pub fn run(&self, resident: impl Fn() -> u64) -> (Felt, Felt, u64) {
        let mut play = Play::new(self);
        let before = play.turns(Vec::new(), MESSAGES);
        let (bytes, at_first) = ((self.bytes)(), resident());
        let during = play.turns(bytes, if self.lasts { MESSAGES } else { 0 });
        assert!(play.wires.answered > self.answers, "{}: refused", self.name);
        (before, during, resident().saturating_sub(at_first))
    }
}

/// What the shard says.
#[derive(Debug, Default)]
struct Wires {
    outputs: [Vec<u8>; 3],
    /// Bytes to the attacker so far.
    answered: usize,
    /// The attacker's bytes wait.
    is_paused: bool,
    /// The attacker's connection is over.
    is_closed: bool,
}

impl Sink for Wires {
    fn write(&mut self, conn: ConnKey, bytes: &[u8]) {
        self.outputs[conn.0 as usize].extend_from_slice(bytes);
        self.answered += if conn == ATTACKER { bytes.len() } else { 0 };
    }

    fn pending(&self, conn: ConnKey) -> usize {
        self.outputs[conn.0 as usize].len()
    }

    fn close(&mut self, _conn: ConnKey) {
        self.is_closed = true;
    }

    fn hand_over(&mut self, _conn: ConnKey, _to: ShardId) {}

    fn mail(&mut self, _to: ShardId, _mail: Mail) {}

    fn pause(&mut self, _conn: ConnKey) {
        self.is_paused = true;
    }

    fn resume(&mut self, _conn: ConnKey) {
        self.is_paused = false;
    }

    fn notice(&mut self, _notice: Notice<'_>) {}
}

/// The shard with its shell.
struct Play {
    shard: Shard,
    wires: Wires,
    begin: Instant,
    message: Vec<u8>,
}

impl Play {
    fn new(attack: &Attack) -> Self {
        let shard = Shard::new(ShardId(0), 1, Limits::default(), 1);
        let message = publish(&(attack.topic)(), QoS::AtMostOnce, 16);
        let mut play = Self { shard, wires: Wires::default(), begin: Instant::now(), message };
        for conn in [ATTACKER, VICTIM, SUBSCRIBER] {
            play.shard.opened(conn, play.now());
            play.give(conn, &connect(Version::V311, &format!("client-{}", conn.0)));
        }
        play.give(SUBSCRIBER, &subscribe([(attack.topic)()].into_iter()));
        for at in 0..attack.retained {
            let mut bytes = Vec::new();
            Publish {
                dup: false,
                qos: QoS::AtMostOnce,
                retain: true,
                topic: &format!("t/{at}/state"),
                packet_id: None,
                properties: Properties::EMPTY,
                payload: &[0x61; 16],
            }
            .encode(Version::V311, &mut bytes);
            play.give(VICTIM, &bytes);
        }
        play
    }

    fn now(&self) -> Micros {
        Micros(1_000_000 + self.begin.elapsed().as_micros() as u64)
    }

    fn give(&mut self, conn: ConnKey, bytes: &[u8]) -> usize {
        let now = self.now();
        self.shard.received(conn, bytes, now, &mut self.wires)
    }

    /// Turns until all that the attacker sent is done and the victim has sent as many messages.
    fn turns(&mut self, mut unsent: Vec<u8>, messages: usize) -> Felt {
        let begin = Instant::now();
        let (mut turn_max, mut latencies) = (Duration::ZERO, Vec::new());
        let mut unread = Vec::new();
        let mut is_open = true;
        loop {
            let turn = Instant::now();
            if is_open && !self.wires.is_paused {
                unread.extend(unsent.drain(..unsent.len().min(READ_BYTES)));
                let consumed = self.give(ATTACKER, &unread);
                unread.drain(..consumed);
                is_open = !self.wires.is_closed;
            }
            let mut intended = begin + INTERVAL * latencies.len() as u32;
            while intended <= turn {
                let message = std::mem::take(&mut self.message);
                self.give(VICTIM, &message);
                self.message = message;
                latencies.push(intended.elapsed());
                intended += INTERVAL;
            }
            let now = self.now();
            let is_due = |due: Option<Micros>| due.is_some_and(|due| due.0 <= now.0 + 1);
            if is_due(self.shard.poll_timeout()) {
                self.shard.handle_timeout(now, &mut self.wires);
            }
            turn_max = turn_max.max(turn.elapsed());
            self.wires.outputs.iter_mut().for_each(Vec::clear);
            let is_busy = is_due(self.shard.poll_timeout()) || !(unsent.is_empty() && is_open);
            let is_over = unread.is_empty() && (unsent.is_empty() || !is_open);
            if is_over && !(is_busy && is_open) && latencies.len() >= messages.max(10) {
                break;
            }
        }
        latencies.sort_unstable();
        let us = |duration: Duration| duration.as_secs_f64() * 1e6;
        Felt {
            turn_us_max: us(turn_max),
            latency_us_p99: us(latencies[(latencies.len() - 1) * 99 / 100]),
            latency_us_max: latencies.last().map_or(0.0, |&last| us(last)),
            seconds: begin.elapsed().as_secs_f64(),
        }
    }
}
