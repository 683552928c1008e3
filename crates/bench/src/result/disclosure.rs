//! Full disclosure, checked by machine: complete only when every field is filled or says why not.
//!
//! A field names the places of `result.json` it is made of. What is not there, or is empty, is a
//! gap, and the report names the field.

mod fields;

use crate::result::RunResult;
use fields::{FIELDS, Field};
use serde::Serialize;
use serde_json::Value;

/// A name and a value, for lists.
#[derive(Debug, Serialize)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) value: String,
}

impl Pair {
    pub(crate) fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// The fields of one heading.
#[derive(Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) facts: Vec<Pair>,
}

/// Everything disclosed of a run, beside configuration, use-case file and what was not measured.
pub(crate) fn groups(run: &RunResult) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for field in FIELDS {
        let fact = Pair::new(field.name, (field.text)(run));
        match groups.last_mut() {
            Some(group) if group.name == field.group => group.facts.push(fact),
            _ => groups.push(Group { name: field.group, facts: vec![fact] }),
        }
    }
    groups
}

/// "complete", or which fields are missing.
pub(crate) fn state(run: &RunResult) -> String {
    let missing = missing(run);
    if missing.is_empty() {
        "complete".into()
    } else {
        format!("incomplete, missing: {}", missing.join(", "))
    }
}

/// Names of the fields that are not filled, each once, in the order of the page.
pub(crate) fn missing(run: &RunResult) -> Vec<&'static str> {
    // A result is made of what JSON can hold; a test writes and reads it.
    let value = serde_json::to_value(run).unwrap_or_default();
    let is_gap = |field: &&Field| {
        let is_absent = |at: &&str| run.disclosed.absent.iter().any(|absent| absent == at);
        field.at.iter().any(|at| is_absent(at) || !is_filled(run, &value, at))
    };
    FIELDS.iter().filter(is_gap).map(|field| field.name).collect()
}

/// Places of fields that a value does not hold at all: reading it fills them with nothing.
pub(crate) fn absent(value: &Value) -> Vec<String> {
    let places = FIELDS.iter().flat_map(|field| field.at);
    places.filter(|at| value.pointer(at).is_none()).map(|at| (*at).to_owned()).collect()
}

fn is_filled(run: &RunResult, value: &Value, at: &str) -> bool {
    // Only a broker nobody started here may lack what it was started with.
    if fields::OF_A_STARTED_BROKER.contains(&at) && is_elsewhere(run) {
        return true;
    }
    match value.pointer(at) {
        // Present: it says that there is none.
        Some(Value::Null) => fields::MAY_BE_NONE.contains(&at),
        Some(Value::Array(list)) if list.is_empty() => fields::MAY_BE_NONE.contains(&at),
        Some(Value::Object(map)) if map.is_empty() => fields::MAY_BE_NONE.contains(&at),
        Some(Value::Number(number)) => {
            number.as_f64() != Some(0.0) || !fields::ABOVE_ZERO.contains(&at)
        }
        // An interval in which nothing was measured has no histogram.
        Some(Value::Object(_)) if at == fields::SPARSE => true,
        Some(found) => has_text(found),
        None => false,
    }
}

fn is_elsewhere(run: &RunResult) -> bool {
    run.broker.command.is_empty() && run.broker.configuration.is_empty()
}

/// Whether no text in it is empty.
fn has_text(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(list) => list.iter().all(has_text),
        Value::Object(map) => map.values().all(has_text),
        _ => true,
    }
}

/// The places of every field with its name, for a test over all of them.
#[cfg(test)]
pub(crate) fn places() -> impl Iterator<Item = (&'static str, &'static str)> {
    FIELDS.iter().flat_map(|field| field.at.iter().map(move |at| (field.name, *at)))
}

#[cfg(test)]
mod tests;
