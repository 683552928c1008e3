//! What the connections of a server have in common.

use super::compact::Compact;
use super::setup::{SetupError, supported};
use super::shown::Trust;
use super::{Certificates, Certified, Handshakes, Naming, Revoked, Shown, Tls, Version};
use crate::Layer;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, Ticketer, default_provider};
use rustls::pki_types::ServerName;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, UnbufferedServerConnection,
    VerifierBuilderError, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite as CipherSuiteName, ServerConfig, SupportedCipherSuite};
use std::sync::Arc;
use std::time::Duration;

/// Whether clients have to show certificates.
#[derive(Debug, Default)]
pub enum ClientAuth {
    /// They are not asked.
    #[default]
    Off,
    /// Those of these authorities are asked for, and whoever shows none is let in.
    Optional(Certificates),
    /// Whoever shows none of these authorities' is not let in.
    Required(Certificates),
}

/// Who seals and opens the records of a connection once its handshake is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordLayer {
    /// rustls, as it makes the handshake.
    #[default]
    Rustls,
    /// Code of ours, which takes a twentieth of the memory (ADR 34). TLS 1.3 only.
    Compact,
}

/// A cipher suite that a server may be told to speak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CipherSuite(SupportedCipherSuite);

impl CipherSuite {
    /// That of this name, such as `TLS13_AES_128_GCM_SHA256`.
    pub fn named(name: &str) -> Option<Self> {
        ALL_CIPHER_SUITES.iter().copied().map(Self).find(|suite| suite.name() == name)
    }

    /// The one version that it is for.
    pub fn version(self) -> Version {
        match self.0 {
            SupportedCipherSuite::Tls12(_) => Version::Tls12,
            SupportedCipherSuite::Tls13(_) => Version::Tls13,
        }
    }

    fn name(self) -> &'static str {
        self.0.suite().as_str().unwrap_or_default()
    }
}

/// What makes a server.
#[derive(Debug)]
pub struct Setup {
    /// The first of them that is for the host that a client names is shown to it; if none is, the
    /// first of all.
    pub certified: Vec<Certified>,
    /// Whether clients show certificates.
    pub auth: ClientAuth,
    /// Lists of certificates that authorities of clients have taken back; with one, there has to be
    /// one of each authority that has signed something of what a client shows.
    pub revoked: Revoked,
    /// Which are spoken.
    pub versions: Vec<Version>,
    /// Those that are spoken, the best first. If there is none, all: the client chooses, but a
    /// compact record layer takes AES-128-GCM if it can.
    pub suites: Vec<CipherSuite>,
    /// What is spoken over it. A client that offers others only is not let in.
    pub protocols: Vec<Vec<u8>>,
    /// How the certificate that a client shows names its user, if it does. A client whose
    /// certificate has no such name is not let in.
    pub naming: Option<Naming>,
    /// Who seals records.
    pub record_layer: RecordLayer,
}

impl Setup {
    /// One that shows `certified` to everybody and asks for nothing.
    pub fn new(certified: Certified) -> Self {
        Self {
            certified: vec![certified],
            auth: ClientAuth::Off,
            revoked: Revoked::default(),
            versions: vec![Version::Tls12, Version::Tls13],
            suites: Vec::new(),
            protocols: Vec::new(),
            naming: None,
            record_layer: RecordLayer::Rustls,
        }
    }
}

/// What the connections of a server have in common. A clone is the same server.
#[derive(Clone, Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
    /// Which certificates of clients count, if they are asked for some.
    trust: Option<Arc<Trust>>,
    record_layer: RecordLayer,
    handshakes: Arc<Handshakes>,
}

impl Server {
    /// Sessions are resumed by tickets that only this server can open, unless clients show
    /// certificates: a ticket would let its owner in whatever has become of its certificate.
    ///
    /// # Errors
    /// What of it cannot be used.
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        let mut provider = default_provider();
        let is_compact = setup.record_layer == RecordLayer::Compact;
        if !setup.suites.is_empty() {
            provider.cipher_suites = setup.suites.iter().map(|suite| suite.0).collect();
        } else if is_compact {
            // Of this one the keys are kept: those of the others are derived for each use.
            let is_kept = |suite: &SupportedCipherSuite| {
                suite.suite() == CipherSuiteName::TLS13_AES_128_GCM_SHA256
            };
            provider.cipher_suites.sort_by_key(|suite| !is_kept(suite));
        }
        let provider = Arc::new(provider);
        let trust = match &setup.auth {
            ClientAuth::Off => None,
            ClientAuth::Optional(authorities) | ClientAuth::Required(authorities) => {
                Some(Arc::new(Trust::new(authorities, &setup.revoked, setup.naming)))
            }
        };
        let verifier = client_verifier(&setup.auth, setup.revoked, &provider)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&supported(&setup.versions))
            .map_err(|_| SetupError::NoSuite)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(ByName(setup.certified)));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        if matches!(setup.auth, ClientAuth::Off) {
            config.send_tls13_tickets = 1;
            config.ticketer =
                Ticketer::new().map_err(|error| SetupError::Key(error.to_string()))?;
        }
        config.alpn_protocols = setup.protocols;
        config.ignore_client_order = is_compact || !setup.suites.is_empty();
        config.enable_secret_extraction = is_compact;
        let record_layer = setup.record_layer;
        Ok(Self { config: Arc::new(config), trust, record_layer, handshakes: Arc::default() })
    }

    /// The same, whose handshakes are counted on with those of a server that it follows.
    pub fn following(self, before: &Self) -> Self {
        Self { handshakes: Arc::clone(&before.handshakes), ..self }
    }

    /// Those of its connections so far.
    pub fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }

    /// Whether clients are asked for certificates.
    pub fn asks_for_certificates(&self) -> bool {
        self.trust.is_some()
    }

    /// Whether a client that has shown these certificates to a server of the same listener would be
    /// let in by them `now`, in time since 1970.
    pub fn lets_in(&self, shown: &Shown, now: Duration) -> bool {
        self.trust.as_ref().is_some_and(|trust| trust.lets_in(shown, now))
    }

    /// That of one connection.
    pub fn layer(&self) -> Box<dyn Layer> {
        let trust = self.trust.clone();
        match self.record_layer {
            RecordLayer::Rustls => {
                let engine = UnbufferedServerConnection::new(Arc::clone(&self.config));
                Box::new(Tls::new(engine.ok(), trust, &self.handshakes))
            }
            RecordLayer::Compact => Box::new(Compact::new(&self.config, trust, &self.handshakes)),
        }
    }
}

/// Certificates of a server.
#[derive(Debug)]
struct ByName(Vec<Certified>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = (self.0.len() > 1).then(|| hello.server_name()).flatten();
        let name = name.and_then(|name| ServerName::try_from(name).ok());
        let named = name.and_then(|name| self.0.iter().find(|some| some.is_for(&name)));
        named.or(self.0.first()).map(|some| Arc::clone(&some.0))
    }
}

fn client_verifier(
    auth: &ClientAuth,
    revoked: Revoked,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, SetupError> {
    let (authorities, is_optional) = match auth {
        ClientAuth::Off => return Ok(WebPkiClientVerifier::no_client_auth()),
        ClientAuth::Optional(authorities) => (authorities, true),
        ClientAuth::Required(authorities) => (authorities, false),
    };
    let roots = authorities.roots()?;
    let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider))
        .with_crls(revoked.0)
        .enforce_revocation_expiration();
    if is_optional {
        verifier = verifier.allow_unauthenticated();
    }
    verifier.build().map_err(|error| match error {
        VerifierBuilderError::InvalidCrl(error) => SetupError::Revoked(format!("{error:?}")),
        error => SetupError::Authorities(error.to_string()),
    })
}
