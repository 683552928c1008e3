//! What a carrier is to whoever has letters, and they to it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use weir_cluster::{SLOTS, Slot};
use weir_reactor::{Closed, Waker};

/// Nodes of a cluster at most.
pub(crate) const NODES_MAX: usize = SLOTS as usize;

/// Where a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    /// Its addresses for other nodes, the best first; none while they are not known.
    pub addresses: Vec<SocketAddr>,
    /// Whom its certificate is for: a name or an address. Only TLS asks.
    pub host: String,
}

/// Whether it is the same addresses, in any order: who is asked for a name may answer in another
/// each time.
pub(crate) fn are_same(known: &[SocketAddr], found: &[SocketAddr]) -> bool {
    known.len() == found.len() && found.iter().all(|address| known.contains(address))
}

/// Carries frames between this node and others.
pub trait Carrier {
    /// What wakes the thread that waits in [`Carrier::turn`].
    fn waker(&self) -> Waker;

    /// The node of this slot belongs to it from now on, and is there.
    fn join(&mut self, node: Slot, at: NodeAddress);

    /// Whether this node is to connect to that one, and is not connected: whoever knows where it is
    /// now says so by [`Carrier::found`].
    fn seeks(&self, node: Slot) -> bool;

    /// A node that belongs to it has these addresses now. A connection that there is stays.
    fn found(&mut self, node: Slot, addresses: &[SocketAddr]);

    /// It does not any more.
    fn leave(&mut self, node: Slot);

    /// One turn. Waits at most `timeout` for something to happen, `None` is for ever; tells `post`
    /// what has; then lets everything leave that was sent.
    ///
    /// # Errors
    /// What the system says of the thread's own means; connections end by themselves.
    fn turn(&mut self, timeout: Option<Duration>, post: &mut dyn Post) -> io::Result<()>;
}

/// What is told of connections, in their order.
pub trait Post {
    /// There is a connection with this node, and nothing has passed on it.
    fn peer_up(&mut self, out: &mut dyn Outlet, node: Slot);

    /// It is lost; another one is made.
    fn peer_down(&mut self, out: &mut dyn Outlet, node: Slot, lost: Lost);

    /// Bytes came from this node, those that were not taken the last time first. Returns how many
    /// are taken.
    fn received(&mut self, out: &mut dyn Outlet, node: Slot, bytes: &[u8]) -> usize;

    /// All that came in this turn was told; what is sent now leaves in it.
    fn turn_end(&mut self, out: &mut dyn Outlet);
}

/// Where a post sends, and what it wants of its connections.
pub trait Outlet {
    /// Sends bytes to this node, whole frames. Nothing happens where there is no connection.
    fn send(&mut self, node: Slot, frames: &[u8]);

    /// Whether it is worth while to send more to this node now: what is sent beyond waits in
    /// memory. It is asked again in later turns, of which there will be one when that has changed.
    fn has_room(&self, node: Slot) -> bool;

    /// Gives the connection up, as the peer breaks the protocol or is silent. [`Post::peer_down`]
    /// is not called for it.
    fn renew(&mut self, node: Slot);

    /// Takes nothing of this node for now: it will feel that.
    fn pause(&mut self, node: Slot);

    /// Takes what comes of it again.
    fn resume(&mut self, node: Slot);
}

/// Why a connection is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// It has ended so.
    Closed(Closed),
    /// The node has made another one.
    Replaced,
}

impl fmt::Display for Lost {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(Closed::ByPeer) => out.write_str("the other node has closed it"),
            Self::Closed(Closed::Error(errno)) => write!(out, "{}", io::Error::from(*errno)),
            Self::Closed(Closed::Transport(error)) => write!(out, "{error}"),
            Self::Replaced => out.write_str("the other node has made another one"),
        }
    }
}
