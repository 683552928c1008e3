//! The replay server, played to by a stack that does next to nothing, with known faults, and by
//! hand.

use crate::blocking::Blocking;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_stacks::null_stack::{Fault, NullStack};
use weir_stacks::replay::{Counts, Order, Play, Played, Said, serve};
use weir_wire::packet::Ack;
use weir_wire::{Packet, PacketId, Property, QoS, Version};

/// Long enough for any host; nothing is judged by it.
const LONG: Duration = Duration::from_secs(60);

struct Server {
    orders: Option<PipeWriter>,
    said: BufReader<PipeReader>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Self {
        let (input, orders) = pipe().unwrap();
        let (said, output) = pipe().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let serving = move || serve(listener, BufReader::new(input), output).unwrap();
        let thread = Some(std::thread::spawn(serving));
        let address = "127.0.0.1:0".parse().unwrap();
        let mut server = Self { orders: Some(orders), said: BufReader::new(said), address, thread };
        let Said::Listening { address } = server.hear() else { panic!("not listening") };
        server.address = address.parse().unwrap();
        server
    }

    fn hear(&mut self) -> Said {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
    }

    fn say(&mut self, line: &str) {
        writeln!(self.orders.as_mut().unwrap(), "{line}").unwrap();
    }

    fn order(&mut self, order: &Order) {
        self.say(&serde_json::to_string(order).unwrap());
    }

    fn subscribed(&mut self) -> (u8, u8) {
        let Said::Subscribed { level, qos, .. } = self.hear() else { panic!("not subscribed") };
        (level, qos)
    }

    fn play(&mut self, play: Play) {
        self.order(&Order::Play(play));
        let said = self.hear();
        assert!(matches!(said, Said::Playing { .. }), "{said:?}");
    }

    fn played(&mut self) -> Played {
        loop {
            match self.hear() {
                Said::Sent { .. } => {}
                Said::Played(played) => return *played,
                other => panic!("{other:?}"),
            }
        }
    }

    fn counts(&mut self) -> Counts {
        self.order(&Order::Counts {});
        let Said::Counts(counts) = self.hear() else { panic!("no counts") };
        counts
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.orders.take());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

/// A null stack on a thread.
struct Stack {
    orders: PipeWriter,
    lines: BufReader<PipeReader>,
    thread: JoinHandle<()>,
}

impl Stack {
    fn start(stack: NullStack) -> Self {
        let (input, orders) = pipe().unwrap();
        let (lines, output) = pipe().unwrap();
        let running = move || stack.run(BufReader::new(input), output).unwrap();
        let thread = std::thread::spawn(running);
        let mut stack = Self { orders, lines: BufReader::new(lines), thread };
        assert!(stack.line().starts_with("ready null-stack "));
        stack
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn tell(&mut self, word: &str) {
        writeln!(self.orders, "{word}").unwrap();
    }

    fn stop(mut self) -> String {
        self.tell("stop");
        let line = self.line();
        self.thread.join().unwrap();
        line
    }
}

fn stack(server: &Server, workflow: &str) -> NullStack {
    NullStack {
        server: server.address,
        workflow: workflow.into(),
        filter: "ud/#".into(),
        topic: "cells".into(),
        qos: 0,
        rate_per_s: 0.0,
        is_v5: false,
        fault: None,
    }
}

const PLAY: Play = Play {
    rate_per_s: 10_000.0,
    warm_up_s: 0.05,
    measure_s: 0.25,
    tail_s: 0.0,
    drain_s: 60.0,
    per_segment: 7,
    window: 100,
    returns: true,
};

#[test]
fn every_message_arrives_once_and_every_result_is_in_the_books() {
    for (is_v5, qos) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        let mut server = Server::start();
        let running = Stack::start(NullStack { is_v5, qos, ..stack(&server, "workflow") });
        assert_eq!(server.subscribed(), (if is_v5 { 5 } else { 4 }, qos));
        // One after the other: numbers go on.
        for _ in 0..2 {
            server.play(PLAY);
            let played = server.played();
            let sent = PLAY.messages();
            assert_eq!((played.sent, played.lost), (sent, 0), "{played:?}");
            assert!(played.required.abs_diff(sent / 10) <= 1 && played.measured > 0);
            assert_eq!(played.delivered, played.required);
            assert_eq!((played.duplicated, played.alien, played.altered), (0, 0, 0));
            assert_eq!(played.acknowledged, if qos == 1 { sent } else { 0 });
            assert_eq!((played.unacknowledged, played.acknowledged_alien), (0, 0));
            assert!(played.sends > 0 && played.gone.is_none());
            let latency = Played::histogram(&played.latency).unwrap();
            assert!(latency.len().abs_diff(played.measured / 10) <= 1, "{}", latency.len());
            assert_eq!(Played::histogram(&played.acknowledge).is_some(), qos == 1);
        }
        let last = running.stop();
        assert!(last.starts_with(&format!("counts received={} ", 2 * PLAY.messages())), "{last}");
        let counts = server.counts();
        assert_eq!((counts.connects, counts.disconnects, counts.malformed), (1, 1, 0));
    }
}

#[test]
fn the_ledger_finds_every_planted_fault() {
    let faults = [Fault::Lose, Fault::Double, Fault::Alter, Fault::Invent];
    for fault in faults {
        let mut server = Server::start();
        let running = Stack::start(NullStack { fault: Some(fault), ..stack(&server, "workflow") });
        server.subscribed();
        let drain_s = if fault == Fault::Lose { 0.5 } else { 60.0 };
        server.play(Play { drain_s, ..PLAY });
        let played = server.played();
        running.stop();
        let planted = played.required / 10;
        assert!(planted > 10);
        let of = |this| if this == fault { planted } else { 0 };
        assert_eq!(played.lost, of(Fault::Lose), "{fault:?}");
        assert_eq!(played.altered, of(Fault::Alter), "{fault:?}");
        // The last result may be spoilt and its second come after the books were closed.
        assert!(of(Fault::Double) - played.duplicated <= 1, "{fault:?} {played:?}");
        assert!(of(Fault::Invent) - played.alien <= 1, "{fault:?} {played:?}");
    }
}

#[test]
fn results_that_come_otherwise_than_asked_for_are_counted() {
    for fault in [Fault::Stray, Fault::Retain, Fault::Swap, Fault::Stall] {
        let mut server = Server::start();
        let running = Stack::start(NullStack { fault: Some(fault), ..stack(&server, "workflow") });
        server.subscribed();
        // So many that the last result is not one to be held back.
        server.play(Play { measure_s: 0.256, ..PLAY });
        let (played, counts) = (server.played(), server.counts());
        running.stop();
        let planted = |this| if this == fault { played.required / 10 } else { 0 };
        assert_eq!(counts.astray, planted(Fault::Stray), "{fault:?}");
        assert_eq!(counts.retained, planted(Fault::Retain), "{fault:?}");
        assert_eq!(played.reordered, planted(Fault::Swap), "{fault:?} {played:?}");
        assert_eq!(played.lost, 0, "{fault:?}");
        let latency = Played::histogram(&played.latency).unwrap();
        if fault == Fault::Stall {
            assert!(latency.value_at_quantile(0.5) > 200_000, "{played:?}");
        }
    }
}

#[test]
fn what_a_stack_publishes_and_how_often_it_connects_is_counted() {
    for workflow in ["publish", "connect"] {
        let mut server = Server::start();
        let of = NullStack { rate_per_s: 2_000.0, qos: 1, ..stack(&server, workflow) };
        let mut running = Stack::start(of);
        let before = server.counts();
        running.tell("start");
        let is_enough = |counts: Counts| counts.published >= 100 || counts.connects >= 100;
        while !is_enough(server.counts()) {}
        let last = running.stop();
        let number = |key: &str| -> u64 {
            let pair = last.split(' ').find_map(|pair| pair.strip_prefix(&format!("{key}=")));
            pair.unwrap().parse().unwrap()
        };
        let mut after = server.counts();
        // What was written last may be read a turn later.
        while after.disconnects < after.connects {
            after = server.counts();
        }
        assert_eq!(after.published, number("published"), "{workflow}");
        assert_eq!(after.connects - before.connects, number("connects"), "{workflow}");
        assert_eq!(after.published_bytes, 300 * after.published);
        assert_eq!((after.dropped, after.malformed, after.refused), (0, 0, 0), "{workflow}");
    }
}

/// A connection by hand.
struct Raw(Blocking);

impl Raw {
    /// A client, and what its SUBACK says.
    fn subscribe(
        server: &Server,
        version: Version,
        receive_maximum: Option<u16>,
    ) -> (Self, Option<u8>) {
        let mut client = Blocking::connect(server.address, version).unwrap();
        let maximum = receive_maximum.map(Property::ReceiveMaximum);
        client.join("raw", None, maximum.as_slice()).unwrap();
        assert!(client.connack().is_some());
        let code = client.subscribe("#", QoS::ExactlyOnce);
        (Self(client), code)
    }

    fn send(&mut self, packet: &Packet<'_>) {
        self.0.send(packet).unwrap();
    }

    fn next_id(&mut self) -> PacketId {
        let id = self.0.packet(|packet| match packet {
            Packet::Publish(publish) => publish.packet_id,
            other => panic!("no PUBLISH: {other:?}"),
        });
        id.flatten().unwrap()
    }

    /// Whether a PUBLISH is there before the answer to a PINGREQ.
    fn has_more(&mut self) -> bool {
        self.send(&Packet::PingReq);
        self.0.packet(|packet| matches!(packet, Packet::Publish(_))).unwrap()
    }
}

#[test]
fn a_full_window_holds_messages_until_they_are_acknowledged() {
    for (version, receive_maximum) in [(Version::V311, None), (Version::V5, Some(5))] {
        let mut server = Server::start();
        let (mut raw, code) = Raw::subscribe(&server, version, receive_maximum);
        assert_eq!(code, Some(1), "QoS 2 is granted as 1");
        assert_eq!(server.subscribed().1, 1, "QoS 2 is granted as 1");
        let play = Play {
            rate_per_s: 100_000.0,
            warm_up_s: 0.0,
            measure_s: 0.001,
            per_segment: 1,
            window: 5,
            returns: false,
            ..PLAY
        };
        server.play(Play { window: if receive_maximum.is_some() { 50 } else { 5 }, ..play });
        let mut open: Vec<PacketId> = (0..5).map(|_| raw.next_id()).collect();
        assert!(!raw.has_more());
        // Out of order, and of nothing.
        raw.send(&Packet::PubAck(Ack::success(PacketId::new(40_000).unwrap())));
        for _ in 5..play.messages() {
            raw.send(&Packet::PubAck(Ack::success(open.remove(2))));
            let next = raw.next_id();
            assert!(!open.contains(&next));
            open.push(next);
        }
        open.into_iter().for_each(|id| raw.send(&Packet::PubAck(Ack::success(id))));
        let played = server.played();
        assert_eq!((played.sent, played.acknowledged), (100, 100));
        assert_eq!((played.unacknowledged, played.acknowledged_alien), (0, 1));
        assert!(played.held_by_window >= 90, "{played:?}");
    }
}

#[test]
fn a_stack_that_leaves_ends_its_play_with_the_books_as_they_stand() {
    let mut server = Server::start();
    let (mut raw, _) = Raw::subscribe(&server, Version::V311, None);
    server.subscribed();
    server.play(Play { measure_s: 600.0, ..PLAY });
    raw.next_id();
    drop(raw);
    let played = server.played();
    assert!(played.gone.as_ref().is_some_and(|why| why.contains("before the end")), "{played:?}");
    assert!(played.sent > 0 && played.required == 0 && played.lost == 0);
    // The next one can be played to.
    let running = Stack::start(stack(&server, "workflow"));
    server.subscribed();
    server.play(PLAY);
    let played = server.played();
    assert_eq!((played.delivered, played.alien), (played.required, 0));
    running.stop();
}

#[test]
fn what_is_malformed_or_out_of_place_ends_its_connection_and_is_counted() {
    let mut server = Server::start();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xC0, 0], &[0x30, 2, 0, 9]] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.write_all(bytes).unwrap();
        let ended = stream.read(&mut [0; 16]);
        assert!(matches!(ended, Ok(0)) || ended.is_err(), "{ended:?}");
    }
    assert_eq!(server.counts().malformed, 3);
}

#[test]
fn one_stack_is_played_to_at_a_time() {
    let mut server = Server::start();
    let _first = Raw::subscribe(&server, Version::V5, None);
    server.subscribed();
    let code = |version| Raw::subscribe(&server, version, None).1;
    assert_eq!([code(Version::V5), code(Version::V311)], [Some(0x97), Some(0x80)]);
    assert_eq!(server.counts().refused, 2);
}

#[test]
fn an_order_that_cannot_be_followed_says_why() {
    let mut server = Server::start();
    let why = |server: &mut Server| match server.hear() {
        Said::Failed { why } => why,
        other => panic!("{other:?}"),
    };
    server.order(&Order::Play(PLAY));
    assert!(why(&mut server).contains("no stack has subscribed"));
    server.say("{\"dance\":{}}");
    assert!(why(&mut server).contains("an order that is none"));
    server.order(&Order::Play(Play { per_segment: 0, ..PLAY }));
    assert!(why(&mut server).contains("segment"));
    let _stack = Raw::subscribe(&server, Version::V311, None);
    server.subscribed();
    server.play(Play { measure_s: 600.0, ..PLAY });
    server.order(&Order::Play(PLAY));
    assert!(why(&mut server).contains("under way"));
}
