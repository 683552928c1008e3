//! Topic filters with wildcards, level by level.

use crate::routing::FilterId;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use slab::Slab;

const ROOT: usize = 0;

/// A tree of levels. A node is there only while a filter ends in it or below it.
#[derive(Debug)]
pub(crate) struct Trie {
    nodes: Slab<Node>,
    seed: u64,
}

#[derive(Debug)]
struct Node {
    children: HashMap<Box<str>, usize, FixedState>,
    plus: Option<usize>,
    /// The filter that ends here.
    filter: Option<FilterId>,
    /// The filter that ends here with `/#`.
    hash: Option<FilterId>,
}

impl Node {
    fn new(seed: u64) -> Self {
        Self {
            children: HashMap::with_hasher(FixedState::with_seed(seed)),
            plus: None,
            filter: None,
            hash: None,
        }
    }

    fn is_empty(&self) -> bool {
        self.children.is_empty()
            && self.plus.is_none()
            && self.filter.is_none()
            && self.hash.is_none()
    }
}

impl Trie {
    pub(crate) fn new(seed: u64) -> Self {
        let mut nodes = Slab::new();
        nodes.insert(Node::new(seed));
        Self { nodes, seed }
    }

    pub(crate) fn insert(&mut self, filter: &str, id: FilterId) {
        let mut at = ROOT;
        for level in filter.split('/') {
            if level == "#" {
                self.nodes[at].hash = Some(id);
                return;
            }
            at = self.child_or_insert(at, level);
        }
        self.nodes[at].filter = Some(id);
    }

    fn child_or_insert(&mut self, at: usize, level: &str) -> usize {
        if let Some(child) = self.child(at, level) {
            return child;
        }
        let child = self.nodes.insert(Node::new(self.seed));
        let node = &mut self.nodes[at];
        if level == "+" {
            node.plus = Some(child);
        } else {
            node.children.insert(level.into(), child);
        }
        child
    }

    fn child(&self, at: usize, level: &str) -> Option<usize> {
        let node = &self.nodes[at];
        if level == "+" { node.plus } else { node.children.get(level).copied() }
    }

    pub(crate) fn remove(&mut self, filter: &str) {
        let mut path = Vec::new();
        let mut at = ROOT;
        for level in filter.split('/') {
            if level == "#" {
                self.nodes[at].hash = None;
                self.prune(&path, at);
                return;
            }
            let Some(child) = self.child(at, level) else { return };
            path.push((at, level));
            at = child;
        }
        self.nodes[at].filter = None;
        self.prune(&path, at);
    }

    /// Removes the nodes that nothing ends in any more, from `at` up along `path`.
    fn prune(&mut self, path: &[(usize, &str)], mut at: usize) {
        for &(parent, level) in path.iter().rev() {
            if !self.nodes[at].is_empty() {
                return;
            }
            self.nodes.remove(at);
            let node = &mut self.nodes[parent];
            if level == "+" {
                node.plus = None;
            } else {
                node.children.remove(level);
            }
            at = parent;
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.len() == 1 && self.nodes[ROOT].is_empty()
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
            push(found, node.hash);
            if let Some(child) = node.plus {
                self.find_below(child, rest, found);
            }
        }
        if let Some(&child) = node.children.get(level) {
            self.find_below(child, rest, found);
        }
    }

    /// What ends in `at` if the topic does, or is found further down.
    fn find_below(&self, at: usize, rest: Option<&str>, found: &mut Vec<FilterId>) {
        let Some(rest) = rest else {
            let node = &self.nodes[at];
            push(found, node.filter);
            // `a/#` matches `a`.
            return push(found, node.hash);
        };
        // Below the first level a wildcard may match anything.
        self.find_from(at, rest, false, found);
    }
}

fn push(found: &mut Vec<FilterId>, id: Option<FilterId>) {
    if let Some(id) = id {
        found.push(id);
    }
}

/// The first level and what follows it. Levels are short: a plain loop beats a vectored search.
fn first_level(topic: &str) -> (&str, Option<&str>) {
    match topic.bytes().position(|byte| byte == b'/') {
        Some(at) => (&topic[..at], Some(&topic[at + 1..])),
        None => (topic, None),
    }
}
