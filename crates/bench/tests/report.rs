//! Tables and page from kept results: every run in them, nothing from a network, nothing unescaped.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

use std::path::Path;
use std::process::Command;
use weir_bench::result::{RunResult, Status};
use weir_bench::{report, tables};

const HOSTILE: &str = "</script><b>\"'&{{ 7 * 7 }}";

/// A result as the first schema wrote it.
fn kept() -> RunResult {
    serde_json::from_str(include_str!("data/result.json")).unwrap()
}

/// Runs as a comparison has them: passed, failed, invalid, and one of a URL.
fn runs() -> Vec<RunResult> {
    let passed = kept();
    let mut failed = kept();
    failed.broker.name = "Mosquitto".into();
    failed.broker.version = "2.0.11".into();
    failed.verdict.status = Status::Failed;
    failed.verdict.reasons = vec!["30 of 30 deliveries lost".into()];
    let mut invalid = kept();
    invalid.use_case.name = "singlenode-throughput-20-1000-20-2M".into();
    invalid.verdict.status = Status::Invalid;
    invalid.verdict.reasons = vec!["the load generator used 99 % of its core".into()];
    let mut url = kept();
    url.broker.name = HOSTILE.into();
    url.broker.configuration = HOSTILE.into();
    url.resources = None;
    url.use_case.about = HOSTILE.into();
    let mut connections = kept();
    connections.use_case.name = "singlenode-conn-tcp-10K-100".into();
    connections.use_case.qos = None;
    connections.latencies.remove("end_to_end");
    vec![passed, failed, invalid, url, connections]
}

#[test]
fn tables_hold_the_figures_and_fit_a_terminal() {
    let runs = runs();
    let text = tables::render(&runs);
    let expected = runs[0].measure.expected.to_string();
    for part in ["FAILED", "INVALID", "30 of 30 deliveries lost", "published elsewhere", &expected]
    {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(text.contains("SCALE 0.01"), "{text}");
    for line in text.lines().filter(|line| !line.contains(HOSTILE)) {
        assert!(line.chars().count() <= 120, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn the_page_holds_every_run_and_needs_no_network() {
    let runs = runs();
    let page = report::html(&runs).unwrap();
    for run in &runs[..3] {
        assert!(page.contains(&run.broker.name), "{}", run.broker.name);
        assert!(page.contains(&run.use_case.name), "{}", run.use_case.name);
    }
    for fetch in ["src=", "url(", "@import", "<link", "fetch("] {
        assert!(!page.contains(fetch), "{fetch} would reach for a network");
    }
    assert!(page.contains("complete") && page.contains("30 of 30 deliveries lost"));
}

#[test]
fn hostile_text_is_shown_and_not_obeyed() {
    let page = report::html(&runs()).unwrap();
    assert!(!page.contains("<b>\"'&"), "unescaped in the text");
    // Three elements of ours, and the string of the data may end none of them.
    assert_eq!(page.matches("</script>").count(), 3);
    assert!(page.contains("{{ 7 * 7 }}"), "a text is no template");
}

#[test]
fn no_results_make_no_report() {
    assert!(report::html(&[]).is_err());
}

#[test]
fn a_browser_draws_the_charts() {
    if !Path::new("/usr/bin/chromium").is_file() {
        assert!(std::env::var_os("CI").is_none(), "chromium is not installed; run scripts/setup");
        eprintln!("skipped: chromium is not installed; scripts/setup installs it");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    report::write(&runs(), &path).unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", path.display()))
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    let canvases = page.matches("<canvas").count();
    assert!(canvases >= 20, "{canvases} charts; {}", String::from_utf8_lossy(&output.stderr));
}
