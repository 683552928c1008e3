//! Passwords and access rights: the same files, cases and answers at Weir and at Mosquitto.

use crate::support::blocking::{Blocking, decode};
use crate::support::command::fed;
use crate::support::mosquitto::Mosquitto;
use crate::support::{Broker, tool};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use weir_wire::packet::{Connect, Publish, Will};
use weir_wire::{Packet, PacketId, Properties, QoS, ReasonCode, Version};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

const ACL: &str = "\
# of clients without a user name
topic read open/#
topic write post/+
topic deny open/secret

user root
topic #
topic $dollar/#

user ann
topic write post/#
topic read open/#
topic read two words
topic deny open/no
topic both/#
topic deny both/+
topic deny both/+/x/#

user d+
topic read end/cid

user bob
topic read #
topic deny open/secret
pattern write up/%u/#
pattern read down/%c/+
pattern both/%u%c/mixed
pattern deny post/%u
pattern read end/%c
pattern read $dollar/%u
";

/// Each with a password of its own name; the last two have no rules.
const USERS: [Option<&str>; 5] = [None, Some("ann"), Some("bob"), Some("eve"), Some("d+")];

const TOPICS: [&str; 17] = [
    "open/x",
    "open/secret",
    "open/no",
    "post/1",
    "post/1/2",
    "post/ann",
    "post/eve",
    "both/a",
    "both/a/b",
    "both/a/x/y",
    "both/anncid/mixed",
    "up/ann/x",
    "up/eve/x",
    "down/cid/x",
    "two words",
    "$dollar/ann",
    "nothing",
];

/// Where Weir's answer is another, and why. docs/security.md has the same.
const DIFFERENT: &[(&str, &str)] = &[
    ("wrong", "Weir says that it is the user name or the password"),
    ("ann read shared $dollar/ann", "Mosquitto gives no topic below $ to a shared subscription"),
];

/// What a sentinel's topic has before the client identifier.
const END: &str = "end/";

fn connect(address: &str, user: Option<&str>, id: &str, version: Version) -> Blocking {
    let mut client = offer(address, (user, user), id, version, None);
    assert_eq!(client.connack(), Some(ReasonCode::Success), "{user:?}");
    client
}

pub(crate) fn offer(
    address: &str,
    (user_name, password): (Option<&str>, Option<&str>),
    client_id: &str,
    version: Version,
    will: Option<Will<'_>>,
) -> Blocking {
    let mut client = Blocking::connect(address, version).unwrap();
    let password = password.map(str::as_bytes);
    let connect = Connect { will, user_name, password, ..Connect::new(version, client_id) };
    client.send(&Packet::Connect(connect)).unwrap();
    client
}

/// Publishes at QoS 1; says what the acknowledgement has.
pub(crate) fn publish(
    client: &mut Blocking,
    topic: &str,
    retain: bool,
    payload: &str,
) -> ReasonCode {
    let (packet_id, properties) = (Some(PacketId::FIRST), Properties::EMPTY);
    let (dup, qos, payload) = (false, QoS::AtLeastOnce, payload.as_bytes());
    let packet = Publish { dup, qos, retain, topic, packet_id, properties, payload };
    client.send(&Packet::Publish(packet)).unwrap();
    loop {
        // What else comes is not asked for here.
        let reason = client.packet(|packet| match packet {
            Packet::PubAck(ack) => Some(ack.reason),
            _ => None,
        });
        match reason.expect("PUBACK") {
            Some(ReasonCode::NoMatchingSubscribers) => return ReasonCode::Success,
            Some(reason) => return reason,
            None => {}
        }
    }
}

/// All topics that come to `client` up to the sentinel, which `root` publishes.
pub(crate) fn until_end(root: &mut Blocking, client: &mut Blocking, id: &str) -> Vec<String> {
    let end = format!("{END}{id}");
    publish(root, &end, false, "");
    let mut topics = Vec::new();
    loop {
        let bytes = client.next().expect("the sentinel");
        if let Packet::Publish(publish) = decode(client.version, &bytes) {
            if publish.topic == end {
                return topics;
            }
            topics.push(publish.topic.to_owned());
        }
    }
}

/// What `user` can do at a topic, a line each.
fn deeds(address: &str, root: &mut Blocking, user: Option<&str>, topic: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut say = |deed: &str, what: String| {
        lines.push(format!("{} {deed} {topic}: {what}", user.unwrap_or("anonymous")));
    };
    for version in [Version::V311, Version::V5] {
        let mut watcher = connect(address, Some("root"), "watch", version);
        watcher.subscribe("#", QoS::AtMostOnce).unwrap();
        watcher.subscribe("$dollar/#", QoS::AtMostOnce).unwrap();
        let mut client = connect(address, user, "cid", version);
        let reason = publish(&mut client, topic, false, "x");
        let came = until_end(root, &mut watcher, "watch").len();
        say("write", format!("{reason:?}, {came} came"));
    }
    let mut watcher = connect(address, Some("root"), "watch", Version::V5);
    watcher.subscribe("#", QoS::AtMostOnce).unwrap();
    let (qos, retain, properties) = (QoS::AtMostOnce, false, Properties::EMPTY);
    let will = Will { topic, payload: b"gone", properties, qos, retain };
    let mut dying = offer(address, (user, user), "cid", Version::V5, Some(will));
    let reason = dying.connack();
    // Who takes its session over ends it.
    drop(connect(address, user, "cid", Version::V5));
    let came = until_end(root, &mut watcher, "watch").len();
    say("will", format!("{reason:?}, {came} came"));

    let level = topic.split_once('/').map_or("+".to_owned(), |(first, _)| format!("{first}/#"));
    for (deed, filter) in [
        ("read", topic.to_owned()),
        ("read by wildcard", level),
        ("read shared", format!("$share/g/{topic}")),
    ] {
        let mut client = connect(address, user, "cid", Version::V5);
        client.subscribe("end/cid", QoS::AtMostOnce).unwrap();
        let code = client.subscribe(&filter, QoS::AtMostOnce);
        publish(root, topic, false, "x");
        let came = until_end(root, &mut client, "cid").len();
        say(deed, format!("{code:?}, {came} came"));
    }
    publish(root, topic, true, "kept");
    let mut client = connect(address, user, "cid", Version::V5);
    client.subscribe("end/cid", QoS::AtMostOnce).unwrap();
    client.subscribe(topic, QoS::AtMostOnce).unwrap();
    let came = until_end(root, &mut client, "cid").len();
    publish(root, topic, true, "");
    say("read retained", format!("{came} came"));
    lines
}

/// What all of them can do, and who is let in.
fn all(address: &str) -> Vec<String> {
    let mut root = connect(address, Some("root"), "root", Version::V5);
    let mut lines = Vec::new();
    for user in USERS {
        for topic in TOPICS {
            lines.extend(deeds(address, &mut root, user, topic));
        }
    }
    for version in [Version::V311, Version::V5] {
        for (what, user, password) in [
            ("right", Some("ann"), Some("ann")),
            ("wrong", Some("ann"), Some("bob")),
            ("wrong", Some("bob"), Some("")),
            ("wrong", Some("bob"), None),
            ("wrong", Some("nobody"), Some("ann")),
            ("nothing", None, None),
        ] {
            if version == Version::V311 && user.is_none() && password.is_some() {
                continue;
            }
            let reason = offer(address, (user, password), "in", version, None).connack();
            lines.push(format!("{what} {user:?} {password:?} {version:?}: {reason:?}"));
        }
    }
    lines
}

fn run(program: &Path, arguments: &[&str], input: &str) -> Output {
    fed(Command::new(program).args(arguments).env_remove("WEIR_LOG"), input)
}

pub(crate) fn passwd(arguments: &[&str], input: &str) -> Output {
    run(Path::new(WEIR), &[&["passwd"], arguments].concat(), input)
}

/// A folder with the files, whose passwords Mosquitto's own program made, and Weir's configuration
/// of them.
fn files(mosquitto_passwd: &Path) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("rights"), ACL).unwrap();
    std::fs::write(path("users"), "").unwrap();
    let named = USERS.into_iter().flatten().chain(["root"]);
    for (user, hash) in named.zip(["sha512", "sha512-pbkdf2"].into_iter().cycle()) {
        let arguments = ["-b", "-H", hash, &path("users"), user, user];
        assert!(run(mosquitto_passwd, &arguments, "").status.success());
    }
    let config = format!(
        "shards = 1\n[auth]\nallow_anonymous = true\npassword_file = {:?}\nacl_file = {:?}\n",
        path("users"),
        path("rights")
    );
    std::fs::write(path("weir.toml"), config).unwrap();
    let config = folder.path().join("weir.toml");
    (folder, config)
}

#[test]
fn every_case_is_as_at_mosquitto_or_named() {
    let Some(mosquitto_passwd) = tool(&["mosquitto_passwd"]) else { return };
    let (folder, config) = files(&mosquitto_passwd);
    let path = |name: &str| folder.path().join(name).display().to_string();
    let weir = Broker::start_with(&["-c", config.to_str().unwrap()]);
    let ours = all(&weir.address);
    let lines = format!(
        "allow_anonymous true\nlog_type information\npassword_file {}\nacl_file {}",
        path("users"),
        path("rights")
    );
    let Some(mosquitto) = Mosquitto::start(&lines) else { return };
    let theirs = all(&format!("127.0.0.1:{}", mosquitto.port));
    assert_eq!(ours.len(), theirs.len());
    let is_known = |line: &str| DIFFERENT.iter().any(|(begin, _)| line.starts_with(begin));
    let differ: Vec<_> = ours.iter().zip(&theirs).filter(|(ours, theirs)| ours != theirs).collect();
    let (known, unknown): (Vec<_>, Vec<_>) =
        differ.into_iter().partition(|(ours, _)| is_known(ours));
    assert!(unknown.is_empty(), "{} of {}: {unknown:#?}", unknown.len(), ours.len());
    assert!(known.len() >= 8, "no longer different: take it out of the list");
    assert!(ours.len() > 500, "{} cases", ours.len());
}

#[test]
fn a_password_file_is_made_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users");
    let name = file.to_str().unwrap();
    assert!(passwd(&[name, "ann", "--batch"], "pencil\n").status.success());
    assert!(passwd(&[name, "bob", "--batch"], "pen\n").status.success());
    let mode = || file.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    // Whom the file is open to, such as the broker's group, it stays open to.
    std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    assert!(passwd(&[name, "bob", "--batch"], "pen\n").status.success());
    assert_eq!(mode(), 0o640);
    let weir = Broker::start_with(&["-c", &with_passwords(folder.path(), name)]);
    let reason = |user, password| {
        offer(&weir.address, (user, password), "c", Version::V311, None).connack().unwrap()
    };
    assert_eq!(reason(Some("ann"), Some("pencil")), ReasonCode::Success);
    // The second time it is known.
    assert_eq!(reason(Some("ann"), Some("pencil")), ReasonCode::Success);
    assert_eq!(reason(Some("bob"), Some("pencil")), ReasonCode::BadUserNameOrPassword);
    assert_eq!(reason(Some("eve"), Some("pencil")), ReasonCode::BadUserNameOrPassword);
    assert_eq!(reason(None, None), ReasonCode::NotAuthorized);

    assert!(passwd(&[name, "ann", "-D"], "").status.success());
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("ann:") && text.starts_with("bob:$argon2id$"), "{text}");
    for (arguments, part) in [
        (&[name, "ann", "-D"][..], "no ann"),
        (&[name, "a:b", "--batch"], "cannot be a user name"),
        (&[name, "ann", "--batch"], "the password is empty"),
        (&[name, "ann"], "give --batch"),
    ] {
        let output = passwd(arguments, "\n");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(part), "{arguments:?}: {said}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

/// The path of a configuration with this file of passwords.
fn with_passwords(folder: &Path, passwords: &str) -> String {
    let config = folder.join("weir.toml");
    std::fs::write(&config, format!("[auth]\npassword_file = {passwords:?}\n")).unwrap();
    config.to_str().unwrap().to_owned()
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let config = folder.path().join("weir.toml");
    for (key, text, part) in [
        ("password_file", "# x\nann:plain\n", ":2: ann: the hash begins with"),
        ("acl_file", "user ann\ntopic reed a\n", ":2: topic: reed: read, write, readwrite or deny"),
    ] {
        std::fs::write(&file, text).unwrap();
        std::fs::write(&config, format!("[auth]\n{key} = {:?}\n", file.to_str().unwrap())).unwrap();
        for check in [&[][..], &["--check"]] {
            let output =
                run(Path::new(WEIR), &[&["broker", config.to_str().unwrap()], check].concat(), "");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.code() == Some(2) && said.contains(part), "{said}");
        }
    }
    std::fs::remove_file(&file).unwrap();
    let output = run(Path::new(WEIR), &["broker", config.to_str().unwrap()], "");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("auth.acl_file: cannot read") && said.contains("No such file"), "{said}");
}

#[test]
fn other_hosts_are_let_in_only_if_something_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    std::fs::write(&users, "").unwrap();
    let config = with_passwords(folder.path(), users.to_str().unwrap());
    let check = |arguments: &[&str]| {
        let arguments = [&["broker", "--check", "--listen", "0.0.0.0:0"], arguments].concat();
        run(Path::new(WEIR), &arguments, "")
    };
    let refused = check(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && said.contains("allow_anonymous = true"), "{said}");
    assert!(check(&["--allow-anonymous"]).status.success());
    assert!(check(&["-c", &config]).status.success());
}

/// A bad file changes nothing; a good one holds for clients that are there, and ends only those
/// whose users are gone.
#[test]
fn users_and_rights_are_read_again_at_sighup_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for user in ["ann", "bob"] {
        let added = passwd(&[&path("users"), user, "--batch"], &format!("{user}\n"));
        assert!(added.status.success());
    }
    let rights = "user ann\ntopic old\nuser bob\ntopic #\n";
    std::fs::write(path("rights"), rights).unwrap();
    let config =
        format!("[auth]\npassword_file = {:?}\nacl_file = {:?}\n", path("users"), path("rights"));
    std::fs::write(path("weir.toml"), config).unwrap();

    let mut weir = Broker::by(Command::new(WEIR).args([
        "broker",
        "--listen",
        "127.0.0.1:0",
        "-c",
        &path("weir.toml"),
    ]))
    .unwrap();

    let pid = Pid::from_child(&weir.child);
    let hang_up = || kill_process(pid, Signal::HUP).unwrap();
    let mut ann = connect(&weir.address, Some("ann"), "ann", Version::V5);
    let mut bob = connect(&weir.address, Some("bob"), "bob", Version::V5);
    assert_eq!(publish(&mut ann, "new", false, ""), ReasonCode::NotAuthorized);

    // Rights that would do, and users that do not.
    let users = std::fs::read_to_string(path("users")).unwrap();
    std::fs::write(path("rights"), "user ann\ntopic new\n").unwrap();
    std::fs::write(path("users"), "ann:bad\n").unwrap();
    hang_up();
    let line = weir.says("users and rights stay as they were");
    assert!(line.contains("/users:1: ann: the hash"), "{line}");
    assert_eq!(publish(&mut ann, "new", false, ""), ReasonCode::NotAuthorized);
    assert_eq!(publish(&mut bob, "new", false, ""), ReasonCode::Success);

    let anns = users.lines().find(|line| line.starts_with("ann:")).unwrap();
    std::fs::write(path("users"), format!("{anns}\n")).unwrap();
    hang_up();
    // Bob is told once it holds.
    let reason = bob.packet(|packet| match packet {
        Packet::Disconnect(disconnect) => disconnect.reason,
        other => panic!("no DISCONNECT: {other:?}"),
    });
    assert_eq!(reason, Some(ReasonCode::NotAuthorized));
    // Each shard goes by it when it gets to it.
    while publish(&mut ann, "new", false, "") != ReasonCode::Success {}
    assert_eq!(publish(&mut ann, "old", false, ""), ReasonCode::NotAuthorized);
    let again = offer(&weir.address, (Some("bob"), Some("bob")), "bob", Version::V5, None);
    assert_eq!({ again }.connack(), Some(ReasonCode::BadUserNameOrPassword));
}
