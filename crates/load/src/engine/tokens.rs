//! Which client a connection of the reactor is.

use weir_reactor::Token;

/// Tokens are small numbers that are used again: a vector, not a map.
#[derive(Debug, Default)]
pub(super) struct Tokens(Vec<u32>);

/// The token is nobody's.
const NOBODY: u32 = u32::MAX;

impl Tokens {
    #[inline]
    pub(super) fn client(&self, token: Token) -> Option<u32> {
        self.0.get(token.0 as usize).copied().filter(|&client| client != NOBODY)
    }

    pub(super) fn bind(&mut self, token: Token, client: u32) {
        let at = token.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, NOBODY);
        }
        self.0[at] = client;
    }

    pub(super) fn release(&mut self, token: Token) {
        self.0[token.0 as usize] = NOBODY;
    }
}
