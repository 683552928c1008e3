//! A broker that is replaced by another one while clients come and go: whoever has the listening
//! socket keeps it, as systemd does.

use crate::support::Broker;
use crate::support::blocking::Blocking;
use crate::support::connect::lasting;
use rustix::process::Signal;
use std::collections::HashSet;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_wire::packet::{Ack, Connect, Publish};
use weir_wire::{Packet, PacketId, QoS, ReasonCode, Version};

/// A broker that is passed the socket as file 3.
fn broker(listener: &TcpListener, config: &Path) -> Broker {
    let script =
        "export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=mqtt; exec \"$@\" 3<&0 0</dev/null";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_weir"), "broker"]).arg(config);
    // A shell names files below 10 alone.
    command.stdin(OwnedFd::from(listener.try_clone().unwrap()));
    Broker::by(&mut command).expect("the broker ended before it listened")
}

/// A client of 5.0 whose session stays. Nothing if it was refused or closed before it was let in.
fn join(address: SocketAddr, client_id: &str) -> Option<Blocking> {
    let mut client = match Blocking::connect(address, Version::V5) {
        Ok(client) => client,
        Err(error) => {
            eprintln!("{client_id}: no connection: {error}");
            return None;
        }
    };
    let properties = lasting();
    let properties = properties.as_properties();
    let connect =
        Connect { clean_start: false, properties, ..Connect::new(Version::V5, client_id) };
    let sent = client.send(&Packet::Connect(connect));
    match client.connack() {
        Some(ReasonCode::Success) => Some(client),
        other => {
            eprintln!("{client_id}: {sent:?}, {other:?}");
            None
        }
    }
}

/// What a publisher has seen.
struct Seen {
    acknowledged: u32,
    refused: u32,
    /// The longest time that it took to be let in again.
    longest: Duration,
}

/// Publishes one message after the other at QoS 1, and again what was not acknowledged.
fn publish(address: SocketAddr, own: u32, is_over: &AtomicBool) -> Seen {
    let name = format!("publisher-{own}");
    let mut seen = Seen { acknowledged: 0, refused: 0, longest: Duration::ZERO };
    let mut client = None;
    while !is_over.load(Ordering::Relaxed) {
        let Some(of) = &mut client else {
            let begin = Instant::now();
            client = join(address, &name);
            seen.refused += u32::from(client.is_none());
            seen.longest = seen.longest.max(begin.elapsed());
            continue;
        };
        let payload = format!("{own} {}", seen.acknowledged);
        let sent = of.send(&Packet::Publish(Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic: "upgrade",
            packet_id: Some(PacketId::FIRST),
            properties: weir_wire::Properties::EMPTY,
            payload: payload.as_bytes(),
        }));
        let is_taken = |packet: &Packet<'_>| match packet {
            Packet::PubAck(ack) => {
                ack.reason == ReasonCode::Success || ack.reason == ReasonCode::NoMatchingSubscribers
            }
            _ => false,
        };
        match sent.is_ok() && of.packet(is_taken) == Some(true) {
            true => seen.acknowledged += 1,
            false => client = None,
        }
    }
    seen
}

/// Takes messages until all that were acknowledged have come. One that is lost never does.
fn collect(address: SocketAddr, of: &[Seen]) {
    let mut client = join(address, "subscriber").unwrap();
    let of_each = (0..).zip(of);
    let mut missing: HashSet<String> = of_each
        .flat_map(|(own, seen): (u32, _)| {
            (0..seen.acknowledged).map(move |at| format!("{own} {at}"))
        })
        .collect();
    while !missing.is_empty() {
        let (payload, packet_id) = client
            .packet(|packet| match packet {
                Packet::Publish(publish) => {
                    let payload = String::from_utf8(publish.payload.to_vec()).unwrap();
                    (payload, publish.packet_id)
                }
                other => panic!("{other:?}"),
            })
            .unwrap();
        if let Some(packet_id) = packet_id {
            client.send(&Packet::PubAck(Ack::success(packet_id))).unwrap();
        }
        missing.remove(&payload);
    }
}

#[test]
fn a_broker_is_replaced_and_nobody_is_refused_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir.toml");
    let text = format!(
        "shards = 2\n[auth]\nallow_anonymous = true\n[[listener]]\nsystemd = \"mqtt\"\n\
         [store]\npath = {:?}\n",
        folder.path().join("store")
    );
    std::fs::write(&config, text).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut running = broker(&listener, &config);
    let mut subscriber = join(address, "subscriber").unwrap();
    assert_eq!(subscriber.subscribe("upgrade", QoS::AtLeastOnce), Some(1));
    drop(subscriber);
    let is_over = AtomicBool::new(false);
    let (seen, gaps) = std::thread::scope(|scope| {
        let is_over = &is_over;
        let publisher = |own| scope.spawn(move || publish(address, own, is_over));
        let publishers: Vec<_> = (0..4).map(publisher).collect();
        let mut gaps = Vec::new();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(500));
            let begin = Instant::now();
            running.signal(Signal::TERM);
            assert!(running.child.wait().unwrap().success());
            let ended = begin.elapsed();
            running = broker(&listener, &config);
            // Whoever asks now is asked by nobody else before.
            drop(join(address, "look").expect("it is let in"));
            gaps.push((ended, begin.elapsed()));
        }
        is_over.store(true, Ordering::Relaxed);
        let seen: Vec<_> = publishers.into_iter().map(|it| it.join().unwrap()).collect();
        (seen, gaps)
    });
    collect(address, &seen);
    assert!(seen.iter().all(|of| of.refused == 0), "a client was refused");
    let longest = seen.iter().map(|of| of.longest).max().unwrap();
    let acknowledged: u32 = seen.iter().map(|of| of.acknowledged).sum();
    println!("stop and first CONNACK: {gaps:?}; longest wait {longest:?}; {acknowledged} messages");
}

#[test]
fn a_socket_of_systemds_that_is_given_up_comes_back_by_a_restart_only() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("weir.toml");
    let anyone = "shards = 2\n[auth]\nallow_anonymous = true\n[[listener]]\n";
    let write = |listener: &str| std::fs::write(&config, format!("{anyone}{listener}")).unwrap();
    write("systemd = \"mqtt\"\n");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut running = broker(&listener, &config);
    write("address = \"127.0.0.1:0\"\n");
    running.signal(Signal::HUP);
    running.says("systemd passes its socket again at a restart only");
    write("systemd = \"mqtt\"\n");
    running.signal(Signal::HUP);
    running.says("no socket of this name");
}
