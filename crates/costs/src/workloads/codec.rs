//! Packets to bytes and back.

use super::Workload;
use std::hint::black_box;
use weir_wire::packet::{Connect, Publish};
use weir_wire::{Frame, Packet, PacketId, Properties, PropertiesBuf, Property, QoS, Version};

const PACKETS: usize = 1000;
const BYTES_MAX: u32 = 1 << 20;

pub(super) const DECODE_PUBLISH: Workload = Workload {
    name: "decode-publish",
    operations: PACKETS as u64,
    prepare: || {
        decode(Version::V311, |out| {
            publish(Properties::EMPTY).encode(Version::V311, out);
        })
    },
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
            publish(properties.as_properties()).encode(Version::V5, out);
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

pub(super) const ENCODE_PUBLISH: Workload = Workload {
    name: "encode-publish",
    operations: PACKETS as u64,
    prepare: || {
        let mut out = Vec::with_capacity(PACKETS * 64);
        Box::new(move || {
            out.clear();
            for _ in 0..PACKETS {
                black_box(publish(Properties::EMPTY)).encode(Version::V311, &mut out);
            }
            black_box(&out);
        })
    },
};

fn publish(properties: Properties<'_>) -> Publish<'_> {
    Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: "test/topic/17",
        packet_id: Some(PacketId::FIRST),
        properties,
        payload: &[0x61; 16],
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
