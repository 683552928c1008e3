//! What a shard writes into its log: one record for each change of what outlives a crash, as a kind
//! and a body of bytes.
//!
//! Whoever keeps the log adds lengths, checksums and commits; here is only what a record says. A
//! session is named by the [`Lsn`] of its first record and a message by that of its own, so that a
//! name is never given again.

pub(crate) mod codec;
mod mark;
pub(crate) mod run;

use crate::keys::{Claim, Lsn, Micros, PageId, ShardId};
use crate::outbox::MailTarget;
use codec::Reader;
use std::borrow::Cow;
use std::fmt;
use weir_wire::packet::SubscriptionOptions;
use weir_wire::{PacketId, QoS};

/// One change. Borrows what it names, except for lists that are decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A client that may come back is connected. Its session is a new one if none is named: then
    /// this record names it, and an older session of the same client is over.
    Session {
        /// The session, or [`Lsn::NONE`].
        session: Lsn,
        /// Its client identifier.
        client_id: &'a str,
        /// Seconds that the session outlives its connection; `u32::MAX` is for ever.
        expiry_s: u32,
        /// The will of this connection.
        will: Option<WillRecord<'a>>,
    },
    /// The connection is gone, or what was to happen in the client's absence has changed.
    Absent {
        /// The session.
        session: Lsn,
        /// When the session is over; never, if there is no time.
        expires_at: Option<Micros>,
        /// When the will is published; without a time there is none any more.
        will_at: Option<Micros>,
    },
    /// The session is over, with all that it had.
    Gone {
        /// The session.
        session: Lsn,
    },
    /// A subscription, new or in the place of one of the same name.
    Subscribed {
        /// The session.
        session: Lsn,
        /// The whole name, as SUBSCRIBE has it.
        name: &'a str,
        /// The condition that came beside the name.
        condition: Option<&'a str>,
        /// Its options.
        options: SubscriptionOptions,
        /// Its identifier.
        subscription_id: Option<u32>,
    },
    /// A subscription is over.
    Unsubscribed {
        /// The session.
        session: Lsn,
        /// The whole name.
        name: &'a str,
    },
    /// A message. It counts only with a record of the same commit that refers to it.
    Message {
        /// Where it was published.
        topic: &'a str,
        /// What was published.
        payload: &'a [u8],
        /// The properties that are passed on, encoded.
        properties: &'a [u8],
        /// With which QoS it was published.
        qos: QoS,
        /// Whether it was published as retained.
        retain: bool,
        /// When it is no longer to be sent.
        expires_at: Option<Micros>,
    },
    /// A session is to get a message, behind all that it was to get before.
    Queued {
        /// The session.
        session: Lsn,
        /// The message.
        message: Lsn,
        /// QoS of the delivery: 1 or 2.
        qos: QoS,
        /// RETAIN flag of the delivery.
        retain: bool,
        /// Identifiers of the subscriptions that it is for.
        subscription_ids: Cow<'a, [u32]>,
        /// Its identifier if it was sent at once; else it waits in the queue.
        packet_id: Option<PacketId>,
    },
    /// The oldest message of the queue was sent.
    Sent {
        /// The session.
        session: Lsn,
        /// The identifier that it was sent with.
        packet_id: PacketId,
    },
    /// The oldest message of the queue will not be sent.
    Dropped {
        /// The session.
        session: Lsn,
    },
    /// PUBREC came: of this delivery only the identifier is still owed.
    Received {
        /// The session.
        session: Lsn,
        /// Identifier of the delivery.
        packet_id: PacketId,
    },
    /// A delivery that was sent is done.
    Done {
        /// The session.
        session: Lsn,
        /// Identifier of the delivery.
        packet_id: PacketId,
    },
    /// A message of QoS 2 was taken from this session's client: the same identifier is no new one.
    Noted {
        /// The session.
        session: Lsn,
        /// Identifier of the client's PUBLISH.
        packet_id: PacketId,
    },
    /// PUBREL came: the identifier is free.
    Released {
        /// The session.
        session: Lsn,
        /// Identifier of the client's PUBLISH.
        packet_id: PacketId,
    },
    /// From here to [`Record::BaseEnd`] sessions are logged anew, and a message may be referred to
    /// in a later commit than its own.
    Base,
    /// All that was there has been logged anew.
    BaseEnd,
    /// A message is for other shards, which are mailed it after this commit.
    Mailed {
        /// What it is called; [`Lsn::NONE`] if by this record.
        number: Lsn,
        /// The message.
        message: Lsn,
        /// The shards that have not said to have it, or this one for members of groups that are
        /// still to be chosen.
        targets: Cow<'a, [MailTarget]>,
    },
    /// All that a shard has mailed up to this message was handled.
    Marked {
        /// The shard.
        from: ShardId,
        /// What it calls the message.
        number: Lsn,
    },
    /// The same, and this one was not taken.
    Refused {
        /// The shard.
        from: ShardId,
        /// The number of the letter.
        number: Lsn,
    },
    /// The same, but for members of groups that this one was for: they are not served yet. A mark
    /// of this number says that they are.
    PutOff {
        /// The shard.
        from: ShardId,
        /// The number of the letter.
        number: Lsn,
    },
    /// All that a shard of another node has mailed up to this message was handled, as
    /// [`Record::Marked`] says of those of its own.
    MarkedFar {
        /// The shard.
        from: ShardId,
        /// What it calls the message.
        number: Lsn,
    },
    /// A session has come from another node by this claim: where it was it may be still, by a lower
    /// one.
    Claimed {
        /// The session.
        session: Lsn,
        /// The claim.
        claim: Claim,
    },
    /// All shards have a mailed message.
    Delivered {
        /// What it is called.
        number: Lsn,
    },
    /// The oldest of those behind the queue's last page, or of the newest if it has none, are on
    /// this page now.
    Paged {
        /// The session.
        session: Lsn,
        /// The page.
        page: PageId,
        /// How many are on it.
        messages: u32,
        /// Payload, topic and properties of them.
        bytes: u64,
        /// How many came after them and still wait in memory.
        behind: u64,
    },
    /// What is on the first page of the queue is in memory again, in the same place.
    Fetched {
        /// The session.
        session: Lsn,
        /// The page.
        page: PageId,
    },
    /// A session is to get what is at the end of this page, behind all that it was to get before:
    /// the page was written before the session was logged anew.
    Page {
        /// The session.
        session: Lsn,
        /// The page.
        page: PageId,
        /// How many of those at its end.
        messages: u32,
        /// Payload, topic and properties of them.
        bytes: u64,
    },
    /// A topic's retained message, in the place of an older one.
    Retained {
        /// Its topic.
        topic: &'a str,
        /// What was published.
        payload: &'a [u8],
        /// The properties that are passed on, encoded.
        properties: &'a [u8],
        /// With which QoS it was published.
        qos: QoS,
        /// When it is no longer to be sent.
        expires_at: Option<Micros>,
    },
    /// A topic has no retained message any more.
    Cleared {
        /// The topic.
        topic: &'a str,
    },
}

/// A will, as CONNECT brought it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WillRecord<'a> {
    /// Where it will be published.
    pub topic: &'a str,
    /// What will be published.
    pub payload: &'a [u8],
    /// The properties that are passed on, encoded.
    pub properties: &'a [u8],
    /// With which QoS.
    pub qos: QoS,
    /// Whether as retained.
    pub retain: bool,
    /// Seconds from the end of the connection.
    pub delay_s: u32,
    /// Seconds from then until it is no longer to be sent.
    pub message_expiry_s: Option<u32>,
}

/// Microseconds from the shell's clock to the clock on the wall, which alone goes on while the
/// broker does not run: times are recorded by that one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wall(pub i64);

/// What is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRecord {
    /// Nothing here writes this kind: a newer version may have.
    UnknownKind(u8),
    /// The body is not one of its kind, and why.
    Malformed(&'static str),
}

impl fmt::Display for BadRecord {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKind(kind) => write!(out, "a record of the unknown kind {kind}"),
            Self::Malformed(why) => write!(out, "a malformed record: {why}"),
        }
    }
}

impl std::error::Error for BadRecord {}

const SESSION: u8 = 1;
const ABSENT: u8 = 2;
const GONE: u8 = 3;
const SUBSCRIBED: u8 = 4;
const UNSUBSCRIBED: u8 = 5;
const MESSAGE: u8 = 6;
const QUEUED: u8 = 7;
const SENT: u8 = 8;
const DROPPED: u8 = 9;
const RECEIVED: u8 = 10;
const DONE: u8 = 11;
const NOTED: u8 = 12;
const RELEASED: u8 = 13;
const BASE: u8 = 14;
const BASE_END: u8 = 15;
const RETAINED: u8 = 16;
const CLEARED: u8 = 17;
const MAILED: u8 = 18;
const MARKED: u8 = 19;
const DELIVERED: u8 = 20;
const REFUSED: u8 = 21;
const PUT_OFF: u8 = 22;
const CLAIMED: u8 = 23;
const PAGED: u8 = 24;
const FETCHED: u8 = 25;
const PAGE: u8 = 26;
const MARKED_FAR: u8 = 27;

impl<'a> Record<'a> {
    /// What kind it is. A number never changes its meaning.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Session { .. } => SESSION,
            Self::Absent { .. } => ABSENT,
            Self::Gone { .. } => GONE,
            Self::Subscribed { .. } => SUBSCRIBED,
            Self::Unsubscribed { .. } => UNSUBSCRIBED,
            Self::Message { .. } => MESSAGE,
            Self::Queued { .. } => QUEUED,
            Self::Sent { .. } => SENT,
            Self::Dropped { .. } => DROPPED,
            Self::Received { .. } => RECEIVED,
            Self::Done { .. } => DONE,
            Self::Noted { .. } => NOTED,
            Self::Released { .. } => RELEASED,
            Self::Base => BASE,
            Self::BaseEnd => BASE_END,
            Self::Retained { .. } => RETAINED,
            Self::Cleared { .. } => CLEARED,
            Self::Mailed { .. } => MAILED,
            Self::Marked { .. } => MARKED,
            Self::Refused { .. } => REFUSED,
            Self::PutOff { .. } => PUT_OFF,
            Self::MarkedFar { .. } => MARKED_FAR,
            Self::Claimed { .. } => CLAIMED,
            Self::Delivered { .. } => DELIVERED,
            Self::Paged { .. } => PAGED,
            Self::Fetched { .. } => FETCHED,
            Self::Page { .. } => PAGE,
        }
    }

    /// The session that it names, if that is not a new one.
    pub fn session(&self) -> Option<Lsn> {
        match *self {
            Self::Session { session, .. } => Some(session).filter(|&session| session != Lsn::NONE),
            Self::Absent { session, .. }
            | Self::Gone { session }
            | Self::Subscribed { session, .. }
            | Self::Unsubscribed { session, .. }
            | Self::Queued { session, .. }
            | Self::Sent { session, .. }
            | Self::Dropped { session }
            | Self::Received { session, .. }
            | Self::Done { session, .. }
            | Self::Noted { session, .. }
            | Self::Released { session, .. }
            | Self::Claimed { session, .. }
            | Self::Paged { session, .. }
            | Self::Fetched { session, .. }
            | Self::Page { session, .. } => Some(session),
            Self::Message { .. }
            | Self::Mailed { .. }
            | Self::Marked { .. }
            | Self::Refused { .. }
            | Self::PutOff { .. }
            | Self::MarkedFar { .. }
            | Self::Delivered { .. }
            | Self::Base
            | Self::BaseEnd
            | Self::Retained { .. }
            | Self::Cleared { .. } => None,
        }
    }

    /// Appends the body.
    pub fn encode(&self, wall: Wall, out: &mut Vec<u8>) {
        match self {
            Self::Session { session, client_id, expiry_s, will } => {
                codec::put_lsn(out, *session);
                codec::put_bytes(out, client_id.as_bytes());
                codec::put_number(out, u64::from(*expiry_s));
                codec::put_option(out, will.as_ref(), codec::put_will);
            }
            Self::Absent { session, expires_at, will_at } => {
                codec::put_lsn(out, *session);
                codec::put_time(out, *expires_at, wall);
                codec::put_time(out, *will_at, wall);
            }
            Self::Gone { session } | Self::Dropped { session } => codec::put_lsn(out, *session),
            Self::Subscribed { session, name, condition, options, subscription_id } => {
                codec::put_lsn(out, *session);
                codec::put_bytes(out, name.as_bytes());
                codec::put_option(out, condition.as_ref(), |out, text| {
                    codec::put_bytes(out, text.as_bytes());
                });
                out.push(options.to_byte());
                // No subscription has the identifier 0.
                codec::put_number(out, u64::from(subscription_id.unwrap_or(0)));
            }
            Self::Unsubscribed { session, name } => {
                codec::put_lsn(out, *session);
                codec::put_bytes(out, name.as_bytes());
            }
            Self::Message { topic, payload, properties, qos, retain, expires_at } => {
                codec::put_flags(out, *qos, *retain);
                codec::put_message(out, (topic, payload, properties), *expires_at, wall);
            }
            Self::Retained { topic, payload, properties, qos, expires_at } => {
                codec::put_flags(out, *qos, false);
                codec::put_message(out, (topic, payload, properties), *expires_at, wall);
            }
            Self::Cleared { topic } => codec::put_bytes(out, topic.as_bytes()),
            Self::Queued { session, message, qos, retain, subscription_ids, packet_id } => {
                codec::put_lsn(out, *session);
                codec::put_lsn(out, *message);
                codec::put_flags(out, *qos, *retain);
                codec::put_number(out, packet_id.map_or(0, |id| u64::from(id.value())));
                for &id in subscription_ids.iter() {
                    codec::put_number(out, u64::from(id));
                }
            }
            Self::Sent { session, packet_id }
            | Self::Received { session, packet_id }
            | Self::Done { session, packet_id }
            | Self::Noted { session, packet_id }
            | Self::Released { session, packet_id } => {
                codec::put_lsn(out, *session);
                codec::put_number(out, u64::from(packet_id.value()));
            }
            Self::Mailed { .. }
            | Self::Marked { .. }
            | Self::Refused { .. }
            | Self::PutOff { .. }
            | Self::MarkedFar { .. }
            | Self::Claimed { .. }
            | Self::Delivered { .. }
            | Self::Paged { .. }
            | Self::Page { .. }
            | Self::Fetched { .. } => self.encode_elsewhere(out),
            Self::Base | Self::BaseEnd => {}
        }
    }

    /// One of what is on its way to other shards, or on pages.
    fn encode_elsewhere(&self, out: &mut Vec<u8>) {
        match self {
            Self::Mailed { number, message, targets } => {
                codec::put_lsn(out, *number);
                codec::put_lsn(out, *message);
                codec::put_targets(out, targets);
            }
            Self::Marked { from, number }
            | Self::Refused { from, number }
            | Self::PutOff { from, number }
            | Self::MarkedFar { from, number } => {
                codec::put_number(out, u64::from(from.0));
                codec::put_lsn(out, *number);
            }
            Self::Claimed { session, claim } => {
                codec::put_lsn(out, *session);
                codec::put_number(out, claim.0);
            }
            Self::Delivered { number } => codec::put_lsn(out, *number),
            Self::Paged { session, page, messages, bytes, behind } => {
                codec::put_lsn(out, *session);
                codec::put_page(out, *page, *messages, *bytes);
                codec::put_number(out, *behind);
            }
            Self::Page { session, page, messages, bytes } => {
                codec::put_lsn(out, *session);
                codec::put_page(out, *page, *messages, *bytes);
            }
            Self::Fetched { session, page } => {
                codec::put_lsn(out, *session);
                codec::put_number(out, page.0);
            }
            _ => {}
        }
    }

    /// The record with this body. What was encoded is the one encoding that is taken.
    ///
    /// # Errors
    /// A kind that is not known, or bytes that no record of this kind has.
    pub fn decode(kind: u8, body: &'a [u8], wall: Wall) -> Result<Self, BadRecord> {
        let mut reader = Reader::new(body);
        let from = &mut reader;
        let record = match kind {
            SESSION => Self::Session {
                session: from.lsn_or_none()?,
                client_id: from.text()?,
                expiry_s: from.number_of_32_bits()?,
                will: from.option(Reader::will)?,
            },
            ABSENT => Self::Absent {
                session: from.lsn()?,
                expires_at: from.time(wall)?,
                will_at: from.time(wall)?,
            },
            GONE => Self::Gone { session: from.lsn()? },
            SUBSCRIBED => Self::Subscribed {
                session: from.lsn()?,
                name: from.text()?,
                condition: from.option(Reader::text)?,
                options: from.options()?,
                subscription_id: Some(from.number_of_32_bits()?).filter(|&id| id != 0),
            },
            UNSUBSCRIBED => Self::Unsubscribed { session: from.lsn()?, name: from.text()? },
            MESSAGE => {
                let (qos, retain) = from.flags()?;
                Self::Message {
                    qos,
                    retain,
                    expires_at: from.time(wall)?,
                    topic: from.text()?,
                    properties: from.bytes()?,
                    payload: from.rest(),
                }
            }
            QUEUED => {
                let (session, message) = (from.lsn()?, from.lsn()?);
                let (qos, retain) = from.flags()?;
                if qos == QoS::AtMostOnce {
                    return Err(BadRecord::Malformed("a delivery at QoS 0"));
                }
                let packet_id = from.packet_id_or_none()?;
                let subscription_ids = from.numbers_to_the_end()?.into();
                Self::Queued { session, message, qos, retain, subscription_ids, packet_id }
            }
            SENT => Self::Sent { session: from.lsn()?, packet_id: from.packet_id()? },
            DROPPED => Self::Dropped { session: from.lsn()? },
            RECEIVED => Self::Received { session: from.lsn()?, packet_id: from.packet_id()? },
            DONE => Self::Done { session: from.lsn()?, packet_id: from.packet_id()? },
            NOTED => Self::Noted { session: from.lsn()?, packet_id: from.packet_id()? },
            RELEASED => Self::Released { session: from.lsn()?, packet_id: from.packet_id()? },
            BASE => Self::Base,
            BASE_END => Self::BaseEnd,
            RETAINED => Self::Retained {
                qos: from.qos()?,
                expires_at: from.time(wall)?,
                topic: from.text()?,
                properties: from.bytes()?,
                payload: from.rest(),
            },
            CLEARED => Self::Cleared { topic: from.text()? },
            MAILED..=CLAIMED | MARKED_FAR => Self::decode_mailed(kind, from)?,
            FETCHED => Self::Fetched { session: from.lsn()?, page: PageId(from.number()?) },
            PAGED | PAGE => Self::decode_page(kind, from)?,
            _ => return Err(BadRecord::UnknownKind(kind)),
        };
        reader.finish()?;
        Ok(record)
    }

    /// One of what is on its way to other shards.
    fn decode_mailed(kind: u8, from: &mut Reader<'_>) -> Result<Self, BadRecord> {
        Ok(match kind {
            MAILED => Self::Mailed {
                number: from.lsn_or_none()?,
                message: from.lsn()?,
                targets: from.targets()?.into(),
            },
            MARKED => Self::Marked { from: from.shard()?, number: from.lsn()? },
            REFUSED => Self::Refused { from: from.shard()?, number: from.lsn()? },
            PUT_OFF => Self::PutOff { from: from.shard()?, number: from.lsn()? },
            MARKED_FAR => Self::MarkedFar { from: from.shard()?, number: from.lsn()? },
            CLAIMED => Self::Claimed { session: from.lsn()?, claim: Claim(from.number()?) },
            _ => Self::Delivered { number: from.lsn()? },
        })
    }

    /// One that says what is on a page.
    fn decode_page(kind: u8, from: &mut Reader<'_>) -> Result<Self, BadRecord> {
        let session = from.lsn()?;
        let (page, messages, bytes) = from.page()?;
        Ok(if kind == PAGED {
            Self::Paged { session, page, messages, bytes, behind: from.number()? }
        } else {
            Self::Page { session, page, messages, bytes }
        })
    }
}

#[cfg(test)]
mod tests;
