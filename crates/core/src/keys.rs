//! Names of things, kept from being mixed up.

use std::num::NonZeroU32;
use std::ops::Add;

/// A connection of one shard, as its shell names it. May be used again after `closed`, or after
/// the shard closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnKey(pub u32);

/// A shard of this broker, 0 to the number of shards less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

slotmap::new_key_type! {
    /// Names something that is waited for. It is never given again.
    pub struct Ticket;
}

/// For whom something counts that all clients share: a network address, or a client identifier
/// where the address says nothing. Two of a kind may have the same, which nobody can choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin(NonZeroU32);

impl Origin {
    /// Set in those that are addresses.
    const ADDRESS: u32 = 1 << 31;

    /// Clients of other shards, whose addresses are not known here.
    pub(crate) const OTHER_SHARDS: Self = Self(NonZeroU32::MIN);

    /// An address, by a hash that nobody outside can guess.
    pub fn address(hash: u32) -> Self {
        Self(NonZeroU32::MIN | hash | Self::ADDRESS)
    }

    /// For an encoding.
    pub(crate) fn number(self) -> NonZeroU32 {
        self.0
    }

    /// As [`Origin::number`] gives it.
    pub(crate) fn of_number(number: NonZeroU32) -> Self {
        Self(number)
    }

    /// A client identifier, by such a hash.
    pub(crate) fn client(hash: u32) -> Self {
        Self(NonZeroU32::MIN | (hash & !Self::ADDRESS))
    }
}

/// Which message published as retained it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The shard it was published on.
    pub shard: ShardId,
    /// Whom it counts for where it is kept.
    pub origin: Origin,
    /// Which of that shard's it is, from 1.
    pub number: u64,
}

/// The version of a topic's retained message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Higher than that of the last one.
    pub count: u64,
    /// The first shard of the node that gave it.
    pub node: u16,
}

/// Which of all claims to a client's session it is: higher than those that were made before it, as
/// far as whoever made it knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim(pub u64);

impl Claim {
    /// Lower than any.
    pub const NONE: Self = Self(0);
}

/// The place of a record in the log of a shard. It grows from record to record and is never used
/// twice, so that it also names what the record says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// No record has it.
    pub const NONE: Self = Self(0);
}

/// The place of a page on the disk, as the shell names it. It is never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u64);

/// Names a page that a shard has asked for to be written or read. It is never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageTicket(pub u64);

/// A session of one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionKey(pub(crate) u32);

/// A time in microseconds since an epoch of the shell's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

impl Micros {
    /// This many seconds.
    pub const fn from_secs(seconds: u32) -> Self {
        Self(seconds as u64 * 1_000_000)
    }

    /// Whole seconds from `self` until `later`, rounded up; 0 if it is not later.
    pub fn secs_until(self, later: Self) -> u32 {
        let left = later.0.saturating_sub(self.0).div_ceil(1_000_000);
        u32::try_from(left).unwrap_or(u32::MAX)
    }
}

impl Add for Micros {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
