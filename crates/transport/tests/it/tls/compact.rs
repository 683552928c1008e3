//! What only the compact record layer decides, with rustls' own client at the other end.

use super::support::*;
use proptest::prelude::*;
use rustls::crypto::aws_lc_rs::cipher_suite;
use rustls::{Connection, SupportedCipherSuite};
use std::io::Write;
use weir_transport::{Stream, TransportError};

const SUITES: [SupportedCipherSuite; 3] = [
    cipher_suite::TLS13_AES_128_GCM_SHA256,
    cipher_suite::TLS13_AES_256_GCM_SHA384,
    cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
];

/// Ours and rustls' own client, both open.
fn opened(suite: SupportedCipherSuite, fragment: Option<usize>) -> (End, Connection) {
    opened_by(COMPACT, suite, fragment)
}

fn split(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some(&[_, _, _, high, low]) = bytes.first_chunk() {
        let (record, rest) = bytes.split_at(5 + usize::from(u16::from_be_bytes([high, low])));
        records.push(record);
        bytes = rest;
    }
    records
}

#[derive(Clone, Debug)]
enum Step {
    Ours(usize),
    Theirs(usize),
    /// They change their keys, and ask us to.
    Update,
    Exchange,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = prop_oneof![1usize..100, 1usize..70_000];
    let step = prop_oneof![
        length.clone().prop_map(Step::Ours),
        length.prop_map(Step::Theirs),
        Just(Step::Update),
        Just(Step::Exchange),
    ];
    prop::collection::vec(step, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Any suite, lengths, sizes of records, splits, and changes of keys.
    #[test]
    fn rustls_reads_what_we_seal_and_we_what_it_seals(
        suite in prop::sample::select(&SUITES[..]),
        fragment in prop::option::of(100usize..3000),
        cuts in prop::collection::vec(1usize..3000, 1..8),
        steps in steps(),
    ) {
        let (mut ours, mut oracle) = opened(suite, fragment);
        let mut cuts = Cuts(cuts, 0);
        let (mut up, mut down, mut heard) = (Vec::new(), Vec::new(), Vec::new());
        for (at, step) in steps.into_iter().chain([Step::Exchange]).enumerate() {
            let message = |length: usize| (0..length).map(|byte| (byte * 7 + at) as u8);
            match step {
                Step::Ours(length) => {
                    let message: Vec<u8> = message(length).collect();
                    ours.says(&message);
                    down.extend(message);
                }
                Step::Theirs(length) => {
                    let message: Vec<u8> = message(length).collect();
                    oracle.set_buffer_limit(None);
                    oracle.writer().write_all(&message).unwrap();
                    up.extend(message);
                }
                Step::Update => oracle.refresh_traffic_keys().unwrap(),
                Step::Exchange => heard.extend(exchange_with(&mut ours, &mut oracle, &mut cuts)),
            }
        }
        prop_assert!(ours.plain == up && heard == down);
        prop_assert_eq!(ours.layer.held(), 0);
    }

    /// A record that is changed, left out, said twice, or comes too early ends the connection with
    /// an alert that rustls can read, and only what came before comes out.
    #[test]
    fn records_come_out_as_they_were_sealed_and_in_their_order_or_not_at_all(
        suite in prop::sample::select(&SUITES[..]),
        at in 0usize..5,
        fault in 0u8..4,
        byte in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let (mut ours, mut oracle) = opened(suite, None);
        let mut stream = Vec::new();
        for message in [b"zero", b"one ", b"two ", b"3333", b"4444", b"5555"] {
            oracle.writer().write_all(message).unwrap();
            stream.extend(said(&mut oracle));
        }
        let mut records: Vec<Vec<u8>> = split(&stream).into_iter().map(<[u8]>::to_vec).collect();
        match fault {
            0 => {
                let body = records[at].len() - 5;
                records[at][5 + byte.index(body)] ^= 1 << bit;
            }
            1 => drop(records.remove(at)),
            2 => records.insert(at, records[at].clone()),
            _ => records.swap(at, at + 1),
        }
        let result = ours.hears(&records.concat());
        let altered = TransportError::Malformed("a TLS record that was changed on its way");
        prop_assert_eq!(result, Err(altered));
        // What was said twice has come out once.
        let whole = if fault == 2 { at + 1 } else { at };
        prop_assert_eq!(&ours.plain, &b"zeroone two 33334444"[..4 * whole]);
        oracle.read_tls(&mut ours.network.as_slice()).unwrap();
        let error = oracle.process_new_packets().unwrap_err();
        prop_assert_eq!(
            error,
            rustls::Error::AlertReceived(rustls::AlertDescription::BadRecordMac)
        );
        // It says no more, and nothing else comes out.
        ours.network.clear();
        ours.says(b"more");
        ours.layer.close(&mut ours.network);
        prop_assert!(ours.network.is_empty() && !ours.layer.is_open());
    }

    /// A record that does not end is held, and no byte of it comes out.
    #[test]
    fn half_a_record_brings_nothing(
        suite in prop::sample::select(&SUITES[..]),
        length in 1usize..16_384,
        end in any::<prop::sample::Index>(),
    ) {
        let (mut ours, mut oracle) = opened(suite, None);
        oracle.writer().write_all(&vec![1; length]).unwrap();
        let record = said(&mut oracle);
        let end = end.index(record.len());
        prop_assert_eq!(ours.hears(&record[..end]), Ok(Stream::Open));
        prop_assert!(ours.plain.is_empty() && ours.layer.held() == end);
        prop_assert_eq!(ours.hears(&record[end..]), Ok(Stream::Open));
        prop_assert!(ours.plain == vec![1; length] && ours.layer.held() == 0);
    }

    #[test]
    fn bytes_that_are_no_record_end_the_connection(
        garbage in prop::collection::vec(any::<u8>(), 5..400),
        step in 1usize..100,
    ) {
        let (mut ours, _) = opened(SUITES[0], None);
        let mut is_over = false;
        for piece in garbage.chunks(step) {
            if ours.hears(piece).is_err() {
                is_over = true;
                break;
            }
        }
        // A length may ask for more than there is.
        prop_assert!(is_over || ours.layer.held() == garbage.len());
        prop_assert!(ours.plain.is_empty());
    }
}

#[test]
fn a_record_that_is_too_long_or_empty_or_of_another_kind_is_refused_by_its_head() {
    for (head, why) in [
        ([23, 3, 3, 0x41, 0x01], "a TLS record that is too long"),
        ([23, 3, 3, 0, 16], "a TLS message that cannot be decoded"),
        ([20, 3, 3, 0, 1], "a TLS message at the wrong time"),
        ([21, 3, 3, 0, 2], "a TLS message at the wrong time"),
        ([22, 3, 3, 0, 100], "a TLS message at the wrong time"),
    ] {
        let (mut ours, _) = opened(SUITES[0], None);
        assert_eq!(ours.hears(&head), Err(TransportError::Malformed(why)), "{head:?}");
        assert_eq!(ours.network[0], 23, "an alert, sealed");
    }
}

#[test]
fn an_alert_of_the_peer_ends_the_connection_and_is_named() {
    let (mut ours, mut oracle) = opened(SUITES[1], None);
    ours.says(b"hello");
    *ours.network.last_mut().unwrap() ^= 1;
    oracle.read_tls(&mut ours.network.as_slice()).unwrap();
    oracle.process_new_packets().unwrap_err();
    ours.network.clear();
    let error = ours.hears(&said(&mut oracle)).unwrap_err();
    assert_eq!(error, TransportError::Declined("BadRecordMac"));
    assert!(ours.network.is_empty(), "whoever has ended it is told nothing");
}

#[test]
fn sessions_are_resumed_by_the_ticket_that_came_before_the_records() {
    let (authority, _, server, client) = pair(COMPACT);
    let _ = authority;
    let (first, _) = open(&server, &client, &mut Cuts::every(500));
    drop(first);
    let mut server = End::new(server.layer());
    let mut client = End::new(client.layer("localhost").unwrap());
    exchange(&mut client, &mut server, &mut Cuts::every(500)).unwrap();
    // Without a certificate the greeting is short.
    assert!(server.layer.is_open());
    client.says(b"again");
    exchange(&mut client, &mut server, &mut Cuts::every(3)).unwrap();
    assert_eq!(server.plain, b"again");
}
