//! Use cases: data, read from TOML; made into a plan at a scale.

mod catalog;
mod check;
mod file;
mod needs;
mod plan;
mod rates;
mod scale;

pub(crate) use catalog::all;
pub use catalog::{list, set};
pub use file::{Contract, Group, UseCase, UseCaseError};
pub use needs::Needs;
pub(crate) use plan::sources;
pub use plan::{Times, plan};
pub(crate) use scale::grouped;
pub use scale::{Scaled, connections_max, scale};
