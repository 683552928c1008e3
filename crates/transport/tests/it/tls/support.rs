//! Certificates, and the ends of a connection.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
    CustomExtension, DistinguishedName, DnType, IsCa, KeyIdMethod, KeyPair, RevokedCertParams,
    date_time_ymd,
};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConnection,
    SupportedCipherSuite,
};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weir_transport::tls::{
    Certificates, Client, ClientAuth, Identity, PrivateKey, RecordLayer, Revoked, Server, Setup,
    Version,
};
use weir_transport::{Layer, Stream, TransportError, UNDECODED_BYTES_MAX};

/// What a connection is: its version, and who seals its records at the server.
pub(crate) type Kind = (Version, RecordLayer);

pub(crate) const TLS12: Kind = (Version::Tls12, RecordLayer::Rustls);
pub(crate) const TLS13: Kind = (Version::Tls13, RecordLayer::Rustls);
pub(crate) const COMPACT: Kind = (Version::Tls13, RecordLayer::Compact);
pub(crate) const KINDS: &[Kind] = &[TLS12, TLS13, COMPACT];
pub(crate) const BOTH: &[Version] = &[Version::Tls12, Version::Tls13];

/// The serial number of clients' certificates.
pub(crate) const USER: u64 = 7;

/// Tells authorities apart.
pub(crate) static NAMES: AtomicU32 = AtomicU32::new(0);

/// An authority with what it has signed.
pub(crate) struct Authority(pub(crate) CertifiedIssuer<'static, KeyPair>);

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

    pub(crate) fn sign(&self, years: (i32, i32)) -> Signed {
        self.sign_key(&KeyPair::generate().unwrap(), years)
    }

    pub(crate) fn sign_key(&self, key: &KeyPair, years: (i32, i32)) -> Signed {
        self.sign_more(key, years, Vec::new())
    }

    /// One with these extensions.
    pub(crate) fn sign_more(
        &self,
        key: &KeyPair,
        years: (i32, i32),
        extensions: Vec<CustomExtension>,
    ) -> Signed {
        let mut params = CertificateParams::new(["localhost".into()]).unwrap();
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        params.custom_extensions = extensions;
        let certificate = params.signed_by(key, &self.0).unwrap();
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// One of a client: with this common name, no other name, and [`USER`] as its number.
    pub(crate) fn sign_user(&self, name: &str) -> Signed {
        let mut params = CertificateParams::new([]).unwrap();
        params.serial_number = Some(USER.into());
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Signed { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    pub(crate) fn valid(&self) -> Signed {
        self.sign((2020, 2100))
    }

    /// A list of the certificates with these serial numbers, valid in these years.
    pub(crate) fn revoke(&self, serials: &[u64], years: (i32, i32)) -> Revoked {
        let of = |&serial: &u64| RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(years.0, 1, 1),
            next_update: date_time_ymd(years.1, 1, 1),
            crl_number: 1_u64.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(of).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let text = list.signed_by(&self.0).unwrap().pem().unwrap();
        Revoked::from_pem(text.as_bytes()).unwrap()
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn certificates(&self) -> Certificates {
        Certificates::from_pem(self.0.pem().as_bytes()).unwrap()
    }
}

impl Signed {
    pub(crate) fn identity(&self) -> Identity {
        Identity {
            certificates: Certificates::from_pem(self.certificate.as_bytes()).unwrap(),
            key: PrivateKey::from_pem(self.key.as_bytes()).unwrap(),
        }
    }

    pub(crate) fn server(&self, auth: ClientAuth, (version, record_layer): Kind) -> Server {
        self.server_of(auth, &[version], record_layer)
    }

    pub(crate) fn server_of(
        &self,
        auth: ClientAuth,
        versions: &[Version],
        record_layer: RecordLayer,
    ) -> Server {
        let setup = Setup { auth, record_layer, ..Setup::new(self.identity().certify().unwrap()) };
        Server::new(Setup { versions: versions.to_vec(), ..setup }).unwrap()
    }
}

/// What rustls' own client is by.
pub(crate) fn oracle_config(authority: &Authority, version: Version) -> ClientConfig {
    oracle_config_by(authority, version, rustls::crypto::aws_lc_rs::default_provider())
}

fn oracle_config_by(
    authority: &Authority,
    version: Version,
    provider: CryptoProvider,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[supported(version)])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// rustls' own client, with buffers.
pub(crate) fn oracle_client(authority: &Authority, version: Version) -> Connection {
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::new(oracle_config(authority, version)), name).unwrap().into()
}

/// rustls' own server, with buffers.
pub(crate) fn oracle_server(signed: &Signed, version: Version) -> Connection {
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

pub(crate) fn supported(version: Version) -> &'static rustls::SupportedProtocolVersion {
    match version {
        Version::Tls12 => &rustls::version::TLS12,
        Version::Tls13 => &rustls::version::TLS13,
    }
}

/// One end of a connection: ours.
pub(crate) struct End {
    pub(crate) layer: Box<dyn Layer>,
    pub(crate) plain: Vec<u8>,
    pub(crate) network: Vec<u8>,
}

impl End {
    pub(crate) fn new(mut layer: Box<dyn Layer>) -> Self {
        let mut network = Vec::new();
        layer.begin(&mut network);
        Self { layer, plain: Vec::new(), network }
    }

    pub(crate) fn hears(&mut self, bytes: &[u8]) -> Result<Stream, TransportError> {
        let was_open = self.layer.is_open();
        let result = self.layer.received(bytes, &mut self.plain, &mut self.network);
        assert!(was_open || self.layer.is_open() || self.plain.is_empty(), "plain before open");
        assert!(self.layer.held() <= UNDECODED_BYTES_MAX + bytes.len());
        result
    }

    pub(crate) fn says(&mut self, plain: &[u8]) {
        self.layer.send(plain, &mut self.network);
    }
}

/// Cuts bytes into pieces of these sizes, again and again.
pub(crate) struct Cuts(pub(crate) Vec<usize>, pub(crate) usize);

impl Cuts {
    pub(crate) fn every(step: usize) -> Self {
        Self(vec![step], 0)
    }

    pub(crate) fn pieces<'a>(&mut self, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
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
pub(crate) fn exchange(
    one: &mut End,
    two: &mut End,
    cuts: &mut Cuts,
) -> Result<Stream, TransportError> {
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
pub(crate) fn exchange_with(ours: &mut End, oracle: &mut Connection, cuts: &mut Cuts) -> Vec<u8> {
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

pub(crate) fn pair(kind: Kind) -> (Authority, Signed, Server, Client) {
    let authority = Authority::new();
    let signed = authority.valid();
    let server = signed.server(ClientAuth::Off, kind);
    let client = Client::new(&authority.certificates(), None, &[kind.0]).unwrap();
    (authority, signed, server, client)
}

pub(crate) fn open(server: &Server, client: &Client, cuts: &mut Cuts) -> (End, End) {
    let mut server = End::new(server.layer());
    let mut client = End::new(client.layer("localhost").unwrap());
    assert!(server.network.is_empty(), "a server waits");
    exchange(&mut client, &mut server, cuts).unwrap();
    assert!(client.layer.is_open() && server.layer.is_open());
    (client, server)
}

/// Ours, and rustls' own client that speaks this suite alone and seals at most so many bytes in a
/// record, both open.
pub(crate) fn opened_by(
    kind: Kind,
    suite: SupportedCipherSuite,
    fragment: Option<usize>,
) -> (End, Connection) {
    let (authority, _, server, _) = pair(kind);
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let provider = CryptoProvider { cipher_suites: vec![suite], ..provider };
    let mut config = oracle_config_by(&authority, kind.0, provider);
    config.max_fragment_size = fragment;
    config.enable_secret_extraction = true;
    let name = ServerName::try_from("localhost").unwrap();
    let mut oracle = ClientConnection::new(Arc::new(config), name).unwrap().into();
    let mut ours = End::new(server.layer());
    exchange_with(&mut ours, &mut oracle, &mut Cuts::every(700));
    assert!(ours.layer.is_open());
    (ours, oracle)
}

/// The records that the oracle has to send.
pub(crate) fn said(oracle: &mut Connection) -> Vec<u8> {
    let mut said = Vec::new();
    while oracle.wants_write() {
        oracle.write_tls(&mut said).unwrap();
    }
    said
}
