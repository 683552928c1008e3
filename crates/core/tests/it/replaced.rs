//! A node that is lost, and in whose place another begins from a copy of its log, a shard each.

use crate::net::{Ask, Net, Peer, SEED, Wires};
use crate::rebuild::{finish, rebuild};
use weir_core::{
    Limits, Mail, Mark, Micros, SessionMail, Settings, Shard, ShardId, Undelivered, Wall,
    WhenAbsent,
};
use weir_wire::packet::{Publish, Will};
use weir_wire::{PropertiesBuf, Property, QoS};

pub(crate) const Q1: QoS = QoS::AtLeastOnce;
pub(crate) const Q2: QoS = QoS::ExactlyOnce;

/// The node that is lost.
pub(crate) const LOST: usize = 0;

pub(crate) fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 1_000, ..Ask::default() }
}

/// Three nodes whose logs are copied.
pub(crate) fn nodes() -> Net {
    let mut net = Net::of_nodes(3, true);
    let Net { shards, wires, now, .. } = &mut net;
    for (shard, wires) in shards.iter_mut().zip(wires) {
        shard.set_copied(true);
        shard.begin_base(*now, wires);
        shard.end_base(*now, wires);
    }
    settle(&mut net);
    net
}

/// All letters arrive, and all that is recorded outlives a crash.
pub(crate) fn settle(net: &mut Net) {
    for _ in 0..6 {
        net.go_on();
        (0..net.shards.len()).for_each(|shard| net.commit(shard));
    }
    net.go_on();
}

/// Sends CONNECT to a node, and no letter on.
pub(crate) fn come_to(net: &mut Net, node: usize, client_id: &str, ask: Ask<'_>) -> Peer {
    net.entry = node;
    net.connect(client_id, ask)
}

pub(crate) fn join_at(net: &mut Net, node: usize, client_id: &str, ask: Ask<'_>) -> Peer {
    let peer = come_to(net, node, client_id, ask);
    settle(net);
    let lines = net.read(peer);
    assert!(lines[0].starts_with("CONNACK Success"), "{lines:?}");
    peer
}

/// A node is lost, with what is on its way to and from it, and one is there that begins from so
/// many of its records. The others are told when it has begun.
pub(crate) fn begin_again(net: &mut Net, records: usize) {
    let mut log = std::mem::take(&mut net.wires[LOST].log);
    log.truncate(records);
    let rebuilt = [(ShardId(LOST as u16), rebuild(&log, &[log.len()]).unwrap())];
    let late = Undelivered::of(&rebuilt, net.now);
    let [(_, old)] = rebuilt;
    let mut shard = shard(net);
    let mut wires = Wires::default();
    shard.begin_base(net.now, &mut wires);
    for mark in old.marks() {
        shard.restored_mark(mark, &mut wires);
    }
    for parcel in finish(old, net.now) {
        shard.restored(parcel, net.now, &mut wires);
    }
    late.iter().for_each(|late| shard.redelivered(late, true, net.now, &mut wires));
    shard.end_base(net.now, &mut wires);
    (net.shards[LOST], net.wires[LOST]) = (shard, wires);
    net.commit(LOST);
    for at in 1..3 {
        net.wires[at].mail.retain(|(to, _)| usize::from(to.0) != LOST);
    }
}

fn shard(net: &Net) -> Shard {
    let id = LOST as u16;
    let mut shard = Shard::of_node(ShardId(id), id..id + 1, Settings::default(), SEED);
    shard.set_clustered(net.now.0, net.now, Wall(0));
    shard.keep_log();
    shard.set_copied(true);
    shard
}

/// The others, and the one that has begun, are told of each other.
pub(crate) fn meet(net: &mut Net) {
    for at in 1..3 {
        let Net { shards, wires, now, .. } = net;
        shards[at].node_replaced(LOST as u16..LOST as u16 + 1, *now, &mut wires[at]);
        shards[at].turn_end(&mut wires[at]);
        net.meet(LOST, at as u16);
    }
}

pub(crate) fn replace(net: &mut Net) {
    let all = net.wires[LOST].log.len();
    begin_again(net, all);
    meet(net);
}

/// A session that waits on the lost node for what is published to `t`, and a publisher on another.
pub(crate) fn absent(qos: QoS) -> (Net, Peer) {
    absent_at(LOST, qos)
}

pub(crate) fn absent_at(node: usize, qos: QoS) -> (Net, Peer) {
    let mut net = nodes();
    let old = join_at(&mut net, node, "c", kept());
    net.subscribe(old, "t", qos);
    settle(&mut net);
    net.cut(old);
    let publisher = join_at(&mut net, 2, "p", kept());
    settle(&mut net);
    (net, publisher)
}

/// What the session gets when its client comes to another node.
pub(crate) fn comes_back(net: &mut Net) -> Vec<String> {
    let back = come_to(net, 1, "c", kept());
    settle(net);
    let lines = net.read(back);
    assert!(lines[0].starts_with("CONNACK Success present"), "{lines:?}");
    lines[1..].to_vec()
}

#[test]
fn a_message_without_receipt_goes_to_who_is_in_the_place_and_its_publisher_waits_for_that() {
    let (mut net, publisher) = absent(Q1);
    net.publish(publisher, "t", Q1, 1, "one");
    net.publish(publisher, "t", Q1, 2, "two");
    settle_but_lost(&mut net);
    replace(&mut net);
    assert!(net.read(publisher).is_empty(), "nobody has them");
    net.go_on();
    assert!(net.read(publisher).is_empty(), "they are not committed");
    settle(&mut net);
    assert_eq!(net.read(publisher), ["PUBACK #1 Success", "PUBACK #2 Success"]);
    assert_eq!(comes_back(&mut net), ["PUBLISH t q1 #1 one", "PUBLISH t q1 #2 two"]);
}

#[test]
fn a_publisher_that_goes_to_another_node_meanwhile_is_let_in_there() {
    for (qos, retain) in [(Q1, false), (Q2, false), (Q1, true), (Q2, true)] {
        let (mut net, publisher) = absent(qos);
        for id in 1..4 {
            let publish = Publish { retain, ..crate::net::message("t", qos, id, "one") };
            net.publish_packet(publisher, &publish);
            go_on_without(&mut net);
        }
        net.cut(publisher);
        go_on_without(&mut net);
        let back = come_to(&mut net, 1, "p", kept());
        go_on_without(&mut net);
        assert!(net.read(back).is_empty(), "who is lost may have it");
        replace(&mut net);
        settle(&mut net);
        let lines = net.read(back);
        let is_in = lines.concat().starts_with("CONNACK Success present");
        assert!(is_in, "{qos:?} {retain} {lines:?}");
    }
}

/// The others go on without the one that is lost: what is mailed there does not come.
fn go_on_without(net: &mut Net) {
    for _ in 0..40 {
        net.wires[LOST].mail.clear();
        (1..3).for_each(|at| net.wires[at].mail.retain(|(to, _)| usize::from(to.0) != LOST));
        let is_done = !(1..3).any(|at| net.deliver_one(at));
        if is_done {
            (1..3).for_each(|at| net.commit(at));
        }
    }
}

/// Letters do not come to the node that is lost.
pub(crate) fn settle_but_lost(net: &mut Net) {
    (1..3).for_each(|at| net.commit(at));
    net.wires[LOST].mail.clear();
}

#[test]
fn a_message_that_the_lost_node_had_logged_comes_once_and_its_publisher_has_its_answer() {
    for base_between in [false, true] {
        let (mut net, publisher) = absent(Q2);
        let before = net.wires[LOST].log.len();
        for (id, payload) in [(1, "one"), (2, "two"), (3, "three")] {
            net.publish(publisher, "t", Q2, id, payload);
        }
        settle_but_lost(&mut net);
        // Two are in the log, and no receipt has left.
        assert!(net.deliver_between(2, LOST) && net.deliver_between(2, LOST));
        assert!(net.wires[LOST].log.len() > before);
        net.wires[LOST].mail.clear();
        if base_between {
            // As often as it begins again.
            let all = net.wires[LOST].log.len();
            begin_again(&mut net, all);
        }
        replace(&mut net);
        settle(&mut net);
        assert_eq!(net.read(publisher).len(), 3);
        let lines = ["PUBLISH t q2 #1 one", "PUBLISH t q2 #2 two", "PUBLISH t q2 #3 three"];
        assert_eq!(comes_back(&mut net), lines);
    }
}

#[test]
fn a_mark_is_in_every_base_and_outlives_the_loss_of_its_sender() {
    let (mut net, publisher) = absent(Q1);
    net.publish(publisher, "t", Q1, 1, "one");
    settle(&mut net);
    let mark = |net: &Net, log: usize| -> Vec<Mark> {
        rebuild(&net.wires[LOST].log[..log], &[log]).unwrap().marks().collect()
    };
    let all = net.wires[LOST].log.len();
    let marks = mark(&net, all);
    assert_eq!(marks.len(), 1, "{marks:?}");
    let Net { shards, wires, now, .. } = &mut net;
    shards[LOST].node_lost(2..3, *now, &mut wires[LOST]);
    shards[LOST].begin_base(*now, &mut wires[LOST]);
    settle(&mut net);
    let all = net.wires[LOST].log.len();
    assert_eq!(mark(&net, all), marks);
    // A shard of this node is told by name, and of no letters of others.
    assert!(!net.wires.iter().flat_map(|wires| &wires.mail).any(|(_, mail)| is_kept(mail)));
}

fn is_kept(mail: &Mail) -> bool {
    matches!(mail, Mail::Kept { .. })
}

#[test]
fn what_is_published_before_it_is_known_who_wants_it_comes() {
    let (mut net, publisher) = absent(Q1);
    let member = join_at(&mut net, LOST, "m", kept());
    net.subscribe(member, "$share/g/s", Q1);
    settle(&mut net);
    replace(&mut net);
    // Nothing has come from it.
    net.publish(publisher, "t", Q1, 1, "one");
    net.publish(publisher, "s", Q1, 2, "two");
    net.publish(publisher, "nobody", Q1, 3, "three");
    settle(&mut net);
    assert_eq!(net.read(publisher).len(), 3);
    assert_eq!(comes_back(&mut net), ["PUBLISH t q1 #1 one"]);
    let back = come_to(&mut net, 1, "m", kept());
    settle(&mut net);
    assert_eq!(net.read(back)[1..], ["PUBLISH s q1 #1 two"]);
    // It has said what it wants: nothing else goes there.
    let before = net.letters(2, LOST);
    net.publish(publisher, "nobody", Q1, 4, "four");
    assert_eq!(net.letters(2, LOST), before);
    assert_eq!(net.read(publisher), ["PUBACK #4 No matching subscribers"]);
}

#[test]
fn who_waits_for_a_lost_node_to_be_let_in_gets_what_waits_there() {
    let (mut net, publisher) = absent(Q1);
    net.publish(publisher, "t", Q1, 1, "one");
    settle(&mut net);
    let back = come_to(&mut net, 1, "c", kept());
    settle_but_lost(&mut net);
    while net.deliver_between(1, 2) || net.deliver_between(2, 1) {}
    replace(&mut net);
    assert!(net.read(back).is_empty(), "nobody has said anything");
    settle(&mut net);
    let lines = net.read(back);
    assert!(lines[0].starts_with("CONNACK Success present"), "{lines:?}");
    assert_eq!(lines[1..], ["PUBLISH t q1 #1 one"]);
}

#[test]
fn members_that_are_not_there_again_get_nothing() {
    let mut net = nodes();
    let gone = join_at(&mut net, LOST, "gone", Ask::default());
    let stays = join_at(&mut net, 1, "stays", kept());
    for member in [gone, stays] {
        net.subscribe(member, "$share/g/s", Q1);
    }
    net.subscribe(gone, "$share/g/alone", Q1);
    settle(&mut net);
    net.cut(stays);
    let publisher = join_at(&mut net, 2, "p", kept());
    replace(&mut net);
    (1..=4).for_each(|id| net.publish(publisher, "s", Q1, id, &id.to_string()));
    settle(&mut net);
    assert_eq!(net.read(publisher).len(), 4);
    let back = join_again(&mut net, "stays");
    assert_eq!(back.len(), 4, "{back:?}");
    net.publish(publisher, "alone", Q1, 5, "");
    assert_eq!(net.read(publisher), ["PUBACK #5 No matching subscribers"]);
}

/// What came behind the CONNACK on node 1.
fn join_again(net: &mut Net, client_id: &str) -> Vec<String> {
    let back = come_to(net, 1, client_id, kept());
    settle(net);
    net.read(back)[1..].to_vec()
}

/// Some letters arrive, and all that is recorded outlives a crash.
pub(crate) fn some_letters(net: &mut Net, letters: usize) {
    some_letters_first_from(net, letters, [0, 1, 2]);
}

pub(crate) fn some_letters_first_from(net: &mut Net, letters: usize, nodes: [usize; 3]) {
    for _ in 0..letters {
        let mut next = nodes.into_iter().flat_map(|from| (0..3).map(move |to| (from, to)));
        let _ = next.any(|(from, to)| net.deliver_between(from, to));
        (0..3).for_each(|shard| net.commit(shard));
        net.go_on_once();
    }
}

/// Node 1 takes all sessions of the lost node over.
fn replace_and_adopt(net: &mut Net) {
    net.shards[1].adopt_from(LOST as u16..LOST as u16 + 1);
    replace(net);
}

fn leave(net: &mut Net) {
    assert_eq!(net.shards[LOST].stats().sessions, 0);
    net.shards[1].adopt_no_more(&(LOST as u16..LOST as u16 + 1));
    net.lose_node(LOST as u16);
    settle(net);
}

#[test]
fn all_sessions_come_to_another_node_and_nothing_of_them_is_lost_or_doubled() {
    for letters in 0..40 {
        let (mut net, publisher) = absent(Q2);
        net.publish(publisher, "t", Q2, 1, "1");
        settle(&mut net);
        net.publish(publisher, "t", Q2, 2, "2");
        settle_but_lost(&mut net);
        replace_and_adopt(&mut net);
        some_letters(&mut net, letters);
        net.publish(publisher, "t", Q2, 3, "3");
        settle(&mut net);
        leave(&mut net);
        assert_eq!(net.shards[1].stats().sessions_taken, 1);
        net.publish(publisher, "t", Q2, 4, "4");
        settle(&mut net);
        assert_eq!(net.read(publisher).len(), 4, "after {letters} letters");
        let back = come_to(&mut net, 2, "c", kept());
        settle(&mut net);
        let lines = net.read(back);
        assert!(lines[0].starts_with("CONNACK Success present"), "{lines:?}");
        let payloads: Vec<&str> =
            lines[1..].iter().map(|line| line.rsplit(' ').next().unwrap()).collect();
        assert_eq!(payloads, ["1", "2", "3", "4"], "after {letters} letters");
    }
}

#[test]
fn a_stand_in_stays_until_all_know_that_its_members_of_groups_have_left() {
    let mut net = nodes();
    let old = join_at(&mut net, LOST, "c", kept());
    net.subscribe(old, "$share/g/t", Q1);
    settle(&mut net);
    net.cut(old);
    settle(&mut net);
    net.shards[1].adopt_from(LOST as u16..LOST as u16 + 1);
    let recorded = net.wires[LOST].log.len();
    begin_again(&mut net, recorded);
    net.shards[LOST].stand_in();
    meet(&mut net);
    settle(&mut net);
    let Net { shards, wires, now, .. } = &mut net;
    shards[LOST].offer_sessions(1..2, *now, &mut wires[LOST]);
    while net.shards[LOST].stats().sessions > 0 {
        some_letters(&mut net, 1);
    }
    // What is on its way to the member comes before the receipt.
    assert!(net.shards[LOST].kept_sessions() > 0);
    settle(&mut net);
    assert_eq!(net.shards[LOST].kept_sessions(), 0);
}

#[test]
fn of_a_session_that_two_stand_ins_have_the_later_stays() {
    let mut net = nodes();
    let old = join_at(&mut net, LOST, "c", kept());
    net.cut(old);
    settle(&mut net);
    let recorded = net.wires[LOST].log.len();
    let back = join_at(&mut net, 2, "c", kept());
    net.cut(back);
    settle(&mut net);
    // Its log does not say that the session has left.
    begin_again(&mut net, recorded);
    let Net { shards, wires, now, .. } = &mut net;
    for (at, other) in [(LOST, 2), (2, LOST)] {
        shards[at].stand_in();
        let other = other as u16..other as u16 + 1;
        shards[at].node_lost(other.clone(), *now, &mut wires[at]);
        shards[at].stand_in_joined(other, *now, &mut wires[at]);
    }
    assert_eq!([LOST, 2].map(|at| net.shards[at].stats().sessions), [1, 1]);
    settle(&mut net);
    assert_eq!([LOST, 2].map(|at| net.shards[at].stats().sessions), [0, 1]);
}

#[test]
fn a_client_that_comes_while_its_session_does_gets_it_wherever() {
    for (node, letters) in [1, 2].into_iter().flat_map(|node| (0..50).map(move |at| (node, at))) {
        let (mut net, publisher) = absent(Q1);
        net.publish(publisher, "t", Q1, 1, "1");
        settle(&mut net);
        replace_and_adopt(&mut net);
        some_letters(&mut net, letters);
        let back = come_to(&mut net, node, "c", kept());
        // Claims that follow are higher.
        net.now = net.now + Micros(1_000);
        settle(&mut net);
        let lines = net.read(back);
        let told = format!("node {node} after {letters} letters: {lines:?}");
        assert!(lines[0].starts_with("CONNACK Success present"), "{told}");
        assert_eq!(lines[1..], ["PUBLISH t q1 #1 1"], "{told}");
        leave(&mut net);
        assert!(!net.is_closed(back), "{told}");
        let sessions: u64 = net.shards[1..].iter().map(|shard| shard.stats().sessions).sum();
        assert_eq!(sessions, 2, "{told}");
        net.publish(publisher, "t", Q1, 2, "2");
        settle(&mut net);
        assert_eq!(net.read(back), ["PUBLISH t q1 #2 2"], "{told}");
    }
}

#[test]
fn the_time_of_a_session_goes_on_when_it_comes_to_another_node() {
    let mut net = nodes();
    let client = join_at(&mut net, LOST, "c", Ask { expiry_s: 100, ..kept() });
    net.cut(client);
    settle(&mut net);
    net.pass(60);
    replace_and_adopt(&mut net);
    settle(&mut net);
    leave(&mut net);
    net.pass(30);
    assert_eq!(net.shards[1].stats().sessions, 1);
    net.pass(20);
    assert_eq!(net.shards[1].stats().sessions, 0);
    assert_eq!(net.shards[1].stats().sessions_expired, 1);
}

/// A client with a will on the lost node, which is due after 5 s, and a subscriber to it. If
/// `is_watched`, the next node knows of it, as long as it is not away.
fn with_will(is_watched: bool) -> (Net, Peer) {
    let mut net = nodes();
    let subscriber = join_at(&mut net, 2, "s", kept());
    net.subscribe(subscriber, "will", Q1);
    settle(&mut net);
    net.read(subscriber);
    let mut properties = PropertiesBuf::new();
    properties.push(Property::WillDelayInterval(5));
    let (topic, payload, properties) = ("will", b"gone".as_slice(), properties.as_properties());
    let will = Will { topic, payload, qos: Q1, retain: false, properties };
    let client = come_to(&mut net, LOST, "c", Ask { will: Some(will), ..kept() });
    for _ in 0..100 {
        let is_told = |mail: &Mail| matches!(mail, Mail::Session(SessionMail::Will { .. }));
        net.wires[LOST].mail.retain(|(_, mail)| is_watched || !is_told(mail));
        some_letters(&mut net, 1);
    }
    assert!(net.read(client)[0].starts_with("CONNACK Success"));
    (net, subscriber)
}

/// How often the will has come.
fn wills(net: &mut Net, subscriber: Peer) -> usize {
    settle(net);
    net.read(subscriber).iter().filter(|line| line.starts_with("PUBLISH will")).count()
}

#[test]
fn a_will_is_sent_once_whoever_knows_of_it() {
    for is_watched in [false, true] {
        for letters in 0..40 {
            let (mut net, subscriber) = with_will(is_watched);
            replace_and_adopt(&mut net);
            some_letters(&mut net, letters);
            // Those of the node that may have watched it come last.
            while net.deliver_between(LOST, 2) || net.deliver_between(2, LOST) {}
            settle(&mut net);
            leave(&mut net);
            net.pass(3);
            assert_eq!(wills(&mut net, subscriber), 0, "{is_watched} {letters}");
            net.pass(3);
            assert_eq!(wills(&mut net, subscriber), 1, "{is_watched} {letters}");
            net.pass(100);
            assert_eq!(wills(&mut net, subscriber), 0, "{is_watched} {letters}");
        }
    }
}

#[test]
fn a_will_is_not_sent_if_its_client_comes_in_time_and_not_again_by_a_node_that_is_back() {
    for is_watched in [false, true] {
        for node in [1, 2] {
            let (mut net, subscriber) = with_will(is_watched);
            replace_and_adopt(&mut net);
            settle(&mut net);
            leave(&mut net);
            join_at(&mut net, node, "c", kept());
            net.pass(100);
            assert_eq!(wills(&mut net, subscriber), 0, "{is_watched}, to node {node}");
        }
        let (mut net, subscriber) = with_will(is_watched);
        replace(&mut net);
        settle(&mut net);
        net.pass(20);
        assert_eq!(wills(&mut net, subscriber), 1, "{is_watched}");
        replace(&mut net);
        settle(&mut net);
        net.lose_node(LOST as u16);
        net.pass(100);
        assert_eq!(wills(&mut net, subscriber), 0, "{is_watched}");
    }
}

#[test]
fn a_will_that_is_heard_of_after_its_client_has_come_is_not_sent() {
    let (mut net, subscriber) = with_will(false);
    // The next node is told of all wills again.
    net.lose_node(1);
    net.shards[LOST].node_joined(1..2, net.now, &mut net.wires[LOST]);
    net.shards[2].node_joined(1..2, net.now, &mut net.wires[2]);
    let (own, of_lost) = (net.now, LOST as u16..LOST as u16 + 1);
    net.shards[1].node_joined(of_lost, own, &mut net.wires[1]);
    come_to(&mut net, 1, "c", kept());
    net.wires[1].mail.retain(|(to, _)| usize::from(to.0) != LOST);
    while net.go_on_once() || net.deliver_between(LOST, 1) {}
    replace(&mut net);
    net.pass(20);
    assert_eq!(wills(&mut net, subscriber), 0);
}

#[test]
fn a_will_that_was_sent_is_not_sent_again_when_the_node_is_back_and_lost_again() {
    let (mut net, subscriber) = with_will(true);
    net.lose_node(LOST as u16);
    net.pass(6);
    assert_eq!(wills(&mut net, subscriber), 1);
    let all = net.wires[LOST].log.len();
    begin_again(&mut net, all);
    meet(&mut net);
    // It says what it has before it hears that this was sent.
    while net.go_on_once() {}
    settle(&mut net);
    net.lose_node(LOST as u16);
    net.pass(100);
    assert_eq!(wills(&mut net, subscriber), 0);
}

#[test]
fn a_node_that_is_back_after_its_sessions_were_taken_over_sends_no_will_of_theirs() {
    for is_watched in [false, true] {
        let (mut net, subscriber) = with_will(is_watched);
        let disk = net.wires[LOST].log.clone();
        replace_and_adopt(&mut net);
        settle(&mut net);
        leave(&mut net);
        let all = disk.len();
        net.wires[LOST].log = disk;
        begin_again(&mut net, all);
        meet(&mut net);
        // It knows whom wills are for.
        while net.deliver_between(2, LOST) {}
        settle(&mut net);
        assert_eq!(net.shards[LOST].stats().sessions_stale, 1);
        assert_eq!(wills(&mut net, subscriber), 0, "{is_watched}");
        net.pass(100);
        assert_eq!(wills(&mut net, subscriber), 1, "{is_watched}");
    }
}

#[test]
fn a_will_is_sent_once_though_its_session_ends_before_all_have_said_whose_that_is() {
    for is_watched in [false, true] {
        let (mut net, subscriber) = with_will(is_watched);
        let client = net.last_peer();
        let publisher = join_at(&mut net, 2, "p", kept());
        net.subscribe(client, "t", Q1);
        settle(&mut net);
        let recorded = net.wires[LOST].log.len();
        begin_again(&mut net, recorded);
        let queue_full_absent = WhenAbsent::EndSession;
        let limits = Limits { queue_messages_max: 2, queue_full_absent, ..Limits::default() };
        net.shards[LOST].set_limits(&limits);
        meet(&mut net);
        (1..=3).for_each(|id| net.publish(publisher, "t", Q1, id, ""));
        while net.deliver_between(2, LOST) {}
        assert_eq!(net.shards[LOST].stats().queue_overflows, 1);
        let at_once = wills(&mut net, subscriber);
        net.pass(10);
        assert_eq!(at_once + wills(&mut net, subscriber), 1, "{is_watched}");
    }
}

#[test]
fn a_session_with_a_will_goes_on_once_all_have_said_whose_that_is() {
    let (mut net, subscriber) = with_will(true);
    net.shards[2].adopt_from(LOST as u16..LOST as u16 + 1);
    replace(&mut net);
    // Node 1 has watched it, and nothing comes from there.
    for _ in 0..100 {
        let _ = net.deliver_between(LOST, 2) || net.deliver_between(2, LOST);
        [LOST, 2].into_iter().for_each(|shard| net.commit(shard));
    }
    assert_eq!(net.shards[LOST].stats().sessions, 1);
    settle(&mut net);
    assert_eq!(net.shards[LOST].stats().sessions, 0);
    net.lose_node(LOST as u16);
    net.pass(6);
    assert_eq!(wills(&mut net, subscriber), 1);
    net.pass(100);
    assert_eq!(wills(&mut net, subscriber), 0);
}

/// Sessions that are absent on the node that is lost.
fn many_absent(count: usize) -> Net {
    let mut net = nodes();
    for at in 0..count {
        let client = join_at(&mut net, LOST, &at.to_string(), kept());
        net.cut(client);
    }
    settle(&mut net);
    net
}

/// How many letters of a kind are on their way from a node.
fn on_their_way(net: &Net, from: usize, is_one: fn(&SessionMail) -> bool) -> usize {
    let mails = net.wires[from].mail.iter();
    mails.filter(|(_, mail)| matches!(mail, Mail::Session(mail) if is_one(mail))).count()
}

#[test]
fn clients_that_come_together_get_their_sessions_some_at_a_time_and_all_in_the_end() {
    const CLIENTS: usize = 300;
    let mut net = many_absent(CLIENTS);
    replace(&mut net);
    settle(&mut net);
    let come = |at: usize| (1 + at % 2, at.to_string());
    let peers: Vec<Peer> =
        (0..CLIENTS).map(come).map(|(node, id)| come_to(&mut net, node, &id, kept())).collect();
    for from in [1, 2] {
        while net.deliver_between(from, LOST) {}
    }
    let leaving = on_their_way(&net, LOST, |mail| matches!(mail, SessionMail::Leaving { .. }));
    assert!((1..CLIENTS).contains(&leaving), "{leaving} leave at once");
    (0..CLIENTS).for_each(|_| settle(&mut net));
    for peer in peers {
        let lines = net.read(peer);
        assert!(lines.concat().starts_with("CONNACK Success present"), "{lines:?}");
    }
    assert_eq!(net.shards[LOST].stats().sessions, 0);
}

#[test]
fn sessions_are_taken_over_some_at_a_time_and_those_whose_clients_come_before_the_others() {
    const CLIENTS: usize = 300;
    let mut net = many_absent(CLIENTS);
    replace_and_adopt(&mut net);
    while net.deliver_between(LOST, 1) {}
    let claims = on_their_way(&net, 1, |mail| matches!(mail, SessionMail::Claim { .. }));
    assert!((1..CLIENTS).contains(&claims), "{claims} are claimed at once");
    let last = (CLIENTS - 1).to_string();
    let back = come_to(&mut net, 2, &last, kept());
    for _ in 0..CLIENTS {
        settle(&mut net);
    }
    let lines = net.read(back);
    assert!(lines.concat().starts_with("CONNACK Success present"), "{lines:?}");
    leave(&mut net);
    assert_eq!(net.shards[1].stats().sessions_taken, CLIENTS as u64 - 1);
}

#[test]
fn clients_that_wait_for_a_lost_node_are_claimed_in_slices_and_none_is_let_in_before() {
    const CLIENTS: usize = 300;
    let mut net = many_absent(CLIENTS);
    let peers: Vec<Peer> =
        (0..CLIENTS).map(|at| come_to(&mut net, 1, &at.to_string(), kept())).collect();
    settle_but_lost(&mut net);
    while net.deliver_between(1, 2) || net.deliver_between(2, 1) {}
    replace(&mut net);
    let claims = on_their_way(&net, 1, |mail| matches!(mail, SessionMail::Claim { .. }));
    assert!((1..CLIENTS).contains(&claims), "{claims} are claimed at once");
    while net.deliver_between(1, LOST) || net.deliver_between(LOST, 1) {}
    (0..CLIENTS).for_each(|_| settle(&mut net));
    for peer in peers {
        let lines = net.read(peer);
        assert!(lines.concat().starts_with("CONNACK Success present"), "{lines:?}");
    }
}
