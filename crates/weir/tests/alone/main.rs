//! Tests that run one after the other while no other test does: of speed, or of much memory.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

#[expect(dead_code, reason = "the other tests use the rest")]
#[path = "../it/support/mod.rs"]
mod support;

mod ladder;
mod memory;
mod web_socket;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by a test while it has the machine for itself.
fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    // A test that failed leaves the machine to the next.
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}
