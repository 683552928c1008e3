//! `weir flow`: the rules of a flow file, run beside any broker as its client.
//!
//! [`run`] subscribes to what the rules are about, applies them and publishes the results on the
//! same connection; [`check`] reads a file and says what it would do; [`stack`] is the same engine
//! behind the line protocol of `weir bench clients`. A message of QoS 1 is acknowledged to the
//! broker once its results are. Called by the binary. No TLS, no WebSocket, no QoS 2.

mod check;
mod control;
mod counts;
mod ear;
mod error;
mod feed;
mod gather;
mod held;
mod link;
mod options;
mod run;
mod sources;
mod stack;
mod subscriptions;
mod work;
mod worker;

pub use check::{CheckArgs, check};
pub use error::Error;
pub use run::{RunArgs, run};
pub use stack::{StackArgs, stack};
