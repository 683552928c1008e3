//! What the nodes that have a log, and a copy of it, say to each other.

use crate::keys::Lsn;

/// A letter about the copy of the log of one shard. Between two shards the letters of a copy keep
/// their order, as all letters do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogMail {
    /// A copy begins of the sender's log, at the receiver's node. What that had of it before is
    /// void.
    Begin {
        /// Names the copy.
        copy: u64,
    },
    /// Records of the sender's log, behind those before: all that it has recorded since the copy
    /// began.
    Records {
        /// Which copy.
        copy: u64,
        /// How many letters of records there were before it in this copy.
        nth: u64,
        /// Each as its number, kind and body.
        records: Box<[u8]>,
    },
    /// To the shard whose log it is: what it has recorded up to here is on the sender's disk.
    Safe {
        /// Which copy.
        copy: u64,
        /// The last record.
        last: Lsn,
    },
    /// To the shard whose log it is: the sender's disk takes no more of it.
    Failed {
        /// Which copy.
        copy: u64,
    },
}

impl LogMail {
    /// As [`crate::Mail::bytes`].
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Records { records, .. } => records.len(),
            Self::Begin { .. } | Self::Safe { .. } | Self::Failed { .. } => 0,
        }
    }
}
