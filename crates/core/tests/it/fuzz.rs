//! The property of the core's fuzz target without a fuzzer: on the scripts that the fuzzer once
//! failed at, which are kept in `fuzz/regressions/core/`, and on random ones.
//!
//! `FUZZ_SCRIPT=FILE cargo test -p weir-core --test it one_script` runs one file.

use crate::fuzzed;
use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

#[test]
fn scripts_that_once_failed_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/core");
    for entry in std::fs::read_dir(folder).expect("the folder of regressions") {
        let path = entry.unwrap().path();
        // A panic names no file.
        println!("{}", path.display());
        fuzzed::check(&std::fs::read(path).unwrap());
    }
}

#[test]
fn one_script() {
    if let Some(path) = std::env::var_os("FUZZ_SCRIPT") {
        fuzzed::check(&std::fs::read(path).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_scripts_pass(script in vec(any::<u8>(), 0..400)) {
        fuzzed::check(&script);
    }
}
