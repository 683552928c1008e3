//! An authority, and files of certificates that it has signed.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use std::path::{Path, PathBuf};

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
    name: String,
}

/// The files of a certificate and its key.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    /// Whose files are in `folder`.
    pub(crate) fn new(name: &str, folder: &Path) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Self { issuer, folder: folder.into(), name: name.into() };
        std::fs::write(authority.file(), authority.issuer.pem()).unwrap();
        authority
    }

    /// Its own certificate.
    pub(crate) fn file(&self) -> String {
        self.path("ca")
    }

    /// A certificate of this host, valid in these years.
    pub(crate) fn sign(&self, name: &str, years: (i32, i32)) -> Pair {
        self.sign_for(name, &["localhost", "127.0.0.1"], years)
    }

    /// One of these hosts, valid now.
    pub(crate) fn named(&self, name: &str, hosts: &[&str]) -> Pair {
        self.sign_for(name, hosts, (2020, 2100))
    }

    fn sign_for(&self, name: &str, hosts: &[&str], years: (i32, i32)) -> Pair {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.not_before, params.not_after) =
            (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let pair = Pair { certificate: self.path(name), key: self.path(&format!("{name}-key")) };
        std::fs::write(&pair.certificate, certificate.pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        pair
    }

    /// One that is valid now.
    pub(crate) fn valid(&self, name: &str) -> Pair {
        self.sign(name, (2020, 2100))
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(format!("{}-{name}.pem", self.name)).to_str().unwrap().to_owned()
    }
}
