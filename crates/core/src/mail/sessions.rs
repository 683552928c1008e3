//! What shards of different nodes say to each other of a client's session, see `shard/claims.rs`
//! and `shard/handover.rs`.

use crate::keys::{Claim, ShardId};

/// A letter about one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionMail {
    /// A client has come to the sender, which lets it in once the receiver has no session of it.
    Claim {
        /// Its client identifier.
        client_id: Box<str>,
        /// Which of all claims it is.
        claim: Claim,
        /// Nothing of an older session is wanted.
        is_clean: bool,
        /// Comes back in [`crate::Mail::Receipt`].
        number: u64,
    },
    /// The sender has a session of this client, by this claim.
    Held {
        /// Its client identifier.
        client_id: Box<str>,
        /// The claim.
        claim: Claim,
        /// It does not have it yet: the client waits there to be let in.
        is_asking: bool,
    },
    /// The sender has a session that the receiver has claimed, and begins to hand it over.
    Leaving {
        /// By which it was claimed.
        claim: Claim,
        /// By which the sender had it.
        held: Claim,
        /// The client identifier, the expiry and the subscriptions, as records.
        records: Box<[u8]>,
    },
    /// The sender, to whom a session comes, has mailed its subscriptions to the receiver: what that
    /// routes from now on is for the sender, and not for the shard that has the session.
    Moving {
        /// By which it was claimed.
        claim: Claim,
        /// The shard that has it.
        from: ShardId,
    },
    /// It is so, of all that comes from the sender behind this: to both of these shards.
    Switched {
        /// As in [`SessionMail::Moving`].
        claim: Claim,
        /// As in [`SessionMail::Moving`].
        from: ShardId,
    },
    /// Some of the session.
    Part {
        /// As in [`SessionMail::Leaving`].
        claim: Claim,
        /// What it is.
        part: SessionPart,
    },
    /// A will that the receiver publishes if the sender's node is lost.
    Will {
        /// Whose it is.
        client_id: Box<str>,
        /// By which claim the sender has its session.
        claim: Claim,
        /// The will, as a record has it.
        will: Box<[u8]>,
        /// Seconds from then until it is due.
        wait_s: u32,
    },
    /// It is not to be published any more, or was by the sender.
    WillOver {
        /// As in [`SessionMail::Will`].
        client_id: Box<str>,
    },
    /// The sender has published a will of the receiver's, which was lost, or is to.
    WillTaken {
        /// As in [`SessionMail::Will`].
        client_id: Box<str>,
        /// As in [`SessionMail::Will`].
        claim: Claim,
    },
    /// The receiver need not watch the sender's wills any more.
    Unwatch,
    /// The sender's node is stopped: no client can come there.
    Closing,
    /// The sender does not take a session that comes by this claim: it stays where it is, or comes
    /// anew.
    Stays {
        /// As in [`SessionMail::Leaving`].
        claim: Claim,
        /// By which claim, if its client waits, and a number that comes back in
        /// [`crate::Mail::Receipt`].
        anew: Option<(Claim, u64)>,
    },
    /// The receiver of the last part has the session: whoever sent it may forget it.
    Taken {
        /// As in [`SessionMail::Leaving`].
        claim: Claim,
    },
}

impl SessionMail {
    /// Bytes that it holds, but for a few of its own.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Claim { client_id, .. }
            | Self::Held { client_id, .. }
            | Self::WillOver { client_id }
            | Self::WillTaken { client_id, .. } => client_id.len(),
            Self::Will { client_id, will, .. } => client_id.len() + will.len(),
            Self::Leaving { records, .. } => records.len(),
            Self::Part { part: SessionPart::State(bytes) | SessionPart::Queue(bytes), .. } => {
                bytes.len()
            }
            Self::Moving { .. }
            | Self::Switched { .. }
            | Self::Part { part: SessionPart::End, .. }
            | Self::Unwatch
            | Self::Closing
            | Self::Stays { .. }
            | Self::Taken { .. } => 0,
        }
    }
}

/// A part of a session that is handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionPart {
    /// What is in flight, as records.
    State(Box<[u8]>),
    /// Some of what waits, in its order, as a page has it.
    Queue(Box<[u8]>),
    /// That was all. Without a state the session is over.
    End,
}
