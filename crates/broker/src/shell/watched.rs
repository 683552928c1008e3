//! Where a shell has packets copied and counted, while somebody wants to know.

use super::{Guard, Output, Shell};
use crate::top::Top;
use crate::trace::{Party, Taken, Traces};
use std::net::IpAddr;
use weir_control::{Tally, TopWish, TraceWish};
use weir_core::{ConnKey, Notice, Shard};
use weir_reactor::{Io, Token, UNIX_PEER};
use weir_wire::{Frame, Packet, PacketKind, Version};

impl Guard {
    /// A connection goes to another shard.
    pub(super) fn hand_over_watched(&mut self, conn: ConnKey) {
        if let Some(watched) = &mut self.watched {
            watched.top.iter_mut().for_each(|top| top.forget(conn));
            watched.traces.hand_over(conn);
        }
    }

    /// A connection is over.
    pub(super) fn forget_watched(&mut self, conn: ConnKey) {
        if let Some(watched) = &mut self.watched {
            watched.top.iter_mut().for_each(|top| top.forget(conn));
            watched.traces.forget(conn);
        }
    }

    fn traces(&mut self) -> Option<&mut Traces> {
        self.watched.as_mut().map(|watched| &mut watched.traces)
    }

    fn top(&mut self) -> Option<&mut Top> {
        self.watched.as_mut()?.top.as_mut()
    }
}

impl Shell {
    /// Takes what came, and has those packets copied and counted that were taken.
    #[cold]
    #[inline(never)]
    pub(super) fn received_watched(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let conn = ConnKey(token.0);
        // Before it is taken: with the last of them the client may be gone.
        if let Some(top) = self.guard.top() {
            top.came(conn, bytes);
        }
        let taken = match self.guard.traces().is_some_and(|traces| traces.go_on()) {
            true => self.received_traced(io, token, bytes),
            false => self.take_in(io, token, bytes),
        };
        if taken < bytes.len()
            && self.shard.live_client(conn).is_some()
            && let Some(top) = self.guard.top()
        {
            top.came_in_vain(conn, &bytes[taken..]);
        }
        taken
    }

    fn received_traced(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let conn = ConnKey(token.0);
        let (shard, mut output) = self.parts(io);
        output.meet_connect(conn, bytes);
        if output.guard.traces().is_some_and(|traces| traces.has_topics()) {
            output.meet_traced(conn, shard);
        }
        let traces = self.guard.watched.as_ref().map(|watched| &watched.traces);
        let found = traces.map(|traces| traces.look(conn, bytes, &self.shard));
        let place = traces.map_or(0, Traces::place);
        let taken = self.take_in(io, token, bytes);
        if let (Some(traces), Some(found)) = (self.guard.traces(), found) {
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
        if let Some(traces) = self.guard.traces() {
            traces.meet(conn, Party { client_id, user, address, version });
        }
    }

    /// Looks up whose a connection is that nobody has looked up.
    pub(super) fn meet_traced(&mut self, conn: ConnKey, shard: &Shard) {
        if self.guard.traces().is_none_or(|traces| !traces.wants(conn)) {
            return;
        }
        let Some(party) = self.party(conn, shard) else { return };
        if let Some(traces) = self.guard.traces() {
            traces.meet(conn, party);
        }
    }

    fn party(&mut self, conn: ConnKey, shard: &Shard) -> Option<Party> {
        let (client_id, user, version) = shard.live_client(conn)?;
        let (client_id, user) = (client_id.into(), user.map(Into::into));
        Some(Party { client_id, user, address: self.address(conn), version })
    }

    /// Whose a connection is may be known better by now.
    pub(super) fn note_watched(&mut self, notice: &Notice<'_>) {
        let Some(watched) = &mut self.guard.watched else { return };
        match *notice {
            Notice::Connected { conn, client_id, user_name, .. } => {
                let user = user_name.or(self.guard.auth.user(conn));
                watched.traces.meet_again(conn, client_id, user);
            }
            Notice::Left { conn, client_id, .. }
            | Notice::Ended { conn, client_id, was_live: true, .. } => {
                watched.top.iter_mut().for_each(|top| top.left(conn, client_id));
            }
            _ => {}
        }
    }

    /// Looks up whose the packets of this turn are.
    pub(super) fn settle_traces(&mut self, shard: &Shard) {
        if let Some(mut watched) = self.guard.watched.take() {
            watched.traces.settle(|conn| self.party(conn, shard));
            self.guard.watched = Some(watched);
        }
    }

    /// Does what the control thread wants, and hands over what was copied.
    pub(super) fn trace(&mut self, wish: TraceWish, shard: &Shard) -> Taken {
        self.settle_traces(shard);
        let taken = self.guard.traces().map(Traces::take).unwrap_or_default();
        self.guard.trace_counts.add(&taken);
        match wish {
            TraceWish::GoOn => {}
            TraceWish::Stop { slot } => {
                self.guard.watched.take_if(|watched| {
                    watched.traces.stop(slot);
                    watched.is_over()
                });
            }
            TraceWish::Start { slot, of } => {
                let traces = &mut self.guard.watched.get_or_insert_default().traces;
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
                    if let (Some(traces), Some(party)) = (self.guard.traces(), party) {
                        traces.meet(conn, party);
                    }
                }
            }
        }
        taken
    }

    /// Begins to count who sends and gets most, or says what was counted and counts no more.
    pub(super) fn top(&mut self, wish: TopWish, shard: &Shard) -> Tally {
        match wish {
            TopWish::Begin => {
                self.guard.watched.get_or_insert_default().top = Some(Top::default());
                Tally::default()
            }
            TopWish::End => {
                let top = self.guard.watched.as_mut().and_then(|watched| watched.top.take());
                self.guard.watched.take_if(|watched| watched.is_over());
                let who =
                    |conn| shard.live_client(conn).map(|(client_id, user, _)| (client_id, user));
                top.map(|top| top.tally(who)).unwrap_or_default()
            }
        }
    }
}
