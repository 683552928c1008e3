//! What a user may publish and read: a policy as a value.
//!
//! A client has the rights of its user: the rules of the user's own, or those of anonymous clients,
//! and then the patterns that hold for all. Whatever no rule grants is denied.

mod table;

pub(crate) use table::{RightsTable, User};

use std::collections::BTreeMap;
use std::sync::Arc;
use weir_wire::topic::TopicFilter;

/// What a rule says of the topics that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grant {
    /// Neither, whatever other rules of the same list say.
    Deny,
    /// They may not be read.
    DenyRead,
    /// They may not be published to.
    DenyWrite,
    /// They may be read.
    Read,
    /// They may be published to.
    Write,
    /// Both.
    ReadWrite,
}

/// What a client is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Read,
    Write,
}

/// A topic filter and what it grants.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    grant: Grant,
    filter: Box<str>,
}

/// Rules in the order in which they are looked at: what denies comes first.
type RuleList = Arc<[Rule]>;

/// The rights of all users. Made by a [`PolicyBuilder`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    anonymous: RuleList,
    users: BTreeMap<Box<str>, RuleList>,
    patterns: RuleList,
}

/// What one client may do by its own terms, beside the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OwnRights {
    /// What the policy lets its user, and everything without one.
    #[default]
    Policy,
    /// Everything, whatever the policy says.
    All,
    /// What these rules say. The policy is asked where none of them says anything, and without one
    /// the rest is denied.
    Rules(OwnRules),
}

/// Rules of one client, of which the first that has something to say counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnRules(RuleList);

impl OwnRules {
    /// In this order.
    ///
    /// # Errors
    /// A filter is none.
    pub fn new<'a>(rules: impl IntoIterator<Item = (Grant, &'a str)>) -> Result<Self, NoFilter> {
        let rules = rules.into_iter().map(|(grant, filter)| Rule::new(grant, filter));
        rules.collect::<Result<_, _>>().map(Self)
    }
}

/// A policy under construction.
#[derive(Debug, Default)]
pub struct PolicyBuilder {
    anonymous: Vec<Rule>,
    users: BTreeMap<Box<str>, Vec<Rule>>,
    patterns: Vec<Rule>,
}

/// A text that is no topic filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoFilter;

impl PolicyBuilder {
    /// A rule of one user, or with no user of clients without one.
    ///
    /// # Errors
    /// The filter is none.
    pub fn rule(&mut self, user: Option<&str>, grant: Grant, filter: &str) -> Result<(), NoFilter> {
        let rule = Rule::new(grant, filter)?;
        match user {
            None => self.anonymous.push(rule),
            Some(user) => self.users.entry(user.into()).or_default().push(rule),
        }
        Ok(())
    }

    /// A rule for every client, in which a level `%c` stands for its client identifier, and a level
    /// `%u` for its user name.
    ///
    /// # Errors
    /// The filter is none.
    pub fn pattern(&mut self, grant: Grant, filter: &str) -> Result<(), NoFilter> {
        self.patterns.push(Rule::new(grant, filter)?);
        Ok(())
    }

    /// The policy of all rules so far.
    pub fn build(self) -> Policy {
        let users = self.users.into_iter().map(|(user, rules)| (user, listed(rules)));
        Policy {
            anonymous: listed(self.anonymous),
            users: users.collect(),
            patterns: listed(self.patterns),
        }
    }
}

fn listed(mut rules: Vec<Rule>) -> RuleList {
    // A stable sort: what does not deny keeps its order, which nobody can tell.
    rules.sort_by_key(|rule| !rule.grant.denies());
    rules.into()
}

impl Policy {
    /// The rights of a user's clients that have these rules of their own.
    pub(crate) fn of(&self, user: &User, own: OwnRules) -> Rights {
        let rules = match user {
            User::Anonymous => Some(&self.anonymous),
            User::Named(name) => self.users.get(name),
        };
        Rights {
            user: user.clone(),
            own,
            rules: rules.cloned().unwrap_or_default(),
            patterns: Arc::clone(&self.patterns),
        }
    }
}

/// What the clients of one user may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    user: User,
    /// Of one client, looked at first.
    own: OwnRules,
    rules: RuleList,
    patterns: RuleList,
}

impl Rights {
    pub(crate) fn allow(&self, deed: Deed, client_id: &str, topic: &str) -> bool {
        let user = self.user.name();
        let said_by = |rules| decide(rules, deed, topic, |filter| matches(filter, topic, None));
        said_by(&self.own.0).or_else(|| said_by(&self.rules)).unwrap_or_else(|| {
            // A name that is a wildcard would reach what is not its own.
            let is_wild = |name: &str| name.contains(['+', '#']);
            if is_wild(client_id) || user.is_some_and(is_wild) {
                return false;
            }
            let names = Some((client_id, user));
            decide(&self.patterns, deed, topic, |filter| matches(filter, topic, names))
                .unwrap_or(false)
        })
    }
}

/// What the first rule says that has something to say.
fn decide(rules: &[Rule], deed: Deed, topic: &str, matches: impl Fn(&str) -> bool) -> Option<bool> {
    let is_about = |rule: &&Rule| {
        // Only a rule that names a topic below `$` is about one.
        topic.starts_with('$') == rule.filter.starts_with('$')
            && rule.grant.is_about(deed)
            && matches(&rule.filter)
    };
    rules.iter().find(is_about).map(|rule| !rule.grant.denies())
}

impl Rule {
    fn new(grant: Grant, filter: &str) -> Result<Self, NoFilter> {
        TopicFilter::parse(filter).ok_or(NoFilter)?;
        Ok(Self { grant, filter: filter.into() })
    }
}

impl Grant {
    fn denies(self) -> bool {
        matches!(self, Self::Deny | Self::DenyRead | Self::DenyWrite)
    }

    fn is_about(self, deed: Deed) -> bool {
        match self {
            Self::Deny | Self::ReadWrite => true,
            Self::DenyRead | Self::Read => deed == Deed::Read,
            Self::DenyWrite | Self::Write => deed == Deed::Write,
        }
    }
}

/// Whether a topic matches a filter, in which the names of a client and its user stand for `%c` and
/// `%u` if they are given. A name may have more than one level.
fn matches(filter: &str, topic: &str, names: Option<(&str, Option<&str>)>) -> bool {
    let mut rest = Some(topic);
    for level in filter.split('/') {
        let name = match (level, names) {
            ("#", _) => return true,
            ("%c", Some((client_id, _))) => client_id,
            ("%u", Some((_, Some(user)))) => user,
            ("%u", Some((_, None))) => return false,
            _ => level,
        };
        let Some(left) = rest else { return false };
        rest = if level == "+" {
            left.split_once('/').map(|(_, left)| left)
        } else {
            match left.strip_prefix(name) {
                Some("") => None,
                Some(left) if left.starts_with('/') => Some(&left[1..]),
                _ => return false,
            }
        };
    }
    rest.is_none()
}

#[cfg(test)]
mod tests;
