//! Copies of lost nodes' logs that this node is to open: one stand-in at a time.

use super::stand_in::{LostNode, StandIn, StandIns};
use crate::cluster::Membership;
use std::ops::Range;
use weir_cluster::{CopyState, Incarnation, Slot};
use weir_core::Micros;

/// How long to wait before the agreement is asked again, and before a stand-in is started again
/// that could not go on.
const AGAIN: Micros = Micros(100_000);
const REST: Micros = Micros(5_000_000);

/// How often a copy is tried that cannot be served. Then its owner may be a member again, with
/// what its own disk has.
const TRIES_MAX: u32 = 3;

/// What the shards are told.
pub(super) enum Adopted {
    /// The sessions that these shards have are to be this node's.
    Begun(Range<u16>),
    /// They are, or nothing more comes of it.
    Ended,
}

/// Whose log it is: of which membership of the node at a slot.
type Log = (Slot, Incarnation);

pub(super) struct Opening {
    stand_ins: Box<dyn StandIns>,
    running: Option<(Log, StandIn)>,
    /// All their sessions are here: the copies are to be closed.
    served: Vec<Log>,
    /// When it is to be looked at without news; 0 if it need not.
    due: Micros,
    /// What was opened last, and how often that could not be served.
    last: Option<Log>,
    tries: u32,
    /// What is not opened any more.
    given_up: Option<Log>,
    /// How many were, and how often the sessions could not be served.
    pub(super) opened: u64,
    pub(super) failures: u64,
}

impl Opening {
    pub(super) fn new(stand_ins: Box<dyn StandIns>) -> Self {
        let (running, served, due) = (None, Vec::new(), Micros(0));
        let (last, given_up) = (None, None);
        Self { stand_ins, running, served, due, last, tries: 0, given_up, opened: 0, failures: 0 }
    }

    /// When it is to be looked at without news.
    pub(super) fn due(&self) -> Option<Micros> {
        (self.due > Micros(0)).then_some(self.due)
    }

    /// Does what is due: asks the agreement for copies that are to be opened, opens them, and says
    /// when they are served.
    pub(super) fn step(&mut self, membership: &mut Membership, now: Micros) -> Option<Adopted> {
        if let Some((log, stand_in)) = self.running.take_if(|(_, it)| it.has_ended()) {
            self.end(log, stand_in, now);
            return Some(Adopted::Ended);
        }
        if self.running.is_some() || self.due > now || !membership.may_act() {
            return None;
        }
        self.due = Micros(0);
        let own = membership.seat().map(|seat| (seat.place.slot, seat.incarnation))?;
        let (lost, state) = self.lost_of(own, membership)?;
        let slot = Slot(lost.slot);
        let log = (slot, Incarnation(lost.owner));
        let is_served = self.served.contains(&log);
        let is_given_up = self.given_up == Some(log);
        // What is asked for counts once it is seen.
        match state {
            CopyState::Kept if is_given_up => return None,
            CopyState::Kept => {
                let _ = membership.open_log_of(slot);
            }
            CopyState::Opened if is_given_up => {
                let _ = membership.give_back_log_of(slot);
            }
            CopyState::Opened if is_served => {
                let _ = membership.close_log_of(slot);
            }
            CopyState::Opened => return self.start(own.0, lost, now),
            CopyState::Void => {}
        }
        self.due = now + AGAIN;
        None
    }

    fn start(&mut self, own: Slot, lost: LostNode, now: Micros) -> Option<Adopted> {
        tracing::warn!(node = lost.name, "opening the copy of the log of a node that is lost");
        let log = (Slot(lost.slot), Incarnation(lost.owner));
        if self.last.replace(log) != Some(log) {
            (self.opened, self.tries) = (self.opened + 1, 0);
        }
        let shards = lost.shards.clone();
        match self.stand_ins.start(own.0, lost) {
            Ok(stand_in) => {
                self.running = Some((log, stand_in));
                Some(Adopted::Begun(shards))
            }
            Err(error) => {
                tracing::error!(%error, "the copy of a node's log cannot be opened");
                self.note_failure(log, now);
                None
            }
        }
    }

    /// A node that is no member, and whose log this node has a copy of.
    fn lost_of(
        &mut self,
        own: (Slot, Incarnation),
        membership: &Membership,
    ) -> Option<(LostNode, CopyState)> {
        let members = membership.members();
        let is_open = |&(slot, owner): &Log| {
            let copy = members.log_copy(slot);
            copy.is_some_and(|copy| copy.owner == owner && copy.state == CopyState::Opened)
        };
        self.served.retain(is_open);
        members.places().find_map(|place| {
            let copy = members.log_copy(place.slot).filter(|copy| copy.keeper == Some(own))?;
            let is_member = members.nodes().any(|node| node.place.slot == place.slot);
            let end = place.first_shard.saturating_add(place.shards);
            let (name, shards) = (place.name.clone(), place.first_shard..end);
            let lost = LostNode { name, slot: place.slot.0, owner: copy.owner.0, shards };
            let is_due = !is_member && copy.state != CopyState::Void;
            is_due.then_some((lost, copy.state))
        })
    }

    fn end(&mut self, log: Log, stand_in: StandIn, now: Micros) {
        let slot = log.0;
        match stand_in.end() {
            Ok(()) => {
                tracing::info!(slot = slot.0, "the sessions of a lost node are this node's now");
                self.served.push(log);
            }
            Err(why) => {
                tell_fault(slot, &why);
                self.note_failure(log, now);
            }
        }
    }

    fn note_failure(&mut self, log: Log, now: Micros) {
        self.due = now + REST;
        self.failures += 1;
        self.tries += 1;
        if self.tries == TRIES_MAX {
            tracing::error!(
                slot = log.0.0,
                "its copy is given up: it may be back with its own disk"
            );
            self.given_up = Some(log);
        }
    }

    /// The broker ends.
    pub(super) fn stop(&mut self) {
        if let Some(((slot, _), stand_in)) = self.running.take()
            && let Err(why) = stand_in.end()
        {
            tell_fault(slot, &why);
        }
    }
}

/// A stand-in could not go on. What it had is where it was: in its store, or in the copy.
fn tell_fault(slot: Slot, why: &str) {
    tracing::error!(slot = slot.0, why, "the sessions of a lost node cannot be served");
}
