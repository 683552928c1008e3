//! The agreement over sockets: with a gateway that a test plays, and with etcd itself.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod asking;
mod fake;
mod host;
mod played;
mod real;
mod tool;
