//! Every cell of every output, of a result in which all numbers differ: a column that shows
//! another's figure, or in another unit, is not what is written here.

mod browser;
mod files;

use crate::fixture::distinct;
use weir_bench::{compare, report, summary, tables};

/// What a test found and what it wants: name and cell, in order.
type Cells = Vec<(String, String)>;

#[track_caller]
fn assert_cells(found: &Cells, expected: &[(&str, &str)]) {
    let expected: Cells =
        expected.iter().map(|(name, cell)| ((*name).into(), (*cell).into())).collect();
    let wrong: Vec<String> = found
        .iter()
        .zip(&expected)
        .filter(|(found, expected)| found != expected)
        .map(|(found, expected)| format!("{found:?}, not {expected:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

/// The cells of a row in the tables of a terminal or of Markdown, behind the names of their
/// columns: of every table whose row has this name in its first column.
fn row(text: &str, name: &str) -> Cells {
    let split = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    let lines: Vec<&str> = text.lines().collect();
    let (mut head, mut cells) = (Vec::new(), Vec::new());
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with('|')) {
        if lines.get(at + 1).is_some_and(|next| next.starts_with("|-") || next.starts_with("| -")) {
            head = split(line);
        } else if split(line)[0] == name {
            cells.extend(head.iter().cloned().zip(split(line)).skip(1));
        }
    }
    cells
}

/// The same of the tables of a page, each of which begins with its caption.
fn page_row(page: &str, caption: &str, name: &str) -> Cells {
    let table = page
        .split("<table")
        .find(|table| table.contains(&format!("<caption>{caption}</caption>")))
        .unwrap_or_else(|| panic!("no table {caption}"));
    let table = &table[..table.find("</table>").unwrap()];
    let cells = |line: &str| -> Vec<String> {
        let parts = line.replace("<td", "<th").replace("</td>", "</th>");
        parts
            .split("<th")
            .skip(1)
            .filter_map(|part| part.split_once('>'))
            .map(|(_, part)| text(part))
            .collect()
    };
    let (head, body) = table.split_once("</thead>").unwrap();
    let head = cells(head.split_once("<tr>").unwrap().1);
    let rows = body.split("<tr").map(cells);
    let row = rows.into_iter().find(|row| row.first().is_some_and(|first| first.starts_with(name)));
    head.into_iter().zip(row.unwrap_or_else(|| panic!("no row {name}"))).skip(1).collect()
}

/// What is read of an element: no tags, plain characters, one space between words.
fn text(html: &str) -> String {
    let html = html.split("</th>").next().unwrap_or_default();
    let texts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    // The first part has no tag before it.
    let mut text = html.split('<').next().unwrap_or_default().to_owned();
    texts.skip(1).for_each(|part| text = text.clone() + " " + part);
    let text = text.replace("&#x2f;", "/").replace("&#x27;", "'").replace("&amp;", "&");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const LATENCY: [(&str, &str); 8] = [
    ("avg", "501"),
    ("p50", "503"),
    ("p75", "504"),
    ("p90", "505"),
    ("p95", "506"),
    ("p99", "507"),
    ("p99.9", "508"),
    ("max", "509"),
];

#[test]
fn the_terminals_tables_hold_each_figure_in_its_column() {
    let runs = [distinct::run()];
    let text = tables::render(&runs);
    let mut expected = vec![("verdict", "passed"), ("rate in:out /s", "51:52"), ("avg ms", "501")];
    expected.extend(&LATENCY[1..]);
    expected.extend([
        ("CPU cores", "0.21"),
        ("max", "0.22"),
        ("% avg", "25.1"),
        ("% max", "26.1"),
        ("us/delivery", "27.11"),
        ("mem max", "32.1M"),
        ("avg", "33.1M"),
        ("stable", "34.1M"),
        ("load CPU", "0.42"),
        ("msg/cpu-s", "721"),
        ("KiB/conn", "72.2"),
        ("PSS", "72.3M"),
        ("ctxsw/s", "701"),
        ("lo B/s", "0.7M"),
        ("net in:out", "0.7M:0.7M"),
        ("host", "0.74"),
        ("stolen", "0.75"),
        ("W", "71.2"),
        ("sent", "2002"),
        ("accepted", "2004"),
        ("expected", "2007"),
        ("delivered", "2008"),
        ("lost", "2009"),
        ("dup", "2011"),
        ("reord.", "2013"),
        ("stray", "2016"),
        ("ok %", "56.789"),
    ]);
    assert_cells(&row(&text, "Weir 0.1.0"), &expected);
}

#[test]
fn the_terminals_tables_of_a_use_case_that_only_connects_do_too() {
    let mut run = distinct::run();
    run.use_case.qos = None;
    let text = tables::render(&[run]);
    let found = row(&text, "Weir 0.1.0");
    let has = |name: &str, cell: &str| {
        let is_there = found.iter().any(|(head, text)| head == name && text == cell);
        assert!(is_there, "{name} {cell} is missing in {found:#?}");
    };
    let cells = [("connects /s", "53"), ("avg ms", "101"), ("p50", "103"), ("p99", "107")];
    let more = [("planned", "601"), ("connected", "602"), ("failed", "603"), ("dropped", "604")];
    for (name, cell) in cells.into_iter().chain(more) {
        has(name, cell);
    }
    has("us/connect", "28.11");
    has("bytes/connection", "4983");
}

#[test]
fn all_use_cases_in_one_table_have_each_figure_in_its_column() {
    let mut other = distinct::run();
    other.use_case.name = "singlenode-other".into();
    other.use_case.qos = None;
    other.broker.name = "Other".into();
    let text = summary::render(&[distinct::run(), other]);
    let expected = [
        ("verdict", "passed"),
        ("out /s", "52"),
        ("p99 ms", "507"),
        ("lost", "2009"),
        ("CPU us", "27.1"),
        ("mem", "34.1M"),
    ];
    assert_cells(&row(&text, "Weir 0.1.0"), &expected);
    let connects = row(&text, "Other 0.1.0");
    let cells = [("out /s", "53"), ("p99 ms", "107"), ("CPU us", "28.1")];
    assert_eq!(connects[1], (cells[0].0.into(), cells[0].1.into()));
    assert_eq!(connects[2], (cells[1].0.into(), cells[1].1.into()));
    assert_eq!(connects[4], (cells[2].0.into(), cells[2].1.into()));
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn the_pages_tables_hold_each_figure_in_its_column() {
    let page = report::html(&[distinct::run()]).unwrap();
    let row = |caption: &str| page_row(&page, caption, "Weir 0.1.0");
    assert_cells(
        &row("As on the suite's results pages".replace('\'', "&#x27;").as_str()),
        &[
            ("Actual msg rate", "51:52"),
            ("Average pub-to-sub latency (ms)", "501.00"),
            ("Max CPU user+system", "26.1%"),
            ("Avg CPU user+system", "25.1%"),
            ("Max memory used (host)", "36.1M"),
            ("Avg memory used (host)", "75.1M"),
        ],
    );
    let mut latency = vec![("published : received /s", "51 : 52")];
    latency.extend(LATENCY);
    assert_cells(&row("Rate and latency from the intended send to the receipt, ms"), &latency);
    assert_cells(
        &row("The broker&#x27;s CPU and memory"),
        &[
            ("CPU cores avg", "0.21"),
            ("max", "0.22"),
            ("user", "0.23"),
            ("system", "0.24"),
            ("% of all, avg", "25.1"),
            ("max", "26.1"),
            ("µs per delivery", "27.11"),
            ("memory max", "32.1M"),
            ("avg", "33.1M"),
            ("stable", "34.1M"),
            ("host used max", "36.1M"),
            ("load CPU cores", "0.42"),
        ],
    );
    assert_cells(
        &row("Every delivery"),
        &[
            ("intended", "2,001"),
            ("sent", "2,002"),
            ("accepted", "2,004"),
            ("refused", "2,005"),
            ("no answer", "2,006"),
            ("expected", "2,007"),
            ("delivered", "2,008"),
            ("lost", "2,009"),
            ("unaudited", "2,010"),
            ("duplicated", "2,011"),
            ("reordered", "2,013"),
            ("late", "2,014"),
            ("stray", "2,016"),
            ("success", "56.789 %"),
        ],
    );
}

#[test]
fn the_pages_tables_over_all_runs_and_kinds_hold_each_figure_in_its_column() {
    let mut run = distinct::run();
    run.host.disturbance.others_cores = Some(0.38);
    let page = report::html(&[run]).unwrap();
    let row = |caption: &str| page_row(&page, caption, "Weir 0.1.0");
    assert_cells(
        &row("Every run"),
        &[
            ("verdict", "passed"),
            ("rate in : out /s", "51 : 52"),
            ("avg ms", "501"),
            ("p99 ms", "507"),
            ("max ms", "509"),
            ("lost", "2,009"),
            ("CPU cores", "0.21"),
            ("CPU µs each", "27.11"),
            ("memory stable", "34.1M"),
        ],
    );
    assert_cells(
        &page_row(&page, "Health of the host", "p2p"),
        &[
            ("host CPU, cores busy", "0.74 of 2"),
            ("other programs, cores", "0.38"),
            ("stolen by other guests", "0.75"),
            ("load generator, cores", "0.42"),
            ("its lag p99, ms", "707"),
            ("TCP round trip before, µs", "81.1"),
            ("after, µs", "82.1"),
        ],
    );
    for (kind, hundred) in [
        ("connect", "1"),
        ("subscribe", "2"),
        ("publish to acknowledgement", "3"),
        ("end to end, from the intended send", "5"),
        ("end to end, from the actual send", "6"),
        ("lag of the load generator", "7"),
    ] {
        let name = format!("Weir 0.1.0: {kind}");
        let cells: Vec<String> = page_row(&page, "Response times by kind, ms", &name)
            .into_iter()
            .map(|(_, cell)| cell)
            .collect();
        let ends = ["0,099", "01", "03", "04", "05", "06", "07", "08", "09"];
        assert_eq!(cells, ends.map(|end| format!("{hundred}{end}")), "{kind}");
    }
}

#[test]
fn the_pages_tables_of_connections_hold_each_figure_in_its_column() {
    let mut run = distinct::run();
    run.use_case.qos = None;
    let page = report::html(&[run]).unwrap();
    assert_cells(
        &page_row(&page, "Every connection", "Weir 0.1.0"),
        &[
            ("planned", "601"),
            ("connected", "602"),
            ("failed", "603"),
            ("dropped", "604"),
            ("memory at the start", "31.1M"),
            ("memory stable at", "34.1M"),
            ("bytes per connection", "4,983"),
            ("open files", "381"),
        ],
    );
}

#[test]
fn the_first_screen_says_each_figure_by_its_name() {
    let page = report::html(&[distinct::run()]).unwrap();
    let panels =
        &page[page.find("class=\"panels\"").unwrap()..page.find("class=\"matrix").unwrap()];
    let values: Vec<&str> =
        panels.split("<b>").skip(1).map(|part| part.split("</b>").next().unwrap()).collect();
    assert_eq!(values, ["27.1 µs", "507 ms", "34.1 MB", "52"]);
    let sentence = "Its p99 latency was 507 ms; its CPU per message or connect 27.1 µs.";
    assert!(page.contains("<p>Weir 0.1.0 passed 1 of 1 use case.</p>"), "the verdict");
    assert!(page.contains(sentence), "the figures");
    let mut other = distinct::run();
    other.broker.name = "Other".into();
    other.latencies.get_mut("end_to_end").unwrap().p99_us *= 2;
    let of = other.resources.as_mut().unwrap();
    of.cpu_us_per_delivery = Some(27.11 * 3.0);
    of.rss_stable_bytes *= 4;
    let page = report::html(&[distinct::run(), other]).unwrap();
    let sentence = "Over 1 use case that both passed, Other 0.1.0 had 3.00 times the CPU, 2.00 \
                    times the p99 latency and 4.00 times the memory of Weir 0.1.0.";
    assert!(page.contains(sentence) && page.contains("Weir 0.1.0 and Other 0.1.0 each passed"));
}

#[test]
fn published_rows_carry_their_own_names() {
    let runs = [distinct::run()];
    let rows = [
        ("EMQX 4.4.16", "0.27", ["2", "4"], ["510M", "495M"]),
        ("NanoMQ 0.17.0", "0.25", ["0", "1"], ["271M", "270M"]),
        ("Mosquitto 2.0.15", "0.25", ["0", "0"], ["278M", "254M"]),
    ];
    let (terminal, page) = (tables::render(&runs), report::html(&runs).unwrap());
    for (name, mean, [avg, max], [mem_max, mem_avg]) in rows {
        let cells: Vec<String> = row(&terminal, name).into_iter().map(|(_, cell)| cell).collect();
        let source = if name.starts_with("Mosq") { "[2]" } else { "[1]" };
        let dash = "-";
        let expected =
            [dash, mean, dash, dash, dash, dash, dash, avg, max, mem_max, mem_avg, source];
        assert_eq!(cells, expected, "{name}");
        let cells: Vec<String> = page_row(&page, "As on the suite&#x27;s results pages", name)
            .into_iter()
            .map(|(_, cell)| cell)
            .collect();
        let [max, avg] = [max, avg].map(|value| format!("{value}%"));
        assert_eq!(cells, ["-", mean, &max, &avg, mem_max, mem_avg], "{name}");
    }
}

#[test]
fn a_comparison_holds_each_metric_in_its_row_and_each_broker_in_its_column() {
    let mut other = distinct::run();
    other.broker.name = "Other".into();
    for latency in other.latencies.values_mut() {
        latency.p50_us *= 2;
        latency.p99_us *= 2;
    }
    let of = other.resources.as_mut().unwrap();
    of.rss_max_bytes *= 2;
    of.cpu_us_per_delivery = Some(40.0);
    other.rates.received = 104.0;
    let options = compare::Options { seed: 1, is_anyway: false };
    let comparison = compare::within(&[distinct::run(), other], options).unwrap();
    let text = compare::render(&comparison);
    for (metric, base, other) in [
        ("CPU us/message", "27.11", "40.00"),
        ("p50 ms", "503", "1006"),
        ("p99 ms", "507", "1014"),
        ("max RSS MB", "32.1", "64.2"),
        ("delivered/s", "52", "104"),
    ] {
        let cells = row(&text, metric);
        assert_eq!(cells[0], ("Weir 0.1.0".into(), base.into()), "{text}");
        assert_eq!(cells[1], ("Other 0.1.0".into(), other.into()), "{text}");
    }
}
