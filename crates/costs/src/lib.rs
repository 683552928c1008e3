//! What one operation of the hot paths costs: instructions by callgrind (`cargo xtask costs`),
//! which do not jitter and are checked, and times by `cargo bench -p weir-costs`, which do.

pub mod attacks;
mod hub;
pub mod memory;
mod packets;
pub mod raw;
pub mod sweep;
mod workloads;

pub use workloads::{WORKLOADS, Workload};
