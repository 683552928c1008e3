//! The connection of a client to a broker: made to the next address that answers, given up when
//! the broker is silent, made again when it was lost.
//!
//! [`Connection`] is that on a reactor. What packets mean is its owner's, which `weir pub`,
//! `weir sub` and `weir flow` are; the owner is the reactor's handler and passes on what is about
//! the connection. Where the broker is and who to be there, an [`Address`] says, and
//! [`TlsArgs`] how TLS is spoken to it.
//! [`obey_signals`] is how such a client is asked to end.

mod address;
mod connection;
mod error;
mod shown;
mod signals;
mod tls;

pub use address::Address;
pub use connection::{ANSWER_MAX_US, Carried, Connection, Policy, TLS_OPTIONS, until};
pub use error::{Error, named};
pub use shown::{Shown, ShownJson};
pub use signals::obey_signals;
pub use tls::{TlsArgs, TlsFault, TlsSettings, TlsVersion};
