//! Names of things, kept from being mixed up.

use foldhash::fast::FixedState;
use std::hash::BuildHasher;
use std::ops::Add;

/// A connection of one shard, as its shell names it. May be used again after `closed`, or after
/// the shard closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnKey(pub u32);

/// A shard of this broker, 0 to the number of shards less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The shard, of so many that were made with this seed, that owns the session of a client.
    pub fn of_client(client_id: &str, shards: u16, seed: u64) -> Self {
        Self::of(client_id, shards, &FixedState::with_seed(seed))
    }

    /// The shard that owns what has this name.
    pub(crate) fn of(name: &str, shards: u16, hasher: &FixedState) -> Self {
        if shards == 1 {
            return Self(0);
        }
        let hash = hasher.hash_one(name);
        // The upper bits: the lower ones place the client in the table.
        Self(((hash >> 32) % u64::from(shards)) as u16)
    }
}

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
