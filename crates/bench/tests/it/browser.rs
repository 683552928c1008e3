//! The page in a browser, as a desktop, a phone and in the dark: no error, no request, nothing that
//! axe finds, no page wider than its screen; what it saves is of the schema.

use crate::fixture;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_bench::clients;
use weir_bench::export::{self, Format};
use weir_bench::report;

/// The folder of the browser's program, or nothing where it is not installed, which is an error
/// where CI is set.
fn look_mjs() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/browser");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    if has("node") && has("chromium") && folder.join("node_modules").is_dir() {
        return Some(folder.join("look.mjs"));
    }
    assert!(std::env::var_os("CI").is_none(), "no node, chromium or modules; run scripts/setup");
    eprintln!("skipped: node, chromium or tests/browser/node_modules is missing; scripts/setup");
    None
}

fn look(program: &Path, page: &Path, more: &[&str]) -> Output {
    Command::new("node").arg(program).arg(page).args(more).output().unwrap()
}

fn seen(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}"))
}

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
    let seen = seen(&look(&program, &page, &["--schema", schema.to_str().unwrap()]));
    assert_eq!(seen["faults"], serde_json::json!([]), "{seen:#}");
    assert!(seen["charts"].as_u64() > Some(60), "{seen}");
    assert!(seen["heatMaps"].as_u64() > Some(7), "{seen}");
    assert_eq!(seen["saved"].as_u64(), Some(runs.len() as u64));
}

#[test]
fn the_page_of_client_stacks_is_sound_on_every_screen() {
    let Some(program) = look_mjs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("clients.html");
    // Three stacks of a run, one of which did not keep up, and their knees.
    let clients = serde_json::from_str(include_str!("../data/clients.json")).unwrap();
    std::fs::write(&page, clients::html(&clients).unwrap()).unwrap();
    let seen = seen(&look(&program, &page, &[]));
    assert_eq!(seen["faults"], serde_json::json!([]), "{seen:#}");
    assert_eq!(seen["charts"].as_u64(), Some(1), "{seen}");
}

#[test]
fn a_page_with_faults_is_found_out() {
    let Some(program) = look_mjs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("bad.html");
    let bad = "<!doctype html><title>x</title><div style='width:2000px'>wide<img src='x.png'></div>\
               <script>throw new Error('broken')</script>";
    std::fs::write(&page, bad).unwrap();
    let faults = seen(&look(&program, &page, &[]))["faults"].to_string();
    for part in
        ["script: Error: broken", "request: file:", "image-alt", "px wide on a screen of 360"]
    {
        assert!(faults.contains(part), "{part} is missing in {faults}");
    }
}
