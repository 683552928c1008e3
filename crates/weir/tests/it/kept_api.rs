//! The API that changes files: the configuration, users, access rights. And who may use it.

use crate::api::Served;
use crate::support::asked::said;
use crate::support::command::fed;
use crate::support::live::{Live, is_served, left};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use weir_wire::ReasonCode;

#[test]
fn a_viewer_looks_and_who_has_no_token_does_not() {
    let served = Served::start("");
    let (viewer, admin) = (Some(&*served.viewer), Some(&*served.admin));
    let of_admins = ["users", "users/a", "users/a/rights", "acl"];
    for path in ["config", "listeners", "drain"].iter().chain(&of_admins) {
        let is_of_admins = of_admins.contains(path);
        let path = format!("/api/v1/{path}");
        let ask = |token| served.get(&path, token).0;
        assert_eq!((ask(None), ask(viewer) == 403), (401, is_of_admins), "{path}");
        assert_ne!(ask(admin), 403, "{path}");
    }
    for (method, path) in [
        ("PUT", "config"),
        ("PUT", "users/a"),
        ("DELETE", "users/a"),
        ("PUT", "users/a/rights"),
        ("PUT", "acl"),
        ("POST", "drain"),
        ("DELETE", "drain"),
        ("POST", "reload"),
    ] {
        let path = format!("/api/v1/{path}");
        let ask = |token| served.ask_with(method, &path, token, "{\"password\": \"x\"}").0;
        assert_eq!((ask(None), ask(viewer)), (401, 403), "{method} {path}");
        assert!(![401, 403, 404, 405].contains(&ask(admin)) || path.ends_with("config"), "{path}");
    }
    let path = "/api/v1/config?dry_run=true";
    let (status, answer) = served.ask_with("PUT", path, admin, "");
    assert!(status == 403 && answer.contains("may_write_config"), "{answer}");
    let (status, answer) = served.get("/api/v1/config", viewer);
    assert!(status == 200 && answer.contains("sha256 = \"***\""), "{answer}");
    let (status, answer) = served.get("/api/v1/listeners", viewer);
    assert!(status == 200 && answer.contains("\"speaks\":\"MQTT\""), "{answer}");
}

#[test]
fn the_configuration_is_tried_and_replaced() {
    let live = Live::start("shards = 2\nlisten = [\"127.0.0.1:0\"]\n");
    let file = live.path("weir.toml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    let old = std::fs::read_to_string(&file).unwrap();
    let new = live.path("new.toml");
    let put = |text: &str, more: &[&str]| {
        std::fs::write(&new, text).unwrap();
        live.ctl(&[&["config", "--put", new.to_str().unwrap()], more].concat())
    };
    let wanted = format!("{old}[limits]\nqueue_messages_max = 5\n");
    let tried = said(&put(&wanted, &["--dry-run"]));
    assert_eq!(tried, "live     limits.queue_messages_max = 5 (was 10000)\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), old);
    for more in [&["--dry-run"][..], &[]] {
        let output = put(&format!("{old}[limits]\nqueue_messages_max = 0\n"), more);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(text.contains(":7: limits.queue_messages_max = 0"), "{text}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), old);
    }
    assert!(said(&put(&wanted, &[])).contains("limits.queue_messages_max = 5"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), wanted);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(said(&live.ctl(&["config"])).contains("queue_messages_max = 5"));
}

#[test]
fn with_a_word_of_the_configuration_admins_replace_it_over_tcp() {
    let served = Served::start("may_write_config = true");
    let admin = Some(&*served.admin);
    let (status, answer) =
        served.ask_with("PUT", "/api/v1/config?dry_run=true", admin, "shards = 1");
    // Without its tokens.
    assert!(status == 200 && answer.contains("\"key\":\"control.token\""), "{answer}");
    let (status, _) = served.ask_with("PUT", "/api/v1/config", admin, "shards = \"x\"");
    assert_eq!(status, 409);
    assert_eq!(served.get("/api/v1/config", admin).0, 200);
    assert_eq!(served.ask_with("PUT", "/api/v1/config", admin, "shards = 2").0, 200);
    assert_eq!(served.get("/api/v1/config", admin).0, 401, "the token is gone with the file");
}

/// `weir ctl` with a line on its standard input.
fn ctl_with(live: &Live, arguments: &[&str], line: &str) -> i32 {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.args(["ctl", "--socket"]).arg(live.path("ctl")).args(arguments);
    fed(&mut weir, &format!("{line}\n")).status.code().unwrap()
}

#[test]
fn users_and_their_rights_come_change_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let (users, rights) = (folder.path().join("users"), folder.path().join("rights"));
    std::fs::write(&users, "# ours\n").unwrap();
    std::fs::write(&rights, "user root\ntopic #\n").unwrap();
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o640)).unwrap();
    let live = Live::start(&format!(
        "shards = 2\nlisten = [\"127.0.0.1:0\"]\n[auth]\npassword_file = {users:?}\n\
         acl_file = {rights:?}\n"
    ));
    let refused = ReasonCode::BadUserNameOrPassword;
    assert_eq!(live.offer("ann", Some("ann")).1, refused);
    assert_eq!(ctl_with(&live, &["user", "ann"], "ann"), 0);
    let (mut ann, reason) = live.offer("ann", Some("ann"));
    assert_eq!(reason, ReasonCode::Success);
    assert_eq!(said(&live.ctl(&["users"])), "ann\n");
    assert_eq!(std::fs::metadata(&users).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(std::fs::read_to_string(&users).unwrap().starts_with("# ours\nann:$argon2id$"));
    let rules = folder.path().join("rules");
    let put = |text: &str| {
        std::fs::write(&rules, text).unwrap();
        live.ctl(&["rights", "ann", "--put", rules.to_str().unwrap()]).status.code()
    };
    assert_eq!(live.ctl(&["rights", "ann"]).status.code(), Some(1));
    assert_eq!((put("topic sing a\n"), put("pattern a\n")), (Some(2), Some(2)));
    assert_eq!(put("topic read a/#\n"), Some(0));
    assert_eq!(said(&live.ctl(&["rights", "ann"])), "topic read a/#\n");
    assert_eq!(said(&live.ctl(&["rights"])), "user root\ntopic #\nuser ann\ntopic read a/#\n");
    assert!(is_served(&mut ann), "her rights are others, and she stays");
    assert_eq!(ctl_with(&live, &["user", "ann"], "another"), 0);
    assert_eq!(left(&mut ann), Some(ReasonCode::NotAuthorized));
    assert_eq!(live.offer("ann", Some("ann")).1, refused);
    assert_eq!(ctl_with(&live, &["user", "ann", "-D"], ""), 0);
    assert_eq!(ctl_with(&live, &["user", "ann", "-D"], ""), 1);
    assert_eq!(ctl_with(&live, &["user", "a:b"], "x"), 2);
    assert_eq!(ctl_with(&live, &["user", "bob"], ""), 2, "no password");
    assert_eq!(std::fs::read_to_string(&users).unwrap(), "# ours\n");
}

#[test]
fn who_keeps_no_such_files_is_told_so() {
    let served = Served::start("");
    let admin = Some(&*served.admin);
    for path in ["/api/v1/users", "/api/v1/acl"] {
        let (status, answer) = served.get(path, admin);
        assert!(status == 409 && answer.contains(" is not set"), "{answer}");
    }
    let (_, answer) = served.ask_with("PUT", "/api/v1/users/a", admin, "{}");
    let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert!(body["error"].as_str().unwrap().contains("password"), "{answer}");
}
