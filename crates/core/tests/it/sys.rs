//! What the broker says of itself below `$SYS`.

use crate::net::{Ask, Net, message};
use crate::rebuild::begun;
use weir_core::{Limits, NotPublished};
use weir_wire::packet::Publish;
use weir_wire::{QoS, ReasonCode};

const UPTIME: &str = "$SYS/broker/uptime";

fn say(net: &mut Net, shard: usize, topic: &str, payload: &str) -> Result<(), NotPublished> {
    let message = (topic, payload.as_bytes());
    let said = net.shards[shard].publish_sys(message, true, net.now, &mut net.wires[shard]);
    net.deliver_mail();
    said
}

#[test]
fn it_is_told_on_every_shard_and_kept_for_whoever_comes_later() {
    let mut net = Net::new(3);
    let readers: Vec<_> = (0..6).map(|at| net.join(&format!("r{at}"), Ask::default())).collect();
    for &peer in &readers {
        net.subscribe(peer, "$SYS/#", QoS::AtLeastOnce);
        net.subscribe(peer, "#", QoS::AtLeastOnce);
        net.deliver_mail();
        net.read(peer);
    }
    assert_eq!(say(&mut net, 1, UPTIME, "7 seconds"), Ok(()));
    for peer in readers {
        assert_eq!(net.read(peer), [format!("PUBLISH {UPTIME} q0 7 seconds")]);
    }
    let late = net.join("late", Ask::default());
    net.subscribe(late, "$SYS/broker/+", QoS::AtLeastOnce);
    net.deliver_mail();
    let read = net.read(late);
    assert!(read.contains(&format!("PUBLISH {UPTIME} q0 retain 7 seconds")), "{read:?}");
}

#[test]
fn it_counts_against_no_bound_and_is_in_no_log() {
    let limits = Limits { retained_messages_max: 1, ..Limits::default() };
    let mut net = begun(&limits);
    let empty = net.wires[0].log.len();
    for topic in [UPTIME, "$SYS/broker/version", UPTIME] {
        assert_eq!(say(&mut net, 0, topic, "x"), Ok(()));
    }
    assert_eq!(net.wires[0].log.len(), empty);
    assert_eq!(net.shards[0].stats().retained, 0);
    let publ = net.join("p", Ask::default());
    net.commit(0);
    for (topic, reason) in [("one", "No matching subscribers"), ("two", "Quota exceeded")] {
        let message = Publish { retain: true, ..message(topic, QoS::AtLeastOnce, 1, "x") };
        net.publish_packet(publ, &message);
        net.commit(0);
        let read = net.read(publ);
        assert!(read.last().unwrap().contains(reason), "{topic}: {read:?}");
    }
    assert_eq!(net.shards[0].stats().retained, 1);
    // Nor is it in what is logged anew.
    let from = net.wires[0].log.len();
    net.shards[0].begin_base(net.now, &mut net.wires[0]);
    while net.shards[0].is_basing() {
        net.go_on();
        net.commit(0);
    }
    let logged = net.wires[0].log[from..].iter();
    assert!(logged.clone().any(|(_, _, body)| body.windows(3).any(|part| part == b"one")));
    assert!(!logged.clone().any(|(_, _, body)| body.windows(4).any(|part| part == b"$SYS")));
}

#[test]
fn only_a_topic_below_sys_is_said() {
    let mut net = Net::new(1);
    for topic in ["a", "$SYSTEM/a", "$SYS/+", "", "$SYS/broker/connection/bridge/state"] {
        let refused = say(&mut net, 0, topic, "x").unwrap_err();
        let NotPublished::Refused(reason, _) = refused else { panic!("{refused:?}") };
        assert_eq!(reason, ReasonCode::TopicNameInvalid, "{topic}");
    }
}

#[test]
fn clients_that_are_connected_and_subscriptions_are_counted() {
    let mut net = Net::new(1);
    let peers: Vec<_> = (0..3).map(|at| net.join(&format!("c{at}"), Ask::default())).collect();
    net.subscribe(peers[0], "a", QoS::AtMostOnce);
    net.subscribe(peers[0], "a", QoS::AtLeastOnce);
    net.subscribe(peers[1], "$share/g/a", QoS::AtMostOnce);
    let counts = |net: &Net| {
        let stats = net.shards[0].stats();
        [stats.connected_v5, stats.subscriptions, stats.shared_subscriptions, stats.connects_in]
    };
    assert_eq!(counts(&net), [3, 1, 1, 3]);
    net.unsubscribe(peers[0], "a");
    net.cut(peers[1]);
    assert_eq!(counts(&net), [2, 0, 0, 3]);
    let peer = net.join("expires", Ask { expiry_s: 5, ..Ask::default() });
    net.cut(peer);
    assert_eq!((counts(&net)[0], net.shards[0].stats().sessions_expired), (2, 0));
    net.pass(6);
    assert_eq!(net.shards[0].stats().sessions_expired, 1);
}
