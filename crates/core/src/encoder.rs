//! A PUBLISH encoded once for all its receivers.

use crate::Micros;
use crate::aliases::AliasOut;
use crate::message::Delivery;
use weir_wire::packet::{Publish, PublishPlaces};
use weir_wire::{PacketId, PropertiesBuf, Property, QoS, Version};

/// Variants that receivers share: with and without properties, three QoS, RETAIN on and off.
const SHAPES: usize = 2 * 3 * 2;

/// A payload of so many bytes is not copied for each receiver.
const SHARED_BYTES_MIN: usize = 4096;

/// How one receiver gets the message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape<'a> {
    pub(crate) version: Version,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) dup: bool,
    pub(crate) subscription_ids: &'a [u32],
    pub(crate) alias: AliasOut,
}

/// The encodings of the message being delivered. Their memory is kept from message to message.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    shapes: [Encoding; SHAPES],
    /// For what only one receiver has: subscription identifiers, DUP, a topic alias.
    single: Encoding,
    properties: PropertiesBuf,
}

#[derive(Debug, Default)]
struct Encoding {
    bytes: Vec<u8>,
    places: Option<PublishPlaces>,
}

/// A packet whose identifier differs between its receivers.
#[derive(Debug)]
pub(crate) struct Encoded<'a> {
    bytes: &'a mut [u8],
    packet_id_at: Option<usize>,
    /// Bytes of the payload, if it is not among the others.
    tail_bytes: usize,
}

impl Encoder {
    /// Forgets the last message.
    pub(crate) fn begin(&mut self) {
        for encoding in &mut self.shapes {
            encoding.places = None;
        }
    }

    /// The packet for a receiver; the caller writes it before it asks for the next. Above QoS 0
    /// it has no identifier yet: [`Encoded::with`].
    #[inline]
    pub(crate) fn encode(
        &mut self,
        delivery: &Delivery<'_>,
        shape: Shape<'_>,
        now: Micros,
    ) -> Encoded<'_> {
        let Self { shapes, single, properties } = self;
        let is_shared =
            shape.subscription_ids.is_empty() && !shape.dup && shape.alias == AliasOut::None;
        let encoding = if is_shared {
            let at = (usize::from(shape.version.is_v5()) * 3 + shape.qos as usize) * 2;
            &mut shapes[at + usize::from(shape.retain)]
        } else {
            single.places = None;
            single
        };
        let places = match encoding.places {
            Some(places) => places,
            None => {
                let places = encode(delivery, shape, properties, now, &mut encoding.bytes);
                *encoding.places.insert(places)
            }
        };
        let tail_bytes = if is_long(delivery) { delivery.payload.len() } else { 0 };
        Encoded { bytes: &mut encoding.bytes, packet_id_at: places.packet_id_at, tail_bytes }
    }
}

impl<'a> Encoded<'a> {
    /// Length of the packet, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.tail_bytes
    }

    /// Whether the payload is to follow what [`Encoded::with`] gives.
    pub(crate) fn has_tail(&self) -> bool {
        self.tail_bytes > 0
    }

    /// The packet, above QoS 0 with its identifier.
    #[inline]
    pub(crate) fn with(self, packet_id: Option<PacketId>) -> &'a [u8] {
        if let (Some(packet_id), Some(at)) = (packet_id, self.packet_id_at) {
            self.bytes[at..at + 2].copy_from_slice(&packet_id.value().to_be_bytes());
        }
        self.bytes
    }
}

fn encode(
    delivery: &Delivery<'_>,
    shape: Shape<'_>,
    properties: &mut PropertiesBuf,
    now: Micros,
    bytes: &mut Vec<u8>,
) -> PublishPlaces {
    properties.clear();
    let mut topic = delivery.topic;
    if shape.version.is_v5() {
        match shape.alias {
            AliasOut::None => {}
            AliasOut::New(alias) => properties.push(Property::TopicAlias(alias)),
            AliasOut::Known(alias) => {
                properties.push(Property::TopicAlias(alias));
                topic = "";
            }
        }
        if let Some(expires_at) = delivery.expires_at {
            // What is left, not what was asked for [MQTT-3.3.2-6].
            properties.push(Property::MessageExpiryInterval(now.secs_until(expires_at)));
        }
        for &id in shape.subscription_ids {
            properties.push(Property::SubscriptionIdentifier(id));
        }
        properties.extend(delivery.properties);
    }
    let publish = Publish {
        dup: shape.dup,
        qos: shape.qos,
        retain: shape.retain,
        topic,
        packet_id: (shape.qos != QoS::AtMostOnce).then_some(PacketId::FIRST),
        properties: properties.as_properties(),
        payload: delivery.payload,
    };
    bytes.clear();
    let places = publish.encode_head(shape.version, bytes);
    if !is_long(delivery) {
        bytes.extend_from_slice(delivery.payload);
    }
    places
}

/// Length of the packet for a receiver.
#[cold]
pub(crate) fn encoded_bytes(delivery: &Delivery<'_>, shape: Shape<'_>) -> usize {
    let (mut properties, mut head) = (PropertiesBuf::new(), Vec::new());
    // The expiry takes as many bytes at any time.
    encode(delivery, shape, &mut properties, Micros(0), &mut head);
    head.len() + if is_long(delivery) { delivery.payload.len() } else { 0 }
}

/// Whether receivers share the payload: copying it for each would cost more than another slice.
fn is_long(delivery: &Delivery<'_>) -> bool {
    delivery.payload.len() >= SHARED_BYTES_MIN
}
