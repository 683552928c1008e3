//! Which user a certificate makes of the client that shows it.

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate, X509Name};

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
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let name = match self {
            Self::CommonName => {
                let mut names = certificate.subject().iter_common_name();
                let name = names.next()?.as_str().ok()?;
                names.next().is_none().then(|| name.to_owned())
            }
            Self::AlternativeName => {
                let names = certificate.subject_alternative_name().ok()??;
                names.value.general_names.iter().find_map(|name| match name {
                    GeneralName::DNSName(name)
                    | GeneralName::RFC822Name(name)
                    | GeneralName::URI(name) => Some((*name).to_owned()),
                    _ => None,
                })
            }
            Self::Subject => subject(certificate.subject()),
        };
        // A NUL ends a name elsewhere, and no user name of MQTT may have one or be longer.
        let is_usable = |name: &String| {
            !name.is_empty() && name.len() <= u16::MAX.into() && !name.contains(char::is_control)
        };
        name.filter(is_usable).map(Into::into)
    }
}

fn subject(name: &X509Name<'_>) -> Option<String> {
    let mut text = String::new();
    // The last comes first.
    for parts in name.iter().collect::<Vec<_>>().into_iter().rev() {
        for (at, part) in parts.iter().collect::<Vec<_>>().into_iter().rev().enumerate() {
            match at {
                0 if text.is_empty() => {}
                0 => text.push(','),
                _ => text.push('+'),
            }
            let id = part.attr_type().to_id_string();
            text.push_str(short_name(&id).unwrap_or(&id));
            text.push('=');
            escape(part.as_str().ok()?, &mut text);
        }
    }
    Some(text)
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
