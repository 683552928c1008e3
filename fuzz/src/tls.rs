//! The properties of TLS of a server: whatever the bytes, no panic and nothing that was not sealed for
//! it; and of the compact record layer, whatever a client seals.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{self, Prk};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, KeyLog, RootCertStore};
use std::sync::{Arc, Mutex, OnceLock};
use weir_transport::tls::{
    Certificates, Identity, PrivateKey, RecordLayer, Server, Setup, Version,
};
use weir_transport::{Layer, Layers, Scratch, Stream, TransportError};

/// Bytes that a layer gets at a time are as many as the first byte says; the second says which
/// record layer it has.
///
/// # Panics
/// If a property does not hold.
pub fn check_hello(input: &[u8]) {
    let [step, layer, bytes @ ..] = input else { return };
    let (rustls, compact, _) = servers();
    let server = if layer % 2 == 0 { rustls } else { compact };
    let (mut layers, mut scratch) = (Layers::new([server.layer()]), Scratch::default());
    let (mut plain, mut network) = (Vec::new(), Vec::new());
    for some in bytes.chunks(usize::from(*step).max(1)) {
        if layers.received(some, &mut plain, &mut network, &mut scratch).is_err() {
            break;
        }
    }
    layers.close(&mut network, &mut scratch);
    assert!(plain.is_empty() && !layers.is_open(), "nobody can finish a handshake by chance");
}

/// The input is what a client does once its handshake is over: a byte of action, and what that
/// takes.
///
/// # Panics
/// If a property does not hold.
pub fn check_compact(mut input: &[u8]) {
    let mut ends = Ends::open();
    while let Some(action) = take(&mut input, 1).first() {
        if ends.is_over {
            break;
        }
        let length = take(&mut input, 1).first().copied().unwrap_or_default();
        let bytes = take(&mut input, length.into());
        match action % 6 {
            0 => ends.seals(23, bytes),
            1 => ends.seals(22, &[&[24, 0, 0, 1], bytes].concat()),
            2 => match bytes {
                [kind, content @ ..] => ends.seals(*kind, content),
                [] => {}
            },
            3 => ends.says(bytes),
            4 => ends.layer.send(&vec![1; usize::from(length) * 200], &mut ends.network),
            _ => ends.step = length.max(1).into(),
        }
    }
    ends.layer.close(&mut ends.network);
}

/// At most so many bytes, from the start.
fn take<'a>(input: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (some, rest) = input.split_at(length.min(input.len()));
    *input = rest;
    some
}

fn servers() -> &'static (Server, Server, CertificateDer<'static>) {
    static SERVERS: OnceLock<(Server, Server, CertificateDer<'static>)> = OnceLock::new();
    SERVERS.get_or_init(|| {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let server = |record_layer| {
            let identity = Identity {
                certificates: Certificates::from_pem(cert.pem().as_bytes()).expect("a certificate"),
                key: PrivateKey::from_pem(signing_key.serialize_pem().as_bytes()).expect("a key"),
            };
            let setup = Setup::new(identity.certify().expect("a key that fits"));
            let versions = match record_layer {
                RecordLayer::Rustls => setup.versions.clone(),
                RecordLayer::Compact => vec![Version::Tls13],
            };
            Server::new(Setup { versions, record_layer, ..setup }).expect("a server")
        };
        let root = CertificateDer::from_pem_slice(cert.pem().as_bytes()).expect("a certificate");
        (server(RecordLayer::Rustls), server(RecordLayer::Compact), root)
    })
}

/// Both ends of a connection whose handshake is over.
struct Ends {
    layer: Box<dyn Layer>,
    network: Vec<u8>,
    plain: Vec<u8>,
    /// What is to come out of it.
    expected: Vec<u8>,
    client: Sealer,
    /// Records in a row that bring nothing.
    fruitless: u8,
    /// Bytes that the layer gets at a time.
    step: usize,
    is_over: bool,
}

impl Ends {
    fn open() -> Self {
        let (_, server, root) = servers();
        let mut layer = server.layer();
        let secret = Arc::new(Secret::default());
        let mut client = client(root, Arc::clone(&secret));
        let (mut plain, mut network) = (Vec::new(), Vec::new());
        while client.is_handshaking() || client.wants_write() {
            let mut said = Vec::new();
            client.write_tls(&mut said).expect("memory");
            layer.received(&said, &mut plain, &mut network).expect("rustls is understood");
            client.read_tls(&mut &network[..]).expect("memory");
            client.process_new_packets().expect("rustls is understood");
            network.clear();
        }
        assert!(layer.is_open());
        let client = Sealer::new(secret.0.lock().expect("one thread").take().expect("a secret"));
        Self {
            layer,
            network,
            plain,
            expected: Vec::new(),
            client,
            fruitless: 0,
            step: usize::MAX,
            is_over: false,
        }
    }

    /// The client sends a record; what that has to lead to is known.
    fn seals(&mut self, kind: u8, content: &[u8]) {
        let record = self.client.seal(kind, content);
        let inner = [content, &[kind]].concat();
        let end = inner.iter().rposition(|&byte| byte != 0);
        let (kind, content) = end.map_or((0, &[][..]), |end| (inner[end], &inner[..end]));
        let stream = match (kind, content) {
            (23, [_, ..]) => Some(Stream::Open),
            (23, []) | (22, [24, 0, 0, 1, 0 | 1]) | (21, [_, 90]) => {
                (self.fruitless < 32).then_some(Stream::Open)
            }
            (21, [_, 0]) => (self.fruitless < 32).then_some(Stream::Ended),
            _ => None,
        };
        if kind == 23 && !content.is_empty() {
            self.fruitless = 0;
            self.expected.extend(content);
        } else {
            self.fruitless += 1;
        }
        let held = self.layer.held();
        let result = self.receives(&record);
        // Behind the start of something else it is a part of that.
        if held == 0 {
            assert_eq!(result.ok(), stream, "{kind} {content:?}");
            assert!(self.plain == self.expected);
            if kind == 22 {
                self.client.update();
            }
        } else {
            assert!(self.expected.starts_with(&self.plain));
        }
        self.is_over |= stream != Some(Stream::Open);
    }

    /// Somebody sends bytes, which nobody has sealed.
    fn says(&mut self, bytes: &[u8]) {
        let before = self.plain.len();
        // It may have to wait for the rest.
        let _ = self.receives(bytes);
        assert_eq!(self.plain.len(), before);
    }

    fn receives(&mut self, bytes: &[u8]) -> Result<Stream, TransportError> {
        for some in bytes.chunks(self.step) {
            let result = self.layer.received(some, &mut self.plain, &mut self.network);
            if result != Ok(Stream::Open) {
                self.is_over = true;
                return result;
            }
        }
        Ok(Stream::Open)
    }
}

fn client(root: &CertificateDer<'static>, secret: Arc<Secret>) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).expect("a certificate");
    let mut provider = default_provider();
    provider.cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256];
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("a version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.key_log = secret;
    let name = "localhost".try_into().expect("a name");
    ClientConnection::new(Arc::new(config), name).expect("a client")
}

/// The client's first traffic secret.
#[derive(Debug, Default)]
struct Secret(Mutex<Option<[u8; 32]>>);

impl KeyLog for Secret {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        if label == "CLIENT_TRAFFIC_SECRET_0" {
            *self.0.lock().expect("one thread") = secret.try_into().ok();
        }
    }
}

/// Seals what no TLS library would, with TLS_AES_128_GCM_SHA256.
struct Sealer {
    secret: [u8; 32],
    sequence: u64,
}

impl Sealer {
    fn new(secret: [u8; 32]) -> Self {
        Self { secret, sequence: 0 }
    }

    fn update(&mut self) {
        *self = Self::new(expand(&self.secret, b"traffic upd"));
    }

    fn seal(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let key: [u8; 16] = expand(&self.secret, b"key");
        let mut nonce: [u8; 12] = expand(&self.secret, b"iv");
        for (byte, count) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= count;
        }
        self.sequence += 1;
        let mut body = [content, &[kind]].concat();
        let [high, low] = (body.len() as u16 + 16).to_be_bytes();
        let head = [23, 3, 3, high, low];
        let key = LessSafeKey::new(UnboundKey::new(&aead::AES_128_GCM, &key).expect("16 bytes"));
        let nonce = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce, Aad::from(head), &mut body).expect("a short record");
        [&head[..], &body].concat()
    }
}

fn expand<const BYTES: usize>(secret: &[u8], label: &[u8]) -> [u8; BYTES] {
    struct Length(usize);
    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }
    let label = [b"tls13 ", label].concat();
    let (bytes, label_bytes) = ([0, BYTES as u8], [label.len() as u8]);
    let info: [&[u8]; 4] = [&bytes, &label_bytes, &label, &[0]];
    let mut out = [0; BYTES];
    Prk::new_less_safe(hkdf::HKDF_SHA256, secret)
        .expand(&info, Length(BYTES))
        .and_then(|expanded| expanded.fill(&mut out))
        .expect("a few bytes");
    out
}
