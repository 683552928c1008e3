//! Partitions move between shards: what they hold comes along, and nobody notices.

use crate::net::{Ask, Net, Peer, message};
use weir_core::{
    Features, Grant, Limits, Micros, NotMoved, OwnRights, OwnRules, Settings, Terms, Verdict,
};
use weir_wire::packet::{Publish, Will};
use weir_wire::{PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 1000, ..Ask::default() }
}

fn will(topic: &'static str) -> Will<'static> {
    Will { topic, payload: b"gone", qos: Q1, retain: false, properties: Properties::EMPTY }
}

/// Two shards, with a client of each: identifiers too.
fn pair(ask: Ask<'_>) -> (Net, [String; 2], [Peer; 2]) {
    let mut net = Net::new(2);
    let names = net.names();
    let ids = [names[0][0].clone(), names[1][0].clone()];
    let publ = net.join(&ids[0], Ask::default());
    let sub = net.join(&ids[1], ask);
    (net, ids, [publ, sub])
}

fn publish(net: &mut Net, peer: Peer, topic: &str, id: u16, payload: &str) {
    net.publish(peer, topic, Q1, id, payload);
    net.go_on();
}

#[test]
fn an_absent_session_moves_with_queue_and_deadlines() {
    let ask = Ask { expiry_s: 100, will: Some(will("w")), ..kept() };
    let (mut net, ids, [publ, sub]) = pair(ask);
    net.subscribe(publ, "w", Q1);
    net.subscribe(sub, "t/#", Q1);
    net.go_on();
    net.disconnect(sub, ReasonCode::Success);
    publish(&mut net, publ, "t/1", 1, "before");
    net.move_name(&ids[1], 0);
    assert_eq!([net.shards[0].stats().sessions, net.shards[1].stats().sessions], [2, 0]);
    assert_eq!(net.shards[1].stats().interests, 2, "what the other shard wants");
    publish(&mut net, publ, "t/2", 2, "after");
    net.pass(50);
    let sub = net.connect(&ids[1], Ask { expiry_s: 100, ..kept() });
    assert_eq!(net.shard_of(sub), 0);
    let lines = net.read(sub);
    assert!(lines[0].starts_with("CONNACK Success present"), "{lines:?}");
    assert_eq!(lines[1..], ["PUBLISH t/1 q1 #1 before", "PUBLISH t/2 q1 #2 after"]);
    net.cut(sub);
    net.move_name(&ids[1], 1);
    net.pass(101);
    assert_eq!(net.shards[1].stats().sessions, 0, "its time is over there as well");
    net.go_on();
    assert_eq!(net.shards[0].stats().filters, 1);
}

#[test]
fn a_member_of_a_group_moves_and_gets_its_share() {
    let (mut net, ids, [publ, sub]) = pair(kept());
    let other = net.join("other", Ask::default());
    for peer in [sub, other] {
        net.subscribe(peer, "$share/g/t", Q1);
    }
    net.go_on();
    net.move_name(&ids[1], 0);
    net.read(sub);
    for id in 1..=4 {
        publish(&mut net, publ, "t", id, "x");
    }
    let got = |lines: Vec<String>| lines.iter().filter(|line| line.starts_with("PUBLISH")).count();
    assert_eq!(got(net.read(sub)), 2);
    net.cut(sub);
    net.move_name(&ids[1], 1);
    for id in 5..=8 {
        publish(&mut net, publ, "t", id, "x");
    }
    net.read(publ);
    assert_eq!(got(net.read(other)), 2 + 4, "the other is absent");
}

#[test]
fn a_connected_session_moves_with_what_is_in_flight() {
    let aliases = [Property::TopicAliasMaximum(5)];
    let ask = Ask { receive_maximum: 2, will: Some(will("w")), properties: &aliases, ..kept() };
    let (mut net, ids, [publ, sub]) = pair(ask);
    net.subscribe(publ, "w", Q1);
    net.subscribe(sub, "long/topic", Q2);
    net.go_on();
    // Of its own: a message of QoS 2 that it has not released, and an alias.
    let mut properties = PropertiesBuf::new();
    properties.push(Property::TopicAlias(3));
    let aliased = Publish { properties: properties.as_properties(), ..message("w", Q2, 7, "mine") };
    net.publish_packet(sub, &aliased);
    for (id, text) in [(1, "one"), (2, "two"), (3, "three")] {
        net.publish(publ, "long/topic", Q2, id, text);
        net.go_on();
    }
    net.ack(sub, PacketKind::PubRec, 1);
    net.read(publ);
    let lines = net.read(sub);
    assert_eq!(lines[1], "PUBLISH long/topic q2 #1 TopicAlias(1) one");
    assert_eq!(lines[2..4], ["PUBREC #7 Success", "PUBLISH  q2 #2 TopicAlias(1) two"]);
    net.move_name(&ids[1], 0);
    assert_eq!((net.shard_of(sub), net.read(sub)), (0, Vec::<String>::new()), "not a word");
    // The half that was open goes on.
    net.ack(sub, PacketKind::PubComp, 1);
    assert_eq!(net.read(sub), ["PUBLISH  q2 #3 TopicAlias(1) three"]);
    net.publish_packet(sub, &Publish { dup: true, ..message("w", Q2, 7, "mine") });
    net.ack(sub, PacketKind::PubRel, 7);
    let again = Publish { properties: properties.as_properties(), ..message("", Q1, 8, "alias") };
    net.publish_packet(sub, &again);
    net.go_on();
    let lines = net.read(sub);
    assert_eq!(lines, ["PUBREC #7 Success", "PUBCOMP #7 Success", "PUBACK #8 Success"]);
    assert_eq!(net.read(publ), ["PUBLISH w q1 #2 alias"], "and not the repeated one");
    net.cut(sub);
    net.go_on();
    assert_eq!(net.read(publ), ["PUBLISH w q1 #3 gone"]);
}

#[test]
fn a_connection_that_is_lost_on_its_way_ended_there() {
    let (mut net, ids, [publ, sub]) = pair(Ask { will: Some(will("w")), ..kept() });
    net.subscribe(publ, "w", Q1);
    net.go_on();
    net.read(publ);
    net.begin_move(&ids[1], 0).unwrap();
    while net.wires[1].parcels.is_empty() {
        net.go_on_once();
        net.deliver_between(0, 1);
        net.deliver_between(1, 0);
    }
    net.lose(sub);
    net.go_on();
    assert_eq!(net.read(publ), ["PUBLISH w q1 #1 gone"]);
    let sub = net.connect(&ids[1], kept());
    let lines = net.read(sub);
    assert!(lines[0].starts_with("CONNACK Success present"), "{lines:?}");
}

#[test]
fn input_waits_for_the_thaw_and_nobody_is_judged_by_it() {
    let (mut net, ids, [publ, sub]) = pair(Ask { keep_alive_s: 10, ..kept() });
    net.subscribe(publ, "w", Q1);
    net.go_on();
    net.read(publ);
    let idle = net.join("idle", Ask { keep_alive_s: 10, will: Some(will("w")), ..Ask::default() });
    net.begin_move(&ids[1], 0).unwrap();
    net.publish(publ, "t", Q1, 1, "held");
    assert_eq!((net.left(publ) > 0, net.read(publ).len()), (true, 0));
    net.deliver_between(0, 1);
    net.pass(30);
    assert_eq!(net.read(sub), Vec::<String>::new());
    net.cut(idle);
    assert_eq!(net.read(publ).len(), 0, "its will waits");
    net.go_on();
    let lines = net.read(publ);
    assert!(lines.contains(&"PUBLISH w q1 #1 gone".to_owned()), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("PUBACK #1")), "{lines:?}");
    assert_eq!(net.left(publ), 0);
    net.pass(30);
    assert!(net.read(sub).contains(&"closed".to_owned()), "time counts again");
}

#[test]
fn one_partition_moves_at_a_time() {
    let (mut net, ids, _) = pair(kept());
    let there = net.shards[1].partitions().count();
    assert_eq!(net.begin_move(&ids[1], 2), Err(NotMoved::UnknownShard));
    assert_eq!(net.begin_move(&ids[1], 1), Err(NotMoved::IsThere));
    assert_eq!(net.begin_move(&ids[1], 0), Ok(()));
    assert_eq!(net.begin_move(&ids[0], 1), Err(NotMoved::UnderWay));
    net.go_on();
    assert_eq!(net.begin_move(&ids[1], 0), Err(NotMoved::IsThere));
    let held: Vec<_> = net.shards.iter().map(|shard| shard.partitions().count()).collect();
    assert_eq!(held, [256 - there + 1, there - 1]);
    assert!(net.wires[0].notices.iter().any(|notice| notice.starts_with("Moved")));
}

/// Nothing comes twice and nothing is left out, wherever the replay stands.
#[test]
fn a_replay_under_way_follows_the_topics() {
    for taken in 0..12 {
        for shard in 0..3 {
            let mut net = Net::new(3);
            let publ = net.join("p", Ask::default());
            for number in 0..12 {
                let topic = format!("r/{number:02}");
                net.publish_packet(publ, &Publish { retain: true, ..message(&topic, Q1, 1, "x") });
                net.go_on();
            }
            let names = net.names();
            let sub = net.join(&names[shard][0], Ask { receive_maximum: 1, ..kept() });
            net.subscribe(sub, "r/+", Q1);
            net.go_on();
            let mut got = Vec::new();
            for turn in 1..40_u16 {
                let lines = net.read(sub).into_iter();
                got.extend(lines.filter(|line| line.starts_with("PUBLISH")));
                if got.len() == taken {
                    // Topics, and at last the subscriber itself.
                    for number in 0..12 {
                        let to = usize::from(turn) % 2 + usize::from(number % 2 == 0);
                        let _ = net.begin_move(&format!("r/{number:02}"), to);
                        net.go_on();
                    }
                    let _ = net.begin_move(&names[shard][0], (shard + 1) % 3);
                    net.go_on();
                }
                net.ack(sub, PacketKind::PubAck, turn);
                net.go_on();
            }
            let mut topics: Vec<_> = got.iter().map(|line| &line[8..12]).collect();
            topics.sort_unstable();
            let all: Vec<_> = (0..12).map(|number| format!("r/{number:02}")).collect();
            assert_eq!(topics, all, "moved after {taken}, on shard {shard}");
            let kept: u64 = net.shards.iter().map(|shard| shard.stats().retained).sum();
            assert_eq!(kept, 12);
        }
    }
}

#[test]
fn retained_messages_are_kept_whatever_room_there_is() {
    let limits = Limits { retained_messages_max: 1, ..Limits::default() };
    let mut net = Net::with_limits(2, &limits);
    let names = net.names();
    let publ = net.join(&names[0][0], Ask::default());
    for name in [&names[0][1], &names[1][1]] {
        net.publish_packet(publ, &Publish { retain: true, ..message(name, Q1, 1, "x") });
        net.go_on();
    }
    net.move_name(&names[1][1], 0);
    assert_eq!([net.shards[0].stats().retained, net.shards[1].stats().retained], [2, 0]);
    let cleared = Publish { retain: true, ..message(&names[1][1], Q0, 0, "") };
    net.publish_packet(publ, &cleared);
    assert_eq!(net.shards[0].stats().retained, 1);
}

fn with_authentication() -> (Net, Vec<Vec<String>>) {
    let features = Features { authentication: true, ..Features::default() };
    let names = Net::new(2).names();
    (Net::with_settings(2, &Settings { features, ..Settings::default() }), names)
}

#[test]
fn who_is_let_in_after_the_move_is_let_in_where_the_session_is() {
    let (mut net, names) = with_authentication();
    let early = net.connect(&names[1][0], kept());
    net.begin_move(&names[1][0], 0).unwrap();
    net.deliver_between(0, 1);
    net.authenticated(early, Verdict::Accept(Vec::new()));
    assert_eq!(net.read(early), Vec::<String>::new(), "not yet");
    net.go_on();
    assert_eq!((net.shard_of(early), net.read(early)), (0, vec!["CONNACK Success".into()]));
    let late = net.connect(&names[1][1], kept());
    net.move_name(&names[1][1], 0);
    net.authenticated(late, Verdict::Accept(Vec::new()));
    net.go_on();
    assert_eq!((net.shard_of(late), net.read(late)), (0, vec!["CONNACK Success".into()]));
    assert_eq!(net.shards[1].stats().sessions, 0);
}

/// What it may do, and how long, goes along.
#[test]
fn who_is_vouched_for_is_so_where_the_session_goes() {
    let (mut net, names) = with_authentication();
    net.shards.iter_mut().for_each(weir_core::Shard::know_users);
    let rules = OwnRules::new([(Grant::Write, "a")]).unwrap();
    let until = Some(net.now + Micros::from_secs(10));
    let terms = Terms { rights: OwnRights::Rules(rules), until, ..Terms::default() };
    let peer = net.connect(&names[1][0], kept());
    net.authenticated(peer, Verdict::AcceptOn(Box::new(terms)));
    net.go_on();
    net.read(peer);
    net.move_name(&names[1][0], 0);
    assert_eq!(net.shard_of(peer), 0);
    net.publish(peer, "a", Q1, 1, "");
    net.publish(peer, "b", Q1, 2, "");
    let lines = net.read(peer);
    assert!(lines[0].starts_with("PUBACK #1") && !lines[0].contains("authorized"), "{lines:?}");
    assert!(lines[1].starts_with("PUBACK #2 Not authorized"), "{lines:?}");
    net.pass(10);
    assert!(net.read(peer)[0].starts_with("DISCONNECT Maximum connect time"));
}

#[test]
fn who_authenticates_again_meanwhile_comes_again() {
    let (mut net, names) = with_authentication();
    let method = [Property::AuthenticationMethod("m")];
    let peer = net.connect(&names[1][0], Ask { properties: &method, ..kept() });
    net.authenticated(peer, Verdict::Accept(Vec::new()));
    net.read(peer);
    net.auth(peer, ReasonCode::ReAuthenticate, "m", "again");
    net.move_name(&names[1][0], 0);
    assert_eq!(net.read(peer), ["DISCONNECT Server busy: its session moves", "closed"]);
    assert_eq!(net.shards[0].stats().sessions, 1);
}
