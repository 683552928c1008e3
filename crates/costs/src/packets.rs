//! What the measured clients send.

use weir_wire::packet::{Connect, Publish};
use weir_wire::{PacketId, Properties, QoS, Version};

/// CONNECT with a clean start and a keep alive of 60 s.
pub(crate) fn connect(version: Version, client_id: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    Connect {
        version,
        clean_start: true,
        keep_alive_s: 60,
        client_id,
        will: None,
        user_name: None,
        password: None,
        properties: Properties::EMPTY,
    }
    .encode(&mut bytes);
    bytes
}

/// PUBLISH of MQTT 3.1.1 with so many bytes of payload.
pub(crate) fn publish(topic: &str, qos: QoS, payload_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    Publish {
        dup: false,
        qos,
        retain: false,
        topic,
        packet_id: (qos > QoS::AtMostOnce).then_some(PacketId::FIRST),
        properties: Properties::EMPTY,
        payload: &vec![0x61; payload_bytes],
    }
    .encode(Version::V311, &mut bytes);
    bytes
}
