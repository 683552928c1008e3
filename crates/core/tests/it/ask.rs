//! Questions of whoever runs the broker: clients in pages, one client, the end of a connection.

use crate::net::{Ask, Net};
use weir_core::{
    ClientState, ConnectionState, Kicked, NotPublished, OwnMessage, Partitions, ShardId,
};
use weir_wire::packet::Will;
use weir_wire::{PacketKind, Properties, QoS, ReasonCode, Version};

/// Every client of a shard, by pages of so many; and how many pages that took.
fn listed(net: &Net, shard: usize, clients_max: usize) -> (Vec<String>, usize) {
    let (mut ids, mut from, mut pages) = (Vec::new(), Some(0), 0);
    while let Some(at) = from {
        let page = net.shards[shard].clients(at, clients_max);
        assert!(page.clients.len() <= clients_max);
        ids.extend(page.clients.into_iter().map(|client| client.client_id.into_string()));
        assert!(page.next.is_none_or(|next| next > at), "it goes on");
        (from, pages) = (page.next, pages + 1);
    }
    ids.sort();
    (ids, pages)
}

#[test]
fn every_client_is_on_one_page_whatever_its_size() {
    let mut net = Net::new(1);
    let mut all: Vec<String> = (0..700).map(|at| format!("c{at}")).collect();
    for id in &all {
        net.join(id, Ask::default());
    }
    all.sort();
    for clients_max in [1, 7, 256, 700, 5_000] {
        assert_eq!(listed(&net, 0, clients_max).0, all, "pages of {clients_max}");
    }
    assert_eq!(net.shards[0].clients(u32::MAX, 10).clients, []);
}

#[test]
fn a_client_that_stays_is_listed_once_though_others_come_and_go() {
    let mut net = Net::new(1);
    for at in 0..600 {
        net.join(&format!("stays{at}"), Ask::default());
    }
    let (mut seen, mut from, mut number) = (Vec::new(), Some(0), 0);
    while let Some(at) = from {
        let page = net.shards[0].clients(at, 50);
        seen.extend(page.clients.into_iter().map(|client| client.client_id));
        from = page.next;
        for _ in 0..30 {
            let peer = net.join(&format!("new{number}"), Ask::default());
            number += 1;
            if number % 3 > 0 {
                net.disconnect(peer, ReasonCode::Success);
            }
        }
    }
    let mut stays: Vec<_> = seen.iter().filter(|id| id.starts_with("stays")).collect();
    stays.sort();
    stays.dedup();
    assert_eq!(stays.len(), 600);
    assert_eq!(seen.iter().filter(|id| id.starts_with("stays")).count(), 600);
}

#[test]
fn the_work_of_a_page_is_bounded_in_a_table_that_was_larger() {
    let mut net = Net::new(1);
    let peers: Vec<_> = (0..20_000).map(|at| net.join(&format!("c{at}"), Ask::default())).collect();
    // One of each page of the table is left, so that none is given back.
    for (at, &peer) in peers.iter().enumerate() {
        if at % 256 != 255 {
            net.disconnect(peer, ReasonCode::Success);
        }
    }
    let page = net.shards[0].clients(0, 1_000);
    assert_eq!(page.clients.len(), 16, "of 4,096 places");
    let (ids, pages) = listed(&net, 0, 1_000);
    assert_eq!((ids.len(), pages), (78, 5));
    // Now only the last is there, behind empty pages that are passed at one step each.
    for (at, &peer) in peers.iter().enumerate() {
        if at % 256 == 255 && at != 19_967 {
            net.disconnect(peer, ReasonCode::Success);
        }
    }
    assert_eq!(listed(&net, 0, 1_000), (vec!["c19967".to_owned()], 1));
}

#[test]
fn a_client_shows_its_connection_its_session_and_what_waits() {
    let mut net = Net::new(1);
    let ask = Ask { keep_alive_s: 30, expiry_s: 600, receive_maximum: 2, ..Ask::default() };
    let sub = net.join("sub", ask);
    net.subscribe(sub, "a", QoS::AtLeastOnce);
    net.subscribe(sub, "b/+", QoS::AtMostOnce);
    let publ = net.join("pub", Ask { version: Version::V311, ..Ask::default() });
    for number in 1..=5 {
        net.publish(publ, "a", QoS::AtLeastOnce, number, "xyz");
    }
    let state = net.shards[0].client("sub").unwrap();
    let connection = ConnectionState { version: Version::V5, keep_alive_s: 30 };
    assert!(state.queued_bytes > 0);
    let queued_bytes = state.queued_bytes;
    let expected = ClientState {
        client_id: "sub".into(),
        user: None,
        connection: Some(connection),
        session_expiry_s: 600,
        subscriptions: 2,
        queued_messages: 3,
        queued_bytes,
        in_flight: 2,
    };
    assert_eq!(state, expected);
    net.ack(sub, PacketKind::PubAck, 1);
    assert_eq!(net.shards[0].client("sub").unwrap().queued_messages, 2);
    net.cut(sub);
    let absent = net.shards[0].client("sub").unwrap();
    assert_eq!((absent.connection, absent.subscriptions), (None, 2));
    let connection = net.shards[0].client("pub").unwrap().connection;
    assert_eq!(connection, Some(ConnectionState { version: Version::V311, keep_alive_s: 0 }));
    assert_eq!(net.shards[0].client("nobody"), None);
}

fn will() -> Will<'static> {
    Will {
        topic: "wills",
        payload: b"gone",
        qos: QoS::AtMostOnce,
        retain: false,
        properties: Properties::EMPTY,
    }
}

#[test]
fn a_kick_says_why_sends_the_will_and_ends_a_session_that_does_not_outlive_it() {
    let mut net = Net::new(1);
    let sub = net.join("sub", Ask::default());
    net.subscribe(sub, "wills", QoS::AtMostOnce);
    let kicked = net.join("k", Ask { will: Some(will()), ..Ask::default() });
    net.read(sub);
    let Net { shards, wires, now, .. } = &mut net;
    assert_eq!(shards[0].kick("k", *now, &mut wires[0]), Kicked::Ended);
    assert_eq!(shards[0].kick("k", *now, &mut wires[0]), Kicked::Unknown);
    assert_eq!(net.read(kicked), ["DISCONNECT Administrative action", "closed"]);
    assert_eq!(net.read(sub), ["PUBLISH wills q0 gone"]);
    assert_eq!(net.shards[0].client("k"), None);
    let stats = net.shards[0].stats();
    assert_eq!((stats.connections, stats.sessions, stats.connections_ended), (1, 1, 1));
    assert_eq!(stats.refusals.count(ReasonCode::AdministrativeAction), 1);
}

#[test]
fn a_kick_keeps_a_session_that_outlives_its_connection_and_tells_old_clients_nothing() {
    let mut net = Net::new(1);
    let ask = Ask { version: Version::V311, clean: false, ..Ask::default() };
    let kicked = net.join("k", ask);
    net.subscribe(kicked, "t", QoS::AtLeastOnce);
    net.read(kicked);
    let Net { shards, wires, now, .. } = &mut net;
    assert_eq!(shards[0].kick("k", *now, &mut wires[0]), Kicked::Ended);
    assert_eq!(shards[0].kick("k", *now, &mut wires[0]), Kicked::Absent);
    assert_eq!(net.read(kicked), ["closed"]);
    let back = net.connect("k", ask);
    assert_eq!(net.read(back), ["CONNACK Success present"]);
}

#[test]
fn each_shard_lists_and_ends_its_own_clients_and_who_knows_the_seed_knows_which() {
    let mut net = Net::new(4);
    let mut all: Vec<String> = (0..200).map(|at| format!("client-{at}")).collect();
    let peers: Vec<_> = all.iter().map(|id| net.join(id, Ask::default())).collect();
    for (id, &peer) in all.iter().zip(&peers) {
        let owner = net.shard_of(peer);
        assert_eq!(Partitions::spread(4, 42).owner(id), ShardId(owner as u16));
        for shard in 0..4 {
            assert_eq!(net.shards[shard].client(id).is_some(), shard == owner);
        }
    }
    let mut found: Vec<String> = (0..4).flat_map(|shard| listed(&net, shard, 9).0).collect();
    found.sort();
    all.sort();
    assert_eq!(found, all);
    let Net { shards, wires, now, .. } = &mut net;
    for (shard, wires) in shards.iter_mut().zip(wires) {
        for id in &all {
            shard.kick(id, *now, wires);
        }
    }
    for peer in peers {
        assert_eq!(net.read(peer).last().unwrap(), "closed");
    }
}

#[test]
fn every_counter_has_the_name_of_its_field() {
    let mut net = Net::new(1);
    net.join("c", Ask::default());
    let stats = net.shards[0].stats();
    let shown = format!("{stats:?}");
    let named: Vec<_> = stats.by_name().collect();
    for &(name, count) in &named {
        assert!(shown.contains(&format!("{name}: {count}")), "{name}");
    }
    // All but those by reason.
    assert_eq!(shown.matches(": ").count(), named.len() + 1);
}

#[test]
fn long_filters_and_names_make_pages_short_and_none_is_missing() {
    let mut net = Net::new(1);
    let peer = net.join("c", Ask { clean: false, expiry_s: 60, ..Ask::default() });
    let filters: Vec<_> = (0..20).map(|at| format!("{at}/{}", "x".repeat(50_000))).collect();
    for filter in &filters {
        net.subscribe(peer, filter, QoS::AtMostOnce);
    }
    let (mut listed, mut next, mut pages) = (Vec::new(), Some(0), 0);
    while let Some(from) = next {
        let page = net.shards[0].subscriptions("c", from, 1_000).unwrap();
        assert!(page.subscriptions.len() <= 6, "300 KB");
        listed.extend(page.subscriptions.into_iter().map(|it| String::from(it.filter)));
        (next, pages) = (page.next, pages + 1);
    }
    assert_eq!((listed, pages), (filters, 4));
}

#[test]
fn a_session_ends_with_its_subscriptions_whether_its_client_is_there_or_not() {
    for stays in [true, false] {
        let mut net = Net::new(1);
        let peer = net.join("c", Ask { clean: false, expiry_s: 60, ..Ask::default() });
        net.subscribe(peer, "a/#", QoS::AtLeastOnce);
        net.subscribe(peer, "$share/g/b", QoS::AtMostOnce);
        if !stays {
            net.lose(peer);
        }
        let Net { shards, wires, now, .. } = &mut net;
        let first = shards[0].subscriptions("c", 0, 1).unwrap();
        let second = shards[0].subscriptions("c", first.next.unwrap(), 1).unwrap();
        assert_eq!(second.next, None);
        let names = [&first, &second].map(|page| &*page.subscriptions[0].filter);
        assert_eq!(names, ["a/#", "$share/g/b"]);
        assert_eq!(shards[0].end_client("c", *now, &mut wires[0]), Kicked::Ended);
        assert_eq!(shards[0].end_client("c", *now, &mut wires[0]), Kicked::Unknown);
        assert_eq!(shards[0].subscriptions("c", 0, 10), None);
        assert_eq!((shards[0].stats().filters, shards[0].stats().sessions), (0, 0));
    }
}

#[test]
fn what_the_operator_publishes_is_bounded_as_clients_are_and_waits_for_a_move() {
    let mut net = Net::new(2);
    let reader = net.join("reader", Ask::default());
    net.subscribe(reader, "t/#", QoS::AtLeastOnce);
    net.deliver_mail();
    net.read(reader);
    let message = |topic: &str, payload: &[u8]| OwnMessage {
        topic: topic.into(),
        payload: payload.into(),
        qos: QoS::AtLeastOnce,
        retain: true,
    };
    let shard = net.shard_of(reader);
    for from in 0..2 {
        let Net { shards, wires, now, .. } = &mut net;
        let sent = message(&format!("t/{from}"), b"x");
        assert_eq!(shards[from].publish(&sent, *now, &mut wires[from]), Ok(()));
        for bad in ["t/#", "", "$SYS/broker/version"] {
            let refused = shards[from].publish(&message(bad, b"x"), *now, &mut wires[from]);
            assert!(matches!(refused, Err(NotPublished::Refused(..))), "{bad}");
        }
        net.deliver_mail();
    }
    let came = net.read(reader);
    assert_eq!(came.len(), 2, "{came:?} to shard {shard}");
    let kept = |net: &mut Net| {
        let now = net.now;
        let of = |shard: &mut weir_core::Shard| {
            shard.retained_messages("t/+", None, 9, now).unwrap().messages.len()
        };
        net.shards.iter_mut().map(of).sum::<usize>()
    };
    assert_eq!(kept(&mut net), 2);
    {
        let Net { shards, wires, now, .. } = &mut net;
        assert_eq!(shards[0].retained_messages("a/#/b", None, 9, *now), None);
        assert_eq!(shards[1].publish(&message("t/0", b""), *now, &mut wires[1]), Ok(()));
    }
    net.deliver_mail();
    assert_eq!(kept(&mut net), 1);
    let other = 1 - shard;
    net.begin_move("reader", other).unwrap();
    let Net { shards, wires, now, .. } = &mut net;
    let busy = shards[0].publish(&message("t/0", b"x"), *now, &mut wires[0]);
    assert_eq!(busy, Err(NotPublished::Busy));
}
