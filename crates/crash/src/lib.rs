//! `weir bench crash`: a broker is crashed again and again under load, and at the end it is counted
//! what it had acknowledged and then lost.
//!
//! Publishers and subscribers have sessions that never expire. Publishers repeat what was not
//! acknowledged, as the protocol has it; subscribers subscribe once. A *life* is the time from a
//! start of the broker to the crash that ends it. What every client knows is kept in the
//! [`ledger`], which is a value; everything else is threads with blocking sockets. Whoever writes
//! other clients of that kind has [`link`], and [`inbox`] and [`outbox`] for their sessions.

pub mod inbox;
pub mod ledger;
mod life;
pub mod link;
mod mounts;
pub mod names;
pub mod outbox;
mod power;
mod publisher;
mod result;
mod retained;
mod run;
mod subscriber;
mod table;

pub use power::{FileSystem, can_be_cut};
pub use result::{Crash, CrashResult};
pub use run::{Options, Step, run};
pub use table::render;
pub use weir_wire::QoS;
