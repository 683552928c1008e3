//! Tables and page from kept results: every run in them, nothing from a network, nothing unescaped.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

mod fixture;

use fixture::{HOSTILE, basic_set};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weir_bench::result::{LatencyResult, RunResult, Status, System, SystemRow};
use weir_bench::{report, tables};

/// A result as the first schema wrote it.
fn kept() -> RunResult {
    serde_json::from_str(include_str!("data/result.json")).unwrap()
}

fn assert_fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 120, "{} columns: {line}", line.chars().count());
    }
}

#[test]
fn tables_hold_the_figures_and_fit_a_terminal() {
    let mut runs = basic_set(10);
    runs.push(kept());
    let text = tables::render(&runs);
    for run in &runs {
        assert!(text.contains(&run.use_case.name));
        assert!(text.contains(&run.measure.delivered.to_string()), "{text}");
    }
    // Of the kept result; of the failed and of the invalid one; of the published ones.
    let latency = format!("{:.2}", runs[9].latencies["end_to_end"].p999_us as f64 / 1e3);
    let parts = [
        &latency,
        "FAILED",
        "1000 of 10000 deliveries lost",
        "INVALID",
        "99 % of its core",
        "published elsewhere at full scale, not measured here",
        "Mosquitto 2.0.15",
        "264M",
    ];
    for part in parts {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert_fits(&text);
}

#[test]
fn a_reduced_scale_is_said_above_the_tables() {
    let text = tables::render(&[kept()]);
    let (scale, table) = (text.find("SCALE 0.01").unwrap(), text.find("| broker").unwrap());
    assert!(scale < table, "{text}");
}

#[test]
fn the_largest_figures_fit_a_terminal() {
    let mut run = kept();
    run.use_case.name = "singlenode-throughput-20-1000-20-2M".into();
    run.broker.name = "A broker with a very long name".into();
    run.verdict.status = Status::Aborted;
    run.verdict.reasons = vec!["a reason of many words, ".repeat(20)];
    run.rates.published = 2_000_000.0;
    run.rates.received = 2_000_000.0;
    let of = &mut run.measure;
    (of.sent, of.accepted) = (90_000_000, 90_000_000);
    (of.expected, of.delivered, of.lost) = (3_600_000_000, 1_800_000_000, 1_800_000_000);
    (of.duplicated, of.reordered, of.stray) = (999, 99_999, 9999);
    let us = 99_999_000;
    let latency = LatencyResult {
        mean_us: us as f64,
        p50_us: us,
        p75_us: us,
        p90_us: us,
        p95_us: us,
        p99_us: us,
        p999_us: us,
        max_us: us,
        ..run.latencies["end_to_end"].clone()
    };
    run.latencies.insert("end_to_end".into(), latency);
    let resources = run.resources.as_mut().unwrap();
    resources.cpu_cores_avg = 63.25;
    resources.cpu_us_per_delivery = Some(12_345.67);
    resources.rss_max_bytes = 999_900_000;
    resources.rss_avg_bytes = 123_000_000_000;
    let rate = Some(99_900_000_000.0);
    run.system = Some(System {
        messages_per_core_s: Some(99_990_000.0),
        kib_per_connection: Some(9_999.9),
        pss_max_bytes: Some(999_900_000_000),
        measure: SystemRow {
            context_switches_per_s: Some(999_999.0),
            loopback_bytes_per_s: rate,
            net_received_bytes_per_s: rate,
            net_sent_bytes_per_s: rate,
            host_cpu_cores: Some(127.25),
            host_steal_cores: Some(127.25),
            power_watts: Some(999.9),
            ..SystemRow::default()
        },
        ..System::default()
    });
    assert_fits(&tables::render(&[run]));
}

#[test]
fn what_a_broker_says_moves_no_cursor() {
    let text = tables::render(&basic_set(3));
    assert!(text.contains("</script>"), "shown, not dropped");
    assert!(text.chars().all(|char| char == '\n' || !char.is_control()));
}

#[test]
fn the_page_holds_every_run_and_needs_no_network() {
    let runs = basic_set(10);
    let page = report::html(&runs).unwrap();
    for run in &runs[..8] {
        let label = format!("{} {}", run.broker.name, run.broker.version);
        assert!(page.contains(&label) && page.contains(&run.use_case.name), "{label}");
    }
    for fetch in ["src=", "url(", "@import", "<link", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!page.contains(fetch), "{fetch} would reach for a network");
    }
    let links = page.matches("href=").count();
    assert_eq!(links, page.matches("href=\"#").count(), "a link leads out of the page");
    for part in ["6 passed", "2 failed", "1 invalid", "1000 of 10000 deliveries lost"] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert!(!page.contains("aborted</span>"), "no run was");
}

#[test]
fn disclosure_names_what_is_missing() {
    let mut run = kept();
    assert!(report::html(&[run.clone()]).unwrap().contains(">complete<"));
    run.host.kernel.clear();
    run.host.governor.clear();
    run.broker.configuration.clear();
    let page = report::html(&[run]).unwrap();
    let missing = "incomplete, missing: governor, configuration of the broker";
    assert!(page.contains(missing), "{missing}");
}

#[test]
fn hostile_text_is_shown_and_not_obeyed() {
    let page = report::html(&basic_set(3)).unwrap();
    assert!(!page.contains("<b>\"'&"), "unescaped in the text");
    // Three elements of ours, and the string of the data may end or hide none of them.
    assert_eq!(page.matches("</script").count(), 3);
    assert_eq!(page.matches("<script").count(), 3);
    assert!(!page.contains("<!--"), "a comment would hide the end of a script");
    assert!(page.contains("{{ 7 * 7 }}"), "a text is no template");
    assert!(page.contains("&lt;b&gt;"), "{HOSTILE} is shown");
}

#[test]
fn half_an_hour_of_several_runs_stays_a_page_one_can_send() {
    let page = report::html(&basic_set(1800)).unwrap();
    let mega = page.len() as f64 / 1e6;
    assert!(mega < 8.0, "{mega} MB");
}

#[test]
fn no_results_make_no_report() {
    assert!(report::html(&[]).is_err());
}

/// The browser, or nothing if it is missing here, which is an error where CI is set.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find_map(|name| {
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
    });
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "chromium is not installed; run scripts/setup");
        eprintln!("skipped: chromium is not installed; scripts/setup installs it");
    }
    found
}

/// The page after its scripts ran.
fn dump_dom(browser: &Path, page: &Path) -> String {
    let folder = page.parent().unwrap();
    let dom = folder.join("dom.html");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .stdout(std::fs::File::create(&dom).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the browser did not end within 60 s");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::read_to_string(&dom).unwrap()
}

#[test]
fn a_browser_draws_the_charts() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    report::write(&basic_set(20), &path).unwrap();
    let page = dump_dom(&browser, &path);
    // Of each of three use cases with messages 20 charts less what is calm, of the other one 10.
    let canvases = page.matches("<canvas").count();
    assert!(canvases >= 60, "{canvases} charts");
    assert!(page.contains("Nothing failed."), "a chart of zeros is a sentence");
    assert_eq!(page.matches(">Success rate of deliveries<").count(), 3);
}
