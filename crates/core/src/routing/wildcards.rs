//! Filters with wildcards: found by one probe for each shape there is.
//!
//! A filter's shape says where its wildcards are. A topic put into a shape is the text of the one
//! filter of that shape which matches it, so a hash table of filters answers each shape at once.
//! Shapes are few in practice; those over the bound, and filters too deep for one, are in a tree of
//! levels.

use crate::routing::FilterId;
use crate::routing::shape::{LevelHasher, Shape};
use crate::routing::trie::Trie;
use crate::text::Text;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};

/// Shapes that are probed, so probes a message.
pub(crate) const SHAPES_MAX: usize = 64;

/// Probes whose places in memory are asked for before the first answer is looked at.
const AT_ONCE: usize = 8;

/// The wildcard filters of an index, which owns their texts.
#[derive(Debug)]
pub(crate) struct Wildcards {
    hasher: LevelHasher,
    /// The filters of probed shapes.
    table: HashTable<FilterId>,
    probed: Vec<Counted>,
    /// Levels of the deepest probed shape.
    depth: usize,
    /// Filters of each shape in the tree. A shape stays where its first filter went, so that no
    /// filter is found twice.
    others: HashMap<Shape, u32, FixedState>,
    trie: Trie,
    trie_len: usize,
    shapes_max: usize,
}

/// A shape and how many filters have it.
#[derive(Clone, Copy, Debug)]
struct Counted {
    shape: Shape,
    filters: u32,
}

impl Wildcards {
    pub(crate) fn new(seed: u64, shapes_max: usize) -> Self {
        Self {
            hasher: LevelHasher::new(seed),
            table: HashTable::new(),
            probed: Vec::new(),
            depth: 0,
            others: HashMap::with_hasher(FixedState::with_seed(seed)),
            trie: Trie::new(seed),
            trie_len: 0,
            shapes_max,
        }
    }

    fn place(&self, shape: Shape) -> Option<usize> {
        self.probed.iter().position(|probed| probed.shape == shape)
    }

    /// Finds a filter by its text. Those that this has not are the tree's, which has no table.
    pub(crate) fn id<'a>(
        &self,
        filter: &str,
        text: impl Fn(FilterId) -> &'a Text,
    ) -> Option<FilterId> {
        let is_same = |&id: &FilterId| text(id).as_bytes() == filter.as_bytes();
        self.table.find(self.hasher.hash_filter(filter), is_same).copied()
    }

    /// Whether filters of this text are, or would be, found by [`Wildcards::id`].
    pub(crate) fn has_table_for(&self, filter: &str) -> bool {
        let Some(shape) = Shape::of(filter) else { return false };
        let has_room = self.probed.len() < self.shapes_max && !self.others.contains_key(&shape);
        has_room || self.place(shape).is_some()
    }

    pub(crate) fn insert<'a>(
        &mut self,
        filter: &str,
        id: FilterId,
        text: impl Fn(FilterId) -> &'a Text,
    ) {
        let shape = Shape::of(filter);
        if !self.has_table_for(filter) {
            if let Some(shape) = shape {
                *self.others.entry(shape).or_default() += 1;
            }
            self.trie_len += 1;
            return self.trie.insert(filter, id);
        }
        let shape = shape.expect("what has a table has a shape");
        match self.place(shape) {
            Some(at) => self.probed[at].filters += 1,
            None => self.probed.push(Counted { shape, filters: 1 }),
        }
        self.depth = self.depth.max(shape.depth());
        let Self { table, hasher, .. } = self;
        let hash = |&id: &FilterId| hasher.hash_filter(text(id));
        table.insert_unique(hasher.hash_filter(filter), id, hash);
    }

    pub(crate) fn remove<'a>(
        &mut self,
        filter: &str,
        id: FilterId,
        text: impl Fn(FilterId) -> &'a Text,
    ) {
        let shape = Shape::of(filter);
        let Some(at) = shape.and_then(|shape| self.place(shape)) else {
            if let Some(shape) = shape
                && let Some(count) = self.others.get_mut(&shape)
            {
                *count -= 1;
                if *count == 0 {
                    self.others.remove(&shape);
                }
            }
            self.trie_len -= 1;
            return self.trie.remove(filter);
        };
        self.probed[at].filters -= 1;
        if self.probed[at].filters == 0 {
            self.probed.swap_remove(at);
            let depths = self.probed.iter().map(|probed| probed.shape.depth());
            self.depth = depths.max().unwrap_or(0);
        }
        let Self { table, hasher, .. } = self;
        if let Ok(entry) = table.find_entry(hasher.hash_filter(filter), |&other| other == id) {
            entry.remove();
        }
        let hash = |&id: &FilterId| hasher.hash_filter(text(id));
        crate::shrink::table(table, hash);
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
            self.probe(topic, text, found);
        }
        if self.trie_len > 0 {
            self.trie.find(topic, found);
        }
    }

    fn probe<'a>(
        &self,
        topic: &str,
        text: impl Fn(FilterId) -> &'a Text,
        found: &mut Vec<FilterId>,
    ) {
        let levels = self.hasher.read(topic, self.depth);
        let is_it = |shape: Shape, id: FilterId| {
            shape.is_of(text(id).as_bytes(), topic.as_bytes(), &levels)
        };
        if let [Counted { shape, .. }] = self.probed[..] {
            if shape.may_match(&levels) {
                let hash = self.hasher.hash(shape, &levels);
                found.extend(self.table.find(hash, |&id| is_it(shape, id)));
            }
            return;
        }
        for probed in self.probed.chunks(AT_ONCE) {
            let mut candidates = [(Shape::default(), FilterId::default()); AT_ONCE];
            let mut count = 0;
            for &Counted { shape, .. } in probed {
                if shape.may_match(&levels)
                    && let Some(&id) = self.table.find(self.hasher.hash(shape, &levels), |_| true)
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
                    let hash = self.hasher.hash(shape, &levels);
                    found.extend(self.table.find(hash, |&id| is_it(shape, id)));
                }
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
            && self.probed.is_empty()
            && self.others.is_empty()
            && self.trie_len == 0
            && self.trie.is_empty()
    }
}
