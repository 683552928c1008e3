//! A person's wish to stop: noted, and heard by whatever lasts.

use anyhow::Context;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set when the user asked to stop (SIGINT, SIGTERM).
pub type Interrupted = Arc<AtomicBool>;

/// Notes SIGINT and SIGTERM instead of dying of them, so that brokers are stopped and results kept.
///
/// # Errors
/// What the system says of installing the handlers.
pub fn note_signals() -> anyhow::Result<Interrupted> {
    let interrupted = Interrupted::default();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context("cannot install a signal handler")?;
    }
    Ok(interrupted)
}
