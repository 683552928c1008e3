//! Queues on the disk: a shell that keeps pages in memory, and answers late and out of turn.

use crate::net::{Ask, Net, PageDisk, Peer, message};
use crate::rebuild::DURABLE;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use weir_core::{
    Limits, Micros, PageIn, PagedBounds, Parcel, Rebuild, Record, Shard, Wall, WhenAbsent,
    WhenConnected,
};
use weir_wire::packet::{Publish, SubscriptionOptions};
use weir_wire::{PacketKind, PropertiesBuf, Property, QoS};

const BOUNDS: PagedBounds = PagedBounds { queue_messages_max: 1_000_000, queue_bytes_max: 1 << 40 };

fn keep(shard: &mut Shard, bounds: PagedBounds) {
    shard.keep_log();
    shard.keep_pages(bounds);
}

/// A broker of one shard that keeps queues on a disk, and what its clients have seen.
struct Run {
    net: Net,
    limits: Limits,
    bounds: PagedBounds,
    /// The lengths of the log at which an input was over.
    ends: BTreeSet<usize>,
    committed: usize,
}

impl Run {
    fn new(limits: &Limits, bounds: PagedBounds) -> Self {
        let mut net = Net::with_limits(1, limits);
        keep(&mut net.shards[0], bounds);
        let (shard, wires) = (&mut net.shards[0], &mut net.wires[0]);
        shard.begin_base(net.now, wires);
        shard.end_base(net.now, wires);
        let (ends, limits) = (BTreeSet::new(), limits.clone());
        let mut run = Self { net, limits, bounds, ends, committed: 0 };
        run.commit();
        run
    }

    fn note_end(&mut self) {
        self.ends.insert(self.net.wires[0].log.len());
    }

    /// All is safe; what is from before a base that is whole may go.
    fn commit(&mut self) {
        self.note_end();
        self.committed = self.net.wires[0].log.len();
        self.net.commit(0);
        self.net.go_on();
        self.note_end();
        let log = &self.net.wires[0].log;
        let safe = log[self.committed - 1].0;
        if let Some((begin, _)) = self.net.shards[0].base().filter(|&(_, end)| end <= safe) {
            self.net.shards[0].forgotten(begin, &mut self.net.wires[0]);
        }
    }

    fn publish(&mut self, peer: Peer, publish: &Publish<'_>) {
        self.net.publish_packet(peer, publish);
        self.note_end();
    }

    fn answer(&mut self, nth: usize) -> bool {
        let is_answered = self.net.answer_page(0, nth);
        self.note_end();
        is_answered
    }

    /// Everything that was asked of the disk and the log is done.
    fn come_to_rest(&mut self) {
        loop {
            self.commit();
            if !self.answer(0) {
                return;
            }
        }
    }

    fn base(&mut self) {
        self.net.shards[0].begin_base(self.net.now, &mut self.net.wires[0]);
        self.note_end();
        while self.net.shards[0].is_basing() {
            self.net.go_on();
            self.commit();
        }
        self.commit();
    }

    /// What is left of the log at its `nth` end that may be: from the base on that was whole then,
    /// or all of it.
    fn crash(&mut self, nth: usize, is_cut: bool) {
        let ends: Vec<usize> = self.ends.range(self.committed..).copied().collect();
        let end = ends[nth % ends.len()];
        let wires = &mut self.net.wires[0];
        let log = &wires.log[..end];
        let base = self.net.shards[0]
            .base()
            .filter(|&(_, end)| log.last().is_some_and(|&(last, ..)| end <= last));
        let begin = base.map_or(0, |(begin, _)| log.partition_point(|&(lsn, ..)| lsn < begin));
        let begin = if is_cut { begin } else { 0 };
        let mut rebuild = Rebuild::default();
        for (at, (lsn, kind, body)) in log.iter().enumerate().skip(begin) {
            rebuild.apply(*lsn, Record::decode(*kind, body, Wall(0)).unwrap()).unwrap();
            if self.ends.contains(&(at + 1)) {
                rebuild.commit_end();
            }
        }
        assert!(rebuild.is_whole());
        let disk = std::mem::take(&mut wires.disk).after_crash();
        let now = self.net.now;
        let parcels = rebuild.finish(now, |page| disk.read(page)).unwrap();
        self.restore(parcels, disk);
    }

    fn restore(&mut self, parcels: Vec<Parcel>, mut disk: PageDisk) {
        let now = self.net.now;
        let named: BTreeSet<_> = parcels.iter().flat_map(Parcel::pages).collect();
        assert!(named.iter().all(|page| disk.pages.contains_key(page)), "a page is not there");
        disk.pages.retain(|page, _| named.contains(page));
        *self = Self {
            net: Net::with_limits(1, &self.limits),
            ends: BTreeSet::new(),
            committed: 0,
            limits: self.limits.clone(),
            bounds: self.bounds,
        };
        self.net.now = now;
        self.net.wires[0].disk = disk;
        let (shard, wires) = (&mut self.net.shards[0], &mut self.net.wires[0]);
        keep(shard, self.bounds);
        shard.begin_base(now, wires);
        for parcel in parcels {
            shard.restored(parcel, now, wires);
        }
        shard.end_base(now, wires);
        shard.turn_end(wires);
        self.commit();
    }

    /// An absent session with a subscription.
    fn absent(&mut self, client_id: &str, filter: &str) {
        let peer = self.net.join(client_id, DURABLE);
        self.net.subscribe(peer, filter, QoS::ExactlyOnce);
        self.commit();
        self.net.cut(peer);
        self.commit();
    }

    /// Publishes so many at QoS 1, and has all of it done.
    fn fill(&mut self, topic: &str, numbers: std::ops::Range<usize>) {
        let publisher = self.net.join("publisher", Ask::default());
        for number in numbers {
            let id = (number % 60_000) as u16 + 1;
            self.publish(publisher, &message(topic, QoS::AtLeastOnce, id, &number.to_string()));
            if number.is_multiple_of(100) {
                self.come_to_rest();
            }
        }
        self.come_to_rest();
        self.net.cut(publisher);
    }

    /// A client is back; what came with its CONNACK is still to be read.
    fn join(&mut self, client_id: &str, ask: Ask<'_>) -> Peer {
        let peer = self.net.connect(client_id, ask);
        self.come_to_rest();
        peer
    }

    fn queued(&self, client_id: &str) -> u64 {
        self.net.shards[0].client(client_id).unwrap().queued_messages
    }

    /// Takes all that a client gets, at QoS 1.
    fn take_all(&mut self, peer: Peer) -> Vec<String> {
        let mut payloads = Vec::new();
        loop {
            let lines = self.net.read(peer);
            if lines.is_empty() {
                return payloads;
            }
            for line in lines.iter().filter(|line| line.starts_with("PUBLISH")) {
                let mut words = line.split(' ');
                let id = words.find_map(|word| word.strip_prefix('#')).unwrap();
                payloads.push(words.next_back().unwrap().to_owned());
                self.net.ack(peer, PacketKind::PubAck, id.parse().unwrap());
                self.note_end();
            }
            self.come_to_rest();
        }
    }
}

fn assert_numbers(payloads: &[String], range: std::ops::Range<usize>) {
    assert_eq!(payloads.len(), range.len());
    for (payload, number) in payloads.iter().zip(range) {
        assert_eq!(*payload, number.to_string());
    }
}

#[test]
fn a_long_queue_leaves_memory_and_comes_back_in_order() {
    let mut run = Run::new(&Limits::default(), BOUNDS);
    run.absent("s", "t");
    run.fill("t", 0..5_000);
    let stats = run.net.shards[0].stats();
    assert!((8..10).contains(&stats.pages_out), "{stats:?}");
    assert_eq!(
        (run.queued("s"), run.net.wires[0].disk.pages.len() as u64),
        (5_000, stats.pages_out)
    );
    // The log holds what is in memory, once it was written anew.
    let before = run.net.wires[0].log.len();
    run.base();
    assert!(run.net.wires[0].log.len() - before < 2 * 600 + 100);
    run.crash(0, true);
    assert_eq!(run.queued("s"), 5_000);
    let peer = run.join("s", DURABLE);
    assert_numbers(&run.take_all(peer), 0..5_000);
    // Pages are freed once no record names them.
    assert!(!run.net.wires[0].disk.pages.is_empty());
    assert!(run.net.shards[0].dead_page_bytes() > 0);
    run.base();
    assert!(run.net.wires[0].disk.pages.is_empty());
    assert_eq!(run.net.shards[0].dead_page_bytes(), 0);
}

#[test]
fn nothing_is_asked_of_the_disk_for_a_session_that_ends_with_its_connection() {
    let limits =
        Limits { queue_full_connected: WhenConnected::RefusePublisher, ..Limits::default() };
    let mut run = Run::new(&limits, BOUNDS);
    let peer = run.net.join("s", Ask { receive_maximum: 1, ..Ask::default() });
    run.net.subscribe(peer, "t", QoS::AtLeastOnce);
    run.fill("t", 0..9_000);
    assert_eq!((run.queued("s"), run.net.shards[0].stats().pages_out), (8_999, 0));
}

#[test]
fn a_message_on_a_page_keeps_its_properties_identifiers_flags_and_expiry() {
    let mut run = Run::new(&Limits::default(), BOUNDS);
    let peer = run.join("s", DURABLE);
    let options = SubscriptionOptions {
        qos: QoS::ExactlyOnce,
        retain_as_published: true,
        ..Default::default()
    };
    run.net.subscribe_with(peer, "t/#", options, Some(7));
    run.commit();
    run.net.cut(peer);
    run.fill("t/fill", 0..600);
    let publisher = run.net.join("p", Ask::default());
    let mut properties = PropertiesBuf::new();
    properties.push(Property::UserProperty("k", "v"));
    properties.push(Property::MessageExpiryInterval(100));
    let publish = message("t/x", QoS::ExactlyOnce, 9, "wanted");
    let publish = Publish { retain: true, properties: properties.as_properties(), ..publish };
    run.publish(publisher, &publish);
    properties = PropertiesBuf::new();
    properties.push(Property::MessageExpiryInterval(10));
    let publish = Publish {
        properties: properties.as_properties(),
        ..message("t/y", QoS::AtLeastOnce, 10, "late")
    };
    run.publish(publisher, &publish);
    run.fill("t/fill", 600..1_700);
    assert!(run.net.wires[0].disk.pages.len() >= 2);
    run.net.pass(20);
    let peer = run.join("s", Ask { receive_maximum: 2_000, ..DURABLE });
    run.come_to_rest();
    let lines = run.net.read(peer);
    let is_other = |line: &&String| line.starts_with("PUBLISH") && !line.contains("t/fill");
    let found: Vec<&String> = lines.iter().filter(is_other).collect();
    let wanted = "PUBLISH t/x q2 #601 retain MessageExpiryInterval(80) \
                  SubscriptionIdentifier(7) UserProperty(\"k\", \"v\") wanted";
    assert_eq!(found, [wanted]);
    assert_eq!(run.net.shards[0].stats().dropped_expired, 1);
}

#[test]
fn the_oldest_are_dropped_from_pages_and_a_page_without_messages_goes() {
    let bounds = PagedBounds { queue_messages_max: 1_500, ..BOUNDS };
    let mut run = Run::new(&Limits::default(), bounds);
    run.absent("s", "t");
    run.fill("t", 0..4_000);
    assert_eq!(run.queued("s"), 1_500);
    assert_eq!(run.net.shards[0].stats().dropped_queue_full, 2_500);
    run.base();
    assert!(run.net.wires[0].disk.pages.len() <= 4, "{}", run.net.wires[0].disk.pages.len());
    run.crash(0, true);
    assert_eq!(run.queued("s"), 1_500);
    run.fill("t", 4_000..4_100);
    run.crash(0, false);
    let peer = run.join("s", DURABLE);
    assert_numbers(&run.take_all(peer), 2_600..4_100);
}

#[test]
fn what_is_dropped_from_a_page_on_its_way_does_not_come() {
    // In part, and as a whole.
    for (dropped, first) in [(100, 164), (600, 664)] {
        let bounds = PagedBounds { queue_messages_max: 2_000, ..BOUNDS };
        let mut run = Run::new(&Limits::default(), bounds);
        run.absent("s", "t");
        run.fill("t", 0..2_000);
        let peer = run.net.connect("s", Ask { receive_maximum: 64, ..DURABLE });
        run.commit();
        let lines = run.net.read(peer);
        assert_eq!(lines.len(), 65, "CONNACK, and all of the head");
        assert_eq!(run.net.wires[0].disk.ins.len(), 1);
        // It takes no more, and more comes than there is room for.
        run.net.set_stuck(peer, usize::MAX);
        let publisher = run.net.join("p", Ask::default());
        for number in 2_000..2_064 + dropped {
            let id = number as u16;
            run.publish(publisher, &message("t", QoS::AtLeastOnce, id, &number.to_string()));
        }
        run.come_to_rest();
        run.net.set_stuck(peer, 0);
        for id in 1..=64 {
            run.net.ack(peer, PacketKind::PubAck, id);
            run.note_end();
        }
        run.come_to_rest();
        let all = run.take_all(peer);
        assert_numbers(&all, first..2_064 + dropped);
    }
}

#[test]
fn the_bounds_of_the_disk_follow_the_rules_of_full_queues() {
    let bounds = PagedBounds { queue_bytes_max: 5_000, ..BOUNDS };
    for (rule, queued) in
        [(WhenAbsent::RefusePublisher, Some(1_000)), (WhenAbsent::EndSession, None)]
    {
        let mut run = Run::new(&Limits { queue_full_absent: rule, ..Limits::default() }, bounds);
        run.absent("s", "t");
        // 5 bytes each.
        run.fill("t", 1_000..3_000);
        let state = run.net.shards[0].client("s");
        assert_eq!(state.map(|state| state.queued_messages), queued, "{rule:?}");
        run.base();
        assert_eq!(run.net.wires[0].disk.pages.is_empty(), queued.is_none(), "{rule:?}");
    }
}

#[test]
fn a_session_that_ends_takes_its_pages_along() {
    let mut run = Run::new(&Limits::default(), BOUNDS);
    run.absent("s", "t");
    run.fill("t", 0..3_000);
    let pages = run.net.wires[0].disk.pages.len();
    assert!(pages >= 4);
    run.net.pass(61);
    assert!(run.net.shards[0].client("s").is_none());
    assert_eq!(run.net.wires[0].disk.pages.len(), pages, "records name them");
    run.base();
    assert!(run.net.wires[0].disk.pages.is_empty());
}

#[test]
fn a_page_that_is_damaged_or_gone_is_an_error_that_names_it() {
    let mut run = Run::new(&Limits::default(), BOUNDS);
    run.absent("s", "t");
    run.fill("t", 0..3_000);
    let peer = run.join("s", DURABLE);
    run.come_to_rest();
    assert!(run.net.shards[0].stats().pages_in > 0 && !run.net.is_closed(peer));
    let log = std::mem::take(&mut run.net.wires[0].log);
    let finish = |answer: Result<&[u8], &'static str>| {
        let mut rebuild = Rebuild::default();
        for (lsn, kind, body) in &log {
            rebuild.apply(*lsn, Record::decode(*kind, body, Wall(0)).unwrap()).unwrap();
        }
        let read = |_| PageIn::decode(answer?, Wall(0)).map_err(|_| "it is damaged");
        rebuild.finish(Micros(1), read).err().unwrap().to_string()
    };
    assert_eq!(finish(Err("it is gone")), "it is gone");
    assert_eq!(finish(Ok(b"")), "it is damaged");
    assert_eq!(finish(Ok(b"\x01")), "page 1 has less on it than it should");
}

#[derive(Clone, Copy, Debug)]
enum Input {
    Publish(usize),
    Connect,
    Cut,
    /// So many of those that came are acknowledged.
    Ack(usize),
    Answer(usize),
    Commit,
    Base,
    Crash(usize, bool),
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        6 => (1_usize..700).prop_map(Input::Publish),
        3 => Just(Input::Connect),
        1 => Just(Input::Cut),
        8 => (1_usize..900).prop_map(Input::Ack),
        8 => (0_usize..4).prop_map(Input::Answer),
        6 => Just(Input::Commit),
        2 => Just(Input::Base),
        1 => (0_usize..500, any::<bool>()).prop_map(|(nth, is_cut)| Input::Crash(nth, is_cut)),
    ]
}

/// What the clients know.
struct Clients {
    run: Run,
    publisher: Option<Peer>,
    subscriber: Option<Peer>,
    published: usize,
    /// The publisher was told that they are kept.
    kept: BTreeSet<usize>,
    /// The subscriber has said that it has them, and the log has that.
    settled: BTreeSet<usize>,
    /// The same, but the log may not have it.
    said: BTreeSet<usize>,
    /// Came on this connection and are not acknowledged: number, packet identifier, QoS.
    open: Vec<(usize, u16, u8)>,
    /// The last that came on this connection.
    last: Option<usize>,
    /// A crash may have taken them.
    maybe_gone: BTreeSet<usize>,
}

impl Clients {
    fn new() -> Self {
        let mut run = Run::new(&Limits::default(), BOUNDS);
        run.absent("s", "t");
        Self {
            run,
            publisher: None,
            subscriber: None,
            published: 0,
            kept: BTreeSet::new(),
            settled: BTreeSet::new(),
            said: BTreeSet::new(),
            open: Vec::new(),
            last: None,
            maybe_gone: BTreeSet::new(),
        }
    }

    fn publish(&mut self, count: usize) {
        let publisher =
            *self.publisher.get_or_insert_with(|| self.run.net.join("publisher", Ask::default()));
        for _ in 0..count {
            let number = self.published;
            let qos = if number.is_multiple_of(3) { QoS::ExactlyOnce } else { QoS::AtLeastOnce };
            let id = (number % 60_000) as u16 + 1;
            self.run.publish(publisher, &message("t", qos, id, &number.to_string()));
            self.published += 1;
            // As many as its window takes.
            if number.is_multiple_of(500) {
                self.commit();
            }
        }
    }

    /// Whether all of those between two that came one behind the other may be missing.
    fn check_order(&mut self, number: usize) {
        let from = self.last.map_or(0, |last| last + 1);
        assert!(number >= from, "{number} after {:?}", self.last);
        for missing in from..number {
            let is_over = self.settled.contains(&missing) || self.said.contains(&missing);
            assert!(is_over || self.maybe_gone.contains(&missing), "{missing} is lost");
        }
        assert!(!self.settled.contains(&number), "{number} came after it was settled");
        self.last = Some(number);
    }

    fn read(&mut self) {
        if let Some(publisher) = self.publisher {
            for line in self.run.net.read(publisher) {
                let id: usize = line.split(['#', ' ']).nth(2).unwrap().parse().unwrap();
                if line.starts_with("PUBREC") {
                    self.run.net.ack(publisher, PacketKind::PubRel, id as u16);
                    self.run.note_end();
                }
                if !line.starts_with("PUBCOMP") {
                    let around = self.published / 60_000 * 60_000 + id - 1;
                    self.kept.insert(if around < self.published {
                        around
                    } else {
                        around - 60_000
                    });
                }
            }
        }
        let Some(subscriber) = self.subscriber else { return };
        for line in self.run.net.read(subscriber) {
            let words: Vec<&str> = line.split(' ').collect();
            match words[0] {
                "PUBLISH" => {
                    let number = words.last().unwrap().parse().unwrap();
                    self.check_order(number);
                    let id = words.iter().find_map(|word| word.strip_prefix('#')).unwrap();
                    self.open.push((number, id.parse().unwrap(), (words[2] == "q2").into()));
                }
                "PUBREL" => {
                    let id = words[1].trim_start_matches('#').parse().unwrap();
                    self.run.net.ack(subscriber, PacketKind::PubComp, id);
                    self.run.note_end();
                }
                _ => {}
            }
        }
    }

    fn ack(&mut self, count: usize) {
        let Some(subscriber) = self.subscriber else { return };
        let count = count.min(self.open.len());
        for (number, id, is_exact) in self.open.drain(..count).collect::<Vec<_>>() {
            let kind = if is_exact == 1 { PacketKind::PubRec } else { PacketKind::PubAck };
            self.run.net.ack(subscriber, kind, id);
            self.run.note_end();
            self.said.insert(number);
        }
    }

    fn commit(&mut self) {
        self.run.commit();
        self.settled.append(&mut self.said);
        self.read();
    }

    fn cut(&mut self) {
        if let Some(peer) = self.subscriber.take() {
            self.run.net.cut(peer);
            self.run.note_end();
        }
        self.open.clear();
    }

    fn connect(&mut self) {
        self.cut();
        self.last = None;
        let ask = Ask { receive_maximum: 900, expiry_s: 1_000_000, ..DURABLE };
        self.subscriber = Some(self.run.net.connect("s", ask));
        self.commit();
    }

    fn crash(&mut self, nth: usize, is_cut: bool) {
        (self.publisher, self.subscriber) = (None, None);
        self.run.crash(nth, is_cut);
        self.open.clear();
        // They may have been settled, or come again.
        let said = std::mem::take(&mut self.said);
        self.maybe_gone.extend(said);
        let unknown = (0..self.published).filter(|number| !self.kept.contains(number));
        self.maybe_gone.extend(unknown);
    }

    fn step(&mut self, input: Input) {
        match input {
            Input::Publish(count) => self.publish(count),
            Input::Connect => self.connect(),
            Input::Cut => self.cut(),
            Input::Ack(count) => self.ack(count),
            Input::Answer(nth) => {
                self.run.answer(nth);
            }
            Input::Commit => self.commit(),
            Input::Base => self.run.base(),
            Input::Crash(nth, is_cut) => self.crash(nth, is_cut),
        }
        self.read();
    }

    /// All that was kept has come by the end.
    fn finish(&mut self) {
        self.connect();
        loop {
            self.run.come_to_rest();
            self.settled.append(&mut self.said);
            self.read();
            if self.open.is_empty() {
                break;
            }
            self.ack(usize::MAX);
        }
        for number in 0..self.published {
            let is_over = self.settled.contains(&number) || self.maybe_gone.contains(&number);
            assert!(is_over, "{number} of {} is lost", self.published);
        }
        assert_eq!(self.run.queued("s"), 0);
        self.run.base();
        assert!(self.run.net.wires[0].disk.pages.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn whatever_the_disk_and_the_clients_do_all_comes_once_and_in_order(
        inputs in vec(input(), 1..60),
    ) {
        let mut clients = Clients::new();
        for input in inputs {
            clients.step(input);
        }
        clients.finish();
    }
}
