//! What a reactor calls its connections and listeners.

/// Names a socket of one reactor. It is used again only after the turn in which the socket was
/// closed, so within a turn it never names another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u32);

/// Names a listener, by what its owner calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u16);
