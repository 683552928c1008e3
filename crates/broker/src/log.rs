//! What the core has to say of its clients, in the log, at a bounded rate.
//!
//! A line of a connection begins with its peer's address, its user and its client identifier, as
//! far as they are known. The address is taken at accept and kept until CONNECT is answered; later
//! the system is asked for it, which knows it until a connection is reset. So a connection that is
//! at rest costs nothing here.

mod bound;

use crate::drops::{Drops, is_usual};
use crate::host::host_of;
use crate::shrink;
use bound::Bound;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::Arc;
use tracing::field::{DisplayValue, display};
use tracing::{Level, debug, info, warn};
use weir_core::{ConnKey, Micros, Notice};
use weir_reactor::{Closed, Io, Token, UNIX_PEER};
use weir_wire::ReasonCode;

/// The target of lines that clients cause: `--log-level info,clients=warn` shows fewer of them.
pub const CLIENTS: &str = "clients";

/// Lines of a fault of one kind in one second.
const FAULTS_PER_SECOND: u32 = 10;

/// Lines of clients that come in one second, and of those that go.
const CLIENTS_PER_SECOND: u32 = 100;

/// Bytes of a name or a detail that a line shows; a client chooses how long its names are. Control
/// characters are escaped where the line is made, at most six times as long.
const SHOWN_BYTES_MAX: usize = 128;

/// As much of `text` as a line shows.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)]
}

/// As much of a user name as a line shows. A token is a secret: whoever reads the log could use it.
fn cut_user(name: &str) -> &str {
    if weir_access::is_token(name.as_bytes()) { "(a token)" } else { cut(name) }
}

/// A name, if there is one.
fn named(text: &str) -> Option<&str> {
    (!text.is_empty()).then(|| cut(text))
}

/// Writes notices through `tracing`. A flood of them costs a counter, not a line each.
#[derive(Debug)]
pub(crate) struct Log {
    connected: Bound,
    left: Bound,
    ended: Bound,
    refused: Bound,
    left_out: Bound,
    dropped: Bound,
    /// What was dropped and refused lately, where somebody may ask.
    drops: Option<Box<Drops>>,
    /// Peers whose CONNECT is not answered yet, or whose address the system does not know.
    peers: Peers,
    /// How many lines got lost behind this.
    lost: LostLines,
}

/// What was known of a connection when something happened to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known<'a> {
    /// The user that it claimed to be by other means than the user name of its CONNECT.
    pub(crate) user: Option<&'a str>,
    /// Why it ended, if it did not end in good order.
    pub(crate) cause: Option<Closed>,
}

impl Log {
    /// One origin may have `share_percent` of the lines. What is dropped and refused is kept for
    /// whoever asks if `keeps_drops`.
    pub(crate) fn new(lost: LostLines, share_percent: u8, keeps_drops: bool) -> Self {
        let fault = |kind| Bound::new(kind, Level::WARN, FAULTS_PER_SECOND, share_percent);
        let client = |kind| Bound::new(kind, Level::INFO, CLIENTS_PER_SECOND, share_percent);
        Self {
            connected: client("connected"),
            left: client("disconnected"),
            ended: fault("ended"),
            refused: fault("refused a message"),
            left_out: fault("left a condition out"),
            dropped: fault("dropped a message"),
            drops: keeps_drops.then(Box::default),
            peers: HashMap::default(),
            lost,
        }
    }

    /// One origin may have another part of the lines from now on.
    pub(crate) fn set_share(&mut self, share_percent: u8) {
        let Self { connected, left, ended, refused, left_out, dropped, .. } = self;
        for bound in [connected, left, ended, refused, left_out, dropped] {
            bound.set_share(share_percent);
        }
    }

    /// Keeps the notice for whoever asks, if somebody may, and it is of a drop or a refusal.
    pub(crate) fn keep(&mut self, notice: &Notice<'_>) {
        if let Some(drops) = &mut self.drops {
            drops.note(notice);
        }
    }

    /// What was dropped and refused lately; nothing where that is not kept.
    pub(crate) fn drops(&self) -> Option<&Drops> {
        self.drops.as_deref()
    }

    /// A connection is there.
    pub(crate) fn accepted(&mut self, conn: ConnKey, address: SocketAddr) {
        self.peers.insert(conn, Peer { address, is_learnt: false });
    }

    /// The peer of a connection is somewhere else than the end of its socket.
    pub(crate) fn learnt(&mut self, conn: ConnKey, address: SocketAddr) {
        self.peers.insert(conn, Peer { address, is_learnt: true });
    }

    /// Where the peer of a connection is: where its proxy says, else at the end of its socket.
    pub(crate) fn peer_of(&self, conn: ConnKey, io: &mut Io) -> Option<SocketAddr> {
        peer_of(&self.peers, Some(conn), io)
    }

    /// Where the peer of a connection is whose CONNECT is not answered.
    pub(crate) fn peer(&self, conn: ConnKey) -> Option<SocketAddr> {
        self.peers.get(&conn).map(|peer| peer.address)
    }

    /// The connection comes from another shard.
    pub(crate) fn arrived(&mut self, conn: ConnKey, peer: Peer) {
        self.peers.insert(conn, peer);
    }

    /// The connection is over, or goes to another shard, which is told its address.
    pub(crate) fn forget(&mut self, conn: ConnKey) -> Option<Peer> {
        let peer = self.peers.remove(&conn)?;
        shrink::table(&mut self.peers);
        Some(peer)
    }

    /// Its CONNECT is answered: from now on the system is asked where the peer is, if it knows.
    fn answered(&mut self, conn: ConnKey, io: &mut Io) -> Option<SocketAddr> {
        let peer = peer_of(&self.peers, Some(conn), io);
        if self.peers.get(&conn).is_some_and(|peer| !peer.is_learnt) {
            self.forget(conn);
        }
        peer
    }

    /// A connection is cut that is not even told why.
    pub(crate) fn cut(&mut self, peer: SocketAddr, reason: &str, now: Micros) {
        if self.ended.allows(now, || origin(&self.peers, Some(peer), "")) {
            let peer = shown(peer);
            warn!(target: CLIENTS, peer, message = "cut", reason);
        }
    }

    /// A connection was lost between two threads.
    pub(crate) fn lost(&mut self, peer: Option<Peer>, error: &std::io::Error, now: Micros) {
        let peer = peer.map(|peer| peer.address);
        if self.ended.allows(now, || origin(&self.peers, peer, "")) {
            let (peer, error) = (peer.map(shown), display(error));
            warn!(target: CLIENTS, peer, message = "lost on its way between threads", error);
        }
    }

    /// `io` has the connections.
    pub(crate) fn write(&mut self, notice: Notice<'_>, known: Known<'_>, now: Micros, io: &mut Io) {
        match notice {
            Notice::Connected { conn, client_id, user_name, session_present } => {
                let peer = self.answered(conn, io);
                if !self.connected.allows(now, || origin(&self.peers, peer, client_id)) {
                    return;
                }
                let peer = peer.map(shown);
                let user = user_name.or(known.user).map(cut_user);
                let client_id = cut(client_id);
                let message = "connected";
                info!(target: CLIENTS, peer, user, client_id, message, session_present);
            }
            Notice::Left { conn, client_id, reason } => {
                self.left(conn, client_id, reason, known, now, io);
            }
            Notice::Ended { conn, client_id, user_name, was_live, reason, detail } => {
                let is_usual = was_live && is_usual(reason);
                let bound = if is_usual { &mut self.left } else { &mut self.ended };
                let peers = (&self.peers, io);
                let Some(peer) = allowed_peer(bound, peers, (conn, client_id), now) else { return };
                let peer = peer.map(shown);
                let user = known.user.or(user_name).map(cut_user);
                let (client_id, detail) = (named(client_id), named(detail));
                let (message, reason) = (if was_live { "ended" } else { "refused" }, reason.name());
                if is_usual {
                    info!(target: CLIENTS, peer, user, client_id, message, reason, detail);
                } else {
                    warn!(target: CLIENTS, peer, user, client_id, message, reason, detail);
                }
            }
            Notice::SessionEnded { client_id, cause } => {
                if self.ended.allows(now, || origin(&self.peers, None, client_id)) {
                    let client_id = cut(client_id);
                    warn!(target: CLIENTS, client_id, message = "ended an absent session", cause);
                }
            }
            // These are how things are, and would fill the log.
            Notice::Withheld { .. } | Notice::FilterRefused { .. } => {}
            Notice::Moved { partition, to } => {
                info!(partition = partition.0, shard = to.0, "moved a partition");
            }
            Notice::Refused { conn, client_id, topic, reason, detail } => {
                if self.refused.allows(now, || origin(&self.peers, None, client_id)) {
                    let (peer, client_id) =
                        (peer_of(&self.peers, conn, io).map(shown), named(client_id));
                    let (message, topic, reason) = ("refused a message", cut(topic), reason.name());
                    warn!(target: CLIENTS, peer, client_id, message, topic, reason, detail);
                }
            }
            Notice::ConditionLeftOut { client_id, topic, condition } => {
                if self.left_out.allows(now, || origin(&self.peers, None, client_id)) {
                    let (client_id, topic, condition) =
                        (named(client_id), cut(topic), cut(condition));
                    let message = "left a condition out";
                    warn!(target: CLIENTS, client_id, message, topic, condition);
                }
            }
            Notice::Dropped { conn, client_id, topic, cause } => {
                if self.dropped.allows(now, || origin(&self.peers, None, client_id)) {
                    let (peer, client_id) =
                        (peer_of(&self.peers, conn, io).map(shown), cut(client_id));
                    let (message, topic) = ("dropped a message", cut(topic));
                    warn!(target: CLIENTS, peer, client_id, message, topic, cause);
                }
            }
        }
    }

    fn left(
        &mut self,
        conn: ConnKey,
        client_id: &str,
        reason: Option<ReasonCode>,
        known: Known<'_>,
        now: Micros,
        io: &mut Io,
    ) {
        if let (true, Some(Closed::Transport(fault))) = (client_id.is_empty(), known.cause) {
            let peers = (&self.peers, io);
            let allowed = allowed_peer(&mut self.ended, peers, (conn, client_id), now);
            let Some(peer) = allowed else { return };
            let (peer, message, reason) = (peer.map(shown), "ended before CONNECT", fault);
            warn!(target: CLIENTS, peer, message, reason = display(reason));
            return;
        }
        if client_id.is_empty() {
            // Whoever looks whether the port is open comes and goes like this.
            let peer = peer_of(&self.peers, Some(conn), io).map(shown);
            debug!(target: CLIENTS, peer, message = "left without CONNECT");
            return;
        }
        let peers = (&self.peers, io);
        let allowed = allowed_peer(&mut self.left, peers, (conn, client_id), now);
        let Some(peer) = allowed else { return };
        let peer = peer.map(shown);
        let (client_id, message) = (cut(client_id), "disconnected");
        let error;
        let reason = match (reason, known.cause) {
            (Some(ReasonCode::Success), _) => "Normal disconnection",
            (Some(reason), _) => reason.name(),
            (None, None | Some(Closed::ByPeer)) => "closed without DISCONNECT",
            (None, Some(Closed::Error(errno))) => {
                error = errno.to_string();
                &error
            }
            (None, Some(Closed::Transport(fault))) => {
                error = fault.to_string();
                &error
            }
        };
        info!(target: CLIENTS, peer, client_id, message, reason);
    }

    fn bounds(&self) -> [&Bound; 6] {
        let Self { connected, left, ended, refused, left_out, dropped, .. } = self;
        [connected, left, ended, refused, left_out, dropped]
    }

    /// When [`Log::sum_up`] has something to say.
    pub(crate) fn due(&self) -> Option<Micros> {
        self.bounds().into_iter().filter_map(Bound::due).min()
    }

    /// Says what was left out in seconds that are over.
    pub(crate) fn sum_up(&mut self, now: Micros) {
        let Self { connected, left, ended, refused, left_out, dropped, .. } = self;
        let bounds = [connected, left, ended, refused, left_out, dropped];
        bounds.into_iter().for_each(|bound| bound.sum_up(now));
    }

    /// Lines left out, and those that got lost in the whole process.
    pub(crate) fn counts(&self) -> LogCounts {
        let left_out = self.bounds().into_iter().map(|bound| bound.left_out).sum();
        LogCounts { left_out, lost: (self.lost.0)() }
    }
}

/// Where the peer of a connection is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    address: SocketAddr,
    /// By its layers, and not by the system.
    is_learnt: bool,
}

/// A peer as a line shows it: those of unix sockets have no address.
#[derive(Clone, Copy, Debug)]
struct Shown(SocketAddr);

impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == UNIX_PEER { out.write_str("unix") } else { self.0.fmt(out) }
    }
}

fn shown(peer: SocketAddr) -> DisplayValue<Shown> {
    display(Shown(peer))
}

type Peers = HashMap<ConnKey, Peer, RandomState>;

fn peer_of(peers: &Peers, conn: Option<ConnKey>, io: &mut Io) -> Option<SocketAddr> {
    let conn = conn?;
    peers.get(&conn).map(|peer| peer.address).or_else(|| io.peer(Token(conn.0)))
}

/// The peer of a client that a line may be written about, as far as it is known.
fn allowed_peer(
    bound: &mut Bound,
    (peers, io): (&Peers, &mut Io),
    (conn, client_id): (ConnKey, &str),
    now: Micros,
) -> Option<Option<SocketAddr>> {
    let mut peer = None;
    let is_allowed = bound.allows(now, || {
        peer = peer_of(peers, Some(conn), io);
        origin(peers, peer, client_id)
    });
    is_allowed.then_some(peer)
}

/// Whom a line counts for: an address, or a client identifier where that is not known or the
/// broker's own host's. The table lends its hasher.
fn origin(peers: &Peers, peer: Option<SocketAddr>, client_id: &str) -> u64 {
    match peer.map(|peer| host_of(peer.ip())) {
        Some(host) if !host.is_loopback() => peers.hasher().hash_one(host),
        _ => peers.hasher().hash_one(client_id),
    }
}

/// Lines of the log that nobody will read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogCounts {
    /// By this shard, over its bounds.
    pub(crate) left_out: u64,
    /// By the process' writer, whatever for.
    pub(crate) lost: u64,
}

/// Tells how many lines the process' log has lost.
#[derive(Clone)]
pub(crate) struct LostLines(pub(crate) Arc<dyn Fn() -> u64 + Send + Sync>);

impl Default for LostLines {
    fn default() -> Self {
        Self(Arc::new(|| 0))
    }
}

impl fmt::Debug for LostLines {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("LostLines")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_between_characters() {
        assert_eq!(cut("meter"), "meter");
        assert_eq!(cut(&"\u{1}".repeat(65_535)).len(), SHOWN_BYTES_MAX);
        let name = "\u{20ac}".repeat(100);
        assert_eq!(cut(&name), "\u{20ac}".repeat(SHOWN_BYTES_MAX / 3));
    }
}
