//! Conformance by bytes: tables of conversations with statement ids, and a runner for any broker.
//!
//! `TABLES.md` says how a table is written. This crate depends on nothing of ours, and has its own
//! assembler and matcher: a fault of Weir's codec cannot hide itself. It runs a [`Case`] against a
//! [`Target`]: a broker behind a network ([`Remote`]), or, in the tests of `weir-core`, a shard
//! without a network.

mod assemble;
mod board;
mod credentials;
mod outcome;
mod pattern;
mod probe;
mod remote;
mod run;
mod statement;
mod step;
mod table;
mod tables;
mod target;
mod token;
mod varint;
mod version;

pub use board::{Board, Standing};
pub use credentials::Credentials;
pub use outcome::{CaseOutcome, Verdict};
pub use probe::{Offers, probe};
pub use remote::{Open, Patience, Remote, Stream};
pub use run::run_case;
pub use statement::{Binds, Statement, statements};
pub use table::{Case, Level, Table, TableError};
pub use tables::tables;
pub use target::{Received, Target, take_packet};
pub use version::Version;
