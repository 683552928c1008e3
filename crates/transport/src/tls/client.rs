//! The client's side of TLS: whom it trusts, what it shows, what it offers.

use super::setup::{Certificates, Identity, PemError, PrivateKey, SetupError, Version};
use super::setup::{identity_error, supported};
use super::tickets::Tickets;
use super::{Handshakes, Tls};
use crate::Layer;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    SupportedCipherSuite,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Why a client cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Certificates or the key.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// A text that is none of certificates or keys.
    #[error(transparent)]
    Pem(#[from] PemError),
    /// A cipher suite that there is not.
    #[error("{name:?} is no cipher suite that is offered here; these are: {known}")]
    NoCipher {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// Suites that belong to other versions.
    #[error("the cipher suites that were chosen are for another version of TLS")]
    OtherVersion,
}

/// What a client's sessions are made with, as text: it can be told to other processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientSettings {
    /// Certificates of those who are trusted, in PEM.
    pub authorities: String,
    /// Whether the server's certificate has to be for the host.
    pub checks_host: bool,
    /// Versions that are offered.
    pub versions: Vec<Version>,
    /// Cipher suites by their names in OpenSSL or in the standards; none is all.
    pub ciphers: Vec<String>,
    /// Application protocols that are offered (ALPN).
    pub protocols: Vec<String>,
    /// Tickets of earlier sessions that are kept; with none each handshake is a full one.
    pub tickets_max: usize,
}

impl ClientSettings {
    /// With all versions and suites, and full handshakes only.
    pub fn new(authorities: String) -> Self {
        Self {
            authorities,
            checks_host: true,
            versions: vec![Version::Tls12, Version::Tls13],
            ciphers: Vec::new(),
            protocols: Vec::new(),
            tickets_max: 0,
        }
    }
}

/// What a client shows of itself, in PEM.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityText {
    /// Its own certificate, and those between it and an authority that the server trusts.
    pub certificates: String,
    /// The key of the first.
    pub key: String,
}

impl IdentityText {
    fn identity(&self) -> Result<Identity, PemError> {
        let certificates = Certificates::from_pem(self.certificates.as_bytes())?;
        Ok(Identity { certificates, key: PrivateKey::from_pem(self.key.as_bytes())? })
    }
}

/// Without the key, so that no log can have it.
impl fmt::Debug for IdentityText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("IdentityText").finish_non_exhaustive()
    }
}

/// What the connections of a client have in common. A clone is the same client.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    handshakes: Arc<Handshakes>,
}

impl Client {
    /// One with these settings, which shows `identity` to servers that ask for it.
    ///
    /// # Errors
    /// What of it cannot be used.
    pub fn with(
        settings: &ClientSettings,
        identity: Option<&IdentityText>,
    ) -> Result<Self, ClientError> {
        let authorities = Certificates::from_pem(settings.authorities.as_bytes())?;
        Self::of(settings, &authorities, identity.map(IdentityText::identity).transpose()?)
    }

    /// One that trusts servers of `authorities`, and shows `identity` to those that ask for it.
    ///
    /// # Errors
    /// What of it cannot be used.
    pub fn new(
        authorities: &Certificates,
        identity: Option<Identity>,
        versions: &[Version],
    ) -> Result<Self, ClientError> {
        let settings = ClientSettings::new(String::new());
        let settings = ClientSettings { versions: versions.to_vec(), ..settings };
        Self::of(&settings, authorities, identity)
    }

    fn of(
        settings: &ClientSettings,
        authorities: &Certificates,
        identity: Option<Identity>,
    ) -> Result<Self, ClientError> {
        let provider = Arc::new(provider_of(&settings.ciphers)?);
        let unusable = |text: String| ClientError::Setup(SetupError::Authorities(text));
        let roots = authorities.roots()?;
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|error| unusable(error.to_string()))?;
        let verifier: Arc<dyn ServerCertVerifier> = match settings.checks_host {
            true => verifier,
            false => Arc::new(AnyHost(verifier)),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&supported(&settings.versions))
            .map_err(|_| ClientError::OtherVersion)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match identity {
            None => config.with_no_client_auth(),
            Some(Identity { certificates: Certificates(chain), key: PrivateKey(key) }) => {
                config.with_client_auth_cert(chain, key).map_err(identity_error)?
            }
        };
        let protocols = settings.protocols.iter();
        config.alpn_protocols = protocols.map(|name| name.clone().into_bytes()).collect();
        config.resumption = match settings.tickets_max {
            0 => Resumption::disabled(),
            most => Resumption::store(Arc::new(Tickets::new(most))),
        };
        Ok(Self { config: Arc::new(config), handshakes: Arc::default() })
    }

    /// That of one connection to `host`, a name or an address, which the server's certificate has
    /// to have; nothing if it is neither.
    pub fn layer(&self, host: &str) -> Option<Box<dyn Layer>> {
        let name = ServerName::try_from(host.to_owned()).ok()?;
        let engine = UnbufferedClientConnection::new(Arc::clone(&self.config), name).ok();
        Some(Box::new(Tls::new(engine, None, &self.handshakes)))
    }

    /// For a library that speaks TLS itself.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// Those of its connections so far.
    pub fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }
}

/// Checks all of a certificate but whether it is for the host.
#[derive(Debug)]
struct AnyHost(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHost {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is what is looked at last.
        match self.0.verify_server_cert(certificate, others, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// With the suites of these names, or all.
fn provider_of(names: &[String]) -> Result<CryptoProvider, ClientError> {
    let all = default_provider();
    if names.is_empty() {
        return Ok(all);
    }
    let known = || {
        let names: Vec<String> = all.cipher_suites.iter().map(openssl_name).collect();
        names.join(", ")
    };
    let find = |name: &String| {
        let is_it = |suite: &&SupportedCipherSuite| {
            standard_name(suite) == *name || openssl_name(suite) == *name
        };
        let found = all.cipher_suites.iter().find(is_it).copied();
        found.ok_or_else(|| ClientError::NoCipher { name: name.clone(), known: known() })
    };
    let cipher_suites = names.iter().map(find).collect::<Result<_, _>>()?;
    Ok(CryptoProvider { cipher_suites, ..all })
}

/// Such as `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` and `TLS_AES_128_GCM_SHA256`.
fn standard_name(suite: &SupportedCipherSuite) -> String {
    let name = suite.suite().as_str().unwrap_or_default();
    name.replace("TLS13_", "TLS_")
}

/// Such as `ECDHE-RSA-AES128-GCM-SHA256`; suites of TLS 1.3 have one name everywhere.
fn openssl_name(suite: &SupportedCipherSuite) -> String {
    let name = standard_name(suite);
    let Some((exchange, cipher)) = name.split_once("_WITH_") else { return name };
    let cipher = cipher.replace("AES_", "AES").replace("POLY1305_SHA256", "POLY1305");
    format!("{}-{cipher}", exchange.trim_start_matches("TLS_")).replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_the_names_of_openssl_and_of_the_standards() {
        let all = default_provider().cipher_suites;
        let names: Vec<String> = all.iter().map(openssl_name).collect();
        let some = ["TLS_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"];
        let more = ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305"];
        for name in some.into_iter().chain(more) {
            assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
        }
        let standard = "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256".to_owned();
        assert_eq!(provider_of(&[standard]).unwrap().cipher_suites.len(), 1);
        let error = provider_of(&["RC4-MD5".into()]).unwrap_err().to_string();
        assert!(error.contains("RC4-MD5") && error.contains(some[1]), "{error}");
    }
}
