//! Layers on each other: whatever the splits, the same comes out, and each says what it has to.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

mod masked;
mod tls;
mod tls_client;
mod ws;
mod ws_client;
mod ws_frames;

use masked::{ALARM, HEAD_BYTES, HELLO, Masks, PING, Side};
use weir_transport::{
    Layer, Layers, Learnt, Recipe, Scratch, Stream, Transport, TransportError, UNDECODED_BYTES_MAX,
};

/// One end of a connection.
struct End {
    layers: Layers,
    scratch: Scratch,
    plain: Vec<u8>,
    /// Said and not yet given to the other end.
    network: Vec<u8>,
}

impl End {
    fn new(side: Side, count: usize) -> Self {
        let layers = Masks::new(side, count).layers();
        let mut end =
            Self { layers, scratch: Scratch::default(), plain: Vec::new(), network: Vec::new() };
        end.layers.begin(&mut end.network, &mut end.scratch);
        end
    }

    fn hears(&mut self, bytes: &[u8]) -> Result<Stream, TransportError> {
        let Self { layers, scratch, plain, network } = self;
        layers.received(bytes, plain, network, scratch)
    }

    fn says(&mut self, plain: &[u8]) {
        self.layers.send(plain, &mut self.network, &mut self.scratch);
    }

    fn closes(&mut self) {
        self.layers.close(&mut self.network, &mut self.scratch);
    }
}

/// Gives each end what the other has said, `step` bytes at a time, until both are silent.
fn exchange(one: &mut End, two: &mut End, step: usize) -> Result<Stream, TransportError> {
    let mut stream = Stream::Open;
    while !(one.network.is_empty() && two.network.is_empty()) {
        for _ in 0..2 {
            for piece in std::mem::take(&mut one.network).chunks(step) {
                if two.hears(piece)? == Stream::Ended {
                    stream = Stream::Ended;
                }
            }
            std::mem::swap(one, two);
        }
    }
    Ok(stream)
}

fn open(count: usize, step: usize) -> (End, End) {
    let (mut client, mut server) = (End::new(Side::Client, count), End::new(Side::Server, count));
    assert!(!client.layers.is_open() && !server.layers.is_open());
    exchange(&mut client, &mut server, step).unwrap();
    assert!(client.layers.is_open() && server.layers.is_open(), "{count} layers");
    (client, server)
}

#[test]
fn whatever_the_splits_and_the_number_of_layers_the_same_bytes_come_out() {
    for count in 1..=3 {
        for step in 1..60 {
            let (mut client, mut server) = open(count, step);
            for round in 0..3u8 {
                client.says(&[round; 10]);
                client.says(b"ping");
                server.says(&[round; 7]);
                exchange(&mut client, &mut server, step).unwrap();
            }
            let all: Vec<u8> =
                (0..3).flat_map(|round| [&[round; 10][..], b"ping"].concat()).collect();
            assert_eq!(server.plain, all, "{count} layers, {step} at a time");
            assert_eq!(client.plain.len(), 21);
        }
    }
}

#[test]
fn plain_tcp_has_no_layers() {
    assert!(Transport::default().layers().is_none());
    let masks = Masks::new(Side::Server, 1);
    assert!(Transport::Layered(std::sync::Arc::new(masks)).layers().is_some());
}

#[test]
fn an_upper_layer_says_nothing_before_the_one_below_is_open() {
    let mut client = End::new(Side::Client, 2);
    assert_eq!(client.network.len(), 8, "one greeting only");
    let mut server = End::new(Side::Server, 2);
    assert_eq!(server.hears(&std::mem::take(&mut client.network)), Ok(Stream::Open));
    client.hears(&std::mem::take(&mut server.network)).unwrap();
    // The second layer's greeting is in a frame of the first.
    assert_eq!(client.network.len(), HEAD_BYTES + 8);
    assert_ne!(client.network[..4], HELLO);
    assert!(!client.layers.is_open());
}

#[test]
fn what_came_before_a_fault_comes_out_and_the_last_words_are_said() {
    for count in 1..=2 {
        let (mut client, mut server) = open(count, 1);
        client.says(b"good");
        let mut bytes = std::mem::take(&mut client.network);
        bytes.extend(*b"garbage");
        assert_eq!(server.hears(&bytes), Err(TransportError::Malformed("no frame")));
        assert_eq!(server.plain, b"good");
        assert_eq!(server.network, [ALARM]);
    }
}

#[test]
fn what_an_upper_layer_answers_goes_through_those_below() {
    let ping = [PING, 0, 0, 0, 0, PING];
    let mut below = End::new(Side::Client, 1);
    let mut bare = End::new(Side::Server, 2);
    bare.hears(&std::mem::take(&mut below.network)).unwrap();
    below.hears(&std::mem::take(&mut bare.network)).unwrap();
    below.says(&[&HELLO[..], &[1, 2, 3, 4]].concat());
    below.says(&ping);
    bare.hears(&std::mem::take(&mut below.network)).unwrap();
    below.hears(&std::mem::take(&mut bare.network)).unwrap();
    assert_eq!(below.plain.len(), 8 + HEAD_BYTES, "a greeting and a pong");
}

#[test]
fn the_end_is_said_by_every_layer_and_heard_once_all_before_it_has_come() {
    for count in 1..=3 {
        let (mut client, mut server) = open(count, 5);
        client.says(b"last");
        client.closes();
        assert_eq!(exchange(&mut client, &mut server, 1), Ok(Stream::Ended));
        assert_eq!(server.plain, b"last");
    }
    // One that is not open yet has nothing to say.
    let mut client = End::new(Side::Client, 2);
    client.network.clear();
    client.closes();
    assert_eq!(client.network, b"");
}

#[test]
fn who_makes_a_layer_hold_more_than_the_bound_is_cut_off() {
    for count in 1..=2 {
        let (mut client, mut server) = open(count, 100);
        client.network.extend([0xA5, 0, 0xFF, 0xFF, 0xFF, 0]);
        let mut left = UNDECODED_BYTES_MAX - HEAD_BYTES;
        server.hears(&std::mem::take(&mut client.network)).unwrap();
        while left > 0 {
            let piece = left.min(5000);
            assert_eq!(server.hears(&vec![0; piece]), Ok(Stream::Open));
            left -= piece;
        }
        assert_eq!(server.hears(&[0]), Err(TransportError::TooLong));
    }
}

/// A layer that is open with the first byte it gets, and has learnt something by then.
#[derive(Debug)]
struct Knows {
    learnt: Learnt,
    is_open: bool,
}

impl Layer for Knows {
    fn begin(&mut self, _network: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        self.is_open
    }

    fn received(
        &mut self,
        bytes: &[u8],
        plain: &mut Vec<u8>,
        _network: &mut Vec<u8>,
    ) -> Result<Stream, TransportError> {
        let handed_on = if self.is_open { bytes } else { &bytes[1..] };
        self.is_open = true;
        plain.extend_from_slice(handed_on);
        Ok(Stream::Open)
    }

    fn send(&mut self, _plain: &[u8], _network: &mut Vec<u8>) {}

    fn close(&mut self, _network: &mut Vec<u8>) {}

    fn held(&self) -> usize {
        0
    }

    fn learnt(&mut self) -> Learnt {
        self.learnt.clone()
    }
}

#[test]
fn what_layers_have_learnt_is_said_once_when_they_open_and_the_upper_one_is_right() {
    let knows = |peer: Option<&str>, name: Option<&str>| -> Box<dyn Layer> {
        let peer = peer.map(|peer| peer.parse().unwrap());
        Box::new(Knows {
            learnt: Learnt { peer, name: name.map(Into::into), shown: None },
            is_open: false,
        })
    };
    let peer: Option<std::net::SocketAddr> = Some("192.0.2.1:7".parse().unwrap());
    let two = || Layers::new([knows(Some("192.0.2.1:7"), Some("low")), knows(None, Some("up"))]);
    let (mut layers, mut scratch) = (two(), Scratch::default());
    layers.begin(&mut Vec::new(), &mut scratch);
    assert_eq!(layers.learnt(), None);
    let mut hears =
        |layers: &mut Layers| layers.received(b"1", &mut Vec::new(), &mut Vec::new(), &mut scratch);
    hears(&mut layers).unwrap();
    assert_eq!(layers.learnt(), Some(Learnt { peer, name: Some("low".into()), shown: None }));
    hears(&mut layers).unwrap();
    assert_eq!(layers.learnt(), Some(Learnt { peer: None, name: Some("up".into()), shown: None }));
    assert_eq!(layers.learnt(), None);
    let mut at_once = two();
    at_once.begin(&mut Vec::new(), &mut Scratch::default());
    hears(&mut at_once).unwrap();
    hears(&mut at_once).unwrap();
    assert_eq!(at_once.learnt(), Some(Learnt { peer, name: Some("up".into()), shown: None }));
}
