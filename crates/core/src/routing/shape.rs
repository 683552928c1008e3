//! The shape of a wildcard filter, and hashes of levels from which those of whole filters are
//! added up.

use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};
use weir_chance::mix;

/// Levels before `#` that a shape may have.
pub(crate) const LEVELS_MAX: usize = 16;

/// Where a filter has its wildcards. Its other levels are literal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// A bit a level, the first the lowest: whether it is `+`.
    plus: u16,
    /// Levels before `#`, or all.
    depth: u8,
    /// Whether `#` follows.
    is_open: bool,
}

impl Shape {
    /// The shape of a filter, if it is not too deep for one.
    pub(crate) fn of(filter: &str) -> Option<Self> {
        let mut shape = Self { plus: 0, depth: 0, is_open: false };
        for level in filter.split('/') {
            if level == "#" {
                shape.is_open = true;
                return Some(shape);
            }
            if usize::from(shape.depth) == LEVELS_MAX {
                return None;
            }
            shape.plus |= u16::from(level == "+") << shape.depth;
            shape.depth += 1;
        }
        Some(shape)
    }

    /// Levels before `#`, or all.
    pub(crate) fn depth(self) -> usize {
        usize::from(self.depth)
    }

    /// Whether a filter of this shape can match the topic, whose levels were read to this depth at
    /// least.
    #[inline]
    pub(crate) fn may_match(self, topic: &Levels) -> bool {
        let depth = self.depth();
        let fits =
            if self.is_open { topic.count >= depth } else { topic.count == depth && !topic.is_cut };
        // [MQTT-4.7.2-1]
        let begins_with_wildcard = self.plus & 1 == 1 || depth == 0;
        fits && !(topic.is_dollar && begins_with_wildcard)
    }

    /// Whether `filter` is the topic with this shape's wildcards put in.
    pub(crate) fn is_of(self, filter: &[u8], topic: &[u8], levels: &Levels) -> bool {
        self.strip(filter, topic, levels).is_some_and(<[u8]>::is_empty)
    }

    fn strip<'a>(self, filter: &'a [u8], topic: &[u8], levels: &Levels) -> Option<&'a [u8]> {
        let (mut rest, mut level) = (filter, 0);
        while level < self.depth() {
            if level > 0 {
                rest = rest.strip_prefix(b"/")?;
            }
            let plus = self.plus >> level;
            if plus & 1 == 1 {
                rest = rest.strip_prefix(b"+")?;
                level += 1;
            } else {
                let literal = (plus.trailing_zeros() as usize).min(self.depth() - level);
                let start = if level == 0 { 0 } else { usize::from(levels.ends[level - 1]) + 1 };
                let end = usize::from(levels.ends[level + literal - 1]);
                rest = rest.strip_prefix(&topic[start..end])?;
                level += literal;
            }
        }
        match (self.is_open, level) {
            (false, _) => Some(rest),
            (true, 0) => rest.strip_prefix(b"#"),
            (true, _) => rest.strip_prefix(b"/#"),
        }
    }
}

/// Hashes filters and topics by the sum over their levels of `hash(level) * factor(place)`, so that
/// the hash of a topic with some levels replaced is a few additions away.
#[derive(Debug)]
pub(crate) struct LevelHasher {
    seed: u64,
    hasher: FixedState,
    factors: [u64; LEVELS_MAX],
    /// What `+` adds in each place.
    plus: [u64; LEVELS_MAX],
    /// Added for `#` behind so many levels.
    open: [u64; LEVELS_MAX + 1],
}

/// What is known of a topic's first levels.
#[derive(Debug)]
pub(crate) struct Levels {
    /// Levels read.
    count: usize,
    /// More levels follow.
    is_cut: bool,
    is_dollar: bool,
    /// Where each level ends.
    ends: [u16; LEVELS_MAX],
    /// The hash of so many levels, all literal.
    sums: [u64; LEVELS_MAX + 1],
}

impl LevelHasher {
    pub(crate) fn new(seed: u64) -> Self {
        let number = |at: usize| mix(seed ^ mix(at as u64 + 1));
        let hasher = FixedState::with_seed(seed);
        // Odd, so that no bit of a level's hash is lost.
        let factors: [u64; LEVELS_MAX] = std::array::from_fn(|at| number(at) | 1);
        let plus = hash(&hasher, b"+");
        Self {
            seed,
            plus: factors.map(|factor| plus.wrapping_mul(factor)),
            factors,
            hasher,
            open: std::array::from_fn(|at| number(LEVELS_MAX + at)),
        }
    }

    /// Reads the first levels of a topic, `depth` at most.
    #[inline(always)]
    pub(crate) fn read(&self, topic: &str, depth: usize) -> Levels {
        let mut levels = Levels {
            count: 0,
            is_cut: false,
            is_dollar: topic.starts_with('$'),
            ends: [0; LEVELS_MAX],
            sums: [0; LEVELS_MAX + 1],
        };
        let mut start = 0;
        let mut is_cut = true;
        while is_cut && levels.count < depth {
            let rest = &topic.as_bytes()[start..];
            // Levels are short: a plain loop beats a vectored search.
            let slash = rest.iter().position(|&byte| byte == b'/');
            let level = &rest[..slash.unwrap_or(rest.len())];
            let (at, hash) = (levels.count, hash(&self.hasher, level));
            let end = start + level.len();
            levels.ends[at] = end as u16;
            levels.sums[at + 1] = levels.sums[at].wrapping_add(hash.wrapping_mul(self.factors[at]));
            levels.count += 1;
            is_cut = slash.is_some();
            start = end + 1;
        }
        levels.is_cut = is_cut;
        levels
    }

    /// The hash of the filter that this shape makes of a topic that it may match.
    #[inline]
    pub(crate) fn hash(&self, shape: Shape, topic: &Levels) -> u64 {
        let mut sum = topic.sums[shape.depth()];
        let mut plus = shape.plus;
        while plus != 0 {
            let at = plus.trailing_zeros() as usize;
            let literal = topic.sums[at + 1].wrapping_sub(topic.sums[at]);
            sum = sum.wrapping_add(self.plus[at]).wrapping_sub(literal);
            plus &= plus - 1;
        }
        sum.wrapping_add(if shape.is_open { self.open[shape.depth()] } else { 0 })
    }

    /// The hash of a filter that has a shape: the same as of any topic in that shape.
    pub(crate) fn hash_filter(&self, filter: &str) -> u64 {
        let mut sum = 0_u64;
        for (at, level) in filter.split('/').enumerate() {
            if level == "#" {
                return sum.wrapping_add(self.open(at));
            }
            sum = sum.wrapping_add(self.hash_level(at, level.as_bytes()));
        }
        sum
    }

    /// What a level in this place adds.
    pub(super) fn hash_level(&self, at: usize, level: &[u8]) -> u64 {
        let factor = match self.factors.get(at) {
            Some(&factor) => factor,
            None => self.deep_number(2 * at) | 1,
        };
        hash(&self.hasher, level).wrapping_mul(factor)
    }

    /// What `#` adds behind so many levels.
    pub(super) fn open(&self, depth: usize) -> u64 {
        self.open.get(depth).copied().unwrap_or_else(|| self.deep_number(2 * depth + 1))
    }

    /// Numbers of places that are too deep for a table: even ones for levels, odd ones for `#`.
    fn deep_number(&self, at: usize) -> u64 {
        mix(self.seed ^ mix(1 + 2 * LEVELS_MAX as u64 + at as u64))
    }

    /// The hash of any text.
    pub(super) fn hash_text(&self, text: &str) -> u64 {
        hash(&self.hasher, text.as_bytes())
    }
}

/// Whether a filter has wildcards.
pub(super) fn is_wildcard(filter: &str) -> bool {
    filter.contains(['+', '#'])
}

/// Hashes bytes that nothing follows: no length is mixed in beside the hasher's own.
#[inline]
pub(crate) fn hash(hasher: &FixedState, bytes: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}
