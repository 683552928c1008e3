//! What was published as retained and delivered live a moment ago.

use crate::keys::Stamp;
use std::collections::VecDeque;

/// Messages remembered; the oldest are forgotten, see [`crate::Stats::recent_forgotten`].
const RECENT_MAX: usize = 16_384;

/// Topics and stamps in the order of delivery, while a letter of a replay is on its way.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    entries: VecDeque<(Box<str>, Stamp)>,
    forgotten: u64,
}

impl Recent {
    /// Notes a delivery; says whether another was forgotten for it.
    pub(crate) fn push(&mut self, topic: &str, stamp: Stamp) -> bool {
        let is_full = self.entries.len() == RECENT_MAX;
        if is_full {
            self.entries.pop_front();
            self.forgotten += 1;
        }
        self.entries.push_back((topic.into(), stamp));
        is_full
    }

    /// Now, for [`Recent::since`].
    pub(crate) fn mark(&self) -> u64 {
        self.forgotten + self.entries.len() as u64
    }

    /// What came after that mark.
    pub(crate) fn since(&self, mark: u64) -> impl Iterator<Item = (&str, Stamp)> {
        let at = mark.saturating_sub(self.forgotten) as usize;
        self.entries.range(at.min(self.entries.len())..).map(|(topic, stamp)| (&**topic, *stamp))
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// When each was delivered live, as a mark taken just before it would have been.
    pub(crate) fn marks(&self) -> impl Iterator<Item = (Stamp, u64)> {
        (self.forgotten..).zip(&self.entries).map(|(mark, (_, stamp))| (*stamp, mark))
    }

    /// Nobody will ask any more.
    pub(crate) fn clear(&mut self) {
        self.forgotten += self.entries.len() as u64;
        self.entries = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, ShardId};

    #[test]
    fn the_oldest_are_forgotten_and_marks_stay_true() {
        let stamp = |number| Stamp { shard: ShardId(0), origin: Origin::client(0), number };
        let mut recent = Recent::default();
        let forgotten = (0..RECENT_MAX as u64 + 5).filter(|&at| recent.push("t", stamp(at)));
        assert_eq!(forgotten.count(), 5);
        assert_eq!(recent.since(0).count(), RECENT_MAX);
        let mark = recent.mark();
        assert_eq!(recent.since(mark).count(), 0);
        recent.push("u", stamp(7));
        assert_eq!(recent.since(mark).collect::<Vec<_>>(), [("u", stamp(7))]);
        recent.clear();
        assert_eq!((recent.since(mark).count(), recent.mark()), (0, mark + 1));
    }
}
