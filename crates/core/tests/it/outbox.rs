//! What is between two shards when all of them are gone.

use crate::net::{Ask, Net, Peer, message};
use crate::rebuild::{DURABLE, finish, rebuild};
use weir_core::{Limits, Partitions, Rebuild, ShardId, Undelivered};
use weir_wire::packet::{Publish, SubscribeBuf, SubscriptionOptions};
use weir_wire::{PacketId, Properties, PropertiesBuf, Property, QoS, Version};

/// Two shards whose logs have begun: a durable publisher on the first, a durable subscriber on the
/// second.
struct Pair {
    net: Net,
    publisher: Peer,
}

fn begun(shards: u16) -> Net {
    let mut net = Net::with_logs(shards, &Limits::default());
    each(&mut net, |net, at| net.shards[at].begin_base(net.now, &mut net.wires[at]));
    each(&mut net, |net, at| net.shards[at].end_base(net.now, &mut net.wires[at]));
    net
}

fn each(net: &mut Net, mut say: impl FnMut(&mut Net, usize)) {
    for at in 0..net.shards.len() {
        say(net, at);
        net.go_on();
        net.commit(at);
        net.go_on();
    }
}

impl Pair {
    fn new() -> Self {
        let mut net = begun(2);
        let names = net.names();
        let publisher = net.join(&names[0][0], DURABLE);
        let subscriber = net.join(&names[1][0], DURABLE);
        net.subscribe(subscriber, "t", QoS::ExactlyOnce);
        net.go_on();
        net.commit(0);
        net.commit(1);
        net.cut(subscriber);
        net.commit(1);
        Self { net, publisher }
    }

    fn publish(&mut self, id: u16, payload: &str) {
        self.net.publish(self.publisher, "t", QoS::ExactlyOnce, id, payload);
        self.net.go_on();
    }

    /// All is gone but so many records of each log; so many shards come after. Returns what the
    /// subscriber gets then.
    fn crash(&self, lengths: [usize; 2], shards: u16) -> Vec<String> {
        let logs = [0, 1].map(|at| &self.net.wires[at].log[..lengths[at]]);
        let rebuilt: Vec<(ShardId, Rebuild)> = (0..)
            .map(ShardId)
            .zip(logs)
            .map(|(shard, log)| (shard, rebuild(log, &[]).unwrap()))
            .collect();
        let now = self.net.now;
        let late = Undelivered::of(&rebuilt, now);
        let mut net = Net::with_logs(shards, &Limits::default());
        net.now = now;
        let partitions = Partitions::spread(shards, crate::net::SEED);
        each(&mut net, |net, at| net.shards[at].begin_base(now, &mut net.wires[at]));
        for parcel in rebuilt.into_iter().flat_map(|(_, rebuild)| finish(rebuild, now)) {
            let owner = usize::from(partitions.owner(parcel.name().unwrap()).0);
            net.shards[owner].restored(parcel, now, &mut net.wires[owner]);
            net.go_on();
        }
        for late in &late {
            each(&mut net, |net, at| {
                net.shards[at].redelivered(late, at == 0, now, &mut net.wires[at]);
            });
        }
        each(&mut net, |net, at| net.shards[at].end_base(now, &mut net.wires[at]));
        let back = net.connect(&self.net.names()[1][0], DURABLE);
        for _ in 0..3 {
            net.go_on();
            each(&mut net, |_, _| ());
        }
        net.read(back)[1..].to_vec()
    }
}

#[test]
fn a_message_that_is_only_in_its_senders_log_is_delivered_after_a_crash() {
    let mut pair = Pair::new();
    let before = pair.net.wires[1].log.len();
    pair.publish(1, "a");
    pair.net.commit(0);
    pair.net.go_on();
    let lengths = [0, 1].map(|at| pair.net.wires[at].log.len());
    assert!(lengths[1] > before, "the other shard has it in its log");
    for shards in [1, 2, 3] {
        assert_eq!(pair.crash([lengths[0], before], shards), ["PUBLISH t q2 #1 a"]);
        // The mark is in the commit of the message.
        assert_eq!(pair.crash(lengths, shards), ["PUBLISH t q2 #1 a"]);
    }
}

#[test]
fn a_base_carries_what_is_between_shards() {
    let mut pair = Pair::new();
    let before = pair.net.wires[1].log.len();
    pair.publish(1, "a");
    pair.net.commit(0);
    pair.net.go_on();
    for at in [0, 1] {
        let net = &mut pair.net;
        net.shards[at].begin_base(net.now, &mut net.wires[at]);
        for _ in 0..4 {
            net.go_on();
            // The sender is not told that the other shard has it.
            let last = net.wires[at].log.last().unwrap().0;
            net.shards[at].committed(last, net.now, &mut net.wires[at]);
            net.wires[at].mail.clear();
        }
        assert!(!net.shards[at].is_basing());
    }
    let lengths = [0, 1].map(|at| pair.net.wires[at].log.len());
    assert_eq!(pair.crash([lengths[0], before], 2), ["PUBLISH t q2 #1 a"]);
    assert_eq!(pair.crash(lengths, 2), ["PUBLISH t q2 #1 a"]);
}

#[test]
fn what_is_late_comes_in_the_order_of_its_sending() {
    let mut pair = Pair::new();
    let before = pair.net.wires[1].log.len();
    for (id, payload) in [(1, "a"), (2, "b"), (3, "c")] {
        pair.publish(id, payload);
    }
    pair.net.commit(0);
    pair.net.go_on();
    let length = pair.net.wires[0].log.len();
    let lines = ["PUBLISH t q2 #1 a", "PUBLISH t q2 #2 b", "PUBLISH t q2 #3 c"];
    assert_eq!(pair.crash([length, before], 2), lines);
}

#[test]
fn a_subscribe_is_answered_when_letters_have_left_that_stand_before_any_of_its_filters() {
    let mut pair = Pair::new();
    let name = pair.net.names()[1][1].clone();
    let peer = pair.net.join(&name, Ask::default());
    // Its letter waits for the log.
    pair.publish(1, "a");
    let mut filters = SubscribeBuf::new();
    for filter in ["u", "$share/g/v"] {
        filters.push(filter, SubscriptionOptions::default());
    }
    let mut bytes = Vec::new();
    let packet_id = PacketId::new(999).unwrap();
    filters.subscribe(Version::V5, packet_id, Properties::EMPTY).encode(Version::V5, &mut bytes);
    pair.net.send_bytes(peer, &bytes);
    pair.net.go_on();
    assert_eq!(pair.net.read(peer), [""; 0]);
    pair.net.commit(0);
    pair.net.go_on();
    assert_eq!(pair.net.read(peer), ["SUBACK [0, 0]"]);
}

/// A topic that a shard keeps the retained message of.
fn topic_of(shard: u16) -> String {
    let partitions = Partitions::spread(2, crate::net::SEED);
    (0..).map(|n| format!("r{n}")).find(|topic| partitions.owner(topic).0 == shard).unwrap()
}

fn retained<'a>(topic: &'a str, qos: QoS, id: u16, payload: &'a str) -> Publish<'a> {
    Publish { retain: true, ..message(topic, qos, id, payload) }
}

#[test]
fn what_is_retained_while_a_subscription_waits_for_letters_comes_once() {
    let Pair { mut net, publisher } = Pair::new();
    let (name, topic) = (net.names()[1][1].clone(), topic_of(0));
    let peer = net.join(&name, Ask::default());
    net.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    let first = net.wires[0].log.last().unwrap().0;
    // It is noted on the other shard, and stands behind the first letter.
    net.subscribe(peer, &topic, QoS::ExactlyOnce);
    net.go_on();
    net.publish_packet(publisher, &retained(&topic, QoS::ExactlyOnce, 2, "b"));
    net.commit_to(0, first);
    net.go_on();
    assert_eq!(net.read(peer), ["SUBACK [2]"]);
    net.commit(0);
    net.go_on();
    assert_eq!(net.read(peer), [format!("PUBLISH {topic} q2 #1 b")]);
}

#[test]
fn retained_messages_leave_in_their_order_whoever_waits() {
    let Pair { mut net, publisher } = Pair::new();
    let names = net.names();
    let (topic, other) = (topic_of(0), topic_of(1));
    let reader = net.join(&names[1][1], Ask::default());
    for filter in [&topic, &other] {
        net.subscribe(reader, filter, QoS::AtMostOnce);
        net.go_on();
    }
    net.read(reader);
    let will = weir_wire::packet::Will {
        topic: &other,
        payload: b"c",
        qos: QoS::AtMostOnce,
        retain: true,
        properties: Properties::EMPTY,
    };
    let clean = net.join(&names[0][1], Ask { will: Some(will), ..Ask::default() });
    net.publish_packet(publisher, &retained(&topic, QoS::ExactlyOnce, 1, "a"));
    net.publish_packet(clean, &retained(&topic, QoS::AtMostOnce, 0, "b"));
    net.publish_packet(clean, &message(&topic, QoS::AtMostOnce, 0, "b again"));
    net.cut(clean);
    net.go_on();
    assert_eq!(net.read(reader), [""; 0]);
    net.commit(0);
    net.go_on();
    let lines = [format!("{topic} q0 a"), format!("{topic} q0 b"), format!("{topic} q0 b again")];
    let lines = lines.map(|line| format!("PUBLISH {line}"));
    let got = net.read(reader);
    assert_eq!(got[..3], lines);
    assert_eq!(got[3..], [format!("PUBLISH {other} q0 c")]);
}

#[test]
fn a_publisher_waits_for_the_member_that_is_chosen_in_the_place_of_one_that_left() {
    let mut net = begun(3);
    let names = net.names();
    let publisher = net.join(&names[0][0], DURABLE);
    let members = [1, 2].map(|shard| {
        let member = net.join(&names[shard][0], Ask::default());
        net.subscribe(member, "$share/g/t", QoS::ExactlyOnce);
        net.go_on();
        assert_eq!(net.read(member), ["SUBACK [2]"]);
        member
    });
    net.publish(publisher, "t", QoS::ExactlyOnce, 1, "a");
    net.commit(0);
    // Its letter is on its way to one of the two, who leaves.
    let chosen = [1, 2].into_iter().find(|&shard| net.letters(0, shard) > 0).unwrap();
    net.unsubscribe(members[chosen - 1], "$share/g/t");
    net.go_on();
    assert_eq!(net.read(publisher), [""; 0]);
    net.commit(chosen);
    net.go_on();
    assert_eq!(net.read(members[2 - chosen]), ["PUBLISH t q2 #1 a"]);
    net.commit(0);
    net.go_on();
    assert_eq!(net.read(publisher), ["PUBREC #1 Success"]);
}

#[test]
fn a_message_that_expires_while_its_letter_waits_for_the_log_does_not_come() {
    let mut pair = Pair::new();
    let mut properties = PropertiesBuf::new();
    properties.push(Property::MessageExpiryInterval(1));
    let publish =
        Publish { properties: properties.as_properties(), ..message("t", QoS::ExactlyOnce, 1, "") };
    pair.net.publish_packet(pair.publisher, &publish);
    pair.net.go_on();
    pair.net.pass(2);
    pair.net.commit(0);
    pair.net.go_on();
    pair.net.commit(1);
    pair.net.go_on();
    pair.net.commit(0);
    assert_eq!(pair.net.read(pair.publisher), ["PUBREC #1 Success"]);
    assert_eq!(pair.net.shards[1].stats().dropped_expired, 1);
}
