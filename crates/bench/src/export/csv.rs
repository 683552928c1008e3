//! Comma-separated values, quoted where a text needs it.

use crate::metrics::{self, File};
use crate::report::runs::{Named, Use};
use serde_json::Value;

/// A column of the table of runs.
type Column = (&'static str, fn(&Named<'_>) -> String);

/// What is run: the metrics come behind.
const COLUMNS: &[Column] = &[
    ("use_case", |of| of.run.use_case.name.clone()),
    ("broker", |of| of.run.broker.name.clone()),
    ("version", |of| of.run.broker.version.clone()),
    ("profile", |of| of.run.broker.profile.clone()),
    ("repeat", |of| of.repeat.to_string()),
    ("started", |of| of.run.suite.started.clone()),
    ("status", |of| of.run.verdict.status.name().into()),
    ("scale", |of| of.run.use_case.scale.to_string()),
    ("duration_s", |of| of.run.use_case.duration_s.to_string()),
];

/// A row a run. What was not measured is empty.
pub(super) fn runs(uses: &[Use<'_>]) -> String {
    let metrics = || metrics::of_file(File::Csv);
    let head = COLUMNS.iter().map(|(name, _)| *name).chain(metrics().map(|metric| metric.name));
    let mut text = head.collect::<Vec<_>>().join(",") + "\n";
    for named in uses.iter().flat_map(|of| &of.runs) {
        let value = |of: Option<f64>| of.map_or_else(String::new, |value| value.to_string());
        let cells = COLUMNS.iter().map(|(_, of)| cell(&of(named)));
        let cells = cells.chain(metrics().map(|metric| value((metric.of)(named.run))));
        text += &cells.collect::<Vec<_>>().join(",");
        text.push('\n');
    }
    text
}

/// A row an interval, behind the names of its run; the head from the names of the schema.
pub(super) fn series(uses: &[Use<'_>]) -> anyhow::Result<String> {
    let mut text = String::new();
    for named in uses.iter().flat_map(|of| &of.runs) {
        let run = named.run;
        let who = [&run.use_case.name, &named.label].map(|name| cell(name)).join(",");
        for row in &run.series {
            let value = serde_json::to_value(row)?;
            let Some(fields) = value.as_object() else { continue };
            if text.is_empty() {
                let names: Vec<&str> = fields.keys().map(String::as_str).collect();
                text = format!("use_case,broker,{}\n", names.join(","));
            }
            let cells = fields.values().map(|value| match value {
                Value::String(text) => cell(text),
                // What was not seen is an empty cell.
                Value::Null => String::new(),
                other => other.to_string(),
            });
            text += &format!("{who},{}\n", cells.collect::<Vec<_>>().join(","));
        }
    }
    Ok(text)
}

/// RFC 4180; and no cell begins as a formula would, which a spreadsheet would run.
fn cell(text: &str) -> String {
    let is_formula =
        text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_quoted_where_it_must_be_and_is_never_a_formula() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("=1+1", "'=1+1"),
            ("-2.5", "-2.5"),
        ] {
            assert_eq!(cell(text), expected);
        }
    }
}
