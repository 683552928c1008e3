//! No input holds a shard: what one may cost is bounded, in steps that are counted, and what is
//! more goes on in later turns, beside what others send.

use crate::net::{Ask, Net, Peer, message};
use weir_core::Limits;
use weir_wire::packet::{PINGREQ, Publish, SubscribeBuf, SubscriptionOptions, UnsubscribeBuf};
use weir_wire::{PacketId, Properties, QoS, Version};

/// What the last thing that an input does may cost beyond the bound.
const LAST_STEPS_MAX: u64 = 1_300;

fn steps_max() -> u64 {
    u64::from(Limits::default().input_steps_max) + LAST_STEPS_MAX
}

/// A SUBSCRIBE of many filters.
fn subscribe(filters: impl Iterator<Item = String>) -> Vec<u8> {
    let (mut all, mut bytes) = (SubscribeBuf::new(), Vec::new());
    filters.for_each(|filter| all.push(&filter, SubscriptionOptions::default()));
    let subscribe = all.subscribe(Version::V5, PacketId::FIRST, Properties::EMPTY);
    subscribe.encode(Version::V5, &mut bytes);
    bytes
}

fn unsubscribe(filters: impl Iterator<Item = String>) -> Vec<u8> {
    let (mut all, mut bytes) = (UnsubscribeBuf::new(), Vec::new());
    filters.for_each(|filter| all.push(&filter));
    all.unsubscribe(PacketId::FIRST, Properties::EMPTY).encode(Version::V5, &mut bytes);
    bytes
}

/// Retained messages on `t/0` to `t/COUNT`.
fn retain(net: &mut Net, count: usize) {
    let publisher = net.join("publisher", Ask::default());
    for at in 0..count {
        let topic = format!("t/{at}");
        let publish = message(&topic, QoS::AtMostOnce, 0, "kept");
        net.publish_packet(publisher, &Publish { retain: true, ..publish });
    }
    net.go_on();
    net.steps_seen_max = 0;
}

/// The packets that the peer got of one kind.
fn count(lines: &[String], kind: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(kind)).count()
}

#[test]
fn filters_that_match_no_retained_message_are_looked_for_in_turns() {
    for shards in [1, 4] {
        let mut net = Net::new(shards);
        retain(&mut net, 5_000);
        let greedy = net.join("greedy", Ask::default());
        let (victim, other) = (net.join("victim", Ask::default()), net.join("o", Ask::default()));
        net.subscribe(victim, "v", QoS::AtMostOnce);
        net.go_on();
        net.read(victim);
        net.send_bytes(greedy, &subscribe((0..100).map(|at| format!("t/+/{at}"))));
        let mut turns = 0;
        while net.go_on_once() {
            turns += 1;
            net.publish(other, "v", QoS::AtMostOnce, 0, "live");
            assert_eq!(net.read(victim), ["PUBLISH v q0 live"], "in each turn");
        }
        // Beside other shards each page of theirs is a turn of its own.
        assert!(turns > 100 || shards > 1, "{turns} turns for half a million topics");
        net.go_on();
        assert_eq!(count(&net.read(greedy), "SUBACK"), 1);
        assert!(net.steps_seen_max <= steps_max(), "{} steps", net.steps_seen_max);
    }
}

#[test]
fn what_is_retained_comes_once_however_many_turns_it_takes() {
    for shards in [1, 4] {
        let mut net = Net::new(shards);
        retain(&mut net, 3_000);
        let peers: Vec<Peer> =
            (0..3).map(|at| net.join(&format!("c{at}"), Ask::default())).collect();
        for &peer in &peers {
            let filters = ["none/#", "t/+", "+/17", "t/5"];
            net.send_bytes(peer, &subscribe(filters.into_iter().map(String::from)));
        }
        net.go_on();
        for peer in peers {
            assert_eq!(count(&net.read(peer), "PUBLISH"), 3_000 + 1 + 1);
        }
        assert!(net.steps_seen_max <= steps_max(), "{} steps", net.steps_seen_max);
    }
}

#[test]
fn a_packet_of_very_many_filters_is_handled_in_turns_and_what_is_behind_it_waits() {
    const NAMES: usize = 10_000;
    for shards in [1, 4] {
        let mut net = Net::new(shards);
        let greedy = net.join("greedy", Ask::default());
        let names = |count: usize| (0..count).map(|at| format!("{}", at % NAMES));
        let mut bytes = subscribe(names(40_000));
        bytes.extend(PINGREQ);
        bytes.extend(unsubscribe(names(40_000)));
        bytes.extend(PINGREQ);
        net.send_bytes(greedy, &bytes);
        assert_eq!(net.read(greedy), [""; 0], "it has begun");
        net.go_on();
        let lines = net.read(greedy);
        let kinds: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(kinds, ["SUBACK", "PINGRESP", "UNSUBACK", "PINGRESP"]);
        let codes = |line: &str| line.matches(|c: char| c.is_ascii_digit()).count();
        assert_eq!(codes(&lines[0]), 40_000, "each granted");
        assert_eq!(lines[2].matches("17").count(), 30_000, "there once each");
        assert!(net.steps_seen_max <= steps_max(), "{} steps", net.steps_seen_max);
        assert!(net.shards.iter().all(|shard| shard.stats().filters == 0));
        assert!(net.shards.iter().all(|shard| shard.stats().awaited == 0));
    }
}

#[test]
fn a_subscribe_that_its_client_does_not_wait_for_is_done_in_part_and_leaves_nothing() {
    let filters = || subscribe((0..20_000).map(|at| format!("f/{at}")));
    for shards in [1, 2] {
        for expiry_s in [0, 1000] {
            for is_taken_over in [false, true] {
                let mut net = Net::new(shards);
                let ask = Ask { expiry_s, clean: false, ..Ask::default() };
                let first = net.join("c", ask);
                net.send_bytes(first, &filters());
                // Three turns check them, the next subscribes to the first.
                for _ in 0..4 {
                    net.go_on_once();
                }
                let second = if is_taken_over { Some(net.join("c", ask)) } else { None };
                if !is_taken_over {
                    net.cut(first);
                }
                net.go_on();
                assert_eq!(count(&net.read(first), "SUBACK"), 0);
                let second = second.unwrap_or_else(|| {
                    let second = net.connect("c", ask);
                    net.read(second);
                    second
                });
                let publisher = net.join("p", Ask::default());
                for at in [0, 19_999] {
                    net.publish(publisher, &format!("f/{at}"), QoS::AtMostOnce, 0, "x");
                }
                net.deliver_mail();
                let expected: &[&str] = if expiry_s > 0 { &["PUBLISH f/0 q0 x"] } else { &[] };
                assert_eq!(net.read(second), expected, "the first was subscribed to, the last not");
                net.cut(second);
                net.pass(2000);
                net.go_on();
                for shard in &net.shards {
                    assert_eq!((shard.stats().filters, shard.stats().awaited), (0, 0));
                }
            }
        }
    }
}

/// Filters of `levels` levels, each `a` or `+` as the bits of a number say, and a last one.
fn shapes(count: u64, levels: usize) -> impl Iterator<Item = String> {
    (1..=count).map(move |number: u64| {
        let bits = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let level = |at: usize| if bits >> (at % 64) & 1 == 1 { "+/" } else { "a/" };
        (0..levels - 1).map(level).collect::<String>() + "z"
    })
}

#[test]
fn one_client_s_filters_cannot_make_a_publish_of_others_long() {
    let shapes_max = Limits::default().filter_shapes_max as usize;
    for shards in [1, 4] {
        for levels in [12, 128] {
            let mut net = Net::new(shards);
            let greedy = net.join("greedy", Ask::default());
            net.send_bytes(greedy, &subscribe(shapes(2_000, levels)));
            net.go_on();
            let line = net.read(greedy).concat();
            let granted = line.matches("[0").count() + line.matches(" 0").count();
            assert_eq!(granted, shapes_max, "{line}");
            let refused: u64 = net.shards.iter().map(|shard| shard.stats().shapes_refused).sum();
            assert_eq!(refused, 2_000 - shapes_max as u64);
            let victim = net.join("victim", Ask::default());
            net.steps_seen_max = 0;
            net.publish(victim, &("a/".repeat(levels - 1) + "y"), QoS::AtMostOnce, 0, "x");
            net.deliver_mail();
            let steps_max = shapes_max as u64 + 10;
            assert!(net.steps_seen_max <= steps_max, "{} steps", net.steps_seen_max);
            // One that is gone makes room for another.
            net.send_bytes(greedy, &unsubscribe(shapes(1, levels)));
            net.send_bytes(greedy, &subscribe(shapes(2_000, levels).skip(1_999)));
            net.go_on();
            assert_eq!(net.read(greedy), ["UNSUBACK [0]", "SUBACK [0]"]);
        }
    }
}

#[test]
fn ten_thousand_filters_of_a_few_shapes_are_granted() {
    let mut net = Net::new(1);
    let client = net.join("c", Ask::default());
    let filters = |at| match at % 4 {
        0 => format!("site/{at}/+/state"),
        1 => format!("site/{at}/#"),
        2 => format!("$share/g/site/{at}/+"),
        _ => format!("site/{at}"),
    };
    net.send_bytes(client, &subscribe((0..10_000).map(filters)));
    net.go_on();
    assert_eq!(net.read(client).concat().matches("151").count(), 0);
    assert_eq!(net.shards[0].stats().filters, 10_000);
}

#[test]
fn packets_that_cost_much_together_are_handled_in_turns() {
    let mut net = Net::new(1);
    for at in 0..1_000 {
        let peer = net.join(&format!("s{at}"), Ask::default());
        net.subscribe(peer, "t", QoS::AtMostOnce);
    }
    let publisher = net.join("p", Ask::default());
    let mut bytes = Vec::new();
    for at in 0..500 {
        message("t", QoS::AtMostOnce, 0, &at.to_string()).encode(Version::V5, &mut bytes);
    }
    net.steps_seen_max = 0;
    net.send_bytes(publisher, &bytes);
    net.go_on();
    let steps_max = 16 * u64::from(Limits::default().input_steps_max) + 2_000;
    assert!(net.steps_seen_max <= steps_max, "{} steps", net.steps_seen_max);
    let expected: Vec<String> = (0..500).map(|at| format!("PUBLISH t q0 {at}")).collect();
    assert_eq!(net.read(7)[1..], expected, "all of them, in order");
}

#[test]
fn a_large_packet_that_is_malformed_far_inside_has_no_effect() {
    let mut net = Net::new(1);
    let filters = || (0..20_000).map(|at| format!("f/{at}"));
    for (mut bytes, is_subscribe) in [(subscribe(filters()), true), (unsubscribe(filters()), false)]
    {
        let greedy = net.join("greedy", Ask { expiry_s: 100, clean: false, ..Ask::default() });
        net.subscribe(greedy, "kept", QoS::AtMostOnce);
        net.read(greedy);
        // A byte that no text has, in the last filter but a few.
        let at = bytes.len() - 30;
        let letter = bytes[at..].iter().position(|&byte| byte == b'f').unwrap();
        bytes[at + letter] = 0xFF;
        net.send_bytes(greedy, &bytes);
        net.go_on();
        let lines = net.read(greedy);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].starts_with("DISCONNECT Malformed Packet"), "{lines:?}");
        let client = net.shards[0].client("greedy").unwrap();
        assert_eq!(client.subscriptions, 1, "is SUBSCRIBE: {is_subscribe}");
    }
}

#[test]
fn a_large_packet_is_checked_in_turns() {
    let mut net = Net::new(1);
    let greedy = net.join("greedy", Ask::default());
    net.steps_seen_max = 0;
    let filters = || (0..60_000).map(|at| format!("f/{}", at % 100));
    net.send_bytes(greedy, &subscribe(filters()));
    assert_eq!(net.read(greedy), [] as [&str; 0], "not in the turn in which it came");
    net.go_on();
    assert_eq!(count(&net.read(greedy), "SUBACK"), 1);
    assert_eq!(net.shards[0].client("greedy").unwrap().subscriptions, 100);
    net.send_bytes(greedy, &unsubscribe(filters()));
    net.go_on();
    assert_eq!(count(&net.read(greedy), "UNSUBACK"), 1);
    assert_eq!(net.shards[0].client("greedy").unwrap().subscriptions, 0);
    assert!(net.steps_seen_max <= steps_max(), "{} steps", net.steps_seen_max);
}
