//! Four panels over the rate, both axes logarithmic.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use std::path::Path;

/// One figure of all brokers.
pub(super) struct Panel {
    pub(super) title: &'static str,
    /// By broker: messages per second, and the figure there.
    pub(super) lines: Vec<(String, Vec<(f64, f64)>)>,
}

const WIDTH: u32 = 1200;
const HEIGHT: u32 = 760;

/// Told apart by everybody, on white (Okabe and Ito, "Color Universal Design", 2008).
const COLOURS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];

/// Draws the panels into a file of SVG.
///
/// # Errors
/// The file cannot be written.
pub(super) fn draw(path: &Path, panels: &[Panel]) -> Result<()> {
    let area = SVGBackend::new(path, (WIDTH, HEIGHT)).into_drawing_area();
    let failed = |error: &dyn std::fmt::Display| anyhow!("{}: {error}", path.display());
    area.fill(&WHITE).map_err(|error| failed(&error))?;
    for (area, panel) in area.split_evenly((2, 2)).iter().zip(panels) {
        draw_one(area, panel).map_err(|error| failed(&error))?;
    }
    area.present().map_err(|error| failed(&error))
}

fn draw_one<B: DrawingBackend>(
    area: &DrawingArea<B, plotters::coord::Shift>,
    panel: &Panel,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let points = || panel.lines.iter().flat_map(|(_, points)| points);
    let (from, to) = bounds(points().map(|point| point.0));
    let (low, high) = bounds(points().map(|point| point.1));
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d((from..to).log_scale(), (low..high).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("messages per second")
        .x_label_formatter(&|rate| format!("{rate:.0}"))
        .y_label_formatter(&|value| format!("{value}"))
        .label_style(("sans-serif", 14))
        .draw()?;
    for ((name, points), colour) in panel.lines.iter().zip(COLOURS.into_iter().cycle()) {
        let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3);
        chart
            .draw_series(line)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(("sans-serif", 14))
        .background_style(WHITE.mix(0.8))
        .draw()
}

/// A little around all of them.
fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let of = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (low, high) = values.filter(|&value| value > 0.0).fold((f64::MAX, f64::MIN_POSITIVE), of);
    if low > high { (0.1, 1.0) } else { (low * 0.8, high * 1.25) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_names_every_broker_and_has_its_figures() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("picture.svg");
        let lines = vec![
            ("weir".to_owned(), vec![(100.0, 0.1), (1000.0, 0.2)]),
            ("other".to_owned(), vec![(100.0, 0.3)]),
            ("nothing".to_owned(), vec![]),
        ];
        draw(&path, &[Panel { title: "p99, ms", lines }]).unwrap();
        let picture = std::fs::read_to_string(&path).unwrap();
        for part in ["<svg", "p99, ms", "weir", "other", "polyline"] {
            assert!(picture.contains(part), "{part}");
        }
        assert_eq!(bounds([].into_iter()), (0.1, 1.0));
    }
}
