//! Shards from outside.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

mod answers;
mod arriving;
mod ask;
mod auth;
mod bases;
mod bounds;
mod broker;
mod closing;
mod commits;
mod conformance;
mod drain;
mod durable;
mod endings;
mod exactly_once;
mod exchanges;
mod features;
mod filters;
mod full_groups;
mod fuzz;
#[expect(unreachable_pub, dead_code, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/shards/mod.rs"]
mod fuzzed;
#[expect(unreachable_pub, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/letter.rs"]
mod fuzzed_letter;
#[expect(unreachable_pub, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/record.rs"]
mod fuzzed_record;
mod groups;
mod held;
mod letters;
mod minority;
mod moves;
mod net;
mod nodes;
mod outbox;
#[expect(unreachable_pub, dead_code, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/packet.rs"]
mod packet;
mod paging;
mod rebuild;
mod records;
mod refusals;
mod replaced;
mod retained;
mod rights;
mod rules;
mod shards;
mod shares;
mod skipped;
mod steps;
mod sys;
