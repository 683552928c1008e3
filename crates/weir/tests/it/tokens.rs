//! Clients that show a token.

use crate::access::{self, offer};
use crate::support::Broker;
use crate::support::blocking::{Blocking, decode};
use crate::support::tokens::{SECRET, now_s, token};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use weir_wire::packet::Will;
use weir_wire::{Packet, Properties, QoS, ReasonCode, Version};

const OTHER: &str = "quite another secret of thirty-two bytes";

/// Publishes at QoS 1; says what the acknowledgement has.
fn publish(client: &mut Blocking, topic: &str) -> ReasonCode {
    access::publish(client, topic, false, "")
}

fn config(folder: &Path, more: &str) -> String {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    std::fs::write(path("secret"), format!("{SECRET}\n")).unwrap();
    let text = format!(
        "[auth.jwt]\nalgorithms = [\"HS256\"]\nsecret_file = {:?}\n{more}\n",
        path("secret")
    );
    std::fs::write(path("weir.toml"), text).unwrap();
    path("weir.toml")
}

#[test]
fn a_token_says_who_its_client_is_and_what_it_may_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut weir = Broker::start_with(&["-c", &config(folder.path(), "")]);
    let exp = now_s() + 600;
    let acl = serde_json::json!([
        {"permission": "deny", "action": "publish", "topic": "own/${username}/no"},
        {"permission": "allow", "action": "all", "topic": "own/${username}/#"},
    ]);
    let limited = token(SECRET, &serde_json::json!({"sub": "ann", "exp": exp, "acl": acl}));
    let mut ann = offer(&weir.address, (Some("x"), Some(&limited)), "a", Version::V5, None);
    assert_eq!(ann.connack(), Some(ReasonCode::Success));
    let line = weir.says(" connected");
    assert!(line.contains("user=\"ann\"") || line.contains("user=ann"), "{line}");
    for (topic, reason) in [
        ("own/ann/x", ReasonCode::Success),
        ("own/ann/no", ReasonCode::NotAuthorized),
        ("own/x/y", ReasonCode::NotAuthorized),
        ("other", ReasonCode::NotAuthorized),
    ] {
        assert_eq!(publish(&mut ann, topic), reason, "{topic}");
    }
    // Another client of the same user, without rights of its own.
    let free = token(SECRET, &serde_json::json!({"sub": "ann", "exp": exp}));
    let mut other = offer(&weir.address, (Some("x"), Some(&free)), "b", Version::V5, None);
    assert_eq!(other.connack(), Some(ReasonCode::Success));
    assert_eq!(publish(&mut other, "other"), ReasonCode::Success);
    assert_eq!(publish(&mut ann, "other"), ReasonCode::NotAuthorized);

    let forged = token(OTHER, &serde_json::json!({"sub": "ann", "exp": exp}));
    let over = token(SECRET, &serde_json::json!({"sub": "ann", "exp": exp - 1_200}));
    for (user, password, v5, v3) in [
        (Some("x"), Some(&*forged), ReasonCode::BadUserNameOrPassword, 4),
        (Some("x"), Some(&*over), ReasonCode::BadUserNameOrPassword, 4),
        (Some("x"), Some("no token"), ReasonCode::NotAuthorized, 5),
        (None, None, ReasonCode::NotAuthorized, 5),
    ] {
        let mut client = offer(&weir.address, (user, password), "c", Version::V5, None);
        assert_eq!(client.connack(), Some(v5), "{password:?}");
        let mut client = offer(&weir.address, (user, password), "c", Version::V311, None);
        assert_eq!(client.next().unwrap()[3], v3, "{password:?}");
    }
}

#[test]
fn a_token_in_the_user_name_is_not_shown_in_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let mut weir = Broker::start_with(&["-c", &config(folder.path(), "in = \"user_name\"")]);
    let claims = serde_json::json!({"sub": "ann", "exp": now_s() + 600});
    let (right, forged) = (token(SECRET, &claims), token(OTHER, &claims));
    let mut ann = offer(&weir.address, (Some(&right), None), "a", Version::V5, None);
    assert_eq!(ann.connack(), Some(ReasonCode::Success));
    let line = weir.says(" connected");
    assert!(line.contains("ann") && !line.contains("eyJ"), "{line}");
    let mut other = offer(&weir.address, (Some(&forged), None), "b", Version::V5, None);
    assert_eq!(other.connack(), Some(ReasonCode::BadUserNameOrPassword));
    let line = weir.says(" refused");
    assert!(line.contains("(a token)") && !line.contains("eyJ"), "{line}");
}

/// It is told, its will is sent, and the same token brings it back no more.
#[test]
fn a_client_is_ended_with_its_token() {
    let folder = tempfile::tempdir().unwrap();
    let weir = Broker::start_with(&["-c", &config(folder.path(), "leeway_s = 0")]);
    let lasting = token(SECRET, &serde_json::json!({"sub": "w", "exp": now_s() + 600}));
    let mut watcher = offer(&weir.address, (None, Some(&lasting)), "w", Version::V5, None);
    assert_eq!(watcher.connack(), Some(ReasonCode::Success));
    watcher.subscribe("gone", QoS::AtMostOnce);
    for version in [Version::V311, Version::V5] {
        let exp = now_s() + 2;
        let short = token(SECRET, &serde_json::json!({"sub": "ann", "exp": exp}));
        let (topic, payload, properties) = ("gone", &b""[..], Properties::EMPTY);
        let (qos, retain) = (QoS::AtMostOnce, false);
        let will = Will { topic, payload, properties, qos, retain };
        // MQTT 3.1.1 has no password without a user name.
        let names = (Some("ann"), Some(&*short));
        let mut client = offer(&weir.address, names, "c", version, Some(will));
        if client.connack() != Some(ReasonCode::Success) {
            assert!(now_s() >= exp);
            // The host was slow, and it was over already.
            continue;
        }
        let told = client.next().map(|bytes| match decode(version, &bytes) {
            Packet::Disconnect(disconnect) => disconnect.reason,
            other => panic!("no DISCONNECT: {other:?}"),
        });
        let expected = (version == Version::V5).then_some(ReasonCode::MaximumConnectTime);
        assert_eq!(told, expected);
        assert!(now_s() >= exp);
        let came = watcher.packet(|packet| match packet {
            Packet::Publish(publish) => publish.topic.to_owned(),
            other => panic!("no will: {other:?}"),
        });
        assert_eq!(came.as_deref(), Some(topic));
        let mut again = offer(&weir.address, names, "c", version, None);
        assert_eq!(again.connack(), Some(ReasonCode::BadUserNameOrPassword));
    }
}

#[test]
fn another_secret_is_read_at_sighup_unless_it_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut weir = Broker::start_with(&["-c", &config(folder.path(), "")]);
    let claims = serde_json::json!({"sub": "ann", "exp": now_s() + 600});
    let (old, new) = (token(SECRET, &claims), token(OTHER, &claims));
    let reason = |address: &str, token: &str| {
        offer(address, (None, Some(token)), "c", Version::V5, None).connack().unwrap()
    };
    assert_eq!(reason(&weir.address, &old), ReasonCode::Success);
    let pid = Pid::from_child(&weir.child);
    let file = folder.path().join("secret");
    std::fs::write(&file, "short").unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    assert!(weir.says("users and rights stay as they were").contains("32 bytes"));
    assert_eq!(reason(&weir.address, &old), ReasonCode::Success);
    std::fs::write(&file, OTHER).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    weir.says("users and rights are read again");
    assert_eq!(reason(&weir.address, &old), ReasonCode::BadUserNameOrPassword);
    assert_eq!(reason(&weir.address, &new), ReasonCode::Success);
}
