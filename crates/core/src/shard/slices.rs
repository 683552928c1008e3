//! Work that goes on in later turns, so that no input holds the shard.
//!
//! What an input does is counted in steps: about a tenth of a microsecond each. What can wait stops
//! at [`crate::Limits::input_steps_max`] and goes on in [`Shard::handle_timeout`], where all that
//! waits has its slice in turn. Packets of one input stop at a multiple of it.

use super::Shard;
use crate::copied::Copy;
use crate::keys::{ConnKey, Micros, SessionKey, ShardId, Ticket};
use crate::partitions::Partition;
use crate::routing::{InterestsAt, News};
use crate::sink::Sink;
use std::collections::VecDeque;
use std::ops::Range;

/// How many times the steps of other work the packets of one input may cost: nearly all are
/// published messages, and stopping between them has its price.
const PACKETS_FACTOR: u64 = 16;

/// Steps of a packet, whatever is in it.
pub(super) const PACKET_STEPS: u64 = 2;

/// The steps of the present input, and what waits for later ones.
#[derive(Debug)]
pub(super) struct Slices {
    steps: u64,
    steps_max: u64,
    /// What the packets of one input may cost.
    packets_steps_max: u64,
    waiting: VecDeque<Work>,
    /// When that goes on.
    at: Micros,
}

/// What waits.
#[derive(Debug)]
pub(super) enum Work {
    /// The filters of a SUBSCRIBE or UNSUBSCRIBE.
    Filters(Ticket),
    /// A session's retained messages.
    Replay(SessionKey),
    /// Other shards' queries for retained messages.
    Queries,
    /// What all shards have noted in a round of letters.
    Round(u64, Vec<News>),
    /// Packets of a connection that were received together.
    Packets(ConnKey),
    /// What a partition that moves has here.
    Move(Box<Walk>),
    /// Answers that waited for the log.
    Log,
    /// What is to be logged anew.
    Base,
    /// What another node is told of all that is here.
    List(Box<List>),
    /// Retained messages that came from a node that is lost.
    Copies(VecDeque<Copy>),
    /// What another node is to know of wills.
    Wills(WillWalk),
    /// What is to be forgotten of another node.
    Forget(Box<Forget>),
    /// So many messages that are held for members of groups.
    HeldPicks(usize),
    /// Clients that wait to be let in are claimed from another node.
    Claims(Box<ClaimsOf>),
}

/// A way through all that a shard has, for a partition that moves to `to`.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) partition: Partition,
    pub(super) to: ShardId,
    /// The place of the next session.
    pub(super) session: usize,
    /// The last retained topic that was looked at.
    pub(super) after: Option<Box<str>>,
}

/// A way through all that a shard has, for a node that is there from now on.
#[derive(Debug)]
pub(super) struct List {
    pub(super) to: Range<u16>,
    /// Names the time that the node is there.
    pub(super) visit: u64,
    /// Whether it is in the place of one that was lost.
    pub(super) is_replaced: bool,
    /// The place of the next filter.
    pub(super) filter: usize,
    /// The place of the next session.
    pub(super) session: usize,
    /// The last retained topic that was told.
    pub(super) topic: Option<Box<str>>,
    /// The place of the next topic that was cleared lately.
    pub(super) cleared: u64,
}

/// A way through all sessions, for the node that watches their wills from now on.
#[derive(Debug)]
pub(super) struct WillWalk {
    pub(super) to: Option<Range<u16>>,
    /// The one that did before.
    pub(super) old: Option<Range<u16>>,
    /// The place of the next session.
    pub(super) at: usize,
}

/// A way through all filters, and what other shards want, to forget what a node that is lost wants.
#[derive(Debug)]
pub(super) struct Forget {
    pub(super) node: Range<u16>,
    /// The place of the next filter.
    pub(super) filter: usize,
    pub(super) interests: InterestsAt,
}

/// Clients that waited to be let in when another node was there.
#[derive(Debug)]
pub(super) struct ClaimsOf {
    pub(super) node: Range<u16>,
    /// Names the time that it is.
    pub(super) visit: u64,
    pub(super) tickets: VecDeque<Ticket>,
}

impl Slices {
    pub(super) fn new(steps_max: u32) -> Self {
        let (steps, steps_max) = (0, u64::from(steps_max));
        let (waiting, at) = (VecDeque::new(), Micros(0));
        let packets_steps_max = steps_max * PACKETS_FACTOR;
        Self { steps, steps_max, packets_steps_max, waiting, at }
    }

    /// Another bound from now on.
    pub(super) fn set_steps_max(&mut self, steps_max: u32) {
        let is_frozen = self.packets_steps_max == 0;
        self.steps_max = steps_max.into();
        self.set_frozen(is_frozen);
    }

    /// An input begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.steps = 0;
    }

    #[inline]
    pub(super) fn add(&mut self, steps: u64) {
        self.steps += steps;
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether what can wait has to.
    pub(super) fn is_spent(&self) -> bool {
        self.steps >= self.steps_max
    }

    /// Whether further packets have to wait.
    #[inline]
    pub(super) fn is_spent_by_packets(&self) -> bool {
        self.steps >= self.packets_steps_max
    }

    /// In a freeze no packet is handled at all: the hot path looks at one bound for both.
    pub(super) fn set_frozen(&mut self, is_frozen: bool) {
        self.packets_steps_max = if is_frozen { 0 } else { self.steps_max * PACKETS_FACTOR };
    }

    pub(super) fn put_off(&mut self, work: Work, now: Micros) {
        if self.waiting.is_empty() {
            self.at = now + Micros(1);
        }
        self.waiting.push_back(work);
    }

    /// What is to be forgotten of a node has been.
    pub(super) fn drop_forgetting(&mut self, node: &Range<u16>) {
        let is_it = |work: &Work| matches!(work, Work::Forget(forget) if forget.node == *node);
        self.waiting.retain(|work| !is_it(work));
    }

    /// When something goes on.
    pub(super) fn next(&self) -> Option<Micros> {
        (!self.waiting.is_empty()).then_some(self.at)
    }
}

impl Shard {
    /// Steps that the last input took, of about a tenth of a microsecond each. What can wait does
    /// at [`crate::Limits::input_steps_max`].
    pub fn steps(&self) -> u64 {
        self.slices.steps()
    }

    /// Goes on with what waits, in turn, until the steps of an input are spent.
    pub(super) fn go_on(&mut self, now: Micros, sink: &mut impl Sink) {
        if self.slices.next().is_none_or(|at| at > now) {
            return;
        }
        // What has to wait again does so for a later turn.
        for _ in 0..self.slices.waiting.len() {
            if self.slices.is_spent() {
                break;
            }
            let Some(work) = self.slices.waiting.pop_front() else { break };
            match work {
                Work::Filters(ticket) => self.go_on_with_filters(ticket, now, sink),
                Work::Replay(session) => self.replay_in_turn(session, now, sink),
                Work::Queries => self.answer_in_turn(now, sink),
                Work::Round(round, news) => self.close_round(round, news, now),
                Work::Move(walk) => self.walk(walk, now, sink),
                Work::Log => {
                    self.log.is_put_off = false;
                    self.answer_logged(now, sink);
                }
                Work::Base => self.base_in_turn(now, sink),
                Work::List(list) => self.go_on_listing(list, now, sink),
                Work::Copies(copies) => self.copy_again(copies, now, sink),
                Work::Wills(walk) => self.tell_all_wills(walk, now, sink),
                Work::Forget(forget) => self.go_on_forgetting(forget, now),
                Work::HeldPicks(count) => self.choose_for_some_held(count, now, sink),
                Work::Claims(of) => self.go_on_claiming(of, now, sink),
                Work::Packets(conn) => {
                    sink.resume(conn);
                    // They come in an input of their own.
                    self.slices.steps = self.slices.steps.max(self.slices.steps_max);
                }
            }
            self.settle(now, sink);
        }
        self.slices.at = now + Micros(1);
        crate::shrink::queue(&mut self.slices.waiting);
    }

    /// The rest of what was received waits for a later turn, or for the end of a freeze.
    #[cold]
    pub(super) fn hold_packets(&mut self, conn: ConnKey, now: Micros, sink: &mut impl Sink) {
        sink.pause(conn);
        if !self.holds_input(conn) {
            self.slices.put_off(Work::Packets(conn), now);
        }
    }
}
