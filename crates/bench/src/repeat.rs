//! Repeats: what is run when, so that no broker has the good hours for itself.

use weir_chance::Chance;
use weir_load::{Shifts, StartBarrier};

/// A run that goes abreast with the others of its round.
#[derive(Clone, Debug)]
pub struct Abreast {
    /// Where they wait for each other.
    pub barrier: StartBarrier,
    /// When it is this one's turn.
    pub shifts: Shifts,
}

/// One run to come; use case and broker by their places on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Place of the use case.
    pub use_case: usize,
    /// Place of the broker.
    pub broker: usize,
    /// From 1.
    pub round: u32,
}

/// Every use case on every broker, `rounds` times. In each round use cases come in an order of
/// their own and within each the brokers do, so that what is compared ran next to each other. One
/// round alone keeps the order it was asked in: there is nothing to balance.
pub fn order(use_cases: usize, brokers: usize, rounds: u32, seed: u64) -> Vec<Turn> {
    let mut chance = Chance::new(seed);
    let mut turns = Vec::new();
    let mut shuffled = |count: usize| {
        let mut places: Vec<usize> = (0..count).collect();
        if rounds > 1 {
            chance.shuffle(&mut places);
        }
        places
    };
    for round in 1..=rounds {
        for use_case in shuffled(use_cases) {
            turns.extend(shuffled(brokers).into_iter().map(|broker| Turn {
                use_case,
                broker,
                round,
            }));
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_round_has_every_run_once_and_brokers_of_a_use_case_are_neighbours() {
        let turns = order(4, 3, 5, 1);
        assert_eq!(turns.len(), 60);
        for (at, round) in turns.chunks(12).enumerate() {
            let cells: BTreeSet<_> =
                round.iter().map(|turn| (turn.use_case, turn.broker)).collect();
            assert_eq!(cells.len(), 12);
            assert!(round.iter().all(|turn| turn.round as usize == at + 1));
            assert!(
                round.chunks(3).all(|three| three.iter().all(|t| t.use_case == three[0].use_case))
            );
        }
    }

    #[test]
    fn the_order_is_the_seeds_and_each_broker_is_first_at_times() {
        assert_eq!(order(2, 2, 9, 3), order(2, 2, 9, 3));
        assert_ne!(order(2, 2, 9, 3), order(2, 2, 9, 4));
        let firsts: BTreeSet<usize> =
            order(1, 2, 20, 5).chunks(2).map(|two| two[0].broker).collect();
        assert_eq!(firsts.len(), 2);
    }

    #[test]
    fn one_round_keeps_the_order_it_was_asked_in() {
        let places: Vec<_> = order(2, 2, 1, 9).iter().map(|t| (t.use_case, t.broker)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    }
}
