//! The authentication port: asked at CONNECT, answered when the shell likes.

use crate::net::{Ask, Net, Peer};
use weir_core::{Features, Micros, Settings, Terms, Verdict};
use weir_wire::packet::{Connect, Will};
use weir_wire::{Properties, Property, QoS, ReasonCode, Version};

const METHOD: Ask<'static> = Ask {
    version: Version::V5,
    clean: true,
    keep_alive_s: 0,
    expiry_s: 0,
    receive_maximum: 0,
    packet_bytes_max: 0,
    will: None,
    properties: &[Property::AuthenticationMethod("M"), Property::AuthenticationData(b"one")],
};

fn net() -> Net {
    let features = Features { authentication: true, ..Features::default() };
    Net::with_settings(1, &Settings { features, ..Settings::default() })
}

fn asked(net: &mut Net) -> Vec<String> {
    std::mem::take(&mut net.wires[0].asked)
}

fn authenticated(net: &mut Net) -> Peer {
    let peer = net.connect("c", METHOD);
    net.authenticated(peer, Verdict::Continue(b"two".to_vec()));
    net.auth(peer, ReasonCode::ContinueAuthentication, "M", "three");
    net.authenticated(peer, Verdict::Accept(b"four".to_vec()));
    peer
}

/// The broker's AUTH has the method and the data, and never a text that could make it too large.
///
/// Proves 5.0:MQTT-4.12.0-2. Proves 5.0:MQTT-4.12.0-3. Proves 5.0:MQTT-4.12.0-4.
/// Proves 5.0:MQTT-3.15.2-2. Proves 5.0:MQTT-3.15.2-3.
#[test]
fn an_exchange_goes_back_and_forth_until_connack() {
    let mut net = net();
    let peer = authenticated(&mut net);
    let expected = ["Begin Some(\"M\") one", "Continue Some(\"M\") three"];
    assert_eq!(asked(&mut net), expected);
    let lines = net.read(peer);
    let auth = "AUTH Continue authentication AuthenticationMethod(\"M\") \
        AuthenticationData([116, 119, 111])";
    assert_eq!(lines, [auth, "CONNACK Success"]);
    assert_eq!(net.shards[0].stats().sessions, 1);
}

#[test]
fn connack_carries_the_method_and_the_last_data() {
    let mut net = net();
    let peer = net.connect("c", METHOD);
    net.authenticated(peer, Verdict::Accept(b"4".to_vec()));
    let said = net.properties(peer);
    assert!(said.contains(&"AuthenticationMethod(\"M\")".to_owned()), "{said:?}");
    assert!(said.contains(&"AuthenticationData([52])".to_owned()), "{said:?}");
}

/// Proves 5.0:MQTT-4.12.0-6.
#[test]
fn without_a_method_a_client_is_asked_about_and_told_nothing_of_methods() {
    let mut net = net();
    for version in [Version::V311, Version::V5] {
        let peer = net.connect("c", Ask { version, ..Ask::default() });
        assert_eq!(asked(&mut net), ["Begin None "]);
        // What comes meanwhile waits.
        net.subscribe(peer, "t", QoS::AtMostOnce);
        assert_eq!(net.read(peer), [""; 0]);
        net.authenticated(peer, Verdict::Accept(Vec::new()));
        assert_eq!(net.read(peer), ["CONNACK Success", "SUBACK [0]"]);
    }
}

#[test]
fn a_refused_client_gets_the_reason_and_leaves_no_session() {
    let mut net = net();
    let peer = net.connect("c", METHOD);
    net.authenticated(peer, Verdict::Refuse(ReasonCode::NotAuthorized));
    assert_eq!(net.read(peer), ["CONNACK Not authorized", "closed"]);
    assert_eq!(net.shards[0].stats().sessions, 0);
    let peer = net.connect("c", Ask { version: Version::V311, ..Ask::default() });
    net.authenticated(peer, Verdict::Refuse(ReasonCode::NotAuthorized));
    assert_eq!(net.read(peer), ["CONNACK Not authorized", "closed"]);
}

#[test]
fn a_client_gets_no_step_and_no_refusal_larger_than_it_takes() {
    let properties = METHOD.properties;
    for (bytes_max, verdict, expected) in [
        (5, Verdict::Continue(b"two".to_vec()), &["CONNACK Packet too large", "closed"][..]),
        (4, Verdict::Continue(b"two".to_vec()), &["closed"]),
        (4, Verdict::Refuse(ReasonCode::NotAuthorized), &["closed"]),
    ] {
        let mut net = net();
        let properties = [properties[0], properties[1], Property::MaximumPacketSize(bytes_max)];
        let peer = net.connect("c", Ask { properties: &properties, ..METHOD });
        net.authenticated(peer, verdict);
        assert_eq!(net.read(peer), expected);
        assert_eq!(net.shards[0].stats().connections, 0);
    }
    let mut net = net();
    let properties = [properties[0], properties[1], Property::MaximumPacketSize(50)];
    let peer = net.connect("c", Ask { properties: &properties, ..METHOD });
    net.authenticated(peer, Verdict::Accept(Vec::new()));
    net.auth(peer, ReasonCode::ReAuthenticate, "M", "again");
    net.authenticated(peer, Verdict::Continue(vec![b'x'; 60]));
    assert_eq!(net.read(peer), ["CONNACK Success", "DISCONNECT Packet too large", "closed"]);
}

/// Proves 5.0:MQTT-3.1.2-30. Proves 5.0:MQTT-4.12.0-5.
#[test]
fn during_the_exchange_only_its_next_step_may_come() {
    type Act = fn(&mut Net, Peer);
    let acts: [Act; 4] = [
        |net, peer| net.publish(peer, "t", QoS::AtMostOnce, 0, "x"),
        |net, peer| net.auth(peer, ReasonCode::ContinueAuthentication, "N", "x"),
        |net, peer| net.auth(peer, ReasonCode::ReAuthenticate, "M", "x"),
        |net, peer| net.auth(peer, ReasonCode::Success, "M", "x"),
    ];
    for act in acts {
        let mut net = net();
        let peer = net.connect("c", METHOD);
        net.authenticated(peer, Verdict::Continue(Vec::new()));
        act(&mut net, peer);
        let lines = net.read(peer);
        assert!(lines[1].starts_with("CONNACK Protocol Error"), "{lines:?}");
        assert_eq!(lines[2], "closed");
    }
}

#[test]
fn a_client_may_give_up_during_the_exchange() {
    let mut net = net();
    let peer = net.connect("c", METHOD);
    net.authenticated(peer, Verdict::Continue(Vec::new()));
    net.read(peer);
    net.disconnect(peer, ReasonCode::Success);
    assert_eq!(net.read(peer), ["closed"]);
    assert_eq!(net.shards[0].stats().connections, 0);
}

#[test]
fn an_answer_that_nobody_asked_for_changes_nothing() {
    let mut net = net();
    let peer = net.connect("c", METHOD);
    net.authenticated(peer, Verdict::Continue(Vec::new()));
    net.read(peer);
    // It is the client's turn.
    net.authenticated(peer, Verdict::Accept(Vec::new()));
    assert_eq!(net.read(peer), [""; 0]);
    net.auth(peer, ReasonCode::ContinueAuthentication, "M", "three");
    net.authenticated(peer, Verdict::Accept(Vec::new()));
    assert_eq!(net.read(peer), ["CONNACK Success"]);
    net.authenticated(peer, Verdict::Refuse(ReasonCode::NotAuthorized));
    assert_eq!(net.read(peer), [""; 0]);
}

/// Proves 5.0:MQTT-4.12.1-1.
#[test]
fn a_live_client_proves_itself_again_while_its_messages_flow() {
    let mut net = net();
    let peer = authenticated(&mut net);
    net.read(peer);
    net.auth(peer, ReasonCode::ReAuthenticate, "M", "again");
    net.authenticated(peer, Verdict::Continue(b"x".to_vec()));
    net.publish(peer, "t", QoS::AtLeastOnce, 1, "x");
    net.auth(peer, ReasonCode::ContinueAuthentication, "M", "proof");
    net.authenticated(peer, Verdict::Accept(Vec::new()));
    let lines = net.read(peer);
    assert!(lines[0].starts_with("AUTH Continue"), "{lines:?}");
    assert_eq!(lines[1], "PUBACK #1 No matching subscribers");
    assert_eq!(lines[2], "AUTH Success AuthenticationMethod(\"M\")");
}

/// Proves 5.0:MQTT-4.12.1-2.
#[test]
fn a_failed_re_authentication_ends_the_connection() {
    let mut net = net();
    let peer = authenticated(&mut net);
    net.read(peer);
    net.auth(peer, ReasonCode::ReAuthenticate, "M", "again");
    net.authenticated(peer, Verdict::Refuse(ReasonCode::NotAuthorized));
    assert_eq!(net.read(peer), ["DISCONNECT Not authorized: not authenticated", "closed"]);
}

#[test]
fn re_authentication_needs_the_method_of_connect_and_its_turn() {
    for (reason, method) in [
        (ReasonCode::ReAuthenticate, "N"),
        (ReasonCode::ContinueAuthentication, "M"),
        (ReasonCode::Success, "M"),
    ] {
        let mut net = net();
        let peer = authenticated(&mut net);
        net.read(peer);
        net.auth(peer, reason, method, "x");
        let lines = net.read(peer);
        assert!(lines[0].starts_with("DISCONNECT Protocol Error"), "{lines:?}");
    }
}

/// Whether the port has not answered, or the client has nothing more to say; pings do not help.
#[test]
fn a_re_authentication_that_is_not_finished_ends_the_connection_in_time() {
    for is_answered in [true, false] {
        let mut net = net();
        let peer = authenticated(&mut net);
        net.read(peer);
        net.pass(100);
        net.auth(peer, ReasonCode::ReAuthenticate, "M", "again");
        if is_answered {
            net.authenticated(peer, Verdict::Continue(b"x".to_vec()));
            net.read(peer);
        }
        net.pass(9);
        net.send_bytes(peer, &[0xC0, 0]);
        assert_eq!(net.read(peer), ["PINGRESP"]);
        net.pass(2);
        let expected = "DISCONNECT Not authorized: not authenticated again in time";
        assert_eq!(net.read(peer), [expected, "closed"]);
        assert_eq!(net.shards[0].stats().reauthentications_late, 1);
    }
}

#[test]
fn a_re_authentication_that_is_finished_bounds_nothing_any_more() {
    let mut net = net();
    let peer = authenticated(&mut net);
    for _ in 0..2 {
        net.auth(peer, ReasonCode::ReAuthenticate, "M", "again");
        net.authenticated(peer, Verdict::Continue(b"x".to_vec()));
        net.pass(9);
        net.auth(peer, ReasonCode::ContinueAuthentication, "M", "proof");
        net.authenticated(peer, Verdict::Accept(Vec::new()));
        net.pass(60);
    }
    assert!(!net.read(peer).contains(&"closed".to_owned()));
    assert_eq!(net.shards[0].stats().reauthentications_late, 0);
}

#[test]
fn who_never_finishes_is_cut_in_time() {
    let mut net = net();
    let peer = net.connect("c", METHOD);
    net.pass(11);
    assert_eq!(net.read(peer), ["closed"]);
    // A late answer finds nobody.
    net.authenticated(peer, Verdict::Accept(Vec::new()));
    assert_eq!(net.shards[0].stats().sessions, 0);
}

#[test]
fn a_refused_client_is_told_of_with_the_user_it_said() {
    for is_in_time in [true, false] {
        let mut net = net();
        let peer = net.open(Version::V5);
        let mut bytes = Vec::new();
        Connect { user_name: Some("ann"), ..Connect::new(Version::V5, "c") }.encode(&mut bytes);
        net.send_bytes(peer, &bytes);
        if is_in_time {
            net.authenticated(peer, Verdict::Refuse(ReasonCode::NotAuthorized));
        } else {
            net.pass(60);
        }
        let said = net.wires[0].notices.concat();
        let who = "client_id: \"c\", user_name: Some(\"ann\"), was_live: false";
        assert!(said.contains(who), "{said}");
    }
}

/// Whose client is vouched for until ten seconds from now.
fn until(net: &Net) -> Verdict {
    let until = Some(net.now + Micros::from_secs(10));
    Verdict::AcceptOn(Box::new(Terms { until, ..Terms::default() }))
}

#[test]
fn a_client_whose_time_is_over_is_told_so_and_its_will_is_sent() {
    for (version, keep_alive_s) in [(Version::V311, 0), (Version::V5, 0), (Version::V5, 60)] {
        let mut net = net();
        let watcher = net.connect("w", Ask::default());
        net.authenticated(watcher, Verdict::Accept(Vec::new()));
        net.subscribe(watcher, "gone", QoS::AtMostOnce);
        net.read(watcher);
        let (topic, payload) = ("gone", &b"x"[..]);
        let (qos, retain, properties) = (QoS::AtMostOnce, false, Properties::EMPTY);
        let will = Some(Will { topic, payload, properties, qos, retain });
        let ask = Ask { version, keep_alive_s, will, ..Ask::default() };
        let peer = net.connect("c", ask);
        let verdict = until(&net);
        net.authenticated(peer, verdict);
        net.pass(9);
        assert_eq!(net.read(peer), ["CONNACK Success"]);
        net.pass(1);
        let end = "DISCONNECT Maximum connect time: what it authenticated by has expired";
        let told = if version == Version::V5 { vec![end, "closed"] } else { vec!["closed"] };
        assert_eq!(net.read(peer), told, "{version:?} {keep_alive_s}");
        assert_eq!(net.read(watcher).len(), 1, "the will");
    }
}
