//! The task that sends metrics to a collector over OTLP/HTTP, as JSON.
//!
//! One request at a time, each with how things are then: what could not be sent is not kept, as
//! the next has all of it. A collector that fails is asked less often.

use crate::asks::Asks;
use crate::metrics::{Span, request};
use crate::port::Full as Busy;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_http::client::{BadAddress, Fault, Server};

/// What OTLP says of the path behind an endpoint.
const PATH: &str = "/v1/metrics";

/// How long a collector may take, as OTLP has it.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Bytes of what a collector says that the log shows.
const SHOWN_BYTES: usize = 256;

/// The longest time between two requests to a collector that fails, if the interval is shorter.
const WAIT_MAX: Duration = Duration::from_secs(300);

/// Where metrics are sent, and as whose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Otlp {
    /// The address of a collector, such as `http://127.0.0.1:4318`, without `/v1/metrics`.
    pub endpoint: String,
    /// The time between two requests.
    pub interval: Duration,
    /// Of each request.
    pub headers: BTreeMap<String, String>,
    /// Of the resource that the metrics are of.
    pub attributes: BTreeMap<String, String>,
    /// A PEM file of the authorities that may vouch for the collector; those of the system without.
    pub ca_file: Option<PathBuf>,
}

/// A collector that can be sent to.
pub(crate) struct Pusher {
    server: Server,
    path: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    interval: Duration,
    attributes: BTreeMap<String, String>,
}

/// Why metrics did not get to the collector.
#[derive(Debug, thiserror::Error)]
enum NotSent {
    #[error("the broker takes no request now")]
    Busy,
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("it answers with status {status} of HTTP: {text}")]
    Refused { status: StatusCode, text: String },
    /// It took the others.
    #[error("it left out {points} numbers: {text}")]
    LeftOut { points: u64, text: String },
}

impl From<Busy> for NotSent {
    fn from(_: Busy) -> Self {
        Self::Busy
    }
}

impl Otlp {
    /// The key that is wrong, its value, and the rule; nothing if all can be used.
    pub fn fault(&self) -> Option<(&'static str, String, &'static str)> {
        let uri = self.endpoint.parse::<Uri>().ok();
        let is_address = |uri: &Uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri
                    .authority()
                    .is_some_and(|it| !it.host().is_empty() && !it.as_str().contains('@'))
                && uri.query().is_none()
        };
        if !uri.as_ref().is_some_and(is_address) {
            let rule = "it must be http://HOST[:PORT][/PATH] or https://HOST[:PORT][/PATH], \
                        without a user or a query";
            return Some(("endpoint", self.endpoint.clone(), rule));
        }
        let unfit = self.headers.iter().find(|(name, value)| header(name, value).is_none());
        let rule = "it must be the name of a header of HTTP, with a value of visible ASCII";
        unfit.map(|(name, _)| ("headers", name.clone(), rule))
    }

    pub(crate) fn pusher(self) -> Result<Pusher, BadAddress> {
        let uri: Uri = self.endpoint.parse().map_err(|_| BadAddress::Form)?;
        Ok(Pusher {
            server: Server::new(&uri, self.ca_file.as_deref(), 1)?,
            path: uri.path().trim_end_matches('/').to_owned() + PATH,
            headers: self.headers.iter().filter_map(|(key, value)| header(key, value)).collect(),
            interval: self.interval,
            attributes: self.attributes,
        })
    }
}

fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((name.parse().ok()?, value.parse().ok()?))
}

impl Pusher {
    /// Sends them each interval, for ever.
    pub(crate) async fn push(self, asks: Arc<Asks>) {
        let (uptime, counts) = (asks.uptime(), asks.pushes.get_or_init(Default::default));
        let start_ns = since_1970().saturating_sub(uptime).as_nanos();
        let (mut wait, mut has_failed) = (self.interval, false);
        loop {
            tokio::time::sleep(wait).await;
            let sent = tokio::time::timeout(ANSWER_MAX, self.send(&asks, start_ns)).await;
            let sent = sent.unwrap_or(Err(Fault::Late.into()));
            counts[usize::from(sent.is_err())].fetch_add(1, Ordering::Relaxed);
            match sent {
                Ok(()) => {
                    if has_failed {
                        tracing::info!("metrics get to the collector of [control.otlp] again");
                    }
                    (wait, has_failed) = (self.interval, false);
                }
                Err(error) => {
                    if !has_failed {
                        tracing::warn!(
                            %error,
                            "metrics do not get to the collector of [control.otlp]; it is tried \
                             again, and this is said once"
                        );
                    }
                    (wait, has_failed) = ((2 * wait).min(WAIT_MAX.max(self.interval)), true);
                }
            }
        }
    }

    async fn send(&self, asks: &Arc<Asks>, start_ns: u128) -> Result<(), NotSent> {
        let measured = asks.measured().await?;
        let span = Span { start_ns, now_ns: since_1970().as_nanos() };
        let body = request(&measured, &self.attributes, span).to_string();
        let mut request = Request::post(&self.path)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Fault::Body(error.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(self.headers.iter().cloned());
        let (status, answer) = self.server.ask(request, ANSWER_BYTES_MAX).await?;
        judge(status, &answer)
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Whether the collector has taken them, by its answer.
fn judge(status: StatusCode, answer: &[u8]) -> Result<(), NotSent> {
    let shown =
        |text: &str| text[..text.floor_char_boundary(SHOWN_BYTES)].escape_debug().to_string();
    if !status.is_success() {
        return Err(NotSent::Refused { status, text: shown(&String::from_utf8_lossy(answer)) });
    }
    let answer: serde_json::Value = serde_json::from_slice(answer).unwrap_or_default();
    let left_out = &answer["partialSuccess"];
    let points = &left_out["rejectedDataPoints"];
    // A number of 64 bits is a text.
    let points =
        points.as_str().and_then(|text| text.parse().ok()).or(points.as_u64()).unwrap_or(0);
    if points == 0 {
        return Ok(());
    }
    Err(NotSent::LeftOut { points, text: shown(left_out["errorMessage"].as_str().unwrap_or("")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_address_and_a_header_one_of_http() {
        let otlp = |endpoint: &str, name: &str| Otlp {
            endpoint: endpoint.into(),
            headers: BTreeMap::from([(name.to_owned(), "v".to_owned())]),
            ..Otlp::default()
        };
        for endpoint in ["", "127.0.0.1:4318", "ftp://a", "http://u:p@a", "http://a/?b=c"] {
            assert_eq!(otlp(endpoint, "a").fault().unwrap().0, "endpoint", "{endpoint}");
        }
        for endpoint in ["http://127.0.0.1:4318", "https://otlp.example.org/prefix/"] {
            assert_eq!(otlp(endpoint, "authorization").fault(), None, "{endpoint}");
        }
        assert_eq!(otlp("http://a", "a b").fault().unwrap().0, "headers");
    }

    #[test]
    fn what_a_collector_leaves_out_is_not_sent() {
        let error =
            |status, answer: &str| judge(status, answer.as_bytes()).unwrap_err().to_string();
        assert!(judge(StatusCode::OK, b"{}").is_ok() && judge(StatusCode::ACCEPTED, b"").is_ok());
        assert!(judge(StatusCode::OK, br#"{"partialSuccess":{}}"#).is_ok());
        let partial = r#"{"partialSuccess":{"rejectedDataPoints":"7","errorMessage":"too old"}}"#;
        assert_eq!(error(StatusCode::OK, partial), "it left out 7 numbers: too old");
        let busy = error(StatusCode::SERVICE_UNAVAILABLE, "\u{1b}later");
        assert_eq!(busy, "it answers with status 503 Service Unavailable of HTTP: \\u{1b}later");
    }
}
