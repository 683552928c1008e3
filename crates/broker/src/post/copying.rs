//! The copy of this node's logs at another node: which node has it, and since when that counts.
//!
//! A keeper is chosen among the members, and every shard begins a copy there. A shard whose copy is
//! whole waits for it from then on. Once all are, the cluster's agreement names the keeper: from
//! then on it may open the copy if this node is lost. A keeper that is lost is first named no more,
//! and only then does nobody wait for it: so whoever opens a copy has all that was acknowledged.

use std::ops::Range;
use weir_cluster::{CopyState, Incarnation, LogCopy, Revision, Slot};
use weir_control::OwnCopyState;
use weir_core::Micros;

/// How long to wait before the agreement is asked again, and before another copy is begun where one
/// could not go on.
const AGAIN: Micros = Micros(100_000);
const REST: Micros = Micros(5_000_000);

/// A membership.
type Seat = (Slot, Incarnation);

/// Another node that can have the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Keeper {
    pub(super) name: String,
    pub(super) seat: Seat,
    pub(super) shards: Range<u16>,
    /// Which link with it that is, and how often what waited for that was dropped: then the copy
    /// has a gap.
    pub(super) link: (u64, u64),
}

/// What is known at the moment.
pub(super) struct Seen<'a> {
    pub(super) own: Seat,
    /// What the agreement says of this node's copy, and since when.
    pub(super) record: Option<&'a LogCopy>,
    pub(super) revision: Revision,
    /// The other nodes that are there, by slot.
    pub(super) keepers: &'a [Keeper],
    pub(super) now: Micros,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Every shard begins a copy of this name at the keeper.
    Begin(Keeper, u64),
    /// None has one any more.
    End,
    /// The agreement is to name this keeper.
    Name(Option<Seat>),
}

#[derive(Debug)]
pub(super) struct Copying {
    shards: usize,
    /// Whether there is to be a copy.
    pub(super) is_on: bool,
    stage: Stage,
    /// Nobody waits for the copy, though the agreement may name it.
    pub(super) is_released: bool,
    copies: u64,
    /// When the agreement may be asked next, while it is to say something else; 0 if not.
    ask_at: Micros,
    /// When the next copy may begin, after one that could not go on; 0 if at once.
    begin_at: Micros,
    /// How many could not go on.
    pub(super) failures: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    None,
    /// So many shards have a whole copy there.
    Filling {
        keeper: Keeper,
        copy: u64,
        whole: usize,
    },
    /// All have, and the agreement is asked to name it, or does.
    Named {
        keeper: Keeper,
        copy: u64,
    },
    /// The agreement is to name nobody, by a newer record than this one.
    Ending(Revision),
}

impl Copying {
    pub(super) fn new(shards: usize, is_on: bool) -> Self {
        let (ask_at, begin_at) = (Micros(0), Micros(0));
        let (stage, is_released) = (Stage::None, false);
        Self { shards, is_on, stage, is_released, copies: 0, ask_at, begin_at, failures: 0 }
    }

    /// Whether what this node acknowledges is its own to answer for: what the agreement has of it
    /// is of this membership.
    pub(super) fn is_ready(&self, own: Seat, record: Option<&LogCopy>) -> bool {
        let is_own = |record: &LogCopy| record.owner == own.1 && record.state == CopyState::Kept;
        record.map_or(!self.is_on, is_own)
    }

    /// A shard's copy is whole.
    pub(super) fn note_whole(&mut self, named: u64) {
        if let Stage::Filling { copy, whole, .. } = &mut self.stage
            && *copy == named
        {
            *whole += 1;
        }
    }

    /// The keeper's disk takes no more of it.
    pub(super) fn note_failed(&mut self, named: u64, seen: &Seen<'_>) -> Option<Order> {
        let is_of = |copy: u64| copy == named;
        match self.stage {
            Stage::Filling { copy, .. } if is_of(copy) => {
                self.stage = Stage::None;
                self.begin_at = seen.now + REST;
                self.failures += 1;
                Some(Order::End)
            }
            Stage::Named { copy, .. } if is_of(copy) => {
                self.stage = Stage::Ending(seen.revision);
                (self.ask_at, self.begin_at) = (seen.now, seen.now + REST);
                self.failures += 1;
                None
            }
            _ => None,
        }
    }

    /// This node is another member: what it had agreed on is void.
    pub(super) fn begin_anew(&mut self) {
        (self.stage, self.is_released) = (Stage::None, false);
        self.ask_at = Micros(0);
    }

    /// Nobody waits for the copy any more, without anybody's having agreed: this node may not act.
    /// If it may again by the same lease, the agreement has to name the copy no more before.
    pub(super) fn release(&mut self, revision: Revision, now: Micros) {
        let since = match self.stage {
            Stage::None | Stage::Filling { .. } => return self.stage = Stage::None,
            Stage::Named { .. } => revision,
            Stage::Ending(since) => since,
        };
        (self.stage, self.is_released, self.ask_at) = (Stage::Ending(since), true, now);
    }

    /// How it stands, and where the copy is or goes; it is whole only while the agreement says so.
    pub(super) fn state(&self, named: Option<Seat>) -> (OwnCopyState, Option<&Keeper>) {
        match &self.stage {
            Stage::None => (OwnCopyState::None, None),
            Stage::Named { keeper, .. } if named == Some(keeper.seat) => {
                (OwnCopyState::Whole, Some(keeper))
            }
            Stage::Filling { keeper, .. } | Stage::Named { keeper, .. } => {
                (OwnCopyState::Filling, Some(keeper))
            }
            Stage::Ending(_) => (OwnCopyState::Ending, None),
        }
    }

    /// When [`Copying::next`] is due without news.
    pub(super) fn due(&self) -> Option<Micros> {
        [self.ask_at, self.begin_at].into_iter().filter(|&at| at > Micros(0)).min()
    }

    /// The next order; to be asked until there is none.
    pub(super) fn next(&mut self, seen: &Seen<'_>) -> Option<Order> {
        let is_there = |keeper: &Keeper| seen.keepers.contains(keeper);
        let named = seen.record.and_then(|record| record.keeper);
        // One of before, when there was to be a copy, must not be opened.
        let is_stale = !self.is_on && named.is_some();
        if is_stale || !self.is_ready(seen.own, seen.record) {
            return self.ask(None, seen);
        }
        match &self.stage {
            Stage::None if named.is_some() => {
                self.stage = Stage::Ending(seen.revision);
                self.next(seen)
            }
            Stage::None if !self.is_on || self.begin_at > seen.now => self.rest(),
            Stage::None => {
                (self.ask_at, self.begin_at) = (Micros(0), Micros(0));
                let keeper = choose(seen)?.clone();
                self.copies += 1;
                // No two memberships of a node give a copy the same name.
                let copy = seen.own.1.0.wrapping_add(self.copies);
                self.stage = Stage::Filling { keeper: keeper.clone(), copy, whole: 0 };
                Some(Order::Begin(keeper, copy))
            }
            Stage::Filling { keeper, .. } if !is_there(keeper) => {
                self.stage = Stage::None;
                Some(Order::End)
            }
            Stage::Filling { keeper, copy, whole } if *whole == self.shards => {
                let keeper = keeper.clone();
                self.stage = Stage::Named { keeper, copy: *copy };
                self.ask_at = seen.now;
                self.next(seen)
            }
            Stage::Named { keeper, .. } if !is_there(keeper) => {
                self.stage = Stage::Ending(seen.revision);
                self.ask_at = seen.now;
                self.next(seen)
            }
            Stage::Named { keeper, .. } if named != Some(keeper.seat) => {
                let seat = keeper.seat;
                self.ask(Some(seat), seen)
            }
            Stage::Ending(since) if seen.revision > *since && named.is_none() => {
                (self.stage, self.is_released) = (Stage::None, false);
                Some(Order::End)
            }
            Stage::Ending(_) => self.ask(None, seen),
            Stage::Filling { .. } | Stage::Named { .. } => self.rest(),
        }
    }

    /// The agreement says what it should.
    fn rest(&mut self) -> Option<Order> {
        self.ask_at = Micros(0);
        None
    }

    /// The agreement does not say so yet.
    fn ask(&mut self, keeper: Option<Seat>, seen: &Seen<'_>) -> Option<Order> {
        if self.ask_at > seen.now {
            return None;
        }
        self.ask_at = seen.now + AGAIN;
        Some(Order::Name(keeper))
    }
}

/// The next node behind this one that is there.
fn choose<'a>(seen: &Seen<'a>) -> Option<&'a Keeper> {
    let behind = seen.keepers.iter().find(|keeper| keeper.seat.0 > seen.own.0);
    behind.or(seen.keepers.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Seat = (Slot(1), Incarnation(10));

    fn keeper(slot: u8) -> Keeper {
        let first = u16::from(slot) * 2;
        let (name, seat) = (format!("node-{slot}"), (Slot(slot), Incarnation(slot.into())));
        Keeper { name, seat, shards: first..first + 2, link: (1, 0) }
    }

    /// What the agreement has, and who is there.
    struct World {
        record: Option<LogCopy>,
        revision: u64,
        keepers: Vec<Keeper>,
        now: Micros,
        copying: Copying,
    }

    impl World {
        fn new(keepers: &[u8]) -> Self {
            let keepers = keepers.iter().map(|&slot| keeper(slot)).collect();
            let (copying, now) = (Copying::new(2, true), Micros(1));
            Self { record: None, revision: 0, keepers, now, copying }
        }

        fn next(&mut self) -> Option<Order> {
            let Self { record, revision, keepers, now, copying } = self;
            let revision = Revision(*revision);
            copying.next(&Seen { own: OWN, record: record.as_ref(), revision, keepers, now: *now })
        }

        fn write(&mut self, keeper: Option<Seat>) {
            let (slot, owner) = OWN;
            self.record = Some(LogCopy { slot, owner, keeper, state: CopyState::Kept });
            self.revision += 1;
        }

        fn wait(&mut self) {
            self.now = self.now + AGAIN;
        }

        /// Up to where all of a copy is there, and named.
        fn fill(&mut self, slot: u8) {
            let Some(Order::Begin(to, copy)) = self.next() else { panic!("no copy begins") };
            assert_eq!((to, self.next()), (keeper(slot), None));
            (0..2).for_each(|_| self.copying.note_whole(copy));
            let seat = Some(keeper(slot).seat);
            assert_eq!(self.next(), Some(Order::Name(seat)));
            assert_eq!(self.state(), OwnCopyState::Filling, "nobody has agreed");
            self.write(seat);
            assert_eq!((self.next(), self.state()), (None, OwnCopyState::Whole));
        }

        fn state(&self) -> OwnCopyState {
            let named = self.record.as_ref().and_then(|record| record.keeper);
            self.copying.state(named).0
        }
    }

    #[test]
    fn the_node_behind_is_named_once_every_shard_has_a_whole_copy_there() {
        let mut world = World::new(&[0, 2]);
        assert_eq!((world.next(), world.next()), (Some(Order::Name(None)), None));
        world.wait();
        assert_eq!(world.next(), Some(Order::Name(None)), "it is asked again");
        world.write(None);
        let Some(Order::Begin(to, copy)) = world.next() else { panic!("no copy begins") };
        assert_eq!(to, keeper(2));
        world.copying.note_whole(copy - 1);
        world.copying.note_whole(copy);
        assert_eq!(world.next(), None);
        world.copying.note_whole(copy);
        let name = Some(Order::Name(Some(keeper(2).seat)));
        assert_eq!((world.next(), world.next()), (name.clone(), None));
        world.wait();
        assert_eq!(world.next(), name);
        world.write(Some(keeper(2).seat));
        world.wait();
        assert_eq!(world.next(), None);
    }

    #[test]
    fn nobody_waits_any_more_only_once_the_keeper_is_named_no_more() {
        let mut world = World::new(&[0, 2]);
        world.write(None);
        world.fill(2);
        world.keepers = vec![keeper(0)];
        assert_eq!((world.next(), world.next()), (Some(Order::Name(None)), None));
        assert_eq!(world.state(), OwnCopyState::Ending);
        world.write(None);
        assert_eq!((world.next(), world.state()), (Some(Order::End), OwnCopyState::None));
        world.fill(0);
    }

    #[test]
    fn a_name_that_may_still_be_written_is_written_over() {
        let mut world = World::new(&[2]);
        world.write(None);
        let Some(Order::Begin(_, copy)) = world.next() else { panic!("no copy begins") };
        (0..2).for_each(|_| world.copying.note_whole(copy));
        assert_eq!(world.next(), Some(Order::Name(Some(keeper(2).seat))));
        // It is on its way when the keeper is lost.
        world.keepers.clear();
        assert_eq!(world.next(), Some(Order::Name(None)));
        world.write(Some(keeper(2).seat));
        world.wait();
        assert_eq!(world.next(), Some(Order::Name(None)));
        world.write(None);
        assert_eq!((world.next(), world.next()), (Some(Order::End), None));
    }

    #[test]
    fn a_copy_that_was_released_counts_until_it_is_named_no_more() {
        let mut world = World::new(&[2]);
        world.write(None);
        world.fill(2);
        world.copying.release(Revision(world.revision), world.now);
        world.keepers.clear();
        assert!(world.copying.is_released);
        assert_eq!((world.next(), world.next()), (Some(Order::Name(None)), None));
        assert!(world.copying.is_released);
        world.write(None);
        assert_eq!((world.next(), world.copying.is_released), (Some(Order::End), false));
        // Of one that nobody had agreed on, nothing is left.
        world.keepers = vec![keeper(2)];
        assert!(matches!(world.next(), Some(Order::Begin(..))));
        world.copying.release(Revision(world.revision), world.now);
        assert!(!world.copying.is_released);
        world.fill(2);
    }

    #[test]
    fn a_copy_that_is_not_whole_is_given_up_at_once() {
        let mut world = World::new(&[2]);
        world.write(None);
        assert!(matches!(world.next(), Some(Order::Begin(..))));
        world.keepers.clear();
        assert_eq!((world.next(), world.next()), (Some(Order::End), None));
    }

    #[test]
    fn a_copy_is_begun_anew_where_something_of_it_was_dropped_on_the_way() {
        let mut world = World::new(&[2]);
        world.write(None);
        world.fill(2);
        world.keepers[0].link.1 += 1;
        assert_eq!((world.next(), world.next()), (Some(Order::Name(None)), None));
        world.write(None);
        assert_eq!(world.next(), Some(Order::End));
        let Some(Order::Begin(to, _)) = world.next() else { panic!("no copy begins") };
        assert_eq!(to, world.keepers[0]);
        world.keepers[0].link.0 += 1;
        assert_eq!(world.next(), Some(Order::End), "nor where it was not whole");
    }

    #[test]
    fn a_disk_that_is_full_is_left_alone_for_a_while() {
        let mut world = World::new(&[2]);
        world.write(None);
        let Some(Order::Begin(_, copy)) = world.next() else { panic!("no copy begins") };
        let World { copying, keepers, now, .. } = &mut world;
        let seen = Seen { own: OWN, record: None, revision: Revision(1), keepers, now: *now };
        assert_eq!(copying.note_failed(copy + 1, &seen), None, "of another copy");
        assert_eq!(copying.note_failed(copy, &seen), Some(Order::End));
        assert_eq!(copying.failures, 1);
        assert_eq!(world.next(), None);
        world.now = world.now + REST;
        assert!(matches!(world.next(), Some(Order::Begin(..))));
    }

    #[test]
    fn a_node_without_copies_lets_nobody_open_one_of_before() {
        let mut world = World::new(&[2]);
        world.copying.is_on = false;
        assert!(world.copying.is_ready(OWN, None) && world.next().is_none());
        for (owner, keeper) in [(Incarnation(9), Some(keeper(2).seat)), (Incarnation(9), None)] {
            world.write(keeper);
            world.record.as_mut().unwrap().owner = owner;
            assert!(!world.copying.is_ready(OWN, world.record.as_ref()));
            assert_eq!(world.next(), Some(Order::Name(None)));
            world.write(None);
            assert_eq!(world.next(), None);
        }
        assert!(world.copying.is_ready(OWN, world.record.as_ref()));
    }

    #[test]
    fn what_was_opened_is_void_until_this_membership_says_otherwise() {
        let mut world = World::new(&[2]);
        world.write(Some(keeper(2).seat));
        let record = world.record.as_mut().unwrap();
        (record.owner, record.state) = (Incarnation(9), CopyState::Void);
        assert!(!world.copying.is_ready(OWN, world.record.as_ref()));
        assert_eq!(world.next(), Some(Order::Name(None)));
        world.write(None);
        assert!(world.copying.is_ready(OWN, world.record.as_ref()));
        world.fill(2);
    }
}
