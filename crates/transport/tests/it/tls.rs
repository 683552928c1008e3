//! TLS as a layer, against rustls' own connections.

mod compact;
mod hostile;
pub(crate) mod support;

use proptest::prelude::*;
use std::io::Write;
use support::*;
use weir_transport::tls::{
    Certificates, Client, ClientAuth, Identity, Naming, PemError, PrivateKey, Server, Setup,
    SetupError,
};
use weir_transport::{Learnt, Stream, TransportError};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_the_splits_the_same_bytes_come_out(
        cuts in prop::collection::vec(1usize..3000, 1..8),
        messages in prop::collection::vec((any::<bool>(), 1usize..40_000), 0..6),
        kind in prop::sample::select(KINDS),
    ) {
        let (_, _, server, client) = pair(kind);
        let mut cuts = Cuts(cuts, 0);
        let (mut client, mut server) = open(&server, &client, &mut cuts);
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        for (at, (is_up, length)) in messages.into_iter().enumerate() {
            let message: Vec<u8> = (0..length).map(|byte| (byte + at) as u8).collect();
            let (from, expected) = match is_up {
                true => (&mut client, &mut to_server),
                false => (&mut server, &mut to_client),
            };
            from.says(&message);
            expected.extend(message);
            if at % 2 == 0 {
                exchange(&mut client, &mut server, &mut cuts).unwrap();
            }
        }
        exchange(&mut client, &mut server, &mut cuts).unwrap();
        prop_assert_eq!((&server.plain, &client.plain), (&to_server, &to_client));
        prop_assert_eq!((server.layer.held(), client.layer.held()), (0, 0));
    }

    /// Bytes of either side that are changed on their way, in the handshake or after it, with some
    /// said in between: nothing panics, and no plain bytes come that were not sent.
    #[test]
    fn whatever_is_changed_on_the_way_nothing_else_comes_out(
        kind in prop::sample::select(KINDS),
        changes in prop::collection::vec((0usize..6_000, any::<u8>()), 0..4),
        cuts in prop::collection::vec(1usize..2000, 1..5),
        cut_off in 0usize..12_000,
    ) {
        let authority = Authority::new();
        let auth = ClientAuth::Optional(authority.certificates());
        let server = authority.valid().server(auth, kind);
        let identity = authority.valid().identity();
        let client = Client::new(&authority.certificates(), Some(identity), &[kind.0]).unwrap();
        let mut ends =
            [End::new(client.layer("localhost").unwrap()), End::new(server.layer())];
        let (mut passed, mut cuts, mut failed) = (0, Cuts(cuts, 0), [false; 2]);
        for round in 0..16 {
            for from in 0..2 {
                let mut said = std::mem::take(&mut ends[from].network);
                for (at, xor) in &changes {
                    if let Some(byte) = at.checked_sub(passed).and_then(|at| said.get_mut(at)) {
                        *byte ^= xor;
                    }
                }
                said.truncate(cut_off.saturating_sub(passed));
                passed += said.len();
                for piece in cuts.pieces(&said) {
                    if !failed[1 - from] {
                        failed[1 - from] = ends[1 - from].hears(piece) != Ok(Stream::Open);
                    }
                    if !failed[1 - from] && ends[1 - from].layer.is_open() && round < 8 {
                        ends[1 - from].says(b"said");
                    }
                }
            }
        }
        for end in &mut ends {
            end.layer.close(&mut end.network);
            prop_assert!(end.plain.chunks(4).all(|some| b"said".starts_with(some)));
        }
    }

    #[test]
    fn garbage_ends_a_connection_with_an_alert_and_never_makes_plain_bytes(
        garbage in prop::collection::vec(any::<u8>(), 5..2000),
        step in 1usize..100,
        kind in prop::sample::select(KINDS),
    ) {
        let (_, _, server, _) = pair(kind);
        let mut server = End::new(server.layer());
        for piece in garbage.chunks(step) {
            if server.hears(piece).is_err() {
                prop_assert_eq!(server.network.first(), Some(&21), "no alert");
                break;
            }
        }
        prop_assert!(server.plain.is_empty() && !server.layer.is_open());
    }

    #[test]
    fn a_changed_byte_ends_a_connection_and_what_came_before_comes_out(
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        kind in prop::sample::select(KINDS),
    ) {
        let (_, _, server, client) = pair(kind);
        let (mut client, mut server) = open(&server, &client, &mut Cuts::every(500));
        client.says(b"good");
        let good = std::mem::take(&mut client.network);
        client.says(b"to be changed");
        let mut bad = std::mem::take(&mut client.network);
        // Kind and version in the head of a record are not looked at.
        let at = 3 + at.index(bad.len() - 3);
        bad[at] ^= 1 << bit;
        let result = server.hears(&[good, bad].concat());
        prop_assert_eq!(&server.plain, b"good");
        // A length that was changed may ask for more than there is.
        if result != Ok(Stream::Open) {
            prop_assert!(result.is_err() && !server.network.is_empty(), "{:?}", result);
        }
    }
}

#[test]
fn rustls_own_ends_understand_ours_in_both_roles_and_versions() {
    for &kind in KINDS {
        let (authority, signed, server, client) = pair(kind);
        let ends = [
            (server.layer(), oracle_client(&authority, kind.0)),
            (client.layer("localhost").unwrap(), oracle_server(&signed, kind.0)),
        ];
        for (layer, mut oracle) in ends {
            let (mut ours, mut cuts) = (End::new(layer), Cuts(vec![1, 7, 1000], 0));
            exchange_with(&mut ours, &mut oracle, &mut cuts);
            assert!(ours.layer.is_open() && !oracle.is_handshaking(), "{kind:?}");
            let long = vec![7; 100_000];
            ours.says(&long);
            oracle.writer().write_all(b"hello").unwrap();
            assert_eq!(exchange_with(&mut ours, &mut oracle, &mut cuts), long);
            assert_eq!(ours.plain, b"hello");
            assert_eq!(ours.layer.held(), 0);
        }
    }
}

#[test]
fn records_of_one_byte_come_out_in_order() {
    for &kind in KINDS {
        let (authority, _, server, _) = pair(kind);
        let mut oracle = oracle_client(&authority, kind.0);
        let (mut ours, mut cuts) = (End::new(server.layer()), Cuts::every(4096));
        exchange_with(&mut ours, &mut oracle, &mut cuts);
        let mut said = Vec::new();
        for byte in 0..2_000_u32 {
            oracle.writer().write_all(&[byte as u8]).unwrap();
            oracle.write_tls(&mut said).unwrap();
        }
        ours.hears(&said).unwrap();
        assert!(ours.plain.iter().enumerate().all(|(at, byte)| *byte == at as u8));
        assert_eq!(ours.plain.len(), 2_000);
    }
}

#[test]
fn all_that_leaves_at_once_is_one_record() {
    for kind in [TLS13, COMPACT] {
        let (_, _, server, client) = pair(kind);
        let (_, mut server) = open(&server, &client, &mut Cuts::every(5000));
        server.says(&[1; 300]);
        let said = &server.network;
        assert_eq!(said[0], 23, "application data");
        let length = usize::from(u16::from_be_bytes([said[3], said[4]]));
        assert_eq!(said.len(), 5 + length);
        assert!(length < 300 + 32);
    }
}

#[test]
fn keys_are_changed_in_the_middle_of_a_connection() {
    for kind in [TLS13, COMPACT] {
        let (authority, _, server, _) = pair(kind);
        let mut oracle = oracle_client(&authority, kind.0);
        let (mut ours, mut cuts) = (End::new(server.layer()), Cuts::every(11));
        exchange_with(&mut ours, &mut oracle, &mut cuts);
        for round in 0..10u8 {
            oracle.refresh_traffic_keys().unwrap();
            oracle.writer().write_all(&[round; 5]).unwrap();
            ours.says(&[round; 9]);
            assert_eq!(exchange_with(&mut ours, &mut oracle, &mut cuts), [round; 9]);
            assert_eq!(ours.plain, [round; 5]);
            ours.plain.clear();
        }
    }
}

#[test]
fn the_end_is_said_and_heard() {
    for &kind in KINDS {
        let (authority, _, server, _) = pair(kind);
        let mut oracle = oracle_client(&authority, kind.0);
        let (mut ours, mut cuts) = (End::new(server.layer()), Cuts::every(100));
        // One that is not open has nothing to say.
        ours.layer.close(&mut ours.network);
        assert!(ours.network.is_empty());
        exchange_with(&mut ours, &mut oracle, &mut cuts);
        oracle.writer().write_all(b"last").unwrap();
        oracle.send_close_notify();
        let mut said = Vec::new();
        oracle.write_tls(&mut said).unwrap();
        assert_eq!(ours.hears(&said), Ok(Stream::Ended));
        assert_eq!(ours.plain, b"last");
        ours.layer.close(&mut ours.network);
        oracle.read_tls(&mut ours.network.as_slice()).unwrap();
        assert!(oracle.process_new_packets().unwrap().peer_has_closed(), "{kind:?}");
    }
}

#[test]
fn who_speaks_no_tls_is_told_by_an_alert_and_named() {
    for &kind in KINDS {
        let (_, _, server, _) = pair(kind);
        let mut ours = End::new(server.layer());
        let connect = [0x10, 12, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, 0];
        let error = ours.hears(&connect).unwrap_err();
        assert_eq!(error, TransportError::Malformed("it does not speak TLS"));
        assert_eq!(ours.network[0], 21, "an alert");
    }
}

#[test]
fn handshakes_are_counted_when_they_are_over() {
    for &kind in KINDS {
        let (_, _, server, client) = pair(kind);
        let server = server.clone().following(&server);
        let count = |server: &Server| {
            let counts = server.handshakes();
            [counts.full(), counts.resumed(), counts.failed()]
        };
        for opened in 1..4 {
            open(&server, &client, &mut Cuts::every(50));
            // The other side has counted the same.
            let (full, resumed) = (client.handshakes().full(), client.handshakes().resumed());
            assert_eq!((count(&server), full + resumed), ([full, resumed, 0], opened), "{kind:?}");
        }
        // Who says nothing has not begun.
        drop(server.layer());
        assert_eq!(count(&server)[2], 0);
        let mut ours = End::new(server.layer());
        ours.hears(b"GET / HTTP/1.1\r\n\r\n").unwrap_err();
        drop(ours);
        assert_eq!(count(&server)[2], 1, "{kind:?}");
    }
}

#[test]
fn a_greeting_that_does_not_come_to_its_end_is_held_up_to_the_bound_only() {
    for &kind in KINDS {
        let (_, _, server, _) = pair(kind);
        let mut ours = weir_transport::Layers::new([server.layer()]);
        let mut scratch = weir_transport::Scratch::default();
        let (mut plain, mut network) = (Vec::new(), Vec::new());
        // A ClientHello of almost 64 KiB, in records of 16 KiB.
        let mut hello = vec![1, 0, 0xFF, 0xFF];
        hello.resize(70_000, 0);
        let ended = hello.chunks(16 * 1024).find_map(|part| {
            let mut record = vec![22, 3, 1];
            record.extend((part.len() as u16).to_be_bytes());
            record.extend(part);
            ours.received(&record, &mut plain, &mut network, &mut scratch).err()
        });
        assert!(ended.is_some());
        assert!(plain.is_empty());
    }
}

#[test]
fn clients_are_let_in_by_their_certificates() {
    let (authority, other) = (Authority::new(), Authority::new());
    let signed = authority.valid();
    let (own, foreign) = (authority.valid(), other.valid());
    let [old, early] = [(2010, 2012), (2090, 2100)].map(|years| authority.sign(years));
    let unknown = "its certificate is from an authority that is not trusted here";
    let cases = [
        (Some(&own), true, None),
        (Some(&own), false, None),
        (None, false, None),
        (None, true, Some("it showed no certificate")),
        (Some(&foreign), true, Some(unknown)),
        (Some(&foreign), false, Some(unknown)),
        (Some(&old), true, Some("its certificate has expired")),
        (Some(&early), true, Some("its certificate is not valid yet")),
        (Some(&early), false, Some("its certificate is not valid yet")),
    ];
    for &kind in KINDS {
        for (shown, is_required, refused) in cases {
            let authorities = authority.certificates();
            let auth = match is_required {
                true => ClientAuth::Required(authorities),
                false => ClientAuth::Optional(authorities),
            };
            let server = signed.server(auth, kind);
            let identity = shown.map(Signed::identity);
            let client = Client::new(&authority.certificates(), identity, &[kind.0]).unwrap();
            let mut server = End::new(server.layer());
            let mut client = End::new(client.layer("localhost").unwrap());
            let result = exchange(&mut client, &mut server, &mut Cuts::every(1000));
            match refused {
                None => assert!(server.layer.is_open(), "{kind:?}: {result:?}"),
                Some(why) => {
                    assert_eq!(result, Err(TransportError::Refused(why)), "{kind:?}");
                }
            }
        }
    }
}

#[test]
fn lists_say_whose_certificates_were_revoked_while_they_are_valid() {
    let (authority, other) = (Authority::new(), Authority::new());
    let now = (2020, 2100);
    let revoked = |why| Err(TransportError::Refused(why));
    let cases = [
        (authority.revoke(&[USER + 1], now), Ok(Stream::Open)),
        (authority.revoke(&[USER], now), revoked("its certificate was revoked")),
        (other.revoke(&[], now), revoked("no list says whether its certificate was revoked")),
        (
            authority.revoke(&[], (2010, 2012)),
            revoked("the list that says whether its certificate was revoked has expired"),
        ),
    ];
    for &kind in KINDS {
        for (list, expected) in &cases {
            let setup = Setup {
                auth: ClientAuth::Optional(authority.certificates()),
                revoked: list.clone(),
                versions: vec![kind.0],
                record_layer: kind.1,
                ..Setup::new(authority.valid().identity().certify().unwrap())
            };
            let identity = authority.sign_user("ann").identity();
            let client = Client::new(&authority.certificates(), Some(identity), &[kind.0]).unwrap();
            let mut server = End::new(Server::new(setup).unwrap().layer());
            let mut client = End::new(client.layer("localhost").unwrap());
            let result = exchange(&mut client, &mut server, &mut Cuts::every(1000));
            assert_eq!(&result, expected, "{kind:?}");
        }
    }
}

#[test]
fn a_client_does_not_go_on_with_a_server_of_another_name_or_authority() {
    let (_, _, server, client) = pair(TLS13);
    let stranger = Client::new(&Authority::new().certificates(), None, BOTH).unwrap();
    for (layer, why) in [
        (client.layer("example.org"), "its certificate is for another name"),
        (
            stranger.layer("localhost"),
            "its certificate is from an authority that is not trusted here",
        ),
    ] {
        let (mut server, mut client) = (End::new(server.layer()), End::new(layer.unwrap()));
        let result = exchange(&mut client, &mut server, &mut Cuts::every(10_000));
        assert_eq!(result, Err(TransportError::Refused(why)));
    }
    assert!(client.layer("no name").is_none());
}

/// A server that has its clients named by their common names, and the client of this name.
fn named(kind: Kind, name: &str) -> (Server, Client) {
    let authority = Authority::new();
    let setup = Setup {
        auth: ClientAuth::Required(authority.certificates()),
        versions: vec![kind.0],
        record_layer: kind.1,
        naming: Some(Naming::CommonName),
        ..Setup::new(authority.valid().identity().certify().unwrap())
    };
    let identity = authority.sign_user(name).identity();
    let client = Client::new(&authority.certificates(), Some(identity), &[kind.0]).unwrap();
    (Server::new(setup).unwrap(), client)
}

#[test]
fn a_certificate_names_a_user_and_is_shown_each_time() {
    for &kind in KINDS {
        let (server, client) = named(kind, "ann");
        for _ in 0..2 {
            let (mut of_client, mut server) =
                (End::new(client.layer("localhost").unwrap()), End::new(server.layer()));
            let client = &mut of_client;
            exchange(client, &mut server, &mut Cuts::every(700)).unwrap();
            client.says(b"hello");
            exchange(client, &mut server, &mut Cuts::every(3)).unwrap();
            assert_eq!(server.plain, b"hello", "{kind:?}");
            assert_eq!(server.layer.learnt().name.as_deref(), Some("ann"), "{kind:?}");
            assert_eq!(server.layer.learnt(), Learnt::default());
            client.says(b" again");
            exchange(client, &mut server, &mut Cuts::every(700)).unwrap();
            assert_eq!(server.plain, b"hello again", "{kind:?}");
        }
        assert_eq!((client.handshakes().full(), client.handshakes().resumed()), (2, 0));
    }
}

/// A client may say something as soon as it has said all that belongs to the handshake.
#[test]
fn what_comes_with_the_end_of_the_handshake_comes_out() {
    for &kind in KINDS {
        for step in [usize::MAX, 1000, 1] {
            let (server, client) = named(kind, "ann");
            let (mut client, mut server) =
                (End::new(client.layer("localhost").unwrap()), End::new(server.layer()));
            while !server.layer.is_open() || server.plain.is_empty() {
                if client.layer.is_open() {
                    client.says(b"CONNECT");
                    client.says(b"more");
                }
                for piece in Cuts::every(step).pieces(&std::mem::take(&mut client.network)) {
                    server.hears(piece).unwrap();
                }
                client.hears(&std::mem::take(&mut server.network)).unwrap();
            }
            assert_eq!(server.plain, b"CONNECTmore", "{kind:?}");
        }
    }
}

#[test]
fn of_whom_no_certificate_names_nothing_is_heard() {
    for &kind in KINDS {
        let (server, client) = named(kind, "");
        let (mut client, mut server) =
            (End::new(client.layer("localhost").unwrap()), End::new(server.layer()));
        let mut result = Ok(Stream::Open);
        while result == Ok(Stream::Open) && !client.network.is_empty() {
            if client.layer.is_open() {
                // Together with the end of the handshake.
                client.says(b"CONNECT");
            }
            result = server.hears(&std::mem::take(&mut client.network));
            let answer = std::mem::take(&mut server.network);
            client.hears(&answer).unwrap();
        }
        assert_eq!(result, Err(TransportError::Refused("its certificate names no user")));
        assert!(server.plain.is_empty(), "{kind:?}");
    }
}

#[test]
fn keys_of_every_usual_kind_are_shown() {
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ED25519, &rcgen::PKCS_RSA_SHA256]
    {
        let authority = Authority::new();
        let signed =
            authority.sign_key(&rcgen::KeyPair::generate_for(algorithm).unwrap(), (2020, 2100));
        for &kind in KINDS {
            let server = signed.server(ClientAuth::Off, kind);
            let client = Client::new(&authority.certificates(), None, &[kind.0]).unwrap();
            open(&server, &client, &mut Cuts::every(1000));
        }
    }
}

#[test]
fn dates_of_certificates_and_lists_can_be_read() {
    let years = |years| {
        let certified = Authority::new().sign(years).identity().certify().unwrap();
        let dates = certified.dates().unwrap();
        [dates.start, dates.end].map(|date| date.as_secs())
    };
    assert_eq!(years((2010, 2012)), [1_262_304_000, 1_325_376_000]);
    // From 2050 on they are written otherwise.
    assert_eq!(years((1990, 2060)), [631_152_000, 2_840_140_800]);
}

#[test]
fn versions_that_are_not_common_are_named() {
    let (authority, _, server, _) = pair(TLS13);
    let client = Client::new(&authority.certificates(), None, &[TLS12.0]).unwrap();
    let mut server = End::new(server.layer());
    let mut client = End::new(client.layer("localhost").unwrap());
    let result = exchange(&mut client, &mut server, &mut Cuts::every(10_000));
    assert_eq!(result, Err(TransportError::Refused("no TLS version in common")));
}

#[test]
fn what_cannot_be_used_is_named() {
    let pem = |text: &str| Certificates::from_pem(text.as_bytes()).unwrap_err();
    let key = |text: &str| PrivateKey::from_pem(text.as_bytes()).unwrap_err();
    let signed = Authority::new().valid();
    assert_eq!(pem(""), PemError::NoCertificate);
    assert_eq!(pem(&signed.key), PemError::NoCertificate);
    let broken = pem("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    assert!(matches!(broken, PemError::Broken(_)), "{broken}");
    assert_eq!(key(&signed.certificate), PemError::NoKey);
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    assert_eq!(key(encrypted), PemError::Encrypted);

    let setup = |identity: Identity| identity.certify().unwrap_err();
    let other = Authority::new().valid();
    let mixed = Signed { key: other.key, ..signed.clone() };
    assert_eq!(setup(mixed.identity()), SetupError::KeyMismatch);
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
    let garbage = Signed { certificate: garbage, ..signed };
    let error = setup(garbage.identity());
    assert!(matches!(error, SetupError::Certificate(_)), "{error}");
}
