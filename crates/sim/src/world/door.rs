//! The authentication port: questions that shards ask, and answers that may come late.
//!
//! Everybody is let in. What is looked at is whom a late answer lets in: by then the connection it
//! was asked of may be gone, and its key another's.

use super::World;
use super::line::BrokerEnd;
use crate::names::ConnNo;
use crate::plant::Plant;
use weir_core::{ConnKey, Ticket, Verdict};
use weir_wire::Packet;

/// A question that has not been answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub(super) shard: usize,
    /// As the shard knows the connection.
    pub(super) key: ConnKey,
    pub(super) ticket: Ticket,
    pub(super) conn: ConnNo,
}

impl World {
    /// A shard wants to know who is on a connection.
    pub(super) fn ask(&mut self, shard: usize, key: ConnKey, ticket: Ticket) {
        let Some(&conn) = self.ports[shard].conns.get(&key) else { return };
        self.trace.add(format_args!("  shard {shard}: who is {}", conn.0));
        self.questions.push(Question { shard, key, ticket, conn });
    }

    /// One of the questions is answered. Says whether there was one.
    pub(super) fn answer_one(&mut self) -> bool {
        if self.questions.is_empty() {
            return false;
        }
        let at = self.chance.below(self.questions.len());
        let asked = self.questions.remove(at);
        let is_there = self.lines[asked.conn.0].end == BrokerEnd::At(asked.shard, asked.key);
        let mut ticket = asked.ticket;
        // As if answers were told apart by the key of the connection.
        let same_key = |other: &&Question| (other.shard, other.key) == (asked.shard, asked.key);
        if !is_there
            && let Some(other) = self.questions.iter().find(same_key)
            && self.saboteur.strikes(Plant::MisplaceVerdict)
        {
            ticket = other.ticket;
        }
        if is_there {
            self.accepted.insert(asked.conn);
        }
        let root = self.new_root();
        self.trace.add(format_args!("  shard {}: {} may come in", asked.shard, asked.conn.0));
        self.model.begin_call(root, asked.shard);
        let ((), events) = self.act(asked.shard, |shard, now, sink| {
            shard.authenticated(ticket, Verdict::Accept(Vec::new()), now, sink);
        });
        self.carry_out(asked.shard, root, events);
        true
    }

    /// A shard consumed a packet. A CONNECT counts when its client is let in.
    pub(super) fn consumed(&mut self, conn: ConnNo, packet: &Packet<'_>, is_let_in: bool) {
        let is_asked = self.questions.iter().any(|question| question.conn == conn);
        let is_claimed = self.size.nodes > 1 && !is_let_in;
        match packet {
            Packet::Connect(connect) if is_asked || is_claimed => {
                connect.encode(&mut self.lines[conn.0].connect);
                if is_claimed {
                    self.model.asks(conn, connect.clean_start);
                }
                if !is_asked {
                    self.accepted.insert(conn);
                }
            }
            _ => self.model.consumed(conn, packet),
        }
    }
}
