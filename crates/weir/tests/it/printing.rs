//! Every command prints, or cannot: nobody reads any more, or the disk is full. None panics.

use crate::support::{Broker, command};
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// What `panic!` ends with.
const PANICKED: i32 = 101;

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// A pipe without a reader.
fn closed() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

fn code(arguments: &[&str], stdout: Stdio, stderr: Stdio) -> i32 {
    let mut command = Command::new(WEIR);
    command.args(arguments).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    command.env_remove("WEIR_LOG").status().unwrap().code().unwrap()
}

#[test]
fn no_command_panics_for_want_of_a_reader() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good.toml"), folder.path().join("bad.toml"));
    let rule = "[[flow]]\nname = \"count\"\nfrom = \"#\"\naction = \"count\"\n";
    std::fs::write(&good, rule).unwrap();
    std::fs::write(&bad, "[[flow]]\n").unwrap();
    let (good, bad) = (good.to_str().unwrap(), bad.to_str().unwrap());
    let out = folder.path().join("out");
    let (out, port) = (out.to_str().unwrap(), broker.port());
    let at = format!("mqtt://{}", broker.address);
    let commands: &[&[&str]] = &[
        &["--help"],
        &["nonsense"],
        &["broker", "--check"],
        &["broker", "--config", bad],
        &["ctl", "--socket", "/nowhere", "clients"],
        &["flow", "check", good],
        &["flow", "check", bad],
        &["pub", "-p", port, "-t", "t", "-m", "m", "-d"],
        &["pub", "-p", "1", "-t", "t", "-m", "m"],
        &["sub", "-p", port, "-t", "t", "-E", "-d"],
        &["bench", "list"],
        &["bench", "brokers"],
        &["bench", "doctor"],
        &["bench", "conformance", "--broker", &at, "--only", "ping", "--mqtt", "3.1", "--out", out],
        &["bench", "run", "nonsense", "--out", out],
        &["bench", "report", out],
    ];
    for arguments in commands {
        let usual = code(arguments, Stdio::null(), Stdio::null());
        for (stdout, stderr, place) in [
            (closed(), Stdio::null(), "a closed standard output"),
            (full().into(), Stdio::null(), "a full standard output"),
            (Stdio::null(), closed(), "a closed standard error"),
            (Stdio::null(), full().into(), "a full standard error"),
        ] {
            let code = code(arguments, stdout, stderr);
            assert_ne!(code, PANICKED, "{arguments:?} with {place}");
            // Nobody misses a note; a command may end when nobody reads what it is there for.
            assert!(
                code == usual || place.ends_with("output"),
                "{arguments:?} with {place}: {code}"
            );
        }
    }
    // Who has read enough is no failure; what could not be kept is one.
    assert_eq!(code(&["bench", "list"], closed(), Stdio::null()), 0);
    assert_eq!(code(&["bench", "list"], full().into(), Stdio::null()), 2);
}

#[test]
fn who_has_read_enough_ends_sub_quietly() {
    let broker = Broker::start();
    let port = broker.port();
    let publish = |payload: &str| {
        let sent = code(
            &["pub", "-p", port, "-t", "t", "-r", "-m", payload],
            Stdio::null(),
            Stdio::null(),
        );
        assert_eq!(sent, 0);
    };
    publish("one");
    let mut child = Command::new(WEIR)
        .args(["sub", "-p", port, "-t", "t"])
        .env_remove("WEIR_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut first).unwrap();
    assert_eq!(first, "one\n");
    drop(lines);
    // The first of these that comes ends it.
    publish("two");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut said = Vec::new();
    child.stderr.take().unwrap().read_to_end(&mut said).unwrap();
    assert_eq!(command::text(&said), "");
}
