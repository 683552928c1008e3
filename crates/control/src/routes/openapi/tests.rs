//! The description has every route, says what it names, and is the table of docs/control.md.

use super::*;
use std::collections::BTreeSet;

fn refs(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
            map.values().for_each(|value| refs(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| refs(value, found)),
        _ => {}
    }
}

#[test]
fn every_route_is_described_once_and_with_its_errors() {
    let (operations, document) = (operations(), document(&operations()));
    let mut ids = BTreeSet::new();
    for Operation { path, method, faults, .. } in &operations {
        let shown = &document["paths"][path.replace("{*", "{")][method];
        assert!(ids.insert(shown["operationId"].as_str().unwrap().to_owned()), "{path} {method}");
        assert_eq!(shown["responses"].get("401").is_none(), is_open(path), "{path}");
        let is_looked_at = *method == "get"
            && !is_for_admins(path)
            && faults.iter().all(|(status, _)| *status != 403);
        assert_eq!(shown["responses"].get("403").is_none(), is_looked_at, "{path}");
        for (status, what) in *faults {
            assert_eq!(shown["responses"][status.to_string()]["description"], *what, "{path}");
        }
        let in_path = |it: &&Value| it["in"] == "path";
        let parameters = shown["parameters"].as_array().into_iter().flatten().filter(in_path);
        for parameter in parameters.clone() {
            let name = parameter["name"].as_str().unwrap();
            assert!(
                path.contains(&format!("{{{name}}}")) || path.contains(&format!("{{*{name}}}"))
            );
        }
        assert_eq!(parameters.count(), path.matches('{').count(), "{path}");
    }
    let count = document["paths"].as_object().unwrap().values();
    assert_eq!(count.map(|it| it.as_object().unwrap().len()).sum::<usize>(), operations.len());
}

#[test]
fn what_the_description_names_is_in_it() {
    let (document, mut found) = (document(&operations()), Vec::new());
    refs(&document, &mut found);
    assert!(found.len() > 100);
    for name in found {
        assert!(document.pointer(&name[1..]).is_some(), "{name}");
    }
    let query = document["paths"]["/api/v1/clients"]["get"]["parameters"].as_array().unwrap();
    let limit = query.iter().find(|it| it["name"] == "limit").unwrap();
    assert_eq!(
        (&limit["schema"]["maximum"], &limit["schema"]["type"]),
        (&json!(1000), &json!("integer"))
    );
}

#[test]
fn every_route_has_a_line_in_the_table_for_people_and_none_is_made_up() {
    let page = include_str!("../../../../../docs/control.md");
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    // `GET /api/v1/clients/ID?limit=N`: capitals stand for what a request says.
    let described = cells.flat_map(|cell| cell.split('`')).filter_map(|text| {
        let (method, path) = text.split_once(" /")?;
        let path = path.split('?').next()?;
        let part = |part: &str| match part.chars().all(|it| it.is_ascii_uppercase()) {
            true => "{}".to_owned(),
            false => part.to_owned(),
        };
        let parts = path.split('/').map(part).collect::<Vec<_>>();
        Some(format!("{} /{}", method.to_lowercase(), parts.join("/")))
    });
    let part = |part: &'static str| if part.starts_with('{') { "{}" } else { part };
    let routes = operations().into_iter().map(|on| {
        let parts = on.path.split('/').map(part).collect::<Vec<_>>();
        format!("{} {}", on.method, parts.join("/"))
    });
    assert_eq!(described.collect::<BTreeSet<_>>(), routes.collect::<BTreeSet<_>>());
}
