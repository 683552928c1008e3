//! Hosts whose nodes agree by one store: with clocks that run at other rates, delays, lost
//! questions and answers, cuts, freezes, kills and returns, all from a seed.
//!
//! A host takes turns as a broker does: it looks whether it may act, and has acted some time later.
//! What is checked is that nobody acts in an epoch of a partition after somebody has in a later
//! one.

use std::collections::{BTreeMap, BTreeSet};
use weir_chance::Chance;
use weir_cluster::{
    Ask, Asker, Cas, Change, Collected, Event, Failure, Heard, Members, MembersSettings, Node,
    Place, Revision, Said, Store, Ticket, Times,
};
use weir_core::{Micros, Partition};

const SECOND: u64 = 1_000_000;

/// For how long there are faults, and how long everything may take to be well afterwards.
const FAULTS_FOR: u64 = 60 * SECOND;
const WELL_AFTER: u64 = 25 * SECOND;

/// The longest turn: below the wait of `Times`, by the fastest clock.
const TURN_MAX: u64 = 900_000;

/// What is built in wrong, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    Nothing,
    /// What a lost node had is taken at once.
    NoWait,
    /// A node acts for longer than its lease lasts.
    LateFence,
    /// A node says that it has released what it still acts for.
    EarlyRelease,
}

/// What happens at a time.
enum Due {
    Ask { host: usize, line: Line, ticket: Ticket, ask: Ask },
    Said { host: usize, line: Line, ticket: Ticket, said: Said },
    Timer { host: usize, life: u32 },
    TurnEnd { host: usize, life: u32, turn: u64, acts: Vec<(Partition, u64)> },
    Start { host: usize },
    Fault,
}

/// A host's connection to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    life: u32,
    cut: u32,
}

struct Host {
    name: String,
    shards: u16,
    members: Option<Members>,
    line: Line,
    /// Of its clock, in millionths, and where that began.
    rate: u64,
    epoch: u64,
    frozen_until: u64,
    cut_until: u64,
    /// Changes come in order.
    changed_at: u64,
    timer_at: u64,
    turn: u64,
    to_release: Option<u64>,
}

pub(crate) struct World {
    now: u64,
    chance: Chance,
    plant: Plant,
    store: Store,
    store_rate: u64,
    away_until: u64,
    hosts: Vec<Host>,
    due: BTreeMap<(u64, u64), Due>,
    numbers: u64,
    /// The last epoch of each partition that somebody has acted in, and who.
    acted: BTreeMap<u8, (u64, usize)>,
    places: BTreeMap<String, Place>,
    faults: Vec<String>,
    /// How often anybody has acted, and how often partitions have moved.
    pub(crate) acts: u64,
    pub(crate) moves: u64,
}

/// Lets a world run from a seed.
///
/// # Errors
/// What was wrong in it.
pub(crate) fn run(seed: u64, plant: Plant) -> Result<World, String> {
    let mut world = World::new(seed, plant);
    world.live();
    if world.faults.is_empty() {
        world.check_well();
    }
    match world.faults.first() {
        None => Ok(world),
        Some(fault) => Err(format!("seed {seed}: {fault}")),
    }
}

impl World {
    fn new(seed: u64, plant: Plant) -> Self {
        let mut chance = Chance::new(seed);
        // The fastest is less than 10 % faster than the slowest.
        let mut rate = || 955_000 + chance.below(90_000) as u64;
        let (store_rate, rates) = (rate(), [(); 5].map(|()| rate()));
        let hosts = rates[..3 + chance.below(3)].iter().enumerate();
        let mut hosts: Vec<Host> = hosts.map(|(at, &rate)| Host::new(at, rate)).collect();
        // Sometimes two are given the same name by mistake.
        if chance.below(4) == 0
            && let [first, .., last] = &mut hosts[..]
        {
            (last.name, last.shards) = (first.name.clone(), first.shards);
        }
        let mut world = Self {
            now: 0,
            chance,
            plant,
            store: Store::new(),
            store_rate,
            away_until: 0,
            hosts,
            due: BTreeMap::new(),
            numbers: 0,
            acted: BTreeMap::new(),
            places: BTreeMap::new(),
            faults: Vec::new(),
            acts: 0,
            moves: 0,
        };
        for host in 0..world.hosts.len() {
            let after = world.up_to(3 * SECOND);
            world.at(after, Due::Start { host });
        }
        world.at(5 * SECOND, Due::Fault);
        world
    }

    fn live(&mut self) {
        while let Some(((now, _), due)) = self.due.pop_first() {
            self.now = now;
            if self.now > FAULTS_FOR + WELL_AFTER || !self.faults.is_empty() {
                return;
            }
            let store_now = self.store_now();
            let heard = self.store.handle_timeout(store_now);
            self.deliver(heard);
            self.handle(due);
        }
    }

    fn handle(&mut self, due: Due) {
        match due {
            Due::Ask { host, line, ticket, ask } => self.asked(host, line, ticket, ask),
            Due::Said { host, line, ticket, said } if self.is_thawed(host) => {
                // That nobody answers is found out on this side.
                let is_cut = self.now < self.hosts[host].cut_until
                    && said != Said::Failed(Failure::Unavailable);
                if self.hosts[host].line == line && !is_cut {
                    self.with(host, |members, now, sink| members.handle(ticket, said, now, sink));
                }
            }
            Due::Timer { host, life } if self.is_thawed(host) => {
                if self.hosts[host].line.life == life && self.hosts[host].timer_at <= self.now {
                    self.hosts[host].timer_at = u64::MAX;
                    self.with(host, Members::handle_timeout);
                }
            }
            Due::TurnEnd { host, life, turn, acts } if self.is_thawed(host) => {
                if self.hosts[host].line.life == life {
                    self.end_turn(host, turn, &acts);
                }
            }
            Due::Start { host } => self.start(host),
            Due::Fault => self.fault(),
            // Whoever is frozen sees it later.
            Due::Said { host, .. } | Due::Timer { host, .. } | Due::TurnEnd { host, .. } => {
                let after = self.hosts[host].frozen_until - self.now;
                self.at(after, due);
            }
        }
    }

    fn is_thawed(&self, host: usize) -> bool {
        self.now >= self.hosts[host].frozen_until
    }

    fn at(&mut self, after: u64, due: Due) {
        self.numbers += 1;
        self.due.insert((self.now + after, self.numbers), due);
    }

    fn up_to(&mut self, us: u64) -> u64 {
        self.chance.below(us as usize + 1) as u64
    }

    fn is_one_in(&mut self, count: usize) -> bool {
        self.chance.below(count) == 0
    }

    fn store_now(&self) -> Micros {
        Micros(self.now * self.store_rate / SECOND)
    }

    /// Has a host's node do something, and takes what it asks and tells.
    fn with(&mut self, at: usize, act: impl FnOnce(&mut Members, Micros, &mut Collected)) {
        let now = self.hosts[at].clock(self.now);
        let Some(members) = &mut self.hosts[at].members else { return };
        let mut sink = Collected::default();
        act(members, now, &mut sink);
        let is_release = |event: &Event| match event {
            Event::Release { number, .. } => Some(*number),
            _ => None,
        };
        if self.plant == Plant::EarlyRelease
            && let Some(number) = sink.events.iter().find_map(is_release)
        {
            members.released(number, now, &mut sink);
        }
        let timeout = members.poll_timeout();
        for (ticket, ask) in sink.asks {
            let (after, line) = (1_000 + self.up_to(20_000), self.hosts[at].line);
            if !self.is_one_in(100) {
                self.at(after, Due::Ask { host: at, line, ticket, ask });
            }
        }
        for event in sink.events {
            self.told(at, event);
        }
        if let Some(timeout) = timeout {
            let (due_at, life) = (self.hosts[at].real(timeout), self.hosts[at].line.life);
            if due_at < self.hosts[at].timer_at {
                self.hosts[at].timer_at = due_at;
                self.at(due_at.saturating_sub(self.now), Due::Timer { host: at, life });
            }
        }
    }

    fn told(&mut self, at: usize, event: Event) {
        match event {
            Event::Seated(Node { place, .. }) => {
                let known = self.places.insert(place.name.clone(), place.clone());
                // It is the same, and numbers anew behind all that it has numbered.
                if let Some(known) = known
                    && (known.number >= place.number
                        || known != Place { number: known.number, ..place.clone() })
                {
                    self.faults.push(format!("{known:?} has become {place:?}"));
                }
            }
            Event::Moved(_) => self.moves += 1,
            Event::Release { number, .. } => self.hosts[at].to_release = Some(number),
            _ => {}
        }
    }

    /// A question reaches the store.
    fn asked(&mut self, host: usize, line: Line, ticket: Ticket, ask: Ask) {
        if self.hosts[host].line != line || self.now < self.hosts[host].cut_until {
            // The port says so after a while, or the answer is lost.
            if self.is_one_in(2) {
                let said = Said::Failed(Failure::Unavailable);
                self.at(SECOND, Due::Said { host, line: self.hosts[host].line, ticket, said });
            }
            return;
        }
        if self.now < self.away_until {
            let said = Said::Failed(Failure::Unavailable);
            self.at(SECOND, Due::Said { host, line, ticket, said });
            return;
        }
        let now = self.store_now();
        let heard = self.store.ask(Asker(host as u16), ticket, ask, now);
        self.deliver(heard);
    }

    fn deliver(&mut self, heard: Vec<Heard>) {
        for Heard { to: Asker(host), ticket, said } in heard {
            let host = usize::from(host);
            let (mut after, line) = (1_000 + self.up_to(20_000), self.hosts[host].line);
            if let Said::Changed { changes } = &said {
                // Sometimes a watch is slow.
                after += if self.is_one_in(10) { self.chance.below(800_000) as u64 } else { 0 };
                let changed_at = &mut self.hosts[host].changed_at;
                *changed_at = (*changed_at).max(self.now + after);
                after = *changed_at - self.now;
                assert!(changes.is_sorted_by_key(Change::revision));
            } else if self.is_one_in(100) {
                continue;
            }
            self.at(after, Due::Said { host, line, ticket, said });
        }
    }

    fn start(&mut self, at: usize) {
        if self.hosts[at].members.is_some() {
            return;
        }
        let mut times = Times::default();
        match self.plant {
            Plant::NoWait => times.wait = Micros(0),
            Plant::LateFence => times.fence = Micros::from_secs(8),
            Plant::Nothing | Plant::EarlyRelease => {}
        }
        let settings = MembersSettings {
            cluster: "c".into(),
            name: self.hosts[at].name.clone(),
            address: format!("10.0.0.{at}:7883"),
            shards: self.hosts[at].shards,
            // A clock that goes back by 1 s with each start.
            number_min: 1_000_000_000 - u64::from(self.hosts[at].line.life) * 1_000_000,
            letters: 1,
            letters_min: 1,
            keeper: None,
            former: Vec::new(),
            times,
        };
        let host = &mut self.hosts[at];
        host.line = Line { life: host.line.life + 1, cut: host.line.cut + 1 };
        (host.timer_at, host.to_release) = (u64::MAX, None);
        host.members = Some(Members::new(settings, self.chance.bits()).unwrap());
        let life = host.line.life;
        self.with(at, Members::handle_timeout);
        let turn = self.hosts[at].turn;
        self.at(0, Due::TurnEnd { host: at, life, turn, acts: Vec::new() });
    }

    fn kill(&mut self, at: usize) {
        self.store.hang_up(Asker(at as u16));
        let host = &mut self.hosts[at];
        host.members = None;
        host.line = Line { life: host.line.life + 1, cut: host.line.cut + 1 };
        host.frozen_until = 0;
    }

    /// A turn has ended: what it did has happened now. The next one begins.
    fn end_turn(&mut self, at: usize, turn: u64, acts: &[(Partition, u64)]) {
        // What a freeze came between is left out: no lease can help there.
        if turn == self.hosts[at].turn {
            acts.iter().for_each(|&(partition, epoch)| self.act(at, partition, epoch));
        }
        if let Some(number) = self.hosts[at].to_release.take() {
            self.with(at, |members, now, sink| members.released(number, now, sink));
        }
        let Some(members) = &self.hosts[at].members else { return };
        let now = self.hosts[at].clock(self.now);
        let mut acts = Vec::new();
        if members.acts_until().is_some_and(|until| now < until) {
            let homes = Partition::all().filter(|&partition| members.is_home_to(partition));
            let epoch = |partition| members.table().unwrap().home(partition).epoch;
            acts.extend(homes.map(|partition| (partition, epoch(partition))));
            self.check_places(at);
        }
        let longest = if self.is_one_in(5) { TURN_MAX } else { TURN_MAX / 10 };
        let (after, life) = (1_000 + self.up_to(longest - 1_000), self.hosts[at].line.life);
        let turn = self.hosts[at].turn;
        self.at(after, Due::TurnEnd { host: at, life, turn, acts });
    }

    fn act(&mut self, at: usize, Partition(partition): Partition, epoch: u64) {
        self.acts += 1;
        let (last, by) = self.acted.get(&partition).copied().unwrap_or((epoch, at));
        if epoch < last || (epoch == last && by != at) {
            let now = self.now;
            self.faults.push(format!(
                "at {now} us host {at} acts for partition {partition} in epoch {epoch}, and host \
                 {by} has in {last}"
            ));
        }
        self.acted.insert(partition, (epoch, at));
    }

    /// Nobody who may act now has anything of this host's place.
    fn check_places(&mut self, at: usize) {
        let acting = |host: &&Host| {
            let members = host.members.as_ref();
            let until = members.and_then(Members::acts_until);
            until.is_some_and(|until| host.clock(self.now) < until)
        };
        let place = |host: &Host| host.members.as_ref().unwrap().seat().unwrap().place.clone();
        let own = place(&self.hosts[at]);
        let others = self.hosts.iter().enumerate().filter(|&(other, _)| other != at);
        for other in others.map(|(_, host)| host).filter(acting).map(place) {
            let shares = other.shard_ids().any(|id| own.shard_ids().any(|own| own == id));
            if other.slot == own.slot || shares {
                self.faults.push(format!("{own:?} and {other:?} are members at a time"));
            }
        }
    }

    fn fault(&mut self) {
        if self.now >= FAULTS_FOR {
            self.heal();
            return;
        }
        let (at, long) = (self.chance.below(self.hosts.len()), 10 * SECOND);
        match self.chance.below(7) {
            0 => {
                // Not again meanwhile: what waits for it must stay in its order.
                if self.is_thawed(at) {
                    self.hosts[at].frozen_until = self.now + self.up_to(long);
                    self.hosts[at].turn += 1;
                }
            }
            1 | 2 => {
                self.store.hang_up(Asker(at as u16));
                let cut_until = self.now + self.up_to(long);
                self.hosts[at].cut_until = cut_until;
                self.hosts[at].line.cut += 1;
            }
            3 => {
                self.kill(at);
                let after = self.up_to(long);
                self.at(after, Due::Start { host: at });
            }
            4 => self.away_until = self.now + self.up_to(3 * SECOND),
            5 => self.with(at, Members::leave),
            _ => self.garble(),
        }
        // Who has left is started again some time.
        for host in 0..self.hosts.len() {
            if self.hosts[host].members.as_ref().is_some_and(Members::has_left) {
                self.kill(host);
                self.at(SECOND, Due::Start { host });
            }
        }
        let after = 300_000 + self.up_to(4 * SECOND);
        self.at(after, Due::Fault);
    }

    /// Somebody writes what is no table.
    fn garble(&mut self) {
        let key = "weir/c/table".to_owned();
        let record = self.store.records().find(|record| record.key == key);
        let Some(at) = record.map(|record| record.revision) else { return };
        assert_ne!(at, Revision::NONE);
        let compared = vec![(key.clone(), at)];
        let cas = Cas { key, value: Some(b"{}".to_vec()), lease: None, compared };
        let now = self.store_now();
        // Of nobody who is there: the answer goes nowhere.
        let mut heard = self.store.ask(Asker(u16::MAX), Ticket(0), Ask::Cas(cas), now);
        heard.retain(|heard| heard.to != Asker(u16::MAX));
        self.deliver(heard);
    }

    fn heal(&mut self) {
        self.away_until = 0;
        for at in 0..self.hosts.len() {
            // Whoever is being stopped comes to its end first.
            let members = self.hosts[at].members.as_ref();
            if members.is_some_and(|members| members.acts_until().is_none()) {
                self.kill(at);
            }
            self.hosts[at].cut_until = 0;
            self.at(0, Due::Start { host: at });
        }
    }

    /// All but namesakes are members, see the same table, and are home to all partitions together.
    fn check_well(&mut self) {
        let all: Vec<&Members> = self.hosts.iter().filter_map(|it| it.members.as_ref()).collect();
        let first = all[0];
        let names: BTreeSet<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let mut faults = Vec::new();
        let acting = all.iter().filter(|members| members.acts_until().is_some()).count();
        if acting != names.len() {
            faults.push(format!("{acting} nodes act of {}", names.len()));
        }
        for members in &all {
            if members.nodes().count() != names.len() {
                faults.push(format!("not well: {members:?}"));
            }
            if members.table() != first.table() {
                faults.push("tables differ".to_owned());
            }
        }
        for partition in Partition::all() {
            let homes = all.iter().filter(|members| members.is_home_to(partition)).count();
            if homes != 1 {
                faults.push(format!("{partition:?} has {homes} homes"));
            }
        }
        self.faults.extend(faults);
    }
}

impl Host {
    fn new(at: usize, rate: u64) -> Self {
        Self {
            name: format!("node-{at}"),
            shards: 2 + at as u16 % 3,
            members: None,
            line: Line { life: 0, cut: 0 },
            rate,
            epoch: at as u64 * 1_000 * SECOND,
            frozen_until: 0,
            cut_until: 0,
            changed_at: 0,
            timer_at: u64::MAX,
            turn: 0,
            to_release: None,
        }
    }

    /// What its clock says.
    fn clock(&self, now: u64) -> Micros {
        Micros(self.epoch + now * self.rate / SECOND)
    }

    /// When its clock says so.
    fn real(&self, Micros(at): Micros) -> u64 {
        (at.saturating_sub(self.epoch) * SECOND).div_ceil(self.rate)
    }
}
