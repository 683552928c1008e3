//! The properties of the fuzz targets without a fuzzer: on what the fuzzers once found, which is
//! kept in `fuzz/regressions/`, and on random bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use std::path::Path;

#[expect(unreachable_pub, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/flow.rs"]
mod flow;

type Check = fn(&[u8]);

const TARGETS: [(&str, Check); 2] =
    [("flow_expression", flow::expression), ("flow_payload", flow::payload)];

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads its inputs")]
fn what_the_fuzzers_found_is_mended() {
    for (target, check) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions");
        let Ok(entries) = std::fs::read_dir(folder.join(target)) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("an input").path();
            // A panic names no file.
            println!("{}", path.display());
            check(&std::fs::read(path).expect("an input"));
        }
    }
}

/// Words of expressions and of JSON, so that some are one.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "payload", ".a", ".p", "topic", "has(", "(", ")", " && ", " || ", "!", " == ", " < ", "1",
        "-", "1.5", "\"x\"", "'", "\"", "[", "]", ".map(", "x", ", ", " in ", "{", "}", ":", "?",
        ".size()", "true", "null", "\\u00e9", "é", "//", "\n", "\0", "b'", "r\"", ".exists(", "+",
    ]);
    vec(word, 0..20).prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #[test]
    fn random_bytes_and_words_are_judged(bytes in vec(any::<u8>(), 0..60), words in words()) {
        for (_, check) in TARGETS {
            check(&bytes);
            check(&words);
        }
    }
}
