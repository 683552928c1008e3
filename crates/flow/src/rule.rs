//! Rules as they are written, checked and compiled.

use crate::condition::{Condition, ConditionError, Expression};
use crate::loops::{RuleEdge, circle};
use crate::template::Template;
use crate::topic::Filter;
use serde::Deserialize;
use std::sync::Arc;

/// How many rules a flow may have.
pub const RULES_MAX: usize = 1000;

/// What a file of rules may be long, in bytes.
pub const FILE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What the name of a rule may be long, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Rules that cannot be used. One line: the rule, the key, the byte within it, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// The file is no TOML, or has a key or a value that no rule has.
    #[error("line {line}, column {column}: {message}")]
    File {
        /// From 1.
        line: usize,
        /// In bytes, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// A key of a rule.
    #[error("rule \"{rule}\": {key}: {message}")]
    Rule {
        /// The name of the rule, or its number from 1 when it has none.
        rule: String,
        /// The key.
        key: &'static str,
        /// What is wrong.
        message: String,
    },
    /// An expression or a template of a rule.
    #[error("rule \"{rule}\": {key}: {error}")]
    Expression {
        /// The name of the rule.
        rule: String,
        /// The key.
        key: &'static str,
        /// Where it is wrong, and what.
        error: ConditionError,
    },
    /// Rules whose messages would come back to them.
    #[error("a loop: {}", arrows(.0))]
    Loop(
        /// The names of the rules; each can feed the next, the last one the first.
        Vec<String>,
    ),
    /// More than [`RULES_MAX`] rules or [`FILE_BYTES_MAX`] bytes.
    #[error("too large: a flow has at most {RULES_MAX} rules and {FILE_BYTES_MAX} bytes")]
    TooLarge,
}

fn arrows(names: &[String]) -> String {
    let first = names.first();
    let all: Vec<String> = names.iter().chain(first).map(|name| format!("\"{name}\"")).collect();
    all.join(" -> ")
}

/// A rule as it is written: a `[[flow]]` of a file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSource {
    /// What logs and counters call it; no two rules of a flow have the same.
    pub name: String,
    /// The topic filter it listens to, `$share/group/` in front if wanted.
    pub from: String,
    /// The QoS it subscribes with; 0 when absent.
    #[serde(default)]
    pub qos: u8,
    /// The condition; absent, each message matches.
    pub when: Option<String>,
    /// The topic of what it publishes, with places for values.
    pub to: Option<String>,
    /// The expression whose value, as JSON, is published; absent, the bytes that came.
    pub payload: Option<String>,
    /// `publish` (with `to`), `drop` or `count`; absent, `publish`.
    pub action: Option<String>,
    /// The QoS it publishes with; absent, that of the message.
    pub publish_qos: Option<u8>,
    /// RETAIN of what it publishes; false when absent.
    pub retain: Option<bool>,
    /// The share of the matches that is let through, over 0 and up to 1; all when absent.
    pub sample: Option<f64>,
    /// How many matches a second are let through, with bursts of a tenth of it; all when absent.
    pub throttle_per_s: Option<f64>,
}

/// The rules of a file; other keys may stand beside them only where the broker reads the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    flow: Vec<RuleSource>,
}

/// Reads the rules of a file.
pub(crate) fn read(toml: &str) -> Result<Vec<RuleSource>, FlowError> {
    if toml.len() > FILE_BYTES_MAX {
        return Err(FlowError::TooLarge);
    }
    let file: File = toml::from_str(toml).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(toml.len()));
        let before = toml.as_bytes().get(..at).unwrap_or(&[]);
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = before.iter().filter(|byte| **byte == b'\n').count();
        let message = error.message().replace('\n', " ");
        FlowError::File { line: lines + 1, column: at - line_start + 1, message }
    })?;
    Ok(file.flow)
}

/// What a rule does with a match that its sample and throttle let through.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    Publish(Arc<Publish>),
    /// Nothing more happens with the message: later rules do not see it.
    Drop,
    /// Nothing; the counters have it.
    Count,
}

/// What is published.
#[derive(Debug)]
pub(crate) struct Publish {
    pub(crate) topic: Template,
    pub(crate) payload: Option<Expression>,
    pub(crate) qos: Option<u8>,
    pub(crate) retain: bool,
}

/// A rule, compiled.
#[derive(Debug, Clone)]
pub struct Rule {
    pub(crate) source: Arc<RuleSource>,
    pub(crate) filter: Filter,
    pub(crate) condition: Option<Arc<Condition>>,
    pub(crate) action: Action,
}

impl Rule {
    /// What logs and counters call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// The topic filter it listens to, `$share/group/` in front if wanted.
    #[must_use]
    pub fn from(&self) -> &str {
        &self.source.from
    }

    /// The QoS it subscribes with.
    #[must_use]
    pub fn qos(&self) -> u8 {
        self.source.qos
    }

    /// Its condition; none takes every message.
    #[must_use]
    pub fn condition(&self) -> Option<&Condition> {
        self.condition.as_deref()
    }

    /// What is odd about it although it can be used: no message can match its condition.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let never = self.condition().filter(|condition| condition.never_matches());
        never.map(|_| format!("{}: no message can match its `when`", self.name()))
    }

    /// The rule as it was written.
    #[must_use]
    pub fn source(&self) -> &RuleSource {
        &self.source
    }

    /// Whether it publishes: what it makes can be none, one message, never more.
    #[must_use]
    pub fn publishes(&self) -> bool {
        matches!(self.action, Action::Publish(_))
    }

    /// Whether a message on this topic is one that it listens to.
    #[must_use]
    pub fn takes(&self, topic: &str) -> bool {
        self.filter.matches(topic)
    }
}

/// Compiles and checks all rules of a flow.
pub(crate) fn compile(sources: Vec<RuleSource>) -> Result<Vec<Rule>, FlowError> {
    if sources.len() > RULES_MAX {
        return Err(FlowError::TooLarge);
    }
    let mut rules: Vec<Rule> = Vec::with_capacity(sources.len());
    for (at, source) in sources.into_iter().enumerate() {
        if source.name.is_empty() || source.name.len() > NAME_BYTES_MAX {
            let message = format!("a name has 1 to {NAME_BYTES_MAX} bytes");
            return Err(FlowError::Rule { rule: (at + 1).to_string(), key: "name", message });
        }
        if rules.iter().any(|rule| rule.name() == source.name) {
            return Err(fault(&source, "name", "another rule has this name"));
        }
        rules.push(rule(source)?);
    }
    let edges: Vec<RuleEdge<'_>> = rules.iter().map(edge).collect();
    match circle(&edges) {
        None => Ok(rules),
        Some(circle) => {
            let names = circle.into_iter().map(|rule| rules[rule].name().to_owned());
            Err(FlowError::Loop(names.collect()))
        }
    }
}

fn edge(rule: &Rule) -> RuleEdge<'_> {
    let to = match &rule.action {
        Action::Publish(publish) => Some(publish.topic.levels()),
        Action::Drop | Action::Count => None,
    };
    RuleEdge { from: &rule.filter, to }
}

fn rule(source: RuleSource) -> Result<Rule, FlowError> {
    let filter = Filter::parse(&source.from).map_err(|message| fault(&source, "from", message))?;
    for (key, qos) in [("qos", Some(source.qos)), ("publish_qos", source.publish_qos)] {
        if qos.is_some_and(|qos| qos > 2) {
            return Err(fault(&source, key, "a QoS is 0, 1 or 2"));
        }
    }
    if source.sample.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
        return Err(fault(&source, "sample", "a share is over 0 and at most 1"));
    }
    if source.throttle_per_s.is_some_and(|per_s| !(per_s > 0.0 && per_s <= 1e9)) {
        return Err(fault(&source, "throttle_per_s", "a rate is over 0 and at most 1e9"));
    }
    let condition = match &source.when {
        None => None,
        Some(when) => Some(Condition::parse(when).map_err(|error| at(&source, "when", error))?),
    };
    let action = action(&source)?;
    Ok(Rule { filter, condition: condition.map(Arc::new), action, source: Arc::new(source) })
}

fn action(source: &RuleSource) -> Result<Action, FlowError> {
    let action = match source.action.as_deref() {
        None | Some("publish") => {
            let Some(to) = &source.to else {
                return Err(fault(source, "to", "a rule that publishes needs a topic"));
            };
            let topic = Template::parse(to).map_err(|error| at(source, "to", error))?;
            let payload = source.payload.as_deref().map(Expression::parse).transpose();
            let payload = payload.map_err(|error| at(source, "payload", error))?;
            let retain = source.retain.unwrap_or(false);
            let publish = Publish { topic, payload, qos: source.publish_qos, retain };
            return Ok(Action::Publish(Arc::new(publish)));
        }
        Some("drop") => Action::Drop,
        Some("count") => Action::Count,
        Some(_) => return Err(fault(source, "action", "it is publish, drop or count")),
    };
    let unused = [
        ("to", source.to.is_some()),
        ("payload", source.payload.is_some()),
        ("publish_qos", source.publish_qos.is_some()),
        ("retain", source.retain.is_some()),
    ];
    match unused.into_iter().find(|(_, there)| *there) {
        Some((key, _)) => Err(fault(source, key, "only a rule that publishes has it")),
        None => Ok(action),
    }
}

fn fault(source: &RuleSource, key: &'static str, message: &str) -> FlowError {
    FlowError::Rule { rule: source.name.clone(), key, message: message.to_owned() }
}

fn at(source: &RuleSource, key: &'static str, error: ConditionError) -> FlowError {
    FlowError::Expression { rule: source.name.clone(), key, error }
}
