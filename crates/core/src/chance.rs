//! Chance from a seed: the core has no random source.

/// A generator of numbers (SplitMix64): fast and even, not secret.
#[derive(Debug)]
pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// A number from 0 to `count` less one; `count` is not 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        ((u128::from(mix(self.state)) * count as u128) >> 64) as usize
    }
}

/// Spreads the bits of a number over all of it; no two numbers give the same.
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
