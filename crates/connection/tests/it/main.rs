//! A client that comes back, against a broker that says what the test wants.

#![expect(clippy::unwrap_used, reason = "a test: a panic is its failure")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;
use weir_client::{Client, ConnectOptions, Event, Sink};
use weir_connection::{Address, Carried, Connection, Error, Policy, TLS_OPTIONS, until};
use weir_reactor::{Closed, Handler, Io, Reactor, Token, Transport, now_us};
use weir_wire::{ReasonCode, Version};

const ACCEPTED: [u8; 5] = [0x20, 3, 0, 0, 0];

/// Answers one CONNECT after the other, then ends the connection.
fn broker(answers: &'static [&'static [u8]]) -> (Address, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string().parse().unwrap();
    let serve = move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let read = stream.read(&mut [0; 1000]).unwrap();
            assert!(read > 0, "a CONNECT");
            stream.write_all(answer).unwrap();
        }
    };
    (address, std::thread::spawn(serve))
}

struct Owner<'a> {
    client: Client,
    connection: Connection<'a, Error>,
    losses: u32,
}

struct Out<'a>(&'a mut Io, Token, Option<ReasonCode>);

impl Sink for Out<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(self.1, bytes);
    }

    fn event(&mut self, event: Event<'_>) {
        if let Event::Refused(reason) = event {
            self.2 = Some(reason);
        }
    }
}

impl Handler for Owner<'_> {
    fn connected(&mut self, io: &mut Io, token: Token) {
        let options = ConnectOptions {
            version: Version::V5,
            client_id: "c",
            clean_start: true,
            keep_alive_s: 0,
            session_expiry_s: 0,
            user_name: None,
            password: None,
        };
        self.client.connect(&options, now_us(), &mut Out(io, token, None));
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let mut out = Out(io, token, None);
        let consumed = self.client.handle(bytes, now_us(), &mut out).unwrap();
        match out.2 {
            Some(reason) => self.connection.refused(io, &mut self.client, reason, None),
            None if self.client.is_live() => {
                self.connection.answered();
                self.connection.works();
            }
            None => {}
        }
        consumed
    }

    fn closed(&mut self, io: &mut Io, token: Token, cause: Closed) {
        self.losses += u32::from(self.client.is_live());
        self.connection.closed(io, &mut self.client, token, cause);
    }

    fn turn_end(&mut self, io: &mut Io) {
        self.connection.handle_timeout(io, &mut self.client, now_us());
    }
}

/// How it ends, how often it was lost, and how long that took.
fn run(address: &Address, comes_back: bool) -> (Error, u32, Duration) {
    let rests_us = 20_000..=80_000;
    let transport = Transport::Plain;
    let options = "-h";
    let policy = Policy {
        transport,
        source: None,
        comes_back,
        rests_us,
        is_quiet: true,
        options,
        tls_options: TLS_OPTIONS,
    };
    let client = Client::new(Version::V5);
    let mut reactor = Reactor::new().unwrap();
    let mut owner = Owner { client, connection: Connection::new(address, policy), losses: 0 };
    let begun_us = now_us();
    owner.connection.begin(reactor.io(), &mut owner.client).unwrap();
    while owner.connection.end.is_none() {
        let wait = owner.connection.poll_timeout().map(until);
        reactor.turn(wait, &mut owner).unwrap();
    }
    assert!(!Carried::is_live(&owner.client), "nothing is left of the connection");
    let error = owner.connection.end.unwrap().unwrap_err();
    (error, owner.losses, Duration::from_micros(now_us() - begun_us))
}

#[test]
fn one_that_worked_comes_back_after_growing_rests_until_it_is_refused_for_good() {
    const BUSY: &[u8] = &[0x20, 3, 0, ReasonCode::ServerBusy as u8, 0];
    const REFUSED: &[u8] = &[0x20, 3, 0, ReasonCode::NotAuthorized as u8, 0];
    let (address, broker) = broker(&[&ACCEPTED, BUSY, BUSY, BUSY, &ACCEPTED, REFUSED]);
    let (error, losses, took) = run(&address, true);
    broker.join().unwrap();
    let is_refused = matches!(error, Error::Refused { reason: ReasonCode::NotAuthorized, .. });
    assert!(is_refused, "{error}");
    assert_eq!(losses, 2);
    // 20, 40, 80, 80, and 20 again after it worked.
    assert!(took >= Duration::from_millis(240), "{took:?}");
}

#[test]
fn one_that_never_worked_or_is_not_to_come_back_ends_at_once() {
    const BUSY: &[u8] = &[0x20, 3, 0, ReasonCode::ServerBusy as u8, 0];
    let (address, never) = broker(&[BUSY]);
    assert!(matches!(run(&address, true).0, Error::Refused { .. }));
    never.join().unwrap();
    let (address, once) = broker(&[&ACCEPTED]);
    let (error, losses, _) = run(&address, false);
    once.join().unwrap();
    assert!(matches!(error, Error::Lost { .. }), "{error}");
    assert_eq!(losses, 1);
    // Nothing listens there any more.
    let text = run(&address, true).0.to_string();
    assert!(text.ends_with("nothing listens there (see -h)"), "{text}");
}
