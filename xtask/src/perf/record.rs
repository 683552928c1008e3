//! What a run of `cargo xtask perf` keeps: `results/<date>-<host>-<commit>.json`, and the table
//! beside it as Markdown. Medians and ratios are not kept: they follow from the repeats.

use crate::calibrate::Calibration;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use weir_stats::Spread;

/// All of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Of the program, with `-dirty` if the tree was changed.
    pub(crate) commit: String,
    /// RFC 3339 in UTC.
    pub(crate) started: String,
    pub(crate) host_name: String,
    /// As `result.json` has it: processor, memory, kernel, its settings, pinning.
    pub(crate) host: serde_json::Value,
    pub(crate) warm_up_s: f64,
    pub(crate) measure_s: f64,
    pub(crate) rows: Vec<Row>,
}

/// A use case on a broker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) use_case: String,
    pub(crate) broker: String,
    pub(crate) version: String,
    pub(crate) repeats: Vec<Repeat>,
}

/// Once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Repeat {
    /// From 1.
    pub(crate) round: u32,
    /// Of the same minute.
    pub(crate) calibration: Calibration,
    /// Cores of the host that were busy with something else meanwhile.
    pub(crate) others_cores: f64,
    pub(crate) figures: Figures,
}

/// What `result.json` says.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// passed, failed, invalid, aborted.
    pub(crate) status: String,
    pub(crate) reasons: Vec<String>,
    /// Received while measure lasted.
    pub(crate) delivered_per_s: f64,
    /// Due in that time.
    pub(crate) planned_per_s: f64,
    /// Of the messages published in measure.
    pub(crate) lost: u64,
    /// c: CPU microseconds of the broker a delivery, ksoftirqd's part included; of a use case
    /// without messages those of the connect phase a connection.
    pub(crate) cpu_us: Option<f64>,
    /// Part of it: ksoftirqd's.
    pub(crate) softirq_us: Option<f64>,
    pub(crate) broker_cores: f64,
    pub(crate) p50_us: Option<u64>,
    pub(crate) p99_us: Option<u64>,
    #[serde(default)]
    pub(crate) p999_us: Option<u64>,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) generator_cores: f64,
}

/// What of the planned deliveries a broker that keeps up makes while they are due.
const IN_TIME: f64 = 0.97;

impl Figures {
    /// The status, or that it passed only by what came after the measure phase: such a broker is
    /// at its limit, and its latency is that of a queue that grows.
    pub(crate) fn verdict(&self) -> &str {
        let is_late = self.delivered_per_s < self.planned_per_s * IN_TIME;
        if self.status == "passed" && is_late { "behind" } else { &self.status }
    }
}

/// One figure of a repeat, where it has it.
pub(crate) type Figure = fn(&Repeat) -> Option<f64>;

impl Repeat {
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        self.figures.cpu_us
    }

    /// c by R of the first form, in which the targets are stated.
    pub(crate) fn by_send(&self) -> Option<f64> {
        Some(self.figures.cpu_us? / self.calibration.one.send_us)
    }

    /// c by P of the first form.
    pub(crate) fn by_pair(&self) -> Option<f64> {
        Some(self.figures.cpu_us? / self.calibration.one.pair_us())
    }

    /// c by R of the second form.
    pub(crate) fn by_send_two(&self) -> Option<f64> {
        Some(self.figures.cpu_us? / self.calibration.two.send_us)
    }

    /// c by P of the second form.
    pub(crate) fn by_pair_two(&self) -> Option<f64> {
        Some(self.figures.cpu_us? / self.calibration.two.pair_us())
    }

    pub(crate) fn p50_ms(&self) -> Option<f64> {
        self.figures.p50_us.map(|us| us as f64 / 1e3)
    }

    pub(crate) fn p99_ms(&self) -> Option<f64> {
        self.figures.p99_us.map(|us| us as f64 / 1e3)
    }

    pub(crate) fn rss_mb(&self) -> Option<f64> {
        self.figures.rss_bytes.map(|bytes| bytes as f64 / 1e6)
    }
}

impl Row {
    pub(crate) fn spread(&self, figure: Figure) -> Option<Spread> {
        Spread::of(self.repeats.iter().filter_map(figure))
    }

    /// This row's figure by the other's in the same round.
    pub(crate) fn ratio(&self, other: &Self, figure: Figure) -> Option<Spread> {
        let ratio = |repeat: &Repeat| {
            let other = other.repeats.iter().find(|other| other.round == repeat.round)?;
            Some(figure(repeat)? / figure(other)?)
        };
        Spread::of(self.repeats.iter().filter_map(ratio))
    }
}

impl Record {
    /// `<date>-<host>-<commit>`.
    pub(crate) fn name(&self) -> String {
        let date = self.started.get(..10).unwrap_or_default();
        format!("{date}-{}-{}", self.host_name, self.commit)
    }

    /// The row of a use case on a broker, made if there is none.
    pub(crate) fn row(&mut self, use_case: &str, broker: &str) -> &mut Row {
        let is_it = |row: &Row| row.use_case == use_case && row.broker == broker;
        let at = self.rows.iter().position(is_it).unwrap_or_else(|| {
            let (version, repeats) = (String::new(), Vec::new());
            self.rows.push(Row {
                use_case: use_case.into(),
                broker: broker.into(),
                version,
                repeats,
            });
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    /// Writes both files, over those of the same run only.
    pub(crate) fn keep(&self, folder: &Path, table: &str) -> anyhow::Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let mut path = folder.join(format!("{}.json", self.name()));
        for number in 2.. {
            if !path.exists() || read(&path)?.started == self.started {
                break;
            }
            path = folder.join(format!("{}-{number}.json", self.name()));
        }
        std::fs::write(&path, serde_json::to_string_pretty(self)? + "\n")?;
        std::fs::write(path.with_extension("md"), table)?;
        Ok(path)
    }

    /// The newest of this host that was begun before `self`.
    pub(crate) fn last_kept(&self, folder: &Path) -> anyhow::Result<Option<Self>> {
        let mut newest: Option<Self> = None;
        let Ok(files) = std::fs::read_dir(folder) else { return Ok(None) };
        for file in files {
            let path = file?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let kept = match read(&path) {
                Ok(kept) => kept,
                Err(error) => {
                    eprintln!("perf: not compared with {error:#}");
                    continue;
                }
            };
            let is_newer = newest.as_ref().is_none_or(|newest| newest.started < kept.started);
            if kept.host_name == self.host_name && kept.started < self.started && is_newer {
                newest = Some(kept);
            }
        }
        Ok(newest)
    }
}

fn read(path: &Path) -> anyhow::Result<Record> {
    let shown = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(shown)?;
    serde_json::from_str(&text).with_context(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(started: &str, host_name: &str) -> Record {
        Record {
            commit: "abc".into(),
            started: started.into(),
            host_name: host_name.into(),
            host: serde_json::Value::Null,
            warm_up_s: 1.0,
            measure_s: 1.0,
            rows: Vec::new(),
        }
    }

    #[test]
    fn what_is_kept_is_found_again_and_never_lost_to_another_run() {
        let folder = std::env::temp_dir().join(format!("weir-records-{}", std::process::id()));
        let early = record("2026-01-01T00:00:00Z", "a");
        let late = record("2026-01-01T09:00:00Z", "a");
        let first = early.keep(&folder, "").unwrap();
        assert_eq!(early.keep(&folder, "again").unwrap(), first);
        assert_ne!(late.keep(&folder, "").unwrap(), first);
        record("2026-01-01T08:00:00Z", "b").keep(&folder, "").unwrap();
        let last = late.last_kept(&folder).unwrap().unwrap();
        let nothing = early.last_kept(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(last.started, early.started);
        assert!(nothing.is_none());
    }
}
