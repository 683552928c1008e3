use super::*;
use crate::memory::{Asker, Heard, Store};
use crate::slot::{SLOTS, Slot};
use std::collections::{BTreeSet, VecDeque};

mod copies;
mod numbers;

/// Nodes and the agreement, without a delay between them.
struct Desk {
    now: Micros,
    store: Store,
    nodes: Vec<Members>,
    events: Vec<Vec<Event>>,
    /// Nodes that the agreement does not hear, and that do not hear it.
    cut: BTreeSet<usize>,
    /// Just before the first of these keys is written by a node, the second gets this value.
    meddler: Option<(&'static str, &'static str, Vec<u8>)>,
    asks: VecDeque<(usize, Ticket, Ask)>,
}

fn settings(name: &str) -> MembersSettings {
    MembersSettings {
        cluster: "c".into(),
        name: name.into(),
        address: format!("{name}:7883"),
        shards: 2,
        number_min: 0,
        letters: 1,
        letters_min: 1,
        keeper: None,
        former: Vec::new(),
        times: Times::default(),
    }
}

fn seconds(count: u32) -> Micros {
    Micros::from_secs(count)
}

impl Desk {
    fn new(names: &[&str]) -> Self {
        let mut desk = Self {
            now: Micros(0),
            store: Store::new(),
            nodes: Vec::new(),
            events: Vec::new(),
            cut: BTreeSet::new(),
            meddler: None,
            asks: VecDeque::new(),
        };
        for name in names {
            desk.add(name);
        }
        desk
    }

    fn add(&mut self, name: &str) -> usize {
        let at = self.nodes.len();
        self.nodes.push(Members::new(settings(name), at as u64).unwrap());
        self.events.push(Vec::new());
        self.with(at, Members::handle_timeout);
        self.exchange();
        at
    }

    fn with<T>(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Members, Micros, &mut Collected) -> T,
    ) -> T {
        let mut sink = Collected::default();
        let result = act(&mut self.nodes[at], self.now, &mut sink);
        let mut told = 0;
        while let Some(event) = sink.events.get(told).cloned() {
            told += 1;
            if let Event::Release { number, .. } = event {
                self.nodes[at].released(number, self.now, &mut sink);
            }
        }
        self.events[at].extend(sink.events);
        self.asks.extend(sink.asks.into_iter().map(|(ticket, ask)| (at, ticket, ask)));
        result
    }

    /// Until nobody asks anything.
    fn exchange(&mut self) {
        while let Some((at, ticket, ask)) = self.asks.pop_front() {
            if let Ask::Cas(Cas { key, .. }) = &ask
                && let Some((_, other, value)) = self.meddler.take_if(|meddler| *key == meddler.0)
            {
                self.put(other, Some(&value));
            }
            if !self.cut.contains(&at) {
                let heard = self.store.ask(Asker(at as u16), ticket, ask, self.now);
                self.deliver(heard);
            }
        }
    }

    fn deliver(&mut self, heard: Vec<Heard>) {
        for Heard { to: Asker(at), ticket, said } in heard {
            let at = usize::from(at);
            if at < self.nodes.len() && !self.cut.contains(&at) {
                self.with(at, |members, now, sink| members.handle(ticket, said, now, sink));
            }
        }
    }

    /// Lets time pass.
    fn until(&mut self, end: Micros) {
        loop {
            let due = self.nodes.iter().filter_map(Members::poll_timeout).min();
            let due = due.into_iter().chain(self.store.poll_timeout()).min();
            let Some(due) = due.filter(|&due| due <= end) else { break };
            self.now = self.now.max(due);
            let heard = self.store.handle_timeout(self.now);
            self.deliver(heard);
            for at in 0..self.nodes.len() {
                if self.nodes[at].poll_timeout().is_some_and(|due| due <= self.now) {
                    self.with(at, Members::handle_timeout);
                }
            }
            self.exchange();
        }
        self.now = end;
    }

    /// A node's connection is lost, and it gets no other.
    fn cut(&mut self, at: usize) {
        self.store.hang_up(Asker(at as u16));
        self.cut.insert(at);
    }

    /// Somebody writes a record who is no node.
    fn write(&mut self, key: &str, value: Option<&[u8]>) {
        self.put(key, value);
        self.exchange();
    }

    fn put(&mut self, key: &str, value: Option<&[u8]>) {
        let known = self.store.records().find(|record| record.key == key);
        let at = known.map_or(Revision::NONE, |record| record.revision);
        let cas = Cas {
            key: key.into(),
            value: value.map(<[u8]>::to_vec),
            lease: None,
            compared: vec![(key.into(), at)],
        };
        let heard = self.store.ask(Asker(u16::MAX), Ticket(0), Ask::Cas(cas), self.now);
        self.deliver(heard);
    }

    fn take(&mut self, at: usize) -> Vec<Event> {
        std::mem::take(&mut self.events[at])
    }

    fn homes(&self, at: usize) -> PartitionSet {
        Partition::all().filter(|&partition| self.nodes[at].is_home_to(partition)).collect()
    }

    fn count(&self, at: usize) -> usize {
        Partition::all().filter(|&partition| self.nodes[at].is_home_to(partition)).count()
    }

    fn place(&self, at: usize) -> Place {
        self.nodes[at].seat().expect("a member").place.clone()
    }
}

fn all() -> PartitionSet {
    Partition::all().collect()
}

#[test]
fn a_node_alone_is_home_to_everything() {
    let mut desk = Desk::new(&["a"]);
    let node = desk.nodes[0].seat().unwrap().clone();
    assert_eq!(node.place.shard_ids().collect::<Vec<_>>(), [0, 1].map(weir_core::ShardId));
    let events = [Event::Seated(node), Event::Unfenced, Event::Moved(all())];
    assert_eq!(desk.take(0), events);
    assert_eq!((desk.homes(0), desk.nodes[0].acts_until()), (all(), Some(seconds(5))));
    assert_eq!(desk.nodes[0].counts(), Counts::default());
    let keys: Vec<&str> = desk.store.records().map(|record| record.key.as_str()).collect();
    assert_eq!(keys, ["weir/c/members/0", "weir/c/places", "weir/c/table"]);
    // Nothing is written any more while nothing happens.
    let written = desk.store.records().map(|record| record.revision).max();
    desk.until(seconds(60));
    assert_eq!(desk.store.records().map(|record| record.revision).max(), written);
    assert_eq!((desk.take(0), desk.nodes[0].acts_until()), (Vec::new(), Some(seconds(65))));
}

#[test]
fn nodes_share_partitions_and_have_ids_of_their_own() {
    let mut desk = Desk::new(&["a", "b", "c"]);
    desk.until(seconds(1));
    let counts = [0, 1, 2].map(|at| desk.count(at));
    assert_eq!(counts.iter().sum::<usize>(), 256, "{counts:?}");
    assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
    let places = [0, 1, 2].map(|at| (desk.place(at).slot, desk.place(at).first_shard));
    assert_eq!(places, [(Slot(0), 0), (Slot(1), 2), (Slot(2), 4)]);
    assert_eq!(desk.nodes[0].nodes().count(), 3);
    let joined = desk.take(0).into_iter().filter(|event| matches!(event, Event::Joined(_)));
    assert_eq!(joined.count(), 2);
}

#[test]
fn a_partition_goes_only_when_its_home_has_released_it() {
    let mut nodes = Desk::new(&["a"]);
    // A node that does not say that it has released anything.
    nodes.nodes.push(Members::new(settings("b"), 9).unwrap());
    nodes.events.push(Vec::new());
    let mut sink = Collected::default();
    let release = |sink: &Collected| {
        sink.events.iter().find_map(|event| match event {
            Event::Release { number, partitions } => Some((*number, *partitions)),
            _ => None,
        })
    };
    nodes.nodes[1].handle_timeout(nodes.now, &mut sink);
    nodes.asks.extend(sink.asks.drain(..).map(|(ticket, ask)| (1, ticket, ask)));
    let mut released = None;
    while let Some((at, ticket, ask)) = nodes.asks.pop_front() {
        for Heard { to: Asker(to), ticket, said } in
            nodes.store.ask(Asker(at as u16), ticket, ask, nodes.now)
        {
            let mut sink = Collected::default();
            nodes.nodes[usize::from(to)].handle(ticket, said, nodes.now, &mut sink);
            released = released.or(release(&sink));
            let asks = sink.asks.into_iter();
            nodes.asks.extend(asks.map(|(ticket, ask)| (to.into(), ticket, ask)));
        }
    }
    let (number, partitions) = released.unwrap();
    // It does not act for them any more, and nobody else does yet.
    assert!(Partition::all().all(|at| nodes.nodes[0].is_home_to(at) != partitions.contains(at)));
    assert_eq!(nodes.count(1), 0);
    nodes.with(0, |members, now, sink| members.released(number + 1, now, sink));
    nodes.exchange();
    assert_eq!(nodes.count(1), 0, "that was another release");
    nodes.with(0, |members, now, sink| members.released(number, now, sink));
    nodes.exchange();
    assert_eq!(nodes.homes(1), partitions);
    let epoch = |at| nodes.nodes[1].table().unwrap().home(at).epoch;
    let first = Partition::all().map(epoch).min().unwrap();
    assert!(Partition::all().all(|at| (epoch(at) > first) == partitions.contains(at)));
}

#[test]
fn a_node_is_fenced_by_when_it_has_sent_what_was_answered() {
    let mut desk = Desk::new(&["a"]);
    desk.until(seconds(10));
    drop(desk.take(0));
    desk.cut(0);
    desk.until(Micros(14_999_999));
    assert_eq!(desk.take(0), Vec::new());
    desk.cut.clear();
    // The renewal of this moment is answered, but was not sent when the fence came.
    desk.until(seconds(15));
    assert_eq!(desk.take(0), [Event::Fenced, Event::Unfenced]);
    assert_eq!(desk.homes(0), all());
}

#[test]
fn what_a_lost_node_had_goes_after_the_wait_and_it_comes_back_as_another() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.until(seconds(10));
    let (place, lost) = (desk.place(1), desk.nodes[1].seat().unwrap().incarnation);
    desk.cut(1);
    desk.until(Micros(15_999_999));
    assert_eq!(desk.nodes[0].nodes().count(), 2);
    assert_eq!((desk.nodes[1].acts_until(), desk.count(1)), (None, 0));
    drop(desk.take(0));
    desk.until(Micros(16_999_999));
    assert_eq!(desk.take(0), [Event::Lost { slot: Slot(1), incarnation: lost }]);
    assert!(desk.count(0) < 256);
    desk.until(seconds(17));
    assert_eq!(desk.count(0), 256);

    desk.cut.clear();
    desk.until(seconds(25));
    assert_eq!(Place { number: place.number, ..desk.place(1) }, place);
    assert_ne!(desk.nodes[1].seat().unwrap().incarnation, lost);
    assert_eq!(desk.count(0) + desk.count(1), 256);
    assert!(desk.count(1) > 50);
}

#[test]
fn a_name_that_is_taken_is_waited_for() {
    let mut desk = Desk::new(&["a", "a"]);
    desk.until(seconds(30));
    let address = "a:7883".to_owned();
    assert_eq!(desk.take(1), [Event::Moved(all()), Event::Notice(Notice::NameTaken { address })]);
    let place = desk.place(0);
    desk.with(0, Members::leave);
    desk.exchange();
    assert!(desk.nodes[0].has_left() && desk.take(0).ends_with(&[Event::Fenced]));
    assert_eq!(desk.nodes[0].poll_timeout(), None);
    assert_eq!(Place { number: place.number, ..desk.place(1) }, place);
    desk.until(seconds(31));
    assert_eq!(desk.homes(1), all());
}

#[test]
fn a_place_is_kept_until_it_is_forgotten() {
    let names: Vec<String> = (0..SLOTS).map(|at| format!("n{at}")).collect();
    let mut desk = Desk::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let forget = |desk: &mut Desk, name: &str| {
        let forgotten = desk.with(0, |members, now, sink| members.forget(name, now, sink));
        desk.exchange();
        forgotten
    };
    desk.until(seconds(2));
    let free = desk.place(7);
    assert_eq!(forget(&mut desk, "n7"), Err(NotForgotten::IsMember));
    desk.with(7, Members::leave);
    desk.exchange();
    let late = desk.add("late");
    desk.until(seconds(10));
    let full = desk.take(late).into_iter().filter(|it| *it == Event::Notice(Notice::Full));
    assert_eq!(full.count(), 1);
    assert_eq!(forget(&mut desk, "nobody"), Err(NotForgotten::Unknown));
    assert_eq!(forget(&mut desk, "n7"), Ok(()));
    assert!(desk.nodes[0].places().all(|place| place.name != "n7"));
    desk.until(seconds(20));
    let (number, name) = (desk.place(late).number, "late".into());
    assert_eq!(desk.place(late), Place { name, number, ..free });
    let early = desk.with(7, |members, now, sink| members.forget("n1", now, sink));
    assert_eq!(early, Err(NotForgotten::Busy), "who has left writes nothing");
}

#[test]
fn a_node_that_is_forgotten_while_it_joins_has_its_place_first() {
    let mut desk = Desk::new(&["a"]);
    let mut places = desk.nodes[0].places().cloned().collect::<Vec<_>>();
    places[0].name = "other".into();
    let places = places.into_iter().fold(Places::default(), |all, place| all.with(place));
    desk.meddler = Some(("weir/c/members/1", "weir/c/places", places.to_bytes()));
    let at = desk.add("b");
    desk.until(seconds(1));
    assert_eq!(desk.nodes[at].counts().differed, 1);
    let place = desk.place(at);
    assert!(desk.nodes[at].places().any(|kept| *kept == place));
}

#[test]
fn nothing_is_taken_from_a_slot_that_is_not_as_it_was_seen() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.until(seconds(10));
    let mut back = desk.nodes[1].seat().unwrap().clone();
    back.incarnation = Incarnation(7);
    desk.cut(1);
    desk.meddler = Some(("weir/c/table", "weir/c/members/1", back.to_bytes()));
    desk.until(seconds(17));
    assert_eq!(desk.nodes[0].counts().differed, 1);
    assert!(desk.meddler.is_none());
}

#[test]
fn a_record_that_somebody_overwrites_is_a_membership_no_more() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.until(seconds(1));
    drop((desk.take(0), desk.take(1)));
    let lost = desk.nodes[1].seat().unwrap().incarnation;
    desk.write("weir/c/members/1", Some(b"\x00garbled"));
    let key = "weir/c/members/1".to_owned();
    assert_eq!(desk.take(1), [Event::Notice(Notice::Garbled { key: key.clone() }), Event::Fenced]);
    let events = desk.take(0);
    assert_eq!(events[0], Event::Notice(Notice::Garbled { key }));
    assert_eq!(events[1], Event::Lost { slot: Slot(1), incarnation: lost });
    assert_eq!(desk.nodes[1].counts().garbled, 1);
    // Nobody takes the slot while that stands there.
    desk.until(seconds(30));
    assert!(desk.nodes[1].seat().is_none());
    desk.write("weir/c/members/1", None);
    desk.until(seconds(40));
    assert!(desk.nodes[1].seat().is_some() && desk.count(1) > 50);
}

#[test]
fn without_a_table_nobody_acts_until_everybody_has_stopped() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.until(seconds(1));
    for value in [None, Some(&b"{}"[..])] {
        let table = desk.nodes[0].table().unwrap().clone();
        desk.write("weir/c/table", value);
        assert_eq!([0, 1].map(|at| desk.count(at)), [0, 0]);
        desk.until(Micros(desk.now.0 + 6_999_999));
        assert_eq!([0, 1].map(|at| desk.count(at)), [0, 0]);
        desk.until(Micros(desk.now.0 + 500_000));
        assert_eq!(desk.count(0) + desk.count(1), 256, "{value:?}");
        let epoch = |at| (table.home(at).epoch, desk.nodes[1].table().unwrap().home(at).epoch);
        assert!(Partition::all().map(epoch).all(|(before, after)| before < after));
    }
}

#[test]
fn a_watch_that_dies_without_a_word_is_made_anew() {
    let mut desk = Desk::new(&["a", "b"]);
    desk.until(seconds(1));
    desk.store.hang_up(Asker(0));
    desk.with(1, Members::leave);
    desk.exchange();
    assert_eq!(desk.nodes[0].nodes().count(), 2);
    desk.until(seconds(3));
    assert_eq!(desk.nodes[0].nodes().count(), 1);
    // It watches again.
    desk.write("weir/c/members/9", Some(b"x"));
    assert_eq!(desk.nodes[0].counts().garbled, 1);
}

#[test]
fn what_is_not_answered_is_asked_again_and_a_late_answer_is_none() {
    let mut desk = Desk::new(&[]);
    desk.cut.insert(0);
    desk.add("a");
    desk.until(seconds(3));
    assert_eq!(desk.nodes[0].counts().unavailable, 0);
    desk.until(seconds(4));
    assert_eq!(desk.nodes[0].counts().unavailable, 2);
    let granted = Said::Granted { lease: LeaseId(7) };
    desk.with(0, |members, now, sink| members.handle(Ticket(1), granted, now, sink));
    assert_eq!(desk.nodes[0].counts().late, 1);
    desk.cut.clear();
    desk.until(seconds(9));
    assert_eq!(desk.homes(0), all());
}

#[test]
fn records_of_chance_do_no_harm() {
    let mut chance = Chance::new(1);
    for _ in 0..200 {
        let mut desk = Desk::new(&["a", "b"]);
        desk.until(seconds(1));
        for _ in 0..5 {
            let records: Vec<_> = desk.store.records().cloned().collect();
            let record = &records[chance.below(records.len())];
            let mut value = record.value.clone();
            for _ in 0..=chance.below(3) {
                let at = chance.below(value.len());
                value[at] = b"0123456789[]{},\":x"[chance.below(18)];
            }
            desk.write(&record.key.clone(), Some(&value));
            desk.until(Micros(desk.now.0 + chance.below(3_000_000) as u64));
        }
        desk.until(Micros(desk.now.0 + 1_000_000));
    }
}

#[test]
fn settings_that_cannot_be_are_named() {
    let bad = |change: &dyn Fn(&mut MembersSettings)| {
        let mut settings = settings("a");
        change(&mut settings);
        Members::new(settings, 0).err()
    };
    assert_eq!(bad(&|it| it.name = "a b".into()), Some(BadSettings::Name("a b".into())));
    assert_eq!(bad(&|it| it.cluster = "a/b".into()), Some(BadSettings::Name("a/b".into())));
    assert_eq!(bad(&|it| it.address.clear()), Some(BadSettings::Address(String::new())));
    assert_eq!(bad(&|it| it.shards = 257), Some(BadSettings::Shards(257)));
    assert_eq!(bad(&|_| {}), None);
}
