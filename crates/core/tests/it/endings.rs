//! How connections and sessions end, and what is left of them.

use crate::net::{Ask, Net, Peer};
use weir_core::Limits;
use weir_wire::packet::{Disconnect, Will};
use weir_wire::{PropertiesBuf, Property, QoS, ReasonCode, Version};

fn kept(expiry_s: u32) -> Ask<'static> {
    Ask { clean: false, expiry_s, ..Ask::default() }
}

fn sessions(net: &Net) -> u64 {
    net.shards[0].stats().sessions
}

/// DISCONNECT with a session expiry interval.
fn leave(net: &mut Net, peer: Peer, expiry_s: u32) {
    let mut properties = PropertiesBuf::new();
    properties.push(Property::SessionExpiryInterval(expiry_s));
    let mut bytes = Vec::new();
    Disconnect { reason: ReasonCode::Success, properties: properties.as_properties() }
        .encode(Version::V5, &mut bytes);
    net.send_bytes(peer, &bytes);
}

#[test]
fn a_disconnect_may_change_how_long_its_session_is_kept() {
    let limits = Limits { session_expiry_s_max: 50, ..Limits::default() };
    for (at_connect, at_disconnect, kept_s) in [(40, 10, 10), (10, 40, 40), (10, 60, 50)] {
        let mut net = Net::with_limits(1, &limits);
        let peer = net.join("c", kept(at_connect));
        leave(&mut net, peer, at_disconnect);
        assert_eq!(net.read(peer), ["closed"]);
        net.pass(kept_s - 1);
        assert_eq!(sessions(&net), 1);
        net.pass(1);
        assert_eq!(sessions(&net), 0);
    }
    for at_connect in [0, 40] {
        let mut net = Net::with_limits(1, &limits);
        let peer = net.join("c", kept(at_connect));
        leave(&mut net, peer, 0);
        assert_eq!(net.read(peer), ["closed"]);
        assert_eq!(sessions(&net), 0);
    }
}

#[test]
fn a_session_that_was_not_to_be_kept_cannot_be_at_disconnect() {
    let mut net = Net::new(1);
    let peer = net.join("c", kept(0));
    leave(&mut net, peer, 10);
    let why = "DISCONNECT Protocol Error: a session expiry after none in CONNECT";
    assert_eq!(net.read(peer), [why, "closed"]);
    assert_eq!(sessions(&net), 0);
}

#[test]
fn who_comes_back_in_time_keeps_its_session_whatever_was_planned() {
    let mut net = Net::new(1);
    let peer = net.join("c", kept(10));
    net.cut(peer);
    net.pass(9);
    let peer = net.join("c", kept(10));
    net.pass(9);
    assert_eq!(sessions(&net), 1);
    net.cut(peer);
    net.pass(9);
    assert_eq!(sessions(&net), 1);
    net.pass(1);
    assert_eq!(sessions(&net), 0);
}

#[test]
fn a_delayed_will_of_a_session_that_never_expires_is_due_after_its_delay() {
    let mut net = Net::new(1);
    let watcher = net.join("watcher", Ask::default());
    net.subscribe(watcher, "w", QoS::AtMostOnce);
    net.read(watcher);
    let mut properties = PropertiesBuf::new();
    properties.push(Property::WillDelayInterval(5));
    let properties = properties.as_properties();
    let (qos, retain) = (QoS::AtMostOnce, false);
    let will = Will { topic: "w", payload: b"gone", qos, retain, properties };
    let peer = net.join("c", Ask { will: Some(will), ..kept(u32::MAX) });
    net.cut(peer);
    net.pass(4);
    assert_eq!(net.read(watcher), [""; 0]);
    net.pass(1);
    assert_eq!(net.read(watcher), ["PUBLISH w q0 gone"]);
    assert_eq!(sessions(&net), 2);
}

#[test]
fn a_wills_expiry_is_counted_from_when_it_is_due() {
    let mut net = Net::new(1);
    let sub = net.join("sub", kept(100));
    net.subscribe(sub, "w", QoS::AtLeastOnce);
    net.cut(sub);
    let mut properties = PropertiesBuf::new();
    properties.push(Property::WillDelayInterval(5));
    properties.push(Property::MessageExpiryInterval(10));
    let properties = properties.as_properties();
    let (qos, retain) = (QoS::AtLeastOnce, false);
    let will = Will { topic: "w", payload: b"gone", qos, retain, properties };
    let peer = net.join("c", Ask { will: Some(will), ..kept(100) });
    net.pass(20);
    net.cut(peer);
    net.pass(5 + 4);
    let sub = net.connect("sub", kept(100));
    let expected = ["CONNACK Success present", "PUBLISH w q1 #1 MessageExpiryInterval(6) gone"];
    assert_eq!(net.read(sub), expected);
}

#[test]
fn who_goes_is_told_with_client_and_reason() {
    let mut net = Net::new(1);
    let (leaves, lost) = (net.join("leaves", kept(0)), net.join("lost", kept(0)));
    let stranger = net.open(Version::V5);
    net.wires[0].notices.clear();
    net.disconnect(leaves, ReasonCode::DisconnectWithWill);
    net.cut(lost);
    net.cut(stranger);
    let told = |peer, client_id, reason| {
        format!(
            "Left {{ conn: {:?}, client_id: {client_id:?}, reason: {reason} }}",
            net.key_of(peer)
        )
    };
    let expected = [
        told(leaves, "leaves", "Some(DisconnectWithWill)"),
        told(lost, "lost", "None"),
        told(stranger, "", "None"),
    ];
    assert_eq!(net.wires[0].notices, expected);
}
