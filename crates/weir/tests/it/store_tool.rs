//! `weir store`: what is in a broker's folder, and what goes on without what is damaged.

use crate::store::{is_acknowledged, join, publish, start, take};
use crate::support::blocking::Blocking;
use crate::support::command::text;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weir_wire::{Packet, QoS};

/// `weir store` with these arguments: its exit code, and what it printed on both.
pub(crate) fn tool(arguments: &[&str]) -> (i32, String, String) {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    let output = weir.arg("store").args(arguments).env("NO_COLOR", "1").output().unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// A store whose clients are away, each with five messages; the broker is killed.
fn kept(root: &Path) -> PathBuf {
    let store = root.join("store");
    let mut broker = start(&store, 1);
    for name in ["away-0", "away-1"] {
        let (mut of, _) = join(&broker.address, name);
        assert_eq!(of.subscribe("t/#", QoS::AtLeastOnce), Some(1));
    }
    let (mut publisher, _) = join(&broker.address, "publisher");
    for number in 0..5 {
        publish(&mut publisher, "t/a", &format!("message-{number}"), number + 1).unwrap();
        assert!(is_acknowledged(&mut publisher));
    }
    broker.child.kill().unwrap();
    broker.child.wait().unwrap();
    store
}

fn log_of(store: &Path) -> PathBuf {
    store.join("generation-1/0/0000000001.log")
}

/// Changes a bit of what is found in the file.
fn harm(file: &Path, found: &str) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(found.len()).position(|window| window == found.as_bytes()).unwrap();
    bytes[at] ^= 1;
    std::fs::write(file, &bytes).unwrap();
}

fn come(address: &str, client_id: &str, count: usize) -> Vec<String> {
    let (mut of, is_present) = join(address, client_id);
    assert!(is_present, "{client_id}");
    let came = (0..count).map(|_| take(&mut of).unwrap()).collect();
    is_empty(&mut of);
    came
}

/// Nothing more is on its way: the answer to a PINGREQ is the next packet.
fn is_empty(of: &mut Blocking) {
    of.send(&Packet::PingReq).unwrap();
    let is_answer = of.packet(|packet| matches!(packet, Packet::PingResp));
    assert_eq!(is_answer, Some(true));
}

#[test]
fn a_store_says_what_is_in_it_and_a_running_broker_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = kept(folder.path());
    let path = store.to_str().unwrap();
    let (code, said, _) = tool(&["check", path]);
    assert_eq!(code, 0, "{said}");
    let amounts =
        "3 sessions, 2 subscriptions, 10 queued messages, 0 in flight, 0 retained messages";
    assert!(said.contains(amounts) && said.contains("generation 1, 1 log"), "{said}");
    assert!(said.contains("whole: "), "{said}");
    // It was only looked at.
    assert_eq!(tool(&["check", path]).1, said);

    let broker = start(&store, 1);
    join(&broker.address, "somebody");
    for arguments in [&["check", path][..], &["dump", path], &["salvage", path]] {
        let (code, _, error) = tool(arguments);
        let is_refused = error.contains("in use by another process, such as a running broker");
        assert!(code == 2 && is_refused, "{arguments:?}: {error}");
    }
}

#[test]
fn what_is_no_store_is_said_to_be_none() {
    let folder = tempfile::tempdir().unwrap();
    let (code, _, error) = tool(&["check", folder.path().to_str().unwrap()]);
    assert!(code == 2 && error.contains("is not a store of Weir's"), "{error}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "nothing is made");
    let missing = folder.path().join("missing");
    let (code, _, error) = tool(&["salvage", missing.to_str().unwrap()]);
    assert!(code == 2 && error.contains("No such file") && !missing.exists(), "{error}");
    let file = folder.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let (code, _, error) = tool(&["dump", file.to_str().unwrap()]);
    assert!(code == 2 && error.contains("Not a directory"), "{error}");
}

/// What a start with this store says, which it refuses.
fn refused(store: &Path) -> String {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(["broker", "--listen", "127.0.0.1:0", "--store"]).arg(store).env("NO_COLOR", "1");
    let output = weir.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn a_generation_of_which_something_is_missing_is_refused_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = kept(folder.path());
    let path = store.to_str().unwrap();
    let aside = folder.path().join("aside");

    // One that was never written, or was copied in part, does not count for more than a whole one.
    let empty = store.join("generation-2");
    std::fs::create_dir(&empty).unwrap();
    for said in [refused(&store), tool(&["check", path]).2] {
        assert!(said.contains("generation-2: it has no file generation.json"), "{said}");
    }
    std::fs::remove_dir(&empty).unwrap();
    assert_eq!(tool(&["check", path]).0, 0, "the one before it is still there");

    std::fs::rename(store.join("generation-1/0"), &aside).unwrap();
    let said = refused(&store);
    assert!(said.contains("the log of thread 0 is not there"), "{said}");
    let (code, said, error) = tool(&["salvage", path]);
    assert!(code == 1 && said.contains("the log of thread 0 is not there"), "{said}{error}");
    start(&store, 1);
}

#[test]
fn logs_and_pages_of_another_store_are_refused() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (store, other) = (kept(folder.path()), kept(other.path()));
    let log = store.join("generation-1/0");
    std::fs::remove_dir_all(&log).unwrap();
    std::fs::rename(other.join("generation-1/0"), &log).unwrap();
    for said in [refused(&store), tool(&["check", store.to_str().unwrap()]).2] {
        assert!(said.contains("files in it are of another store"), "{said}");
    }
}

#[test]
fn a_folder_of_something_else_gets_no_store() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("data.txt"), "mine").unwrap();
    let said = refused(folder.path());
    assert!(said.contains(r#"is no store of Weir's, and not empty: it has "data.txt""#), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is made");
    let kept_in = tempfile::tempdir().unwrap();
    let said = refused(&kept(kept_in.path()).join("generation-1"));
    assert!(said.contains("is no store of Weir's, and not empty"), "{said}");
}

#[test]
fn records_and_what_they_amount_to_are_printed_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let store = kept(folder.path());
    let path = store.to_str().unwrap();
    let (code, said, error) = tool(&["dump", path]);
    assert_eq!(code, 0, "{error}");
    let records: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!((kinds("base"), kinds("session"), kinds("message"), kinds("queued")), (1, 3, 5, 10));
    let message = records.iter().find(|record| record["kind"] == "message").unwrap();
    assert_eq!((&message["topic"], &message["payload"]), (&"t/a".into(), &"message-0".into()));
    let queued = records.iter().find(|record| record["kind"] == "queued").unwrap();
    assert_eq!(queued["message"], message["lsn"]);

    let (code, said, _) = tool(&["dump", "--sessions", path]);
    let sessions: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, sessions.len()), (0, 3));
    assert_eq!(sessions[0]["client_id"], "away-0");
    assert_eq!(sessions[0]["subscriptions"][0]["filter"], "t/#");
    assert_eq!(sessions[0]["queue"][4]["message"]["payload"], "message-4");
    let (code, said, _) = tool(&["dump", "--retained", path]);
    assert_eq!((code, said.as_str()), (0, ""));
}

#[test]
fn a_dump_whose_reader_goes_away_ends_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let store = kept(folder.path());
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["store", "dump", store.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(weir.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let output = weir.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn a_damaged_store_names_what_to_do_and_is_salvaged_without_what_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let store = kept(folder.path());
    let path = store.to_str().unwrap();
    harm(&log_of(&store), "message-2");
    let damaged = std::fs::read(log_of(&store)).unwrap();
    let (code, said, _) = tool(&["check", path]);
    let file = log_of(&store).display().to_string();
    assert!(code == 1 && said.contains(&format!("DAMAGED: {file} is damaged at byte ")), "{said}");
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["broker", "--listen", "127.0.0.1:0", "--store", path])
        .output()
        .unwrap();
    let error = text(&output.stderr);
    for said in ["0000000001.log is damaged at byte ", "store check ", "store salvage "] {
        assert!(output.status.code() == Some(2) && error.contains(said), "{error}");
    }

    // To another folder: this one stays as it is.
    let other = folder.path().join("other");
    let (code, said, error) = tool(&["salvage", path, "--to", other.to_str().unwrap()]);
    assert_eq!(code, 1, "{said} {error}");
    for client in ["away-0", "away-1"] {
        assert!(said.contains(&format!("lost: a message for client {client:?}")), "{said}");
        assert!(said.contains(&format!("in doubt: client {client:?}")), "{said}");
    }
    assert_eq!(tool(&["check", other.to_str().unwrap()]).0, 0);
    assert_eq!(std::fs::read(log_of(&store)).unwrap(), damaged);

    // In its place.
    let (code, said, error) = tool(&["salvage", path]);
    assert_eq!(code, 1, "{said} {error}");
    let aside = store.join("generation-1.damaged");
    assert_eq!(std::fs::read(aside.join("0/0000000001.log")).unwrap(), damaged);
    let report = std::fs::read_to_string(aside.join("salvage.txt")).unwrap();
    assert!(said.starts_with(&report) && !report.is_empty(), "{said}");
    let (code, said, _) = tool(&["salvage", path]);
    assert!(code == 0 && said.contains("nothing is damaged"), "{said}");
    for store in [&store, &other] {
        let broker = start(store, 2);
        for client in ["away-0", "away-1"] {
            let came = come(&broker.address, client, 4);
            assert_eq!(came, ["message-0", "message-1", "message-3", "message-4"], "{client}");
        }
    }
    assert!(aside.join("0/0000000001.log").exists(), "a start removes no damaged generation");
}

#[test]
fn a_broker_that_is_told_to_salvage_starts_and_a_lost_session_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = kept(folder.path());
    harm(&log_of(&store), "away-1");
    let (_, said, _) = tool(&["check", store.to_str().unwrap()]);
    assert!(said.contains("DAMAGED"), "{said}");
    let arguments = ["--salvage", "--store", store.to_str().unwrap()];
    let broker = crate::support::Broker::start_with(&arguments);
    assert_eq!(come(&broker.address, "away-0", 5).len(), 5);
    assert!(!join(&broker.address, "away-1").1, "its session is lost");
    let report = store.join("generation-1.damaged/salvage.txt");
    let report = std::fs::read_to_string(report).unwrap();
    let lost = "lost: a session whose client identifier is lost";
    assert!(report.contains(lost) && report.contains("[\"t/#\"], with 5 messages"), "{report}");
}
