//! The cluster's values, driven by a seed, and links from outside.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

mod agree;
mod fuzz;
#[expect(unreachable_pub, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/frame.rs"]
mod fuzzed;
mod links;
mod network;
mod support;
mod world;
