//! The cluster's values, driven by a seed.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod agree;
mod world;
