//! The Open MQTT Benchmark Suite: use cases, drivers of brokers, monitor, results, reports.
//!
//! Depends on `weir-load` and `weir-conformance` only: the suite has no branch that knows which
//! broker is ours.

pub mod agents;
mod assemble;
pub mod ceiling;
pub mod clients;
pub mod compare;
pub mod conformance;
mod disclose;
pub mod doctor;
pub mod driver;
pub mod emqtt;
pub mod export;
pub mod faults;
pub mod folder;
pub mod host;
pub mod interrupt;
pub mod ladder;
pub mod latency;
pub mod live;
pub mod metrics;
pub mod monitor;
mod mqtt;
pub mod numbers;
pub mod published;
pub mod repeat;
pub mod report;
pub mod result;
pub mod run;
pub mod slope;
pub mod stats;
pub mod tables;
pub mod ui;
pub mod usecase;
mod verdict;
pub mod web;
