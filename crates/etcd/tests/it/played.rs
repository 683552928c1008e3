//! What goes over the wire, and what happens when it does not come back.

use crate::asking::Asking;
use crate::fake::{Act, Came, Fake, ok};
use std::net::TcpListener;
use weir_cluster::{Ask, Change, Failure, LeaseId, Revision, Said};
use weir_etcd::{BadEtcd, Busy, Etcd, EtcdSettings, StartError, User};

const EMPTY: &str = r#"{"header":{"revision":"3"}}"#;

fn get() -> Ask {
    Ask::Get { key: "foo".into() }
}

fn none() -> Said {
    Said::Found { records: Vec::new(), revision: Revision(3) }
}

fn unavailable() -> Said {
    Said::Failed(Failure::Unavailable)
}

#[test]
fn a_question_is_a_post_of_json() {
    let fake = Fake::start(|_| ok(EMPTY));
    assert_eq!(Asking::start(&[&fake.url]).said(get()), none());
    let came = fake.request("/v3/kv/range");
    assert_eq!(came.body, r#"{"key":"Zm9v"}"#);
    let head = came.head.to_ascii_lowercase();
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    assert!(!head.contains("authorization"), "{head}");
}

#[test]
fn members_that_are_gone_or_without_a_leader_are_left_for_the_next() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone_url = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let away = Fake::start(|_| Act::Say(503, r#"{"error":"etcdserver: no leader"}"#.into()));
    let well = Fake::start(|_| ok(EMPTY));
    let mut asking = Asking::start(&[&gone_url, &away.url, &well.url]);
    assert_eq!(asking.said(get()), none());
    // The one that has answered is the first to be asked.
    assert_eq!(asking.said(get()), none());
    assert_eq!(away.came.try_iter().count(), 1);
}

#[test]
fn a_member_that_is_silent_is_left_for_the_next() {
    let silent = Fake::start(|_| Act::Wait);
    let well = Fake::start(|_| ok(EMPTY));
    assert_eq!(Asking::start(&[&silent.url, &well.url]).said(get()), none());
}

#[test]
fn a_member_that_renews_but_cannot_read_is_not_believed() {
    let renew = |came: &Came| match came.path.as_str() {
        "/v3/lease/keepalive" => ok(r#"{"result":{"ID":"7","TTL":"6"}}"#),
        _ => Act::Wait,
    };
    let deposed = Fake::start(renew);
    let keep_alive = || Ask::KeepAlive { lease: LeaseId(7), key: "foo".into() };
    assert_eq!(Asking::start(&[&deposed.url]).said(keep_alive()), unavailable());
    let well = Fake::start(move |came| match renew(came) {
        Act::Wait => ok(EMPTY),
        act => act,
    });
    assert_eq!(Asking::start(&[&deposed.url, &well.url]).said(keep_alive()), Said::Renewed);
    assert_eq!(well.request("/v3/kv/range").body, r#"{"key":"Zm9v"}"#);
    assert_eq!(well.request("/v3/lease/keepalive").body, r#"{"ID":"7"}"#);
}

#[test]
fn where_nobody_answers_that_is_said() {
    let silent = Fake::start(|_| Act::Wait);
    assert_eq!(Asking::start(&[&silent.url]).said(get()), unavailable());
    let strange = Fake::start(|_| ok("<html>"));
    assert_eq!(Asking::start(&[&strange.url]).said(get()), unavailable());
    let watch = Ask::Watch { prefix: "foo".into(), from: Revision(4) };
    assert_eq!(Asking::start(&[&silent.url]).said(watch), unavailable());
}

#[test]
fn a_watch_tells_line_by_line_and_says_when_it_ends() {
    let put = r#"{"result":{"events":[{"kv":{"key":"Zm9v","mod_revision":"4","value":"eA=="}}]}}"#;
    let (first, second) = put.split_at(30);
    let gone =
        r#"{"result":{"events":[{"type":"DELETE","kv":{"key":"Zm9v","mod_revision":"5"}}]}}"#;
    let compacted = r#"{"result":{"canceled":true,"compact_revision":"9"}}"#;
    let pieces = [
        "{\"result\":{\"created\":true}}\n".to_owned(),
        first.to_owned(),
        format!("{second}\n{gone}\n"),
        format!("{compacted}\n"),
    ];
    let fake = Fake::start(move |_| Act::Stream(pieces.to_vec()));
    let mut asking = Asking::start(&[&fake.url]);
    let watch = asking.ask(Ask::Watch { prefix: "foo".into(), from: Revision(4) });
    let (ticket, Said::Changed { changes }) = asking.next() else { panic!("no change") };
    assert_eq!((ticket, changes.len()), (watch, 1));
    assert!(matches!(&changes[0], Change::Put(record) if record.value == b"x"));
    let (key, revision) = ("foo".to_owned(), Revision(5));
    let changes = vec![Change::Gone { key, revision }];
    assert_eq!(asking.next(), (watch, Said::Changed { changes }));
    assert_eq!(asking.next(), (watch, Said::Failed(Failure::Compacted)));
}

#[test]
fn a_watch_of_the_same_prefix_ends_the_one_before() {
    let fake = Fake::start(|_| Act::Stream(vec!["{\"result\":{\"created\":true}}\n".into()]));
    let mut asking = Asking::start(&[&fake.url]);
    let watch = || Ask::Watch { prefix: "foo".into(), from: Revision(4) };
    asking.ask(watch());
    fake.request("/v3/watch");
    let second = asking.ask(watch());
    fake.request("/v3/watch");
    drop(fake);
    // Of the first nothing is said any more.
    assert_eq!(asking.next(), (second, unavailable()));
    assert_eq!(asking.said(get()), unavailable());
}

#[test]
fn a_user_gets_a_token_and_another_when_that_is_not_known_any_more() {
    let fake = Fake::start(|came| {
        let has = |token: &str| came.head.contains(&format!("authorization: {token}\r\n"));
        match came.path.as_str() {
            "/v3/auth/authenticate" => ok(r#"{"token":"new"}"#),
            _ if has("new") && came.body.contains("Zm9v") => ok(EMPTY),
            _ => Act::Say(401, r#"{"error":"etcdserver: invalid auth token","code":16}"#.into()),
        }
    });
    let user = User { name: "weir".into(), password: "secret \"1\"".into() };
    assert!(!format!("{user:?}").contains("secret"));
    let endpoints = vec![fake.url.clone()];
    let settings = EtcdSettings { endpoints, user: Some(user), ..EtcdSettings::default() };
    let mut asking = Asking::by(&settings);
    assert_eq!(asking.said(get()), none());
    let came = fake.request("/v3/auth/authenticate");
    assert_eq!(came.body, r#"{"name":"weir","password":"secret \"1\""}"#);
    // It is asked for once more, and then it is enough.
    assert_eq!(asking.said(Ask::Get { key: "bar".into() }), unavailable());
    let paths: Vec<String> = fake.came.try_iter().map(|came| came.path).collect();
    assert_eq!(paths, ["/v3/kv/range", "/v3/kv/range", "/v3/auth/authenticate", "/v3/kv/range"]);
}

#[test]
fn more_questions_than_can_wait_are_refused() {
    let silent = Fake::start(|_| Act::Wait);
    let asking = Asking::start(&[&silent.url]);
    let mut all = (1..=10_000).map(|at| {
        let ask = Ask::Revoke { lease: LeaseId(at) };
        asking.etcd.ask(weir_cluster::Ticket(at as u64), ask)
    });
    assert!(all.any(|asked| asked == Err(Busy)));
}

#[test]
fn what_is_no_endpoint_is_named() {
    let started = |endpoints: &[&str]| {
        let endpoints = endpoints.iter().map(|&endpoint| endpoint.to_owned()).collect();
        let settings = EtcdSettings { endpoints, ..EtcdSettings::default() };
        match Etcd::start(&settings, || {}) {
            Err(StartError::Settings(bad)) => bad,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(started(&[]), BadEtcd::NoEndpoint);
    let path = "http://localhost:2379/v3";
    assert_eq!(started(&["http://localhost:2379/", path]), BadEtcd::Path(path.into()));
    for endpoint in ["", "localhost", "localhost:2379", "http://", "ftp://a", "http://u:p@a:1"] {
        assert!(matches!(started(&[endpoint]), BadEtcd::Endpoint(..)), "{endpoint}");
    }
}
