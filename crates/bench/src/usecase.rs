//! Use cases: data, read from TOML; made into a plan at a scale.

mod catalog;
mod check;
mod connection;
mod file;
mod needs;
mod plan;
mod rates;
mod scale;
#[cfg(test)]
mod schema;
mod span;
mod step;
mod thresholds;

pub(crate) use catalog::all;
pub use catalog::{EXAMPLE, SCHEMA, list, set};
pub(crate) use check::PAYLOAD_BYTES_MAX;
pub use file::{Access, Contract, Group, Need, Tls, UseCase, UseCaseError};
pub use needs::Needs;
pub(crate) use plan::sources;
pub use plan::{Times, plan};
pub use scale::{Scaled, connections_max, scale};
pub use span::Span;
pub use step::{ClientAction, Fault, Reconnect, Step};
pub use thresholds::Thresholds;
