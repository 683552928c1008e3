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

    #[test]
    fn each_threshold_is_held_against_its_own_figure() {
        use crate::result::{CourseResult, FaultResult, LatencyResult, Resources, Slope};
        let mut result = result();
        let latency = |ms: u64| LatencyResult {
            count: 1,
            p50_us: ms * 1_000,
            p99_us: (ms + 1) * 1_000,
            p999_us: (ms + 2) * 1_000,
            max_us: (ms + 3) * 1_000,
            ..LatencyResult::default()
        };
        result.latencies.insert("end_to_end".into(), latency(100));
        result.latencies.insert("connect".into(), latency(200));
        let slow = FaultResult {
            rate_before_per_s: 1.0,
            rate_back_s: Some(4.5),
            ..FaultResult::default()
        };
        result.course = Some(CourseResult {
            steps: vec![slow],
            reconnection_delay: Some(latency(300)),
            ..CourseResult::default()
        });
        result.resources =
            Some(Resources { cpu_cores_avg: 1.25, rss_max_bytes: 7 << 20, ..Resources::default() });
        let bytes_per_s = f64::from(9 << 20) / 3_600.0;
        result.memory_slope = Some(Slope {
            bytes_per_s: 2.0 * bytes_per_s,
            low_bytes_per_s: bytes_per_s,
            high_bytes_per_s: 3.0 * bytes_per_s,
            points: 10,
        });
        let limits = |by: f64| Thresholds {
            p50_ms: Some(100.0 * by),
            p99_ms: Some(101.0 * by),
            p999_ms: Some(102.0 * by),
            max_ms: Some(103.0 * by),
            connect_p99_ms: Some(201.0 * by),
            reconnect_p99_ms: Some(301.0 * by),
            recover_s: Some(4.5 * by),
            cpu_cores: Some(1.25 * by),
            memory_mib: Some(7.0 * by),
            memory_mib_per_h: Some(9.0 * by),
        };
        assert_eq!(limits(1.000_001).broken(&result), [""; 0]);
        let broken = limits(0.999).broken(&result);
        let was: Vec<&str> = broken.iter().map(|text| text.rsplit_once(' ').unwrap().1).collect();
        let expected = [
            "100.000", "101.000", "102.000", "103.000", "201.000", "301.000", "4.500", "1.250",
            "7.000", "9.000",
        ];
        assert_eq!(was, expected, "{broken:?}");
        let names: Vec<&str> = broken.iter().map(|text| text.split(' ').nth(1).unwrap()).collect();
        let given: Vec<&str> = limits(1.0).given().map(|(name, _)| name).collect();
        assert_eq!(names, given);
    }
}
