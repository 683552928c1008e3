//! Curves of the core: what a message costs with more and more filters or topics. A line of JSON
//! a point.

use clap::{Parser, ValueEnum};
use weir_costs::sweep;

/// What grows.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Curve {
    /// Filters that are subscribed to
    Filters,
    /// Topics that are published to, each with a filter
    Topics,
}

/// Measure what a message costs in the core as something grows
#[derive(Debug, Parser)]
struct Arguments {
    curve: Curve,
    /// The points
    #[arg(required = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    counts: Vec<u32>,
}

fn main() {
    let arguments = Arguments::parse();
    for count in arguments.counts {
        let point = match arguments.curve {
            Curve::Filters => sweep::filters(count as usize),
            Curve::Topics => sweep::topics(count as usize),
        };
        let line = serde_json::json!({
            "count": point.count,
            "message_ns": point.message_ns,
            "floor_ns": point.floor_ns,
            "hits": point.hits,
            "filter_bytes": point.filter_bytes,
        });
        println!("{line}");
    }
}
