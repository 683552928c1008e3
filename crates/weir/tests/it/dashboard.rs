//! The dashboard, as a person uses it in a browser while the broker is under load.

use crate::api::Served;
use crate::look::{look, look_mjs, seen};
use crate::support::blocking::{Blocking, decode};
use crate::support::live::offer;
use crate::traces::publish;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_wire::{Packet, Property, QoS, ReasonCode, Version};

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
    ("lost", "no right to read the topic"),
    ("forbidden", "\"lamp-1\" does not get a message to \"plant/lamp\": its rights do not let it"),
    ("permitted", "\"lamp-1\" gets a message to \"plant/lamp\": nothing is in the way."),
    ("absent", "\"meter-7\""),
    ("about", "Weir "),
    ("operators", "ended by an administrator"),
    ("added", "bob is a user now."),
    ("subscribed", "Subscribed to plant/ws"),
    ("came", "over WebSocket"),
    ("left", "the connection has ended"),
    ("traced", "plant/command"),
    ("wrong", "weir.toml:2: latency_budget_ms = 5000"),
    ("line", "latency_budget_ms = 5000"),
    ("would", "2 would change. 1 of them waits for a restart."),
    ("changed", "It is in the file"),
    ("letIn", "Clients are let in again."),
    ("unknown", "does not know this tab's token any more"),
];

/// Pairs of a publisher and a subscriber. A test takes a twentieth of it, as it shares its cores.
const LOAD: &str = r#"
name = "dashboard"
revision = 1
about = "1,000 pairs on 1,000 topics, 10/s each, QoS 1: 10,000/s in and out"
mqtt_version = "3.1.1"
connect_rate_per_s = 500

[[group]]
name = "display"
clients = 1_000
client_id = "w{run}-display-{i}"
scales = true
subscriptions = [{ filter = "site/{i}", qos = 1 }]

[[group]]
name = "sensor"
clients = 1_000
client_id = "w{run}-sensor-{i}"
scales = true
publish = { topic = "site/{i}", qos = 1, rate_per_s = 10, payload_bytes = 128 }
"#;

/// `weir bench run` against a broker, until it is dropped.
struct Load {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Load {
    /// Returns once all its clients are connected: 2,000 of them at scale 1.
    fn start(served: &Served, scale: f64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let use_case = folder.path().join("dashboard.toml");
        std::fs::write(&use_case, LOAD).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["bench", "run"])
            .arg(use_case)
            .args(["--broker", &format!("mqtt://{}", served.broker.address)])
            .args(["--scale", &scale.to_string(), "--duration", "10m", "--warm-up", "0s"])
            .args(["--pin", "none", "--ui", "none", "--out"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut load = Self { child, _folder: folder };
        while sum(served, "connections") < (2_000.0 * scale) as u64 {
            assert_eq!(load.child.try_wait().unwrap(), None, "the load ended");
            std::thread::sleep(Duration::from_millis(50));
        }
        load
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A counter of the broker, over all threads.
fn sum(served: &Served, name: &str) -> u64 {
    let (status, answer) = served.get("/api/v1/counters", Some(&served.viewer));
    assert_eq!(status, 200, "{answer}");
    let counters: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    counters["sum"][name].as_u64().unwrap()
}

/// With `PICTURES=FOLDER`, an absolute path, pictures of all views are kept there, and the load is
/// that of the pictures in docs/images.
#[test]
fn whoever_clicks_during_a_load_finds_and_mends_what_keeps_a_message_from_a_client() {
    let Some(program) = look_mjs() else { return };
    let pictures = std::env::var_os("PICTURES").map(PathBuf::from);
    let folder = tempfile::tempdir().unwrap();
    let (users, rights) = (folder.path().join("users"), folder.path().join("rights"));
    std::fs::write(&users, "").unwrap();
    std::fs::write(&rights, "topic readwrite #\n\nuser lamp\ntopic write plant/lamp\n").unwrap();
    let served = Served::with_websocket(&format!(
        "may_write_config = true\n\
         [auth]\npassword_file = {users:?}\nacl_file = {rights:?}\nallow_anonymous = true"
    ));
    let mut meter = Blocking::connect(&served.broker.address, Version::V5).unwrap();
    meter.join("meter-7", None, &[Property::SessionExpiryInterval(3600)]).unwrap();
    assert_eq!(meter.connack(), Some(ReasonCode::Success));
    meter.subscribe("plant/7/+", QoS::AtLeastOnce).unwrap();
    let mut other = served.join("<img src=x onerror=alert(1)>");
    other.subscribe("plant/command", QoS::AtLeastOnce);
    let mut lamp = lamp(&served);
    let retained = r#"{"topic": "plant/temperature", "payload": "21.5", "retain": true}"#;
    assert_eq!(served.post("/api/v1/publish", Some(&served.admin), retained).0, 202);

    let url = format!("http://{}/", served.broker.http.as_ref().unwrap());
    let websocket = format!("ws://{}/mqtt", served.broker.websocket.as_ref().unwrap());
    // A token may begin with a dash.
    let mut options = vec![
        format!("--admin={}", served.admin),
        format!("--viewer={}", served.viewer),
        format!("--websocket={websocket}"),
    ];
    options.extend(pictures.as_ref().map(|folder| format!("--pictures={}", folder.display())));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let program = program.with_file_name("dashboard.mjs");
    let load = Load::start(&served, if pictures.is_some() { 1.0 } else { 0.05 });
    let before = sum(&served, "publishes_in");
    let told = use_while_one_talks(&served, &program, &url, &options);
    let published = sum(&served, "publishes_in") - before;
    drop(load);
    assert_eq!(told["faults"].to_string(), "[]", "{told:#}");
    assert!(published > 1_000, "the load stood still: {published} messages");
    holds(&told["seen"]);

    // What was clicked has come about.
    let message = other.message();
    assert_eq!((&*message.topic, &*message.payload), ("plant/command", "open"));
    while meter.next().is_some() {}
    let bytes = lamp.next().expect("what was published once the rights were mended");
    let Packet::Publish(message) = decode(Version::V5, &bytes) else { panic!("{bytes:?}") };
    assert_eq!((message.topic, message.payload), ("plant/lamp", &b"after"[..]));
    let get = |path| served.get(path, Some(&served.viewer));
    assert!(get("/api/v1/clients/meter-7").1.contains(r#""connection":null"#));
    assert_eq!(get("/api/v1/retained/plant/temperature").0, 404);
    assert_eq!(std::fs::read_to_string(&users).unwrap().lines().count(), 1, "bob is gone");
    let rights = std::fs::read_to_string(&rights).unwrap();
    assert!(rights.contains("user lamp\ntopic read plant/lamp\n"), "{rights}");
}

/// A client of a user who may not read what it subscribes to.
fn lamp(served: &Served) -> Blocking {
    let password = r#"{"password": "lamp"}"#;
    let put = served.ask_with("PUT", "/api/v1/users/lamp", Some(&served.admin), password);
    assert_eq!(put.0, 201, "{}", put.1);
    let (mut lamp, reason) = offer(&served.broker.address, "lamp-1", Some("lamp"));
    assert_eq!(reason, ReasonCode::Success);
    lamp.subscribe("plant/lamp", QoS::AtLeastOnce).unwrap();
    lamp
}

/// Fails unless the page showed what it was to show.
fn holds(seen: &Value) {
    assert_eq!((&seen["filter"], &seen["payload"]), (&json!("plant/7/+"), &json!("21.5")));
    assert_eq!(seen["secrets"], json!([true, true]));
    assert_eq!(seen["viewerOfConfig"], json!([true, true]), "no editor, but what runs");
    assert_eq!(seen["viewerOfDrain"], json!([true, true]), "a viewer's buttons are still");
    assert_eq!(seen["markup"], 0);
    assert_eq!(seen["isAlone"], true, "no page of a cluster");
    assert_eq!(seen["viewer"]["kick"], true, "a viewer's button is still");
    for (name, part) in SEEN {
        assert!(seen[*name].as_str().unwrap().contains(part), "{name}: {seen:#}");
    }
    assert!(seen["viewer"]["why"].as_str().unwrap().contains("a viewer's"), "{seen:#}");
}

/// What the browser has seen, while a client publishes without end.
fn use_while_one_talks(served: &Served, program: &Path, url: &str, options: &[&str]) -> Value {
    let mut talker = Blocking::connect(&served.broker.address, Version::V5).unwrap();
    talker.join("talker", None, &[]).unwrap();
    assert_eq!(talker.connack(), Some(ReasonCode::Success));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let publish = publish("talk", &[b'x'; 512], QoS::AtMostOnce);
            // Until all clients are sent away.
            while !is_over.load(Ordering::Relaxed) && talker.send(&publish).is_ok() {
                std::thread::sleep(Duration::from_millis(10));
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
