//! Where a shell has packets copied, while somebody traces.

use super::{Guard, Output, Shell};
use crate::trace::{Party, Taken, Traces};
use std::net::IpAddr;
use weir_control::TraceWish;
use weir_core::{ConnKey, Notice, Shard};
use weir_reactor::{Io, Token, UNIX_PEER};
use weir_wire::{Frame, Packet, PacketKind, Version};

impl Guard {
    /// A connection goes to another shard.
    pub(super) fn hand_over_traced(&mut self, conn: ConnKey) {
        if let Some(traces) = &mut self.traces {
            traces.hand_over(conn);
        }
    }

    /// A connection is over.
    pub(super) fn forget_traced(&mut self, conn: ConnKey) {
        if let Some(traces) = &mut self.traces {
            traces.forget(conn);
        }
    }
}

impl Shell {
    /// Takes what came, and has those packets copied that were taken.
    #[cold]
    #[inline(never)]
    pub(super) fn received_traced(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let conn = ConnKey(token.0);
        let (shard, mut output) = self.parts(io);
        output.meet_connect(conn, bytes);
        if output.guard.traces.as_ref().is_some_and(|traces| traces.has_topics()) {
            output.meet_traced(conn, shard);
        }
        let traces = self.guard.traces.as_deref();
        let found = traces.map(|traces| traces.look(conn, bytes, &self.shard));
        let place = traces.map_or(0, Traces::place);
        let taken = self.take_in(io, token, bytes);
        if let (Some(traces), Some(found)) = (&mut self.guard.traces, found) {
            traces.came(found, taken, place);
        }
        taken
    }
}

impl Output<'_> {
    fn address(&mut self, conn: ConnKey) -> Option<IpAddr> {
        let peer = self.guard.log.peer_of(conn, self.io);
        peer.filter(|peer| *peer != UNIX_PEER).map(|peer| peer.ip().to_canonical())
    }

    /// Looks at a CONNECT before the shard does, so that it is in the trace itself.
    fn meet_connect(&mut self, conn: ConnKey, bytes: &[u8]) {
        if bytes.first().is_none_or(|first| first >> 4 != PacketKind::Connect as u8) {
            return;
        }
        let Ok(Some(frame)) = Frame::check(bytes, u32::MAX) else { return };
        // It says its own version.
        let Ok(Packet::Connect(connect)) = Packet::decode(Version::V5, frame) else { return };
        let address = self.address(conn);
        let (client_id, version) = (connect.client_id.into(), connect.version);
        let user = self.guard.auth.user(conn).or(connect.user_name).map(Into::into);
        if let Some(traces) = &mut self.guard.traces {
            traces.meet(conn, Party { client_id, user, address, version });
        }
    }

    /// Looks up whose a connection is that nobody has looked up.
    pub(super) fn meet_traced(&mut self, conn: ConnKey, shard: &Shard) {
        if self.guard.traces.as_ref().is_none_or(|traces| !traces.wants(conn)) {
            return;
        }
        let Some(party) = self.party(conn, shard) else { return };
        if let Some(traces) = &mut self.guard.traces {
            traces.meet(conn, party);
        }
    }

    fn party(&mut self, conn: ConnKey, shard: &Shard) -> Option<Party> {
        let (client_id, user, version) = shard.live_client(conn)?;
        let (client_id, user) = (client_id.into(), user.map(Into::into));
        Some(Party { client_id, user, address: self.address(conn), version })
    }

    /// Whose a connection is may be known better by now.
    pub(super) fn note_traced(&mut self, notice: &Notice<'_>) {
        if let Some(traces) = &mut self.guard.traces
            && let Notice::Connected { conn, client_id, user_name, .. } = *notice
        {
            let user = user_name.or(self.guard.auth.user(conn));
            traces.meet_again(conn, client_id, user);
        }
    }

    /// Looks up whose the packets of this turn are.
    pub(super) fn settle_traces(&mut self, shard: &Shard) {
        if let Some(mut traces) = self.guard.traces.take() {
            traces.settle(|conn| self.party(conn, shard));
            self.guard.traces = Some(traces);
        }
    }

    /// Does what the control thread wants, and hands over what was copied.
    pub(super) fn trace(&mut self, wish: TraceWish, shard: &Shard) -> Taken {
        self.settle_traces(shard);
        let taken = self.guard.traces.as_mut().map(|traces| traces.take()).unwrap_or_default();
        self.guard.trace_counts.add(&taken);
        match wish {
            TraceWish::GoOn => {}
            TraceWish::Stop { slot } => {
                self.guard.traces.take_if(|traces| !traces.stop(slot));
            }
            TraceWish::Start { slot, of } => {
                let traces = self.guard.traces.get_or_insert_default();
                traces.stop(slot);
                traces.start(slot, &of);
                // One client is found at once; others are looked for among all.
                let conns: Vec<ConnKey> = match traces.client(slot) {
                    Some(client_id) => shard.connection_by_id(client_id).into_iter().collect(),
                    None if of.kind == "topic" => Vec::new(),
                    None => shard.connected().map(|(conn, ..)| conn).collect(),
                };
                for conn in conns {
                    let party = self.party(conn, shard);
                    if let (Some(traces), Some(party)) = (&mut self.guard.traces, party) {
                        traces.meet(conn, party);
                    }
                }
            }
        }
        taken
    }
}
