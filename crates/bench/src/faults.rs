//! Faults on the time line of a run: done to the broker and to the way to it, timed, and what
//! became of connections, sessions and messages.

mod injector;
mod recovery;
mod result;

pub(crate) use injector::{FaultInjector, Happened};
pub use result::table;
pub(crate) use result::{HEAD, course, marks, row, sentence};
