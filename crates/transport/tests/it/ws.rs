//! WebSocket as a layer, against tungstenite's client.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::{Message, WebSocket};
use weir_transport::ws::Rules;
use weir_transport::{Layer, Stream, TransportError};

use proptest::prelude::*;

pub(crate) fn server() -> Box<dyn Layer> {
    let paths = vec!["/mqtt".into(), "/".into()];
    weir_transport::ws::server(Rules { paths, ..Rules::default() }.into())
}

/// A stream whose other end is our layer.
pub(crate) struct Wire {
    pub(crate) layer: Box<dyn Layer>,
    step: usize,
    pub(crate) plain: Vec<u8>,
    pub(crate) answers: VecDeque<u8>,
    pub(crate) end: Option<Result<Stream, TransportError>>,
}

impl Wire {
    fn new(step: usize) -> Self {
        Self::of(server(), step, Vec::new())
    }

    /// With what the layer has said first.
    pub(crate) fn of(layer: Box<dyn Layer>, step: usize, said: Vec<u8>) -> Self {
        Self { layer, step, plain: Vec::new(), answers: said.into(), end: None }
    }

    fn says(&mut self, plain: &[u8]) {
        let mut network = Vec::new();
        self.layer.send(plain, &mut network);
        self.answers.extend(network);
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.chunks(self.step) {
            let mut network = Vec::new();
            let result = self.layer.received(piece, &mut self.plain, &mut network);
            self.answers.extend(network);
            if result != Ok(Stream::Open) {
                self.end = Some(result);
                break;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.answers.read(into)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            read => Ok(read),
        }
    }
}

fn open(path: &str, protocol: &str, step: usize) -> (WebSocket<Wire>, String) {
    let mut request = format!("ws://localhost{path}").into_client_request().unwrap();
    let protocol = HeaderValue::from_str(protocol).unwrap();
    request.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
    let (socket, response) = tungstenite::client(request, Wire::new(step)).unwrap();
    let agreed = response.headers()["Sec-WebSocket-Protocol"].to_str().unwrap().to_owned();
    (socket, agreed)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_the_splits_the_same_bytes_come_out(
        step in 1usize..3_000,
        lengths in prop::collection::vec(prop_oneof![0usize..300, 0usize..70_000], 0..4),
    ) {
        let (mut socket, _) = open("/mqtt", "mqtt", step);
        let mut all = Vec::new();
        for (at, length) in lengths.into_iter().enumerate() {
            let bytes: Vec<u8> = (0..length).map(|byte| (byte + at) as u8).collect();
            all.extend(&bytes);
            socket.send(Message::binary(bytes.clone())).unwrap();
            prop_assert_eq!(&socket.get_ref().plain, &all);
            // A frame is never held, however long it is.
            prop_assert_eq!(socket.get_ref().layer.held(), 0);
            socket.get_mut().says(&bytes);
            prop_assert_eq!(socket.read().unwrap(), Message::binary(bytes));
        }
        socket.send(Message::Ping(vec![7; 125].into())).unwrap();
        prop_assert_eq!(socket.read().unwrap(), Message::Pong(vec![7; 125].into()));
        socket.close(None).unwrap();
        prop_assert_eq!(socket.get_ref().end, Some(Ok(Stream::Ended)));
        prop_assert!(matches!(socket.read(), Ok(Message::Close(_))));
    }

    #[test]
    fn whatever_comes_nothing_panics_and_no_more_comes_out_than_went_in(
        bytes in prop::collection::vec(any::<u8>(), 0..2_000),
        step in 1usize..100,
        is_open in any::<bool>(),
    ) {
        let mut layer = server();
        let (mut plain, mut network) = (Vec::new(), Vec::new());
        if is_open {
            layer.received(&request("/", "mqtt", &[]), &mut plain, &mut network).unwrap();
            prop_assert!(layer.is_open());
        }
        for piece in bytes.chunks(step) {
            if layer.received(piece, &mut plain, &mut network) != Ok(Stream::Open) {
                break;
            }
        }
        prop_assert!(plain.len() <= bytes.len() && layer.held() <= bytes.len());
    }
}

pub(crate) fn request(path: &str, protocol: &str, changes: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    );
    for (old, new) in changes {
        assert!(text.contains(old), "{old}");
        text = text.replace(old, new);
    }
    text.into_bytes()
}

fn answer(request: &[u8]) -> (Result<Stream, TransportError>, String) {
    let (mut layer, mut network) = (server(), Vec::new());
    let result = layer.received(request, &mut Vec::new(), &mut network);
    (result, String::from_utf8(network).unwrap())
}

#[test]
fn the_subprotocol_that_the_client_likes_best_is_chosen_on_every_path() {
    for (path, offered, agreed) in [
        ("/mqtt", "mqtt", "mqtt"),
        ("/", "mqttv3.1", "mqttv3.1"),
        ("/mqtt?token=1", "other, mqttv3.1, mqtt", "mqttv3.1"),
    ] {
        assert_eq!(open(path, offered, 1).1, agreed);
    }
    // The example of RFC 6455, 1.3.
    let (_, text) = answer(&request("/", "mqtt", &[]));
    assert!(text.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{text}");
}

#[test]
fn a_request_that_is_not_for_mqtt_is_refused_with_its_reason() {
    for (path, protocol, changes, status) in [
        ("/other", "mqtt", &[][..], "404 "),
        ("/", "soap", &[], "400 "),
        ("/", "mqtt", &[("Upgrade: websocket", "Upgrade: h2c")], "400 "),
        ("/", "mqtt", &[("Version: 13", "Version: 8")], "426 "),
        ("/", "mqtt", &[("dGhlIHNhbXBsZSBub25jZQ==", "short")], "400 "),
        ("/", "mqtt", &[("GET", "POST")], "400 "),
        ("/", "mqtt", &[("HTTP/1.1", "HTTP/1.0")], "400 "),
    ] {
        let (result, text) = answer(&request(path, protocol, changes));
        assert!(matches!(result, Err(TransportError::Refused(_))), "{result:?}");
        assert!(text.starts_with(&format!("HTTP/1.1 {status}")), "{changes:?}: {text}");
    }
    let (result, text) = answer(&vec![b'G'; 8 * 1024 + 1]);
    assert!(result.is_err() && text.starts_with("HTTP/1.1 431 "), "{text}");
}

#[test]
fn its_end_is_said_once() {
    let (mut layer, mut plain, mut network) = (server(), Vec::new(), Vec::new());
    layer.received(&request("/", "mqtt", &[]), &mut plain, &mut network).unwrap();
    network.clear();
    layer.close(&mut network);
    layer.close(&mut network);
    assert_eq!(network, [0x88, 2, 3, 0xE8]);
}
