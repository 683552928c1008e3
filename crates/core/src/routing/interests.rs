//! What other shards' clients want: filters as hashes, so that a node can know those of all others.
//!
//! A filter is known by its shape and a key, 56 bits of its hash, which all shards of all nodes
//! compute alike. A topic that has the key of a filter by chance costs a letter that nobody wants.
//! Of two filters of one key, a shard does not say that one is not wanted any more while the other
//! is: so what is found is never too little.

use super::deep::{DeepLevels, DeepShape};
use super::segments::{Key, Segments};
use super::shape::{LevelHasher, Levels, Shape, is_wildcard};
use crate::keys::ShardId;
use crate::shard_set::ShardSet;

/// What one takes, with its part of what is around it.
pub(crate) const INTEREST_BYTES: usize = 10;

/// Filters of other shards' clients. Those of each shape stand apart: a shape is there while a
/// filter has it.
#[derive(Debug, Default)]
pub(crate) struct Interests {
    /// Filters without wildcards.
    exact: Segments,
    /// Filters of few levels.
    probed: Vec<(Shape, Segments)>,
    /// Levels of the deepest of them.
    depth: usize,
    deep: Vec<(DeepShape, Segments)>,
    len: usize,
}

/// A place on the way through all segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InterestsAt {
    /// Filters without wildcards come first, then those of each shape.
    shape: usize,
    segment: usize,
}

impl Interests {
    /// Each filter counts for each shard that wants it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn has_exact(&self) -> bool {
        !self.exact.is_empty()
    }

    pub(super) fn has_deep(&self) -> bool {
        !self.deep.is_empty()
    }

    /// Levels of a topic that [`Interests::probe`] has to know.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// How many probes a search takes for filters with wildcards.
    pub(super) fn shapes(&self) -> usize {
        self.probed.len() + self.deep.len()
    }

    /// Adds the shards that want exactly the topic of this key.
    pub(super) fn find_exact(&self, key: Key, shards: &mut ShardSet) {
        self.exact.find(key, shards);
    }

    /// Adds the shards with a filter of few levels that matches the topic.
    #[inline]
    pub(super) fn probe(&self, hasher: &LevelHasher, topic: &Levels, shards: &mut ShardSet) {
        for (shape, segments) in &self.probed {
            if shape.may_match(topic) {
                segments.find(Key::of(hasher.hash(*shape, topic)), shards);
            }
        }
    }

    /// Adds the shards with another filter with wildcards that matches the topic.
    pub(super) fn probe_deep(
        &self,
        hasher: &LevelHasher,
        topic: &DeepLevels,
        shards: &mut ShardSet,
    ) {
        for (shape, segments) in &self.deep {
            if shape.may_match(topic) {
                segments.find(Key::of(shape.hash(hasher, topic)), shards);
            }
        }
    }

    /// A shard wants a filter, and may have said so before.
    pub(super) fn add(&mut self, filter: &str, key: Key, shard: ShardId) {
        let is_new = self.of_shape(filter).insert(key, shard);
        self.len += usize::from(is_new);
    }

    /// A shard does not want it any more. What is empty by then stays until [`Interests::tidy`] if
    /// a walk through all goes on.
    pub(super) fn remove(&mut self, filter: &str, (key, shard): (Key, ShardId), is_walked: bool) {
        let segments = self.of_shape(filter);
        let was_there = segments.remove(key, shard);
        if !is_walked {
            segments.join();
        }
        let is_last = segments.is_empty();
        self.len -= usize::from(was_there);
        if is_last && !is_walked {
            self.tidy();
        }
    }

    /// Forgets what shards that are gone want in the segment at a place, and goes to the next. Says
    /// how many entries it looked at; nothing at the end.
    pub(super) fn forget_at(&mut self, at: &mut InterestsAt, gone: &ShardSet) -> Option<usize> {
        let Self { exact, probed, deep, .. } = self;
        let segments = match at.shape.checked_sub(1) {
            None => exact,
            Some(shape) if shape < probed.len() => &mut probed[shape].1,
            Some(shape) => &mut deep.get_mut(shape - probed.len())?.1,
        };
        match segments.forget(at.segment, gone) {
            Some((had, went)) => {
                self.len -= went;
                at.segment += 1;
                Some(had)
            }
            None => {
                *at = InterestsAt { shape: at.shape + 1, segment: 0 };
                Some(0)
            }
        }
    }

    /// Forgets shapes that nobody has.
    pub(super) fn tidy(&mut self) {
        let Self { exact, probed, depth, deep, .. } = self;
        if exact.is_empty() {
            *exact = Segments::default();
        }
        probed.retain(|(_, segments)| !segments.is_empty());
        deep.retain(|(_, segments)| !segments.is_empty());
        crate::shrink::list(probed);
        crate::shrink::list(deep);
        *depth = probed.iter().map(|(shape, _)| shape.depth()).max().unwrap_or(0);
    }

    /// Those of the shape of a filter.
    fn of_shape(&mut self, filter: &str) -> &mut Segments {
        if !is_wildcard(filter) {
            return &mut self.exact;
        }
        match Shape::of(filter) {
            Some(shape) => {
                self.depth = self.depth.max(shape.depth());
                of(&mut self.probed, shape)
            }
            None => of(&mut self.deep, DeepShape::of(filter)),
        }
    }
}

/// The value of a key, made if it is not there.
fn of<K: PartialEq, V: Default>(list: &mut Vec<(K, V)>, key: K) -> &mut V {
    let at = list.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
        list.push((key, V::default()));
        list.len() - 1
    });
    &mut list[at].1
}
