//! The page in a browser, as a desktop, a phone, in the dark and on paper: no error, no request,
//! nothing that axe finds, no page wider than its screen and no table cut, at most twelve sheets;
//! what it saves is of the schema.

use crate::fixture;
use crate::look::{look, look_mjs, seen};
use weir_bench::export::{self, Format};
use weir_bench::report;

#[test]
fn the_page_is_sound_on_every_screen_and_saves_results_of_the_schema() {
    let Some(program) = look_mjs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let mut runs = fixture::basic_set(20);
    runs.extend(fixture::many_brokers(10).into_iter().take(12));
    report::write(&runs, &page).unwrap();
    let schema = folder.path().join("schema.json");
    std::fs::write(&schema, export::text(Format::JsonSchema, &[]).unwrap()).unwrap();
    let more = ["--schema", schema.to_str().unwrap(), "--sheets", "12"];
    let seen = seen(&look(&program, &page, &more));
    assert_eq!(seen["faults"], serde_json::json!([]), "{seen:#}");
    assert!(seen["charts"].as_u64() > Some(60), "{seen}");
    assert!(seen["heatMaps"].as_u64() > Some(7), "{seen}");
    assert_eq!(seen["saved"].as_u64(), Some(runs.len() as u64));
}

/// What most comparisons are: it is passed on as a PDF.
#[test]
fn three_brokers_three_times_on_the_basic_set_take_twelve_sheets() {
    let Some(program) = look_mjs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("report.html");
    let mut runs = fixture::many_brokers(10);
    runs.retain(|run| run.repetition.as_ref().is_some_and(|of| of.broker <= 3));
    assert_eq!(runs.len(), 36);
    report::write(&runs, &page).unwrap();
    let seen = seen(&look(&program, &page, &["--sheets", "12"]));
    assert_eq!(seen["faults"], serde_json::json!([]), "{seen:#}");
}

#[test]
fn a_page_with_faults_is_found_out() {
    let Some(program) = look_mjs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("bad.html");
    let bad = "<!doctype html><title>x</title><div style='width:2000px'>wide<img src='x.png'></div>\
               <table><td style='max-width:1em;overflow-wrap:anywhere'>12345.6</table>\
               <script>throw new Error('broken')</script>";
    std::fs::write(&page, bad).unwrap();
    let faults = seen(&look(&program, &page, &[]))["faults"].to_string();
    for part in [
        "script: Error: broken",
        "request: file:",
        "image-alt",
        "px wide on a screen of 360",
        "broken: 12345.6",
    ] {
        assert!(faults.contains(part), "{part} is missing in {faults}");
    }
}
