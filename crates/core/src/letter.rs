//! Letters as bytes, for shards that are not in one process: a kind, and a body whose length its
//! carrier says. Fields are those of the log's records (`record/codec.rs`); what was encoded is the
//! one encoding that is taken.
//!
//! Times go on the wall's clock. A version is agreed on before the first letter, and named by
//! [`Mail::VERSION`]: a node of the next one may add kinds, and sends none that its peer does not
//! know.

mod log;
mod sessions;

use crate::bounds::CEILING;
use crate::keys::{Origin, Stamp, Ticket, Version};
use crate::mail::{Mail, NotRetained, RetainedPage, RetainedQuery};
use crate::message::Message;
use crate::partitions::{PARTITIONS, Partition, PartitionSet};
use crate::record::codec::{
    Reader, put_bytes, put_flags, put_lsn, put_number, put_option, put_picks, put_time,
};
use crate::record::{BadRecord, Wall};
use slotmap::{Key, KeyData};
use std::num::NonZeroU32;
use std::sync::Arc;
use weir_wire::PropertiesBuf;

const INTEREST: u8 = 1;
const INTEREST_GONE: u8 = 2;
const JOINED: u8 = 3;
const PRESENCE: u8 = 4;
const LEFT: u8 = 5;
const RECEIPT: u8 = 6;
const PUBLISH: u8 = 7;
const KEPT: u8 = 8;
const REFUSED: u8 = 9;
const RETAIN: u8 = 10;
const RETAINED: u8 = 11;
const RETAINED_QUERY: u8 = 12;
const RETAINED_PAGE: u8 = 13;
const MARKER: u8 = 14;
const RESTED: u8 = 15;
const MOVE: u8 = 16;
const MOVED_RETAINED: u8 = 17;
const THAW: u8 = 18;
const THAWED: u8 = 19;
const COPY: u8 = 20;
const LISTING: u8 = 21;
const LISTED: u8 = 22;
const SESSION: u8 = 23;
const LOG: u8 = 24;

/// What a letter of refusal may name; what is none of these comes out as the last.
const DETAILS: [&str; 4] = [
    CEILING,
    "memory is about to be short, and a subscriber has much that waits",
    "a subscriber's queue is full",
    NO_ROOM_THERE,
];

/// Why a message is not taken, if more is not known.
pub(crate) const NO_ROOM_THERE: &str = "another node has no room for it";

impl Mail {
    /// Of the encoding.
    pub const VERSION: u8 = 3;
    /// The oldest that is read. What a newer one has beside it is sent to nobody who reads only
    /// this ([`Mail::version`]).
    pub const VERSION_MIN: u8 = 2;

    /// The kind, and all that [`Mail::decode`] needs.
    pub fn encode(&self, wall: Wall, out: &mut Vec<u8>) {
        match self {
            Self::Interest { filter, number } => {
                out.push(INTEREST);
                put_bytes(out, filter.as_bytes());
                put_number(out, *number);
            }
            Self::InterestGone { filter } => {
                out.push(INTEREST_GONE);
                put_bytes(out, filter.as_bytes());
            }
            Self::Joined { share, member, packet_bytes_max, number } => {
                out.push(JOINED);
                put_member(out, share, *member, *packet_bytes_max);
                put_number(out, *number);
            }
            Self::Presence { share, member, packet_bytes_max } => {
                out.push(PRESENCE);
                put_member(out, share, *member, *packet_bytes_max);
            }
            Self::Left { share, member } => {
                out.push(LEFT);
                put_bytes(out, share.as_bytes());
                put_number(out, *member);
            }
            Self::Receipt { number, pending, done, retains, is_short } => {
                out.push(RECEIPT);
                put_number(out, *number);
                [pending, done, retains].into_iter().for_each(|numbers| put_numbers(out, numbers));
                out.push(u8::from(*is_short));
            }
            Self::Publish { message, .. } => {
                out.push(PUBLISH);
                self.encode_again(out);
                put_message(out, message, wall);
            }
            Self::Session(mail) => {
                out.push(SESSION);
                sessions::put(out, mail);
            }
            Self::Log(mail) => {
                out.push(LOG);
                log::put(out, mail);
            }
            Self::Kept { number } => {
                out.push(KEPT);
                put_lsn(out, *number);
            }
            Self::Refused { topic, number, detail } => {
                out.push(REFUSED);
                put_bytes(out, topic.as_bytes());
                put_number(out, *number);
                put_bytes(out, detail.as_bytes());
            }
            _ => self.encode_retained(wall, out),
        }
    }

    /// What a letter with a message says beside it, for a carrier that has encoded the message with
    /// another letter. Other kinds have nothing of the sort.
    pub fn encode_again(&self, out: &mut Vec<u8>) {
        let Self::Publish { to_subscribers, picks, number, mailed, .. } = self else { return };
        out.push(u8::from(*to_subscribers));
        put_picks(out, picks);
        put_option(out, number.as_ref(), |out, number| put_number(out, *number));
        put_option(out, mailed.as_ref(), |out, lsn| put_lsn(out, *lsn));
    }

    /// One about retained messages or partitions.
    fn encode_retained(&self, wall: Wall, out: &mut Vec<u8>) {
        match self {
            Self::Retain { message, ticket } => {
                out.push(RETAIN);
                put_option(out, ticket.as_ref(), |out, ticket| put_ticket(out, *ticket));
                put_message(out, message, wall);
            }
            Self::Retained { ticket, refused } => {
                out.push(RETAINED);
                put_ticket(out, *ticket);
                out.push(match refused {
                    None => 0,
                    Some(NotRetained::Full) => 1,
                    Some(NotRetained::ShareTaken) => 2,
                });
            }
            Self::RetainedQuery(query) => {
                out.push(RETAINED_QUERY);
                put_query(out, query);
            }
            Self::RetainedPage(page) => {
                out.push(RETAINED_PAGE);
                put_ticket(out, page.ticket);
                put_option(out, page.next.as_ref(), |out, topic| put_bytes(out, topic.as_bytes()));
                put_numbers(out, &page.received);
                put_messages(out, &page.messages, wall);
            }
            Self::Marker { round } => {
                out.push(MARKER);
                put_number(out, u64::from(*round));
            }
            Self::Rested { is_busy } => out.extend([RESTED, u8::from(*is_busy)]),
            Self::Move { partition, to } => {
                out.extend([MOVE, partition.0]);
                put_number(out, u64::from(to.0));
            }
            Self::MovedRetained { messages } => {
                out.push(MOVED_RETAINED);
                put_messages(out, messages, wall);
            }
            Self::Thaw => out.push(THAW),
            Self::Thawed => out.push(THAWED),
            Self::Copy { message, version, number } => {
                out.push(COPY);
                put_number(out, version.count);
                put_number(out, u64::from(version.node));
                put_option(out, number.as_ref(), |out, number| put_number(out, *number));
                put_message(out, message, wall);
            }
            Self::Listing { number } => {
                out.push(LISTING);
                put_number(out, *number);
            }
            Self::Listed { received } => {
                out.push(LISTED);
                put_numbers(out, received);
            }
            _ => {}
        }
    }

    /// The letter with this kind and body.
    ///
    /// # Errors
    /// A kind that is not known, or bytes that no letter of this kind has.
    pub fn decode(bytes: &[u8], wall: Wall) -> Result<Self, BadRecord> {
        let mut reader = Reader::new(bytes);
        let mail = Self::read(&mut reader, wall)?;
        reader.finish()?;
        Ok(mail)
    }

    /// As [`Mail::decode`], of the letter at the front of these bytes, which leaves them.
    ///
    /// # Errors
    /// As those of [`Mail::decode`].
    pub fn decode_first(bytes: &mut &[u8], wall: Wall) -> Result<Self, BadRecord> {
        let mut reader = Reader::new(bytes);
        let mail = Self::read(&mut reader, wall)?;
        *bytes = reader.rest();
        Ok(mail)
    }

    /// The letter that [`Mail::encode_again`] has put at the front of these bytes, which leaves
    /// them, with its message.
    ///
    /// # Errors
    /// Bytes that it does not write.
    pub fn decode_again(bytes: &mut &[u8], message: Arc<Message>) -> Result<Self, BadRecord> {
        let mut reader = Reader::new(bytes);
        let mail = publish(&mut reader, |_| Ok(message))?;
        *bytes = reader.rest();
        Ok(mail)
    }

    fn read(from: &mut Reader<'_>, wall: Wall) -> Result<Self, BadRecord> {
        Ok(match from.byte()? {
            INTEREST => Self::Interest { filter: from.text()?.into(), number: from.number()? },
            INTEREST_GONE => Self::InterestGone { filter: from.text()?.into() },
            JOINED => {
                let (share, member, packet_bytes_max) = member(from)?;
                Self::Joined { share, member, packet_bytes_max, number: from.number()? }
            }
            PRESENCE => {
                let (share, member, packet_bytes_max) = member(from)?;
                Self::Presence { share, member, packet_bytes_max }
            }
            LEFT => Self::Left { share: from.text()?.into(), member: from.number()? },
            RECEIPT => Self::Receipt {
                number: from.number()?,
                pending: numbers(from)?,
                done: numbers(from)?,
                retains: numbers(from)?,
                is_short: from.flag()?,
            },
            PUBLISH => publish(from, |from| message(from, wall))?,
            SESSION => Self::Session(sessions::read(from)?),
            LOG => Self::Log(log::read(from)?),
            KEPT => Self::Kept { number: from.lsn()? },
            REFUSED => Self::Refused {
                topic: from.text()?.into(),
                number: from.number()?,
                detail: detail(from.text()?),
            },
            kind => Self::decode_retained(kind, from, wall)?,
        })
    }

    fn decode_retained(kind: u8, from: &mut Reader<'_>, wall: Wall) -> Result<Self, BadRecord> {
        Ok(match kind {
            RETAIN => Self::Retain { ticket: from.option(ticket)?, message: message(from, wall)? },
            RETAINED => Self::Retained {
                ticket: ticket(from)?,
                refused: match from.byte()? {
                    0 => None,
                    1 => Some(NotRetained::Full),
                    2 => Some(NotRetained::ShareTaken),
                    _ => return Err(BadRecord::Malformed("an unknown reason")),
                },
            },
            RETAINED_QUERY => Self::RetainedQuery(query(from)?),
            RETAINED_PAGE => Self::RetainedPage(RetainedPage {
                ticket: ticket(from)?,
                next: from.option(|from| Ok(from.text()?.into()))?,
                received: numbers(from)?,
                messages: messages(from, wall)?,
            }),
            MARKER => Self::Marker { round: from.number_of_32_bits()? },
            RESTED => Self::Rested { is_busy: from.flag()? },
            MOVE => Self::Move { partition: Partition(from.byte()?), to: from.shard()? },
            MOVED_RETAINED => Self::MovedRetained { messages: messages(from, wall)? },
            THAW => Self::Thaw,
            THAWED => Self::Thawed,
            COPY => Self::Copy {
                version: Version { count: from.number()?, node: from.shard()?.0 },
                number: from.option(Reader::number)?,
                message: message(from, wall)?,
            },
            LISTING => Self::Listing { number: from.number()? },
            LISTED => Self::Listed { received: numbers(from)? },
            kind => return Err(BadRecord::UnknownKind(kind)),
        })
    }
}

/// Its fields in their order; the message comes from `message`.
fn publish<'a>(
    from: &mut Reader<'a>,
    message: impl FnOnce(&mut Reader<'a>) -> Result<Arc<Message>, BadRecord>,
) -> Result<Mail, BadRecord> {
    Ok(Mail::Publish {
        to_subscribers: from.flag()?,
        picks: from.picks()?,
        number: from.option(Reader::number)?,
        mailed: from.option(Reader::lsn)?,
        message: message(from)?,
    })
}

fn put_member(out: &mut Vec<u8>, share: &str, member: u64, packet_bytes_max: Option<u32>) {
    put_bytes(out, share.as_bytes());
    put_number(out, member);
    put_option(out, packet_bytes_max.as_ref(), |out, bytes| put_number(out, u64::from(*bytes)));
}

fn member(from: &mut Reader<'_>) -> Result<(Arc<str>, u64, Option<u32>), BadRecord> {
    Ok((from.text()?.into(), from.number()?, from.option(Reader::number_of_32_bits)?))
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    put_number(out, numbers.len() as u64);
    numbers.iter().for_each(|number| put_number(out, *number));
}

/// Each is a byte at least: what is claimed and not there costs nothing.
fn numbers(from: &mut Reader<'_>) -> Result<Box<[u64]>, BadRecord> {
    let mut numbers = Vec::new();
    for _ in 0..from.number()? {
        numbers.push(from.number()?);
    }
    Ok(numbers.into())
}

fn put_ticket(out: &mut Vec<u8>, ticket: Ticket) {
    put_number(out, ticket.data().as_ffi());
}

fn ticket(from: &mut Reader<'_>) -> Result<Ticket, BadRecord> {
    let number = from.number()?;
    let ticket = Ticket::from(KeyData::from_ffi(number));
    let is_one = ticket.data().as_ffi() == number;
    is_one.then_some(ticket).ok_or(BadRecord::Malformed("no ticket has this number"))
}

fn put_message(out: &mut Vec<u8>, message: &Message, wall: Wall) {
    let Message { topic, payload, properties, qos, retain, expires_at, stamp } = message;
    put_flags(out, *qos, *retain);
    put_time(out, *expires_at, wall);
    put_option(out, stamp.as_ref(), |out, stamp| {
        put_number(out, u64::from(stamp.shard.0));
        put_number(out, u64::from(stamp.origin.number().get()));
        put_number(out, stamp.number);
    });
    put_bytes(out, topic.as_bytes());
    put_bytes(out, properties.as_properties().as_bytes());
    put_bytes(out, payload);
}

fn message(from: &mut Reader<'_>, wall: Wall) -> Result<Arc<Message>, BadRecord> {
    let (qos, retain) = from.flags()?;
    Ok(Arc::new(Message {
        qos,
        retain,
        expires_at: from.time(wall)?,
        stamp: from.option(stamp)?,
        topic: from.text()?.into(),
        properties: PropertiesBuf::from_bytes(from.bytes()?.into()),
        payload: from.bytes()?.into(),
    }))
}

fn stamp(from: &mut Reader<'_>) -> Result<Stamp, BadRecord> {
    let shard = from.shard()?;
    let origin = NonZeroU32::new(from.number_of_32_bits()?).map(Origin::of_number);
    let origin = origin.ok_or(BadRecord::Malformed("origin 0"))?;
    Ok(Stamp { shard, origin, number: from.number()? })
}

fn put_messages(out: &mut Vec<u8>, messages: &[Arc<Message>], wall: Wall) {
    put_number(out, messages.len() as u64);
    messages.iter().for_each(|message| put_message(out, message, wall));
}

fn messages(from: &mut Reader<'_>, wall: Wall) -> Result<Vec<Arc<Message>>, BadRecord> {
    let mut messages = Vec::new();
    for _ in 0..from.number()? {
        messages.push(message(from, wall)?);
    }
    Ok(messages)
}

fn put_query(out: &mut Vec<u8>, query: &RetainedQuery) {
    let RetainedQuery { filter, after, partitions, messages_max, needed, ticket } = query;
    put_ticket(out, *ticket);
    put_bytes(out, filter.as_bytes());
    put_option(out, after.as_ref(), |out, topic| put_bytes(out, topic.as_bytes()));
    put_option(out, partitions.as_ref(), |out, set| {
        set.words().iter().for_each(|word| out.extend(word.to_le_bytes()));
    });
    put_number(out, u64::from(*messages_max));
    put_numbers(out, needed);
}

fn query(from: &mut Reader<'_>) -> Result<RetainedQuery, BadRecord> {
    Ok(RetainedQuery {
        ticket: ticket(from)?,
        filter: from.text()?.into(),
        after: from.option(|from| Ok(from.text()?.into()))?,
        partitions: from.option(|from| Ok(Box::new(partitions(from)?)))?,
        messages_max: from.number_of_32_bits()?,
        needed: numbers(from)?,
    })
}

fn partitions(from: &mut Reader<'_>) -> Result<PartitionSet, BadRecord> {
    let mut words = [[0; 8]; PARTITIONS / 64];
    for byte in words.as_flattened_mut() {
        *byte = from.byte()?;
    }
    Ok(PartitionSet::of_words(words.map(u64::from_le_bytes)))
}

/// The words of this broker for what another says.
fn detail(text: &str) -> &'static str {
    DETAILS.into_iter().find(|known| *known == text).unwrap_or(DETAILS[DETAILS.len() - 1])
}

#[cfg(test)]
mod tests;
