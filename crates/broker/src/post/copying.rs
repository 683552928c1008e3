//! The copies of this node's logs at other nodes: which nodes have one, and since when that counts.
//!
//! Keepers are chosen among the members, and every shard begins a copy there. A shard whose copy is
//! whole waits for it from then on. Once all are, the cluster's agreement names the keeper: from
//! then on it may open the copy if this node is lost. A keeper that is lost is first named no more,
//! and only then does nobody wait for it: so whoever opens a copy has all that was acknowledged.
//! The same goes for one that is late while another is not: of three nodes two go on.

use std::ops::Range;
use weir_cluster::{CopyState, LogCopy, Revision, Seat};
use weir_control::OwnCopyState;
use weir_core::Micros;

/// How long to wait before the agreement is asked again.
const AGAIN: Micros = Micros(100_000);

/// How long before another copy is begun at a keeper where one could not go on: twice as long each
/// time, so many times, as all that there is goes there anew. Where one was good for so long, that
/// begins again.
const REST: Micros = Micros(5_000_000);
const RESTS_MAX: u32 = 6;
const GOOD: Micros = Micros(300_000_000);

/// Another node that can have a copy.
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
    /// What the agreement says of this node's copies, and since when.
    pub(super) record: Option<&'a LogCopy>,
    pub(super) revision: Revision,
    /// The other nodes that are there, by slot.
    pub(super) keepers: &'a [Keeper],
    pub(super) now: Micros,
}

impl Seen<'_> {
    /// The keepers that the agreement names.
    fn named(&self) -> &[Seat] {
        self.record.map_or(&[], |record| &record.keepers)
    }

    fn is_there(&self, keeper: &Keeper) -> bool {
        self.keepers.contains(keeper)
    }
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Every shard begins a copy of this name at the keeper, as the one at this place among all.
    Begin { at: usize, keeper: Keeper, copy: u64 },
    /// None has that one any more.
    End(u64),
    /// The agreement is to name these keepers.
    Name(Vec<Seat>),
}

#[derive(Debug)]
pub(super) struct Copying {
    shards: usize,
    /// Those that there are to be.
    copies: Vec<Copy>,
    /// How many had a name.
    names: u64,
    /// When the agreement may be asked next, while it is to say something else; 0 if not.
    ask_at: Micros,
    /// How many could not go on.
    pub(super) failures: u64,
}

/// One of them.
#[derive(Debug)]
struct Copy {
    begun: Option<Begun>,
    /// The keeper where the last could not go on, and how often that was so.
    failed: Option<(Seat, u32)>,
    /// When the next may begin there; 0 if at once.
    begin_at: Micros,
}

/// What there is of it.
#[derive(Debug)]
struct Begun {
    keeper: Keeper,
    name: u64,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// So many shards have a whole copy there.
    Filling(usize),
    /// All have, since then, and the agreement is asked to name it, or does.
    Named(Micros),
    /// The agreement is not to name it, by a newer record than this one. If it was released, nobody
    /// waits for it though the agreement may name it.
    Ending { since: Revision, is_released: bool },
}

impl Copy {
    /// It is to end: at once, unless the agreement may name it.
    fn end(&mut self, since: Revision, is_released: bool) {
        let Some(begun) = &mut self.begun else { return };
        begun.stage = match begun.stage {
            Stage::Filling(_) => return self.begun = None,
            Stage::Named(_) => Stage::Ending { since, is_released },
            Stage::Ending { since, is_released: was } => {
                Stage::Ending { since, is_released: is_released || was }
            }
        };
    }
}

impl Begun {
    fn is_named(&self) -> bool {
        matches!(self.stage, Stage::Named(_))
    }

    fn is_ending(&self) -> bool {
        matches!(self.stage, Stage::Ending { .. })
    }

    /// Whether some shard waits for it, and it is not ending yet.
    fn is_waited_for(&self) -> bool {
        match self.stage {
            Stage::Filling(whole) => whole > 0,
            Stage::Named(_) => true,
            Stage::Ending { .. } => false,
        }
    }
}

impl Copying {
    /// Of a node of so many shards, with so many copies.
    pub(super) fn new(shards: usize, copies: usize) -> Self {
        let copy = || Copy { begun: None, failed: None, begin_at: Micros(0) };
        let copies = std::iter::repeat_with(copy).take(copies).collect();
        Self { shards, copies, names: 0, ask_at: Micros(0), failures: 0 }
    }

    /// Whether there are to be copies.
    pub(super) fn is_on(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Whether what this node acknowledges is its own to answer for: what the agreement has of it
    /// is of this membership.
    pub(super) fn is_ready(&self, own: Seat, record: Option<&LogCopy>) -> bool {
        let is_own = |record: &LogCopy| record.owner == own.1 && record.state == CopyState::Kept;
        record.map_or(!self.is_on(), is_own)
    }

    /// Whether the agreement may name a copy that nobody waits for.
    pub(super) fn is_released(&self) -> bool {
        self.begun().any(|begun| matches!(begun.stage, Stage::Ending { is_released: true, .. }))
    }

    fn begun(&self) -> impl Iterator<Item = &Begun> {
        self.copies.iter().filter_map(|copy| copy.begun.as_ref())
    }

    /// A shard's copy is whole.
    pub(super) fn note_whole(&mut self, name: u64) {
        for begun in self.copies.iter_mut().filter_map(|copy| copy.begun.as_mut()) {
            if begun.name == name
                && let Stage::Filling(whole) = &mut begun.stage
            {
                *whole += 1;
            }
        }
    }

    /// The keeper's disk takes no more of it.
    pub(super) fn note_failed(&mut self, name: u64, seen: &Seen<'_>) -> Option<Order> {
        let is_it = |begun: &Begun| begun.name == name && !begun.is_ending();
        let mut all = self.copies.iter_mut();
        let copy = all.find(|copy| copy.begun.as_ref().is_some_and(is_it))?;
        let Begun { keeper, stage, .. } = copy.begun.as_ref()?;
        let was_good = matches!(stage, Stage::Named(since) if seen.now > *since + GOOD);
        let seat = keeper.seat;
        let of_it = copy.failed.filter(|(failed, _)| *failed == seat && !was_good);
        let times = of_it.map_or(0, |(_, times)| times);
        copy.begin_at = Micros(seen.now.0 + (REST.0 << times));
        copy.failed = Some((seat, (times + 1).min(RESTS_MAX)));
        copy.end(seen.revision, false);
        let is_over = copy.begun.is_none();
        self.failures += 1;
        self.ask_at = seen.now;
        is_over.then_some(Order::End(name))
    }

    /// Of these keepers nothing comes, though they have what to say. Those that shards wait for,
    /// and that there are others beside, are left out.
    pub(super) fn note_late(&mut self, late: &[u64], seen: &Seen<'_>) -> Vec<Order> {
        let is_late = |begun: &&Begun| late.contains(&begun.name);
        if !self.begun().any(|begun| begun.is_named() && !is_late(&begun)) {
            return Vec::new();
        }
        let left_out = self.begun().filter(is_late).filter(|begun| begun.is_waited_for());
        let left_out: Vec<u64> = left_out.map(|begun| begun.name).collect();
        left_out.into_iter().filter_map(|name| self.note_failed(name, seen)).collect()
    }

    /// This node is another member: what it had agreed on is void.
    pub(super) fn begin_anew(&mut self) {
        for Copy { begun, failed, begin_at } in &mut self.copies {
            (*begun, *failed, *begin_at) = (None, None, Micros(0));
        }
        self.ask_at = Micros(0);
    }

    /// Nobody waits for the copies any more, without anybody's having agreed: this node may not
    /// act. If it may again by the same lease, the agreement has to name them no more before.
    pub(super) fn release(&mut self, revision: Revision, now: Micros) {
        self.copies.iter_mut().for_each(|copy| copy.end(revision, true));
        self.ask_at = now;
    }

    /// How each stands, and where it is or goes; it is whole only while the agreement says so.
    pub(super) fn states(
        &self,
        named: &[Seat],
    ) -> impl Iterator<Item = (OwnCopyState, Option<&Keeper>)> {
        self.copies.iter().map(|copy| {
            let Some(Begun { keeper, stage, .. }) = &copy.begun else {
                return (OwnCopyState::None, None);
            };
            let state = match stage {
                Stage::Named(_) if named.contains(&keeper.seat) => OwnCopyState::Whole,
                Stage::Filling(_) | Stage::Named(_) => OwnCopyState::Filling,
                Stage::Ending { .. } => OwnCopyState::Ending,
            };
            (state, Some(keeper))
        })
    }

    /// When [`Copying::next`] is due without news.
    pub(super) fn due(&self) -> Option<Micros> {
        let waiting = self.copies.iter().filter(|copy| copy.begun.is_none());
        let begins = waiting.map(|copy| copy.begin_at);
        begins.chain([self.ask_at]).filter(|&at| at > Micros(0)).min()
    }

    /// The next order; to be asked until there is none.
    pub(super) fn next(&mut self, seen: &Seen<'_>) -> Option<Order> {
        // One of before, when there was to be a copy, must not be opened.
        let is_stale = !self.is_on() && !seen.named().is_empty();
        if is_stale || !self.is_ready(seen.own, seen.record) {
            return self.ask(Vec::new(), seen);
        }
        let mut steps = (0..self.copies.len()).filter_map(|at| self.step(at, seen));
        let first = steps.next();
        first.or_else(|| self.name(seen))
    }

    /// What is next of one copy.
    fn step(&mut self, at: usize, seen: &Seen<'_>) -> Option<Order> {
        let copy = &mut self.copies[at];
        let Some(Begun { keeper, name, stage }) = &mut copy.begun else {
            return self.begin(at, seen);
        };
        let (name, is_there) = (*name, seen.is_there(keeper));
        let is_over = match *stage {
            Stage::Filling(_) => !is_there,
            Stage::Named(_) => false,
            Stage::Ending { since, .. } => {
                seen.revision > since && !seen.named().contains(&keeper.seat)
            }
        };
        if is_over {
            copy.begun = None;
            return Some(Order::End(name));
        }
        match *stage {
            Stage::Filling(whole) if whole == self.shards => *stage = Stage::Named(seen.now),
            Stage::Named(_) if !is_there => copy.end(seen.revision, false),
            Stage::Filling(_) | Stage::Named(_) | Stage::Ending { .. } => return None,
        }
        self.ask_at = seen.now;
        None
    }

    /// Begins one at the next keeper, if there is one.
    fn begin(&mut self, at: usize, seen: &Seen<'_>) -> Option<Order> {
        if self.is_stray_named(seen) {
            return None;
        }
        if self.copies[at].begin_at <= seen.now {
            self.copies[at].begin_at = Micros(0);
        }
        let keeper = self.choose(at, seen)?.clone();
        self.names += 1;
        // No two memberships of a node give a copy the same name.
        let name = seen.own.1.0.wrapping_add(self.names);
        let stage = Stage::Filling(0);
        self.copies[at].begun = Some(Begun { keeper: keeper.clone(), name, stage });
        Some(Order::Begin { at, keeper, copy: name })
    }

    /// Whether the agreement names somebody of whom nothing is known here.
    fn is_stray_named(&self, seen: &Seen<'_>) -> bool {
        let is_known = |seat: &Seat| {
            let mut others = self.begun().filter(|begun| begun.keeper.seat == *seat);
            others.any(|begun| begun.is_named() || begun.is_ending())
        };
        !seen.named().iter().all(is_known)
    }

    /// The next node behind this one that is there, has no copy, also none that it was to have as
    /// an earlier member, and need not rest.
    fn choose<'a>(&self, at: usize, seen: &Seen<'a>) -> Option<&'a Keeper> {
        let Copy { failed, begin_at, .. } = &self.copies[at];
        let rests = failed.map(|(seat, _)| seat).filter(|_| *begin_at > seen.now);
        let is_free = |keeper: &&Keeper| {
            let slot = keeper.seat.0;
            rests != Some(keeper.seat) && self.begun().all(|begun| begun.keeper.seat.0 != slot)
        };
        let free = || seen.keepers.iter().filter(is_free);
        let behind = free().find(|keeper| keeper.seat.0 > seen.own.0);
        behind.or_else(|| free().next())
    }

    /// Asks the agreement, unless it says what it should.
    fn name(&mut self, seen: &Seen<'_>) -> Option<Order> {
        let named = self.begun().filter(|begun| begun.is_named());
        let wanted: Vec<Seat> = named.map(|begun| begun.keeper.seat).collect();
        if seen.named() == wanted && !self.begun().any(Begun::is_ending) {
            self.ask_at = Micros(0);
            return None;
        }
        self.ask(wanted, seen)
    }

    /// The agreement does not say so yet.
    fn ask(&mut self, keepers: Vec<Seat>, seen: &Seen<'_>) -> Option<Order> {
        if self.ask_at > seen.now {
            return None;
        }
        self.ask_at = seen.now + AGAIN;
        Some(Order::Name(keepers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_cluster::{Incarnation, Slot};

    const OWN: Seat = (Slot(1), Incarnation(10));

    fn keeper(slot: u8) -> Keeper {
        let first = u16::from(slot) * 2;
        let (name, seat) = (format!("node-{slot}"), (Slot(slot), Incarnation(slot.into())));
        Keeper { name, seat, shards: first..first + 2, link: (1, 0) }
    }

    fn seats(slots: &[u8]) -> Vec<Seat> {
        slots.iter().map(|&slot| keeper(slot).seat).collect()
    }

    fn name(slots: &[u8]) -> Option<Order> {
        Some(Order::Name(seats(slots)))
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
            let (copying, now) = (Copying::new(2, 1), Micros(1));
            Self { record: None, revision: 0, keepers, now, copying }
        }

        fn next(&mut self) -> Option<Order> {
            let Self { record, revision, keepers, now, copying } = self;
            let revision = Revision(*revision);
            copying.next(&Seen { own: OWN, record: record.as_ref(), revision, keepers, now: *now })
        }

        fn with(copies: usize, keepers: &[u8]) -> Self {
            Self { copying: Copying::new(2, copies), ..Self::new(keepers) }
        }

        fn write(&mut self, keepers: &[u8]) {
            let (slot, owner) = OWN;
            let keepers = seats(keepers);
            self.record = Some(LogCopy { slot, owner, keepers, state: CopyState::Kept });
            self.revision += 1;
        }

        fn wait(&mut self) {
            self.now = self.now + AGAIN;
        }

        /// Up to where all of a copy is there, and named.
        fn fill(&mut self, slot: u8) {
            let Some(Order::Begin { keeper: to, copy, .. }) = self.next() else {
                panic!("no copy begins")
            };
            assert_eq!((to, self.next()), (keeper(slot), None));
            (0..2).for_each(|_| self.copying.note_whole(copy));
            assert_eq!(self.next(), name(&[slot]));
            assert_eq!(self.states(), [OwnCopyState::Filling], "nobody has agreed");
            self.write(&[slot]);
            assert_eq!((self.next(), self.states()), (None, vec![OwnCopyState::Whole]));
        }

        fn states(&self) -> Vec<OwnCopyState> {
            let named = self.record.as_ref().map_or(&[][..], |record| &record.keepers);
            self.copying.states(named).map(|(state, _)| state).collect()
        }

        fn fail(&mut self, name: u64) -> Option<Order> {
            let Self { copying, keepers, now, revision, record } = self;
            let (record, revision) = (record.as_ref(), Revision(*revision));
            copying.note_failed(name, &Seen { own: OWN, record, revision, keepers, now: *now })
        }

        fn end(&mut self) {
            let ended = self.next();
            assert!(matches!(ended, Some(Order::End(_))), "{ended:?}");
        }
    }

    #[test]
    fn the_node_behind_is_named_once_every_shard_has_a_whole_copy_there() {
        let mut world = World::new(&[0, 2]);
        assert_eq!((world.next(), world.next()), (name(&[]), None));
        world.wait();
        assert_eq!(world.next(), name(&[]), "it is asked again");
        world.write(&[]);
        let Some(Order::Begin { keeper: to, copy, .. }) = world.next() else {
            panic!("no copy begins")
        };
        assert_eq!(to, keeper(2));
        world.copying.note_whole(copy - 1);
        world.copying.note_whole(copy);
        assert_eq!(world.next(), None);
        world.copying.note_whole(copy);
        let named = name(&[2]);
        assert_eq!((world.next(), world.next()), (named.clone(), None));
        world.wait();
        assert_eq!(world.next(), named);
        world.write(&[2]);
        world.wait();
        assert_eq!(world.next(), None);
    }

    #[test]
    fn nobody_waits_any_more_only_once_the_keeper_is_named_no_more() {
        let mut world = World::new(&[0, 2]);
        world.write(&[]);
        world.fill(2);
        world.keepers = vec![keeper(0)];
        assert_eq!((world.next(), world.next()), (name(&[]), None));
        assert_eq!(world.states(), [OwnCopyState::Ending]);
        world.write(&[]);
        world.end();
        assert_eq!(world.states(), [OwnCopyState::None]);
        world.fill(0);
    }

    #[test]
    fn a_name_that_may_still_be_written_is_written_over() {
        let mut world = World::new(&[2]);
        world.write(&[]);
        let Some(Order::Begin { copy, .. }) = world.next() else { panic!("no copy begins") };
        (0..2).for_each(|_| world.copying.note_whole(copy));
        assert_eq!(world.next(), name(&[2]));
        // It is on its way when the keeper is lost.
        world.keepers.clear();
        assert_eq!((world.next(), world.next()), (name(&[]), None), "it may be written still");
        world.write(&[2]);
        world.wait();
        assert_eq!(world.next(), name(&[]));
        world.write(&[]);
        world.end();
        assert_eq!(world.next(), None);
    }

    #[test]
    fn a_copy_that_was_released_counts_until_it_is_named_no_more() {
        let mut world = World::new(&[2]);
        world.write(&[]);
        world.fill(2);
        world.copying.release(Revision(world.revision), world.now);
        world.keepers.clear();
        assert!(world.copying.is_released());
        assert_eq!((world.next(), world.next()), (name(&[]), None));
        assert!(world.copying.is_released());
        world.write(&[]);
        world.end();
        assert!(!world.copying.is_released());
        // Of one that nobody had agreed on, nothing is left.
        world.keepers = vec![keeper(2)];
        assert!(matches!(world.next(), Some(Order::Begin { .. })));
        world.copying.release(Revision(world.revision), world.now);
        assert!(!world.copying.is_released());
        world.fill(2);
    }

    #[test]
    fn a_copy_that_is_not_whole_is_given_up_at_once() {
        let mut world = World::new(&[2]);
        world.write(&[]);
        assert!(matches!(world.next(), Some(Order::Begin { .. })));
        world.keepers.clear();
        world.end();
        assert_eq!(world.next(), None);
    }

    #[test]
    fn a_copy_is_begun_anew_where_something_of_it_was_dropped_on_the_way() {
        let mut world = World::new(&[2]);
        world.write(&[]);
        world.fill(2);
        world.keepers[0].link.1 += 1;
        assert_eq!((world.next(), world.next()), (name(&[]), None));
        world.write(&[]);
        world.end();
        let Some(Order::Begin { keeper: to, .. }) = world.next() else { panic!("no copy begins") };
        assert_eq!(to, world.keepers[0]);
        world.keepers[0].link.0 += 1;
        world.end();
    }

    #[test]
    fn a_disk_that_is_full_is_left_alone_for_a_while() {
        let mut world = World::new(&[2]);
        world.write(&[]);
        let Some(Order::Begin { copy, .. }) = world.next() else { panic!("no copy begins") };
        assert_eq!(world.fail(copy + 1), None, "of another copy");
        let mut failing = copy;
        for times in 0..RESTS_MAX + 2 {
            assert_eq!(world.fail(failing), Some(Order::End(failing)));
            world.now = Micros(world.now.0 + (REST.0 << times.min(RESTS_MAX)) - 1);
            assert_eq!(world.next(), None, "it is left alone for long, as it is so again");
            world.now = world.now + Micros(1);
            let Some(Order::Begin { copy, .. }) = world.next() else { panic!("no copy begins") };
            failing = copy;
        }
        assert_eq!(world.copying.failures, u64::from(RESTS_MAX + 2));
        // One that went on for long.
        (0..2).for_each(|_| world.copying.note_whole(failing));
        assert_eq!(world.next(), name(&[2]));
        world.write(&[2]);
        world.now = world.now + GOOD + Micros(1);
        assert_eq!((world.fail(failing), world.next()), (None, name(&[])));
        world.write(&[]);
        world.end();
        world.now = world.now + REST;
        assert!(matches!(world.next(), Some(Order::Begin { .. })));
    }

    #[test]
    fn a_node_without_copies_lets_nobody_open_one_of_before() {
        let mut world = World::with(0, &[2]);
        assert!(world.copying.is_ready(OWN, None) && world.next().is_none());
        for (owner, keepers) in [(Incarnation(9), &[2][..]), (Incarnation(9), &[])] {
            world.write(keepers);
            world.record.as_mut().unwrap().owner = owner;
            assert!(!world.copying.is_ready(OWN, world.record.as_ref()));
            assert_eq!(world.next(), name(&[]));
            world.write(&[]);
            assert_eq!(world.next(), None);
        }
        assert!(world.copying.is_ready(OWN, world.record.as_ref()));
    }

    #[test]
    fn what_was_opened_is_void_until_this_membership_says_otherwise() {
        let mut world = World::new(&[2]);
        world.write(&[2]);
        let record = world.record.as_mut().unwrap();
        (record.owner, record.state) = (Incarnation(9), CopyState::Void);
        assert!(!world.copying.is_ready(OWN, world.record.as_ref()));
        assert_eq!(world.next(), name(&[]));
        world.write(&[]);
        assert!(world.copying.is_ready(OWN, world.record.as_ref()));
        world.fill(2);
    }

    /// Both copies are begun, filled, and named.
    fn two_copies() -> (World, [u64; 2]) {
        let mut world = World::with(2, &[0, 2, 3]);
        world.write(&[]);
        let begun = [2, 3].map(|slot| {
            let Some(Order::Begin { keeper: to, copy, .. }) = world.next() else {
                panic!("no copy begins")
            };
            assert_eq!(to, keeper(slot));
            copy
        });
        for (copy, named) in [(begun[1], &[3][..]), (begun[0], &[2, 3])] {
            assert_eq!(world.next(), None);
            (0..2).for_each(|_| world.copying.note_whole(copy));
            assert_eq!(world.next(), name(named));
            world.write(named);
        }
        assert_eq!((world.next(), world.states()), (None, vec![OwnCopyState::Whole; 2]));
        (world, begun)
    }

    #[test]
    fn of_two_copies_each_is_named_when_it_is_whole_and_the_other_goes_on_without_it() {
        let (mut world, [first, _]) = two_copies();
        world.keepers.remove(1);
        assert_eq!((world.next(), world.next()), (name(&[3]), None));
        assert_eq!(world.states(), [OwnCopyState::Ending, OwnCopyState::Whole]);
        world.write(&[3]);
        assert_eq!(world.next(), Some(Order::End(first)));
        let Some(Order::Begin { keeper: to, .. }) = world.next() else { panic!("no copy begins") };
        assert_eq!((to, world.next()), (keeper(0), None));
        world.keepers.clear();
        world.end();
        assert_eq!(world.next(), name(&[]));
        world.write(&[]);
        world.end();
        assert_eq!((world.next(), world.states()), (None, vec![OwnCopyState::None; 2]));
    }

    #[test]
    fn a_keeper_that_is_late_is_named_no_more_while_another_is_not() {
        let (mut world, begun) = two_copies();
        let late = |world: &mut World, late: &[u64]| {
            let World { copying, keepers, now, record, revision } = world;
            let (record, revision) = (record.as_ref(), Revision(*revision));
            copying.note_late(late, &Seen { own: OWN, record, revision, keepers, now: *now })
        };
        assert_eq!(late(&mut world, &begun), []);
        assert_eq!((world.next(), world.copying.failures), (None, 0), "both are");
        assert_eq!(late(&mut world, &begun[..1]), []);
        assert_eq!((world.next(), world.copying.failures), (name(&[3]), 1));
        world.write(&[3]);
        assert_eq!(world.next(), Some(Order::End(begun[0])));
        // It is left alone for a while, and another is not.
        let Some(Order::Begin { keeper: to, copy, .. }) = world.next() else {
            panic!("none begins")
        };
        assert_eq!((to, world.next()), (keeper(0), None));
        assert_eq!(late(&mut world, &[copy]), [], "no shard waits for it");
        world.copying.note_whole(copy);
        assert_eq!(late(&mut world, &[copy, begun[1]]), [], "there is no other");
        assert_eq!(late(&mut world, &[copy]), [Order::End(copy)]);
        // Which rests is remembered of the last.
        let Some(Order::Begin { keeper: to, .. }) = world.next() else { panic!("none begins") };
        assert_eq!(to, keeper(2));
    }
}
