//! Simulation of the broker's core from a seed: shards, clients, the network and the mail between
//! them, in one thread and in virtual time.
//!
//! [`World`] does what a shell and its clients would do, a random step at a time; [`model`] says
//! in the plainest words what must follow; the files in [`check`] compare. The same seed gives the
//! same run, so what is found once can be looked at again. Not part of the product.

pub mod chance;
pub mod check;
mod client;
mod finding;
mod message;
pub mod model;
mod names;
mod outbound;
mod plant;
mod run;
mod topics;
mod trace;
mod world;

pub use finding::{Checker, Finding};
pub use plant::{PLANTS, Plant};
pub use run::{Crashes, Outcome, Run};
pub use world::{Size, World};
