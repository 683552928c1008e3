//! `weir bench export` and exit codes, as a user meets them.

use std::path::Path;
use std::process::{Command, Output};

fn weir(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).current_dir(folder).env_remove("WEIR_LOG").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The folder of a small run.
fn run(out: &Path) -> (Output, std::path::PathBuf) {
    let small = ["--scale", "0.02", "--duration", "2s", "--warm-up", "500ms", "--pin", "none"];
    let mut arguments = vec!["bench", "run", "p2p-1K-1K-1K-1K", "--out", "results"];
    arguments.extend(small);
    let output = weir(&arguments, out);
    let folders = std::fs::read_dir(out.join("results")).unwrap();
    let folder = folders.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    (output, folder)
}

#[test]
fn a_run_leaves_every_form_and_its_disclosure_is_complete() {
    let out = tempfile::tempdir().unwrap();
    let (_, folder) = run(out.path());
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(read("junit.xml").contains("<testcase classname=\"singlenode-p2p-1K-1K-1K-1K\""));
    assert!(read("metrics.openmetrics.txt").ends_with("# EOF\n"));
    assert!(read("series.csv").lines().count() > 2);
    let log = read("intervals.hlog");
    assert!(log.contains("\nTag=end_to_end,") && log.contains("\nTag=connect,"), "{log}");
    let summary = read("summary.md");
    assert!(summary.contains("| complete |"), "{summary}");
    assert!(read("report.html").contains("disclosure complete"));
}

#[test]
fn kept_results_are_exported_in_every_format() {
    let out = tempfile::tempdir().unwrap();
    let (_, _) = run(out.path());
    for (format, part) in [
        ("junit", "<testsuites"),
        ("csv", "use_case,broker,version"),
        ("series-csv", "use_case,broker,t_s"),
        ("hgrm", "1/(1-Percentile)"),
        ("hlog", "#[StartTime: "),
        ("openmetrics", "# TYPE weir_bench_latency_seconds summary"),
        ("markdown", "## Metrics"),
    ] {
        let output = weir(&["bench", "export", "results", "--format", format], out.path());
        assert!(output.status.success(), "{format}");
        assert!(said(&output).contains(part), "{format}: {}", said(&output));
    }
    let arguments = ["bench", "export", "results", "--format", "junit", "--out", "junit.xml"];
    assert!(weir(&arguments, out.path()).status.success());
    assert!(out.path().join("junit.xml").is_file());
}

#[test]
fn the_schema_needs_no_result_and_errors_are_one_line_with_code_2() {
    let out = tempfile::tempdir().unwrap();
    let schema = weir(&["bench", "export", "--format", "json-schema"], out.path());
    assert!(schema.status.success());
    let schema: serde_json::Value = serde_json::from_str(&said(&schema)).unwrap();
    assert_eq!(schema["title"], "result.json of weir bench");
    std::fs::create_dir(out.path().join("newer")).unwrap();
    std::fs::write(out.path().join("newer/result.json"), "{\"schema\": 99}").unwrap();
    for (arguments, part) in [
        (&["bench", "export", "--format", "junit"][..], "name a result folder"),
        (&["bench", "export", "none", "--format", "csv"], "none"),
        (&["bench", "export", "newer", "--format", "csv"], "newer weir: schema 99"),
        (&["bench", "export", "newer", "--format", "xml"], "junit, csv"),
    ] {
        let output = weir(arguments, out.path());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
}

#[test]
fn a_run_that_passes_ends_with_0_and_one_that_does_not_with_1() {
    let out = tempfile::tempdir().unwrap();
    let (output, folder) = run(out.path());
    let text = std::fs::read_to_string(folder.join("result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    // On a busy machine a run may be invalid: the code must say the same as the result.
    let expected = i32::from(result["verdict"]["status"] != "passed");
    assert_eq!(output.status.code(), Some(expected), "{}", result["verdict"]);
    let strict = text.replace("\"status\": \"passed\"", "\"status\": \"failed\"");
    std::fs::write(folder.join("result.json"), strict).unwrap();
    let junit = weir(&["bench", "export", "results", "--format", "junit"], out.path());
    assert!(junit.status.success(), "an export says nothing of the verdict by its code");
}
