//! Shared subscriptions: who is chosen, and that it is exactly one, over one shard and several.

use crate::net::{Ask, Net, Peer};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_core::{GroupPick, Mail, Message, ShardId, SharePolicy, ShareRule, ShareStrategy};
use weir_wire::{PacketKind, PropertiesBuf, QoS, ReasonCode};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 1000, ..Ask::default() }
}

fn with_strategy(shards: u16, strategy: ShareStrategy) -> Net {
    let rules = vec![ShareRule { prefix: "g".into(), strategy }];
    let settings = weir_core::Settings { share: SharePolicy { rules }, ..Default::default() };
    Net::with_settings(shards, &settings)
}

/// Members of `$share/g/t/#`, spread over all shards, effective.
fn members(net: &mut Net, count: usize, qos: QoS, ask: Ask<'_>) -> Vec<Peer> {
    let names = net.names();
    let shards = names.len();
    let members: Vec<Peer> =
        (0..count).map(|at| net.join(&names[at % shards][at / shards], ask)).collect();
    for &member in &members {
        net.subscribe(member, "$share/g/t/#", qos);
    }
    net.deliver_mail();
    for &member in &members {
        assert_eq!(net.read(member), [format!("SUBACK [{}]", qos as u8)]);
    }
    members
}

/// Publishers on each shard.
fn publishers(net: &mut Net) -> Vec<Peer> {
    let names = net.names();
    names.iter().map(|names| net.join(&names[15], Ask::default())).collect()
}

/// What each peer got, its payloads.
fn payloads(net: &mut Net, peers: &[Peer]) -> Vec<Vec<String>> {
    let payload = |line: String| {
        line.starts_with("PUBLISH").then(|| line.rsplit(' ').next().unwrap().to_owned())
    };
    peers.iter().map(|&peer| net.read(peer).into_iter().filter_map(payload).collect()).collect()
}

fn counts(net: &mut Net, peers: &[Peer]) -> Vec<usize> {
    payloads(net, peers).iter().map(Vec::len).collect()
}

/// Nothing is left of any subscription on any shard.
fn assert_nothing_left(net: &Net) {
    for shard in &net.shards {
        let stats = shard.stats();
        assert_eq!((stats.filters, stats.interests, stats.awaited), (0, 0, 0), "{stats:?}");
    }
}

#[test]
fn members_on_all_shards_take_turns_whichever_shard_publishes() {
    for shards in [1, 2, 4] {
        let mut net = Net::new(shards);
        let members = members(&mut net, 7, Q0, Ask::default());
        for publ in publishers(&mut net) {
            for _ in 0..30 {
                net.publish(publ, "t/x", Q0, 0, "x");
            }
            net.deliver_mail();
            let counts = counts(&mut net, &members);
            assert_eq!(counts.iter().sum::<usize>(), 30);
            assert!(counts.iter().all(|count| (4..=5).contains(count)), "{shards} {counts:?}");
        }
    }
}

#[test]
fn random_members_all_get_some_and_nobody_all() {
    let mut net = with_strategy(2, ShareStrategy::Random);
    let members = members(&mut net, 4, Q0, Ask::default());
    let publ = publishers(&mut net)[0];
    (0..400).for_each(|_| net.publish(publ, "t", Q0, 0, "x"));
    net.deliver_mail();
    let counts = counts(&mut net, &members);
    assert_eq!(counts.iter().sum::<usize>(), 400);
    assert!(counts.iter().all(|count| (60..140).contains(count)), "{counts:?}");
}

#[test]
fn sticky_choices_are_the_same_on_every_shard() {
    let level = ShareStrategy::StickyLevel(2.try_into().unwrap());
    // Whether two messages that differ in publisher, level 2 or level 3 may part.
    for (strategy, by_publisher, by_second, by_third) in [
        (ShareStrategy::StickyClient, true, false, false),
        (level, false, true, false),
        (ShareStrategy::Hash, false, true, true),
    ] {
        let mut net = with_strategy(4, strategy);
        let members = members(&mut net, 8, Q0, Ask::default());
        let mut chosen: BTreeMap<String, usize> = BTreeMap::new();
        for (who, publ) in publishers(&mut net).into_iter().enumerate() {
            for (second, third) in (0..12).flat_map(|second| [(second, 0), (second, 1)]) {
                net.publish(publ, &format!("t/{second}/{third}"), Q0, 0, "x");
                net.deliver_mail();
                let counts = counts(&mut net, &members);
                assert_eq!(counts.iter().sum::<usize>(), 1);
                let member = counts.iter().position(|&count| count == 1).unwrap();
                let part = |is_part, value: usize| if is_part { value } else { 0 };
                let key = format!(
                    "{} {} {}",
                    part(by_publisher, who),
                    part(by_second, second),
                    part(by_third, third)
                );
                assert_eq!(*chosen.entry(key).or_insert(member), member, "{strategy:?}");
            }
        }
        let several: std::collections::BTreeSet<_> = chosen.values().collect();
        assert!(several.len() > 1, "{strategy:?} {chosen:?}");
    }
}

#[test]
fn an_absent_members_keys_go_to_the_others_and_come_back_with_it() {
    for shards in [1, 4] {
        let mut net = with_strategy(shards, ShareStrategy::Hash);
        let mut members = members(&mut net, 5, Q1, kept());
        let publ = publishers(&mut net)[0];
        let names = net.names();
        let choices = |net: &mut Net, members: &[Peer]| {
            (0..60).for_each(|topic| net.publish(publ, &format!("t/{topic}"), Q1, 1, "x"));
            net.deliver_mail();
            let mut choices = BTreeMap::new();
            for (at, &member) in members.iter().enumerate() {
                for line in net.read(member) {
                    let words: Vec<&str> = line.split(' ').collect();
                    assert_eq!(choices.insert(words[1].to_owned(), at), None);
                    let id = words[3].trim_start_matches('#').parse().unwrap();
                    net.ack(member, PacketKind::PubAck, id);
                }
            }
            net.read(publ);
            choices
        };
        let before = choices(&mut net, &members);
        assert_eq!(before.len(), 60);
        net.cut(members[3]);
        net.deliver_mail();
        let without = choices(&mut net, &members);
        assert_eq!(without.len(), 60);
        for (topic, &member) in &before {
            assert!(without[topic] == member || (member == 3 && without[topic] != 3), "{topic}");
        }
        let at = 3 % usize::from(shards);
        members[3] = net.join(&names[at][3 / usize::from(shards)], kept());
        net.deliver_mail();
        assert_eq!(choices(&mut net, &members), before);

        // Nobody is connected: the chosen ones queue.
        members.iter().for_each(|&member| net.cut(member));
        net.deliver_mail();
        (0..60).for_each(|topic| net.publish(publ, &format!("t/{topic}"), Q1, 1, "x"));
        net.deliver_mail();
        for at in 0..5 {
            let name = &names[at % usize::from(shards)][at / usize::from(shards)];
            let member = net.connect(name, kept());
            let got = net.read(member).len() - 1;
            assert_eq!(got, before.values().filter(|&&chosen| chosen == at).count());
        }
    }
}

#[test]
fn suback_of_a_member_waits_until_every_shard_knows_it() {
    let mut net = Net::new(3);
    let names = net.names();
    let member = net.join(&names[1][0], Ask::default());
    net.subscribe(member, "$share/g/t/#", Q0);
    net.deliver_between(1, 0);
    net.deliver_between(0, 1);
    assert_eq!(net.read(member), [""; 0]);
    net.deliver_mail();
    assert_eq!(net.read(member), ["SUBACK [0]"]);
    // A member more is news to the others, too.
    let second = net.join(&names[1][1], Ask::default());
    net.subscribe(second, "$share/g/t/#", Q0);
    assert_eq!(net.read(second), [""; 0]);
    net.deliver_mail();
    assert_eq!(net.read(second), ["SUBACK [0]"]);
}

#[test]
fn a_message_goes_to_another_shard_in_one_letter_whatever_it_is_for() {
    let mut net = Net::new(2);
    let names = net.names();
    let publ = net.join(&names[0][0], Ask::default());
    let peers: Vec<Peer> = (0..3).map(|at| net.join(&names[1][at], Ask::default())).collect();
    for (&peer, filter) in peers.iter().zip(["t/#", "$share/g/t/#", "$share/h/+"]) {
        net.subscribe(peer, filter, Q0);
    }
    net.deliver_mail();
    net.publish(publ, "t", Q0, 0, "x");
    assert_eq!(net.letters(0, 1), 1);
    net.deliver_mail();
    assert_eq!(payloads(&mut net, &peers), [["x"], ["x"], ["x"]]);
    // The plain subscriber is not served for the group's sake, nor the group for its.
    net.unsubscribe(peers[0], "t/#");
    net.deliver_mail();
    net.publish(publ, "t", Q0, 0, "y");
    net.deliver_mail();
    assert_eq!(payloads(&mut net, &peers), [vec![], vec!["y"], vec!["y"]]);
}

#[test]
fn who_left_while_the_mail_was_on_its_way_is_replaced() {
    for leave in [true, false] {
        let mut net = Net::new(3);
        let names = net.names();
        let publ = net.join(&names[0][0], Ask::default());
        let leaver = net.join(&names[1][0], Ask::default());
        net.subscribe(leaver, "$share/g/t", Q1);
        net.deliver_mail();
        net.publish(publ, "t", Q1, 1, "x");
        let stayer = net.join(&names[2][0], Ask::default());
        net.subscribe(stayer, "$share/g/t", Q1);
        while net.deliver_between(2, 1) {}
        if leave {
            net.unsubscribe(leaver, "$share/g/t");
        } else {
            net.cut(leaver);
        }
        net.deliver_mail();
        assert_eq!(payloads(&mut net, &[leaver, stayer]), [vec![], vec!["x"]]);
        assert_eq!(net.shards[1].stats().shared_rechosen, 1);
    }
}

#[test]
fn a_message_for_a_group_without_members_is_counted() {
    let mut net = Net::new(2);
    let names = net.names();
    let publ = net.join(&names[0][0], Ask::default());
    let leaver = net.join(&names[1][0], Ask::default());
    net.subscribe(leaver, "$share/g/t", Q1);
    net.deliver_mail();
    net.publish(publ, "t", Q1, 1, "x");
    net.disconnect(leaver, ReasonCode::Success);
    net.deliver_mail();
    assert_eq!(net.shards[1].stats().dropped_no_member, 1);
    assert_nothing_left(&net);
}

#[test]
fn a_remote_member_that_cannot_take_is_passed_over() {
    let mut net = Net::new(3);
    let names = net.names();
    let publ = net.join(&names[0][0], Ask::default());
    let full = net.join(&names[1][0], Ask { receive_maximum: 1, ..Ask::default() });
    let free = net.join(&names[2][0], Ask::default());
    for peer in [full, free] {
        net.subscribe(peer, "$share/g/t", Q1);
    }
    net.deliver_mail();
    (1..=10).for_each(|id| net.publish(publ, "t", Q1, id, "x"));
    net.deliver_mail();
    assert_eq!(counts(&mut net, &[full, free]), [1, 9]);
    // If nobody can, somebody queues it: no message travels on.
    net.set_stuck(free, 2 * 1024 * 1024);
    (11..=20).for_each(|id| net.publish(publ, "t", Q1, id, "x"));
    net.deliver_mail();
    assert_eq!(counts(&mut net, &[full, free]), [0, 0]);
    net.set_stuck(free, 0);
    net.drained(free);
    let free_got = counts(&mut net, &[free])[0];
    let mut full_got = 0;
    for id in 1..=12 {
        net.ack(full, PacketKind::PubAck, id);
        full_got += counts(&mut net, &[full])[0];
    }
    assert_eq!(free_got + full_got, 10);
}

/// A PUBLISH letter for this member of `$share/g/t`.
fn letter(member: u64, key: u64, hops: u8) -> Mail {
    let message = Message {
        topic: "t".into(),
        payload: b"x"[..].into(),
        properties: PropertiesBuf::new(),
        qos: Q1,
        retain: false,
        expires_at: None,
        stamp: None,
    };
    let picks = vec![GroupPick { share: "$share/g/t".into(), member, key, hops }];
    let (message, picks) = (Arc::new(message), picks.into());
    Mail::Publish { message, to_subscribers: false, picks, number: None, mailed: None }
}

fn joined(member: u64) -> Mail {
    Mail::Joined { share: "$share/g/t".into(), member, packet_bytes_max: Some(u32::MAX), number: 1 }
}

#[test]
fn a_message_travels_on_to_another_member_so_often_and_no_more() {
    let (gone, known) = (1, 7);
    for (hops, travels_on) in [(0, true), (63, true), (64, false)] {
        let mut net = Net::new(2);
        let (now, sink) = (net.now, &mut net.wires[0]);
        net.shards[0].mail(ShardId(1), joined(known), now, sink);
        sink.mail.clear();
        net.shards[0].mail(ShardId(1), letter(gone, 5, hops), now, sink);
        let expected = travels_on.then(|| (ShardId(1), letter(known, 5, hops + 1)));
        assert_eq!(Vec::from_iter(sink.mail.drain(..)), Vec::from_iter(expected));
        let stats = net.shards[0].stats();
        let counted = (stats.shared_rechosen, stats.dropped_no_member);
        assert_eq!(counted, if travels_on { (1, 0) } else { (0, 1) });
    }
}

#[test]
fn a_message_that_has_travelled_stays_unless_the_choice_is_sticky() {
    for (strategy, may_travel_again) in [
        (ShareStrategy::RoundRobin, false),
        (ShareStrategy::Random, false),
        (ShareStrategy::Hash, true),
    ] {
        let mut net = with_strategy(2, strategy);
        let here = net.join(&net.names()[0][0], Ask::default());
        net.subscribe(here, "$share/g/t", Q1);
        net.deliver_mail();
        let (now, sink) = (net.now, &mut net.wires[0]);
        net.shards[0].mail(ShardId(1), joined(7), now, sink);
        sink.mail.clear();
        for key in 0..64 {
            net.shards[0].mail(ShardId(1), letter(1, key, 1), now, sink);
        }
        let travelled = sink.mail.len();
        assert_eq!(counts(&mut net, &[here]), [64 - travelled]);
        assert_eq!((1..64).contains(&travelled), may_travel_again, "{strategy:?} {travelled}");
    }
}

#[test]
fn a_second_subscriber_waits_for_what_the_first_is_still_telling() {
    let mut net = Net::new(2);
    let names = net.names();
    let (one, two) = (net.join(&names[0][0], Ask::default()), net.join(&names[0][1], kept()));
    net.subscribe(one, "t", Q1);
    net.subscribe(two, "t", Q1);
    assert_eq!(net.read(two), [""; 0]);
    // A new connection of a key that was given again is not answered for the old one.
    net.cut(one);
    net.deliver_mail();
    assert_eq!(net.read(two), ["SUBACK [1]"]);
    assert_eq!(net.read(one), [""; 0]);
}

/// A step of the random tests.
#[derive(Clone, Debug)]
enum Step {
    Subscribe(usize, usize),
    Unsubscribe(usize, usize),
    Publish(usize, usize),
    Cut(usize),
    Mail(usize, usize),
}

const CLIENTS: usize = 8;
const FILTERS: [&str; 7] =
    ["a/b", "a/+", "#", "$share/g/a/b", "$share/g/a/+", "$share/h/#", "$share/s/a/b"];
const TOPICS: [&str; 3] = ["a/b", "a/c", "b"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..CLIENTS, 0..FILTERS.len()).prop_map(|(who, what)| Step::Subscribe(who, what)),
        2 => (0..CLIENTS, 0..FILTERS.len()).prop_map(|(who, what)| Step::Unsubscribe(who, what)),
        6 => (0..CLIENTS, 0..TOPICS.len()).prop_map(|(who, what)| Step::Publish(who, what)),
        1 => (0..CLIENTS).prop_map(Step::Cut),
        8 => (0..4_usize, 0..4_usize).prop_map(|(from, to)| Step::Mail(from, to)),
    ]
}

/// Clients that come back when they are cut, on a broker with a sticky and other groups.
struct World {
    net: Net,
    names: Vec<String>,
    peers: Vec<Peer>,
    /// Who subscribes to what, as the clients asked for it.
    subscribed: Vec<[bool; FILTERS.len()]>,
}

impl World {
    fn new(shards: u16) -> Self {
        let sticky = ShareRule { prefix: "s".into(), strategy: ShareStrategy::Hash };
        let random = ShareRule { prefix: "h".into(), strategy: ShareStrategy::Random };
        let share = SharePolicy { rules: vec![sticky, random] };
        let settings = weir_core::Settings { share, ..Default::default() };
        let mut net = Net::with_settings(shards, &settings);
        let names: Vec<String> = (0..CLIENTS).map(|client| format!("client{client}")).collect();
        let peers = names.iter().map(|name| net.join(name, Ask::default())).collect();
        Self { net, names, peers, subscribed: vec![[false; FILTERS.len()]; CLIENTS] }
    }

    /// Does a step; what is published says its number.
    fn take(&mut self, step: &Step, number: usize) {
        match *step {
            Step::Subscribe(who, what) => {
                self.net.subscribe(self.peers[who], FILTERS[what], Q0);
                self.subscribed[who][what] = true;
            }
            Step::Unsubscribe(who, what) => {
                self.net.unsubscribe(self.peers[who], FILTERS[what]);
                self.subscribed[who][what] = false;
            }
            Step::Publish(who, what) => {
                self.net.publish(self.peers[who], TOPICS[what], Q0, 0, &number.to_string());
            }
            Step::Cut(who) => {
                self.net.cut(self.peers[who]);
                self.peers[who] = self.net.join(&self.names[who], Ask::default());
                self.subscribed[who] = Default::default();
            }
            Step::Mail(from, to) => {
                let shards = self.net.shards.len();
                self.net.deliver_between(from % shards, to % shards);
            }
        }
    }

    /// What the clients should have got of a message if everybody knows everything: each client
    /// with a matching subscription of its own one, and each group one.
    fn expected(&self, topic: &str) -> (Vec<usize>, usize) {
        let matches =
            |filter: &str| weir_wire::topic::TopicFilter::parse(filter).unwrap().matches(topic);
        let is_for =
            |who: &usize, what: usize| self.subscribed[*who][what] && matches(FILTERS[what]);
        let plain = (0..CLIENTS).filter(|who| (0..3).any(|what| is_for(who, what))).collect();
        let groups =
            (3..FILTERS.len()).filter(|&what| (0..CLIENTS).any(|who| is_for(&who, what))).count();
        (plain, groups)
    }

    fn end(&mut self) {
        for who in 0..CLIENTS {
            self.net.cut(self.peers[who]);
        }
        self.net.deliver_mail();
        assert_nothing_left(&self.net);
    }
}

proptest! {
    /// All mail is delivered before a message is published: who gets it is exactly known.
    #[test]
    fn each_subscriber_and_each_group_gets_a_message_exactly_once(
        shards in prop::sample::select(vec![1_u16, 2, 3, 4]),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = World::new(shards);
        for (number, step) in steps.iter().enumerate() {
            if let Step::Publish(_, what) = *step {
                world.net.deliver_mail();
                let peers = world.peers.clone();
                payloads(&mut world.net, &peers);
                world.take(step, number);
                world.net.deliver_mail();
                let got = counts(&mut world.net, &peers);
                let (plain, groups) = world.expected(TOPICS[what]);
                prop_assert_eq!(got.iter().sum::<usize>(), plain.len() + groups);
                prop_assert!(plain.iter().all(|&who| got[who] >= 1), "{:?} {:?}", got, plain);
            } else {
                world.take(step, number);
            }
        }
        world.end();
    }

    /// Members come and go while mail is delayed in any way; one member of each group stays. Each
    /// message reaches each group exactly once, and nobody gets it twice from one.
    #[test]
    fn a_group_with_a_member_that_stays_gets_every_message_exactly_once(
        shards in prop::sample::select(vec![1_u16, 2, 3, 4]),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut world = World::new(shards);
        let stayer = world.net.join("stayer", Ask::default());
        let topics: [&[usize]; 4] = [&[0], &[0, 1], &[0, 1, 2], &[0]];
        for filter in &FILTERS[3..] {
            world.net.subscribe(stayer, filter, Q0);
        }
        world.net.deliver_mail();
        let mut expected = BTreeMap::new();
        let mut got: BTreeMap<String, usize> = BTreeMap::new();
        let mut read = |world: &mut World| {
            let mut peers = world.peers.clone();
            peers.push(stayer);
            for payload in payloads(&mut world.net, &peers).into_iter().flatten() {
                *got.entry(payload).or_insert(0) += 1;
            }
        };
        for (number, step) in steps.iter().enumerate() {
            match *step {
                // Shared ones only: the others are exactly known without delay only.
                Step::Subscribe(_, what) | Step::Unsubscribe(_, what) if what < 3 => continue,
                Step::Publish(_, what) => {
                    let groups = topics.iter().filter(|topics| topics.contains(&what)).count();
                    expected.insert(number.to_string(), groups);
                }
                Step::Cut(_) => read(&mut world),
                _ => {}
            }
            world.take(step, number);
        }
        world.net.deliver_mail();
        read(&mut world);
        prop_assert_eq!(got, expected);
        world.net.cut(stayer);
        world.end();
    }
}

#[test]
fn a_message_that_is_too_large_for_a_member_goes_to_one_that_takes_it() {
    let small = Ask { packet_bytes_max: 200, ..kept() };
    for strategy in [
        ShareStrategy::RoundRobin,
        ShareStrategy::Random,
        ShareStrategy::Hash,
        ShareStrategy::StickyClient,
    ] {
        for shards in [1, 3] {
            for qos in [Q0, Q1] {
                let mut net = with_strategy(shards, strategy);
                let narrow = members(&mut net, 4, qos, small);
                let names = net.names();
                let wide = net.join(&names[usize::from(shards) - 1][9], kept());
                net.subscribe(wide, "$share/g/t/#", qos);
                net.deliver_mail();
                net.read(wide);
                let publishers = publishers(&mut net);
                let payload = "x".repeat(200);
                for id in 1..=8 {
                    for &publisher in &publishers {
                        let topic = format!("t/{id}");
                        net.publish(publisher, &topic, qos, id, &payload);
                        net.deliver_mail();
                    }
                }
                let expected = 8 * publishers.len();
                assert_eq!(counts(&mut net, &[wide]), [expected], "{strategy:?} {shards} {qos:?}");
                assert_eq!(counts(&mut net, &narrow), [0; 4]);
                let dropped = |shard: &weir_core::Shard| shard.stats().dropped_too_large;
                assert_eq!(net.shards.iter().map(dropped).sum::<u64>(), 0);
            }
        }
    }
}

/// By the bytes that only a member's own shard knows of.
#[test]
fn a_message_is_too_large_by_its_head_as_well() {
    let packet_bytes = 2 + 2 + "t/1".len() + 2 + 1 + 100;
    for (packet_bytes_max, is_taken) in [(packet_bytes, true), (packet_bytes - 1, false)] {
        for strategy in [ShareStrategy::RoundRobin, ShareStrategy::Hash] {
            let mut net = with_strategy(2, strategy);
            let names = net.names();
            let ask = Ask { packet_bytes_max: packet_bytes_max as u32, ..kept() };
            let narrow = net.join(&names[1][0], ask);
            net.subscribe(narrow, "$share/g/t/#", Q1);
            net.deliver_mail();
            net.read(narrow);
            let publisher = net.join(&names[0][0], Ask::default());
            // One that is absent has it when it is back; else it is dropped.
            let absent = net.join(&names[1][1], kept());
            net.subscribe(absent, "$share/g/t/#", Q1);
            net.deliver_mail();
            net.cut(absent);
            net.deliver_mail();
            net.publish(publisher, "t/1", Q1, 1, &"x".repeat(100));
            net.deliver_mail();
            assert_eq!(net.read(publisher), ["PUBACK #1 Success"]);
            let absent = net.connect(&names[1][1], kept());
            let took = counts(&mut net, &[narrow, absent]);
            let expected = if is_taken { [1, 0] } else { [0, 1] };
            assert_eq!(took, expected, "{packet_bytes_max} {strategy:?}");
        }
    }
}
