//! The HTTP API is what its description says, whatever is asked of it.

use crate::api::Served;
use crate::support::command::fed;
use crate::support::tool as installed;
use std::process::Command;
use weir_wire::QoS;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/contract");

/// A program that `scripts/setup --all` has installed.
fn tool(name: &str) -> Option<Command> {
    let program = format!("{FOLDER}/.venv/bin/{name}");
    let is_there = std::path::Path::new(&program).exists();
    assert!(is_there || std::env::var_os("CI").is_none(), "{program} is missing");
    if !is_there {
        eprintln!("skipped: {program} is missing; scripts/setup --all installs it");
    }
    is_there.then(|| Command::new(program))
}

/// Takes half a minute, as a token has 100 requests a second.
#[test]
#[ignore = "needs schemathesis: make test-long"]
fn every_answer_is_one_that_the_description_has() {
    let (Some(mut validator), Some(mut tests)) =
        (tool("openapi-spec-validator"), tool("schemathesis"))
    else {
        return;
    };
    let served = Served::start("");
    let mut client = served.join("meter-7");
    client.subscribe("plant/#", QoS::AtLeastOnce);
    let kept = r#"{"topic": "plant", "payload": "21.5", "retain": true}"#;
    assert_eq!(served.post("/api/v1/publish", Some(&served.admin), kept).0, 202);

    let (status, answer) = served.get("/api/v1/openapi.json", None);
    assert_eq!(status, 200);
    let folder = tempfile::tempdir().unwrap();
    let document = folder.path().join("openapi.json");
    std::fs::write(&document, answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let valid = validator.arg(&document).output().unwrap();
    assert!(valid.status.success(), "{valid:?}");

    let url = format!("http://{}", served.broker.http.as_ref().unwrap());
    let output = tests
        .args(["--config-file", &format!("{FOLDER}/schemathesis.toml"), "run"])
        .arg(&document)
        .args(["--url", &url, "--header", &format!("Authorization: Bearer {}", served.admin)])
        .args(["--checks", "all", "--max-examples", "50"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{report}\n{}", String::from_utf8_lossy(&output.stderr));
    // What it has done is worth a look: cargo test -- --nocapture.
    println!("{report}");
    // It may be sending its clients away by now.
    assert_eq!(served.get("/healthz", None).0, 200);
}

#[test]
#[ignore = "needs promtool: make test-long"]
fn promtool_finds_nothing_wrong_with_the_metrics() {
    let Some(promtool) = installed(&["promtool"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = format!("[store]\npath = {:?}", folder.path().join("store"));
    let served = Served::start(&format!("mosquitto_names = true\n{store}"));
    let mut client = served.join("meter-7");
    client.subscribe("plant", QoS::AtLeastOnce);
    let (status, answer) = served.get("/metrics", Some(&served.viewer));
    assert_eq!(status, 200);
    let text = answer.split_once("\r\n\r\n").unwrap().1;
    let output = fed(Command::new(promtool).args(["check", "metrics"]), text);
    // What it only advises is there as well.
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
#[ignore = "needs promtool: make test-long"]
fn promtool_takes_the_alerts() {
    let Some(promtool) = installed(&["promtool"]) else { return };
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/prometheus/weir.rules.yml");
    let output = Command::new(promtool).args(["check", "rules", rules]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
