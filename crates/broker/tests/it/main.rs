//! A whole broker in a thread, seen through sockets.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

mod config;
mod content;
mod control;
mod file_limit;
mod io;
mod moves;
mod serve;
mod shards;
mod shares;
mod support;
