//! From a message to a record of Kafka, and to its partition.

use super::settings::RecordKey;
use rskafka::chrono::DateTime;
use rskafka::record::Record;
use std::collections::BTreeMap;
use weir_wire::Property;
use weir_wire::packet::Publish;

/// The header with the MQTT topic.
pub(crate) const TOPIC_HEADER: &str = "mqtt.topic";

/// Bytes of a record beside its key, value and headers, at most.
const RECORD_BYTES: usize = 64;

/// Bytes of a header beside its name and value, at most.
const HEADER_BYTES: usize = 10;

/// The record of a message. User properties are headers of their own names; of several with one
/// name the last counts, and none is taken for what this says of the message.
pub(crate) fn record_of(publish: &Publish<'_>, key: RecordKey, now_ms: i64) -> Record {
    let mut headers = BTreeMap::new();
    let mut own: Vec<(&str, &[u8])> = vec![
        (TOPIC_HEADER, publish.topic.as_bytes()),
        ("mqtt.qos", [b"0", b"1", b"2"][publish.qos as usize]),
        ("mqtt.retain", if publish.retain { b"1" } else { b"0" }),
    ];
    for property in publish.properties.iter() {
        match property {
            Property::UserProperty(name, value) => {
                headers.insert(name.to_owned(), value.as_bytes().to_vec());
            }
            Property::ContentType(text) => own.push(("mqtt.content_type", text.as_bytes())),
            Property::ResponseTopic(text) => own.push(("mqtt.response_topic", text.as_bytes())),
            Property::CorrelationData(bytes) => own.push(("mqtt.correlation_data", bytes)),
            _ => {}
        }
    }
    headers.extend(own.into_iter().map(|(name, value)| (name.to_owned(), value.to_vec())));
    Record {
        key: match key {
            RecordKey::Topic => Some(publish.topic.as_bytes().to_vec()),
            RecordKey::None => None,
        },
        value: Some(publish.payload.to_vec()),
        headers,
        timestamp: DateTime::from_timestamp_millis(now_ms).unwrap_or_default(),
    }
}

/// What a record takes in a batch, at most.
pub(crate) fn bytes_of(record: &Record) -> usize {
    record.approximate_size() + RECORD_BYTES + record.headers.len() * HEADER_BYTES
}

/// Which of so many partitions a topic's messages are in: the one where Kafka's own clients put
/// records with that key.
pub(crate) fn partition_of(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions.max(1)
}

/// MurmurHash2 as Kafka's clients have it.
fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    let mut hash = SEED ^ bytes.len() as u32;
    let mut words = bytes.chunks_exact(4);
    for bytes in &mut words {
        let mixed = word(bytes).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (mixed ^ mixed >> 24).wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash = (hash ^ word(rest)).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{PacketId, PropertiesBuf, QoS};

    fn publish<'a>(properties: &'a PropertiesBuf, retain: bool) -> Publish<'a> {
        Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain,
            topic: "plant/7/temperature",
            packet_id: Some(PacketId::FIRST),
            properties: properties.as_properties(),
            payload: b"21.5",
        }
    }

    #[test]
    fn a_record_has_what_the_message_had() {
        let mut properties = PropertiesBuf::new();
        for property in [
            Property::ContentType("text/plain"),
            Property::UserProperty("traceparent", "00-1"),
            Property::UserProperty("traceparent", "00-2"),
            Property::UserProperty("mqtt.topic", "forged"),
            Property::CorrelationData(&[0, 255]),
        ] {
            properties.push(property);
        }
        let record = record_of(&publish(&properties, true), RecordKey::Topic, 1_700_000_000_123);
        assert_eq!(record.key.as_deref(), Some(&b"plant/7/temperature"[..]));
        assert_eq!(record.value.as_deref(), Some(&b"21.5"[..]));
        assert_eq!(record.timestamp.timestamp_millis(), 1_700_000_000_123);
        let headers: Vec<(&str, &[u8])> =
            record.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let expected: [(&str, &[u8]); 6] = [
            ("mqtt.content_type", b"text/plain"),
            ("mqtt.correlation_data", &[0, 255]),
            ("mqtt.qos", b"1"),
            ("mqtt.retain", b"1"),
            ("mqtt.topic", b"plant/7/temperature"),
            ("traceparent", b"00-2"),
        ];
        assert_eq!(headers, expected);
        let bare = record_of(&publish(&PropertiesBuf::new(), false), RecordKey::None, 0);
        assert_eq!((bare.key, &*bare.headers["mqtt.retain"]), (None, &b"0"[..]));
    }

    /// As the tests of Apache Kafka have it (`UtilsTest.testMurmur2`).
    #[test]
    fn keys_are_hashed_as_kafkas_own_clients_do() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
            assert!(partition_of(key.as_bytes(), 3) < 3);
        }
        assert_eq!(partition_of(b"abc", 10), 7);
    }
}
