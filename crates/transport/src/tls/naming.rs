//! Which user a certificate makes of the client that shows it.

use rustls::pki_types::CertificateDer;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, Utf8StringRef};
use x509_cert::der::{Decode, Tag, Tagged};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;
use x509_cert::{Certificate, TbsCertificate};

/// What in a certificate is the name of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The common name of its subject, which has one only.
    CommonName,
    /// The first DNS name, e-mail address or URI of its alternative names.
    AlternativeName,
    /// Its whole subject as RFC 2253 writes it, and OpenSSL and Mosquitto do:
    /// `CN=ann,OU=Workshop,O=Example`.
    Subject,
}

impl Naming {
    /// The name; nothing if there is none, or one that cannot be a user name.
    pub(super) fn name(self, certificate: &CertificateDer<'_>) -> Option<Box<str>> {
        let certificate = Certificate::from_der(certificate).ok()?.tbs_certificate;
        let name = match self {
            Self::CommonName => common_name(&certificate.subject),
            Self::AlternativeName => alternative_name(&certificate),
            Self::Subject => subject(&certificate.subject),
        };
        // A NUL ends a name elsewhere, and no user name of MQTT may have one or be longer.
        let is_usable = |name: &String| {
            !name.is_empty() && name.len() <= u16::MAX.into() && !name.contains(char::is_control)
        };
        name.filter(is_usable).map(Into::into)
    }
}

fn common_name(subject: &Name) -> Option<String> {
    const COMMON_NAME: &str = "2.5.4.3";
    let parts = subject.0.iter().flat_map(|parts| parts.0.iter());
    let mut names = parts.filter(|part| part.oid.to_string() == COMMON_NAME);
    let name = text_of(names.next()?)?.to_owned();
    names.next().is_none().then_some(name)
}

fn alternative_name(certificate: &TbsCertificate) -> Option<String> {
    let (_, SubjectAltName(names)) = certificate.get().ok()??;
    names.into_iter().find_map(|name| match name {
        GeneralName::DnsName(name)
        | GeneralName::Rfc822Name(name)
        | GeneralName::UniformResourceIdentifier(name) => Some(name.to_string()),
        _ => None,
    })
}

fn subject(name: &Name) -> Option<String> {
    let mut text = String::new();
    // The last comes first.
    for parts in name.0.iter().rev() {
        for (at, part) in parts.0.as_slice().iter().rev().enumerate() {
            match at {
                0 if text.is_empty() => {}
                0 => text.push(','),
                _ => text.push('+'),
            }
            let id = part.oid.to_string();
            text.push_str(short_name(&id).unwrap_or(&id));
            text.push('=');
            escape(text_of(part)?, &mut text);
        }
    }
    Some(text)
}

/// Nothing for kinds of text that are not of this age.
fn text_of(part: &AttributeTypeAndValue) -> Option<&str> {
    match part.value.tag() {
        Tag::Utf8String => Utf8StringRef::try_from(&part.value).ok().map(|it| it.as_str()),
        Tag::PrintableString => {
            PrintableStringRef::try_from(&part.value).ok().map(|it| it.as_str())
        }
        Tag::Ia5String => Ia5StringRef::try_from(&part.value).ok().map(|it| it.as_str()),
        _ => None,
    }
}

/// OpenSSL's name of the attributes that subjects usually have.
fn short_name(id: &str) -> Option<&'static str> {
    Some(match id {
        "2.5.4.3" => "CN",
        "2.5.4.4" => "SN",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "street",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.12" => "title",
        "2.5.4.42" => "GN",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        "1.2.840.113549.1.9.1" => "emailAddress",
        _ => return None,
    })
}

/// So that no value can be read as the start of another attribute.
fn escape(value: &str, text: &mut String) {
    for (at, byte) in value.bytes().enumerate() {
        let is_edge = at == 0 || at + 1 == value.len();
        match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' => text.push('\\'),
            b'#' if at == 0 => text.push('\\'),
            b' ' if is_edge => text.push('\\'),
            _ => {}
        }
        match byte {
            b' '..=b'~' => text.push(byte.into()),
            _ => text.push_str(&format!("\\{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn made(parts: &[(DnType, &str)], names: Vec<SanType>) -> CertificateDer<'static> {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.subject_alt_names = names;
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().into()
    }

    #[test]
    fn a_subject_is_written_as_openssl_writes_it() {
        let certificate = made(
            &[
                (DnType::CountryName, "GB"),
                (DnType::OrganizationName, "Smith, Jones + Co"),
                (DnType::CommonName, "#Zoë <x> "),
            ],
            vec![],
        );
        let name = Naming::Subject.name(&certificate).unwrap();
        assert_eq!(&*name, r"CN=\#Zo\C3\AB \<x\>\ ,O=Smith\, Jones \+ Co,C=GB");
    }

    #[test]
    fn a_certificate_without_the_name_that_is_looked_for_names_nobody() {
        let dns = SanType::DnsName("device-1".try_into().unwrap());
        let address = SanType::IpAddress([10, 0, 0, 1].into());
        let both = made(&[(DnType::CommonName, "ann")], vec![address.clone(), dns]);
        assert_eq!(Naming::CommonName.name(&both).as_deref(), Some("ann"));
        assert_eq!(Naming::AlternativeName.name(&both).as_deref(), Some("device-1"));
        let neither = made(&[], vec![address]);
        let empty = made(&[(DnType::CommonName, "")], vec![]);
        let cut = made(&[(DnType::CommonName, "admin\0.example.org")], vec![]);
        let unknown = CertificateDer::from(vec![1, 2, 3]);
        for certificate in [neither, empty, cut, unknown] {
            assert_eq!(Naming::CommonName.name(&certificate), None);
            assert_eq!(Naming::AlternativeName.name(&certificate), None);
        }
    }
}
