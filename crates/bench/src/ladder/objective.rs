//! What a step has to meet: `p99<=20ms,lost=0`.

use crate::result::CourseResult;
use crate::result::{LatencyResult, RunResult};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Conditions, all of which must hold. Beside them a step has to keep its use case's contract.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Objective {
    text: String,
    conditions: Vec<Condition>,
}

/// What is wrong with the text of an objective.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ObjectiveError {
    /// Not a comparison.
    #[error("{0:?} is not a condition; write it as p99<=20ms or lost=0, with commas between")]
    Form(String),
    /// No such figure.
    #[error("unknown figure {name:?}; known are {}", names())]
    Figure {
        /// As given.
        name: String,
    },
    /// Not a number, or of another unit.
    #[error("{0:?} is not {1}")]
    Value(String, &'static str),
}

#[derive(Clone, Debug, PartialEq)]
struct Condition {
    figure: &'static Figure,
    relation: Relation,
    /// In the figure's own unit.
    limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    AtMost,
    Below,
    Exactly,
    AtLeast,
}

/// In the order in which they are looked for: `<=` before `<`.
const RELATIONS: &[(&str, Relation)] = &[
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("<", Relation::Below),
    ("=", Relation::Exactly),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    /// Kept in microseconds.
    Time,
    /// Deliveries or connections.
    Count,
    Cores,
    /// Kept in bytes.
    Memory,
}

#[derive(Debug)]
struct Figure {
    name: &'static str,
    unit: Unit,
    of: fn(&RunResult) -> Option<f64>,
}

impl PartialEq for Figure {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

fn end_to_end(run: &RunResult, of: fn(&LatencyResult) -> f64) -> Option<f64> {
    of_latency(run, "end_to_end", of)
}

fn of_latency(run: &RunResult, name: &str, of: fn(&LatencyResult) -> f64) -> Option<f64> {
    run.latencies.get(name).filter(|latency| latency.count > 0).map(of)
}

const FIGURES: &[Figure] = &[
    Figure { name: "p50", unit: Unit::Time, of: |run| end_to_end(run, |of| of.p50_us as f64) },
    Figure { name: "p90", unit: Unit::Time, of: |run| end_to_end(run, |of| of.p90_us as f64) },
    Figure { name: "p95", unit: Unit::Time, of: |run| end_to_end(run, |of| of.p95_us as f64) },
    Figure { name: "p99", unit: Unit::Time, of: |run| end_to_end(run, |of| of.p99_us as f64) },
    Figure { name: "p99.9", unit: Unit::Time, of: |run| end_to_end(run, |of| of.p999_us as f64) },
    Figure { name: "mean", unit: Unit::Time, of: |run| end_to_end(run, |of| of.mean_us) },
    Figure { name: "max", unit: Unit::Time, of: |run| end_to_end(run, |of| of.max_us as f64) },
    Figure {
        name: "ack-p99",
        unit: Unit::Time,
        of: |run| of_latency(run, "acknowledge", |of| of.p99_us as f64),
    },
    Figure {
        name: "connect-p99",
        unit: Unit::Time,
        of: |run| of_latency(run, "connect", |of| of.p99_us as f64),
    },
    Figure { name: "lost", unit: Unit::Count, of: |run| Some(run.measure.lost as f64) },
    Figure { name: "duplicated", unit: Unit::Count, of: |run| Some(run.measure.duplicated as f64) },
    Figure {
        name: "dropped",
        unit: Unit::Count,
        of: |run| {
            let returned = run.course.as_ref().map_or(0, CourseResult::dropped);
            Some((run.connections.dropped.values().sum::<u64>() + returned) as f64)
        },
    },
    Figure {
        name: "cpu",
        unit: Unit::Cores,
        of: |run| run.resources.as_ref().map(|of| of.cpu_cores_avg),
    },
    Figure {
        name: "rss",
        unit: Unit::Memory,
        of: |run| run.resources.as_ref().map(|of| of.rss_max_bytes as f64),
    },
];

fn names() -> String {
    FIGURES.iter().map(|figure| figure.name).collect::<Vec<_>>().join(", ")
}

/// What each unit may be written with, and what it is in the kept one.
fn suffixes(unit: Unit) -> (&'static [(&'static str, f64)], &'static str) {
    match unit {
        Unit::Time => (&[("us", 1.0), ("ms", 1e3), ("s", 1e6)], "a time, such as 20ms"),
        Unit::Count => (&[("", 1.0)], "a count, such as 0"),
        Unit::Cores => (&[("", 1.0)], "a number of cores, such as 0.8"),
        Unit::Memory => (&[("KB", 1e3), ("MB", 1e6), ("GB", 1e9)], "an amount, such as 500MB"),
    }
}

impl FromStr for Objective {
    type Err = ObjectiveError;

    fn from_str(text: &str) -> Result<Self, ObjectiveError> {
        let conditions = text.split(',').map(condition).collect::<Result<_, _>>()?;
        Ok(Self { text: text.split_whitespace().collect(), conditions })
    }
}

fn condition(text: &str) -> Result<Condition, ObjectiveError> {
    let text = text.trim();
    let parts = RELATIONS.iter().find_map(|&(sign, relation)| {
        let (name, value) = text.split_once(sign)?;
        Some((name.trim(), relation, value.trim()))
    });
    let (name, relation, value) = parts.ok_or_else(|| ObjectiveError::Form(text.into()))?;
    let figure = FIGURES.iter().find(|figure| figure.name == name);
    let figure = figure.ok_or_else(|| ObjectiveError::Figure { name: name.into() })?;
    let (suffixes, form) = suffixes(figure.unit);
    let limit = suffixes.iter().find_map(|(suffix, factor)| {
        let number: f64 = value.strip_suffix(suffix)?.trim().parse().ok()?;
        (number >= 0.0 && number.is_finite()).then_some(number * factor)
    });
    let limit = limit.ok_or_else(|| ObjectiveError::Value(value.into(), form))?;
    Ok(Condition { figure, relation, limit })
}

impl Objective {
    /// What of it a run does not meet, one line each. A figure that was not measured is not met.
    pub fn unmet(&self, run: &RunResult) -> Vec<String> {
        self.conditions.iter().filter_map(|condition| condition.unmet(run)).collect()
    }

    /// The limit of a latency from due to received, in microseconds: where a chart draws its line.
    pub fn latency_us(&self) -> Option<(&'static str, f64)> {
        let is_latency = |condition: &&Condition| {
            condition.figure.unit == Unit::Time && !condition.figure.name.contains('-')
        };
        let first = self.conditions.iter().find(is_latency)?;
        Some((first.figure.name, first.limit))
    }
}

impl Condition {
    fn unmet(&self, run: &RunResult) -> Option<String> {
        let name = self.figure.name;
        let Some(value) = (self.figure.of)(run) else {
            return Some(format!("{name} was not measured"));
        };
        let is_met = match self.relation {
            Relation::AtMost => value <= self.limit,
            Relation::Below => value < self.limit,
            Relation::Exactly => value == self.limit,
            Relation::AtLeast => value >= self.limit,
        };
        let shown = match self.figure.unit {
            Unit::Time => format!("{} ms", crate::numbers::millis(value)),
            Unit::Count => format!("{value}"),
            Unit::Cores => format!("{value:.2} cores"),
            Unit::Memory => format!("{:.1} MB", value / 1e6),
        };
        (!is_met).then(|| format!("{name} was {shown}"))
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl From<Objective> for String {
    fn from(objective: Objective) -> Self {
        objective.text
    }
}

impl TryFrom<String> for Objective {
    type Error = ObjectiveError;

    fn try_from(text: String) -> Result<Self, ObjectiveError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunResult {
        serde_json::from_str(include_str!("../../tests/data/result.json")).unwrap()
    }

    #[test]
    fn a_run_meets_an_objective_or_says_what_it_was_instead() {
        let mut run = run();
        let of = run.latencies.get_mut("end_to_end").unwrap();
        (of.p99_us, of.p50_us) = (20_000, 90);
        run.measure.lost = 0;
        let unmet = |text: &str, run: &RunResult| text.parse::<Objective>().unwrap().unmet(run);
        assert!(unmet("p99<=20ms, lost=0 ,p50<0.1ms", &run).is_empty());
        assert_eq!(unmet("p99<20ms", &run), ["p99 was 20.0 ms"]);
        run.measure.lost = 3;
        assert_eq!(unmet("p99<=19999us,lost=0", &run), ["p99 was 20.0 ms", "lost was 3"]);
        run.latencies.clear();
        assert_eq!(unmet("p99<=1s", &run), ["p99 was not measured"]);
    }

    #[test]
    fn what_is_no_objective_is_told_in_one_line() {
        let error = |text: &str| text.parse::<Objective>().unwrap_err().to_string();
        assert!(error("p99").contains("p99<=20ms"));
        assert!(error("p98<=20ms").contains("p99.9, mean"));
        assert!(error("p99<=20").contains("a time, such as 20ms"));
        assert!(error("lost=-1").contains("a count"));
        assert!(error("rss<=5ms").contains("500MB"));
        assert!(error("").contains("not a condition"));
    }

    #[test]
    fn the_first_latency_is_the_line_of_the_chart() {
        let of = |text: &str| text.parse::<Objective>().unwrap().latency_us();
        assert_eq!(of("lost=0,connect-p99<=1s,p99.9<=5ms"), Some(("p99.9", 5_000.0)));
        assert_eq!(of("lost=0"), None);
    }
}
