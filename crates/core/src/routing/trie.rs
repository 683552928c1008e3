//! Topic filters with wildcards, level by level.

use crate::pages::Pages;
use crate::routing::FilterId;
use crate::shrink;
use crate::text::Text;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

const ROOT: usize = 0;

/// A tree of levels in one table of (node, level). A node is there only while a filter ends in it
/// or below it.
#[derive(Debug)]
pub(crate) struct Trie {
    nodes: Pages<Node>,
    /// All nodes but the root, by parent and level.
    children: HashTable<u32>,
    hasher: FixedState,
}

#[derive(Debug)]
struct Node {
    parent: u32,
    level: Text,
    children: u32,
    /// One of the children is `+`.
    has_plus: bool,
    /// The filter that ends here.
    filter: Option<FilterId>,
    /// The filter that ends here with `/#`.
    open: Option<FilterId>,
}

impl Node {
    fn new(parent: usize, level: &str) -> Self {
        let (parent, level) = (parent as u32, level.into());
        Self { parent, level, children: 0, has_plus: false, filter: None, open: None }
    }

    fn is_unused(&self) -> bool {
        self.children == 0 && self.filter.is_none() && self.open.is_none()
    }
}

impl Trie {
    pub(crate) fn new(seed: u64) -> Self {
        let mut nodes = Pages::default();
        nodes.insert_at(ROOT, Node::new(ROOT, ""));
        Self { nodes, children: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    pub(crate) fn insert(&mut self, filter: &str, id: FilterId) {
        let mut at = ROOT;
        for level in filter.split('/') {
            if level == "#" {
                self.nodes[at].open = Some(id);
                return;
            }
            at = self.child(at, level).unwrap_or_else(|| self.insert_child(at, level));
        }
        self.nodes[at].filter = Some(id);
    }

    fn insert_child(&mut self, at: usize, level: &str) -> usize {
        let child = self.nodes.insert(Node::new(at, level));
        self.nodes[at].children += 1;
        self.nodes[at].has_plus |= level == "+";
        let Self { nodes, children, hasher } = self;
        let place = |&child: &u32| place_of(hasher, &nodes[child as usize]);
        children.insert_unique(place(&(child as u32)), child as u32, place);
        child
    }

    fn child(&self, at: usize, level: &str) -> Option<usize> {
        let is_it = |&child: &u32| {
            let node = &self.nodes[child as usize];
            node.parent as usize == at && node.level.as_bytes() == level.as_bytes()
        };
        let place = place(&self.hasher, at as u32, level.as_bytes());
        self.children.find(place, is_it).map(|&child| child as usize)
    }

    pub(crate) fn remove(&mut self, filter: &str) {
        let mut at = ROOT;
        for level in filter.split('/') {
            if level == "#" {
                self.nodes[at].open = None;
                return self.prune(at);
            }
            let Some(child) = self.child(at, level) else { return };
            at = child;
        }
        self.nodes[at].filter = None;
        self.prune(at);
    }

    /// Removes the nodes that nothing ends in any more, from `at` upwards.
    fn prune(&mut self, mut at: usize) {
        while at != ROOT && self.nodes[at].is_unused() {
            let Self { nodes, children, hasher } = self;
            let place = |&child: &u32| place_of(hasher, &nodes[child as usize]);
            let number = at as u32;
            if let Ok(entry) = children.find_entry(place(&number), |&child| child == number) {
                entry.remove();
            }
            shrink::table(children, place);
            let Some(node) = nodes.take(at) else { return };
            at = node.parent as usize;
            nodes[at].children -= 1;
            nodes[at].has_plus &= node.level.as_bytes() != b"+";
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.len() == 1 && self.children.is_empty() && self.nodes[ROOT].is_unused()
    }

    /// Appends every filter that matches `topic`.
    pub(crate) fn find(&self, topic: &str, found: &mut Vec<FilterId>) {
        self.find_from(ROOT, topic, topic.starts_with('$'), found);
    }

    /// Depth is bounded by the levels of the longest filter.
    fn find_from(&self, at: usize, rest: &str, is_dollar: bool, found: &mut Vec<FilterId>) {
        let node = &self.nodes[at];
        let (level, rest) = first_level(rest);
        if !is_dollar {
            found.extend(node.open);
            if node.has_plus
                && let Some(child) = self.child(at, "+")
            {
                self.find_below(child, rest, found);
            }
        }
        if node.children > u32::from(node.has_plus)
            && let Some(child) = self.child(at, level)
        {
            self.find_below(child, rest, found);
        }
    }

    /// What ends in `at` if the topic does, or is found further down.
    fn find_below(&self, at: usize, rest: Option<&str>, found: &mut Vec<FilterId>) {
        let Some(rest) = rest else {
            let node = &self.nodes[at];
            found.extend(node.filter);
            // `a/#` matches `a`.
            return found.extend(node.open);
        };
        // Below the first level a wildcard may match anything.
        self.find_from(at, rest, false, found);
    }
}

/// The hash of a child's place in the tree.
fn place(hasher: &FixedState, parent: u32, level: &[u8]) -> u64 {
    hasher.hash_one((parent, level))
}

fn place_of(hasher: &FixedState, node: &Node) -> u64 {
    place(hasher, node.parent, node.level.as_bytes())
}

/// The first level and what follows it. Levels are short: a plain loop beats a vectored search.
fn first_level(topic: &str) -> (&str, Option<&str>) {
    match topic.bytes().position(|byte| byte == b'/') {
        Some(at) => (&topic[..at], Some(&topic[at + 1..])),
        None => (topic, None),
    }
}
