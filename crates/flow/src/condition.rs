//! Expressions: compiled once, evaluated on messages.

mod check;
mod cost;
mod never;
mod operators;
mod plan;
mod resolve;
mod source;
mod tree;

use crate::Fault;
use crate::json::{Index, Json};
use crate::path::Path;
use plan::{Outcome, Plan};
use tree::{Functions, Tree};

pub use cost::{PLAIN_STEPS_PER_MESSAGE_MAX, STEPS_MAX, STEPS_PER_MESSAGE_MAX};
pub use source::{BRACKETS_DEPTH_MAX, EXPRESSION_BYTES_MAX, EXPRESSION_TOKENS_MAX};

/// A message as conditions see it, wherever it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The topic name.
    pub topic: &'a str,
    /// The payload, JSON or not.
    pub payload: &'a [u8],
    /// 0, 1 or 2.
    pub qos: u8,
    /// RETAIN.
    pub retain: bool,
    /// Names and values; of those with the same name the last one counts.
    pub user_properties: &'a [(&'a str, &'a str)],
}

impl<'a> Message<'a> {
    pub(crate) fn property(&self, name: &str) -> Option<&'a str> {
        let wanted = self.user_properties.iter().rfind(|(key, _)| *key == name);
        wanted.map(|(_, value)| *value)
    }
}

/// An expression that cannot be used: one line, with the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {message}")]
pub struct ConditionError {
    /// The byte of the expression where it is wrong, from 0.
    pub at: usize,
    /// What is wrong.
    pub message: String,
}

impl ConditionError {
    pub(crate) fn new(at: usize, message: impl Into<String>) -> Self {
        Self { at, message: message.into() }
    }
}

/// What a condition says of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// True.
    Match,
    /// False.
    NoMatch,
    /// It cannot be told; to be treated as no match, and counted.
    Invalid(Fault),
}

/// An expression of any type, compiled.
#[derive(Debug)]
pub struct Expression {
    text: String,
    compiled: tree::Compiled,
    cost: cost::Cost,
    reads_payload: bool,
    /// The path that it is, where it is nothing else.
    path: Option<Path>,
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The first thing that is wrong: the grammar, a name, a type, or a bound.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        Ok(Self::compile(text)?.0)
    }

    fn compile(text: &str) -> Result<(Self, check::Type), ConditionError> {
        source::check(text)?;
        let compiled = tree::Compiled::parse(text)?;
        let checked = check::check(text, compiled.root(), compiled.places())?;
        let cost = cost::Cost::of(compiled.root())?;
        let path = plan::path(compiled.root());
        let reads_payload = checked.reads_payload;
        let expression = Self { text: text.to_owned(), compiled, cost, reads_payload, path };
        Ok((expression, checked.of))
    }

    /// The expression as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// A compiled expression that is true or false of a message. Cheap to share between threads.
#[derive(Debug)]
pub struct Condition {
    expression: Expression,
    /// How to evaluate it without a tree, where that can be.
    plan: Option<Plan>,
}

impl Condition {
    /// Compiles a condition.
    ///
    /// # Errors
    /// The first thing that is wrong: the grammar, a name, a type, or a bound.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let (expression, of) = Expression::compile(text)?;
        if !of.fits(check::Type::Bool) {
            let message = format!("a condition is true or false, this is {}", of.name());
            let start = text.len() - text.trim_start().len();
            return Err(ConditionError::new(start, message));
        }
        let plan = Plan::of(expression.compiled.root());
        Ok(Self { expression, plan })
    }

    /// The condition as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        self.expression.text()
    }

    /// Whether it runs without a tree of the payload, so that it allocates nothing.
    #[must_use]
    pub fn is_fast(&self) -> bool {
        self.plan.is_some()
    }

    /// Whether it is false of every message, as far as that can be told: a mistake, most likely.
    #[must_use]
    pub fn never_matches(&self) -> bool {
        never::is_never_true(self.expression.compiled.root())
    }

    /// Whether it looks at the payload at all; one that does not takes any bytes.
    #[must_use]
    pub fn reads_payload(&self) -> bool {
        self.expression.reads_payload
    }

    /// Evaluates it. For several conditions on one message see [`Scratch::reading`].
    pub fn check(&self, message: &Message<'_>, scratch: &mut Scratch) -> Verdict {
        scratch.reading(message).check(self)
    }
}

/// The memory of a thread that evaluates; it keeps what it grew to.
#[derive(Debug, Default)]
pub struct Scratch {
    index: Index,
    slots: Vec<u32>,
    /// What the interpreter calls, once it was needed.
    functions: Option<Functions>,
}

impl Scratch {
    /// Begins with a message, whose payload is read at most once for all that is asked of it.
    pub fn reading<'a>(&'a mut self, message: &'a Message<'a>) -> Reading<'a> {
        let Self { index, slots, functions } = self;
        Reading {
            message,
            index,
            slots,
            functions,
            beside: cost::values_beside(message),
            text: None,
            tree: None,
            steps_left: STEPS_PER_MESSAGE_MAX,
            plain_steps_left: PLAIN_STEPS_PER_MESSAGE_MAX,
        }
    }
}

/// One message, with what was read of it so far.
#[derive(Debug)]
pub struct Reading<'a> {
    message: &'a Message<'a>,
    index: &'a mut Index,
    slots: &'a mut Vec<u32>,
    functions: &'a mut Option<Functions>,
    /// How much there is to look at beside the payload.
    beside: u64,
    /// The payload as text, once it was read.
    text: Option<Result<&'a str, Fault>>,
    /// What the interpreter sees, once it was needed.
    tree: Option<Tree>,
    /// What expressions that build a tree may still cost, all together.
    steps_left: u64,
    /// What conditions that build none may still cost.
    plain_steps_left: u64,
}

impl<'a> Reading<'a> {
    /// Evaluates a condition.
    pub fn check(&mut self, condition: &Condition) -> Verdict {
        match &condition.plan {
            Some(plan) => self.planned(plan, condition.reads_payload()),
            None => self.interpreted(condition),
        }
    }

    /// Evaluates a condition by the interpreter, whether or not there is a shorter way.
    #[doc(hidden)]
    pub fn check_by_interpreter(&mut self, condition: &Condition) -> Verdict {
        self.interpreted(condition)
    }

    fn planned(&mut self, plan: &Plan, reads_payload: bool) -> Verdict {
        let text = match reads_payload {
            true => self.text(),
            false => Ok(""),
        };
        let text = match text {
            Ok(text) => text,
            Err(fault) => return Verdict::Invalid(fault),
        };
        match self.plain_steps_left.checked_sub(plan.steps(self.values(reads_payload))) {
            Some(left) => self.plain_steps_left = left,
            None => return Verdict::Invalid(Fault::TooCostly),
        }
        let json = self.index.json(text);
        match plan.run(self.message, &json, self.slots) {
            Outcome::True => Verdict::Match,
            Outcome::False => Verdict::NoMatch,
            Outcome::NotBool => Verdict::Invalid(Fault::WrongType),
            Outcome::Fault(fault) => Verdict::Invalid(fault),
        }
    }

    fn interpreted(&mut self, condition: &Condition) -> Verdict {
        let expression = &condition.expression;
        match self.tree(expression).and_then(|tree| tree.test(&expression.compiled)) {
            Ok(true) => Verdict::Match,
            Ok(false) => Verdict::NoMatch,
            Err(fault) => Verdict::Invalid(fault),
        }
    }

    /// The payload, read.
    pub(crate) fn json(&mut self) -> Result<Json<'_>, Fault> {
        let text = self.text()?;
        Ok(self.index.json(text))
    }

    /// Appends the value of an expression as JSON.
    ///
    /// A plain path (`payload.p`) keeps the bytes as they came; all else is written anew.
    pub(crate) fn write(&mut self, made: &Expression, out: &mut Vec<u8>) -> Result<(), Fault> {
        if let Some(path) = &made.path {
            let json = self.json()?;
            let entry = json.entry(path.find(&json)?).ok_or(Fault::NoField)?;
            out.extend_from_slice(json.whole(entry).as_bytes());
            return Ok(());
        }
        self.tree(made)?.write(&made.compiled, out)
    }

    fn text(&mut self) -> Result<&'a str, Fault> {
        match self.text {
            Some(text) => text,
            None => *self.text.insert(self.index.read(self.message.payload)),
        }
    }

    /// How much there is to look at, in the payload too if that was read for it.
    fn values(&self, reads_payload: bool) -> u64 {
        let payload = self.message.payload;
        let within = if reads_payload { cost::values_of(payload, self.index.len()) } else { 0 };
        self.beside + within
    }

    /// What the interpreter sees, if the expression is not too costly for it.
    fn tree(&mut self, expression: &Expression) -> Result<&Tree, Fault> {
        let text = match expression.reads_payload {
            true => Some(self.text()?),
            false => None,
        };
        let steps = expression.cost.allow(self.values(expression.reads_payload))?;
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(Fault::TooCostly)?;
        let functions = self.functions.get_or_insert_default();
        let tree = self.tree.get_or_insert_with(|| Tree::of(self.message, functions));
        if let Some(text) = text {
            tree.read(&self.index.json(text));
        }
        Ok(tree)
    }
}
