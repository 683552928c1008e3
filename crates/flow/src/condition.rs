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
use cost::{CALL_STEPS, STEPS_WITHOUT_TREE};
use plan::{Outcome, Plan};
use tree::{Functions, Tree};

pub use cost::{STEPS_MAX, STEPS_PER_MESSAGE_MAX};
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
    /// What expressions may still take, all together.
    steps_left: u64,
}

/// Why an expression was not evaluated to its end.
#[derive(Debug)]
enum Halt {
    Fault(Fault),
    /// It takes more steps than it was given: so many at most.
    Steps(u64),
}

impl From<Fault> for Halt {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Halt> for Fault {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Fault(fault) => fault,
            Halt::Steps(_) => Self::TooCostly,
        }
    }
}

impl<'a> Reading<'a> {
    /// Evaluates a condition; one that takes more steps than are left is too costly.
    pub fn check(&mut self, condition: &Condition) -> Verdict {
        let checked = self.check_within(condition, u64::MAX);
        checked.unwrap_or(Verdict::Invalid(Fault::TooCostly))
    }

    /// Evaluates a condition if it takes at most so many steps, and no more than are left.
    ///
    /// # Errors
    /// So many steps it would take at most, out of [`STEPS_PER_MESSAGE_MAX`]. One that could never
    /// be evaluated on this message is [`Fault::TooCostly`] instead.
    #[inline]
    pub fn check_within(&mut self, condition: &Condition, steps_max: u64) -> Result<Verdict, u64> {
        let checked = match &condition.plan {
            Some(plan) => self.planned(plan, condition.reads_payload(), steps_max),
            None => self.interpreted(condition, steps_max),
        };
        match checked {
            Ok(verdict) => Ok(verdict),
            Err(Halt::Fault(fault)) => Ok(Verdict::Invalid(fault)),
            Err(Halt::Steps(steps)) => Err(steps),
        }
    }

    /// Evaluates a condition by the interpreter, whether or not there is a shorter way.
    #[doc(hidden)]
    pub fn check_by_interpreter(&mut self, condition: &Condition) -> Verdict {
        let checked = self.interpreted(condition, u64::MAX);
        checked.unwrap_or_else(|halt| Verdict::Invalid(halt.into()))
    }

    /// Steps that are left of the message's.
    #[must_use]
    pub fn steps_left(&self) -> u64 {
        self.steps_left
    }

    #[inline]
    fn take(&mut self, steps: u64, steps_max: u64) -> Result<(), Halt> {
        if steps <= steps_max.min(self.steps_left) {
            self.steps_left -= steps;
            return Ok(());
        }
        let is_possible = steps <= STEPS_PER_MESSAGE_MAX;
        Err(if is_possible { Halt::Steps(steps) } else { Halt::Fault(Fault::TooCostly) })
    }

    fn planned(
        &mut self,
        plan: &Plan,
        reads_payload: bool,
        steps_max: u64,
    ) -> Result<Verdict, Halt> {
        let text = match reads_payload {
            true => self.text()?,
            false => "",
        };
        let values = self.values(reads_payload);
        let texts = if reads_payload { values - self.index.len() as u64 } else { values };
        self.take(plan.steps(values, texts), steps_max)?;
        let json = self.index.json(text);
        Ok(match plan.run(self.message, &json, self.slots) {
            Outcome::True => Verdict::Match,
            Outcome::False => Verdict::NoMatch,
            Outcome::NotBool => Verdict::Invalid(Fault::WrongType),
            Outcome::Fault(fault) => Verdict::Invalid(fault),
        })
    }

    fn interpreted(&mut self, condition: &Condition, steps_max: u64) -> Result<Verdict, Halt> {
        let expression = &condition.expression;
        let holds = self.tree(expression, steps_max)?.test(&expression.compiled)?;
        Ok(if holds { Verdict::Match } else { Verdict::NoMatch })
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
        self.tree(made, u64::MAX)?.write(&made.compiled, out)
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
    fn tree(&mut self, expression: &Expression, steps_max: u64) -> Result<&Tree, Halt> {
        let text = match expression.reads_payload {
            true => Some(self.text()?),
            false => None,
        };
        let steps = expression.cost.allow(self.values(expression.reads_payload))?;
        self.take((steps + CALL_STEPS) * STEPS_WITHOUT_TREE, steps_max)?;
        let functions = self.functions.get_or_insert_default();
        let tree = self.tree.get_or_insert_with(|| Tree::of(self.message, functions));
        if let Some(text) = text {
            tree.read(&self.index.json(text));
        }
        Ok(tree)
    }
}
