//! The Open MQTT Benchmark Suite: use cases, drivers of brokers, monitor, results, reports.
//!
//! Depends on `weir-load` only: the suite has no branch that knows which broker is ours.

pub mod result;
