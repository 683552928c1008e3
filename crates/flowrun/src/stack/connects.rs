//! Connections made and ended at a fixed rate: CONNECT, CONNACK, DISCONNECT, each on a socket of
//! its own.

use crate::Error;
use crate::control::{Control, Notice};
use crate::counts::{Count, Counts};
use crate::link::Port;
use crate::options::Settings;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;
use weir_client::{Client, ConnectOptions, Event, Sink};
use weir_reactor::{Closed, Handler, Io, Reactor, Token, Transport, now_us};

/// Connections are begun this often, all that are due by then.
const TICK_US: u64 = 1_000;

/// Connections at a time, as every stack has it; those that are due meanwhile wait.
const OPEN_MAX: usize = 1;

/// How long the last ones have when the end was asked for.
const STOP_MAX_US: u64 = 2_000_000;

pub(super) struct Connects<'a> {
    settings: &'a Settings,
    control: &'a Control,
    addresses: Vec<SocketAddr>,
    rate: f64,
    begun_us: Option<u64>,
    /// Connections begun.
    begun: u64,
    /// Each with its number, which is in its client identifier.
    open: HashMap<Token, (u64, Client)>,
    counts: Counts,
}

impl<'a> Connects<'a> {
    pub(super) fn new(settings: &'a Settings, control: &'a Control, rate: f64) -> Self {
        Self {
            settings,
            control,
            addresses: Vec::new(),
            rate,
            begun_us: None,
            begun: 0,
            open: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// Runs until the end is asked for.
    pub(super) fn run(mut self) -> Result<(), Error> {
        let mut reactor = Reactor::with_waker(self.control.waker(0))?;
        self.addresses = self.settings.address.resolve(None)?;
        self.control.tell(Notice::Ready);
        let mut stop_by_us = None;
        loop {
            if self.control.is_stopping() {
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
        let due_us = begun_us + ((self.begun + 1) as f64 / self.rate * 1e6) as u64;
        Some(due_us.div_ceil(TICK_US) * TICK_US)
    }

    fn begin_due(&mut self, io: &mut Io) {
        if !self.control.is_started() || self.control.is_stopping() {
            return;
        }
        let now_us = now_us();
        let begun_us = *self.begun_us.get_or_insert(now_us);
        let due = ((now_us - begun_us) as f64 / 1e6 * self.rate) as u64;
        while self.begun < due && self.open.len() < OPEN_MAX {
            self.begun += 1;
            match io.connect(&Transport::Plain, self.addresses[0], None) {
                Ok(token) => {
                    let client = Client::new(self.settings.version);
                    self.open.insert(token, (self.begun, client));
                }
                Err(_) => self.counts.add(Count::Lost, 1),
            }
        }
    }
}

impl Handler for Connects<'_> {
    fn connected(&mut self, io: &mut Io, token: Token) {
        let Some((number, client)) = self.open.get_mut(&token) else { return };
        let client_id = format!("{}-{number}", self.settings.client_id);
        let options = ConnectOptions {
            version: self.settings.version,
            client_id: &client_id,
            clean_start: true,
            keep_alive_s: self.settings.keep_alive_s,
            session_expiry_s: 0,
            user_name: None,
            password: None,
        };
        let now_us = now_us();
        client.connect(&options, now_us, &mut Port { io, token, now_us });
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let Some((_, client)) = self.open.get_mut(&token) else { return bytes.len() };
        let mut ear = Ear { is_connected: None };
        let now_us = now_us();
        let result = client.handle(bytes, now_us, &mut ear);
        match (result, ear.is_connected) {
            (Ok(_), Some(true)) => {
                client.disconnect(&mut Port { io, token, now_us });
                self.counts.add(Count::Connects, 1);
                self.open.remove(&token);
                io.close(token);
                bytes.len()
            }
            (Ok(consumed), None) => consumed,
            (Ok(_), Some(false)) | (Err(_), _) => {
                self.counts.add(Count::Lost, 1);
                self.open.remove(&token);
                io.abort(token);
                bytes.len()
            }
        }
    }

    fn closed(&mut self, _io: &mut Io, token: Token, _cause: Closed) {
        if self.open.remove(&token).is_some() {
            self.counts.add(Count::Lost, 1);
        }
    }

    fn turn_end(&mut self, io: &mut Io) {
        self.begin_due(io);
        self.control.publish(0, &self.counts);
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
