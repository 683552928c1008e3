//! Conditions over topic, user properties and JSON payload, and rules of what to do with a match.
//!
//! A [`Condition`] is an expression of CEL, compiled once. Tests of presence and comparisons run on
//! a flat index of the payload's bytes, without a tree; the rest is given to the interpreter of the
//! `cel` crate. Both say the same. A [`Flow`] is the rules of a file: a condition each, and what is
//! published then. A message that cannot be judged is a [`Fault`] of a kind, never a crash.
//!
//! No I/O, no clock, no thread: `now` is given. The broker and `weir flow` call it.

mod condition;
mod fault;
mod flow;
mod json;
mod loops;
mod number;
mod pace;
mod path;
mod rule;
mod template;
mod topic;

pub use condition::{
    BRACKETS_DEPTH_MAX, Condition, ConditionError, EXPRESSION_BYTES_MAX, EXPRESSION_TOKENS_MAX,
    Expression, Message, Reading, STEPS_MAX, STEPS_PER_MESSAGE_MAX, Scratch, Verdict,
};
pub use fault::{Fault, Faults};
pub use flow::{Applied, Flow, Output, RuleCounts};
pub use json::{PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX};
pub use rule::{FILE_BYTES_MAX, FlowError, RULES_MAX, Rule, RuleSource};
pub use template::TEMPLATE_BYTES_MAX;

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Condition>();
    shared::<Flow>();
    shared::<Scratch>();
};
