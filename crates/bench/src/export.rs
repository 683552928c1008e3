//! Results for other programs: JUnit, CSV, HdrHistogram logs, OpenMetrics, Markdown, JSON Schema.
//!
//! Every form is made of [`RunResult`] alone, so that a kept folder can be exported at any time.

mod csv;
mod junit;
mod logs;
mod markdown;
mod openmetrics;

pub(crate) use logs::hgrm;
pub(crate) use openmetrics::label;

use crate::report::runs;
use crate::result::RunResult;
use std::fmt;
use std::str::FromStr;

/// A form of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JUnit XML: a suite a use case, a case a run.
    Junit,
    /// A row a run.
    Csv,
    /// A row an interval of a run.
    SeriesCsv,
    /// Percentile distributions for HdrHistogram's plotters, in milliseconds.
    Hgrm,
    /// HdrHistogram's interval log: a histogram a row, deflated, in microseconds.
    Hlog,
    /// Text for a Prometheus that reads files, or a push.
    OpenMetrics,
    /// A page of the suite's results for each use case.
    Markdown,
    /// The schema of `result.json`; needs no result.
    JsonSchema,
}

/// Every format with its name, in the order for help and errors.
pub const FORMATS: &[(&str, Format)] = &[
    ("junit", Format::Junit),
    ("csv", Format::Csv),
    ("series-csv", Format::SeriesCsv),
    ("hgrm", Format::Hgrm),
    ("hlog", Format::Hlog),
    ("openmetrics", Format::OpenMetrics),
    ("markdown", Format::Markdown),
    ("json-schema", Format::JsonSchema),
];

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = FORMATS.iter().find(|(name, _)| *name == text);
        found.map(|(_, format)| *format).ok_or_else(|| {
            let names: Vec<&str> = FORMATS.iter().map(|(name, _)| *name).collect();
            format!("a format is one of {}", names.join(", "))
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = FORMATS.iter().find(|(_, format)| format == self);
        out.pad(found.map_or("", |(name, _)| name))
    }
}

/// The results in a format, each use case's together, in the order they were run.
///
/// # Errors
/// A histogram that cannot be written, or a schema that is no JSON.
pub fn text(format: Format, results: &[RunResult]) -> anyhow::Result<String> {
    let uses = runs::group(results);
    match format {
        Format::Junit => Ok(junit::text(&uses)),
        Format::Csv => Ok(csv::runs(&uses)),
        Format::SeriesCsv => csv::series(&uses),
        Format::Hgrm => Ok(logs::distributions(&uses)),
        Format::Hlog => logs::intervals(&uses),
        Format::OpenMetrics => Ok(openmetrics::text(&uses)),
        Format::Markdown => Ok(markdown::text(&uses)),
        Format::JsonSchema => schema(),
    }
}

/// What every run leaves in its folder beside `result.json`: name and text.
pub(crate) fn files(result: &RunResult) -> anyhow::Result<Vec<(&'static str, String)>> {
    const NAMES: [(&str, Format); 5] = [
        ("series.csv", Format::SeriesCsv),
        ("junit.xml", Format::Junit),
        ("intervals.hlog", Format::Hlog),
        ("metrics.openmetrics.txt", Format::OpenMetrics),
        ("summary.md", Format::Markdown),
    ];
    let one = std::slice::from_ref(result);
    NAMES.into_iter().map(|(name, format)| Ok((name, text(format, one)?))).collect()
}

/// JSON Schema of `result.json`, from the types that write and read it.
fn schema() -> anyhow::Result<String> {
    let mut schema = schemars::schema_for!(RunResult);
    schema.insert("title".into(), "result.json of weir bench".into());
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_found_by_the_name_it_has() {
        for (name, format) in FORMATS {
            assert_eq!(name.parse(), Ok(*format));
            assert_eq!(format.to_string(), *name);
        }
        let error = "xml".parse::<Format>().unwrap_err();
        assert!(error.contains("junit, csv"), "{error}");
    }

    #[test]
    fn a_page_says_where_a_run_was_not_of_full_size() {
        let mut run = crate::result::read(include_str!("../tests/data/result-2.json")).unwrap();
        let mut page = |scale| {
            run.use_case.scale = scale;
            text(Format::Markdown, std::slice::from_ref(&run)).unwrap()
        };
        assert!(page(0.25).contains("**Ran at 0.2500 of the suite's size"));
        assert!(!page(1.0).contains("Ran at") && !page(2.0).contains("Ran at"));
    }
}
