//! A comparison in the terminal.

use super::Comparison;
use super::cells::{Cell, Pair, Side};
use super::metrics::COMPARED;
use crate::numbers;
use crate::stats::{Interval, Spread};
use crate::tables::{fit, printable, prose};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use std::fmt::Write as _;

/// Columns of [`head`] with the figures of the sides.
const FIGURES: usize = 2;

/// A ratio that nobody reads to its third digit.
const FAR: f64 = 100.0;

/// The columns behind the metric: both sides by their names.
pub(crate) fn head(base: &str, other: &str) -> [String; 6] {
    let [base, other] = if base == other {
        [format!("{base}, base"), format!("{other}, other")]
    } else {
        [base, other].map(str::to_owned)
    };
    let [ratio, interval, matters, verdict] =
        ["ratio", "interval", "matters", "verdict"].map(str::to_owned);
    [base, other, ratio, interval, matters, verdict]
}

/// A table a use case and pair of brokers, and above them what they rest on.
pub fn render(comparison: &Comparison) -> String {
    let mut text = String::new();
    for difference in &comparison.differences {
        let _ = writeln!(text, "NOT ALIKE {difference}");
    }
    for note in &comparison.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for pair in &comparison.pairs {
        pair_table(&mut text, pair);
    }
    if comparison.judged > 0 {
        let _ = writeln!(text, "\n{}", confidence(comparison));
    }
    text
}

/// What the verdicts together are worth.
pub(crate) fn confidence(comparison: &Comparison) -> String {
    format!(
        "Intervals are at {:.2} %: comparing 20 equal pairs gives at most 1 false verdict per \
         use case. {} verdicts in all.",
        (1.0 - comparison.share) * 100.0,
        comparison.judged
    )
}

fn pair_table(text: &mut String, pair: &Pair) {
    let [base, other] = [&pair.base, &pair.other].map(|side| printable(&side.label));
    let _ = writeln!(text, "\n{}: {other} compared with {base}", printable(&pair.use_case));
    let head = head(&base, &other);
    for (side, name) in [(&pair.base, &head[0]), (&pair.other, &head[1])] {
        for line in side.told(name) {
            prose(text, &line);
        }
    }
    if pair.cells.is_empty() {
        prose(text, "nothing to compare: no run passed");
        return;
    }
    // Where no metric can have a verdict for one and the same reason, that is told once.
    let why = pair.cells[0].why.as_str();
    let is_void = pair.cells.iter().all(|cell| cell.standing.is_none() && cell.why == why);
    let columns = if is_void { FIGURES } else { head.len() };
    let first = |cells: &[String]| cells[..columns].to_vec();
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["metric".to_owned()].into_iter().chain(first(&head)));
    for cell in &pair.cells {
        let [metric, figures @ ..] = row(cell);
        table.add_row([metric].into_iter().chain(first(&figures)));
    }
    let _ = writeln!(text, "{}", fit(&table));
    if is_void {
        prose(text, &format!("no verdict: {why}"));
    }
}

impl Side {
    /// What is to be known of its runs beside figures, a line each; `label` is what they call it.
    pub(crate) fn told(&self, label: &str) -> Vec<String> {
        let failed = self.failed.iter().map(|reason| format!("{label} FAILED: {reason}"));
        let void = (self.void > 0).then(|| {
            format!("{label}: {} of {} runs are void and say nothing", self.void, self.runs)
        });
        let disturbed = (self.disturbed > 0).then(|| {
            format!("{label}: the host was not quiet in {} of {} runs", self.disturbed, self.runs)
        });
        let medians = match self.passed {
            0 => None,
            1 => Some(format!("{label}: figures of one run")),
            runs => Some(format!("{label}: medians of {runs} runs")),
        };
        failed.chain(void).chain(disturbed).chain(medians).collect()
    }
}

/// A metric and its figures, as [`head`] has them.
pub(crate) fn row(cell: &Cell) -> [String; 7] {
    let metric = COMPARED.iter().find(|metric| metric.name == cell.metric);
    let title = metric.map_or(cell.metric.as_str(), |metric| metric.title);
    let missing = || "-".to_owned();
    let verdict = match cell.standing {
        Some(standing) if cell.why.is_empty() => standing.name().to_owned(),
        Some(standing) => format!("{}: {}", standing.name(), cell.why),
        None => format!("none: {}", cell.why),
    };
    [
        title.into(),
        cell.base.map_or_else(missing, |of| spread(&cell.metric, of)),
        cell.other.map_or_else(missing, |of| spread(&cell.metric, of)),
        cell.ratio.map_or_else(missing, |ratio| format!("{ratio:.3}")),
        cell.interval.map_or_else(missing, ends),
        format!("{:.0} %", cell.relevant * 100.0),
        verdict,
    ]
}

/// An interval that reaches far says only that it does.
fn ends(of: Interval) -> String {
    let high = if of.high < FAR { format!("{:.3}", of.high) } else { format!("over {FAR}") };
    format!("{:.3} to {high}", of.low)
}

/// Median, and the ends where they differ from it.
fn spread(metric: &str, of: Spread) -> String {
    let value = |value: f64| match metric {
        name if name.starts_with("latency_") => numbers::millis(value),
        name if name.ends_with("_bytes") => format!("{:.1}", value / 1e6),
        name if name.ends_with("_per_s") => numbers::count(value),
        _ => format!("{value:.2}"),
    };
    let [median, low, high] = [of.median, of.low, of.high].map(value);
    if low == high { median } else { format!("{median} ({low}-{high})") }
}
