//! Whoever attacks the API over TCP: others are answered, clients of MQTT are served, and what the
//! attacker may use is bounded and counted.

use crate::api::{Served, exchange, json};
use crate::bans::from_host;
use crate::support::mqtt::Peer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use weir_wire::QoS;

/// Requests of one who does not wait for answers.
const ASKED: usize = 400;

/// Longer than anything here may take.
const SOON: Duration = Duration::from_secs(30);

impl Served {
    /// A connection of the API from this address of the host's loopback network.
    fn visit(&self, host: u8) -> TcpStream {
        let stream = from_host(host, self.broker.http.as_ref().unwrap());
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream
    }

    fn asks_from(&self, host: u8, path: &str, token: Option<&str>) -> u16 {
        exchange(self.visit(host), "GET", path, token, "").0
    }

    /// What it has counted of the process.
    fn counted(&self, name: &str) -> u64 {
        let (status, answer) = self.get("/api/v1/counters", Some(&self.admin));
        assert_eq!(status, 200, "{answer}");
        json(&answer)["process"][name].as_u64().unwrap()
    }

    fn resident_mb(&self) -> u64 {
        self.counted("rss_bytes") / 1_000_000
    }

    /// A client of MQTT gets what it sends itself.
    fn serves(&self, client: &mut Peer) {
        client.publish("echo", "x", None, false);
        assert_eq!(client.message().payload, "x");
    }

    fn echoing(&self) -> Peer {
        let mut client = self.join("echo");
        client.subscribe("echo", QoS::AtMostOnce);
        client
    }
}

/// A request that is whole, of a connection that stays.
fn request(path: &str, token: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: broker\r\nAuthorization: Bearer {token}\r\n\r\n")
}

/// All that comes until the end of the connection.
fn rest(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn is_open(mut stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let read = stream.read(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn strangers_who_take_all_places_keep_nobody_with_a_token_out() {
    let served = Served::start("");
    let mut client = served.echoing();
    let mut viewer = served.visit(9);
    let ask = |viewer: &mut TcpStream| {
        viewer.write_all(request("/api/v1/broker", &served.viewer).as_bytes()).unwrap();
        let mut answer = [0; 512];
        let length = viewer.read(&mut answer).unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200 "), "{answer:?}");
    };
    ask(&mut viewer);
    // Four addresses, which open connections and say nothing, or begin a head.
    let mut held: Vec<_> = (0..4 * 40).map(|at| served.visit(10 + at / 40)).collect();
    held.iter_mut().step_by(2).for_each(|stream| _ = stream.write_all(b"GET / HTTP/1.1\r\na: "));
    for _ in 0..20 {
        assert_eq!(served.asks_from(9, "/api/v1/broker", Some(&served.viewer)), 200);
        assert_eq!(served.asks_from(8, "/healthz", None), 200);
        served.serves(&mut client);
    }
    // Who has shown a token stays.
    ask(&mut viewer);
    assert!(held.iter().filter(|stream| is_open(stream)).count() <= 128);
    assert!(served.counted("api_connections_cut") >= 4 * 8);
    assert!(served.counted("api_connections_displaced") >= 1);
}

#[test]
fn whoever_asks_without_end_keeps_no_other_address_from_asking_whether_all_is_well() {
    let mut served = Served::start("");
    let mut client = served.echoing();
    assert_eq!(served.asks_from(10, "/x", Some("guessed")), 401);
    // At once, on one connection: more than it may ask in two seconds, however slow the machine is.
    let mut asker = served.visit(10);
    asker.write_all(request("/healthz", "guessed").repeat(ASKED).as_bytes()).unwrap();
    // It is refused and cut off; as it sends on, the refusal itself may not reach it.
    rest(&mut asker);
    assert_eq!(served.counted("api_too_many"), 1, "it may ask without end");
    assert_eq!(served.asks_from(11, "/healthz", None), 200);
    assert_eq!(served.asks_from(11, "/readyz", None), 200);
    assert_eq!(served.asks_from(10, "/api/v1/broker", Some(&served.viewer)), 200);
    served.serves(&mut client);
    assert_eq!(served.counted("api_unauthorized"), 1);
    let line = served.broker.says("a token that the broker does not know");
    assert!(line.contains("network=127.0.0.10") && !line.contains("guessed"), "{line}");
}

#[test]
fn a_line_of_the_log_is_whole_whatever_path_it_is_about() {
    let mut served = Served::start("");
    let path = format!("/api/v1/clients/{}", "%0a%1b".repeat(2_600));
    assert_eq!(served.ask("DELETE", &path, Some(&served.admin)).0, 404);
    let line = served.broker.says("changed by the API");
    assert!(line.len() < 1_000 && line.contains("a admin"), "{line}");
}

#[test]
fn answers_that_nobody_reads_take_little_memory() {
    let served = Served::start("");
    let mut client = served.echoing();
    // What takes the most room as JSON: 6 bytes for each.
    let payload = "\u{1}".repeat(1_000_000);
    for at in 0..40 {
        client.publish_retained(&format!("kept/{at}"), &payload, at + 1);
        client.packet();
    }
    let filter = "\u{1}".repeat(60_000);
    for at in 0..60 {
        client.subscribe(&format!("{filter}{at}"), QoS::AtMostOnce);
    }
    let before_mb = served.resident_mb();
    let paths = ["/api/v1/retained?limit=1000&payload=true", "/api/v1/clients/echo/subscriptions"];
    let mut unread = Vec::new();
    // Fewer than a token may ask in a second.
    for host in 10..14 {
        for at in 0..20 {
            let mut stream = served.visit(host);
            stream.write_all(request(paths[at % 2], &served.viewer).as_bytes()).unwrap();
            unread.push(stream);
        }
    }
    assert_eq!(served.asks_from(9, "/api/v1/broker", Some(&served.admin)), 200);
    served.serves(&mut client);
    let more_mb = served.resident_mb().saturating_sub(before_mb);
    assert!(more_mb < 80, "{more_mb} MB for answers that nobody reads");
    drop(unread);
    // Turns come back with the connections.
    assert_eq!(served.asks_from(9, "/api/v1/broker", Some(&served.viewer)), 200);
}

#[test]
fn who_sends_slowly_is_cut_off_and_told_whose_fault_it_is() {
    let served = Served::start("");
    let mut client = served.echoing();
    let head = format!(
        "POST /api/v1/publish HTTP/1.1\r\nHost: broker\r\nContent-Type: application/json\r\n\
         Authorization: Bearer {}\r\n",
        served.admin
    );
    let starts = [
        // The end of a head never comes, nor that of a body.
        ("GET / HTTP/1.1\r\n".to_owned(), "a: b\r\n", ""),
        (format!("{head}Content-Length: 100000\r\n\r\n"), " ", "HTTP/1.1 408 "),
        (format!("{head}Transfer-Encoding: chunked\r\n\r\n"), "1\r\n \r\n", "HTTP/1.1 408 "),
    ];
    let slow: Vec<_> = starts
        .map(|(start, drip, expected)| {
            let mut stream = served.visit(10);
            std::thread::spawn(move || {
                stream.write_all(start.as_bytes()).unwrap();
                stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
                let mut answer = [0; 13];
                let read = loop {
                    match stream.read(&mut answer) {
                        Ok(read) => break read,
                        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                        Err(_) => break 0,
                    }
                    let _ = stream.write_all(drip.as_bytes());
                };
                assert_eq!(std::str::from_utf8(&answer[..read]).unwrap(), expected);
            })
        })
        .into();
    assert_eq!(served.asks_from(9, "/api/v1/broker", Some(&served.viewer)), 200);
    served.serves(&mut client);
    slow.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn lists_of_messages_that_come_at_once_are_published_one_by_one() {
    let served = Served::start("");
    let mut client = served.echoing();
    let mut reader = served.join("reader");
    reader.subscribe("many", QoS::AtMostOnce);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let post = |list: usize| {
            let all = vec![format!(r#"{{"topic": "many", "payload": "{list}"}}"#); 100];
            let body = format!("[{}]", all.join(","));
            served.post("/api/v1/publish/bulk", Some(&served.admin), &body).0
        };
        let threads: Vec<_> = (0..8).map(|list| scope.spawn(move || post(list))).collect();
        served.serves(&mut client);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(statuses.contains(&202), "{statuses:?}");
    // Side by side, none of them might be done within the time that an answer may take.
    let published = statuses.iter().filter(|&&status| status == 202).count() * 100;
    let mut lists: Vec<_> = (0..published).map(|_| reader.message().payload).collect();
    lists.dedup();
    assert!(lists.len() <= statuses.len(), "{lists:?}");
}

#[test]
fn what_is_no_request_of_this_api_does_no_harm() {
    let served = Served::start("");
    let mut client = served.echoing();
    let token = format!("Host: broker\r\nAuthorization: Bearer {}\r\n", served.admin);
    let post = |body: &str, kind: &str| {
        format!(
            "POST /api/v1/publish HTTP/1.1\r\n{token}Content-Type: {kind}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let get = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\n{token}{more}\r\n");
    let wide = format!("/{}", "x".repeat(20_000));
    let requests = [
        (post(&"[".repeat(100_000), "application/json"), "422"),
        (post(&r#"{"topic":"#.repeat(50_000), "application/json"), "422"),
        (post(r#"{"topic": "a", "qos": 1e999999999}"#, "application/json"), "400"),
        // What a page of another site may send without being asked for.
        (post(r#"{"topic": "a"}"#, "text/plain"), "415"),
        (post(r#"{"topic": "a"}"#, "application/x-www-form-urlencoded"), "415"),
        (post(&"x".repeat(3_000_000), "application/json"), "413"),
        (get("/api/v1/users/../config", "Connection: close\r\n"), "404"),
        (get("/dashboard/%2e%2e/%2e%2e/etc/passwd", "Connection: close\r\n"), "404"),
        (get("/api/v1/%75sers", "Connection: close\r\n"), "404"),
        (get("/api/v1/clients/%ff", "Connection: close\r\n"), "400"),
        (get("/api/v1/clients?cursor=99999999999999999999-1", "Connection: close\r\n"), "400"),
        (get("/api/v1/bans?cursor=18446744073709551615", "Connection: close\r\n"), "200"),
        (get(&wide, "Connection: close\r\n"), "431"),
        (get("/", &"a: b\r\n".repeat(1_000)), "431"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), ""),
    ];
    for (request, expected) in &requests {
        let mut stream = served.visit(9);
        let _ = stream.write_all(request.as_bytes());
        let answer = rest(&mut stream);
        let status = answer.split(' ').nth(1).unwrap_or_default();
        // An answer may get lost where more comes than is read.
        assert!(status == *expected || status.is_empty(), "{request:.80}: {answer}");
    }
    let (_, answer) = exchange(served.visit(9), "GET", "/api/v1/broker", Some(&served.viewer), "");
    assert!(answer.contains("cache-control: no-store"), "{answer}");
    assert!(answer.contains("x-content-type-options: nosniff"), "{answer}");
    // No site may use it for its visitors: it allows no other origin.
    let (_, answer) = exchange(served.visit(9), "OPTIONS", "/api/v1/clients", None, "");
    assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
    served.serves(&mut client);
}
