//! What nodes that agree promise: one owner of each place and partition at a time, and peace in the
//! end.

use crate::world::{Plant, run};

/// More by `WEIR_SEEDS=1000`.
fn seeds() -> u64 {
    std::env::var("WEIR_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(100)
}

#[test]
fn nobody_acts_for_what_another_has_acted_for_later() {
    let (mut acts, mut moves) = (0, 0);
    for seed in 0..seeds() {
        let world = run(seed, Plant::Nothing).unwrap_or_else(|fault| panic!("{fault}"));
        acts += world.acts;
        moves += world.moves;
    }
    assert!(acts > 10_000 * seeds() && moves > 20 * seeds(), "{acts} acts, {moves} moves");
}

#[test]
fn what_is_built_in_wrong_is_found() {
    for plant in [Plant::NoWait, Plant::LateFence, Plant::EarlyRelease] {
        let found = (0..200).find_map(|seed| run(seed, plant).err());
        let fault = found.unwrap_or_else(|| panic!("nothing was found of {plant:?}"));
        assert!(fault.contains(" acts for partition "), "{plant:?}: {fault}");
    }
}
