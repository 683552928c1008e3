//! The ports to what looks into messages: conditions of subscriptions, and rules that make further
//! messages. The core knows nothing of their language.

use std::fmt;
use weir_wire::{Properties, QoS};

use crate::Micros;

/// A message as a port sees it.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// Where it was published.
    pub topic: &'a str,
    /// What was published.
    pub payload: &'a [u8],
    /// The properties that are passed on; user properties are among them.
    pub properties: Properties<'a>,
    /// With which QoS it was published.
    pub qos: QoS,
    /// Whether it was published as retained, or comes from the retained store.
    pub retain: bool,
}

/// The conditions of content-filtered subscriptions. The shard counts who needs one: a slot is
/// compiled once, checked at most once a message, and released when nobody needs it. What it counts
/// of its own is in its `Debug`, for the shell's log.
pub trait ConditionEvaluator: fmt::Debug + Send {
    /// Compiles `text` into a slot that is free. Slots are small numbers, given again after their
    /// release. Returns what whoever asks for it is told although it can be used.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    fn compile(&mut self, slot: u32, text: &str) -> Result<Option<Warning>, InvalidCondition>;

    /// Forgets the condition of a slot.
    fn release(&mut self, slot: u32);

    /// Says of each condition asked, all at once, whether the message is wanted. What cannot be
    /// evaluated is not.
    ///
    /// All together take a bounded number of steps. Those that cost an equal part of half the bound
    /// at most are checked first. If there are not enough steps for the others, they are given to
    /// `order`, which puts them into the order in which they are checked, and those for which none
    /// are left are left out. Returns the steps taken, as [`crate::Shard::steps`] counts them.
    fn check(
        &mut self,
        message: &Content<'_>,
        asked: &mut [ConditionQuery],
        order: &mut dyn FnMut(&mut [CostlyCondition]),
    ) -> u64;
}

/// What is odd about a condition that can be used, in one line.
pub type Warning = &'static str;

/// A condition that a message is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionQuery {
    /// Which condition, see [`ConditionEvaluator::compile`].
    pub slot: u32,
    /// The answer: false when asked.
    pub holds: bool,
    /// It was not checked, since others had taken the steps: false when asked.
    pub is_left_out: bool,
}

impl ConditionQuery {
    /// Not answered yet.
    pub const fn new(slot: u32) -> Self {
        Self { slot, holds: false, is_left_out: false }
    }
}

/// A condition that costs so much of what a message may take that it has to wait for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostlyCondition {
    /// Which condition, see [`ConditionEvaluator::compile`].
    pub slot: u32,
    /// What it takes at most, in whatever unit the port counts.
    pub steps: u64,
}

/// A condition that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCondition {
    /// What is wrong and where, in one line: the client may be told so.
    pub reason: Box<str>,
}

/// Rules that make further messages of what is published. What they count is in their `Debug`, for
/// the shell's log.
pub trait Rules: fmt::Debug + Send {
    /// Calls `out` with each message that follows from this one. Returns the steps that it took,
    /// as [`crate::Shard::steps`] counts them.
    fn apply(
        &mut self,
        message: &Content<'_>,
        now: Micros,
        out: &mut dyn FnMut(Derived<'_>),
    ) -> u64;
}

/// A message that a rule makes: the broker publishes it, without properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Derived<'a> {
    /// Where it goes.
    pub topic: &'a str,
    /// What is published.
    pub payload: &'a [u8],
    /// With which QoS; the highest that the broker offers, if that is lower.
    pub qos: QoS,
    /// Whether it is retained.
    pub retain: bool,
}
