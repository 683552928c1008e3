//! Paths into a payload.

use crate::Fault;
use crate::json::{Json, Kind, Name};

/// One step down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// `.name` or `["name"]`.
    Field(Name),
    /// `[0]`.
    Item(usize),
}

/// The way from the payload to one of its values; without a step it is the payload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Path {
    pub(crate) steps: Vec<Step>,
}

impl Path {
    /// The place of the value.
    ///
    /// # Errors
    /// [`Fault::NoField`] where a step leads nowhere, [`Fault::WrongType`] where it starts at a value
    /// that has no fields or elements.
    pub(crate) fn find(&self, json: &Json<'_>) -> Result<usize, Fault> {
        self.steps.iter().try_fold(0, |at, step| {
            let kind = json.entry(at).map(|entry| entry.kind);
            match (step, kind) {
                (Step::Field(name), Some(Kind::Object)) => json.member(at, name),
                (Step::Item(index), Some(Kind::Array)) => json.elements(at).nth(*index),
                _ => return Err(Fault::WrongType),
            }
            .ok_or(Fault::NoField)
        })
    }
}
