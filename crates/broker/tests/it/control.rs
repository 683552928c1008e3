//! A broker that is asked over its control socket, as a process with one thread and with several.

use crate::support::{Broker, Client};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use weir_broker::{Config, ControlConfig, ServeError, Server};
use weir_control::{CallError, Caller, ControlError, SocketError};
use weir_wire::{Packet, Property, QoS, ReasonCode};

/// A broker with a socket in a folder of its own.
struct Asked {
    broker: Broker,
    caller: Caller,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

fn config(shards: u16, socket: &Path) -> Config {
    let control = ControlConfig { socket: Some(socket.into()), ..ControlConfig::default() };
    Config { shards, control, ..Config::default() }
}

impl Asked {
    fn start(shards: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("ctl");
        let broker = Broker::start(config(shards, &socket));
        let caller = Caller::new(&socket).unwrap();
        Self { broker, caller, socket, _folder: folder }
    }

    fn get(&self, path: &str) -> (u16, Value) {
        let reply = self.caller.get(path).unwrap();
        (reply.status, serde_json::from_slice(&reply.body).unwrap())
    }

    fn join(&self, client_id: &str, properties: &[Property<'_>]) -> Client {
        let mut client = self.broker.connect(client_id, properties);
        assert_eq!(client.connack(), Some(ReasonCode::Success));
        client
    }

    /// Every client, by pages of so many; and how many pages that took.
    fn listed(&self, limit: usize) -> (Vec<String>, usize) {
        let (mut ids, mut cursor, mut pages) = (Vec::new(), String::new(), 0);
        loop {
            let (status, page) = self.get(&format!("/api/v1/clients?limit={limit}{cursor}"));
            assert_eq!(status, 200, "{page}");
            let clients = page["clients"].as_array().unwrap();
            assert!(clients.len() <= limit);
            ids.extend(clients.iter().map(|c| c["client_id"].as_str().unwrap().to_owned()));
            pages += 1;
            let Some(next) = page["cursor"].as_str() else { return (ids, pages) };
            cursor = format!("&cursor={next}");
        }
    }
}

#[test]
fn every_client_is_listed_once_in_pages_over_all_shards() {
    for shards in [1, 4] {
        let asked = Asked::start(shards);
        assert_eq!(asked.listed(10), (vec![], 1));
        let all: BTreeSet<String> = (0..50).map(|at| format!("client-{at}")).collect();
        let _clients: Vec<_> = all.iter().map(|id| asked.join(id, &[])).collect();
        for limit in [1, 7, 1_000] {
            let (ids, pages) = asked.listed(limit);
            assert_eq!(ids.len(), all.len(), "pages of {limit}");
            assert_eq!(ids.into_iter().collect::<BTreeSet<_>>(), all);
            assert!(pages >= 50 / limit, "{pages} pages of {limit}");
        }
    }
}

/// What is hard to write in a path, or to print.
const IDS: &[&str] =
    &["plain", "a/b", "..", "%2F", "?x=1&y", "#", " ", "Zähler 7", "計器", "\u{1b}[31m", "a\\b"];

#[test]
fn one_client_is_shown_whatever_its_identifier_is() {
    for shards in [1, 4] {
        let asked = Asked::start(shards);
        for id in IDS {
            let mut client = asked.join(id, &[Property::SessionExpiryInterval(60)]);
            client.subscribe("a/+", QoS::AtLeastOnce);
            let (status, shown) = asked.get(&Caller::client_path(id));
            assert_eq!(status, 200, "{id:?}");
            let expected = json!({
                "client_id": id,
                "user": null,
                "connection": { "version": "5.0", "keep_alive_s": 0 },
                "session_expiry_s": 60,
                "subscriptions": 1,
                "queued_messages": 0,
                "queued_bytes": 0,
                "in_flight": 0,
            });
            assert_eq!(shown, expected);
            assert_eq!(asked.get(&Caller::client_path(&format!("{id}x"))).0, 404);
        }
    }
}

#[test]
fn a_kicked_client_is_told_why_and_its_session_stays_if_it_may() {
    for shards in [1, 4] {
        let asked = Asked::start(shards);
        for id in IDS {
            let path = Caller::client_path(id);
            let mut client = asked.join(id, &[Property::SessionExpiryInterval(60)]);
            assert_eq!(asked.caller.delete(&path).unwrap().status, 204, "{id:?}");
            let reason = client.packet(|packet| match packet {
                Packet::Disconnect(disconnect) => disconnect.reason,
                other => panic!("{other:?}"),
            });
            assert_eq!(reason, Some(ReasonCode::AdministrativeAction));
            assert!(client.ended());
            let (status, shown) = asked.get(&path);
            assert_eq!((status, &shown["connection"]), (200, &Value::Null));
            let again = asked.caller.delete(&path).unwrap();
            let text = String::from_utf8(again.body).unwrap();
            assert!(again.status == 404 && text.contains("not connected"), "{text}");
        }
        assert_eq!(asked.caller.delete(&Caller::client_path("nobody")).unwrap().status, 404);
    }
}

#[test]
fn counters_are_of_each_shard_and_of_all() {
    for shards in [1, 4] {
        let asked = Asked::start(shards);
        let _clients: Vec<_> = (0..20).map(|at| asked.join(&format!("c{at}"), &[])).collect();
        let (status, counters) = asked.get("/api/v1/counters");
        assert_eq!(status, 200);
        assert_eq!(counters["sum"]["sessions"], 20, "{counters}");
        assert_eq!(counters["sum"]["answers_dropped"], 0);
        let own = counters["shards"].as_array().unwrap();
        let sessions: u64 = own.iter().map(|shard| shard["sessions"].as_u64().unwrap()).sum();
        assert_eq!((own.len(), sessions), (shards.into(), 20));
        assert!(counters["process"]["rss_bytes"].as_u64().unwrap() > 0);
    }
}

#[test]
fn a_request_that_cannot_be_is_refused_with_what_is_wrong() {
    let asked = Asked::start(1);
    for (path, status, text) in [
        ("/api/v1/clients?limit=0", 400, "1 to 1000"),
        ("/api/v1/clients?limit=1001", 400, "1 to 1000"),
        ("/api/v1/clients?limit=x", 400, "limit"),
        ("/api/v1/clients?max=5", 400, "max"),
        ("/api/v1/clients?cursor=7", 400, "cursor"),
        ("/api/v1/clients?cursor=1-0", 400, "cursor"),
        ("/api/v1/clients/%ff", 400, "UTF-8"),
        ("/api/v2/clients", 404, "no such path"),
    ] {
        let (found, body) = asked.get(path);
        let error = body["error"].as_str().unwrap();
        assert!(found == status && error.contains(text), "{path}: {found} {error}");
    }
    assert_eq!(asked.caller.delete("/healthz").unwrap().status, 405);
    assert_eq!(asked.caller.get("/healthz").unwrap().body, b"ok\n");
    for (request, status) in [
        ("GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n", "413"),
        ("GET /healthz HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n", "413"),
        (&format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(20_000)), "431"),
        (&format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", "x".repeat(20_000)), "431"),
    ] {
        let mut stream = UnixStream::connect(&asked.socket).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer.ends_with(status.as_bytes()), "{}", String::from_utf8_lossy(&answer));
    }
}

#[test]
fn clients_of_the_socket_that_stall_keep_no_mqtt_client_waiting() {
    let asked = Asked::start(4);
    let mut clients: Vec<_> = (0..50).map(|at| asked.join(&format!("c{at}"), &[])).collect();
    // Those that are served at a time send half a request, or read no answer; more wait.
    let mut stalled = Vec::new();
    for at in 0..32 {
        let mut stream = UnixStream::connect(&asked.socket).unwrap();
        let request = "GET /api/v1/clients HTTP/1.1\r\nhost: x\r\n\r\n".repeat(200);
        let request = if at % 2 == 0 { "GET /api/v1/cl" } else { &request };
        stream.set_nonblocking(true).unwrap();
        // As much as there is room for.
        let _ = stream.write(request.as_bytes());
        stalled.push(stream);
    }
    for round in 0..20 {
        for client in &mut clients {
            client.send(&[0xC0, 0]);
            let is_there = client.packet(|packet| matches!(packet, Packet::PingResp));
            assert_eq!(is_there, Some(true), "round {round}");
        }
    }
}

#[test]
fn the_socket_is_the_owners_alone_and_goes_with_the_broker() {
    let asked = Asked::start(1);
    let mode = std::fs::metadata(&asked.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let Asked { broker, caller, socket, _folder } = asked;
    drop(broker);
    assert!(!socket.exists());
    assert!(matches!(caller.get("/healthz"), Err(CallError::Nobody(_))));
}

#[test]
fn an_old_socket_is_replaced_and_one_in_use_or_another_file_is_not() {
    let asked = Asked::start(1);
    let listen = vec!["127.0.0.1:0".into()];
    let bind = |socket: &Path| {
        let config = Config { listen: listen.clone(), ..config(1, socket) };
        Server::bind(&config).map(drop)
    };
    let in_use = bind(&asked.socket);
    assert!(
        matches!(in_use, Err(ServeError::Control(ControlError::Socket(SocketError::InUse { .. })))),
        "{in_use:?}"
    );
    assert_eq!(asked.caller.get("/healthz").unwrap().status, 200, "it is still there");

    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old");
    drop(UnixListener::bind(&old).unwrap());
    bind(&old).unwrap();
    assert!(!old.exists(), "it was ours, and we are gone");

    // Another file, with what somebody needs.
    let file = folder.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let refused = bind(&file);
    assert!(
        matches!(
            refused,
            Err(ServeError::Control(ControlError::Socket(SocketError::NoSocket { .. })))
        ),
        "{refused:?}"
    );
    assert_eq!(std::fs::read(&file).unwrap(), b"x");
    let refused = bind(&folder.path().join("none/ctl")).unwrap_err().to_string();
    assert!(refused.contains("folder"), "{refused}");
}

#[test]
fn a_socket_that_another_broker_has_by_now_stays() {
    let first = Asked::start(1);
    std::fs::remove_file(&first.socket).unwrap();
    let listener = UnixListener::bind(&first.socket).unwrap();
    let Asked { broker, socket, _folder, .. } = first;
    drop(broker);
    assert!(std::fs::metadata(&socket).unwrap().file_type().is_socket());
    drop(listener);
}
