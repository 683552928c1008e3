//! Several shards behind one port: who is on which makes no difference to anybody.

use crate::support::{Broker, Client};
use weir_broker::{Config, ProcessLimits};
use weir_wire::packet::Publish;
use weir_wire::{Packet, PacketId, Properties, QoS, ReasonCode, Version};

/// Enough that each shard owns some.
const CLIENTS: usize = 40;

fn three() -> Config {
    Config { shards: 3, ..Config::default() }
}

fn join(broker: &Broker, count: usize) -> Vec<Client> {
    let mut clients: Vec<Client> =
        (0..count).map(|at| broker.connect(&format!("client-{at}"), &[])).collect();
    for client in &mut clients {
        assert_eq!(client.connack(), Some(ReasonCode::Success));
    }
    clients
}

fn publish(client: &mut Client, topic: &str, payload: &str, retain: bool) {
    let mut bytes = Vec::new();
    Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain,
        topic,
        packet_id: Some(PacketId::FIRST),
        properties: Properties::EMPTY,
        payload: payload.as_bytes(),
    }
    .encode(Version::V5, &mut bytes);
    client.send(&bytes);
}

/// The next message; PUBACKs of one's own are passed over.
fn message(client: &mut Client) -> Option<(String, String, bool)> {
    loop {
        let read = client.packet(|packet| match packet {
            Packet::Publish(publish) => {
                let payload = String::from_utf8(publish.payload.to_vec()).unwrap();
                Some((publish.topic.to_owned(), payload, publish.retain))
            }
            Packet::PubAck(_) => None,
            other => panic!("{other:?}"),
        })?;
        if read.is_some() {
            return read;
        }
    }
}

#[test]
fn everybody_gets_everything_in_order_whoever_publishes() {
    let broker = Broker::start(three());
    let mut clients = join(&broker, CLIENTS);
    for client in &mut clients {
        client.subscribe("all/+", QoS::AtMostOnce);
    }
    for (at, client) in clients.iter_mut().enumerate() {
        for number in 0..3 {
            publish(client, &format!("all/{at}"), &number.to_string(), false);
        }
    }
    for client in &mut clients {
        let mut next = [0; CLIENTS];
        for _ in 0..CLIENTS * 3 {
            let (topic, payload, _) = message(client).unwrap();
            let from: usize = topic.strip_prefix("all/").unwrap().parse().unwrap();
            assert_eq!(payload, next[from].to_string(), "of {topic}");
            next[from] += 1;
        }
    }
}

#[test]
fn a_retained_message_is_there_for_clients_of_every_shard() {
    let broker = Broker::start(three());
    let mut clients = join(&broker, CLIENTS);
    for (at, client) in clients.iter_mut().enumerate() {
        publish(client, &format!("kept/{at}"), "x", true);
        // Acknowledged: the owner has it.
        let reason = client.packet(|packet| match packet {
            Packet::PubAck(ack) => ack.packet_id,
            other => panic!("{other:?}"),
        });
        assert_eq!(reason, Some(PacketId::FIRST));
    }
    for client in &mut clients {
        client.subscribe("kept/#", QoS::AtMostOnce);
        let mut topics: Vec<String> = (0..CLIENTS)
            .map(|_| {
                let (topic, _, retain) = message(client).unwrap();
                assert!(retain);
                topic
            })
            .collect();
        topics.sort();
        topics.dedup();
        assert_eq!(topics.len(), CLIENTS);
    }
}

#[test]
fn one_member_of_a_group_gets_each_message() {
    let broker = Broker::start(three());
    let mut clients = join(&broker, CLIENTS);
    let (members, publishers) = clients.split_at_mut(CLIENTS / 2);
    for member in members.iter_mut() {
        member.subscribe("$share/group/work/+", QoS::AtMostOnce);
        member.subscribe("end", QoS::AtMostOnce);
    }
    for (at, publisher) in publishers.iter_mut().enumerate() {
        publish(publisher, &format!("work/{at}"), "x", false);
        let done = publisher.packet(|packet| matches!(packet, Packet::PubAck(_)));
        assert_eq!(done, Some(true));
    }
    // Sent by each publisher behind its work, so that it comes behind that.
    for publisher in publishers.iter_mut() {
        publish(publisher, "end", "x", false);
    }
    let mut got = Vec::new();
    for member in members {
        let mut ends = 0;
        while ends < CLIENTS / 2 {
            let (topic, _, _) = message(member).unwrap();
            if topic == "end" { ends += 1 } else { got.push(topic) }
        }
    }
    got.sort();
    let mut all: Vec<String> = (0..CLIENTS / 2).map(|at| format!("work/{at}")).collect();
    all.sort();
    assert_eq!(got, all);
}

#[test]
fn a_second_connection_takes_over_wherever_it_was_accepted() {
    let broker = Broker::start(three());
    let mut first = join(&broker, CLIENTS);
    let mut second = join(&broker, CLIENTS);
    for (first, second) in first.iter_mut().zip(&mut second) {
        let reason = first.packet(|packet| match packet {
            Packet::Disconnect(disconnect) => disconnect.reason,
            other => panic!("{other:?}"),
        });
        assert_eq!(reason, Some(ReasonCode::SessionTakenOver));
        assert!(first.ended());
        second.send(&[0xC0, 0]);
        assert_eq!(second.packet(|packet| matches!(packet, Packet::PingResp)), Some(true));
    }
}

#[test]
fn connections_are_counted_over_all_shards() {
    let process = ProcessLimits { connections_max: CLIENTS as u32, ..ProcessLimits::default() };
    let broker = Broker::start(Config { process, ..three() });
    for _ in 0..2 {
        let mut clients = join(&broker, CLIENTS);
        let mut over = broker.connect("over", &[]);
        assert_eq!(over.connack(), Some(ReasonCode::QuotaExceeded));
        for client in &mut clients {
            client.send(&[0xE0, 0]);
        }
        // The end of the stream: their places are free.
        assert!(clients.iter_mut().all(Client::ended));
    }
}
