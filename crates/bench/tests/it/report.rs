//! Tables and page from kept results: every run in them, nothing from a network, nothing unescaped.

use crate::fixture::{HOSTILE, basic_set, many_brokers};
use weir_bench::result::{self, LatencyResult, RunResult, Status, System, SystemRow};
use weir_bench::{report, tables};

/// A result as the first schema wrote it.
fn kept() -> RunResult {
    result::read(include_str!("../data/result.json")).unwrap()
}

/// A result as this schema writes it.
fn newer() -> RunResult {
    result::read(include_str!("../data/result-2.json")).unwrap()
}

fn assert_fits(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
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
    run.verdict.status = Status::Invalid;
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

/// The rows of a broker in a text's tables.
fn rows<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.starts_with(&format!("| {name}"))).collect()
}

#[test]
fn an_aborted_run_has_no_figures() {
    let mut runs = basic_set(3);
    runs.truncate(6);
    for run in runs.iter_mut().filter(|run| run.broker.name == "Weir") {
        run.verdict.status = Status::Aborted;
        run.verdict.reasons = vec!["stopped before its end".into()];
    }
    let text = tables::render(&runs);
    let cells = rows(&text, "Weir 0.1.0");
    // Of each use case the first table, whose columns are too many for one line of a terminal.
    assert_eq!(cells.len(), 6, "{text}");
    for row in &cells {
        let is_bare = |cell: &str| ["", "Weir 0.1.0", "ABORTED", "-"].contains(&cell);
        assert!(row.split('|').all(|cell| is_bare(cell.trim())), "{row}");
    }
    assert!(rows(&text, "Mosquitto 2.0.11").len() > cells.len(), "the others have theirs");
    let page = report::html(&runs).unwrap();
    let every = &page[page.find("<caption>Every run<").unwrap()..];
    for row in every[..every.find("</table>").unwrap()].split("<tr>").skip(1) {
        let figures = row.matches("<td data-label").count();
        let dashes = row.matches(">–</td>").count();
        let expected = if row.contains("aborted") { figures } else { 0 };
        assert!(dashes == expected || !row.contains("aborted") && dashes < figures, "{row}");
    }
    assert!(summary_row(&runs, "Weir").contains("| aborted | -      | -      | -"));
}

fn summary_row(runs: &[RunResult], name: &str) -> String {
    let text = weir_bench::summary::render(runs);
    text.lines().find(|line| line.starts_with(&format!("|   {name}"))).unwrap().to_owned()
}

#[test]
fn the_bars_of_what_is_not_valid_say_so_and_are_not_whole() {
    let mut runs = basic_set(3);
    runs.truncate(8);
    let page = report::html(&runs).unwrap();
    let panel = |page: &str| {
        let begin = page.find("class=\"panels\"").unwrap();
        let panels = &page[begin..page.find("class=\"matrix").unwrap()];
        [panels.matches("bar doubtful").count(), panels.matches(">invalid</em>").count()]
    };
    // The one invalid run of the eight, in each of the four panels.
    assert_eq!(panel(&page), [4, 4]);
    runs[6].verdict.status = Status::Passed;
    assert_eq!(panel(&report::html(&runs).unwrap()), [0, 0]);
}

/// Repeats of a broker, of which all were disturbed and the first is invalid.
fn disturbed() -> Vec<RunResult> {
    let mut runs = many_brokers(3);
    runs.retain(|run| run.broker.name == "Broker-0");
    for (at, run) in runs.iter_mut().enumerate() {
        let of = &mut run.host.disturbance;
        of.others_cores = Some(0.5 + at as f64 / 100.0);
        of.reasons = vec![format!("the host was not quiet: it took {at} processors")];
        run.verdict.reasons = of.reasons.clone();
        if run.repetition.as_ref().unwrap().round == 1 {
            run.verdict.status = Status::Invalid;
            let late = ["the load generator was late: 9 ms", "the load generator was late: 8 ms"];
            run.verdict.reasons.splice(0..0, late.map(String::from));
        }
    }
    runs
}

#[test]
fn what_took_the_host_from_many_runs_is_said_once_and_each_run_by_its_number() {
    let runs = disturbed();
    let text = tables::render(&runs);
    assert_eq!(text.matches("the host was not quiet").count(), 4, "once a use case: {text}");
    assert!(text.contains("the host was not quiet in 3 of 3 runs: other programs took up to 0.5"));
    assert_eq!(text.matches("  Broker-0 0.0 #1 INVALID:\n  - the load").count(), 4, "{text}");
    assert!(!text.contains("passed:"), "{text}");
    assert!(text.contains("  before 3 runs the host had "), "{text}");
    // Of two, each has its own.
    let text = tables::render(&runs[1..3]);
    assert!(text.contains("Broker-0 0.0 #2 passed, but the host was not quiet: it took"), "{text}");
    let summary = weir_bench::summary::render(&runs);
    assert_eq!(summary.matches("| all use cases").count(), 1, "in one table: {summary}");
    assert!(summary_row(&runs, "Broker-0 0.0").contains("| 1/3 invalid |"), "not 2/3");
    let page = report::html(&runs).unwrap();
    assert!(page.contains("In 12 of 12 runs the host was not quiet: other programs took up to"));
    let faults =
        &page[page.find("What did not pass").unwrap()..page.find("id=\"health\"").unwrap()];
    let short = ": the load generator was late; the host was not quiet</li>";
    assert_eq!(faults.matches(short).count(), 4, "{faults}");
}

#[test]
fn memory_that_did_not_grow_is_not_measurable_and_not_nothing() {
    let mut run = basic_set(3).swap_remove(0);
    let of = run.resources.as_mut().unwrap();
    of.rss_stable_bytes = of.rss_baseline_bytes;
    let mut other = run.clone();
    other.broker.name = "Other".into();
    other.resources.as_mut().unwrap().rss_stable_bytes += 1_000_000;
    let page = report::html(&[run.clone(), other]).unwrap();
    assert!(page.contains("<small>not measurable at this scale</small>"));
    assert!(page.contains("<td data-label=\"bytes per connection\">n&#x2f;m</td>"));
    assert!(tables::render(&[run]).contains(" n/m "));
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
    // An icon of no bytes keeps a browser from asking for one.
    let page = page.replace(r#"<link rel="icon" href="data:,">"#, "");
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
    assert!(report::html(&[newer()]).unwrap().contains(">complete<"));
    let mut run = newer();
    run.host.kernel.clear();
    run.host.governor.clear();
    run.broker.configuration.clear();
    run.disclosed.network.congestion_control.clear();
    let page = report::html(&[run]).unwrap();
    let missing = "incomplete, missing: configuration of the broker, governor, kernel, \
                   TCP congestion control";
    assert!(page.contains(missing), "{missing}");
}

#[test]
fn a_result_of_an_older_schema_is_shown_and_its_gaps_are_named() {
    let page = report::html(&[kept()]).unwrap();
    assert!(page.contains("incomplete, missing: hash of the suite&#x27;s program, run by"));
    assert!(page.contains("this result was written by schema 1"));
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

#[test]
fn six_brokers_with_repeats_have_a_matrix_and_a_spread_each() {
    let runs = many_brokers(10);
    let page = report::html(&runs).unwrap();
    let matrix = &page[page.find("class=\"matrix stack\"").unwrap()..];
    let matrix = &matrix[..matrix.find("</table>").unwrap()];
    assert_eq!(matrix.matches("scope=\"col\"").count(), 7, "six brokers: {matrix}");
    assert_eq!(matrix.matches("scope=\"row\"").count(), 4, "four use cases");
    assert_eq!(matrix.matches("2 of 3").count(), 1, "one of three repeats failed: {matrix}");
    assert!(matrix.contains("not run"), "a broker that was left out");
    assert!(page.contains("median of 3 runs: "), "the spread of repeats");
    assert!(page.contains("What did not pass") && page.contains("Broker-3 3.0, run 2"));
}

#[test]
fn repeats_are_compared_and_steps_have_their_table() {
    let page = report::html(&many_brokers(10)).unwrap();
    let part = |title: &str| {
        let begin = page.find(&format!(">{title}</h2>")).unwrap();
        &page[begin..begin + page[begin..].find("</section>").unwrap()]
    };
    let comparison = part("Comparison: singlenode-p2p-1K-1K-1K-1K");
    for text in
        ["Ratios are relative to Broker-0 0.0.", "badge worse", "Broker-3 3.0 FAILED: 1 of 3 runs"]
    {
        assert!(comparison.contains(text), "{text} is missing in {comparison}");
    }
    assert_eq!(comparison.matches("Broker-1 1.0: CPU us&#x2f;message").count(), 1, "{comparison}");
    let steps = part("Steps and faults: singlenode-p2p-1K-1K-1K-1K");
    for text in ["Broker-3 3.0, run 2: freeze", ">1.60 s</td>", ">1000</td>"] {
        assert!(steps.contains(text), "{text} is missing in {steps}");
    }
    let single = report::html(&basic_set(10)).unwrap();
    assert!(!single.contains(">Comparison: "), "one run allows no verdict");
}

#[test]
fn what_is_told_of_repeats_is_shown_and_escaped() {
    let mut runs = many_brokers(10);
    runs.retain(|run| run.use_case.name == "singlenode-p2p-1K-1K-1K-1K");
    for run in &mut runs {
        run.use_case.name = "Ladder <1>".into();
        if run.broker.name == "Broker-1" {
            run.broker.name = "<b>9000</b>".into();
        }
    }
    let page = report::html(&runs).unwrap();
    assert!(page.contains("Ladder &lt;1&gt;") && page.contains("&lt;b&gt;9000&lt;&#x2f;b&gt;"));
    assert!(page.contains("class=\"badge no-difference\""));
}

#[test]
fn runs_of_other_hosts_are_counted_on_the_page() {
    let page = |runs: &[RunResult]| report::html(runs).unwrap();
    let mut runs = basic_set(3);
    runs.truncate(4);
    assert!(!page(&runs).contains("made on another host"));
    runs[1].host.cpu_model = "another".into();
    runs[3].host.cores += 1;
    assert!(page(&runs).contains("2 of the runs were made on another host"));
}

#[test]
fn the_host_of_the_page_is_that_of_a_run_that_was_made() {
    let mut runs = basic_set(3);
    runs.truncate(2);
    runs[0].verdict.status = Status::Unsupported;
    runs[0].host.cpu_model = "not looked at".into();
    runs[1].host.cpu_model = "looked at".into();
    let page = report::html(&runs).unwrap();
    // The disclosure of each run has its own further below.
    let (header, _) = page.split_once("</header>").unwrap();
    assert!(header.contains("<dt>CPU</dt><dd>looked at, "), "of the run that has figures");
}

#[test]
fn a_published_row_stands_among_latencies_only_if_it_has_some() {
    let results = |name: &str| {
        let mut runs = basic_set(3);
        runs.truncate(4);
        runs.iter_mut().for_each(|run| run.use_case.name = name.into());
        let page = report::html(&runs).unwrap();
        let table = &page[page.find("<caption>Rate and latency from").unwrap()..];
        table[..table.find("</table>").unwrap()].matches("class=\"published\"").count()
    };
    // Of the Basic Set nothing but means was published.
    assert_eq!(results("singlenode-p2p-1K-1K-1K-1K"), 0);
    assert_eq!(results("singlenode-p2p-50K-50K-50K-50K"), 3);
}

#[test]
fn a_long_name_is_cut_to_its_column_and_keeps_the_number_of_its_run() {
    let mut run = many_brokers(3).swap_remove(0);
    run.broker.name = "A broker with a very long name".into();
    let text = tables::render(&[run]);
    let row = text.lines().find(|line| line.starts_with("| A broker")).unwrap();
    let name = row.split('|').nth(1).unwrap().trim();
    assert_eq!((name, name.len()), ("A broker with a ... #1", 22), "{text}");
}

#[test]
fn the_table_over_all_use_cases_is_one_also_where_a_broker_does_not_support_one() {
    let mut runs = many_brokers(3);
    for run in &mut runs {
        if run.broker.name == "Broker-4" && run.use_case.name.contains("sharedsub") {
            run.verdict.status = Status::Unsupported;
        }
        run.broker.name = format!("Certain {}", run.broker.name);
        run.rates.received = 2_000_000.0;
    }
    let text = weir_bench::summary::render(&runs);
    assert_fits(&text);
    assert_eq!(text.matches("| all use cases").count(), 1, "{text}");
    assert_eq!(text.matches("| unsupported ").count(), 1, "of three runs: {text}");
    // Names are cut no further than they must be.
    assert!(text.contains("|   Certain Broker-"), "{text}");
}
