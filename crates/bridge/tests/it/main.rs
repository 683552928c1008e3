//! The fuzz target of what a bridge makes of another broker's words, without a fuzzer.

#![expect(clippy::expect_used, reason = "a test: a panic is its failure")]

#[expect(unreachable_pub, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/bridge.rs"]
mod bridge;

use proptest::prelude::*;

proptest! {
    #[test]
    fn topics_and_counts_of_hops_are_as_they_should_be(
        pattern in "[a$+#/]{0,5}",
        prefixes in ("[ab$/]{0,3}", "[ab$/]{0,3}"),
        topic in "[ab$/]{1,8}",
        said in "((weir-hops|x)=([0-9]{0,3}|\\PC{0,3})\n){0,4}",
    ) {
        let (local, remote) = prefixes;
        bridge::check(format!("{pattern}\n{local}\n{remote}\n{topic}\n{said}").as_bytes());
    }
}
