//! Reads `result.json` of this schema, lifts what an older one wrote, refuses what is newer.

use super::disclosure;
use super::{RunResult, SCHEMA};
use serde_json::{Map, Value, json};

/// Why a text is not a result.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No JSON, or not of the shape.
    #[error("it is not a result: {0}")]
    Shape(#[from] serde_json::Error),
    /// JSON, but nothing says of which schema.
    #[error("it has no \"schema\" with a version, so it is not a result")]
    NoSchema,
    /// Written by a newer suite.
    #[error("it was written by a newer weir: schema {found}, this one reads up to {}", SCHEMA)]
    Newer {
        /// Its schema.
        found: u64,
    },
}

/// Makes schema `n + 1` of schema `n`; the first lifts schema 1.
type Lift = fn(&mut Map<String, Value>);

const LIFTS: [Lift; SCHEMA as usize - 1] = [lift_1];

/// The result of a text.
///
/// # Errors
/// [`ReadError`].
pub fn read(text: &str) -> Result<RunResult, ReadError> {
    let mut value: Value = serde_json::from_str(text)?;
    let found = value.get("schema").and_then(Value::as_u64).filter(|found| *found > 0);
    let found = found.ok_or(ReadError::NoSchema)?;
    if found > u64::from(SCHEMA) {
        return Err(ReadError::Newer { found });
    }
    if let Some(fields) = value.as_object_mut() {
        for lift in &LIFTS[found as usize - 1..] {
            lift(fields);
        }
        fields.insert("schema".into(), json!(SCHEMA));
    }
    let absent = disclosure::absent(&value);
    let mut result: RunResult = serde_json::from_value(value)?;
    result.disclosed.absent = absent;
    Ok(result)
}

/// Schema 1 kept no histogram for each interval, and did not disclose all that is asked for now:
/// the gaps stay gaps, and are named.
fn lift_1(fields: &mut Map<String, Value>) {
    let Some(Value::Object(not_measured)) = fields.get_mut("not_measured") else { return };
    not_measured.insert(
        "latency over time in full".into(),
        json!("kept from schema 2 on; this result was written by schema 1"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = include_str!("../../tests/data/result.json");

    #[test]
    fn the_first_schema_is_lifted_and_its_gaps_are_named() {
        let run = read(FIRST).unwrap();
        assert_eq!(run.schema, SCHEMA);
        assert!(run.not_measured.contains_key("latency over time in full"));
        assert!(run.marks.is_empty() && run.interval_histograms.is_empty());
        assert!(run.disclosed.absent.contains(&"/disclosed/network/congestion_control".into()));
        // What is written again is of this schema, and reads the same.
        let again = read(&serde_json::to_string(&run).unwrap()).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), serde_json::to_value(&run).unwrap());
    }

    #[test]
    fn what_is_no_result_of_a_known_schema_is_refused_with_its_reason() {
        let newer = FIRST.replacen("\"schema\": 1", "\"schema\": 99", 1);
        let none = FIRST.replacen("\"schema\": 1", "\"schema\": 0", 1);
        for (text, part) in [
            (newer.as_str(), "newer weir: schema 99"),
            (none.as_str(), "no \"schema\""),
            ("{}", "no \"schema\""),
            ("{\"schema\": 2}", "missing field"),
            ("<html>", "not a result"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
    }
}
