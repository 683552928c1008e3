//! Requests and frames of WebSocket, as clients send them.

use std::sync::Arc;
use weir_transport::ws::{self, Rules};
use weir_transport::{Layers, Learnt, Scratch, Stream, TransportError, UNDECODED_BYTES_MAX};

const REQUEST: &[u8] = b"GET /mqtt HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n";

/// Whatever the request, what is answered and learnt is the same in pieces of any length.
pub fn request(input: &[u8]) {
    assert_eq!(run(&[input], input.len().max(1)), run(&[input], 7));
}

/// Whatever the frames, what comes out is the same in pieces of any length, and is no more than
/// came in.
pub fn frames(input: &[u8]) {
    let (whole, pieces) = (run(&[REQUEST, input], UNDECODED_BYTES_MAX), run(&[REQUEST, input], 3));
    assert_eq!(whole, pieces);
    assert!(whole.0.len() <= input.len());
}

type Run = (Vec<u8>, Vec<u8>, Option<Learnt>, Result<Stream, TransportError>);

fn run(inputs: &[&[u8]], step: usize) -> Run {
    let rules = Rules {
        paths: vec!["/mqtt".into()],
        origins: vec!["https://app.example".into()],
        forwarded_from: vec!["10.0.0.0/8".parse().expect("a network")],
    };
    let mut layers = Layers::new([ws::server(Arc::new(rules))]);
    let (mut plain, mut said, mut scratch) = (Vec::new(), Vec::new(), Scratch::default());
    let mut learnt = None;
    for piece in inputs.iter().flat_map(|input| input.chunks(step)) {
        let result = layers.received(piece, &mut plain, &mut said, &mut scratch);
        learnt = layers.learnt().or(learnt);
        if result != Ok(Stream::Open) {
            return (plain, said, learnt, result);
        }
    }
    (plain, said, learnt, Ok(Stream::Open))
}
