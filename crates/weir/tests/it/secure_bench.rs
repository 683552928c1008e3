//! `weir bench run` over TLS and WebSocket, with users and rights: the books of every run close.

use crate::support::certificates::Authority;
use crate::support::results::results;
use crate::support::{Broker, command, tool};
use serde_json::Value;
use std::path::Path;

/// 20 pairs with these keys before their groups.
fn use_case(folder: &Path, keys: &str) -> String {
    let group = |name: &str, more: &str| {
        format!(
            "[[group]]\nname = \"{name}\"\nclients = 20\nscales = true\n\
             client_id = \"w{{run}}-{name}-{{i}}\"\n{more}\n"
        )
    };
    let text = format!(
        "name = \"pairs\"\nrevision = 1\nabout = \"a test\"\nmqtt_version = \"3.1.1\"\n\
         connect_rate_per_s = 100\nwarm_up_s = 0.2\nmeasure_s = 0.5\n{keys}\n{}{}",
        group("sub", "subscriptions = [{ filter = \"test/{i}\", qos = 1 }]"),
        group(
            "pub",
            "publish = { topic = \"test/{i}\", qos = 1, rate_per_s = 20, payload_bytes = 16 }"
        ),
    );
    let file = folder.join("pairs.toml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Runs it on these brokers, and says what came out. How fast it was is not judged here.
fn run(folder: &Path, keys: &str, brokers: &[&str], more: &[&str]) -> Vec<Value> {
    let (file, out) = (use_case(folder, keys), folder.join("out"));
    let brokers = brokers.iter().flat_map(|broker| ["--broker", broker]);
    let line = [&["bench", "run", &file, "--pin", "none"][..], more].concat();
    let line: Vec<&str> = line.into_iter().chain(brokers).collect();
    let output = command::weir(&line, &out);
    let results: Vec<Value> = results(&out).into_iter().map(|(result, _)| result).collect();
    std::fs::remove_dir_all(&out).unwrap();
    assert!(!results.is_empty(), "{output:?}");
    for result in &results {
        assert_ne!(result["verdict"]["status"], "failed", "{keys}: {}", result["verdict"]);
        assert_eq!(result["connections"]["connected"], 40, "{keys}: {}", result["verdict"]);
        for phase in ["warm_up", "measure"] {
            let of = |key: &str| result[phase][key].as_u64().unwrap();
            assert_eq!(of("sent"), of("accepted") + of("refused") + of("unacknowledged"));
            assert_eq!(of("expected"), of("delivered") + of("lost") + of("unaudited"), "{keys}");
            assert_eq!((of("lost"), of("refused"), of("stray")), (0, 0, 0), "{keys} {phase}");
        }
        assert!(result["measure"]["delivered"].as_u64() > Some(0));
    }
    results
}

fn brokers() -> Vec<&'static str> {
    let mosquitto = tool(&["mosquitto"]).map(|_| "mosquitto");
    std::iter::once("weir").chain(mosquitto).collect()
}

fn count(result: &Value, latency: &str) -> Option<u64> {
    result["latencies"][latency]["count"].as_u64()
}

fn handshakes(result: &Value) -> (u64, u64) {
    let of = |kind: &str| result["handshakes"][kind].as_u64().unwrap();
    (of("full"), of("resumed"))
}

#[test]
fn handshakes_are_timed_apart_over_tls_and_sessions_resumed_where_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for result in run(folder.path(), "transport = \"tls\"", &brokers(), &[]) {
        assert_eq!(handshakes(&result), (40, 0));
        for part in ["connect", "tcp_connect", "handshake", "connack"] {
            assert_eq!(count(&result, part), Some(40), "{part}");
        }
        let told = &result["disclosed"]["broker"]["tls"];
        assert_eq!(told, "TLS, handshakes: 40 full, 0 resumed");
    }
    for result in run(folder.path(), "transport = \"tls\"\n[tls]\nresume = true", &brokers(), &[]) {
        let (full, resumed) = handshakes(&result);
        assert_eq!(full + resumed, 40);
        assert!(resumed > 0, "{full} full");
    }
}

#[test]
fn clients_show_certificates_that_the_run_has_made() {
    let folder = tempfile::tempdir().unwrap();
    let keys = "transport = \"tls\"\n[tls]\nclient_certificates = 7";
    for result in run(folder.path(), keys, &brokers(), &[]) {
        assert_eq!(handshakes(&result), (40, 0));
        let configuration = result["broker"]["configuration"].as_str().unwrap();
        assert!(configuration.contains("require_certificate"), "{configuration}");
    }
}

#[test]
fn users_with_rights_come_in_over_websocket_and_tls() {
    let folder = tempfile::tempdir().unwrap();
    let keys = "transport = \"wss\"\n[access]\nusers = 5\nrules = 50";
    for result in run(folder.path(), keys, &brokers(), &[]) {
        assert_eq!(handshakes(&result), (40, 0));
        assert_eq!(result["disclosed"]["broker"]["authentication"], "user name and password");
    }
    for result in run(folder.path(), "transport = \"ws\"", &brokers(), &[]) {
        assert_eq!((handshakes(&result), count(&result, "handshake")), ((0, 0), Some(40)));
    }
}

#[test]
fn agents_get_what_they_need_by_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let keys = "transport = \"tls\"\n[tls]\nclient_certificates = 3";
    for result in run(folder.path(), keys, &["weir"], &["--agents", "2"]) {
        assert_eq!(handshakes(&result), (40, 0));
        assert_eq!(count(&result, "handshake"), Some(40));
    }
}

#[test]
fn a_broker_that_is_running_is_reached_by_a_url_with_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let (pair, file) = (authority.valid("broker"), folder.path().join("weir.toml"));
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[listener.tls]\ncertificate = {:?}\nkey = {:?}\n",
        pair.certificate, pair.key
    );
    std::fs::write(&file, text).unwrap();
    let broker = Broker::try_start(&[file.to_str().unwrap()]).unwrap();
    let url = format!("mqtts://{}", broker.address.split(' ').next().unwrap());
    let ca = authority.file();
    for result in run(folder.path(), "", &[&url], &["--cafile", &ca]) {
        assert_eq!(handshakes(&result), (40, 0));
    }
    // Not trusted: said before anything is measured.
    let other = Authority::new("b", folder.path()).file();
    let file = use_case(folder.path(), "");
    let line = ["bench", "run", &file, "--broker", &url, "--cafile", &other];
    let output = command::weir(&line, &folder.path().join("out"));
    let text = command::text(&output.stderr);
    assert!(!output.status.success() && text.contains("not trusted here"), "{text}");
}

#[test]
fn a_broker_without_such_a_listener_is_not_run_and_the_reason_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = use_case(folder.path(), "transport = \"tls\"");
    let line = ["bench", "run", &file, "--broker", "mqtt://127.0.0.1:1"];
    let output = command::weir(&line, &folder.path().join("out"));
    let text = command::text(&output.stdout) + &command::text(&output.stderr);
    assert!(text.contains("transport tls: the URL says tcp"), "{text}");
}
