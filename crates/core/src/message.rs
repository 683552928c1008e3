//! An application message on its way to its receivers.

use crate::content::Content;
use crate::keys::{Lsn, SessionKey};
use crate::{Micros, Stamp};
use std::sync::Arc;
use weir_wire::{Properties, PropertiesBuf, Property, QoS};

/// A message that outlives the packet it came in: queued, retained, in flight to a session that
/// may resume, or on its way to another shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where it was published.
    pub topic: String,
    /// What was published.
    pub payload: Vec<u8>,
    /// The properties that are passed on unaltered.
    pub properties: PropertiesBuf,
    /// With which QoS it was published.
    pub qos: QoS,
    /// Whether it was published as retained.
    pub retain: bool,
    /// When it is no longer to be sent.
    pub expires_at: Option<Micros>,
    /// Which message it is, if it was published as retained.
    pub stamp: Option<Stamp>,
}

impl Message {
    /// One that clears what a topic retains.
    pub(crate) fn clearing(topic: &str) -> Self {
        Self {
            topic: topic.into(),
            payload: Vec::new(),
            properties: PropertiesBuf::new(),
            qos: QoS::AtMostOnce,
            retain: true,
            expires_at: None,
            stamp: None,
        }
    }
}

impl AsRef<[u8]> for Message {
    /// The payload: what connections share of a long message.
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}

impl Message {
    /// What it counts against a bound, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        bytes(&self.topic, &self.payload, self.properties.as_properties())
    }

    pub(crate) fn is_expired(&self, now: Micros) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// A message being delivered. It borrows from its packet and becomes an `Arc` only if somebody
/// has to keep it.
#[derive(Debug)]
pub(crate) struct Delivery<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) properties: Properties<'a>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) expires_at: Option<Micros>,
    /// Who published it, if it is a session of this shard: for No Local.
    pub(crate) publisher: Option<SessionKey>,
    /// Set before the message is kept anywhere, see [`Message::stamp`].
    pub(crate) stamp: Option<Stamp>,
    /// Its publisher is answered when it is with every shard that it is for.
    pub(crate) is_awaited: bool,
    /// Letters with it are gathered, and leave later.
    pub(crate) is_gathered: bool,
    /// It is a will that is mailed: nobody would send it again.
    pub(crate) is_mailed_will: bool,
    /// Its record in the log, once it has one.
    pub(crate) lsn: Lsn,
    shared: Option<Arc<Message>>,
}

impl<'a> Delivery<'a> {
    pub(crate) fn from_parts(
        topic: &'a str,
        payload: &'a [u8],
        properties: Properties<'a>,
        (qos, retain): (QoS, bool),
        expires_at: Option<Micros>,
        publisher: Option<SessionKey>,
    ) -> Self {
        Self {
            topic,
            payload,
            properties,
            qos,
            retain,
            expires_at,
            publisher,
            stamp: None,
            is_awaited: false,
            is_gathered: false,
            is_mailed_will: false,
            lsn: Lsn::NONE,
            shared: None,
        }
    }

    pub(crate) fn from_message(message: &'a Arc<Message>, publisher: Option<SessionKey>) -> Self {
        Self {
            topic: &message.topic,
            payload: &message.payload,
            properties: message.properties.as_properties(),
            qos: message.qos,
            retain: message.retain,
            expires_at: message.expires_at,
            publisher,
            stamp: message.stamp,
            is_awaited: false,
            is_gathered: false,
            is_mailed_will: false,
            lsn: Lsn::NONE,
            shared: Some(Arc::clone(message)),
        }
    }

    /// What the ports see of it.
    pub(crate) fn content(&self) -> Content<'a> {
        let Self { topic, payload, properties, qos, retain, .. } = *self;
        Content { topic, payload, properties, qos, retain }
    }

    /// As [`Message::bytes`].
    pub(crate) fn bytes(&self) -> u64 {
        bytes(self.topic, self.payload, self.properties)
    }

    /// The message for keeping; made at the first call.
    pub(crate) fn shared(&mut self) -> &Arc<Message> {
        if self.shared.is_none() {
            self.shared = Some(Arc::new(self.to_message()));
        }
        self.shared.as_ref().expect("it was made")
    }

    /// The message, if it was made, and where to put it.
    pub(crate) fn shared_slot(&mut self) -> &mut Option<Arc<Message>> {
        &mut self.shared
    }

    pub(crate) fn to_message(&self) -> Message {
        Message {
            topic: self.topic.into(),
            payload: self.payload.into(),
            properties: PropertiesBuf::from_bytes(self.properties.as_bytes().to_vec()),
            qos: self.qos,
            retain: self.retain,
            expires_at: self.expires_at,
            stamp: self.stamp,
        }
    }

    /// Makes `message` this one, in the memory it has.
    pub(crate) fn fill(&self, message: &mut Message) {
        let Message { topic, payload, properties, qos, retain, expires_at, stamp } = message;
        topic.clear();
        topic.push_str(self.topic);
        payload.clear();
        payload.extend_from_slice(self.payload);
        properties.clear();
        properties.extend(self.properties);
        (*qos, *retain) = (self.qos, self.retain);
        (*expires_at, *stamp) = (self.expires_at, self.stamp);
    }
}

fn bytes(topic: &str, payload: &[u8], properties: Properties<'_>) -> u64 {
    (topic.len() + payload.len() + properties.as_bytes().len()) as u64
}

/// A delivery that waits, or is kept until it is acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub(crate) message: Arc<Message>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) subscription_ids: Option<Box<[u32]>>,
}

/// The properties of a PUBLISH or a will that are passed on to receivers, and when it expires.
/// Aliases and subscription identifiers are the connection's own, the expiry is counted down.
pub(crate) fn passed_on(
    properties: Properties<'_>,
    now: Micros,
) -> (PropertiesBuf, Option<Micros>) {
    let mut kept = PropertiesBuf::new();
    let mut expires_at = None;
    for property in properties.iter() {
        match property {
            Property::MessageExpiryInterval(seconds) => {
                expires_at = Some(now + Micros::from_secs(seconds));
            }
            Property::PayloadFormatIndicator(_)
            | Property::ContentType(_)
            | Property::ResponseTopic(_)
            | Property::CorrelationData(_)
            | Property::UserProperty(..) => kept.push(property),
            _ => {}
        }
    }
    (kept, expires_at)
}
