//! Paths into a payload.

use crate::Fault;
use crate::json::{Json, Kind, Name};

/// One segment down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// `.name` or `["name"]`.
    Field(Name),
    /// `[0]`.
    Item(usize),
}

/// The way from the payload to one of its values; without a segment it is the payload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Path {
    pub(crate) segments: Vec<Segment>,
}

impl Path {
    /// The place of the value.
    ///
    /// # Errors
    /// [`Fault::NoField`] where a segment leads nowhere, [`Fault::WrongType`] where it starts at a
    /// value that has no fields or elements.
    pub(crate) fn find(&self, json: &Json<'_>) -> Result<usize, Fault> {
        self.segments.iter().try_fold(0, |at, segment| {
            let kind = json.entry(at).map(|entry| entry.kind);
            match (segment, kind) {
                (Segment::Field(name), Some(Kind::Object)) => json.member(at, name),
                (Segment::Item(index), Some(Kind::Array)) => json.elements(at).nth(*index),
                _ => return Err(Fault::WrongType),
            }
            .ok_or(Fault::NoField)
        })
    }
}
