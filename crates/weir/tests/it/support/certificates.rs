//! An authority, and files of certificates that it has signed.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells certificates of one authority apart.
static SERIALS: AtomicU64 = AtomicU64::new(1);

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
    pub(crate) serial: u64,
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

    /// A client's end of TLS over `stream`, to whomever this authority has signed.
    pub(crate) fn connect(&self, stream: TcpStream) -> impl Read + Write + use<> {
        use rustls::pki_types::pem::PemObject;
        let mut roots = rustls::RootCertStore::empty();
        let pem = self.issuer.pem();
        roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let config = rustls::ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        let client = rustls::ClientConnection::new(config.into(), name).unwrap();
        rustls::StreamOwned::new(client, stream)
    }

    /// An authority that this one vouches for, which signs in its place.
    pub(crate) fn intermediate(&self, name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::signed_by(params, key, &self.issuer).unwrap();
        let authority = Self { issuer, folder: self.folder.clone(), name: name.into() };
        std::fs::write(authority.file(), authority.issuer.pem()).unwrap();
        authority
    }

    /// A certificate of this host, valid in these years.
    pub(crate) fn sign(&self, name: &str, years: (i32, i32)) -> Pair {
        self.sign_for(name, &["localhost", "127.0.0.1"], years)
    }

    /// One of these hosts, valid now.
    pub(crate) fn named(&self, name: &str, hosts: &[&str]) -> Pair {
        self.sign_for(name, hosts, (2020, 2100))
    }

    /// One of these hosts, whose common name is `name`.
    pub(crate) fn sign_for(&self, name: &str, hosts: &[&str], years: (i32, i32)) -> Pair {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        (params.not_before, params.not_after) =
            (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (file, key_file) = (self.path(name), self.path(&format!("{name}-key")));
        std::fs::write(&file, certificate.pem()).unwrap();
        std::fs::write(&key_file, key.serialize_pem()).unwrap();
        Pair { certificate: file, key: key_file, serial }
    }

    /// Publishes a list of what it has revoked, valid in these years.
    pub(crate) fn revoke(&self, revoked: &[&Pair], years: (i32, i32)) -> String {
        let of = |pair: &&Pair| RevokedCertParams {
            serial_number: SerialNumber::from(pair.serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(years.0, 1, 1),
            next_update: date_time_ymd(years.1, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(of).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let file = self.path("crl");
        std::fs::write(&file, list.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
        file
    }

    /// One that is valid now.
    pub(crate) fn valid(&self, name: &str) -> Pair {
        self.sign(name, (2020, 2100))
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(format!("{}-{name}.pem", self.name)).to_str().unwrap().to_owned()
    }
}
