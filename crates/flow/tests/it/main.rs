//! Conditions and rules from outside. What counts allocations is a process of its own.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test: a panic is its failure")]

mod agree;
mod expressions;
mod flow;
mod fuzz;
mod numbers;
mod payloads;
