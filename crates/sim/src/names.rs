//! Numbers of things, kept from being mixed up.

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
            pub struct $name(pub usize);
        )*
    };
}

numbers! {
    /// A client of the simulation.
    ClientNo,
    /// A connection, counted over the whole run: never used again, unlike the core's key.
    ConnNo,
    /// A message that a client published or left as its will.
    MessageNo,
    /// A session, from its CONNECT to its end.
    SessionNo,
    /// A subscription, from its first SUBSCRIBE to its end.
    SubscriptionNo,
    /// A call of a shard from outside. The letters that follow from it, and from those, bear its
    /// number, so that it is known when all that it set off is done.
    Root,
}

impl ClientNo {
    /// The client identifier on the wire.
    pub fn client_id(self) -> String {
        format!("client-{}", self.0)
    }

    /// The client with this identifier.
    pub fn of(client_id: &str) -> Option<Self> {
        client_id.strip_prefix("client-")?.parse().ok().map(Self)
    }
}
