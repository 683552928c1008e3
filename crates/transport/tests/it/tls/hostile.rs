//! What no client of rustls' does: records without content, messages beyond every size, and what
//! somebody else has said before.

use super::support::*;
use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rcgen::{CustomExtension, KeyPair};
use rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::{ClientConnection, Connection, ConnectionTrafficSecrets, SupportedCipherSuite};
use std::sync::Arc;
use weir_transport::tls::{Client, ClientAuth, ClientSettings, RecordLayer, Version};
use weir_transport::{Layers, Scratch, Stream, TransportError};

/// Records that bring nothing, one after the other, that are borne with.
const FRUITLESS_MAX: usize = 32;

const APPLICATION_DATA: u8 = 23;

/// Seals records as a client does, with its keys.
struct Sealer {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
    version: Version,
}

impl Sealer {
    fn suite(version: Version) -> SupportedCipherSuite {
        match version {
            Version::Tls12 => TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
            Version::Tls13 => TLS13_CHACHA20_POLY1305_SHA256,
        }
    }

    /// In the place of a client that is open.
    fn of(client: Connection, version: Version) -> Self {
        let (sequence, secrets) = client.dangerous_extract_secrets().unwrap().tx;
        let ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } = secrets else {
            panic!("another suite");
        };
        let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_ref()).unwrap();
        let iv = iv.as_ref().try_into().unwrap();
        Self { key: LessSafeKey::new(key), iv, sequence, version }
    }

    fn seal(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut content = plain.to_vec();
        if self.version == Version::Tls13 {
            content.push(APPLICATION_DATA);
        }
        let mut nonce = self.iv;
        let sequence = self.sequence.to_be_bytes();
        nonce[4..].iter_mut().zip(sequence).for_each(|(byte, other)| *byte ^= other);
        self.sequence += 1;
        let head = |length: usize| {
            let [high, low] = (length as u16).to_be_bytes();
            [APPLICATION_DATA, 3, 3, high, low]
        };
        let sealed = content.len() + CHACHA20_POLY1305.tag_len();
        let aad = match self.version {
            Version::Tls12 => [&sequence[..], &head(content.len())].concat(),
            Version::Tls13 => head(sealed).to_vec(),
        };
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(aad), &mut content).unwrap();
        [&head(sealed)[..], &content].concat()
    }
}

#[test]
fn empty_records_are_borne_with_up_to_a_bound_that_begins_anew_with_what_is_said() {
    for &kind in KINDS {
        let (mut ours, client) = opened_by(kind, Sealer::suite(kind.0), None);
        let mut sealer = Sealer::of(client, kind.0);
        for round in 0..3 {
            for _ in 0..FRUITLESS_MAX {
                assert_eq!(ours.hears(&sealer.seal(b"")), Ok(Stream::Open), "{kind:?} {round}");
            }
            ours.hears(&sealer.seal(b"some")).unwrap();
        }
        assert_eq!(ours.plain, b"some".repeat(3));
        let all: Vec<u8> = (0..=FRUITLESS_MAX).flat_map(|_| sealer.seal(b"")).collect();
        let ended = ours.hears(&all);
        assert!(matches!(ended, Err(TransportError::Malformed(_))), "{kind:?}: {ended:?}");
        assert_eq!(ours.plain, b"some".repeat(3));
    }
}

#[test]
fn keys_that_are_changed_without_a_word_end_the_connection() {
    for kind in [TLS13, COMPACT] {
        let (mut ours, mut client) = opened_by(kind, Sealer::suite(kind.0), None);
        for at in 0..FRUITLESS_MAX {
            client.refresh_traffic_keys().unwrap();
            assert_eq!(ours.hears(&said(&mut client)), Ok(Stream::Open), "{kind:?} {at}");
        }
        client.refresh_traffic_keys().unwrap();
        let ended = ours.hears(&said(&mut client));
        assert!(matches!(ended, Err(TransportError::Malformed(_))), "{kind:?}: {ended:?}");
    }
}

/// However many and large the certificates are that a client shows, and even if they are right:
/// nothing is put together beyond the bound.
#[test]
fn certificates_of_any_size_are_held_up_to_the_bound_only() {
    for &kind in KINDS {
        for (count, comes_in) in [(1, true), (2, false), (20, false)] {
            let authority = Authority::new();
            let auth = ClientAuth::Required(authority.certificates());
            let server = authority.valid().server(auth, kind);
            let huge =
                CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99_999], vec![0; 50_000]);
            let key = KeyPair::generate().unwrap();
            let mut signed = authority.sign_more(&key, (2020, 2100), vec![huge]);
            signed.certificate = signed.certificate.repeat(count);
            let client = Client::new(&authority.certificates(), Some(signed.identity()), &[kind.0]);
            let mut client = End::new(client.unwrap().layer("localhost").unwrap());
            let (mut layers, mut scratch) = (Layers::new([server.layer()]), Scratch::default());
            layers.begin(&mut Vec::new(), &mut scratch);
            let (mut plain, mut ended) = (Vec::new(), Ok(Stream::Open));
            while ended == Ok(Stream::Open) && !client.network.is_empty() {
                let (said, mut answer) = (std::mem::take(&mut client.network), Vec::new());
                for piece in Cuts::every(4096).pieces(&said) {
                    ended = layers.received(piece, &mut plain, &mut answer, &mut scratch);
                    if ended != Ok(Stream::Open) {
                        break;
                    }
                }
                client.layer.received(&answer, &mut Vec::new(), &mut client.network).ok();
            }
            assert_eq!(layers.is_open(), comes_in, "{kind:?} {count}: {ended:?}");
            assert_eq!(ended.is_ok(), comes_in, "{kind:?} {count}: {ended:?}");
        }
    }
}

/// Everything that a client has said that came back with a ticket, said again by somebody who has
/// listened: without the secrets of both, no handshake comes to its end.
#[test]
fn what_a_client_has_said_with_its_ticket_is_of_no_use_to_anybody_else() {
    for &(version, record_layer) in KINDS {
        let authority = Authority::new();
        let server = authority.valid().server_of(ClientAuth::Off, &[version], record_layer);
        let settings = ClientSettings { tickets_max: 4, ..ClientSettings::new(authority.pem()) };
        let client = Client::with(&settings, None).unwrap();
        open(&server, &client, &mut Cuts::every(5000));
        let mut of_client = End::new(client.layer("localhost").unwrap());
        let mut of_server = End::new(server.layer());
        let mut flights = Vec::new();
        while !of_client.network.is_empty() {
            let said = std::mem::take(&mut of_client.network);
            of_server.hears(&said).unwrap();
            flights.push(said);
            of_client.hears(&std::mem::take(&mut of_server.network)).unwrap();
        }
        assert_eq!(client.handshakes().resumed(), 1);
        of_client.says(b"a secret");
        flights.push(std::mem::take(&mut of_client.network));
        of_server.hears(flights.last().unwrap()).unwrap();
        assert_eq!(of_server.plain, b"a secret");
        // All of it; and what was said without the end of the handshake, as early data would be.
        for said in [&flights[..], &[flights[0].clone(), flights.last().unwrap().clone()]] {
            let mut again = End::new(server.layer());
            let ended = said.iter().find_map(|flight| again.hears(flight).err());
            assert!(ended.is_some(), "{version:?} {record_layer:?}");
            assert!(again.plain.is_empty() && !again.layer.is_open());
        }
    }
}

#[test]
fn no_ticket_lets_a_client_say_anything_before_the_handshake_is_over() {
    for record_layer in [RecordLayer::Rustls, RecordLayer::Compact] {
        let authority = Authority::new();
        let kind = (Version::Tls13, record_layer);
        let server = authority.valid().server(ClientAuth::Off, kind);
        let mut config = oracle_config(&authority, Version::Tls13);
        config.enable_early_data = true;
        let config = Arc::new(config);
        for is_resumed in [false, true] {
            let name = "localhost".try_into().unwrap();
            let mut client = ClientConnection::new(Arc::clone(&config), name).unwrap();
            assert!(client.early_data().is_none(), "no ticket says that it may");
            let mut client = Connection::from(client);
            let mut ours = End::new(server.layer());
            exchange_with(&mut ours, &mut client, &mut Cuts::every(900));
            let resumed = client.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
            assert_eq!(resumed, is_resumed, "{record_layer:?}");
        }
    }
}
