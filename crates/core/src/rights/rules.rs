//! Rules of a policy, of which what denies counts first, and what they say of a topic.

use super::{Deed, Grant, NoFilter};
use std::ops::BitOrAssign;
use std::sync::Arc;
use weir_wire::topic::TopicFilter;

mod tree;

use tree::RuleTree;

/// Up to so many rules are looked at one after the other.
const FEW_MAX: usize = 8;

/// A topic filter and what it grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) grant: Grant,
    pub(super) filter: Box<str>,
}

impl Rule {
    pub(super) fn new(grant: Grant, filter: &str) -> Result<Self, NoFilter> {
        TopicFilter::parse(filter).ok_or(NoFilter)?;
        Ok(Self { grant, filter: filter.into() })
    }
}

/// What stands for `%c` and `%u`: the client identifier and the user name. Nothing where these are
/// levels like others.
pub(super) type Names<'a> = Option<(&'a str, Option<&'a str>)>;

/// The rules of a user, or the patterns for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    Few(Arc<[Rule]>),
    Many(Arc<RuleTree>),
}

impl Default for Rules {
    fn default() -> Self {
        Self::Few(Arc::default())
    }
}

impl Rules {
    /// With `has_names`, `%c` and `%u` stand for names, and these are given whenever they are
    /// asked.
    pub(super) fn new(rules: Vec<Rule>, has_names: bool) -> Self {
        if rules.len() <= FEW_MAX {
            Self::Few(rules.into())
        } else {
            Self::Many(Arc::new(RuleTree::new(&rules, has_names)))
        }
    }

    /// Whether they allow it, if they say anything of the topic.
    pub(super) fn decide(&self, deed: Deed, topic: &str, names: Names<'_>) -> Option<bool> {
        let said = match self {
            Self::Many(tree) => tree.said(topic, names),
            Self::Few(rules) => {
                let mut said = Said::default();
                for rule in rules.iter().filter(|rule| matches(&rule.filter, topic, names)) {
                    said |= Said::by(rule.grant);
                }
                said
            }
        };
        said.decide(deed)
    }

    /// Whether every topic of a filter may be read, as far as that can be told soon; nothing if
    /// they may have nothing to say of some.
    pub(super) fn cover(&self, filter: &str, names: Names<'_>) -> Option<bool> {
        let (denies, grants) = match self {
            Self::Many(tree) => (tree.denies(), tree.covers(filter, names)),
            Self::Few(rules) => {
                let covers = |rule: &Rule| {
                    Said::by(rule.grant).decide(Deed::Read) == Some(true)
                        && matches(&rule.filter, filter, names)
                };
                let denies = |rule: &Rule| rule.grant.denies() && overlaps(&rule.filter, filter);
                (rules.iter().any(denies), rules.iter().any(covers))
            }
        };
        if denies { Some(false) } else { grants.then_some(true) }
    }
}

/// What rules say of a topic, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Said(u8);

impl Said {
    const READ: u8 = 1;
    const WRITE: u8 = 2;
    const DENY_READ: u8 = 4;
    const DENY_WRITE: u8 = 8;

    fn by(grant: Grant) -> Self {
        Self(match grant {
            Grant::Deny => Self::DENY_READ | Self::DENY_WRITE,
            Grant::DenyRead => Self::DENY_READ,
            Grant::DenyWrite => Self::DENY_WRITE,
            Grant::Read => Self::READ,
            Grant::Write => Self::WRITE,
            Grant::ReadWrite => Self::READ | Self::WRITE,
        })
    }

    fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }

    fn decide(self, deed: Deed) -> Option<bool> {
        let (grant, denial) = match deed {
            Deed::Read => (Self::READ, Self::DENY_READ),
            Deed::Write => (Self::WRITE, Self::DENY_WRITE),
        };
        if self.has(denial) { Some(false) } else { self.has(grant).then_some(true) }
    }
}

impl BitOrAssign for Said {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Whether only a rule that names a topic below `$` is about it.
fn is_apart(topic: &str) -> bool {
    topic.starts_with('$')
}

/// Whether all that a topic, or another filter, stands for matches a rule's filter, in which the
/// names of a client and its user stand for `%c` and `%u`. A name may have more than one level.
pub(super) fn matches(rule: &str, topic: &str, names: Names<'_>) -> bool {
    if is_apart(topic) != is_apart(rule) {
        return false;
    }
    let mut rest = Some(topic);
    for level in rule.split('/') {
        let name = match (level, names) {
            ("#", _) => return true,
            ("%c", Some((client_id, _))) => client_id,
            ("%u", Some((_, Some(user)))) => user,
            ("%u", Some((_, None))) => return false,
            _ => level,
        };
        let Some(left) = rest else { return false };
        rest = match if level == "+" { past_any(left) } else { past(left, name) } {
            Some(left) => left,
            None => return false,
        };
    }
    rest.is_none()
}

/// What follows a name at the start of a topic.
fn past<'a>(topic: &'a str, name: &str) -> Option<Option<&'a str>> {
    match topic.strip_prefix(name)? {
        "" => Some(None),
        rest => rest.strip_prefix('/').map(Some),
    }
}

/// What follows the first level; `#` stands for more than one.
fn past_any(topic: &str) -> Option<Option<&str>> {
    (topic != "#").then(|| topic.split_once('/').map(|(_, rest)| rest))
}

/// Whether a topic may match both. A name in a rule may be any.
fn overlaps(rule: &str, filter: &str) -> bool {
    if is_apart(rule) != is_apart(filter) {
        return false;
    }
    let (mut rules, mut filters) = (rule.split('/'), filter.split('/'));
    loop {
        match (rules.next(), filters.next()) {
            (None, None) | (Some("#" | "%c" | "%u"), _) | (_, Some("#")) => return true,
            (None, _) | (_, None) => return false,
            (Some("+"), _) | (_, Some("+")) => {}
            (Some(one), Some(other)) if one == other => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests;
