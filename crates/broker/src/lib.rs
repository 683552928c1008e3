//! The broker: a shard of `weir-core` on a reactor, with configuration, log and signals.
//!
//! One shard for now. Authentication is SCRAM-SHA-256 from the configuration; TLS, storage and the
//! control plane are not here yet.

mod auth;
mod config;
mod gate;
mod log;
mod memory;
mod server;
mod shell;

pub use auth::{AuthConfig, Verifier, VerifierError, scram_client_final};
pub use config::{Config, ConfigError};
pub use gate::ProcessLimits;
pub use server::{ServeError, Server, Stopper};
