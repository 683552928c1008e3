//! The load generator against brokers of which all is known.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

mod fake_broker;

mod agents;
mod calibration;
mod connect;
mod null;
mod steps;
