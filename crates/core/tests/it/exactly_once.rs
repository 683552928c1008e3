//! QoS 2 from node to node where logs are copied: once, whenever the publisher's node is lost.

use crate::net::{Net, Peer, message};
use crate::replaced::{
    LOST, Q2, begin_again, come_to, comes_back, join_at, kept, meet, nodes, replace, settle,
    some_letters, some_letters_first_from,
};
use weir_core::{Mail, Micros};
use weir_wire::packet::Publish;
use weir_wire::{PropertiesBuf, Property};

/// A session that waits on node 1, and a publisher on the node that is to be lost.
fn pair(filter: &str) -> (Net, Peer) {
    let mut net = nodes();
    let old = join_at(&mut net, 1, "c", kept());
    net.subscribe(old, filter, Q2);
    settle(&mut net);
    net.cut(old);
    let publisher = join_at(&mut net, LOST, "p", kept());
    settle(&mut net);
    (net, publisher)
}

/// The publisher comes to another node, and sends what has no PUBREC again.
fn publishes_again(net: &mut Net, told: &[String]) {
    let back = come_to(net, 2, "p", kept());
    settle(net);
    let lines = net.read(back);
    assert!(lines[0].starts_with("CONNACK Success present"), "{lines:?}");
    if told.is_empty() {
        let again = Publish { dup: true, ..message("t", Q2, 1, "one") };
        net.publish_packet(back, &again);
        settle(net);
        assert_eq!(net.read(back), ["PUBREC #1 Success"]);
    }
}

#[test]
fn a_message_comes_once_whenever_the_node_of_its_publisher_is_lost() {
    let mut told_at = Vec::new();
    for filter in ["t", "$share/g/t"] {
        for letters in 0..8 {
            let (mut net, publisher) = pair(filter);
            net.publish(publisher, "t", Q2, 1, "one");
            some_letters(&mut net, letters);
            let told = net.read(publisher);
            told_at.extend((!told.is_empty()).then_some(letters));
            replace(&mut net);
            settle(&mut net);
            publishes_again(&mut net, &told);
            assert_eq!(comes_back(&mut net), ["PUBLISH t q2 #1 one"], "{filter}, {letters}");
        }
    }
    assert!(told_at.first().is_some_and(|&letters| letters > 1), "{told_at:?}");
}

#[test]
fn a_message_comes_once_to_a_session_that_moves_while_the_node_of_its_publisher_is_lost() {
    let orders = [[0, 1, 2], [1, 0, 2], [2, 1, 0], [1, 2, 0]];
    let all = (0..16).flat_map(|before| (0..8).map(move |after| (before, after)));
    for (before, after, order) in all.flat_map(|(b, a)| orders.map(|order| (b, a, order))) {
        let (mut net, publisher) = pair("t");
        let back = come_to(&mut net, 2, "c", kept());
        some_letters_first_from(&mut net, before, order);
        net.publish(publisher, "t", Q2, 1, "one");
        some_letters_first_from(&mut net, after, order);
        net.cut(back);
        replace(&mut net);
        settle(&mut net);
        let lines = comes_back(&mut net);
        assert_eq!(lines, ["PUBLISH t q2 #1 one"], "{before} {after} {order:?}");
    }
}

#[test]
fn a_node_that_is_lost_again_and_again_mails_it_under_the_same_name() {
    let (mut net, publisher) = pair("t");
    net.publish(publisher, "t", Q2, 1, "one");
    net.commit(LOST);
    assert!(net.deliver_between(LOST, 1));
    // The receiver has it, and nobody has heard of that.
    for _ in 0..3 {
        let all = net.wires[LOST].log.len();
        begin_again(&mut net, all);
        net.wires[1].mail.clear();
        meet(&mut net);
        let mailed = |(_, mail): &(_, Mail)| matches!(mail, Mail::Publish { mailed: Some(_), .. });
        assert_eq!(net.wires[LOST].mail.iter().filter(|it| mailed(it)).count(), 1);
    }
    settle(&mut net);
    // It is done.
    let all = net.wires[LOST].log.len();
    begin_again(&mut net, all);
    meet(&mut net);
    let is_message = |(_, mail): &(_, Mail)| matches!(mail, Mail::Publish { .. });
    assert!(!net.wires[LOST].mail.iter().any(is_message));
    settle(&mut net);
    publishes_again(&mut net, &[]);
    assert_eq!(comes_back(&mut net), ["PUBLISH t q2 #1 one"]);
}

#[test]
fn sessions_stay_where_the_node_was_lost_until_what_it_had_begun_to_publish_is_there() {
    let (mut net, publisher) = pair("t");
    net.publish(publisher, "t", Q2, 1, "one");
    net.commit(LOST);
    net.wires[LOST].mail.clear();
    replace(&mut net);
    let back = come_to(&mut net, 2, "p", kept());
    // All letters come, and the receiver has not got it on its disk.
    for _ in 0..8 {
        net.go_on();
        [LOST, 2].into_iter().for_each(|at| net.commit(at));
    }
    assert!(net.read(back).is_empty(), "what comes after it may overtake it");
    settle(&mut net);
    assert!(net.read(back)[0].starts_with("CONNACK Success present"));
    assert_eq!(comes_back(&mut net), ["PUBLISH t q2 #1 one"]);
}

#[test]
fn a_session_that_goes_elsewhere_meanwhile_gets_it() {
    for letters in 0..30 {
        let (mut net, publisher) = pair("t");
        net.publish(publisher, "t", Q2, 1, "one");
        net.commit(LOST);
        net.wires[LOST].mail.clear();
        let new = come_to(&mut net, 2, "c", kept());
        for _ in 0..letters {
            let _ = net.deliver_between(1, 2) || net.deliver_between(2, 1);
            net.wires[LOST].mail.clear();
            (1..3).for_each(|at| net.wires[at].mail.retain(|(to, _)| usize::from(to.0) != LOST));
        }
        replace(&mut net);
        settle(&mut net);
        let lines = net.read(new);
        assert!(lines[0].starts_with("CONNACK Success present"), "{letters}: {lines:?}");
        assert_eq!(lines[1..], ["PUBLISH t q2 #1 one"], "{letters}");
    }
}

/// The publisher's node is cut off, and ends its connections. It may have sent its letters.
fn cut_off(net: &mut Net, publisher: Peer, has_sent: bool) {
    if has_sent {
        net.commit(LOST);
    }
    let Net { shards, wires, now, .. } = net;
    shards[LOST].set_joining(true, *now, &mut wires[LOST]);
    (1..3).for_each(|id| shards[LOST].node_lost(id..id + 1, *now, &mut wires[LOST]));
    net.wires[LOST].mail.clear();
    net.cut(publisher);
    net.commit(LOST);
}

/// It is a member again.
fn is_back(net: &mut Net) {
    meet(net);
    let Net { shards, wires, now, .. } = &mut *net;
    shards[LOST].set_joining(false, *now, &mut wires[LOST]);
    settle(net);
}

#[test]
fn a_node_that_was_cut_off_mails_what_it_had_noted_once_it_is_back() {
    for filter in ["t", "$share/g/t"] {
        for has_sent in [false, true] {
            let (mut net, publisher) = pair(filter);
            net.publish(publisher, "t", Q2, 1, "one");
            cut_off(&mut net, publisher, has_sent);
            is_back(&mut net);
            publishes_again(&mut net, &[]);
            assert_eq!(comes_back(&mut net), ["PUBLISH t q2 #1 one"], "{filter} {has_sent}");
        }
    }
}

#[test]
fn a_node_that_was_cut_off_mails_its_own_shards_all_the_same() {
    let mut net = Net::of_nodes_of(&[0..2, 2..3], true);
    for (shard, wires) in net.shards.iter_mut().zip(&mut net.wires) {
        shard.set_copied(true);
        shard.begin_base(net.now, wires);
        shard.end_base(net.now, wires);
    }
    settle(&mut net);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let all = names.map(|name| (name, join_at(&mut net, 0, name, kept())));
    let of = |net: &Net, shard| *all.iter().find(|it| net.shard_of(it.1) == shard).unwrap();
    let ((_, publisher), (near, subscriber)) = (of(&net, 0), of(&net, 1));
    let other = join_at(&mut net, 2, "other", kept());
    for peer in [subscriber, other] {
        net.subscribe(peer, "t", Q2);
        settle(&mut net);
        net.cut(peer);
    }
    net.publish(publisher, "t", Q2, 1, "one");
    let Net { shards, wires, now, .. } = &mut net;
    for at in 0..2 {
        shards[at].set_joining(true, *now, &mut wires[at]);
        shards[at].node_lost(2..3, *now, &mut wires[at]);
    }
    settle(&mut net);
    let Net { shards, wires, now, .. } = &mut net;
    shards[2].node_replaced(0..2, *now, &mut wires[2]);
    for at in 0..2 {
        shards[at].node_joined(2..3, *now, &mut wires[at]);
        shards[at].set_joining(false, *now, &mut wires[at]);
    }
    settle(&mut net);
    for (node, name) in [(0, near), (2, "other")] {
        let back = come_to(&mut net, node, name, kept());
        settle(&mut net);
        let lines = net.read(back);
        assert!(lines[0].starts_with("CONNACK Success present"), "{name}: {lines:?}");
        assert_eq!(lines[1..], ["PUBLISH t q2 #1 one"], "{name}");
    }
}

#[test]
fn a_node_whose_sessions_are_void_mails_nothing_of_theirs() {
    for has_sent in [false, true] {
        let (mut net, publisher) = pair("t");
        net.publish(publisher, "t", Q2, 1, "one");
        cut_off(&mut net, publisher, has_sent);
        net.shards[LOST].void_sessions(net.now, &mut net.wires[LOST]);
        net.commit(LOST);
        is_back(&mut net);
        assert_eq!(net.shards[LOST].kept_sessions(), 0);
        assert!(comes_back(&mut net).is_empty(), "{has_sent}");
    }
}

#[test]
fn what_is_mailed_is_taken_though_memory_is_short_where_it_comes() {
    let (mut net, publisher) = pair("t");
    net.publish(publisher, "t", Q2, 1, "one");
    net.commit(LOST);
    net.shards[1].set_pressed(true);
    settle(&mut net);
    assert_eq!(net.read(publisher), ["PUBREC #1 Success"]);
    net.shards[1].set_pressed(false);
    assert_eq!(comes_back(&mut net), ["PUBLISH t q2 #1 one"]);
}

#[test]
fn a_member_that_was_chosen_late_gets_it_once_though_others_are_still_to_have_it() {
    let (mut net, publisher) = pair("t");
    let member = join_at(&mut net, LOST, "m", kept());
    net.subscribe(member, "$share/g/t", Q2);
    settle(&mut net);
    net.cut(member);
    settle(&mut net);
    let set_joining = |net: &mut Net, is_joining| {
        let Net { shards, wires, now, .. } = net;
        shards[LOST].set_joining(is_joining, *now, &mut wires[LOST]);
    };
    // It is not certain that the member's session stays.
    set_joining(&mut net, true);
    net.publish(publisher, "t", Q2, 1, "one");
    net.commit(LOST);
    set_joining(&mut net, false);
    net.commit(LOST);
    // No letter has come to the other node.
    replace(&mut net);
    settle(&mut net);
    let back = come_to(&mut net, 2, "m", kept());
    settle(&mut net);
    assert_eq!(net.read(back)[1..], ["PUBLISH t q2 #1 one"]);
    assert_eq!(comes_back(&mut net), ["PUBLISH t q2 #1 one"]);
}

#[test]
fn a_member_that_is_chosen_in_the_place_of_one_that_was_lost_is_the_only_one_that_gets_it() {
    let (mut net, publisher) = pair("t");
    let absent = join_at(&mut net, LOST, "m", kept());
    net.subscribe(absent, "$share/g/t", Q2);
    settle(&mut net);
    net.cut(absent);
    let there = join_at(&mut net, 2, "there", kept());
    net.subscribe(there, "$share/g/t", Q2);
    settle(&mut net);
    net.read(there);
    net.publish(publisher, "t", Q2, 1, "one");
    net.commit(LOST);
    assert_eq!(net.letters(LOST, 2), 1);
    // No letter has come to anybody when one of the two is lost, and then the sender.
    let Net { shards, wires, now, .. } = &mut net;
    shards[LOST].node_lost(2..3, *now, &mut wires[LOST]);
    net.commit(LOST);
    replace(&mut net);
    settle(&mut net);
    let back = come_to(&mut net, 1, "m", kept());
    settle(&mut net);
    assert_eq!(net.read(back)[1..], ["PUBLISH t q2 #1 one"]);
    assert_eq!(net.read(there), [""; 0]);
    assert_eq!(comes_back(&mut net), ["PUBLISH t q2 #1 one"]);
}

#[test]
fn a_message_for_a_node_where_memory_is_short_is_for_nobody_and_comes_once_when_it_is_sent_again() {
    for filter in ["t", "$share/g/t"] {
        let (mut net, publisher) = pair(filter);
        let other = join_at(&mut net, 2, "other", kept());
        net.subscribe(other, "t", Q2);
        settle(&mut net);
        net.read(other);
        net.shards[1].set_pressed(true);
        // A node says so with its next receipt.
        let third = join_at(&mut net, LOST, "third", kept());
        net.subscribe(third, "u", Q2);
        settle(&mut net);
        net.publish(publisher, "t", Q2, 1, "one");
        // Nothing is acknowledged: its log is not committed, and it goes to another node.
        net.cut(publisher);
        settle(&mut net);
        assert!(net.read(other).is_empty(), "{filter}");
        net.shards[1].set_pressed(false);
        publishes_again(&mut net, &[]);
        assert_eq!(net.read(other), ["PUBLISH t q2 #1 one"], "{filter}");
        assert_eq!(comes_back(&mut net), ["PUBLISH t q2 #1 one"], "{filter}");
    }
}

#[test]
fn a_node_hears_that_there_is_room_again_though_it_has_nothing_to_send() {
    let (mut net, publisher) = pair("t");
    let other = join_at(&mut net, 2, "other", kept());
    net.subscribe(other, "t", Q2);
    net.shards[1].set_pressed(true);
    let third = join_at(&mut net, LOST, "third", kept());
    net.subscribe(third, "u", Q2);
    settle(&mut net);
    let refused = |net: &mut Net| {
        net.publish(publisher, "t", Q2, 1, "one");
        settle(net);
        net.read(publisher)[0].starts_with("PUBREC #1 Quota exceeded")
    };
    assert!(refused(&mut net));
    net.shards[1].set_pressed(false);
    assert!(refused(&mut net));
    assert!(!refused(&mut net));
    // What one shard takes alone is its own to take or to refuse.
    net.shards[1].set_pressed(true);
    net.cut(other);
    net.publish(publisher, "alone", Q2, 2, "");
    settle(&mut net);
    assert_eq!(net.read(publisher), ["PUBREC #2 No matching subscribers"]);
}

#[test]
fn a_message_that_has_expired_by_then_does_not_come() {
    let (mut net, publisher) = pair("t");
    let mut properties = PropertiesBuf::new();
    properties.push(Property::MessageExpiryInterval(1));
    let publish = Publish { properties: properties.as_properties(), ..message("t", Q2, 1, "one") };
    net.publish_packet(publisher, &publish);
    net.commit(LOST);
    net.wires[LOST].mail.clear();
    let all = net.wires[LOST].log.len();
    begin_again(&mut net, all);
    net.now = Micros(net.now.0 + 1_000_000);
    meet(&mut net);
    settle(&mut net);
    assert_eq!(net.shards[1].stats().dropped_expired, 1);
    assert!(comes_back(&mut net).is_empty());
}
