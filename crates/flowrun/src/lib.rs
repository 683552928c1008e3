//! `weir flow`: the rules of a flow file, run beside any broker as its client.
//!
//! [`run`] subscribes to what the rules are about, applies them and publishes the results on the
//! same connection; [`check`] reads a file and says what it would do; [`Embedded`] is the engine
//! with the work of another program. A message of QoS 1 is acknowledged to the broker once its
//! results are. Called by the binary. No QoS 2.

mod check;
mod control;
mod counts;
mod embed;
mod error;
mod gather;
mod held;
mod link;
mod options;
mod run;
mod subscriptions;
mod work;
mod worker;

pub use check::{CheckArgs, check};
pub use embed::{Embedded, EmbeddedCounts, EmbeddedHandle, EmbeddedOptions};
pub use error::Error;
pub use run::{RunArgs, run};
pub use work::{Tally, Work};
