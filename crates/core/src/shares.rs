//! What each origin has of something that all clients share, so that none takes what others need.

use crate::keys::Origin;
use foldhash::fast::FixedState;
use hashbrown::HashMap;

/// What one client may have of `max`, where it may have so many percent: at least one.
pub fn share_of(max: u64, percent: u8) -> u64 {
    let percent = u64::from(percent.min(100));
    (max / 100 * percent + max % 100 * percent / 100).max(1)
}

/// The part of one origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) count: u64,
    pub(crate) bytes: u64,
}

/// The part of each origin that has one. Origins are hashes already.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    parts: HashMap<Origin, Part, FixedState>,
}

impl Shares {
    pub(crate) fn of(&self, origin: Origin) -> Part {
        self.parts.get(&origin).copied().unwrap_or_default()
    }

    /// It has one more, of so many bytes.
    pub(crate) fn add(&mut self, origin: Origin, bytes: u64) {
        let part = self.parts.entry(origin).or_default();
        part.count += 1;
        part.bytes += bytes;
    }

    /// It has one less, of so many bytes.
    pub(crate) fn remove(&mut self, origin: Origin, bytes: u64) {
        let Some(part) = self.parts.get_mut(&origin) else { return };
        part.count -= 1;
        part.bytes -= bytes;
        if part.count == 0 {
            self.parts.remove(&origin);
            if self.parts.capacity() > KEPT && self.parts.len() < self.parts.capacity() / 4 {
                self.parts.shrink_to(self.parts.len() * 2);
            }
        }
    }
}

/// Entries whose memory is kept.
const KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_part_of_the_bound_and_never_nothing() {
        for (max, percent, share) in
            [(1_000, 75, 750), (10, 75, 7), (1, 75, 1), (1, 0, 1), (u64::MAX, 100, u64::MAX)]
        {
            assert_eq!(share_of(max, percent), share);
        }
    }

    #[test]
    fn what_nobody_has_any_more_is_forgotten() {
        let mut shares = Shares::default();
        for at in 0..1_000 {
            shares.add(Origin::client(2 * at), 10);
            shares.add(Origin::client(2 * at), 1);
        }
        assert_eq!(shares.of(Origin::client(8)), Part { count: 2, bytes: 11 });
        for at in 0..1_000 {
            shares.remove(Origin::client(2 * at), 1);
            shares.remove(Origin::client(2 * at), 10);
        }
        assert_eq!(shares.of(Origin::client(8)), Part::default());
        assert!(shares.parts.capacity() < 2 * KEPT);
    }
}
