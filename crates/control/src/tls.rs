//! TLS of whoever comes over TCP.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The `[control.tls]` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlTls {
    /// PEM file with the certificate, and behind it those between it and the authority that its
    /// clients trust.
    pub certificate: PathBuf,
    /// PEM file with the key of that certificate, without a passphrase.
    pub key: PathBuf,
}

/// A file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {text}; see [control.tls]", path.display())]
pub struct TlsError {
    path: PathBuf,
    text: String,
}

impl TlsError {
    fn new(path: &Path, text: &impl ToString) -> Self {
        Self { path: path.into(), text: text.to_string() }
    }
}

impl ControlTls {
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, TlsError> {
        let Self { certificate, key } = self;
        let chain = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| TlsError::new(certificate, &error))?;
        let secret =
            PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::new(key, &error))?;
        // Named, since a program may have more than one.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::new(certificate, &error))?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|error| TlsError::new(certificate, &error))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
