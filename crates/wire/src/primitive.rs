//! The data representations of section 1.5: integers, strings, binary data.
//!
//! A [`Reader`] takes them from the front of borrowed bytes; the `put_*` functions append them.
//! No packet knowledge here, except that a packet is a first byte, a length and a body.

use crate::{PacketId, WireError};

/// Largest remaining length that four bytes can say.
pub const REMAINING_LENGTH_MAX: u32 = 268_435_455;

/// What is left to read of a packet's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[inline]
    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Everything not yet read.
    #[inline]
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Nothing may follow.
    #[inline]
    pub(crate) const fn finish(self) -> Result<(), WireError> {
        if self.is_empty() { Ok(()) } else { Err(WireError::Malformed("bytes after the packet")) }
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        let Some((&byte, rest)) = self.0.split_first() else { return Err(TRUNCATED) };
        self.0 = rest;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        let Some((&bytes, rest)) = self.0.split_first_chunk() else { return Err(TRUNCATED) };
        self.0 = rest;
        Ok(u16::from_be_bytes(bytes))
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        let Some((&bytes, rest)) = self.0.split_first_chunk() else { return Err(TRUNCATED) };
        self.0 = rest;
        Ok(u32::from_be_bytes(bytes))
    }

    /// A variable byte integer in its shortest form `[MQTT-1.5.5-1]`.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u32, WireError> {
        let Some((value, rest)) = split_varint(self.0)? else { return Err(TRUNCATED) };
        if self.0.len() - rest.len() != varint_bytes(value as usize) {
            return Err(WireError::Malformed("variable byte integer longer than needed"));
        }
        self.0 = rest;
        Ok(value)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let Some((bytes, rest)) = self.0.split_at_checked(count) else { return Err(TRUNCATED) };
        self.0 = rest;
        Ok(bytes)
    }

    /// Binary data: two bytes of length, then as many bytes.
    #[inline]
    pub(crate) fn binary(&mut self) -> Result<&'a [u8], WireError> {
        let count = self.u16()?;
        self.bytes(usize::from(count))
    }

    /// A string without the check for U+0000, for callers that look at each byte anyway.
    #[inline]
    pub(crate) fn text(&mut self) -> Result<&'a str, WireError> {
        // Surrogates encoded as UTF-8 are refused here as well [MQTT-1.5.4-1].
        std::str::from_utf8(self.binary()?)
            .map_err(|_| WireError::Malformed("string that is not UTF-8"))
    }

    /// A UTF-8 encoded string.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<&'a str, WireError> {
        let text = self.text()?;
        // [MQTT-1.5.4-2]
        if text.as_bytes().contains(&0) {
            return Err(WireError::Malformed("string that holds U+0000"));
        }
        Ok(text)
    }

    #[inline]
    pub(crate) fn packet_id(&mut self) -> Result<PacketId, WireError> {
        // [MQTT-2.2.1-3]
        PacketId::new(self.u16()?).ok_or(WireError::ProtocolError("packet identifier 0"))
    }
}

pub(crate) const TRUNCATED: WireError = WireError::Malformed("packet that ends inside a field");

/// The variable byte integer at the start of `input` and what follows it, or `None` while it is
/// not all there. Takes forms longer than needed, which MQTT 3.1.1 does not forbid.
#[inline]
pub(crate) fn split_varint(input: &[u8]) -> Result<Option<(u32, &[u8])>, WireError> {
    match input {
        [byte, rest @ ..] if *byte < 0x80 => Ok(Some((u32::from(*byte), rest))),
        _ => split_long_varint(input),
    }
}

fn split_long_varint(input: &[u8]) -> Result<Option<(u32, &[u8])>, WireError> {
    let mut value = 0;
    for (index, &byte) in input.iter().take(VARINT_BYTES_MAX).enumerate() {
        value |= u32::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            return Ok(Some((value, &input[index + 1..])));
        }
    }
    if input.len() < VARINT_BYTES_MAX {
        return Ok(None);
    }
    Err(WireError::Malformed("variable byte integer of more than four bytes"))
}

const VARINT_BYTES_MAX: usize = 4;

/// How many bytes the shortest form of `value` takes, 1 to 4.
#[inline]
pub(crate) const fn varint_bytes(value: usize) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => VARINT_BYTES_MAX,
    }
}

/// Appends a variable byte integer; panics above 268,435,455.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, value: usize) {
    assert!(value <= REMAINING_LENGTH_MAX as usize, "{value} does not fit in four varint bytes");
    let mut rest = value;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[inline]
pub(crate) fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

#[inline]
pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Appends binary data; panics above 65,535 bytes.
#[inline]
pub(crate) fn put_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    let count = u16::try_from(bytes.len()).expect("a field is at most 65,535 bytes long");
    put_u16(out, count);
    out.extend_from_slice(bytes);
}

/// Appends a string; panics above 65,535 bytes.
#[inline]
pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    put_binary(out, text.as_bytes());
}

/// Appends a whole packet: `first` byte, remaining length, then what `put_body` appends.
pub(crate) fn put_packet(out: &mut Vec<u8>, first: u8, put_body: impl FnOnce(&mut Vec<u8>)) {
    let length_at = out.len() + 1;
    // Most bodies are short: one byte is kept for the length, and more are made room for.
    out.extend_from_slice(&[first, 0]);
    put_body(out);
    let body_bytes = out.len() - length_at - 1;
    if body_bytes < 0x80 {
        out[length_at] = body_bytes as u8;
    } else {
        let mut length = Vec::with_capacity(VARINT_BYTES_MAX);
        put_varint(&mut length, body_bytes);
        out.splice(length_at..=length_at, length);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_varint_has_the_bytes_of_table_1_1() {
        for (value, bytes) in [
            (0, &[0x00][..]),
            (127, &[0x7F]),
            (128, &[0x80, 0x01]),
            (16_383, &[0xFF, 0x7F]),
            (16_384, &[0x80, 0x80, 0x01]),
            (2_097_151, &[0xFF, 0xFF, 0x7F]),
            (2_097_152, &[0x80, 0x80, 0x80, 0x01]),
            (268_435_455, &[0xFF, 0xFF, 0xFF, 0x7F]),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(varint_bytes(value), bytes.len());
            assert_eq!(Reader::new(bytes).varint(), Ok(value as u32));
        }
    }

    #[test]
    fn a_varint_of_five_bytes_or_with_padding_is_malformed() {
        for bytes in [&[0x80, 0x80, 0x80, 0x80, 0x01][..], &[0x80, 0x80, 0x80, 0x80], &[0x80, 0]] {
            assert!(matches!(Reader::new(bytes).varint(), Err(WireError::Malformed(_))));
        }
        assert_eq!(split_varint(&[0x80, 0x80, 0x80]), Ok(None));
    }

    #[test]
    fn strings_with_nul_surrogates_or_bad_utf_8_are_malformed() {
        for bytes in [
            &[0, 3, b'a', 0, b'b'][..],
            &[0, 3, 0xED, 0xA0, 0x80],
            &[0, 2, 0xC0, 0x80],
            &[0, 1, 0xFF],
            &[0, 2, b'a'],
            &[0],
        ] {
            assert!(matches!(Reader::new(bytes).string(), Err(WireError::Malformed(_))));
        }
        // [MQTT-1.5.4-3]: a byte order mark is a character like others.
        assert_eq!(Reader::new(&[0, 3, 0xEF, 0xBB, 0xBF]).string(), Ok("\u{FEFF}"));
    }

    proptest! {
        #[test]
        fn a_varint_reads_as_written(value in 0..=REMAINING_LENGTH_MAX) {
            let mut out = Vec::new();
            put_varint(&mut out, value as usize);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn a_packet_gets_the_shortest_length(body_bytes in 0_usize..70_000) {
            let mut out = vec![7];
            put_packet(&mut out, 0xC0, |out| out.resize(out.len() + body_bytes, 1));
            let mut reader = Reader::new(&out);
            prop_assert_eq!((reader.u8(), reader.u8()), (Ok(7), Ok(0xC0)));
            prop_assert_eq!(reader.varint(), Ok(body_bytes as u32));
            prop_assert_eq!(reader.rest().len(), body_bytes);
        }
    }
}
