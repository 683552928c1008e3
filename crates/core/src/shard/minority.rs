//! A node that is cut off from its cluster, and serves its own clients meanwhile.
//!
//! The others may take it for lost, and one of them may serve the sessions that it keeps: so it
//! serves only clients whose sessions end with their connections. Whoever waits for an answer when
//! that begins is ended as well, since what was asked of the cluster is not acknowledged by a part
//! of it. For the rest this is a node without others, which are told to be lost as always.
//!
//! What is retained meanwhile has no version that others know. Once the node is a member again and
//! has been told what the others have, it is published anew where no other node has published to
//! the topic; where one has, that stays.

use super::Shard;
use super::asked::Asked;
use super::connection::{Phase, Refusal};
use crate::keys::{ConnKey, Micros, SessionKey, Version};
use crate::mail::NotRetained;
use crate::message::Message;
use crate::own::is_brokers_own;
use crate::sink::Sink;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use weir_wire::ReasonCode;

/// Topics whose retained messages may be other ones here than elsewhere.
const APART_MAX: usize = 65_536;

/// The user property of a CONNACK that says so.
pub(super) const USER_PROPERTY: (&str, &str) = ("weir-cluster", "minority");

const CUT_OFF: &str = "this node is cut off from its cluster";
const KEEPS_NONE: &str = "this node is cut off from its cluster, and serves no kept session";
const BACK: &str = "this node is about to be a member of its cluster again";

/// How the node stands to its cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Member,
    CutOff,
    /// It is to be a member again, and lets nobody in before it is.
    Returning,
}

/// What is known while it is none.
#[derive(Debug, Default)]
pub(super) struct Minority {
    standing: Standing,
    /// Topics whose retained message was changed while no other node was there, each with the
    /// version that was known before.
    apart: BTreeMap<Box<str>, Version>,
}

impl Minority {
    /// Whether a topic's retained message may be one that other nodes have not.
    pub(super) fn is_apart(&self, topic: &str) -> bool {
        !self.apart.is_empty() && self.apart.contains_key(topic)
    }
}

impl Shard {
    /// The node may not act for its cluster, and is to serve its own clients. Others are told to be
    /// lost as always.
    pub fn enter_minority(&mut self, now: Micros, sink: &mut impl Sink) {
        if !self.is_cut_off() {
            self.minority.standing = Standing::CutOff;
            self.end_connections(CUT_OFF, Self::stays, now, sink);
        }
    }

    /// The node is to be a member of its cluster again: its clients go. Comes before it hears of
    /// other nodes.
    pub fn leave_minority(&mut self, now: Micros, sink: &mut impl Sink) {
        if self.is_cut_off() {
            self.minority.standing = Standing::Returning;
            self.end_connections(BACK, |_, _| false, now, sink);
        }
    }

    /// The node is a member of its cluster again, and has been told what other nodes have.
    pub fn end_minority(&mut self, now: Micros, sink: &mut impl Sink) {
        self.leave_minority(now, sink);
        self.minority.standing = Standing::Member;
        self.slices.begin();
        self.publish_apart(now, sink);
        self.settle(now, sink);
    }

    pub(super) fn is_cut_off(&self) -> bool {
        self.minority.standing == Standing::CutOff
    }

    fn end_connections(
        &mut self,
        detail: &'static str,
        stays: fn(&Self, ConnKey) -> bool,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.slices.begin();
        for conn in self.connections.keys() {
            if stays(self, conn) {
                continue;
            }
            let Some(connection) = self.connections.get_mut(conn) else { continue };
            // As of a node that is stopped, no will is due.
            drop(connection.take_will());
            let reason = match connection.phase {
                // A CONNACK has no other.
                Phase::AwaitAuth(_) => ReasonCode::ServerUnavailable,
                Phase::AwaitConnect(_) | Phase::Live(_) => ReasonCode::ServerShuttingDown,
            };
            self.end(conn, Refusal::new(reason, detail), now, sink);
        }
        self.settle(now, sink);
        self.come_to_rest(now, sink);
    }

    /// Whether a connection stays when the node is cut off.
    fn stays(&self, conn: ConnKey) -> bool {
        match self.connections.get(conn).map(|connection| &connection.phase) {
            Some(Phase::AwaitConnect(_)) => true,
            Some(Phase::Live(live)) => {
                let is_parked = live.cold.as_ref().is_some_and(|cold| cold.parked.is_some());
                let is_kept = self.clients[live.session].outlives_connection();
                !is_kept && !is_parked && !self.holds_answers(conn)
            }
            Some(Phase::AwaitAuth(_)) | None => false,
        }
    }

    /// Whether a client may come in as the node stands, whoever it is.
    pub(super) fn check_minority(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        let expiry_s = asked.session_expiry_s.min(self.bounds.limits.session_expiry_s_max);
        let detail = match self.minority.standing {
            Standing::Member => return Ok(()),
            Standing::Returning => BACK,
            Standing::CutOff if expiry_s > 0 => KEEPS_NONE,
            Standing::CutOff => return Ok(()),
        };
        Err(Refusal::new(ReasonCode::ServerUnavailable, detail))
    }

    /// Whether it may have the session that was found: a kept one may be another node's by now.
    pub(super) fn check_found(&self, found: Option<SessionKey>) -> Result<(), Refusal> {
        let is_kept = |key| self.clients[key].outlives_connection();
        if self.is_cut_off() && found.is_some_and(is_kept) {
            return Err(Refusal::new(ReasonCode::ServerUnavailable, KEEPS_NONE));
        }
        Ok(())
    }

    /// Whether what is retained now is told to no other node.
    fn retains_apart(&self) -> bool {
        self.minority.standing != Standing::Member && !self.place.has_nodes()
    }

    /// Whether a topic's retained message may be changed.
    pub(super) fn check_apart(&self, topic: &str) -> Result<(), NotRetained> {
        let is_full = self.minority.apart.len() >= APART_MAX && self.retains_apart();
        let is_room_needed = is_full && !self.minority.is_apart(topic) && !is_brokers_own(topic);
        if is_room_needed { Err(NotRetained::Full) } else { Ok(()) }
    }

    /// A topic's retained message is another one. Says whether no other node is told.
    pub(super) fn note_apart(&mut self, topic: &str) -> bool {
        let is_apart = self.retains_apart();
        if is_apart {
            self.minority.apart.insert(topic.into(), self.retained.version(topic));
        }
        is_apart
    }

    /// Has all nodes keep what was retained meanwhile, unless somebody has published to the topic.
    fn publish_apart(&mut self, now: Micros, sink: &mut impl Sink) {
        let mut copies = VecDeque::new();
        for (topic, before) in std::mem::take(&mut self.minority.apart) {
            if self.retained.version(&topic) != before {
                continue;
            }
            // Whoever subscribes elsewhere has not seen it as it was published.
            let message = match self.retained.of(&topic) {
                Some(message) => Message { stamp: None, ..Message::clone(message) },
                None => Message::clearing(&topic),
            };
            let is_cleared = message.payload.is_empty();
            if let Some(version) = self.retained.next_version(&topic, is_cleared) {
                copies.push_back((Arc::new(message), version));
            }
        }
        self.copy_again(copies, now, sink);
    }
}
