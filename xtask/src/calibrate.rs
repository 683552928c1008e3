//! The raw costs of the system in this minute, by the program `calibrate` of `weir-costs`.
//! docs/developers/performance.md explains R, V and P in both forms.

use crate::programs;
use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program, built.
pub(crate) struct Calibrator(PathBuf);

/// One form of R and V, in CPU microseconds with ksoftirqd's part.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Raw {
    /// R.
    pub(crate) send_us: f64,
    /// V.
    pub(crate) receive_us: f64,
}

impl Raw {
    /// P: the least that a message from one client to another costs at QoS 1.
    pub(crate) fn pair_us(&self) -> f64 {
        2.0 * (self.send_us + self.receive_us)
    }
}

/// Both forms over the same number of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Calibration {
    pub(crate) sockets: u64,
    /// The receiver passive, on the sender's thread.
    pub(crate) one: Raw,
    /// The receiver waiting on another core.
    pub(crate) two: Raw,
}

/// What the program prints of one form.
#[derive(Deserialize)]
struct Row {
    form: String,
    send_us: Vec<f64>,
    receive_us: Vec<f64>,
}

impl Calibrator {
    pub(crate) fn build() -> anyhow::Result<Self> {
        programs::build("weir-costs", "calibrate").map(Self)
    }

    /// The table of the program with these arguments.
    pub(crate) fn show(&self, arguments: &[String]) -> anyhow::Result<()> {
        let status = Command::new(&self.0).args(arguments).status()?;
        ensure!(status.success(), "the calibration failed");
        Ok(())
    }

    /// Measures both forms over `sockets`, or as many as the open files allow, `ms` each.
    pub(crate) fn measure(&self, sockets: u64, ms: u64) -> anyhow::Result<Calibration> {
        let sockets = sockets.min(pairs_max()?).max(1);
        let [sockets_text, ms] = [sockets, ms].map(|number| number.to_string());
        let mut command = Command::new(&self.0);
        command.args([&sockets_text, "--rounds", "1", "--ms", &ms, "--json"]);
        let rows: Vec<Row> = serde_json::from_str(&programs::said(&mut command)?)?;
        let raw = |form: &str| -> anyhow::Result<Raw> {
            let row = rows.iter().find(|row| row.form == form).context("a form is missing")?;
            let (send_us, receive_us) = (row.send_us.first(), row.receive_us.first());
            let (send_us, receive_us) = send_us.zip(receive_us).context("a round is missing")?;
            Ok(Raw { send_us: *send_us, receive_us: *receive_us })
        };
        Ok(Calibration { sockets, one: raw("one")?, two: raw("two")? })
    }
}

/// Pairs of sockets that one process may have open, with some files to spare.
fn pairs_max() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(Path::new("/proc/self/limits"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()).context("no limit of files")?;
    Ok(soft.parse::<u64>().unwrap_or(u64::MAX).saturating_sub(100) / 2)
}
