//! The bridges of the broker, to Kafka too: their configuration, and their way in.
//!
//! A bridge comes in by one end of a pair of sockets, which a shard is sent as a letter. No
//! listener, password, rate, ban or policy is asked for it; its client identifier is one that
//! nobody else may use.

mod config;
mod kafka;

pub use config::{
    BridgeConfig, BridgeDirection, BridgeStart, BridgeTls, BridgeTopic, BridgeVersion,
    Notifications,
};

pub use kafka::{KafkaConfig, KafkaKey, KafkaMechanism, KafkaTopicConfig};

use crate::letter::{Carried, Letter};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use weir_bridge::{Bridges, Inlet, Task};
use weir_reactor::{Mailbox, Moved, Outside, outside};

/// Connections of bridges that a shard has not taken yet.
const LETTERS_MAX: usize = 64;

/// The shard that gets them: it hands each on to the one that has its session.
const FIRST_SHARD: usize = 0;

/// The way in of all bridges.
#[derive(Debug)]
pub(crate) struct Way(Mutex<Outside<Letter, ()>>);

impl Way {
    pub(crate) fn new(mailboxes: &mut [Mailbox<Letter>]) -> io::Result<Self> {
        let (letters, _) = outside(mailboxes, LETTERS_MAX)?;
        Ok(Self(Mutex::new(letters)))
    }
}

impl Inlet for Way {
    fn connect(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let letter = Letter::Connection(Carried::own(Moved::try_from(theirs)?));
        let mut letters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |_| io::Error::other("it has no room for one more connection now");
        letters.send(FIRST_SHARD, letter).map_err(full)?;
        Ok(ours)
    }
}

/// What is to run of both kinds, with what is in their files now.
pub(crate) fn tasks(
    bridges: &[BridgeConfig],
    sinks: &[KafkaConfig],
) -> Result<Vec<Task>, config::Fault> {
    let of_bridge = |one: &BridgeConfig| Ok(Task::Bridge(Box::new(one.settings()?)));
    let tasks = bridges.iter().map(of_bridge);
    #[cfg(feature = "kafka")]
    let tasks = tasks.chain(sinks.iter().map(|one| Ok(Task::Kafka(Box::new(one.settings()?)))));
    // A configuration with some is refused before.
    #[cfg(not(feature = "kafka"))]
    let _ = sinks;
    tasks.collect()
}

/// Starts the bridges, if there are some. `prepared` is called once they miss nothing any more.
pub(crate) fn start(
    all: Vec<Task>,
    way: Option<Way>,
    prepared: impl FnOnce() + Send + Sync + 'static,
) -> io::Result<Option<Bridges>> {
    let Some(way) = way else { return Ok(None) };
    let inlet: Arc<dyn Inlet> = Arc::new(way);
    Bridges::start(all, &inlet, prepared).map(Some)
}
