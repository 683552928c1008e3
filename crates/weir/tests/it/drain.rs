//! A broker whose clients are sent to another server.

use crate::support::asked::said;
use crate::support::blocking::Blocking;
use crate::support::live::Live;
use serde_json::Value;
use std::time::{Duration, Instant};
use weir_wire::{Packet, Property, Version};

/// The reason and the other server, of CONNACK or DISCONNECT.
fn sent_away(client: &mut Blocking) -> (u8, Option<String>) {
    let reference = |properties: &weir_wire::Properties<'_>| {
        properties.find(|property| match property {
            Property::ServerReference(text) => Some(text.to_owned()),
            _ => None,
        })
    };
    let came = client.packet(|packet| match packet {
        Packet::ConnAck(connack) => (connack.reason, reference(&connack.properties)),
        Packet::Disconnect(disconnect) => (disconnect.reason, reference(&disconnect.properties)),
        other => panic!("{other:?}"),
    });
    let (reason, reference) = came.expect("a packet");
    assert_eq!(client.next(), None, "it ends");
    (reason as u8, reference)
}

fn offer(live: &Live, version: Version) -> Blocking {
    let mut client = Blocking::connect(&*live.broker.address, version).unwrap();
    client.join("late", None, &[]).unwrap();
    client
}

#[test]
fn clients_are_sent_to_another_server_at_a_rate_and_none_comes_in() {
    const CLIENTS: usize = 60;
    let live = Live::start("shards = 2\nlisten = [\"127.0.0.1:0\"]\n");
    let mut clients: Vec<_> = (0..CLIENTS).map(|at| live.join(&format!("c{at}"))).collect();
    let health = || live.ctl(&["health"]).status.code();
    assert_eq!(health(), Some(0));
    let begin = Instant::now();
    let started = said(&live.ctl(&["drain", "--server", "other:1883", "--rate", "40"]));
    assert!(started.starts_with("draining: "), "{started}");
    assert_eq!(health(), Some(1));
    assert_eq!(sent_away(&mut offer(&live, Version::V5)), (0x9C, Some("other:1883".into())));
    let mut old = offer(&live, Version::V311);
    assert_eq!(old.next().unwrap(), [0x20, 2, 0, 3]);
    for client in &mut clients {
        assert_eq!(sent_away(client), (0x9C, Some("other:1883".into())));
    }
    // 60 at 40 in a second, of which the first goes at once on each of two threads.
    assert!(begin.elapsed() > Duration::from_millis(1_000), "{:?}", begin.elapsed());
    let state = said(&live.ctl(&["drain", "--state"]));
    assert_eq!(state, "draining: 60 clients were sent away, 0 connections are left\n");
    let counters: Value = serde_json::from_str(&said(&live.ctl(&["counters", "--json"]))).unwrap();
    let of_drain =
        ["draining", "drain_sent_away", "drain_connections_left", "connections_sent_away"];
    assert_eq!(of_drain.map(|name| counters["sum"][name].clone()), [2, 60, 0, 60]);
    let moved = said(&live.ctl(&["drain", "--moved"]));
    assert!(moved.starts_with("draining: 60 "), "{moved}");
    assert_eq!(sent_away(&mut offer(&live, Version::V5)), (0x9D, None));
    assert_eq!(said(&live.ctl(&["drain", "--stop"])), "not draining; 0 connections\n");
    assert_eq!(health(), Some(0));
    live.join("again");
}
