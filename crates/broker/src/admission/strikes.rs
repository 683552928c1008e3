//! Who did something too often within a minute, and is kept out for a while. The table is bounded:
//! with too many in it, nobody new is counted.

use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::Hash;
use weir_core::Micros;

/// How many are counted at a time.
const COUNTED_MAX: usize = 65_536;

const MINUTE: Micros = Micros(60_000_000);

/// How long a full table is left as it is before it is looked through again.
const SWEEP_AGAIN: Micros = Micros(1_000_000);

/// Counts of one thing that is done too often.
#[derive(Debug)]
pub(super) struct Strikes<K> {
    /// As many in a minute keep out; 0 is any number.
    max: u32,
    out_for: Micros,
    by: HashMap<K, Strike, RandomState>,
    sweep_at: Micros,
    /// How often somebody was kept out.
    pub(super) outs: u64,
}

#[derive(Clone, Copy, Debug)]
struct Strike {
    since: Micros,
    count: u32,
    /// Kept out until then.
    out_until: Micros,
}

impl Strike {
    fn is_over(&self, now: Micros) -> bool {
        self.out_until <= now && self.since + MINUTE <= now
    }
}

impl<K: Eq + Hash> Strikes<K> {
    /// Other bounds from now on. Who is out stays out as long as it was to be.
    pub(super) fn set(&mut self, max: u32, out_for_s: u32) {
        (self.max, self.out_for) = (max, Micros::from_secs(out_for_s));
    }

    pub(super) fn new(max: u32, out_for_s: u32) -> Self {
        let (by, sweep_at, outs) = (HashMap::default(), Micros(0), 0);
        Self { max, out_for: Micros::from_secs(out_for_s), by, sweep_at, outs }
    }

    /// It was done once more. Says whether whoever did it is kept out from now on.
    pub(super) fn add(&mut self, key: K, now: Micros) -> bool {
        if self.max == 0 {
            return false;
        }
        if self.by.len() >= COUNTED_MAX && !self.by.contains_key(&key) {
            self.sweep(now);
            if self.by.len() >= COUNTED_MAX {
                return false;
            }
        }
        let new = Strike { since: now, count: 0, out_until: Micros(0) };
        let strike = self.by.entry(key).or_insert(new);
        if strike.is_over(now) {
            *strike = new;
        }
        strike.count += 1;
        if strike.count < self.max || strike.out_until > now {
            return strike.out_until > now;
        }
        *strike = Strike { since: now, count: 0, out_until: now + self.out_for };
        self.outs += 1;
        true
    }

    /// Whether it is kept out now.
    pub(super) fn is_out(&self, key: &K, now: Micros) -> bool {
        !self.by.is_empty() && self.by.get(key).is_some_and(|strike| strike.out_until > now)
    }

    /// Who is kept out now, and until when.
    pub(super) fn kept_out(&self, now: Micros) -> impl Iterator<Item = (&K, Micros)> {
        let is_out = move |(_, until): &(&K, Micros)| *until > now;
        self.by.iter().map(|(key, strike)| (key, strike.out_until)).filter(is_out)
    }

    /// Forgets those who are meant. Says whether one of them was kept out.
    pub(super) fn pardon(&mut self, is_meant: impl Fn(&K) -> bool, now: Micros) -> bool {
        let mut was_out = false;
        self.by.retain(|key, strike| {
            let is_meant = is_meant(key);
            was_out |= is_meant && strike.out_until > now;
            !is_meant
        });
        was_out
    }

    fn sweep(&mut self, now: Micros) {
        if now < self.sweep_at {
            return;
        }
        self.sweep_at = now + SWEEP_AGAIN;
        self.by.retain(|_, strike| !strike.is_over(now));
        self.by.shrink_to(2 * self.by.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u32) -> Micros {
        Micros::from_secs(s)
    }

    #[test]
    fn so_many_in_a_minute_keep_out_for_a_while() {
        let mut strikes = Strikes::new(3, 300);
        assert_eq!([0, 1, 2].map(|s| strikes.add('a', at(s))), [false, false, true]);
        assert!(strikes.is_out(&'a', at(301)) && !strikes.is_out(&'b', at(3)));
        assert!(!strikes.is_out(&'a', at(302)));
        // Then it is counted anew.
        assert_eq!([302, 303, 304].map(|s| strikes.add('a', at(s))), [false, false, true]);
        assert_eq!(strikes.outs, 2);
        assert_eq!(strikes.kept_out(at(400)).collect::<Vec<_>>(), [(&'a', at(604))]);
        assert_eq!(strikes.kept_out(at(604)).count(), 0);
    }

    #[test]
    fn who_is_pardoned_begins_anew_and_nobody_else() {
        let mut strikes = Strikes::new(2, 300);
        for key in ['a', 'a', 'b', 'b', 'c'] {
            strikes.add(key, at(0));
        }
        assert!(!strikes.pardon(|&key| key == 'c', at(1)), "it was not out");
        assert!(strikes.pardon(|&key| key == 'a', at(1)));
        assert!(!strikes.is_out(&'a', at(1)) && strikes.is_out(&'b', at(1)));
        assert!(!strikes.add('a', at(1)));
    }

    #[test]
    fn what_is_spread_over_more_than_a_minute_keeps_nobody_out() {
        let mut strikes = Strikes::new(3, 300);
        assert!((0..100).all(|nth| !strikes.add('a', at(nth * 31))));
        let mut off = Strikes::new(0, 300);
        assert!((0..100).all(|_| !off.add('a', at(0))));
    }

    #[test]
    fn the_table_is_bounded_and_has_room_again() {
        let mut strikes = Strikes::new(1, 1);
        (0..COUNTED_MAX).for_each(|key| assert!(strikes.add(key, at(0))));
        assert!(!strikes.add(COUNTED_MAX, at(0)));
        assert!(strikes.is_out(&0, at(0)), "who is kept out stays so");
        assert!(strikes.add(COUNTED_MAX, at(61)));
        assert_eq!(strikes.by.len(), 1);
    }
}
