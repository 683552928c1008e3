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
    NodeAddress { addresses: vec![address], host: "localhost".into() }
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
fn a_node_is_reached_once_its_address_is_found_and_by_another_after_it_has_moved() {
    let listeners = [listener(), listener(), listener()];
    let addresses = listeners.each_ref().map(|it| it.local_addr().unwrap());
    let unknown = || NodeAddress { addresses: Vec::new(), host: "localhost".into() };
    let mut a = Node::new(0, 1, carrier(0, &listeners[0], None));
    let mut b = Node::new(1, 1, carrier(1, &listeners[2], None));
    // Who is connected to need not know where the other is.
    a.join(1, unknown());
    b.join(0, unknown());
    b.send(0, 1..=10, 10);
    (0..20).for_each(|_| [&mut a, &mut b].into_iter().for_each(Node::turn));
    assert!(a.came(1).is_empty());
    assert_eq!((a.seeks(1), b.seeks(0)), (false, true));
    b.found(0, &addresses[..1]);
    until(&mut [&mut a, &mut b], |nodes| nodes[0].came(1).len() == 10);
    assert!(!b.seeks(0));
    // While they are connected, nothing follows of it.
    b.found(0, &addresses[1..2]);
    b.send(0, 11..=20, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[0].came(1).len() == 20);
    assert_eq!(a.desk.notes[&Slot(1)].ups, 1);
    // It is elsewhere now.
    drop(a);
    let mut a = Node::new(0, 2, carrier(0, &listeners[1], None));
    a.join(1, unknown());
    b.send(0, 21..=21, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[1].desk.notes[&Slot(0)].resets == 1);
    b.send(0, 22..=30, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[0].came(1).last() == Some(&30));
}

#[test]
fn a_try_that_goes_nowhere_ends_when_the_node_is_found_elsewhere() {
    let authority = Authority::new();
    let tls = || Some(tls(&authority, &authority));
    let (silent, good) = (TcpListener::bind("127.0.0.1:0").unwrap(), listener());
    let mut a = Node::new(0, 1, carrier(0, &good, tls()));
    let mut b = Node::new(1, 1, carrier(1, &listener(), tls()));
    a.join(1, at(good.local_addr().unwrap()));
    b.join(0, at(silent.local_addr().unwrap()));
    b.turn();
    // Nobody answers what it says.
    let (mut stream, _) = silent.accept().unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    b.found(0, &[good.local_addr().unwrap()]);
    b.turn();
    let end = stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
    assert!(matches!(end, Ok(_) | Err(std::io::ErrorKind::ConnectionReset)), "{end:?}");
    b.send(0, 1..=1, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[0].came(1).len() == 1);
}

#[test]
fn all_addresses_of_a_node_are_tried() {
    let listener = listener();
    let good = listener.local_addr().unwrap();
    // Nobody listens there any more.
    let dead = self::listener().local_addr().unwrap();
    let mut a = Node::new(0, 1, carrier(0, &listener, None));
    let mut b = Node::new(1, 1, carrier(1, &self::listener(), None));
    a.join(1, at(good));
    b.join(0, NodeAddress { addresses: vec![dead, good], host: "localhost".into() });
    b.send(0, 1..=1, 10);
    until(&mut [&mut a, &mut b], |nodes| nodes[0].came(1).len() == 1);
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
