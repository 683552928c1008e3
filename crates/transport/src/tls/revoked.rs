//! Certificates that their authorities have taken back.

use super::PemError;
use rustls::pki_types::CertificateRevocationListDer;
use rustls::pki_types::pem::PemObject;
use std::time::Duration;
use x509_cert::crl::CertificateList;
use x509_cert::der::Decode;
use x509_cert::time::Time;

/// Lists of them, of any number of authorities.
#[derive(Clone, Debug, Default)]
pub struct Revoked(pub(super) Vec<CertificateRevocationListDer<'static>>);

impl Revoked {
    /// From text with a PEM section for each list.
    ///
    /// # Errors
    /// Broken text, or text without a list.
    pub fn from_pem(text: &[u8]) -> Result<Self, PemError> {
        let all: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(text).collect();
        let all = all.map_err(|error| PemError::Broken(error.to_string()))?;
        if all.is_empty() { Err(PemError::NoList) } else { Ok(Self(all)) }
    }

    /// When the first of them is to be replaced by another, in time since 1970, if one says so.
    pub fn end(&self) -> Option<Duration> {
        let ends = self.0.iter().filter_map(|list| {
            let list = CertificateList::from_der(list).ok()?;
            list.tbs_cert_list.next_update.map(Time::to_unix_duration)
        });
        ends.min()
    }

    /// All of both.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}
