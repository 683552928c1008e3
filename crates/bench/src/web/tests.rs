use super::*;
use crate::live::sample;
use crate::web::server::start;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

struct Served {
    hub: Arc<Hub>,
    address: SocketAddr,
    folder: tempfile::TempDir,
    server: weir_http::Thread,
}

/// A page over one kept run, as a command would serve it.
fn served() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("results/20260101T000000Z-one");
    std::fs::create_dir_all(&run).unwrap();
    std::fs::write(run.join("result.json"), include_str!("../../tests/data/result.json")).unwrap();
    std::fs::write(folder.path().join("result.json"), "secret").unwrap();
    let hub = Arc::new(Hub::default());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let site = page(&hub, &folder.path().join("results"), Names::of(&listener));
    let server = start(vec![(listener, site)], None).unwrap();
    Served { hub, address, folder, server }
}

impl Served {
    fn ask(&self, head: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream
    }

    /// The whole answer to a request that closes its connection.
    fn answer(&self, method: &str, path: &str, host: &str) -> String {
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let mut text = String::new();
        self.ask(&head).read_to_string(&mut text).unwrap();
        text
    }

    fn get(&self, path: &str) -> String {
        self.answer("GET", path, "127.0.0.1")
    }

    fn listen(&self) -> BufReader<TcpStream> {
        BufReader::new(self.ask("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }
}

/// Lines of a stream up to the first that has this in it.
fn read_until(stream: &mut BufReader<TcpStream>, part: &str) -> String {
    let mut line = String::new();
    while !line.contains(part) {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "ended before {part}");
    }
    line
}

#[test]
fn the_page_is_whole_and_may_load_nothing() {
    let served = served();
    let text = served.get("/");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    assert!(text.contains("content-security-policy: default-src 'none'"), "{}", &text[..900]);
    assert!(text.contains("new EventSource") && text.contains("uPlot"), "scripts are in it");
    for place in ["/*page.js*/", "/*page.css*/", "/*uplot.js*/", "src=\"", "@import"] {
        assert!(!text.contains(place), "{place}");
    }
}

#[test]
fn a_listener_hears_the_state_and_then_every_event() {
    let served = served();
    let events = sample::events(2);
    events[..3].iter().for_each(|event| served.hub.tell(event));
    let mut stream = served.listen();
    let state = read_until(&mut stream, "data: ");
    assert!(
        state.contains("\"broker\":\"Weir 0.1.0\"") && state.contains("\"cells\":["),
        "{state}"
    );
    served.hub.tell(&events[3]);
    let event = read_until(&mut stream, "data: ");
    assert_eq!(event.trim_end(), r#"data: {"event":"phase","of":{"name":"measure","t_s":1.0}}"#);
    // The connection ends with the command.
    drop(served.server);
    stream.read_to_string(&mut String::new()).unwrap();
}

#[test]
fn more_listeners_than_allowed_are_sent_away_and_a_place_is_given_back() {
    let served = served();
    let mut streams: Vec<_> = (0..STREAMS_MAX).map(|_| served.listen()).collect();
    for stream in &mut streams {
        read_until(stream, "data: ");
    }
    assert!(served.get("/events").starts_with("HTTP/1.1 503"));
    drop(streams.pop());
    // The server notices that it has gone when it next writes.
    let event = sample::ended();
    let is_free = |_: &usize| {
        served.hub.tell(&event);
        let mut line = String::new();
        served.listen().read_line(&mut line).unwrap();
        line.starts_with("HTTP/1.1 200")
    };
    assert!((0..10_000).find(is_free).is_some());
}

#[test]
fn kept_runs_are_listed_and_nothing_beside_them_is_shown() {
    let served = served();
    let list = served.get("/runs");
    assert!(list.contains("\"id\":\"20260101T000000Z-one\""), "{list}");
    assert!(served.get("/runs/20260101T000000Z-one").contains("\"schema\""));
    assert!(served.folder.path().join("result.json").is_file());
    for path in [
        "/runs/..",
        "/runs/%2e%2e",
        "/runs/..%2f",
        "/runs/%2e%2e%2fresults",
        "/runs/.",
        "/runs/none",
        "/../result.json",
        "/result.json",
        "/runs/20260101T000000Z-one/report",
        "/runs/20260101T000000Z-one/..%2f..%2fresult.json",
    ] {
        let text = served.get(path);
        assert!(text.starts_with("HTTP/1.1 404"), "{path}: {text}");
        assert!(!text.contains("secret"), "{path}");
    }
}

#[test]
fn only_get_is_answered_and_only_by_a_name_of_this_host() {
    let served = served();
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        let text = served.answer(method, "/runs", "localhost");
        assert!(text.starts_with("HTTP/1.1 405"), "{method}: {text}");
    }
    for host in ["localhost", "localhost:81", "127.0.0.1:81", "[::1]", "[::1]:81"] {
        assert!(served.answer("GET", "/", host).starts_with("HTTP/1.1 200"), "{host}");
    }
    for host in ["elsewhere.example", "localhost.elsewhere.example:80", ""] {
        assert!(served.answer("GET", "/runs", host).starts_with("HTTP/1.1 403"), "{host}");
    }
}

#[test]
fn metrics_are_those_of_the_run_under_way() {
    let served = served();
    sample::events(3).iter().for_each(|event| served.hub.tell(event));
    let text = served.get("/metrics");
    assert!(text.contains("text/plain; version=0.0.4"), "{text}");
    assert!(text.contains("weir_bench_published_total{"), "{text}");
}
