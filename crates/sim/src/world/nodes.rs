//! Shards of several nodes: each client stays with a node, whose shards hold its session.

use super::line::BrokerEnd;
use super::sink::Output;
use super::{Port, World};
use crate::names::ClientNo;
use crate::plant::Plant;
use std::ops::Range;
use weir_core::{Micros, Shard};

/// How large the cluster is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Nodes; one is a broker for itself.
    pub nodes: u16,
    /// Shards of each.
    pub shards: u16,
}

impl Size {
    /// Of all nodes.
    pub fn shards_in_all(self) -> u16 {
        self.nodes * self.shards
    }

    /// The shards of each node.
    pub(super) fn all(self) -> impl Iterator<Item = Range<u16>> {
        (0..self.nodes).map(move |node| node * self.shards..(node + 1) * self.shards)
    }

    /// The shards of the node that this shard is of.
    pub(super) fn node_of(self, shard: u16) -> Range<u16> {
        let first = shard / self.shards * self.shards;
        first..first + self.shards
    }
}

impl World {
    /// The nodes come, and tell each other what there is. Those that are there already know it.
    pub(super) fn join_all(&mut self) {
        let size = self.size;
        for shard in 0..size.shards_in_all() {
            let own = size.node_of(shard);
            for node in size.all().filter(|node| *node != own) {
                self.say(shard, |shard, now, sink| shard.node_joined(node.clone(), now, sink));
            }
        }
        self.carry_until_quiet();
        for (at, shard) in self.shards.iter().enumerate() {
            let others = usize::from(size.shards_in_all() - size.shards);
            assert_eq!(shard.lists(), others, "shard {at} has not been told of all");
        }
    }

    fn say(&mut self, shard: u16, call: impl FnOnce(&mut Shard, Micros, &mut Output<'_>)) {
        let root = self.new_root();
        self.model.begin_call(root, shard.into());
        let ((), events) = self.act(shard.into(), call);
        self.carry_out(shard.into(), root, events);
    }

    /// A node is lost while nothing is on its way, and comes back with nothing.
    pub(super) fn lose_one(&mut self) {
        let (size, node) = (self.size, self.chance.below(self.size.nodes.into()) as u16);
        let lost = node * size.shards..(node + 1) * size.shards;
        self.trace.add(format_args!("node {node} is lost"));
        self.model.lose_node(lost.start.into()..lost.end.into());
        for line in &mut self.lines {
            if matches!(line.end, BrokerEnd::At(shard, _) if lost.contains(&(shard as u16))) {
                line.end = BrokerEnd::Closed;
                line.is_paused = false;
                line.up.clear();
                line.unconsumed.clear();
            }
        }
        self.notice_ends();
        for shard in lost.clone() {
            self.crashes.stats.push(self.shards[usize::from(shard)].stats());
            self.shards[usize::from(shard)] = self.make_shard(shard);
            self.ports[usize::from(shard)] = Port::default();
        }
        for shard in (0..size.shards_in_all()).filter(|shard| !lost.contains(shard)) {
            if !self.saboteur.strikes(Plant::MissNode) {
                self.say(shard, |shard, now, sink| shard.node_lost(lost.clone(), now, sink));
            }
        }
        if self.chance.one_in(2) {
            self.carry_until_quiet();
        }
        self.trace.add(format_args!("node {node} is back"));
        self.join_all();
    }

    /// A shard of the client's node, to whose listener it connects.
    pub(super) fn shard_for(&mut self, ClientNo(client): ClientNo) -> usize {
        // A start after a crash may have made another number of shards.
        let shards = self.shards.len() / usize::from(self.size.nodes);
        let node = client % usize::from(self.size.nodes);
        node * shards + self.chance.below(shards)
    }
}
