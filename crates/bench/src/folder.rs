//! The result folder: what is kept of a run, and read back.

use crate::export;
use crate::result::{self, RunResult};
use anyhow::{Context, bail};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use weir_load::Outcome;
use weir_load::outcome::AnomalyKind;

/// Makes `out/<time>-<use case>-<broker>`.
///
/// # Errors
/// A folder that cannot be made or written.
pub fn create(out: &Path, use_case: &str, broker: &str) -> anyhow::Result<PathBuf> {
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let safe = safe(broker);
    let name = format!("{time}-{}-{safe}", use_case.trim_start_matches("singlenode-"));
    let hint = "choose a writable folder with --out DIR";
    for attempt in 0..100 {
        let suffix = if attempt == 0 { String::new() } else { format!("-{attempt}") };
        let folder = out.join(format!("{name}{suffix}"));
        std::fs::create_dir_all(out)
            .with_context(|| format!("cannot make {}; {hint}", out.display()))?;
        match std::fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot write into {}; {hint}", out.display()));
            }
        }
    }
    bail!("cannot find a free name in {}; {hint}", out.display())
}

/// A name as a part of a folder's.
pub(crate) fn safe(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Takes away a folder of a run that never began and left no log.
pub fn remove_if_empty(folder: &Path) {
    // One that is not empty stays: its log says what went wrong.
    let _ = std::fs::remove_dir(folder);
}

/// Writes a file of a run.
///
/// # Errors
/// A file that cannot be written.
pub fn write(folder: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Writes result.json, series.csv, histograms and anomalies.csv.
///
/// # Errors
/// A file that cannot be written.
pub fn keep(folder: &Path, result: &RunResult, outcome: &Outcome) -> anyhow::Result<()> {
    let write = |name: &str, text: &str| write(folder, name, text);
    write("result.json", &(serde_json::to_string_pretty(result)? + "\n"))?;
    for (name, text) in export::files(result)? {
        write(name, &text)?;
    }
    for (name, latency) in &result.latencies {
        if let Some(text) = export::hgrm(latency) {
            write(&format!("{name}.hgrm"), &text)?;
        }
    }
    let mut anomalies = String::from("kind,subscriber,publisher,sequence\n");
    for anomaly in &outcome.anomalies {
        let kind = match anomaly.kind {
            AnomalyKind::Lost => "lost",
            AnomalyKind::Duplicated => "duplicated",
            AnomalyKind::Reordered => "reordered",
            AnomalyKind::AlteredTopic => "altered topic",
            AnomalyKind::AlteredLength => "altered length",
            AnomalyKind::AlteredContent => "altered content",
            AnomalyKind::AlteredQos => "altered QoS",
            AnomalyKind::AlteredRetain => "altered RETAIN",
        };
        let (subscriber, publisher) = (anomaly.subscriber, anomaly.publisher);
        let _ = writeln!(anomalies, "{kind},{subscriber},{publisher},{}", anomaly.sequence);
    }
    write("anomalies.csv", &anomalies)
}

/// Reads the result of a folder.
///
/// # Errors
/// No result.json there, not one of ours, or of a newer schema.
pub fn read(folder: &Path) -> anyhow::Result<RunResult> {
    let path = folder.join("result.json");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("{} is not a result folder", folder.display()))?;
    result::read(&text).with_context(|| format!("{} cannot be read", path.display()))
}

/// Reads every result below `root`, or that of `root` itself, but for invalid runs in whose place
/// another was made.
///
/// # Errors
/// As [`find`] and [`read`] have them.
pub fn read_all(root: &Path) -> anyhow::Result<Vec<RunResult>> {
    let folders = find(root)?;
    let runs: Vec<RunResult> =
        folders.iter().map(|folder| read(folder)).collect::<Result<_, _>>()?;
    let before = |(folder, run): (&PathBuf, &RunResult)| {
        let beside = |name: &String| folder.with_file_name(name);
        run.invalid_before.iter().map(|of| beside(&of.folder)).collect::<Vec<_>>()
    };
    let replaced: HashSet<PathBuf> = folders.iter().zip(&runs).flat_map(before).collect();
    let stands = |(folder, run)| (!replaced.contains(&folder)).then_some(run);
    Ok(folders.into_iter().zip(runs).filter_map(stands).collect())
}

/// The runs of a session of repeats or of a ladder, which have a folder of their own.
pub(crate) fn of_session(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
    paths.filter(|path| path.join("result.json").is_file()).collect()
}

/// Every result folder below `root`, or `root` itself, in the order of names: runs, and those of
/// sessions of repeats.
///
/// # Errors
/// A folder that cannot be listed, or none found.
pub fn find(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if root.join("result.json").is_file() {
        return Ok(vec![root.into()]);
    }
    let entries = std::fs::read_dir(root)
        .with_context(|| format!("cannot read the folder {}", root.display()))?;
    let mut found = Vec::new();
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        if path.join("result.json").is_file() {
            found.push(path);
        } else {
            found.extend(of_session(&path));
        }
    }
    found.sort();
    if found.is_empty() {
        bail!("there are no results in {}", root.display());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::InvalidRun;

    #[test]
    fn a_run_in_whose_place_another_was_made_is_read_only_where_it_is_named() {
        let root = tempfile::tempdir().unwrap();
        let text = include_str!("../tests/data/result-2.json");
        let mut run = result::read(text).unwrap();
        for name in ["first", "second", "third"] {
            run.broker.version = name.into();
            let folder = root.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            write(&folder, "result.json", &serde_json::to_string(&run).unwrap()).unwrap();
            run.invalid_before = match name {
                "first" => vec![InvalidRun { folder: name.into(), reasons: Vec::new() }],
                _ => Vec::new(),
            };
        }
        let versions = |root: &Path| -> Vec<String> {
            read_all(root).unwrap().into_iter().map(|run| run.broker.version).collect()
        };
        assert_eq!(versions(root.path()), ["second", "third"]);
        assert_eq!(versions(&root.path().join("first")), ["first"]);
    }

    #[test]
    fn each_run_has_a_folder_of_its_own_by_time_use_case_and_broker() {
        let out = tempfile::tempdir().unwrap();
        let out = out.path().join("deep/er");
        let folders: Vec<PathBuf> =
            (0..5).map(|_| create(&out, "singlenode-p2p", "a@1.2").unwrap()).collect();
        let names: HashSet<&PathBuf> = folders.iter().collect();
        assert_eq!(names.len(), 5, "{folders:?}");
        assert!(folders.iter().all(|folder| folder.is_dir()));
        let first = folders[0].file_name().unwrap().to_str().unwrap();
        let (time, name) = first.split_at("20261124T114035Z".len());
        assert!(time.starts_with("20") && time.ends_with('Z'), "{first}");
        assert_eq!(name, "-p2p-a-1-2");
        std::fs::write(folders[0].join("log"), "why").unwrap();
        folders.iter().for_each(|folder| remove_if_empty(folder));
        let left: Vec<bool> = folders.iter().map(|folder| folder.exists()).collect();
        assert_eq!(left, [true, false, false, false, false]);
    }

    #[test]
    fn a_kept_run_is_all_there_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let run = result::read(include_str!("../tests/data/result-2.json")).unwrap();
        let mut outcome = crate::verdict::tests::outcome();
        let kinds = [
            (AnomalyKind::Lost, "lost"),
            (AnomalyKind::Duplicated, "duplicated"),
            (AnomalyKind::Reordered, "reordered"),
            (AnomalyKind::AlteredTopic, "altered topic"),
            (AnomalyKind::AlteredLength, "altered length"),
            (AnomalyKind::AlteredContent, "altered content"),
            (AnomalyKind::AlteredQos, "altered QoS"),
            (AnomalyKind::AlteredRetain, "altered RETAIN"),
        ];
        let anomaly = |(at, kind): (usize, AnomalyKind)| {
            let (subscriber, publisher, sequence) = (at as u32, 100 + at as u32, 200 + at as u32);
            weir_load::outcome::Anomaly { kind, subscriber, publisher, sequence }
        };
        outcome.anomalies = kinds.iter().map(|of| of.0).enumerate().map(anomaly).collect();
        keep(folder.path(), &run, &outcome).unwrap();
        let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let mut expected = String::from("kind,subscriber,publisher,sequence\n");
        for (at, (_, name)) in kinds.iter().enumerate() {
            let _ = writeln!(expected, "{name},{at},{},{}", 100 + at, 200 + at);
        }
        assert_eq!(text("anomalies.csv"), expected);
        for (name, part) in [
            ("series.csv", "latency_p99_us"),
            ("junit.xml", "<testsuites"),
            ("intervals.hlog", "Tag=end_to_end"),
            ("metrics.openmetrics.txt", "# EOF"),
            ("summary.md", "Weir"),
            ("end_to_end.hgrm", "Percentile"),
        ] {
            assert!(text(name).contains(part), "{name}: {}", text(name));
        }
        let back = serde_json::to_string(&read(folder.path()).unwrap()).unwrap();
        assert_eq!(back, serde_json::to_string(&run).unwrap());
    }
}
