//! Clients that a service over HTTP is asked about: the samples of docs/auth-services, and one that
//! does what a test says.

use crate::access;
use crate::fake_service::{Act, Fake, json};
use crate::support::blocking::Blocking;
use crate::support::command::fed;
use crate::support::{Broker, tool};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use weir_wire::{ReasonCode, Version};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/auth-services");

fn offer(address: &str, user: Option<&str>, password: Option<&str>) -> Blocking {
    access::offer(address, (user, password), "c1", Version::V5, None)
}

fn reason(address: &str, user: Option<&str>, password: Option<&str>) -> ReasonCode {
    offer(address, user, password).connack().unwrap()
}

fn publish(client: &mut Blocking, topic: &str) -> ReasonCode {
    access::publish(client, topic, false, "")
}

fn broker(folder: &Path, text: &str) -> Broker {
    let path = folder.join("weir.toml");
    std::fs::write(&path, text).unwrap();
    Broker::start_with(&["-c", path.to_str().unwrap()])
}

/// A sample as a process of its own; ended with the value.
struct Sample {
    child: Child,
    address: String,
}

impl Sample {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn sql(python: &Path, arguments: &[&str], input: &str) {
    let script = format!("{SAMPLES}/sql.py");
    let output = fed(Command::new(python).arg(script).args(arguments), input);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn the_sample_of_sql_says_who_comes_in_and_what_they_may_do() {
    let Some(python) = tool(&["python3"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let database: PathBuf = folder.path().join("users.db");
    let name = database.to_str().unwrap();
    sql(&python, &["--make", name], "");
    sql(&python, &["--add", name, "ann"], "pencil\n");
    sql(&python, &["--add", name, "root", "--superuser"], "pen\n");
    let rule = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute(\"INSERT INTO \
        rules(name, permission, action, topic) VALUES ('ann', 'allow', 'publish', \
        'up/${clientid}')\"); db.commit()";
    assert!(Command::new(&python).args(["-c", rule, name]).status().unwrap().success());
    let script = format!("{SAMPLES}/sql.py");
    let service = Sample::start(Command::new(&python).args([&script, name, "--port", "0"]));
    // Each answer takes a hash, and this host may be busy.
    let text = format!("[auth.http]\nurl = \"http://{}/\"\ntimeout_ms = 30000\n", service.address);
    let weir = broker(folder.path(), &text);
    let mut ann = offer(&weir.address, Some("ann"), Some("pencil"));
    assert_eq!(ann.connack(), Some(ReasonCode::Success));
    assert_eq!(publish(&mut ann, "up/c1"), ReasonCode::Success);
    assert_eq!(publish(&mut ann, "up/c2"), ReasonCode::NotAuthorized);
    for (user, password, expected) in [
        (Some("ann"), Some("pen"), ReasonCode::BadUserNameOrPassword),
        (Some("eve"), Some("pen"), ReasonCode::BadUserNameOrPassword),
        (Some("ann' --"), Some("pencil"), ReasonCode::BadUserNameOrPassword),
        (None, None, ReasonCode::NotAuthorized),
    ] {
        assert_eq!(reason(&weir.address, user, password), expected, "{user:?}");
    }
    let mut root = offer(&weir.address, Some("root"), Some("pen"));
    assert_eq!(root.connack(), Some(ReasonCode::Success));
    assert_eq!(publish(&mut root, "any/where"), ReasonCode::Success);
    drop(service);
    // Who was let in a moment ago is known, and nobody else comes in.
    assert_eq!(reason(&weir.address, Some("ann"), Some("pencil")), ReasonCode::Success);
    assert_eq!(reason(&weir.address, Some("root"), Some("no")), ReasonCode::ServerUnavailable);
}

/// The file of passwords decides about its users, tokens about who shows one, the service about all
/// others.
#[test]
fn the_first_that_knows_a_client_decides() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    assert!(access::passwd(&[&path("users"), "ann", "--batch"], "pencil\n").status.success());
    let service = Fake::start(|came| match () {
        () if came.body.contains("\"good\"") => json(r#"{"result":"allow"}"#),
        () if came.body.contains("\"bad\"") => json(r#"{"result":"deny"}"#),
        () if came.body.contains("\"odd\"") => Act::Raw(b"no HTTP".to_vec()),
        () => json(r#"{"result":"ignore"}"#),
    });
    std::fs::write(path("secret"), "a secret of more than thirty-two bytes").unwrap();
    let text = format!(
        "[auth]\npassword_file = {:?}\n[auth.http]\nurl = {:?}\n[auth.jwt]\n\
         algorithms = [\"HS256\"]\nsecret_file = {:?}\n",
        path("users"),
        service.url("/"),
        path("secret")
    );
    let weir = broker(folder.path(), &text);
    for (user, password, expected, asked) in [
        (Some("ann"), Some("pencil"), ReasonCode::Success, 0),
        (Some("ann"), Some("good"), ReasonCode::BadUserNameOrPassword, 0),
        (Some("ann"), Some("eyJh.eyJi.c"), ReasonCode::BadUserNameOrPassword, 0),
        (Some("eve"), Some("good"), ReasonCode::Success, 1),
        (Some("eve"), Some("bad"), ReasonCode::BadUserNameOrPassword, 2),
        (Some("eve"), Some("odd"), ReasonCode::ServerUnavailable, 3),
        (Some("eve"), Some("x"), ReasonCode::NotAuthorized, 4),
        (None, None, ReasonCode::NotAuthorized, 5),
    ] {
        assert_eq!(reason(&weir.address, user, password), expected, "{user:?} {password:?}");
        assert_eq!(service.requests().len(), asked, "{user:?} {password:?}");
    }
}

/// Who is not answered in time is told so, in 3.1.1 as well, and is counted.
#[test]
fn a_service_that_is_silent_keeps_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let service = Fake::start(|_| Act::Wait);
    let text = format!(
        "[auth.http]\nurl = {:?}\ntimeout_ms = 20\nform = \"mosquitto-go-auth\"\n\
         headers = {{ authorization = \"Bearer x\" }}\n[control]\nsocket = {:?}\n",
        service.url("/user"),
        folder.path().join("ctl")
    );
    let weir = broker(folder.path(), &text);
    assert_eq!(reason(&weir.address, Some("ann"), Some("x")), ReasonCode::ServerUnavailable);
    let mut old = Blocking::connect(&weir.address, Version::V311).unwrap();
    let connect =
        [&[0x10, 20, 0, 4][..], b"MQTT", &[4, 0xC2, 0, 0, 0, 1], b"c", &[0, 1], b"a"].concat();
    old.stream.write_all(&[&connect[..], &[0, 2], b"pw"].concat()).unwrap();
    assert_eq!(old.next().unwrap(), [0x20, 2, 0, 3]);
    let came = &service.requests()[0];
    assert!(came.line == "POST /user" && came.head.contains("authorization: bearer x"));
    let output = Command::new(WEIR)
        .args(["ctl", "--socket", folder.path().join("ctl").to_str().unwrap(), "counters"])
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let is_its = |line: &&str| line.split_whitespace().last() == Some("auth_service_timed_out");
    let line = shown.lines().find(is_its).unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(line.split_whitespace().next(), Some("2"), "{line}");
}
