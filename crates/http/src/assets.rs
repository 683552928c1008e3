//! What pages have in common. It is compiled in, so that a page loads nothing from elsewhere.

/// Charts: uPlot.
pub const UPLOT_JS: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
/// How these look.
pub const UPLOT_CSS: &str = include_str!("../assets/uplot/uPlot.min.css");

/// Elements, numbers as a person reads them, and one chart.
pub const BASE_JS: &str = include_str!("../assets/base.js");
/// How all this looks, in the light and in the dark.
pub const BASE_CSS: &str = include_str!("../assets/base.css");
