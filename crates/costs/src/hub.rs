//! A shard with connections, and nothing around it: what is measured is the core alone.

use crate::packets;
use std::sync::Arc;
use weir_core::{ConnKey, Limits, Mail, Message, Micros, Notice, Shard, ShardId, Sink};
use weir_wire::packet::{SubscribeBuf, SubscriptionOptions};
use weir_wire::{PacketId, Properties, QoS, Version};

/// Steps of an input above which it may have put something off; less than the core's own bound.
const INPUT_STEPS_MAX: u64 = 1024;

/// The shard, its clients' outputs, and its clock.
pub(crate) struct Hub {
    pub(crate) shard: Shard,
    pub(crate) outputs: Outputs,
    pub(crate) now: Micros,
}

/// What was written to each connection since it was last cleared.
#[derive(Default)]
pub(crate) struct Outputs(pub(crate) Vec<Vec<u8>>);

impl Sink for Outputs {
    fn write(&mut self, conn: ConnKey, bytes: &[u8]) {
        self.0[conn.0 as usize].extend_from_slice(bytes);
    }

    /// As the reactor does: what is shared is not copied.
    fn deliver_long(&mut self, conn: ConnKey, head: &[u8], message: &Arc<Message>) {
        self.write(conn, head);
        std::hint::black_box(Arc::clone(message));
    }

    fn pending(&self, _conn: ConnKey) -> usize {
        0
    }

    fn close(&mut self, conn: ConnKey) {
        panic!("connection {} was ended", conn.0);
    }

    fn hand_over(&mut self, _conn: ConnKey, _to: ShardId) {
        unreachable!("there is one shard");
    }

    fn mail(&mut self, _to: ShardId, _mail: Mail) {
        unreachable!("there is one shard");
    }

    fn notice(&mut self, _notice: Notice<'_>) {}
}

impl Hub {
    pub(crate) fn new() -> Self {
        let shard = Shard::new(ShardId(0), 1, Limits::default(), 1);
        Self { shard, outputs: Outputs::default(), now: Micros(1_000_000) }
    }

    /// A client connects.
    pub(crate) fn connect(&mut self) -> ConnKey {
        let conn = ConnKey(self.outputs.0.len() as u32);
        self.outputs.0.push(Vec::with_capacity(4096));
        self.shard.opened(conn, self.now);
        self.send(conn, &packets::connect(Version::V311, &format!("client-{}", conn.0)));
        self.outputs.0[conn.0 as usize].clear();
        conn
    }

    pub(crate) fn subscribe(&mut self, conn: ConnKey, filter: &str, qos: QoS) {
        let mut filters = SubscribeBuf::new();
        filters.push(filter, SubscriptionOptions { qos, ..Default::default() });
        let subscribe = filters.subscribe(Version::V311, PacketId::FIRST, Properties::EMPTY);
        let mut bytes = Vec::new();
        subscribe.encode(Version::V311, &mut bytes);
        self.send(conn, &bytes);
        self.outputs.0[conn.0 as usize].clear();
    }

    /// Whole packets from a client; what they put off is done as well.
    pub(crate) fn send(&mut self, conn: ConnKey, bytes: &[u8]) {
        let mut consumed = self.shard.received(conn, bytes, self.now, &mut self.outputs);
        if self.shard.steps() < INPUT_STEPS_MAX {
            // As a shell, which asks for timers once a turn.
            assert_eq!(consumed, bytes.len());
            return;
        }
        while let Some(due) = self.shard.poll_timeout().filter(|due| due.0 <= self.now.0 + 1) {
            self.now = due;
            self.shard.handle_timeout(due, &mut self.outputs);
            consumed += self.shard.received(conn, &bytes[consumed..], due, &mut self.outputs);
        }
        assert_eq!(consumed, bytes.len());
    }
}
