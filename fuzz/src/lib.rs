//! The properties that the fuzz targets run, and nothing else.
//!
//! A target is a file of two lines in `fuzz_targets/`, a line in `Cargo.toml`, and for a packet a
//! line in [`packet::TARGETS`]. `scripts/fuzz` makes the seeds, builds and runs them.

pub mod access;
pub mod api;
mod auth;
pub mod bridge;
pub mod flow;
pub mod frame;
pub mod frames;
pub mod letter;
pub mod mosquitto;
pub mod packet;
pub mod proxy;
pub mod record;
pub mod shards;
pub mod tls;
pub mod websocket;

/// The whole of a target for one kind of packet in one family of versions.
#[macro_export]
macro_rules! packet_target {
    ($kind:ident, $family:ident) => {
        libfuzzer_sys::fuzz_target!(|input: &[u8]| {
            let (kind, family) = (weir_wire::PacketKind::$kind, $crate::packet::Family::$family);
            $crate::packet::check(kind, family, input);
        });
    };
}
