//! What RFC 6455 says of frames, case by case, through the whole layer. The groups are those that
//! suites for WebSocket usually have.

use crate::ws::{request, server};
use weir_transport::{Stream, TransportError};

const PROTOCOL: u16 = 1002;
const UNACCEPTABLE: u16 = 1003;
const NOT_UTF8: u16 = 1007;

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const FINAL: u8 = 0x80;

/// What a client's frames come to.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The connection goes on.
    Open,
    /// The client has ended it, and is answered with this code.
    Ended(u16),
    /// It is ended for what the client did, with this code.
    Failed(u16),
}

use End::{Ended, Failed, Open};

/// A frame with this first byte, masked.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..=125 => bytes.push(0x80 | length as u8),
        length @ 126..=0xFFFF => {
            bytes.push(0x80 | 126);
            bytes.extend((length as u16).to_be_bytes());
        }
        length => {
            bytes.push(0x80 | 127);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
    bytes.extend(MASK);
    bytes.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

fn whole(opcode: u8, payload: &[u8]) -> Vec<u8> {
    frame(FINAL | opcode, payload)
}

/// The start of a frame whose length is said in eight bytes.
fn of_length(length: u64) -> Vec<u8> {
    [&[FINAL | BINARY, 0x80 | 127][..], &length.to_be_bytes(), &[0; 4]].concat()
}

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    whole(CLOSE, &[&code.to_be_bytes()[..], reason].concat())
}

/// Gives these bytes to a layer that is open, `step` at a time. Returns what came out, the frames
/// that were answered (but for the last close frame), and how it ended.
fn hears(bytes: &[u8], step: usize) -> (Vec<u8>, Vec<u8>, End) {
    let (mut layer, mut plain, mut network) = (server(), Vec::new(), Vec::new());
    layer.received(&request("/", "mqtt", &[]), &mut plain, &mut network).unwrap();
    network.clear();
    let mut ended = Ok(Stream::Open);
    for piece in bytes.chunks(step) {
        ended = layer.received(piece, &mut plain, &mut network);
        assert!(layer.held() <= 131_usize.saturating_add(step), "no more than a control frame");
        if ended != Ok(Stream::Open) {
            break;
        }
    }
    let mut code = || {
        let close = network.split_off(network.len() - 4);
        assert_eq!(close[..2], [FINAL | CLOSE, 2]);
        u16::from_be_bytes([close[2], close[3]])
    };
    let end = match ended {
        Ok(Stream::Open) => Open,
        Ok(Stream::Ended) => Ended(code()),
        Err(TransportError::Malformed(_)) => Failed(code()),
        Err(error) => panic!("{error}"),
    };
    (plain, network, end)
}

/// A case: its name, what comes, what comes out, what is answered, and how it ends.
type Case = (&'static str, Vec<u8>, Vec<u8>, Vec<u8>, End);

fn check(cases: impl IntoIterator<Item = Case>) {
    for (name, bytes, plain, answered, end) in cases {
        for step in [1, 7, usize::MAX] {
            let heard = hears(&bytes, step);
            assert!(heard.0 == plain, "{name}, {step} at a time: {} bytes came out", heard.0.len());
            assert_eq!((&heard.1, &heard.2), (&answered, &end), "{name}, {step} at a time");
        }
    }
}

/// What a server says: not masked.
fn pong(payload: &[u8]) -> Vec<u8> {
    [&[FINAL | PONG, payload.len() as u8][..], payload].concat()
}

/// Sections 5.2 and 5.6: every way to say a length, to both sides of each limit.
#[test]
fn messages_of_every_length_come_out() {
    check([0, 1, 125, 126, 127, 128, 65_535, 65_536, 100_000].map(|length| {
        let payload: Vec<u8> = (0..length).map(|at: u32| (at / 3) as u8).collect();
        ("binary", whole(BINARY, &payload), payload, vec![], Open)
    }));
    // Longer than needed: it is the sender's duty, and what is meant is clear.
    let long = [&of_length(2)[..], &[5, 6]].concat();
    check([("a long length", long, vec![5, 6], vec![], Open)]);
}

/// The most significant bit of a length is 0, and nothing is set aside for the rest.
#[test]
fn a_frame_of_any_length_is_never_held_and_one_of_no_length_is_refused() {
    for length in [1 << 32, (1 << 63) - 1] {
        let bytes = [&of_length(length)[..], &[7; 1000]].concat();
        check([("huge", bytes, vec![7; 1000], vec![], Open)]);
    }
    for length in [1 << 63, u64::MAX] {
        let bytes = [&of_length(length)[..], &[7; 1000]].concat();
        check([("none", bytes, vec![], vec![], Failed(PROTOCOL))]);
    }
}

/// Sections 5.5.2 and 5.5.3.
#[test]
fn pings_are_answered_with_what_they_have_and_pongs_are_not() {
    check([
        ("an empty ping", whole(PING, b""), vec![], pong(b""), Open),
        ("text", whole(PING, b"Hello"), vec![], pong(b"Hello"), Open),
        ("no text", whole(PING, &[0, 255, 254]), vec![], pong(&[0, 255, 254]), Open),
        ("the longest", whole(PING, &[0xFE; 125]), vec![], pong(&[0xFE; 125]), Open),
        ("too long", whole(PING, &[0xFE; 126]), vec![], vec![], Failed(PROTOCOL)),
        ("a pong too long", whole(PONG, &[0xFE; 126]), vec![], vec![], Failed(PROTOCOL)),
        ("a pong", whole(PONG, b"who asked"), vec![], vec![], Open),
        (
            "a pong, then a ping",
            [whole(PONG, b"no"), whole(PING, b"yes")].concat(),
            vec![],
            pong(b"yes"),
            Open,
        ),
        (
            "ten pings",
            (0..10).flat_map(|at| whole(PING, &[at])).collect(),
            vec![],
            (0..10).flat_map(|at| pong(&[at])).collect(),
            Open,
        ),
    ]);
}

/// Section 5.2: no extension is agreed on.
#[test]
fn reserved_bits_and_kinds_end_the_connection_and_what_came_before_counts() {
    let before = [whole(BINARY, b"before"), whole(PING, b"p")].concat();
    for first in (1..8).map(|bits| bits << 4) {
        for opcode in [0, TEXT, BINARY, CLOSE, PING, PONG] {
            let bytes = [&before[..], &frame(FINAL | first | opcode, b"no")].concat();
            check([("a bit", bytes, b"before".to_vec(), pong(b"p"), Failed(PROTOCOL))]);
        }
    }
    for opcode in (3..8).chain(11..16) {
        for payload in [&b""[..], b"some"] {
            let bytes = [&before[..], &whole(opcode, payload)].concat();
            check([("a kind", bytes, b"before".to_vec(), pong(b"p"), Failed(PROTOCOL))]);
        }
    }
}

/// Section 5.4.
#[test]
fn fragments_make_a_message_and_control_frames_may_stand_between() {
    let one = frame(BINARY, b"one ");
    let two = frame(0, b"two ");
    let last = whole(0, b"last");
    let all = b"one two last".to_vec();
    check([
        ("three", [&one[..], &two, &last].concat(), all.clone(), vec![], Open),
        (
            "with pings between",
            [&one[..], &whole(PING, b"1"), &two, &whole(PING, b"2"), &last].concat(),
            all.clone(),
            [pong(b"1"), pong(b"2")].concat(),
            Open,
        ),
        (
            "empty ones",
            [frame(BINARY, b""), frame(0, b""), whole(0, b"")].concat(),
            vec![],
            vec![],
            Open,
        ),
        ("a last one of nothing", last.clone(), vec![], vec![], Failed(PROTOCOL)),
        ("a next one of nothing", two.clone(), vec![], vec![], Failed(PROTOCOL)),
        (
            "one after the end",
            [&one[..], &last, &last].concat(),
            b"one last".to_vec(),
            vec![],
            Failed(PROTOCOL),
        ),
        (
            "a message in a message",
            [&one[..], &whole(BINARY, b"new")].concat(),
            b"one ".to_vec(),
            vec![],
            Failed(PROTOCOL),
        ),
        (
            "a message in fragments in a message",
            [&one[..], &one].concat(),
            b"one ".to_vec(),
            vec![],
            Failed(PROTOCOL),
        ),
        (
            "its end in a message",
            [&one[..], &close(1000, b"")].concat(),
            b"one ".to_vec(),
            vec![],
            Ended(1000),
        ),
    ]);
}

#[test]
fn control_frames_have_no_fragments() {
    for opcode in [PING, PONG, CLOSE] {
        let bytes = [frame(opcode, b""), whole(0, b"")].concat();
        check([("in two", bytes, vec![], vec![], Failed(PROTOCOL))]);
    }
}

/// Nothing of them is held, and the end may come at any time.
#[test]
fn fragments_without_end_leave_nothing_behind() {
    let empty = frame(0, b"");
    let many: Vec<u8> = frame(BINARY, b"").into_iter().chain(empty.repeat(100_000)).collect();
    let (plain, answered, end) = hears(&many, 4096);
    assert_eq!((plain.len(), answered.len(), end), (0, 0, Open));
    let some: Vec<u8> =
        frame(BINARY, b"").into_iter().chain(frame(0, b"x").repeat(10_000)).collect();
    let (plain, answered, end) = hears(&some, 4096);
    assert_eq!((plain.len(), answered.len(), end), (10_000, 0, Open));
}

/// MQTT has no text, so whether it is UTF-8 is not looked at [MQTT-6.0.0-1].
#[test]
fn text_ends_the_connection_whether_it_is_utf8_or_not() {
    for text in [&b""[..], b"Hello", "\u{3ba}\u{1f79}\u{3c3}".as_bytes(), &[0xF4, 0x90, 0x80, 0x80]]
    {
        check([
            ("whole", whole(TEXT, text), vec![], vec![], Failed(UNACCEPTABLE)),
            ("its start", frame(TEXT, text), vec![], vec![], Failed(UNACCEPTABLE)),
        ]);
    }
    let within = [frame(BINARY, b"one"), whole(TEXT, b"two")].concat();
    check([("in a message", within, b"one".to_vec(), vec![], Failed(UNACCEPTABLE))]);
}

/// Sections 5.5.1, 7.1 and 7.4.
#[test]
fn an_end_is_answered_once_and_nothing_after_it_counts() {
    let end = close(1000, b"");
    let after = |more: Vec<u8>| [end.clone(), more].concat();
    check([
        ("empty", whole(CLOSE, b""), vec![], vec![], Ended(1000)),
        ("with a reason", close(1000, b"bye"), vec![], vec![], Ended(1000)),
        ("with the longest", close(1000, &[b'*'; 123]), vec![], vec![], Ended(1000)),
        ("too long", close(1000, &[b'*'; 124]), vec![], vec![], Failed(PROTOCOL)),
        ("half a code", whole(CLOSE, &[3]), vec![], vec![], Failed(PROTOCOL)),
        ("no UTF-8", close(1000, &[0xCE, 0xBA, 0xED, 0xA0]), vec![], vec![], Failed(NOT_UTF8)),
        ("then another", after(end.clone()), vec![], vec![], Ended(1000)),
        ("then a ping", after(whole(PING, b"x")), vec![], vec![], Ended(1000)),
        ("then a message", after(whole(BINARY, b"x")), vec![], vec![], Ended(1000)),
        ("then what is none", after(vec![0xFF; 10]), vec![], vec![], Ended(1000)),
        (
            "a message before",
            [whole(BINARY, b"x"), end.clone()].concat(),
            vec![b'x'],
            vec![],
            Ended(1000),
        ),
    ]);
}

#[test]
fn codes_that_a_close_frame_may_have_are_answered_and_no_others() {
    let good = [1000..=1003, 1007..=1014, 3000..=3000, 3999..=4000, 4999..=4999];
    for code in good.into_iter().flatten() {
        check([("good", close(code, b""), vec![], vec![], Ended(code))]);
    }
    for code in [0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535] {
        check([("bad", close(code, b"why"), vec![], vec![], Failed(PROTOCOL))]);
    }
}

/// Section 5.1.
#[test]
fn every_kind_of_frame_needs_its_mask() {
    for opcode in [0, TEXT, BINARY, CLOSE, PING, PONG] {
        let bare = vec![FINAL | opcode, 2, 1, 2];
        check([("no mask", bare, vec![], vec![], Failed(PROTOCOL))]);
    }
}

/// Where it is cut does not matter, whatever the size of its fragments.
#[test]
fn long_messages_in_fragments_of_many_sizes_come_out() {
    let payload: Vec<u8> = (0..300_000_u32).map(|at| (at / 251) as u8).collect();
    for size in [64, 1024, 65_535, 100_000] {
        let last = payload.len().div_ceil(size) - 1;
        let bytes: Vec<u8> = payload
            .chunks(size)
            .enumerate()
            .flat_map(|(at, piece)| {
                let first = if at == 0 { BINARY } else { 0 };
                frame(first | if at == last { FINAL } else { 0 }, piece)
            })
            .collect();
        for step in [997, usize::MAX] {
            let (plain, answered, end) = hears(&bytes, step);
            assert!(plain == payload, "fragments of {size}");
            assert_eq!((answered.len(), end), (0, Open));
        }
    }
}
