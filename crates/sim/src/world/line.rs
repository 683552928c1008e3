//! One connection's bytes, on their way in both directions.

use crate::names::{ClientNo, ConnNo};
use weir_core::ConnKey;
use weir_wire::Version;

/// A connection of the network.
#[derive(Debug)]
pub(super) struct Line {
    /// Its number in the books.
    pub(super) number: ConnNo,
    /// Whose.
    pub(super) client: ClientNo,
    /// How its packets are read.
    pub(super) version: Version,
    /// Who has the broker's end.
    pub(super) end: BrokerEnd,
    /// Whether the client's end is open.
    pub(super) is_client_open: bool,
    /// Bytes that the client sent and the shard has not been given.
    pub(super) up: Vec<u8>,
    /// The CONNECT of a client that is not known yet.
    pub(super) connect: Vec<u8>,
    /// What the client sent waits for a later turn of the shard.
    pub(super) is_paused: bool,
    /// Bytes that the shard was given and did not consume.
    pub(super) unconsumed: Vec<u8>,
    /// Bytes that the shard wrote and the client has not read.
    pub(super) down: Vec<u8>,
    /// Bytes that the client read, of a packet that is not whole.
    pub(super) partial: Vec<u8>,
}

/// The broker's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BrokerEnd {
    /// With a shard, under this key.
    At(usize, ConnKey),
    /// On its way from one shard to another.
    Moving,
    /// Closed.
    Closed,
}
