//! The results as Markdown, which is what the terminal shows, too.

use crate::published::published;
use crate::record::{Clients, Standing};
use crate::summary::{AtRate, Group, Row, groups};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use std::fmt::Write as _;
use weir_bench::numbers::{count, mega, millis};
use weir_stats::{REPEATS_MIN, Ratio, Spread};

/// All groups, what is missing, what went wrong, and the published figures.
pub fn render(clients: &Clients) -> String {
    let mut text = String::new();
    let settings = &clients.settings;
    let host = &clients.host;
    let _ = writeln!(text, "{}, {} cores; {}", host.cpu_model, host.cores, settings.pinning);
    let _ = writeln!(
        text,
        "{} round(s), seed {}; warm-up {} s, measure {} s; payloads of {} B, {} to a segment",
        settings.repeats,
        settings.seed,
        settings.warm_up_s,
        settings.measure_s,
        settings.payload_bytes,
        settings.per_segment
    );
    text.push_str("Median of the rounds (lowest - highest). ");
    text.push_str("A core-second is a second of CPU of the stack, user and kernel. ");
    text.push_str("*: it did not keep up, see below the tables.\n");
    for group in groups(clients) {
        self::group(&mut text, &group, clients);
    }
    missing(&mut text, clients);
    beside(&mut text);
    text
}

fn group(text: &mut String, group: &Group<'_>, clients: &Clients) {
    let (title, qos, unit) = (group.workflow.title(), group.qos, group.workflow.unit());
    let _ = writeln!(text, "\n## {title}, QoS {qos}\n\nCPU us a {unit} (user + kernel):\n");
    let _ = writeln!(text, "{}\n", cost(group, clients));
    if group.rows.iter().any(is_score_limited) {
        let _ = writeln!(text, "{LIMITED}\n");
    }
    let _ = writeln!(text, "Latency from the intended time, memory, books:\n");
    let _ = writeln!(text, "{}", quality(group));
    for row in &group.rows {
        for at in row.rates.iter().flatten().filter(|at| at.standing != Standing::Kept) {
            let (name, rate) = (&row.stack.name, count(at.rate_per_s));
            let (standing, reasons) = (at.standing.name(), at.reasons.join("; "));
            let _ = writeln!(text, "- {name} at {rate}/s: {standing}: {reasons}");
        }
        for why in knee_faults(row) {
            let _ = writeln!(text, "- {}, knee: {why}", row.stack.name);
        }
    }
}

fn cost(group: &Group<'_>, clients: &Clients) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let mut head = vec!["stack".to_owned(), "library, runtime, JSON".into()];
    head.extend(group.rates.iter().map(|rate| format!("at {}/s", count(*rate))));
    head.push("knee/s".into());
    head.push(format!("{}s per core-second", group.workflow.unit()));
    head.push(format!("by {}", clients.settings.base));
    table.set_header(head);
    for row in &group.rows {
        let mut cells = vec![row.stack.name.clone(), versions(row)];
        cells.extend(row.rates.iter().map(|at| at.as_ref().map_or_else(dash, cpu)));
        cells.push(knee(row));
        cells.push(score(row));
        cells.push(row.by_base.as_ref().map_or_else(dash, ratio));
        table.add_row(cells);
    }
    table
}

fn quality(group: &Group<'_>) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let mut head = vec!["stack".to_owned()];
    head.extend(group.rates.iter().map(|rate| format!("p50/p99 ms at {}/s", count(*rate))));
    head.extend(["RSS max".into(), "RSS slope KB/s".into(), "books".into()]);
    table.set_header(head);
    for row in &group.rows {
        let mut cells = vec![row.stack.name.clone()];
        cells.extend(row.rates.iter().map(|at| at.as_ref().map_or_else(dash, latency)));
        cells.push(row.rss_max_bytes.map_or_else(dash, |of| spread(&of, |b| mega(b as u64))));
        cells.push(row.rss_slope.map_or_else(dash, |of| format!("{:.1}", of.median / 1e3)));
        cells.push(books(row));
        table.add_row(cells);
    }
    table
}

fn dash() -> String {
    "-".into()
}

pub(crate) fn versions(row: &Row<'_>) -> String {
    let of = row.stack;
    format!("{}, {}, {}", of.library, of.runtime, of.json)
}

fn cpu(at: &AtRate) -> String {
    let Some(cpu_us) = at.cpu_us else { return at.standing.name().into() };
    let part = |of: Option<Spread>| of.map_or_else(dash, |of| micros(of.median));
    let (user, system) = (part(at.user_us), part(at.system_us));
    format!("{} = {user} + {system}{}", spread(&cpu_us, micros), doubt(at))
}

/// What stands behind figures of a stack that did not keep up.
fn doubt(at: &AtRate) -> &'static str {
    if at.standing == Standing::Kept { "" } else { "*" }
}

/// Microseconds with three digits that count.
pub(crate) fn micros(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.2}"),
        us if us < 100.0 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}

/// The median, and both ends where there were repeats.
pub(crate) fn spread(of: &Spread, text: impl Fn(f64) -> String) -> String {
    match of.count {
        1 => text(of.median),
        _ => format!("{} ({} - {})", text(of.median), text(of.low), text(of.high)),
    }
}

/// What the mark at a score says.
pub(crate) const LIMITED: &str = "\u{2020} The replay server was the limit of this knee, not the \
    stack: under more load it may do more per core-second.";

pub(crate) fn is_score_limited(row: &Row<'_>) -> bool {
    row.score.is_some() && row.knee.as_ref().is_some_and(|knee| knee.is_limited)
}

/// What stands behind a score that the replay server ended.
pub(crate) fn mark(row: &Row<'_>) -> &'static str {
    if is_score_limited(row) { " \u{2020}" } else { "" }
}

pub(crate) fn score(row: &Row<'_>) -> String {
    row.score.map_or_else(dash, |of| spread(&of, count) + mark(row))
}

pub(crate) fn knee(row: &Row<'_>) -> String {
    let Some(knee) = &row.knee else { return dash() };
    let limit = if knee.is_limited { "at least " } else { "" };
    let doubt = if knee.is_confirmed { "" } else { ", not confirmed" };
    let rate = |of: Spread| format!("{limit}{}{doubt}", spread(&of, count));
    knee.rate_per_s.map_or_else(|| "none".into(), rate)
}

/// What went wrong on the way to the knee.
pub(crate) fn knee_faults(row: &Row<'_>) -> Vec<String> {
    let Some(knee) = &row.knee else { return Vec::new() };
    let fault = knee.fault.as_ref().map(|(standing, why)| format!("{}: {why}", standing.name()));
    knee.broken.iter().cloned().chain(fault).collect()
}

pub(crate) fn ratio(of: &Ratio) -> String {
    if of.pairs < REPEATS_MIN {
        return format!("{:.2}", of.ratio);
    }
    format!("{:.2} ({:.2} - {:.2})", of.ratio, of.interval.low, of.interval.high)
}

pub(crate) fn latency(at: &AtRate) -> String {
    let ms = |us: u64| millis(us as f64);
    at.latency_us.map_or_else(dash, |(p50, p99)| format!("{}/{}{}", ms(p50), ms(p99), doubt(at)))
}

/// The worst that was seen at a fixed rate, or what was worse than overload on the way to the knee.
pub(crate) fn books(row: &Row<'_>) -> String {
    let knee = row.knee.as_ref().and_then(|knee| Some(knee.fault.as_ref()?.0));
    let worst = row.rates.iter().flatten().map(|at| at.standing).chain(knee).max();
    worst.map_or_else(dash, |of| of.name().to_owned())
}

fn missing(text: &mut String, clients: &Clients) {
    let missing: Vec<_> = clients.stacks.iter().filter(|of| of.missing.is_some()).collect();
    if missing.is_empty() {
        return;
    }
    text.push_str("\n## Not run\n\n");
    for of in missing {
        let _ = writeln!(text, "- {}: {}", of.name, of.missing.as_deref().unwrap_or_default());
    }
}

fn beside(text: &mut String) {
    let (source, about, rows) = published();
    let _ = writeln!(text, "\n## Published: {source}\n\nNot measured here. {about}\n");
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "stack, subscribe only",
        "CPU %",
        "messages/s",
        "messages per core-second",
        "",
    ]);
    for row in rows {
        table.add_row([
            row.stack.clone(),
            format!("{}", row.cpu_percent),
            format!("{}", row.msgs_per_s),
            count(row.per_core_s()),
            row.note.unwrap_or_default(),
        ]);
    }
    let _ = writeln!(text, "{table}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::tests::example;

    #[test]
    fn the_tables_have_every_stack_and_say_what_went_wrong() {
        let text = render(&example());
        // Columns are padded to the longest.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("## entire workflow, QoS 0"), "{text}");
        let row = "| quick | 1.0, rustc-1.95, none | 1.02 (1.01 - 1.03) = 0.77 + 0.26 |";
        assert!(words(&text).contains(row), "{text}");
        assert!(text.contains("- slow at 20.0k/s: overloaded: 7 messages behind"), "{text}");
        assert!(text.contains("- absent: nobody"), "{text}");
        assert!(text.contains("kibo-c") && text.contains("published, cannot be obtained"));
        assert!(text.contains("| 431k"), "the published score per core-second: {text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("| quick")).collect();
        assert_eq!(lines.len(), 2);
    }
}
