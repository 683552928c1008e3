//! Partitions move between threads while clients publish and subscribe, and nobody notices.

use crate::support::{Broker, Client};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;
use weir_broker::{Config, ControlConfig};
use weir_control::Caller;
use weir_wire::packet::{Ack, Publish};
use weir_wire::{Packet, PacketId, PacketKind, Properties, QoS, ReasonCode, Version};

const SHARDS: u16 = 4;
const CLIENTS: usize = 12;

/// Messages of its own that a client has in flight.
const IN_FLIGHT: usize = 4;

/// The last message of a client.
const END: &str = "end";

/// What a packet asks of a client.
enum Heard {
    Message { from: String, text: String },
    Send(PacketKind, PacketId),
    Done,
    Nothing,
}

fn hear(packet: &Packet<'_>) -> (Option<Heard>, Heard) {
    match packet {
        Packet::Publish(publish) => {
            let text = String::from_utf8(publish.payload.to_vec()).unwrap();
            let message = Heard::Message { from: publish.topic.to_owned(), text };
            assert!(!publish.dup, "the connection is the same");
            let kind = if publish.qos == QoS::AtLeastOnce {
                PacketKind::PubAck
            } else {
                PacketKind::PubRec
            };
            (Some(message), Heard::Send(kind, publish.packet_id.unwrap()))
        }
        Packet::PubRec(ack) => (None, Heard::Send(PacketKind::PubRel, ack.packet_id)),
        Packet::PubRel(ack) => (None, Heard::Send(PacketKind::PubComp, ack.packet_id)),
        Packet::PubAck(ack) | Packet::PubComp(ack) => {
            assert!(!ack.reason.is_error());
            (None, Heard::Done)
        }
        Packet::SubAck(_) => (None, Heard::Nothing),
        other => panic!("{other:?}"),
    }
}

/// A client that publishes until it is over, and reads until everybody has ended.
fn take_part(client: &mut Client, number: usize, is_over: &AtomicBool) {
    let qos = if number.is_multiple_of(2) { QoS::AtLeastOnce } else { QoS::ExactlyOnce };
    let topic = format!("m/{number}");
    let (mut sent, mut open, mut has_ended) = (0_u64, 0, false);
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    let mut ended = 0;
    while ended < CLIENTS || open > 0 {
        while open < IN_FLIGHT && !has_ended {
            has_ended = is_over.load(Ordering::Acquire);
            let text = if has_ended { END.to_owned() } else { sent.to_string() };
            let packet_id = PacketId::new((sent % 60_000 + 1) as u16);
            let mut bytes = Vec::new();
            Publish {
                dup: false,
                qos,
                retain: false,
                topic: &topic,
                packet_id,
                properties: Properties::EMPTY,
                payload: text.as_bytes(),
            }
            .encode(Version::V5, &mut bytes);
            client.send(&bytes);
            (sent, open) = (sent + 1, open + 1);
        }
        let (message, answer) = client.packet(hear).expect("nobody is disconnected");
        if let Some(Heard::Message { from, text }) = message {
            let next = next.entry(from.clone()).or_default();
            if text == END {
                ended += 1;
            } else {
                assert_eq!(text, next.to_string(), "client {number} of {from}: once, in order");
                *next += 1;
            }
        }
        match answer {
            Heard::Send(kind, packet_id) => {
                let mut bytes = Vec::new();
                Ack::success(packet_id).encode(kind, Version::V5, &mut bytes);
                client.send(&bytes);
            }
            Heard::Done => open -= 1,
            Heard::Nothing | Heard::Message { .. } => {}
        }
    }
}

/// A broker with the folder of its socket, who asks it, and so many clients of it.
fn start(clients: usize) -> (TempDir, Broker, Caller, Vec<Client>) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("ctl");
    let control = ControlConfig { socket: Some(socket.clone()), ..ControlConfig::default() };
    let broker = Broker::start(Config { shards: SHARDS, control, ..Config::default() });
    let caller = Caller::new(&socket).unwrap();
    let mut clients: Vec<Client> =
        (0..clients).map(|at| broker.connect(&format!("client-{at}"), &[])).collect();
    for client in &mut clients {
        assert_eq!(client.connack(), Some(ReasonCode::Success));
    }
    (folder, broker, caller, clients)
}

#[test]
fn nobody_notices_that_partitions_move() {
    let (_folder, _broker, caller, mut clients) = start(CLIENTS);
    for client in &mut clients {
        client.subscribe("m/+", QoS::ExactlyOnce);
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (number, client) in clients.iter_mut().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || take_part(client, number, is_over));
        }
        // Away, back again, and away.
        for step in [1, 0, 1] {
            for partition in 0..=u8::MAX {
                let to = (u16::from(partition) + step) % SHARDS;
                let path = format!("/api/v1/partitions/{partition}?shard={to}");
                assert_eq!(caller.put(&path).unwrap().status, 204, "{path}");
            }
        }
        is_over.store(true, Ordering::Release);
    });
    let counters = caller.get("/api/v1/counters").unwrap();
    let counters: Value = serde_json::from_slice(&counters.body).unwrap();
    let sum = &counters["sum"];
    assert_eq!(sum["freezes"], 3 * 256 * u64::from(SHARDS), "{sum}");
    assert_eq!((&sum["sessions"], &sum["connections_ended"]), (&CLIENTS.into(), &0.into()));
    for number in 0..CLIENTS {
        // The control thread knows where they went.
        assert_eq!(
            caller.delete(&Caller::client_path(&format!("client-{number}"))).unwrap().status,
            204
        );
    }
}

#[test]
fn who_asks_for_a_move_is_told_why_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    for (shards, path, status, text) in [
        (1, "/api/v1/partitions/7?shard=0", 409, "one shard"),
        (2, "/api/v1/partitions/256?shard=0", 400, "0 to 255"),
        (2, "/api/v1/partitions/x?shard=0", 400, "0 to 255"),
        (2, "/api/v1/partitions/7", 400, "shard"),
        (2, "/api/v1/partitions/7?shard=2", 400, "no shard 2: they are 0 to 1"),
        (2, "/api/v1/partitions/7?shard=1", 409, "shard 1 holds partition 7"),
    ] {
        let socket = folder.path().join("ctl");
        let control = ControlConfig { socket: Some(socket.clone()), ..ControlConfig::default() };
        let _broker = Broker::start(Config { shards, control, ..Config::default() });
        let caller = Caller::new(&socket).unwrap();
        let reply = caller.put(path).unwrap();
        let body = String::from_utf8(reply.body).unwrap();
        assert!(reply.status == status && body.contains(text), "{path}: {} {body}", reply.status);
    }
}

#[test]
fn who_holds_what_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("ctl");
    let control = ControlConfig { socket: Some(socket.clone()), ..ControlConfig::default() };
    let broker = Broker::start(Config { shards: 2, control, ..Config::default() });
    let caller = Caller::new(&socket).unwrap();
    let mut client = broker.connect("client", &[]);
    assert_eq!(client.connack(), Some(ReasonCode::Success));
    let held = || {
        let reply = caller.get("/api/v1/partitions").unwrap();
        let body: Value = serde_json::from_slice(&reply.body).unwrap();
        let shards = body["shards"].as_array().unwrap().clone();
        let counts = shards.iter().map(|shard| shard["held"].as_array().unwrap().len());
        let sessions: u64 = shards.iter().map(|shard| shard["sessions"].as_u64().unwrap()).sum();
        (counts.collect::<Vec<_>>(), sessions)
    };
    assert_eq!(held(), (vec![128, 128], 1));
    assert_eq!(caller.put("/api/v1/partitions/7?shard=0").unwrap().status, 204);
    assert_eq!(held(), (vec![129, 127], 1));
}

/// Says how long moves take over the control socket, with as many idle connections as `IDLE` says.
#[test]
#[ignore = "a measurement"]
fn how_long_moves_take() {
    let idle: usize = std::env::var("IDLE").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let (_folder, _broker, caller, _clients) = start(idle);
    let one = |partition: u8| {
        let path =
            format!("/api/v1/partitions/{partition}?shard={}", (u16::from(partition) + 1) % SHARDS);
        let begin = std::time::Instant::now();
        assert_eq!(caller.put(&path).unwrap().status, 204);
        begin.elapsed()
    };
    let mut took: Vec<_> = (0..=u8::MAX).map(one).collect();
    took.sort_unstable();
    println!("{idle} idle: median {:?}, p90 {:?}, longest {:?}", took[128], took[230], took[255]);
}
