//! Moments that the charts of a run name: faults, steps, whatever explains a bend in a line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A moment of the run, or a span of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Mark {
    /// Seconds from the run's begin, as in the series.
    pub t_s: f64,
    /// End of a span, in the same seconds; absent for a moment.
    #[serde(default)]
    pub until_s: Option<f64>,
    /// What it was, in a word or two: "freeze", "kill -9", "step 3".
    pub label: String,
}
