//! What `weir pub` and `weir sub` do with brokers that keep quiet.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

use clap::Parser;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use weir_pubsub::{Error, PubArgs, SubArgs, publish, subscribe};

#[derive(Parser)]
enum Cli {
    #[command(disable_help_flag = true)]
    Pub(PubArgs),
    #[command(disable_help_flag = true)]
    Sub(SubArgs),
}

/// Runs a command with what `words` say against a broker on this port.
fn run(words: &str, port: u16) -> Result<(), Error> {
    let port = format!("--port={port}");
    match Cli::parse_from(["weir"].into_iter().chain(words.split(' ')).chain([&*port])) {
        Cli::Pub(args) => publish(&args),
        Cli::Sub(args) => subscribe(&args),
    }
}

/// CONNACK of 3.1.1, and the answer to a PINGREQ.
const CONNACK: &[u8] = &[0x20, 2, 0, 0];
const PINGREQ: u8 = 0xC0;
const PINGRESP: &[u8] = &[0xD0, 0];

/// PUBACK of the first message.
const PUBACK: &[u8] = &[0x40, 2, 0, 1];

/// A broker that lets a client in, says `more`, and then answers nothing but pings.
fn quiet_broker(more: &'static [u8]) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = move || {
        let mut stream = listener.accept().unwrap().0;
        let mut bytes = [0; 4096];
        assert!(stream.read(&mut bytes).unwrap() > 0);
        stream.write_all(CONNACK).unwrap();
        let mut more = Some(more);
        loop {
            match stream.read(&mut bytes) {
                Ok(0) | Err(_) => return,
                Ok(count) if bytes[..count] == [PINGREQ, 0] => stream.write_all(PINGRESP).unwrap(),
                Ok(_) => stream.write_all(more.take().unwrap_or_default()).unwrap(),
            }
        }
    };
    (port, std::thread::spawn(serve))
}

#[test]
fn who_is_not_answered_is_told_so_in_the_end() {
    let cases = [
        ("pub -t a -m x -q 1", "1 of 1 message"),
        ("pub -t a -m x -q 2 -k 1", "1 of 1 message"),
        ("sub -t a -k 1", "the subscription"),
        ("sub -U a", "the subscription"),
    ];
    let checks = cases.map(|(words, what)| {
        std::thread::spawn(move || {
            let (port, broker) = quiet_broker(b"");
            let error = run(&format!("{words} --answer-timeout 2"), port).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(what) && text.contains("2 s"), "{words}: {text}");
            assert_eq!(error.exit_code(), 27, "{words}");
            broker.join().unwrap();
        })
    });
    checks.into_iter().for_each(|check| check.join().unwrap());
}

#[test]
fn each_answer_gives_the_rest_its_time() {
    let (port, broker) = quiet_broker(PUBACK);
    let words = "pub -t a -m x -q 1 --repeat 3 --answer-timeout 1";
    let error = run(words, port).unwrap_err();
    assert!(error.to_string().contains("2 of 3 messages"), "{error}");
    broker.join().unwrap();
}

#[test]
fn without_a_bound_only_the_answer_counts() {
    let (port, broker) = quiet_broker(PUBACK);
    run("pub -t a -m x -q 1 --answer-timeout 0", port).unwrap();
    broker.join().unwrap();
}
