//! CONNECT, byte for byte: who the clients of a plan say they are.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use weir_load::outcome::{Access, End};
use weir_load::plan::{
    ConnectPlan, Credentials, Group, Phases, Plan, ProtocolVersion, Subscription, Transport,
};
use weir_load::{LoadError, Outcome, Stop, run};

fn plan(version: ProtocolVersion, credentials: Credentials) -> Plan {
    let group = Group { name: "g".into(), clients: 1, client_id: "me".into(), ..Group::default() };
    let phases = Phases { warm_up_ms: 0, measure_ms: 1, drain_ms: 0 };
    let plan = Plan::new(([127, 0, 0, 1], 1).into(), vec![group], phases);
    Plan { version, credentials, ..plan }
}

/// What a broker reads that closes the connection after one packet, and what the run says.
fn connect(version: ProtocolVersion, credentials: Credentials) -> (Vec<u8>, Outcome) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let broker = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut packet = vec![0; 2];
        stream.read_exact(&mut packet).unwrap();
        let mut rest = vec![0; packet[1].into()];
        stream.read_exact(&mut rest).unwrap();
        packet.extend(rest);
        packet
    });
    let plan = Plan { target, ..plan(version, credentials) };
    let outcome = run(&plan, &Stop::default(), &mut |_| {}).unwrap();
    (broker.join().unwrap(), outcome)
}

fn of(user_name: Option<&str>, password: Option<&str>) -> Credentials {
    let text = |text: Option<&str>| text.map(str::to_owned);
    Credentials { user_name: text(user_name), password: text(password) }
}

#[test]
fn user_name_and_password_are_in_the_packet_and_that_they_were_in_the_outcome() {
    let transport = Transport::Plain;
    // 2 is a clean session; 0x80 a user name, 0x40 a password (section 3.1.2.3).
    for (credentials, flags, payload) in [
        (of(None, None), 2, &b"\0\x02me"[..]),
        (of(Some("u"), None), 0x82, b"\0\x02me\0\x01u"),
        (of(Some("u"), Some("p@w")), 0xC2, b"\0\x02me\0\x01u\0\x03p@w"),
    ] {
        let (packet, outcome) = connect(ProtocolVersion::V311, credentials.clone());
        let mut expected = b"\x10\0\0\x04MQTT\x04".to_vec();
        expected.extend([flags, 0, 60]);
        expected.extend(payload);
        expected[1] = expected.len() as u8 - 2;
        assert_eq!(packet, expected, "{credentials:?}");
        let has_user_name = credentials.user_name.is_some();
        let has_password = credentials.password.is_some();
        assert_eq!(outcome.access, Some(Access { transport, has_user_name, has_password }));
    }
    // 5.0 allows a password alone; behind the keep alive are no properties.
    let (packet, outcome) = connect(ProtocolVersion::V5, of(None, Some("p")));
    assert_eq!(packet, b"\x10\x12\0\x04MQTT\x05\x42\0\x3c\0\0\x02me\0\x01p");
    assert!(outcome.access.is_some_and(|access| access.has_password && !access.has_user_name));
}

#[test]
fn a_password_alone_is_no_plan_for_3_1_1() {
    let plan = plan(ProtocolVersion::V311, of(None, Some("secret")));
    let error = run(&plan, &Stop::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(&error, LoadError::Plan(why) if why.contains("user name")), "{error}");
    assert!(!format!("{plan:?} {error}").contains("secret"));
}

#[test]
fn agents_are_told_the_credentials() {
    let plan = plan(ProtocolVersion::V5, of(Some("u"), Some("p")));
    let line = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&line).unwrap(), plan);
}

#[test]
fn a_plan_whose_rate_of_connects_is_no_rate_is_refused() {
    for rate_per_s in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        let plan = plan(ProtocolVersion::V311, of(None, None));
        let connect = ConnectPlan { rate_per_s, ..plan.connect };
        let error = run(&Plan { connect, ..plan }, &Stop::default(), &mut |_| {}).unwrap_err();
        let is_named = matches!(&error, LoadError::Plan(why) if why.contains("connect.rate_per_s"));
        assert!(is_named, "{rate_per_s}: {error}");
    }
}

/// Reads one packet whose length is in one byte.
fn read_packet(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut head = [0; 2];
    stream.read_exact(&mut head).unwrap();
    let mut rest = vec![0; head[1].into()];
    stream.read_exact(&mut rest).unwrap();
    rest
}

#[test]
fn a_subscribe_that_nobody_answers_is_given_up_in_time_and_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let broker = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_packet(&mut stream);
        stream.write_all(b"\x20\x02\0\0").unwrap();
        let subscribe = read_packet(&mut stream);
        // Until the client is gone, in whichever way.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        subscribe
    });
    let mut plan = Plan { target, ..plan(ProtocolVersion::V311, of(None, None)) };
    plan.groups[0].subscriptions.push(Subscription::plain("t", 1));
    plan.connect.timeout_ms = 200;
    let outcome = run(&plan, &Stop::default(), &mut |_| {}).unwrap();
    // Packet identifier, filter and QoS.
    assert_eq!(broker.join().unwrap()[2..], *b"\0\x01t\x01");
    let failed = &outcome.subscriptions.failed;
    assert_eq!(
        failed.iter().map(|(why, count)| (&**why, *count)).collect::<Vec<_>>(),
        [("no SUBACK in time", 1)]
    );
    assert!(matches!(&outcome.end, End::SetupFailed(why) if why.contains("no SUBACK in time")));
}
