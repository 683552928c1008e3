//! The Open MQTT Benchmark Suite: use cases, drivers of brokers, monitor, results, reports.
//!
//! Depends on `weir-load`, `weir-conformance`, `weir-stats` and `weir-chance` only: the suite has
//! no branch that knows which broker is ours.

pub mod agents;
mod assemble;
pub mod ceiling;
mod cluster;
pub mod compare;
pub mod conformance;
mod disclosure;
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
mod lines;
pub mod live;
mod login;
pub mod made;
pub mod metrics;
pub mod monitor;
mod mqtt;
pub mod near;
pub mod numbers;
pub mod page;
pub mod paths;
mod profile;
pub mod published;
pub mod repeat;
pub mod report;
pub mod result;
pub mod run;
pub mod session;
pub mod slope;
pub mod summary;
pub mod tables;
pub mod ui;
pub mod usecase;
mod verdict;
pub mod web;

pub use weir_stats as stats;
