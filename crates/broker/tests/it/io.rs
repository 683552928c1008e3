//! A broker whose connections are direct descriptors of io_uring: nobody notices.

use crate::support::{Broker, Client};
use weir_broker::{Config, IoBackend};
use weir_reactor::Backend;
use weir_wire::packet::Publish;
use weir_wire::{Packet, Properties, QoS, ReasonCode, Version};

/// Enough that each shard owns some, so that connections move between shards.
const CLIENTS: usize = 40;

#[test]
fn every_client_gets_every_message_and_the_end_of_the_stream_over_io_uring() {
    if let Err(error) = Backend::IoUring.check() {
        assert!(std::env::var_os("CI").is_none(), "{error}");
        return eprintln!("not tested: {error}");
    }
    for shards in [1, 3] {
        let broker = Broker::start(Config { shards, io: IoBackend::IoUring, ..Config::default() });
        let mut clients: Vec<Client> =
            (0..CLIENTS).map(|at| broker.connect(&format!("client-{at}"), &[])).collect();
        for client in &mut clients {
            assert_eq!(client.connack(), Some(ReasonCode::Success));
            client.subscribe("all", QoS::AtMostOnce);
        }
        for at in 0..CLIENTS {
            clients[at].send(&message(&at.to_string()));
            for client in &mut clients {
                assert_eq!(payload(client), at.to_string());
            }
        }
        drop(broker);
        // DISCONNECT, then the end in good order.
        for client in &mut clients {
            let reason = client.packet(|packet| match packet {
                Packet::Disconnect(disconnect) => disconnect.reason,
                other => panic!("{other:?}"),
            });
            assert_eq!(reason, Some(ReasonCode::ServerShuttingDown));
            assert!(client.ended());
        }
    }
}

fn message(payload: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: false,
        topic: "all",
        packet_id: None,
        properties: Properties::EMPTY,
        payload: payload.as_bytes(),
    }
    .encode(Version::V5, &mut bytes);
    bytes
}

fn payload(client: &mut Client) -> String {
    let payload = client.packet(|packet| match packet {
        Packet::Publish(publish) => String::from_utf8(publish.payload.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    });
    payload.unwrap()
}
