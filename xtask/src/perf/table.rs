//! The record as Markdown.

use super::record::{Figure, Record, Repeat, Row};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use std::fmt::Write as _;

/// A row's broker is compared with this one.
const PEER: &str = "mosquitto";

/// What each column is.
const LEGEND: &str = "\
c: the broker's CPU in microseconds per delivered message (per connection in conn-tcp), including
ksoftirqd's share. R and P, one and two: a raw send and a raw pair in the same minute, with the
receiver passive on the same thread or waiting on the other core. Figures are medians (lowest to
highest) of the repeats; a ratio uses figures of one round. gen: the load generator's share of its
core. others: cores that were busy with something else; a run is quiet below 0.1.
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
        "c : mosquitto's",
    ]);
    for row in &record.rows {
        table.add_row(cells(record, row));
    }
    table
}

fn cells(record: &Record, row: &Row) -> [String; 16] {
    let shown = |figure: Figure, places: usize| {
        row.spread(figure).map_or("-".into(), |spread| format!("{spread:.places$}"))
    };
    let is_peer = |other: &&Row| other.use_case == row.use_case && other.broker == PEER;
    let peer = record.rows.iter().find(is_peer).filter(|_| row.broker != PEER);
    let ratio = peer.and_then(|peer| row.ratio(peer, Repeat::cpu_us));
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
        ratio.map_or("-".into(), |ratio| format!("{ratio:.2}")),
    ]
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
