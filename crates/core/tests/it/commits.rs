//! What one shard promises in the name of others: each commits what it has recorded itself.

use crate::durable::DURABLE;
use crate::net::{Ask, Net, Peer, message};
use weir_core::{Limits, Lsn, Mail, Record};
use weir_wire::packet::Publish;
use weir_wire::{PacketId, PacketKind, QoS};

/// Two shards with logs, a publisher on the first and a session with a subscription at QoS 2 on the
/// second; all of it committed.
struct Pair {
    net: Net,
    names: Vec<Vec<String>>,
    publisher: Peer,
    subscriber: Peer,
}

impl Pair {
    fn new() -> Self {
        let mut net = Net::with_logs(2, &Limits::default());
        let names = net.names();
        let publisher = net.join(&names[0][0], Ask::default());
        let subscriber = net.join(&names[1][0], DURABLE);
        net.subscribe(subscriber, "t", QoS::ExactlyOnce);
        net.go_on();
        net.commit(1);
        assert_eq!(net.read(subscriber), ["SUBACK [2]"]);
        Self { net, names, publisher, subscriber }
    }
}

#[test]
fn an_acknowledgement_waits_for_the_log_of_the_shard_that_has_the_receiver() {
    let Pair { mut net, publisher, subscriber, .. } = Pair::new();
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    net.publish(publisher, "t", QoS::ExactlyOnce, 2, "b");
    net.go_on();
    assert!(net.wires[0].log.is_empty(), "the publisher's shard has nothing to record");
    let second = net.wires[1].log.len() - 1;
    assert!(net.read(publisher).is_empty());
    let first = net.wires[1].log[second - 2].0;
    net.commit_to(1, first);
    net.go_on();
    assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
    net.commit(1);
    net.go_on();
    assert_eq!(net.read(publisher), ["PUBREC #2 Success"]);
    assert_eq!(net.read(subscriber), ["PUBLISH t q1 #1 a", "PUBLISH t q2 #2 b"]);
    let awaited: Vec<u64> = net.shards.iter().map(|shard| shard.stats().awaited).collect();
    assert_eq!(awaited, [0, 0]);
}

#[test]
fn a_letter_that_waits_for_the_log_holds_up_no_other() {
    let Pair { mut net, names, publisher, .. } = Pair::new();
    let clean = net.join(&names[1][1], Ask::default());
    net.subscribe(clean, "u", QoS::AtLeastOnce);
    net.go_on();
    let other = net.join(&names[0][1], Ask::default());
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    net.publish(other, "u", QoS::AtLeastOnce, 1, "b");
    net.subscribe(other, "v", QoS::AtMostOnce);
    net.deliver_mail_in_one_turn(0, 1);
    net.go_on();
    assert_eq!(net.read(other), ["PUBACK #1 Success", "SUBACK [0]"]);
    assert!(net.read(publisher).is_empty());
    net.commit(1);
    net.go_on();
    assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
}

#[test]
fn a_commit_in_the_turn_of_the_letter_is_not_missed() {
    let Pair { mut net, publisher, .. } = Pair::new();
    net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
    let (to, letter) = net.wires[0].mail.pop_front().unwrap();
    assert_eq!(usize::from(to.0), 1);
    let (now, sink) = (net.now, &mut net.wires[1]);
    net.shards[1].mail(weir_core::ShardId(0), letter, now, sink);
    net.commit(1);
    net.go_on();
    assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
}

#[test]
fn a_publisher_that_comes_back_waits_for_the_same_commit() {
    let Pair { mut net, names, .. } = Pair::new();
    let publisher = net.join(&names[0][2], DURABLE);
    net.commit(0);
    net.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    net.go_on();
    net.cut(publisher);
    let back = net.join(&names[0][2], DURABLE);
    net.publish(back, "t", QoS::ExactlyOnce, 1, "a");
    net.go_on();
    net.commit(0);
    net.go_on();
    // The other shard has it, though its log does not.
    assert_eq!(net.read(back), ["PUBREC #1 Success"]);
    assert_eq!(count(&net, 1, MESSAGE), 1);
    net.ack(back, PacketKind::PubRel, 1);
    net.commit(0);
    assert_eq!(net.read(back), ["PUBCOMP #1 Success"]);
}

/// Three shards with logs: a publisher on the first, a member of a group on the second that leaves
/// while a message is on its way to it, and another on the third, which the second chooses.
struct Rechosen {
    net: Net,
    publisher: Peer,
    leaver: Peer,
    stayer: Peer,
}

impl Rechosen {
    fn new(limits: &Limits) -> Self {
        let mut net = Net::with_logs(3, limits);
        let names = net.names();
        let publisher = net.join(&names[0][0], Ask::default());
        let leaver = net.join(&names[1][0], Ask::default());
        net.subscribe(leaver, "$share/g/t", QoS::AtLeastOnce);
        net.go_on();
        net.publish(publisher, "t", QoS::AtLeastOnce, 1, "a");
        let stayer = net.join(&names[2][0], DURABLE);
        net.subscribe(stayer, "$share/g/t", QoS::AtLeastOnce);
        while net.deliver_between(2, 1) {}
        net.cut(leaver);
        net.commit(2);
        Self { net, publisher, leaver, stayer }
    }
}

#[test]
fn a_member_that_is_chosen_again_is_waited_for() {
    let Rechosen { mut net, publisher, leaver, stayer } = Rechosen::new(&Limits::default());
    while net.deliver_between(0, 1) {}
    while net.deliver_between(1, 0) {}
    assert_eq!(net.shards[1].stats().shared_rechosen, 1);
    // The letter to the third shard is on its way.
    assert!(net.read(publisher).is_empty());
    net.go_on();
    assert_eq!(net.read(leaver), ["SUBACK [1]"]);
    assert!(net.read(publisher).is_empty());
    net.commit(2);
    net.go_on();
    assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
    assert_eq!(net.read(stayer)[0], "PUBLISH t q1 #1 a");
    let awaited: Vec<u64> = net.shards.iter().map(|shard| shard.stats().awaited).collect();
    assert_eq!(awaited, [0, 0, 0]);
}

#[test]
fn what_the_member_that_is_chosen_again_has_no_room_for_is_refused() {
    let Rechosen { mut net, publisher, stayer, .. } = Rechosen::new(&Limits::default());
    net.set_stuck(stayer, usize::MAX);
    net.shards[2].set_pressed(true);
    net.go_on();
    assert_eq!(net.read(publisher), ["PUBACK #1 Quota exceeded: the memory ceiling is reached"]);
}

#[test]
fn shards_that_choose_again_among_each_other_do_not_wait_in_a_circle() {
    let mut net = Net::new(2);
    let names = net.names();
    let publishers = [0, 1].map(|at| net.join(&names[at][0], Ask::default()));
    let leavers = [0, 1].map(|at| net.join(&names[at][1], Ask::default()));
    let stayers = [0, 1].map(|at| net.join(&names[at][2], Ask::default()));
    for at in [0, 1] {
        net.subscribe(leavers[at], &format!("$share/g/{}", 1 - at), QoS::AtLeastOnce);
        net.subscribe(stayers[at], &format!("$share/g/{at}"), QoS::AtLeastOnce);
        net.set_stuck(stayers[at], usize::MAX);
    }
    net.go_on();
    for at in [0, 1] {
        // The member that is there cannot take it now, so the other is chosen.
        net.publish(publishers[at], &at.to_string(), QoS::AtLeastOnce, 1, "a");
        net.set_stuck(stayers[at], 0);
    }
    leavers.into_iter().for_each(|leaver| net.cut(leaver));
    net.go_on();
    for at in [0, 1] {
        assert_eq!(net.shards[at].stats().shared_rechosen, 1);
        assert_eq!(net.read(publishers[at]), ["PUBACK #1 Success"]);
        assert_eq!(net.read(stayers[at]), ["SUBACK [1]", &format!("PUBLISH {at} q1 #1 a")]);
    }
}

#[test]
fn an_acknowledgement_waits_for_the_log_of_the_shard_that_keeps_the_retained_message() {
    let Pair { mut net, names, publisher, .. } = Pair::new();
    // A name is of the same shard as a client identifier and as a topic.
    let topic = &*names[1][1];
    let retain = |payload| Publish { retain: true, ..message(topic, QoS::AtLeastOnce, 1, payload) };
    for payload in ["a", ""] {
        net.publish_packet(publisher, &retain(payload));
        net.go_on();
        assert!(net.read(publisher).is_empty());
        net.commit(1);
        net.go_on();
        assert_eq!(net.read(publisher), ["PUBACK #1 No matching subscribers"]);
    }
    // There is nothing to clear any more.
    net.publish_packet(publisher, &retain(""));
    net.go_on();
    assert_eq!(net.read(publisher), ["PUBACK #1 No matching subscribers"]);
}

/// Whether the shard has recorded that a message of QoS 2 was taken.
fn has_noted(net: &Net, shard: usize) -> bool {
    let (session, packet_id) = (Lsn::NONE, PacketId::FIRST);
    let kind = Record::Noted { session, packet_id }.kind();
    net.wires[shard].log.iter().any(|&(_, it, _)| it == kind)
}

const MESSAGE: u8 = 6;
const DELIVERED: u8 = 20;

fn count(net: &Net, shard: usize, kind: u8) -> usize {
    net.wires[shard].log.iter().filter(|&&(_, it, _)| it == kind).count()
}

#[test]
fn a_message_for_another_shard_leaves_once_it_is_committed_with_its_identifier() {
    let Pair { mut net, names, .. } = Pair::new();
    let publisher = net.join(&names[0][2], DURABLE);
    net.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    net.go_on();
    assert!(has_noted(&net, 0));
    assert_eq!(count(&net, 1, MESSAGE), 0);
    assert!(net.read(publisher).is_empty());
    net.commit(0);
    net.go_on();
    assert_eq!(count(&net, 1, MESSAGE), 1);
    assert_eq!(net.read(publisher), ["PUBREC #1 Success"]);
    assert_eq!(count(&net, 0, DELIVERED), 0);
    net.commit(1);
    net.go_on();
    assert_eq!(count(&net, 0, DELIVERED), 1);
    assert_eq!(net.shards[0].stats().awaited, 0);
}

#[test]
fn a_message_leaves_though_its_publisher_is_gone_by_then() {
    let Pair { mut net, names, .. } = Pair::new();
    let publisher = net.join(&names[0][2], DURABLE);
    net.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    net.cut(publisher);
    net.commit(0);
    net.go_on();
    assert_eq!(count(&net, 1, MESSAGE), 1);
    net.commit(1);
    net.go_on();
    assert_eq!((count(&net, 0, DELIVERED), net.shards[0].stats().awaited), (1, 0));
}

#[test]
fn nothing_of_a_publisher_overtakes_its_letters_that_wait() {
    let Pair { mut net, names, subscriber, .. } = Pair::new();
    let publisher = net.join(&names[0][2], DURABLE);
    net.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    net.publish(publisher, "t", QoS::AtMostOnce, 0, "b");
    net.publish(publisher, "t", QoS::AtLeastOnce, 2, "c");
    net.go_on();
    assert!(net.read(subscriber).is_empty());
    net.commit(0);
    net.go_on();
    net.commit(1);
    net.go_on();
    let lines = ["PUBLISH t q0 b", "PUBLISH t q2 #1 a", "PUBLISH t q1 #2 c"];
    assert_eq!(net.read(subscriber), lines, "QoS 2 waits for the log of its receiver too");
    assert_eq!(net.read(publisher), ["PUBREC #1 Success", "PUBACK #2 Success"]);
}

#[test]
fn an_identifier_is_noted_once_the_owner_of_the_topic_has_its_message() {
    let Pair { mut net, names, .. } = Pair::new();
    let publisher = net.join(&names[0][2], DURABLE);
    let retained = Publish { retain: true, ..message(&names[1][0], QoS::ExactlyOnce, 1, "a") };
    net.publish_packet(publisher, &retained);
    net.go_on();
    assert!(!has_noted(&net, 0));
    net.commit(1);
    net.go_on();
    assert!(has_noted(&net, 0));
    net.commit(0);
    assert_eq!(net.read(publisher), ["PUBREC #1 No matching subscribers"]);
}

/// The second shard is short of memory, and the first knows; with a publisher there.
fn refusing() -> (Pair, Peer) {
    let mut pair = Pair::new();
    let Pair { net, names, subscriber, .. } = &mut pair;
    let publisher = net.join(&names[0][2], DURABLE);
    net.cut(*subscriber);
    net.shards[1].set_pressed(true);
    // With the receipt of any message the others learn of it.
    net.publish(publisher, "t", QoS::AtLeastOnce, 2, "a");
    net.go_on();
    assert_eq!(net.read(publisher), ["PUBACK #2 Quota exceeded: the memory ceiling is reached"]);
    (pair, publisher)
}

#[test]
fn what_another_shard_refuses_is_not_noted() {
    let (Pair { mut net, .. }, publisher) = refusing();
    net.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    net.go_on();
    net.commit(1);
    net.go_on();
    assert_eq!(net.read(publisher), ["PUBREC #1 Quota exceeded: the memory ceiling is reached"]);
    assert!(!has_noted(&net, 0));
}

#[test]
fn what_another_shard_refuses_is_not_noted_by_a_base_either() {
    let (Pair { mut net, names, .. }, publisher) = refusing();
    net.commit(1);
    // Its refusal stands behind an answer whose letter takes long.
    let retained = Publish { retain: true, ..message(&names[1][0], QoS::AtLeastOnce, 3, "") };
    net.publish_packet(publisher, &retained);
    net.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    while net.deliver_between(0, 1) {}
    let answer = net.wires[1].mail.iter().position(|(_, it)| matches!(it, Mail::Retained { .. }));
    let answer = net.wires[1].mail.remove(answer.unwrap());
    net.go_on();
    assert_eq!(net.read(publisher), [""; 0]);
    net.shards[0].begin_base(net.now, &mut net.wires[0]);
    net.shards[0].end_base(net.now, &mut net.wires[0]);
    assert!(!has_noted(&net, 0));
    net.wires[1].mail.extend(answer);
    net.go_on();
    let refused = "PUBREC #1 Quota exceeded: the memory ceiling is reached";
    assert_eq!(net.read(publisher).last().unwrap(), refused);
}

#[test]
fn an_identifier_that_was_released_too_early_is_not_noted() {
    let Pair { mut net, names, .. } = Pair::new();
    let publisher = net.join(&names[0][2], DURABLE);
    let retained = Publish { retain: true, ..message(&names[1][0], QoS::ExactlyOnce, 1, "a") };
    net.publish_packet(publisher, &retained);
    net.ack(publisher, PacketKind::PubRel, 1);
    net.go_on();
    net.commit(1);
    net.go_on();
    assert!(!has_noted(&net, 0));
    net.commit(0);
    assert_eq!(net.read(publisher), ["PUBREC #1 No matching subscribers", "PUBCOMP #1 Success"]);
}

#[test]
fn who_clears_what_was_cleared_waits_for_the_record_of_that() {
    let mut net = Net::with_logs(1, &Limits::default());
    let first = net.join("first", Ask::default());
    let second = net.join("second", Ask::default());
    let retain = |payload| Publish { retain: true, ..message("t", QoS::AtLeastOnce, 1, payload) };
    net.publish_packet(first, &retain("a"));
    net.commit(0);
    assert_eq!(net.read(first), ["PUBACK #1 No matching subscribers"]);
    net.publish_packet(first, &retain(""));
    net.publish_packet(second, &retain(""));
    assert!(net.read(first).is_empty() && net.read(second).is_empty());
    net.commit(0);
    assert_eq!(net.read(second), ["PUBACK #1 No matching subscribers"]);
}
