//! The record as Markdown.

use super::record::{Figure, Record, Repeat, Row};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use std::fmt::Write as _;

/// Its rows are compared with those of the others.
const OWN: &str = "weir";

/// A peer that delivers less of what Weir does is none: what it does not do costs it nothing.
const KEEPS_UP: f64 = 0.97;

/// What each column is.
const LEGEND: &str = "\
c: the broker's CPU in microseconds per delivered message (per connection in conn-tcp), including
ksoftirqd's share. R and P, one and two: a raw send and a raw pair in the same minute, with the
receiver passive on the same thread or waiting on the other core. Figures are medians (lowest to
highest) of the repeats; a ratio uses figures of one round. gen: the load generator's share of its
core. others: cores that were busy with something else; a run is quiet below 0.1. The last columns
are Weir's figure by that of the peer that is best in the row, of those that deliver as much.
All brokers have the suite's profile tuned: as shipped, but for longer queues where others have
short ones.
";

/// The table, with what was measured and where.
pub(crate) fn markdown(record: &Record) -> String {
    let mut text = format!(
        "# {}\n\n{} on {}, {} s measured after {} s of warm-up.\n\n{LEGEND}\n",
        record.name(),
        host(record),
        record.host_name,
        record.measure_s,
        record.warm_up_s
    );
    text += &table(record).to_string();
    text.push('\n');
    for row in &record.rows {
        for repeat in &row.repeats {
            for reason in &repeat.figures.reasons {
                let _ = writeln!(
                    text,
                    "\n{} on {}, round {}: {}: {reason}",
                    row.use_case, row.broker, repeat.round, repeat.figures.status
                );
            }
        }
    }
    text
}

fn host(record: &Record) -> String {
    let of = |key: &str| record.host[key].as_str().unwrap_or("not known").to_owned();
    let cores = record.host["cores"].as_u64().unwrap_or(0);
    format!("{}, {cores} cores, kernel {}, {}", of("cpu_model"), of("kernel"), of("pinning"))
}

fn table(record: &Record) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "use case",
        "broker",
        "verdict",
        "delivered/s",
        "lost",
        "c us",
        "c/R one",
        "c/P one",
        "c/R two",
        "c/P two",
        "p50 ms",
        "p99 ms",
        "RSS MB",
        "gen",
        "others",
        "c : best peer",
        "p99 : best peer",
        "RSS : best peer",
    ]);
    for row in &record.rows {
        table.add_row(cells(record, row));
    }
    table
}

fn cells(record: &Record, row: &Row) -> [String; 18] {
    let shown = |figure: Figure, places: usize| {
        row.spread(figure).map_or("-".into(), |spread| format!("{spread:.places$}"))
    };
    let by_best = |figure: Figure| by_best(record, row, figure).unwrap_or("-".into());
    [
        row.use_case.clone(),
        format!("{} {}", row.broker, row.version),
        verdict(row),
        shown(|repeat| Some(repeat.figures.delivered_per_s), 0),
        shown(|repeat| Some(repeat.figures.lost as f64), 0),
        shown(Repeat::cpu_us, 2),
        shown(Repeat::by_send, 2),
        shown(Repeat::by_pair, 2),
        shown(Repeat::by_send_two, 2),
        shown(Repeat::by_pair_two, 2),
        shown(Repeat::p50_ms, 2),
        shown(Repeat::p99_ms, 2),
        shown(Repeat::rss_mb, 1),
        shown(|repeat| Some(repeat.figures.generator_cores), 2),
        shown(|repeat| Some(repeat.others_cores), 2),
        by_best(Repeat::cpu_us),
        by_best(Repeat::p99_ms),
        by_best(Repeat::rss_mb),
    ]
}

/// Weir's figure by that of the best peer in the row, and who that is.
fn by_best(record: &Record, row: &Row, figure: Figure) -> Option<String> {
    let is_own = |row: &Row| row.broker.split('@').next() == Some(OWN);
    if !is_own(row) {
        return None;
    }
    let median = |row: &Row, figure: Figure| row.spread(figure).map(|spread| spread.median);
    let delivered = |row: &Row| median(row, |repeat| Some(repeat.figures.delivered_per_s));
    let enough = delivered(row)? * KEEPS_UP;
    let peers = record.rows.iter().filter(|other| {
        other.use_case == row.use_case
            && !is_own(other)
            && delivered(other).is_some_and(|delivered| delivered >= enough)
    });
    let peers = peers.filter_map(|peer| Some((median(peer, figure)?, peer)));
    let (_, best) = peers.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
    let ratio = row.ratio(best, figure)?;
    Some(format!("{ratio:.2} {} {}", best.broker, best.version))
}

/// `passed`, or `3 passed, 2 failed`.
fn verdict(row: &Row) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for repeat in &row.repeats {
        let status = repeat.figures.verdict();
        match counts.iter_mut().find(|(name, _)| *name == status) {
            Some((_, count)) => *count += 1,
            None => counts.push((status, 1)),
        }
    }
    match &counts[..] {
        [] => "no result".into(),
        [(only, _)] => (*only).to_owned(),
        many => {
            let all: Vec<String> =
                many.iter().map(|(name, count)| format!("{count} {name}")).collect();
            all.join(", ")
        }
    }
}
