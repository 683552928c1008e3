//! Bytes and packets from outside.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test: a panic is its failure")]

mod bytes;
#[expect(unreachable_pub, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/frames.rs"]
mod frames;
mod fuzz;
#[expect(unreachable_pub, reason = "shared with the library of the fuzz targets")]
#[path = "../../../../fuzz/src/packet.rs"]
mod packet;
mod round_trip;
