//! JUnit XML as build servers read it: a use case is a suite, a run is a case.
//!
//! A broken contract is a failure; a run that says nothing of the broker (the generator was the
//! limit, or a person stopped it) is an error.

use crate::metrics::{self, File};
use crate::report::runs::{Named, Use};
use crate::result::Status;
use std::fmt::Write as _;

pub(super) fn text(uses: &[Use<'_>]) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all = || uses.iter().flat_map(|of| &of.runs);
    let _ = writeln!(text, "<testsuites name=\"weir bench\" {}>", counts(all()));
    for of in uses {
        let name = escape(of.name);
        let _ = writeln!(text, "  <testsuite name=\"{name}\" {}>", counts(of.runs.iter()));
        of.runs.iter().for_each(|named| case(&mut text, of.name, named));
        text += "  </testsuite>\n";
    }
    text + "</testsuites>\n"
}

fn counts<'a>(runs: impl Iterator<Item = &'a Named<'a>>) -> String {
    let (mut tests, mut failures, mut errors, mut skipped, mut time_s) = (0, 0, 0, 0, 0.0);
    for named in runs {
        tests += 1;
        time_s += seconds(named);
        match named.run.verdict.status {
            Status::Passed => {}
            Status::Failed => failures += 1,
            Status::Invalid | Status::Aborted => errors += 1,
            Status::Unsupported => skipped += 1,
        }
    }
    format!(
        "tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\" \
         time=\"{time_s:.3}\""
    )
}

/// Length of a run, from its first connect to the end of its last phase.
fn seconds(named: &Named<'_>) -> f64 {
    named.run.phases.last().map_or(0.0, |phase| phase.end_s)
}

fn case(text: &mut String, use_case: &str, named: &Named<'_>) {
    let run = named.run;
    let _ = writeln!(
        text,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">",
        escape(use_case),
        escape(&named.label),
        seconds(named)
    );
    text.push_str("      <properties>\n");
    for (name, value) in properties(named) {
        let _ = writeln!(text, "        <property name=\"{name}\" value=\"{}\"/>", escape(&value));
    }
    text.push_str("      </properties>\n");
    let element = match run.verdict.status {
        Status::Passed => None,
        Status::Failed => Some("failure"),
        Status::Invalid | Status::Aborted => Some("error"),
        Status::Unsupported => Some("skipped"),
    };
    if let Some(element) = element {
        let status = run.verdict.status.name();
        let first = run.verdict.reasons.first().map_or(status, String::as_str);
        // What is skipped has no type.
        let kind = if element == "skipped" { String::new() } else { format!(" type=\"{status}\"") };
        let _ = writeln!(
            text,
            "      <{element}{kind} message=\"{}\">{}</{element}>",
            escape(first),
            escape(&run.verdict.reasons.join("\n"))
        );
    }
    text.push_str("    </testcase>\n");
}

/// The figures a build server can draw over time.
fn properties(named: &Named<'_>) -> Vec<(&'static str, String)> {
    let run = named.run;
    let mut all = vec![("scale", run.use_case.scale.to_string())];
    for metric in metrics::of_file(File::Junit) {
        let Some(value) = (metric.of)(run) else { continue };
        let digits = match metric.name {
            name if name.ends_with("_per_s") => 1,
            name if name.contains("_us_per_") => 3,
            _ => 0,
        };
        all.push((metric.name, format!("{value:.digits$}")));
    }
    all
}

/// A text for an element or an attribute; what XML 1.0 cannot hold at all becomes a question mark.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push_str("&#9;"),
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('?');
            }
            char => escaped.push(char),
        }
    }
    escaped
}
