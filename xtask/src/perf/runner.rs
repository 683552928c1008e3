//! One use case on one broker, through `weir bench run` and its `result.json`: any user's way.

use super::record::Figures;
use crate::programs;
use anyhow::{Context, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, and how it is run.
pub(crate) struct Runner {
    pub(crate) program: PathBuf,
    /// Gets a folder a run.
    pub(crate) folder: PathBuf,
    pub(crate) warm_up_s: f64,
    pub(crate) measure_s: f64,
}

/// The part of `result.json` that is needed here.
#[derive(Deserialize)]
pub(crate) struct RunResult {
    suite: Suite,
    broker: Broker,
    pub(crate) host: serde_json::Value,
    use_case: UseCase,
    verdict: Verdict,
    connections: Connections,
    measure: Messages,
    rates: Rates,
    latencies: BTreeMap<String, Latency>,
    resources: Option<Resources>,
    generator: Generator,
}

#[derive(Deserialize)]
struct Suite {
    commit: String,
    started: String,
}

#[derive(Deserialize)]
struct Broker {
    version: String,
}

#[derive(Deserialize)]
struct UseCase {
    deliver_rate_planned: f64,
}

#[derive(Deserialize)]
struct Verdict {
    status: String,
    reasons: Vec<String>,
}

#[derive(Deserialize)]
struct Connections {
    connected: u64,
}

#[derive(Deserialize)]
struct Messages {
    expected: u64,
    lost: u64,
}

#[derive(Deserialize)]
struct Rates {
    received: f64,
}

#[derive(Deserialize)]
struct Latency {
    p50_us: u64,
    p99_us: u64,
    p999_us: u64,
}

#[derive(Deserialize)]
struct Resources {
    cpu_cores_avg: f64,
    cpu_us_per_delivery: Option<f64>,
    cpu_us_per_connection: Option<f64>,
    deliveries: u64,
    softirq_us: Option<u64>,
    connect_softirq_us: Option<u64>,
    rss_stable_bytes: u64,
}

#[derive(Deserialize)]
struct Generator {
    cpu_cores_avg: f64,
}

impl Runner {
    /// Runs it; a verdict that is not "passed" is a result too. `name` is the folder's.
    ///
    /// # Errors
    /// There is no result: what `weir bench` says.
    pub(crate) fn run(&self, file: &str, broker: &str, name: &str) -> anyhow::Result<RunResult> {
        let out = self.folder.join(name);
        let [warm_up, measure] = [self.warm_up_s, self.measure_s].map(|s| format!("{s}s"));
        let output = Command::new(&self.program)
            .args(["bench", "run", file, "--broker", broker, "--profile", "tuned"])
            .args(["--warm-up", &warm_up, "--duration", &measure, "--pin", "auto", "--out"])
            .arg(&out)
            .current_dir(programs::root())
            .output()?;
        let result = find(&out).map(std::fs::read_to_string);
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        ensure!(result.is_some(), "no result: {last}");
        let text = result.context("no result")??;
        serde_json::from_str(&text).with_context(|| format!("result.json in {}", out.display()))
    }
}

impl RunResult {
    pub(crate) fn version(&self) -> &str {
        &self.broker.version
    }

    pub(crate) fn commit(&self) -> &str {
        &self.suite.commit
    }

    pub(crate) fn started(&self) -> &str {
        &self.suite.started
    }

    pub(crate) fn figures(self) -> Figures {
        // Where nothing is to be delivered, it is about connecting.
        let shown = if self.measure.expected == 0 { "connect" } else { "end_to_end" };
        let latency = self.latencies.get(shown);
        let resources = self.resources.as_ref();
        let (cpu_us, softirq_us) = resources.map_or((None, None), |of| self.cpu(of));
        Figures {
            delivered_per_s: self.rates.received,
            planned_per_s: self.use_case.deliver_rate_planned,
            lost: self.measure.lost,
            cpu_us,
            softirq_us,
            broker_cores: resources.map_or(0.0, |of| of.cpu_cores_avg),
            p50_us: latency.map(|latency| latency.p50_us),
            p99_us: latency.map(|latency| latency.p99_us),
            p999_us: latency.map(|latency| latency.p999_us),
            rss_bytes: resources.map(|of| of.rss_stable_bytes),
            generator_cores: self.generator.cpu_cores_avg,
            status: self.verdict.status,
            reasons: self.verdict.reasons,
        }
    }

    /// CPU per delivery, or per connection if nothing was to be delivered, with ksoftirqd's part;
    /// and that part.
    fn cpu(&self, of: &Resources) -> (Option<f64>, Option<f64>) {
        let (process_us, softirq_us, count) = if self.measure.expected == 0 {
            (of.cpu_us_per_connection, of.connect_softirq_us, self.connections.connected)
        } else {
            (of.cpu_us_per_delivery, of.softirq_us, of.deliveries)
        };
        let softirq_us = softirq_us.map(|us| us as f64 / count.max(1) as f64);
        (process_us.map(|us| us + softirq_us.unwrap_or(0.0)), softirq_us)
    }
}

/// The one `result.json` below a folder.
fn find(folder: &Path) -> Option<PathBuf> {
    let mut files = std::fs::read_dir(folder).ok()?.flatten().map(|file| file.path());
    files.find_map(|path| {
        let is_result = path.file_name().is_some_and(|name| name == "result.json");
        if path.is_dir() { find(&path) } else { is_result.then_some(path) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fixture of the report's tests: a result as the program writes it.
    fn result() -> RunResult {
        let path = programs::root().join("crates/bench/tests/data/result.json");
        let mut value: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        value["resources"]["cpu_us_per_delivery"] = 4.0.into();
        value["resources"]["cpu_us_per_connection"] = 30.0.into();
        value["resources"]["deliveries"] = 1000.into();
        value["resources"]["softirq_us"] = 500.into();
        value["resources"]["connect_softirq_us"] = 700.into();
        value["connections"]["connected"] = 100.into();
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn cpu_a_delivery_has_the_part_of_ksoftirqd_in_it() {
        let figures = result().figures();
        assert_eq!((figures.cpu_us, figures.softirq_us), (Some(4.5), Some(0.5)));
        assert!(figures.p99_us.is_some() && figures.rss_bytes.is_some());
    }

    #[test]
    fn who_delivers_most_of_it_afterwards_is_behind() {
        let mut figures = result().figures();
        figures.status = "passed".into();
        (figures.planned_per_s, figures.delivered_per_s) = (1000.0, 990.0);
        assert_eq!(figures.verdict(), "passed");
        figures.delivered_per_s = 500.0;
        assert_eq!(figures.verdict(), "behind");
        figures.status = "invalid".into();
        assert_eq!(figures.verdict(), "invalid");
    }

    #[test]
    fn without_messages_it_is_cpu_a_connection() {
        let mut result = result();
        result.measure.expected = 0;
        let figures = result.figures();
        assert_eq!((figures.cpu_us, figures.softirq_us), (Some(37.0), Some(7.0)));
    }

    #[test]
    fn where_the_broker_is_not_seen_there_is_no_cpu_figure() {
        let mut result = result();
        result.resources = None;
        let figures = result.figures();
        assert_eq!((figures.cpu_us, figures.rss_bytes), (None, None));
    }
}
