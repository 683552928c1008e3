//! The API of a running broker: whatever is asked of it, nothing panics, every answer is one that the
//! description has, a viewer changes nothing, and whoever has no token is told nothing.
//!
//! The broker behind it is made up: it answers at once, and notes what it was asked.

use axum::body::{Body, to_bytes};
use axum::http::{Method, Request as HttpRequest, header};
use serde_json::Value;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use tokio::runtime::Runtime;
use weir_control::{
    Answer, BanPage, Changed, Client, ClientPage, ConfigSection, Counters, DrainOrder, DrainState,
    Full, Keeper, Kicked, Link, ListenerPlace, Message, NewBan, NotKept, NotMoved, NotPublished,
    Outlook, Partitions, Port, PutConfig, Reloaded, Request, RetainedPage, Role, Site,
    Subscription, SubscriptionPage, Token, TokenBook, TokenHash, TraceOf, Traced, Unchanged, Whom,
};

/// Answered without a token.
const OPEN: [&str; 3] = ["/healthz", "/readyz", "/api/v1/openapi.json"];

/// Who asks: over TCP without a token, with a wrong one, with one of a role; and over the socket.
const WHO: [Option<&str>; 5] = [Some(""), Some("wrong"), Some("viewer"), Some("admin"), None];

/// Methods, by which the table of operations is gone through, and a few that it has not.
const METHODS: [&str; 8] = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "X"];

/// What the broker was asked to do.
#[derive(Debug, Default)]
struct Deeds {
    /// Whether something was to change.
    changed: AtomicBool,
    /// Whether it was asked anything.
    asked: AtomicBool,
}

/// A broker of two shards.
struct MadeUp {
    deeds: Arc<Deeds>,
    /// Chooses between answers.
    seed: u8,
    answers: Vec<(u16, Answer)>,
    bell: UnixStream,
    wakes: UnixStream,
}

impl MadeUp {
    fn new(seed: u8, deeds: &Arc<Deeds>) -> Self {
        let (bell, wakes) = UnixStream::pair().expect("two open files");
        Self { deeds: Arc::clone(deeds), seed, answers: Vec::new(), bell, wakes }
    }

    fn answer(&self, request: &Request) -> Answer {
        let (seed, is_there) = (self.seed, self.seed.is_multiple_of(2));
        match request {
            Request::Clients { .. } => {
                let clients = vec![client(); usize::from(is_there)];
                let behind = vec![1; clients.len()];
                Answer::Clients(ClientPage { clients, behind, next: None })
            }
            Request::Client(_) => Answer::Client(is_there.then(client)),
            Request::Kick(_) => {
                let all = [Kicked::Ended, Kicked::Absent, Kicked::Unknown];
                Answer::Kicked(all[usize::from(seed) % 3])
            }
            Request::EndClient(_) => Answer::ClientEnded(is_there),
            Request::Subscriptions { .. } => {
                Answer::Subscriptions(is_there.then(|| SubscriptionPage {
                    subscriptions: vec![subscription()],
                    next: Some(9),
                }))
            }
            Request::Retained { .. } => Answer::Retained((seed % 3 != 0).then(|| RetainedPage {
                messages: vec![message(); usize::from(is_there)],
                next: None,
            })),
            Request::Publish(_) => Answer::Published(match seed % 3 {
                0 => Err(NotPublished::Refused("no".into())),
                1 => Err(NotPublished::Busy),
                _ => Ok(()),
            }),
            Request::PublishSys { .. } => Answer::PublishedSys(Ok(())),
            Request::Counters => Answer::Counters(Counters::default()),
            Request::Partitions => Answer::Partitions(Partitions { held: vec![7], sessions: 1 }),
            Request::Move { .. } => Answer::Moved(match seed % 5 {
                0 => Err(NotMoved::UnderWay),
                1 => Err(NotMoved::UnknownShard),
                2 => Err(NotMoved::IsThere),
                3 => Err(NotMoved::Logged),
                _ => Ok(()),
            }),
            Request::EndBanned(_) => Answer::EndedBanned(3),
            Request::Drain(_) => {
                Answer::Drain(DrainState { is_draining: seed % 3 == 0, ended: 1, connections: 2 })
            }
            Request::Listeners => Answer::Listeners(vec![5, 6]),
            Request::Drops(_) => Answer::Drops(Vec::new()),
            Request::Trace(_) => Answer::Trace(Traced::default()),
            Request::Top(_) => Answer::Top(Box::default()),
            Request::Outlook { .. } => Answer::Outlook(is_there.then(|| Box::new(outlook()))),
        }
    }

    fn change(&self) -> bool {
        self.deeds.changed.store(true, Ordering::Relaxed);
        self.seed.is_multiple_of(2)
    }
}

fn client() -> Client {
    Client {
        client_id: "c\u{1b}\"".into(),
        user: Some("ann".into()),
        connection: Some(Link { version: "5.0".into(), keep_alive_s: 7 }),
        session_expiry_s: None,
        subscriptions: 1,
        queued_messages: 2,
        queued_bytes: 3,
        in_flight: 4,
    }
}

fn subscription() -> Subscription {
    Subscription {
        filter: "$share/g/#".into(),
        condition: Some("a > 1".into()),
        qos: 1,
        no_local: false,
        retain_as_published: true,
        subscription_id: Some(7),
    }
}

fn message() -> Message {
    Message { topic: "a/\u{1}".into(), payload: vec![0xff, 1], qos: 1, retain: true }
}

fn outlook() -> Outlook {
    Outlook {
        client: client(),
        may_read: true,
        subscriptions: vec![subscription()],
        matching: 1,
        queue_messages_max: 2,
        queue_bytes_max: 3,
        in_flight_max: None,
        output_bytes: 0,
        output_bytes_max: 1,
        is_memory_short: false,
    }
}

impl Port for MadeUp {
    fn shards(&self) -> u16 {
        2
    }

    fn owner(&self, client_id: &str) -> u16 {
        client_id.len() as u16 % 2
    }

    fn ask(&mut self, shard: u16, request: Request) -> Result<(), Full> {
        self.deeds.asked.store(true, Ordering::Relaxed);
        let looks = match &request {
            Request::Drain(order) => *order == DrainOrder::Look,
            Request::Kick(_)
            | Request::EndClient(_)
            | Request::Publish(_)
            | Request::PublishSys { .. }
            | Request::Move { .. }
            | Request::EndBanned(_)
            | Request::Trace(_) => false,
            _ => true,
        };
        if !looks {
            self.change();
        }
        if self.seed % 16 == 15 {
            return Err(Full);
        }
        self.answers.push((shard, self.answer(&request)));
        self.bell.write_all(&[0]).map_err(|_| Full)
    }

    fn ban(&mut self, _ban: NewBan) -> Result<Changed, Unchanged> {
        if self.change() { Ok(Changed::default()) } else { Err(Unchanged::Full(9)) }
    }

    fn unban(&mut self, _whom: &Whom) -> Result<Changed, Unchanged> {
        if self.change() { Ok(Changed::default()) } else { Err(Unchanged::InFile) }
    }

    fn bans(&self, _from: usize, _bans_max: usize) -> BanPage {
        BanPage::default()
    }

    fn check_trace(&self, of: &TraceOf) -> Result<(), String> {
        if of.name.is_empty() { Err("it has no name".into()) } else { Ok(()) }
    }

    fn keeper(&self) -> Arc<dyn Keeper> {
        Arc::new(Files { deeds: Arc::clone(&self.deeds), is_there: self.seed.is_multiple_of(2) })
    }

    fn take_answers(&mut self, take: &mut dyn FnMut(u16, Answer)) {
        self.answers.drain(..).for_each(|(shard, answer)| take(shard, answer));
    }

    fn wakes(&self) -> io::Result<UnixStream> {
        self.wakes.try_clone()
    }
}

/// Files that are there, or not.
#[derive(Debug)]
struct Files {
    deeds: Arc<Deeds>,
    is_there: bool,
}

impl Files {
    fn found<T>(&self, what: T) -> Result<T, NotKept> {
        self.deeds.asked.store(true, Ordering::Relaxed);
        if self.is_there { Ok(what) } else { Err(NotKept::NoFile("no file".into())) }
    }

    fn changed<T>(&self, what: T) -> Result<T, NotKept> {
        self.deeds.changed.store(true, Ordering::Relaxed);
        self.found(what)
    }
}

impl Keeper for Files {
    fn reload(&self) -> Reloaded {
        match self.changed(()) {
            Ok(()) => Reloaded::default(),
            Err(_) => Reloaded::failed("the file", "it is none".into()),
        }
    }

    fn config(&self) -> String {
        String::new()
    }

    fn config_file(&self) -> Result<String, NotKept> {
        self.found(String::new())
    }

    fn may_guests_write(&self) -> bool {
        self.is_there
    }

    fn sections(&self) -> Vec<ConfigSection> {
        Vec::new()
    }

    fn put_config(&self, _text: &str, _how: PutConfig) -> Result<Reloaded, NotKept> {
        self.changed(Reloaded::default())
    }

    fn users(&self) -> Result<Vec<String>, NotKept> {
        self.found(vec!["ann".into()])
    }

    fn put_user(&self, name: &str, password: Option<&str>) -> Result<bool, NotKept> {
        self.changed(name.len().is_multiple_of(2) && password.is_some())
    }

    fn rights(&self, _user: Option<&str>) -> Result<String, NotKept> {
        self.found(String::new())
    }

    fn put_rights(&self, _user: Option<&str>, _text: &str) -> Result<(), NotKept> {
        self.changed(())
    }

    fn listeners(&self) -> Vec<ListenerPlace> {
        Vec::new()
    }
}

/// A request: who asks, by what method, which operation, the seed of the answers, flags; then lines:
/// what stands for parameters of the path, the query, headers of a name and a value with a colon
/// between; the rest is the body.
fn request(input: &[u8]) -> Option<(Option<&'static str>, u8, HttpRequest<Body>)> {
    let &[who, method, operation, seed, flags, ref rest @ ..] = input else { return None };
    let who = WHO[usize::from(who) % WHO.len()];
    let mut parts = rest.splitn(4, |&byte| byte == b'\n');
    let mut part = || parts.next().unwrap_or_default();
    let (name, query, headers, body) = (part(), part(), part(), part().to_vec());
    let paths = &*PATHS;
    let template = &paths[usize::from(operation) % paths.len()];
    let name = match flags & 1 {
        0 => name.iter().map(|byte| format!("%{byte:02x}")).collect(),
        _ => String::from_utf8(name.to_vec()).ok()?,
    };
    let mut path = String::new();
    for part in template.split('/').skip(1) {
        path += "/";
        path += if part.starts_with('{') { &name } else { part };
    }
    if flags & 2 != 0 {
        path = format!("/{name}");
    }
    if !query.is_empty() {
        path = format!("{path}?{}", std::str::from_utf8(query).ok()?);
    }
    let method = METHODS[usize::from(method) % METHODS.len()];
    let mut request = HttpRequest::builder().method(method).uri(path);
    if flags & 4 == 0 && !body.is_empty() {
        let kind = if body.starts_with(b"topic") { "text/plain" } else { "application/json" };
        request = request.header(header::CONTENT_TYPE, kind);
    }
    if !body.is_empty() {
        request = request.header(header::CONTENT_LENGTH, body.len());
    }
    for line in headers.split(|&byte| byte == b'\r') {
        if let Some((name, value)) = std::str::from_utf8(line).ok()?.split_once(':')
            && !name.eq_ignore_ascii_case("authorization")
        {
            request = request.header(name, value);
        }
    }
    if let Some(token) = who.filter(|token| !token.is_empty()) {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    // What is no request of HTTP does not get that far.
    Some((who, seed, request.body(Body::from(body)).ok()?))
}

fn site(seed: u8, deeds: &Arc<Deeds>) -> Site {
    let token = |name: &str, role| Token { name: name.into(), role, hash: TokenHash::of(name) };
    let tokens = TokenBook::default();
    tokens.set(vec![token("viewer", Role::Viewer), token("admin", Role::Admin)]);
    Site::new(MadeUp::new(seed, deeds), tokens, false, true)
}

/// The API's description, and the paths in it.
static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| {
    // On a thread of its own: it may be asked for where another runtime runs.
    let ask = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let request = HttpRequest::get("/api/v1/openapi.json").body(Body::empty());
            let response = site(0, &Arc::default()).answer(request.expect("it is one")).await;
            let body = to_bytes(response.into_body(), usize::MAX).await.expect("a body");
            serde_json::from_slice(&body).expect("JSON")
        })
    };
    std::thread::spawn(ask).join().expect("a description")
});
static PATHS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let paths = DESCRIPTION["paths"].as_object().expect("paths");
    // An answer of who talks most takes seconds; the contract test asks for some.
    let paths = paths.keys().filter(|path| *path != "/api/v1/top");
    paths.cloned().chain(["/".into(), "/dashboard/base.js".into()]).collect()
});

/// Runs the properties on an input, on a runtime of one thread.
///
/// # Panics
/// If a property does not hold.
pub fn check(runtime: &Runtime, input: &[u8]) {
    let Some((who, seed, request)) = request(input) else { return };
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let deeds = Arc::new(Deeds::default());
    let (status, kind, body) = runtime.block_on(async {
        let site = site(seed, &deeds);
        let deliver = tokio::spawn(site.deliver());
        let answer = match who {
            None => site.answer(request).await,
            Some(_) => {
                let answer = site.answer_guest(request, [192, 0, 2, 7].into()).await;
                answer.expect("there is a place")
            }
        };
        let kind = answer.headers().get(header::CONTENT_TYPE);
        let kind = kind.map(|kind| kind.to_str().expect("a text").to_owned());
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await.expect("a body");
        deliver.abort();
        (status, kind, body)
    });
    let shown = format!("{method} {path} of {who:?}: {status} {kind:?} {body:?}");
    let (changed, asked) =
        (deeds.changed.load(Ordering::Relaxed), deeds.asked.load(Ordering::Relaxed));
    assert!(status < 500 || status == 503, "{shown}");
    match who {
        Some("" | "wrong") => {
            assert!(!changed && (!asked || path == "/readyz"), "{shown}");
            let is_open = OPEN.contains(&&*path) || path == "/" || path.starts_with("/dashboard/");
            assert!(is_open || status == 401, "{shown}");
        }
        Some("viewer") => {
            assert!(!changed, "{shown}");
            let is_look = matches!(method, Method::GET | Method::HEAD);
            assert!(is_look || status >= 400, "{shown}");
        }
        _ => assert!(!matches!(status, 401 | 429), "{shown}"),
    }
    is_described(&method, &path, status, kind.as_deref(), &body, &shown);
}

/// Whether the description has such an answer.
fn is_described(
    method: &Method,
    path: &str,
    status: u16,
    kind: Option<&str>,
    body: &[u8],
    shown: &str,
) {
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default());
    if kind == Some("application/json") && method != Method::HEAD {
        assert!(serde_json::from_slice::<Value>(body).is_ok(), "{shown}");
    }
    let wanted = if method == Method::HEAD { "get".into() } else { method.as_str().to_lowercase() };
    let paths = DESCRIPTION["paths"].as_object().expect("paths");
    let operation = matching(path).and_then(|template| paths[template].get(&wanted));
    let Some(operation) = operation else {
        let is_file = path == "/" || path.starts_with("/dashboard/");
        assert!(is_file || matches!(status, 401 | 403 | 404 | 405), "{shown}");
        return;
    };
    let mut answer = &operation["responses"][status.to_string()];
    assert!(answer.is_object(), "{shown}");
    if let Some(name) = answer["$ref"].as_str() {
        answer = DESCRIPTION.pointer(&name[1..]).expect("it is there");
    }
    match (answer["content"].as_object(), kind) {
        (Some(kinds), Some(kind)) => assert!(kinds.contains_key(kind), "{shown}"),
        (None, None) => assert!(body.is_empty(), "{shown}"),
        _ => panic!("{shown}"),
    }
}

/// The path of the description that this one is of; those without parameters first.
fn matching(path: &str) -> Option<&'static String> {
    let is_it = |template: &&String| {
        let has_tail = template.as_str() == "/api/v1/retained/{topic}";
        let (mut wanted, mut parts) = (template.split('/').peekable(), path.split('/'));
        loop {
            match (wanted.next(), parts.next()) {
                (None, None) => return true,
                (Some("{topic}"), Some(part)) if has_tail => {
                    return !part.is_empty() || parts.next().is_some();
                }
                // Nothing is there only in the middle.
                (Some(name), Some(part))
                    if name.starts_with('{') && (!part.is_empty() || wanted.peek().is_some()) => {}
                (Some(wanted), Some(part)) if wanted == part => {}
                _ => return false,
            }
        }
    };
    let known = PATHS.iter().filter(|path| DESCRIPTION["paths"].get(path.as_str()).is_some());
    known.filter(is_it).min_by_key(|template| template.matches('{').count())
}

/// Seeds: an input for each operation, as who may do it.
pub fn seeds() -> Vec<Vec<u8>> {
    const BODIES: [&str; 5] = [
        "",
        r#"{"topic":"a","payload":"eA==","payload_encoding":"base64","qos":2,"retain":true}"#,
        r#"[{"topic":"a"},{"topic":"$SYS","qos":1}]"#,
        r#"{"password":"secret"}"#,
        "topic read a/#\n",
    ];
    const QUERIES: [&str; 9] = [
        "",
        "limit=7&cursor=1-5",
        "kind=client&name=a&for_s=9&reason=x",
        "filter=%23&payload=true&limit=1000",
        "after=3&wait_s=0",
        "client=a&topic=b",
        "shard=1",
        "dry_run=true",
        "server=b&moved=true&rate=1",
    ];
    let mut seeds = Vec::new();
    for operation in 0..PATHS.len() as u8 {
        for (at, method) in (0..4).enumerate() {
            let (query, body) = (
                QUERIES[(usize::from(operation) + at) % QUERIES.len()],
                if at % 3 == 0 { "" } else { BODIES[usize::from(operation) % BODIES.len()] },
            );
            let head = [operation % 2 + 3, method, operation, operation, 1];
            let lines = format!("7\n{query}\naccept:application/openmetrics-text\n{body}");
            seeds.push([&head[..], lines.as_bytes()].concat());
        }
    }
    seeds
}
