//! Copied packets as JSON, on the control thread.

use super::Copied;
use super::copy::PAYLOAD_BYTES_MAX;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use weir_control::TraceEvent;
use weir_wire::packet::{Ack, Connect, Publish, SubscribeFilters, Will};
use weir_wire::{
    FRAME_HEADER_BYTES_MAX, Frame, Packet, PacketId, PacketKind, Properties, Property, QoS,
    ReasonCode, Version,
};

/// What stands for what nobody is shown.
const HIDDEN: &str = "(hidden)";

/// An event as it is shown.
pub(crate) fn event(copied: &Copied) -> TraceEvent {
    let party = copied.party.as_deref();
    let text = |text: Option<&str>| text.map(str::to_owned);
    TraceEvent {
        traces: copied.traces,
        at: format!("{:.6}", copied.at),
        direction: if copied.is_in { "in" } else { "out" },
        client_id: text(party.map(|party| &*party.client_id).filter(|id| !id.is_empty())),
        user: text(party.and_then(|party| party.user.as_deref())),
        address: party.and_then(|party| party.address).map(|address| address.to_string()),
        packet: copied.kind.map_or("none", kind_name),
        bytes: copied.packet_bytes as u64,
        fields: fields(copied),
    }
}

fn kind_name(kind: PacketKind) -> &'static str {
    match kind {
        PacketKind::Connect => "CONNECT",
        PacketKind::ConnAck => "CONNACK",
        PacketKind::Publish => "PUBLISH",
        PacketKind::PubAck => "PUBACK",
        PacketKind::PubRec => "PUBREC",
        PacketKind::PubRel => "PUBREL",
        PacketKind::PubComp => "PUBCOMP",
        PacketKind::Subscribe => "SUBSCRIBE",
        PacketKind::SubAck => "SUBACK",
        PacketKind::Unsubscribe => "UNSUBSCRIBE",
        PacketKind::UnsubAck => "UNSUBACK",
        PacketKind::PingReq => "PINGREQ",
        PacketKind::PingResp => "PINGRESP",
        PacketKind::Disconnect => "DISCONNECT",
        PacketKind::Auth => "AUTH",
    }
}

fn fields(copied: &Copied) -> Map<String, Value> {
    let version = match (&copied.party, copied.kind) {
        (Some(party), _) => party.version,
        // It says its own.
        (None, Some(PacketKind::Connect)) => Version::V5,
        (None, _) => return object(json!({ "note": "its client is not known any more" })),
    };
    let (Some(kind), Some(body)) = (copied.kind, &copied.body) else {
        let note = match copied.kind {
            None => "this is no packet of MQTT",
            Some(_) => "it cannot be decoded, or is too long to be shown",
        };
        return object(json!({ "note": note }));
    };
    let frame = Frame { flags: copied.flags, ..Frame::of(kind, body) };
    let mut fields = match Packet::decode(version, frame) {
        Ok(Packet::Publish(mut publish)) => {
            publish.topic = copied.topic.as_deref().unwrap_or(publish.topic);
            let cut_bytes = body_bytes(copied.packet_bytes).saturating_sub(body.len());
            of_publish(&publish, publish.payload.len() + cut_bytes)
        }
        Ok(packet) => of_packet(&packet, version),
        Err(error) => json!({ "note": error.to_string() }),
    };
    without_nulls(&mut fields);
    object(fields)
}

/// What nobody has set is left out.
fn without_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, value| !value.is_null());
        fields.values_mut().for_each(without_nulls);
    }
}

/// Bytes of the body of a packet of so many.
fn body_bytes(packet_bytes: usize) -> usize {
    let bodies = (2..=FRAME_HEADER_BYTES_MAX).map(|header| packet_bytes.saturating_sub(header));
    bodies.rev().find(|&body| weir_wire::packet_bytes(body) == packet_bytes).unwrap_or(0)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn of_packet(packet: &Packet<'_>, version: Version) -> Value {
    match packet {
        Packet::Connect(connect) => of_connect(connect),
        Packet::ConnAck(connack) => json!({
            "session_present": connack.session_present,
            "reason": connack.reason.name(),
            "properties": of_properties(connack.properties),
        }),
        Packet::Publish(publish) => of_publish(publish, publish.payload.len()),
        Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubRel(ack) | Packet::PubComp(ack) => {
            of_ack(ack)
        }
        Packet::Subscribe(subscribe) => json!({
            "packet_id": subscribe.packet_id.value(),
            "filters": of_filters(subscribe.filters()),
            "properties": of_properties(subscribe.properties),
        }),
        Packet::SubAck(suback) => json!({
            "packet_id": suback.packet_id.value(),
            "codes": suback.codes,
            "properties": of_properties(suback.properties),
        }),
        Packet::Unsubscribe(unsubscribe) => json!({
            "packet_id": unsubscribe.packet_id.value(),
            "filters": unsubscribe.filters().collect::<Vec<_>>(),
            "properties": of_properties(unsubscribe.properties),
        }),
        Packet::UnsubAck(unsuback) => json!({
            "packet_id": unsuback.packet_id.value(),
            "codes": unsuback.codes,
            "properties": of_properties(unsuback.properties),
        }),
        Packet::PingReq | Packet::PingResp => Value::Null,
        Packet::Disconnect(disconnect) => json!({
            "reason": of_reason(disconnect.reason, version),
            "properties": of_properties(disconnect.properties),
        }),
        Packet::Auth(auth) => json!({
            "reason": auth.reason.name(),
            "data": HIDDEN,
            "properties": of_properties(auth.properties),
        }),
    }
}

/// Older versions say none.
fn of_reason(reason: ReasonCode, version: Version) -> Option<&'static str> {
    version.is_v5().then(|| reason.name())
}

fn of_ack(ack: &Ack<'_>) -> Value {
    json!({
        "packet_id": ack.packet_id.value(),
        "reason": (ack.reason != ReasonCode::Success).then(|| ack.reason.name()),
        "properties": of_properties(ack.properties),
    })
}

fn of_connect(connect: &Connect<'_>) -> Value {
    json!({
        "version": connect.version.name(),
        "clean_start": connect.clean_start,
        "keep_alive_s": connect.keep_alive_s,
        "user_name": connect.user_name,
        "password": connect.password.map(|_| HIDDEN),
        "will": connect.will.as_ref().map(of_will),
        "properties": of_properties(connect.properties),
    })
}

fn of_will(will: &Will<'_>) -> Value {
    let (payload, payload_encoding) = shown(will.payload);
    json!({
        "topic": will.topic,
        "qos": will.qos as u8,
        "retain": will.retain,
        "payload": payload,
        "payload_encoding": payload_encoding,
        "properties": of_properties(will.properties),
    })
}

fn of_publish(publish: &Publish<'_>, payload_bytes: usize) -> Value {
    let kept_bytes = publish.payload.len().min(PAYLOAD_BYTES_MAX);
    let (payload, payload_encoding) = shown(&publish.payload[..kept_bytes]);
    json!({
        "topic": publish.topic,
        "qos": publish.qos as u8,
        "retain": publish.retain,
        "dup": (publish.qos != QoS::AtMostOnce).then_some(publish.dup),
        "packet_id": publish.packet_id.map(PacketId::value),
        "payload": payload,
        "payload_encoding": payload_encoding,
        "payload_bytes": payload_bytes,
        "properties": of_properties(publish.properties),
    })
}

/// Bytes as text, and how. A character may be cut at the end.
fn shown(bytes: &[u8]) -> (String, &'static str) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), "plain"),
        Err(error) if error.error_len().is_none() => {
            (String::from_utf8_lossy(&bytes[..error.valid_up_to()]).into_owned(), "plain")
        }
        Err(_) => (STANDARD.encode(bytes), "base64"),
    }
}

fn of_filters(filters: SubscribeFilters<'_>) -> Vec<Value> {
    let filter = |(filter, options): (&str, weir_wire::packet::SubscriptionOptions)| {
        json!({
            "filter": filter,
            "qos": options.qos as u8,
            "no_local": options.no_local,
            "retain_as_published": options.retain_as_published,
            "retain_handling": options.retain_handling as u8,
        })
    };
    filters.map(filter).collect()
}

/// Nothing if there are none.
fn of_properties(properties: Properties<'_>) -> Option<Value> {
    let mut all = Map::new();
    for property in properties.iter() {
        let (name, value) = of_property(property);
        match property {
            // These may come several times.
            Property::UserProperty(..) | Property::SubscriptionIdentifier(_) => {
                let values = all.entry(name).or_insert_with(|| json!([]));
                values.as_array_mut().into_iter().for_each(|values| values.push(value.clone()));
            }
            _ => _ = all.insert(name.to_owned(), value),
        }
    }
    (!all.is_empty()).then_some(Value::Object(all))
}

fn of_property(property: Property<'_>) -> (&'static str, Value) {
    let bytes = |bytes: &[u8]| Value::from(shown(bytes).0);
    match property {
        Property::PayloadFormatIndicator(it) => ("payload_format_indicator", it.into()),
        Property::MessageExpiryInterval(it) => ("message_expiry_interval", it.into()),
        Property::ContentType(it) => ("content_type", it.into()),
        Property::ResponseTopic(it) => ("response_topic", it.into()),
        Property::CorrelationData(it) => ("correlation_data", bytes(it)),
        Property::SubscriptionIdentifier(it) => ("subscription_identifiers", it.into()),
        Property::SessionExpiryInterval(it) => ("session_expiry_interval", it.into()),
        Property::AssignedClientIdentifier(it) => ("assigned_client_identifier", it.into()),
        Property::ServerKeepAlive(it) => ("server_keep_alive", it.into()),
        Property::AuthenticationMethod(it) => ("authentication_method", it.into()),
        Property::AuthenticationData(_) => ("authentication_data", HIDDEN.into()),
        Property::RequestProblemInformation(it) => ("request_problem_information", it.into()),
        Property::WillDelayInterval(it) => ("will_delay_interval", it.into()),
        Property::RequestResponseInformation(it) => ("request_response_information", it.into()),
        Property::ResponseInformation(it) => ("response_information", it.into()),
        Property::ServerReference(it) => ("server_reference", it.into()),
        Property::ReasonString(it) => ("reason_string", it.into()),
        Property::ReceiveMaximum(it) => ("receive_maximum", it.into()),
        Property::TopicAliasMaximum(it) => ("topic_alias_maximum", it.into()),
        Property::TopicAlias(it) => ("topic_alias", it.into()),
        Property::MaximumQoS(it) => ("maximum_qos", it.into()),
        Property::RetainAvailable(it) => ("retain_available", it.into()),
        Property::UserProperty(name, value) => ("user_properties", json!([name, value])),
        Property::MaximumPacketSize(it) => ("maximum_packet_size", it.into()),
        Property::WildcardSubscriptionAvailable(it) => {
            ("wildcard_subscription_available", it.into())
        }
        Property::SubscriptionIdentifierAvailable(it) => {
            ("subscription_identifier_available", it.into())
        }
        Property::SharedSubscriptionAvailable(it) => ("shared_subscription_available", it.into()),
    }
}
