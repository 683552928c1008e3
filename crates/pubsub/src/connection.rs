//! One client on one reactor: connects, hands its task what happens, pings, leaves in good order.

use crate::options::Settings;
use crate::{Error, trace};
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir_client::{Client, Event, PublishError, Sink};
use weir_reactor::{Closed, Handler, Io, Reactor, Token, Transport, now_us};
use weir_wire::packet::{Disconnect, SubscribeBuf, UnsubscribeBuf};
use weir_wire::{Frame, Packet, Properties, Property, QoS, ReasonCode};

/// How long the broker may take to accept the connection, to answer CONNECT or a PINGREQ, and to
/// take the last bytes.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Rest between two tries to connect again.
const AGAIN: Duration = Duration::from_secs(1);

/// What a client is there for.
pub(crate) trait Task {
    /// Whether a lost connection is made again.
    const CONNECTS_AGAIN: bool;

    /// A packet came; its event follows.
    fn packet(&mut self, packet: &Packet<'_>);

    /// Something happened.
    fn event(&mut self, event: Event<'_>);

    /// Nothing more is wanted, not even the next packet.
    fn is_done(&self) -> bool;

    /// All input of a turn has been handled and the client is connected: writes what is due.
    fn act(&mut self, port: &mut Port<'_>) -> Result<(), Error>;

    /// The turn ends, connected or not.
    fn turn_end(&mut self) -> Result<(), Error>;

    /// When [`Task::act`] is to be called, in microseconds.
    fn poll_timeout(&self) -> Option<u64>;
}

/// A client's way to write.
pub(crate) struct Port<'a> {
    client: &'a mut Client,
    scratch: &'a mut Vec<u8>,
    writer: Writer<'a>,
    pub(crate) now_us: u64,
}

impl Port<'_> {
    /// Bytes that wait to be sent.
    pub(crate) fn pending(&self) -> usize {
        self.writer.io.pending(self.writer.token)
    }

    pub(crate) fn can_publish(&self, qos: QoS) -> bool {
        self.client.can_publish(qos)
    }

    pub(crate) fn publish(
        &mut self,
        message: (&str, &[u8], QoS, bool),
        properties: Properties<'_>,
        tag: u64,
    ) -> Result<(), PublishError> {
        let Self { client, scratch, writer, now_us } = self;
        client.publish_with(message, properties, tag, *now_us, scratch, writer)
    }

    pub(crate) fn subscribe(&mut self, filters: &SubscribeBuf, properties: Properties<'_>) {
        self.client.subscribe_with(filters, properties, self.now_us, &mut self.writer);
    }

    pub(crate) fn unsubscribe(&mut self, filters: &UnsubscribeBuf, properties: Properties<'_>) {
        self.client.unsubscribe_with(filters, properties, self.now_us, &mut self.writer);
    }
}

/// Runs `task` until it is done, `stop` is set (and the reactor woken), or it fails.
pub(crate) fn run(
    reactor: &mut Reactor,
    settings: &Settings,
    task: &mut impl Task,
    timeout_s: Option<u32>,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let until_us = timeout_s.map(|seconds| now_us() + u64::from(seconds) * 1_000_000);
    let mut connection = Connection {
        settings,
        task,
        client: Client::new(settings.version),
        scratch: Vec::new(),
        addresses: resolve(settings)?,
        tried: 0,
        token: None,
        answer_due_us: None,
        connect_again_us: None,
        was_live: false,
        why: None,
        end: None,
    };
    connection.connect(reactor.io());
    while connection.end.is_none() {
        if stop.load(Ordering::Acquire) {
            connection.end = Some(Ok(()));
            break;
        }
        let due_us = [connection.poll_timeout(), until_us].into_iter().flatten().min();
        reactor.turn(due_us.map(until), &mut connection)?;
        if let Some(seconds) = timeout_s
            && until_us <= Some(now_us())
            && connection.end.is_none()
        {
            connection.end = Some(Err(Error::TimedOut { seconds }));
        }
    }
    connection.leave(reactor)?;
    connection.end.unwrap_or(Ok(()))
}

fn until(due_us: u64) -> Duration {
    Duration::from_micros(due_us.saturating_sub(now_us()))
}

fn resolve(settings: &Settings) -> Result<Vec<SocketAddr>, Error> {
    let found = (settings.host.as_str(), settings.port).to_socket_addrs();
    let addresses = found.map_err(|error| unreachable(settings, error.to_string()))?;
    // An address of the other family cannot be reached from the one given.
    let is_near = |address: &SocketAddr| {
        settings.source.is_none_or(|source| source.is_ipv4() == address.is_ipv4())
    };
    let addresses: Vec<_> = addresses.filter(is_near).collect();
    if addresses.is_empty() {
        return Err(unreachable(settings, "it has no address that could be reached".into()));
    }
    Ok(addresses)
}

fn unreachable(settings: &Settings, cause: String) -> Error {
    Error::Unreachable { address: settings.address(), cause }
}

struct Connection<'a, T> {
    settings: &'a Settings,
    task: &'a mut T,
    client: Client,
    scratch: Vec<u8>,
    addresses: Vec<SocketAddr>,
    /// How many of the addresses were tried.
    tried: usize,
    token: Option<Token>,
    /// When the broker's silence is taken for its end.
    answer_due_us: Option<u64>,
    connect_again_us: Option<u64>,
    was_live: bool,
    /// Reason string of the last packet.
    why: Option<String>,
    end: Option<Result<(), Error>>,
}

impl<T: Task> Connection<'_, T> {
    fn poll_timeout(&self) -> Option<u64> {
        let task = self.task.poll_timeout().filter(|_| self.client.is_live());
        let dues = [self.answer_due_us, self.connect_again_us, self.client.poll_timeout(), task];
        dues.into_iter().flatten().min()
    }

    /// Begins to connect to the next address.
    fn connect(&mut self, io: &mut Io) {
        let address = self.addresses[self.tried];
        self.tried += 1;
        self.connect_again_us = None;
        match io.connect(&Transport::Plain, address, self.settings.source) {
            Ok(token) => {
                self.token = Some(token);
                self.answer_due_us = Some(now_us() + ANSWER_MAX.as_micros() as u64);
            }
            Err(error) => self.failed(io, error.to_string()),
        }
    }

    /// No connection came about.
    fn failed(&mut self, io: &mut Io, cause: String) {
        self.drop_socket(io);
        if self.tried < self.addresses.len() {
            return self.connect(io);
        }
        self.give_up(unreachable(self.settings, cause));
    }

    /// The connection, which was there, is gone.
    fn lost(&mut self, io: &mut Io, error: Error) {
        self.drop_socket(io);
        if T::CONNECTS_AGAIN && !self.settings.is_quiet {
            eprintln!("weir: {error}; connecting again");
        }
        self.give_up(error);
    }

    /// Ends, or waits a little if the task outlives its connection.
    fn give_up(&mut self, error: Error) {
        if T::CONNECTS_AGAIN && self.was_live {
            self.tried = 0;
            self.connect_again_us = Some(now_us() + AGAIN.as_micros() as u64);
        } else {
            self.end = Some(Err(error));
        }
    }

    fn drop_socket(&mut self, io: &mut Io) {
        self.answer_due_us = None;
        self.client.closed();
        if let Some(token) = self.token.take() {
            io.abort(token);
        }
    }

    fn disconnected(&mut self, io: &mut Io, reason: ReasonCode) {
        let (address, why) = (self.settings.address(), self.why.take());
        let error = Error::Disconnected { address, reason, why };
        let passes = matches!(
            reason,
            ReasonCode::ServerShuttingDown
                | ReasonCode::KeepAliveTimeout
                | ReasonCode::MaximumConnectTime
        );
        if passes {
            return self.lost(io, error);
        }
        self.drop_socket(io);
        self.end = Some(Err(error));
    }

    /// Does what has become due.
    fn handle_timeout(&mut self, io: &mut Io, now_us: u64) {
        if self.answer_due_us.is_some_and(|due_us| due_us <= now_us) {
            let cause = format!("no answer within {} s", ANSWER_MAX.as_secs());
            if self.client.is_live() {
                let address = self.settings.address();
                self.lost(io, Error::Lost { address, cause });
            } else {
                self.failed(io, cause);
            }
        }
        if self.connect_again_us.is_some_and(|due_us| due_us <= now_us) {
            self.connect(io);
        }
        let Some(token) = self.token else { return };
        if self.client.poll_timeout().is_some_and(|due_us| due_us <= now_us) {
            let mut writer = Writer { io, token, settings: self.settings };
            self.client.handle_timeout(now_us, &mut writer);
            self.answer_due_us.get_or_insert(now_us + ANSWER_MAX.as_micros() as u64);
        }
    }

    fn act(&mut self, io: &mut Io, now_us: u64) -> Result<(), Error> {
        let Some(token) = self.token.filter(|_| self.client.is_live()) else { return Ok(()) };
        let writer = Writer { io, token, settings: self.settings };
        let (client, scratch) = (&mut self.client, &mut self.scratch);
        self.task.act(&mut Port { client, scratch, writer, now_us })
    }

    /// One packet. Says whether to go on with the next.
    fn handle(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> bool {
        let mut ear = Ear {
            writer: Writer { io, token, settings: self.settings },
            task: self.task,
            why: None,
            end: None,
        };
        let result = self.client.handle(bytes, now_us(), &mut ear);
        let Ear { why, end, .. } = ear;
        self.why = why;
        if self.client.is_live() {
            self.was_live = true;
        }
        match (result, end) {
            (Err(error), _) => {
                self.drop_socket(io);
                self.end = Some(Err(error.into()));
            }
            (Ok(_), Some(End::Refused(reason))) => {
                let (address, why) = (self.settings.address(), self.why.take());
                self.drop_socket(io);
                self.end = Some(Err(Error::Refused { address, reason, why }));
            }
            (Ok(_), Some(End::Disconnected(reason))) => self.disconnected(io, reason),
            (Ok(_), None) => {}
        }
        self.end.is_none() && self.token == Some(token) && !self.task.is_done()
    }

    /// Says DISCONNECT and lets the last bytes leave.
    fn leave(&mut self, reactor: &mut Reactor) -> Result<(), Error> {
        let Some(token) = self.token else { return Ok(()) };
        let properties = self.settings.properties.of(crate::property::Place::Disconnect);
        let disconnect = Disconnect { reason: ReasonCode::Success, properties };
        let mut writer = Writer { io: reactor.io(), token, settings: self.settings };
        self.client.disconnect_with(&disconnect, &mut writer);
        let is_ok = matches!(self.end, Some(Ok(())));
        if !self.flush(reactor, token)? && is_ok {
            let (address, cause) = (self.settings.address(), "it took not all bytes".into());
            self.end = Some(Err(Error::Lost { address, cause }));
        }
        reactor.io().close(token);
        // The reactor cuts what lingers too long.
        while reactor.io().connections() > 0 {
            reactor.turn(None, self)?;
        }
        Ok(())
    }

    /// Lets all output leave, as long as some of it does. Says whether all did.
    fn flush(&mut self, reactor: &mut Reactor, token: Token) -> Result<bool, Error> {
        let mut left = reactor.io().pending(token);
        let mut due_us = now_us() + ANSWER_MAX.as_micros() as u64;
        while left > 0 && self.token.is_some() && now_us() < due_us {
            reactor.turn(Some(until(due_us)), self)?;
            let pending = reactor.io().pending(token);
            if pending < left {
                (left, due_us) = (pending, now_us() + ANSWER_MAX.as_micros() as u64);
            }
        }
        Ok(left == 0)
    }
}

impl<T: Task> Handler for Connection<'_, T> {
    fn connected(&mut self, io: &mut Io, token: Token) {
        let settings = self.settings;
        let mut writer = Writer { io, token, settings };
        self.client.connect_with(&settings.connect(), now_us(), &mut writer);
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let mut at = 0;
        // One packet at a time: what comes after the last one wanted is not acknowledged.
        while self.end.is_none()
            && let Some(frame) = Frame::check(&bytes[at..], u32::MAX).transpose()
        {
            // What is no packet goes to the client as it is, for its error.
            let packet = frame.map_or(&bytes[at..], |frame| &bytes[at..at + frame.bytes]);
            at += packet.len();
            if !self.handle(io, token, packet) {
                break;
            }
        }
        if self.client.is_live() {
            // Part of a long packet is an answer too.
            self.answer_due_us = None;
        }
        if self.end.is_some() || self.task.is_done() { bytes.len() } else { at }
    }

    fn closed(&mut self, io: &mut Io, token: Token, cause: Closed) {
        if self.token != Some(token) {
            return;
        }
        self.token = None;
        if self.end.is_some() {
            return;
        }
        let address = self.settings.address();
        match cause {
            _ if self.client.is_live() => {
                let cause = match cause {
                    Closed::ByPeer => "it closed the connection".into(),
                    Closed::Error(errno) => errno.to_string(),
                    Closed::Transport(error) => error.to_string(),
                };
                self.lost(io, Error::Lost { address, cause });
            }
            Closed::ByPeer => {
                self.failed(io, "it closed the connection without an answer to CONNECT".into());
            }
            Closed::Transport(error) => self.failed(io, error.to_string()),
            Closed::Error(errno) => {
                let error = std::io::Error::from(errno);
                let cause = match error.kind() {
                    ErrorKind::ConnectionRefused => "nothing listens there (see -h and -p)".into(),
                    _ => error.to_string(),
                };
                self.failed(io, cause);
            }
        }
    }

    fn turn_end(&mut self, io: &mut Io) {
        if self.end.is_some() {
            return;
        }
        let now_us = now_us();
        self.handle_timeout(io, now_us);
        let acted = self.act(io, now_us).and_then(|()| self.task.turn_end());
        match acted {
            Err(error) => self.end = Some(Err(error)),
            Ok(()) if self.task.is_done() => self.end = Some(Ok(())),
            Ok(()) => {}
        }
    }
}

/// Writes to the connection, and shows it where asked to.
struct Writer<'a> {
    io: &'a mut Io,
    token: Token,
    settings: &'a Settings,
}

impl Sink for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) {
        if self.settings.is_shown
            && let Ok(Some(frame)) = Frame::check(bytes, u32::MAX)
            && let Ok(packet) = Packet::decode(self.settings.version, frame)
        {
            eprintln!("sent {}", trace::line(&packet));
        }
        self.io.write(self.token, bytes);
    }

    fn event(&mut self, _event: Event<'_>) {}
}

/// What ends a connection from the other side.
enum End {
    Refused(ReasonCode),
    Disconnected(ReasonCode),
}

/// Hears what one packet brings.
struct Ear<'a, T> {
    writer: Writer<'a>,
    task: &'a mut T,
    why: Option<String>,
    end: Option<End>,
}

impl<T: Task> Sink for Ear<'_, T> {
    fn write(&mut self, bytes: &[u8]) {
        self.writer.write(bytes);
    }

    fn packet(&mut self, packet: &Packet<'_>) {
        if self.writer.settings.is_shown {
            eprintln!("received {}", trace::line(packet));
        }
        self.why = reason_string(packet);
        self.task.packet(packet);
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Refused(reason) => self.end = Some(End::Refused(reason)),
            Event::Disconnected(reason) => self.end = Some(End::Disconnected(reason)),
            event => self.task.event(event),
        }
    }
}

/// The reason string of a packet that may have one.
pub(crate) fn reason_string(packet: &Packet<'_>) -> Option<String> {
    let properties = match packet {
        Packet::ConnAck(packet) => packet.properties,
        Packet::PubAck(packet) | Packet::PubRec(packet) | Packet::PubComp(packet) => {
            packet.properties
        }
        Packet::SubAck(packet) => packet.properties,
        Packet::UnsubAck(packet) => packet.properties,
        Packet::Disconnect(packet) => packet.properties,
        _ => return None,
    };
    properties.find(|property| match property {
        Property::ReasonString(text) => Some(text.to_owned()),
        _ => None,
    })
}
