//! A message as JSON, with the names and the order that mosquitto_sub has.

mod pretty;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Serializer, Value, json};
use std::io::{self, Write};
use weir_wire::packet::Publish;
use weir_wire::{PacketId, Property};

#[derive(Serialize)]
struct Record<'a> {
    tst: String,
    topic: &'a str,
    qos: u8,
    retain: u8,
    payloadlen: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    mid: Option<u16>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    properties: Map<String, Value>,
    payload: Value,
}

/// Prints it on one line, or on several with `is_pretty`. With `is_parsed` a payload that is JSON
/// stands there as it is; one that is not is a string rather than left out.
pub(super) fn print(
    message: &Publish<'_>,
    now: Timestamp,
    (is_parsed, is_pretty): (bool, bool),
    out: &mut impl Write,
) -> io::Result<()> {
    let parsed = || serde_json::from_slice(message.payload).ok().filter(|_| is_parsed);
    let payload = match message.payload {
        [] => Value::Null,
        bytes => parsed().unwrap_or_else(|| text(bytes)),
    };
    let record = Record {
        tst: now.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        topic: message.topic,
        qos: message.qos as u8,
        retain: message.retain.into(),
        payloadlen: message.payload.len(),
        mid: message.packet_id.map(PacketId::value),
        properties: properties(message),
        payload,
    };
    if is_pretty {
        return Ok(record.serialize(&mut Serializer::with_formatter(out, pretty::Tabs::default()))?);
    }
    Ok(serde_json::to_writer(out, &record)?)
}

fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).into()
}

fn properties(message: &Publish<'_>) -> Map<String, Value> {
    let mut all = Map::new();
    for property in message.properties.iter() {
        let (name, value) = match property {
            Property::PayloadFormatIndicator(format) => ("payload-format-indicator", json!(format)),
            Property::MessageExpiryInterval(seconds) => ("message-expiry-interval", json!(seconds)),
            Property::ContentType(text) => ("content-type", json!(text)),
            Property::ResponseTopic(topic) => ("response-topic", json!(topic)),
            Property::CorrelationData(data) => ("correlation-data", text(data)),
            Property::TopicAlias(alias) => ("topic-alias", json!(alias)),
            // Both may stand several times, a user property with one name too.
            Property::UserProperty(name, value) => ("user-properties", json!([{ name: value }])),
            Property::SubscriptionIdentifier(number) => {
                ("subscription-identifiers", json!([number]))
            }
            _ => continue,
        };
        match (all.get_mut(name), value) {
            (Some(Value::Array(list)), Value::Array(more)) => list.extend(more),
            (_, value) => {
                all.insert(name.into(), value);
            }
        }
    }
    all
}
