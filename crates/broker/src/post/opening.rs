//! Copies of lost nodes' logs that this node is to open: a stand-in for each.

use super::stand_in::{LostNode, StandIn, StandIns};
use crate::cluster::Membership;
use std::collections::BTreeMap;
use std::ops::Range;
use weir_cluster::{CopyState, Incarnation, LogCopy, Node, Place, Seat, Slot};
use weir_core::Micros;

/// How long to wait before the agreement is asked again, and before a stand-in is started again
/// that could not go on.
const AGAIN: Micros = Micros(100_000);
const REST: Micros = Micros(5_000_000);

/// How often a copy is tried that cannot be served. Then another node may open its own, or its
/// owner may be a member again, with what its own disk has.
const TRIES_MAX: u32 = 3;

/// How long the owner of a log has to be back, if this node has its copy since before it was
/// started: they may have stopped together, and be started together.
pub(super) const BACK_AFTER: Micros = Micros(10_000_000);

/// What the shards are told.
#[derive(Clone)]
pub(super) enum Adopted {
    /// The sessions that these shards have are to be this node's.
    Begun(Range<u16>),
    /// They are, or nothing more comes of it.
    Ended(Range<u16>),
}

/// What has become of a copy that was opened.
struct Opened {
    shards: Range<u16>,
    stage: Stage,
    /// How often it could not be served.
    failures: u32,
}

enum Stage {
    /// If it is void, it is to end: this node was lost meanwhile, and another has opened its copy.
    Running { stand_in: StandIn, is_void: bool },
    /// It could not go on, and is not started again before this.
    Resting(Micros),
    /// It could not go on too often.
    GivenUp,
    /// All its sessions are here: the copy is to be closed.
    Served,
}

impl Stage {
    fn runs(&self) -> bool {
        matches!(self, Self::Running { .. })
    }
}

pub(super) struct Opening {
    stand_ins: Box<dyn StandIns>,
    /// By whose log it is.
    all: BTreeMap<Seat, Opened>,
    /// When it is to be looked at without news; 0 if it need not.
    due: Micros,
    /// Until when the owners of logs that it has since before may be back; 0 if none is waited for.
    back_until: Micros,
    /// Since when it is the present member.
    since: Micros,
    /// How many were, and how often the sessions could not be served.
    pub(super) opened: u64,
    pub(super) failures: u64,
}

impl Opening {
    pub(super) fn new(stand_ins: Box<dyn StandIns>) -> Self {
        Self {
            stand_ins,
            all: BTreeMap::new(),
            due: Micros(0),
            back_until: Micros(0),
            since: Micros(0),
            opened: 0,
            failures: 0,
        }
    }

    /// This node is a member: what it has of logs that it kept before stays.
    pub(super) fn seated(&mut self, membership: &Membership, now: Micros) {
        let Some(node) = membership.seat() else { return };
        self.since = now;
        let members = membership.members();
        let kept = members.places().filter_map(|place| {
            let copy = members.log_copy(place.slot)?;
            let is_kept = copy.open_keepers().iter().any(|&keeper| members.holds(keeper));
            is_kept.then(|| lost(place, copy))
        });
        let kept: Vec<LostNode> = kept.collect();
        let memberships = node.former.iter().copied().chain([node.incarnation]).collect();
        // Of a record that cannot be read nothing is known.
        let wanted = (members.counts().garbled == 0).then_some(&*kept);
        self.stand_ins.go_on(memberships, wanted);
    }

    /// When it is to be looked at without news.
    pub(super) fn due(&self) -> Option<Micros> {
        let rests = self.all.values().filter_map(|opened| match opened.stage {
            Stage::Resting(until) => Some(until),
            Stage::Running { .. } | Stage::GivenUp | Stage::Served => None,
        });
        rests.chain([self.due, self.back_until]).filter(|&at| at > Micros(0)).min()
    }

    /// Does what is due: asks the agreement for copies that are to be opened, opens them, and says
    /// when they are served. To be asked until there is nothing more.
    pub(super) fn step(&mut self, membership: &mut Membership, now: Micros) -> Option<Adopted> {
        if let Some(shards) = self.end(now) {
            return Some(Adopted::Ended(shards));
        }
        let own = membership.seat().map(Node::seat);
        let Some(own) = own.filter(|_| membership.may_act()) else {
            self.rest(now);
            return None;
        };
        self.stop_void(own, membership);
        let all = lost_of(own, membership);
        let is_there = |log: &Seat| all.iter().any(|it| log_of(&it.node) == *log);
        let back_until = self.since + BACK_AFTER;
        let is_awaited = |it: &Lost| it.is_of_before && now < back_until;
        self.back_until = if all.iter().any(is_awaited) { back_until } else { Micros(0) };
        let is_over = |log: &Seat, it: &mut Opened| !it.stage.runs() && !is_there(log);
        for (log, _) in self.all.extract_if(.., |log, it| is_over(log, it)) {
            let copy = membership.members().log_copy(log.0).filter(|copy| copy.owner == log.1);
            // What could not be served is not to be lost.
            if copy.is_none_or(|copy| copy.state == CopyState::Void) {
                self.stand_ins.forget(log);
            }
        }
        let may_ask = self.due <= now;
        if may_ask {
            self.due = Micros(0);
        }
        for it in all.into_iter().filter(|it| !is_awaited(it)) {
            let Lost { node: lost, state, .. } = it;
            let slot = Slot(lost.slot);
            // The shards tell the sessions of two of one place not apart.
            let is_other = |(log, it): (&Seat, &Opened)| {
                log.0 == slot && *log != log_of(&lost) && it.stage.runs()
            };
            if self.all.iter().any(is_other) {
                continue;
            }
            let stage = self.all.get(&log_of(&lost)).map(|opened| &opened.stage);
            let asked = match (state, stage) {
                (CopyState::Opened, None) => return self.start(own.0, lost, now),
                (CopyState::Opened, Some(Stage::Resting(until))) if *until <= now => {
                    return self.start(own.0, lost, now);
                }
                // One that has begun was opened by an earlier membership of this node.
                (CopyState::Kept, _) if may_ask => membership.open_log_of(slot),
                (CopyState::Opened, Some(Stage::GivenUp)) if may_ask => {
                    membership.give_back_log_of(slot)
                }
                (CopyState::Opened, Some(Stage::Served)) if may_ask => {
                    membership.close_log_of(slot)
                }
                _ => continue,
            };
            // What is asked for counts once it is seen, and is asked again if it is not.
            let _ = asked;
            self.due = now + AGAIN;
        }
        None
    }

    /// Has those end that another keeper serves instead.
    fn stop_void(&mut self, own: Seat, membership: &Membership) {
        for ((slot, _), opened) in &mut self.all {
            if let Stage::Running { stand_in, is_void: is_void @ false } = &mut opened.stage
                && membership.members().opener(*slot) != Some(own)
            {
                tracing::warn!(slot = slot.0, "another node serves the sessions of a lost one now");
                stand_in.stop();
                *is_void = true;
            }
        }
    }

    /// Nothing is due while this node may not act.
    fn rest(&mut self, now: Micros) {
        (self.due, self.back_until) = (Micros(0), Micros(0));
        for opened in self.all.values_mut() {
            if let Stage::Resting(until) = &mut opened.stage {
                *until = now + REST;
            }
        }
    }

    fn start(&mut self, own: Slot, lost: LostNode, now: Micros) -> Option<Adopted> {
        tracing::warn!(node = lost.name, "opening the copy of the log of a node that is lost");
        let (log, shards) = (log_of(&lost), lost.shards.clone());
        let opened = self.all.entry(log).or_insert_with(|| {
            self.opened += 1;
            Opened { shards: shards.clone(), stage: Stage::Resting(now), failures: 0 }
        });
        match self.stand_ins.start(own.0, lost) {
            Ok(stand_in) => {
                opened.stage = Stage::Running { stand_in, is_void: false };
                Some(Adopted::Begun(shards))
            }
            Err(error) => {
                tracing::error!(%error, "the copy of a node's log cannot be opened");
                self.note_failure(log, now);
                None
            }
        }
    }

    /// Takes one that has ended, and says which shards were its.
    fn end(&mut self, now: Micros) -> Option<Range<u16>> {
        let has_ended = |(_, opened): &(&Seat, &mut Opened)| match &opened.stage {
            Stage::Running { stand_in, .. } => stand_in.has_ended(),
            Stage::Resting(_) | Stage::GivenUp | Stage::Served => false,
        };
        let (&log, opened) = self.all.iter_mut().find(has_ended)?;
        let (slot, shards) = (log.0, opened.shards.clone());
        let ended = std::mem::replace(&mut opened.stage, Stage::Served);
        let Stage::Running { stand_in, is_void } = ended else { return None };
        match stand_in.end() {
            // Whatever it says of its end.
            _ if is_void => {
                self.all.remove(&log);
                self.stand_ins.forget(log);
            }
            Ok(()) => {
                tracing::info!(slot = slot.0, "the sessions of a lost node are this node's now");
            }
            Err(why) => {
                tell_fault(slot, &why);
                self.note_failure(log, now);
            }
        }
        Some(shards)
    }

    fn note_failure(&mut self, log: Seat, now: Micros) {
        self.failures += 1;
        let Some(opened) = self.all.get_mut(&log) else { return };
        opened.failures += 1;
        if opened.failures < TRIES_MAX {
            opened.stage = Stage::Resting(now + REST);
            return;
        }
        opened.stage = Stage::GivenUp;
        let slot = log.0.0;
        tracing::error!(slot, "its copy is given up: it may be back with its own disk");
    }

    /// The broker ends.
    pub(super) fn stop(&mut self) {
        for ((slot, _), Opened { stage, .. }) in std::mem::take(&mut self.all) {
            if let Stage::Running { stand_in, .. } = stage
                && let Err(why) = stand_in.end()
            {
                tell_fault(slot, &why);
            }
        }
    }
}

fn log_of(lost: &LostNode) -> Seat {
    (Slot(lost.slot), Incarnation(lost.owner))
}

/// A node that is no member, and whose log's copy this node is to open, or has opened.
struct Lost {
    node: LostNode,
    state: CopyState,
    /// The copy is of an earlier membership of this node, and was not opened.
    is_of_before: bool,
}

fn lost_of(own: Seat, membership: &Membership) -> Vec<Lost> {
    let members = membership.members();
    let is_own = |&(_, opener): &(&Place, Seat)| opener == own;
    let all = members.lost().filter(is_own).filter_map(|(place, _)| {
        let copy = members.log_copy(place.slot)?;
        // If another has opened it, that one is lost as well.
        let has_opened = copy.keepers.first() == Some(&own);
        let state = if has_opened { copy.state } else { CopyState::Kept };
        let is_of_before = copy.state == CopyState::Kept && !copy.keepers.contains(&own);
        Some(Lost { node: lost(place, copy), state, is_of_before })
    });
    all.collect()
}

fn lost(place: &Place, copy: &LogCopy) -> LostNode {
    let end = place.first_shard.saturating_add(place.shards);
    let (name, shards) = (place.name.clone(), place.first_shard..end);
    LostNode { name, slot: place.slot.0, owner: copy.owner.0, shards }
}

/// A stand-in could not go on. What it had is where it was: in its store, or in the copy.
fn tell_fault(slot: Slot, why: &str) {
    tracing::error!(slot = slot.0, why, "the sessions of a lost node cannot be served");
}
