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

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of SplitMix64 from the seed 0.
    const REFERENCE: [u64; 3] =
        [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F];

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        let mut chance = Chance { state: 0 };
        for number in REFERENCE {
            assert_eq!(chance.below(1 << 32) as u64, number >> 32);
            assert_eq!(mix(chance.state), number);
        }
    }
}
