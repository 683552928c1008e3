//! What no other end can be made to say: records are made here with a client's keys.

use super::keys::{Keys, Suite};
use super::records::{FRUITLESS_MAX, Fault, KEY_RECORDS_MAX, Records};
use super::*;

const SUITES: [Suite; 3] =
    [Suite::Aes128GcmSha256, Suite::Aes256GcmSha384, Suite::Chacha20Poly1305Sha256];

/// Ends of one connection, each of which reads what the other writes.
fn ends(suite: Suite) -> (Records, Records) {
    let keys = |byte| Keys::of(suite, &[byte; 48]);
    (Records::new(keys(1), keys(2), suite), Records::new(keys(2), keys(1), suite))
}

/// A record as `from` would seal it.
fn sealed(from: &mut Records, suite: Suite, kind: u8, content: &[u8]) -> Vec<u8> {
    let (cipher, mut network) = (from.write.cipher(suite), Vec::new());
    from.write.seal(&cipher, kind, content, &mut network);
    network
}

fn opened(to: &mut Records, bytes: &[u8]) -> (Result<Stream, Fault>, Vec<u8>, Vec<u8>) {
    let (mut plain, mut network) = (Vec::new(), Vec::new());
    let (_, ended) = to.open(bytes, &mut plain, &mut network);
    (ended, plain, network)
}

#[test]
fn an_idle_connection_takes_at_most_136_bytes() {
    assert!(size_of::<Compact>() <= 136, "{}", size_of::<Compact>());
}

#[test]
fn messages_that_no_client_may_send_end_the_connection() {
    use Fault::{Illegal, TooLong, Undecodable, Unexpected};
    let long = vec![1; RECORD_BYTES_MAX + 1];
    let cases: &[(u8, &[u8], Fault)] = &[
        // A ticket, a certificate, a second greeting, and a message in parts.
        (22, &[4, 0, 0, 1, 0], Unexpected),
        (22, &[11, 0, 0, 1, 0], Unexpected),
        (22, &[1, 0, 0, 1, 0], Unexpected),
        (22, &[24, 0, 0], Unexpected),
        (22, &[], Unexpected),
        (22, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0], Unexpected),
        (22, &[24, 0, 0, 1, 2], Illegal),
        (20, &[1], Unexpected),
        (21, &[], Undecodable),
        (21, &[1], Undecodable),
        (21, &[1, 0, 0], Undecodable),
        (99, b"what", Unexpected),
        // Nothing but padding.
        (0, &[0; 9], Unexpected),
        (23, &long, TooLong),
    ];
    for suite in SUITES {
        for &(kind, content, fault) in cases {
            let (mut client, mut server) = ends(suite);
            let record = sealed(&mut client, suite, kind, content);
            let (ended, plain, network) = opened(&mut server, &record);
            assert_eq!((ended, plain.len()), (Err(fault), 0), "{kind} {content:?}");
            let (ended, ..) = opened(&mut client, &network);
            assert_eq!(ended, Err(Fault::Declined(fault.alert().unwrap())));
        }
    }
}

#[test]
fn padding_is_taken_off() {
    let suite = SUITES[0];
    let (mut client, mut server) = ends(suite);
    // The kind is followed by zeros, and the content may end with some.
    let mut content = b"hello\0\0".to_vec();
    content.push(APPLICATION_DATA);
    content.extend([0; 100]);
    let record = sealed(&mut client, suite, 0, &content);
    assert_eq!(opened(&mut server, &record), (Ok(Stream::Open), b"hello\0\0".to_vec(), vec![]));
    // As much as a record may have.
    let mut content = vec![7; RECORD_BYTES_MAX - 100];
    content.push(APPLICATION_DATA);
    content.extend([0; 99]);
    let record = sealed(&mut client, suite, 0, &content);
    assert_eq!(opened(&mut server, &record).1.len(), RECORD_BYTES_MAX - 100);
}

#[test]
fn records_that_bring_nothing_are_borne_with_up_to_a_bound() {
    let suite = SUITES[0];
    for (kind, content) in
        [(APPLICATION_DATA, &[][..]), (22, &[24, 0, 0, 1, 1][..]), (21, &[1, 90][..])]
    {
        let (mut client, mut server) = ends(suite);
        for round in 0..3 {
            for at in 0..FRUITLESS_MAX {
                let record = sealed(&mut client, suite, kind, content);
                if kind == 22 {
                    client.write.update(suite);
                }
                let (ended, _, answer) = opened(&mut server, &record);
                assert_eq!(ended, Ok(Stream::Open), "{kind} {round} {at}");
                opened(&mut client, &answer).0.unwrap();
            }
            let record = sealed(&mut client, suite, APPLICATION_DATA, b"some");
            assert_eq!(opened(&mut server, &record).1, b"some");
            let record = sealed(&mut server, suite, APPLICATION_DATA, b"more");
            assert_eq!(opened(&mut client, &record).1, b"more");
        }
        let mut ended = Ok(Stream::Open);
        for _ in 0..=FRUITLESS_MAX {
            let record = sealed(&mut client, suite, kind, content);
            if kind == 22 {
                client.write.update(suite);
            }
            ended = opened(&mut server, &record).0;
        }
        assert_eq!(ended, Err(Fault::TooMany), "{kind}");
    }
}

#[test]
fn however_often_keys_are_asked_for_in_one_read_they_change_once() {
    let suite = SUITES[2];
    let (mut client, mut server) = ends(suite);
    let mut bytes = Vec::new();
    for _ in 0..5 {
        bytes.extend(sealed(&mut client, suite, 22, &[24, 0, 0, 1, 1]));
        client.write.update(suite);
    }
    let (ended, _, answer) = opened(&mut server, &bytes);
    assert_eq!(ended, Ok(Stream::Open));
    let (header, message, tag) = (5, 6, 16);
    assert_eq!(answer.len(), header + message + tag);
    opened(&mut client, &answer).0.unwrap();
    let mut network = Vec::new();
    server.seal(b"under the next keys", &mut network);
    assert_eq!(opened(&mut client, &network).1, b"under the next keys");
}

#[test]
fn keys_change_before_they_have_sealed_too_much() {
    for suite in SUITES {
        let (mut client, mut server) = ends(suite);
        for end in [&mut client.read, &mut server.write] {
            end.set_sequence(KEY_RECORDS_MAX - 3);
        }
        let (mut network, mut plain) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            server.seal(&[5; RECORD_BYTES_MAX + 1], &mut network);
        }
        let (_, ended) = client.open(&network, &mut plain, &mut Vec::new());
        assert_eq!(ended, Ok(Stream::Open));
        assert!(plain == [5; 5 * (RECORD_BYTES_MAX + 1)]);
        // Two records under the old key, its end, and the others under the new one.
        assert_eq!(server.write.sequence(), 8);
    }
}

#[test]
fn who_does_not_change_its_keys_is_asked_to_and_cut_off_in_the_end() {
    let suite = SUITES[0];
    let (mut client, mut server) = ends(suite);
    for end in [&mut client.write, &mut server.read] {
        end.set_sequence(KEY_RECORDS_MAX - 1);
    }
    let record = sealed(&mut client, suite, APPLICATION_DATA, b"much");
    let (ended, plain, asked) = opened(&mut server, &record);
    assert_eq!((ended, plain), (Ok(Stream::Open), b"much".to_vec()));
    let (ended, _, answer) = opened(&mut client, &asked);
    assert_eq!(ended, Ok(Stream::Open));
    assert_eq!(opened(&mut server, &answer).0, Ok(Stream::Open));
    assert_eq!((client.write.sequence(), server.read.sequence()), (0, 0));

    for end in [&mut client.write, &mut server.read] {
        end.set_sequence(u32::MAX - 1);
    }
    let record = sealed(&mut client, suite, APPLICATION_DATA, b"last");
    assert_eq!(opened(&mut server, &record).1, b"last");
    // The count cannot go on, so nothing is sealed or opened with it.
    assert!(sealed(&mut client, suite, APPLICATION_DATA, b"one more").is_empty());
    assert_eq!(opened(&mut server, &record).0, Err(Fault::Worn));
}
