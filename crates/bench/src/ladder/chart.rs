//! The knee as a picture: p99 over what grew, both logarithmic, one line a broker. SVG that stands
//! in a page without scripts; shapes say what colours say.

use super::record::{Ladder, LadderStep};
use super::search::{Purpose, Seen};
use super::table::{amount, label};
use crate::numbers::millis;
use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 380.0;
/// Room for the labels: left, right, top, bottom.
const MARGIN: [f64; 4] = [64.0, 16.0, 16.0, 48.0];
/// Half the size of a mark.
const MARK: f64 = 4.5;
/// Ticks a decade.
const TICKS: [f64; 3] = [1.0, 2.0, 5.0];
/// Colours of the page's style, by number.
const COLOURS: usize = 16;

/// A logarithmic axis.
struct Axis {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Axis {
    /// From the lowest to the highest value with some air around.
    fn over(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Option<Self> {
        let values = values.filter(|value| *value > 0.0 && value.is_finite());
        let (low, high) = values
            .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        (high > 0.0).then(|| Self { low: low / 1.3, high: high * 1.3, start, end })
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value / self.low).ln() / (self.high / self.low).ln();
        self.start + share * (self.end - self.start)
    }

    fn ticks(&self) -> Vec<f64> {
        let decades = (self.low.log10().floor() as i32)..=(self.high.log10().floor() as i32);
        decades
            .flat_map(|decade| TICKS.map(|tick| tick * 10f64.powi(decade)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

/// The chart; empty where no step has a latency.
pub(super) fn svg(ladders: &[Ladder]) -> String {
    let steps = || ladders.iter().flat_map(|ladder| &ladder.steps);
    let objective = ladders.first().and_then(|ladder| ladder.objective.latency_us());
    let limit = objective.into_iter().map(|(_, limit_us)| limit_us);
    let latencies = steps().filter_map(|step| step.p99_us).map(|us| us as f64).chain(limit);
    let [left, right, top, bottom] = MARGIN;
    let axes = (
        Axis::over(steps().map(|step| step.value), left, WIDTH - right),
        Axis::over(latencies, HEIGHT - bottom, top),
    );
    let (Some(across), Some(up)) = axes else { return String::new() };
    let what = ladders.first().map_or("", |ladder| ladder.what.unit());
    let mut text = format!(
        "<svg class=\"knee\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"p99 latency over {what}; the table below has every point\">\n"
    );
    frame(&mut text, &across, &up, what);
    if let Some((name, limit_us)) = objective {
        let y = up.at(limit_us);
        let _ = writeln!(
            text,
            "<line class=\"limit\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">objective: {name}</text>",
            WIDTH - right,
            left + 6.0,
            y - 5.0
        );
    }
    for (number, ladder) in ladders.iter().enumerate() {
        line(&mut text, ladder, number % COLOURS, &across, &up);
    }
    text + "</svg>\n"
}

fn frame(text: &mut String, across: &Axis, up: &Axis, what: &str) {
    let [left, _, top, bottom] = MARGIN;
    let floor = HEIGHT - bottom;
    for tick in across.ticks() {
        let x = across.at(tick);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{floor}\"/>\
             <text class=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
            floor + 16.0,
            amount(tick)
        );
    }
    for tick in up.ticks() {
        let y = up.at(tick);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            across.end,
            left - 6.0,
            y + 4.0,
            millis(tick)
        );
    }
    let _ = writeln!(
        text,
        "<text class=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{what}</text>\
         <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">ms</text>",
        f64::midpoint(across.start, across.end),
        HEIGHT - 10.0,
        left - 6.0,
        top - 3.0
    );
}

/// A broker: a line through its steps, a disc where the objective was met, a cross where not, a
/// square for the confirmation, and a rule where the knee is.
fn line(text: &mut String, ladder: &Ladder, colour: usize, across: &Axis, up: &Axis) {
    let mut points: Vec<(&LadderStep, f64, f64)> = ladder
        .steps
        .iter()
        .filter_map(|step| Some((step, across.at(step.value), up.at(step.p99_us? as f64))))
        .collect();
    points.sort_by(|one, other| one.1.total_cmp(&other.1));
    let path: Vec<String> = points.iter().map(|(_, x, y)| format!("{x:.1},{y:.1}")).collect();
    let _ = writeln!(text, "<g style=\"--colour:var(--c{colour})\">");
    let _ = writeln!(text, "<polyline points=\"{}\"/>", path.join(" "));
    if let Some(met) = ladder.knee.and_then(|knee| knee.met) {
        let (x, [_, _, top, bottom]) = (across.at(met), MARGIN);
        let floor = HEIGHT - bottom;
        let _ = writeln!(
            text,
            "<line class=\"rule\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{floor}\"/>\
             <text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            x - 5.0,
            top + 12.0 + 14.0 * colour as f64,
            escaped(&format!("{}: {}", label(ladder), amount(met)))
        );
    }
    for (step, x, y) in points {
        mark(text, step, x, y);
    }
    *text += "</g>\n";
}

fn mark(text: &mut String, step: &LadderStep, x: f64, y: f64) {
    let (low_x, high_x, low_y, high_y) = (x - MARK, x + MARK, y - MARK, y + MARK);
    let size = MARK * 2.0;
    let _ = match (step.seen, step.purpose) {
        (Seen::Met, Purpose::Confirm) => writeln!(
            text,
            "<rect x=\"{low_x:.1}\" y=\"{low_y:.1}\" width=\"{size}\" height=\"{size}\"/>"
        ),
        (Seen::Met, _) => {
            writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{MARK}\"/>")
        }
        _ => writeln!(
            text,
            "<path d=\"M{low_x:.1} {low_y:.1}L{high_x:.1} {high_y:.1}M{low_x:.1} {high_y:.1}\
             L{high_x:.1} {low_y:.1}\"/>"
        ),
    };
}

/// A broker's name is its own to choose.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_spans_its_values_and_has_round_ticks() {
        let axis = Axis::over([100.0, 1_000.0].into_iter(), 0.0, 100.0).unwrap();
        assert!(axis.at(100.0) > 0.0 && axis.at(1_000.0) < 100.0);
        assert!((axis.at(1_300.0) - 100.0).abs() < 1e-9);
        let ticks: Vec<i64> = axis.ticks().iter().map(|tick| tick.round() as i64).collect();
        assert_eq!(ticks, [100, 200, 500, 1_000]);
        assert!(Axis::over([0.0, f64::NAN].into_iter(), 0.0, 1.0).is_none());
    }

    #[test]
    fn a_name_cannot_leave_its_element() {
        assert_eq!(escaped("</text><b>&"), "&lt;/text&gt;&lt;b&gt;&amp;");
    }
}
