//! `weir ctl` as a process, against `weir broker` with a control socket.

use crate::support::asked::{Asked, ctl, said};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output};

fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn clients_are_listed_as_a_table_and_as_lines_of_json() {
    let asked = Asked::start(|_| String::new());
    let _clients: Vec<_> = (0..30).map(|at| asked.join(&format!("c{at:02}"), true)).collect();
    let _evil = asked.join("\u{1b}[2J", true);
    let table = said(&asked.ctl(&["clients"]));
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("MQTT ") && lines[0].ends_with("CLIENT"), "{table}");
    assert_eq!((lines.len(), lines[32]), (33, "31 clients"));
    let line = lines.iter().find(|line| line.ends_with("c07")).unwrap();
    assert_eq!(*line, "3.1.1         60 s       0        0          0  c07");
    assert!(table.contains("\\u{1b}[2J") && !table.contains('\u{1b}'), "{table}");

    assert!(said(&asked.ctl(&["clients", "--limit", "7"])).ends_with("\n7 clients\n"));
    let json = said(&asked.ctl(&["clients", "--json"]));
    let mut ids: Vec<String> = json
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|client| client["client_id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    assert_eq!((ids.len(), ids[0].as_str(), ids[1].as_str()), (31, "\u{1b}[2J", "c00"));
}

#[test]
fn a_client_is_shown_and_kicked_and_its_session_stays() {
    let asked = Asked::start(|_| String::new());
    let mut client = asked.join("meter/7", false);
    let shown = said(&asked.ctl(&["client", "meter/7"]));
    let expected = "client         meter/7\n\
                    connection     MQTT 3.1.1, keep alive 60 s\n\
                    session        never expires\n\
                    subscriptions  0\n\
                    queued         0 messages, 0 bytes\n\
                    in flight      0\n";
    assert_eq!(shown, expected);
    assert_eq!(said(&asked.ctl(&["kick", "meter/7"])), "");
    assert_eq!(client.packet(), None, "the end of the stream");
    let shown = said(&asked.ctl(&["client", "meter/7"]));
    assert!(shown.contains("connection     none; the session is kept"), "{shown}");
    let text = refused(&asked.ctl(&["kick", "meter/7"]), 1);
    assert!(text.contains("\"meter/7\" is not connected"), "{text}");
    for command in ["client", "kick"] {
        let text = refused(&asked.ctl(&[command, "nobody"]), 1);
        assert_eq!(text, "weir: there is no client \"nobody\"\n");
    }
}

#[test]
fn partitions_are_shown_and_moved() {
    let asked = Asked::start(|_| String::new());
    let client = asked.join("c", true);
    let shown = said(&asked.ctl(&["partitions"]));
    let lines: Vec<Vec<_>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["SHARD", "PARTITIONS", "SESSIONS"]);
    assert_eq!(
        (lines[1][..2].to_vec(), lines[2][..2].to_vec()),
        (vec!["0", "128"], vec!["1", "128"])
    );
    assert_eq!(said(&asked.ctl(&["move", "7", "0"])), "");
    let json: Value = serde_json::from_str(&said(&asked.ctl(&["partitions", "--json"]))).unwrap();
    assert_eq!(json["shards"][0]["held"].as_array().unwrap().len(), 129);
    let text = refused(&asked.ctl(&["move", "7", "0"]), 2);
    assert!(text.contains("shard 0 holds partition 7"), "{text}");
    let text = refused(&asked.ctl(&["move", "7", "2"]), 2);
    assert!(text.contains("there is no shard 2: they are 0 to 1"), "{text}");
    let text = refused(&asked.ctl(&["move", "256", "0"]), 2);
    assert!(text.contains("256"), "{text}");
    drop(client);
}

#[test]
fn counters_are_shown_for_each_shard_and_all() {
    let asked = Asked::start(|_| String::new());
    let _clients: Vec<_> = (0..9).map(|at| asked.join(&format!("c{at}"), true)).collect();
    let table = said(&asked.ctl(&["counters"]));
    let head: Vec<_> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["SUM", "SHARD", "0", "SHARD", "1", "COUNTER"]);
    let line = table.lines().find(|line| line.ends_with("  sessions")).unwrap();
    assert!(line.trim().starts_with("9 "), "{table}");
    let json: Value = serde_json::from_str(&said(&asked.ctl(&["counters", "--json"]))).unwrap();
    assert_eq!(json["sum"]["sessions"], 9);
    assert_eq!(json["shards"].as_array().unwrap().len(), 2);
    for counter in ["accept_errors", "log_lines_left_out"] {
        assert_eq!((&json["sum"][counter], &json["shards"][1][counter]), (&0.into(), &0.into()));
    }
    assert_eq!(json["process"]["log_lines_lost"], 0);
}

#[test]
fn who_finds_no_broker_is_told_how_to_switch_it_on() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("none");
    let text = refused(&ctl(&socket, &["clients"]), 2);
    assert!(text.contains("[control]") && text.contains(socket.to_str().unwrap()), "{text}");
}

#[test]
fn a_broker_whose_socket_is_in_use_says_so_and_does_not_start() {
    let asked = Asked::start(|_| String::new());
    let file = asked.socket.with_file_name("weir.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["broker", "--listen", "127.0.0.1:0", "--config"])
        .arg(file)
        .output()
        .unwrap();
    let text = refused(&output, 2);
    assert!(text.contains("another process listens on"), "{text}");
    assert!(said(&asked.ctl(&["clients"])).ends_with("\n0 clients\n"));
}

/// `weir ctl` with a server that gives each request this answer.
fn ctl_of(status: &str, body: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("ctl");
    let listener = UnixListener::bind(&socket).unwrap();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    // It ends with the process: whoever asks without end is answered without end.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let output = ctl(&socket, arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_server_that_is_no_broker_is_found_out() {
    let text = ctl_of("200 OK", r#"{"clients":[],"cursor":"0-1"}"#, &["clients", "--json"]);
    assert_eq!(text, "weir: the broker sent the same part of the list twice\n");
    for arguments in [&["kick", "c"][..], &["move", "1", "0"]] {
        let text = ctl_of("200 OK", "{}", arguments);
        assert_eq!(text, "weir: the broker answered with status 200 of HTTP\n");
    }
    let error = r#"{"error":"\u001b[31mno \"\\u{1b}\"\nfake"}"#;
    for arguments in [&["kick", "c"][..], &["clients"], &["counters"]] {
        let text = ctl_of("500 Broken", error, arguments);
        assert_eq!(text, "weir: \\u{1b}[31mno \"\\u{1b}\"\\nfake\n");
    }
}

#[test]
fn files_are_read_again_and_one_that_cannot_be_used_is_named() {
    let mut rights = PathBuf::new();
    let asked = Asked::start(|folder| {
        rights = folder.join("rights");
        std::fs::write(&rights, "topic read a/#\n").unwrap();
        format!("[auth]\nacl_file = {rights:?}\n")
    });
    let reload = || asked.ctl(&["reload"]);
    let read = said(&reload());
    let lines: Vec<_> = read.lines().collect();
    assert!(lines[0].starts_with("read again: the configuration "), "{read}");
    assert_eq!(lines[1..], ["read again: users, rights and bans"]);
    std::fs::write(&rights, "topic sing a/#\n").unwrap();
    let refusal = refused(&reload(), 2);
    assert!(refusal.contains("as it was: users, rights and bans") && refusal.contains("rights"));
    assert!(refusal.contains("line 1") || refusal.contains(":1"), "{refusal}");
    std::fs::write(&rights, "topic read b/#\n").unwrap();
    assert!(said(&reload()).starts_with("read again"));
}

#[test]
fn health_is_an_exit_code_for_a_container() {
    let mut asked = Asked::start(|_| String::new());
    assert_eq!(said(&asked.ctl(&["health"])), "ready\n");
    asked.broker.child.kill().unwrap();
    asked.broker.child.wait().unwrap();
    assert!(refused(&asked.ctl(&["health"]), 1).contains("no broker serves"));
}
