//! Thresholds of a use case: what its results must not go over for the run to pass.

use crate::result::RunResult;
use serde::Deserialize;

/// Each is judged only where it is given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Thresholds {
    /// Of the end-to-end latency, in milliseconds.
    pub p50_ms: Option<f64>,
    /// The same.
    pub p99_ms: Option<f64>,
    /// The same.
    pub p999_ms: Option<f64>,
    /// The same.
    pub max_ms: Option<f64>,
    /// connect() to CONNACK, p99 in milliseconds.
    pub connect_p99_ms: Option<f64>,
    /// End of a connection to ready again, p99 in milliseconds.
    pub reconnect_p99_ms: Option<f64>,
    /// After each fault: the rate is back within this many seconds.
    pub recover_s: Option<f64>,
    /// The broker's CPU in measure, in cores.
    pub cpu_cores: Option<f64>,
    /// The broker's memory at its highest, in MiB.
    pub memory_mib: Option<f64>,
    /// Growth of the broker's memory in measure that is certain, in MiB an hour.
    pub memory_mib_per_h: Option<f64>,
}

const MIB: f64 = 1_048_576.0;

impl Thresholds {
    /// The names and values that are given.
    fn given(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let all = [
            ("p50_ms", self.p50_ms),
            ("p99_ms", self.p99_ms),
            ("p999_ms", self.p999_ms),
            ("max_ms", self.max_ms),
            ("connect_p99_ms", self.connect_p99_ms),
            ("reconnect_p99_ms", self.reconnect_p99_ms),
            ("recover_s", self.recover_s),
            ("cpu_cores", self.cpu_cores),
            ("memory_mib", self.memory_mib),
            ("memory_mib_per_h", self.memory_mib_per_h),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    /// The first that is not a threshold.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        let (name, value) = self.given().find(|(_, value)| !(*value > 0.0 && value.is_finite()))?;
        Some((name, format!("{name} = {value} must be above 0")))
    }

    /// The thresholds that a result goes over, or has nothing to show for, in a sentence each.
    pub fn broken(&self, result: &RunResult) -> Vec<String> {
        let judge = |(name, limit): (&str, f64)| match measured(name, result) {
            Ok(value) if value <= limit => None,
            Ok(value) => Some(format!("threshold {name} = {limit}: it was {value:.3}")),
            Err(why) => Some(format!("threshold {name} = {limit}: {why}")),
        };
        self.given().filter_map(judge).collect()
    }
}

/// What a threshold is held against.
fn measured(name: &str, result: &RunResult) -> Result<f64, &'static str> {
    let latency = |of: &str| result.latencies.get(of);
    let end_to_end = || latency("end_to_end").ok_or("nothing was delivered in the measure phase");
    let millis = |us: u64| us as f64 / 1e3;
    let resources = || result.resources.as_ref().ok_or("the broker's processes cannot be seen");
    let course = || result.course.as_ref().ok_or("the use case has no step");
    match name {
        "p50_ms" => end_to_end().map(|latency| millis(latency.p50_us)),
        "p99_ms" => end_to_end().map(|latency| millis(latency.p99_us)),
        "p999_ms" => end_to_end().map(|latency| millis(latency.p999_us)),
        "max_ms" => end_to_end().map(|latency| millis(latency.max_us)),
        "connect_p99_ms" => {
            let connect = latency("connect").ok_or("nothing has connected");
            connect.map(|latency| millis(latency.p99_us))
        }
        "reconnect_p99_ms" => {
            let delay = course()?.reconnection_delay.as_ref();
            delay.map(|latency| millis(latency.p99_us)).ok_or("no client reconnected")
        }
        "recover_s" => course()?.slowest_recovery_s().ok_or(
            "the broker did not recover from a \
         fault",
        ),
        "cpu_cores" => resources().map(|resources| resources.cpu_cores_avg),
        "memory_mib" => resources().map(|resources| resources.rss_max_bytes as f64 / MIB),
        _ => {
            let slope = result.memory_slope.as_ref();
            let growth = slope.map(|slope| slope.low_bytes_per_s * 3600.0 / MIB);
            growth.ok_or("there are too few samples of memory in the measure phase to tell")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stored result of an earlier version, which has no course and no slope.
    fn result() -> RunResult {
        let text = include_str!("../../tests/data/result.json");
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_threshold_is_broken_above_and_kept_at_its_value() {
        let result = result();
        let p99_ms = result.latencies["end_to_end"].p99_us as f64 / 1e3;
        let of = |p99_ms| Thresholds { p99_ms: Some(p99_ms), ..Thresholds::default() };
        assert!(of(p99_ms).broken(&result).is_empty());
        let reasons = of(p99_ms * 0.99).broken(&result);
        assert!(reasons[0].starts_with("threshold p99_ms = "), "{reasons:?}");
        assert!(Thresholds::default().broken(&result).is_empty());
    }

    #[test]
    fn a_threshold_on_what_was_not_measured_is_broken_and_says_why() {
        let of = Thresholds {
            recover_s: Some(5.0),
            memory_mib_per_h: Some(1.0),
            ..Thresholds::default()
        };
        let reasons = of.broken(&result());
        assert_eq!(reasons.len(), 2);
        assert!(
            reasons[0].contains("no step") && reasons[1].contains("too few samples"),
            "{reasons:?}"
        );
    }

    #[test]
    fn every_threshold_is_above_zero() {
        let of = Thresholds { max_ms: Some(0.0), ..Thresholds::default() };
        assert_eq!(of.fault().unwrap().0, "max_ms");
        assert!(Thresholds::default().fault().is_none());
    }
}
