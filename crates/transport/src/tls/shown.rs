//! What is kept of the certificates that a client has shown, so that they can be looked at again
//! when authorities or lists of revoked certificates change.
//!
//! Names, keys and serial numbers are kept as digests, not the certificates: that is enough to say
//! who was revoked, and whose authority does not count any more. No signature is checked again.

use super::{Certificates, Naming, Revoked};
use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use x509_cert::crl::CertificateList;
use x509_cert::der::{Decode, Encode};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::{Certificate, TbsCertificate};

/// Half of a digest.
type Id = [u8; 16];

fn id(parts: [&[u8]; 2]) -> Id {
    let whole = digest(&SHA256, &parts.concat());
    *whole.as_ref().first_chunk().expect("a digest of SHA-256 is longer")
}

fn of_name(name: &Name) -> Option<Id> {
    Some(id([&name.to_der().ok()?, &[]]))
}

fn of_serial(issuer: &Name, serial: &SerialNumber) -> Option<Id> {
    Some(id([&issuer.to_der().ok()?, serial.as_bytes()]))
}

/// What is kept of a client's certificates: about 150 bytes where one authority has signed one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Of each, up to the authority: who has issued it, and that with its serial number.
    certificates: Box<[(Id, Id)]>,
    /// The authorities of that name, with their keys: one of them has signed it.
    authorities: Box<[Id]>,
    /// When the first of them expires, in time since 1970.
    end: Duration,
}

/// Which certificates let a client in.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// How they name the client's user, if they do.
    pub(super) naming: Option<Naming>,
    /// By name: each authority with its key.
    authorities: BTreeMap<Id, Vec<Id>>,
    /// Authorities that have a list of revoked certificates; if one has, all need one.
    listed: BTreeSet<Id>,
    /// Issuers with serial numbers.
    revoked: BTreeSet<Id>,
}

impl Trust {
    /// That in certificates of these authorities. What cannot be read of them and of the lists is
    /// found out by whoever checks handshakes.
    pub(super) fn new(
        authorities: &Certificates,
        revoked: &Revoked,
        naming: Option<Naming>,
    ) -> Self {
        let mut trust = Self { naming, ..Self::default() };
        for certificate in &authorities.0 {
            if let Some((name, key)) = parse(certificate).as_ref().and_then(authority) {
                trust.authorities.entry(name).or_default().push(key);
            }
        }
        for list in revoked.0.iter().filter_map(|list| CertificateList::from_der(list).ok()) {
            let list = list.tbs_cert_list;
            trust.listed.extend(of_name(&list.issuer));
            let all = list.revoked_certificates.into_iter().flatten();
            trust.revoked.extend(all.filter_map(|it| of_serial(&list.issuer, &it.serial_number)));
        }
        trust
    }

    /// What is to be kept of certificates that have let a client in, its own first. Nothing if they
    /// cannot be read here.
    pub(super) fn note(&self, shown: &[CertificateDer<'_>]) -> Option<Shown> {
        let all: Vec<TbsCertificate> = shown.iter().filter_map(|it| parse(it)).collect();
        let (mut certificates, mut end) = (Vec::new(), Duration::MAX);
        let mut at = all.first()?;
        // Others may be among them, and in any order.
        while certificates.len() < all.len() {
            let issuer = of_name(&at.issuer)?;
            certificates.push((issuer, of_serial(&at.issuer, &at.serial_number)?));
            end = end.min(at.validity.not_after.to_unix_duration());
            if let Some(authorities) = self.authorities.get(&issuer) {
                let certificates = certificates.into();
                return Some(Shown { certificates, authorities: authorities[..].into(), end });
            }
            at = all.iter().find(|other| other.subject == at.issuer)?;
        }
        None
    }

    /// Whether a client that has shown these would be let in `now`, in time since 1970.
    pub(super) fn lets_in(&self, shown: &Shown, now: Duration) -> bool {
        let Shown { certificates, authorities, end } = shown;
        let counts = |authority: &Id| self.authorities.values().flatten().any(|it| it == authority);
        let is_known_good = |(issuer, serial): &(Id, Id)| {
            self.listed.is_empty() || self.listed.contains(issuer) && !self.revoked.contains(serial)
        };
        now <= *end && authorities.iter().any(counts) && certificates.iter().all(is_known_good)
    }
}

fn parse(certificate: &CertificateDer<'_>) -> Option<TbsCertificate> {
    Certificate::from_der(certificate).ok().map(|it| it.tbs_certificate)
}

/// The name of an authority, and that with its key.
fn authority(certificate: &TbsCertificate) -> Option<(Id, Id)> {
    let name = certificate.subject.to_der().ok()?;
    let key = certificate.subject_public_key_info.to_der().ok()?;
    Some((id([&name, &[]]), id([&name, &key])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
        DnType, IsCa, KeyIdMethod, KeyPair, RevokedCertParams, date_time_ymd,
    };

    type Issuer = CertifiedIssuer<'static, KeyPair>;

    fn params(name: &str, serial: u64) -> CertificateParams {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(serial.into());
        params.not_after = date_time_ymd(2030, 1, 1);
        params
    }

    fn authority(name: &str) -> Issuer {
        let mut params = params(name, 1);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn signed(name: &str, serial: u64, by: &Issuer) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        params(name, serial).signed_by(&key, by).unwrap().der().clone()
    }

    fn revoke(by: &Issuer, serials: &[u64]) -> Revoked {
        let of = |serial: &u64| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2100, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(of).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Revoked::from_pem(list.signed_by(by).unwrap().pem().unwrap().as_bytes()).unwrap()
    }

    fn trust(authorities: &[&Issuer], lists: &[Revoked]) -> Trust {
        let authorities = authorities.iter().map(|it| it.der().clone()).collect();
        let mut revoked = Revoked::default();
        lists.iter().for_each(|list| revoked.extend(list.clone()));
        Trust::new(&Certificates(authorities), &revoked, None)
    }

    const NOW: Duration = Duration::from_secs(1_800_000_000);

    #[test]
    fn whose_authority_is_there_stays_and_one_of_the_same_name_is_another() {
        let (ours, other, same_name) = (authority("ours"), authority("other"), authority("ours"));
        let shown = trust(&[&ours], &[]).note(&[signed("ann", 7, &ours)]).unwrap();
        assert!(trust(&[&other, &ours], &[]).lets_in(&shown, NOW));
        assert!(!trust(&[&other], &[]).lets_in(&shown, NOW));
        assert!(!trust(&[&same_name], &[]).lets_in(&shown, NOW));
        assert!(trust(&[&same_name, &ours], &[]).lets_in(&shown, NOW));
        let late = Duration::from_secs(1_900_000_000);
        assert!(!trust(&[&ours], &[]).lets_in(&shown, late), "it expires in 2030");
    }

    #[test]
    fn who_was_revoked_goes_and_whoever_is_on_no_list_where_there_are_some() {
        let (ours, other) = (authority("ours"), authority("other"));
        let shown = trust(&[&ours, &other], &[]).note(&[signed("ann", 7, &ours)]).unwrap();
        let lets_in = |lists: &[Revoked]| trust(&[&ours, &other], lists).lets_in(&shown, NOW);
        assert!(lets_in(&[revoke(&ours, &[8])]));
        assert!(!lets_in(&[revoke(&ours, &[8, 7])]));
        assert!(lets_in(&[revoke(&ours, &[]), revoke(&other, &[7])]), "another's serial");
        assert!(!lets_in(&[revoke(&other, &[])]));
    }

    #[test]
    fn the_whole_way_to_the_authority_counts_and_nothing_beside_it() {
        let (root, stranger) = (authority("root"), authority("stranger"));
        let mut between = params("between", 5);
        between.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let between = CertifiedIssuer::signed_by(between, key, &root).unwrap();
        // Some show the root as well, and what nobody asked for.
        let chain = [
            signed("ann", 7, &between),
            stranger.der().clone(),
            root.der().clone(),
            between.der().clone(),
        ];
        let shown = trust(&[&root], &[]).note(&chain).unwrap();
        assert_eq!(shown.certificates.len(), 2);
        let lets_in = |serials: &[u64]| {
            let lists = [revoke(&root, serials), revoke(&between, &[])];
            trust(&[&root], &lists).lets_in(&shown, NOW)
        };
        assert!(lets_in(&[1]) && !lets_in(&[5]));
        assert_eq!(trust(&[&stranger], &[]).note(&chain[..1]), None);
    }
}
