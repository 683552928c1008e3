//! The broker: a shard of `weir-core` on a reactor, with configuration, log and signals.
//!
//! One shard for now. TLS, authentication, storage and the control plane are not here yet.

mod config;
mod log;
mod server;
mod shell;

pub use config::{Config, ConfigError};
pub use server::{ServeError, Server, Stopper};
