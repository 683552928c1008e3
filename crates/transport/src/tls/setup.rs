//! What a side of TLS needs before its first connection: certificates, keys, and who is trusted.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, InconsistentKeys, RootCertStore, SupportedProtocolVersion, version};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a file of certificates or keys lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PemError {
    /// There is no certificate.
    #[error("it has no certificate: nothing begins with -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    /// There is no list.
    #[error("it has no list of revoked certificates: nothing begins with -----BEGIN X509 CRL-----")]
    NoList,
    /// There is no key.
    #[error("it has no private key: nothing begins with -----BEGIN PRIVATE KEY-----")]
    NoKey,
    /// There is one that only a passphrase opens.
    #[error("its private key has a passphrase; store it without (openssl pkey -in OLD -out NEW)")]
    Encrypted,
    /// The text is broken.
    #[error("it cannot be read as PEM: {0}")]
    Broken(String),
}

/// Why a side cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The certificate cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// The key cannot be used.
    #[error("the private key cannot be used: {0}")]
    Key(String),
    /// They belong to different pairs.
    #[error("the private key is not that of the certificate")]
    KeyMismatch,
    /// A certificate of an authority cannot be used.
    #[error("the certificates of authorities cannot be used: {0}")]
    Authorities(String),
    /// A list of revoked certificates cannot be used.
    #[error("the lists of revoked certificates cannot be used: {0}")]
    Revoked(String),
    /// Versions and cipher suites do not fit.
    #[error("none of the cipher suites is of a version that may be spoken")]
    NoSuite,
}

/// Certificates of a file, in its order.
#[derive(Clone, Debug)]
pub struct Certificates(pub(super) Vec<CertificateDer<'static>>);

impl Certificates {
    /// From text with a PEM section for each.
    ///
    /// # Errors
    /// Broken text, or text without a certificate.
    pub fn from_pem(text: &[u8]) -> Result<Self, PemError> {
        let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        let all = all.map_err(|error| PemError::Broken(error.to_string()))?;
        if all.is_empty() { Err(PemError::NoCertificate) } else { Ok(Self(all)) }
    }

    pub(super) fn roots(&self) -> Result<Arc<RootCertStore>, SetupError> {
        let mut roots = RootCertStore::empty();
        for certificate in &self.0 {
            roots
                .add(certificate.clone())
                .map_err(|error| SetupError::Authorities(error.to_string()))?;
        }
        Ok(Arc::new(roots))
    }
}

/// PEM of those certificates, each in DER, that can be an authority's: a system has some that are
/// of no use here.
pub fn pem_of_authorities(all: impl IntoIterator<Item = Vec<u8>>) -> String {
    let mut text = String::new();
    for certificate in all {
        let is_usable = RootCertStore::empty().add(certificate.as_slice().into()).is_ok();
        if is_usable {
            let base64 = STANDARD.encode(certificate);
            text += "-----BEGIN CERTIFICATE-----\n";
            text += &base64;
            text += "\n-----END CERTIFICATE-----\n";
        }
    }
    text
}

/// The key of a certificate.
#[derive(Debug)]
pub struct PrivateKey(pub(super) PrivateKeyDer<'static>);

impl PrivateKey {
    /// From text with one in a PEM section.
    ///
    /// # Errors
    /// Broken text, or text without a key that can be read.
    pub fn from_pem(text: &[u8]) -> Result<Self, PemError> {
        match PrivateKeyDer::from_pem_slice(text) {
            Ok(key) => Ok(Self(key)),
            Err(pem::Error::NoItemsFound) => {
                const ENCRYPTED: &[u8] = b"BEGIN ENCRYPTED PRIVATE KEY";
                let is_encrypted = text.windows(ENCRYPTED.len()).any(|some| some == ENCRYPTED);
                Err(if is_encrypted { PemError::Encrypted } else { PemError::NoKey })
            }
            Err(error) => Err(PemError::Broken(error.to_string())),
        }
    }
}

/// What a side shows of itself.
#[derive(Debug)]
pub struct Identity {
    /// Its own certificate, and those between it and an authority that the peer trusts.
    pub certificates: Certificates,
    /// The key of the first.
    pub key: PrivateKey,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

pub(super) fn supported(versions: &[Version]) -> Vec<&'static SupportedProtocolVersion> {
    let of = |version: &Version| match version {
        Version::Tls12 => &version::TLS12,
        Version::Tls13 => &version::TLS13,
    };
    versions.iter().map(of).collect()
}

pub(super) fn identity_error(error: Error) -> SetupError {
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => SetupError::KeyMismatch,
        Error::InvalidCertificate(error) => SetupError::Certificate(error.to_string()),
        error => SetupError::Key(error.to_string()),
    }
}
