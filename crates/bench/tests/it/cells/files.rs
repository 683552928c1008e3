//! The cells of files: CSV, OpenMetrics, JUnit, Markdown, JSON, and the data of the page's charts.

use super::{Cells, LATENCY, assert_cells, row};
use crate::fixture::distinct;
use serde_json::{Value, json};
use weir_bench::export::{self, Format};
use weir_bench::report;

fn exported(format: Format) -> String {
    export::text(format, &[distinct::run()]).unwrap()
}

#[test]
fn csv_holds_each_figure_in_its_column() {
    let text = exported(Format::Csv);
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let (head, cells) = (lines.next().unwrap(), lines.next().unwrap());
    assert_cells(
        &head.zip(cells).skip(9).collect(),
        &[
            ("published_per_s", "51"),
            ("received_per_s", "52"),
            ("connected_per_s", "53"),
            ("connections", "602"),
            ("expected", "2007"),
            ("delivered", "2008"),
            ("lost", "2009"),
            ("unaudited", "2010"),
            ("duplicated", "2011"),
            ("reordered", "2013"),
            ("latency_mean_us", "501000"),
            ("latency_p50_us", "503000"),
            ("latency_p75_us", "504000"),
            ("latency_p90_us", "505000"),
            ("latency_p95_us", "506000"),
            ("latency_p99_us", "507000"),
            ("latency_p999_us", "508000"),
            ("latency_max_us", "509000"),
            ("broker_cpu_cores", "0.21"),
            ("broker_cpu_cores_max", "0.22"),
            ("broker_cpu_us_per_delivery", "27.11"),
            ("broker_cpu_us_per_connection", "28.11"),
            ("broker_rss_max_bytes", "32100000"),
            ("broker_rss_stable_bytes", "34100000"),
            ("broker_bytes_per_connection", &(3e6 / 602.0).to_string()),
            ("generator_cpu_cores", "0.42"),
        ],
    );
}

#[test]
fn a_series_holds_each_figure_in_its_column() {
    let text = exported(Format::SeriesCsv);
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned));
    let (head, cells) = (lines.next().unwrap(), lines.next().unwrap());
    let found: Cells = head.zip(cells).collect();
    let row = &distinct::json()["series"][0];
    for (name, cell) in found.iter().skip(4) {
        assert_eq!(cell.parse::<f64>().ok(), row[name].as_f64(), "{name}");
    }
    assert_eq!(found.len(), row.as_object().unwrap().len() + 2);
}

#[test]
fn openmetrics_holds_each_figure_below_its_name_in_base_units() {
    let text = exported(Format::OpenMetrics);
    let sample = |line: &str| {
        let (name, rest) = line.split_once('{').unwrap();
        let (labels, value) = rest.rsplit_once("} ").unwrap();
        let label = |name: &str| {
            let (_, value) = labels.split_once(&format!(",{name}=\""))?;
            Some(format!(" {}", value.split('"').next().unwrap()))
        };
        let [kind, quantile] = ["kind", "quantile"].map(|of| label(of).unwrap_or_default());
        let name = name.trim_start_matches("weir_bench_");
        (format!("{name}{kind}{quantile}"), value.to_owned())
    };
    let found: Cells = text.lines().filter(|line| !line.starts_with('#')).map(sample).collect();
    let at = found.iter().position(|(name, _)| name.starts_with("latency_seconds")).unwrap();
    let each = (3e6 / 602.0).to_string();
    assert_cells(
        &found[..at].to_vec(),
        &[
            ("passed", "1"),
            ("scale_ratio", "0.25"),
            ("published_per_second", "51"),
            ("received_per_second", "52"),
            ("connected_per_second", "53"),
            ("connections", "602"),
            ("expected", "2007"),
            ("lost", "2009"),
            ("unaudited", "2010"),
            ("duplicated", "2011"),
            ("reordered", "2013"),
            ("success_ratio", "0.56789"),
            ("broker_cpu_cores", "0.21"),
            ("broker_cpu_per_delivery_seconds", &(27.11 / 1e6).to_string()),
            ("broker_cpu_per_connection_seconds", &(28.11 / 1e6).to_string()),
            ("broker_rss_max_bytes", "32100000"),
            ("broker_rss_stable_bytes", "34100000"),
            ("broker_per_connection_bytes", &each),
            ("generator_cpu_cores", "0.42"),
        ],
    );
    for (kind, hundred) in
        [("connect", 1), ("acknowledge", 3), ("end_to_end", 5), ("generator_turn", 8)]
    {
        let cells: Vec<&(String, String)> =
            found.iter().filter(|(name, _)| name.split(' ').nth(1) == Some(kind)).collect();
        let quantiles = ["0", "0.5", "0.75", "0.9", "0.95", "0.99", "0.999", "1"];
        for (at, quantile) in quantiles.into_iter().enumerate() {
            let (name, value) = cells[at];
            assert_eq!(*name, format!("latency_seconds {kind} {quantile}"));
            assert_eq!(*value, format!("0.{hundred}0{}", at + 2));
        }
        let count = hundred * 10_000 + 99;
        assert_eq!(cells[8].1, count.to_string());
        let sum: f64 = cells[9].1.parse().unwrap();
        assert!((sum - f64::from(count) * (f64::from(hundred) * 0.1 + 0.001)).abs() < 1e-6);
    }
}

#[test]
fn junit_holds_each_figure_below_its_name() {
    let text = exported(Format::Junit);
    let of = |line: &str| {
        let (_, rest) = line.split_once("<property name=\"")?;
        let (name, rest) = rest.split_once("\" value=\"")?;
        Some((name.to_owned(), rest.split('"').next()?.to_owned()))
    };
    assert_cells(
        &text.lines().filter_map(of).collect(),
        &[
            ("scale", "0.25"),
            ("received_per_s", "52.0"),
            ("lost", "2009"),
            ("latency_p50_us", "503000"),
            ("latency_p99_us", "507000"),
            ("broker_cpu_us_per_delivery", "27.110"),
            ("broker_rss_stable_bytes", "34100000"),
        ],
    );
}

#[test]
fn markdown_holds_each_figure_in_its_column() {
    let text = exported(Format::Markdown);
    assert_cells(
        &row(&text, "**Weir 0.1.0**"),
        &[
            ("Actual msg rate", "51:52"),
            ("Average pub-to-sub latency (ms)", "501.00"),
            ("Max CPU user+system", "26.1%"),
            ("Avg CPU user+system", "25.1%"),
            ("Max memory used (host)", "36.1M"),
            ("Avg memory used (host)", "75.1M"),
        ],
    );
    let mut expected =
        vec![("Verdict", "passed"), ("Rate in : out /s", "51 : 52"), ("avg ms", "501")];
    expected.extend(&LATENCY[1..]);
    expected.extend([
        ("Lost", "2009"),
        ("CPU cores", "0.21"),
        ("CPU µs each", "27.11"),
        ("Bytes per connection", "4983"),
        ("Disclosure", "complete"),
    ]);
    let mut found = row(&text, "Weir 0.1.0");
    // What is disclosed has tests of its own.
    found.last_mut().unwrap().1 = "complete".into();
    assert_cells(&found, &expected);
    let nano = row(&text, "**NanoMQ 0.17.0 (published 2023)**");
    let cells: Vec<&str> = nano.iter().map(|(_, cell)| cell.as_str()).collect();
    assert_eq!(cells, ["-", "0.25", "1%", "0%", "271M", "270M"]);
}

#[test]
fn json_is_read_and_written_without_a_figure_in_another_place() {
    fn numbers(value: &Value, path: &str, all: &mut Vec<(String, f64)>) {
        match value {
            Value::Number(number) => all.push((path.into(), number.as_f64().unwrap())),
            Value::Object(of) => {
                of.iter().for_each(|(name, of)| numbers(of, &format!("{path}/{name}"), all));
            }
            Value::Array(of) => {
                of.iter()
                    .enumerate()
                    .for_each(|(at, of)| numbers(of, &format!("{path}/{at}"), all));
            }
            _ => {}
        }
    }
    let written = serde_json::to_value(distinct::run()).unwrap();
    let mut kept = Vec::new();
    numbers(&distinct::json(), "", &mut kept);
    assert!(kept.len() > 200, "{}", kept.len());
    for (path, number) in kept {
        assert_eq!(written.pointer(&path).and_then(Value::as_f64), Some(number), "{path}");
    }
}

#[test]
fn the_charts_data_holds_each_figure_in_its_column() {
    let page = report::html(&[distinct::run()]).unwrap();
    let data = page.split_once("id=\"data\" type=\"application/json\">").unwrap().1;
    let data: Value = serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
    let of = &data["uses"][0];
    assert_eq!((&of["publish_rate"], &of["deliver_rate"]), (&json!(91.0), &json!(92.0)));
    let columns = of["runs"][0]["columns"].as_object().unwrap();
    let row = &distinct::json()["series"][0];
    let kept = columns.iter().filter(|(name, _)| row.get(name).is_some());
    for (name, column) in kept.clone() {
        assert_eq!(column[0].as_f64(), row[name].as_f64(), "{name}");
    }
    assert!(kept.count() > 35);
    let figure = |name: &str| row[name].as_f64().unwrap();
    let messages = figure("published_per_s") + figure("received_per_s");
    let received = figure("received_per_s") * 2.0;
    for (name, expected) in [
        ("broker_cpu_cores", figure("broker_cpu_user_cores") + figure("broker_cpu_system_cores")),
        ("started", figure("connected_per_s") * 2.0),
        (
            "succeeded_per_s",
            figure("connected_per_s")
                + figure("subscribed_per_s")
                + figure("acknowledged_per_s")
                + figure("received_per_s"),
        ),
        (
            "failed_per_s",
            (figure("connect_failures")
                + figure("subscribe_failures")
                + figure("publish_failures"))
                / 2.0,
        ),
        ("bytes_per_message", (figure("bytes_out_per_s") + figure("bytes_in_per_s")) / messages),
        ("loss_percent", figure("outstanding") / (received + figure("outstanding")) * 100.0),
    ] {
        let found = columns[name][0].as_f64().unwrap();
        assert!((found / expected - 1.0).abs() < 1e-3, "{name}: {found}, not {expected}");
    }
}
