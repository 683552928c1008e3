//! The picture of a state: pure, so that a test reads it off a buffer.

use super::{SOFT, card, charts};
use crate::live::events::Ended;
use crate::live::state::{CellState, Run, State};
use crate::live::text::{bytes, latency, si};
use crate::result::series::{Kind, SERIES};
use crate::result::{SeriesRow, Status};
use crate::tables::printable;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use weir_load::outcome::{CPU_SHARE_MAX, LAG_P99_US_MAX};

/// Columns from which the figures stand beside the charts and not below.
const WIDE: u16 = 110;

/// Rows that the charts of a narrow screen have at least.
const CHARTS_HEIGHT: u16 = 8;

const GOOD: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Red);
const DOUBT: Style = Style::new().fg(Color::Yellow);

/// Draws it. `said` is the last line of the log.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, said: &str, is_stopping: bool) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(footer(state, said, is_stopping)), foot);
    let Some(run) = &state.run else {
        return frame.render_widget(Paragraph::new("starting the broker ..."), head);
    };
    frame.render_widget(
        Paragraph::new(vec![title(state, run, head.width), phases(run, head.width)]),
        head,
    );
    if body.width >= WIDE {
        let [left, right] =
            Layout::horizontal([Constraint::Fill(1), Constraint::Length(50)]).areas(body);
        charts::draw(frame, left, run);
        side(frame, right, state, run);
    } else {
        let figures = figures(run);
        // The charts keep what they need to be read.
        let lines = (figures.len() as u16 + 2).min(body.height.saturating_sub(CHARTS_HEIGHT));
        let [above, below] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(lines)]).areas(body);
        charts::draw(frame, above, run);
        frame.render_widget(Paragraph::new(figures).block(card("now")), below);
    }
}

/// What runs, on which broker, and where that is: without the last, and without what the names of
/// use cases have in common, where the screen is too narrow.
fn title(state: &State, run: &Run, width: u16) -> Line<'static> {
    let of = &run.started;
    let title = |use_case: &str, place: Option<String>| {
        let mut spans = vec![Span::styled("weir bench ", Style::new().fg(Color::Cyan).bold())];
        if let (Some(number), true) = (state.cell_number(), state.cells.len() > 1) {
            spans.push(Span::raw(format!("{number}/{} ", state.cells.len())));
        }
        spans.push(printable(use_case).bold());
        spans.push(Span::raw(format!(" on {}", printable(&of.broker))));
        spans.extend(place.map(|place| Span::styled(place, SOFT)));
        Line::from(spans)
    };
    let place = || Some(format!("  {} ({})", printable(&of.address), of.profile));
    let short = of.use_case.trim_start_matches("singlenode-");
    let longest_first = [title(&of.use_case, place()), title(short, place())];
    let fits = |line: &Line<'_>| line.width() <= usize::from(width);
    longest_first.into_iter().find(fits).unwrap_or_else(|| title(short, None))
}

/// The phases beside each other, each as wide as it is long, filled as far as it is done.
fn phases(run: &Run, width: u16) -> Line<'static> {
    let Some((now, elapsed_s)) = run.phase() else { return Line::from("connect") };
    let known_s: f64 = run.started.phases.iter().filter_map(|phase| phase.length_s).sum();
    let names: usize = run.started.phases.iter().map(|phase| phase.name.len() + 2).sum();
    let room = usize::from(width).saturating_sub(names + 12) as f64;
    let is_over = run.ended.is_some();
    let mut is_done = true;
    let mut spans = Vec::new();
    for phase in &run.started.phases {
        let is_now = phase.name == now.name && !is_over;
        is_done &= !is_now;
        let cells = (phase.length_s.unwrap_or(0.0) / known_s.max(1e-9) * room).round() as usize;
        let share = match phase.length_s {
            _ if is_done => 1.0,
            Some(length_s) if is_now => (elapsed_s / length_s.max(1e-9)).min(1.0),
            _ => 0.0,
        };
        let done = (cells as f64 * share).round() as usize;
        let style = if is_now { Style::new().fg(Color::Cyan).bold() } else { SOFT };
        spans.push(Span::styled(format!("{} ", phase.name), style));
        spans.push(Span::styled("━".repeat(done), Style::new().fg(Color::Cyan)));
        spans.push(Span::styled("━".repeat(cells - done), SOFT));
        spans.push(Span::raw(" "));
    }
    match run.left_s() {
        Some(left_s) if !is_over => spans.push(Span::raw(format!("{left_s:.0} s left"))),
        _ => {}
    }
    Line::from(spans)
}

fn side(frame: &mut Frame<'_>, area: Rect, state: &State, run: &Run) {
    let figures = figures(run);
    let marks = marks(run);
    let [now, noted, runs] = Layout::vertical([
        Constraint::Length(figures.len() as u16 + 2),
        Constraint::Length(if marks.is_empty() { 0 } else { marks.len() as u16 + 2 }),
        Constraint::Fill(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(figures).block(card("now")), now);
    if !marks.is_empty() {
        frame.render_widget(Paragraph::new(marks).block(card("marks")), noted);
    }
    let room = usize::from(runs.height.saturating_sub(2));
    frame.render_widget(Paragraph::new(cells(state, room)).block(card("runs")), runs);
}

/// A line of figures: a name, and what is to be read there.
fn figure(name: &str, spans: Vec<Span<'static>>) -> Line<'static> {
    let mut line = vec![Span::styled(format!("{name:<12}"), SOFT)];
    line.extend(spans);
    Line::from(line)
}

fn figures(run: &Run) -> Vec<Line<'static>> {
    let Some(row) = run.row() else { return vec![Line::from("waiting for the first interval")] };
    let of = &run.started;
    let plain = |text: String| vec![Span::raw(text)];
    let mut lines = vec![figure(
        "connections",
        plain(format!("{} of {}, {}/s", row.connections, of.connections, si(row.connected_per_s))),
    )];
    if run.has_messages() {
        let clients = format!("{} publish, {} subscribe", row.publishers, row.subscribers);
        lines.push(figure("clients", plain(clients)));
        let due = |per_s: f64| Span::styled(format!(" of {}", si(per_s)), SOFT);
        lines.push(figure(
            "messages /s",
            vec![
                Span::raw(format!("out {}", si(row.published_per_s))),
                due(of.publish_rate_per_s),
                Span::raw(format!("  in {}", si(row.received_per_s))),
                due(of.deliver_rate_per_s),
            ],
        ));
        let all = [row.latency_p50_us, row.latency_p90_us, row.latency_p99_us, row.latency_max_us];
        let [p50, p90, p99, max] = all.map(latency);
        lines.push(figure("p50 p90", plain(format!("{p50}  {p90}"))));
        lines.push(figure("p99 max", plain(format!("{p99}  {max}"))));
        lines.push(figure("outstanding", plain(row.outstanding.to_string())));
    } else {
        lines.push(figure("connect p99", plain(latency(row.connect_p99_us))));
    }
    lines.push(figure("troubles", vec![troubles(run)]));
    if of.is_watched {
        let memory = bytes(row.broker_rss_bytes as f64);
        lines.push(figure(
            "broker",
            plain(format!("{:.2} cores, {memory}", row.broker_cpu_cores())),
        ));
        let (files, threads) = (row.broker_files, row.broker_threads);
        lines.push(figure("", plain(format!("{threads} threads, {files} files"))));
    }
    lines.extend(host(row).map(|text| figure("host", plain(text))));
    lines.push(figure("generator", vec![health(row)]));
    lines
}

/// The host and what the broker makes of it, as far as it can be seen.
fn host(row: &SeriesRow) -> Option<String> {
    let of = &row.system;
    let parts = [
        of.host_cpu_cores.map(|cores| format!("{cores:.2} cores")),
        // Of a machine that is not shared there is nothing to say.
        of.host_steal_cores.filter(|cores| *cores >= 0.01).map(|c| format!("{c:.2} stolen")),
        of.context_switches_per_s.map(|per_s| format!("{} switches/s", si(per_s))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// What went wrong so far.
fn troubles(run: &Run) -> Span<'static> {
    let counts = SERIES.iter().filter(|figure| figure.kind == Kind::Count);
    let seen = counts.filter_map(|of| Some((run.totals.of(of), of)).filter(|seen| seen.0 > 0));
    let texts: Vec<String> = seen.map(|(count, of)| format!("{count} {}", word(of.name))).collect();
    if texts.is_empty() { Span::styled("none", GOOD) } else { Span::styled(texts.join(", "), BAD) }
}

/// The name of a count where there is little room.
fn word(name: &str) -> String {
    match name {
        "connect_failures" => "connections".into(),
        "subscribe_failures" => "subscriptions".into(),
        "publish_failures" => "refused".into(),
        "duplicated" => "twice".into(),
        name => name.replace('_', " "),
    }
}

/// Whether the generator keeps up.
fn health(row: &SeriesRow) -> Span<'static> {
    let lag_us = row.generator_lag_p99_us;
    let is_late = lag_us > LAG_P99_US_MAX;
    let is_busy = row.generator_cpu_cores > CPU_SHARE_MAX;
    let style = if is_late || is_busy { BAD } else { GOOD };
    let word = match (is_late, is_busy) {
        (true, _) => "late",
        (false, true) => "busy",
        (false, false) => "healthy",
    };
    let cores = row.generator_cpu_cores;
    Span::styled(format!("{word}: {cores:.2} cores, lag {}", latency(lag_us)), style)
}

fn marks(run: &Run) -> Vec<Line<'static>> {
    let newest = run.marks.iter().rev().take(4).rev();
    let line = |mark: &crate::live::events::Mark| {
        Line::from(format!("{:>7.1} s  {}", mark.t_s, printable(&mark.text)))
    };
    newest.map(line).collect()
}

/// The runs of the command, as many as there is room for, the one under way among them.
fn cells(state: &State, room: usize) -> Vec<Line<'static>> {
    let at = state.cells.iter().rposition(|cell| cell.is_begun).unwrap_or(0);
    let last = state.cells.len().saturating_sub(room);
    let first = at.saturating_sub(room / 2).min(last);
    state.cells.iter().skip(first).take(room).map(cell).collect()
}

fn cell(cell: &CellState) -> Line<'static> {
    let name = cell.cell.use_case.trim_start_matches("singlenode-");
    let name = format!("{} {}", printable(name), printable(&cell.cell.broker));
    match (&cell.ended, cell.is_begun) {
        (Some(ended), _) => {
            let p99 = ended.p99_us.map_or_else(String::new, |us| format!(" {}", latency(us)));
            let (sign, style) = verdict(ended);
            Line::from(vec![
                Span::styled(format!("{sign} "), style),
                Span::raw(name),
                Span::styled(p99, SOFT),
            ])
        }
        (None, true) => Line::styled(format!("> {name}"), Style::new().fg(Color::Cyan).bold()),
        (None, false) => Line::styled(format!("  {name}"), SOFT),
    }
}

fn verdict(ended: &Ended) -> (&'static str, Style) {
    match ended.status {
        Status::Passed => ("+", GOOD),
        Status::Failed => ("x", BAD),
        Status::Invalid | Status::Aborted | Status::Unsupported => ("?", DOUBT),
    }
}

fn footer(state: &State, said: &str, is_stopping: bool) -> Line<'static> {
    if is_stopping {
        return Line::styled("stopping cleanly ...", DOUBT.add_modifier(Modifier::BOLD));
    }
    let mut spans = vec![Span::raw("q").bold(), Span::styled(" stop cleanly", SOFT)];
    if let Some(next) = state.next() {
        let name = next.use_case.trim_start_matches("singlenode-");
        let text = format!("   next: {} on {}", printable(name), printable(&next.broker));
        spans.push(Span::styled(text, SOFT));
    }
    if !said.is_empty() {
        spans.push(Span::styled(format!("   {}", printable(said)), DOUBT));
    }
    Line::from(spans)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
