//! Content-filtered subscriptions, with conditions of a toy language: what is delivered, how often
//! a condition is asked, and that none is left over.

use crate::net::{Ask, Net, Peer, message};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use weir_core::{
    ConditionEvaluator, ConditionQuery, Content, CostlyCondition, InvalidCondition, Limits, Mail,
    SharePolicy, ShareRule, ShareStrategy, Walk, Warning, WhenAbsent, walked_by,
};
use weir_wire::packet::{SubscribeBuf, SubscriptionOptions};
use weir_wire::{PacketId, PropertiesBuf, Property, QoS, Version};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;
const CONDITION: &str = "filter";

/// `has X`: the payload holds X. `kept`: the message is retained. `never`: no message matches it.
/// `N: has X` takes N of the [`STEPS`] of a message. All else is unfit.
#[derive(Debug, Default)]
pub(crate) struct Toy {
    slots: BTreeMap<u32, String>,
    counts: Arc<Counts>,
}

const STEPS: u64 = 100;

#[derive(Debug, Default)]
struct Counts {
    compiled: AtomicU64,
    released: AtomicU64,
    checks: AtomicU64,
}

impl ConditionEvaluator for Toy {
    fn compile(&mut self, slot: u32, text: &str) -> Result<Option<Warning>, InvalidCondition> {
        if !text.contains("has ") && !["kept", "never"].contains(&text) {
            return Err(InvalidCondition { reason: format!("at 0: no such word: {text}").into() });
        }
        assert!(self.slots.insert(slot, text.into()).is_none(), "the slot is free");
        self.counts.compiled.fetch_add(1, Relaxed);
        Ok((text == "never").then_some("no message can match it"))
    }

    fn release(&mut self, slot: u32) {
        assert!(self.slots.remove(&slot).is_some(), "the slot is in use");
        self.counts.released.fetch_add(1, Relaxed);
    }

    fn check(
        &mut self,
        message: &Content<'_>,
        asked: &mut [ConditionQuery],
        order: &mut dyn FnMut(&mut [CostlyCondition]),
    ) -> u64 {
        self.counts.checks.fetch_add(asked.len() as u64, Relaxed);
        let costly = asked.iter().map(|asked| {
            assert!(!asked.holds && !asked.is_left_out);
            CostlyCondition { slot: asked.slot, steps: steps(&self.slots[&asked.slot]) }
        });
        let mut costly: Vec<CostlyCondition> = costly.collect();
        if costly.iter().map(|costly| costly.steps).sum::<u64>() > STEPS {
            order(&mut costly);
        }
        let mut left = STEPS;
        for CostlyCondition { slot, steps } in costly {
            let asked = asked.iter_mut().find(|asked| asked.slot == slot).unwrap();
            match left.checked_sub(steps) {
                Some(rest) => left = rest,
                None => asked.is_left_out = true,
            }
            let condition = &self.slots[&slot];
            asked.holds = !asked.is_left_out && holds(condition, message.payload, message.retain);
        }
        STEPS - left
    }
}

fn steps(condition: &str) -> u64 {
    condition.split_once(": ").map_or(0, |(steps, _)| steps.parse().unwrap())
}

fn holds(condition: &str, payload: &[u8], retain: bool) -> bool {
    match condition.split_once("has ") {
        Some((_, wanted)) => std::str::from_utf8(payload).is_ok_and(|text| text.contains(wanted)),
        None => retain && condition == "kept",
    }
}

fn net_with(shards: u16, settings: &weir_core::Settings) -> (Net, Arc<Counts>) {
    let mut net = Net::with_settings(shards, settings);
    let counts = Arc::new(Counts::default());
    for shard in &mut net.shards {
        let toy = Toy { slots: BTreeMap::new(), counts: Arc::clone(&counts) };
        shard.set_conditions(Box::new(toy));
    }
    (net, counts)
}

fn toy(shards: u16) -> (Net, Arc<Counts>) {
    net_with(shards, &Limits::default().into())
}

/// One SUBSCRIBE.
fn subscribe(
    net: &mut Net,
    (peer, version): (Peer, Version),
    filters: &[(&str, QoS)],
    properties: &[Property<'_>],
) {
    let mut list = SubscribeBuf::new();
    for &(filter, qos) in filters {
        list.push(filter, SubscriptionOptions { qos, ..Default::default() });
    }
    let mut buffer = PropertiesBuf::new();
    properties.iter().for_each(|&property| buffer.push(property));
    let mut bytes = Vec::new();
    list.subscribe(version, PacketId::FIRST, buffer.as_properties()).encode(version, &mut bytes);
    net.send_bytes(peer, &bytes);
    net.deliver_mail();
}

/// Subscribes with a condition beside the filter; it is granted.
fn subscribe_if(net: &mut Net, peer: Peer, filter: &str, condition: &str) {
    let condition = Property::UserProperty(CONDITION, condition);
    subscribe(net, (peer, Version::V5), &[(filter, Q1)], &[condition]);
    assert_eq!(net.read(peer)[0], "SUBACK [1]");
}

fn publish(net: &mut Net, peer: Peer, payload: &str) {
    net.publish(peer, "t/x", Q0, 0, payload);
    net.deliver_mail();
}

/// The payloads of what the peer got.
fn payloads(net: &mut Net, peer: Peer) -> Vec<String> {
    let lines = net.read(peer).into_iter().filter(|line| line.starts_with("PUBLISH"));
    lines.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
}

fn conditions(net: &Net) -> Vec<u64> {
    net.shards.iter().map(|shard| shard.stats().conditions).collect()
}

fn assert_nothing_left(net: &Net, counts: &Counts) {
    for shard in &net.shards {
        let stats = shard.stats();
        assert_eq!((stats.filters, stats.interests, stats.awaited), (0, 0, 0), "{stats:?}");
        assert_eq!(stats.conditions, 0);
    }
    assert_eq!(counts.compiled.load(Relaxed), counts.released.load(Relaxed));
}

#[test]
fn without_a_port_conditions_are_refused_and_other_filters_are_not() {
    let mut net = Net::new(1);
    let new = net.join("new", Ask::default());
    let old = net.join("old", Ask { version: Version::V311, ..Ask::default() });
    let condition = Property::UserProperty(CONDITION, "has a");
    subscribe(&mut net, (new, Version::V5), &[("t", Q1)], &[condition]);
    assert_eq!(net.read(new), ["SUBACK [131]: conditions on content are not offered"]);
    let filters = [("$filter/kept/t", Q1), ("t", Q0)];
    subscribe(&mut net, (old, Version::V311), &filters, &[]);
    assert_eq!(net.read(old), ["SUBACK [128, 0]"]);
    let stats = net.shards[0].stats();
    assert_eq!((stats.subscriptions_refused, stats.conditions_refused), (2, 2));
}

#[test]
fn only_what_fulfils_the_condition_is_delivered_in_both_forms() {
    for shards in [1, 3] {
        let (mut net, counts) = toy(shards);
        let names = net.names();
        let publisher = net.join(&names[0][0], Ask::default());
        let last = &names[usize::from(shards) - 1];
        let new = net.join(&last[1], Ask::default());
        let old = net.join(&last[2], Ask { version: Version::V311, ..Ask::default() });
        subscribe_if(&mut net, new, "t/#", "has a");
        subscribe(&mut net, (old, Version::V311), &[("$filter/has%20b/t/+", Q1)], &[]);
        assert_eq!(net.read(old), ["SUBACK [1]"]);
        for payload in ["a", "b", "ab", "c"] {
            publish(&mut net, publisher, payload);
        }
        assert_eq!(payloads(&mut net, new), ["a", "ab"]);
        assert_eq!(payloads(&mut net, old), ["b", "ab"]);
        net.unsubscribe(new, "t/#");
        net.unsubscribe(old, "$filter/has%20b/t/+");
        net.deliver_mail();
        assert_eq!(
            (net.read(new), net.read(old)),
            (vec!["UNSUBACK [0]".into()], vec!["UNSUBACK []".into()])
        );
        assert_nothing_left(&net, &counts);
    }
}

#[test]
fn a_bad_condition_is_refused_with_its_place_and_the_rest_of_the_packet_is_not() {
    let (mut net, _) = toy(1);
    let new = net.join("new", Ask::default());
    let filters =
        [("t", Q1), ("$filter/no%20such/t", Q1), ("$filter/%zz/t", Q1), ("$filter/x", Q0)];
    subscribe(&mut net, (new, Version::V5), &filters, &[]);
    assert_eq!(net.read(new), ["SUBACK [1, 143, 143, 143]: at 0: no such word: no such"]);
    let old = net.join("old", Ask { version: Version::V311, ..Ask::default() });
    subscribe(&mut net, (old, Version::V311), &filters, &[]);
    assert_eq!(net.read(old), ["SUBACK [1, 128, 128, 128]"]);
    let both = [("$filter/has%20a/t", Q1), ("$share/g/t", Q1), ("u", Q1)];
    let condition = Property::UserProperty(CONDITION, "has a");
    subscribe(&mut net, (new, Version::V5), &both, &[condition]);
    assert_eq!(net.read(new), ["SUBACK [143, 143, 1]: a condition in the name and one beside it"]);
    subscribe(&mut net, (new, Version::V5), &both[2..], &[condition, condition]);
    assert_eq!(net.read(new), ["SUBACK [143]: more than one user property filter"]);
    assert_eq!(net.shards[0].stats().conditions_refused, 2 + 2 + 2 + 1);
    // A name that is none says why, and so does one that has no condition.
    for (filter, reason) in [
        ("$filter/true", "no topic filter after the condition: $filter/{condition}/{topic filter}"),
        ("$filter//x", "the condition is empty: $filter/{condition}/{topic filter}"),
    ] {
        subscribe(&mut net, (new, Version::V5), &[(filter, Q0), ("t", Q1)], &[]);
        assert_eq!(net.read(new), [format!("SUBACK [143, 1]: {reason}")]);
    }
}

#[test]
fn a_long_reason_is_cut_and_one_that_is_not_wanted_or_too_long_left_out() {
    let (mut net, _) = toy(1);
    let condition = "é".repeat(1000);
    let beside = Property::UserProperty(CONDITION, &condition);
    let patient = net.join("patient", Ask::default());
    subscribe(&mut net, (patient, Version::V5), &[("t", Q1)], &[beside]);
    let line = net.read(patient).remove(0);
    assert!(line.starts_with("SUBACK [143]: at 0: ") && line.len() > 500, "{line}");
    let quiet = [Property::RequestProblemInformation(0)];
    let quiet = net.join("quiet", Ask { properties: &quiet, ..Ask::default() });
    let small = net.join("small", Ask { packet_bytes_max: 300, ..Ask::default() });
    for peer in [quiet, small] {
        subscribe(&mut net, (peer, Version::V5), &[("t", Q1)], &[beside]);
        assert_eq!(net.read(peer), ["SUBACK [143]"]);
    }
}

#[test]
fn a_condition_is_asked_once_a_message_however_many_need_it() {
    let (mut net, counts) = toy(1);
    let publisher = net.join("publisher", Ask::default());
    let mut peers = Vec::new();
    for at in 0..60 {
        let peer = net.join(&format!("c{at}"), Ask::default());
        let filter = ["t/x", "t/+", "#"][at % 3];
        subscribe_if(&mut net, peer, filter, ["has a", "has b"][at % 2]);
        peers.push(peer);
    }
    assert_eq!(conditions(&net), [2]);
    publish(&mut net, publisher, "a");
    publish(&mut net, publisher, "c");
    assert_eq!(counts.checks.load(Relaxed), 2 * 2);
    assert_eq!(net.shards[0].stats().condition_checks, 2 * 2);
    for (at, &peer) in peers.iter().enumerate() {
        assert_eq!(payloads(&mut net, peer).len(), usize::from(at % 2 == 0), "{at}");
    }
    // A topic that none of them matches asks nothing.
    let stats = net.shards[0].stats();
    net.publish(publisher, "$other", Q0, 0, "a");
    assert_eq!(net.shards[0].stats().condition_checks, stats.condition_checks);
}

#[test]
fn overlapping_subscriptions_of_a_session_bring_one_copy_with_what_holds_of_them() {
    let (mut net, counts) = toy(1);
    let publisher = net.join("publisher", Ask::default());
    let peer = net.join("peer", Ask::default());
    let id = |id| [Property::SubscriptionIdentifier(id)];
    subscribe(&mut net, (peer, Version::V5), &[("t/x", Q0)], &id(1));
    subscribe(&mut net, (peer, Version::V5), &[("$filter/has%20a/t/x", Q1)], &id(2));
    subscribe(&mut net, (peer, Version::V5), &[("$filter/has%20b/t/x", Q1)], &id(3));
    net.read(peer);
    net.publish(publisher, "t/x", Q1, 1, "a");
    net.publish(publisher, "t/x", Q1, 2, "ab");
    net.publish(publisher, "t/x", Q1, 3, "c");
    let ids = |ids: &[u32]| {
        ids.iter().map(|id| format!(" SubscriptionIdentifier({id})")).collect::<String>()
    };
    let expected = [
        format!("PUBLISH t/x q1 #1{} a", ids(&[1, 2])),
        format!("PUBLISH t/x q1 #2{} ab", ids(&[1, 2, 3])),
        format!("PUBLISH t/x q0{} c", ids(&[1])),
    ];
    assert_eq!(net.read(peer), expected);
    net.cut(peer);
    net.cut(publisher);
    assert_nothing_left(&net, &counts);
}

#[test]
fn subscribing_again_by_the_same_name_replaces_the_condition() {
    let (mut net, counts) = toy(2);
    let names = net.names();
    let publisher = net.join(&names[0][0], Ask::default());
    let peer = net.join(&names[1][0], Ask::default());
    let other = net.join(&names[1][1], Ask::default());
    subscribe_if(&mut net, other, "t/#", "has a");
    for (condition, expected) in
        [(Some("has a"), "a"), (Some("has b"), "b"), (None, "c"), (Some("has b"), "b")]
    {
        match condition {
            Some(condition) => subscribe_if(&mut net, peer, "t/#", condition),
            None => subscribe(&mut net, (peer, Version::V5), &[("t/#", Q1)], &[]),
        }
        net.read(peer);
        for payload in ["a", "b", "c"] {
            publish(&mut net, publisher, payload);
        }
        let got = payloads(&mut net, peer);
        let all = if condition.is_none() { 3 } else { 1 };
        assert!(got.len() == all && got.contains(&expected.into()), "{got:?}");
    }
    assert_eq!(payloads(&mut net, other), ["a"; 4]);
    net.unsubscribe(peer, "t/#");
    net.unsubscribe(peer, "t/#");
    assert_eq!(net.read(peer), ["UNSUBACK [0]", "UNSUBACK [17]"]);
    net.cut(other);
    net.deliver_mail();
    assert_nothing_left(&net, &counts);
}

#[test]
fn conditions_outlive_an_absence_and_a_takeover_and_end_with_the_session() {
    let (mut net, counts) = toy(1);
    let kept = Ask { clean: false, expiry_s: 100, ..Ask::default() };
    let publisher = net.join("publisher", Ask::default());
    let first = net.join("peer", kept);
    subscribe_if(&mut net, first, "t/#", "has a");
    let second = net.join("peer", kept);
    net.publish(publisher, "t/x", Q1, 1, "a");
    net.publish(publisher, "t/x", Q1, 2, "b");
    assert_eq!(payloads(&mut net, second), ["a"]);
    net.cut(second);
    // What is not wanted is not kept for it either.
    net.publish(publisher, "t/x", Q1, 3, "b");
    net.publish(publisher, "t/x", Q1, 4, "ab");
    let third = net.connect("peer", kept);
    assert_eq!(payloads(&mut net, third), ["a", "ab"]);
    assert_eq!(conditions(&net), [1]);
    net.cut(third);
    net.pass(101);
    assert_nothing_left(&net, &counts);
    assert_eq!(counts.compiled.load(Relaxed), 1);
}

#[test]
fn retained_messages_are_filtered_too_from_every_shard() {
    for shards in [1, 3] {
        let (mut net, _) = toy(shards);
        let names = net.names();
        let publisher = net.join(&names[0][0], Ask::default());
        for at in 0..30 {
            let topic = format!("t/{at}");
            let payload = if at % 3 == 0 { "a" } else { "b" };
            let retained = message(&topic, Q0, 0, payload);
            let retained = weir_wire::packet::Publish { retain: true, ..retained };
            net.publish_packet(publisher, &retained);
        }
        net.deliver_mail();
        let peer = net.join(&names[0][1], Ask::default());
        let condition = Property::UserProperty(CONDITION, "has a");
        subscribe(&mut net, (peer, Version::V5), &[("t/#", Q0)], &[condition]);
        assert_eq!(payloads(&mut net, peer), ["a"; 10]);
        subscribe(&mut net, (peer, Version::V5), &[("$filter/kept/t/+", Q0)], &[]);
        assert_eq!(payloads(&mut net, peer).len(), 30);
        publish(&mut net, publisher, "b");
        assert!(payloads(&mut net, peer).is_empty(), "live it is not retained");
    }
}

#[test]
fn a_large_store_is_checked_in_parts() {
    let (mut net, counts) = toy(1);
    let publisher = net.join("publisher", Ask::default());
    for at in 0..10_000 {
        let topic = format!("t/{at:05}");
        let retained = message(&topic, Q0, 0, if at == 9_999 { "a" } else { "b" });
        net.publish_packet(publisher, &weir_wire::packet::Publish { retain: true, ..retained });
    }
    let peer = net.join("peer", Ask::default());
    let condition = Property::UserProperty(CONDITION, "has a");
    subscribe(&mut net, (peer, Version::V5), &[("t/#", Q0)], &[condition]);
    assert_eq!(net.read(peer), ["SUBACK [0]"]);
    assert_eq!(counts.checks.load(Relaxed), 4 * 256);
    // Another client is served meanwhile; then the rest follows.
    publish(&mut net, publisher, "a");
    assert_eq!(payloads(&mut net, peer), ["a"]);
    net.pass(1);
    assert_eq!(net.read(peer), ["PUBLISH t/09999 q0 retain a"]);
    assert_eq!(counts.checks.load(Relaxed), 1 + 10_000);
}

#[test]
fn over_the_bound_a_new_condition_is_refused_and_a_known_one_is_not() {
    let (mut net, counts) = net_with(1, &Limits { conditions_max: 2, ..Limits::default() }.into());
    let peer = net.join("peer", Ask::default());
    let filters = [
        ("$filter/has%20a/t", Q1),
        ("$filter/has%20b/t", Q1),
        ("$filter/has%20c/t", Q1),
        ("$filter/has%20a/u", Q1),
    ];
    subscribe(&mut net, (peer, Version::V5), &filters, &[]);
    assert_eq!(net.read(peer), ["SUBACK [1, 1, 151, 1]: too many distinct conditions"]);
    assert_eq!((conditions(&net), net.shards[0].stats().conditions_refused), (vec![2], 1));
    net.unsubscribe(peer, "$filter/has%20b/t");
    net.read(peer);
    subscribe(&mut net, (peer, Version::V5), &filters[2..3], &[]);
    assert_eq!(net.read(peer), ["SUBACK [1]"]);
    net.cut(peer);
    assert_nothing_left(&net, &counts);
}

#[test]
fn one_client_leaves_conditions_for_others() {
    let limits = Limits { conditions_per_session_max: 2, ..Limits::default() };
    let (mut net, counts) = net_with(1, &limits.into());
    let (greedy, other) = (net.join("greedy", Ask::default()), net.join("o", Ask::default()));
    let filters = [
        ("$filter/has%20a/t", Q1),
        ("$share/g/$filter/has%20b/t", Q1),
        ("$filter/has%20c/t", Q1),
        // No further condition.
        ("$filter/has%20b/u", Q1),
        ("plain", Q1),
    ];
    subscribe(&mut net, (greedy, Version::V5), &filters, &[]);
    let why = "too many distinct conditions of one client";
    assert_eq!(net.read(greedy), [format!("SUBACK [1, 1, 151, 1, 1]: {why}")]);
    assert_eq!((conditions(&net), net.shards[0].stats().conditions_refused), (vec![2], 1));
    subscribe(&mut net, (other, Version::V5), &filters[2..3], &[]);
    assert_eq!(net.read(other), ["SUBACK [1]"]);
    net.cut(greedy);
    net.cut(other);
    assert_nothing_left(&net, &counts);
}

/// Subscribes to `t/x` with a condition in the name; returns the SUBACK.
fn subscribe_costly(net: &mut Net, peer: Peer, share: &str, condition: &str) -> String {
    let filter = format!("{share}$filter/{}/t/x", condition.replace(' ', "%20"));
    subscribe(net, (peer, Version::V5), &[(&filter, Q0)], &[]);
    net.read(peer).remove(0)
}

#[test]
fn costly_conditions_of_one_client_leave_those_of_others_their_part() {
    for (shards, share) in [(1, ""), (3, ""), (1, "$share/g/"), (3, "$share/g/")] {
        let (mut net, counts) = toy(shards);
        let names = net.names();
        let publisher = net.join(&names[0][0], Ask::default());
        let last = usize::from(shards) - 1;
        let (greedy, other) =
            (net.join(&names[last][1], Ask::default()), net.join(&names[last][2], Ask::default()));
        for at in 0..12 {
            let condition = format!("{}: has {}", 40 + at, "a".repeat(at + 1));
            assert_eq!(subscribe_costly(&mut net, greedy, share, &condition), "SUBACK [0]");
        }
        // One of its own, and one that both have: it is the other's as well.
        let own = subscribe_costly(&mut net, other, share, "45: has b");
        assert_eq!(own, "SUBACK [0]", "{shards} {share}");
        for _ in 0..100 {
            publish(&mut net, publisher, "ab");
        }
        assert_eq!(payloads(&mut net, other).len(), 100, "{shards} {share}");
        assert_eq!(payloads(&mut net, greedy).len(), 100, "of its cheapest {shards} {share}");
        let left_out: u64 = net.shards.iter().map(|one| one.stats().conditions_left_out).sum();
        assert_eq!(left_out, 11 * 100, "{shards} {share}");
        let notices = net.wires.iter().flat_map(|wires| &wires.notices);
        let notices = notices.filter(|line| line.contains("ConditionLeftOut"));
        // Which client a member on another shard is, nobody here knows.
        let is_far = shards > 1 && !share.is_empty();
        let client_id = if is_far { "" } else { &*names[last][1] };
        let client_id = format!("client_id: \"{client_id}\"");
        assert!(notices.clone().all(|line| line.contains(&client_id)), "{shards} {share}");
        assert_eq!(notices.count(), 11 * 100);
        net.cut(greedy);
        net.cut(other);
        net.deliver_mail();
        assert_nothing_left(&net, &counts);
    }
    let bound = "7,000,000 steps of conditions per message, on each thread";
    assert_eq!(walked_by(Walk::Conditions), [bound]);
}

#[test]
fn a_client_is_told_that_its_conditions_are_left_out_when_it_subscribes_next() {
    let (mut net, _) = toy(1);
    let (publisher, greedy, other) = (
        net.join("publisher", Ask::default()),
        net.join("greedy", Ask::default()),
        net.join("other", Ask::default()),
    );
    for condition in ["60: has a", "70: has a"] {
        subscribe_costly(&mut net, greedy, "", condition);
    }
    for _ in 0..3 {
        publish(&mut net, publisher, "a");
    }
    assert_eq!(payloads(&mut net, greedy).len(), 3);
    let told = subscribe_costly(&mut net, greedy, "", "has b");
    assert!(told.starts_with("SUBACK [0]: left out 3 times: "), "{told}");
    assert_eq!(subscribe_costly(&mut net, other, "", "has b"), "SUBACK [0]");
    // What both have is left out of both.
    let told = subscribe_costly(&mut net, other, "", "70: has a");
    assert!(told.starts_with("SUBACK [0]: left out 3 times: "), "{told}");
}

#[test]
fn a_client_is_told_of_a_condition_that_no_message_can_match() {
    let (mut net, _) = toy(1);
    let peers = [net.join("one", Ask::default()), net.join("two", Ask::default())];
    for peer in peers {
        // The second has the condition that the first has brought.
        let condition = Property::UserProperty(CONDITION, "never");
        subscribe(&mut net, (peer, Version::V5), &[("t", Q1)], &[condition]);
        assert_eq!(net.read(peer), ["SUBACK [1]: no message can match it"]);
    }
    let filters = [("$filter/never/t", Q0), ("$filter/no%20such/t", Q1)];
    subscribe(&mut net, (peers[0], Version::V5), &filters, &[]);
    let refused = "SUBACK [0, 143]: at 0: no such word: no such";
    assert_eq!(net.read(peers[0]), [refused], "what was refused goes first");
    let quiet = [Property::RequestProblemInformation(0)];
    let quiet = net.join("quiet", Ask { properties: &quiet, ..Ask::default() });
    subscribe(&mut net, (quiet, Version::V5), &filters[..1], &[]);
    assert_eq!(net.read(quiet), ["SUBACK [0]"]);
}

#[test]
fn many_chosen_members_of_groups_share_the_steps_of_a_message() {
    // The shard of the publisher has no room for their conditions.
    let (mut net, _) = net_with(2, &Limits { conditions_max: 3, ..Limits::default() }.into());
    let names = net.names();
    let publisher = net.join(&names[0][0], Ask::default());
    let filler = net.join(&names[0][1], Ask::default());
    for at in 0..3 {
        subscribe_costly(&mut net, filler, "", &format!("has c{at}"));
    }
    let (greedy, other) =
        (net.join(&names[1][1], Ask::default()), net.join(&names[1][2], Ask::default()));
    for (peer, share, condition) in [
        (greedy, "$share/g/", "60: has a"),
        (greedy, "$share/h/", "70: has a"),
        (other, "$share/i/", "40: has a"),
    ] {
        assert_eq!(subscribe_costly(&mut net, peer, share, condition), "SUBACK [0]");
    }
    publish(&mut net, publisher, "a");
    assert_eq!((payloads(&mut net, greedy).len(), payloads(&mut net, other).len()), (1, 1));
    assert_eq!(net.shards[1].stats().conditions_left_out, 1);
}

#[test]
fn a_replay_with_a_costly_condition_goes_on_in_later_turns() {
    let limits = Limits { input_steps_max: 1_000, ..Limits::default() };
    let (mut net, counts) = net_with(1, &limits.into());
    let publisher = net.join("publisher", Ask::default());
    for at in 0..200 {
        let topic = format!("t/{at:03}");
        let retained = message(&topic, Q0, 0, "a");
        let retained = weir_wire::packet::Publish { retain: true, ..retained };
        net.publish_packet(publisher, &retained);
    }
    let peer = net.join("peer", Ask::default());
    let condition = Property::UserProperty(CONDITION, "100: has a");
    subscribe(&mut net, (peer, Version::V5), &[("t/#", Q0)], &[condition]);
    assert!(counts.checks.load(Relaxed) < 20, "{counts:?}");
    net.pass(1);
    assert_eq!(payloads(&mut net, peer).len(), 200);
    assert_eq!(counts.checks.load(Relaxed), 200);
}

/// Round robin over members on three shards; `rooms` says how many conditions each shard takes.
fn shared_over_shards(rooms: u32) {
    let rules = vec![ShareRule { prefix: "g".into(), strategy: ShareStrategy::RoundRobin }];
    let limits = Limits { conditions_max: rooms, ..Limits::default() };
    let settings =
        weir_core::Settings { share: SharePolicy { rules }, limits, ..Default::default() };
    let (mut net, counts) = net_with(3, &settings);
    let names = net.names();
    let publisher = net.join(&names[0][0], Ask::default());
    // Takes the place of the group's condition on the publisher's shard.
    let other = (rooms == 1).then(|| net.join(&names[0][1], Ask::default()));
    if let Some(other) = other {
        subscribe_if(&mut net, other, "u", "has z");
    }
    let members = [(1, 1), (1, 2), (2, 1), (2, 2)].map(|(shard, at): (usize, usize)| {
        let member = net.join(&names[shard][at], Ask::default());
        let filter = [("$share/g/$filter/has%20a/t/#", Q1)];
        subscribe(&mut net, (member, Version::V5), &filter, &[]);
        assert_eq!(net.read(member), ["SUBACK [1]"]);
        member
    });
    for at in 0..40 {
        publish(&mut net, publisher, if at % 2 == 0 { "a" } else { "b" });
    }
    let got = members.map(|member| payloads(&mut net, member));
    assert_eq!(got.iter().flatten().count(), 20, "{got:?}");
    assert!(got.iter().flatten().all(|payload| payload == "a"), "{got:?}");
    if rooms > 1 {
        // What does not hold takes nobody's turn.
        assert!(got.iter().all(|got| got.len() == 5), "{got:?}");
    }
    for member in members {
        net.unsubscribe(member, "$share/g/$filter/has%20a/t/#");
    }
    net.deliver_mail();
    assert_eq!(conditions(&net), [u64::from(rooms == 1), 0, 0]);
    if let Some(other) = other {
        net.cut(other);
        net.deliver_mail();
    }
    assert_nothing_left(&net, &counts);
}

#[test]
fn a_shared_subscription_has_its_condition_in_its_name() {
    shared_over_shards(10);
}

#[test]
fn a_shard_without_room_for_a_groups_condition_leaves_the_check_to_the_members_shards() {
    shared_over_shards(1);
}

#[test]
fn a_full_queue_refuses_only_what_it_would_have_to_take() {
    let limits = Limits {
        queue_messages_max: 1,
        queue_full_absent: WhenAbsent::RefusePublisher,
        ..Limits::default()
    };
    let (mut net, counts) = net_with(1, &limits.into());
    let kept = Ask { clean: false, expiry_s: 100, ..Ask::default() };
    let publisher = net.join("publisher", Ask::default());
    let peer = net.join("peer", kept);
    subscribe_if(&mut net, peer, "t/#", "has a");
    net.cut(peer);
    let mut answers = Vec::new();
    for (id, payload) in [(1, "a"), (2, "b"), (3, "a")] {
        let checks = counts.checks.load(Relaxed);
        net.publish(publisher, "t/x", Q1, id, payload);
        answers.extend(net.read(publisher));
        assert_eq!(counts.checks.load(Relaxed), checks + 1, "asked once, for room and delivery");
    }
    let [first, second, third] = &answers[..] else { panic!("{answers:?}") };
    assert_eq!((&**first, &**second), ("PUBACK #1 Success", "PUBACK #2 Success"));
    assert!(third.starts_with("PUBACK #3 Quota exceeded"), "{third}");
}

#[test]
fn a_letter_of_a_group_names_its_condition() {
    let (mut net, _) = toy(2);
    let names = net.names();
    let member = net.join(&names[0][0], Ask::default());
    net.subscribe(member, "$share/g/$filter/kept/t", Q1);
    let letters: Vec<_> = net.wires[0].mail.iter().map(|(_, mail)| mail.clone()).collect();
    let [Mail::Joined { share, .. }] = &letters[..] else { panic!("{letters:?}") };
    assert_eq!(&**share, "$share/g/$filter/kept/t");
}

/// Names of subscriptions, their topic filter's match with `t/x` given, and conditions in names.
const NAMES: [(&str, bool, Option<&str>); 6] = [
    ("t/x", true, None),
    ("t/#", true, None),
    ("u", false, None),
    ("$filter/has%20a/t/x", true, Some("has a")),
    ("$filter/has%20b/t/x", true, Some("has b")),
    ("$filter/has%20b/#", true, Some("has b")),
];
const BESIDE: [Option<&str>; 3] = [None, Some("has a"), Some("has c")];
const PAYLOADS: [&str; 5] = ["-", "a", "b", "abc", "c"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Random subscriptions come, change and go; each message goes to each session once, if one of
    /// its subscriptions wants it, and in the end nothing is left.
    #[test]
    fn sessions_get_what_a_naive_model_says(
        shards in 1..4_u16,
        steps in prop::collection::vec((0..6_usize, 0..NAMES.len(), 0..3_usize, 0..5_usize), 1..60),
    ) {
        let (mut net, counts) = toy(shards);
        let names = net.names();
        let name = |at: usize| names[at % names.len()][at].clone();
        let publisher = net.join(&name(9), Ask::default());
        let peers: Vec<Peer> = (0..4).map(|at| net.join(&name(at), Ask::default())).collect();
        let mut model: BTreeMap<(usize, usize), Option<&str>> = BTreeMap::new();
        for (who, at, beside, payload) in steps {
            let (text, _, inside) = NAMES[at];
            match (peers.get(who), beside) {
                (Some(&peer), 0) if payload > 1 => {
                    net.unsubscribe(peer, text);
                    net.deliver_mail();
                    model.remove(&(who, at));
                }
                (Some(&peer), beside) => {
                    let beside = BESIDE[beside].filter(|_| inside.is_none());
                    let property = beside.map(|text| Property::UserProperty(CONDITION, text));
                    let properties = property.as_slice();
                    subscribe(&mut net, (peer, Version::V5), &[(text, Q0)], properties);
                    model.insert((who, at), inside.or(beside));
                }
                (None, _) => {
                    peers.iter().for_each(|&peer| drop(net.read(peer)));
                    publish(&mut net, publisher, PAYLOADS[payload]);
                    for (who, &peer) in peers.iter().enumerate() {
                        let wanted = model.iter().any(|(&(owner, at), condition)| {
                            let holds = |text| holds(text, PAYLOADS[payload].as_bytes(), false);
                            owner == who && NAMES[at].1 && condition.is_none_or(holds)
                        });
                        prop_assert_eq!(payloads(&mut net, peer).len(), usize::from(wanted));
                    }
                }
            }
        }
        peers.iter().for_each(|&peer| net.cut(peer));
        net.deliver_mail();
        assert_nothing_left(&net, &counts);
    }
}

#[test]
fn a_session_moves_with_its_conditions() {
    let limits = Limits { conditions_max: 3, ..Limits::default() };
    let (mut net, counts) = net_with(2, &limits.into());
    let names = net.names();
    let publ = net.join(&names[0][0], Ask::default());
    for condition in ["has x", "has y", "has z"] {
        subscribe_if(&mut net, publ, "none", condition);
    }
    let sub = net.join(&names[1][0], Ask::default());
    subscribe_if(&mut net, sub, "t/+", "has a");
    let named = [("$filter/has%20b/t/x", Q1), ("$share/g/$filter/has%20c/t/#", Q1)];
    subscribe(&mut net, (sub, Version::V5), &named, &[]);
    assert_eq!(net.read(sub), ["SUBACK [1, 1]"]);
    // There is no room for them where it goes, and they were granted.
    net.move_name(&names[1][0], 0);
    for payload in ["a", "b", "c", "d"] {
        publish(&mut net, publ, payload);
    }
    let got = ["a", "b", "c"].map(|payload| format!("PUBLISH t/x q0 {payload}"));
    assert_eq!((net.shard_of(sub), net.read(sub)), (0, got.to_vec()));
    net.cut(sub);
    net.cut(publ);
    net.deliver_mail();
    assert_eq!(counts.compiled.load(Relaxed), counts.released.load(Relaxed));
    assert_eq!(net.shards[0].stats().conditions_refused, 0);
}
