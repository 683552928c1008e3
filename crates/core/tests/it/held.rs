//! What is on its way, or is put off, when a node is lost whose log another has.

use crate::net::{Ask, Net, Peer};
use crate::replaced::{
    LOST, Q1, Q2, absent, absent_at, begin_again, come_to, comes_back, join_at, kept, meet, nodes,
    replace, settle, settle_but_lost, some_letters, some_letters_first_from,
};
use weir_core::{Mail, SessionMail};
use weir_wire::PropertiesBuf;
use weir_wire::packet::Will;

#[test]
fn a_message_that_was_refused_is_refused_again_and_not_taken_for_handled() {
    for base_between in [false, true] {
        let (mut net, publisher) = absent(Q1);
        net.shards[LOST].set_pressed(true);
        net.publish(publisher, "t", Q1, 1, "one");
        assert!(net.deliver_between(2, LOST));
        net.shards[LOST].set_pressed(false);
        net.publish(publisher, "t", Q1, 2, "two");
        settle_but_lost(&mut net);
        assert!(net.deliver_between(2, LOST));
        net.wires[LOST].mail.clear();
        if base_between {
            let all = net.wires[LOST].log.len();
            begin_again(&mut net, all);
        }
        replace(&mut net);
        settle(&mut net);
        let lines = net.read(publisher);
        assert!(lines[0].starts_with("PUBACK #1 Quota exceeded"), "{lines:?}");
        assert_eq!(lines[1..], ["PUBACK #2 Success"]);
        assert_eq!(comes_back(&mut net), ["PUBLISH t q1 #1 two"]);
    }
}

#[test]
fn what_came_for_a_session_on_its_way_to_the_lost_node_is_where_it_stays() {
    for letters in (0..30).flat_map(|before| (0..12).map(move |after| (before, after))) {
        let (mut net, publisher) = absent_at(1, Q2);
        net.publish(publisher, "t", Q2, 1, "1");
        settle(&mut net);
        let back = come_to(&mut net, LOST, "c", kept());
        some_letters(&mut net, letters.0);
        net.publish(publisher, "t", Q2, 2, "2");
        some_letters_first_from(&mut net, letters.1, [2, 0, 1]);
        let answers = net.read(publisher).len();
        net.cut(back);
        let committed = net.wires[LOST].log.len();
        begin_again(&mut net, committed);
        meet(&mut net);
        settle(&mut net);
        net.publish(publisher, "t", Q2, 3, "3");
        settle(&mut net);
        assert_eq!(answers + net.read(publisher).len(), 3, "{letters:?}");
        let again = come_to(&mut net, 2, "c", kept());
        settle(&mut net);
        let lines = net.read(again);
        assert!(lines[0].starts_with("CONNACK Success present"), "{letters:?}: {lines:?}");
        let payloads: Vec<&str> = lines[1..].iter().map(|line| &line[line.len() - 1..]).collect();
        assert_eq!(payloads, ["1", "2", "3"], "{letters:?}: {lines:?}");
    }
}

/// The lost node is there again with all that it has recorded.
fn replace_now(net: &mut Net) {
    let recorded = net.wires[LOST].log.len();
    begin_again(net, recorded);
    meet(net);
    settle(net);
}

#[test]
fn a_message_for_a_member_that_comes_is_acknowledged_once_it_outlives_the_loss_of_its_node() {
    for letters in (0..24).flat_map(|before| (0..12).map(move |after| (before, after))) {
        let (mut net, publisher) = (nodes(), LOST);
        let old = join_at(&mut net, 1, "c", kept());
        net.subscribe(old, "$share/g/s", Q1);
        let publisher = join_at(&mut net, publisher, "p", kept());
        settle(&mut net);
        net.cut(old);
        let back = come_to(&mut net, LOST, "c", kept());
        some_letters(&mut net, letters.0);
        net.publish(publisher, "s", Q1, 1, "1");
        some_letters_first_from(&mut net, letters.1, [2, 0, 1]);
        let is_acknowledged = !net.read(publisher).is_empty();
        net.cut(back);
        replace_now(&mut net);
        let again = come_to(&mut net, 2, "c", kept());
        settle(&mut net);
        let lines = net.read(again);
        assert!(lines[0].starts_with("CONNACK Success present"), "{letters:?}: {lines:?}");
        assert!(!is_acknowledged || lines.len() == 2, "{letters:?}: {lines:?}");
    }
}

/// A member of a group that is absent on node 1, and a publisher on node 2.
fn absent_member() -> (Net, Peer) {
    absent_member_at(1)
}

fn absent_member_at(node: usize) -> (Net, Peer) {
    let mut net = nodes();
    let old = join_at(&mut net, node, "c", kept());
    net.subscribe(old, "$share/g/s", Q1);
    let publisher = join_at(&mut net, 2, "p", kept());
    settle(&mut net);
    net.cut(old);
    (net, publisher)
}

fn has_got_it(net: &mut Net) {
    let again = come_to(net, 2, "c", kept());
    settle(net);
    let lines = net.read(again);
    assert!(lines[0].starts_with("CONNACK Success present"), "{lines:?}");
    assert!(lines.len() > 1, "{lines:?}");
}

#[test]
fn a_group_has_its_only_member_although_that_comes_from_a_node_that_is_lost() {
    for letters in 0..60 {
        let (mut net, publisher) = absent_member_at(LOST);
        let back = come_to(&mut net, 1, "c", kept());
        some_letters(&mut net, letters);
        net.cut(back);
        let recorded = net.wires[LOST].log.len();
        begin_again(&mut net, recorded);
        meet(&mut net);
        // The session does not come any more, and who is in its place has told nobody of it.
        while net.deliver_between(1, 2) {}
        net.publish(publisher, "s", Q1, 1, "1");
        settle(&mut net);
        assert_eq!(net.read(publisher), ["PUBACK #1 Success"], "{letters} letters");
        has_got_it(&mut net);
    }
}

#[test]
fn a_message_of_another_node_for_a_member_that_comes_is_not_lost_with_its_node() {
    for letters in (0..24).flat_map(|before| (0..12).map(move |after| (before, after))) {
        let (mut net, publisher) = absent_member();
        // Who gets all that is handled after it.
        let other = join_at(&mut net, LOST, "other", kept());
        net.subscribe(other, "t", Q1);
        settle(&mut net);
        let back = come_to(&mut net, LOST, "c", kept());
        some_letters(&mut net, letters.0);
        net.publish(publisher, "s", Q1, 1, "1");
        net.publish(publisher, "t", Q1, 2, "2");
        some_letters_first_from(&mut net, letters.1, [2, 0, 1]);
        net.cut(back);
        replace_now(&mut net);
        let lines = net.read(publisher);
        assert_eq!(lines.len(), 2, "{letters:?}: {lines:?}");
        has_got_it(&mut net);
    }
}

#[test]
fn what_a_member_got_that_had_come_is_not_lost_though_it_is_not_known_where_it_was_before() {
    let (mut net, publisher) = absent_member();
    let back = come_to(&mut net, LOST, "c", kept());
    for letters in 0..200 {
        some_letters(&mut net, 1);
        let is_taken = |mail: &Mail| matches!(mail, Mail::Session(SessionMail::Taken { .. }));
        net.wires[LOST].mail.retain(|(_, mail)| !is_taken(mail));
        if letters == 100 {
            net.publish(publisher, "s", Q1, 1, "1");
        }
    }
    assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
    net.cut(back);
    replace_now(&mut net);
    has_got_it(&mut net);
}

#[test]
fn nothing_is_chosen_for_a_session_of_which_who_is_in_the_place_of_a_lost_node_has_a_later_one() {
    let (mut net, _) = absent_member();
    let publisher = join_at(&mut net, 1, "q", kept());
    let back = come_to(&mut net, LOST, "c", kept());
    for _ in 0..200 {
        some_letters(&mut net, 1);
        let is_taken = |mail: &Mail| matches!(mail, Mail::Session(SessionMail::Taken { .. }));
        net.wires[LOST].mail.retain(|(_, mail)| !is_taken(mail));
    }
    net.cut(back);
    let all = net.wires[LOST].log.len();
    begin_again(&mut net, all);
    net.shards[LOST].stand_in();
    net.shards[2].adopt_from(LOST as u16..LOST as u16 + 1);
    meet(&mut net);
    // It has told all that it has, and does not know yet what others have.
    while net.deliver_between(LOST, 1) {}
    net.publish(publisher, "s", Q1, 1, "1");
    settle(&mut net);
    let Net { shards, wires, now, .. } = &mut net;
    shards[LOST].offer_sessions(2..3, *now, &mut wires[LOST]);
    settle(&mut net);
    assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
    has_got_it(&mut net);
}

#[test]
fn a_session_whose_client_has_published_to_its_own_group_comes_all_the_same() {
    for letters in 0..40 {
        let mut net = nodes();
        let old = join_at(&mut net, 1, "c", kept());
        net.subscribe(old, "$share/g/s", Q2);
        let gone = join_at(&mut net, 2, "m", Ask::default());
        net.subscribe(gone, "$share/g/s", Q2);
        settle(&mut net);
        (1..=6).for_each(|id| net.publish(old, "s", Q2, id, "1"));
        net.commit(1);
        net.cut(old);
        let back = come_to(&mut net, LOST, "c", kept());
        some_letters(&mut net, letters);
        // What went there is for another member, which may be the session where it goes.
        net.cut(gone);
        settle(&mut net);
        let lines = net.read(back);
        assert!(lines[0].starts_with("CONNACK Success present"), "{letters}: {lines:?}");
    }
}

#[test]
fn a_session_that_was_whole_where_its_node_was_lost_is_not_the_older_one_again() {
    for letters in 0..40 {
        let (mut net, publisher) = absent_at(1, Q1);
        net.publish(publisher, "t", Q1, 1, "1");
        settle(&mut net);
        let back = come_to(&mut net, LOST, "c", kept());
        some_letters(&mut net, letters);
        net.cut(back);
        replace_now(&mut net);
        let sessions: u64 = net.shards.iter().map(|shard| shard.stats().sessions).sum();
        // Of the publisher and of this one.
        assert_eq!(sessions, 2, "{letters} letters");
        let lines = comes_back(&mut net);
        assert!(lines.len() == 1 && lines[0].ends_with(" 1"), "{letters} letters: {lines:?}");
    }
}

#[test]
fn no_session_leaves_a_node_that_does_not_know_yet_what_all_others_have() {
    let (mut net, publisher) = absent_at(LOST, Q1);
    net.publish(publisher, "t", Q1, 1, "1");
    settle_but_lost(&mut net);
    // It was fenced for a moment, and the node of the publisher has not heard of that.
    for other in 1..3 {
        let Net { shards, wires, now, .. } = &mut net;
        shards[LOST].set_joining(true, *now, &mut wires[LOST]);
        shards[LOST].node_lost(other..other + 1, *now, &mut wires[LOST]);
    }
    let Net { shards, wires, now, .. } = &mut net;
    shards[1].node_replaced(0..1, *now, &mut wires[1]);
    net.meet(LOST, 1);
    let back = come_to(&mut net, 1, "c", kept());
    settle(&mut net);
    assert!(net.read(back).is_empty(), "the session has not left");
    let Net { shards, wires, now, .. } = &mut net;
    shards[2].node_replaced(0..1, *now, &mut wires[2]);
    net.meet(LOST, 2);
    settle(&mut net);
    let Net { shards, wires, now, .. } = &mut net;
    shards[LOST].set_joining(false, *now, &mut wires[LOST]);
    settle(&mut net);
    assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
    let lines = net.read(back);
    assert!(lines[0].starts_with("CONNACK Success present"), "{lines:?}");
    assert_eq!(lines[1..], ["PUBLISH t q1 #1 1"]);
}

#[test]
fn a_will_that_is_on_its_way_to_a_lost_node_comes_once_where_its_sessions_are() {
    for letters in 0..4 {
        let (mut net, _) = absent(Q1);
        let properties = PropertiesBuf::new();
        let (payload, properties) = (b"gone".as_slice(), properties.as_properties());
        let will = Will { topic: "t", payload, qos: Q1, retain: false, properties };
        let client = join_at(&mut net, 2, "w", Ask { will: Some(will), ..Ask::default() });
        settle(&mut net);
        net.cut(client);
        net.commit(2);
        for _ in 0..letters {
            net.deliver_between(2, LOST);
        }
        settle_but_lost(&mut net);
        replace(&mut net);
        settle(&mut net);
        assert_eq!(comes_back(&mut net), ["PUBLISH t q1 #1 gone"], "{letters}");
    }
}

#[test]
fn a_message_for_a_session_that_comes_is_not_taken_for_a_new_one_when_it_goes_again() {
    for letters in (0..30).flat_map(|before| (0..12).map(move |after| (before, after))) {
        let (mut net, publisher) = absent_at(1, Q1);
        let back = come_to(&mut net, LOST, "c", kept());
        some_letters(&mut net, letters.0);
        net.publish(publisher, "t", Q1, 1, "1");
        for _ in 0..letters.1 {
            some_letters_first_from(&mut net, 1, [2, 0, 1]);
            // Its sender does not hear that it has come.
            let is_told = |mail: &Mail| matches!(mail, Mail::Receipt { .. });
            net.wires[LOST].mail.retain(|(to, mail)| to.0 != 2 || !is_told(mail));
        }
        net.cut(back);
        let committed = net.wires[LOST].log.len();
        begin_again(&mut net, committed);
        meet(&mut net);
        settle(&mut net);
        let again = come_to(&mut net, 2, "c", kept());
        settle(&mut net);
        let lines = net.read(again);
        assert!(lines[0].starts_with("CONNACK Success present"), "{letters:?}: {lines:?}");
        assert_eq!(lines.len(), 2, "{letters:?}: {lines:?}");
    }
}

#[test]
fn a_session_takes_along_only_what_its_node_has_handled_for_good() {
    for letters in 0..120 {
        let mut net = nodes();
        let [gone, stays] = [(LOST, "c"), (1, "d")].map(|(node, name)| {
            let member = join_at(&mut net, node, name, kept());
            net.subscribe(member, "$share/g/s", Q2);
            member
        });
        let publisher = join_at(&mut net, 2, "p", kept());
        settle(&mut net);
        net.read(stays);
        net.read(gone);
        let committed = net.wires[LOST].log.len();
        (1..=4).for_each(|id| net.publish(publisher, "s", Q2, id, &id.to_string()));
        net.commit(2);
        while net.deliver_between(2, LOST) {}
        // Its disk is slow, and nobody hears what it has.
        let back = come_to(&mut net, 2, "c", kept());
        for _ in 0..letters {
            let all = [(2, 1), (1, 2), (2, LOST), (LOST, 2), (LOST, 1), (1, LOST)];
            let _ = all.into_iter().any(|(from, to)| net.deliver_between(from, to));
            [1, 2].into_iter().for_each(|node| net.commit(node));
            net.go_on_once();
        }
        net.cut(back);
        begin_again(&mut net, committed);
        meet(&mut net);
        settle(&mut net);
        let again = come_to(&mut net, 2, "c", kept());
        settle(&mut net);
        let mut all = net.read(again);
        all.extend(net.read(gone));
        all.extend(net.read(stays));
        for payload in 1..=4 {
            let end = format!(" {payload}");
            let came = all.iter().filter(|it| it.starts_with("PUBLISH") && it.ends_with(&end));
            assert_eq!(came.count(), 1, "{payload} after {letters} letters: {all:?}");
        }
    }
}
