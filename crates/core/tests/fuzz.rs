//! The property of the core's fuzz target without a fuzzer: on the scripts that the fuzzer once
//! failed at, which are kept in `fuzz/regressions/core/`, and on random ones.
//!
//! `FUZZ_SCRIPT=FILE cargo test -p weir-core --test fuzz one_script` runs one file.

use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

#[expect(unreachable_pub, dead_code, reason = "shared with the library of the fuzz targets")]
#[path = "../../../fuzz/src/packet.rs"]
mod packet;
#[expect(unreachable_pub, dead_code, reason = "shared with the library of the fuzz targets")]
#[path = "../../../fuzz/src/shards/mod.rs"]
mod shards;

#[test]
fn scripts_that_once_failed_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/core");
    for entry in std::fs::read_dir(folder).expect("the folder of regressions") {
        let path = entry.unwrap().path();
        // A panic names no file.
        println!("{}", path.display());
        shards::check(&std::fs::read(path).unwrap());
    }
}

#[test]
fn one_script() {
    if let Some(path) = std::env::var_os("FUZZ_SCRIPT") {
        shards::check(&std::fs::read(path).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_scripts_pass(script in vec(any::<u8>(), 0..400)) {
        shards::check(&script);
    }
}
