//! `conn`, `pub` and `sub` as emqtt-bench names their options: a plan of them, a line for each
//! second, and a summary with what that tool leaves out.
//!
//! Says nothing of a broker's resources: the broker is somebody else's. Use cases, drivers and
//! reports are `run`'s.

mod lines;
mod options;
mod run;
mod summary;
mod unsupported;

pub use options::{Audience, Common, EmqttError, Options, Planned, Work};
pub use run::run;
pub use unsupported::refusal;
