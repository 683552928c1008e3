//! No client takes what others need: one goes to each bound that all share, and beyond; then
//! another does what needs the same, and may.

use crate::filters::Toy;
use crate::net::{Ask, Net, Peer, message};
use weir_core::{Limits, Walk, walked_by};
use weir_wire::packet::{Publish, SubscribeBuf, SubscriptionOptions, Will};
use weir_wire::{PacketId, Properties, PropertiesBuf, Property, QoS, Version};

const Q0: QoS = QoS::AtMostOnce;
const Q1: QoS = QoS::AtLeastOnce;

/// A walk beyond a bound, with so many shards.
type Beyond = fn(u16);

/// Each bound that the core shares out, and who goes beyond it.
const WALKS: [(&str, Beyond); 7] = [
    ("process.memory_bytes_max", memory),
    ("limits.sessions_max", sessions),
    ("limits.retained_messages_max", retained_messages),
    ("limits.retained_bytes_max", retained_bytes),
    ("limits.conditions_max", conditions),
    ("limits.filter_shapes_total_max", shapes),
    ("limits.input_steps_max", steps),
];

#[test]
fn one_client_uses_up_nothing_that_others_need() {
    for (name, walk) in WALKS {
        for shards in [1, 4] {
            println!("{name}, {shards} shards");
            walk(shards);
        }
    }
    assert_eq!(WALKS.map(|(name, _)| name)[..], walked_by(Walk::Core));
}

fn kept() -> Ask<'static> {
    Ask { clean: false, expiry_s: 100, ..Ask::default() }
}

/// The answer to a retained message of QoS 1.
fn retain(net: &mut Net, peer: Peer, topic: &str, payload: &str) -> String {
    net.publish_packet(peer, &Publish { retain: true, ..message(topic, Q1, 1, payload) });
    net.go_on();
    net.read(peer).pop().unwrap()
}

fn subscribe(net: &mut Net, peer: Peer, filter: &str) -> String {
    net.subscribe(peer, filter, Q1);
    net.go_on();
    net.read(peer).pop().unwrap()
}

fn has_share(answer: &str) -> bool {
    let share = "Quota exceeded: this client, or its address, has its share of the retained store";
    answer.ends_with(share)
}

fn is_taken(answer: &str) -> bool {
    answer == "PUBACK #1 No matching subscribers"
}

fn sessions(shards: u16) {
    let limits = Limits { sessions_max: 80, ..Limits::default() };
    let mut net = Net::with_limits(shards, &limits);
    net.come_from(1);
    let mut refused = 0;
    for at in 0..2_000 {
        let peer = net.connect(&format!("greedy-{at}"), kept());
        net.go_on();
        match &net.read(peer)[..] {
            // It does not have to stay for its session to count.
            [answer] if answer == "CONNACK Success" => net.cut(peer),
            [answer, _] => {
                let why = "too many sessions of clients from this address";
                assert_eq!(*answer, format!("CONNACK Quota exceeded: {why}"));
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    let sessions = |net: &Net| net.shards.iter().map(|shard| shard.stats().sessions).sum::<u64>();
    assert_eq!((sessions(&net), refused), (60 * u64::from(shards), 2_000 - 60 * u64::from(shards)));
    // Whoever has a session may come back to it.
    let back = net.connect("greedy-0", kept());
    net.go_on();
    assert_eq!(net.read(back), ["CONNACK Success present"]);
    net.come_from(2);
    for at in 0..10 {
        net.join(&format!("other-{at}"), kept());
    }
    // A session that is over counts no more.
    net.come_from(1);
    let back = net.join("greedy-0", Ask::default());
    net.cut(back);
    let refused = |net: &Net| net.shards.iter().map(|shard| shard.stats().sessions_refused).sum();
    let before: u64 = refused(&net);
    net.join("greedy-0", kept());
    assert_eq!(refused(&net), before);
}

fn retained_messages(shards: u16) {
    let limits = Limits { retained_messages_max: 80, ..Limits::default() };
    let all_max = 60 * u64::from(shards);
    let retained = |net: &Net| net.shards.iter().map(|shard| shard.stats().retained).sum::<u64>();
    // By client identifier, and by address whatever the client identifiers are.
    for is_from_far in [false, true] {
        let mut net = Net::with_limits(shards, &limits);
        if is_from_far {
            net.come_from(1);
        }
        let mut peer = net.join("greedy", Ask::default());
        for at in 0..2_000 {
            if is_from_far && at % 10 == 0 {
                peer = net.join(&format!("greedy-{at}"), Ask::default());
            }
            let answer = retain(&mut net, peer, &format!("t/{at}"), "x");
            assert!(is_taken(&answer) || has_share(&answer), "{answer}");
        }
        assert_eq!(retained(&net), all_max);
        assert!(is_taken(&retain(&mut net, peer, "t/0", "y")), "its own may be replaced");
        if is_from_far {
            net.come_from(2);
        }
        let other = net.join("other", Ask::default());
        for at in 0..10 {
            assert!(is_taken(&retain(&mut net, other, &format!("o/{at}"), "x")));
        }
        // What is cleared is free, and what another replaces is the other's.
        assert!(is_taken(&retain(&mut net, peer, "t/0", "")));
        assert!(is_taken(&retain(&mut net, other, "t/1", "x")));
        assert_eq!(retained(&net), all_max + 9);
        assert!(is_taken(&retain(&mut net, peer, "t/0", "again")));
        assert!(is_taken(&retain(&mut net, peer, "t/1", "again")));
    }
}

fn retained_bytes(shards: u16) {
    let limits = Limits { retained_bytes_max: 100_000, ..Limits::default() };
    let mut net = Net::with_limits(shards, &limits);
    let (greedy, other) = (net.join("greedy", Ask::default()), net.join("other", Ask::default()));
    let payload = "x".repeat(9_990);
    let mut taken = 0;
    for at in 0..200 {
        let answer = retain(&mut net, greedy, &format!("t/{at:03}"), &payload);
        assert!(is_taken(&answer) || has_share(&answer), "{answer}");
        taken += u16::from(is_taken(&answer));
    }
    assert_eq!(taken, 7 * shards);
    for at in 0..2 {
        assert!(is_taken(&retain(&mut net, other, &format!("o/{at:03}"), &payload)));
    }
}

fn conditions(shards: u16) {
    let limits = Limits { conditions_max: 10, conditions_per_session_max: 7, ..Limits::default() };
    let mut net = Net::with_limits(shards, &limits);
    for shard in &mut net.shards {
        shard.set_conditions(Box::<Toy>::default());
    }
    // On one shard, whose conditions they share.
    let names = net.names();
    let greedy = net.join(&names[0][0], Ask::default());
    let other = net.join(&names[0][1], Ask::default());
    let with = |net: &mut Net, peer, at: usize| {
        let (mut filters, mut properties) = (SubscribeBuf::new(), PropertiesBuf::new());
        filters.push(&format!("t/{at}"), SubscriptionOptions::default());
        let condition = format!("has {at}");
        properties.push(Property::UserProperty("filter", &condition));
        let mut bytes = Vec::new();
        let subscribe = filters.subscribe(Version::V5, PacketId::FIRST, properties.as_properties());
        subscribe.encode(Version::V5, &mut bytes);
        net.send_bytes(peer, &bytes);
        net.go_on();
        net.read(peer).pop().unwrap()
    };
    let answers: Vec<String> = (0..20).map(|at| with(&mut net, greedy, at)).collect();
    assert!(answers[..7].iter().all(|answer| answer == "SUBACK [0]"), "{answers:?}");
    assert!(answers[7..].iter().all(|answer| answer.starts_with("SUBACK [151]")), "{answers:?}");
    assert_eq!(with(&mut net, other, 100), "SUBACK [0]");
    net.cut(greedy);
    net.cut(other);
    // With many client identifiers from one address.
    net.come_from(1);
    let greedy = [3, 4].map(|at| net.join(&names[0][at], Ask::default()));
    let answers: Vec<String> = (0..20).map(|at| with(&mut net, greedy[at % 2], at)).collect();
    assert!(answers[..7].iter().all(|answer| answer == "SUBACK [0]"), "{answers:?}");
    assert!(answers[7..].iter().all(|answer| answer.starts_with("SUBACK [151]")), "{answers:?}");
    net.come_from(2);
    let other = net.join(&names[0][5], Ask::default());
    assert_eq!(with(&mut net, other, 100), "SUBACK [0]");
    // Those of another address count no more when it is gone.
    greedy.into_iter().for_each(|greedy| net.cut(greedy));
    net.come_from(1);
    let again = net.join(&names[0][3], Ask::default());
    assert_eq!(with(&mut net, again, 0), "SUBACK [0]");
}

fn shapes(shards: u16) {
    let limits = Limits {
        filter_shapes_total_max: 40,
        filter_shapes_max: 10,
        topic_levels_max: 1_000,
        ..Limits::default()
    };
    let mut net = Net::with_limits(shards, &limits);
    let names = net.names();
    let refused = |net: &Net| net.shards[0].stats().shapes_refused;
    net.come_from(1);
    // Three of them are shallow, and the others have many levels.
    let filter = |at: usize| format!("{}+", "a/".repeat(at * 5));
    for at in 0..50 {
        if at % 10 == 0 {
            net.join(&names[0][at / 10], kept());
        }
        let peer = net.last_peer();
        let code = if at < 30 { 1 } else { 151 };
        assert_eq!(subscribe(&mut net, peer, &filter(at)), format!("SUBACK [{code}]"), "{at}");
    }
    assert_eq!(refused(&net), 20);
    let peer = net.last_peer();
    assert_eq!(subscribe(&mut net, peer, "b/b/b/b/b/+"), "SUBACK [1]", "a shape that is there");
    net.come_from(2);
    let other = net.join(&names[0][10], Ask::default());
    for at in 100..110 {
        assert_eq!(subscribe(&mut net, other, &filter(at)), "SUBACK [1]");
    }
    // A shape that nobody has any more counts for nobody.
    net.come_from(1);
    for name in &names[0][..3] {
        let peer = net.join(name, Ask::default());
        net.cut(peer);
    }
    let peer = net.join(&names[0][0], Ask::default());
    assert_eq!(subscribe(&mut net, peer, &filter(50)), "SUBACK [1]");
}

fn steps(shards: u16) {
    let mut net = Net::new(shards);
    let (greedy, other) = (net.join("greedy", Ask::default()), net.join("other", Ask::default()));
    let mut filters = SubscribeBuf::new();
    (0..2_000).for_each(|at| filters.push(&format!("t/{at}"), SubscriptionOptions::default()));
    let mut bytes = Vec::new();
    let subscribe = filters.subscribe(Version::V5, PacketId::FIRST, Properties::EMPTY);
    subscribe.encode(Version::V5, &mut bytes);
    net.send_bytes(greedy, &bytes);
    let mut turns = 0;
    while net.read(greedy).is_empty() {
        net.go_on_once();
        net.subscribe(other, &format!("o/{turns}"), Q0);
        net.deliver_mail();
        assert_eq!(net.read(other), ["SUBACK [0]"], "in turn {turns}");
        turns += 1;
    }
    assert!(turns > 5, "{turns}");
}

/// Nothing is refused to whoever has little, as long as it is only near the ceiling.
fn memory(shards: u16) {
    for greed in [queues, filters, wills, aliases, retained, sessions_of_one_address, output] {
        let mut net = Net::new(shards);
        greed(&mut net);
    }
}

fn set_lean(net: &mut Net) {
    net.shards.iter_mut().for_each(|shard| shard.set_lean(true));
}

fn queues(net: &mut Net) {
    // On the publisher's shard, the only one that can be asked.
    let names = net.names();
    let publ = net.join(&names[0][0], Ask::default());
    for (name, topic) in [(&names[0][1], "greedy"), (&names[0][2], "other")] {
        let absent = net.join(name, kept());
        subscribe(net, absent, topic);
        net.cut(absent);
    }
    let long = "x".repeat(100_000);
    let answer = |net: &mut Net, topic: &str, payload: &str| {
        net.publish(publ, topic, Q1, 1, payload);
        net.go_on();
        net.read(publ).pop().unwrap()
    };
    (0..3).for_each(|_| assert_eq!(answer(net, "greedy", &long), "PUBACK #1 Success"));
    set_lean(net);
    let much = "memory is about to be short, and a subscriber has much that waits";
    assert_eq!(answer(net, "greedy", "x"), format!("PUBACK #1 Quota exceeded: {much}"));
    assert_eq!(answer(net, "other", &long), "PUBACK #1 Success");
}

fn filters(net: &mut Net) {
    let (greedy, other) = (net.join("greedy", Ask::default()), net.join("other", Ask::default()));
    for at in 0..10 {
        let answer = subscribe(net, greedy, &format!("{at}/{}", "f".repeat(10_000)));
        assert_eq!(answer, "SUBACK [1]");
    }
    set_lean(net);
    assert_eq!(subscribe(net, greedy, "t"), "SUBACK [151]");
    assert_eq!(subscribe(net, other, "t"), "SUBACK [1]");
}

fn wills(net: &mut Net) {
    set_lean(net);
    let long = vec![b'w'; 5_000];
    let with = |payload| Will {
        topic: "will",
        payload,
        qos: Q0,
        retain: false,
        properties: Properties::EMPTY,
    };
    let greedy = net.connect("greedy", Ask { will: Some(with(&long)), ..Ask::default() });
    net.go_on();
    let why = "memory is about to be short, and the will is long";
    assert_eq!(net.read(greedy)[0], format!("CONNACK Quota exceeded: {why}"));
    net.join("other", Ask { will: Some(with(b"gone")), ..Ask::default() });
}

fn aliases(net: &mut Net) {
    let (greedy, other) = (net.join("greedy", Ask::default()), net.join("other", Ask::default()));
    set_lean(net);
    let alias = |net: &mut Net, peer, topic: &str| {
        let mut properties = PropertiesBuf::new();
        properties.push(Property::TopicAlias(1));
        let properties = properties.as_properties();
        net.publish_packet(peer, &Publish { properties, ..message(topic, Q1, 1, "x") });
        net.go_on();
        net.read(peer)[0].clone()
    };
    let ended = alias(net, greedy, &"t".repeat(1_000));
    assert!(ended.starts_with("DISCONNECT Quota exceeded"), "{ended}");
    assert!(is_taken(&alias(net, other, "t")));
}

fn retained(net: &mut Net) {
    let (greedy, other) = (net.join("greedy", Ask::default()), net.join("other", Ask::default()));
    let long = "x".repeat(100_000);
    for at in 0..100 {
        assert!(is_taken(&retain(net, greedy, &format!("t/{at}"), &long)));
    }
    assert!(is_taken(&retain(net, other, "o", "x")));
    set_lean(net);
    assert!(has_share(&retain(net, greedy, "t/more", &long)));
    assert!(is_taken(&retain(net, greedy, "t/0", "less")));
    for at in 0..100 {
        assert!(is_taken(&retain(net, other, &format!("o/{at}"), "x")));
    }
}

fn sessions_of_one_address(net: &mut Net) {
    net.come_from(1);
    for at in 0..10_000 {
        let peer = net.join(&format!("greedy-{at}"), kept());
        net.cut(peer);
    }
    set_lean(net);
    let greedy = net.connect("greedy", kept());
    net.go_on();
    assert!(net.read(greedy)[0].starts_with("CONNACK Quota exceeded"));
    net.come_from(2);
    for at in 0..100 {
        net.join(&format!("other-{at}"), kept());
    }
}

fn output(net: &mut Net) {
    let names = net.names();
    let publ = net.join(&names[0][0], Ask::default());
    let peers = [net.join(&names[0][1], Ask::default()), net.join(&names[0][2], Ask::default())];
    for peer in peers {
        subscribe(net, peer, "t");
    }
    set_lean(net);
    let [greedy, other] = peers;
    net.set_stuck(greedy, 300_000);
    net.set_stuck(other, 100_000);
    net.publish(publ, "t", Q0, 0, "x");
    assert_eq!((net.read(greedy), net.read(other).len()), (Vec::new(), 1));
    assert_eq!(net.shards[0].stats().dropped_output_full, 1);
}
