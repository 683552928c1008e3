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
use std::sync::{Mutex, PoisonError};
use weir_bridge::{Inlet, Task};
use weir_reactor::{Address, Joint, Moved, Outside, outside_later};

/// Connections of bridges that the shard has not taken yet.
const LETTERS_MAX: usize = 64;

/// The way in of all bridges: to one shard, which hands each on to the one that has its session.
#[derive(Debug)]
pub(crate) struct Way(Mutex<Outside<Letter, ()>>);

impl Way {
    /// To this shard, with what that is to join.
    pub(crate) fn to(shard: Address) -> io::Result<(Self, Joint<Letter>)> {
        let (letters, ends) = outside_later(&[shard], LETTERS_MAX)?;
        let joint = ends.into_iter().next().map(|(_, joint)| joint);
        let joint = joint.ok_or_else(|| io::Error::other("there is no shard"))?;
        Ok((Self(Mutex::new(letters)), joint))
    }
}

impl Inlet for Way {
    fn connect(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let letter = Letter::Connection(Carried::own(Moved::try_from(theirs)?));
        let mut letters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = |_| io::Error::other("it has no room for one more connection now");
        letters.send(0, letter).map_err(full)?;
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
