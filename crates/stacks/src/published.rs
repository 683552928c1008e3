//! flespi's table of 2018, to set beside ours. It was not measured here.

use serde::Deserialize;

const FILE: &str = include_str!("../data/client-stacks-2018.json");

/// The published score is messages a second by tenths of a core.
const TENTHS: f64 = 10.0;

/// A published row: subscribe only.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedStack {
    /// As it was named.
    pub stack: String,
    /// CPU in percent of a core.
    pub cpu_percent: f64,
    /// Messages a second that were handled.
    pub msgs_per_s: f64,
    /// Messages a second by tenths of a core.
    pub score: f64,
    /// What else is to be known, such as that it cannot be had.
    pub note: Option<String>,
}

impl PublishedStack {
    /// Messages per core-second.
    pub fn per_core_s(&self) -> f64 {
        self.score * TENTHS
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    source: String,
    about: String,
    subscribe_only: Vec<PublishedStack>,
    #[serde(rename = "score_unit")]
    _score_unit: String,
    #[serde(rename = "workload_context")]
    _workload_context: serde_json::Value,
}

/// Where the rows are from, what they are, and the rows.
pub fn published() -> (String, String, Vec<PublishedStack>) {
    // A test reads the file; one that is wrong does not get here.
    let file: Option<File> = serde_json::from_str(FILE).ok();
    file.map(|file| (file.source, file.about, file.subscribe_only)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_score_is_its_rate_by_its_cpu() {
        let (source, about, rows) = published();
        assert!(source.contains("flespi") && about.contains("Xeon"));
        assert_eq!(rows.len(), 15);
        for row in &rows {
            let computed = row.msgs_per_s / (row.cpu_percent / 100.0);
            assert!((computed / row.per_core_s() - 1.0).abs() < 0.03, "{row:?}");
        }
        let gone: Vec<&str> =
            rows.iter().filter(|row| row.note.is_some()).map(|row| &*row.stack).collect();
        assert_eq!(gone, ["kibo-lua", "kibo-c"]);
    }
}
