//! Results for other programs: each form read back by its own rules, hostile texts in all of them.

use crate::fixture::{HOSTILE, basic_set};
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use std::collections::BTreeSet;
use weir_bench::export::{Format, text};
use weir_bench::result::RunResult;

fn of(format: Format, runs: &[RunResult]) -> String {
    text(format, runs).unwrap()
}

#[test]
fn junit_counts_failures_and_errors_and_holds_no_markup_of_a_broker() {
    let xml = of(Format::Junit, &basic_set(5));
    assert!(
        xml.contains("<testsuites name=\"weir bench\" tests=\"9\" failures=\"2\" errors=\"1\"")
    );
    assert_eq!(xml.matches("<testsuite ").count(), 4);
    assert_eq!(xml.matches("<testcase ").count(), 9);
    assert!(
        xml.contains("<failure type=\"failed\" message=\"500 of 5000 deliveries lost\">"),
        "{xml}"
    );
    assert!(xml.contains("<error type=\"invalid\""));
    assert!(!xml.contains("</script") && !xml.contains('\u{1b}') && !xml.contains("<b>"));
    // Every element that is opened is closed.
    for name in ["testsuites", "testsuite", "testcase", "properties", "failure", "error"] {
        let opened =
            xml.matches(&format!("<{name} ")).count() + xml.matches(&format!("<{name}>")).count();
        assert_eq!(opened, xml.matches(&format!("</{name}>")).count(), "{name}");
    }
}

#[test]
fn csv_has_a_row_a_run_or_an_interval_all_as_long_as_the_head() {
    let mut runs = basic_set(5);
    runs.pop();
    let table = of(Format::Csv, &runs);
    let columns = table.lines().next().unwrap().split(',').count();
    assert_eq!(table.lines().count(), 9);
    assert!(table.lines().all(|line| line.split(',').count() == columns), "{table}");
    let series = of(Format::SeriesCsv, &runs);
    let rows: usize = runs.iter().map(|run| run.series.len()).sum();
    assert_eq!(series.lines().count(), rows + 1);
    assert!(series.starts_with("use_case,broker,"), "{series}");
    // A text with quotes and commas stays one cell.
    let hostile = of(Format::Csv, &basic_set(5));
    assert!(hostile.contains(&HOSTILE.replace('"', "\"\"")), "{hostile}");
}

#[test]
fn the_interval_log_holds_every_interval_of_every_run() {
    let runs = basic_set(5);
    let log = of(Format::Hlog, &runs);
    assert!(log.starts_with("#[Histogram log format version 1.3]"), "{log}");
    let (mut count, mut tags) = (0, BTreeSet::new());
    for entry in IntervalLogIterator::new(log.as_bytes()) {
        let LogEntry::Interval(row) = entry.unwrap() else { continue };
        let bytes = base64_of(row.encoded_histogram());
        let histogram: hdrhistogram::Histogram<u64> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        count += histogram.len();
        tags.insert(row.tag().unwrap().as_str().to_owned());
    }
    let texts = runs.iter().flat_map(|run| run.interval_histograms.values().flatten());
    let kept: u64 = texts.filter(|text| !text.is_empty()).count() as u64 * 1_000;
    assert_eq!(count, kept);
    assert_eq!(tags.len(), runs.len(), "{tags:?}");
}

fn base64_of(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

#[test]
fn openmetrics_names_each_family_once_ends_as_it_must_and_escapes_labels() {
    let text = of(Format::OpenMetrics, &basic_set(5));
    assert!(text.ends_with("# EOF\n"));
    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
    assert_eq!(types.iter().collect::<BTreeSet<_>>().len(), types.len());
    let mut samples = BTreeSet::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
        assert!(samples.insert(name), "{name} twice");
        assert!(name.starts_with("weir_bench_") && name.ends_with('}'), "{name}");
    }
    assert!(text.contains("weir_bench_latency_seconds{use_case=\"singlenode-p2p-1K-1K-1K-1K\""));
    // Within labels a quote is escaped.
    assert!(text.contains("<b>\\\"'&"), "{text}");
}

#[test]
fn markdown_has_the_shape_of_the_suites_pages_and_no_markup_of_a_broker() {
    let text = of(Format::Markdown, &basic_set(5));
    assert_eq!(text.matches("# Benchmark results of ").count(), 4);
    for head in ["## Brokers", "## Testbed", "## Metrics", "### Every run"] {
        assert_eq!(text.matches(&format!("\n{head}\n")).count(), 4, "{head}");
    }
    let connection = "Average latency (ms) | Max CPU user+system | Avg CPU user+system";
    let messages = "Actual msg rate | Average pub-to-sub latency (ms) | Max CPU user+system";
    assert_eq!((text.matches(connection).count(), text.matches(messages).count()), (1, 3));
    assert!(text.contains("pub: 1000 sub: 1000") && text.contains("1000:1000"), "{text}");
    assert!(!text.contains("<b>") && !text.contains('\u{1b}'));
    for line in text.lines().filter(|line| line.starts_with('|')) {
        assert!(line.ends_with('|'), "{line}");
    }
}

#[test]
fn the_schema_has_every_field_of_a_result_with_words_on_it() {
    let schema: serde_json::Value = serde_json::from_str(&of(Format::JsonSchema, &[])).unwrap();
    let run = serde_json::to_value(&basic_set(5)[1]).unwrap();
    let properties = schema["properties"].as_object().unwrap();
    let names: BTreeSet<&String> = run.as_object().unwrap().keys().collect();
    assert_eq!(properties.keys().collect::<BTreeSet<_>>(), names);
    for (name, of) in properties {
        assert!(of["description"].is_string() || of["$ref"].is_string(), "{name}: {of}");
    }
    assert!(schema["$defs"]["NetworkFacts"]["properties"]["congestion_control"].is_object());
}

#[test]
fn distributions_are_named_and_end_with_their_count() {
    let runs = &basic_set(5)[2..3];
    let text = of(Format::Hgrm, runs);
    assert_eq!(text.matches(" 1/(1-Percentile)").count(), runs[0].latencies.len());
    assert!(text.contains("Weir 0.1.0: end_to_end]"), "{text}");
    assert!(text.contains("Total count    =        10000]"), "{text}");
}
