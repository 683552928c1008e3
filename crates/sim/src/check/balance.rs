//! When every session is over and nothing is retained, the shards hold nothing.

use crate::finding::Checker;
use crate::model::Model;
use weir_core::{Micros, Stats};

/// A shard at the end, with its next deadline.
pub fn end(model: &mut Model, shard: usize, stats: &Stats, due: Option<Micros>) {
    let Stats { sessions, connections, retained, filters, interests, awaited, .. } = *stats;
    let left = [
        ("sessions", sessions),
        ("connections", connections),
        ("retained messages", retained),
        ("filters", filters),
        ("interests", interests),
        ("awaited answers", awaited),
        ("deadlines", due.iter().count() as u64),
    ];
    for (name, count) in left.into_iter().filter(|&(_, count)| count > 0) {
        model.fail(Checker::Balance, format!("shard {shard} has {count} {name} left"));
    }
}
