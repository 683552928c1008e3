//! The dashboard, as a person uses it in a browser.

use crate::api::Served;
use crate::look::{look, look_mjs, seen};
use crate::support::blocking::Blocking;
use crate::traces::publish;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_wire::{Property, QoS, ReasonCode, Version};

/// What is read off the page, by its name, and a part of it.
const SEEN: &[(&str, &str)] = &[
    ("stranger", "does not know this token"),
    ("topic", "plant/temperature"),
    ("published", "Published to plant/command"),
    ("gone", "out of reach"),
    ("often", "100 requests a second"),
    ("busy", "too busy"),
    ("focus", "Threads"),
    ("topFocus", "Clients that talk most"),
    ("top", "talker"),
    ("why", "\"meter-7\""),
    ("about", "Weir "),
    ("operators", "ended by an administrator"),
    ("subscribed", "Subscribed to plant/ws"),
    ("came", "over WebSocket"),
    ("left", "disconnected"),
    ("rights", "no auth.acl_file"),
    ("traced", "plant/command"),
    ("wrong", "weir.toml:2: latency_budget_ms = 5000"),
    ("line", "latency_budget_ms = 5000"),
    ("would", "2 would change. 1 of them waits for a restart."),
    ("changed", "It is in the file"),
    ("letIn", "Clients are let in again."),
    ("unknown", "does not know this tab's token any more"),
];

#[test]
fn whoever_clicks_finds_and_kicks_a_client_and_reads_and_publishes_messages() {
    let Some(program) = look_mjs() else { return };
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    std::fs::write(&users, "").unwrap();
    let auth = format!(
        "may_write_config = true\n[auth]\npassword_file = {users:?}\nallow_anonymous = true"
    );
    let served = Served::with_websocket(&auth);
    let mut meter = Blocking::connect(&served.broker.address, Version::V5).unwrap();
    meter.join("meter-7", None, &[Property::SessionExpiryInterval(3600)]).unwrap();
    assert_eq!(meter.connack(), Some(ReasonCode::Success));
    meter.subscribe("plant/7/+", QoS::AtLeastOnce).unwrap();
    let mut other = served.join("<img src=x onerror=alert(1)>");
    other.subscribe("plant/command", QoS::AtLeastOnce);
    let retained = r#"{"topic": "plant/temperature", "payload": "21.5", "retain": true}"#;
    assert_eq!(served.post("/api/v1/publish", Some(&served.admin), retained).0, 202);

    let url = format!("http://{}/", served.broker.http.as_ref().unwrap());
    let websocket = format!("ws://{}/mqtt", served.broker.websocket.as_ref().unwrap());
    // A token may begin with a dash.
    let options = [
        format!("--admin={}", served.admin),
        format!("--viewer={}", served.viewer),
        format!("--websocket={websocket}"),
    ];
    let options = options.each_ref().map(String::as_str);
    let program = program.with_file_name("dashboard.mjs");
    let told = use_while_one_talks(&served, &program, &url, &options);
    assert_eq!(told["faults"], json!([]), "{told:#}");
    let seen = &told["seen"];
    assert_eq!((&seen["filter"], &seen["payload"]), (&json!("plant/7/+"), &json!("21.5")));
    assert_eq!(seen["secrets"], json!([true, true]));
    assert_eq!(seen["viewerOfConfig"], json!([true, true]), "no editor, but what runs");
    assert_eq!(seen["viewerOfDrain"], json!([true, true]), "a viewer's buttons are still");
    assert_eq!(seen["markup"], 0);
    assert_eq!(seen["viewer"]["kick"], true, "a viewer's button is still");
    for (name, part) in SEEN {
        assert!(seen[*name].as_str().unwrap().contains(part), "{name}: {seen:#}");
    }
    assert!(seen["viewer"]["why"].as_str().unwrap().contains("a viewer's"), "{seen:#}");

    // What was clicked has come about.
    let message = other.message();
    assert_eq!((&*message.topic, &*message.payload), ("plant/command", "open"));
    while meter.next().is_some() {}
    let get = |path| served.get(path, Some(&served.viewer));
    assert!(get("/api/v1/clients/meter-7").1.contains(r#""connection":null"#));
    assert_eq!(get("/api/v1/retained/plant/temperature").0, 404);
}

/// What the browser has seen, while a client publishes without end.
fn use_while_one_talks(served: &Served, program: &Path, url: &str, options: &[&str]) -> Value {
    let mut talker = Blocking::connect(&served.broker.address, Version::V5).unwrap();
    talker.join("talker", None, &[]).unwrap();
    assert_eq!(talker.connack(), Some(ReasonCode::Success));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let publish = publish("talk", b"x", QoS::AtMostOnce);
            // Until all clients are sent away.
            while !is_over.load(Ordering::Relaxed) && talker.send(&publish).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let told = seen(&look(program, Path::new(url), options));
        is_over.store(true, Ordering::Relaxed);
        told
    })
}

#[test]
fn the_page_needs_no_token_and_loads_nothing_but_its_own() {
    let served = Served::start("");
    let (status, page) = served.get("/", None);
    assert_eq!(status, 200);
    for part in ["content-type: text/html", "script-src 'self';", "default-src 'none';", "nosniff"]
    {
        assert!(page.contains(part), "{part} is missing in {page}");
    }
    assert!(!page.contains("<style") && !page.contains(" style="), "no styles in line");
    let files = page.split(['"', '\'']).filter(|text| text.starts_with("dashboard/"));
    let files: Vec<_> = files.collect();
    assert!(files.len() >= 6, "{files:?}");
    for file in files {
        assert_eq!(served.get(&format!("/{file}"), None).0, 200, "{file}");
    }
    assert_eq!(served.get("/dashboard/other.js", None).0, 401);
    let role = |token| served.get("/api/v1/token", token).1;
    assert!(role(Some(&served.viewer)).ends_with(r#"{"name":"a viewer","role":"viewer"}"#));
    assert!(role(Some(&served.admin)).ends_with(r#"{"name":"a admin","role":"admin"}"#));
}
