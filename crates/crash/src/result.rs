//! What is kept of a run.

use crate::ledger::Tally;
use serde::{Deserialize, Serialize};
use weir_bench::result::Broker;

/// The schema of [`CrashResult`].
pub(crate) const SCHEMA: u32 = 1;

/// One crash.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Crash {
    /// Messages that were acknowledged before it, since the beginning of the run.
    pub acknowledged: u64,
    /// Subscribers that were away in the life that it ended.
    pub away: usize,
    /// Seconds from the crash until the broker answered again.
    pub down_s: f64,
}

/// Crashes of one broker, and what they cost: the file `crash.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CrashResult {
    /// Version of this form.
    pub schema: u32,
    /// Program and version that made it.
    pub suite: String,
    /// Its command line.
    pub command: Vec<String>,
    /// When it started.
    pub started: String,
    /// Seconds it took.
    pub took_s: f64,
    /// kill or power-cut.
    pub step: String,
    /// What the power cut was done to.
    #[serde(default)]
    pub file_system: Option<String>,
    /// What the moments of the crashes, the absences and the order of messages are made of.
    pub seed: u64,
    /// How many there were.
    pub publishers: usize,
    /// How many there were.
    pub subscribers: usize,
    /// What carried MQTT: tcp, tls, ws or wss; empty in a file from before this was chosen.
    #[serde(default)]
    pub transport: String,
    /// The clients' version of MQTT.
    pub mqtt: String,
    /// Messages per second that were to be published; nothing where the window was the limit.
    pub rate: Option<f64>,
    /// The broker, its configuration with it.
    pub broker: Broker,
    /// Each crash, in order.
    pub crashes: Vec<Crash>,
    /// What became of messages, sessions and subscriptions.
    pub tally: Tally,
}
