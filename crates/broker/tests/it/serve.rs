//! A whole broker in a thread, seen through sockets: what only the shell decides.

use crate::support::{Broker, Client};
use weir_broker::{AuthConfig, Config, ProcessLimits, Verifier};
use weir_wire::packet::Auth;
use weir_wire::{PropertiesBuf, Property, ReasonCode, Version};

#[test]
fn the_connection_over_the_bound_is_told_and_one_that_ends_makes_room() {
    let process = ProcessLimits { connections_max: 1, ..ProcessLimits::default() };
    let broker = Broker::start(Config { process, ..Config::default() });
    let mut first = broker.connect("a", &[]);
    assert_eq!(first.connack(), Some(ReasonCode::Success));
    let mut second = broker.connect("b", &[]);
    assert_eq!(second.connack(), Some(ReasonCode::QuotaExceeded));
    assert!(second.ended());
    // DISCONNECT, answered by the end of the stream: the place is free from then on.
    first.send(&[0xE0, 0]);
    assert!(first.ended());
    assert_eq!(broker.connect("c", &[]).connack(), Some(ReasonCode::Success));
}

#[test]
fn connects_over_the_rate_are_told() {
    let process = ProcessLimits { connects_per_second_max: 3, ..ProcessLimits::default() };
    let broker = Broker::start(Config { process, ..Config::default() });
    let mut clients: Vec<_> = (0..20).map(|at| broker.connect(&format!("c{at}"), &[])).collect();
    let answers: Vec<_> = clients.iter_mut().map(Client::connack).collect();
    assert_eq!(answers[..3], [Some(ReasonCode::Success); 3]);
    assert!(answers.contains(&Some(ReasonCode::ConnectionRateExceeded)), "{answers:?}");
}

const METHOD: Property<'static> = Property::AuthenticationMethod("SCRAM-SHA-256");

fn with_user() -> Broker {
    let verifier = Verifier::generate("pencil").unwrap().to_string();
    let users = [("ann".to_owned(), verifier)].into();
    let auth = AuthConfig { allow_anonymous: Some(false), users, ..AuthConfig::default() };
    Broker::start(Config { auth, ..Config::default() })
}

fn auth_packet(reason: ReasonCode, data: &[u8]) -> Vec<u8> {
    let mut properties = PropertiesBuf::new();
    properties.push(METHOD);
    properties.push(Property::AuthenticationData(data));
    let mut bytes = Vec::new();
    Auth { reason, properties: properties.as_properties() }.encode(Version::V5, &mut bytes);
    bytes
}

#[test]
fn scram_lets_the_right_password_in_and_again_on_the_live_connection() {
    let broker = with_user();
    let first = Property::AuthenticationData(b"n,,n=ann,r=nonce");
    let mut client = broker.connect("c", &[METHOD, first]);
    let (reason, challenge) = client.auth();
    assert_eq!(reason, ReasonCode::ContinueAuthentication);
    let last = weir_broker::scram_client_final("ann", "pencil", "nonce", &challenge).unwrap();
    client.send(&auth_packet(ReasonCode::ContinueAuthentication, last.as_bytes()));
    let (reason, proof) = client.auth();
    assert_eq!(reason, ReasonCode::Success);
    assert!(proof.starts_with(b"v="));

    client.send(&auth_packet(ReasonCode::ReAuthenticate, b"n,,n=ann,r=other"));
    let (_, challenge) = client.auth();
    let last = weir_broker::scram_client_final("ann", "pencil", "other", &challenge).unwrap();
    client.send(&auth_packet(ReasonCode::ContinueAuthentication, last.as_bytes()));
    assert_eq!(client.auth().0, ReasonCode::Success);
}

#[test]
fn a_wrong_password_no_method_and_another_method_are_refused() {
    let broker = with_user();
    assert_eq!(broker.connect("c", &[]).connack(), Some(ReasonCode::NotAuthorized));
    let other = Property::AuthenticationMethod("SCRAM-SHA-1");
    let refused = broker.connect("c", &[other]).connack();
    assert_eq!(refused, Some(ReasonCode::BadAuthenticationMethod));
    let first = Property::AuthenticationData(b"n,,n=ann,r=nonce");
    let mut client = broker.connect("c", &[METHOD, first]);
    let (_, challenge) = client.auth();
    let last = weir_broker::scram_client_final("ann", "pen", "nonce", &challenge).unwrap();
    client.send(&auth_packet(ReasonCode::ContinueAuthentication, last.as_bytes()));
    assert_eq!(client.connack(), Some(ReasonCode::NotAuthorized));
    assert!(client.ended());
}
