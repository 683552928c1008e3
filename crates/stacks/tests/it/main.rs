//! The replay server against stacks of which all is known, and the page in a browser.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

#[path = "../../../wire/tests/blocking/mod.rs"]
mod blocking;
#[path = "../../../bench/tests/it/look.rs"]
mod look;

mod browser;
mod replay;
