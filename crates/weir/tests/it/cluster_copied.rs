//! Nodes whose logs are copied to each other: a session outlives its node.

use crate::cluster::{Etcd, broker};
use crate::store::{is_acknowledged, join, publish, take};
use crate::support::Broker;
use rustix::process::Signal;
use weir_wire::QoS;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Three nodes that each have another one's log, and their configurations.
fn nodes(etcd: &Etcd) -> ([String; 3], [Broker; 3]) {
    let configs = NAMES.map(|name| {
        let folder = etcd.folder.path().join(format!("store-{name}"));
        etcd.node_with(name, &format!("replicas = 2\n[store]\npath = {folder:?}\n"))
    });
    let mut nodes = configs.each_ref().map(broker);
    nodes.iter_mut().for_each(is_copied);
    (configs, nodes)
}

fn is_copied(node: &mut Broker) {
    node.says("another node has all of this node's log");
}

#[test]
fn a_session_outlives_its_node_with_all_that_was_acknowledged() {
    let Some(etcd) = Etcd::start() else { return };
    let (configs, mut nodes) = nodes(&etcd);
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
