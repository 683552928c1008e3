//! Carriers with links of `weir-cluster`, in one thread.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

mod support;
mod tcp;
#[cfg(feature = "zenoh")]
mod zenoh;
