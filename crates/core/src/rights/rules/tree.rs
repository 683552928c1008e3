//! Many rules, by the levels of their filters: what they say of a topic takes as long as it has
//! levels, however many rules there are.

use super::{Deed, Names, Rule, Said, is_apart, past, past_any};
use smallvec::{SmallVec, smallvec};

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RuleTree {
    /// The first is the root.
    nodes: Vec<Node>,
    denies: bool,
}

/// Where filters are that begin with the same levels. Places among the nodes; 0 is none.
#[derive(Debug, Default, PartialEq, Eq)]
struct Node {
    /// By those that end here.
    here: Said,
    /// By those whose next level is `#`.
    below: Said,
    /// In their order.
    levels: Vec<(Box<str>, u32)>,
    any: u32,
    client_id: u32,
    user: u32,
}

/// Nodes on the way, each with the levels of the topic that are left.
type Open<'a> = SmallVec<[(u32, Option<&'a str>); 8]>;

impl RuleTree {
    /// With `has_names`, `%c` and `%u` stand for names.
    pub(super) fn new(rules: &[Rule], has_names: bool) -> Self {
        let denies = rules.iter().any(|rule| rule.grant.denies());
        let mut tree = Self { nodes: vec![Node::default()], denies };
        rules.iter().for_each(|rule| tree.add(rule, has_names));
        tree
    }

    /// Whether a rule denies anything.
    pub(super) fn denies(&self) -> bool {
        self.denies
    }

    fn add(&mut self, rule: &Rule, has_names: bool) {
        let (mut at, said) = (0, Said::by(rule.grant));
        for level in rule.filter.split('/') {
            let (new, node) = (self.nodes.len(), &mut self.nodes[at]);
            let place = match level {
                "#" => {
                    node.below |= said;
                    return;
                }
                "+" => &mut node.any,
                "%c" if has_names => &mut node.client_id,
                "%u" if has_names => &mut node.user,
                _ => node.level_mut(level),
            };
            if *place == 0 {
                *place = new as u32;
            }
            at = *place as usize;
            if at == new {
                self.nodes.push(Node::default());
            }
        }
        self.nodes[at].here |= said;
    }

    /// What all rules that match the topic say.
    pub(super) fn said(&self, topic: &str, names: Names<'_>) -> Said {
        let mut said = Said::default();
        let mut open: Open<'_> = smallvec![(0, Some(topic))];
        while let Some((at, rest)) = open.pop() {
            let node = &self.nodes[at as usize];
            let is_apart = at == 0 && is_apart(topic);
            if !is_apart {
                said |= node.below;
            }
            match rest {
                None => said |= node.here,
                Some(rest) => node.open(rest, is_apart, names, &mut open),
            }
        }
        said
    }

    /// Whether one rule lets every topic of the filter be read.
    pub(super) fn covers(&self, filter: &str, names: Names<'_>) -> bool {
        let reads = |said: Said| said.decide(Deed::Read) == Some(true);
        let mut open: Open<'_> = smallvec![(0, Some(filter))];
        while let Some((at, rest)) = open.pop() {
            let node = &self.nodes[at as usize];
            let is_apart = at == 0 && is_apart(filter);
            if reads(node.below) && !is_apart || rest.is_none() && reads(node.here) {
                return true;
            }
            if let Some(rest) = rest {
                node.open(rest, is_apart, names, &mut open);
            }
        }
        false
    }
}

impl Node {
    fn level_mut(&mut self, level: &str) -> &mut u32 {
        let found = self.levels.binary_search_by(|(known, _)| (**known).cmp(level));
        let at = found.unwrap_or_else(|before| {
            self.levels.insert(before, (level.into(), 0));
            before
        });
        &mut self.levels[at].1
    }

    fn level(&self, level: &str) -> u32 {
        let found = self.levels.binary_search_by(|(known, _)| (**known).cmp(level));
        found.map_or(0, |found| self.levels[found].1)
    }

    /// Adds the nodes that the next level leads to.
    fn open<'a>(&self, rest: &'a str, is_apart: bool, names: Names<'_>, open: &mut Open<'a>) {
        let mut add = |at: u32, rest: Option<Option<&'a str>>| {
            if let Some(rest) = rest.filter(|_| at != 0) {
                open.push((at, rest));
            }
        };
        let (level, left) = match rest.split_once('/') {
            Some((level, left)) => (level, Some(left)),
            None => (rest, None),
        };
        add(self.level(level), Some(left));
        if is_apart {
            return;
        }
        add(self.any, past_any(rest));
        if let Some((client_id, user)) = names {
            if self.client_id != 0 {
                add(self.client_id, past(rest, client_id));
            }
            if let Some(user) = user.filter(|_| self.user != 0) {
                add(self.user, past(rest, user));
            }
        }
    }
}
