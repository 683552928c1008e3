//! The tables of mqttbs, in the terminal.

mod fit;
mod handshakes;
mod reasons;
mod system;

pub(crate) use crate::lines::printable;
pub use crate::lines::prose;
pub use fit::fit;

use crate::cluster;
use crate::faults;
use crate::metrics::{self, Metric, Place, Sheet};
use crate::numbers::{count, mega, millis};
use crate::published::{self, Published};
use crate::result::{ClusterResult, LatencyResult, RunResult, Status};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use std::fmt::Write as _;

/// Longest name of a broker in a table.
const NAME_CHARS_MAX: usize = 22;

/// Every use case with its runs, and the published figures beneath: plain text without colour,
/// at most 80 columns, with no control character but the ends of lines.
pub fn render(results: &[RunResult]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for result in results {
        if !names.contains(&result.use_case.name.as_str()) {
            names.push(&result.use_case.name);
        }
    }
    let mut text = String::new();
    let mut sources = Vec::new();
    for name in names {
        let runs: Vec<&RunResult> =
            results.iter().filter(|result| result.use_case.name == name).collect();
        use_case(&mut text, name, &runs, &mut sources);
    }
    if !sources.is_empty() {
        text += "\nsources of the published figures:\n";
    }
    for (at, source) in sources.iter().enumerate() {
        prose(&mut text, &format!("[{}] {}", at + 1, published::title(source)));
    }
    text
}

/// `sources` are those of the published rows so far: they stand once, below all use cases.
fn use_case(text: &mut String, name: &str, runs: &[&RunResult], sources: &mut Vec<String>) {
    let Some(first) = runs.first() else { return };
    let of = &first.use_case;
    let _ = writeln!(text, "\n{}", printable(name));
    let is_cut = runs.iter().any(|run| run.verdict.status == Status::Aborted);
    let measured = if is_cut { "to be measured for" } else { "measured" };
    prose(text, &of.about);
    // Runs of one size share a line; where sizes are mixed, each line says whose it is.
    let sizes: Vec<String> = runs.iter().map(|run| size(run, measured)).collect();
    if sizes.iter().all(|size| *size == sizes[0]) {
        prose(text, &sizes[0]);
    } else {
        for (run, size) in runs.iter().zip(&sizes) {
            prose(text, &format!("{}: {size}", short(run)));
        }
    }
    let has_messages = of.qos.is_some();
    let (runs, not_run): (Vec<&RunResult>, Vec<&RunResult>) =
        runs.iter().partition(|run| run.was_run());
    if !runs.is_empty() {
        tables(text, &runs, has_messages);
    }
    for run in runs.iter().filter(|run| run.has_figures()) {
        if let Some(course) = &run.course {
            let (table, sentence) = faults::table(course);
            prose(text, &format!("{}, steps:", who(run)));
            let _ = writeln!(text, "{}", fit(&table));
            prose(text, &sentence);
            text.push('\n');
        }
    }
    for run in runs.iter().filter(|run| run.has_figures()) {
        if let Some(cluster) = &run.cluster {
            cluster_tables(text, run, cluster);
        }
    }
    reasons::told(text, &runs);
    for run in not_run {
        let reasons = run.verdict.reasons.join("; ");
        let status = match run.verdict.status {
            // Says so itself.
            Status::Unsupported => String::new(),
            _ => format!(" {}", status(run)),
        };
        prose(text, &format!("{}{status}: {reasons}", broker(run)));
    }
    let rows = published::of(name);
    if !rows.is_empty() {
        prose(
            text,
            &format!(
                "published elsewhere at full scale, not measured here ({}):",
                published::hosts(&rows)
            ),
        );
        published_rows(text, &rows, has_messages, sources);
        let runs = runs.iter().copied().filter(|run| run.has_figures());
        host_memory(text, &runs.collect::<Vec<_>>());
    }
}

/// What each node took, what went between them, and what became of sessions.
fn cluster_tables(text: &mut String, run: &RunResult, cluster: &ClusterResult) {
    let mut nodes = new_table(cluster::NODES_HEAD);
    nodes.add_rows(cluster.nodes.iter().map(cluster::node_row));
    let mut sessions = new_table(cluster::SESSIONS_HEAD);
    sessions.add_rows(cluster.sessions.iter().map(cluster::sessions_row));
    prose(text, &format!("{}, nodes:", who(run)));
    let _ = writeln!(text, "{}", fit(&nodes));
    // Agents tell nothing of it.
    if !cluster.sessions.is_empty() {
        prose(text, &format!("{}, subscribers by what became of their sessions:", who(run)));
        let _ = writeln!(text, "{}", fit(&sessions));
    }
    cluster::sentences(cluster).iter().for_each(|sentence| prose(text, sentence));
    text.push('\n');
}

/// Runs of which the host's memory is told one by one; of more it is told together.
const HOST_MEMORY_MAX: usize = 2;

/// What stands beside the published memory: the host's, as theirs is.
fn host_memory(text: &mut String, runs: &[&RunResult]) {
    let known: Vec<_> =
        runs.iter().filter_map(|run| Some((run, run.resources.as_ref()?))).collect();
    if known.len() <= HOST_MEMORY_MAX {
        for (run, of) in known {
            let [before, max] = [of.host_used_baseline_bytes, of.host_used_max_bytes].map(mega);
            let who = short(run);
            prose(
                text,
                &format!(
                    "{who}: the host had {before} in use before, {max} at most, load included"
                ),
            );
        }
        return;
    }
    let before = known.iter().map(|(_, of)| of.host_used_baseline_bytes);
    let [least, most] = [before.clone().min(), before.max()].map(|bytes| mega(bytes.unwrap_or(0)));
    let max =
        known.iter().map(|(_, of)| of.host_used_max_bytes).max().map_or_else(String::new, mega);
    prose(
        text,
        &format!(
            "before {} runs the host had {least} to {most} in use, {max} at most in any, load \
             included",
            known.len()
        ),
    );
}

/// At which part of the suite's size, and how long.
fn size(run: &RunResult, measured: &str) -> String {
    let of = &run.use_case;
    let length = format!("{measured} {} s", of.duration_s);
    if of.scale == 1.0 {
        return length;
    }
    let why = of.scale_reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("SCALE {:.4} of the suite's size, {length}{why}", of.scale)
}

/// The first table has all runs and their verdicts, the others those with figures.
fn tables(text: &mut String, runs: &[&RunResult], has_messages: bool) {
    let _ = writeln!(text, "{}\n", fit(&latency_table(runs, has_messages)));
    let runs: Vec<&RunResult> = runs.iter().copied().filter(|run| run.has_figures()).collect();
    if runs.is_empty() {
        return;
    }
    let last = if has_messages { Sheet::Deliveries } else { Sheet::Connections };
    let last = metric_table(&runs, last);
    let resources = metric_table(&runs, Sheet::Resources { of_messages: has_messages });
    let handshakes = handshakes::handshake_table(&runs);
    let system = system::system_table(&runs);
    for table in handshakes.into_iter().chain([resources]).chain(system).chain([last]) {
        let _ = writeln!(text, "{}\n", fit(&table));
    }
    let is_measurable =
        |run: &&RunResult| run.resources.is_none() || run.bytes_per_connection().is_some();
    if !runs.iter().copied().all(|run| is_measurable(&run)) {
        prose(text, "n/m: not measurable at this scale: memory did not grow with the connections");
    }
}

/// The broker as a table names it.
pub(crate) fn broker(run: &RunResult) -> String {
    let of = &run.broker;
    let version = of.version.split(' ').next().unwrap_or_default();
    let version = if version == "unknown" { "" } else { version };
    let profile = match of.profile.as_str() {
        "default" | "unknown" => "",
        profile => profile,
    };
    let nodes = of.nodes_text();
    let words = [of.name.as_str(), version, profile, &nodes];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Of repeats, which round it is: rows stand in the order they were run.
fn round(run: &RunResult) -> String {
    run.repetition.as_ref().map_or_else(String::new, |of| format!(" #{}", of.round))
}

/// The broker, and of repeats which one.
fn who(run: &RunResult) -> String {
    broker(run) + &round(run)
}

/// The same, cut to what a table has room for.
fn short(run: &RunResult) -> String {
    let name = printable(&broker(run));
    let round = round(run);
    let chars_max = NAME_CHARS_MAX - round.len();
    if name.chars().count() <= chars_max {
        return name + &round;
    }
    name.chars().take(chars_max - 3).chain("...".chars()).chain(round.chars()).collect()
}

/// The verdict in a word.
pub(crate) fn status(run: &RunResult) -> &'static str {
    match run.verdict.status {
        Status::Passed => "passed",
        Status::Failed => "FAILED",
        Status::Invalid => "INVALID",
        Status::Aborted => "ABORTED",
        Status::Unsupported => "not supported",
    }
}

pub(crate) fn new_table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(header);
    table
}

fn latency_table(runs: &[&RunResult], has_messages: bool) -> Table {
    let rate = if has_messages { "rate in:out /s" } else { "connects /s" };
    let mut table = new_table([
        "broker", "verdict", rate, "avg ms", "p50", "p75", "p90", "p95", "p99", "p99.9", "max",
    ]);
    for run in runs {
        let name = if has_messages { "end_to_end" } else { "connect" };
        let rates = &run.rates;
        let rate = match has_messages {
            _ if !run.has_figures() => "-".into(),
            true => format!("{}:{}", count(rates.published), count(rates.received)),
            false => count(rates.connected),
        };
        let mut row = vec![short(run), status(run).into(), rate];
        row.extend(latency_cells(run.latencies.get(name).filter(|_| run.has_figures())));
        table.add_row(row);
    }
    table
}

/// A table of metrics with a row a run.
fn metric_table(runs: &[&RunResult], sheet: Sheet) -> Table {
    let columns = || metrics::columns(sheet, Place::Terminal);
    let mut table = new_table(["broker"].into_iter().chain(columns().map(|(_, title)| title)));
    for run in runs {
        let cell = |metric: &Metric| metric.cell(run, Place::Terminal);
        let cells = columns().map(|(metric, _)| cell(metric).unwrap_or_else(|| "-".into()));
        table.add_row([short(run)].into_iter().chain(cells));
    }
    table
}

/// The published rows, with their sources by number.
fn published_rows(
    text: &mut String,
    rows: &[Published],
    has_messages: bool,
    sources: &mut Vec<String>,
) {
    let memory = if has_messages { "avg" } else { "stable" };
    let mut table = new_table([
        "broker", "rate", "avg ms", "p50", "p75", "p90", "p95", "p99", "CPU %", "max", "mem max",
        memory, "src",
    ]);
    for row in rows {
        let number = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| format!("{v}"));
        let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".into());
        let at = |name: &str| number(row.latency_ms.get(name).copied());
        if !sources.contains(&row.source) {
            sources.push(row.source.clone());
        }
        let source = sources.iter().position(|source| *source == row.source).unwrap_or_default();
        table.add_row([
            format!("{} {}", row.broker, row.version),
            word(&row.rate),
            number(row.latency_ms_avg),
            at("p50"),
            at("p75"),
            at("p90"),
            at("p95"),
            at("p99"),
            number(row.cpu_avg),
            number(row.cpu_max),
            word(&row.mem_max),
            word(if has_messages { &row.mem_avg } else { &row.mem_stable }),
            format!("[{}]", source + 1),
        ]);
    }
    let _ = writeln!(text, "{}", fit(&table));
    for (row, note) in rows.iter().filter_map(|row| row.note.as_ref().map(|note| (row, note))) {
        prose(text, &format!("{} {}: {note}", row.broker, row.version));
    }
}

/// Average, p50, p75, p90, p95, p99, p99.9 and max in milliseconds; dashes if nothing was measured.
pub(crate) fn latency_cells(latency: Option<&LatencyResult>) -> [String; 8] {
    let Some(of) = latency.filter(|latency| latency.count > 0) else {
        return std::array::from_fn(|_| "-".into());
    };
    let percentiles =
        [of.p50_us, of.p75_us, of.p90_us, of.p95_us, of.p99_us, of.p999_us, of.max_us];
    std::array::from_fn(|at| match at {
        0 => millis(of.mean_us),
        at => millis(percentiles[at - 1] as f64),
    })
}
