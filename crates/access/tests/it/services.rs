//! What services do, and what becomes of it.

use crate::desk::{Desk, allowed, question};
use crate::fake::{self, Act, Fake, json};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::PrivateKeyDer;
use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use weir_access::{Action, Answer, Busy, By, Form, HttpConfig, Method, Rights, Rule, Setup};

fn config(url: &str) -> HttpConfig {
    let text = serde_json::json!({"url": url, "cache_s": 0, "timeout_ms": 20_000});
    serde_json::from_value(text).unwrap()
}

fn desk(config: HttpConfig) -> Desk {
    Desk::new(&Setup { http: Some(config), jwt: None }).unwrap()
}

fn ask(desk: &Desk, password: &str) -> Answer {
    desk.ask(By::Service, &question("c1", "ann", password))
}

#[test]
fn a_service_allows_denies_and_ignores() {
    let service = Fake::start(|came| {
        let of = |password: &str| came.body.contains(&format!("\"password\":\"{password}\""));
        match () {
            () if of("right") => json(r#"{"result":"allow"}"#),
            () if of("rights") => json(
                r#"{"result":"allow","acl":[{"permission":"deny","action":"publish",
                    "topic":"x/${username}"}],"expire_at":4000000000}"#,
            ),
            () if of("none") => json(r#"{"result":"ignore"}"#),
            () => json(r#"{"result":"deny"}"#),
        }
    });
    let mut config = config(&service.url("/auth?by=weir"));
    config.headers.insert("X-Key".into(), "s3cret".into());
    let desk = desk(config);
    assert_eq!(ask(&desk, "right"), allowed());
    assert_eq!(ask(&desk, "wrong"), Answer::Deny);
    assert_eq!(ask(&desk, "none"), Answer::Ignore);
    let Answer::Allow(identity) = ask(&desk, "rights") else { panic!("not allowed") };
    let rule = Rule { allows: false, action: Action::Publish, filter: "x/ann".into() };
    assert_eq!(
        (identity.rights, identity.expires_at_s),
        (Rights::Rules(vec![rule]), Some(4_000_000_000))
    );
    let came = &service.requests()[0];
    assert_eq!(came.line, "POST /auth?by=weir");
    assert!(came.head.contains("x-key: s3cret") && came.head.contains("application/json"));
    let body = r#"{"clientid":"c1","username":"ann","password":"right","peerhost":"192.0.2.7"}"#;
    assert_eq!(came.body, body);
    for (name, count) in [
        ("auth_service_up", 1),
        ("auth_service_asked", 4),
        ("auth_service_allowed", 2),
        ("auth_service_denied", 1),
        ("auth_service_ignored", 1),
        ("auth_service_failed", 0),
        ("auth_service_queue", 0),
    ] {
        assert_eq!(desk.count(name), count, "{name}");
    }
    assert!(desk.count("auth_service_us_sum") >= desk.count("auth_service_us_max"));
    assert_eq!(service.open_max.load(std::sync::atomic::Ordering::SeqCst), 1, "used again");
}

#[test]
fn what_is_no_answer_lets_nobody_in() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Length: 18\r\n\r\n{\"result\":".to_vec();
    let huge = format!("{{\"result\":\"allow\",\"x\":\"{}\"}}", "x".repeat(100_000));
    let acts = move |came: &fake::Came| match &*came.line {
        "POST /garbage" => Act::Raw(b"\0\x01\x02 no HTTP\r\n\r\n".to_vec()),
        "POST /cut" => Act::Raw(cut.clone()),
        "POST /closed" => Act::Raw(Vec::new()),
        "POST /huge" => json(&huge),
        "POST /html" => json("<html>allow</html>"),
        "POST /error" => Act::Say(500, r#"{"result":"allow"}"#.into()),
        _ => json(r#"{"result":"allow"}"#),
    };
    let service = Fake::start(acts);
    for path in ["/garbage", "/cut", "/closed", "/huge", "/html", "/error"] {
        let desk = desk(config(&service.url(path)));
        assert_eq!(ask(&desk, "right"), Answer::Unavailable, "{path}");
        let counts = ["auth_service_failed", "auth_service_up", "auth_service_timed_out"];
        assert_eq!(counts.map(|name| desk.count(name)), [1, 0, 0], "{path}");
    }
    assert_eq!(ask(&desk(config(&service.url("/"))), "right"), allowed());
}

#[test]
fn a_redirect_is_not_followed_and_lets_nobody_in() {
    let other = Fake::start(|_| json(r#"{"result":"allow"}"#));
    let to = other.url("/");
    let service = Fake::start(move |came| {
        let status = came.line.rsplit('/').next().unwrap_or_default();
        let body = r#"{"result":"allow"}"#;
        let head = format!("HTTP/1.1 {status} X\r\nLocation: {to}\r\nContent-Length: 18\r\n\r\n");
        Act::Raw(format!("{head}{body}").into_bytes())
    });
    for status in [300, 301, 302, 303, 307, 308] {
        let desk = desk(config(&service.url(&format!("/{status}"))));
        assert_eq!(ask(&desk, "right"), Answer::Unavailable, "{status}");
        assert_eq!(desk.count("auth_service_failed"), 1, "{status}");
    }
    assert!(other.requests().is_empty(), "{:?}", other.requests());
}

#[test]
fn a_slow_service_is_waited_for_only_so_long() {
    let service = Fake::start(|_| Act::Wait);
    let desk = desk(HttpConfig { timeout_ms: 50, ..config(&service.url("/")) });
    assert_eq!(ask(&desk, "right"), Answer::Unavailable);
    assert_eq!((desk.count("auth_service_timed_out"), desk.count("auth_service_up")), (1, 0));
}

#[test]
fn more_clients_than_may_wait_are_told_at_once() {
    let service = Fake::start(|_| Act::Wait);
    let desk = desk(HttpConfig { queue: 2, ..config(&service.url("/")) });
    let question = question("c1", "ann", "x");
    let asked: Vec<_> = (0..3).map(|tag| desk.put(tag, By::Service, &question)).collect();
    assert_eq!(asked, [Ok(()), Ok(()), Err(Busy)]);
    assert_eq!((desk.count("auth_service_busy"), desk.count("auth_service_queue")), (1, 2));
    // The service is gone: those that wait hear of it, and others may wait.
    drop(service);
    assert_eq!(desk.answer().1, Answer::Unavailable);
    assert_eq!(desk.put(3, By::Service, &question), Ok(()));
}

#[test]
fn no_more_connections_than_the_pool_has() {
    let service = Fake::start(|_| json(r#"{"result":"allow"}"#));
    let desk = desk(HttpConfig { pool: 3, ..config(&service.url("/")) });
    for tag in 0..100 {
        desk.put(tag, By::Service, &question("c1", "ann", "x")).unwrap();
    }
    for _ in 0..100 {
        assert_eq!(desk.answer().1, allowed());
    }
    let open_max = service.open_max.load(std::sync::atomic::Ordering::SeqCst);
    assert!(open_max <= 3, "{open_max}");
}

#[test]
fn a_dead_service_is_asked_again_when_it_is_back_even_at_another_address() {
    let allow = |_: &fake::Came| json(r#"{"result":"allow"}"#);
    let service = Fake::at("127.0.0.1:0", allow).unwrap();
    let port = service.address.port();
    let desk = desk(config(&format!("http://localhost:{port}/")));
    assert_eq!(ask(&desk, "1"), allowed());
    drop(service);
    assert_eq!(ask(&desk, "2"), Answer::Unavailable);
    assert_eq!(desk.count("auth_service_up"), 0);
    // The name has both addresses, if this host has.
    let Ok(service) = Fake::at(&format!("[::1]:{port}"), allow) else { return };
    let has_both = std::net::ToSocketAddrs::to_socket_addrs(&("localhost", port));
    if !has_both.unwrap().any(|address| address.is_ipv6()) {
        return;
    }
    assert_eq!(ask(&desk, "3"), allowed());
    assert_eq!((desk.count("auth_service_up"), service.requests().len()), (1, 1));
}

#[test]
fn who_comes_back_is_let_in_by_what_was_said_and_nobody_else_is() {
    let service = Fake::start(|came| match came.body.contains("right") {
        true => json(r#"{"result":"allow"}"#),
        false => json(r#"{"result":"deny"}"#),
    });
    let desk = desk(HttpConfig { cache_s: 3_600, ..config(&service.url("/")) });
    for _ in 0..3 {
        assert_eq!(ask(&desk, "right"), allowed());
        assert_eq!(ask(&desk, "no"), Answer::Deny);
    }
    let mut elsewhere = question("c1", "ann", "right");
    elsewhere.peer = None;
    assert_eq!(desk.ask(By::Service, &elsewhere), allowed());
    assert_eq!((desk.count("auth_service_known"), service.requests().len()), (2, 5));
    desk.asker.reload(Setup::default().check().unwrap());
    assert_eq!(ask(&desk, "right"), allowed());
    assert_eq!(service.requests().len(), 6, "what was known is forgotten");
}

#[test]
fn what_was_asked_before_a_reload_is_not_known_after_it() {
    let (say, waits) = std::sync::mpsc::channel::<()>();
    let (waits, (came, comes)) = (std::sync::Mutex::new(waits), std::sync::mpsc::channel());
    let service = Fake::start(move |_| {
        came.send(()).unwrap();
        waits.lock().unwrap().recv().unwrap();
        json(r#"{"result":"allow"}"#)
    });
    let desk = desk(HttpConfig { timeout_ms: 60_000, cache_s: 3_600, ..config(&service.url("/")) });
    let question = question("c1", "ann", "x");
    desk.put(1, By::Service, &question).unwrap();
    comes.recv().unwrap();
    desk.asker.reload(Setup::default().check().unwrap());
    // It is answered once the reload is done.
    assert_eq!(desk.ask(By::Token, &question), Answer::Ignore);
    (0..2).for_each(|_| say.send(()).unwrap());
    assert_eq!(desk.answer(), (1, allowed()));
    assert_eq!(desk.ask(By::Service, &question), allowed());
    assert_eq!((desk.count("auth_service_known"), service.requests().len()), (0, 2));
}

#[test]
fn an_answer_is_not_known_for_longer_than_it_holds() {
    let service = Fake::start(|_| json(r#"{"result":"allow","expire_at":5}"#));
    let desk = desk(HttpConfig { cache_s: 3_600, ..config(&service.url("/")) });
    (0..2).for_each(|_| assert!(matches!(ask(&desk, "x"), Answer::Allow(_))));
    assert_eq!(service.requests().len(), 2);
}

#[test]
fn mosquitto_go_auths_form_asks_for_users_and_superusers() {
    let service = Fake::start(|came| match (&*came.line, came.body.contains("root")) {
        ("POST /super", true) => json(r#"{"Ok":true}"#),
        ("POST /super", false) => Act::Say(401, String::new()),
        _ if came.body.contains("wrong") => json(r#"{"Ok":false,"Error":"no"}"#),
        _ => Act::Say(200, String::new()),
    });
    let desk = desk(HttpConfig {
        form: Form::MosquittoGoAuth,
        superuser_url: Some(service.url("/super")),
        ..config(&service.url("/user"))
    });
    assert_eq!(ask(&desk, "x"), allowed());
    assert_eq!(ask(&desk, "wrong"), Answer::Deny);
    let Answer::Allow(root) = desk.ask(By::Service, &question("c", "root", "x")) else {
        panic!("not allowed")
    };
    assert_eq!(root.rights, Rights::All);
    let body = r#"{"username":"ann","password":"x","clientid":"c1"}"#;
    assert_eq!(service.requests()[0].body, body);
}

#[test]
fn a_query_is_encoded() {
    let service = Fake::start(|_| json(r#"{"result":"allow"}"#));
    let desk = desk(HttpConfig { method: Method::Get, ..config(&service.url("/a?k=1")) });
    assert_eq!(ask(&desk, "p&q=1 \u{e9}"), allowed());
    let expected = "GET /a?k=1&clientid=c1&username=ann&password=p%26q%3D1%20%C3%A9&\
        peerhost=192%2E0%2E2%2E7";
    assert_eq!(service.requests()[0].line, expected);
}

#[test]
fn a_password_that_no_json_has_is_wrong() {
    let service = Fake::start(|_| json(r#"{"result":"allow"}"#));
    let mut asked = question("c1", "ann", "");
    asked.password = Some(vec![0xFF]);
    assert_eq!(desk(config(&service.url("/"))).ask(By::Service, &asked), Answer::Deny);
}

/// One answer over TLS, with a certificate of `localhost`.
fn secure() -> (u16, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let server = Arc::new(server);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(Arc::clone(&server)).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream.unwrap());
            if let Ok(Some(_)) = fake::read(&mut BufReader::new(&mut stream)) {
                let body = r#"{"result":"allow"}"#;
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                stream.write_all((head + body).as_bytes()).unwrap();
            }
        }
    });
    (port, cert.pem())
}

#[test]
fn a_server_over_tls_has_to_show_a_certificate_of_the_authorities() {
    let folder = std::env::temp_dir().join(format!("weir-access-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (port, own) = secure();
    let (_, others) = secure();
    for (pem, expected) in [(own, allowed()), (others, Answer::Unavailable)] {
        let path = folder.join("ca.pem");
        std::fs::write(&path, pem).unwrap();
        let url = format!("https://localhost:{port}/");
        let desk = desk(HttpConfig { ca_file: Some(path), ..config(&url) });
        assert_eq!(ask(&desk, "right"), expected);
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_asked_is_named() {
    for (url, part) in [
        ("localhost:80", "url: it must be http://"),
        ("ftp://localhost/", "url: it must be http://"),
        ("http:///x", "url: it must be http://"),
        ("http://ann:pencil@localhost/", "url: it must be http://"),
    ] {
        let setup = Setup { http: Some(config(url)), jwt: None };
        let error = setup.check().unwrap_err().to_string();
        assert!(error.contains(part), "{url}: {error}");
    }
    let mut config = config("http://localhost/");
    config.headers.insert("a b".into(), "c".into());
    let error = Setup { http: Some(config.clone()), jwt: None }.check().unwrap_err().to_string();
    assert!(error.contains("auth.http.headers: a b"), "{error}");
    config.headers.clear();
    for (change, part) in [
        (HttpConfig { pool: 0, ..config.clone() }, "at least 1"),
        (HttpConfig { cache_s: 3_601, ..config.clone() }, "cache_s must be 3600"),
    ] {
        let error = Setup { http: Some(change), jwt: None }.check().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    config.superuser_url = Some("http://localhost/".into());
    let error = Setup { http: Some(config), jwt: None }.check().unwrap_err().to_string();
    assert!(error.contains("mosquitto-go-auth"), "{error}");
}
