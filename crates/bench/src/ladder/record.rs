//! A ladder as it is kept in `ladder.json`.

use super::objective::Objective;
use super::rung::What;
use super::search::{Knee, Purpose, Seen};
use crate::result::{Broker, Host, RunResult, Status, Suite};
use serde::{Deserialize, Serialize};

/// Version of the schema of `ladder.json`.
pub const SCHEMA: u32 = 2;

/// One use case on one broker, step by step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ladder {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// The program that ran it; its end is that of the last step.
    pub suite: Suite,
    /// Name of the use case.
    pub use_case: String,
    /// Its revision.
    pub revision: u32,
    /// SHA-256 of its file, hex; each step's own file is in its result.
    pub file_sha256: String,
    /// What grew.
    pub what: What,
    /// What a step had to meet.
    pub objective: Objective,
    /// From where to where, and how closely.
    pub limits: Limits,
    /// Against what; as the first step had it.
    pub broker: Broker,
    /// On what.
    pub host: Host,
    /// Which of several ladders of the same broker, from 1; 0 where there is one only.
    #[serde(default)]
    pub round: u32,
    /// In the order they were run.
    pub steps: Vec<LadderStep>,
    /// What was found; absent where it was stopped before its end.
    pub knee: Option<Knee>,
}

/// Bounds of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// First step.
    pub from: f64,
    /// Highest step.
    pub to: f64,
    /// Factor upwards.
    pub growth: f64,
    /// Gap that is close enough, as a share.
    pub tolerance: f64,
    /// Measure phase of a step, in seconds.
    pub measure_s: f64,
    /// Warm-up of a step, in seconds.
    pub warm_up_s: f64,
    /// Part of the suite's size.
    pub scale: f64,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LadderStep {
    /// From 1.
    pub number: u32,
    /// What it was run for.
    pub purpose: Purpose,
    /// How much of what grows.
    pub value: f64,
    /// What came of it.
    pub seen: Seen,
    /// Why it was not met; empty where it was.
    pub reasons: Vec<String>,
    /// Verdict of the run by itself.
    pub status: Status,
    /// Folder of the run, beside `ladder.json`.
    pub folder: String,
    /// Messages a second that were due.
    pub published_per_s_planned: f64,
    /// Deliveries a second that were due.
    pub delivered_per_s_planned: f64,
    /// Deliveries a second that came.
    pub delivered_per_s: f64,
    /// Connections made.
    pub connections: u64,
    /// Deliveries that never came.
    pub lost: u64,
    /// End to end; of the connect phase where nothing is published.
    pub p50_us: Option<u64>,
    /// The same.
    pub p99_us: Option<u64>,
    /// The same.
    pub max_us: Option<u64>,
    /// Of the broker, in measure.
    pub cpu_cores: Option<f64>,
    /// Of the broker.
    pub rss_max_bytes: Option<u64>,
    /// Of the generator, in measure.
    pub generator_cpu_cores: f64,
}

impl LadderStep {
    /// What a run shows as a step.
    pub(super) fn new(
        number: u32,
        purpose: Purpose,
        value: f64,
        run: &RunResult,
        objective: &Objective,
        folder: String,
    ) -> Self {
        let (seen, reasons) = judge(run, objective);
        let name = if run.use_case.qos.is_some() { "end_to_end" } else { "connect" };
        let latency = run.latencies.get(name).filter(|latency| latency.count > 0);
        Self {
            number,
            purpose,
            value,
            seen,
            reasons,
            status: run.verdict.status,
            folder,
            published_per_s_planned: run.use_case.publish_rate_planned,
            delivered_per_s_planned: run.use_case.deliver_rate_planned,
            delivered_per_s: run.rates.received,
            connections: run.connections.connected,
            lost: run.measure.lost,
            p50_us: latency.map(|of| of.p50_us),
            p99_us: latency.map(|of| of.p99_us),
            max_us: latency.map(|of| of.max_us),
            cpu_cores: run.resources.as_ref().map(|of| of.cpu_cores_avg),
            rss_max_bytes: run.resources.as_ref().map(|of| of.rss_max_bytes),
            generator_cpu_cores: run.generator.cpu_cores_avg,
        }
    }
}

/// Contract and objective; but a run whose generator was the limit says nothing of either.
fn judge(run: &RunResult, objective: &Objective) -> (Seen, Vec<String>) {
    let host_limit = &run.use_case.scale_reason;
    if run.verdict.status == Status::Invalid || host_limit.is_some() {
        let reasons = host_limit.iter().chain(&run.verdict.reasons).cloned().collect();
        return (Seen::GeneratorLimit, reasons);
    }
    let unmet = objective.unmet(run);
    let is_met = run.verdict.status == Status::Passed && unmet.is_empty();
    let reasons = run.verdict.reasons.iter().cloned().chain(unmet).collect();
    (if is_met { Seen::Met } else { Seen::Missed }, reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_met_by_contract_and_objective_and_void_by_the_generator() {
        let mut run: RunResult =
            serde_json::from_str(include_str!("../../tests/data/result.json")).unwrap();
        (run.verdict.status, run.verdict.reasons) = (Status::Passed, Vec::new());
        run.use_case.scale_reason = None;
        let p99_us = run.latencies["end_to_end"].p99_us;
        let seen = |run: &RunResult, text: &str| judge(run, &text.parse().unwrap());
        assert_eq!(seen(&run, &format!("p99<={p99_us}us")), (Seen::Met, Vec::new()));
        assert_eq!(seen(&run, &format!("p99<{p99_us}us")).0, Seen::Missed);
        run.verdict.reasons = vec!["the host was not quiet".into()];
        assert_eq!(seen(&run, "p99<=60s").0, Seen::Met, "doubtful, and met");
        run.verdict.status = Status::Failed;
        run.verdict.reasons = vec!["behind".into()];
        assert_eq!(seen(&run, "p99<=60s"), (Seen::Missed, vec!["behind".into()]));
        run.verdict.status = Status::Invalid;
        assert_eq!(seen(&run, "p99<=60s").0, Seen::GeneratorLimit);
        run.verdict.status = Status::Passed;
        run.use_case.scale_reason = Some("too few files".into());
        assert_eq!(seen(&run, "p99<=60s").0, Seen::GeneratorLimit);
    }
}
