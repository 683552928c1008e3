//! The messages that clients publish, each with a payload of its own.

use crate::names::{ClientNo, MessageNo};
use weir_wire::packet::Publish;
use weir_wire::{PacketId, PropertiesBuf, Property, QoS, Version};

/// What a client published, or left as its will.
#[derive(Clone, Debug)]
pub struct Message {
    /// Who.
    pub publisher: ClientNo,
    /// Where.
    pub topic: &'static str,
    /// With which QoS.
    pub qos: QoS,
    /// Whether it is to be retained.
    pub retain: bool,
    /// Without payload it clears what is retained, and cannot be told from others like it.
    pub is_empty: bool,
    /// Message Expiry Interval, in seconds.
    pub expiry_s: Option<u32>,
    /// Bytes behind the number, to make it longer.
    pub padding_bytes: usize,
    /// Whether it is a will.
    pub is_will: bool,
}

impl Message {
    /// What it says: its number.
    pub fn payload(&self, number: MessageNo) -> Vec<u8> {
        if self.is_empty {
            return Vec::new();
        }
        format!("m{}{}", number.0, ".".repeat(self.padding_bytes)).into_bytes()
    }

    /// The number in a payload.
    pub fn number(payload: &[u8]) -> Option<MessageNo> {
        let text = std::str::from_utf8(payload).ok()?.strip_prefix('m')?;
        text.trim_end_matches('.').parse().ok().map(MessageNo)
    }

    /// The PUBLISH of a client, by `alias` if it has one; with its topic unless that is known.
    pub fn encode(
        &self,
        number: MessageNo,
        packet_id: Option<PacketId>,
        alias: Option<(u16, bool)>,
        version: Version,
        out: &mut Vec<u8>,
    ) {
        self.encode_as(number, (packet_id, false), alias, version, out);
    }

    /// The PUBLISH that is sent again.
    pub fn encode_again(
        &self,
        number: MessageNo,
        packet_id: PacketId,
        version: Version,
        out: &mut Vec<u8>,
    ) {
        self.encode_as(number, (Some(packet_id), true), None, version, out);
    }

    fn encode_as(
        &self,
        number: MessageNo,
        (packet_id, dup): (Option<PacketId>, bool),
        alias: Option<(u16, bool)>,
        version: Version,
        out: &mut Vec<u8>,
    ) {
        let mut properties = PropertiesBuf::new();
        if let Some(seconds) = self.expiry_s {
            properties.push(Property::MessageExpiryInterval(seconds));
        }
        if let Some((alias, _)) = alias {
            properties.push(Property::TopicAlias(alias));
        }
        let is_named = alias.is_none_or(|(_, is_known)| !is_known);
        Publish {
            dup,
            qos: self.qos,
            retain: self.retain,
            topic: if is_named { self.topic } else { "" },
            packet_id,
            properties: properties.as_properties(),
            payload: &self.payload(number),
        }
        .encode(version, out);
    }
}
