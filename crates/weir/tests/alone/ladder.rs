//! `weir bench ladder` and `weir bench compare` as a user meets them.

use crate::support::command::{text, weir};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The only folder in `out` that holds `file`.
fn folder_with(out: &Path, file: &str) -> PathBuf {
    let found: Vec<PathBuf> = std::fs::read_dir(out)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join(file).is_file())
        .collect();
    assert_eq!(found.len(), 1, "{file}: {found:?}");
    found[0].clone()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_ladder_climbs_to_the_end_of_its_span_and_keeps_every_step() {
    let _alone = crate::alone();
    let out = tempfile::tempdir().unwrap();
    let arguments = [
        "bench",
        "ladder",
        "p2p-1K-1K-1K-1K",
        "--scale",
        "0.02",
        "--duration",
        "1s",
        "--warm-up",
        "500ms",
        "--pin",
        "none",
        "--objective",
        "p99<=30s,lost=0",
        "--from",
        "20",
        "--to",
        "50",
        "--repeat",
        "2",
    ];
    let output = weir(&arguments, out.path());
    let errors = text(&output.stderr);
    let folder = folder_with(out.path(), "ladder.json");
    let ladders = &json(&folder.join("ladder.json"));
    assert_eq!(ladders.as_array().unwrap().len(), 2, "{errors}");
    assert_eq!((&ladders[0]["round"], &ladders[1]["round"]), (&1.into(), &2.into()));
    // They take turns: the second has its first step before the first has its second.
    let told = |part: &str| errors.find(part).unwrap_or_else(|| panic!("{part}: {errors}"));
    assert!(told("weir #2: step 1") < told("weir #1: step 2"), "{errors}");
    assert!(told("weir #1: step 1") < told("weir #2: step 2"), "{errors}");
    let ladder = &ladders[0];
    let steps = ladder["steps"].as_array().unwrap();
    // A busy host may make a step twice, and a run of it void; the values are the search's.
    let values: Vec<f64> = steps.iter().map(|step| step["value"].as_f64().unwrap()).collect();
    assert_eq!(values[0], 20.0, "{errors}");
    assert!(values.contains(&30.0), "{values:?}\n{errors}");
    for step in steps {
        let run = json(&folder.join(step["folder"].as_str().unwrap()).join("result.json"));
        assert_eq!(run["use_case"]["publish_rate_planned"], step["value"], "{errors}");
        assert_eq!(run["use_case"]["publishers"], 20);
    }
    let page = std::fs::read_to_string(folder.join("ladder.html")).unwrap();
    assert!(page.contains("<svg class=\"knee\"") && page.contains("objective: p99"));
    let knee = &ladder["knee"];
    if errors.contains("generator is the limit") {
        // The host was too busy for a knee, and the ladder says so.
        assert_ne!(knee["ending"], "found", "{knee}\n{errors}");
        return;
    }
    assert!(values.contains(&50.0), "{values:?}\n{errors}");
    assert_eq!(knee["ending"], "span-ended", "{knee}\n{errors}");
    assert_eq!(knee["confirmed"], 45.0, "{knee}\n{errors}");
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let table = text(&output.stdout);
    assert!(table.contains("at least 50 published/s: the range ends there"), "{table}");
    assert!(table.contains("2 of 2 ladders end at 50 to 50, 0.0 % apart"), "{table}");
    assert!(page.contains("confirmed at 45"));
}

#[test]
fn repeats_are_run_in_rounds_and_compared() {
    let _alone = crate::alone();
    let out = tempfile::tempdir().unwrap();
    let arguments = [
        "bench",
        "run",
        "p2p-1K-1K-1K-1K",
        "--scale",
        "0.01",
        "--duration",
        "2s",
        "--warm-up",
        "100ms",
        "--pin",
        "none",
        "--broker",
        "weir",
        "--broker",
        "weir",
        "--repeat",
        "2",
        "--seed",
        "4",
        "--cool-down",
        "0s",
    ];
    let output = weir(&arguments, out.path());
    let errors = text(&output.stderr);
    assert!(errors.contains("plan: 4 runs (use cases 1, brokers 2, rounds 2)"), "{errors}");
    assert!(errors.find("not pinned") < errors.find("round 1"), "{errors}");
    let session = std::fs::read_dir(out.path()).unwrap().next().unwrap().unwrap().path();
    let mut rounds: Vec<(u64, u64)> = std::fs::read_dir(&session)
        .unwrap()
        .map(|entry| entry.unwrap().path().join("result.json"))
        .filter(|path| path.is_file())
        .map(|path| json(&path)["repetition"].clone())
        .map(|of| (of["round"].as_u64().unwrap(), of["broker"].as_u64().unwrap()))
        .collect();
    rounds.sort_unstable();
    assert_eq!(rounds, [(1, 1), (1, 2), (2, 1), (2, 2)]);
    let compared = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["bench", "compare"])
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let session = session.to_str().unwrap();
    // Each of the two is a broker of its own, so one folder is enough.
    let (code, table, errors) = compared(&[session]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(table.contains("CPU us/message") && table.contains("delivered/s"), "{table}");
    assert!(table.contains("Weir@2"), "{table}");
}

#[test]
fn what_cannot_be_climbed_is_told_in_one_line() {
    let out = tempfile::tempdir().unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["--objective", "p98<=20ms"], "unknown figure \"p98\""),
        (&["--what", "speed"], "rate, connections or subscribers"),
        (&["--from", "5", "--to", "1"], "--from 5 --to 1 is not a range"),
        (&["--cool-down", "1s"], "steps of ladders take turns"),
    ];
    for (arguments, part) in cases {
        let all = [&["bench", "ladder", "p2p-1K-1K-1K-1K"], *arguments].concat();
        let output = weir(&all, out.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let errors = text(&output.stderr);
        assert!(errors.contains(part), "{part} is missing in: {errors}");
    }
    let output = weir(&["bench", "ladder", "conn-tcp-10K-100"], out.path());
    assert!(text(&output.stderr).contains("has no rate to increase"));
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "no folder is left");
}
