//! Who brought each shape of filters: what its address has of all that there may be.

use crate::keys::Origin;
use crate::shares::Shares;

/// Who brought each entry of a list of shapes: the first that had a filter of it.
#[derive(Debug, Default)]
pub(super) struct Brought {
    by: Vec<Option<Origin>>,
    shares: Shares,
    /// Those of this shard's clients.
    pub(super) own: u64,
}

impl Brought {
    /// How many an address has brought.
    pub(super) fn of(&self, address: Option<Origin>) -> u64 {
        address.map_or(0, |address| self.shares.of(address).count)
    }

    pub(super) fn push(&mut self, by: Option<Origin>) {
        self.by.push(by);
        match by {
            Some(Origin::OTHER_SHARDS) => {}
            by => {
                self.own += 1;
                by.into_iter().for_each(|address| self.shares.add(address, 0));
            }
        }
    }

    /// As the list does.
    pub(super) fn swap_remove(&mut self, at: usize) {
        let by = self.by.swap_remove(at);
        crate::shrink::list(&mut self.by);
        match by {
            Some(Origin::OTHER_SHARDS) => {}
            by => {
                self.own -= 1;
                by.into_iter().for_each(|address| self.shares.remove(address, 0));
            }
        }
    }
}
