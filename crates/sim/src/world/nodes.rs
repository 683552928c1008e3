//! Shards of several nodes: a client comes to any of them, and its session goes where it is.

use super::line::BrokerEnd;
use super::sink::{Event, Output};
use super::{CLIENTS, Port, World};
use crate::model::Said;
use crate::names::ClientNo;
use crate::plant::Plant;
use std::ops::Range;
use weir_core::{Mail, Micros, Partitions, SessionMail, SessionPart, Shard};

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

    pub(super) fn say(
        &mut self,
        shard: u16,
        call: impl FnOnce(&mut Shard, Micros, &mut Output<'_>),
    ) {
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
        let partitions = Partitions::spread(size.shards, self.seed);
        let next = (node + 1) % size.nodes * size.shards;
        self.model.lose_node(lost.start.into()..lost.end.into(), |client| {
            usize::from(next + partitions.owner(&client.client_id()).0)
        });
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

    /// A shard of the node to whose listener a client connects: any, but each probe goes to the
    /// next one.
    pub(super) fn shard_for(&mut self, ClientNo(client): ClientNo) -> usize {
        let nodes = usize::from(self.size.nodes);
        // A start after a crash may have made another number of shards.
        let shards = self.shards.len() / nodes;
        let is_probe = client >= CLIENTS || nodes == 1;
        let mut node = if is_probe { client % nodes } else { self.chance.below(nodes) };
        while self.copies.is_closed(node) {
            node = (node + 1) % nodes;
        }
        node * shards + self.chance.below(shards)
    }

    /// Whose session a shard claims.
    pub(super) fn note_claim(&mut self, shard: usize, mail: &Mail) {
        if let Mail::Session(SessionMail::Claim { client_id, claim, is_clean, .. }) = mail
            && let Some(client) = ClientNo::of(client_id)
        {
            if !self.copies.is_told && !self.is_adopting(shard, client) {
                self.hear_claim(shard, mail);
            }
            self.claims.insert(*claim, client);
            self.model.claimed(client, *is_clean);
        }
        if let Mail::Session(SessionMail::Stays { claim, anew: Some((anew, _)) }) = mail
            && let Some(&client) = self.claims.get(claim)
        {
            self.claims.insert(*anew, client);
        }
    }

    /// A shard hears of a claim, or makes it.
    pub(super) fn hear_claim(&mut self, shard: usize, mail: &Mail) {
        if let Mail::Session(SessionMail::Claim { client_id, is_clean, .. }) = mail
            && let Some(client) = ClientNo::of(client_id)
        {
            self.model.came(client, shard, *is_clean);
        }
    }

    /// Sessions whose time is over, though their clients have come in time, are over once no shard
    /// has them.
    pub(super) fn follow_overdue(&mut self) {
        for number in self.model.overdue() {
            let session = self.model.session(number);
            let client_id = session.client.client_id();
            let is_there = |shard: &Shard| shard.client(&client_id).is_some();
            // If the node that it came from is lost before it has heard that, its log brings it.
            let is_known = match session.moving {
                None => self.copies.is_up(session.shard),
                Some((from, to)) => {
                    let is_left = session.shard == usize::MAX;
                    is_left && self.copies.is_up(from) && self.copies.is_up(to)
                }
            };
            if is_known && !self.shards.iter().any(is_there) {
                self.model.end_session(number);
            }
        }
    }

    /// What a shard did with sessions that clients have claimed on other nodes.
    pub(super) fn follow_sessions(&mut self, shard: usize, events: &[Event]) {
        let is_let_in = |client: ClientNo| {
            events.iter().any(|event| match event {
                Event::Said(Said::Connected(key), _) => {
                    let conn = self.ports[shard].conns.get(key);
                    conn.is_some_and(|conn| self.lines[conn.0].client == client)
                }
                _ => false,
            })
        };
        let mut over = Vec::new();
        for event in events {
            if let Event::Said(Said::TakenOver(key), _) = event
                && let Some(&conn) = self.ports[shard].conns.get(key)
                && !is_let_in(self.lines[conn.0].client)
            {
                over.push(conn);
            }
        }
        let is_over = |&client: &ClientNo| {
            let number = self.model.alive.get(&client);
            let session = number.map(|&number| self.model.session(number));
            let is_absent =
                session.is_some_and(|it| it.shard == shard && it.conn.is_none() && !it.is_overdue);
            // A queue that was full has ended it.
            let is_full = |event: &Event| match event {
                Event::Said(Said::SessionEnded(whose), _) => *whose == client,
                _ => false,
            };
            is_absent
                && !events.iter().any(is_full)
                && !is_let_in(client)
                && self.shards[shard].client(&client.client_id()).is_none()
        };
        let begun: Vec<ClientNo> = (0..CLIENTS).map(ClientNo).filter(is_over).collect();
        for conn in over {
            let client_id = self.lines[conn.0].client.client_id();
            let goes_on = self.shards[shard].client(&client_id).is_some();
            self.model.taken_over(conn, goes_on);
        }
        begun.into_iter().for_each(|client| self.model.begun_elsewhere(client));
        for event in events {
            if let &Event::Mail(to, Mail::Session(SessionMail::Leaving { ref claim, .. })) = event
                && let Some(&client) = self.claims.get(claim)
            {
                self.copies.leaving.insert(client, *claim);
                self.model.leaves(client, (shard, to));
            }
        }
    }

    /// Whose session may be complete with a letter.
    pub(super) fn comes(&self, mail: &Mail) -> Option<ClientNo> {
        match mail {
            Mail::Session(
                SessionMail::Part { claim, part: SessionPart::End }
                | SessionMail::Switched { claim, .. }
                | SessionMail::Moving { claim, .. },
            ) => self.claims.get(claim).copied(),
            _ => None,
        }
    }

    /// It was. Another node that waits for it may have begun anew, and so ended it.
    pub(super) fn has_come(&mut self, client: ClientNo, shard: usize) {
        let is_there = self.shards[shard].client(&client.client_id()).is_some();
        if is_there || self.model.begins_anew(client) {
            let is_adopted = self.copies.adopted.remove(&client);
            self.model.comes(client, shard, is_adopted);
        }
    }
}

/// Whose session another node waits for, and the number of the letter that says so.
pub(super) fn claimed(mail: &Mail) -> Option<(ClientNo, u64)> {
    match mail {
        Mail::Session(SessionMail::Claim { client_id, is_clean: false, number, .. }) => {
            ClientNo::of(client_id).map(|client| (client, *number))
        }
        _ => None,
    }
}

/// Whether a session stays where it is for now, though it was claimed by this letter.
pub(super) fn is_put_off(number: u64, events: &[Event]) -> bool {
    let leaves =
        |event: &Event| matches!(event, Event::Mail(_, Mail::Session(SessionMail::Leaving { .. })));
    let is_pending = |event: &Event| match event {
        Event::Mail(_, Mail::Receipt { pending, .. }) => pending.contains(&number),
        _ => false,
    };
    events.iter().any(is_pending) && !events.iter().any(leaves)
}
