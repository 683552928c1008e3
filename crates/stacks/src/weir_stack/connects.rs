//! Connections made and ended at a fixed rate: CONNECT, CONNACK, DISCONNECT, each on a socket of
//! its own.

use super::paced::{self, KEEP_ALIVE_S, Pace, Port, STOP_MAX_US};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;
use weir_client::{Client, ConnectOptions, Event, Sink};
use weir_reactor::{Closed, Handler, Io, Reactor, Token, Transport, now_us};
use weir_wire::Version;

/// Connections at a time, as every stack has it; those that are due meanwhile wait.
const OPEN_MAX: usize = 1;

pub(super) struct Connects<'a> {
    address: SocketAddr,
    client_id: String,
    rate: f64,
    pace: &'a Pace,
    begun_us: Option<u64>,
    /// Connections begun.
    begun: u64,
    /// Each with its number, which is in its client identifier.
    open: HashMap<Token, (u64, Client)>,
}

impl<'a> Connects<'a> {
    pub(super) fn new(address: SocketAddr, client_id: String, rate: f64, pace: &'a Pace) -> Self {
        let (begun_us, open) = (None, HashMap::new());
        Self { address, client_id, rate, pace, begun_us, begun: 0, open }
    }

    /// Runs until the end is asked for.
    pub(super) fn run(mut self, ready: impl FnOnce()) -> anyhow::Result<()> {
        let mut reactor = Reactor::with_waker(self.pace.waker.clone())?;
        ready();
        let mut stop_by_us = None;
        loop {
            if self.pace.is_stopping() {
                let stop_by_us = *stop_by_us.get_or_insert_with(|| now_us() + STOP_MAX_US);
                if self.open.is_empty() || now_us() >= stop_by_us {
                    return Ok(());
                }
            }
            let due_us = stop_by_us.or_else(|| self.poll_timeout());
            let wait = due_us.map(|us| Duration::from_micros(us.saturating_sub(now_us())));
            reactor.turn(wait, &mut self)?;
        }
    }

    fn poll_timeout(&self) -> Option<u64> {
        let begun_us = self.begun_us.filter(|_| self.open.len() < OPEN_MAX)?;
        Some(paced::next_due_us(begun_us, self.begun, self.rate))
    }

    fn begin_due(&mut self, io: &mut Io) {
        if !self.pace.is_running() {
            return;
        }
        let now_us = now_us();
        let begun_us = *self.begun_us.get_or_insert(now_us);
        let due = paced::due(begun_us, now_us, self.rate);
        while self.begun < due && self.open.len() < OPEN_MAX {
            self.begun += 1;
            match io.connect(&Transport::Plain, self.address, None) {
                Ok(token) => {
                    let client = Client::new(Version::V311);
                    self.open.insert(token, (self.begun, client));
                }
                Err(_) => self.pace.add_failed(),
            }
        }
    }
}

impl Handler for Connects<'_> {
    fn connected(&mut self, io: &mut Io, token: Token) {
        let Some((number, client)) = self.open.get_mut(&token) else { return };
        let client_id = format!("{}-{number}", self.client_id);
        let options = ConnectOptions {
            version: Version::V311,
            client_id: &client_id,
            clean_start: true,
            keep_alive_s: KEEP_ALIVE_S,
            session_expiry_s: 0,
            user_name: None,
            password: None,
        };
        client.connect(&options, now_us(), &mut Port { io, token });
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let Some((_, client)) = self.open.get_mut(&token) else { return bytes.len() };
        let mut ear = Ear { is_connected: None };
        let result = client.handle(bytes, now_us(), &mut ear);
        match (result, ear.is_connected) {
            (Ok(_), Some(true)) => {
                client.disconnect(&mut Port { io, token });
                self.pace.add_done();
                self.open.remove(&token);
                io.close(token);
                bytes.len()
            }
            (Ok(consumed), None) => consumed,
            (Ok(_), Some(false)) | (Err(_), _) => {
                self.pace.add_failed();
                self.open.remove(&token);
                io.abort(token);
                bytes.len()
            }
        }
    }

    fn closed(&mut self, _io: &mut Io, token: Token, _cause: Closed) {
        if self.open.remove(&token).is_some() {
            self.pace.add_failed();
        }
    }

    fn turn_end(&mut self, io: &mut Io) {
        self.begin_due(io);
    }
}

/// Hears the answer to CONNECT.
struct Ear {
    is_connected: Option<bool>,
}

impl Sink for Ear {
    fn write(&mut self, _bytes: &[u8]) {}

    fn event(&mut self, event: Event<'_>) {
        self.is_connected = Some(matches!(event, Event::Connected { .. }));
    }
}
