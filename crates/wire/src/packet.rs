//! The packets, one file each; this one only dispatches.

mod ack;
mod auth;
mod connack;
mod connect;
mod disconnect;
mod filters;
mod publish;
mod reasons;
mod suback;
mod subscribe;
mod unsuback;
mod unsubscribe;

pub use ack::Ack;
pub use auth::Auth;
pub use connack::ConnAck;
pub use connect::{Connect, Will};
pub use disconnect::Disconnect;
pub use publish::{Publish, PublishPlaces};
pub use suback::SubAck;
pub use subscribe::{
    RetainHandling, Subscribe, SubscribeBuf, SubscribeFilters, SubscriptionOptions,
};
pub use unsuback::UnsubAck;
pub use unsubscribe::{Unsubscribe, UnsubscribeBuf, UnsubscribeFilters};

use crate::primitive::Reader;
use crate::{Frame, PacketKind, Version, WireError};

/// A whole PINGREQ (section 3.12).
pub const PINGREQ: [u8; 2] = [0xC0, 0];

/// A whole PINGRESP (section 3.13).
pub const PINGRESP: [u8; 2] = [0xD0, 0];

/// A decoded packet, borrowing from the bytes it came in.
#[expect(missing_docs, reason = "the names are the standard's")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Packet<'a> {
    Connect(Connect<'a>),
    ConnAck(ConnAck<'a>),
    Publish(Publish<'a>),
    PubAck(Ack<'a>),
    PubRec(Ack<'a>),
    PubRel(Ack<'a>),
    PubComp(Ack<'a>),
    Subscribe(Subscribe<'a>),
    SubAck(SubAck<'a>),
    Unsubscribe(Unsubscribe<'a>),
    UnsubAck(UnsubAck<'a>),
    PingReq,
    PingResp,
    Disconnect(Disconnect<'a>),
    Auth(Auth<'a>),
}

impl<'a> Packet<'a> {
    /// Decodes the body of `frame`. CONNECT carries its own version; the others follow `version`.
    ///
    /// # Errors
    /// What the standard calls malformed or a protocol error within one packet.
    #[inline]
    pub fn decode(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        if frame.kind != PacketKind::Connect {
            frame.check_header(version)?;
        }
        match frame.kind {
            PacketKind::Connect => Connect::decode(frame).map(Self::Connect),
            PacketKind::ConnAck => ConnAck::decode(version, frame).map(Self::ConnAck),
            PacketKind::Publish => Publish::decode(version, frame).map(Self::Publish),
            PacketKind::PubAck => Ack::decode(version, frame).map(Self::PubAck),
            PacketKind::PubRec => Ack::decode(version, frame).map(Self::PubRec),
            PacketKind::PubRel => Ack::decode(version, frame).map(Self::PubRel),
            PacketKind::PubComp => Ack::decode(version, frame).map(Self::PubComp),
            PacketKind::Subscribe => Subscribe::decode(version, frame).map(Self::Subscribe),
            PacketKind::SubAck => SubAck::decode(version, frame).map(Self::SubAck),
            PacketKind::Unsubscribe => Unsubscribe::decode(version, frame).map(Self::Unsubscribe),
            PacketKind::UnsubAck => UnsubAck::decode(version, frame).map(Self::UnsubAck),
            PacketKind::PingReq => decode_empty(frame).map(|()| Self::PingReq),
            PacketKind::PingResp => decode_empty(frame).map(|()| Self::PingResp),
            PacketKind::Disconnect => Disconnect::decode(version, frame).map(Self::Disconnect),
            PacketKind::Auth => Auth::decode(version, frame).map(Self::Auth),
        }
    }

    /// Appends the whole packet, fixed header included. CONNECT follows its own version.
    ///
    /// # Panics
    /// If a part is longer than MQTT can say, and what each packet's own `encode` names.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        match self {
            Self::Connect(packet) => packet.encode(out),
            Self::ConnAck(packet) => packet.encode(version, out),
            Self::Publish(packet) => {
                packet.encode(version, out);
            }
            Self::PubAck(packet) => packet.encode(PacketKind::PubAck, version, out),
            Self::PubRec(packet) => packet.encode(PacketKind::PubRec, version, out),
            Self::PubRel(packet) => packet.encode(PacketKind::PubRel, version, out),
            Self::PubComp(packet) => packet.encode(PacketKind::PubComp, version, out),
            Self::Subscribe(packet) => packet.encode(version, out),
            Self::SubAck(packet) => packet.encode(version, out),
            Self::Unsubscribe(packet) => packet.encode(version, out),
            Self::UnsubAck(packet) => packet.encode(version, out),
            Self::PingReq => out.extend_from_slice(&PINGREQ),
            Self::PingResp => out.extend_from_slice(&PINGRESP),
            Self::Disconnect(packet) => packet.encode(version, out),
            Self::Auth(packet) => packet.encode(version, out),
        }
    }
}

const fn decode_empty(frame: Frame<'_>) -> Result<(), WireError> {
    Reader::new(frame.body).finish()
}
