//! Partitions that move, and what the books have to know of it.

use super::line::{BrokerEnd, Line};
use super::sink::{Event, Letter};
use super::{MOVES_STREAM, Size, World};
use crate::chance::Chance;
use crate::finding::Checker;
use crate::model::{Model, Said};
use crate::names::{ClientNo, ConnNo, Root};
use crate::plant::Plant;
use crate::topics::TOPICS;
use std::collections::BTreeMap;
use weir_core::{ConnKey, Parcel, Partitions, ShardId};

/// Wills that became due in a freeze: they are published at its end.
#[derive(Debug)]
pub(super) struct Moves {
    /// Whether partitions move in this run.
    pub(super) are_on: bool,
    partitions: Partitions,
    /// By shard, with the call that they came with.
    held: Vec<(usize, Root, Vec<usize>)>,
    /// By the call that set off the freeze in which they were held.
    published: BTreeMap<Root, Vec<Root>>,
    present: Root,
}

impl Moves {
    /// Whether partitions move hangs on the seed.
    pub(super) fn of_run(size: Size, crashes: bool, seed: u64) -> Self {
        let shards = size.shards_in_all();
        let may_be = !crashes && shards > 1 && size.nodes == 1;
        let are_on = may_be && Chance::new(seed, MOVES_STREAM).one_in(2);
        Self::new(are_on, Partitions::spread(shards, seed))
    }

    pub(super) fn new(are_on: bool, partitions: Partitions) -> Self {
        let (held, published) = (Vec::new(), BTreeMap::new());
        Self { are_on, partitions, held, published, present: Root(0) }
    }

    pub(super) fn hold_wills(&mut self, shard: usize, root: Root, wills: Vec<usize>) {
        self.held.push((shard, root, wills));
    }

    /// A shard takes input again.
    pub(super) fn thawed(&mut self, shard: usize, model: &mut Model) {
        let published = self.published.entry(self.present).or_default();
        for (_, root, wills) in self.held.extract_if(.., |(held, ..)| *held == shard) {
            model.published_late(&wills);
            published.push(root);
        }
    }

    /// All that a call set off is done: so are the wills that waited for it.
    pub(super) fn settled(&mut self, root: Root) -> Vec<Root> {
        self.published.remove(&root).unwrap_or_default()
    }
}

impl World {
    /// Whoever runs the broker moves a partition that holds something.
    pub(super) fn move_one(&mut self) {
        let client = ClientNo(self.chance.below(super::CLIENTS)).client_id();
        let topic = self.chance.pick(TOPICS);
        let name = if self.chance.one_in(3) { topic } else { &client };
        let partition = self.moves.partitions.of(name);
        let to = ShardId(self.chance.below(self.shards.len()) as u16);
        let root = self.new_root();
        self.model.begin_call(root, 0);
        let (result, events) =
            self.act(0, |shard, now, sink| shard.move_partition(partition, to, now, sink));
        self.trace.add(format_args!("{partition:?}, of {name}, to shard {}: {result:?}", to.0));
        if result.is_ok() {
            self.moves.present = root;
        }
        self.carry_out(0, root, events);
    }

    pub(super) fn send_parcel(
        &mut self,
        from: usize,
        to: usize,
        root: Root,
        parcel: Parcel,
        key: Option<ConnKey>,
    ) {
        let conn = key.and_then(|key| self.take_key(from, key));
        if let Some(conn) = conn {
            let line = &mut self.lines[conn.0];
            (line.end, line.is_paused) = (BrokerEnd::Moving, false);
            self.model.handed_over(conn);
        }
        if let Some(client) = parcel.client_id().and_then(ClientNo::of) {
            self.model.moves(client, None);
        }
        if self.saboteur.strikes(Plant::LoseParcel) {
            return;
        }
        self.post(from, to, root, Letter::Parcel(parcel, conn));
    }

    pub(super) fn take_parcel(
        &mut self,
        to: usize,
        root: Root,
        parcel: Parcel,
        conn: Option<ConnNo>,
    ) {
        self.trace.add(format_args!("  shard {to} takes {:?}, {conn:?}", parcel.client_id()));
        self.model.begin_call(root, to);
        if let Some(client) = parcel.client_id().and_then(ClientNo::of) {
            self.model.moves(client, Some(to));
        }
        let is_there = conn.is_some_and(|conn| self.lines[conn.0].end == BrokerEnd::Moving);
        let key = conn.filter(|_| is_there).map(|conn| self.give_key(to, conn));
        if let Some(conn) = conn.filter(|_| !is_there) {
            self.model.cut(conn);
        }
        let ((), events) = self.act(to, |shard, now, sink| shard.arrived(parcel, key, now, sink));
        self.carry_out(to, root, events);
        if let Some(conn) = conn {
            self.receive(conn, 0);
        }
    }

    /// Clients that were found to be who they say, and whom the shard has let in with this call.
    pub(super) fn let_in(&mut self, shard: usize, events: &[Event]) {
        for event in events {
            if let Event::Said(Said::Connected(key), _) = event
                && let Some(&conn) = self.ports[shard].conns.get(key)
                && self.accepted.remove(&conn)
            {
                let Self { lines, model, .. } = self;
                let line = &mut lines[conn.0];
                let connect = std::mem::take(&mut line.connect);
                super::host::packets(&connect, line.version, |packet| model.consumed(conn, packet));
            }
        }
    }

    /// In a freeze nobody is silent.
    pub(super) fn excuse(model: &mut Model, lines: &[Line], shard: usize) {
        let is_there = |line: &&Line| matches!(line.end, BrokerEnd::At(at, _) if at == shard);
        for line in lines.iter().filter(is_there) {
            model.conns[line.number.0].excused_at = model.now;
        }
    }

    /// No partition is on its way for ever.
    pub(super) fn check_thawed(&mut self) {
        for shard in (0..self.shards.len()).filter(|&shard| self.shards[shard].is_frozen()) {
            self.model.fail(Checker::Answers, format!("shard {shard} never thaws"));
        }
    }
}
