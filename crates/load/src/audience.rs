//! Who hears whom: every subscriber's and every shared group's publishers, found at plan time.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use weir_wire::topic::TopicFilter;

/// The publishers whose topic one filter matches, sorted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Audience {
    publishers: Vec<u32>,
    is_contiguous: bool,
}

impl Audience {
    fn new(publishers: Vec<u32>) -> Self {
        let is_contiguous = match (publishers.first(), publishers.last()) {
            (Some(first), Some(last)) => (last - first) as usize + 1 == publishers.len(),
            _ => true,
        };
        Self { publishers, is_contiguous }
    }

    pub(crate) fn publishers(&self) -> &[u32] {
        &self.publishers
    }

    /// The publisher's place among those heard.
    #[inline]
    pub(crate) fn place(&self, publisher: u32) -> Option<usize> {
        if self.is_contiguous {
            let place = publisher.checked_sub(*self.publishers.first()?)? as usize;
            (place < self.publishers.len()).then_some(place)
        } else {
            self.publishers.binary_search(&publisher).ok()
        }
    }
}

/// All audiences of a plan, each filter's once.
#[derive(Debug)]
pub(crate) struct Audiences {
    audiences: Vec<Audience>,
    by_filter: HashMap<Box<str>, u32, FixedState>,
    by_topic: HashMap<Box<str>, Vec<u32>, FixedState>,
    by_union: HashMap<Vec<u32>, u32, FixedState>,
}

impl Audiences {
    /// `topics` are the publishers' topics, in the order of publishers.
    pub(crate) fn new<'a>(topics: impl Iterator<Item = &'a str>) -> Self {
        let mut by_topic: HashMap<Box<str>, Vec<u32>, FixedState> = HashMap::default();
        for (publisher, topic) in topics.enumerate() {
            by_topic.entry(topic.into()).or_default().push(publisher as u32);
        }
        Self {
            audiences: Vec::new(),
            by_filter: HashMap::default(),
            by_topic,
            by_union: HashMap::default(),
        }
    }

    pub(crate) fn get(&self, index: u32) -> &Audience {
        &self.audiences[index as usize]
    }

    /// The audience of a filter (without `$share`).
    pub(crate) fn of(&mut self, filter: TopicFilter<'_>) -> u32 {
        if let Some(&index) = self.by_filter.get(filter.filter) {
            return index;
        }
        let mut publishers = if filter.has_wildcard() {
            let matching = self.by_topic.iter().filter(|(topic, _)| filter.matches(topic));
            matching.flat_map(|(_, publishers)| publishers.iter().copied()).collect()
        } else {
            self.by_topic.get(filter.filter).cloned().unwrap_or_default()
        };
        publishers.sort_unstable();
        let index = self.audiences.len() as u32;
        self.audiences.push(Audience::new(publishers));
        self.by_filter.insert(filter.filter.into(), index);
        index
    }

    /// The audience of several filters together, each publisher once; nothing for no filter.
    pub(crate) fn union(&mut self, mut indices: Vec<u32>) -> Option<u32> {
        indices.sort_unstable();
        indices.dedup();
        if indices.len() <= 1 {
            return indices.first().copied();
        }
        if let Some(&index) = self.by_union.get(&indices) {
            return Some(index);
        }
        let heard = indices.iter().flat_map(|&index| self.get(index).publishers());
        let mut publishers: Vec<u32> = heard.copied().collect();
        publishers.sort_unstable();
        publishers.dedup();
        let index = self.audiences.len() as u32;
        self.audiences.push(Audience::new(publishers));
        self.by_union.insert(indices, index);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_and_wildcard_filters_find_their_publishers() {
        let mut audiences = Audiences::new(["t/1", "t/2", "u/1", "t/1"].into_iter());
        let exact = audiences.of(TopicFilter::parse("t/1").unwrap());
        let wild = audiences.of(TopicFilter::parse("t/#").unwrap());
        assert_eq!(audiences.get(exact).publishers(), [0, 3]);
        assert_eq!(audiences.get(wild).publishers(), [0, 1, 3]);
        assert_eq!(audiences.get(exact).place(3), Some(1));
        assert_eq!(audiences.get(wild).place(2), None);
        assert_eq!(audiences.of(TopicFilter::parse("t/#").unwrap()), wild);
        let other = audiences.of(TopicFilter::parse("+/1").unwrap());
        let union = audiences.union(vec![wild, other]).unwrap();
        assert_eq!(audiences.get(union).publishers(), [0, 1, 2, 3]);
        assert_eq!(audiences.union(vec![other, wild, other]), Some(union));
        assert_eq!(audiences.union(vec![exact]), Some(exact));
        assert_eq!(audiences.union(Vec::new()), None);
    }
}
