//! The bytes between two nodes. A frame has its length, a kind and a body; numbers have their
//! highest byte first.
//!
//! A [`Hello`] comes first on each connection and says what both may send then. Letters come in
//! batches: the first one's number, and each letter with the shards it goes between. A message that
//! is for several shards of the node is there once: the letters behind the first say no more than
//! what differs.
//!
//! What is read here may be anybody's: nothing is longer than a bound, and memory is taken only for
//! what has come.

use crate::slot::{SLOTS, Slot};
use std::sync::Arc;
use weir_core::{BadRecord, Mail, Message, ShardId, Wall};

/// Of the frames. One of another version cannot be read, so it is looked at first.
const VERSION: u8 = 1;

/// What every connection begins with, behind the head of its first frame.
const MAGIC: [u8; 4] = *b"WEIR";

const HELLO: u8 = 1;
const LETTERS: u8 = 2;
const TAKEN: u8 = 3;
const PING: u8 = 4;

/// A letter with all that it says, and one with the message of the last.
const WHOLE: u8 = 0;
const AGAIN: u8 = 1;

/// The length of a frame and its kind.
const HEAD_BYTES: usize = 5;

/// Bytes of a cluster's name.
pub const NAME_BYTES_MAX: usize = 64;

/// Bytes of a Hello: who has not said one can make nobody keep more.
const HELLO_BYTES_MAX: usize = 1024;

/// Where in a batch the number of the last letter stands that its sender has taken.
const TAKEN_AT: usize = HEAD_BYTES;

/// A batch without letters.
pub(crate) const BATCH_BYTES_MIN: usize = HEAD_BYTES + 2 * size_of::<u64>();

/// What is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Whoever is there is no node.
    #[error("it does not speak as a node of Weir does")]
    Stranger,
    /// Its frames are those of another version.
    #[error("it speaks version {0} of the protocol between nodes, and this one version {VERSION}")]
    OtherVersion(u8),
    /// It is too long.
    #[error("it sent a frame of {bytes} bytes, and {max} are the most that are taken")]
    TooLong {
        /// It has so many.
        bytes: usize,
        /// So many are taken.
        max: usize,
    },
    /// Bytes that no frame has.
    #[error("it sent a frame that is none: {0}")]
    Malformed(&'static str),
    /// Bytes that no letter has.
    #[error("it sent a letter that is none: {0}")]
    Letter(#[from] BadRecord),
}

const TRUNCATED: FrameError = FrameError::Malformed("it ends inside a field");

/// What both nodes have to remember to go on where a connection was lost: the numbers that each had
/// given the connection on which they began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// That of whoever says it.
    pub own: u64,
    /// That of whom it is said to.
    pub peer: u64,
}

/// The first that a node says on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The name of the cluster, of at most [`NAME_BYTES_MAX`] bytes.
    pub cluster: &'a str,
    /// The sender's slot there.
    pub slot: Slot,
    /// Names this start of the sender.
    pub incarnation: u64,
    /// What the sender calls the connection; greater than that of the one before.
    pub connection: u64,
    /// Where they were, as far as the sender remembers.
    pub state: Option<State>,
    /// The number of the last letter that the sender has taken since then.
    pub taken: u64,
    /// The lowest and highest version of letters ([`Mail::VERSION`]) that the sender reads.
    pub letters: (u8, u8),
    /// Bytes of the longest frame that it takes.
    pub frame_bytes_max: u32,
}

impl Hello<'_> {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = begin(out, HELLO);
        out.extend(MAGIC);
        out.push(VERSION);
        out.push(self.slot.0);
        out.extend([self.letters.0, self.letters.1]);
        out.extend(self.frame_bytes_max.to_be_bytes());
        let state = self.state.unwrap_or(State { own: 0, peer: 0 });
        for number in [self.incarnation, self.connection, state.own, state.peer, self.taken] {
            out.extend(number.to_be_bytes());
        }
        out.extend_from_slice(self.cluster.as_bytes());
        end(out, start);
    }

    fn decode(mut body: &[u8]) -> Result<Hello<'_>, FrameError> {
        let from = &mut body;
        // Whatever else a newer version changes, these stay where they are.
        if take::<4>(from).ok() != Some(MAGIC) {
            return Err(FrameError::Stranger);
        }
        let [version] = take(from)?;
        if version != VERSION {
            return Err(FrameError::OtherVersion(version));
        }
        let [slot, lowest, highest] = take(from)?;
        if slot >= SLOTS {
            return Err(FrameError::Malformed("no node has this slot"));
        }
        if lowest > highest {
            return Err(FrameError::Malformed("it reads no version of letters"));
        }
        let frame_bytes_max = u32::from_be_bytes(take(from)?);
        let mut number = || take(from).map(u64::from_be_bytes);
        let (incarnation, connection) = (number()?, number()?);
        let state = match (number()?, number()?) {
            (0, 0) => None,
            (own, peer) => Some(State { own, peer }),
        };
        let taken = number()?;
        if body.len() > NAME_BYTES_MAX {
            return Err(FrameError::Malformed("the name of its cluster is too long"));
        }
        let not_text = FrameError::Malformed("the name of its cluster is not UTF-8");
        let cluster = std::str::from_utf8(body).map_err(|_| not_text)?;
        let letters = (lowest, highest);
        let hello = Hello {
            cluster,
            slot: Slot(slot),
            incarnation,
            connection,
            state,
            taken,
            letters,
            frame_bytes_max,
        };
        Ok(hello)
    }
}

/// What one node says to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Who it is, and where they were.
    Hello(Hello<'a>),
    /// Letters.
    Letters(Entries<'a>),
    /// The number of the last letter that the sender has taken.
    Taken(u64),
    /// That it is there.
    Ping,
}

impl<'a> Frame<'a> {
    /// The frame at the front of these bytes, and how many are its; nothing if its end has not
    /// come.
    ///
    /// # Errors
    /// Bytes that no frame has, or one that is longer than `bytes_max`.
    pub fn split(bytes: &'a [u8], bytes_max: usize) -> Result<Option<(Self, usize)>, FrameError> {
        let Some((head, rest)) = bytes.split_first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes(*head) as usize;
        let count = length.saturating_add(head.len());
        if count > bytes_max {
            return Err(FrameError::TooLong { bytes: count, max: bytes_max });
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let (&kind, body) = frame.split_first().ok_or(TRUNCATED)?;
        Ok(Some((Self::decode(kind, body)?, count)))
    }

    fn decode(kind: u8, mut body: &'a [u8]) -> Result<Self, FrameError> {
        match kind {
            HELLO => Hello::decode(body).map(Self::Hello),
            LETTERS => Entries::decode(body).map(Self::Letters),
            TAKEN => {
                let number = take(&mut body).map(u64::from_be_bytes)?;
                body.is_empty().then_some(Self::Taken(number)).ok_or(TRAILING)
            }
            PING => body.is_empty().then_some(Self::Ping).ok_or(TRAILING),
            _ => Err(FrameError::Malformed("its kind is unknown")),
        }
    }
}

const TRAILING: FrameError = FrameError::Malformed("bytes behind the last field");

/// The Hello at the front of these bytes, and how many are its; nothing if its end has not come.
///
/// # Errors
/// They begin with something else.
pub(crate) fn first(bytes: &[u8]) -> Result<Option<(Hello<'_>, usize)>, FrameError> {
    match Frame::split(bytes, HELLO_BYTES_MAX) {
        Ok(None) => Ok(None),
        Ok(Some((Frame::Hello(hello), count))) => Ok(Some((hello, count))),
        // A stranger's first bytes are rarely the length of anything.
        Ok(Some(_)) | Err(FrameError::TooLong { .. }) => Err(FrameError::Stranger),
        Err(error) => Err(error),
    }
}

/// Whose Hello it is that these bytes begin with; nothing if its end has not come.
///
/// # Errors
/// They begin with something else.
pub fn slot_of(bytes: &[u8]) -> Result<Option<Slot>, FrameError> {
    Ok(first(bytes)?.map(|(hello, _)| hello.slot))
}

/// The letters of a batch, which are read one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries<'a> {
    /// The number of the last letter that its sender had taken when it left.
    pub taken: u64,
    /// The number of the first letter, from 1. Those behind it have the next numbers.
    pub first: u64,
    rest: &'a [u8],
    /// The message of the last letter that had one.
    message: Option<Arc<Message>>,
}

impl<'a> Entries<'a> {
    fn decode(mut body: &'a [u8]) -> Result<Self, FrameError> {
        let taken = u64::from_be_bytes(take(&mut body)?);
        let first = u64::from_be_bytes(take(&mut body)?);
        // Each letter has bytes of its own, so there are numbers for all.
        let has_numbers = first > 0 && first.checked_add(body.len() as u64).is_some();
        if !has_numbers {
            return Err(FrameError::Malformed("no letter has its number"));
        }
        if body.is_empty() {
            return Err(FrameError::Malformed("a batch without letters"));
        }
        Ok(Self { taken, first, rest: body, message: None })
    }

    /// The next letter with its sender and its receiver, if there is one.
    ///
    /// # Errors
    /// Bytes that no letter has; what is behind them cannot be read.
    pub fn next_letter(
        &mut self,
        wall: Wall,
    ) -> Result<Option<(ShardId, ShardId, Mail)>, FrameError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let [kind, from_high, from_low, to_high, to_low] = take(&mut self.rest)?;
        let from = ShardId(u16::from_be_bytes([from_high, from_low]));
        let to = ShardId(u16::from_be_bytes([to_high, to_low]));
        let mail = match (kind, &self.message) {
            (WHOLE, _) => {
                let mail = Mail::decode_first(&mut self.rest, wall)?;
                if let Mail::Publish { message, .. } = &mail {
                    self.message = Some(Arc::clone(message));
                }
                mail
            }
            (AGAIN, Some(message)) => Mail::decode_again(&mut self.rest, Arc::clone(message))?,
            (AGAIN, None) => return Err(FrameError::Malformed("no message came before")),
            _ => return Err(FrameError::Malformed("a letter of an unknown kind")),
        };
        Ok(Some((from, to, mail)))
    }
}

/// A batch that is written.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// The number of its first letter.
    first: u64,
    letters: u32,
    /// The message of the last letter that had one, while letters are added.
    message: Option<Arc<Message>>,
}

impl Batch {
    /// One without letters, in the memory of `bytes`.
    pub(crate) fn new(mut bytes: Vec<u8>, first: u64) -> Self {
        bytes.clear();
        let start = begin(&mut bytes, LETTERS);
        debug_assert_eq!(start, 0);
        bytes.extend([0; size_of::<u64>()]);
        bytes.extend(first.to_be_bytes());
        Self { bytes, first, letters: 0, message: None }
    }

    /// Adds a letter, unless the batch would then have more than `bytes_max` bytes: says whether it
    /// has.
    pub(crate) fn push(
        &mut self,
        (from, to): (ShardId, ShardId),
        mail: &Mail,
        wall: Wall,
        bytes_max: usize,
    ) -> bool {
        let Self { bytes, message, .. } = self;
        let before = bytes.len();
        let known = match (mail, &*message) {
            (Mail::Publish { message, .. }, Some(known)) => Arc::ptr_eq(message, known),
            _ => false,
        };
        bytes.push(if known { AGAIN } else { WHOLE });
        bytes.extend(from.0.to_be_bytes());
        bytes.extend(to.0.to_be_bytes());
        if known {
            mail.encode_again(bytes);
        } else {
            mail.encode(wall, bytes);
        }
        if bytes.len() > bytes_max {
            bytes.truncate(before);
            return false;
        }
        if let (Mail::Publish { message: new, .. }, false) = (mail, known) {
            *message = Some(Arc::clone(new));
        }
        self.letters += 1;
        true
    }

    /// It leaves, with the number of the last letter that was taken from whom it goes to.
    pub(crate) fn seal(&mut self, taken: u64) -> &[u8] {
        // Its memory goes back to who had it made.
        self.message = None;
        end(&mut self.bytes, 0);
        self.bytes[TAKEN_AT..][..size_of::<u64>()].copy_from_slice(&taken.to_be_bytes());
        &self.bytes
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn letters(&self) -> u32 {
        self.letters
    }

    /// The number of its first letter.
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    /// The number of the letter behind its last.
    pub(crate) fn end(&self) -> u64 {
        self.first + u64::from(self.letters)
    }

    /// Its memory.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Appends that letters up to this number were taken.
pub(crate) fn put_taken(out: &mut Vec<u8>, number: u64) {
    let start = begin(out, TAKEN);
    out.extend(number.to_be_bytes());
    end(out, start);
}

/// Appends that this node is there.
pub(crate) fn put_ping(out: &mut Vec<u8>) {
    let start = begin(out, PING);
    end(out, start);
}

/// Begins a frame; says where.
fn begin(out: &mut Vec<u8>, kind: u8) -> usize {
    let start = out.len();
    out.extend([0, 0, 0, 0, kind]);
    start
}

/// The frame that began there ends here.
fn end(out: &mut [u8], start: usize) {
    // No bound of a frame is above that of its length.
    let length = (out.len() - start - size_of::<u32>()) as u32;
    out[start..][..size_of::<u32>()].copy_from_slice(&length.to_be_bytes());
}

fn take<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], FrameError> {
    let (bytes, rest) = from.split_first_chunk().ok_or(TRUNCATED)?;
    *from = rest;
    Ok(*bytes)
}

#[cfg(test)]
mod tests;
