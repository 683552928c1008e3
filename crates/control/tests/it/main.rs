//! The fuzz target of the API without a fuzzer: on its seeds, on what the fuzzer once failed at,
//! which is kept in `fuzz/regressions/api/`, and on random requests.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test: a panic is its failure")]

#[expect(unreachable_pub, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/api.rs"]
mod api;

use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn every_operation_answers_as_it_is_described() {
    let runtime = runtime();
    for seed in api::seeds() {
        // By everybody, and with answers of all kinds.
        for who in 0..5 {
            for answers in [0, 1, 2, 3, 4, 5, 15] {
                let mut input = seed.clone();
                (input[0], input[3]) = (who, answers);
                api::check(&runtime, &input);
            }
        }
    }
}

#[test]
fn what_the_fuzzer_found_is_mended() {
    let runtime = runtime();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/api");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        api::check(&runtime, &std::fs::read(&path).unwrap());
    }
}

proptest! {
    #[test]
    fn nothing_that_is_asked_does_harm(
        head in any::<[u8; 4]>(),
        flags in 0..8u8,
        name in "([a-z0-9/%$+#-]|\\PC){0,8}",
        query in "([a-z_]{1,9}=[a-z0-9%-]{0,9}&?){0,3}",
        body in prop_oneof!["[\\[{\"a-z:0-9,}\\]]{0,40}", "\\PC{0,20}"],
    ) {
        let lines = format!("{name}\n{query}\n\n{body}");
        api::check(&runtime(), &[&head[..], &[flags], lines.as_bytes()].concat());
    }

    #[test]
    fn no_bytes_do_harm(input in vec(any::<u8>(), 0..64)) {
        api::check(&runtime(), &input);
    }
}
