//! A few seeds find nothing and give the same trace twice; every fault that the host commits on
//! purpose is found, and every checker finds one.

use std::collections::BTreeSet;
use weir_sim::{Checker, Crashes, Outcome, PLANTS, Plant, Run, Size};

const STEPS: usize = 500;

fn run(seed: u64, size: Size, plant: Option<Plant>) -> Outcome {
    let of_plant = |plant: Plant| match plant {
        _ if plant.needs_copies() => Crashes::OfNodes,
        _ if plant.needs_crashes() => Crashes::Always,
        _ => Crashes::Never,
    };
    let crashes = plant.map_or(Crashes::Some, of_plant);
    Run { seed, steps: STEPS, size, until: None, plant, crashes, is_printed: false }.run()
}

/// The seed and how to look at it again.
fn replay(seed: u64, Size { nodes, shards }: Size, outcome: &Outcome) -> String {
    let found = outcome.findings.first().map(|finding| (finding.checker, &finding.what));
    format!(
        "sim --seed {seed} --nodes {nodes} --shards {shards} --steps {STEPS} --trace: {found:?}"
    )
}

#[test]
fn one_shard_keeps_every_promise_and_each_seed_its_trace() {
    quick(Size { nodes: 1, shards: 1 });
}

#[test]
fn four_shards_keep_every_promise_and_each_seed_its_trace() {
    quick(Size { nodes: 1, shards: 4 });
}

#[test]
fn three_nodes_keep_every_promise_and_each_seed_its_trace() {
    quick(Size { nodes: 3, shards: 2 });
}

#[test]
fn nodes_that_are_lost_keep_every_promise_where_others_have_their_logs() {
    quick_of_nodes(Size { nodes: 3, shards: 2 }, Crashes::OfNodes);
}

#[test]
fn two_nodes_that_are_lost_at_once_keep_every_promise_where_a_third_has_their_logs() {
    quick_of_nodes(Size { nodes: 3, shards: 2 }, Crashes::OfTwoNodes);
}

fn quick_of_nodes(size: Size, crashes: Crashes) {
    quick_with(size, |seed| {
        let (until, plant, is_printed) = (None, None, false);
        let outcome = Run { seed, steps: STEPS, size, until, plant, crashes, is_printed }.run();
        assert!(outcome.nodes_lost > 0, "seed {seed} loses no node");
        outcome
    });
}

fn quick(size: Size) {
    quick_with(size, |seed| run(seed, size, None));
}

fn quick_with(size: Size, run: impl Fn(u64) -> Outcome) {
    let mut hashes = BTreeSet::new();
    for seed in 0..20 {
        let outcome = run(seed);
        assert!(outcome.findings.is_empty(), "{}", replay(seed, size, &outcome));
        assert_eq!(outcome.hash, run(seed).hash, "seed {seed} gives two traces");
        hashes.insert(outcome.hash);
    }
    assert_eq!(hashes.len(), 20, "seeds differ");
}

/// Seeds that have found something once which those of [`quick`] did not come to, and what.
const FOUND: &[(Size, Crashes, u64)] = &[
    // A session was over while it moved: whoever waited for it waited for ever.
    (Size { nodes: 5, shards: 1 }, Crashes::Never, 102_189),
    (Size { nodes: 5, shards: 1 }, Crashes::Never, 104_142),
    (Size { nodes: 5, shards: 1 }, Crashes::Never, 105_147),
    (Size { nodes: 5, shards: 1 }, Crashes::Never, 107_509),
    // A node was back: one of its shards took what another had published before for new.
    (Size { nodes: 3, shards: 2 }, Crashes::Some, 239_759),
    // A client that came again with a new will, before that of its last session was published.
    (Size { nodes: 3, shards: 2 }, Crashes::Some, 212_736),
    (Size { nodes: 3, shards: 2 }, Crashes::Some, 224_916),
    (Size { nodes: 3, shards: 2 }, Crashes::Some, 234_344),
    // A will that was due when its client came again was forgotten.
    (Size { nodes: 3, shards: 2 }, Crashes::Some, 302_322),
    (Size { nodes: 5, shards: 1 }, Crashes::Never, 301_047),
    (Size { nodes: 3, shards: 1 }, Crashes::Always, 300_926),
    // Of two that claimed a session, the lower let its client in without it.
    (Size { nodes: 5, shards: 1 }, Crashes::Never, 315_217),
    // A session was over while it moved: where it went to, a group could choose it for long after.
    (Size { nodes: 3, shards: 2 }, Crashes::Some, 432_317),
    // A client asked for a clean start and was not let in; then the node of its will was lost.
    (Size { nodes: 3, shards: 2 }, Crashes::Some, 254_098),
    // A client of 3.1.1 was refused again and again before it was told what had been taken.
    (Size { nodes: 3, shards: 2 }, Crashes::Some, 401_831),
    // A session from a log was over, and its will sent, which another node sent too.
    (Size { nodes: 3, shards: 2 }, Crashes::OfNodes, 98),
    // A topic was cleared while a node came, which another told of what had been there.
    (Size { nodes: 3, shards: 1 }, Crashes::OfNodes, 1_029),
    (Size { nodes: 3, shards: 1 }, Crashes::OfNodes, 1_116),
    // A stand-in left before it had said what it had sent on.
    (Size { nodes: 3, shards: 1 }, Crashes::OfNodes, 1_014),
    // A client had come elsewhere before it was known that its node was lost: its will was sent.
    (Size { nodes: 3, shards: 1 }, Crashes::OfNodes, 1_478),
    // A will without delay waited for other nodes, and was forgotten when its client came.
    (Size { nodes: 3, shards: 1 }, Crashes::OfNodes, 3_036),
    // A will that had been taken was told of again when its node was lost anew, which had another.
    (Size { nodes: 3, shards: 1 }, Crashes::OfNodes, 201_974),
    // A client waited to be let in while another node of its identifier was lost, whose will came.
    (Size { nodes: 3, shards: 1 }, Crashes::OfNodes, 3_442),
    // Where others had switched for a lost node was taken for what came of the one in its place.
    (Size { nodes: 3, shards: 1 }, Crashes::OfNodes, 4_420),
];

#[test]
fn what_was_found_once_is_not_found_again() {
    for &(size, crashes, seed) in FOUND {
        let plant = None;
        let run = Run { seed, steps: STEPS, size, until: None, plant, crashes, is_printed: false };
        let outcome = run.run();
        assert!(outcome.findings.is_empty(), "{}", replay(seed, size, &outcome));
    }
}

/// Seeds within which every fault has to be found.
const PLANT_SEEDS: u64 = 50;

/// The same of faults that only a crash at the right moment brings to light: the first is enough.
const CRASH_SEEDS: u64 = 1_000;

/// How many shards a fault is looked for with: the fewer there are, the more a log has to lose.
fn size_of(plant: Plant, seed: u64) -> Size {
    if plant.needs_nodes() || plant.needs_copies() {
        return Size { nodes: 3, shards: 1 };
    }
    let is_between = matches!(plant, Plant::ForgetMailed | Plant::ForgetMarks);
    let is_any = plant.needs_crashes() && !is_between;
    Size { nodes: 1, shards: if is_any { [4, 2, 1][(seed % 3) as usize] } else { 4 } }
}

#[test]
fn every_fault_that_is_planted_is_found_and_every_checker_finds_one() {
    let mut checkers = BTreeSet::new();
    for &plant in PLANTS {
        let mut first = None;
        let is_rare = plant.needs_crashes() || plant.needs_copies();
        let seeds = if is_rare { CRASH_SEEDS } else { PLANT_SEEDS };
        for seed in 0..seeds {
            let outcome = run(seed, size_of(plant, seed), Some(plant));
            checkers.extend(outcome.findings.iter().map(|finding| finding.checker));
            if first.is_none() && !outcome.findings.is_empty() {
                first = Some((seed, outcome));
            }
            if first.is_some() && is_rare {
                break;
            }
        }
        let Some((seed, outcome)) = first else { panic!("{} is not found", plant.name()) };
        println!("{}: {}", plant.name(), replay(seed, size_of(plant, seed), &outcome));
        assert!(outcome.strikes > 0, "{}: found without being there", plant.name());
    }
    let blind: Vec<_> = Checker::ALL.iter().filter(|one| !checkers.contains(one)).collect();
    assert!(blind.is_empty(), "no fault is found by {blind:?}");
}

#[test]
fn a_run_that_stops_early_has_the_same_beginning() {
    let (plant, crashes) = (None, Crashes::Always);
    let size = Size { nodes: 1, shards: 4 };
    let whole = Run { seed: 3, steps: 200, size, until: None, plant, crashes, is_printed: true };
    let part = Run { until: Some(100), ..whole };
    let (whole, part) = (whole.run().lines, part.run().lines);
    assert!(part.len() > 100 && part.len() < whole.len());
    assert_eq!(part[..], whole[..part.len()]);
}
