//! Whether received bytes match tokens.

use crate::assemble::Context;
use crate::token::{Token, Wanted};
use crate::varint::{self, Found};

/// Matches all of `input`. What is captured goes into `context`; of a failed match too, so the
/// caller gives a copy where it has alternatives.
pub(crate) fn matches(tokens: &[Token], input: &[u8], context: &mut Context) -> Result<(), String> {
    let mut rest = input;
    let mut queue: Vec<&Token> = tokens.iter().rev().collect();
    while let Some(token) = queue.pop() {
        let here = input.len() - rest.len();
        let bad = |what: &str| format!("{what} at byte {here}");
        match token {
            Token::Bytes(bytes) => {
                literal(&context.fill(bytes), &mut rest).ok_or_else(|| bad("other bytes"))?;
            }
            Token::Text(text) => {
                let inside = sized(&mut rest).ok_or_else(|| bad("no text"))?;
                if inside != context.fill(text) {
                    return Err(bad("another text"));
                }
            }
            Token::Group(inside) => {
                let bytes = group(&mut rest).ok_or_else(|| bad("a wrong length"))?;
                matches(inside, bytes, context)
                    .map_err(|error| bad(&format!("{error} of the part")))?;
            }
            Token::Sized(inside) => {
                let bytes = sized(&mut rest).ok_or_else(|| bad("a wrong length"))?;
                matches(inside, bytes, context)
                    .map_err(|error| bad(&format!("{error} of the part")))?;
            }
            Token::Only { v5, inside } => {
                if *v5 == context.is_v5() {
                    queue.extend(inside.iter().rev());
                }
            }
            Token::Protocol => {
                literal(context.protocol(), &mut rest).ok_or_else(|| bad("another protocol"))?;
            }
            Token::Repeat(byte, times) => {
                literal(&vec![*byte; *times], &mut rest).ok_or_else(|| bad("other bytes"))?;
            }
            Token::Capture(name, count) => {
                let bytes = take(&mut rest, *count).ok_or_else(|| bad("the end"))?;
                context.captured.insert(name.clone(), bytes.to_vec());
            }
            Token::Captured(name) => {
                let bytes = context.captured.get(name).cloned();
                let bytes = bytes.ok_or_else(|| format!("nothing was captured as `{name}`"))?;
                literal(&bytes, &mut rest).ok_or_else(|| bad(&format!("not `${name}`")))?;
            }
            Token::Any => {
                take(&mut rest, 1).ok_or_else(|| bad("the end"))?;
            }
            Token::Rest => rest = &[],
            Token::OneOf(bytes) => {
                let found = take(&mut rest, 1).ok_or_else(|| bad("the end"))?;
                if !bytes.contains(&found[0]) {
                    return Err(bad("none of the bytes"));
                }
            }
            Token::AtLeast(least) => {
                let found = take(&mut rest, 1).ok_or_else(|| bad("the end"))?;
                if found[0] < *least {
                    return Err(bad("a smaller byte"));
                }
            }
            Token::Properties(wanted) => {
                let block = group(&mut rest).ok_or_else(|| bad("a wrong property length"))?;
                properties(wanted, block, context).map_err(|error| bad(&error))?;
            }
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(format!("{} bytes more than expected", rest.len())) }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (bytes, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    Some(bytes)
}

fn literal(bytes: &[u8], rest: &mut &[u8]) -> Option<()> {
    *rest = rest.strip_prefix(bytes)?;
    Some(())
}

fn group<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let Found::Value(length, used) = varint::read(rest) else { return None };
    take(rest, used)?;
    take(rest, length)
}

fn sized<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take(rest, 2)?;
    take(rest, usize::from(u16::from_be_bytes([length[0], length[1]])))
}

/// The block of properties at the start of `bytes`.
pub(crate) fn block(mut bytes: &[u8]) -> Option<&[u8]> {
    group(&mut bytes)
}

const USER_PROPERTY: u8 = 0x26;

/// The properties of a block, each in one piece with its identifier.
pub(crate) fn split(mut block: &[u8]) -> Result<Vec<&[u8]>, String> {
    let mut found = Vec::new();
    while let Some(&id) = block.first() {
        let mut rest = &block[1..];
        let taken = match id {
            0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28 | 0x29 | 0x2A => take(&mut rest, 1).map(drop),
            0x13 | 0x21 | 0x22 | 0x23 => take(&mut rest, 2).map(drop),
            0x02 | 0x11 | 0x18 | 0x27 => take(&mut rest, 4).map(drop),
            0x0B => match varint::read(rest) {
                Found::Value(_, used) => take(&mut rest, used).map(drop),
                _ => None,
            },
            0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1A | 0x1C | 0x1F => {
                sized(&mut rest).map(drop)
            }
            USER_PROPERTY => sized(&mut rest).and_then(|_| sized(&mut rest)).map(drop),
            _ => return Err(format!("an unknown property {id:02x}")),
        };
        taken.ok_or_else(|| format!("property {id:02x} is cut short"))?;
        found.push(&block[..block.len() - rest.len()]);
        block = rest;
    }
    Ok(found)
}

/// In any order, but user properties among themselves.
fn properties(wanted: &[Wanted], block: &[u8], context: &mut Context) -> Result<(), String> {
    let found = split(block)?;
    let mut claimed = vec![false; found.len()];
    let mut others = false;
    let mut user_from = 0;
    for entry in wanted {
        match entry {
            Wanted::Others => others = true,
            Wanted::Absent(id) => {
                if found.iter().any(|property| property[0] == *id) {
                    return Err(format!("property {id:02x} is there"));
                }
            }
            Wanted::Property(tokens) => {
                let mut at = None;
                for (index, property) in found.iter().enumerate() {
                    let mut copy = context.clone();
                    let in_turn = property[0] != USER_PROPERTY || index >= user_from;
                    if !claimed[index] && in_turn && matches(tokens, property, &mut copy).is_ok() {
                        *context = copy;
                        at = Some(index);
                        break;
                    }
                }
                let at = at.ok_or_else(|| format!("no property {tokens:?}"))?;
                claimed[at] = true;
                if found[at][0] == USER_PROPERTY {
                    user_from = at + 1;
                }
            }
        }
    }
    match claimed.iter().position(|&claimed| !claimed) {
        Some(at) if !others => Err(format!("a property {:02x} more", found[at][0])),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::assemble::assemble;
    use crate::token::{Fragments, parse};
    use proptest::prelude::*;

    fn context() -> Context {
        Context { version: Version::V5, unique: "uu".into(), captured: Default::default() }
    }

    fn is_match(pattern: &str, input: &[u8]) -> bool {
        matches(&parse(pattern, &Fragments::new()).unwrap()[0], input, &mut context()).is_ok()
    }

    #[test]
    fn a_pattern_says_yes_to_its_bytes_and_no_to_all_others() {
        assert!(is_match("40 (0007)", &[0x40, 2, 0, 7]));
        for input in [
            &[0x40, 2, 0, 8][..],
            &[0x40, 2, 0],
            &[0x40, 3, 0, 7, 0],
            &[0x40, 2, 0, 7, 0],
            &[0x40, 0x82, 0, 0, 7],
        ] {
            assert!(!is_match("40 (0007)", input), "{input:?}");
        }
        assert!(is_match("? >=80 {01|02} ..", &[9, 0x80, 2, 5, 5]));
        for input in [&[9, 0x7F, 2][..], &[9, 0x80, 3], &[9]] {
            assert!(!is_match("? >=80 {01|02} ..", input), "{input:?}");
        }
        assert!(is_match(r#""$u/a" 'x'"#, b"\x00\x04uu/ax"));
        assert!(!is_match(r#""$u/a""#, b"\x00\x04uv/a"));
    }

    #[test]
    fn properties_match_in_any_order_and_user_properties_in_theirs() {
        let block = b"\x16\x26\x00\x01a\x00\x011\x21\x00\x0a\x26\x00\x01b\x00\x012\x01\x01";
        let block = &block[..];
        let len = block.len() - 1;
        let mut input = vec![len as u8];
        input.extend_from_slice(&block[1..]);
        let is = |pattern: &str| is_match(pattern, &input);
        assert!(is(r#"props(01 01; 21 000a; 26 "a" "1"; 26 "b" "2")"#));
        assert!(is(r#"props(21 ??; ..)"#) && is(r#"props(!22; ..)"#));
        assert!(!is(r#"props(01 01; 21 000a; 26 "b" "2"; 26 "a" "1")"#));
        assert!(!is(r#"props(01 01; 21 000a; 26 "a" "1")"#));
        assert!(!is("props(!21; ..)") && !is("props(21 000b; ..)") && !is("props()"));
        // One property is not claimed twice.
        assert!(!is("props(21 000a; 21 000a; ..)"));
        assert!(!is_match("props(..)", &[2, 0x7F, 0]) && !is_match("props(..)", &[2, 0x21, 0]));
    }

    #[test]
    fn what_is_captured_is_expected_again() {
        let fragments = Fragments::new();
        let mut context = context();
        matches(&parse("$p=??", &fragments).unwrap()[0], &[1, 2], &mut context).unwrap();
        let again = parse("$p", &fragments).unwrap().remove(0);
        assert!(matches(&again, &[1, 2], &mut context).is_ok());
        assert!(matches(&again, &[1, 3], &mut context).is_err());
        assert_eq!(assemble(&again, &context).unwrap(), [1, 2]);
    }

    proptest! {
        /// What is assembled matches its own notation, and no longer when a byte changes.
        #[test]
        fn bytes_match_the_notation_they_came_from(
            bytes in prop::collection::vec(any::<u8>(), 1..300),
            at in any::<prop::sample::Index>(),
        ) {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let text = format!("30 ( {hex} )");
            let tokens = parse(&text, &Fragments::new()).unwrap().remove(0);
            let mut sent = assemble(&tokens, &context()).unwrap();
            prop_assert!(matches(&tokens, &sent, &mut context()).is_ok());
            let at = at.index(sent.len());
            sent[at] ^= 1;
            prop_assert!(matches(&tokens, &sent, &mut context()).is_err());
        }
    }
}
