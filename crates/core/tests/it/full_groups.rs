//! Shared subscriptions whose members have no room: what was acknowledged is delivered, however
//! the members were chosen.

use crate::net::{Ask, Net, Peer, message};
use weir_core::{Limits, Settings, SharePolicy, ShareRule, ShareStrategy, WhenAbsent};
use weir_core::{Stats, WhenConnected};
use weir_wire::packet::Publish;
use weir_wire::{PacketKind, QoS};

const Q1: QoS = QoS::AtLeastOnce;

const STRATEGIES: [ShareStrategy; 4] = [
    ShareStrategy::RoundRobin,
    ShareStrategy::Random,
    ShareStrategy::Hash,
    ShareStrategy::StickyClient,
];

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 1000, ..Ask::default() }
}

fn net(shards: u16, strategy: ShareStrategy, limits: Limits) -> Net {
    let rules = vec![ShareRule { prefix: "".into(), strategy }];
    let share = SharePolicy { rules };
    Net::with_settings(shards, &Settings { share, ..limits.into() })
}

fn refusing() -> Limits {
    Limits {
        queue_messages_max: 10,
        queue_full_connected: WhenConnected::RefusePublisher,
        queue_full_absent: WhenAbsent::RefusePublisher,
        ..Limits::default()
    }
}

/// Publishes so many messages on one of the topics each in turn. Says how many of each topic were
/// acknowledged with success.
fn taken(net: &mut Net, publ: Peer, topics: &[&str], count: u16) -> Vec<usize> {
    let mut taken = vec![0; topics.len()];
    for id in 1..=count {
        // Not in step with the members' turns.
        let at = usize::from(id / 3) % topics.len();
        net.publish(publ, topics[at], Q1, id, "x");
        net.deliver_mail();
        let answers = net.read(publ);
        assert_eq!(answers.len(), 1, "{answers:?}");
        taken[at] += usize::from(answers[0].ends_with("Success"));
    }
    taken
}

/// All that the sessions of these clients have, once they come back and take it. Says how many
/// messages of each topic.
fn got(net: &mut Net, clients: &[&str], topics: &[&str]) -> Vec<usize> {
    let mut got = vec![0; topics.len()];
    for client in clients {
        let peer = net.connect(client, kept());
        net.deliver_mail();
        for line in net.read(peer) {
            let mut words = line.split(' ');
            if words.next() == Some("PUBLISH") {
                let topic = words.next().unwrap();
                got[topics.iter().position(|it| *it == topic).unwrap()] += 1;
            }
        }
    }
    got
}

fn losses(net: &Net) -> u64 {
    let lost = |Stats { dropped_queue_full, queue_overflows, dropped_no_member, .. }| {
        dropped_queue_full + queue_overflows + dropped_no_member
    };
    net.shards.iter().map(|shard| lost(shard.stats())).sum()
}

/// The first member is full sooner, as it has a subscription of its own; or it has one to what its
/// groups share, so that a message takes several places in its queue.
#[test]
fn nothing_that_was_acknowledged_is_dropped_where_a_full_queue_refuses() {
    for (strategy, are_connected, own) in STRATEGIES
        .into_iter()
        .flat_map(|strategy| [(strategy, true), (strategy, false)])
        .flat_map(|(strategy, are_connected)| ["u", "t"].map(|own| (strategy, are_connected, own)))
    {
        let mut net = net(1, strategy, refusing());
        let publ = net.join("publ", Ask::default());
        let clients = ["one", "two", "three"];
        let ask = Ask { receive_maximum: 1, ..kept() };
        let members = clients.map(|client| net.join(client, ask));
        for member in members {
            net.subscribe(member, "$share/g/t", Q1);
            net.subscribe(member, "$share/h/#", Q1);
        }
        net.subscribe(members[0], own, Q1);
        if !are_connected {
            members.iter().for_each(|&member| net.cut(member));
        }
        let taken = taken(&mut net, publ, &["t", "u"], 100);
        assert!(taken.iter().all(|&count| count > 0), "{taken:?}");
        let case = format!("{strategy:?} {are_connected} {own} {taken:?}");
        assert_eq!(losses(&net), 0, "{case}");
        members.iter().for_each(|&member| net.cut(member));
        let mut expected = [taken[0] * 2, taken[1]];
        expected[usize::from(own == "u")] += taken[usize::from(own == "u")];
        assert_eq!(got(&mut net, &clients, &["t", "u"]), expected, "{case}");
    }
}

#[test]
fn a_member_with_room_is_chosen_before_one_without() {
    for strategy in [ShareStrategy::RoundRobin, ShareStrategy::Random] {
        for are_connected in [true, false] {
            let mut net = net(1, strategy, refusing());
            let publ = net.join("publ", Ask::default());
            let (full, free) = (net.join("full", kept()), net.join("free", kept()));
            net.subscribe(full, "$share/g/t", Q1);
            net.subscribe(free, "$share/g/t", Q1);
            net.subscribe(full, "u", Q1);
            for member in [full, free] {
                net.set_stuck(member, usize::MAX);
                if !are_connected {
                    net.cut(member);
                }
            }
            assert_eq!(taken(&mut net, publ, &["u"], 20), [10]);
            assert_eq!(taken(&mut net, publ, &["t"], 20), [10], "{strategy:?} {are_connected}");
            assert_eq!(losses(&net), 0);
        }
    }
    // An absent member with room takes what would be refused for one that is connected.
    let mut net = net(1, ShareStrategy::RoundRobin, refusing());
    let publ = net.join("publ", Ask::default());
    let (stuck, absent) = (net.join("stuck", kept()), net.join("absent", kept()));
    net.subscribe(stuck, "$share/g/t", Q1);
    net.subscribe(absent, "$share/g/t", Q1);
    net.set_stuck(stuck, usize::MAX);
    net.cut(absent);
    assert_eq!(taken(&mut net, publ, &["t"], 30), [20]);
    assert_eq!(losses(&net), 0);
}

#[test]
fn what_is_not_retained_after_its_members_were_chosen_goes_to_nobody() {
    let mut net =
        net(1, ShareStrategy::RoundRobin, Limits { retained_messages_max: 0, ..refusing() });
    let (publ, member) = (net.join("publ", Ask::default()), net.join("member", kept()));
    net.subscribe(member, "$share/g/#", Q1);
    net.read(member);
    net.publish_packet(publ, &Publish { retain: true, ..message("t", Q1, 1, "refused") });
    assert!(net.read(publ)[0].contains("Quota exceeded"));
    net.publish(publ, "u", Q1, 2, "x");
    assert_eq!(net.read(publ), ["PUBACK #2 Success"]);
    assert_eq!(net.read(member), ["PUBLISH u q1 #1 x"]);
}

/// Under pressure nothing waits: of several shards' members, one whose window is open gets it.
#[test]
fn under_pressure_nothing_that_was_acknowledged_is_dropped_on_another_shard() {
    for strategy in STRATEGIES {
        for shards in [2, 3] {
            let mut net = net(shards, strategy, Limits::default());
            let names = net.names();
            let publ = net.join(&names[0][0], Ask::default());
            let ask = Ask { receive_maximum: 2, ..kept() };
            let clients: Vec<&str> =
                (0..4).map(|at| &*names[1 + at % (names.len() - 1)][at + 1]).collect();
            let members: Vec<Peer> = clients.iter().map(|client| net.join(client, ask)).collect();
            for &member in &members {
                net.subscribe(member, "$share/g/#", Q1);
                net.subscribe(member, "$share/h/#", Q1);
            }
            net.subscribe(members[0], "t", Q1);
            net.deliver_mail();
            members.iter().for_each(|&member| drop(net.read(member)));
            net.shards.iter_mut().for_each(|shard| shard.set_pressed(true));
            let topics = ["t", "u", "v", "w"];
            let mut expected = taken(&mut net, publ, &topics, 40);
            // Whoever acknowledges takes more.
            net.ack(members[1], PacketKind::PubAck, 1);
            let more = taken(&mut net, publ, &topics, 40);
            let case = format!("{strategy:?} {shards} {expected:?} {more:?}");
            assert_eq!(losses(&net), 0, "{case}");
            let acked = expected.iter().chain(&more).sum::<usize>();
            assert!(acked > 0, "{case}");
            let mut got = 0;
            for &member in &members {
                got += net.read(member).iter().filter(|line| line.starts_with("PUBLISH")).count();
            }
            expected.iter_mut().zip(&more).for_each(|(count, more)| *count += more);
            let least = expected.iter().sum::<usize>() * 2 + expected[0];
            assert!(got >= least, "{case} {got} {least}");
        }
    }
}
