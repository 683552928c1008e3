//! A result of a real run is complete; without any one place of any field it is not, and says so.

use super::*;
use crate::result;

/// A result as a run of this schema wrote it.
const KEPT: &str = include_str!("../../../tests/data/result-2.json");

/// Takes a place out of a value.
fn remove(value: &mut Value, at: &str) {
    let (parent, name) = at.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    assert!(parent.remove(name).is_some(), "{at} is not in the kept result");
}

/// Puts nothing into a place, of the kind that it holds.
fn empty(value: &mut Value, at: &str) -> bool {
    let found = value.pointer_mut(at).unwrap();
    let is_emptied = !matches!(found, Value::Null | Value::Bool(_) | Value::Number(_));
    match found {
        Value::String(text) => text.clear(),
        Value::Array(list) => list.clear(),
        Value::Object(map) => map.clear(),
        _ => {}
    }
    is_emptied
}

#[test]
fn a_real_result_is_complete() {
    let run = result::read(KEPT).unwrap();
    assert_eq!(state(&run), "complete");
}

#[test]
fn without_any_place_of_any_field_a_result_is_incomplete_and_names_the_field() {
    let mut count = 0;
    for (name, at) in places() {
        let mut value: Value = serde_json::from_str(KEPT).unwrap();
        remove(&mut value, at);
        count += 1;
        // What the tables cannot do without is an error of the file, which names it, too.
        match result::read(&value.to_string()) {
            Ok(run) => {
                let state = state(&run);
                assert!(state.starts_with("incomplete") && state.contains(name), "{at}: {state}");
            }
            Err(error) => {
                let key = at.rsplit('/').next().unwrap();
                assert!(error.to_string().contains(&format!("`{key}`")), "{at}: {error}");
            }
        }
    }
    assert!(count > 80, "{count} places");
}

#[test]
fn with_any_place_emptied_a_result_is_incomplete_and_names_the_field() {
    for (name, at) in places().filter(|(_, at)| !fields::MAY_BE_NONE.contains(at)) {
        let mut value: Value = serde_json::from_str(KEPT).unwrap();
        if !empty(&mut value, at) {
            continue;
        }
        let Ok(run) = result::read(&value.to_string()) else { continue };
        let state = state(&run);
        assert!(state.starts_with("incomplete") && state.contains(name), "{at}: {state}");
    }
}

#[test]
fn a_broker_somebody_else_runs_need_not_show_its_configuration() {
    let mut run = result::read(KEPT).unwrap();
    run.broker.command.clear();
    assert_eq!(missing(&run), ["broker's command"], "it has a configuration, so it was started");
    run.broker.configuration.clear();
    assert_eq!(state(&run), "complete");
}

#[test]
fn every_field_has_a_name_of_its_own_and_a_text() {
    let run = result::read(KEPT).unwrap();
    let names: std::collections::BTreeSet<&str> = FIELDS.iter().map(|field| field.name).collect();
    assert_eq!(names.len(), FIELDS.len());
    for field in FIELDS {
        assert!(!(field.text)(&run).trim().is_empty(), "{}", field.name);
    }
}
