//! The client's half of WebSocket, against the server's and against tungstenite's.

use crate::ws::Wire;
use proptest::prelude::*;
use tungstenite::Message;
use tungstenite::handshake::HandshakeError;
use tungstenite::handshake::server::{Request, Response};
use tungstenite::http::HeaderValue;
use weir_chance::Chance;
use weir_transport::ws::Rules;
use weir_transport::{Layer, Stream, TransportError};

fn client(seed: u64) -> Box<dyn Layer> {
    weir_transport::ws::client("localhost:8083", "/mqtt?x=1", Chance::new(seed))
}

fn server() -> Box<dyn Layer> {
    weir_transport::ws::server(Rules { paths: vec!["/mqtt".into()], ..Rules::default() }.into())
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 / 7) as u8).collect()
}

/// What is said by one of two layers, in pieces to the other; with what that answers.
fn hears(layer: &mut dyn Layer, said: &[u8], step: usize, plain: &mut Vec<u8>) -> Vec<u8> {
    let mut network = Vec::new();
    for piece in said.chunks(step) {
        assert_eq!(layer.received(piece, plain, &mut network), Ok(Stream::Open));
    }
    network
}

/// A server of tungstenite's, which has taken our request.
fn accepted(seed: u64, step: usize) -> tungstenite::WebSocket<Wire> {
    let (mut layer, mut network) = (client(seed), Vec::new());
    layer.begin(&mut network);
    let wire = Wire::of(layer, step, network);
    #[expect(clippy::result_large_err, reason = "it is tungstenite's")]
    let answer = |request: &Request, mut response: Response| {
        assert_eq!(request.uri().path(), "/mqtt");
        assert_eq!(request.headers()["Host"], "localhost:8083");
        assert_eq!(request.headers()["Sec-WebSocket-Protocol"], "mqtt");
        let protocol = HeaderValue::from_static("mqtt");
        response.headers_mut().insert("Sec-WebSocket-Protocol", protocol);
        Ok(response)
    };
    match tungstenite::accept_hdr(wire, answer) {
        Ok(socket) => socket,
        Err(HandshakeError::Interrupted(_)) => panic!("the request is not whole"),
        Err(HandshakeError::Failure(error)) => panic!("{error}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_the_splits_both_halves_understand_each_other(
        step in 1usize..3_000,
        lengths in prop::collection::vec(prop_oneof![0usize..300, 0usize..70_000], 0..4),
        seed: u64,
    ) {
        let (mut client, mut server) = (client(seed), server());
        let (mut request, mut nothing) = (Vec::new(), Vec::new());
        client.begin(&mut request);
        let answer = hears(&mut *server, &request, step, &mut nothing);
        prop_assert!(server.is_open() && !client.is_open());
        hears(&mut *client, &answer, step, &mut nothing);
        prop_assert!(client.is_open() && nothing.is_empty());
        for length in lengths {
            let sent = bytes(length);
            for _ in 0..2 {
                let (mut network, mut plain) = (Vec::new(), Vec::new());
                client.send(&sent, &mut network);
                hears(&mut *server, &network, step, &mut plain);
                prop_assert_eq!(&plain, &sent);
                prop_assert_eq!(server.held(), 0);
                std::mem::swap(&mut client, &mut server);
            }
        }
        let mut end = Vec::new();
        client.close(&mut end);
        let mut answer = Vec::new();
        let ended = server.received(&end, &mut nothing, &mut answer);
        prop_assert_eq!(ended, Ok(Stream::Ended));
        prop_assert_eq!(client.received(&answer, &mut nothing, &mut end), Ok(Stream::Ended));
    }

    #[test]
    fn whatever_the_splits_tungstenite_hears_the_same_bytes(
        step in 1usize..3_000,
        lengths in prop::collection::vec(prop_oneof![0usize..300, 0usize..70_000], 0..4),
        seed: u64,
    ) {
        let mut socket = accepted(seed, step);
        prop_assert!(socket.get_ref().layer.is_open());
        let mut all = Vec::new();
        for length in lengths {
            let bytes = bytes(length);
            all.extend(&bytes);
            let mut network = Vec::new();
            socket.get_mut().layer.send(&bytes, &mut network);
            socket.get_mut().answers.extend(network);
            prop_assert_eq!(socket.read().unwrap(), Message::binary(bytes.clone()));
            socket.send(Message::binary(bytes)).unwrap();
            prop_assert_eq!(&socket.get_ref().plain, &all);
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
        is_open: bool,
    ) {
        let mut layer = if is_open { opened() } else { client(1) };
        let (mut plain, mut network) = (Vec::new(), Vec::new());
        layer.begin(&mut network);
        for piece in bytes.chunks(step) {
            if layer.received(piece, &mut plain, &mut network) != Ok(Stream::Open) {
                break;
            }
        }
        prop_assert!(plain.len() <= bytes.len() && layer.held() <= bytes.len());
    }
}

/// The answer of our server to a client of this seed.
fn answer(seed: u64) -> String {
    let (mut client, mut server) = (client(seed), server());
    let (mut request, mut answer) = (Vec::new(), Vec::new());
    client.begin(&mut request);
    server.received(&request, &mut Vec::new(), &mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

fn opened() -> Box<dyn Layer> {
    let mut layer = client(1);
    let mut network = Vec::new();
    layer.begin(&mut network);
    layer.received(answer(1).as_bytes(), &mut Vec::new(), &mut network).unwrap();
    layer
}

#[test]
fn an_answer_that_opens_no_websocket_for_mqtt_is_refused_with_its_reason() {
    let good = answer(7);
    let refused = |text: &str| {
        let (mut layer, mut network) = (client(7), Vec::new());
        layer.begin(&mut network);
        let result = layer.received(text.as_bytes(), &mut Vec::new(), &mut network);
        assert!(!layer.is_open());
        result.unwrap_err().to_string()
    };
    for (old, new, why) in [
        ("101 Switching Protocols", "404 Not Found", "status 404: it does not serve this path"),
        ("101 Switching Protocols", "503 No", "by HTTP status 503"),
        ("Upgrade: websocket", "Upgrade: h2c", "not to this request"),
        ("Accept: ", "Accept: x", "not to this request"),
        ("Sec-WebSocket-Protocol: mqtt\r\n", "", "does not take the subprotocol mqtt"),
        ("Protocol: mqtt", "Protocol: amqp", "does not take the subprotocol mqtt"),
        ("HTTP/1.1", "SSH-2.0", "does not speak WebSocket"),
    ] {
        let text = good.replace(old, new);
        assert_ne!(text, good, "{old}");
        let found = refused(&text);
        assert!(found.contains(why), "{new}: {found}");
    }
    // The answer to another's key.
    assert!(refused(&answer(8)).contains("not to this request"));
    // A broker without WebSocket closes, or answers a packet: it is not waited for more.
    assert!(refused("\x20\x02\x00\x00").contains("does not speak WebSocket"));
    assert!(refused(&format!("HTTP/1.1 101 OK\r\nX: {}", "x".repeat(9_000))).contains("too long"));
}

#[test]
fn what_servers_may_not_send_ends_the_connection() {
    for frame in [&[0x82, 0x81, 0, 0, 0, 0, 7][..], &[0x81, 0x01, 7], &[0x80, 0x01, 7]] {
        let (mut layer, mut network) = (opened(), Vec::new());
        let result = layer.received(frame, &mut Vec::new(), &mut network);
        assert!(matches!(result, Err(TransportError::Malformed(_))), "{frame:?}: {result:?}");
        assert_eq!(network[..2], [0x88, 0x82], "an end that is masked");
    }
}

#[test]
fn each_frame_has_a_mask_of_its_own() {
    let (mut layer, mut network) = (opened(), Vec::new());
    let masks: Vec<Vec<u8>> = (0..100)
        .map(|_| {
            network.clear();
            layer.send(b"\xC0\x00", &mut network);
            network[2..6].to_vec()
        })
        .collect();
    let distinct: std::collections::BTreeSet<_> = masks.iter().collect();
    assert_eq!(distinct.len(), 100);
}
