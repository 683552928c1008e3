//! `weir pub` and `weir sub`: clients for a person at a shell, with the options and the manners
//! of mosquitto_pub and mosquitto_sub, on any broker.
//!
//! [`publish`] and [`subscribe`] run one client each until it is done. Messages go to standard
//! output; what went wrong comes back as an [`Error`], which says its exit code. No enhanced
//! authentication. Called by the binary.

mod error;
mod format;
mod options;
mod patience;
mod property;
mod publish;
mod runner;
mod subscribe;
mod trace;

pub use error::Error;
pub use publish::{PubArgs, publish};
pub use subscribe::{SubArgs, subscribe};
