//! What a user may publish and read: a policy as a value.
//!
//! A client has the rights of its user: the rules of the user's own, or those of anonymous clients,
//! and then the patterns that hold for all. Whatever no rule grants is denied.

mod rules;
mod table;

pub(crate) use table::{Known, RightsTable, User};

use rules::{Names, Rule, Rules, matches};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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

/// The rights of all users. Made by a [`PolicyBuilder`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    anonymous: Rules,
    users: BTreeMap<Box<str>, Rules>,
    patterns: Rules,
    sys_readers: SysReaders,
    /// What no rule says anything of is allowed.
    is_free: bool,
}

/// Who may read what the broker says of itself below `$SYS`, as far as the policy lets them, and
/// beside those who may do everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SysReaders {
    /// Everybody.
    #[default]
    All,
    /// Clients that have a user name.
    Users,
    /// Clients of these users.
    These(BTreeSet<String>),
}

impl SysReaders {
    fn has(&self, user: &User) -> bool {
        match (self, user) {
            (Self::All, _) | (Self::Users, User::Named(_)) => true,
            (Self::Users | Self::These(_), User::Anonymous) => false,
            (Self::These(users), User::Named(name)) => users.contains(&**name),
        }
    }
}

/// Whether a topic or filter is about what the broker says of itself. No wildcard of a filter that
/// begins otherwise matches it [MQTT-4.7.2-1].
fn is_of_sys(topic: &str) -> bool {
    topic.strip_prefix("$SYS").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Who vouches for a client: it is ended when that counts no more
/// ([`crate::Shard::end_clients_vouched_for`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voucher {
    /// The broker, of which it is a part.
    Broker,
    /// Whoever has signed its token.
    Tokens,
    /// A service.
    Service,
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
pub struct OwnRules(Arc<[Rule]>);

impl OwnRules {
    /// In this order.
    ///
    /// # Errors
    /// A filter is none.
    pub fn new<'a>(rules: impl IntoIterator<Item = (Grant, &'a str)>) -> Result<Self, NoFilter> {
        let rules = rules.into_iter().map(|(grant, filter)| Rule::new(grant, filter));
        rules.collect::<Result<_, _>>().map(Self)
    }

    fn decide(&self, deed: Deed, topic: &str) -> Option<bool> {
        let says = |rule: &&Rule| rule.grant.is_about(deed) && matches(&rule.filter, topic, None);
        self.0.iter().find(says).map(|rule| !rule.grant.denies())
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
        let users = self.users.into_iter().map(|(user, rules)| (user, Rules::new(rules, false)));
        Policy {
            anonymous: Rules::new(self.anonymous, false),
            users: users.collect(),
            patterns: Rules::new(self.patterns, true),
            ..Policy::default()
        }
    }
}

impl Policy {
    /// One that lets everybody do everything.
    pub fn free() -> Self {
        Self { is_free: true, ..Self::default() }
    }

    /// The same, but that no others read what is below `$SYS`.
    pub fn with_sys_readers(self, sys_readers: SysReaders) -> Self {
        Self { sys_readers, ..self }
    }

    /// The rights of a user's clients; `own` are rules of one of them. A client that has some may
    /// do no more than a rule says, whoever else is free.
    pub(crate) fn of(&self, user: &User, own: Option<OwnRules>) -> Rights {
        let rules = match user {
            User::Anonymous => Some(&self.anonymous),
            User::Named(name) => self.users.get(name),
        };
        Rights {
            user: user.clone(),
            reads_sys: self.sys_readers.has(user),
            is_free: self.is_free && own.is_none(),
            own: own.unwrap_or_default(),
            rules: rules.cloned().unwrap_or_default(),
            patterns: self.patterns.clone(),
        }
    }
}

/// What the clients of one user may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    user: User,
    /// Whether they may read what is below `$SYS`, as far as rules let them.
    reads_sys: bool,
    /// What no rule says anything of is allowed.
    is_free: bool,
    /// Of one client, looked at first.
    own: OwnRules,
    rules: Rules,
    patterns: Rules,
}

impl Rights {
    pub(crate) fn allow(&self, deed: Deed, client_id: &str, topic: &str) -> bool {
        if !self.reads_sys && deed == Deed::Read && is_of_sys(topic) {
            return false;
        }
        let decided = self.own.decide(deed, topic).or_else(|| self.rules.decide(deed, topic, None));
        decided.unwrap_or_else(|| {
            let names = self.names(client_id);
            let decided = names.is_some().then(|| self.patterns.decide(deed, topic, names));
            decided.flatten().unwrap_or(self.is_free)
        })
    }

    /// Whether every topic of a filter may be read, as far as that can be told soon.
    pub(crate) fn covers(&self, client_id: &str, filter: &str) -> bool {
        if !self.own.0.is_empty() || (!self.reads_sys && is_of_sys(filter)) {
            return false;
        }
        self.rules.cover(filter, None).unwrap_or_else(|| {
            let names = self.names(client_id);
            let decided = names.is_some().then(|| self.patterns.cover(filter, names));
            decided.flatten().unwrap_or(self.is_free)
        })
    }

    /// What patterns name the client by. A name that is a wildcard would reach what is not its own.
    fn names<'a>(&'a self, client_id: &'a str) -> Names<'a> {
        let user = self.user.name();
        let is_wild = |name: &str| name.contains(['+', '#']);
        (!is_wild(client_id) && !user.is_some_and(is_wild)).then_some((client_id, user))
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

#[cfg(test)]
mod tests;
