//! What an error of rustls means to whoever reads the log.

use crate::TransportError;
use rustls::{CertificateError, Error, InvalidMessage, PeerIncompatible};

/// Of a certificate, such as one that has signed itself and is not in the file of authorities.
pub const NOT_TRUSTED: &str = "its certificate is from an authority that is not trusted here";

/// Of a certificate that names other hosts.
pub const OTHER_NAME: &str = "its certificate is for another name";

/// Of a certificate that has signed itself as `openssl req -x509` makes it.
const AN_AUTHORITY: &str = "its certificate is an authority's, which may not be shown as one's own \
                            (with OpenSSL: -addext basicConstraints=critical,CA:FALSE)";

/// Of a peer.
pub const NO_TLS: &str = "it does not speak TLS";

/// An error of a connection that was open or not.
pub(super) fn fault(error: &Error, was_open: bool) -> TransportError {
    use TransportError::{Declined, Malformed, Refused};
    match error {
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) if !was_open => Malformed(NO_TLS),
        Error::InvalidMessage(_) => Malformed("a TLS message that cannot be decoded"),
        Error::DecryptError => Malformed("a TLS record that was changed on its way"),
        Error::PeerSentOversizedRecord => Malformed("a TLS record that is too long"),
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            Malformed("a TLS message at the wrong time")
        }
        Error::NoCertificatesPresented => Refused("it showed no certificate"),
        Error::InvalidCertificate(error) => Refused(certificate(error)),
        Error::PeerIncompatible(error) => Refused(incompatible(error)),
        Error::NoApplicationProtocol => Refused("no application protocol in common"),
        Error::AlertReceived(alert) => Declined(alert.as_str().unwrap_or("an unknown TLS alert")),
        _ => Malformed("what TLS forbids"),
    }
}

fn certificate(error: &CertificateError) -> &'static str {
    use CertificateError::{
        Expired, ExpiredContext, ExpiredRevocationList, ExpiredRevocationListContext,
        NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext, Other, Revoked,
        UnknownIssuer, UnknownRevocationStatus,
    };
    match error {
        Expired | ExpiredContext { .. } => "its certificate has expired",
        NotValidYet | NotValidYetContext { .. } => "its certificate is not valid yet",
        Revoked => "its certificate was revoked",
        UnknownRevocationStatus => "no list says whether its certificate was revoked",
        ExpiredRevocationList | ExpiredRevocationListContext { .. } => {
            "the list that says whether its certificate was revoked has expired"
        }
        UnknownIssuer => NOT_TRUSTED,
        NotValidForName | NotValidForNameContext { .. } => OTHER_NAME,
        // That of webpki has no name of its own here.
        Other(error) if error.0.to_string() == "CaUsedAsEndEntity" => AN_AUTHORITY,
        _ => "its certificate cannot be used",
    }
}

fn incompatible(error: &PeerIncompatible) -> &'static str {
    use PeerIncompatible as Peer;
    match error {
        Peer::Tls12NotOffered
        | Peer::Tls12NotOfferedOrEnabled
        | Peer::Tls13RequiredForQuic
        | Peer::ServerDoesNotSupportTls12Or13
        | Peer::ServerTlsVersionIsDisabledByOurConfig
        | Peer::SupportedVersionsExtensionRequired => "no TLS version in common",
        Peer::NoCipherSuitesInCommon => "no TLS cipher suite in common",
        Peer::NoKxGroupsInCommon | Peer::NamedGroupsExtensionRequired => {
            "no key exchange in common"
        }
        Peer::NoSignatureSchemesInCommon | Peer::NoCertificateRequestSignatureSchemesInCommon => {
            "no signature scheme in common"
        }
        _ => "its TLS does not fit ours",
    }
}
