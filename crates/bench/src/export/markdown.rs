//! Markdown in the shape of the suite's own results pages: brokers, use case, testbed, metrics.

use crate::numbers::count;
use crate::published;
use crate::report::runs::{Named, Use};
use crate::report::shape;
use crate::result::disclosure;
use crate::tables::latency_cells;
use std::fmt::Write as _;

pub(super) fn text(uses: &[Use<'_>]) -> String {
    uses.iter().map(use_case).collect::<Vec<_>>().join("\n")
}

fn use_case(of: &Use<'_>) -> String {
    let Some(first) = of.runs.first() else { return String::new() };
    let case = &first.run.use_case;
    let mut text = format!("# Benchmark results of {}\n\n## Brokers\n\n", cell(of.name));
    let brokers = of.brokers.iter().map(|broker| {
        let run = broker.typical.run;
        vec![run.broker.name.clone(), run.broker.version.clone(), run.broker.profile.clone()]
    });
    table(&mut text, &["Broker", "Version", "Profile"], brokers);
    let _ = write!(text, "\n## Benchmark use case: {}\n\n{}\n\n", cell(of.name), cell(&case.about));
    if case.scale < 1.0 {
        let _ = write!(
            text,
            "**Ran at {:.4} of the suite's size: not to be set beside figures of full size.**\n\n",
            case.scale
        );
    }
    let terms = shape::terms(first.run);
    table(&mut text, &["Property", "Value"], terms.into_iter().map(Vec::from));
    let _ = write!(text, "\n## Testbed\n\n");
    for line in shape::testbed(first.run) {
        let _ = writeln!(text, "- {}", cell(&line));
    }
    text += "\n## Metrics\n\n";
    let shape = shape::metrics(of);
    let head: Vec<&str> = [""].into_iter().chain(shape.head).collect();
    let rows =
        shape.rows.into_iter().map(|(label, cells)| [vec![format!("**{label}**")], cells].concat());
    table(&mut text, &head, rows);
    if !published::of(of.name).is_empty() {
        text += "\nRows marked with a year were published elsewhere, at full size; not measured \
                 here.\n";
    }
    runs(&mut text, of);
    verdicts(&mut text, of);
    text
}

/// What the suite's pages do not have: every run, percentiles, losses, disclosure.
fn runs(text: &mut String, of: &Use<'_>) {
    text.push_str("\n### Every run\n\n");
    let head = [
        "Run",
        "Verdict",
        "Rate in : out /s",
        "avg ms",
        "p50",
        "p75",
        "p90",
        "p95",
        "p99",
        "p99.9",
        "max",
        "Lost",
        "CPU cores",
        "CPU µs each",
        "Bytes per connection",
        "Disclosure",
    ];
    let rows = of.runs.iter().map(|named| {
        let run = named.run;
        let rates = &run.rates;
        let rate = if run.use_case.qos.is_some() {
            format!("{} : {}", count(rates.published), count(rates.received))
        } else {
            count(rates.connected)
        };
        let mut cells = vec![named.label.clone(), run.verdict.status.name().into(), rate];
        cells.extend(latency_cells(run.latency()));
        let resources = run.resources.as_ref();
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        cells.push(run.measure.lost.to_string());
        cells.push(or_dash(resources.map(|of| format!("{:.2}", of.cpu_cores_avg))));
        let each = run.cpu_us_each();
        cells.push(or_dash(each.map(|us| format!("{us:.2}"))));
        cells.push(or_dash(run.bytes_per_connection().map(|bytes| format!("{bytes:.0}"))));
        cells.push(disclosure::state(run));
        cells
    });
    table(text, &head, rows);
}

fn verdicts(text: &mut String, of: &Use<'_>) {
    let line = |named: &Named<'_>| {
        let reasons = named.run.verdict.reasons.iter();
        let of = format!("{} {}", named.label, named.run.verdict.status.name());
        let lines = reasons.map(|reason| format!("> {}: {}\n", cell(&of), cell(reason)));
        lines.collect::<String>()
    };
    let all: String = of.runs.iter().map(line).collect();
    if !all.is_empty() {
        text.push('\n');
        text.push_str(&all);
    }
}

fn table(text: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let _ = writeln!(text, "| {} |", head.join(" | "));
    let _ = writeln!(text, "|{}", " --- |".repeat(head.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|text| cell(text)).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

/// A text that ends no cell, opens no element and moves no cursor.
fn cell(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|");
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
