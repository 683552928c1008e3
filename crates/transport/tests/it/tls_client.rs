//! What a client of TLS can be told, against our server.

use crate::tls::support::{Authority, BOTH};
use weir_transport::tls::{
    Client, ClientAuth, ClientError, ClientSettings, IdentityText, OTHER_NAME, RecordLayer, Server,
    Version,
};
use weir_transport::{Stream, TransportError};

/// Both sides of a connection to `host`, until one fails or nothing is left to say. Returns how it
/// ended for the client.
fn meet(client: &Client, server: &Server, host: &str) -> Result<Stream, TransportError> {
    let (mut client, mut server) = (client.layer(host).unwrap(), server.layer());
    let (mut said, mut plain) = (Vec::new(), Vec::new());
    client.begin(&mut said);
    for _ in 0..10 {
        let mut answer = Vec::new();
        let heard = server.received(&said, &mut plain, &mut answer);
        said.clear();
        client.received(&answer, &mut plain, &mut said)?;
        heard?;
    }
    assert!(client.is_open() && server.is_open());
    Ok(Stream::Open)
}

fn settings(authority: &Authority) -> ClientSettings {
    ClientSettings::new(authority.pem())
}

#[test]
fn a_host_is_checked_unless_nobody_minds_and_an_authority_always_is() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = authority.valid().server_of(ClientAuth::Off, BOTH, RecordLayer::Rustls);
    for (checks_host, host, refused) in
        [(true, "localhost", false), (true, "elsewhere", true), (false, "elsewhere", false)]
    {
        let settings = ClientSettings { checks_host, ..settings(&authority) };
        let met = meet(&Client::with(&settings, None).unwrap(), &server, host);
        let expected =
            if refused { Err(TransportError::Refused(OTHER_NAME)) } else { Ok(Stream::Open) };
        assert_eq!(met, expected, "{host}");
    }
    let settings = ClientSettings { checks_host: false, ..settings(&other) };
    let met = meet(&Client::with(&settings, None).unwrap(), &server, "localhost");
    assert!(met.unwrap_err().to_string().contains("not trusted"));
}

#[test]
fn sessions_are_resumed_by_as_many_tickets_as_are_kept_and_counted() {
    for version in [Version::Tls12, Version::Tls13] {
        let authority = Authority::new();
        let server = authority.valid().server_of(ClientAuth::Off, &[version], RecordLayer::Rustls);
        for (tickets_max, counts) in [(0, (3, 0)), (10, (1, 2))] {
            let settings = ClientSettings { tickets_max, ..settings(&authority) };
            let client = Client::with(&settings, None).unwrap();
            for _ in 0..3 {
                meet(&client, &server, "localhost").unwrap();
            }
            let handshakes = client.handshakes();
            assert_eq!((handshakes.full(), handshakes.resumed()), counts, "{version:?}");
        }
    }
}

#[test]
fn versions_suites_and_texts_that_cannot_be_are_named() {
    let authority = Authority::new();
    let with = |change: &dyn Fn(&mut ClientSettings)| {
        let mut settings = settings(&authority);
        change(&mut settings);
        Client::with(&settings, None).map(|_| ()).unwrap_err()
    };
    let error = with(&|of| of.ciphers = vec!["RC4-MD5".into()]);
    assert!(matches!(&error, ClientError::NoCipher { name, .. } if name == "RC4-MD5"), "{error}");
    let error = with(&|of| {
        of.ciphers = vec!["TLS_AES_128_GCM_SHA256".into()];
        of.versions = vec![Version::Tls12];
    });
    assert_eq!(error, ClientError::OtherVersion);
    assert!(matches!(with(&|of| of.authorities = "none".into()), ClientError::Pem(_)));
    let signed = authority.valid();
    let identity = IdentityText { certificates: signed.certificate, key: authority.valid().key };
    let error = Client::with(&settings(&authority), Some(&identity)).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("not that of the certificate"), "{error}");
    assert!(!format!("{identity:?}").contains("PRIVATE"));
}

#[test]
fn a_server_that_shows_the_certificate_of_an_authority_is_told_so() {
    let mut params = rcgen::CertificateParams::new(["localhost".into()]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let own = params.self_signed(&key).unwrap();
    let signed = crate::tls::support::Signed { certificate: own.pem(), key: key.serialize_pem() };
    let client = Client::with(&ClientSettings::new(own.pem()), None).unwrap();
    let met =
        meet(&client, &signed.server_of(ClientAuth::Off, BOTH, RecordLayer::Rustls), "localhost");
    let text = met.unwrap_err().to_string();
    assert!(text.contains("an authority's") && text.contains("CA:FALSE"), "{text}");
}
