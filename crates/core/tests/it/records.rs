//! The properties of the fuzz target of records, without a fuzzer.

use crate::fuzzed_record;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn random_bytes_are_one_record_or_none(kind in 0_u8..28, body in vec(0_u8..6, 0..24)) {
        let mut input = vec![kind];
        input.extend(body);
        fuzzed_record::check(&input);
    }

    #[test]
    fn no_sequence_of_records_is_too_much_for_a_rebuild(
        records in vec((1_u8..28, vec(0_u8..6, 0..8)), 0..60),
    ) {
        let mut input = Vec::new();
        for (kind, body) in records {
            input.extend([kind, body.len() as u8]);
            input.extend(body);
        }
        fuzzed_record::check(&input);
    }
}
