//! Nodes over Zenoh on loopback.

use crate::support::{Authority, Node, check_pause, until};
use std::net::{SocketAddr, TcpListener};
use weir_carrier::NodeAddress;
use weir_carrier::zenoh::{Settings, TlsFiles, Zenoh, ZenohError};
use weir_cluster::Slot;
use weir_reactor::Waker;

fn settings(own: u8, listen: SocketAddr) -> Settings {
    Settings { cluster: "lab".into(), own: Slot(own), listen, tls: None }
}

fn node(own: u8, incarnation: u64, listen: SocketAddr) -> Node {
    let carrier = Zenoh::new(settings(own, listen), Waker::new().unwrap()).unwrap();
    Node::new(own, incarnation, carrier)
}

/// Addresses that are free, and not taken by anybody else while these are all held.
fn addresses<const N: usize>() -> [SocketAddr; N] {
    let held: [TcpListener; N] = std::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    held.map(|listener| listener.local_addr().unwrap())
}

fn at(address: SocketAddr) -> NodeAddress {
    NodeAddress { addresses: vec![address], host: "localhost".into() }
}

#[test]
fn letters_come_once_and_in_order_also_to_a_node_that_was_started_anew() {
    let [at_a, at_b] = addresses();
    let (mut a, mut b) = (node(0, 1, at_a), node(1, 1, at_b));
    a.join(1, at(at_b));
    b.join(0, at(at_a));
    a.send(1, 1..=1000, 1000);
    b.send(0, 1..=1000, 1000);
    until(&mut [&mut a, &mut b], |nodes| {
        nodes[0].came(1).len() == 1000 && nodes[1].came(0).len() == 1000
    });
    assert_eq!(a.came(1), (1..=1000).collect::<Vec<_>>());
    // In the middle of others.
    a.send(1, 1001..=2000, 1000);
    b.desk.renews = Some(Slot(0));
    until(&mut [&mut a, &mut b], |nodes| nodes[1].came(0).len() == 2000);
    assert_eq!(b.came(0), (1..=2000).collect::<Vec<_>>());
    drop(b);
    let [at_b] = addresses();
    let mut b = node(1, 2, at_b);
    b.join(0, at(at_a));
    until(&mut [&mut a, &mut b], |nodes| nodes[0].desk.notes[&Slot(1)].resets == 1);
    a.send(1, 2001..=2010, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[1].came(0).len() == 10);
}

#[test]
fn a_node_that_is_paused_is_heard_later() {
    let [at_a, at_b] = addresses();
    let (mut a, mut b) = (node(0, 1, at_a), node(1, 1, at_b));
    a.join(1, at(at_b));
    b.join(0, at(at_a));
    check_pause(a, b);
}

#[test]
fn nodes_with_certificates_of_one_authority_talk_over_tls() {
    let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
    let file = |name: String, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let node = |own: u8, listen: SocketAddr| {
        let (certificate, key) = authority.sign();
        let tls = Some(TlsFiles {
            authorities: file(format!("ca-{own}"), &authority.pem()),
            own: file(format!("own-{own}"), &certificate),
            key: file(format!("key-{own}"), &key),
        });
        let settings = Settings { tls, ..settings(own, listen) };
        Node::new(own, 1, Zenoh::new(settings, Waker::new().unwrap()).unwrap())
    };
    let [at_a, at_b] = addresses();
    let (mut a, mut b) = (node(0, at_a), node(1, at_b));
    a.join(1, at(at_b));
    b.join(0, at(at_a));
    a.send(1, 1..=10, 1000);
    b.send(0, 1..=10, 1000);
    until(&mut [&mut a, &mut b], |nodes| {
        nodes[0].came(1).len() == 10 && nodes[1].came(0).len() == 10
    });
}

#[test]
fn a_cluster_has_a_name_that_a_key_can_have() {
    for cluster in ["", "a/b", "*", "a$b", "a?"] {
        let settings = Settings { cluster: cluster.into(), ..settings(0, addresses::<1>()[0]) };
        let error = Zenoh::new(settings, Waker::new().unwrap()).err().unwrap();
        assert!(matches!(error, ZenohError::Cluster(name) if name == cluster));
    }
}
