//! Crashes at every moment.

use crate::harness::{PLANTS, Plant, World};

fn first_finding(seed: u64, plant: Option<Plant>, lives: usize) -> Option<String> {
    let mut world = World::new(seed, plant);
    (0..lives).find_map(|life| world.live().err().map(|what| format!("life {life}: {what}")))
}

#[test]
fn nothing_acknowledged_is_lost_in_a_crash() {
    for seed in 0..60 {
        let finding = first_finding(seed, None, 30);
        assert!(finding.is_none(), "seed {seed}: {}", finding.unwrap_or_default());
    }
}

#[test]
fn planted_faults_are_found() {
    for &plant in PLANTS {
        let is_found = (0..200).any(|seed| first_finding(seed, Some(plant), 30).is_some());
        assert!(is_found, "{plant:?} was not found");
    }
}
