//! Nodes whose logs are copied to each other: a session outlives its node.

use crate::cluster::{Etcd, broker};
use crate::store::{is_acknowledged, join, publish, take};
use crate::support::Broker;
use rustix::process::Signal;
use weir_wire::QoS;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Three nodes whose logs are at so many of them, and their configurations.
fn nodes(etcd: &Etcd, replicas: u8) -> ([String; 3], [Broker; 3]) {
    let configs = NAMES.map(|name| {
        let folder = etcd.folder.path().join(format!("store-{name}"));
        etcd.node_with(name, &format!("replicas = {replicas}\n[store]\npath = {folder:?}\n"))
    });
    let mut nodes = configs.each_ref().map(broker);
    nodes.iter_mut().for_each(|node| (1..replicas).for_each(|_| is_copied(node)));
    (configs, nodes)
}

fn is_copied(node: &mut Broker) {
    node.says("another node has all of this node's log");
}

#[test]
fn a_session_outlives_its_node_with_all_that_was_acknowledged() {
    let Some(etcd) = Etcd::start() else { return };
    let (configs, mut nodes) = nodes(&etcd, 2);
    let (mut of, _) = join(&nodes[0].address, "wanderer");
    of.subscribe("t", QoS::AtLeastOnce);
    drop(of);
    let (mut publisher, _) = join(&nodes[1].address, "pub");
    let mut send = |numbers: std::ops::RangeInclusive<u16>| {
        for count in numbers {
            publish(&mut publisher, "t", &count.to_string(), count).unwrap();
            assert!(is_acknowledged(&mut publisher), "{count}");
        }
    };
    send(1..=5);
    nodes[0].signal(Signal::KILL);
    nodes[0].child.wait().unwrap();
    // It is acknowledged once whoever serves the session has it.
    send(6..=8);
    let (mut of, was_there) = join(&nodes[2].address, "wanderer");
    assert!(was_there);
    let came = [(); 8].map(|()| take(&mut of).unwrap());
    assert_eq!(came, ["1", "2", "3", "4", "5", "6", "7", "8"]);
    // The node is back without it, and gets it with its client; then it is lost once more.
    drop(of);
    nodes[0] = broker(&configs[0]);
    is_copied(&mut nodes[0]);
    let (mut of, was_there) = join(&nodes[0].address, "wanderer");
    assert!(was_there);
    send(9..=9);
    assert_eq!(take(&mut of).as_deref(), Some("9"));
    drop(of);
    send(10..=10);
    nodes[0].signal(Signal::KILL);
    nodes[0].child.wait().unwrap();
    let (mut of, was_there) = join(&nodes[1].address, "wanderer");
    assert!(was_there);
    assert_eq!(take(&mut of).as_deref(), Some("10"));
}

#[test]
fn who_stands_in_for_a_node_is_lost_as_well_and_the_third_takes_over() {
    let Some(etcd) = Etcd::start() else { return };
    let (_, mut nodes) = nodes(&etcd, 3);
    let (mut of, _) = join(&nodes[0].address, "wanderer");
    of.subscribe("t", QoS::AtLeastOnce);
    drop(of);
    let (mut publisher, _) = join(&nodes[0].address, "pub");
    publish(&mut publisher, "t", "1", 1).unwrap();
    assert!(is_acknowledged(&mut publisher));
    etcd.hold_stand_ins();
    let serves = "opening the copy of the log of a node that is lost node=\"a\"";
    for (lost, next) in [(0, 1), (1, 2)] {
        nodes[lost].signal(Signal::KILL);
        nodes[lost].child.wait().unwrap();
        nodes[next].says(serves);
        nodes[next].says("letters pass to and from a node node=\"a\"");
    }
    etcd.release_stand_ins();
    nodes[2].says("the sessions of a lost node are this node's now");
    let (mut of, was_there) = join(&nodes[2].address, "wanderer");
    assert!(was_there);
    assert_eq!(take(&mut of).as_deref(), Some("1"));
}

#[test]
fn a_node_that_comes_while_another_is_lost_waits_for_who_is_in_its_place() {
    let Some(etcd) = Etcd::start() else { return };
    let (_, nodes) = nodes(&etcd, 2);
    let (mut of, _) = join(&nodes[0].address, "wanderer");
    of.subscribe("t", QoS::AtLeastOnce);
    nodes[0].signal(Signal::KILL);
    let late = broker(etcd.node_with("late", ""));
    let (mut publisher, _) = join(&late.address, "pub");
    publish(&mut publisher, "t", "1", 1).unwrap();
    assert!(is_acknowledged(&mut publisher));
    let (mut of, was_there) = join(&late.address, "wanderer");
    assert!(was_there);
    assert_eq!(take(&mut of).as_deref(), Some("1"));
}

#[test]
fn with_three_copies_two_nodes_are_lost_at_once_and_nothing_else() {
    let Some(etcd) = Etcd::start() else { return };
    let (_, mut nodes) = nodes(&etcd, 3);
    let sessions = ["first", "second"];
    for (node, name) in nodes.iter().zip(sessions) {
        let (mut of, _) = join(&node.address, name);
        of.subscribe("t", QoS::AtLeastOnce);
    }
    // From one that will be lost to itself and to the other.
    let (mut publisher, _) = join(&nodes[0].address, "pub");
    for count in 1..=5 {
        publish(&mut publisher, "t", &count.to_string(), count).unwrap();
        assert!(is_acknowledged(&mut publisher), "{count}");
    }
    nodes[..2].iter().for_each(|node| node.signal(Signal::KILL));
    for node in &mut nodes[..2] {
        node.child.wait().unwrap();
    }
    let (mut publisher, _) = join(&nodes[2].address, "other");
    publish(&mut publisher, "t", "6", 6).unwrap();
    assert!(is_acknowledged(&mut publisher));
    for name in sessions {
        let (mut of, was_there) = join(&nodes[2].address, name);
        assert!(was_there, "{name}");
        let came = [(); 6].map(|()| take(&mut of).unwrap());
        assert_eq!(came, ["1", "2", "3", "4", "5", "6"], "{name}");
    }
}
