//! Shards from outside.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

mod answers;
mod ask;
mod auth;
mod bounds;
mod broker;
mod conformance;
mod endings;
mod exchanges;
mod features;
mod filters;
mod full_groups;
mod fuzz;
#[expect(unreachable_pub, dead_code, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/shards/mod.rs"]
mod fuzzed;
mod groups;
mod moves;
mod net;
#[expect(unreachable_pub, dead_code, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/packet.rs"]
mod packet;
mod retained;
mod rules;
mod shards;
mod shares;
mod steps;
