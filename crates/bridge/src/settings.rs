//! What a bridge is made of.

use crate::topics::Topic;
use std::ops::RangeInclusive;
use std::time::Duration;
use weir_connection::Address;
use weir_reactor::Transport;
use weir_wire::Version;

/// What is spoken to the remote broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// MQTT 5.0.
    V5,
    /// MQTT 3.1.1 with the highest bit of its number set, by which Mosquitto and others know a
    /// bridge: it is sent nothing that it has sent itself, and RETAIN as it was published.
    Bridge311,
    /// MQTT 3.1.1.
    V311,
}

impl Dialect {
    /// Of its packets.
    pub const fn version(self) -> Version {
        match self {
            Self::V5 => Version::V5,
            Self::Bridge311 | Self::V311 => Version::V311,
        }
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V5 => "MQTT 5.0",
            Self::Bridge311 => "MQTT 3.1.1 for bridges",
            Self::V311 => "MQTT 3.1.1",
        })
    }
}

/// When a bridge is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Always.
    Automatic,
    /// While there is something to be relayed.
    Lazy {
        /// Messages that have to wait before it connects.
        threshold: u16,
        /// How long nothing is relayed before it disconnects.
        idle: Duration,
    },
}

/// Where it is said whether a bridge is connected, by a retained message `1` or `0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTopic {
    /// At both ends.
    pub topic: String,
    /// Whether it is said in the local broker.
    pub is_local: bool,
    /// Whether it is said in the remote broker, by a will.
    pub is_remote: bool,
}

/// A remote broker.
#[derive(Clone, Debug)]
pub struct Remote {
    /// Where it is.
    pub address: Address,
    /// What is spoken below MQTT.
    pub transport: Transport,
}

/// One bridge; checked, so that encoding it cannot fail.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Another one where anything else is different, or a file that it was made of.
    pub mark: u64,
    /// For the log, and for whoever asks.
    pub name: String,
    /// The places of the remote broker: the next is tried where one does not answer.
    pub remotes: Vec<Remote>,
    /// Whether the first of them is nothing special: it is not gone back to.
    pub is_round_robin: bool,
    /// Its client identifier in the local broker, which nobody else may use.
    pub local_client_id: String,
    /// Its client identifier in the remote broker.
    pub client_id: String,
    /// Who it is there.
    pub user_name: Option<String>,
    /// The secret of that user.
    pub password: Option<String>,
    /// What may be spoken: the next where the remote broker does not take one.
    pub dialects: Vec<Dialect>,
    /// The session in the remote broker ends with the connection.
    pub clean_start: bool,
    /// The session in the local broker, which is the queue, ends with the connection.
    pub local_clean_start: bool,
    /// Of the connection to the remote broker; 0 is off.
    pub keep_alive_s: u16,
    /// Messages that are on their way in each direction.
    pub in_flight_max: u16,
    /// When it is connected.
    pub start: Start,
    /// How long it waits before it tries again.
    pub retry: RangeInclusive<Duration>,
    /// Where it is said whether it is connected, if anywhere.
    pub state: StateTopic,
    /// Whether what it relays to the remote broker may be retained there.
    pub retains: bool,
    /// What is relayed.
    pub topics: Vec<Topic>,
}
