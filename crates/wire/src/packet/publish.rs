//! PUBLISH (section 3.3).

use crate::frame::DUP;
use crate::primitive::{Reader, TRUNCATED, put_string, put_u16, put_varint};
use crate::property::Place;
use crate::topic::is_valid_name;
use crate::{
    FRAME_HEADER_BYTES_MAX, Frame, PacketId, PacketKind, Properties, Property, QoS, Version,
    WireError,
};

/// An application message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Whether this may be a redelivery.
    pub dup: bool,
    /// Quality of service of this delivery.
    pub qos: QoS,
    /// Retained, or to be retained.
    pub retain: bool,
    /// A valid topic name; empty only in 5.0 with a topic alias.
    pub topic: &'a str,
    /// Present for QoS 1 and 2 and only then \[MQTT-2.2.1-2\].
    pub packet_id: Option<PacketId>,
    /// Properties; empty before 5.0.
    pub properties: Properties<'a>,
    /// The message.
    pub payload: &'a [u8],
}

/// Where in an encoded PUBLISH the parts are that differ between its receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishPlaces {
    /// Index of the first byte (kind, DUP, QoS, RETAIN).
    pub flags_at: usize,
    /// Index of the packet identifier's two bytes; `None` at QoS 0.
    pub packet_id_at: Option<usize>,
}

impl<'a> Publish<'a> {
    #[inline]
    pub(crate) fn decode(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        let (dup, retain) = (frame.flags & DUP != 0, frame.flags & RETAIN != 0);
        // [MQTT-3.3.1-4]
        let Some(qos) = QoS::from_u8(frame.flags >> QOS_SHIFT & 0b11) else {
            return Err(WireError::Malformed("QoS 3"));
        };
        // [MQTT-3.3.1-2]
        if dup && qos == QoS::AtMostOnce {
            return Err(WireError::Malformed("DUP at QoS 0"));
        }
        let mut reader = Reader::new(frame.body);
        let topic = reader.text()?;
        let packet_id = if qos == QoS::AtMostOnce { None } else { Some(reader.packet_id()?) };
        let place = Place::Packet(PacketKind::Publish);
        let properties = Properties::decode(version, place, &mut reader)?;
        if !is_valid_name(topic) {
            check_aliased(topic, properties)?;
        }
        Ok(Self { dup, qos, retain, topic, packet_id, properties, payload: reader.rest() })
    }

    /// The PUBLISH at the start of `input`, whose payload is not all there, and the bytes of the
    /// whole packet. Nothing if it is another packet, or not all is there that stands before the
    /// payload.
    ///
    /// # Errors
    /// As [`crate::Packet::decode`] finds them in what is there.
    #[cold]
    pub fn decode_start(
        version: Version,
        input: &'a [u8],
    ) -> Result<Option<(Self, usize)>, WireError> {
        let frame = Frame::start(version, input)?;
        let Some(frame) = frame.filter(|frame| frame.kind == PacketKind::Publish) else {
            return Ok(None);
        };
        match Self::decode(version, frame) {
            Ok(publish) => Ok(Some((publish, frame.bytes))),
            Err(TRUNCATED) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Appends the whole packet. Before 5.0 properties are left out.
    ///
    /// # Panics
    /// As [`Publish::encode_head`].
    #[inline]
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> PublishPlaces {
        let places = self.encode_head(version, out);
        out.extend_from_slice(self.payload);
        places
    }

    /// Appends the packet but for its payload, which follows.
    ///
    /// # Panics
    /// If the packet identifier is there at QoS 0 or missing above, the topic is longer than
    /// 65,535 bytes, or the whole longer than [`crate::REMAINING_LENGTH_MAX`] allows.
    #[inline]
    pub fn encode_head(&self, version: Version, out: &mut Vec<u8>) -> PublishPlaces {
        let has_packet_id = self.packet_id.is_some();
        assert_eq!(
            has_packet_id,
            self.qos != QoS::AtMostOnce,
            "a packet identifier stands at QoS 1 and 2 and only there"
        );
        let body_bytes = self.body_bytes(version);
        out.reserve(FRAME_HEADER_BYTES_MAX + body_bytes - self.payload.len());
        let flags_at = out.len();
        out.push(self.first_byte());
        put_varint(out, body_bytes);
        put_string(out, self.topic);
        let packet_id_at = self.packet_id.map(|packet_id| {
            put_u16(out, packet_id.value());
            out.len() - 2
        });
        self.properties.encode(version, out);
        PublishPlaces { flags_at, packet_id_at }
    }

    #[inline]
    fn body_bytes(&self, version: Version) -> usize {
        let packet_id_bytes = if self.packet_id.is_some() { 2 } else { 0 };
        let property_bytes = self.properties.encoded_bytes(version);
        2 + self.topic.len() + packet_id_bytes + property_bytes + self.payload.len()
    }

    const fn first_byte(&self) -> u8 {
        PacketKind::Publish.first_byte()
            | if self.dup { DUP } else { 0 }
            | (self.qos as u8) << QOS_SHIFT
            | if self.retain { RETAIN } else { 0 }
    }
}

const QOS_SHIFT: u8 = 1;
const RETAIN: u8 = 1;

/// Whether the invalid name `topic` is empty because an alias stands for it.
#[cold]
fn check_aliased(topic: &str, properties: Properties<'_>) -> Result<(), WireError> {
    if !topic.is_empty() {
        // [MQTT-3.3.2-2]
        return Err(WireError::Malformed("topic name with a wildcard or U+0000"));
    }
    let is_alias = |property| matches!(property, Property::TopicAlias(_)).then_some(());
    properties
        .find(is_alias)
        .ok_or(WireError::ProtocolError("empty topic name without a topic alias"))
}
