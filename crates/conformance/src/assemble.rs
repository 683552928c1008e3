//! Tokens to the bytes that are sent.

use crate::token::{Token, Wanted};
use crate::varint;
use std::collections::BTreeMap;

/// What a token may depend on.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) version: crate::Version,
    /// Replaces `$u`.
    pub(crate) unique: String,
    pub(crate) captured: BTreeMap<String, Vec<u8>>,
}

impl Context {
    /// A text with its `$u` replaced.
    pub(crate) fn fill(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some((&first, after)) = rest.split_first() {
            if let Some(behind) = rest.strip_prefix(b"$u") {
                out.extend_from_slice(self.unique.as_bytes());
                rest = behind;
            } else {
                out.push(first);
                rest = after;
            }
        }
        out
    }

    /// Protocol name and level.
    pub(crate) fn protocol(&self) -> &'static [u8] {
        match self.version {
            crate::Version::V31 => b"\x00\x06MQIsdp\x03",
            crate::Version::V311 => b"\x00\x04MQTT\x04",
            crate::Version::V5 => b"\x00\x04MQTT\x05",
        }
    }

    pub(crate) fn is_v5(&self) -> bool {
        self.version == crate::Version::V5
    }
}

/// The bytes of `tokens`.
pub(crate) fn assemble(tokens: &[Token], context: &Context) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for token in tokens {
        match token {
            Token::Bytes(bytes) => out.extend(context.fill(bytes)),
            Token::Text(text) => put_sized(&context.fill(text), &mut out)?,
            Token::Group(inside) => put_group(&assemble(inside, context)?, &mut out)?,
            Token::Sized(inside) => put_sized(&assemble(inside, context)?, &mut out)?,
            Token::Only { v5, inside } => {
                if *v5 == context.is_v5() {
                    out.extend(assemble(inside, context)?);
                }
            }
            Token::Protocol => out.extend_from_slice(context.protocol()),
            Token::Repeat(byte, times) => out.resize(out.len() + times, *byte),
            Token::Captured(name) => {
                let bytes = context.captured.get(name);
                out.extend(bytes.ok_or_else(|| format!("nothing was captured as `{name}`"))?);
            }
            Token::Properties(wanted) => {
                let mut block = Vec::new();
                for entry in wanted {
                    match entry {
                        Wanted::Property(tokens) => block.extend(assemble(tokens, context)?),
                        Wanted::Absent(_) | Wanted::Others => return Err(only_pattern()),
                    }
                }
                put_group(&block, &mut out)?;
            }
            Token::Capture(..) | Token::Any | Token::Rest | Token::OneOf(_) | Token::AtLeast(_) => {
                return Err(only_pattern());
            }
        }
    }
    Ok(out)
}

fn only_pattern() -> String {
    "bytes to send hold a token that only patterns may have".into()
}

fn put_group(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    varint::put(bytes.len(), out).ok_or("a group is too long for its length")?;
    out.extend_from_slice(bytes);
    Ok(())
}

fn put_sized(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let length = u16::try_from(bytes.len()).map_err(|_| "a text is longer than 65535 bytes")?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::token::{Fragments, parse};

    fn bytes(text: &str, version: Version) -> Result<Vec<u8>, String> {
        let captured = [("p".to_owned(), vec![7, 8])].into();
        let context = Context { version, unique: "uu".into(), captured };
        assemble(&parse(text, &Fragments::new()).unwrap()[0], &context)
    }

    #[test]
    fn lengths_and_names_are_filled_in() {
        let connect = bytes(r#"10 ( $protocol 02 003C v5(00) "$u-a" )"#, Version::V311).unwrap();
        assert_eq!(connect, b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04uu-a");
        let connect = bytes(r#"10 ( $protocol 02 003C v5(00) "$u-a" )"#, Version::V5).unwrap();
        assert_eq!(connect, b"\x10\x11\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x04uu-a");
        assert_eq!(
            bytes("props(21 000a; 22 0001) $p", Version::V5).unwrap(),
            [6, 0x21, 0, 10, 0x22, 0, 1, 7, 8]
        );
        assert_eq!(bytes("(00*200)", Version::V5).unwrap()[..2], [0xC8, 0x01]);
    }

    #[test]
    fn a_pattern_cannot_be_sent() {
        for text in ["?", "..", "{80|81}", ">=80", "$x=?", "props(..)", "$none"] {
            assert!(bytes(text, Version::V5).is_err(), "{text}");
        }
    }
}
