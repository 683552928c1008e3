//! A topic to the shards whose clients want it, by QoS 0 messages on the first shard of two.

use super::Workload;
use crate::packets::{connect, publish};
use weir_core::{ConnKey, Limits, Mail, Micros, Notice, Shard, ShardId, Sink};
use weir_wire::packet::{SubscribeBuf, SubscriptionOptions};
use weir_wire::{PacketId, Properties, QoS, Version};

const MESSAGES: usize = 1000;
const FILTERS: usize = 10_000;
const NOW: Micros = Micros(1_000_000);
const OTHER: ShardId = ShardId(1);

/// Each message is for a client of the other shard.
pub(super) const EXACT: Workload = Workload {
    name: "elsewhere-1-of-10000-exact",
    operations: MESSAGES as u64,
    prepare: || one_of(|at| format!("fleet/{}/truck/{at}/state", at % 100), Wanted::Elsewhere),
};

pub(super) const WILDCARDS: Workload = Workload {
    name: "elsewhere-1-of-10000-wildcards",
    operations: MESSAGES as u64,
    prepare: || one_of(|at| format!("fleet/{}/truck/{at}/#", at % 100), Wanted::Elsewhere),
};

/// The other shard's clients want other topics.
pub(super) const HERE: Workload = Workload {
    name: "here-of-2-shards-wildcards",
    operations: MESSAGES as u64,
    prepare: || one_of(|at| format!("fleet/{}/truck/{at}/#", at % 100), Wanted::Here),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Here,
    Elsewhere,
}

/// Counts what goes to clients and to the other shard.
#[derive(Debug, Default)]
struct Counts {
    bytes: usize,
    letters: usize,
    /// The last number of what the other shard is to note.
    told: u64,
    is_handed_over: bool,
}

impl Sink for Counts {
    fn write(&mut self, _conn: ConnKey, bytes: &[u8]) {
        self.bytes += bytes.len();
    }

    fn pending(&self, _conn: ConnKey) -> usize {
        0
    }

    fn close(&mut self, conn: ConnKey) {
        panic!("connection {} was ended", conn.0);
    }

    fn hand_over(&mut self, _conn: ConnKey, _to: ShardId) {
        self.is_handed_over = true;
    }

    fn mail(&mut self, _to: ShardId, mail: Mail) {
        match mail {
            Mail::Publish { .. } => self.letters += 1,
            Mail::Interest { number, .. } => self.told = number,
            _ => {}
        }
    }

    fn notice(&mut self, _notice: Notice<'_>) {}
}

fn one_of(filter: impl Fn(usize) -> String, wanted: Wanted) -> Box<dyn FnMut()> {
    let mut shard = Shard::new(ShardId(0), 2, Limits::default(), 1);
    let publisher = client(&mut shard, 0);
    let subscriber = client(&mut shard, 1000);
    for at in 0..FILTERS {
        if wanted == Wanted::Here {
            subscribe(&mut shard, subscriber, &filter(at));
        }
        let at = if wanted == Wanted::Here { at + FILTERS } else { at };
        let mail = Mail::Interest { filter: filter(at).into(), number: at as u64 + 1 };
        shard.mail(OTHER, mail, NOW, &mut Counts::default());
    }
    let mut bytes = Vec::new();
    for at in 0..MESSAGES {
        let at = at * 7919 % FILTERS;
        let topic = format!("fleet/{}/truck/{at}/state", at % 100);
        bytes.extend(publish(&topic, QoS::AtMostOnce, 16));
    }
    Box::new(move || {
        let mut counts = Counts::default();
        assert_eq!(shard.received(publisher, &bytes, NOW, &mut counts), bytes.len());
        let is_here = wanted == Wanted::Here;
        let expected = if is_here { (bytes.len(), 0) } else { (0, MESSAGES) };
        assert_eq!((counts.bytes, counts.letters), expected, "each message went one way");
    })
}

/// Connects a client that this shard owns; its identifiers are tried from `first` on.
fn client(shard: &mut Shard, first: u32) -> ConnKey {
    for conn in (first..).map(ConnKey) {
        let mut counts = Counts::default();
        shard.opened(conn, NOW);
        let packet = connect(Version::V311, &format!("client-{}", conn.0));
        shard.received(conn, &packet, NOW, &mut counts);
        if !counts.is_handed_over {
            return conn;
        }
    }
    unreachable!("there is no end of identifiers")
}

fn subscribe(shard: &mut Shard, conn: ConnKey, filter: &str) {
    let mut filters = SubscribeBuf::new();
    filters.push(filter, SubscriptionOptions::default());
    let subscribe = filters.subscribe(Version::V311, PacketId::FIRST, Properties::EMPTY);
    let mut bytes = Vec::new();
    subscribe.encode(Version::V311, &mut bytes);
    let mut counts = Counts::default();
    assert_eq!(shard.received(conn, &bytes, NOW, &mut counts), bytes.len());
    let (pending, done, retains) = Default::default();
    let receipt = Mail::Receipt { number: counts.told, pending, done, retains, is_short: false };
    shard.mail(OTHER, receipt, NOW, &mut counts);
}
