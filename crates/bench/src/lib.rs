//! The Open MQTT Benchmark Suite: use cases, drivers of brokers, monitor, results, reports.
//!
//! Depends on `weir-load` and `weir-conformance` only: the suite has no branch that knows which
//! broker is ours.

pub mod agents;
mod assemble;
pub mod ceiling;
pub mod conformance;
pub mod doctor;
pub mod driver;
pub mod faults;
pub mod folder;
pub mod host;
pub mod latency;
mod live;
pub mod monitor;
mod mqtt;
pub mod published;
pub mod report;
pub mod result;
pub mod run;
pub mod slope;
pub mod tables;
pub mod usecase;
mod verdict;
