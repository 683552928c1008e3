//! What goes from one shard to another as a value: a session whose partition moves, and a client
//! that was let in where its session no longer is; and what comes from a log: sessions and retained
//! messages. Nothing in it is a key of a shard's.

use crate::aliases::{AliasesIn, AliasesOut};
use crate::auth::Terms;
use crate::keys::{Claim, Micros, Origin, PageId};
use crate::message::Message;
use crate::replays::Replay;
use crate::rights::Known;
use crate::session::{Absence, Attachment, Will};
use crate::text::Text;
use crate::window::Window;
use std::sync::Arc;
use weir_wire::PacketId;
use weir_wire::packet::SubscriptionOptions;

/// A session, a client that was let in, or a retained message from a log, on its way to the shard
/// that holds its partition.
#[derive(Debug)]
pub struct Parcel(pub(crate) Content);

impl Parcel {
    /// Whose session it is; nothing if it is no session.
    pub fn client_id(&self) -> Option<&str> {
        match &self.0 {
            Content::Session(moved) => Some(&moved.client_id),
            Content::Admitted(..) | Content::Retained(..) => None,
        }
    }

    /// The pages that it names: what waits for a session on the disk.
    pub fn pages(&self) -> impl Iterator<Item = PageId> {
        let session = match &self.0 {
            Content::Session(moved) => moved.window.queue(),
            Content::Admitted(..) | Content::Retained(..) => None,
        };
        let paged = session.and_then(|queue| queue.paged.as_deref());
        paged.into_iter().flat_map(|paged| &paged.pages).map(|page| page.id)
    }

    /// The client identifier or topic whose partition says which shard is to hold it:
    /// [`crate::Partitions::owner`]. Nothing if it is a client that was let in.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Content::Session(moved) => Some(&moved.client_id),
            Content::Retained(message) => Some(&message.topic),
            Content::Admitted(..) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Content {
    Session(Box<MovedSession>),
    /// A client that is who it says.
    Admitted(Box<Admitted>),
    /// A retained message that was in a log.
    Retained(Arc<Message>),
}

/// A client that was let in.
#[derive(Debug)]
pub(crate) struct Admitted {
    /// The body of its CONNECT.
    pub(crate) connect: Box<[u8]>,
    pub(crate) method: Option<Box<str>>,
    /// Who it is, what it may do and how long, where its method says that.
    pub(crate) terms: Terms,
    /// The last data of its authentication, for CONNACK.
    pub(crate) data: Vec<u8>,
    /// Somebody was asked who it is.
    pub(crate) is_proven: bool,
}

/// All that a session is.
#[derive(Debug)]
pub(crate) struct MovedSession {
    pub(crate) client_id: Text,
    pub(crate) address: Option<Origin>,
    /// Whose client has it, where that is known and matters.
    pub(crate) known: Option<Known>,
    /// By which it has come from another node, as a log has it.
    pub(crate) claim: Claim,
    pub(crate) expiry_s: u32,
    /// With the queue behind it.
    pub(crate) window: Window,
    pub(crate) unreleased: Vec<PacketId>,
    pub(crate) absence: Option<Box<Absence>>,
    pub(crate) subscriptions: Vec<MovedSubscription>,
    /// In turn.
    pub(crate) replays: Vec<Replay>,
    pub(crate) connection: Option<MovedConnection>,
}

/// A subscription, as a SUBSCRIBE would name it.
#[derive(Clone, Debug)]
pub(crate) struct MovedSubscription {
    pub(crate) name: Box<str>,
    /// What came beside the name.
    pub(crate) condition: Option<Box<str>>,
    pub(crate) options: SubscriptionOptions,
    pub(crate) subscription_id: Option<u32>,
}

/// What was agreed with the client, and what its connection owns.
#[derive(Debug)]
pub(crate) struct MovedConnection {
    /// The key of its connection is that of the shard it comes from.
    pub(crate) attachment: Attachment,
    pub(crate) keep_alive_s: u16,
    pub(crate) owned: Option<Box<Owned>>,
}

/// What few connections have.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) will: Option<Box<Will>>,
    pub(crate) aliases_in: AliasesIn,
    pub(crate) aliases_out: AliasesOut,
    pub(crate) auth_method: Option<Box<str>>,
    /// When it ends.
    pub(crate) until: Option<Micros>,
    /// Bytes of a refused packet that are still to come.
    pub(crate) skipped_bytes: usize,
}
