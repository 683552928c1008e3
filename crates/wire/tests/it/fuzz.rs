//! The properties of the fuzz targets without a fuzzer: on what the fuzzers once found, which is
//! kept in `fuzz/regressions/TARGET/`, and on random bytes.

use crate::{frames, packet};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Checked by the tests of `weir-control`, `weir-bridge`, `weir-core`, `weir-flow`,
/// `weir-mosquitto`, `weir-cluster` and `weir-broker`.
const OF_OTHERS: [&str; 16] = [
    "api",
    "bridge",
    "core",
    "record",
    "letter",
    "frame",
    "flow_expression",
    "flow_payload",
    "mosquitto_db",
    "access_files",
    "claims",
    "proxy",
    "tls_compact",
    "tls_hello",
    "ws_frames",
    "ws_request",
];

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Runs the target of this name; says whether there is one.
fn run(target: &str, input: &[u8]) -> bool {
    if target == "frames" {
        frames::check(input);
        return true;
    }
    let found = packet::TARGETS.iter().find(|found| found.name == target);
    found.is_some_and(|found| {
        packet::check(found.kind, found.family, input);
        true
    })
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads its inputs")]
fn what_the_fuzzers_found_is_mended() {
    for folder in entries(&fuzz().join("regressions")) {
        let target = folder.file_name().unwrap().to_str().unwrap().to_owned();
        if OF_OTHERS.contains(&target.as_str()) {
            continue;
        }
        for path in entries(&folder) {
            let input = std::fs::read(&path).unwrap();
            // A panic names no file.
            println!("{}", path.display());
            assert!(run(&target, &input), "there is no target {target}");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads the manifest")]
fn every_target_has_its_file_and_its_line_in_the_manifest() {
    let manifest = std::fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    let names = packet::TARGETS.iter().map(|target| target.name).chain(["frames"]).chain(OF_OTHERS);
    let expected: BTreeSet<PathBuf> = names
        .map(|name| {
            let line = format!("{{ name = \"{name}\", path = \"fuzz_targets/{name}.rs\", ");
            assert!(manifest.contains(&line), "fuzz/Cargo.toml lacks {name}");
            fuzz().join("fuzz_targets").join(name).with_extension("rs")
        })
        .collect();
    assert_eq!(
        entries(&fuzz().join("fuzz_targets")).into_iter().collect::<BTreeSet<_>>(),
        expected
    );
}

/// Mostly small numbers, as lengths and flags are, so that some are packets.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![8 => 0..4_u8, 1 => 0x20..0x80_u8, 1 => any::<u8>()]
}

proptest! {
    #[test]
    fn bytes_are_packets_that_make_the_round_trip_or_no_packets(input in vec(byte(), 0..40)) {
        for target in packet::TARGETS {
            prop_assert!(run(target.name, &input));
        }
        prop_assert!(run("frames", &input));
    }
}
