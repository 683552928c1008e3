//! Metrics that are sent to a collector, where the program was built with that.

use crate::api::Served;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

fn table(endpoint: &str) -> String {
    format!(
        "[control.otlp]\nendpoint = \"{endpoint}\"\ninterval_s = 1\n\
         headers = {{ x-scope = \"ours\" }}\n\
         attributes = {{ \"deployment.environment\" = \"test\" }}"
    )
}

/// A request as a collector sees it.
struct Seen {
    head: String,
    body: Value,
    from: BufReader<TcpStream>,
}

impl Seen {
    fn read(mut from: BufReader<TcpStream>) -> Self {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(from.read_line(&mut head).unwrap() > 0, "the broker went away: {head}");
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        from.read_exact(&mut body).unwrap();
        Self { head, body: serde_json::from_slice(&body).unwrap(), from }
    }

    /// Answers it, and waits for the next on the same connection.
    fn answer(self, status: &str, body: &str) -> Self {
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
        self.from.get_ref().write_all(answer.as_bytes()).unwrap();
        Self::read(self.from)
    }

    fn metrics(&self) -> HashMap<&str, &Value> {
        let metrics = &self.body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let metrics = metrics.as_array().unwrap().iter();
        metrics.map(|metric| (metric["name"].as_str().unwrap(), metric)).collect()
    }

    /// How often metrics were sent, and how often they could not be.
    fn pushes(&self) -> [&str; 2] {
        let points = &self.metrics()["weir_otlp_pushes"]["sum"]["dataPoints"];
        [0, 1].map(|at| points[at]["asInt"].as_str().unwrap())
    }
}

#[test]
fn a_collector_gets_all_metrics_and_one_that_fails_is_tried_again() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let served = Served::start(&table(&format!("http://{}/a/", collector.local_addr().unwrap())));
    let _client = served.join("c");
    let first = Seen::read(BufReader::new(collector.accept().unwrap().0));
    assert!(first.head.starts_with("POST /a/v1/metrics HTTP/1.1\r\n"), "{}", first.head);
    assert!(first.head.contains("content-type: application/json\r\n"), "{}", first.head);
    assert!(first.head.contains("x-scope: ours\r\n"), "{}", first.head);
    let attributes = first.body["resourceMetrics"][0]["resource"]["attributes"].to_string();
    for part in [r#""service.name","value":{"stringValue":"weir"}"#, "deployment.environment"] {
        assert!(attributes.contains(part), "{attributes}");
    }
    // As many families as a scraper sees, and this one.
    let (_, text) = served.get("/metrics", Some(&served.viewer));
    let scraped = text.lines().filter(|line| line.starts_with("# TYPE ")).count();
    assert_eq!(first.metrics().len(), scraped, "{text}");
    assert_eq!(first.pushes(), ["0", "0"]);
    let opened = &first.metrics()["weir_connections_opened"]["sum"];
    let number =
        |key: &str| -> u64 { opened["dataPoints"][0][key].as_str().unwrap().parse().unwrap() };
    assert!(number("startTimeUnixNano") < number("timeUnixNano"), "{opened}");

    let second = first.answer("503 Service Unavailable", "not now");
    assert_eq!(second.pushes(), ["0", "1"]);
    let third = second.answer("200 OK", r#"{"partialSuccess":{"rejectedDataPoints":"1"}}"#);
    assert_eq!(third.pushes(), ["0", "2"]);
    let fourth = third.answer("200 OK", "{}");
    assert_eq!(fourth.pushes(), ["1", "2"]);
}
