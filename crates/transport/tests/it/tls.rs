//! TLS as a layer, against rustls' own connections.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, RootCertStore, ServerConnection};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weir_transport::tls::{
    Certificates, Client, ClientAuth, Identity, PemError, PrivateKey, Server, SetupError, Version,
};
use weir_transport::{Layer, Stream, TransportError, UNDECODED_BYTES_MAX};

use proptest::prelude::*;

pub(crate) const BOTH: &[Version] = &[Version::Tls12, Version::Tls13];

/// 2026, when all certificates here are valid but those that are made otherwise.
const NOW: Duration = Duration::from_secs(1_780_000_000);

/// Tells authorities apart.
static NAMES: AtomicU32 = AtomicU32::new(0);

/// An authority with what it has signed.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, as text.
#[derive(Clone)]
pub(crate) struct Signed {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = format!("authority {}", NAMES.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn sign(&self, years: (i32, i32)) -> Signed {
        let mut params = CertificateParams::new(["localhost".into()]).unwrap();
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    pub(crate) fn valid(&self) -> Signed {
        self.sign((2020, 2100))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    fn certificates(&self) -> Certificates {
        Certificates::from_pem(self.0.pem().as_bytes()).unwrap()
    }
}

impl Signed {
    fn identity(&self) -> Identity {
        Identity {
            certificates: Certificates::from_pem(self.certificate.as_bytes()).unwrap(),
            key: PrivateKey::from_pem(self.key.as_bytes()).unwrap(),
        }
    }

    pub(crate) fn server(&self, auth: &ClientAuth, versions: &[Version]) -> Server {
        Server::new(self.identity(), auth, versions, NOW).unwrap()
    }
}

/// rustls' own client, with buffers.
fn oracle_client(authority: &Authority, version: Version) -> Connection {
    let mut roots = RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[supported(version)])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::new(config), name).unwrap().into()
}

/// rustls' own server, with buffers.
fn oracle_server(signed: &Signed, version: Version) -> Connection {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let certificate = CertificateDer::from_pem_slice(signed.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(signed.key.as_bytes()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[supported(version)])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    ServerConnection::new(Arc::new(config)).unwrap().into()
}

fn supported(version: Version) -> &'static rustls::SupportedProtocolVersion {
    match version {
        Version::Tls12 => &rustls::version::TLS12,
        Version::Tls13 => &rustls::version::TLS13,
    }
}

/// One end of a connection: ours.
struct End {
    layer: Box<dyn Layer>,
    plain: Vec<u8>,
    network: Vec<u8>,
}

impl End {
    fn new(mut layer: Box<dyn Layer>) -> Self {
        let mut network = Vec::new();
        layer.begin(&mut network);
        Self { layer, plain: Vec::new(), network }
    }

    fn hears(&mut self, bytes: &[u8]) -> Result<Stream, TransportError> {
        let was_open = self.layer.is_open();
        let result = self.layer.received(bytes, &mut self.plain, &mut self.network);
        assert!(was_open || self.layer.is_open() || self.plain.is_empty(), "plain before open");
        assert!(self.layer.held() <= UNDECODED_BYTES_MAX + bytes.len());
        result
    }

    fn says(&mut self, plain: &[u8]) {
        self.layer.send(plain, &mut self.network);
    }
}

/// Cuts bytes into pieces of these sizes, again and again.
struct Cuts(Vec<usize>, usize);

impl Cuts {
    fn every(step: usize) -> Self {
        Self(vec![step], 0)
    }

    fn pieces<'a>(&mut self, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let size = self.0[self.1 % self.0.len()].clamp(1, bytes.len());
            self.1 += 1;
            let (piece, rest) = bytes.split_at(size);
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }
}

/// Gives each end what the other has said, until both are silent.
fn exchange(one: &mut End, two: &mut End, cuts: &mut Cuts) -> Result<Stream, TransportError> {
    let mut stream = Stream::Open;
    while !(one.network.is_empty() && two.network.is_empty()) {
        for _ in 0..2 {
            let said = std::mem::take(&mut one.network);
            for piece in cuts.pieces(&said) {
                if two.hears(piece)? == Stream::Ended {
                    stream = Stream::Ended;
                }
            }
            std::mem::swap(one, two);
        }
    }
    Ok(stream)
}

/// The same with rustls' own connection at the other end. Returns the plain bytes it got.
fn exchange_with(ours: &mut End, oracle: &mut Connection, cuts: &mut Cuts) -> Vec<u8> {
    let mut plain = Vec::new();
    loop {
        let mut said = Vec::new();
        while oracle.wants_write() {
            oracle.write_tls(&mut said).unwrap();
        }
        for piece in cuts.pieces(&said) {
            ours.hears(piece).unwrap();
        }
        let answers = std::mem::take(&mut ours.network);
        if said.is_empty() && answers.is_empty() {
            return plain;
        }
        for mut piece in cuts.pieces(&answers) {
            while !piece.is_empty() {
                oracle.read_tls(&mut piece).unwrap();
                let state = oracle.process_new_packets().unwrap();
                let mut some = vec![0; state.plaintext_bytes_to_read()];
                oracle.reader().read_exact(&mut some).unwrap();
                plain.extend(some);
            }
        }
    }
}

fn pair(version: Version) -> (Authority, Signed, Server, Client) {
    let authority = Authority::new();
    let signed = authority.valid();
    let server = signed.server(&ClientAuth::Off, &[version]);
    let client = Client::new(&authority.certificates(), None, &[version]).unwrap();
    (authority, signed, server, client)
}

fn open(server: &Server, client: &Client, cuts: &mut Cuts) -> (End, End) {
    let mut server = End::new(server.layer());
    let mut client = End::new(client.layer("localhost").unwrap());
    assert!(server.network.is_empty(), "a server waits");
    exchange(&mut client, &mut server, cuts).unwrap();
    assert!(client.layer.is_open() && server.layer.is_open());
    (client, server)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn whatever_the_splits_the_same_bytes_come_out(
        cuts in prop::collection::vec(1usize..3000, 1..8),
        messages in prop::collection::vec((any::<bool>(), 1usize..40_000), 0..6),
        is_new in any::<bool>(),
    ) {
        let version = if is_new { Version::Tls13 } else { Version::Tls12 };
        let (_, _, server, client) = pair(version);
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
        version in prop::sample::select(BOTH),
        changes in prop::collection::vec((0usize..6_000, any::<u8>()), 0..4),
        cuts in prop::collection::vec(1usize..2000, 1..5),
        cut_off in 0usize..12_000,
    ) {
        let authority = Authority::new();
        let auth = ClientAuth::Optional(authority.certificates());
        let server = authority.valid().server(&auth, &[version]);
        let identity = authority.valid().identity();
        let client = Client::new(&authority.certificates(), Some(identity), &[version]).unwrap();
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
    ) {
        let (_, _, server, _) = pair(Version::Tls13);
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
    ) {
        let (_, _, server, client) = pair(Version::Tls13);
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
    for &version in BOTH {
        let (authority, signed, server, client) = pair(version);
        let ends = [
            (server.layer(), oracle_client(&authority, version)),
            (client.layer("localhost").unwrap(), oracle_server(&signed, version)),
        ];
        for (layer, mut oracle) in ends {
            let (mut ours, mut cuts) = (End::new(layer), Cuts(vec![1, 7, 1000], 0));
            exchange_with(&mut ours, &mut oracle, &mut cuts);
            assert!(ours.layer.is_open() && !oracle.is_handshaking(), "{version:?}");
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
    let (authority, _, server, _) = pair(Version::Tls13);
    let mut oracle = oracle_client(&authority, Version::Tls13);
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

#[test]
fn all_that_leaves_at_once_is_one_record() {
    let (_, _, server, client) = pair(Version::Tls13);
    let (_, mut server) = open(&server, &client, &mut Cuts::every(5000));
    server.says(&[1; 300]);
    let said = &server.network;
    assert_eq!(said[0], 23, "application data");
    let length = usize::from(u16::from_be_bytes([said[3], said[4]]));
    assert_eq!(said.len(), 5 + length);
    assert!(length < 300 + 32);
}

#[test]
fn keys_are_changed_in_the_middle_of_a_connection() {
    let (authority, _, server, _) = pair(Version::Tls13);
    let mut oracle = oracle_client(&authority, Version::Tls13);
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

#[test]
fn the_end_is_said_and_heard() {
    for &version in BOTH {
        let (authority, _, server, _) = pair(version);
        let mut oracle = oracle_client(&authority, version);
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
        assert!(oracle.process_new_packets().unwrap().peer_has_closed(), "{version:?}");
    }
}

#[test]
fn who_speaks_no_tls_is_told_by_an_alert_and_named() {
    let (_, _, server, _) = pair(Version::Tls13);
    let mut ours = End::new(server.layer());
    let connect = [0x10, 12, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, 0];
    let error = ours.hears(&connect).unwrap_err();
    assert_eq!(error, TransportError::Malformed("it does not speak TLS"));
    assert_eq!(ours.network[0], 21, "an alert");
}

#[test]
fn a_greeting_that_does_not_come_to_its_end_is_held_up_to_the_bound_only() {
    let (_, _, server, _) = pair(Version::Tls13);
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

#[test]
fn clients_are_let_in_by_their_certificates() {
    let (authority, other) = (Authority::new(), Authority::new());
    let signed = authority.valid();
    let (own, foreign, old) = (authority.valid(), other.valid(), authority.sign((2010, 2012)));
    let unknown = "its certificate is from an authority that is not trusted here";
    let cases = [
        (Some(&own), true, None),
        (Some(&own), false, None),
        (None, false, None),
        (None, true, Some("it showed no certificate")),
        (Some(&foreign), true, Some(unknown)),
        (Some(&foreign), false, Some(unknown)),
        (Some(&old), true, Some("its certificate has expired")),
    ];
    for &version in BOTH {
        for (shown, is_required, refused) in cases {
            let authorities = authority.certificates();
            let auth = match is_required {
                true => ClientAuth::Required(authorities),
                false => ClientAuth::Optional(authorities),
            };
            let server = signed.server(&auth, &[version]);
            let identity = shown.map(Signed::identity);
            let client = Client::new(&authority.certificates(), identity, &[version]).unwrap();
            let mut server = End::new(server.layer());
            let mut client = End::new(client.layer("localhost").unwrap());
            let result = exchange(&mut client, &mut server, &mut Cuts::every(1000));
            match refused {
                None => assert!(server.layer.is_open(), "{version:?}: {result:?}"),
                Some(why) => {
                    assert_eq!(result, Err(TransportError::Refused(why)), "{version:?}");
                }
            }
        }
    }
}

#[test]
fn a_client_does_not_go_on_with_a_server_of_another_name_or_authority() {
    let (_, _, server, client) = pair(Version::Tls13);
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

#[test]
fn versions_that_are_not_common_are_named() {
    let (authority, _, server, _) = pair(Version::Tls13);
    let client = Client::new(&authority.certificates(), None, &[Version::Tls12]).unwrap();
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

    let setup = |identity| Server::new(identity, &ClientAuth::Off, BOTH, NOW).unwrap_err();
    let other = Authority::new().valid();
    let mixed = Signed { key: other.key, ..signed.clone() };
    assert_eq!(setup(mixed.identity()), SetupError::KeyMismatch);
    assert_eq!(setup(Authority::new().sign((2010, 2012)).identity()), SetupError::Expired);
    assert_eq!(setup(Authority::new().sign((2090, 2092)).identity()), SetupError::NotValidYet);
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
    let garbage = Signed { certificate: garbage, ..signed };
    let error = setup(garbage.identity());
    assert!(matches!(error, SetupError::Certificate(_)), "{error}");
}
