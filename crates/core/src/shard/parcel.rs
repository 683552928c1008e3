//! What goes from one shard to another as a value: a session whose partition moves, and a client
//! that was let in where its session no longer is. Nothing in it is a key of a shard's.

use super::connection::{AwaitAuth, ColdConnection};
use crate::replays::Replay;
use crate::session::Absence;
use crate::text::Text;
use crate::window::Window;
use weir_wire::packet::SubscriptionOptions;
use weir_wire::{PacketId, Version};

/// A session, or a client that was let in, on its way to the shard that holds its partition.
#[derive(Debug)]
pub struct Parcel(pub(super) Content);

impl Parcel {
    /// Whose session it is; nothing if it is no session.
    pub fn client_id(&self) -> Option<&str> {
        match &self.0 {
            Content::Session(moved) => Some(&moved.client_id),
            Content::Admitted(..) => None,
        }
    }
}

#[derive(Debug)]
pub(super) enum Content {
    Session(Box<MovedSession>),
    /// A client is who it says, with the last data for it.
    Admitted(Box<AwaitAuth>, Vec<u8>),
}

/// All that a session is.
#[derive(Debug)]
pub(super) struct MovedSession {
    pub(super) client_id: Text,
    pub(super) expiry_s: u32,
    /// With the queue behind it.
    pub(super) window: Window,
    pub(super) unreleased: Vec<PacketId>,
    pub(super) absence: Option<Box<Absence>>,
    pub(super) subscriptions: Vec<MovedSubscription>,
    /// In turn.
    pub(super) replays: Vec<Replay>,
    pub(super) connection: Option<MovedConnection>,
}

/// A subscription, as a SUBSCRIBE would name it.
#[derive(Debug)]
pub(super) struct MovedSubscription {
    pub(super) name: Box<str>,
    /// What came beside the name.
    pub(super) condition: Option<Box<str>>,
    pub(super) options: SubscriptionOptions,
    pub(super) subscription_id: Option<u32>,
}

/// What was agreed with the client, and what its connection owns.
#[derive(Debug)]
pub(super) struct MovedConnection {
    pub(super) version: Version,
    pub(super) keep_alive_s: u16,
    pub(super) open_max: u16,
    pub(super) packet_bytes_max: u32,
    pub(super) aliases_max: u16,
    pub(super) wants_problems: bool,
    pub(super) cold: Option<Box<ColdConnection>>,
}
