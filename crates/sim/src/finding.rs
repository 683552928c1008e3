//! What a checker found.

use std::fmt;

/// The checkers, each with a file of its own in `check/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Checker {
    /// Messages come in the order of their publishing.
    Order,
    /// What was acknowledged reaches who subscribed.
    Loss,
    /// Nothing comes more often than it was published.
    Duplication,
    /// Session Present is true, and only then.
    Session,
    /// Packet identifiers, DUP and the Receive Maximum.
    InFlight,
    /// What a new subscription gets of the retained messages.
    Retained,
    /// Wills are published when they are due.
    Wills,
    /// One member of a group gets a message.
    Shared,
    /// Every request is answered, in order.
    Answers,
    /// Connections end when they must, and not before.
    Lifetime,
    /// Nothing is sent that has expired.
    Expiry,
    /// What is over leaves nothing behind.
    Balance,
    /// A log says what it said when it was written.
    Recovery,
    /// One input took too many steps. No fault of the host's makes the core do so, and it is not in
    /// [`Checker::ALL`].
    Steps,
    /// The core panicked. Not a checker of its own, and not in [`Checker::ALL`].
    Panic,
}

impl Checker {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Order,
        Self::Loss,
        Self::Duplication,
        Self::Session,
        Self::InFlight,
        Self::Retained,
        Self::Wills,
        Self::Shared,
        Self::Answers,
        Self::Lifetime,
        Self::Expiry,
        Self::Balance,
        Self::Recovery,
    ];
}

/// A fault of the broker, or of the model.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which checker found it.
    pub checker: Checker,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
