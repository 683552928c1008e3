//! Nodes over TCP on loopback.

use crate::support::{Authority, Node, check_pause, until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use weir_carrier::tcp::{Settings, Tcp, Tls};
use weir_carrier::{Lost, NodeAddress};
use weir_cluster::Slot;
use weir_reactor::Waker;

fn listener() -> TcpListener {
    weir_reactor::listen("127.0.0.1:0".parse().unwrap()).unwrap()
}

fn carrier(own: u8, listener: &TcpListener, tls: Option<Tls>) -> Tcp {
    let listener = listener.try_clone().unwrap();
    Tcp::new(Settings { own: Slot(own), listener, tls }, Waker::new().unwrap()).unwrap()
}

fn at(address: SocketAddr) -> NodeAddress {
    NodeAddress { address, host: "localhost".into() }
}

/// Nodes that know each other, and where they are.
fn nodes(count: u8, tls: impl Fn(u8) -> Option<Tls>) -> (Vec<Node>, Vec<SocketAddr>) {
    let listeners: Vec<_> = (0..count).map(|_| listener()).collect();
    let addresses: Vec<_> = listeners.iter().map(|it| it.local_addr().unwrap()).collect();
    let node = |own: u8| {
        let mut node = Node::new(own, 1, carrier(own, &listeners[usize::from(own)], tls(own)));
        for other in (0..count).filter(|other| *other != own) {
            node.join(other, at(addresses[usize::from(other)]));
        }
        node
    };
    ((0..count).map(node).collect(), addresses)
}

fn two(tls: impl Fn(u8) -> Option<Tls>) -> ([Node; 2], [SocketAddr; 2]) {
    let (nodes, addresses) = nodes(2, tls);
    (nodes.try_into().ok().unwrap(), addresses.try_into().unwrap())
}

fn all(count: u64) -> Vec<u64> {
    (1..=count).collect()
}

#[test]
fn each_of_three_nodes_gets_the_letters_of_the_others() {
    let (mut nodes, _) = nodes(3, |_| None);
    for own in 0..3 {
        for other in (0..3).filter(|other| *other != own) {
            nodes[usize::from(own)].send(other, 1..=1000, 30);
        }
    }
    let is_done = |nodes: &[&mut Node]| {
        (0..3u8).all(|own| {
            let mut others = (0..3).filter(|other| *other != own);
            others.all(|other| nodes[usize::from(own)].came(other).len() == 1000)
        })
    };
    until(&mut nodes.iter_mut().collect::<Vec<_>>(), is_done);
    assert_eq!(nodes[2].came(0), all(1000));
}

#[test]
fn letters_come_once_and_in_order_however_often_connections_are_given_up() {
    let ([mut a, mut b], _) = two(|_| None);
    for round in 0..5 {
        a.send(1, round * 50 + 1..=round * 50 + 50, 20_000);
        b.send(0, round * 50 + 1..=round * 50 + 50, 20_000);
        let half = round as usize * 50 + 25;
        until(&mut [&mut a, &mut b], |nodes| nodes[0].came(1).len() >= half);
        // In the middle of frames.
        let (giver, other) = if round % 2 == 0 { (&mut a, 1) } else { (&mut b, 0) };
        giver.desk.renews = Some(Slot(other));
    }
    until(&mut [&mut a, &mut b], |nodes| {
        nodes[0].came(1).len() >= 250 && nodes[1].came(0).len() >= 250
    });
    assert_eq!((a.came(1), b.came(0)), (&all(250)[..], &all(250)[..]));
    let notes = &a.desk.notes[&Slot(1)];
    assert!(notes.ups > 1 && notes.resets == 0, "{} connections", notes.ups);
}

#[test]
fn a_node_that_is_paused_is_heard_later() {
    let ([a, b], _) = two(|_| None);
    check_pause(a, b);
}

#[test]
fn a_node_that_was_started_anew_is_found_again() {
    let ([mut a, mut b], [address, _]) = two(|_| None);
    a.send(1, 1..=10, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[1].came(0).len() == 10);
    drop(b);
    until(&mut [&mut a], |nodes| !nodes[0].desk.downs.is_empty());
    // The second one is of the higher slot, so nobody has to know its address.
    let listener = listener();
    let mut b = Node::new(1, 2, carrier(1, &listener, None));
    b.join(0, at(address));
    until(&mut [&mut a, &mut b], |nodes| nodes[0].desk.notes[&Slot(1)].ups == 2);
    assert_eq!(a.desk.notes[&Slot(1)].resets, 1);
    a.send(1, 11..=20, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[1].came(0).len() == 10);
    assert_eq!(b.came(0), (11..=20).collect::<Vec<_>>());
}

#[test]
fn strangers_are_cut() {
    let ([mut a, mut b], [address, _]) = two(|_| None);
    let mut told = Vec::new();
    // Speaks something else; is said to be of a slot that nobody has.
    let mut stranger = TcpStream::connect(address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut unknown = Node::new(9, 1, carrier(9, &listener(), None));
    unknown.join(0, at(address));
    stranger.set_nonblocking(true).unwrap();
    a.send(1, 1..=10, 10);
    unknown.send(0, 1..=10, 10);
    until(&mut [&mut a, &mut b, &mut unknown], |nodes| {
        let is_cut = match stranger.read(&mut [0; 9]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        };
        told.push(is_cut);
        told.contains(&true) && nodes[1].came(0).len() == 10 && !nodes[2].desk.downs.is_empty()
    });
    assert!(a.came(9).is_empty());
}

#[test]
fn a_node_that_connects_again_is_heard_there() {
    let ([mut a, mut b], [address, _]) = two(|_| None);
    a.send(1, 1..=1, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[1].came(0).len() == 1);
    // The first one is still there, and says nothing any more.
    let mut second = Node::new(1, 2, carrier(1, &listener(), None));
    second.join(0, at(address));
    a.send(1, 2..=2, 10);
    until(&mut [&mut a, &mut second], |nodes| nodes[0].desk.notes[&Slot(1)].ups == 2);
    assert_eq!(a.desk.downs, [(Slot(1), Lost::Replaced)]);
    a.send(1, 3..=3, 10);
    until(&mut [&mut a, &mut second], |nodes| nodes[1].came(0).last() == Some(&3));
}

/// The certificate of a node of `signer`, where it trusts `trusted`.
fn tls(signer: &Authority, trusted: &Authority) -> Tls {
    let (own, key) = signer.sign();
    Tls::from_pem(&trusted.pem(), &own, &key).unwrap()
}

#[test]
fn nodes_with_certificates_of_one_authority_talk_over_tls() {
    let authority = Authority::new();
    let ([mut a, mut b], _) = two(|_| Some(tls(&authority, &authority)));
    a.send(1, 1..=100, 10_000);
    b.send(0, 1..=100, 10_000);
    until(&mut [&mut a, &mut b], |nodes| {
        nodes[0].came(1).len() == 100 && nodes[1].came(0).len() == 100
    });
    assert_eq!(b.came(0), all(100));
}

#[test]
fn a_node_with_another_authoritys_certificate_is_not_let_in() {
    let (ours, others) = (Authority::new(), Authority::new());
    // It trusts ours, so it is the listening node that refuses it.
    let ([mut a, mut b], [address, _]) = two(|own| {
        let signer = if own == 0 { &ours } else { &others };
        Some(tls(signer, &ours))
    });
    // A third one is let in, and so long the others have had time.
    let mut c = Node::new(2, 1, carrier(2, &listener(), Some(tls(&ours, &ours))));
    c.join(0, at(address));
    a.join(2, at(address));
    c.send(0, 1..=1, 10);
    b.send(0, 1..=1, 10);
    until(&mut [&mut a, &mut b, &mut c], |nodes| nodes[0].came(2).len() == 1);
    for _ in 0..50 {
        [&mut a, &mut b, &mut c].into_iter().for_each(Node::turn);
    }
    assert!(a.came(1).is_empty());
    assert!(!a.desk.notes.contains_key(&Slot(1)), "nothing was heard of it");
}
