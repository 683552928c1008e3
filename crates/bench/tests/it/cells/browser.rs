//! What the page's scripts make of the figures: the charts, and runs side by side.

use crate::fixture::distinct;
use crate::look::{look, look_mjs, seen};
use serde_json::{Value, json};
use std::process::Command;
use weir_bench::report;

/// A line of a chart: its name, the figure of an interval, and by what it is multiplied.
type Line = (&'static str, &'static str, f64);

/// Each chart with its lines, by its title.
const CHARTS: &[(&str, &[Line])] = &[
    (
        "End-to-end latency",
        &[
            ("p50", "latency_p50_us", 1e-3),
            ("p90", "latency_p90_us", 1e-3),
            ("p99", "latency_p99_us", 1e-3),
            ("max", "latency_max_us", 1e-3),
        ],
    ),
    (
        "Response time by kind, mean",
        &[
            ("connect", "connect_mean_us", 1e-3),
            ("subscribe", "subscribe_mean_us", 1e-3),
            ("publish", "acknowledge_mean_us", 1e-3),
        ],
    ),
    (
        "Response time by kind, p99",
        &[
            ("connect", "connect_p99_us", 1e-3),
            ("subscribe", "subscribe_p99_us", 1e-3),
            ("publish", "acknowledge_p99_us", 1e-3),
        ],
    ),
    ("Published", &[("", "published_per_s", 1.0)]),
    ("Received", &[("", "received_per_s", 1.0)]),
    (
        "Throughput by kind",
        &[
            ("connect", "connected_per_s", 1.0),
            ("subscribe", "subscribed_per_s", 1.0),
            ("publish", "published_per_s", 1.0),
            ("acknowledged", "acknowledged_per_s", 1.0),
        ],
    ),
    ("Deliveries under way", &[("", "outstanding", 1.0)]),
    (
        "Failures by kind",
        &[
            ("connect", "connect_failures", 1.0),
            ("subscribe", "subscribe_failures", 1.0),
            ("publish", "publish_failures", 1.0),
        ],
    ),
    (
        "Duplicated and reordered",
        &[("duplicated", "duplicated", 1.0), ("reordered", "reordered", 1.0)],
    ),
    (
        "Virtual users",
        &[
            ("active", "connections", 1.0),
            ("publishers", "publishers", 1.0),
            ("subscribers", "subscribers", 1.0),
        ],
    ),
    (
        "Bytes to and from the broker",
        &[("to", "bytes_out_per_s", 1e-6), ("from", "bytes_in_per_s", 1e-6)],
    ),
    (
        "Broker CPU",
        &[("user", "broker_cpu_user_cores", 1.0), ("system", "broker_cpu_system_cores", 1.0)],
    ),
    ("Broker memory", &[("", "broker_rss_bytes", 1e-6)]),
    (
        "Open files and threads of the broker",
        &[("files", "broker_files", 1.0), ("threads", "broker_threads", 1.0)],
    ),
    ("Host memory in use", &[("", "host_used_bytes", 1e-6)]),
    ("Host CPU", &[("busy", "host_cpu_cores", 1.0), ("stolen", "host_steal_cores", 1.0)]),
    ("Load generator CPU", &[("", "generator_cpu_cores", 1.0)]),
    (
        "Load generator lag",
        &[("p99", "generator_lag_p99_us", 1e-3), ("max", "generator_lag_max_us", 1e-3)],
    ),
];

#[test]
fn each_line_of_a_chart_is_the_figure_of_its_name_in_its_unit() {
    let Some(program) = look_mjs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    report::write(&[distinct::run()], &page).unwrap();
    let seen = seen(&look(&program, &page, &["--values"]));
    let row = &distinct::json()["series"][0];
    let mut wrong = Vec::new();
    for (title, lines) in CHARTS {
        for (line, figure, scale) in *lines {
            let name = [*title, line].join(": ");
            let found = &seen["values"][&name];
            let expected = row[figure].as_f64().unwrap() * scale;
            let is_it = found
                .as_str()
                .and_then(number)
                .is_some_and(|of| (of / expected - 1.0).abs() < 1e-3);
            if !is_it {
                wrong.push(format!("{name} is {found}, not {expected} ({figure})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}\n{:#}", wrong.join("\n"), seen["values"]);
}

/// A number as the charts write it: the text may end in a unit.
fn number(text: &str) -> Option<f64> {
    let (digits, factor) = match text.trim_end_matches(" ms") {
        text if text.ends_with('k') => (text.trim_end_matches('k'), 1e3),
        text => (text, 1.0),
    };
    Some(digits.parse::<f64>().ok()? * factor)
}

#[test]
fn runs_side_by_side_have_each_figure_in_its_row() {
    if look_mjs().is_none() {
        return;
    }
    let script = r#"
        const text = require("fs").readFileSync(0, "utf8"), { page, result } = JSON.parse(text);
        const part = (from, to) => page.slice(page.indexOf(from), page.indexOf(to));
        const sides = part("// A name, and what it reads off", "// What must be");
        const numbers = part("// Numbers as a person", "const colour")
            + part("const cores", "const VERDICT");
        const read = new Function(numbers + sides + "return SIDES;");
        const rows = read().map(([name, of]) => [name, String(of(result))]);
        console.log(JSON.stringify(Object.fromEntries(rows)));"#;
    let mut node = Command::new("node")
        .args(["-e", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let page = [weir_http::assets::BASE_JS, include_str!("../../../src/web/page.js")].concat();
    let input = json!({ "page": page, "result": distinct::json() });
    std::io::Write::write_all(&mut node.stdin.take().unwrap(), input.to_string().as_bytes())
        .unwrap();
    let output = node.wait_with_output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, cell) in [
        ("verdict", "passed"),
        ("scale", "0.25"),
        ("seconds measured", "9"),
        ("messages out /s", "51"),
        ("messages in /s", "52"),
        ("success", "56.789 %"),
        ("lost", "2009"),
        ("reordered", "2013"),
        ("p50", "503 ms"),
        ("p90", "505 ms"),
        ("p99", "507 ms"),
        ("p99.9", "508 ms"),
        ("max", "509 ms"),
        ("CPU cores", "0.21"),
        ("CPU us per delivery", "27.11"),
        ("messages per core-second", "721"),
        ("KiB per connection", "72.2"),
        ("memory stable at", "34.1 MB"),
        ("generator cores", "0.42"),
    ] {
        assert_eq!(found[name], cell, "{name}");
    }
}
