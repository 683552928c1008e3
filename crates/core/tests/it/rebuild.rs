//! A broker that is made again from its log, against one that went on.

use crate::net::{Ask, Net, Peer, SEED, message};
use proptest::collection::vec;
use proptest::prelude::*;
use weir_core::{Limits, Lsn, Micros, Parcel, Partitions, Rebuild, Record, Renamed, Unfit, Wall};
use weir_wire::packet::{Publish, SubscriptionOptions, Will};
use weir_wire::{PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode};

pub(crate) type Log = [(Lsn, u8, Vec<u8>)];

pub(crate) const DURABLE: Ask<'static> = Ask {
    version: weir_wire::Version::V5,
    clean: false,
    keep_alive_s: 0,
    expiry_s: 60,
    receive_maximum: 3,
    packet_bytes_max: 0,
    will: None,
    properties: &[],
};

/// Applies all records; commits end where a length of the log says.
pub(crate) fn rebuild(log: &Log, commits: &[usize]) -> Result<Rebuild, Unfit> {
    let mut rebuild = Rebuild::default();
    for (at, (lsn, kind, body)) in log.iter().enumerate() {
        rebuild.apply(*lsn, Record::decode(*kind, body, Wall(0)).unwrap())?;
        if commits.contains(&(at + 1)) {
            rebuild.commit_end();
        }
    }
    Ok(rebuild)
}

/// A log with the records that the parcels tell, in one base.
fn told(parcels: &[Parcel]) -> Vec<(Lsn, u8, Vec<u8>)> {
    let mut log = vec![];
    let mut put = |record: &Record<'_>| {
        let mut body = Vec::new();
        record.encode(Wall(0), &mut body);
        let lsn = Lsn(log.len() as u64 + 1);
        log.push((lsn, record.kind(), body));
        lsn
    };
    let mut named = Renamed::default();
    put(&Record::Base);
    parcels.iter().for_each(|parcel| parcel.tell_records(&mut named, &mut put));
    put(&Record::BaseEnd);
    log
}

/// The sessions in words.
pub(crate) fn sessions(rebuild: Rebuild, now: Micros) -> Vec<String> {
    finish(rebuild, now).iter().map(|parcel| format!("{parcel:?}")).collect()
}

/// What is there, where there are no pages.
pub(crate) fn finish(rebuild: Rebuild, now: Micros) -> Vec<Parcel> {
    rebuild.finish(now, Err).unwrap()
}

/// A broker of one shard with a log that has begun.
pub(crate) fn begun(limits: &Limits) -> Net {
    let mut net = Net::with_logs(1, limits);
    let (shard, wires) = (&mut net.shards[0], &mut net.wires[0]);
    shard.begin_base(net.now, wires);
    shard.end_base(net.now, wires);
    net.commit(0);
    net
}

/// A broker with all that the log says.
pub(crate) fn restored(log: &Log, commits: &[usize], limits: &Limits, now: Micros) -> Net {
    let mut net = Net::with_logs(1, limits);
    net.now = now;
    let (shard, wires) = (&mut net.shards[0], &mut net.wires[0]);
    shard.begin_base(now, wires);
    for parcel in finish(rebuild(log, commits).unwrap(), now) {
        shard.restored(parcel, now, wires);
    }
    shard.end_base(now, wires);
    shard.turn_end(wires);
    net
}

#[derive(Clone, Copy, Debug)]
enum Input {
    /// Which client, whether its session shall last, and whether it takes up an older one.
    Connect(usize, bool, bool),
    Cut(usize),
    Disconnect(usize),
    Subscribe(usize, usize, QoS),
    Unsubscribe(usize, usize),
    Publish(usize, QoS),
    /// Topic, QoS, what is retained there, and whether it expires in 20 s; only at QoS 0, as what
    /// expires in a queue takes room there until somebody comes by.
    Retain(usize, QoS, &'static str, bool),
    Ack(usize, PacketKind, u16),
    Pass,
    Base,
    /// One later turn.
    GoOn,
}

const TOPICS: [&str; 3] = ["t/a", "t/b", "t/+"];

fn qos() -> impl Strategy<Value = QoS> {
    prop_oneof![Just(QoS::AtMostOnce), Just(QoS::AtLeastOnce), Just(QoS::ExactlyOnce)]
}

fn input() -> impl Strategy<Value = Input> {
    let kind = prop_oneof![
        2 => Just(PacketKind::PubAck),
        2 => Just(PacketKind::PubRec),
        1 => Just(PacketKind::PubComp),
    ];
    let client = || 0_usize..3;
    prop_oneof![
        4 => (client(), prop::bool::weighted(0.8), prop::bool::weighted(0.2))
            .prop_map(|(who, is_durable, is_clean)| Input::Connect(who, is_durable, is_clean)),
        2 => client().prop_map(Input::Cut),
        1 => client().prop_map(Input::Disconnect),
        4 => (client(), 0_usize..3, qos()).prop_map(|(who, topic, qos)| {
            Input::Subscribe(who, topic, qos)
        }),
        1 => (client(), 0_usize..3).prop_map(|(who, topic)| Input::Unsubscribe(who, topic)),
        8 => (0_usize..2, qos()).prop_map(|(topic, qos)| Input::Publish(topic, qos)),
        4 => (0_usize..2, qos(), prop::sample::select(vec!["", "a", "b"]), any::<bool>())
            .prop_map(|(topic, qos, payload, expires)| {
                let expires = expires && qos == QoS::AtMostOnce;
                Input::Retain(topic, qos, payload, expires)
            }),
        8 => (client(), kind, 1_u16..8).prop_map(|(who, kind, id)| Input::Ack(who, kind, id)),
        1 => Just(Input::Pass),
        2 => Just(Input::Base),
        8 => Just(Input::GoOn),
    ]
}

/// A run of inputs, with the length of the log after each.
struct Run {
    net: Net,
    clients: [Option<Peer>; 3],
    commits: Vec<usize>,
}

/// The last client has a will if its session is to last.
fn ask(who: usize, is_durable: bool, is_clean: bool, delay: Properties<'_>) -> Ask<'_> {
    let expiry_s = if is_durable { 60 } else { 0 };
    let (topic, payload, qos, retain) = ("t/b", b"will", QoS::AtLeastOnce, false);
    let will = Will { topic, payload, qos, retain, properties: delay };
    Ask { clean: is_clean, expiry_s, will: (who == 2 && is_durable).then_some(will), ..DURABLE }
}

fn run(inputs: &[Input], limits: &Limits) -> Run {
    let mut net = begun(limits);
    let publisher = net.join("p", Ask::default());
    let mut delay = PropertiesBuf::new();
    delay.push(Property::WillDelayInterval(10));
    let delay = delay.as_properties();
    let mut run = Run { net, clients: [None; 3], commits: Vec::new() };
    for (number, &input) in inputs.iter().enumerate() {
        let Run { net, clients, commits } = &mut run;
        for client in clients.iter_mut() {
            client.take_if(|peer| net.is_closed(*peer));
        }
        match input {
            Input::Connect(who, is_durable, is_clean) => {
                let name = format!("c{who}");
                clients[who] = Some(net.join(&name, ask(who, is_durable, is_clean, delay)));
            }
            Input::Cut(who) => clients[who].take().into_iter().for_each(|peer| net.cut(peer)),
            Input::Disconnect(who) => clients[who]
                .take()
                .into_iter()
                .for_each(|peer| net.disconnect(peer, ReasonCode::Success)),
            Input::Subscribe(who, topic, qos) => {
                clients[who].into_iter().for_each(|peer| net.subscribe(peer, TOPICS[topic], qos));
            }
            Input::Unsubscribe(who, topic) => {
                clients[who].into_iter().for_each(|peer| net.unsubscribe(peer, TOPICS[topic]));
            }
            Input::Publish(topic, qos) => {
                let id = number as u16 + 1;
                net.publish(publisher, TOPICS[topic], qos, id, &number.to_string());
            }
            Input::Retain(topic, qos, payload, expires) => {
                let id = number as u16 + 1;
                retain(net, publisher, TOPICS[topic], qos, id, payload, expires);
            }
            Input::Ack(who, kind, id) => {
                clients[who].into_iter().for_each(|peer| net.ack(peer, kind, id));
            }
            Input::Pass => net.pass(30),
            Input::Base => net.shards[0].begin_base(net.now, &mut net.wires[0]),
            Input::GoOn => {
                net.go_on_once();
            }
        }
        commits.push(net.wires[0].log.len());
        net.commit(0);
    }
    run
}

fn retain(net: &mut Net, peer: Peer, topic: &str, qos: QoS, id: u16, payload: &str, expires: bool) {
    let mut properties = PropertiesBuf::new();
    if expires {
        properties.push(Property::MessageExpiryInterval(20));
    }
    let properties = properties.as_properties();
    let publish = Publish { retain: true, properties, ..message(topic, qos, id, payload) };
    net.publish_packet(peer, &publish);
}

/// All that is retained.
fn retained(net: &mut Net, peer: Peer) -> Vec<String> {
    net.subscribe(peer, "t/#", QoS::AtLeastOnce);
    net.go_on();
    net.read(peer)
}

/// What a client gets that comes back, and then of what is published. Identifiers of what had not
/// been sent before may be others. What is retained and it has not been sent is left out: that a
/// new subscription is still to get it does not outlive a crash.
fn comes_back(net: &mut Net, name: &str, publisher: Peer) -> Vec<String> {
    let peer = net.connect(name, Ask { receive_maximum: 100, ..DURABLE });
    for topic in ["t/a", "t/b", "t/c"] {
        net.publish(publisher, topic, QoS::ExactlyOnce, 1, "new");
        net.ack(publisher, PacketKind::PubRel, 1);
    }
    // What waited for the first commit records what it sends.
    for _ in 0..3 {
        net.commit(0);
        net.go_on();
    }
    let lines = net.read(peer);
    net.cut(peer);
    let is_new = |line: &str| line.starts_with("PUBLISH") && !line.contains(" dup ");
    let without_id = |line: &str| {
        let words = line.split(' ').filter(|word| !word.starts_with('#'));
        words.collect::<Vec<_>>().join(" ")
    };
    let is_replayed = |line: &str| is_new(line) && line.contains(" retain ");
    let lines = lines.into_iter().filter(|line| !is_replayed(line));
    lines.map(|line| if is_new(&line) { without_id(&line) } else { line }).collect()
}

/// Queues that run over, and slices of little more than a session.
fn limits() -> Limits {
    Limits { queue_messages_max: 4, input_steps_max: 10, ..Limits::default() }
}

/// Where each base begins that is done.
fn bases(log: &Log) -> Vec<usize> {
    let mut done = Vec::new();
    let mut begun = None;
    for (at, (_, kind, _)) in log.iter().enumerate() {
        if *kind == Record::Base.kind() {
            begun = Some(at);
        } else if *kind == Record::BaseEnd.kind() {
            done.extend(begun.take());
        }
    }
    done
}

/// The lengths of a log that has lost `start` records.
fn without(start: usize, commits: &[usize]) -> Vec<usize> {
    commits.iter().filter_map(|&end| end.checked_sub(start)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_broker_made_from_its_log_says_what_it_would_have_said(
        inputs in vec(input(), 1..100),
        cut in any::<prop::sample::Index>(),
    ) {
        let limits = limits();
        let Run { mut net, clients, commits } = run(&inputs, &limits);
        let log = net.wires[0].log.clone();
        let start = cut.index(bases(&log).last().unwrap() + 1);
        let mut again = restored(&log[start..], &without(start, &commits), &limits, net.now);
        // The crash cuts all connections; this broker only loses them.
        for peer in clients.into_iter().flatten() {
            if !net.is_closed(peer) {
                net.cut(peer);
            }
        }
        let publishers =
            [net.join("q", Ask::default()), again.join("q", Ask::default())];
        let expected = retained(&mut net, publishers[0]);
        prop_assert_eq!(retained(&mut again, publishers[1]), expected);
        for name in ["c0", "c1", "c2"] {
            let expected = comes_back(&mut net, name, publishers[0]);
            prop_assert_eq!(comes_back(&mut again, name, publishers[1]), expected);
        }
        net.pass(60);
        again.pass(60);
        let left = |net: &Net| net.shards[0].stats().sessions;
        prop_assert_eq!((left(&again), left(&net)), (1, 2), "the publishers");
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn every_prefix_of_commits_is_a_broker_that_can_be_logged_anew(
        inputs in vec(input(), 1..100),
        cut in any::<prop::sample::Index>(),
    ) {
        let limits = limits();
        let Run { net, commits, .. } = run(&inputs, &limits);
        let log = &net.wires[0].log;
        for &end in &commits {
            let part = &log[..end];
            let found = rebuild(part, &commits);
            prop_assert!(found.is_ok(), "{found:?}");
            let found = found.unwrap();
            prop_assert_eq!((found.ignored(), found.is_whole()), (0, true));
            let parcels = finish(found, net.now);
            let expected: Vec<_> = parcels.iter().map(|parcel| format!("{parcel:?}")).collect();
            let told = rebuild(&told(&parcels), &[]).unwrap();
            prop_assert_eq!(sessions(told, net.now), expected.clone());
            // What comes before the last base that is done need not be there.
            let last = *bases(part).last().unwrap();
            for start in [last, cut.index(last + 1)] {
                let rest = rebuild(&part[start..], &without(start, &commits));
                prop_assert!(rest.is_ok(), "from {start} on: {rest:?}");
                let rest = rest.unwrap();
                prop_assert_eq!((rest.ignored(), rest.is_whole()), (0, true));
                prop_assert_eq!(sessions(rest, net.now), expected.clone(), "from {} on", start);
            }
            let again = restored(part, &commits, &limits, net.now);
            let its_log = &again.wires[0].log;
            let anew = rebuild(its_log, &[its_log.len()]);
            prop_assert!(anew.is_ok(), "{anew:?}");
            prop_assert_eq!(sessions(anew.unwrap(), net.now), expected);
        }
    }
}

#[test]
fn a_message_that_several_wait_for_is_logged_once_anew() {
    let limits = Limits::default();
    let mut net = begun(&limits);
    for name in ["x", "y", "z"] {
        let peer = net.join(name, DURABLE);
        net.subscribe(peer, "t", QoS::AtLeastOnce);
        net.cut(peer);
    }
    let publisher = net.join("p", Ask::default());
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    let log = net.wires[0].log.clone();
    let again = restored(&log, &[log.len()], &limits, net.now);
    let kind = Record::Message {
        topic: "",
        payload: &[],
        properties: &[],
        qos: QoS::AtMostOnce,
        retain: false,
        expires_at: None,
    }
    .kind();
    let messages = again.wires[0].log.iter().filter(|&&(_, it, _)| it == kind);
    assert_eq!(messages.count(), 1);
}

#[test]
fn a_will_and_the_end_of_a_session_come_when_they_were_due() {
    let limits = Limits::default();
    let mut net = begun(&limits);
    let mut properties = PropertiesBuf::new();
    properties.push(Property::WillDelayInterval(10));
    let will = Will {
        topic: "w",
        payload: b"lost",
        qos: QoS::AtLeastOnce,
        retain: false,
        properties: properties.as_properties(),
    };
    let absent = net.join("absent", Ask { will: Some(will), ..DURABLE });
    net.cut(absent);
    net.join("connected", Ask { will: Some(will), ..DURABLE });
    net.pass(5);
    let log = net.wires[0].log.clone();
    let mut again = restored(&log, &[log.len()], &limits, net.now);
    let peer = again.join("s", Ask::default());
    again.subscribe(peer, "w", QoS::AtMostOnce);
    assert_eq!(again.read(peer), ["SUBACK [0]"]);
    again.pass(5);
    assert_eq!(again.read(peer), ["PUBLISH w q0 lost"]);
    // The one that was connected is absent since the crash.
    again.pass(5);
    assert_eq!(again.read(peer), ["PUBLISH w q0 lost"]);
    assert_eq!(again.shards[0].stats().sessions, 3);
    again.pass(50);
    assert_eq!(again.shards[0].stats().sessions, 1);
    // What was due while the broker was down is due at its start.
    let mut late = restored(&log, &[log.len()], &limits, net.now + Micros::from_secs(100));
    let peer = late.join("s", Ask::default());
    late.subscribe(peer, "w", QoS::AtMostOnce);
    late.pass(0);
    assert_eq!(late.read(peer), ["SUBACK [0]", "PUBLISH w q0 lost"]);
    assert_eq!(late.shards[0].stats().sessions, 2);
}

#[test]
fn retained_messages_come_back_to_any_number_of_shards() {
    let mut net = Net::with_logs(2, &Limits::default());
    for (shard, wires) in net.shards.iter_mut().zip(&mut net.wires) {
        shard.begin_base(net.now, wires);
        shard.end_base(net.now, wires);
    }
    let publisher = net.join("p", Ask::default());
    for number in 0..20 {
        let topic = format!("t/{number:02}");
        retain(&mut net, publisher, &topic, QoS::AtMostOnce, 0, "a", number % 5 == 0);
    }
    retain(&mut net, publisher, "t/07", QoS::AtMostOnce, 0, "", false);
    net.go_on();
    assert!((0..2).all(|shard| net.wires[shard].log.len() > 5));
    let mut again = Net::with_logs(3, &Limits::default());
    again.now = net.now + Micros::from_secs(10);
    let partitions = Partitions::spread(3, SEED);
    for (shard, wires) in again.shards.iter_mut().zip(&mut again.wires) {
        shard.begin_base(again.now, wires);
    }
    for wires in &net.wires {
        for parcel in finish(rebuild(&wires.log, &[]).unwrap(), again.now) {
            let owner = usize::from(partitions.owner(parcel.name().unwrap()).0);
            again.shards[owner].restored(parcel, again.now, &mut again.wires[owner]);
        }
    }
    for (shard, wires) in again.shards.iter_mut().zip(&mut again.wires) {
        shard.end_base(again.now, wires);
    }
    let held: Vec<u64> = again.shards.iter().map(|shard| shard.stats().retained).collect();
    assert!(held.iter().sum::<u64>() == 19 && held.iter().all(|&count| count > 2), "{held:?}");
    // All of them are in the new logs, once.
    let kinds = (0..3).flat_map(|shard| again.kinds(shard));
    assert_eq!(kinds.filter(|&kind| kind == 16).count(), 19);
    let anew = again.wires.iter().map(|wires| rebuild(&wires.log, &[]).unwrap());
    assert_eq!(anew.map(|anew| finish(anew, again.now).len()).sum::<usize>(), 19);
    let peer = again.join("s", Ask::default());
    let mut lines = retained(&mut again, peer);
    assert_eq!(lines.remove(0), "SUBACK [1]");
    lines.sort();
    assert_eq!(lines.len(), 19);
    let first = "PUBLISH t/00 q0 retain MessageExpiryInterval(10) a";
    assert_eq!((&*lines[0], &*lines[1]), (first, "PUBLISH t/01 q0 retain a"));
    again.pass(10);
    let peer = again.join("s", Ask::default());
    assert_eq!(retained(&mut again, peer).len(), 1 + 19 - 4);
}

#[test]
fn a_base_drops_what_is_retained_and_expired() {
    let mut net = begun(&limits());
    let publisher = net.join("p", Ask::default());
    for (topic, expires) in [("t/a", false), ("t/b", true), ("t/c", false), ("t/d", true)] {
        retain(&mut net, publisher, topic, QoS::AtMostOnce, 0, "a", expires);
    }
    net.pass(20);
    net.commit(0);
    let from = net.wires[0].log.len();
    net.shards[0].begin_base(net.now, &mut net.wires[0]);
    let mut slices = 0;
    while net.shards[0].is_basing() {
        net.go_on();
        net.commit(0);
        slices += 1;
        assert!(slices < 10);
    }
    assert_eq!(net.kinds(0)[from..], [14, 16, 16, 15]);
    assert!(slices > 1, "they are logged in slices");
    assert_eq!(net.shards[0].stats().retained, 2);
    // Of one that is not there any more nothing is logged, and the whole log fits.
    retain(&mut net, publisher, "t/b", QoS::AtMostOnce, 0, "", false);
    assert_eq!(net.kinds(0).len(), from + 4);
    assert_eq!(sessions(rebuild(&net.wires[0].log, &[]).unwrap(), Micros(0)).len(), 2);
}

#[test]
fn what_is_over_by_the_start_is_not_taken_up() {
    let limits = Limits::default();
    let mut net = begun(&limits);
    let peer = net.join("s", DURABLE);
    net.cut(peer);
    let log = net.wires[0].log.clone();
    let found = rebuild(&log, &[]).unwrap();
    assert_eq!(finish(found, net.now + Micros::from_secs(59)).len(), 1);
    let found = rebuild(&log, &[]).unwrap();
    assert_eq!(finish(found, net.now + Micros::from_secs(60)).len(), 0);
}

#[test]
fn the_first_base_is_whole_and_every_base_has_all_sessions() {
    let begin = Record::Session { session: Lsn::NONE, client_id: "s", expiry_s: 9, will: None };
    let mut rebuild = Rebuild::default();
    // What was before the first base is not looked at.
    rebuild.apply(Lsn(1), begin.clone()).unwrap();
    rebuild.apply(Lsn(2), Record::BaseEnd).unwrap();
    assert_eq!((rebuild.is_whole(), rebuild.skipped()), (false, 2));
    rebuild.apply(Lsn(3), Record::Base).unwrap();
    assert!(!rebuild.is_whole());
    assert!(rebuild.apply(Lsn(4), Record::Base).is_err());
    // One of before the base may still be in its store, and the session under its old name.
    rebuild.apply(Lsn(5), Record::Cleared { topic: "t" }).unwrap();
    rebuild.apply(Lsn(6), Record::Dropped { session: Lsn(1) }).unwrap();
    rebuild.apply(Lsn(7), begin.clone()).unwrap();
    rebuild.apply(Lsn(8), Record::BaseEnd).unwrap();
    assert_eq!((rebuild.is_whole(), rebuild.skipped()), (true, 3));
    rebuild.apply(Lsn(9), Record::Base).unwrap();
    assert!(rebuild.is_whole());
    assert!(rebuild.apply(Lsn(10), Record::BaseEnd).is_err(), "without the session");
    rebuild.apply(Lsn(11), begin).unwrap();
    rebuild.apply(Lsn(12), Record::BaseEnd).unwrap();
    assert_eq!((rebuild.ignored(), finish(rebuild, Micros(1)).len()), (0, 1));
}

#[test]
fn a_session_counts_as_it_was_until_its_copy_in_a_base_is_whole() {
    let begin = Record::Session { session: Lsn::NONE, client_id: "s", expiry_s: 9, will: None };
    let message = |payload| Record::Message {
        topic: "t",
        payload,
        properties: &[],
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at: None,
    };
    let queued = |session, message| Record::Queued {
        session: Lsn(session),
        message: Lsn(message),
        qos: QoS::AtLeastOnce,
        retain: false,
        subscription_ids: vec![].into(),
        packet_id: None,
    };
    let records = [
        Record::Base,
        begin.clone(),
        message(b"one"),
        queued(2, 3),
        message(b"two"),
        queued(2, 5),
        Record::BaseEnd,
        Record::Base,
        begin,
        message(b"one"),
        queued(9, 10),
        message(b"two"),
        queued(9, 12),
        Record::Gone { session: Lsn(2) },
        message(b"three"),
        queued(9, 15),
    ];
    // The copy begins with record 9, and may be cut.
    for end in 7..=records.len() {
        let mut rebuild = Rebuild::default();
        for (lsn, record) in (1..).zip(&records[..end]) {
            rebuild.apply(Lsn(lsn), record.clone()).unwrap();
        }
        let mut count = 0;
        for parcel in finish(rebuild, Micros(1)) {
            parcel.tell_records(&mut Renamed::default(), &mut |record| {
                count += usize::from(matches!(record, Record::Queued { .. }));
                Lsn(1)
            });
        }
        assert_eq!(count, if end == 16 { 3 } else { 2 }, "of {end} records");
    }
}

#[test]
fn a_record_that_does_not_fit_says_where_it_is_and_one_of_no_session_is_counted() {
    let (session, packet_id) = (Lsn(1), PacketId::FIRST);
    let begin = Record::Session { session: Lsn::NONE, client_id: "s", expiry_s: 9, will: None };
    let message = Record::Message {
        topic: "t",
        payload: b"a",
        properties: &[],
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at: None,
    };
    let queued = |packet_id| Record::Queued {
        session,
        message: Lsn(2),
        qos: QoS::AtLeastOnce,
        retain: false,
        subscription_ids: vec![].into(),
        packet_id,
    };
    let begun = || {
        let mut rebuild = Rebuild::default();
        rebuild.apply(Lsn(0), Record::Base).unwrap();
        rebuild.apply(Lsn(0), Record::BaseEnd).unwrap();
        rebuild.apply(Lsn(1), begin.clone()).unwrap();
        rebuild.apply(Lsn(2), message.clone()).unwrap();
        rebuild
    };
    for record in [
        Record::Sent { session, packet_id },
        Record::Dropped { session },
        Record::Done { session, packet_id },
        Record::Unsubscribed { session, name: "t" },
        Record::Cleared { topic: "t" },
        Record::BaseEnd,
    ] {
        let found = begun().apply(Lsn(7), record.clone());
        assert!(matches!(found, Err(Unfit { lsn: Lsn(7), .. })), "{record:?}: {found:?}");
    }
    // A message is of its commit.
    let mut rebuild = begun();
    rebuild.apply(Lsn(3), queued(Some(packet_id))).unwrap();
    // Two deliveries of one identifier.
    assert!(rebuild.apply(Lsn(4), queued(Some(packet_id))).is_err());
    assert!(rebuild.apply(Lsn(5), Record::Received { session, packet_id }).is_err());
    rebuild.commit_end();
    assert!(rebuild.apply(Lsn(6), queued(None)).is_err());
    let options = SubscriptionOptions::default();
    let (name, condition, subscription_id) = ("t", None, None);
    let of_nobody =
        Record::Subscribed { session: Lsn(9), name, condition, options, subscription_id };
    rebuild.apply(Lsn(10), of_nobody).unwrap();
    assert_eq!(rebuild.ignored(), 1);
    // Whoever begins anew has nothing of what was.
    rebuild.apply(Lsn(11), begin.clone()).unwrap();
    rebuild.apply(Lsn(12), Record::Done { session, packet_id }).unwrap();
    assert_eq!((rebuild.ignored(), finish(rebuild, Micros(1)).len()), (2, 1));
}

#[test]
fn a_publisher_that_repeats_a_message_of_qos_2_after_a_crash_has_not_sent_a_new_one() {
    let limits = Limits::default();
    let mut net = begun(&limits);
    let subscriber = net.join("s", DURABLE);
    net.subscribe(subscriber, "t", QoS::ExactlyOnce);
    net.cut(subscriber);
    let publisher = net.join("p", DURABLE);
    net.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    net.publish(publisher, "t", QoS::ExactlyOnce, 2, "b");
    net.ack(publisher, PacketKind::PubRel, 2);
    let log = net.wires[0].log.clone();
    let mut again = restored(&log, &[log.len()], &limits, net.now);
    let publisher = again.join("p", DURABLE);
    again.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    again.publish(publisher, "t", QoS::ExactlyOnce, 2, "c");
    again.commit(0);
    assert_eq!(again.read(publisher), ["PUBREC #1 Success", "PUBREC #2 Success"]);
    let subscriber = again.join("s", DURABLE);
    again.commit(0);
    let lines = ["PUBLISH t q2 #1 a", "PUBLISH t q2 #2 b", "PUBLISH t q2 #3 c"];
    assert_eq!(again.read(subscriber), lines);
}

#[test]
fn identifiers_go_on_behind_the_last_that_was_given() {
    let mut net = begun(&Limits::default());
    let peer = net.join("s", DURABLE);
    net.subscribe(peer, "t", QoS::ExactlyOnce);
    net.commit(0);
    let publisher = net.join("p", Ask::default());
    for id in 1..=2 {
        net.publish(publisher, "t", QoS::ExactlyOnce, id, "a long message");
        net.commit(0);
    }
    net.ack(peer, PacketKind::PubRec, 1);
    net.commit(0);
    net.ack(peer, PacketKind::PubComp, 1);
    net.cut(peer);
    // It takes only short packets now, and remembers the second message all the same.
    let back = net.join("s", Ask { packet_bytes_max: 20, ..DURABLE });
    assert_eq!(net.read(back), [""; 0]);
    net.cut(back);
    // A base, and then another start from that.
    for _ in 0..3 {
        let length = net.wires[0].log.len();
        net = restored(&net.wires[0].log, &[length], &Limits::default(), net.now);
        net.commit(0);
    }
    let back = net.join("s", DURABLE);
    let publisher = net.join("p", Ask::default());
    net.publish(publisher, "t", QoS::ExactlyOnce, 3, "b");
    net.commit(0);
    assert_eq!(net.read(back).last().unwrap(), "PUBLISH t q2 #3 b");
}
