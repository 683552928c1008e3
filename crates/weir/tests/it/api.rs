//! The HTTP API over TCP, for whoever has a token.

use crate::support::certificates::Authority;
use crate::support::mqtt::Peer;
use crate::support::{Broker, WEB_SOCKET_REQUEST};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use weir_wire::QoS;

/// A broker that serves HTTP, with a token for each role.
pub(crate) struct Served {
    pub(crate) broker: Broker,
    pub(crate) viewer: String,
    pub(crate) admin: String,
    _folder: tempfile::TempDir,
}

/// A token, and the table for the broker's file.
fn token(role: &str) -> (String, String) {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = weir.args(["token", &format!("a {role}"), "--role", role]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let shown = String::from_utf8(output.stderr).unwrap();
    let token = shown.lines().map(str::trim).find(|line| line.len() == 43).unwrap();
    (token.to_owned(), String::from_utf8(output.stdout).unwrap())
}

impl Served {
    pub(crate) fn start(more: &str) -> Self {
        Self::by(more, &["--listen", "127.0.0.1:0"])
    }

    /// One that speaks WebSocket as well.
    pub(crate) fn with_websocket(more: &str) -> Self {
        let listeners = "[[listener]]\naddress = \"127.0.0.1:0\"\n\
                         [[listener]]\naddress = \"127.0.0.1:0\"\nwebsocket = true\n";
        Self::by(&format!("{more}\n{listeners}"), &[])
    }

    fn by(more: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ((viewer, viewers), (admin, admins)) = (token("viewer"), token("admin"));
        let file = folder.path().join("weir.toml");
        let http = "shards = 2\n[control]\nhttp = [\"127.0.0.1:0\"]\n";
        std::fs::write(&file, format!("{http}{more}\n{viewers}\n{admins}")).unwrap();
        let arguments = [arguments, &["--config", file.to_str().unwrap()]].concat();
        let broker = Broker::try_start(&arguments).expect("the broker ended before it listened");
        Self { broker, viewer, admin, _folder: folder }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        TcpStream::connect(self.broker.http.as_ref().unwrap()).unwrap()
    }

    pub(crate) fn join(&self, client_id: &str) -> Peer {
        Peer::client(&self.broker.address, client_id)
    }

    /// The status and the rest of an answer.
    pub(crate) fn ask(&self, method: &str, path: &str, token: Option<&str>) -> (u16, String) {
        exchange(self.connect(), method, path, token, "")
    }

    /// With a body, of JSON unless it is text.
    pub(crate) fn ask_with(
        &self,
        method: &str,
        path: &str,
        token: Option<&str>,
        body: &str,
    ) -> (u16, String) {
        exchange(self.connect(), method, path, token, body)
    }

    pub(crate) fn post(&self, path: &str, token: Option<&str>, body: &str) -> (u16, String) {
        exchange(self.connect(), "POST", path, token, body)
    }

    pub(crate) fn get(&self, path: &str, token: Option<&str>) -> (u16, String) {
        self.ask("GET", path, token)
    }
}

pub(crate) fn exchange(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &str,
) -> (u16, String) {
    let shown = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
    let shown = shown.unwrap_or_default();
    let length = match method {
        "POST" | "PUT" => {
            format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
        }
        _ => String::new(),
    };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: broker\r\n{shown}{length}Connection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

#[test]
fn nothing_is_told_without_a_token_but_that_the_broker_is_there() {
    let served = Served::start("");
    for path in ["/healthz", "/readyz"] {
        assert_eq!(served.get(path, None).0, 200, "{path}");
    }
    let paths = ["/metrics", "/api/v1/clients", "/api/v1/counters", "/api/v1/clients/a", "/x"];
    for path in paths {
        for token in [None, Some(""), Some("x"), Some(&served.viewer[1..])] {
            let (status, answer) = served.get(path, token);
            assert_eq!(status, 401, "{path}");
            assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{answer}");
        }
    }
    for (path, status) in [("/metrics", 200), ("/api/v1/counters", 200), ("/x", 404)] {
        assert_eq!(served.get(path, Some(&served.viewer)).0, status, "{path}");
        assert_eq!(served.get(path, Some(&served.admin)).0, status, "{path}");
    }
}

#[test]
fn a_viewer_changes_nothing() {
    let served = Served::start("");
    let kick = |token| served.ask("DELETE", "/api/v1/clients/nobody", token).0;
    assert_eq!(
        (kick(None), kick(Some(&served.viewer)), kick(Some(&served.admin))),
        (401, 403, 404)
    );
    let moves = |token| served.ask("PUT", "/api/v1/partitions/7?shard=9", token).0;
    assert_eq!((moves(Some(&served.viewer)), moves(Some(&served.admin))), (403, 400));
}

#[test]
fn metrics_have_every_counter_and_may_be_open() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("[store]\npath = {:?}", folder.path().join("store"));
    let served = Served::start(&format!("metrics_without_token = true\n{store}"));
    let (status, text) = served.get("/metrics", None);
    assert_eq!(status, 200);
    assert!(text.contains("text/plain; version=0.0.4"), "{text}");
    assert!(text.contains("weir_connections_opened_total{shard=\"1\"} "), "{text}");
    let (_, counters) = served.get("/api/v1/counters", Some(&served.viewer));
    let json = counters.split_once("\r\n\r\n").unwrap().1;
    let counters: serde_json::Value = serde_json::from_str(json).unwrap();
    let samples = text.lines().filter(|line| line.starts_with("weir_"));
    let process = counters["process"].as_object().unwrap().len();
    let shard = counters["shards"][0].as_object().unwrap().len() - 1;
    let buckets = |of: &serde_json::Value| of["counts"].as_array().unwrap().len();
    let histograms = counters["histograms"].as_object().unwrap().values();
    // Each with its sum and its count.
    let histograms: usize = histograms.map(|of| buckets(of) + 2).sum();
    // A counter without a place in a family would be missing. Version and uptime are no counters.
    assert_eq!(samples.count(), process + 2 * (shard + histograms) + 2, "{text}\n{counters:#}");
}

#[test]
fn metrics_tell_transports_versions_qos_and_latency_apart() {
    let served = Served::with_websocket("mosquitto_names = true");
    let mut reader = served.join("reader");
    reader.subscribe("a", QoS::AtLeastOnce);
    let mut browser = TcpStream::connect(served.broker.websocket.as_ref().unwrap()).unwrap();
    browser.write_all(WEB_SOCKET_REQUEST.as_bytes()).unwrap();
    assert!(browser.read(&mut [0; 512]).unwrap() > 0);
    for qos in [0, 1, 1] {
        let message = format!(r#"{{"topic": "a", "payload": "x", "qos": {qos}}}"#);
        assert_eq!(served.post("/api/v1/publish", Some(&served.admin), &message).0, 202);
        reader.message();
    }
    let (_, text) = served.get("/metrics", Some(&served.viewer));
    // Sums over all threads.
    let sum = |name: &str, label: &str| -> f64 {
        let samples = text.lines().filter(|line| line.starts_with(name) && line.contains(label));
        samples.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    for (name, label, value) in [
        ("weir_connections_carried{", r#"transport="tcp""#, 1.0),
        ("weir_connections_carried{", r#"transport="ws""#, 1.0),
        ("weir_connections_carried{", r#"transport="tls""#, 0.0),
        ("weir_clients_connected{", r#"version="3.1.1""#, 1.0),
        ("weir_publishes_sent_by_qos_total{", r#"qos="0""#, 1.0),
        ("weir_publishes_sent_by_qos_total{", r#"qos="1""#, 2.0),
        ("weir_latency_seconds_count{", "", 3.0),
        ("broker_clients_connected", "", 1.0),
    ] {
        assert_eq!(sum(name, label), value, "{name}{label}\n{text}");
    }
    assert!(sum("weir_latency_seconds_sum{", "") > 0.0, "{text}");
    assert!(sum("weir_turn_seconds_count{", "") > 3.0, "{text}");
}

#[test]
fn it_is_served_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("a", folder.path());
    let pair = authority.valid("broker");
    let served = Served::start(&format!(
        "[control.tls]\ncertificate = {:?}\nkey = {:?}",
        pair.certificate, pair.key
    ));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.file()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let tls = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = StreamOwned::new(tls, served.connect());
    let (status, _) = exchange(stream, "GET", "/api/v1/clients", Some(&served.viewer), "");
    assert_eq!(status, 200);
    // Who speaks no TLS harms nobody.
    let mut plain = served.connect();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest);
    assert!(!rest.starts_with(b"HTTP"), "{rest:?}");
}

#[test]
fn no_address_has_all_places() {
    let served = Served::start("");
    let held: Vec<_> = (0..200).map(|_| served.connect()).collect();
    // Over its bound, an address is cut off.
    let cut = held.iter().filter(|stream| {
        let mut stream = *stream;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n").is_err()
            || !matches!(stream.read(&mut [0; 4]), Ok(4))
    });
    assert!(cut.count() >= 200 - 2 * 32);
    drop(held);
    assert_eq!(served.get("/api/v1/clients", Some(&served.viewer)).0, 200);
}

/// The JSON of an answer.
pub(crate) fn json(answer: &str) -> serde_json::Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn messages_are_published_kept_shown_and_cleared() {
    let served = Served::start("");
    let (viewer, admin) = (Some(&*served.viewer), Some(&*served.admin));
    let mut subscriber = served.join("reader");
    subscriber.subscribe("sensors/1", QoS::AtLeastOnce);
    let publish = |token, body: &str| served.post("/api/v1/publish", token, body).0;
    let hello = r#"{"topic": "sensors/1", "payload": "21.5", "qos": 1, "retain": true}"#;
    assert_eq!((publish(None, hello), publish(viewer, hello)), (401, 403));
    assert_eq!(publish(admin, hello), 202);
    let message = subscriber.message();
    assert_eq!(
        (&*message.topic, &*message.payload, message.qos),
        ("sensors/1", "21.5", QoS::AtLeastOnce)
    );
    for bad in [
        "",
        "[]",
        r#"{"topic": "a/#", "payload": ""}"#,
        r#"{"topic": "a", "qos": 3}"#,
        r#"{"topic": "$SYS/broker/version"}"#,
        r#"{"topic": "a", "payload": "x", "payload_encoding": "base64"}"#,
        r#"{"topic": "a", "surprise": 1}"#,
    ] {
        let status = publish(admin, bad);
        assert!((400..500).contains(&status), "{bad}: {status}");
    }
    let bulk = r#"[{"topic": "sensors/2", "payload": "/wA=", "payload_encoding": "base64",
                    "retain": true},
                   {"topic": "sensors/3", "payload": "x", "retain": true}]"#;
    assert_eq!(served.post("/api/v1/publish/bulk", admin, bulk).0, 202);
    let list = json(&served.get("/api/v1/retained?filter=sensors/%2B&limit=2", viewer).1);
    let rest = format!(
        "/api/v1/retained?filter=sensors/%2B&cursor={}",
        list["cursor"].as_str().unwrap_or("1-z")
    );
    let rest = json(&served.get(&rest, viewer).1);
    let mut topics: Vec<_> = [&list, &rest]
        .iter()
        .flat_map(|page| page["messages"].as_array().unwrap())
        .map(|message| message["topic"].as_str().unwrap().to_owned())
        .collect();
    topics.sort();
    assert_eq!(topics, ["sensors/1", "sensors/2", "sensors/3"]);
    let one = json(&served.get("/api/v1/retained/sensors/2", viewer).1);
    assert_eq!((&one["payload"], &one["payload_bytes"]), (&"/wA=".into(), &2.into()));
    let clear = |token| served.ask("DELETE", "/api/v1/retained/sensors%2F2", token).0;
    assert_eq!((clear(viewer), clear(admin), clear(admin)), (403, 204, 404));
}

#[test]
fn subscriptions_are_shown_and_a_session_is_ended_with_them() {
    let served = Served::start("");
    let (viewer, admin) = (Some(&*served.viewer), Some(&*served.admin));
    let mut client = served.join("a b");
    client.subscribe("sensors/+", QoS::AtLeastOnce);
    client.subscribe("$share/group/x", QoS::AtMostOnce);
    let path = "/api/v1/clients/a%20b/subscriptions";
    let page = json(&served.get(&format!("{path}?limit=1"), viewer).1);
    let next = page["cursor"].as_u64().unwrap();
    let rest = json(&served.get(&format!("{path}?limit=1&cursor={next}"), viewer).1);
    let mut filters: Vec<_> = [&page, &rest]
        .iter()
        .map(|page| page["subscriptions"][0]["filter"].as_str().unwrap().to_owned())
        .collect();
    filters.sort();
    assert_eq!(filters, ["$share/group/x", "sensors/+"]);
    assert_eq!(rest["cursor"], serde_json::Value::Null);
    let listed = |query: &str| {
        let list = json(&served.get(&format!("/api/v1/clients?{query}"), viewer).1);
        list["clients"].as_array().unwrap().len()
    };
    assert_eq!((listed("id=a"), listed("id=z"), listed("state=connected")), (1, 0, 1));
    assert_eq!((listed("state=absent"), listed("user=ann")), (0, 0));
    let end = |token| served.ask("DELETE", "/api/v1/sessions/a%20b", token).0;
    assert_eq!((end(viewer), end(admin), end(admin)), (403, 204, 404));
    assert_eq!(client.packet(), None);
    assert_eq!(served.get("/api/v1/clients/a%20b", viewer).0, 404);
}

#[test]
fn other_hosts_take_tls_or_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, "[control]\nhttp = [\"0.0.0.0:0\"]\n").unwrap();
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = weir.args(["broker", "--check", file.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && text.contains("allow_plain"), "{text}");
}
