//! What is known of where a node is.

use std::io;
use std::net::SocketAddr;
use weir_core::Micros;

/// How long to wait until a name is looked up again.
pub(super) const AGAIN: Micros = Micros(2_000_000);

/// What `HOST:PORT` stands for: one address or more.
pub(super) type Found = io::Result<Vec<SocketAddr>>;

/// A node's address, if it has to be looked up.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// When its name is to be looked up; nothing while it is, or if it has none.
    pub(super) due: Option<Micros>,
    /// Why that failed the last time.
    failure: Option<String>,
}

impl Search {
    /// Of a node with this address, which may be one already.
    pub(super) fn new(address: &str) -> (Self, Vec<SocketAddr>) {
        let literal = address.parse::<SocketAddr>().ok();
        let due = literal.is_none().then_some(Micros(0));
        (Self { due, failure: None }, literal.into_iter().collect())
    }

    /// Why its name did not resolve the last time.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The address of this node was looked up. Gives what it stands for.
    pub(super) fn heard<'a>(
        &mut self,
        node: &str,
        address: &str,
        found: &'a Found,
        now: Micros,
    ) -> Option<&'a [SocketAddr]> {
        self.due = Some(now + AGAIN);
        match found {
            Ok(addresses) => {
                if self.failure.take().is_some() {
                    tracing::info!(node, address, "the address of a node resolves now");
                }
                Some(addresses)
            }
            Err(error) => {
                if self.failure.replace(error.to_string()).is_none() {
                    tracing::warn!(
                        node,
                        address,
                        "the address of a node does not resolve, so that whatever waits for the \
                         node waits on: {error}; look at its cluster.advertise, and at the name \
                         server of this host"
                    );
                }
                None
            }
        }
    }
}
