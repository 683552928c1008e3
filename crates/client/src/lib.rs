//! An MQTT client as a value: bytes in, bytes and events out, `now` given.
//!
//! No socket, clock, thread or queue of messages. What the network brings goes into
//! [`Client::handle`]; what must be sent and what happened comes out through a [`Sink`].
//! Used by the load generator, which holds tens of thousands of them in one thread.

mod client;
mod ear;
mod error;
mod open;
mod options;
mod sink;
mod sources;
mod url;

pub use client::{ANSWER_BYTES_MAX, Client};
pub use ear::{Ear, Heard, ServerLimits};
pub use error::{ClientError, PublishError};
pub use open::OpenMessage;
pub use options::ConnectOptions;
pub use sink::{Event, Sink};
pub use sources::{OPEN_MAX, Sources};
pub use url::{Scheme, Url};
