//! Shards, clients and the network between them, and the books that all is entered into.

mod actions;
mod calm;
mod copies;
mod crash;
mod door;
mod host;
mod journal;
mod line;
mod moves;
mod nodes;
mod pages;
mod pressure;
mod sink;

use crate::chance::Chance;
use crate::client::Client;
use crate::model::Model;
use crate::names::{ClientNo, ConnNo, Root};
use crate::plant::{Plant, Saboteur};
use crate::trace::Trace;
use copies::Copies;
use crash::Crashes;
use door::Question;
use journal::Journal;
use line::Line;
use moves::Moves;
pub use nodes::Size;
use pages::Pages;
use pressure::Pressure;
use sink::Letter;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_core::{
    Claim, ConnKey, Features, Limits, Micros, Settings, Shard, ShardId, SharePolicy, ShareRule,
    ShareStrategy, Wall, WhenAbsent, WhenConnected,
};
use weir_wire::Version;

/// Between the clock of the run and that of what is encoded.
const WALL: Wall = Wall(0);

/// Clients that act; further ones are fresh subscribers.
const CLIENTS: usize = 8;

/// Everything of one run.
#[derive(Debug)]
pub struct World {
    /// The books.
    pub model: Model,
    /// What happened.
    pub trace: Trace,
    shards: Vec<Shard>,
    ports: Vec<Port>,
    journals: Vec<Journal>,
    crashes: Crashes,
    copies: Copies,
    pages: Pages,
    /// Letters on their way, by sender and receiver.
    mail: BTreeMap<(usize, usize), VecDeque<(Root, Letter)>>,
    /// Senders and receivers whose letters wait for the time being.
    held_up: BTreeSet<(usize, usize)>,
    /// Letters on their way, by the call that set them off.
    open_letters: BTreeMap<Root, usize>,
    roots: usize,
    /// What the shards asked the authentication port.
    questions: Vec<Question>,
    /// Connections whose clients are who they say, and have not been let in yet.
    accepted: BTreeSet<ConnNo>,
    /// Whose sessions were claimed.
    claims: BTreeMap<Claim, ClientNo>,
    moves: Moves,
    pressure: Pressure,
    lines: Vec<Line>,
    clients: Vec<Client>,
    saboteur: Saboteur,
    /// A shard is given no more than one packet a call, so that it is known which one it refused,
    /// or that a SUBSCRIBE need not wait for a later turn.
    is_one_packet: bool,
    /// The chance of the present step.
    chance: Chance,
    seed: u64,
    probes: usize,
    /// Packets that a client sends again at a time.
    resend_max: usize,
    /// What one input may cost a shard.
    steps_max: u64,
    settings: Settings,
    size: Size,
}

/// The connections of one shard, by the key it knows them by.
#[derive(Debug, Default)]
struct Port {
    conns: BTreeMap<ConnKey, ConnNo>,
    /// Keys to be given again.
    free: Vec<ConnKey>,
    /// Keys given so far.
    count: u32,
}

impl World {
    /// The start of a run: what the shards are like hangs on the seed as well.
    pub fn new(
        seed: u64,
        size: Size,
        plant: Option<Plant>,
        (crashes, lost_at_once): (bool, u16),
        is_printed: bool,
    ) -> Self {
        let shards = size.shards_in_all();
        let mut chance = Chance::new(seed, 0);
        let mut settings = settings(&mut chance);
        let pages = Pages::new(crashes && size.nodes == 1, seed);
        if pages.is_on() {
            // More waits than is in flight. What is dropped from a page has no topic by which the
            // books could excuse it.
            settings.limits.in_flight_max = settings.limits.in_flight_max.min(3);
            settings.limits.queue_messages_max = 10_000;
        }
        let input_steps_max = settings.limits.input_steps_max;
        let mut trace = Trace::new(is_printed);
        trace.add(format_args!("seed {seed}, {size:?}, {settings:?}"));
        let is_one_packet = settings.limits.queue_full_connected == WhenConnected::RefusePublisher
            || settings.limits.queue_full_absent == WhenAbsent::RefusePublisher
            || input_steps_max == FEW_STEPS
            // An answer promises what was consumed before it, and nothing of what came along.
            || crashes;
        let versions = [Version::V5, Version::V311, Version::V5, Version::V5, Version::V31];
        let clients = (0..CLIENTS).map(|at| Client::new(versions[at % versions.len()])).collect();
        let mut world = Self {
            model: Model::new(settings.limits.clone(), START),
            trace,
            shards: Vec::new(),
            ports: Vec::new(),
            journals: Vec::new(),
            crashes: Crashes::new(crashes, shards, seed),
            copies: Copies::new(lost_at_once),
            pages,
            mail: BTreeMap::new(),
            held_up: BTreeSet::new(),
            open_letters: BTreeMap::new(),
            roots: 0,
            questions: Vec::new(),
            accepted: BTreeSet::new(),
            claims: BTreeMap::new(),
            moves: Moves::of_run(size, crashes, seed),
            pressure: Pressure::new(seed),
            lines: Vec::new(),
            clients,
            saboteur: Saboteur::new(plant, seed),
            is_one_packet,
            chance,
            seed,
            probes: 0,
            resend_max: usize::MAX,
            steps_max: u64::from(input_steps_max) * STEPS_FACTOR + LAST_STEPS_MAX,
            settings,
            size,
        };
        world.make_shards(shards);
        world.model.is_pressed = world.pressure.is_on();
        if crashes {
            world.model.is_logged = true;
            world.model.is_copied = world.copies.are_on;
            world.start(0..shards.into(), &[]);
        }
        if size.nodes > 1 {
            world.join_all();
        }
        world
    }

    /// Shards that hold nothing and know nobody.
    fn make_shards(&mut self, count: u16) {
        let make = |id| match self.size.nodes {
            1 => Shard::new(ShardId(id), count, self.settings.clone(), self.seed),
            _ => self.make_shard(id),
        };
        self.shards = (0..count).map(make).collect();
        self.ports = (0..count).map(|_| Port::default()).collect();
        self.journals = (0..count).map(|_| Journal::default()).collect();
    }

    /// One of a node among others.
    fn make_shard(&self, id: u16) -> Shard {
        let node = self.size.node_of(id);
        let mut shard = Shard::of_node(ShardId(id), node, self.settings.clone(), self.seed);
        shard.set_clustered(self.now().0, self.now(), WALL);
        shard.set_copied(self.copies.are_on);
        shard
    }

    fn now(&self) -> Micros {
        self.model.now
    }
}

/// Times the steps after which an input lets the rest wait: what its packets may cost, and what the
/// last of them may cost beyond.
const STEPS_FACTOR: u64 = 16;
const LAST_STEPS_MAX: u64 = 1_000;

/// So few steps that retained messages wait for later turns. Enough for every filter of a SUBSCRIBE
/// that comes alone: the books have it that one is in force from when it was taken in.
const FEW_STEPS: u32 = 40;

/// The stream of chance that says whether partitions move: no step has it.
const MOVES_STREAM: u64 = u64::MAX - 1;

/// The time at which a run begins.
const START: Micros = Micros(1_000_000);

/// Bounds that are often met, or never.
fn settings(chance: &mut Chance) -> Settings {
    let defaults = Limits::default();
    let refuses = chance.one_in(4);
    let limits = Limits {
        in_flight_max: chance.pick(&[2, 5, 1024]),
        queue_messages_max: chance.pick(&[6, 40, 10_000, 10_000]),
        output_bytes_max: chance.pick(&[100, 400, 1024 * 1024]),
        queue_full_connected: if refuses && chance.one_in(2) {
            WhenConnected::RefusePublisher
        } else {
            WhenConnected::EndConnection
        },
        queue_full_absent: if refuses {
            WhenAbsent::RefusePublisher
        } else {
            chance.pick(&[WhenAbsent::DropOldest, WhenAbsent::EndSession])
        },
        topic_alias_out_max: chance.pick(&[0, 1, 16]),
        answers_held_max: chance.pick(&[1, 3, 4096]),
        // Letters of a run may be held up for longer than any broker would wait.
        answer_wait_s_max: u32::MAX,
        ..defaults
    };
    let strategy = chance.pick(&[
        ShareStrategy::RoundRobin,
        ShareStrategy::Random,
        ShareStrategy::StickyClient,
        ShareStrategy::Hash,
    ]);
    let rules = vec![ShareRule { prefix: "g".into(), strategy }];
    let input_steps_max = chance.pick(&[limits.input_steps_max, limits.input_steps_max, FEW_STEPS]);
    let limits = Limits { input_steps_max, ..limits };
    let features = Features { authentication: chance.one_in(3), ..Features::default() };
    Settings { limits, features, share: SharePolicy { rules } }
}
