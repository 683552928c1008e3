//! Deadlines of connections: a wheel of lists through their slots, 8 bytes a connection.
//!
//! Nearly every deadline is put off before it comes, so the wheel is coarse: it notes in which
//! quarter of a second to look at a connection, and its owner says then when it is due. Those due
//! within that time are put in order, so that all are on time to the microsecond.

use crate::keys::{ConnKey, Micros};
use crate::pages::Pages;
use std::collections::BTreeSet;
use std::num::NonZeroU32;

/// Microseconds of a turn, as a power of two: a quarter of a second.
const TURN_BITS: u32 = 18;

/// Turns ahead that have a list. What is later is looked at on the way.
const LISTS: usize = 1024;

const WORD: usize = u64::BITS as usize;

/// No connection.
const NONE: u32 = u32::MAX;

/// Where a connection stands.
#[derive(Debug)]
struct WheelNode {
    /// The one before it in its list, or the list.
    before: Before,
    /// The one behind it, or [`NONE`]; in [`Before::Near`] the low half of its deadline.
    after: u32,
}

/// Packed, as each connection has one: the number of a connection and one more, or one of the
/// highest numbers for a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Before(NonZeroU32);

impl Before {
    /// Not in a list, but in order.
    const NEAR: Self = Self(NonZeroU32::MAX);

    const LISTS_FROM: u32 = u32::MAX - LISTS as u32;

    fn connection(conn: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(conn))
    }

    fn list(list: usize) -> Self {
        Self(NonZeroU32::MIN.saturating_add(Self::LISTS_FROM - 1 + list as u32))
    }

    /// The list, or else the connection.
    fn unpack(self) -> Result<usize, usize> {
        let number = self.0.get();
        match number.checked_sub(Self::LISTS_FROM) {
            Some(list) => Ok(list as usize),
            None => Err(number as usize - 1),
        }
    }
}

/// The wheel. A connection has one deadline at most.
#[derive(Debug)]
pub(crate) struct Wheel {
    nodes: Pages<WheelNode>,
    /// The first of each list.
    heads: Box<[u32; LISTS]>,
    /// A bit a list: whether somebody is in it.
    filled: [u64; LISTS / WORD],
    /// The first turn not yet looked at; the lists are of this and those that follow.
    turn: u64,
    /// Those due before that turn.
    near: BTreeSet<(Micros, ConnKey)>,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            nodes: Pages::default(),
            heads: Box::new([NONE; LISTS]),
            filled: [0; LISTS / WORD],
            turn: 0,
            near: BTreeSet::new(),
        }
    }
}

impl Wheel {
    /// Sets the connection's deadline in place of the one it had; it is not over yet.
    pub(crate) fn set(&mut self, conn: ConnKey, at: Micros, now: Micros) {
        debug_assert!(conn.0 + 1 < Before::LISTS_FROM, "lists have the highest numbers");
        self.clear(conn);
        if self.nodes.len() == 0 {
            self.turn = self.turn.max(turn_of(now));
        }
        let turn = turn_of(at);
        if turn < self.turn {
            // In the past it is as good as now, and all that are near are near each other.
            let at = at.max(now);
            self.near.insert((at, conn));
            self.nodes
                .insert_at(conn.0 as usize, WheelNode { before: Before::NEAR, after: at.0 as u32 });
            return;
        }
        let list = turn.min(self.turn + LISTS as u64 - 1) as usize % LISTS;
        let after = std::mem::replace(&mut self.heads[list], conn.0);
        if after == NONE {
            self.filled[list / WORD] |= 1 << (list % WORD);
        } else {
            self.nodes[after as usize].before = Before::connection(conn.0);
        }
        self.nodes.insert_at(conn.0 as usize, WheelNode { before: Before::list(list), after });
    }

    /// Forgets the connection's deadline, if it has one.
    pub(crate) fn clear(&mut self, conn: ConnKey) {
        let Some(WheelNode { before, after }) = self.nodes.take(conn.0 as usize) else { return };
        if before == Before::NEAR {
            self.near.remove(&(self.whole(after), conn));
            return;
        }
        if after != NONE {
            self.nodes[after as usize].before = before;
        }
        match before.unpack() {
            Err(conn) => self.nodes[conn].after = after,
            Ok(list) => {
                self.heads[list] = after;
                if after == NONE {
                    self.filled[list / WORD] &= !(1 << (list % WORD));
                }
            }
        }
    }

    /// The near deadline with this low half: none is half an hour from the turn.
    fn whole(&self, low: u32) -> Micros {
        let near = self.turn << TURN_BITS;
        let ahead = low.wrapping_sub(near as u32).cast_signed();
        Micros(near.wrapping_add_signed(i64::from(ahead)))
    }

    /// When [`Wheel::take_due`] has something to do: a deadline, or a list to look at.
    pub(crate) fn next(&self) -> Option<Micros> {
        let near = self.near.first().map(|&(at, _)| at);
        near.or_else(|| self.next_turn().map(|turn| Micros(turn << TURN_BITS)))
    }

    /// The next turn with a list.
    fn next_turn(&self) -> Option<u64> {
        let first = self.turn as usize % LISTS;
        let word = |at: usize| self.filled[at % self.filled.len()];
        let (at, bit) = (first / WORD, first % WORD);
        // Once around, and the word begun with once more for the bits below the first.
        let ahead = word(at) >> bit << bit;
        let found = std::iter::once((at, ahead))
            .chain((at + 1..=at + self.filled.len()).map(|at| (at, word(at))))
            .find(|&(_, word)| word != 0);
        let list = found.map(|(at, word)| at * WORD + word.trailing_zeros() as usize)?;
        Some(self.turn + (list - first) as u64)
    }

    /// Takes a connection that is due at `now`: the earliest, but for what is overdue. `due` says
    /// when a connection is due by now, if it is still to be; that may be later than what was set.
    pub(crate) fn take_due(
        &mut self,
        now: Micros,
        due: impl Fn(ConnKey) -> Option<Micros>,
    ) -> Option<ConnKey> {
        if let Some(conn) = self.take_near(now) {
            return Some(conn);
        }
        let turn = turn_of(now);
        if turn < self.turn {
            return None;
        }
        let mut looked_at = NONE;
        while let Some(next) = self.next_turn().filter(|&next| next <= turn) {
            let list = next as usize % LISTS;
            let head = std::mem::replace(&mut self.heads[list], NONE);
            self.filled[list / WORD] &= !(1 << (list % WORD));
            looked_at = self.join(head, looked_at);
        }
        self.turn = turn + 1;
        while looked_at != NONE {
            let conn = ConnKey(looked_at);
            // Out of its list, which is gone.
            let node = self.nodes.take(conn.0 as usize);
            looked_at = node.map_or(NONE, |node| node.after);
            if let Some(at) = due(conn) {
                self.set(conn, at, now);
            }
        }
        self.take_near(now)
    }

    /// Puts a list before another; returns the first of both.
    fn join(&mut self, head: u32, tail: u32) -> u32 {
        let mut last = head;
        while self.nodes[last as usize].after != NONE {
            last = self.nodes[last as usize].after;
        }
        self.nodes[last as usize].after = tail;
        head
    }

    fn take_near(&mut self, now: Micros) -> Option<ConnKey> {
        let &(at, conn) = self.near.first()?;
        if at > now {
            return None;
        }
        self.near.pop_first();
        self.nodes.take(conn.0 as usize);
        Some(conn)
    }
}

fn turn_of(at: Micros) -> u64 {
    at.0 >> TURN_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Milliseconds from almost nothing to hours.
    fn span() -> impl Strategy<Value = u64> {
        prop_oneof![0..2_000_u64, 0..400_000_u64, 0..100_000_000_u64]
    }

    proptest! {
        /// Deadlines are set, put off behind the wheel's back, and cleared; each comes on time and
        /// in order, and nothing is left.
        #[test]
        fn every_deadline_comes_at_its_microsecond(
            begin in prop::sample::select(vec![0, 1 << 50]),
            steps in prop::collection::vec((0..6_u8, 0..40_u32, span()), 1..200),
        ) {
            let (mut wheel, mut model) = (Wheel::default(), BTreeMap::new());
            let mut now = Micros(begin);
            for (step, conn, span_ms) in steps {
                let conn = ConnKey(conn * 31);
                let at = now + Micros(span_ms * 1000 + 7);
                match step {
                    0..=2 => {
                        wheel.set(conn, at, now);
                        model.insert(conn, at);
                    }
                    3 => {
                        wheel.clear(conn);
                        model.remove(&conn);
                    }
                    4 => {
                        if let Some(due) = model.get_mut(&conn) {
                            *due = at.max(*due);
                        }
                    }
                    _ => pass(&mut wheel, &mut model, now, at),
                }
                now = if step == 5 { at } else { now };
            }
            while !model.is_empty() {
                let end = now + Micros::from_secs(100_000);
                pass(&mut wheel, &mut model, now, end);
                now = end;
            }
            prop_assert_eq!(wheel.next(), None);
            prop_assert_eq!(wheel.nodes.len(), 0);
        }
    }

    fn pass(
        wheel: &mut Wheel,
        model: &mut BTreeMap<ConnKey, Micros>,
        mut now: Micros,
        end: Micros,
    ) {
        while let Some(next) = wheel.next().filter(|&next| next <= end) {
            now = now.max(next);
            while let Some(conn) = wheel.take_due(now, |conn| model.get(&conn).copied()) {
                let due = model[&conn];
                if due > now {
                    // It was put off after it came near.
                    wheel.set(conn, due, now);
                    continue;
                }
                assert_eq!(due, now, "late");
                model.remove(&conn);
            }
        }
        assert!(model.values().all(|&due| due > end), "missed at {end:?}: {model:?}");
    }

    #[test]
    fn after_hours_without_a_look_all_that_is_due_comes_and_what_is_cleared_does_not() {
        assert_eq!(size_of::<Option<WheelNode>>(), 8);
        let mut wheel = Wheel::default();
        let due = |conn: ConnKey| Some(Micros::from_secs(conn.0));
        for second in 1..5_000 {
            wheel.set(ConnKey(second), Micros::from_secs(second), Micros(0));
        }
        // Some come near, then nobody looks.
        assert_eq!(wheel.take_due(Micros(900_000), due), None);
        let late = Micros::from_secs(50_000);
        let mut came = 0;
        while let Some(conn) = wheel.take_due(late, due) {
            came += 1;
            if conn.0 % 2 == 1 {
                // Each takes its neighbour with it.
                wheel.clear(ConnKey(conn.0 + 1));
                wheel.clear(conn);
            }
        }
        assert!((2_500..4_999).contains(&came), "{came}");
        assert_eq!((wheel.next(), wheel.nodes.len(), wheel.near.len()), (None, 0, 0));
    }
}
