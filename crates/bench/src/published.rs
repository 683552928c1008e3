//! Figures published elsewhere, to set beside ours. They were not measured here.

use serde::Deserialize;
use std::collections::BTreeMap;

const FILE: &str = include_str!("../data/published-results.json");

/// Where the rows of a source were made. All but one were on the suite's machine.
fn host(source: &str) -> &'static str {
    match source {
        "emqx-2m" => "on hfc6.16xlarge, CPU in percent of its 64 cores",
        _ => "on AWS c5.4xlarge, CPU in percent of its 16 cores",
    }
}

/// One published row.
#[expect(missing_docs, reason = "the keys of the file, which describes itself")]
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub broker: String,
    pub version: String,
    pub rate: Option<String>,
    pub latency_ms_avg: Option<f64>,
    #[serde(default)]
    pub latency_ms: BTreeMap<String, f64>,
    pub cpu_max: Option<f64>,
    pub cpu_avg: Option<f64>,
    pub mem_max: Option<String>,
    pub mem_avg: Option<String>,
    pub mem_stable: Option<String>,
    pub source: String,
    pub note: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "about")]
    _about: String,
    sources: BTreeMap<String, String>,
    #[serde(rename = "notes")]
    _notes: Vec<String>,
    basic: BTreeMap<String, Vec<Published>>,
    enterprise: BTreeMap<String, Vec<Published>>,
    throughput: BTreeMap<String, Vec<Published>>,
}

fn file() -> Option<File> {
    // A test reads the file; one that is wrong does not get here.
    serde_json::from_str(FILE).ok()
}

/// The published rows of a use case, by its full name.
pub fn of(use_case: &str) -> Vec<Published> {
    let Some(file) = file() else { return Vec::new() };
    let mut sets = [file.basic, file.enterprise, file.throughput].into_iter();
    sets.find_map(|mut set| set.remove(use_case)).unwrap_or_default()
}

/// Where these rows were made, in a line.
pub fn hosts(rows: &[Published]) -> String {
    let mut hosts: Vec<&str> = rows.iter().map(|row| host(&row.source)).collect();
    hosts.dedup();
    // The suite's monitor reads the host, not the broker's processes.
    format!("{}; memory is the whole host's", hosts.join("; "))
}

/// The full title of a source.
pub fn title(source: &str) -> String {
    file().and_then(|mut file| file.sources.remove(source)).unwrap_or_else(|| source.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_of_a_use_case_and_of_a_known_source() {
        let file: File = serde_json::from_str(FILE).unwrap();
        let known: Vec<String> =
            crate::usecase::all().into_iter().map(|use_case| use_case.name).collect();
        for (name, rows) in file.basic.iter().chain(&file.enterprise).chain(&file.throughput) {
            assert!(known.contains(name), "{name}");
            assert!(rows.iter().all(|row| file.sources.contains_key(&row.source)), "{name}");
        }
        assert_eq!(of("singlenode-p2p-1K-1K-1K-1K").len(), 3);
        assert!(of("nonsense").is_empty());
        assert!(hosts(&of("singlenode-throughput-20-1000-20-2M")).contains("64 cores"));
        assert!(file.sources["emqx-2m"].contains("hfc6.16xlarge"));
    }
}
