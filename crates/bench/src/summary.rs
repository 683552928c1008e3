//! All use cases of a command in one table, and what the columns of all tables mean.

use crate::lines::LINE_CHARS_MAX;
use crate::numbers::{count, mega, millis};
use crate::report::runs::{self, Repeats, Use, worst};
use crate::result::{RunResult, Status};
use crate::tables::{fit, new_table, printable, prose};
use comfy_table::Table;
use std::fmt::Write as _;

/// Longest name in the first column, and how far it may be cut so that the table fits: two
/// versions of a broker are still told apart.
const NAME_CHARS_MAX: usize = 24;
const NAME_CHARS_MIN: usize = 20;

/// What a column says that its name does not.
const COLUMNS: [(&str, &str); 15] = [
    ("rate in:out", "messages published and received per second"),
    ("avg to max", "ms from the intended send to receipt, or connect to CONNACK"),
    ("CPU cores, max", "processors the broker used in measure; in its busiest second"),
    ("% avg, % max", "the same in percent of all processors"),
    ("us/delivery", "the broker's CPU per delivery, or per connect, in microseconds"),
    ("mem, stable", "the broker's resident memory; in the last third of measure"),
    ("load CPU", "processors the load generator used"),
    ("dup, reord.", "deliveries that came again, or out of order"),
    ("stray", "deliveries that were owed to nobody"),
    ("msg/cpu-s", "messages in and out of the broker per second of its CPU"),
    ("PSS", "the broker's memory with its share of what processes share"),
    ("ctxsw/s", "context switches of the broker per second"),
    ("lo, net", "bytes per second over loopback, and in and out of the host"),
    ("host, stolen", "processors of the host that were busy; that other guests had"),
    ("W", "power of the processors, in watts"),
];

/// What stands below the tables of the use cases: all of them in one, where they are several, and
/// the meaning of the columns.
pub fn render(results: &[RunResult]) -> String {
    table(results) + &legend()
}

/// A row a broker below its use case, with the medians of repeats; empty for a single use case.
fn table(results: &[RunResult]) -> String {
    let uses = runs::group(results);
    if uses.len() < 2 {
        return String::new();
    }
    let mut text = format!("\n{}\n", fit(&in_one(&uses)));
    if uses.iter().flat_map(|of| &of.brokers).any(|broker| broker.runs.len() > 1) {
        prose(
            &mut text,
            "figures are medians of a broker's valid runs, of its invalid ones where it has no \
             others; lost is the sum over all runs",
        );
    }
    text
}

/// The names are cut as little as the width of a terminal allows.
fn in_one(uses: &[Use<'_>]) -> Table {
    let lengths = (NAME_CHARS_MIN..=NAME_CHARS_MAX).rev();
    let tables = lengths.map(|chars_max| named(uses, chars_max));
    let is_short = |table: &Table| {
        table.to_string().lines().all(|line| line.chars().count() <= LINE_CHARS_MAX)
    };
    // Where none is short enough, its columns go below one another.
    tables.into_iter().find(is_short).unwrap_or_else(|| named(uses, NAME_CHARS_MAX))
}

fn named(uses: &[Use<'_>], chars_max: usize) -> Table {
    let mut table =
        new_table(["all use cases", "verdict", "out /s", "p99 ms", "lost", "CPU us", "mem"]);
    for of in uses {
        let mut title: [String; 7] = Default::default();
        title[0] = cut(of.name.trim_start_matches("singlenode-"), chars_max);
        table.add_row(title);
        for broker in &of.brokers {
            let mut cells = row(of, broker);
            cells[0] = cut(&cells[0], chars_max);
            table.add_row(cells);
        }
    }
    table
}

fn row(of: &Use<'_>, broker: &Repeats<'_>) -> [String; 7] {
    let median = |value: fn(&RunResult) -> Option<f64>, text: fn(f64) -> String| {
        broker.spread(value).map_or_else(|| "-".to_owned(), |spread| text(spread.median))
    };
    let rate: fn(&RunResult) -> Option<f64> = if of.has_messages() {
        |run| Some(run.rates.received)
    } else {
        |run| Some(run.rates.connected)
    };
    let with_figures = || broker.runs.iter().filter(|named| named.run.has_figures());
    let lost: u64 = with_figures().map(|named| named.run.measure.lost).sum();
    [
        format!("  {}", broker.label),
        verdict(broker),
        median(rate, count),
        median(|run| Some(run.latency().filter(|of| of.count > 0)?.p99_us as f64), millis),
        if with_figures().count() > 0 { few_or_many(lost) } else { "-".into() },
        median(RunResult::cpu_us_each, |us| millis(us * 1e3)),
        median(|run| Some(run.resources.as_ref()?.rss_stable_bytes as f64), |b| mega(b as u64)),
    ]
}

/// A count that is exact while it is short; the use case's own table has every digit.
fn few_or_many(of: u64) -> String {
    if of < 100_000 { of.to_string() } else { count(of as f64) }
}

/// The worst verdict of a broker's runs, and how many of them have it.
fn verdict(broker: &Repeats<'_>) -> String {
    let (worst, runs) = (worst(broker), broker.runs.len());
    let have_it = broker.runs.iter().filter(|of| of.run.verdict.status == worst).count();
    // What a broker does not support, it supports in no run.
    let is_plain = runs == 1 || worst == Status::Unsupported && have_it == runs;
    if is_plain { worst.name().into() } else { format!("{have_it}/{runs} {}", worst.name()) }
}

fn cut(name: &str, chars_max: usize) -> String {
    let name = printable(name);
    if name.chars().count() <= chars_max {
        return name;
    }
    name.chars().take(chars_max - 3).chain("...".chars()).collect()
}

/// What the columns mean, once below all tables.
fn legend() -> String {
    let mut text = String::from("\ncolumns:\n");
    for (name, meaning) in COLUMNS {
        let _ = writeln!(text, "  {name:<15} {meaning}");
    }
    text
}
