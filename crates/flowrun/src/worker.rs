//! One client on its thread: subscribed on each new connection, read no faster than the broker
//! takes its results, ended in good order. What the messages on it mean is [`Link`]'s.

use crate::Error;
use crate::control::{Control, Notice};
use crate::counts::Count;
use crate::gather::Gather;
use crate::link::{Link, Port};
use crate::options::Settings;
use crate::work::Work;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use weir_client::{Ear, Heard};
use weir_connection::{ANSWER_MAX_US, Connection, Policy, TLS_OPTIONS, until};
use weir_flow::RuleCounts;
use weir_reactor::{Closed, Handler, Io, Reactor, Token, now_us};
use weir_say::noteln;
use weir_wire::packet::{Connect, RetainHandling, SubscribeBuf, SubscriptionOptions};
use weir_wire::{Properties, PropertiesBuf, Property, ReasonCode};

/// How long the last acknowledgements may take once the end was asked for.
const STOP_MAX_US: u64 = 2_000_000;

/// Rests between two tries to connect again.
const RESTS_US: std::ops::RangeInclusive<u64> = 100_000..=10_000_000;

/// Output that may wait for the broker before no more is read.
const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// One client, and what it does with messages.
pub(crate) struct Worker<'a, W> {
    settings: &'a Settings,
    control: &'a Control,
    thread: usize,
    client_id: String,
    work: W,
    link: Link,
    gather: Gather,
    connection: Connection<'a, Error>,
    /// The broker has acknowledged the subscriptions of the session that it had last.
    is_subscribed: bool,
    stop_by_us: Option<u64>,
}

impl<'a, W: Work> Worker<'a, W> {
    pub(crate) fn new(
        settings: &'a Settings,
        control: &'a Control,
        thread: usize,
        work: W,
    ) -> Self {
        let policy = Policy {
            transport: settings.transport.clone(),
            source: None,
            comes_back: settings.comes_back,
            rests_us: RESTS_US,
            is_quiet: settings.is_quiet,
            options: "--broker",
            tls_options: TLS_OPTIONS,
        };
        Self {
            settings,
            control,
            thread,
            client_id: settings.client_id(thread),
            work,
            link: Link::new(settings.version, settings.in_flight_max),
            gather: Gather::new(settings.gather_us),
            connection: Connection::new(&settings.address, policy),
            is_subscribed: false,
            stop_by_us: None,
        }
    }

    /// Runs until the end is asked for, or it fails: no connection, a refusal, a broker that
    /// breaks the protocol, results left open at the end. Says too what each rule did.
    pub(crate) fn run(mut self) -> (Result<(), Error>, Vec<RuleCounts>) {
        // One that breaks down is an end as well: nobody may wait for it.
        let served = catch_unwind(AssertUnwindSafe(|| self.serve()));
        let broke_down = || Err(std::io::Error::other("a thread of the flow broke down").into());
        let result = served.unwrap_or_else(|_| broke_down());
        self.control.publish(self.thread, &self.link.counts);
        (result, self.work.rule_counts())
    }

    fn serve(&mut self) -> Result<(), Error> {
        let mut reactor = Reactor::with_waker(self.control.waker(self.thread))?;
        self.connection.begin(reactor.io(), &mut self.link)?;
        while self.connection.end.is_none() && !self.is_over(reactor.io()) {
            let wait = self.poll_timeout().map(until);
            reactor.turn(wait, self)?;
            self.rest(reactor.io());
        }
        let results = self.link.open_results();
        self.leave(&mut reactor)?;
        let end = if results > 0 { Err(Error::Unfinished { results }) } else { Ok(()) };
        self.connection.end.take().unwrap_or(end)
    }

    /// Lets messages gather, unless somebody waits for what is open or something is there already.
    fn rest(&mut self, io: &Io) {
        let rest = self.gather.rest(io.turn_us(), now_us());
        let is_idle = || self.link.is_settled() && !io.has_work() && !self.control.is_stopping();
        if rest > Duration::ZERO && is_idle() {
            std::thread::sleep(rest.min(self.poll_timeout().map_or(rest, until)));
        }
    }

    /// Whether the end was asked for and nothing more is to be waited for.
    fn is_over(&mut self, io: &mut Io) -> bool {
        if !self.control.is_stopping() {
            return false;
        }
        let now_us = now_us();
        let stop_by_us = *self.stop_by_us.get_or_insert(now_us + STOP_MAX_US);
        self.connection.stay_away();
        let token = self.connection.token().filter(|_| self.link.client.is_live());
        let Some(token) = token else { return true };
        if self.link.paused_us.take().is_some() {
            // For the acknowledgements; messages are left to the broker.
            io.resume(token);
        }
        now_us >= stop_by_us || self.link.is_settled() && io.pending(token) == 0
    }

    fn poll_timeout(&self) -> Option<u64> {
        let dues = [
            self.connection.poll_timeout(),
            self.link.paused_us.map(|since_us| since_us + ANSWER_MAX_US),
            self.stop_by_us,
            self.link.client.poll_timeout(),
        ];
        dues.into_iter().flatten().min()
    }

    fn fail(&mut self, io: &mut Io, error: impl Into<Error>) {
        self.connection.fail(io, &mut self.link, error);
    }

    /// Everything but PUBLISH: one packet.
    fn packet(&mut self, io: &mut Io, token: Token, bytes: &[u8], now_us: u64) {
        let mut port = Port { io, token, now_us };
        let mut ear = Ear::new(&mut port);
        let result = self.link.client.handle(bytes, now_us, &mut ear);
        let Ear { heard, why, .. } = ear;
        if let Err(error) = result {
            return self.fail(io, weir_connection::Error::from(error));
        }
        match heard {
            // Nothing is unsubscribed.
            Heard::Nothing | Heard::Unsubscribed => {}
            Heard::Acknowledged { tag, reason } => self.link.answered(tag, reason, &mut port),
            Heard::Connected { session_present, limits } => {
                self.link.limit_packets(limits.packet_bytes_max);
                match self.settings.lacking(&limits) {
                    Some(lacks) => {
                        let (address, lacks) = (self.settings.address.to_string(), lacks.into());
                        self.fail(io, Error::Unsupported { address, lacks });
                    }
                    None => self.link.subscribe_due = Some(session_present),
                }
            }
            Heard::Refused(reason) => self.connection.refused(io, &mut self.link, reason, why),
            Heard::Disconnected(reason) => {
                self.connection.disconnected(io, &mut self.link, reason, why);
            }
            Heard::Subscribed(codes) => self.subscribed(io, &codes, why),
        }
    }

    /// Writes SUBSCRIBE, unless the broker still has what this process asked for.
    fn subscribe(&mut self, io: &mut Io, session_present: bool) {
        let Some(token) = self.connection.token() else { return };
        let has_all = session_present && self.is_subscribed;
        if has_all || self.settings.subscriptions.is_empty() {
            return self.ready();
        }
        self.is_subscribed = false;
        let mut filters = SubscribeBuf::new();
        for subscription in &self.settings.subscriptions {
            let retain_handling =
                if session_present { RetainHandling::SendIfNew } else { RetainHandling::Send };
            let options = SubscriptionOptions {
                qos: subscription.qos,
                no_local: false,
                retain_as_published: true,
                retain_handling,
            };
            filters.push(&subscription.text(), options);
        }
        let mut port = Port { io, token, now_us: now_us() };
        self.connection.expect_answer(port.now_us);
        self.link.client.subscribe_with(&filters, Properties::EMPTY, port.now_us, &mut port);
    }

    fn subscribed(&mut self, io: &mut Io, codes: &[u8], why: Option<String>) {
        for (subscription, &code) in self.settings.subscriptions.iter().zip(codes) {
            let filter = subscription.text();
            if code >= ReasonCode::UnspecifiedError as u8 {
                let reason = ReasonCode::from_u8(code).unwrap_or(ReasonCode::UnspecifiedError);
                return self.fail(io, Error::NotSubscribed { filter, reason, why });
            }
            if code < subscription.qos as u8 && !self.settings.is_quiet {
                noteln!("weir: the broker grants QoS {code} for {filter}");
            }
        }
        self.is_subscribed = true;
        self.ready();
    }

    fn ready(&mut self) {
        self.connection.answered();
        if self.connection.works() {
            self.control.tell(Notice::Ready);
        }
    }

    /// Does what has become due.
    fn handle_timeout(&mut self, io: &mut Io, now_us: u64) {
        let is_due = |due_us: Option<u64>| due_us.is_some_and(|due_us| due_us <= now_us);
        self.connection.handle_timeout(io, &mut self.link, now_us);
        if is_due(self.link.paused_us.map(|since_us| since_us + ANSWER_MAX_US)) {
            self.lost(io, format!("it read nothing for {} s", ANSWER_MAX_US / 1_000_000));
        }
        let Some(token) = self.connection.token() else { return };
        if is_due(self.link.client.poll_timeout()) {
            self.link.client.handle_timeout(now_us, &mut Port { io, token, now_us });
            if self.link.paused_us.is_none() {
                self.connection.expect_answer(now_us);
            }
        }
    }

    fn lost(&mut self, io: &mut Io, cause: String) {
        self.connection.lost(io, &mut self.link, cause);
    }

    /// Ends the connection in good order and makes it again, if that makes room.
    fn renew(&mut self, io: &mut Io, now_us: u64) {
        let Some(token) = self.connection.token() else { return };
        // Before that it cannot be made again.
        if self.link.is_to_be_renewed() && self.is_subscribed {
            self.link.client.disconnect(&mut Port { io, token, now_us });
            self.connection.renew(io, &mut self.link);
        }
    }

    /// Says DISCONNECT and lets the last bytes leave.
    fn leave(&mut self, reactor: &mut Reactor) -> Result<(), Error> {
        let Some(token) = self.connection.take_token() else { return Ok(()) };
        if !self.link.client.is_live() {
            // Nothing was said yet, and one that is being connected may take minutes to end.
            reactor.io().abort(token);
            return Ok(());
        }
        self.link.paused_us = None;
        let mut port = Port { io: reactor.io(), token, now_us: now_us() };
        self.link.client.disconnect(&mut port);
        reactor.io().close(token);
        // The reactor cuts what lingers too long.
        while reactor.io().connections() > 0 {
            reactor.turn(None, self)?;
        }
        Ok(())
    }

    fn connect_packet(&mut self, port: &mut Port<'_>) {
        let Settings { version, address, .. } = self.settings;
        let mut properties = PropertiesBuf::new();
        if version.is_v5() {
            properties.push(Property::ReceiveMaximum(self.settings.in_flight_max));
            if self.settings.session_expiry_s > 0 {
                properties.push(Property::SessionExpiryInterval(self.settings.session_expiry_s));
            }
        }
        let connect = Connect {
            version: *version,
            clean_start: !self.settings.is_session_kept,
            keep_alive_s: self.settings.keep_alive_s,
            client_id: &self.client_id,
            will: None,
            user_name: address.user_name.as_deref(),
            password: address.password.as_deref().map(str::as_bytes),
            properties: properties.as_properties(),
        };
        self.link.client.connect_with(&connect, port.now_us, port);
    }
}

impl<W: Work> Handler for Worker<'_, W> {
    fn turn_begin(&mut self, _io: &mut Io) {
        if self.control.is_stopping() {
            self.connection.stay_away();
        }
    }

    fn connected(&mut self, io: &mut Io, token: Token) {
        self.connect_packet(&mut Port { io, token, now_us: now_us() });
    }

    fn received(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let (mut at, now_us) = (0, io.turn_us());
        let is_stopping = self.control.is_stopping();
        while self.connection.token() == Some(token) {
            let rest = &bytes[at..];
            match self.link.client.peek_message(rest) {
                Ok(Some((_, bytes))) if is_stopping => {
                    self.link.counts.add(Count::Left, 1);
                    at += bytes;
                }
                Ok(Some((publish, bytes))) => {
                    let mut port = Port { io, token, now_us };
                    at += bytes;
                    self.gather.took(publish.qos);
                    self.link.message(&publish, &mut self.work, &mut port);
                }
                Ok(None) => {
                    let packet = match self.link.client.frame(rest) {
                        Ok(None) => break,
                        Ok(Some(frame)) => &rest[..frame.bytes],
                        // What is no packet goes to the client as it is, for its error.
                        Err(_) => rest,
                    };
                    at += packet.len();
                    self.packet(io, token, packet, now_us);
                }
                Err(error) => self.fail(io, weir_connection::Error::from(error)),
            }
        }
        if self.connection.token() != Some(token) {
            return bytes.len();
        }
        if self.link.client.is_live() && self.link.subscribe_due.is_none() {
            // Part of a long packet is an answer too.
            self.connection.answered();
        }
        if io.pending(token) > OUTPUT_BYTES_MAX && self.link.paused_us.is_none() && !is_stopping {
            io.pause(token);
            self.link.paused_us = Some(now_us);
            self.connection.answered();
        }
        at
    }

    fn drained(&mut self, io: &mut Io, token: Token) {
        if self.connection.token() == Some(token) && self.link.paused_us.take().is_some() {
            io.resume(token);
        }
    }

    fn closed(&mut self, io: &mut Io, token: Token, cause: Closed) {
        self.connection.closed(io, &mut self.link, token, cause);
    }

    fn turn_end(&mut self, io: &mut Io) {
        let now_us = io.turn_us();
        if self.connection.end.is_none() {
            if let Some(session_present) = self.link.subscribe_due.take() {
                self.subscribe(io, session_present);
            }
            self.handle_timeout(io, now_us);
            self.renew(io, now_us);
        }
        self.control.publish(self.thread, &self.link.counts);
    }
}
