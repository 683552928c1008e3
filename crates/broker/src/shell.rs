//! Between the reactor and the core: a connection's token is its key, its output is the sink.

use crate::auth::Authenticator;
use crate::gate::{Admission, Gate};
use crate::log::Log;
use crate::memory::Memory;
use std::net::SocketAddr;
use weir_core::{AuthRequest, ConnKey, Mail, Micros, Notice, Shard, ShardId, Sink, Verdict};
use weir_reactor::{Closed, Handler, Io, Token};

/// One shard with what its connections have to pass, as the handler of a reactor.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) shard: Shard,
    guard: Guard,
}

/// What the shell decides or keeps beside the shard.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) gate: Gate,
    pub(crate) memory: Memory,
    pub(crate) auth: Authenticator,
    pub(crate) log: Log,
}

impl Guard {
    fn gone(&mut self, conn: ConnKey) {
        self.gate.gone(conn.0);
        self.auth.forget(conn);
    }
}

impl Shell {
    pub(crate) fn new(shard: Shard, guard: Guard) -> Self {
        Self { shard, guard }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, io: &mut Io) {
        let now = Micros(io.turn_us());
        self.shard.handle_timeout(now, &mut Output::new(io, &mut self.guard));
    }

    /// Ends every connection.
    pub(crate) fn stop(&mut self, io: &mut Io) {
        let now = Micros(io.turn_us());
        self.shard.stop(now, &mut Output::new(io, &mut self.guard));
    }

    /// Writes every counter to the log.
    pub(crate) fn log_counters(&self) {
        let (rss_bytes, rss_bytes_max) = self.guard.memory.bytes();
        let (shard, gate) = (self.shard.stats(), self.guard.gate.stats);
        tracing::info!(?shard, ?gate, rss_bytes, rss_bytes_max, "counters");
    }

    fn watch_memory(&mut self, io: &Io) {
        if let Some(is_pressed) = self.guard.memory.watch(Micros(io.turn_us())) {
            let (bytes, bytes_max) = self.guard.memory.bytes();
            if is_pressed {
                tracing::warn!(bytes, bytes_max, "the memory ceiling is near: refusing what grows");
            } else {
                tracing::info!(bytes, bytes_max, "memory is free again");
            }
            self.shard.set_pressed(is_pressed);
        }
    }
}

/// The sink of a shard for one call.
struct Output<'a> {
    io: &'a mut Io,
    guard: &'a mut Guard,
    /// An answer of the authentication port that the shard is still to be told.
    verdict: Option<Verdict>,
}

impl<'a> Output<'a> {
    fn new(io: &'a mut Io, guard: &'a mut Guard) -> Self {
        Self { io, guard, verdict: None }
    }
}

impl Sink for Output<'_> {
    #[inline]
    fn write(&mut self, conn: ConnKey, bytes: &[u8]) {
        self.io.write(Token(conn.0), bytes);
    }

    #[inline]
    fn pending(&self, conn: ConnKey) -> usize {
        self.io.pending(Token(conn.0))
    }

    fn close(&mut self, conn: ConnKey) {
        self.guard.gone(conn);
        self.io.close(Token(conn.0));
    }

    fn hand_over(&mut self, conn: ConnKey, to: ShardId) {
        // Unreachable while there is one shard; ending the connection is the harmless answer.
        tracing::error!(conn = conn.0, shard = to.0, "no such shard to hand a connection to");
        self.close(conn);
    }

    fn mail(&mut self, to: ShardId, _mail: Mail) {
        tracing::error!(shard = to.0, "no such shard to send mail to");
    }

    fn authenticate(&mut self, request: AuthRequest<'_>) {
        self.verdict = Some(self.guard.auth.answer(&request));
    }

    fn notice(&mut self, notice: Notice<'_>) {
        self.guard.log.write(notice, Micros(self.io.turn_us()));
    }
}

impl Handler for Shell {
    fn accepted(&mut self, io: &mut Io, token: Token, peer: SocketAddr) {
        let (conn, now) = (ConnKey(token.0), Micros(io.turn_us()));
        let is_memory_full = self.guard.memory.is_full();
        match self.guard.gate.admit(token.0, peer.ip(), is_memory_full, now) {
            Admission::Serve => self.shard.opened(conn, now),
            Admission::Refuse(reason) => self.shard.opened_refused(conn, reason, now),
            Admission::Cut => io.abort(token),
        }
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        if self.guard.memory.took(bytes.len()) {
            self.watch_memory(io);
        }
        let (conn, now) = (ConnKey(token.0), Micros(io.turn_us()));
        let mut consumed = 0;
        let mut output = Output::new(io, &mut self.guard);
        // Each round answers one step of an authentication, which consumed a packet.
        loop {
            consumed += self.shard.received(conn, &bytes[consumed..], now, &mut output);
            let Some(verdict) = output.verdict.take() else { return consumed };
            self.shard.authenticated(conn, verdict, now, &mut output);
        }
    }

    fn drained(&mut self, io: &mut Io, token: Token) {
        let now = Micros(io.turn_us());
        let mut output = Output::new(io, &mut self.guard);
        self.shard.drained(ConnKey(token.0), now, &mut output);
    }

    fn closed(&mut self, io: &mut Io, token: Token, _cause: Closed) {
        let (conn, now) = (ConnKey(token.0), Micros(io.turn_us()));
        self.guard.gone(conn);
        self.shard.closed(conn, now, &mut Output::new(io, &mut self.guard));
    }

    fn turn_end(&mut self, io: &mut Io) {
        if self.shard.poll_timeout().is_some_and(|due| due.0 <= io.turn_us()) {
            self.handle_timeout(io);
        }
        self.watch_memory(io);
    }
}
