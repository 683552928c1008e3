//! The byte tables over TCP against `weir broker`, by `weir bench conformance`, and its page.

use crate::support::served::serve;
use crate::support::{Broker, tool};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_conformance::Version;

fn conformance(arguments: &[&str], out: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["bench", "conformance", "--out"])
        .arg(out)
        .args(arguments)
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

/// The one folder of a run.
fn kept(out: &Path) -> PathBuf {
    let folders: Vec<_> = std::fs::read_dir(out).unwrap().map(|entry| entry.unwrap()).collect();
    let [folder] = &folders[..] else { panic!("{folders:?}") };
    folder.path()
}

fn board(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("conformance.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()["brokers"][0]["board"].clone()
}

/// Every case passes on this broker, in every version.
fn all_pass(broker: &str) {
    passing(&["--broker", broker], &Version::ALL);
}

/// Every case of these versions passes.
fn passing(arguments: &[&str], versions: &[Version]) {
    let out = tempfile::tempdir().unwrap();
    let output = conformance(arguments, out.path());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let board = board(&kept(out.path()));
    let cases = board["cases"].as_array().unwrap();
    let all: usize = weir_conformance::tables()
        .unwrap()
        .iter()
        .flat_map(|(_, table)| &table.cases)
        .map(|case| case.versions.iter().filter(|version| versions.contains(version)).count())
        .sum();
    assert_eq!(cases.len(), all);
    for case in cases {
        assert_eq!(case["verdict"]["verdict"], "pass", "{case}");
    }
}

#[test]
fn weir_passes_every_case_over_tcp() {
    all_pass("weir");
}

#[test]
fn weir_passes_every_case_over_tcp_with_several_shards() {
    std::thread::scope(|scope| {
        for shards in [2, 4] {
            scope.spawn(move || {
                let folder = tempfile::tempdir().unwrap();
                let config = folder.path().join("weir.toml");
                std::fs::write(&config, format!("shards = {shards}\n")).unwrap();
                let broker = Broker::start_with(&["--config", config.to_str().unwrap()]);
                all_pass(&format!("mqtt://{}", broker.address));
            });
        }
    });
}

#[test]
fn weir_passes_every_case_over_tls_and_over_websocket_with_tls() {
    std::thread::scope(|scope| {
        // A broker that is running, with its certificate; and one that is given one.
        scope.spawn(|| {
            let folder = tempfile::tempdir().unwrap();
            let (_broker, url, authority) = serve("mqtts", folder.path());
            let line = ["--broker", &url, "--cafile", &authority.file(), "--mqtt", "3.1.1"];
            passing(&line, &[Version::V311]);
        });
        scope.spawn(|| passing(&["--transport", "wss", "--mqtt", "5.0"], &[Version::V5]));
    });
}

#[test]
fn a_transport_that_a_broker_does_not_speak_is_said_and_so_is_an_option_without_use() {
    let out = tempfile::tempdir().unwrap();
    for (line, part) in [
        (&["--broker", "mqtt://127.0.0.1:1", "--transport", "tls"][..], "transport tls: the URL"),
        (&["--broker", "weir", "--cafile", "x"], "--cafile: it is for brokers given as mqtts://"),
        (&["--broker", "mqtts://127.0.0.1:1", "--cafile", "/none"], "--cafile /none: "),
    ] {
        let output = conformance(line, out.path());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_browser_shows_the_scoreboard() {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let Some(browser) = tool(&names) else { return };
    let out = tempfile::tempdir().unwrap();
    let output = conformance(&["--broker", "weir", "--only", "v5-retain"], out.path());
    assert!(output.status.success());
    let page = kept(out.path()).join("report.html");
    let shown = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", out.path().join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8(shown.stdout).unwrap();
    assert!(dom.contains("no failing row"), "{dom}");
    let id = dom.find("MQTT-3.3.1-11").expect("the statement is listed");
    let row = &dom[id..id + dom[id..].find("</tr>").unwrap()];
    assert!(row.contains("holds"), "{row}");
    assert!(!dom.contains("http://") && !dom.contains("https://"), "it needs no network");
}

#[test]
fn a_part_of_a_name_that_no_case_has_is_said() {
    let out = tempfile::tempdir().unwrap();
    let output = conformance(&["--broker", "weir", "--only", "no-such-case"], out.path());
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("no case for these versions has \"no-such-case\" in its name"), "{said}");
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn each_of_several_brokers_keeps_its_log_and_one_that_does_not_start_is_told() {
    let out = tempfile::tempdir().unwrap();
    let brokers = ["--broker", "weir", "--broker", "weir@b", "--broker", "mine=false x"];
    let output = conformance(&[&brokers[..], &["--only", "v5-retain"]].concat(), out.path());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("mine unknown: INCOMPLETE: not run: conformance of mine"), "{said}");
    let plan = String::from_utf8(output.stderr).unwrap();
    assert!(plan.contains(" cases on weir, weir@b, mine; about "), "{plan}");
    let folder = kept(out.path());
    for log in ["1-weir", "2-weir-b", "3-mine"] {
        assert!(folder.join(log).join("broker.log").is_file(), "{log}");
    }
    let text = std::fs::read_to_string(folder.join("conformance.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["brokers"][1]["broker"]["name"], "Weir@b");
    assert!(json["brokers"][2]["cut"].as_str().unwrap().contains("does not answer MQTT"));
}
