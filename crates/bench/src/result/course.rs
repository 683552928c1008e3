//! What the steps of a run brought, as it is kept.

use super::LatencyResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What became of connections, sessions and messages in a run with steps.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct CourseResult {
    /// Whether the load went through the suite's own proxy.
    pub has_proxy: bool,
    /// In the order of their times.
    pub steps: Vec<FaultResult>,
    /// Connections that ended by no doing of the load's, by cause.
    pub connections_lost: BTreeMap<String, u64>,
    /// Connections that a step ended.
    pub connections_ended: u64,
    /// Attempts to come back that failed, by cause.
    pub attempts_failed: BTreeMap<String, u64>,
    /// Times a client was ready again.
    pub returned: u64,
    /// Of these, times the broker still had the session.
    pub sessions_resumed: u64,
    /// Clients that were away at the end.
    pub away_at_end: u64,
    /// Messages sent again after a return, as they were not acknowledged.
    pub messages_resent: u64,
    /// Connections taken over that the broker did not close.
    pub taken_over_left_open: u64,
    /// End of a connection to ready again: mqttbs's reconnection delay. Absent if nobody came back.
    pub reconnection_delay: Option<LatencyResult>,
}

/// One step, and what followed. Seconds; times of the step are from the begin of measure.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FaultResult {
    /// As in the file: freeze, kill, restart, delay, loss, half-open, slow-reader, cut, join,
    /// leave, take-over.
    pub name: String,
    /// The group it is about, if it is about one.
    pub group: Option<String>,
    /// The node it was done to, from 1, if it was done to one alone. Then the times of recovery are
    /// from its begin, as the other nodes are there all the time.
    #[serde(default)]
    pub node: Option<u32>,
    /// When it began.
    pub begin_s: f64,
    /// When it was undone: the broker went on, answered again, the way was clear.
    pub end_s: f64,
    /// Why it could not be done or undone.
    pub error: Option<String>,
    /// Deliveries a second before it.
    pub rate_before_per_s: f64,
    /// From its begin to the first connection that ended; absent if none did.
    pub detect_s: Option<f64>,
    /// Longest time without a delivery.
    pub silence_s: f64,
    /// From its end to the first delivery.
    pub first_delivery_s: Option<f64>,
    /// From its end to nine tenths of the rate of before.
    pub rate_back_s: Option<f64>,
    /// From its end to the last client that came back.
    pub all_back_s: Option<f64>,
    /// Connections that ended.
    pub connections_lost: u64,
    /// Clients that came back.
    pub clients_back: u64,
    /// Deliveries lost for good, of messages due from a second before it to the next.
    pub deliveries_lost: u64,
}

impl FaultResult {
    /// Its name, and the node that it was done to.
    pub fn title(&self) -> String {
        match self.node {
            Some(node) => format!("{} node {node}", self.name),
            None => self.name.clone(),
        }
    }
}

impl CourseResult {
    /// The slowest return of the rate; nothing if it did not return after some fault.
    pub fn slowest_recovery_s(&self) -> Option<f64> {
        let is_fault = |step: &&FaultResult| {
            step.rate_before_per_s > 0.0 && !matches!(step.name.as_str(), "join" | "leave")
        };
        let times: Option<Vec<f64>> =
            self.steps.iter().filter(is_fault).map(|step| step.rate_back_s).collect();
        times?.into_iter().max_by(f64::total_cmp)
    }

    /// Connections that the broker dropped, and no step is a reason to.
    pub(crate) fn dropped(&self) -> u64 {
        let of_clients = ["cut", "join", "leave", "slow-reader", "take-over"];
        let has_reason = self.steps.iter().any(|step| !of_clients.contains(&step.name.as_str()));
        if has_reason { 0 } else { self.connections_lost.values().sum() }
    }

    /// Why a run with these steps has not passed, a line each.
    pub(crate) fn broken(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let dropped = self.dropped();
        if dropped > 0 {
            reasons.push(format!("{dropped} connections were dropped"));
        }
        if self.away_at_end > 0 {
            reasons.push(format!("{} clients did not reconnect", self.away_at_end));
        }
        if self.taken_over_left_open > 0 {
            let left = self.taken_over_left_open;
            reasons.push(format!("{left} connections were taken over and never closed"));
        }
        let failed =
            self.steps.iter().filter_map(|step| Some((step.title(), step.error.as_ref()?)));
        reasons.extend(failed.map(|(name, error)| format!("step {name}: {error}")));
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, rate_back_s: Option<f64>) -> FaultResult {
        let rate_before_per_s = 100.0;
        FaultResult { name: name.into(), rate_before_per_s, rate_back_s, ..Default::default() }
    }

    #[test]
    fn the_slowest_recovery_counts_and_one_that_is_missing_is_none() {
        let of = |steps| CourseResult { steps, ..CourseResult::default() }.slowest_recovery_s();
        assert_eq!(of(vec![step("freeze", Some(0.1)), step("kill", Some(2.0))]), Some(2.0));
        assert_eq!(of(vec![step("freeze", Some(0.1)), step("kill", None)]), None);
        assert_eq!(of(vec![step("join", None), step("cut", Some(1.0))]), Some(1.0));
    }
}
