//! The packets, one file each; this one only dispatches.

mod ack;
mod auth;
mod connack;
mod connect;
mod disconnect;
mod publish;
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
pub use subscribe::{RetainHandling, Subscribe, SubscribeBuf, SubscriptionOptions};
pub use unsuback::UnsubAck;
pub use unsubscribe::{Unsubscribe, UnsubscribeBuf};

use crate::{Frame, Version, WireError};

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
    pub fn decode(version: Version, frame: Frame<'a>) -> Result<Self, WireError> {
        todo!()
    }

    /// Appends the whole packet, fixed header included.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        todo!()
    }
}
