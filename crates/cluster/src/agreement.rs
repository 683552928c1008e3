//! The port of an agreement: a few records under keys, which all nodes read alike. Here is what is
//! asked and what is said; who answers, and over what, is the caller's.
//!
//! Whoever answers says exactly one thing of each ticket, except of a watch: it tells of changes
//! until it fails. An answer may get lost, so whoever asks has deadlines too.

use std::fmt;

/// Names a question; whoever asks chooses it, and uses none twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// How often anything was written before, and with a record: when it was written. It only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// That of a key that has no record.
    pub const NONE: Self = Self(0);

    /// The one behind it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A lease: records bound to it are gone when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub i64);

impl fmt::Display for LeaseId {
    /// As etcd's own tools show it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:x}", self.0)
    }
}

/// What stands under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its key.
    pub key: String,
    /// Its bytes, which anybody with access may have written.
    pub value: Vec<u8>,
    /// When it was written last.
    pub revision: Revision,
    /// With which it ends.
    pub lease: Option<LeaseId>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The record of a key: [`Said::Found`] with one or none.
    Get {
        /// The key.
        key: String,
    },
    /// All records whose keys begin so, as of one revision: [`Said::Found`].
    Range {
        /// What they begin with.
        prefix: String,
    },
    /// Writes if nothing has changed: [`Said::Written`] or [`Failure::Different`].
    Cas(Cas),
    /// A new lease: [`Said::Granted`].
    Grant {
        /// How long it lasts without a renewal, in seconds.
        ttl_s: u32,
    },
    /// A lease lasts as long again from now: [`Said::Renewed`] or [`Failure::LeaseGone`].
    KeepAlive {
        /// The lease.
        lease: LeaseId,
        /// A key that whoever asks may read, for an agreement that has to show by a read that it is
        /// none any more that was deposed.
        key: String,
    },
    /// Ends a lease and its records: [`Said::Revoked`], also where it has ended already.
    Revoke {
        /// The lease.
        lease: LeaseId,
    },
    /// Changes below a prefix: [`Said::Changed`], until it fails. One of the same prefix that was
    /// asked for before is told no more.
    Watch {
        /// What the keys begin with.
        prefix: String,
        /// The first revision that is wanted.
        from: Revision,
    },
}

/// To write one key if some are as they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cas {
    /// The key.
    pub key: String,
    /// Its bytes; without, the record is deleted.
    pub value: Option<Vec<u8>>,
    /// The lease that the record ends with.
    pub lease: Option<LeaseId>,
    /// Keys, and the revisions they must be at; [`Revision::NONE`] is that of an absent one.
    pub compared: Vec<(String, Revision)>,
}

/// A change below a watched prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A record was written.
    Put(Record),
    /// A record is gone.
    Gone {
        /// Its key.
        key: String,
        /// When it went.
        revision: Revision,
    },
}

impl Change {
    /// The key.
    pub fn key(&self) -> &str {
        match self {
            Self::Put(record) => &record.key,
            Self::Gone { key, .. } => key,
        }
    }

    /// When it was made.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Put(record) => record.revision,
            Self::Gone { revision, .. } => *revision,
        }
    }
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// What was asked for is this.
    Found {
        /// By key.
        records: Vec<Record>,
        /// As of which revision.
        revision: Revision,
    },
    /// It was written.
    Written {
        /// As this revision.
        revision: Revision,
    },
    /// A lease, from before this was said.
    Granted {
        /// The lease.
        lease: LeaseId,
    },
    /// The lease lasts on, from after the question was asked. Nodes act by this: it must be true.
    Renewed,
    /// The lease has ended.
    Revoked,
    /// What has changed, in the order of revisions, all changes of a revision at once.
    Changed {
        /// The changes.
        changes: Vec<Change>,
    },
    /// Nothing of that.
    Failed(Failure),
}

/// Why it is not as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nobody answers, or not in time. What was to be written may have been written.
    #[error("the agreement does not answer")]
    Unavailable,
    /// The lease has ended.
    #[error("the lease has ended")]
    LeaseGone,
    /// A key was compared, and is at another revision. If the question was sent twice, that may be
    /// because it was written at the first time.
    #[error("another has written meanwhile")]
    Different,
    /// The changes from that revision on are not kept any more.
    #[error("the changes are not kept any more")]
    Compacted,
}
