//! The request that opens a WebSocket, and its answer: what a server makes of both, and a client.

use super::{Rules, forwarded};
use crate::TransportError;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use httparse::Header;
use std::borrow::Cow;
use std::net::SocketAddr;

/// Headers of a request; a browser sends about 15.
const HEADERS_MAX: usize = 64;

/// What every server appends to a client's key (RFC 6455, 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Names of MQTT: the one that all versions use, and that of 3.1.
const PROTOCOLS: [&str; 2] = ["mqtt", "mqttv3.1"];

/// Why a request is not answered by a WebSocket.
#[derive(Debug)]
pub(super) struct Refusal {
    status: &'static str,
    /// A header that goes with it.
    header: &'static str,
    pub(super) why: &'static str,
}

pub(super) const TOO_LONG: Refusal = Refusal {
    status: "431 Request Header Fields Too Large",
    header: "",
    why: "its WebSocket request is too long",
};

impl Refusal {
    pub(super) fn response(&self) -> String {
        let Self { status, header, why } = self;
        let length = why.len() + 1;
        format!(
            "HTTP/1.1 {status}\r\n{header}Connection: close\r\nContent-Type: text/plain\r\n\
             Content-Length: {length}\r\n\r\n{why}\n"
        )
    }
}

const fn bad(why: &'static str) -> Refusal {
    Refusal { status: "400 Bad Request", header: "", why }
}

/// The answer to a whole request, and where a proxy says that it comes from.
pub(super) fn accept(bytes: &[u8], rules: &Rules) -> Result<(String, Option<SocketAddr>), Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let is_whole = request.parse(bytes).is_ok_and(|status| status.is_complete());
    if !is_whole || request.method != Some("GET") || request.version != Some(1) {
        return Err(bad("it does not speak WebSocket"));
    }
    let path = request.path.unwrap_or_default().split('?').next().unwrap_or_default();
    if !rules.paths.iter().any(|known| known == path) {
        let why = "its WebSocket request is for a path that is not served";
        return Err(Refusal { status: "404 Not Found", header: "", why });
    }
    let headers = Headers(request.headers);
    // Other clients than browsers say none.
    let is_known = |origin: &str| rules.origins.iter().any(|known| known == origin);
    if !rules.origins.is_empty() && !headers.values("origin").all(is_known) {
        let why = "its page is of an origin that is not served";
        return Err(Refusal { status: "403 Forbidden", header: "", why });
    }
    if !headers.upgrade() {
        return Err(bad("its request does not ask for WebSocket"));
    }
    if !headers.has("sec-websocket-version", "13") {
        let header = "Sec-WebSocket-Version: 13\r\n";
        let why = "its version of WebSocket is not 13";
        return Err(Refusal { status: "426 Upgrade Required", header, why });
    }
    let key = headers.value("sec-websocket-key").unwrap_or_default();
    if !STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16) {
        return Err(bad("its request has no key of WebSocket"));
    }
    // [MQTT-6.0.0-3], [MQTT-6.0.0-4]
    let protocol = headers.words("sec-websocket-protocol").find(|name| PROTOCOLS.contains(name));
    let Some(protocol) = protocol else {
        return Err(bad("its WebSocket does not offer the subprotocol mqtt"));
    };
    let client = match rules.forwarded_from.is_empty() {
        true => None,
        false => {
            let [one, other] = ["x-forwarded-for", "forwarded"].map(|name| headers.texts(name));
            forwarded::client(&one, &other, &rules.forwarded_from)
                .map_err(|()| bad("its Forwarded and X-Forwarded-For do not agree"))?
        }
    };
    let accept = accept_of(key);
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    );
    Ok((response, client))
}

/// What a server shows that it has read the key.
fn accept_of(key: &str) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{GUID}").as_bytes()))
}

/// The request of a client, and its key.
pub(super) fn ask(host: &str, path: &str, chance: [u8; 16]) -> (String, String) {
    let key = STANDARD.encode(chance);
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: {}\r\n\r\n",
        PROTOCOLS[0]
    );
    (request, key)
}

/// Whether a whole answer opens the WebSocket that was asked for with `key`.
pub(super) fn check(bytes: &[u8], key: &str) -> Result<(), TransportError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let is_whole = response.parse(bytes).is_ok_and(|status| status.is_complete());
    if !is_whole {
        return Err(TransportError::Malformed("it does not speak WebSocket"));
    }
    match response.code {
        Some(101) => {}
        Some(code) => return Err(TransportError::NoWebSocket { code }),
        None => return Err(TransportError::Malformed("it does not speak WebSocket")),
    }
    let headers = Headers(response.headers);
    if !headers.upgrade() || headers.value("sec-websocket-accept") != Some(&accept_of(key)) {
        return Err(TransportError::Malformed("its answer is not to this request of WebSocket"));
    }
    // Nothing was offered but the subprotocol.
    if headers.value("sec-websocket-extensions").is_some() {
        return Err(TransportError::Malformed("a WebSocket extension that was not agreed on"));
    }
    // [MQTT-6.0.0-4]
    if headers.value("sec-websocket-protocol") != Some(PROTOCOLS[0]) {
        return Err(TransportError::Refused("its WebSocket does not take the subprotocol mqtt"));
    }
    Ok(())
}

/// Headers by their names, in any case.
struct Headers<'a>(&'a [Header<'a>]);

impl<'a> Headers<'a> {
    fn found(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let of_name = move |header: &&Header<'_>| header.name.eq_ignore_ascii_case(name);
        self.0.iter().filter(of_name).map(|header| header.value)
    }

    fn values(&self, name: &'static str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.found(name).filter_map(|value| std::str::from_utf8(value).ok())
    }

    /// Those that a proxy has added to, so none may be left out because it is no text.
    fn texts(&self, name: &'static str) -> Vec<Cow<'a, str>> {
        self.found(name).map(String::from_utf8_lossy).collect()
    }

    fn value(&self, name: &'static str) -> Option<&'a str> {
        self.values(name).next().map(str::trim)
    }

    fn words(&self, name: &'static str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.values(name).flat_map(|value| value.split(',')).map(str::trim)
    }

    fn has(&self, name: &'static str, word: &str) -> bool {
        self.words(name).any(|found| found.eq_ignore_ascii_case(word))
    }

    fn upgrade(&self) -> bool {
        self.has("upgrade", "websocket") && self.has("connection", "upgrade")
    }
}
