//! Two shards in one thread: connections go to their owner, interest is replicated, mail carries
//! messages.

use crate::net::{Ask, Net};
use weir_wire::packet::Will;
use weir_wire::{Properties, QoS, ReasonCode, Version};

/// Client identifiers that shards 0 and 1 own.
fn names(net: &mut Net) -> [Vec<String>; 2] {
    let mut names = [Vec::new(), Vec::new()];
    for i in 0..64 {
        let name = format!("c{i}");
        let peer = net.join(&name, Ask::default());
        names[net.shard_of(peer)].push(name);
        net.disconnect(peer, ReasonCode::Success);
    }
    names
}

#[test]
fn a_connection_moves_to_the_shard_that_owns_its_client() {
    let mut net = Net::new(2);
    let names = names(&mut net);
    assert!(names.iter().all(|names| names.len() > 10), "{names:?}");
    let peer = net.join(&names[1][0], Ask::default());
    assert_eq!(net.shard_of(peer), 1);
    assert_eq!(net.shards[0].stats().connections, 0);
    assert_eq!(net.shards[1].stats().connections, 1);
}

#[test]
fn suback_waits_until_the_other_shard_has_noted_the_filter() {
    let mut net = Net::new(2);
    let names = names(&mut net);
    let sub = net.join(&names[0][0], Ask::default());
    net.subscribe(sub, "t/#", QoS::AtLeastOnce);
    assert_eq!(net.read(sub), [""; 0]);
    net.deliver_mail();
    assert_eq!(net.read(sub), ["SUBACK [1]"]);
    // The filter is known everywhere: the second subscriber need not wait.
    let second = net.join(&names[0][1], Ask::default());
    net.subscribe(second, "t/#", QoS::AtLeastOnce);
    assert_eq!(net.read(second), ["SUBACK [1]"]);
}

#[test]
fn a_message_crosses_to_the_other_shard_once_and_reaches_all_its_subscribers() {
    let mut net = Net::new(2);
    let names = names(&mut net);
    let here = net.join(&names[0][0], Ask::default());
    let there: Vec<_> = (0..3).map(|at| net.join(&names[1][at], Ask::default())).collect();
    let publ = net.join(&names[0][1], Ask::default());
    net.subscribe(here, "a/+", QoS::AtLeastOnce);
    there.iter().for_each(|&peer| net.subscribe(peer, "a/#", QoS::AtMostOnce));
    net.deliver_mail();
    there.iter().chain([&here]).for_each(|&peer| assert_eq!(net.read(peer).len(), 1));
    net.publish(publ, "a/b", QoS::AtLeastOnce, 1, "x");
    net.deliver_mail();
    assert_eq!(net.read(publ), ["PUBACK #1 Success"]);
    assert_eq!(net.read(here), ["PUBLISH a/b q1 #1 x"]);
    for &peer in &there {
        assert_eq!(net.read(peer), ["PUBLISH a/b q0 x"]);
    }
}

#[test]
fn an_unsubscribed_filter_brings_no_more_mail() {
    let mut net = Net::new(2);
    let names = names(&mut net);
    let there = net.join(&names[1][0], Ask::default());
    let publ = net.join(&names[0][0], Ask::default());
    net.subscribe(there, "t", QoS::AtMostOnce);
    net.deliver_mail();
    net.unsubscribe(there, "t");
    net.deliver_mail();
    assert_eq!(net.read(there), ["SUBACK [0]", "UNSUBACK [0]"]);
    net.publish(publ, "t", QoS::AtLeastOnce, 1, "x");
    assert_eq!(net.read(publ), ["PUBACK #1 No matching subscribers"]);
}

#[test]
fn an_assigned_client_identifier_leads_back_to_its_session() {
    let ask = Ask { clean: false, expiry_s: 100, ..Ask::default() };
    let mut net = Net::new(4);
    for _ in 0..8 {
        let peer = net.connect("", ask);
        let said = net.properties(peer);
        let assigned = said.iter().find_map(|property| {
            property.strip_prefix("AssignedClientIdentifier(\"")?.strip_suffix("\")")
        });
        let assigned = assigned.unwrap().to_owned();
        net.cut(peer);
        let peer = net.connect(&assigned, ask);
        assert_eq!(net.read(peer), ["CONNACK Success present"]);
    }
}

#[test]
fn a_note_of_an_interest_that_was_given_up_says_nothing_of_the_next_one() {
    let mut net = Net::new(2);
    let names = net.names();
    let (one, two) =
        (net.join(&names[0][0], Ask::default()), net.join(&names[0][1], Ask::default()));
    net.subscribe(one, "t", QoS::AtMostOnce);
    net.unsubscribe(one, "t");
    net.subscribe(one, "t", QoS::AtMostOnce);
    // The other shard has yet to hear that the first is over, and of the second.
    net.deliver_between(0, 1);
    net.deliver_between(1, 0);
    assert_eq!(net.read(one), ["SUBACK [0]", "UNSUBACK [0]"]);
    net.subscribe(two, "t", QoS::AtMostOnce);
    assert_eq!(net.read(two), [""; 0]);
    net.deliver_mail();
    assert_eq!(
        (net.read(one), net.read(two)),
        (vec!["SUBACK [0]".into()], vec!["SUBACK [0]".into()])
    );
}

#[test]
fn a_message_is_mailed_only_to_shards_that_want_it() {
    let mut net = Net::new(3);
    let names = net.names();
    let (here, there) =
        (net.join(&names[0][0], Ask::default()), net.join(&names[1][0], Ask::default()));
    net.subscribe(here, "t/+", QoS::AtMostOnce);
    net.subscribe(there, "t/#", QoS::AtMostOnce);
    net.deliver_mail();
    net.publish(here, "t/x", QoS::AtMostOnce, 0, "x");
    net.publish(here, "u", QoS::AtMostOnce, 0, "x");
    assert_eq!((net.letters(0, 1), net.letters(0, 2)), (1, 0));
}

#[test]
fn while_memory_is_short_a_message_from_another_shard_is_refused() {
    let mut net = Net::new(2);
    let names = names(&mut net);
    let keeps = || Ask { clean: false, expiry_s: 100, ..Ask::default() };
    let absent = net.join(&names[1][0], keeps());
    net.subscribe(absent, "t", QoS::AtLeastOnce);
    net.deliver_mail();
    net.disconnect(absent, ReasonCode::Success);
    let will = Will {
        topic: "t",
        payload: b"will",
        qos: QoS::AtLeastOnce,
        retain: false,
        properties: Properties::EMPTY,
    };
    let publ = net.join(&names[0][0], Ask { will: Some(will), ..Ask::default() });
    let older = net.join(&names[0][1], Ask { version: Version::V311, ..Ask::default() });
    net.deliver_mail();
    let publish = |net: &mut Net, publ, id, text| {
        net.publish(publ, "t", QoS::AtLeastOnce, id, text);
        net.deliver_mail();
        net.read(publ)
    };
    assert_eq!(publish(&mut net, publ, 1, "a"), ["PUBACK #1 Success"]);
    net.shards[1].set_pressed(true);
    let refused = "PUBACK #2 Quota exceeded: the memory ceiling is reached";
    assert_eq!(publish(&mut net, publ, 2, "b"), [refused]);
    assert_eq!(publish(&mut net, older, 3, "c"), ["closed"]);
    assert_eq!(net.shards[0].stats().publishes_refused, 2);
    // Nobody waits to be told of a will.
    net.cut(publ);
    net.deliver_mail();
    assert_eq!(net.shards[1].stats().dropped_queue_full, 1);
    net.shards[1].set_pressed(false);
    let publ = net.join(&names[0][0], Ask::default());
    assert_eq!(publish(&mut net, publ, 1, "d"), ["PUBACK #1 Success"]);
    let back = net.connect(&names[1][0], keeps());
    assert_eq!(net.read(back)[1..], ["PUBLISH t q1 #1 a", "PUBLISH t q1 #2 d"]);
}
