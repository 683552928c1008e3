//! Filters with wildcards: found by one probe for each shape there is.
//!
//! A filter's shape says where its wildcards are. A topic put into a shape is the text of the one
//! filter of that shape which matches it, so a hash table of filters answers each shape at once.
//! What a search costs is the number of shapes, however many filters have them: each session may
//! bring so many, see [`crate::Limits::filter_shapes_max`], and all of a shard's clients together
//! [`crate::Limits::filter_shapes_total_max`].

use crate::keys::Origin;
use crate::routing::brought::Brought;
use crate::routing::deep::{DeepLevels, DeepShape};
use crate::routing::lists::FilterId;
use crate::routing::records::ShapeKey;
use crate::routing::shape::{LevelHasher, Levels, Shape, is_wildcard};
use crate::text::Text;
use hashbrown::HashTable;
use weir_chance::mix;

/// Probes whose places in memory are asked for before the first answer is looked at.
const AT_ONCE: usize = 8;

/// The wildcard filters of an index, which owns their texts.
#[derive(Debug)]
pub(crate) struct Wildcards {
    pub(super) hasher: LevelHasher,
    pub(super) table: HashTable<FilterId>,
    /// Shapes of few levels.
    probed: Vec<Counted>,
    /// Levels of the deepest of them.
    pub(super) depth: usize,
    /// Shapes of more levels, and how many filters have each.
    deep: Vec<(DeepShape, u32)>,
    /// Who brought each, in the order of these two.
    probed_by: Brought,
    deep_by: Brought,
}

/// A shape and how many filters have it.
#[derive(Clone, Copy, Debug)]
struct Counted {
    shape: Shape,
    filters: u32,
}

impl Wildcards {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            hasher: LevelHasher::new(seed),
            table: HashTable::new(),
            probed: Vec::new(),
            depth: 0,
            deep: Vec::new(),
            probed_by: Brought::default(),
            deep_by: Brought::default(),
        }
    }

    /// How many probes a search takes at most.
    pub(crate) fn shapes(&self) -> usize {
        self.probed.len() + self.deep.len()
    }

    /// What a filter adds to the shapes of its session.
    pub(super) fn shape_key(&self, filter: &str, group: Option<&str>) -> ShapeKey {
        let is_wildcard = is_wildcard(filter);
        if group.is_none() && !is_wildcard {
            return None;
        }
        let mut key = group.map_or(0, |group| self.hasher.hash_text(group));
        if is_wildcard {
            for (at, level) in filter.split('/').enumerate() {
                key = match level {
                    "+" => mix(key ^ (2 * at as u64 + 1)),
                    "#" => mix(key ^ (2 * at as u64 + 2)),
                    _ => key,
                };
            }
            key = mix(key.wrapping_add(filter.split('/').count() as u64));
        }
        Some(key)
    }

    /// Finds a filter by its text.
    pub(crate) fn id<'a>(
        &self,
        filter: &str,
        text: impl Fn(FilterId) -> &'a Text,
    ) -> Option<FilterId> {
        let is_same = |&id: &FilterId| text(id).as_bytes() == filter.as_bytes();
        self.table.find(self.hasher.hash_filter(filter), is_same).copied()
    }

    pub(crate) fn insert<'a>(
        &mut self,
        filter: &str,
        id: FilterId,
        by: Option<Origin>,
        text: impl Fn(FilterId) -> &'a Text,
    ) {
        match Shape::of(filter) {
            Some(shape) => self.count(shape, by),
            None => self.count_deep(filter, by),
        }
        let Self { table, hasher, .. } = self;
        let hash = |&id: &FilterId| hasher.hash_filter(text(id));
        table.insert_unique(hasher.hash_filter(filter), id, hash);
    }

    /// Whether a wildcard filter has a shape that is there, or brings one for which `has_room` says
    /// that there may be more: of what its address has, and of how many this shard's clients have.
    pub(super) fn may_bring(
        &self,
        filter: &str,
        by: Option<Origin>,
        has_room: impl FnOnce(u64, u64) -> bool,
    ) -> bool {
        let is_there = match Shape::of(filter) {
            Some(shape) => self.probed.iter().any(|probed| probed.shape == shape),
            None => {
                let shape = DeepShape::of(filter);
                self.deep.iter().any(|(other, _)| *other == shape)
            }
        };
        let Self { probed_by, deep_by, .. } = self;
        is_there || has_room(probed_by.of(by) + deep_by.of(by), probed_by.own + deep_by.own)
    }

    fn count(&mut self, shape: Shape, by: Option<Origin>) {
        match self.probed.iter_mut().find(|probed| probed.shape == shape) {
            Some(probed) => probed.filters += 1,
            None => {
                self.probed.push(Counted { shape, filters: 1 });
                self.probed_by.push(by);
            }
        }
        self.depth = self.depth.max(shape.depth());
    }

    fn count_deep(&mut self, filter: &str, by: Option<Origin>) {
        let shape = DeepShape::of(filter);
        match self.deep.iter_mut().find(|(other, _)| *other == shape) {
            Some((_, filters)) => *filters += 1,
            None => {
                self.deep.push((shape, 1));
                self.deep_by.push(by);
            }
        }
    }

    pub(crate) fn remove<'a>(
        &mut self,
        filter: &str,
        id: FilterId,
        text: impl Fn(FilterId) -> &'a Text,
    ) {
        match Shape::of(filter) {
            Some(shape) => self.discount(shape),
            None => self.discount_deep(filter),
        }
        let Self { table, hasher, .. } = self;
        if let Ok(entry) = table.find_entry(hasher.hash_filter(filter), |&other| other == id) {
            entry.remove();
        }
        let hash = |&id: &FilterId| hasher.hash_filter(text(id));
        crate::shrink::table(table, hash);
    }

    fn discount(&mut self, shape: Shape) {
        let Some(at) = self.probed.iter().position(|probed| probed.shape == shape) else { return };
        self.probed[at].filters -= 1;
        if self.probed[at].filters == 0 {
            self.probed.swap_remove(at);
            self.probed_by.swap_remove(at);
            crate::shrink::list(&mut self.probed);
            let depths = self.probed.iter().map(|probed| probed.shape.depth());
            self.depth = depths.max().unwrap_or(0);
        }
    }

    fn discount_deep(&mut self, filter: &str) {
        let shape = DeepShape::of(filter);
        let Some(at) = self.deep.iter().position(|(other, _)| *other == shape) else { return };
        self.deep[at].1 -= 1;
        if self.deep[at].1 == 0 {
            self.deep.swap_remove(at);
            self.deep_by.swap_remove(at);
            crate::shrink::list(&mut self.deep);
        }
    }

    /// Appends every filter that matches `topic`.
    #[inline]
    pub(crate) fn find<'a>(
        &self,
        topic: &str,
        text: impl Fn(FilterId) -> &'a Text,
        found: &mut Vec<FilterId>,
    ) {
        if !self.probed.is_empty() {
            self.probe(topic, &self.hasher.read(topic, self.depth), &text, found);
        }
        if self.has_deep()
            && let Some(levels) = DeepLevels::read(&self.hasher, topic)
        {
            self.probe_deep(topic, &levels, &text, found);
        }
    }

    pub(super) fn has_deep(&self) -> bool {
        !self.deep.is_empty()
    }

    #[cold]
    pub(super) fn probe_deep<'a>(
        &self,
        topic: &str,
        levels: &DeepLevels,
        text: &impl Fn(FilterId) -> &'a Text,
        found: &mut Vec<FilterId>,
    ) {
        for (shape, _) in &self.deep {
            if shape.may_match(levels) {
                let is_it = |&id: &FilterId| shape.is_of(text(id).as_bytes(), topic, levels);
                found.extend(self.table.find(shape.hash(&self.hasher, levels), is_it));
            }
        }
    }

    /// Looks for filters of few levels; `levels` are those of the topic to their depth at least.
    pub(super) fn probe<'a>(
        &self,
        topic: &str,
        levels: &Levels,
        text: &impl Fn(FilterId) -> &'a Text,
        found: &mut Vec<FilterId>,
    ) {
        let is_it =
            |shape: Shape, id: FilterId| shape.is_of(text(id).as_bytes(), topic.as_bytes(), levels);
        if let [Counted { shape, .. }] = self.probed[..] {
            if shape.may_match(levels) {
                let hash = self.hasher.hash(shape, levels);
                found.extend(self.table.find(hash, |&id| is_it(shape, id)));
            }
            return;
        }
        for probed in self.probed.chunks(AT_ONCE) {
            let mut candidates = [(Shape::default(), FilterId::default()); AT_ONCE];
            let mut count = 0;
            for &Counted { shape, .. } in probed {
                if shape.may_match(levels)
                    && let Some(&id) = self.table.find(self.hasher.hash(shape, levels), |_| true)
                {
                    candidates[count] = (shape, id);
                    count += 1;
                }
            }
            for &(shape, id) in &candidates[..count] {
                if is_it(shape, id) {
                    found.push(id);
                } else {
                    // Another filter whose hash begins alike came before it, or there is none.
                    let hash = self.hasher.hash(shape, levels);
                    found.extend(self.table.find(hash, |&id| is_it(shape, id)));
                }
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty() && self.shapes() == 0
    }
}
