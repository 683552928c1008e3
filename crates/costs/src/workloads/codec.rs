//! Packets to bytes and back.

use super::Workload;
use std::hint::black_box;
use weir_wire::packet::{Connect, Publish};
use weir_wire::{Frame, Packet, PacketId, Properties, PropertiesBuf, Property, QoS, Version};

const PACKETS: usize = 1000;
const BYTES_MAX: u32 = 1 << 20;

pub(super) const DECODE_PUBLISH: Workload =
    Workload { name: "decode-publish", operations: PACKETS as u64, prepare: || decode_publish(16) };

pub(super) const DECODE_PUBLISH_300: Workload = Workload {
    name: "decode-publish-300-B",
    operations: PACKETS as u64,
    prepare: || decode_publish(300),
};

pub(super) const DECODE_PUBLISH_4K: Workload = Workload {
    name: "decode-publish-4-KiB",
    operations: PACKETS as u64,
    prepare: || decode_publish(4096),
};

pub(super) const DECODE_PUBLISH_V5: Workload = Workload {
    name: "decode-publish-v5-properties",
    operations: PACKETS as u64,
    prepare: || {
        decode(Version::V5, |out| {
            let mut properties = PropertiesBuf::new();
            properties.push(Property::MessageExpiryInterval(60));
            properties.push(Property::ContentType("application/json"));
            properties.push(Property::UserProperty("unit", "km/h"));
            publish(properties.as_properties(), &[0x61; 16]).encode(Version::V5, out);
        })
    },
};

pub(super) const DECODE_CONNECT: Workload = Workload {
    name: "decode-connect",
    operations: PACKETS as u64,
    prepare: || {
        decode(Version::V311, |out| {
            let connect = Connect {
                version: Version::V311,
                clean_start: true,
                keep_alive_s: 60,
                client_id: "a-client-with-a-name",
                will: None,
                user_name: None,
                password: None,
                properties: Properties::EMPTY,
            };
            connect.encode(out);
        })
    },
};

pub(super) const ENCODE_PUBLISH: Workload =
    Workload { name: "encode-publish", operations: PACKETS as u64, prepare: || encode_publish(16) };

pub(super) const ENCODE_PUBLISH_300: Workload = Workload {
    name: "encode-publish-300-B",
    operations: PACKETS as u64,
    prepare: || encode_publish(300),
};

pub(super) const ENCODE_PUBLISH_4K: Workload = Workload {
    name: "encode-publish-4-KiB",
    operations: PACKETS as u64,
    prepare: || encode_publish(4096),
};

fn decode_publish(payload_bytes: usize) -> Box<dyn FnMut()> {
    let payload = vec![0x61; payload_bytes];
    decode(Version::V311, |out| {
        publish(Properties::EMPTY, &payload).encode(Version::V311, out);
    })
}

fn encode_publish(payload_bytes: usize) -> Box<dyn FnMut()> {
    let payload = vec![0x61; payload_bytes];
    let mut out = Vec::with_capacity(PACKETS * (payload_bytes + 64));
    Box::new(move || {
        out.clear();
        for _ in 0..PACKETS {
            black_box(publish(Properties::EMPTY, &payload)).encode(Version::V311, &mut out);
        }
        black_box(&out);
    })
}

fn publish<'a>(properties: Properties<'a>, payload: &'a [u8]) -> Publish<'a> {
    Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: "test/topic/17",
        packet_id: Some(PacketId::FIRST),
        properties,
        payload,
    }
}

/// Decodes the packet over and over, as it lies in a buffer with others of its kind.
fn decode(version: Version, encode: impl Fn(&mut Vec<u8>)) -> Box<dyn FnMut()> {
    let mut bytes = Vec::new();
    for _ in 0..PACKETS {
        encode(&mut bytes);
    }
    Box::new(move || {
        let mut rest = &bytes[..];
        while let Ok(Some(frame)) = Frame::check(rest, BYTES_MAX) {
            black_box(Packet::decode(version, frame).expect("it was encoded here"));
            rest = &rest[frame.bytes..];
        }
        assert!(rest.is_empty());
    })
}
