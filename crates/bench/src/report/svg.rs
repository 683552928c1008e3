//! A plot as SVG in the page: for what must be seen without a script.

use super::extra::Plot;
use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const FOOT: f64 = 46.0;

/// The plot as an element `svg`; nothing where it has no points. Its texts are escaped.
pub(super) fn plot(of: &Plot) -> Option<String> {
    let usable = |[x, y]: &[f64; 2]| x.is_finite() && y.is_finite() && (!of.is_log || *y > 0.0);
    let points = || of.lines.iter().flat_map(|(_, points)| points).filter(|point| usable(point));
    let levels = of.limit.into_iter().filter(|limit| !of.is_log || *limit > 0.0);
    let xs = Range::of(points().map(|[x, _]| *x), false)?;
    let ys = Range::of(points().map(|[_, y]| *y).chain(levels.clone()), of.is_log)?;
    let x = |value: f64| LEFT + xs.share(value) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| TOP + (1.0 - ys.share(value)) * (HEIGHT - TOP - FOOT);
    let mut text = format!(
        "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(&of.title)
    );
    for at in xs.ticks() {
        let (px, foot) = (x(at), HEIGHT - FOOT);
        let _ = write!(text, "<path class=\"grid\" d=\"M{px:.1} {TOP}V{foot}\"/>");
        let label = number(at);
        let _ = write!(
            text,
            "<text x=\"{px:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            foot + 15.0
        );
    }
    for at in ys.ticks() {
        let (py, right) = (y(at), WIDTH - RIGHT);
        let _ = write!(text, "<path class=\"grid\" d=\"M{LEFT} {py:.1}H{right}\"/>");
        let (px, base, label) = (LEFT - 6.0, py + 4.0, number(at));
        let _ = write!(text, "<text x=\"{px}\" y=\"{base:.1}\" text-anchor=\"end\">{label}</text>");
    }
    for limit in levels {
        let (py, right) = (y(limit), WIDTH - RIGHT);
        let _ = write!(text, "<path class=\"limit\" d=\"M{LEFT} {py:.1}H{right}\"/>");
    }
    for (at, (name, points)) in of.lines.iter().enumerate() {
        line(&mut text, at, name, points.iter().filter(|point| usable(point)), &x, &y);
    }
    let _ = write!(
        text,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
        WIDTH - RIGHT,
        HEIGHT - 8.0,
        escape(&of.x)
    );
    let _ = write!(text, "<text x=\"2\" y=\"10\">{}</text></svg>", escape(&of.y));
    Some(text)
}

fn line<'a>(
    text: &mut String,
    at: usize,
    name: &str,
    points: impl Iterator<Item = &'a [f64; 2]>,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) {
    let places: Vec<String> =
        points.map(|point| format!("{:.1} {:.1}", x(point[0]), y(point[1]))).collect();
    if places.is_empty() {
        return;
    }
    let colour = at % 8;
    let name = escape(name);
    let _ = write!(
        text,
        "<g style=\"--c:var(--c{colour})\"><title>{name}</title><path class=\"line\" d=\"M{}\"/>",
        places.join("L")
    );
    for place in &places {
        let (px, py) = place.split_once(' ').unwrap_or_default();
        let _ = write!(text, "<circle cx=\"{px}\" cy=\"{py}\" r=\"3\"/>");
    }
    text.push_str("</g>");
}

/// The values of an axis.
struct Range {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Range {
    /// Around the values: from zero, or on a log axis between whole decades.
    fn of(values: impl Iterator<Item = f64> + Clone, is_log: bool) -> Option<Self> {
        let high = values.clone().reduce(f64::max)?;
        let low = values.reduce(f64::min)?;
        Some(if is_log {
            let (low, high) = (low.log10().floor(), high.log10().ceil());
            Self { low: 10f64.powf(low), high: 10f64.powf(high.max(low + 1.0)), is_log }
        } else {
            let high = if high > 0.0 { high * 1.05 } else { 1.0 };
            Self { low: low.min(0.0), high, is_log }
        })
    }

    /// Where a value lies, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.is_log { value.log10() } else { value };
        (scale(value) - scale(self.low)) / (scale(self.high) - scale(self.low))
    }

    /// Values to name: decades, or about five round ones.
    fn ticks(&self) -> Vec<f64> {
        if self.is_log {
            let (from, to) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
            return (from..=to).map(|exponent| 10f64.powi(exponent)).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|of| of * decade);
        let step = step.clone().find(|step| *step >= rough).unwrap_or(decade);
        let from = (self.low / step).ceil() as i64;
        let to = (self.high / step).floor() as i64;
        (from..=to).map(|at| at as f64 * step).collect()
    }
}

/// Four digits that count, with k, M or G.
fn number(value: f64) -> String {
    let (value, unit) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.4}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

fn escape(text: &str) -> String {
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knee() -> Plot {
        Plot {
            title: "p99 by rate, \"<knee>\"".into(),
            x: "messages a second".into(),
            y: "ms".into(),
            is_log: true,
            lines: vec![("Weir".into(), vec![[1e3, 0.2], [1e4, 0.4], [2e4, 90.0], [3e4, 0.0]])],
            limit: Some(10.0),
        }
    }

    #[test]
    fn a_plot_has_every_point_that_its_axis_can_hold_and_its_texts_escaped() {
        let text = plot(&knee()).unwrap();
        assert_eq!(text.matches("<circle").count(), 3, "{text}");
        assert_eq!(text.matches("class=\"limit\"").count(), 1, "{text}");
        assert!(text.contains("&quot;&lt;knee&gt;&quot;") && !text.contains("<knee>"), "{text}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn a_plot_without_points_is_none() {
        assert!(plot(&Plot { lines: Vec::new(), ..knee() }).is_none());
    }

    #[test]
    fn axes_have_round_ticks_within_their_range() {
        let range = Range::of([0.0, 47_000.0].into_iter(), false).unwrap();
        assert_eq!(range.ticks(), [0.0, 10_000.0, 20_000.0, 30_000.0, 40_000.0]);
        let range = Range::of([0.2, 90.0].into_iter(), true).unwrap();
        assert_eq!(range.ticks(), [0.1, 1.0, 10.0, 100.0]);
        assert_eq!(number(12_345.0), "12.345k");
    }
}
