//! Who may ask over TCP: tokens, which are known here by their hashes alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// What somebody may do.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look at everything but traces, and change nothing.
    Viewer,
    /// Everything.
    Admin,
}

/// A token's hash: SHA-256. A token has 256 random bits, so no slow hash is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash([u8; 32]);

/// Somebody who has a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Whose it is: a name for the log.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// What the token is known by.
    pub hash: TokenHash,
}

impl TokenHash {
    /// That of a token.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// From 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        is_hex.then_some(Self(bytes))
    }
}

/// The tokens that count now. A clone is the same book.
#[derive(Clone, Debug, Default)]
pub struct TokenBook(Arc<RwLock<Vec<Token>>>);

impl TokenBook {
    pub(crate) fn new(tokens: Vec<Token>) -> Self {
        Self(Arc::new(RwLock::new(tokens)))
    }

    /// These count from now on, and no others.
    pub fn set(&self, tokens: Vec<Token>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tokens;
    }

    /// Whose token stands in a header `Authorization`, with its place.
    pub(crate) fn bearer(&self, authorization: &str) -> Option<(usize, Token)> {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let at = bearer(&tokens, authorization)?;
        Some((at, tokens[at].clone()))
    }
}

/// As hexadecimal digits.
impl fmt::Display for TokenHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// The place of the token that stands in a header `Authorization`.
fn bearer(tokens: &[Token], authorization: &str) -> Option<usize> {
    let (scheme, token) = authorization.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    // How long it takes says something of hashes, which nobody can choose.
    let hash = TokenHash::of(token.trim());
    tokens.iter().position(|known| known.hash == hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_read_as_it_is_shown() {
        let hash = TokenHash::of("a");
        assert_eq!(TokenHash::parse(&hash.to_string()), Some(hash));
        for bad in ["", "00", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(TokenHash::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_the_token_itself_is_let_in() {
        let token = |name: &str, role| Token { name: name.into(), role, hash: TokenHash::of(name) };
        let tokens = [token("one", Role::Viewer), token("two", Role::Admin)];
        let role = |text| bearer(&tokens, text).map(|at| tokens[at].role);
        assert_eq!(role("Bearer one"), Some(Role::Viewer));
        assert_eq!(role("bearer two"), Some(Role::Admin));
        for bad in ["", "one", "Bearer", "Bearer ", "Basic one", "Bearer three", "Bearer one two"] {
            assert_eq!(role(bad), None, "{bad}");
        }
    }
}
