//! The records of a TLS 1.3 connection whose handshake is over, as a server sees them: what they
//! mean, and what ends the connection (RFC 8446, sections 4.6.3, 5 and 6).

use super::keys::{Header, Keys, Suite, TAG_BYTES};
use super::{APPLICATION_DATA, RECORD_BYTES_MAX};
use crate::{Stream, TransportError};
use aws_lc_rs::aead::LessSafeKey;
use rustls::AlertDescription;

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// The one message of the handshake that comes after it: its type and its length.
const KEY_UPDATE: [u8; 4] = [24, 0, 0, 1];

/// Bytes of a record behind its head: content, kind and padding, and what a suite may add.
const SEALED_BYTES_MAX: usize = RECORD_BYTES_MAX + 256;

/// Records that one key seals; the last of them says that the next key follows.
pub(super) const KEY_RECORDS_MAX: u32 = 1 << 24;

/// Records in a row that may come without a byte for the layer above.
pub(super) const FRUITLESS_MAX: u8 = 32;

/// What records are sealed with, in both directions.
pub(in crate::tls) struct Records {
    pub(super) read: Keys,
    pub(super) write: Keys,
    suite: Suite,
    /// Records in a row that brought nothing.
    fruitless: u8,
}

/// What ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Altered,
    TooLong,
    Unexpected,
    Undecodable,
    Illegal,
    TooMany,
    Worn,
    Declined(AlertDescription),
}

impl Fault {
    /// What the peer is told, which says nothing if it has ended the connection itself.
    pub(super) fn alert(self) -> Option<AlertDescription> {
        Some(match self {
            Self::Altered => AlertDescription::BadRecordMac,
            Self::TooLong => AlertDescription::RecordOverflow,
            Self::Unexpected | Self::TooMany | Self::Worn => AlertDescription::UnexpectedMessage,
            Self::Undecodable => AlertDescription::DecodeError,
            Self::Illegal => AlertDescription::IllegalParameter,
            Self::Declined(_) => return None,
        })
    }
}

impl From<Fault> for TransportError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Altered => Self::Malformed("a TLS record that was changed on its way"),
            Fault::TooLong => Self::Malformed("a TLS record that is too long"),
            Fault::Unexpected => Self::Malformed("a TLS message at the wrong time"),
            Fault::Undecodable => Self::Malformed("a TLS message that cannot be decoded"),
            Fault::Illegal => Self::Malformed("what TLS forbids"),
            Fault::TooMany => Self::Malformed("too many TLS records that bring nothing"),
            Fault::Worn => Self::Malformed("more TLS records than one key may seal"),
            Fault::Declined(alert) => Self::Declined(alert.as_str().unwrap_or("an unknown alert")),
        }
    }
}

/// What a record was.
enum Record {
    Content,
    KeyUpdate { is_asked: bool },
    Closed,
}

impl Records {
    pub(super) fn new(read: Keys, write: Keys, suite: Suite) -> Self {
        Self { read, write, suite, fruitless: 0 }
    }

    /// Without keys.
    pub(super) fn blank() -> Self {
        Self::new(Keys::blank(), Keys::blank(), Suite::Aes128GcmSha256)
    }

    /// Opens the whole records that `bytes` begins with. Returns how many bytes they have.
    pub(super) fn open(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        network: &mut Vec<u8>,
    ) -> (usize, Result<Stream, Fault>) {
        let (mut done, mut cipher, mut owes_update) = (0, None, false);
        let ended = loop {
            let (header, sealed) = match split(&bytes[done..]) {
                Ok(Some(record)) => record,
                Ok(None) => break Ok(Stream::Open),
                Err(fault) => break Err(fault),
            };
            done += header.len() + sealed.len();
            let key = cipher.get_or_insert_with(|| self.read.cipher(self.suite));
            match self.open_one(key, header, sealed, plain) {
                Ok(Record::Content) => {}
                Ok(Record::KeyUpdate { is_asked }) => {
                    self.read.update(self.suite);
                    cipher = None;
                    owes_update |= is_asked;
                }
                Ok(Record::Closed) => break Ok(Stream::Ended),
                Err(fault) => break Err(fault),
            }
            if self.read.sequence() == KEY_RECORDS_MAX {
                self.update(true, network);
            }
        };
        match ended {
            // However often it was asked for.
            Ok(Stream::Open) if owes_update => self.update(false, network),
            Err(fault) => {
                if let Some(alert) = fault.alert() {
                    self.say(ALERT, &[2, alert.into()], network);
                }
            }
            Ok(_) => {}
        }
        (done, ended)
    }

    /// Appends records of all of `plain`.
    pub(super) fn seal(&mut self, plain: &[u8], network: &mut Vec<u8>) {
        let mut cipher = self.write.cipher(self.suite);
        for content in plain.chunks(RECORD_BYTES_MAX) {
            if self.write.sequence() >= KEY_RECORDS_MAX - 1 {
                self.update(false, network);
                cipher = self.write.cipher(self.suite);
            }
            self.write.seal(&cipher, APPLICATION_DATA, content, network);
        }
    }

    /// Says that nothing follows.
    pub(super) fn close(&mut self, network: &mut Vec<u8>) {
        self.say(ALERT, &[1, AlertDescription::CloseNotify.into()], network);
    }

    fn open_one(
        &mut self,
        cipher: &LessSafeKey,
        header: Header,
        sealed: &[u8],
        plain: &mut Vec<u8>,
    ) -> Result<Record, Fault> {
        if self.read.is_worn() {
            return Err(Fault::Worn);
        }
        let start = plain.len();
        self.read.open(cipher, header, sealed, plain).ok_or(Fault::Altered)?;
        if plain.len() - start > RECORD_BYTES_MAX + 1 {
            plain.truncate(start);
            return Err(Fault::TooLong);
        }
        // The kind is the last byte that is not zero; all behind it is padding.
        let kind_at = plain[start..].iter().rposition(|&byte| byte != 0).map(|at| start + at);
        let kind = kind_at.map(|at| plain[at]);
        plain.truncate(kind_at.unwrap_or(start));
        if kind == Some(APPLICATION_DATA) && plain.len() > start {
            self.fruitless = 0;
            return Ok(Record::Content);
        }
        let record = match kind {
            Some(APPLICATION_DATA) => Ok(Record::Content),
            Some(ALERT) => alert(&plain[start..]),
            Some(HANDSHAKE) => key_update(&plain[start..]),
            _ => Err(Fault::Unexpected),
        };
        plain.truncate(start);
        self.fruitless += 1;
        if self.fruitless > FRUITLESS_MAX { Err(Fault::TooMany) } else { record }
    }

    /// Says that the next keys follow, and takes them.
    fn update(&mut self, asks: bool, network: &mut Vec<u8>) {
        let [kind, high, middle, low] = KEY_UPDATE;
        self.say(HANDSHAKE, &[kind, high, middle, low, asks.into()], network);
        self.write.update(self.suite);
    }

    fn say(&mut self, kind: u8, content: &[u8], network: &mut Vec<u8>) {
        let cipher = self.write.cipher(self.suite);
        self.write.seal(&cipher, kind, content, network);
    }
}

/// The head of the first record and what follows it, if that is all there.
fn split(bytes: &[u8]) -> Result<Option<(Header, &[u8])>, Fault> {
    let Some((&header, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let [kind, _, _, high, low]: Header = header;
    if kind != APPLICATION_DATA {
        return Err(Fault::Unexpected);
    }
    match usize::from(u16::from_be_bytes([high, low])) {
        length if length > SEALED_BYTES_MAX => Err(Fault::TooLong),
        // Not even the kind of what would be in it.
        length if length <= TAG_BYTES => Err(Fault::Undecodable),
        length => Ok(rest.get(..length).map(|sealed| (header, sealed))),
    }
}

fn alert(content: &[u8]) -> Result<Record, Fault> {
    let &[_, description] = content else { return Err(Fault::Undecodable) };
    match description.into() {
        AlertDescription::CloseNotify => Ok(Record::Closed),
        // The end follows.
        AlertDescription::UserCanceled => Ok(Record::Content),
        description => Err(Fault::Declined(description)),
    }
}

/// It is the last of its record, since other keys seal what follows, and there is no other message
/// that could stand before it.
fn key_update(content: &[u8]) -> Result<Record, Fault> {
    match content.strip_prefix(&KEY_UPDATE) {
        Some(&[0]) => Ok(Record::KeyUpdate { is_asked: false }),
        Some(&[1]) => Ok(Record::KeyUpdate { is_asked: true }),
        Some(&[_]) => Err(Fault::Illegal),
        _ => Err(Fault::Unexpected),
    }
}
