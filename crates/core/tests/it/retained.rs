//! Retained messages over several shards: kept by their owner, sent once, never late.

use crate::net::{Ask, Net, Peer, message};
use proptest::prelude::*;
use weir_core::{Limits, Mail};
use weir_wire::packet::{Publish, RetainHandling, SubscriptionOptions, Will};
use weir_wire::{PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

fn retained<'a>(topic: &'a str, qos: QoS, id: u16, payload: &'a str) -> Publish<'a> {
    Publish { retain: true, ..message(topic, qos, id, payload) }
}

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 1000, ..Ask::default() }
}

fn retained_on(net: &Net, shard: usize) -> u64 {
    net.shards[shard].stats().retained
}

/// Topics below `r/` that each shard owns, three of each.
fn topics(shards: u16) -> Vec<Vec<String>> {
    let mut net = Net::new(shards);
    let publ = net.join("scout", Ask::default());
    let mut topics = vec![Vec::new(); usize::from(shards)];
    for number in 0.. {
        let topic = format!("r/{number}");
        let before: Vec<u64> = (0..topics.len()).map(|shard| retained_on(&net, shard)).collect();
        net.publish_packet(publ, &retained(&topic, Q0, 0, "x"));
        net.deliver_mail();
        let owner = (0..topics.len()).find(|&at| retained_on(&net, at) > before[at]).unwrap();
        topics[owner].push(topic);
        if topics.iter().all(|topics| topics.len() >= 3) {
            break;
        }
    }
    topics
}

/// Three shards with a publisher on 0 and a subscriber on 1; topics of 2 belong to neither.
fn triangle() -> (Net, Peer, Peer, String) {
    let mut net = Net::new(3);
    let names = net.names();
    let publ = net.join(&names[0][0], Ask::default());
    let sub = net.join(&names[1][0], Ask::default());
    (net, publ, sub, topics(3)[2][0].clone())
}

fn publishes(net: &mut Net, peer: Peer) -> Vec<String> {
    net.read(peer).into_iter().filter(|line| line.starts_with("PUBLISH")).collect()
}

#[test]
fn every_shard_serves_what_any_shard_published() {
    for shards in [1, 2, 4] {
        let mut net = Net::new(shards);
        let names = net.names();
        for (at, names) in names.iter().enumerate() {
            let publ = net.join(&names[0], Ask::default());
            for number in 0..8 {
                net.publish_packet(publ, &retained(&format!("r/{at}/{number}"), Q1, 1, "x"));
            }
            net.deliver_mail();
            assert_eq!(net.read(publ).len(), 8);
        }
        let kept: Vec<u64> = (0..shards).map(|at| retained_on(&net, usize::from(at))).collect();
        assert_eq!(kept.iter().sum::<u64>(), 8 * u64::from(shards));
        assert!(kept.iter().all(|&count| count > 0), "spread: {kept:?}");
        for names in &names {
            let sub = net.join(&names[1], Ask::default());
            net.subscribe(sub, "r/#", Q1);
            net.deliver_mail();
            let lines = net.read(sub);
            assert_eq!(lines[0], "SUBACK [1]");
            let mut topics: Vec<&str> =
                lines[1..].iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
            topics.sort_unstable();
            topics.dedup();
            assert_eq!(topics.len(), 8 * usize::from(shards), "{lines:?}");
            assert_eq!(lines.len() - 1, topics.len());
            net.subscribe(sub, "r/0/3", Q1);
            net.deliver_mail();
            assert!(net.read(sub)[1].starts_with("PUBLISH r/0/3 q1"));
        }
        assert!(net.shards.iter().all(|shard| shard.stats().awaited == 0));
    }
}

#[test]
fn an_acknowledgement_waits_for_the_owner_and_later_ones_behind_it() {
    for (qos, ack) in [(Q1, "PUBACK"), (Q2, "PUBREC")] {
        let (mut net, publ, sub, topic) = triangle();
        net.subscribe(sub, "#", Q0);
        net.deliver_mail();
        net.read(sub);
        net.publish_packet(publ, &retained(&topic, qos, 1, "a"));
        net.publish(publ, "plain", qos, 2, "b");
        net.publish_packet(publ, &retained(&topic, qos, 3, "c"));
        net.publish(publ, "plain", qos, 4, "d");
        assert_eq!(net.read(publ), [""; 0]);
        // Receivers do not wait.
        while net.deliver_between(0, 1) {}
        assert_eq!(publishes(&mut net, sub).len(), 4);
        while net.deliver_between(1, 0) {}
        assert_eq!(net.read(publ), [""; 0]);
        net.deliver_between(0, 2);
        net.deliver_between(2, 0);
        assert_eq!(net.read(publ), [format!("{ack} #1 Success"), format!("{ack} #2 Success")]);
        net.deliver_mail();
        assert_eq!(net.read(publ), [format!("{ack} #3 Success"), format!("{ack} #4 Success")]);
    }
}

#[test]
fn an_answer_for_a_connection_that_is_gone_is_nobodys() {
    let (mut net, publ, _, topic) = triangle();
    net.publish_packet(publ, &retained(&topic, Q1, 1, "a"));
    net.cut(publ);
    net.deliver_mail();
    assert_eq!(net.read(publ), [""; 0]);
    assert_eq!((retained_on(&net, 2), net.shards[0].stats().awaited), (1, 0));
}

#[test]
fn an_answer_is_not_for_a_connection_that_has_an_older_ones_key() {
    let limits = Limits { retained_messages_max: 0, ..Limits::default() };
    let mut net = Net::with_limits(3, &limits);
    let names = net.names();
    let ask = Ask { version: Version::V311, ..Ask::default() };
    let old = net.join(&names[0][0], ask);
    // The answer will be a refusal, which ends a connection before 5.0.
    net.publish_packet(old, &retained(&topics(3)[2][0], Q1, 1, "a"));
    net.subscribe(old, "t", Q0);
    net.cut(old);
    net.free_keys.push(net.key_of(old));
    let new = net.join(&names[0][1], ask);
    assert_eq!(net.key_of(new), net.key_of(old));
    net.deliver_mail();
    assert_eq!(net.read(new), [""; 0]);
}

#[test]
fn more_unanswered_publishes_than_the_receive_maximum_end_the_connection() {
    let limits = Limits { receive_maximum: 2, ..Limits::default() };
    let mut net = Net::with_limits(3, &limits);
    let publ = net.join(&net.names()[0][0], Ask::default());
    let topic = &topics(3)[2][0];
    (1..=3).for_each(|id| net.publish_packet(publ, &retained(topic, Q1, id, "x")));
    assert_eq!(net.read(publ), ["DISCONNECT Receive Maximum exceeded", "closed"]);
}

#[test]
fn a_store_that_is_full_refuses_by_its_owners_word() {
    let limits = Limits { retained_messages_max: 1, ..Limits::default() };
    let mut net = Net::with_limits(3, &limits);
    let publ = net.join(&net.names()[0][0], Ask::default());
    let topics = topics(3);
    let refused = |id| format!("PUBACK #{id} Quota exceeded: the retained store is full");
    // The owner is this shard, or another.
    for owned in [&topics[0], &topics[2]] {
        for (topic, payload, is_taken) in [
            (&owned[0], "a", true),
            (&owned[1], "b", false),
            (&owned[0], "replaced", true),
            (&owned[0], "", true),
            (&owned[1], "c", true),
        ] {
            net.publish_packet(publ, &retained(topic, Q1, 1, payload));
            net.deliver_mail();
            let none = "PUBACK #1 No matching subscribers".to_owned();
            assert_eq!(net.read(publ), [if is_taken { none } else { refused(1) }], "{payload}");
        }
    }
    assert_eq!(net.shards[2].stats().retained_refused, 1);
    assert_eq!(net.shards[0].stats().publishes_refused, 2);
    // QoS 2: the exchange is over, and its identifier is free.
    net.publish_packet(publ, &retained(&topics[2][0], Q2, 7, "d"));
    net.deliver_mail();
    assert_eq!(net.read(publ), ["PUBREC #7 Quota exceeded: the retained store is full"]);
    net.publish(publ, "t", Q2, 7, "e");
    assert_eq!(net.read(publ), ["PUBREC #7 No matching subscribers"]);
    // Before 5.0 there is no packet to say it with.
    let ask = Ask { version: Version::V311, ..Ask::default() };
    let older = net.join(&net.names()[0][1], ask);
    net.publish_packet(older, &retained(&topics[2][0], Q1, 1, "f"));
    net.deliver_mail();
    assert_eq!(net.read(older), ["closed"]);
}

#[test]
fn a_retained_message_expires_at_its_owner_and_is_counted_down() {
    let (mut net, publ, sub, topic) = triangle();
    let mut properties = PropertiesBuf::new();
    properties.push(Property::MessageExpiryInterval(30));
    let properties = properties.as_properties();
    net.publish_packet(publ, &Publish { properties, ..retained(&topic, Q0, 0, "x") });
    net.deliver_mail();
    net.pass(10);
    net.subscribe(sub, "r/#", Q0);
    net.deliver_mail();
    let expected = format!("PUBLISH {topic} q0 retain MessageExpiryInterval(20) x");
    assert_eq!(publishes(&mut net, sub), [expected]);
    net.pass(21);
    net.subscribe(sub, "r/#", Q0);
    net.deliver_mail();
    assert_eq!(publishes(&mut net, sub), [""; 0]);
    assert_eq!(retained_on(&net, 2), 0, "what expired leaves when it is come by");
}

#[test]
fn retain_handling_and_shared_subscriptions_are_kept_to() {
    let (mut net, publ, sub, topic) = triangle();
    net.publish_packet(publ, &retained(&topic, Q0, 0, "x"));
    net.deliver_mail();
    let options =
        |retain_handling| SubscriptionOptions { retain_handling, ..SubscriptionOptions::default() };
    for (handling, count) in [
        (RetainHandling::DontSend, 0),
        (RetainHandling::SendIfNew, 0),
        (RetainHandling::Send, 1),
        (RetainHandling::Send, 1),
    ] {
        net.subscribe_with(sub, &topic, options(handling), None);
        net.deliver_mail();
        assert_eq!(publishes(&mut net, sub).len(), count, "{handling:?}");
    }
    net.unsubscribe(sub, &topic);
    net.subscribe_with(sub, &topic, options(RetainHandling::SendIfNew), Some(7));
    net.deliver_mail();
    let expected = format!("PUBLISH {topic} q0 retain SubscriptionIdentifier(7) x");
    assert_eq!(publishes(&mut net, sub), [expected]);
    net.subscribe(sub, &format!("$share/g/{topic}"), Q0);
    net.deliver_mail();
    assert_eq!(net.read(sub), ["SUBACK [0]"]);
}

#[test]
fn a_will_is_retained_and_an_empty_one_clears() {
    let (mut net, _, sub, topic) = triangle();
    let names = net.names();
    for (payload, count) in [("gone", 1), ("", 0)] {
        let will = Will {
            topic: &topic,
            payload: payload.as_bytes(),
            qos: Q1,
            retain: true,
            properties: Properties::EMPTY,
        };
        let dying = net.join(&names[0][1], Ask { will: Some(will), ..Ask::default() });
        net.cut(dying);
        net.deliver_mail();
        assert_eq!(retained_on(&net, 2), count);
        net.subscribe(sub, "r/+", Q0);
        net.deliver_mail();
        assert_eq!(publishes(&mut net, sub).len() as u64, count);
        net.unsubscribe(sub, "r/+");
        net.deliver_mail();
    }
}

#[test]
fn what_was_published_too_early_to_come_live_is_not_missed() {
    let (mut net, publ, sub, topic) = triangle();
    // The letter to the owner stays on its way until all else is done.
    net.publish_packet(publ, &retained(&topic, Q0, 0, "x"));
    net.subscribe(sub, &topic, Q0);
    for _ in 0..4 {
        for (from, to) in [(1, 0), (1, 2), (0, 1), (2, 1)] {
            while net.deliver_between(from, to) {}
        }
    }
    assert_eq!(net.read(sub), ["SUBACK [0]"]);
    net.deliver_mail();
    assert_eq!(net.read(sub), [format!("PUBLISH {topic} q0 retain x")]);
}

#[test]
fn what_another_subscriber_of_the_shard_has_had_live_is_not_missed() {
    let (mut net, publ, sub, topic) = triangle();
    net.subscribe(sub, "r/#", Q0);
    net.deliver_mail();
    net.publish_packet(publ, &retained(&topic, Q0, 0, "x"));
    while net.deliver_between(0, 1) {}
    assert_eq!(publishes(&mut net, sub).len(), 1);
    let names = net.names();
    let late = net.join(&names[1][1], Ask::default());
    net.subscribe(late, "r/#", Q0);
    while net.deliver_between(1, 2) {}
    while net.deliver_between(2, 1) {}
    assert_eq!(net.read(late), ["SUBACK [0]"], "the owner waits for what it is to have");
    net.deliver_mail();
    assert_eq!(net.read(late), [format!("PUBLISH {topic} q0 retain x")]);
}

#[test]
fn what_comes_live_after_the_suback_is_not_sent_again() {
    let (mut net, publ, sub, topic) = triangle();
    net.subscribe(sub, &topic, Q0);
    for (from, to) in [(1, 0), (1, 2), (0, 1), (2, 1)] {
        while net.deliver_between(from, to) {}
    }
    assert_eq!(net.read(sub), ["SUBACK [0]"]);
    // It reaches the owner before the query, and the subscriber after the page.
    net.publish_packet(publ, &retained(&topic, Q0, 0, "x"));
    while net.deliver_between(0, 2) {}
    while net.deliver_between(1, 2) {}
    while net.deliver_between(2, 1) {}
    assert_eq!(net.read(sub), [""; 0]);
    net.deliver_mail();
    assert_eq!(net.read(sub), [format!("PUBLISH {topic} q0 x")]);
}

#[test]
fn what_comes_live_before_the_suback_is_not_sent_again() {
    let (mut net, publ, sub, topic) = triangle();
    let names = net.names();
    let other = net.join(&names[1][1], Ask::default());
    net.subscribe(other, "#", Q0);
    net.deliver_mail();
    net.subscribe(sub, &topic, Q0);
    net.publish_packet(publ, &retained(&topic, Q0, 0, "x"));
    while net.deliver_between(0, 1) {}
    assert_eq!(net.read(sub), [format!("PUBLISH {topic} q0 x")]);
    net.deliver_mail();
    assert_eq!(net.read(sub), ["SUBACK [0]"]);
}

#[test]
fn an_old_message_does_not_come_after_a_newer_one() {
    let (mut net, publ, sub, topic) = triangle();
    net.publish_packet(publ, &retained(&topic, Q0, 0, "old"));
    net.deliver_mail();
    net.subscribe(sub, &topic, Q0);
    for (from, to) in [(1, 0), (1, 2), (0, 1), (2, 1), (1, 2)] {
        while net.deliver_between(from, to) {}
    }
    assert_eq!(net.read(sub), ["SUBACK [0]"]);
    // The page with the old one is on its way.
    net.publish_packet(publ, &retained(&topic, Q0, 0, "new"));
    while net.deliver_between(0, 1) {}
    assert_eq!(net.read(sub), [format!("PUBLISH {topic} q0 new")]);
    net.deliver_mail();
    assert_eq!(net.read(sub), [""; 0]);
}

#[test]
fn the_owners_last_message_comes_though_another_came_live_meanwhile() {
    let mut net = Net::new(4);
    let names = net.names();
    let topic = topics(4)[2][0].clone();
    let join = |net: &mut Net, shard: usize| net.join(&names[shard][0], Ask::default());
    let (early, sub, late) = (join(&mut net, 0), join(&mut net, 1), join(&mut net, 3));
    // Its letter to the owner takes longer than all others.
    net.publish_packet(early, &retained(&topic, Q0, 0, "early"));
    net.subscribe(sub, &topic, Q0);
    for other in [0, 2, 3] {
        while net.deliver_between(1, other) {}
        if other != 0 {
            while net.deliver_between(other, 1) {}
        }
    }
    while net.deliver_between(0, 1) {}
    assert_eq!(net.read(sub), ["SUBACK [0]"]);
    while net.deliver_between(1, 2) {}
    net.publish_packet(late, &retained(&topic, Q0, 0, "late"));
    while net.deliver_between(3, 2) {}
    while net.deliver_between(3, 1) {}
    assert_eq!(net.read(sub), [format!("PUBLISH {topic} q0 late")]);
    net.deliver_mail();
    assert_eq!(net.read(sub), [format!("PUBLISH {topic} q0 retain early")]);
}

#[test]
fn what_waits_for_another_shard_is_counted_until_it_has_come() {
    let (mut net, _, sub, topic) = triangle();
    let awaited = |net: &Net| net.shards[1].stats().awaited;
    net.subscribe(sub, &topic, Q0);
    for other in [0, 2] {
        while net.deliver_between(1, other) {}
        while net.deliver_between(other, 1) {}
    }
    assert_eq!(awaited(&net), 1, "a page");
    net.subscribe(sub, "other", Q0);
    assert_eq!(awaited(&net), 2, "and notes of a filter");
    net.publish_packet(sub, &retained(&topic, Q1, 1, "x"));
    assert_eq!(awaited(&net), 3, "and an owner's answer");
    net.deliver_mail();
    assert_eq!(awaited(&net), 0);
}

#[test]
fn what_comes_live_is_remembered_only_while_somebody_asks_and_only_so_much() {
    let (mut net, _, sub, topic) = triangle();
    let names = net.names();
    let publ = net.join(&names[1][1], Ask::default());
    let forgotten = |net: &mut Net, count| {
        (0..count).for_each(|_| net.publish_packet(publ, &retained(&topic, Q0, 0, "x")));
        net.shards[1].stats().recent_forgotten
    };
    assert_eq!(forgotten(&mut net, 16_384 + 3), 0);
    net.subscribe(sub, &topic, Q0);
    assert_eq!(forgotten(&mut net, 16_384 + 3), 3);
    net.deliver_mail();
    // It was answered; the next begins afresh.
    assert_eq!(forgotten(&mut net, 16_384 + 3), 3);
    net.subscribe(sub, "r/+", Q0);
    assert_eq!(forgotten(&mut net, 16_384), 3);
}

#[test]
fn an_owner_is_asked_for_no_more_than_the_session_has_room_for() {
    for (qos, messages_max) in [(Q1, 3), (Q0, 256)] {
        let mut net = Net::new(2);
        let names = net.names();
        let sub = net.join(&names[1][0], Ask { receive_maximum: 5, ..Ask::default() });
        let publ = net.join(&names[1][1], Ask::default());
        // Two places of five are taken.
        net.subscribe(sub, "t", Q1);
        net.deliver_mail();
        (1..=2).for_each(|id| net.publish(publ, "t", Q1, id, "x"));
        net.deliver_mail();
        net.subscribe(sub, "r/#", qos);
        while net.deliver_between(1, 0) {}
        while net.deliver_between(0, 1) {}
        let asked: Vec<u32> = net.wires[1]
            .mail
            .iter()
            .filter_map(|(_, mail)| match mail {
                Mail::RetainedQuery(query) => Some(query.messages_max),
                _ => None,
            })
            .collect();
        assert_eq!(asked, [messages_max]);
    }
}

/// A subscriber with this Receive Maximum and 300 retained messages for it.
fn with_many(shards: u16, ask: Ask<'_>, limits: &Limits) -> (Net, Peer, Peer) {
    let mut net = Net::with_limits(shards, limits);
    let names = net.names();
    let publ = net.join(&names[0][0], Ask::default());
    for number in 0..300 {
        net.publish_packet(publ, &retained(&format!("m/{number}"), Q1, 1, "x"));
        net.deliver_mail();
    }
    net.read(publ);
    let sub = net.join(names.last().unwrap()[1].as_str(), ask);
    (net, publ, sub)
}

/// Reads and acknowledges until nothing comes; the topics in order.
fn drain(net: &mut Net, peer: Peer) -> Vec<String> {
    let mut topics = Vec::new();
    loop {
        net.deliver_mail();
        let lines = publishes(net, peer);
        if lines.is_empty() {
            return topics;
        }
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            topics.push(words[1].to_owned());
            if let Some(id) = words[3].strip_prefix('#') {
                net.ack(peer, PacketKind::PubAck, id.parse().unwrap());
            }
        }
    }
}

#[test]
fn retained_messages_wait_in_their_stores_not_in_the_queue() {
    for shards in [1, 4] {
        let limits = Limits { queue_messages_max: 3, ..Limits::default() };
        let ask = Ask { receive_maximum: 7, ..Ask::default() };
        let (mut net, publ, sub) = with_many(shards, ask, &limits);
        net.subscribe(sub, "m/#", Q1);
        net.deliver_mail();
        assert_eq!(net.read(sub).len(), 1 + 7);
        // There is room in the queue for what is published now.
        (1..=3).for_each(|id| net.publish(publ, "m/live", Q1, id, "y"));
        net.deliver_mail();
        assert_eq!(net.read(publ).len(), 3);
        (1..=7).for_each(|id| net.ack(sub, PacketKind::PubAck, id));
        let mut topics = drain(&mut net, sub);
        assert_eq!(topics.len(), 293 + 3);
        topics.sort();
        topics.dedup();
        assert_eq!(topics.len(), 294, "each once");
        assert_eq!(net.shards.iter().map(|shard| shard.stats().awaited).sum::<u64>(), 0);
    }
}

#[test]
fn a_full_output_holds_retained_messages_back_and_loses_none() {
    for shards in [1, 4] {
        let (mut net, _, sub) = with_many(shards, Ask::default(), &Limits::default());
        net.set_stuck(sub, 2 * 1024 * 1024);
        net.subscribe(sub, "m/+", Q0);
        net.deliver_mail();
        assert_eq!(publishes(&mut net, sub), [""; 0]);
        net.set_stuck(sub, 0);
        net.drained(sub);
        assert_eq!(drain(&mut net, sub).len(), 300);
    }
}

#[test]
fn a_session_that_comes_back_gets_the_rest() {
    for shards in [1, 4] {
        let ask = Ask { receive_maximum: 5, ..kept() };
        let (mut net, _, sub) = with_many(shards, ask, &Limits::default());
        net.subscribe(sub, "m/#", Q1);
        net.deliver_mail();
        for id in 1..=5 {
            net.ack(sub, PacketKind::PubAck, id);
        }
        net.deliver_mail();
        let before = publishes(&mut net, sub).len();
        assert_eq!(before, 10);
        (6..=10).for_each(|id| net.ack(sub, PacketKind::PubAck, id));
        net.read(sub);
        net.cut(sub);
        net.deliver_mail();
        let name = net.names().last().unwrap()[1].clone();
        let sub = net.connect(&name, ask);
        // What was on its way when it left comes again.
        let rest = drain(&mut net, sub);
        assert!((290 - 5..=290).contains(&rest.len()), "{}", rest.len());
    }
}

#[test]
fn an_unsubscribe_ends_the_replay_and_a_new_subscribe_begins_again() {
    for shards in [1, 4] {
        let ask = Ask { receive_maximum: 5, ..Ask::default() };
        let (mut net, _, sub) = with_many(shards, ask, &Limits::default());
        net.subscribe(sub, "m/#", Q1);
        net.subscribe(sub, "m/7", Q1);
        net.deliver_mail();
        net.unsubscribe(sub, "m/#");
        let options = SubscriptionOptions {
            retain_handling: RetainHandling::DontSend,
            qos: Q1,
            ..SubscriptionOptions::default()
        };
        net.subscribe_with(sub, "m/#", options, None);
        (1..=5).for_each(|id| net.ack(sub, PacketKind::PubAck, id));
        net.read(sub);
        let rest = drain(&mut net, sub);
        assert_eq!(rest.iter().filter(|topic| *topic != "m/7").count(), 0, "{rest:?}");
        net.subscribe(sub, "m/#", Q1);
        assert_eq!(drain(&mut net, sub).len(), 300);
        net.disconnect(sub, ReasonCode::Success);
        net.deliver_mail();
        assert!(net.shards.iter().all(|shard| shard.stats().filters == 0));
    }
}

#[test]
fn a_second_subscribe_begins_the_replay_again_in_the_place_of_the_first() {
    for shards in [1, 4] {
        let ask = Ask { receive_maximum: 5, ..Ask::default() };
        let (mut net, _, sub) = with_many(shards, ask, &Limits::default());
        net.subscribe(sub, "m/#", Q1);
        net.deliver_mail();
        net.subscribe(sub, "m/#", Q1);
        assert_eq!(drain(&mut net, sub).len(), 5 + 300);
    }
}

/// A step of the random test.
#[derive(Clone, Debug)]
enum Step {
    Subscribe(usize),
    Publish(usize, bool),
    Read(usize),
    Leave(usize),
    Return(usize),
    Mail(usize, usize),
}

const SUBSCRIBERS: usize = 6;
const FILTERS: [&str; SUBSCRIBERS] = ["t/a", "t/+", "#", "t/a", "t/#", "#"];
const TOPICS: [&str; 4] = ["t/a", "t/b", "t/c", "u"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..SUBSCRIBERS).prop_map(Step::Subscribe),
        6 => (0..TOPICS.len(), prop::bool::weighted(0.2))
            .prop_map(|(topic, is_clear)| Step::Publish(topic, is_clear)),
        3 => (0..SUBSCRIBERS).prop_map(Step::Read),
        1 => (0..SUBSCRIBERS).prop_map(Step::Leave),
        1 => (0..SUBSCRIBERS).prop_map(Step::Return),
        12 => (0..4_usize, 0..4_usize).prop_map(|(from, to)| Step::Mail(from, to)),
    ]
}

#[derive(Debug)]
struct Subscriber {
    name: String,
    peer: Peer,
    is_here: bool,
    is_subscribed: bool,
    /// The numbers it got of each topic.
    got: [Vec<usize>; TOPICS.len()],
}

impl Subscriber {
    fn ask() -> Ask<'static> {
        Ask { receive_maximum: 2, ..kept() }
    }

    fn new(net: &mut Net, at: usize) -> Self {
        let name = format!("subscriber{at}");
        let peer = net.join(&name, Self::ask());
        Self { name, peer, is_here: true, is_subscribed: false, got: Default::default() }
    }

    /// Reads and acknowledges until nothing more comes without mail.
    fn read(&mut self, net: &mut Net) -> bool {
        let mut is_any = false;
        while self.is_here {
            let lines = publishes(net, self.peer);
            if lines.is_empty() {
                break;
            }
            is_any = true;
            for line in lines {
                let words: Vec<&str> = line.split(' ').collect();
                let topic = TOPICS.iter().position(|topic| *topic == words[1]).unwrap();
                let number = line.split('"').nth(3).unwrap().parse().unwrap();
                self.got[topic].push(number);
                let id = words[3].trim_start_matches('#').parse().unwrap();
                net.ack(self.peer, PacketKind::PubAck, id);
            }
        }
        is_any
    }
}

fn publish_numbered(net: &mut Net, peer: Peer, topic: &str, number: usize, is_clear: bool) {
    let text = number.to_string();
    let mut properties = PropertiesBuf::new();
    properties.push(Property::UserProperty("number", &text));
    let properties = properties.as_properties();
    let payload = if is_clear { "" } else { "x" };
    net.publish_packet(peer, &Publish { properties, ..retained(topic, Q1, 1, payload) });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Each topic has one publisher; subscribers come at any time, leave and return, read slowly,
    /// and mail is delayed in any way. Every subscriber gets of each topic the newest message in
    /// the end, none twice, and none after a newer one.
    #[test]
    fn a_subscriber_gets_each_topics_newest_message_once_and_in_order(
        shards in prop::sample::select(vec![1_u16, 2, 3, 4]),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut net = Net::new(shards);
        let publishers: Vec<Peer> = (0..TOPICS.len())
            .map(|at| net.join(&format!("publisher{at}"), Ask::default()))
            .collect();
        let mut subscribers: Vec<Subscriber> =
            (0..SUBSCRIBERS).map(|at| Subscriber::new(&mut net, at)).collect();
        let mut newest = [(0, true); TOPICS.len()];
        for (number, step) in (1..).zip(&steps) {
            match *step {
                Step::Subscribe(who) => {
                    let subscriber = &mut subscribers[who];
                    if subscriber.is_here && !subscriber.is_subscribed {
                        net.subscribe(subscriber.peer, FILTERS[who], Q1);
                        subscriber.is_subscribed = true;
                    }
                }
                Step::Publish(topic, is_clear) => {
                    publish_numbered(&mut net, publishers[topic], TOPICS[topic], number, is_clear);
                    newest[topic] = (number, is_clear);
                }
                Step::Read(who) => drop(subscribers[who].read(&mut net)),
                Step::Leave(who) => {
                    let subscriber = &mut subscribers[who];
                    // What is not acknowledged would come twice.
                    subscriber.read(&mut net);
                    if subscriber.is_here {
                        net.cut(subscriber.peer);
                        subscriber.is_here = false;
                    }
                }
                Step::Return(who) => {
                    let subscriber = &mut subscribers[who];
                    if !subscriber.is_here {
                        subscriber.peer = net.connect(&subscriber.name, Subscriber::ask());
                        subscriber.is_here = true;
                    }
                }
                Step::Mail(from, to) => {
                    let shards = net.shards.len();
                    net.deliver_between(from % shards, to % shards);
                }
            }
        }
        for subscriber in subscribers.iter_mut().filter(|subscriber| !subscriber.is_here) {
            subscriber.peer = net.connect(&subscriber.name, Subscriber::ask());
            subscriber.is_here = true;
        }
        net.deliver_mail();
        while subscribers.iter_mut().any(|subscriber| subscriber.read(&mut net)) {
            net.deliver_mail();
        }
        for (subscriber, filter) in subscribers.iter().zip(FILTERS) {
            for (topic, got) in subscriber.got.iter().enumerate() {
                prop_assert!(got.is_sorted_by(|a, b| a < b), "{} {:?}", TOPICS[topic], got);
                let filter = weir_wire::topic::TopicFilter::parse(filter).unwrap();
                if !subscriber.is_subscribed || !filter.matches(TOPICS[topic]) {
                    prop_assert!(got.is_empty());
                    continue;
                }
                let (number, is_cleared) = newest[topic];
                let is_newest = got.last() == Some(&number);
                prop_assert!(
                    is_newest || (is_cleared && got.is_empty()),
                    "{} {} {:?} of {:?}", subscriber.name, TOPICS[topic], got, newest[topic]
                );
            }
        }
        let awaited: u64 = net.shards.iter().map(|shard| shard.stats().awaited).sum();
        prop_assert_eq!(awaited, 0);
    }
}
