//! What a run is beside others of its kind: which repeat it is, and how its memory grew.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a run stands among its repeats. Runs of one session and round ran one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Repetition {
    /// The command that ran them: the name of its folder.
    pub session: String,
    /// From 1.
    pub round: u32,
    /// Rounds asked for.
    pub rounds: u32,
    /// Of the order.
    pub seed: u64,
    /// Place in the order of the whole session, from 1.
    pub position: u32,
    /// Place of the broker on the command line, from 1: the first is what others are compared with.
    pub broker: u32,
    /// Seconds of rest before the run.
    pub cool_down_s: f64,
    /// Where all brokers of the round were up at once: each was loaded in turn for so many
    /// milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abreast_ms: Option<u64>,
}

/// A run that came out invalid, in whose place another was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InvalidRun {
    /// Its folder, beside that of the run in its place.
    pub folder: String,
    /// Why it was invalid.
    pub reasons: Vec<String>,
}

/// Memory of the broker in measure as a straight line over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slope {
    /// Growth, bytes a second; below zero it shrinks.
    pub bytes_per_s: f64,
    /// Lower end of the 95 % confidence interval.
    pub low_bytes_per_s: f64,
    /// Upper end.
    pub high_bytes_per_s: f64,
    /// Points it is made of.
    pub points: u64,
}
