//! Nodes whose logs are copied to each other: a session outlives its node.

use crate::cluster::{Etcd, broker};
use crate::store::{is_acknowledged, join, publish, take};
use crate::support::Broker;
use crate::support::blocking::Blocking;
use rustix::process::Signal;
use std::ops::RangeInclusive;
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

/// A client has been at this node, and has subscribed to `t`.
fn leave_session(node: &Broker, name: &str) {
    let (mut of, _) = join(&node.address, name);
    of.subscribe("t", QoS::AtLeastOnce);
}

/// Publishes these numbers, each once the one before is acknowledged.
fn send(publisher: &mut Blocking, numbers: RangeInclusive<u16>) {
    for count in numbers {
        publish(publisher, "t", &count.to_string(), count).unwrap();
        assert!(is_acknowledged(publisher), "{count}");
    }
}

/// The client comes to this node, finds its session, and gets these numbers.
fn finds(node: &Broker, name: &str, numbers: RangeInclusive<u16>) {
    let (mut of, was_there) = join(&node.address, name);
    assert!(was_there, "{name}");
    for count in numbers {
        assert_eq!(take(&mut of), Some(count.to_string()), "{name}");
    }
}

/// It has opened the copy of the log of `a`, and a stand-in is there.
fn serves(node: &mut Broker) {
    node.says("opening the copy of the log of a node that is lost node=\"a\"");
    node.says("letters pass to and from a node node=\"a\"");
}

/// What a stand-in served is this node's own.
fn has_them(node: &mut Broker) {
    node.says("the sessions of a lost node are this node's now");
}

/// `a` is lost once it has acknowledged this many messages for a session there, which `b` serves
/// and cannot give away before [`Etcd::release_stand_ins`]. The publisher is at the node `from`.
fn served_by_b(
    etcd: &Etcd,
    replicas: u8,
    from: usize,
    count: u16,
) -> ([String; 3], [Broker; 3], Blocking) {
    let (configs, mut nodes) = nodes(etcd, replicas);
    leave_session(&nodes[0], "wanderer");
    let (mut publisher, _) = join(&nodes[from].address, "pub");
    send(&mut publisher, 1..=count);
    etcd.hold_stand_ins();
    kill(&mut nodes[0]);
    serves(&mut nodes[1]);
    (configs, nodes, publisher)
}

fn kill(node: &mut Broker) {
    node.signal(Signal::KILL);
    node.child.wait().unwrap();
}

#[test]
fn a_session_outlives_its_node_with_all_that_was_acknowledged() {
    let Some(etcd) = Etcd::start() else { return };
    let (configs, mut nodes) = nodes(&etcd, 2);
    leave_session(&nodes[0], "wanderer");
    let (mut publisher, _) = join(&nodes[1].address, "pub");
    send(&mut publisher, 1..=5);
    kill(&mut nodes[0]);
    // It is acknowledged once whoever serves the session has it.
    send(&mut publisher, 6..=8);
    finds(&nodes[2], "wanderer", 1..=8);
    // The node is back without it, and gets it with its client; then it is lost once more.
    nodes[0] = broker(&configs[0]);
    is_copied(&mut nodes[0]);
    let (mut of, was_there) = join(&nodes[0].address, "wanderer");
    assert!(was_there);
    send(&mut publisher, 9..=9);
    assert_eq!(take(&mut of).as_deref(), Some("9"));
    drop(of);
    send(&mut publisher, 10..=10);
    kill(&mut nodes[0]);
    finds(&nodes[1], "wanderer", 10..=10);
}

#[test]
fn who_stands_in_for_a_node_is_lost_as_well_and_the_third_takes_over() {
    let Some(etcd) = Etcd::start() else { return };
    let (_, mut nodes, _) = served_by_b(&etcd, 3, 0, 1);
    kill(&mut nodes[1]);
    serves(&mut nodes[2]);
    etcd.release_stand_ins();
    has_them(&mut nodes[2]);
    finds(&nodes[2], "wanderer", 1..=1);
}

#[test]
fn who_stands_in_for_a_node_is_frozen_and_ends_once_the_third_has_taken_over() {
    let Some(etcd) = Etcd::start() else { return };
    let (_, mut nodes, _) = served_by_b(&etcd, 3, 0, 1);
    nodes[1].signal(Signal::STOP);
    serves(&mut nodes[2]);
    nodes[1].signal(Signal::CONT);
    etcd.release_stand_ins();
    // Its own sessions are the third node's by then, too.
    nodes[1].says("another node serves the sessions of a lost one now");
    has_them(&mut nodes[2]);
    finds(&nodes[2], "wanderer", 1..=1);
}

#[test]
fn a_node_that_comes_while_another_is_lost_waits_for_who_is_in_its_place() {
    let Some(etcd) = Etcd::start() else { return };
    let (_, mut nodes) = nodes(&etcd, 2);
    leave_session(&nodes[0], "wanderer");
    kill(&mut nodes[0]);
    let late = broker(etcd.node_with("late", ""));
    let (mut publisher, _) = join(&late.address, "pub");
    send(&mut publisher, 1..=1);
    finds(&late, "wanderer", 1..=1);
}

#[test]
fn with_three_copies_two_nodes_are_lost_at_once_and_nothing_else() {
    let Some(etcd) = Etcd::start() else { return };
    let (_, mut nodes) = nodes(&etcd, 3);
    let sessions = ["first", "second"];
    nodes.iter().zip(sessions).for_each(|(node, name)| leave_session(node, name));
    // From one that will be lost to itself and to the other.
    let (mut publisher, _) = join(&nodes[0].address, "pub");
    send(&mut publisher, 1..=5);
    nodes[..2].iter().for_each(|node| node.signal(Signal::KILL));
    nodes[..2].iter_mut().for_each(kill);
    sessions.iter().for_each(|_| has_them(&mut nodes[2]));
    let (mut publisher, _) = join(&nodes[2].address, "other");
    send(&mut publisher, 6..=6);
    sessions.into_iter().for_each(|name| finds(&nodes[2], name, 1..=6));
}

#[test]
fn all_nodes_are_killed_at_once_and_one_is_not_back_nor_its_disk() {
    let Some(etcd) = Etcd::start() else { return };
    let (configs, mut nodes) = nodes(&etcd, 2);
    leave_session(&nodes[0], "wanderer");
    let (mut publisher, _) = join(&nodes[2].address, "pub");
    send(&mut publisher, 1..=5);
    nodes.iter().for_each(|node| node.signal(Signal::KILL));
    nodes.iter_mut().for_each(kill);
    std::fs::remove_dir_all(etcd.folder.path().join("store-a")).unwrap();
    nodes[1] = broker(&configs[1]);
    has_them(&mut nodes[1]);
    nodes[2] = broker(&configs[2]);
    finds(&nodes[2], "wanderer", 1..=5);
}

/// Whoever stands in for a node is ended or frozen so, and goes on with what it has acknowledged.
fn goes_on_where_it_was(signal: Signal) {
    let Some(etcd) = Etcd::start() else { return };
    let (configs, mut nodes, mut publisher) = served_by_b(&etcd, 2, 2, 3);
    // What it has acknowledged is on its disk alone.
    send(&mut publisher, 4..=6);
    nodes[1].signal(signal);
    if signal == Signal::STOP {
        nodes[2].says("a node is lost node=\"b\"");
        nodes[1].signal(Signal::CONT);
    } else {
        nodes[1].child.wait().unwrap();
    }
    etcd.release_stand_ins();
    if signal != Signal::STOP {
        nodes[1] = broker(&configs[1]);
    }
    has_them(&mut nodes[1]);
    finds(&nodes[2], "wanderer", 1..=6);
    // The node is no longer served by another.
    drop(broker(&configs[0]));
}

#[test]
fn who_stands_in_for_a_node_is_killed_and_goes_on_where_it_was() {
    goes_on_where_it_was(Signal::KILL);
}

#[test]
fn who_stands_in_for_a_node_is_stopped_and_goes_on_where_it_was() {
    goes_on_where_it_was(Signal::TERM);
}

#[test]
fn who_stands_in_for_a_node_is_frozen_and_goes_on_where_it_was() {
    goes_on_where_it_was(Signal::STOP);
}
