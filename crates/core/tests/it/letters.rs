//! The properties of the fuzz target of letters, without a fuzzer.

use crate::fuzzed_letter;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn random_bytes_are_one_letter_or_none(kind in 0_u8..25, body in vec(0_u8..6, 0..24)) {
        let mut input = vec![kind];
        input.extend(body);
        fuzzed_letter::check(&input);
    }
}
