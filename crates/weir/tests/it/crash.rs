//! `weir bench crash`: over every transport, and by `--step power-cut`. That says in a line where
//! it cannot be done, and where it can it finds what was not synced, and leaves nothing behind.

use crate::support::command::{self, text};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

fn crash(out: &Path, broker: &str) -> Output {
    let mut command = Command::new(WEIR);
    command.args(["bench", "crash", "--step", "power-cut", "--kills", "3", "--seed", "5"]);
    command.args(["--publishers", "3", "--subscribers", "4", "--messages", "1000"]);
    command.args(["--broker", broker, "--out"]).arg(out).env_remove("WEIR_LOG");
    command.output().unwrap()
}

#[test]
fn clients_come_back_over_tls_and_websocket() {
    let folder = tempfile::tempdir().unwrap();
    let line =
        "bench crash --transport wss --kills 1 --publishers 2 --subscribers 2 --messages 300";
    let line: Vec<&str> = line.split(' ').collect();
    let output = command::weir(&line, folder.path());
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("over wss"), "{}", text(&output.stdout));
    let run = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let kept = std::fs::read_to_string(run.join("crash.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["transport"], "wss");
    // That the broker had no other listener.
    let configuration = kept["broker"]["configuration"].as_str().unwrap();
    assert!(configuration.contains("broker-access/broker.pem"), "{configuration}");
    assert!(kept["tally"]["qos"][0]["acknowledged"].as_u64() > Some(0), "{kept}");
}

#[test]
fn a_broker_that_is_running_cannot_be_crashed() {
    let folder = tempfile::tempdir().unwrap();
    let line = ["bench", "crash", "--broker", "mine=wss://me:secret@127.0.0.1:1"];
    let output = command::weir(&line, folder.path());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("mine=wss://me:***@127.0.0.1:1: a broker that is already"), "{said}");
}

/// A program that runs the broker with commits that are not synced.
fn unsynced(folder: &Path) -> String {
    let path = folder.join("unsynced");
    let script = format!(
        "#!/bin/sh\nprintf 'listen = [\"%s\"]\\n[store]\\npath = \"%s/store\"\\n\
         durability = \"write\"\\n' \"$1\" \"$2\" >config.toml\n\
         exec {WEIR} broker --config config.toml\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    format!("unsynced={} {{address}} {{data}}", path.display())
}

#[test]
fn a_power_cut_takes_what_was_not_synced_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = crash(&out, "weir");
    if output.status.code() == Some(2) {
        // Where it is not root, or has no loop devices, or no program for it.
        let said = text(&output.stderr);
        assert!(said.contains("a power cut ") && said.trim().lines().count() == 1, "{said}");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let output = crash(&out, &unsynced(folder.path()));
    assert_eq!(output.status.code(), Some(1), "{}{}", text(&output.stdout), text(&output.stderr));
    let left = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!left.contains(&*folder.path().to_string_lossy()), "{left}");
    for run in std::fs::read_dir(&out).unwrap() {
        let run = run.unwrap().path();
        assert!(!run.join("power-cut.img").exists() && !run.join("broker-data").exists());
    }
}

#[test]
fn a_broker_whose_data_is_elsewhere_is_not_taken_for_one_that_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = crash(folder.path(), &format!("mine={WEIR} broker --listen {{address}}"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("has to name {data}") || said.contains("a power cut "), "{said}");
}
