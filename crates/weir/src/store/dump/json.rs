//! A record as JSON: numbers and texts as they are, bytes as text where they are UTF-8.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use weir_core::{Lsn, Micros, Record, WillRecord};
use weir_wire::packet::SubscriptionOptions;
use weir_wire::{PropertiesBuf, Property, QoS};

/// Bits of a record's number that count within a start of the log.
const COUNT_BITS: u32 = 44;

/// The kind of a record, its session, and its fields.
pub(super) fn record(record: &Record<'_>) -> Value {
    let mut object = json!({ "kind": kind(record) });
    if let Some(session) = record.session() {
        object["session"] = lsn(session);
    }
    if let Record::Queued { message, .. } | Record::Mailed { message, .. } = record {
        object["message"] = lsn(*message);
    }
    extend(&mut object, fields(record));
    object
}

/// What a record says, without the records that it names.
pub(super) fn fields(record: &Record<'_>) -> Value {
    match record {
        Record::Session { client_id, expiry_s, will: of, .. } => {
            json!({ "client_id": client_id, "expiry_s": expiry_s, "will": of.as_ref().map(will) })
        }
        Record::Absent { expires_at, will_at, .. } => {
            json!({ "expires_at_us": time(*expires_at), "will_at_us": time(*will_at) })
        }
        Record::Subscribed { name, condition, options, subscription_id, .. } => {
            subscribed(name, *condition, *options, *subscription_id)
        }
        Record::Unsubscribed { name, .. } => json!({ "filter": name }),
        Record::Message { topic, payload, properties, qos, retain, expires_at } => {
            let mut object = message(topic, payload, properties, *qos, *expires_at);
            object["retain"] = json!(retain);
            object
        }
        Record::Retained { topic, payload, properties, qos, expires_at } => {
            message(topic, payload, properties, *qos, *expires_at)
        }
        Record::Cleared { topic } => json!({ "topic": topic }),
        Record::Queued { qos, retain, subscription_ids, packet_id, .. } => json!({
            "qos": *qos as u8,
            "retain": retain,
            "subscription_ids": subscription_ids,
            "packet_id": packet_id.map(weir_wire::PacketId::value),
        }),
        Record::Sent { packet_id, .. }
        | Record::Received { packet_id, .. }
        | Record::Done { packet_id, .. }
        | Record::Noted { packet_id, .. }
        | Record::Released { packet_id, .. } => json!({ "packet_id": packet_id.value() }),
        Record::Mailed { number, targets, .. } => {
            let shards: Vec<u16> = targets.iter().map(|target| target.shard.0).collect();
            json!({ "number": lsn(*number), "shards": shards })
        }
        Record::Marked { from, number }
        | Record::Refused { from, number }
        | Record::PutOff { from, number }
        | Record::MarkedFar { from, number } => {
            json!({ "from": from.0, "number": lsn(*number) })
        }
        Record::Claimed { claim, .. } => json!({ "claim": claim.0 }),
        Record::Delivered { number } => json!({ "number": lsn(*number) }),
        Record::Paged { page, messages, bytes, behind, .. } => json!({
            "page": lsn(Lsn(page.0)), "messages": messages, "bytes": bytes, "behind": behind,
        }),
        Record::Fetched { page, .. } => json!({ "page": lsn(Lsn(page.0)) }),
        Record::Page { page, messages, bytes, .. } => {
            json!({ "page": lsn(Lsn(page.0)), "messages": messages, "bytes": bytes })
        }
        Record::Gone { .. } | Record::Dropped { .. } | Record::Base | Record::BaseEnd => json!({}),
    }
}

/// Adds the fields of an object to another.
pub(super) fn extend(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

/// As the log counts: its start, then its records.
pub(super) fn lsn(Lsn(bits): Lsn) -> Value {
    json!(format!("{}.{}", bits >> COUNT_BITS, bits & ((1 << COUNT_BITS) - 1)))
}

fn kind(record: &Record<'_>) -> &'static str {
    match record {
        Record::Session { .. } => "session",
        Record::Absent { .. } => "absent",
        Record::Gone { .. } => "gone",
        Record::Subscribed { .. } => "subscribed",
        Record::Unsubscribed { .. } => "unsubscribed",
        Record::Message { .. } => "message",
        Record::Queued { .. } => "queued",
        Record::Sent { .. } => "sent",
        Record::Dropped { .. } => "dropped",
        Record::Received { .. } => "received",
        Record::Done { .. } => "done",
        Record::Noted { .. } => "noted",
        Record::Released { .. } => "released",
        Record::Base => "base",
        Record::BaseEnd => "base_end",
        Record::Mailed { .. } => "mailed",
        Record::Marked { .. } => "marked",
        Record::Refused { .. } => "refused",
        Record::PutOff { .. } => "put_off",
        Record::MarkedFar { .. } => "marked_far",
        Record::Claimed { .. } => "claimed",
        Record::Delivered { .. } => "delivered",
        Record::Paged { .. } => "paged",
        Record::Fetched { .. } => "fetched",
        Record::Page { .. } => "page",
        Record::Retained { .. } => "retained",
        Record::Cleared { .. } => "cleared",
    }
}

fn subscribed(
    name: &str,
    condition: Option<&str>,
    options: SubscriptionOptions,
    subscription_id: Option<u32>,
) -> Value {
    let SubscriptionOptions { qos, no_local, retain_as_published, retain_handling } = options;
    json!({
        "filter": name,
        "condition": condition,
        "qos": qos as u8,
        "no_local": no_local,
        "retain_as_published": retain_as_published,
        "retain_handling": retain_handling as u8,
        "subscription_id": subscription_id,
    })
}

fn message(
    topic: &str,
    payload: &[u8],
    properties: &[u8],
    qos: QoS,
    expires_at: Option<Micros>,
) -> Value {
    let mut object = json!({
        "topic": topic,
        "qos": qos as u8,
        "expires_at_us": time(expires_at),
        "properties": of_properties(properties),
    });
    bytes(&mut object, "payload", payload);
    object
}

fn will(will: &WillRecord<'_>) -> Value {
    let WillRecord { topic, payload, properties, qos, retain, delay_s, message_expiry_s } = will;
    let mut object = message(topic, payload, properties, *qos, None);
    extend(
        &mut object,
        json!({ "retain": retain, "delay_s": delay_s, "message_expiry_s": message_expiry_s }),
    );
    object
}

fn time(at: Option<Micros>) -> Option<u64> {
    at.map(|Micros(at)| at)
}

/// Those that a broker passes on.
fn of_properties(encoded: &[u8]) -> Value {
    let mut object = json!({});
    let mut users = Vec::new();
    for property in PropertiesBuf::from_bytes(encoded.to_vec()).as_properties().iter() {
        match property {
            Property::PayloadFormatIndicator(format) => {
                object["payload_format_indicator"] = json!(format);
            }
            Property::ContentType(content) => object["content_type"] = json!(content),
            Property::ResponseTopic(topic) => object["response_topic"] = json!(topic),
            Property::CorrelationData(data) => bytes(&mut object, "correlation_data", data),
            Property::UserProperty(name, value) => users.push(json!([name, value])),
            _ => {}
        }
    }
    if !users.is_empty() {
        object["user_properties"] = json!(users);
    }
    object
}

fn bytes(object: &mut Value, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object[name] = json!(text),
        Err(_) => object[format!("{name}_base64")] = json!(STANDARD.encode(bytes)),
    }
}
