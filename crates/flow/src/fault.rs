//! Why a condition or a rule could not say yes or no of a message, and how often.

/// A message that a condition or a rule cannot judge: for a condition it is no match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Fault {
    /// The payload is no JSON text (RFC 8259), no UTF-8, or has half of a surrogate pair.
    #[error("the payload is not JSON")]
    NotJson,
    /// The payload is longer than [`crate::PAYLOAD_BYTES_MAX`].
    #[error("the payload is too large")]
    TooLarge,
    /// The payload nests deeper than [`crate::PAYLOAD_DEPTH_MAX`].
    #[error("the payload nests too deep")]
    TooDeep,
    /// A field, an element, a user property or a level of the topic is not there.
    #[error("there is no such field")]
    NoField,
    /// A value is of a type that the operation does not take.
    #[error("a value is of the wrong type")]
    WrongType,
    /// A division by zero or a result that no integer holds.
    #[error("a result is out of range")]
    OutOfRange,
    /// The expression would do more steps on this payload than [`crate::STEPS_MAX`], or all so far
    /// more than [`crate::STEPS_PER_MESSAGE_MAX`].
    #[error("the expression is too costly for this payload")]
    TooCostly,
    /// A value cannot stand in a topic: empty, or with `/`, `+`, `#` or a control character.
    #[error("a value cannot stand in a topic")]
    BadTopic,
    /// The payload made is longer than [`crate::PAYLOAD_BYTES_MAX`].
    #[error("the payload made is too large")]
    ResultTooLarge,
}

impl Fault {
    /// Every kind, in the order of their counters.
    pub const ALL: [Self; 9] = [
        Self::NotJson,
        Self::TooLarge,
        Self::TooDeep,
        Self::NoField,
        Self::WrongType,
        Self::OutOfRange,
        Self::TooCostly,
        Self::BadTopic,
        Self::ResultTooLarge,
    ];

    /// A name for counters and logs: lower case, words joined by `_`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotJson => "not_json",
            Self::TooLarge => "too_large",
            Self::TooDeep => "too_deep",
            Self::NoField => "no_field",
            Self::WrongType => "wrong_type",
            Self::OutOfRange => "out_of_range",
            Self::TooCostly => "too_costly",
            Self::BadTopic => "bad_topic",
            Self::ResultTooLarge => "result_too_large",
        }
    }
}

/// How often each kind of fault came up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    counts: [u64; Fault::ALL.len()],
}

impl Faults {
    /// Counts one.
    pub fn add(&mut self, fault: Fault) {
        self.counts[fault as usize] += 1;
    }

    /// How often this kind came up.
    #[must_use]
    pub const fn of(&self, fault: Fault) -> u64 {
        self.counts[fault as usize]
    }

    /// How often any kind came up.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }

    /// The kinds that came up, with how often.
    pub fn iter(&self) -> impl Iterator<Item = (Fault, u64)> + '_ {
        Fault::ALL.into_iter().map(|fault| (fault, self.of(fault))).filter(|(_, count)| *count > 0)
    }
}
