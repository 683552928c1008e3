//! Shapes of filters with so many levels that few have them, if any.

use super::shape::{LEVELS_MAX, LevelHasher};
use smallvec::SmallVec;

/// Where a filter of more than [`LEVELS_MAX`] levels has its wildcards.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DeepShape {
    /// The places of `+`.
    plus: Box<[u16]>,
    /// Levels before `#`, or all.
    depth: u16,
    /// Whether `#` follows.
    is_open: bool,
}

/// What is known of a deep topic's levels.
#[derive(Debug)]
pub(super) struct DeepLevels {
    is_dollar: bool,
    /// Where each level ends.
    ends: SmallVec<[u16; 128]>,
    /// The hash of so many levels and one more, all literal.
    sums: SmallVec<[u64; 128]>,
    /// What `+` in the place of each adds to that.
    plus: SmallVec<[u64; 128]>,
}

impl DeepLevels {
    /// Nothing for a topic that no deep shape can match.
    pub(super) fn read(hasher: &LevelHasher, topic: &str) -> Option<Self> {
        let (ends, sums, plus) = (SmallVec::new(), SmallVec::new(), SmallVec::new());
        let mut levels = Self { is_dollar: topic.starts_with('$'), ends, sums, plus };
        if topic.bytes().filter(|&byte| byte == b'/').count() < LEVELS_MAX {
            return None;
        }
        let (mut end, mut sum) = (0, 0_u64);
        for (at, level) in topic.split('/').enumerate() {
            let hash = hasher.hash_level(at, level.as_bytes());
            sum = sum.wrapping_add(hash);
            levels.sums.push(sum);
            levels.plus.push(hasher.hash_level(at, b"+").wrapping_sub(hash));
            levels.ends.push((end + level.len()) as u16);
            end += level.len() + 1;
        }
        Some(levels)
    }

    /// The topic's levels from `first` to before `end`.
    fn slice<'a>(&self, topic: &'a str, first: usize, end: usize) -> &'a [u8] {
        let start = if first == 0 { 0 } else { usize::from(self.ends[first - 1]) + 1 };
        &topic.as_bytes()[start..usize::from(self.ends[end - 1])]
    }
}

impl DeepShape {
    pub(super) fn of(filter: &str) -> Self {
        let (mut plus, mut depth, mut is_open) = (Vec::new(), 0, false);
        for level in filter.split('/') {
            match level {
                "#" => {
                    is_open = true;
                    break;
                }
                "+" => plus.push(depth),
                _ => {}
            }
            depth += 1;
        }
        Self { plus: plus.into(), depth, is_open }
    }

    /// Whether a filter of this shape can match the topic.
    pub(super) fn may_match(&self, topic: &DeepLevels) -> bool {
        let (depth, count) = (usize::from(self.depth), topic.ends.len());
        let fits = if self.is_open { count >= depth } else { count == depth };
        // [MQTT-4.7.2-1]
        fits && !(topic.is_dollar && self.plus.first() == Some(&0))
    }

    /// The hash of the filter that this shape makes of a topic that it may match.
    pub(super) fn hash(&self, hasher: &LevelHasher, topic: &DeepLevels) -> u64 {
        let depth = usize::from(self.depth);
        let literal = topic.sums[depth - 1];
        let plus = self.plus.iter().map(|&at| topic.plus[usize::from(at)]);
        let hash = plus.fold(literal, u64::wrapping_add);
        hash.wrapping_add(if self.is_open { hasher.open(depth) } else { 0 })
    }

    /// Whether `filter` is the topic with this shape's wildcards put in.
    pub(super) fn is_of(&self, filter: &[u8], topic: &str, levels: &DeepLevels) -> bool {
        self.strip(filter, topic, levels).is_some_and(<[u8]>::is_empty)
    }

    fn strip<'a>(&self, filter: &'a [u8], topic: &str, levels: &DeepLevels) -> Option<&'a [u8]> {
        let (mut rest, mut level) = (filter, 0);
        let depth = usize::from(self.depth);
        for plus in self.plus.iter().map(|&at| usize::from(at)).chain([depth]) {
            if plus > level {
                rest = rest.strip_prefix(levels.slice(topic, level, plus))?;
                rest = if plus < depth { rest.strip_prefix(b"/")? } else { rest };
            }
            if plus < depth {
                rest = rest.strip_prefix(b"+")?;
                rest = if plus + 1 < depth { rest.strip_prefix(b"/")? } else { rest };
            }
            level = plus + 1;
        }
        if self.is_open { rest.strip_prefix(b"/#") } else { Some(rest) }
    }
}
