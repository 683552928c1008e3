//! The charts of the screen: rates, latencies, the broker, over the newest minutes of the run.

use super::{SOFT, card};
use crate::live::state::Run;
use crate::live::text::{bytes, latency, si};
use crate::result::SeriesRow;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::Span;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType, LegendPosition};

/// Seconds of the run that a chart shows at most.
const SPAN_S: f64 = 300.0;

/// One line of a chart.
struct Curve {
    name: &'static str,
    colour: Color,
    of: fn(&SeriesRow) -> f64,
}

const fn curve(name: &'static str, colour: Color, of: fn(&SeriesRow) -> f64) -> Curve {
    Curve { name, colour, of }
}

const MESSAGES: &[Curve] = &[
    curve("sent", Color::Cyan, |row| row.published_per_s),
    curve("received", Color::Green, |row| row.received_per_s),
];

const CONNECTS: &[Curve] = &[curve("connected", Color::Green, |row| row.connected_per_s)];

const LATENCIES: &[Curve] = &[
    curve("p50", Color::Green, |row| row.latency_p50_us as f64),
    curve("p90", Color::Yellow, |row| row.latency_p90_us as f64),
    curve("p99", Color::Red, |row| row.latency_p99_us as f64),
];

const CONNECT_LATENCIES: &[Curve] = &[curve("p99", Color::Red, |row| row.connect_p99_us as f64)];

const CPU: &[Curve] = &[
    curve("broker", Color::Magenta, SeriesRow::broker_cpu_cores),
    curve("load", Color::Blue, |row| row.generator_cpu_cores),
];

const CPU_TITLE: &str = "CPU in cores";

const MEMORY: &[Curve] = &[curve("RSS", Color::Magenta, |row| row.broker_rss_bytes as f64)];

const OUTSTANDING: &[Curve] = &[curve("owed", Color::Yellow, |row| row.outstanding as f64)];

/// Rows from which there are two rows of charts, and three.
const TWO_ROWS: u16 = 14;
const THREE_ROWS: u16 = 24;

/// All charts that there is room for.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, run: &Run) {
    let (rates, latencies) = if run.has_messages() {
        (("messages per second", MESSAGES), ("latency from the intended time", LATENCIES))
    } else {
        (("connections per second", CONNECTS), ("CONNECT to CONNACK", CONNECT_LATENCIES))
    };
    let halves = |area: Rect| Layout::horizontal([Constraint::Ratio(1, 2); 2]).areas::<2>(area);
    let last = match area.height {
        ..TWO_ROWS => {
            let [left, right] = halves(area);
            log_chart(frame, left, latencies.0, latencies.1, run);
            return chart(frame, right, rates.0, rates.1, run, si);
        }
        TWO_ROWS..THREE_ROWS => {
            let [first, last] = Layout::vertical([Constraint::Ratio(1, 2); 2]).areas(area);
            let [left, right] = halves(first);
            log_chart(frame, left, latencies.0, latencies.1, run);
            chart(frame, right, rates.0, rates.1, run, si);
            last
        }
        THREE_ROWS.. => {
            let thirds = Layout::vertical([Constraint::Ratio(1, 3); 3]);
            let [first, second, last] = thirds.areas(area);
            log_chart(frame, first, latencies.0, latencies.1, run);
            let [left, right] = halves(second);
            chart(frame, left, rates.0, rates.1, run, si);
            chart(frame, right, "deliveries outstanding", OUTSTANDING, run, si);
            last
        }
    };
    let [left, right] = halves(last);
    chart(frame, left, CPU_TITLE, CPU, run, |cores| format!("{cores:.2}"));
    chart(frame, right, "broker's memory", MEMORY, run, bytes);
}

type Points = Vec<(f64, f64)>;

/// The curves' points of the newest minutes, through `scale`; one that is no number is left out.
fn points(curves: &[Curve], run: &Run, scale: fn(f64) -> f64) -> Vec<Points> {
    let from_s = run.row().map_or(0.0, |row| row.t_s - SPAN_S);
    let rows: Vec<&SeriesRow> = run.rows.iter().filter(|row| row.t_s >= from_s).collect();
    let of = |curve: &Curve| {
        let all = rows.iter().map(|row| (row.t_s, scale((curve.of)(row))));
        all.filter(|(_, value)| value.is_finite()).collect()
    };
    curves.iter().map(of).collect()
}

/// The end of an axis for values up to this: its half reads differently where `least` is what two
/// labels must be apart.
fn axis_end(highest: f64, least: f64) -> f64 {
    if highest <= 2.0 * least {
        return 2.0 * least;
    }
    let decade = 10f64.powf(highest.log10().floor());
    let ends = [1.2, 1.6, 2.0, 4.0, 6.0, 8.0, 10.0].map(|factor| factor * decade);
    ends.into_iter().find(|end| *end >= highest).unwrap_or(highest).max(2.0 * least)
}

/// From zero to beyond the highest value.
fn chart(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    curves: &[Curve],
    run: &Run,
    text: fn(f64) -> String,
) {
    let points = points(curves, run, |value| value);
    let highest = points.iter().flatten().map(|(_, value)| *value).fold(0.0, f64::max);
    let least = if title == CPU_TITLE { 0.01 } else { 1.0 };
    let top = axis_end(highest, least);
    let labels = vec![text(0.0), text(top / 2.0), text(top)];
    show(frame, area, title, curves, &points, [0.0, top], labels);
}

/// Latencies, by powers of ten.
fn log_chart(frame: &mut Frame<'_>, area: Rect, title: &str, curves: &[Curve], run: &Run) {
    let points = points(curves, run, f64::log10);
    let all = || points.iter().flatten().map(|(_, value)| *value);
    let bottom = all().fold(f64::INFINITY, f64::min).floor();
    let top = all().fold(f64::NEG_INFINITY, f64::max).ceil();
    let (bottom, top) =
        if bottom.is_finite() { (bottom, top.max(bottom + 1.0)) } else { (2.0, 5.0) };
    let decades = bottom as i32..=top as i32;
    let labels = decades.map(|power| latency(10f64.powi(power) as u64)).collect();
    show(frame, area, title, curves, &points, [bottom, top], labels);
}

fn show(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    curves: &[Curve],
    points: &[Points],
    bounds: [f64; 2],
    labels: Vec<String>,
) {
    let end_s = run_end(points);
    let start_s = (end_s - SPAN_S).max(0.0);
    let marker = Marker::Braille;
    let datasets = curves.iter().zip(points).map(|(curve, points)| {
        let style = Style::new().fg(curve.colour);
        let dataset = Dataset::default().data(points).marker(marker).style(style);
        let dataset = dataset.graph_type(GraphType::Line);
        // A lone curve needs no legend.
        if curves.len() > 1 { dataset.name(curve.name) } else { dataset }
    });
    let times = [start_s, end_s].map(|second| Span::styled(format!("{second:.0} s"), SOFT));
    let values = labels.into_iter().map(|label| Span::styled(label, SOFT));
    let chart = Chart::new(datasets.collect())
        .block(card(title))
        .x_axis(Axis::default().style(SOFT).bounds([start_s, end_s]).labels(times))
        .y_axis(
            Axis::default()
                .style(SOFT)
                .bounds(bounds)
                .labels(values)
                .labels_alignment(Alignment::Right),
        )
        .legend_position(Some(LegendPosition::TopLeft))
        .hidden_legend_constraints((Constraint::Ratio(1, 2), Constraint::Ratio(2, 3)));
    frame.render_widget(chart, area);
}

/// The newest time of the curves.
fn run_end(points: &[Points]) -> f64 {
    points.iter().flatten().map(|(second, _)| *second).fold(1.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labels_of_an_axis_differ() {
        for at in 0..10_000 {
            let highest = f64::from(at) * 0.37;
            for (least, text) in [(1.0, si as fn(f64) -> String), (0.01, |of| format!("{of:.2}"))] {
                let end = axis_end(highest, least);
                let labels = [0.0, end / 2.0, end].map(text);
                assert!(end >= highest && labels[0] != labels[1], "{highest}: {labels:?}");
                assert_ne!(labels[1], labels[2], "{highest}");
            }
        }
    }
}
