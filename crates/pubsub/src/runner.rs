//! One client on one reactor: hands its task what happens, pings, leaves in good order.

use crate::options::Settings;
use crate::patience::Patience;
use crate::{Error, trace};
use std::sync::atomic::{AtomicBool, Ordering};
use weir_client::{Client, Event, PublishError, Sink};
use weir_connection::{ANSWER_MAX_US, Connection, Policy, Shown, TLS_OPTIONS, until};
use weir_reactor::{Closed, Handler, Io, Reactor, Token, now_us};
use weir_say::noteln;
use weir_wire::packet::{Disconnect, SubscribeBuf, UnsubscribeBuf};
use weir_wire::{Frame, Packet, Properties, Property, QoS, ReasonCode};

/// Rest between two tries to connect again.
const REST_US: u64 = 1_000_000;

/// Output that may wait for the broker before no more is written.
pub(crate) const OUTPUT_BYTES_MAX: usize = 64 * 1024;

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

    /// While the broker owes answers: how many it has given.
    fn owed(&self) -> Option<u64>;

    /// What it has not answered, for an error.
    fn unanswered(&self) -> String;

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
pub(crate) fn run<T: Task>(
    reactor: &mut Reactor,
    settings: &Settings,
    task: &mut T,
    timeout_s: Option<u32>,
    stop: &AtomicBool,
) -> Result<(), Error> {
    let until_us = timeout_s.map(|seconds| now_us() + u64::from(seconds) * 1_000_000);
    let policy = Policy {
        transport: settings.transport.clone(),
        source: settings.source,
        comes_back: T::CONNECTS_AGAIN,
        rests_us: REST_US..=REST_US,
        is_quiet: settings.is_quiet,
        options: "-h and -p",
        tls_options: TLS_OPTIONS,
    };
    let mut runner = Runner {
        settings,
        task,
        client: Client::new(settings.version),
        scratch: Vec::new(),
        connection: Connection::new(&settings.address, policy),
        patience: Patience::new(settings.answer_timeout_s),
        why: None,
    };
    runner.connection.begin(reactor.io(), &mut runner.client)?;
    while runner.connection.end.is_none() {
        if stop.load(Ordering::Acquire) {
            runner.connection.end = Some(Ok(()));
            break;
        }
        let due_us = [runner.poll_timeout(), until_us].into_iter().flatten().min();
        reactor.turn(due_us.map(until), &mut runner)?;
        if let Some(seconds) = timeout_s
            && until_us <= Some(now_us())
            && runner.connection.end.is_none()
        {
            runner.connection.end = Some(Err(Error::TimedOut { seconds }));
        }
    }
    runner.leave(reactor)?;
    runner.connection.end.unwrap_or(Ok(()))
}

/// A task with its client and their connection.
struct Runner<'a, T> {
    settings: &'a Settings,
    task: &'a mut T,
    client: Client,
    scratch: Vec<u8>,
    connection: Connection<'a, Error>,
    patience: Patience,
    /// Reason string of the last packet.
    why: Option<String>,
}

impl<T: Task> Runner<'_, T> {
    fn poll_timeout(&self) -> Option<u64> {
        let task = self.task.poll_timeout().filter(|_| self.client.is_live());
        let patience = self.patience.poll_timeout();
        let dues = [self.connection.poll_timeout(), self.client.poll_timeout(), task, patience];
        dues.into_iter().flatten().min()
    }

    /// Gives a broker up that owes an answer for too long; `pending` bytes were still to be sent.
    fn check_patience(&mut self, io: &mut Io, pending: usize, now_us: u64) {
        let owed = self.task.owed().filter(|_| self.client.is_live());
        if !self.patience.look(owed.map(|answers| (answers, pending)), now_us) {
            return;
        }
        let seconds = self.settings.answer_timeout_s;
        if T::CONNECTS_AGAIN && owed > Some(0) {
            let cause = format!("no answer within {seconds} s");
            self.connection.lost(io, &mut self.client, cause);
        } else {
            let owed = self.task.unanswered();
            self.connection.end = Some(Err(Error::NoAnswer { seconds, owed }));
        }
    }

    /// Does what has become due.
    fn handle_timeout(&mut self, io: &mut Io, now_us: u64) {
        self.connection.handle_timeout(io, &mut self.client, now_us);
        let Some(token) = self.connection.token() else { return };
        if self.client.poll_timeout().is_some_and(|due_us| due_us <= now_us) {
            let mut writer = Writer { io, token, settings: self.settings };
            self.client.handle_timeout(now_us, &mut writer);
            self.connection.expect_answer(now_us);
        }
    }

    fn act(&mut self, io: &mut Io, now_us: u64) -> Result<(), Error> {
        let token = self.connection.token().filter(|_| self.client.is_live());
        let Some(token) = token else { return Ok(()) };
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
            self.connection.works();
        }
        let Self { client, connection, .. } = self;
        match (result, end) {
            (Err(error), _) => connection.fail(io, client, weir_connection::Error::from(error)),
            (Ok(_), Some(End::Refused(reason))) => {
                connection.refused(io, client, reason, self.why.take());
            }
            (Ok(_), Some(End::Disconnected(reason))) => {
                connection.disconnected(io, client, reason, self.why.take());
            }
            (Ok(_), None) => {}
        }
        connection.end.is_none() && connection.token() == Some(token) && !self.task.is_done()
    }

    /// Says DISCONNECT and lets the last bytes leave.
    fn leave(&mut self, reactor: &mut Reactor) -> Result<(), Error> {
        let Some(token) = self.connection.token() else { return Ok(()) };
        let properties = self.settings.properties.of(crate::property::Place::Disconnect);
        let disconnect = Disconnect { reason: ReasonCode::Success, properties };
        let mut writer = Writer { io: reactor.io(), token, settings: self.settings };
        self.client.disconnect_with(&disconnect, &mut writer);
        let is_ok = matches!(self.connection.end, Some(Ok(())));
        if !self.flush(reactor, token)? && is_ok {
            let address = self.settings.address.to_string();
            let cause = "it took not all bytes".into();
            let error = weir_connection::Error::Lost { address, cause };
            self.connection.end = Some(Err(error.into()));
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
        let mut due_us = now_us() + ANSWER_MAX_US;
        while left > 0 && self.connection.token().is_some() && now_us() < due_us {
            reactor.turn(Some(until(due_us)), self)?;
            let pending = reactor.io().pending(token);
            if pending < left {
                (left, due_us) = (pending, now_us() + ANSWER_MAX_US);
            }
        }
        Ok(left == 0)
    }
}

impl<T: Task> Handler for Runner<'_, T> {
    fn connected(&mut self, io: &mut Io, token: Token) {
        let settings = self.settings;
        let mut writer = Writer { io, token, settings };
        self.client.connect_with(&settings.connect(), now_us(), &mut writer);
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let mut at = 0;
        // One packet at a time: what comes after the last one wanted is not acknowledged.
        while self.connection.end.is_none()
            && let Some(frame) = self.client.frame(&bytes[at..]).transpose()
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
            self.connection.answered();
        }
        if self.connection.end.is_some() || self.task.is_done() { bytes.len() } else { at }
    }

    fn closed(&mut self, io: &mut Io, token: Token, cause: Closed) {
        self.connection.closed(io, &mut self.client, token, cause);
    }

    fn turn_end(&mut self, io: &mut Io) {
        if self.connection.end.is_some() {
            return;
        }
        let now_us = now_us();
        // Before a ping is added.
        let pending = self.connection.token().map_or(0, |token| io.pending(token));
        self.handle_timeout(io, now_us);
        let acted = self.act(io, now_us).and_then(|()| self.task.turn_end());
        match acted {
            Err(error) => self.connection.end = Some(Err(error)),
            Ok(()) if self.task.is_done() => self.connection.end = Some(Ok(())),
            Ok(()) => self.check_patience(io, pending, now_us),
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
            noteln!("sent {}", Shown(&trace::line(&packet)));
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
            noteln!("received {}", Shown(&trace::line(packet)));
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
