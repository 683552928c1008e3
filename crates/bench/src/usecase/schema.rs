//! The JSON schema of a use case's file, held against every file there is.

use super::UseCase;
use super::catalog::{EXAMPLE, FILES, SCHEMA};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;

/// What of `value` the schema does not allow, with its place. Knows what our schema uses.
fn faults(schema: &Value, value: &Value, place: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |what: &str| found.push(format!("{place}: {what}"));
    let is_a = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        _ => false,
    };
    let is_typed = match &schema["type"] {
        Value::String(kind) => is_a(kind),
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).any(is_a),
        _ => false,
    };
    if !is_typed {
        note("another type");
    }
    if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
        note("not of the enumeration");
    }
    type Holds = fn(f64, f64) -> bool;
    let bounds: [(&str, Holds); 4] = [
        ("minimum", |value, bound| value >= bound),
        ("maximum", |value, bound| value <= bound),
        ("exclusiveMinimum", |value, bound| value > bound),
        ("exclusiveMaximum", |value, bound| value < bound),
    ];
    for (key, is_kept) in bounds {
        if let (Some(bound), Some(number)) = (schema[key].as_f64(), value.as_f64())
            && !is_kept(number, bound)
        {
            note(key);
        }
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(key).is_none() {
            note(&format!("{key} is missing"));
        }
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(schema) => found.extend(faults(schema, inner, &format!("{place}/{key}"))),
            None => found.push(format!("{place}: {key} is unknown")),
        }
    }
    for (at, inner) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(faults(&schema["items"], inner, &format!("{place}/{at}")));
    }
    found
}

fn read(text: &str) -> Value {
    toml::from_str(text).unwrap()
}

#[test]
fn every_file_and_the_example_keep_to_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for (name, text) in FILES.iter().chain([&("example", EXAMPLE)]) {
        assert_eq!(faults(&schema, &read(text), ""), Vec::<String>::new(), "{name}");
    }
}

/// What is wrong by the schema is wrong for the reader too, and the other way round: each of these
/// changes to the example.
#[test]
fn the_schema_and_the_reader_refuse_the_same() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let changes = [
        ("revision = 1 ", "revison = 1 "),
        ("qos = 1 }]", "qos = 3 }]"),
        ("rate_per_s = 5 ", "rate_per_s = 0 "),
        ("payload = \"json\"", "payload = \"xml\""),
        ("fault = \"cut\"", "fault = \"burn\""),
        ("at = \"3s\"", "at = true"),
        ("share = 0.5", "share = 1.5"),
        ("p99_ms = 1000", "p99_ms = 0"),
        ("\"retained\"]", "\"retention\"]"),
        ("scales = true", "scales = \"yes\""),
    ];
    for (from, to) in changes {
        let text = EXAMPLE.replacen(from, to, 1);
        assert_ne!(text, EXAMPLE, "{from} is in the example");
        assert!(!faults(&schema, &read(&text), "").is_empty(), "the schema takes {to}");
        assert!(UseCase::parse("changed", &text).is_err(), "the reader takes {to}");
    }
}

/// The keys that a table of the file may have, as the reader names them where it finds another.
fn keys<T: DeserializeOwned>() -> BTreeSet<String> {
    let error = toml::from_str::<T>("no-such-key = 1").err().unwrap().to_string();
    let (_, expected) = error.split_once(", expected ").unwrap();
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_schema_and_the_reader_know_the_same_keys() {
    use crate::usecase::connection::Connection;
    use crate::usecase::file::{Contract, Group};
    use crate::usecase::step::{Reconnect, Step};
    use crate::usecase::thresholds::Thresholds;
    use weir_load::plan::{Publish, Subscription};
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for (place, keys) in [
        ("", keys::<UseCase>()),
        ("/properties/group/items", keys::<Group>()),
        ("/properties/group/items/properties/subscriptions/items", keys::<Subscription>()),
        ("/properties/group/items/properties/publish", keys::<Publish>()),
        ("/properties/reconnect", keys::<Reconnect>()),
        ("/properties/step/items", keys::<Step>()),
        ("/properties/connection", keys::<Connection>()),
        ("/properties/contract", keys::<Contract>()),
        ("/properties/thresholds", keys::<Thresholds>()),
    ] {
        let table = schema.pointer(place).unwrap();
        assert_eq!(table["additionalProperties"], false, "{place}");
        let of_schema = table["properties"].as_object().unwrap().keys().cloned();
        assert_eq!(of_schema.collect::<BTreeSet<_>>(), keys, "{place}");
    }
}

#[test]
fn every_name_of_a_step_and_a_need_is_read_and_in_the_schema() {
    use super::{Fault, Need};
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let needs = schema["properties"]["needs"]["items"]["enum"].as_array().unwrap();
    for name in needs {
        let need: Need = serde_json::from_value(name.clone()).unwrap();
        assert_eq!(need.name(), name);
    }
    let faults = &schema["properties"]["step"]["items"]["properties"]["fault"]["enum"];
    for name in faults.as_array().unwrap() {
        let fault: Fault = serde_json::from_value(name.clone()).unwrap();
        assert_eq!(fault.name(), name);
    }
    assert_eq!((needs.len(), faults.as_array().unwrap().len()), (7, 8));
}

#[test]
fn the_example_is_a_use_case() {
    let use_case = UseCase::parse("example.toml", EXAMPLE).unwrap();
    assert_eq!((use_case.group.len(), use_case.step.len()), (3, 1));
    assert_eq!(use_case.thresholds.p99_ms, Some(1000.0));
}
