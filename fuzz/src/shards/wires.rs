//! The shell's side of one shard: it takes what the shard says, and knows what it may not say.

use super::script::CONNECTIONS;
use std::collections::VecDeque;
use weir_core::{AuthRequest, ConnKey, Mail, Notice, ShardId, Sink, Ticket};
use weir_wire::{Frame, PacketKind};

/// One connection as its shard sees it.
#[derive(Debug, Default)]
pub struct Wire {
    /// The shard has it.
    pub is_open: bool,
    /// Written and not yet looked at by the client.
    pub output: Vec<u8>,
    /// Bytes that wait for the socket.
    pub pending: usize,
    /// What the authentication port was asked and has not answered; whether with a method.
    pub asked: VecDeque<(Ticket, bool)>,
    /// The shard reads no more from it for now.
    pub is_paused: bool,
    /// Where the connection is to go.
    pub hand_over: Option<ShardId>,
    /// The shard has ended it.
    pub is_ended: bool,
}

/// The sink of one shard.
#[derive(Debug)]
pub struct Wires {
    /// By connection.
    pub wires: [Wire; CONNECTIONS as usize],
    /// Letters on their way to other shards.
    pub mail: VecDeque<(ShardId, Mail)>,
    /// Connections whose bytes the shard wants again.
    pub resumed: Vec<ConnKey>,
    /// What a PUBLISH is not written beyond.
    pub output_bytes_max: usize,
}

impl Wires {
    pub fn new(output_bytes_max: usize) -> Self {
        Self {
            wires: Default::default(),
            mail: VecDeque::new(),
            resumed: Vec::new(),
            output_bytes_max,
        }
    }

    pub fn wire(&mut self, conn: ConnKey) -> &mut Wire {
        &mut self.wires[conn.0 as usize]
    }

    /// The connection, which the shard may only name while it has it.
    fn open_wire(&mut self, conn: ConnKey) -> &mut Wire {
        let wire = &mut self.wires[conn.0 as usize];
        assert!(wire.is_open, "the shard names connection {} that is gone", conn.0);
        wire
    }
}

impl Sink for Wires {
    fn write(&mut self, conn: ConnKey, bytes: &[u8]) {
        let output_bytes_max = self.output_bytes_max;
        let wire = self.open_wire(conn);
        let frame = match Frame::check(bytes, u32::MAX) {
            Ok(Some(frame)) if frame.bytes == bytes.len() => frame,
            other => panic!("not one whole packet is written: {other:?}"),
        };
        // What a resumed session is owed is bounded by its window instead.
        let is_new = frame.kind == PacketKind::Publish && frame.flags & 0b1000 == 0;
        assert!(!is_new || wire.pending <= output_bytes_max, "output over its bound");
        wire.pending += bytes.len();
        wire.output.extend_from_slice(bytes);
    }

    fn pending(&self, conn: ConnKey) -> usize {
        self.wires[conn.0 as usize].pending
    }

    fn close(&mut self, conn: ConnKey) {
        let wire = self.open_wire(conn);
        (wire.is_open, wire.is_ended) = (false, true);
    }

    fn hand_over(&mut self, conn: ConnKey, to: ShardId) {
        let wire = self.open_wire(conn);
        (wire.is_open, wire.hand_over) = (false, Some(to));
    }

    fn mail(&mut self, to: ShardId, mail: Mail) {
        self.mail.push_back((to, mail));
    }

    fn pause(&mut self, conn: ConnKey) {
        self.open_wire(conn).is_paused = true;
    }

    fn resume(&mut self, conn: ConnKey) {
        self.wires[conn.0 as usize].is_paused = false;
        self.resumed.push(conn);
    }

    fn authenticate(&mut self, request: AuthRequest<'_>) {
        let has_method = request.method.is_some();
        self.open_wire(request.conn).asked.push_back((request.ticket, has_method));
    }

    fn notice(&mut self, _notice: Notice<'_>) {}
}
