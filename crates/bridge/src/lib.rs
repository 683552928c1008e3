//! Bridges: what relays messages between the broker and others.
//!
//! A bridge is a client of its own broker and of a remote one, on a thread of its own
//! ([`Bridges`]). Its queue is its session in the own broker; what waits there, and how safely, is
//! that broker's. It knows the broker by an [`Inlet`] only, which makes connections that need no
//! listener. Called by the broker.
//!
//! With the feature `kafka` a sink of messages to Kafka is of the same kind.

mod backoff;
mod bridges;
mod counts;
mod hops;
#[cfg(feature = "kafka")]
pub mod kafka;
mod relay;
mod settings;
mod side;
mod topics;
mod worker;

pub use bridges::{BridgeWatch, Bridges};
pub use counts::BridgeState;
pub use hops::{HOPS, HOPS_MAX};
pub use settings::{Dialect, Remote, Settings, Start, StateTopic};
pub use topics::{Direction, End, Topic};

use std::io;
use std::os::unix::net::UnixStream;

/// The way into the own broker.
pub trait Inlet: Send + Sync + 'static {
    /// A connection to it, whose client may do everything.
    ///
    /// # Errors
    /// There is no room for it now, or what the system says.
    fn connect(&self) -> io::Result<UnixStream>;
}

/// What a thread does.
#[derive(Clone, Debug)]
pub enum Task {
    /// It relays between two brokers.
    Bridge(Box<Settings>),
    /// It relays to Kafka.
    #[cfg(feature = "kafka")]
    Kafka(Box<kafka::KafkaSettings>),
}

/// Held by every bridge until it is prepared; told when none holds it.
struct Prepared(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            tell();
        }
    }
}
