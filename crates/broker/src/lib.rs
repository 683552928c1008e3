//! The broker: shards of `weir-core`, each on a thread and reactor of its own, with configuration,
//! log and signals.
//!
//! Authentication is SCRAM-SHA-256 from the configuration; TLS, storage and the
//! control plane are not here yet.

mod auth;
mod config;
mod gate;
mod letter;
mod log;
mod memory;
mod server;
mod shell;
mod worker;

pub use auth::{AuthConfig, Verifier, VerifierError, scram_client_final};
pub use config::{Config, ConfigError, IoBackend};
pub use gate::ProcessLimits;
pub use server::{ServeError, Server, Stopper};
