//! Messages published at a fixed rate on one connection.

use super::feed::Feed;
use super::paced::{ANSWER_MAX_US, KEEP_ALIVE_S, Pace, Port, STOP_MAX_US};
use anyhow::bail;
use std::net::SocketAddr;
use std::time::Duration;
use weir_client::{Client, ConnectOptions, Event, Sink};
use weir_reactor::{Closed, Handler, Io, Reactor, Token, Transport, now_us};
use weir_wire::Version;

/// Output that may wait for the server before no more is published.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

pub(super) struct Publishes<'a> {
    address: SocketAddr,
    client_id: String,
    feed: Feed,
    pace: &'a Pace,
    client: Client,
    token: Option<Token>,
    scratch: Vec<u8>,
    /// CONNACK or PINGRESP has to have come by then.
    answer_due_us: Option<u64>,
    is_connected: bool,
    /// Why it ended before it was asked to.
    end: Option<String>,
}

impl<'a> Publishes<'a> {
    pub(super) fn new(address: SocketAddr, client_id: String, feed: Feed, pace: &'a Pace) -> Self {
        Self {
            address,
            client_id,
            feed,
            pace,
            client: Client::new(Version::V311),
            token: None,
            scratch: Vec::new(),
            answer_due_us: None,
            is_connected: false,
            end: None,
        }
    }

    /// Runs until the end is asked for; `ready` is called once it is connected.
    pub(super) fn run(mut self, ready: impl FnOnce()) -> anyhow::Result<()> {
        let mut reactor = Reactor::with_waker(self.pace.waker.clone())?;
        self.token = Some(reactor.io().connect(&Transport::Plain, self.address, None)?);
        self.answer_due_us = Some(now_us() + ANSWER_MAX_US);
        let (mut ready, mut stop_by_us) = (Some(ready), None);
        while self.end.is_none() {
            if self.is_connected
                && let Some(ready) = ready.take()
            {
                ready();
            }
            if self.pace.is_stopping() {
                let stop_by_us = *stop_by_us.get_or_insert_with(|| now_us() + STOP_MAX_US);
                if now_us() >= stop_by_us || self.is_settled(reactor.io()) {
                    return self.leave(&mut reactor);
                }
            }
            let feed = Some(&self.feed).filter(|_| self.is_connected && self.pace.is_running());
            let dues = [
                self.answer_due_us,
                stop_by_us,
                self.client.poll_timeout(),
                feed.and_then(Feed::poll_timeout),
            ];
            let due_us = dues.into_iter().flatten().min();
            let wait = due_us.map(|us| Duration::from_micros(us.saturating_sub(now_us())));
            reactor.turn(wait, &mut self)?;
        }
        bail!("{}: {}", self.address, self.end.unwrap_or_default())
    }

    fn is_settled(&self, io: &Io) -> bool {
        let is_written = self.token.is_none_or(|token| io.pending(token) == 0);
        !self.is_connected || self.client.open_count() == 0 && is_written
    }

    /// Says DISCONNECT and lets the last bytes leave.
    fn leave(&mut self, reactor: &mut Reactor) -> anyhow::Result<()> {
        let Some(token) = self.token.take() else { return Ok(()) };
        let open = self.client.open_count();
        if !self.is_connected {
            reactor.io().abort(token);
            return Ok(());
        }
        (self.answer_due_us, self.is_connected) = (None, false);
        self.client.disconnect(&mut Port { io: reactor.io(), token });
        reactor.io().close(token);
        // The reactor cuts what lingers too long.
        while reactor.io().connections() > 0 {
            reactor.turn(None, self)?;
        }
        anyhow::ensure!(open == 0, "stopped with {open} messages that nobody has acknowledged");
        Ok(())
    }

    fn publish_due(&mut self, io: &mut Io, now_us: u64) {
        let Some(token) = self.token.filter(|_| self.is_connected) else { return };
        if !self.pace.is_running() {
            return;
        }
        for _ in 0..self.feed.due(now_us) {
            let has_room = io.pending(token) <= OUTPUT_BYTES_MAX;
            let mut port = Port { io, token };
            let Self { client, scratch, feed, .. } = self;
            let mut publish = || client.publish(feed.message(), 0, now_us, scratch, &mut port);
            if !has_room || publish().is_err() {
                self.feed.blocked();
                return;
            }
            self.feed.sent();
            self.pace.add_done();
        }
    }
}

impl Handler for Publishes<'_> {
    fn connected(&mut self, io: &mut Io, token: Token) {
        let options = ConnectOptions {
            version: Version::V311,
            client_id: &self.client_id,
            clean_start: true,
            keep_alive_s: KEEP_ALIVE_S,
            session_expiry_s: 0,
            user_name: None,
            password: None,
        };
        self.client.connect(&options, now_us(), &mut Port { io, token });
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        if self.token != Some(token) {
            return bytes.len();
        }
        let mut ear = Ear { port: Port { io, token }, heard: Heard::default() };
        let handled = self.client.handle(bytes, now_us(), &mut ear);
        let Heard { is_connected, refused, end } = ear.heard;
        self.answer_due_us = None;
        self.is_connected |= is_connected;
        (0..refused).for_each(|_| self.pace.add_failed());
        self.end = self.end.take().or(end);
        handled.unwrap_or_else(|error| {
            self.end = Some(error.to_string());
            bytes.len()
        })
    }

    fn closed(&mut self, _io: &mut Io, token: Token, cause: Closed) {
        if self.token != Some(token) {
            return;
        }
        self.pace.add_failed();
        self.token = None;
        self.end.get_or_insert_with(|| match cause {
            Closed::ByPeer => "it closed the connection".into(),
            Closed::Error(errno) => std::io::Error::from(errno).to_string(),
            Closed::Transport(error) => error.to_string(),
        });
    }

    fn turn_end(&mut self, io: &mut Io) {
        let now_us = io.turn_us();
        if self.answer_due_us.is_some_and(|due_us| due_us <= now_us) {
            self.end = Some("no answer came".into());
        }
        if let Some(token) = self.token
            && self.client.poll_timeout().is_some_and(|due_us| due_us <= now_us)
        {
            self.client.handle_timeout(now_us, &mut Port { io, token });
            self.answer_due_us.get_or_insert(now_us + ANSWER_MAX_US);
        }
        self.publish_due(io, now_us);
    }
}

/// Hears the server's answers.
struct Ear<'a> {
    port: Port<'a>,
    heard: Heard,
}

#[derive(Default)]
struct Heard {
    is_connected: bool,
    /// Messages.
    refused: u64,
    end: Option<String>,
}

impl Sink for Ear<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.port.write(bytes);
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Connected { .. } => self.heard.is_connected = true,
            Event::Acknowledged { reason, .. } => {
                self.heard.refused += u64::from(reason.is_error());
            }
            Event::Refused(reason) => {
                self.heard.end = Some(format!("it refused the connection: {}", reason.name()));
            }
            Event::Disconnected(reason) => {
                self.heard.end = Some(format!("it ended the connection: {}", reason.name()));
            }
            Event::Message(_) | Event::Subscribed { .. } | Event::Unsubscribed { .. } => {}
        }
    }
}
