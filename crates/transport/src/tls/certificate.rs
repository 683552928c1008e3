//! What a certificate says: whom it is for, and until when.

use super::setup::identity_error;
use super::{Identity, SetupError};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// When something is valid, in time since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dates {
    /// From then on.
    pub start: Duration,
    /// Until then.
    pub end: Duration,
}

/// A certificate with its key, which fit each other.
#[derive(Clone, Debug)]
pub struct Certified(pub(super) Arc<CertifiedKey>);

impl Identity {
    /// What a server shows.
    ///
    /// # Errors
    /// A certificate or a key that cannot be used, or a key of another certificate.
    pub fn certify(self) -> Result<Certified, SetupError> {
        let Self { certificates, key } = self;
        let certified = CertifiedKey::from_der(certificates.0, key.0, &default_provider());
        certified.map(|it| Certified(Arc::new(it))).map_err(identity_error)
    }
}

impl Certified {
    /// When it is valid, if that can be read. Nothing here minds whether it is now.
    pub fn dates(&self) -> Option<Dates> {
        let certificate = Certificate::from_der(self.0.cert.first()?).ok()?;
        let validity = certificate.tbs_certificate.validity;
        let [start, end] = [validity.not_before, validity.not_after];
        Some(Dates { start: start.to_unix_duration(), end: end.to_unix_duration() })
    }

    /// Whom it is for, as RFC 4514 has it, if that can be read.
    pub fn subject(&self) -> Option<String> {
        let certificate = Certificate::from_der(self.0.cert.first()?).ok()?;
        Some(certificate.tbs_certificate.subject.to_string())
    }

    pub(super) fn is_for(&self, name: &ServerName<'_>) -> bool {
        let parsed = self.0.end_entity_cert().and_then(ParsedCertificate::try_from);
        parsed.is_ok_and(|it| rustls::client::verify_server_name(&it, name).is_ok())
    }
}
