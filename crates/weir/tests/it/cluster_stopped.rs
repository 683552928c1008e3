//! Nodes of a cluster that are stopped by command: their clients go to other nodes, and find their
//! sessions there.

use crate::cluster::{Etcd, broker};
use crate::store::{V5, is_acknowledged, join, publish, take};
use crate::support::Broker;
use crate::support::blocking::{Blocking, decode};
use crate::support::connect::lasting;
use crate::support::live::{is_served, left};
use crate::support::mqtt::message;
use rustix::process::Signal;
use std::ops::Range;
use weir_wire::packet::{Connect, Will};
use weir_wire::{Packet, Properties, QoS, ReasonCode};

/// Longer than a test may take: a node ends for another reason, or the test fails.
const LONG: &str = "handover_s = 3600\n";

/// Nodes that wait for their clients to come to another one.
fn patient(etcd: &Etcd, names: &[&str]) -> Vec<Broker> {
    names.iter().map(|name| broker(etcd.node_with(name, LONG))).collect()
}

/// A client whose session stays, subscribed, with a will.
fn settle(address: &str, client_id: &str) -> Blocking {
    let mut client = Blocking::connect(address, V5).unwrap();
    let (properties, payload) = (lasting(), client_id.as_bytes());
    let (qos, retain) = (QoS::AtLeastOnce, false);
    let will = Will { topic: "will", payload, qos, retain, properties: Properties::EMPTY };
    let properties = properties.as_properties();
    let connect = Connect { will: Some(will), properties, ..Connect::new(V5, client_id) };
    client.send(&Packet::Connect(connect)).unwrap();
    assert_eq!(client.connack(), Some(ReasonCode::Success));
    client.subscribe("t", QoS::AtLeastOnce);
    client
}

/// Each is acknowledged before the next.
fn publish_all(publisher: &mut Blocking, numbers: Range<u16>) {
    for number in numbers {
        publish(publisher, "t", &number.to_string(), number + 1).unwrap();
        assert!(is_acknowledged(publisher));
    }
}

fn take_all(client: &mut Blocking, numbers: Range<u16>) {
    for number in numbers {
        assert_eq!(take(client), Some(number.to_string()));
    }
}

fn stop(node: &Broker, clients: &mut [&mut Blocking]) {
    node.signal(Signal::TERM);
    for client in clients {
        assert_eq!(left(client), Some(ReasonCode::ServerShuttingDown));
    }
}

fn ends(node: &mut Broker) {
    assert!(node.child.wait().unwrap().success());
}

#[test]
fn sessions_go_after_their_clients_while_their_node_is_stopped() {
    let Some(etcd) = Etcd::start() else { return };
    let mut nodes = patient(&etcd, &["a", "b", "c"]);
    let (mut publisher, _) = join(&nodes[1].address, "publisher");
    publisher.subscribe("will", QoS::AtLeastOnce);
    let [mut client, sleeper] = ["awake", "asleep"].map(|id| settle(&nodes[0].address, id));
    drop(sleeper);
    // Its will is the one that is sent.
    assert_eq!(take(&mut publisher).as_deref(), Some("asleep"));
    publish_all(&mut publisher, 0..50);
    take_all(&mut client, 0..50);
    assert!(is_served(&mut client), "its acknowledgements have been read");
    stop(&nodes[0], &mut [&mut client]);
    // Its sessions are there still, and get what is published.
    publish_all(&mut publisher, 50..100);
    let (mut client, was_there) = join(&nodes[2].address, "awake");
    assert!(was_there);
    take_all(&mut client, 50..100);
    publish_all(&mut publisher, 100..150);
    let (mut sleeper, was_there) = join(&nodes[1].address, "asleep");
    assert!(was_there);
    take_all(&mut sleeper, 0..150);
    // Nothing is left that it could wait for.
    ends(&mut nodes[0]);
    nodes[1].says("a node is lost node=\"a\"");
    publish_all(&mut publisher, 150..200);
    take_all(&mut client, 100..200);
    take_all(&mut sleeper, 150..200);
    // No other will was sent.
    publish(&mut publisher, "will", "last", 1).unwrap();
    let mut watched = [publisher.next().unwrap(), publisher.next().unwrap()];
    watched.sort_by_key(|bytes| matches!(decode(V5, bytes), Packet::PubAck(_)));
    assert_eq!(message(V5, &watched[0]).unwrap().payload, "last");
}

#[test]
fn a_node_that_is_stopped_twice_ends_at_once_and_has_its_sessions_when_it_is_back() {
    let Some(etcd) = Etcd::start() else { return };
    let folder = etcd.folder.path().join("store");
    let config = etcd.node_with("a", &format!("{LONG}[store]\npath = {folder:?}\n"));
    let other = broker(etcd.node_with("b", LONG));
    let mut node = broker(&config);
    let mut client = settle(&node.address, "client");
    stop(&node, &mut [&mut client]);
    let (mut publisher, _) = join(&other.address, "publisher");
    publish_all(&mut publisher, 0..10);
    node.signal(Signal::TERM);
    ends(&mut node);
    let node = broker(&config);
    let (mut client, was_there) = join(&node.address, "client");
    assert!(was_there);
    take_all(&mut client, 0..10);
}

#[test]
fn nodes_that_are_all_stopped_do_not_wait_for_each_others_clients() {
    let Some(etcd) = Etcd::start() else { return };
    let mut nodes = patient(&etcd, &["a", "b"]);
    let mut clients: Vec<Blocking> =
        nodes.iter().map(|node| settle(&node.address, &node.address)).collect();
    for (node, client) in nodes.iter().zip(&mut clients) {
        stop(node, &mut [client]);
    }
    nodes.iter_mut().for_each(ends);
}

#[test]
fn a_node_that_is_to_hand_nothing_over_ends_at_once() {
    let Some(etcd) = Etcd::start() else { return };
    let mut nodes = ["a", "b"].map(|name| broker(etcd.node_with(name, "handover_s = 0\n")));
    let mut client = settle(&nodes[0].address, "client");
    stop(&nodes[0], &mut [&mut client]);
    ends(&mut nodes[0]);
    assert!(!join(&nodes[1].address, "client").1);
}
