//! Between the reactor and the core: a connection's token is its key, its output is the sink.

use crate::log::Log;
use std::net::SocketAddr;
use weir_core::{ConnKey, Mail, Micros, Notice, Shard, ShardId, Sink};
use weir_reactor::{Closed, Handler, Io, Token};

/// One shard and its log, as the handler of a reactor.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) shard: Shard,
    log: Log,
}

impl Shell {
    pub(crate) fn new(shard: Shard) -> Self {
        Self { shard, log: Log::default() }
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, io: &mut Io) {
        let now = Micros(io.turn_us());
        self.shard.handle_timeout(now, &mut Output { io, log: &mut self.log });
    }

    /// Ends every connection.
    pub(crate) fn stop(&mut self, io: &mut Io) {
        let now = Micros(io.turn_us());
        self.shard.stop(now, &mut Output { io, log: &mut self.log });
    }
}

/// The sink of a shard for one call.
struct Output<'a> {
    io: &'a mut Io,
    log: &'a mut Log,
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
        self.io.close(Token(conn.0));
    }

    fn hand_over(&mut self, conn: ConnKey, to: ShardId) {
        // Unreachable while there is one shard; ending the connection is the harmless answer.
        tracing::error!(conn = conn.0, shard = to.0, "no such shard to hand a connection to");
        self.io.close(Token(conn.0));
    }

    fn mail(&mut self, to: ShardId, _mail: Mail) {
        tracing::error!(shard = to.0, "no such shard to send mail to");
    }

    fn notice(&mut self, notice: Notice<'_>) {
        self.log.write(notice, Micros(self.io.turn_us()));
    }
}

impl Handler for Shell {
    fn accepted(&mut self, io: &mut Io, token: Token, _peer: SocketAddr) {
        self.shard.opened(ConnKey(token.0), Micros(io.turn_us()));
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let now = Micros(io.turn_us());
        self.shard.received(ConnKey(token.0), bytes, now, &mut Output { io, log: &mut self.log })
    }

    fn drained(&mut self, io: &mut Io, token: Token) {
        let now = Micros(io.turn_us());
        self.shard.drained(ConnKey(token.0), now, &mut Output { io, log: &mut self.log });
    }

    fn closed(&mut self, io: &mut Io, token: Token, _cause: Closed) {
        let now = Micros(io.turn_us());
        self.shard.closed(ConnKey(token.0), now, &mut Output { io, log: &mut self.log });
    }

    fn turn_end(&mut self, io: &mut Io) {
        if self.shard.poll_timeout().is_some_and(|due| due.0 <= io.turn_us()) {
            self.handle_timeout(io);
        }
    }
}
