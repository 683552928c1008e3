//! What was handled of another shard's letters, as a record.

use super::Record;
use crate::outbox::{Handling, Mark};

impl Record<'_> {
    /// The record that says it.
    pub(crate) fn of_mark(Mark { from, number, handling }: Mark) -> Record<'static> {
        match handling {
            Handling::Whole => Record::Marked { from, number },
            Handling::Refused => Record::Refused { from, number },
            Handling::PutOff => Record::PutOff { from, number },
            Handling::Mailed => Record::MarkedFar { from, number },
        }
    }

    /// What it says, if it is one.
    pub(crate) fn as_mark(&self) -> Option<Mark> {
        let (from, number, handling) = match *self {
            Record::Marked { from, number } => (from, number, Handling::Whole),
            Record::Refused { from, number } => (from, number, Handling::Refused),
            Record::PutOff { from, number } => (from, number, Handling::PutOff),
            Record::MarkedFar { from, number } => (from, number, Handling::Mailed),
            _ => return None,
        };
        Some(Mark { from, number, handling })
    }
}
