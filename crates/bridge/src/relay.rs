//! The messages of a bridge as a value: from one client to the other, and acknowledged.
//!
//! A message of QoS 1 is acknowledged to the broker that it came from when the other broker has
//! acknowledged it, and one of QoS 2 is relayed as one of QoS 1. Nothing waits here: a broker sends
//! no more than the other one takes at the time (Receive Maximum), and what is not acknowledged
//! stays with it. So a lost connection at either end is the loss of both: the local broker keeps
//! the messages, in a session that outlives its connections, and sends them again once both are
//! there.
//!
//! Who owns the value connects the remote client first. What that one gets is left unread until
//! the local one is connected as well.

mod greeting;

use crate::counts::{Count, Shared};
use crate::hops::{HOPS_MAX, pass_on};
use crate::settings::{Dialect, Settings, Start};
use crate::side::{Port, QOS_MAX, Side, Stale};
use crate::topics::{End, Routes};
use std::collections::VecDeque;
use std::sync::Arc;
use weir_client::{ClientError, Ear, Event, Heard, OPEN_MAX, ServerLimits, Sink};
use weir_wire::packet::Publish;
use weir_wire::{PropertiesBuf, QoS, ReasonCode};

/// Output that may wait for a broker before messages of QoS 0 are dropped, in bytes.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// A PUBLISH is at most so much longer than its topic, properties and payload: fixed header,
/// lengths of topic and properties, packet identifier.
const PUBLISH_BYTES: usize = 5 + 2 + 4 + 2;

/// The tag of a message that the bridge publishes itself.
const NO_SOURCE: u64 = u64::MAX;

/// The CONNACK of a broker that knows no MQTT 5.0.
const CONNACK_BEFORE_5: &[u8] = &[0x20, 2, 0, 1];

/// What the local client is connected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// To have the session, subscribed, before there is anybody to relay to.
    Prepare,
    /// To see whether something waits.
    Watch,
    /// To relay.
    Relay,
}

/// What its owner is to know.
#[derive(Debug)]
pub(crate) enum News {
    /// CONNACK came.
    Live(End),
    /// Everything that was asked for is there: of the local client, or of both where it relays.
    Ready,
    /// So many messages wait as are worth a connection.
    Waits,
    /// The remote broker does not speak that.
    NotSpoken(Dialect),
    /// The connection is to be given up.
    Broken(End, Broken),
    /// Both connections are to be made anew at once: there was no room for all that came.
    Full,
    /// Something is wrong that ends no connection.
    Complaint(String),
}

/// Why a connection is to be given up.
#[derive(Debug)]
pub(crate) enum Broken {
    /// CONNACK refused the client.
    Refused(ReasonCode, Option<String>),
    /// DISCONNECT came.
    Disconnected(ReasonCode, Option<String>),
    /// A message is not taken now, and may be later.
    NotNow(ReasonCode, Option<String>),
    /// What came is no MQTT, or has no place there.
    Protocol(ClientError),
}

impl Broken {
    /// As a sentence about who is at the other end.
    pub(crate) fn said_of(&self, who: &str) -> String {
        let named = |reason: &ReasonCode, why: &Option<String>| {
            weir_connection::named(*reason, why.as_deref())
        };
        match self {
            Self::Refused(reason, why) => {
                format!("{who} refused the connection: {}", named(reason, why))
            }
            Self::Disconnected(reason, why) => {
                format!("{who} ended the connection: {}", named(reason, why))
            }
            Self::NotNow(reason, why) => {
                format!("{who} does not take a message now: {}", named(reason, why))
            }
            Self::Protocol(error) => format!("{who}: {error}"),
        }
    }
}

/// Two clients, and what goes from one to the other.
#[derive(Debug)]
pub(crate) struct Relay {
    settings: Arc<Settings>,
    shared: Arc<Shared>,
    local: Side,
    remote: Side,
    dialect: Dialect,
    errand: Errand,
    /// Messages that have come to a local client that only watches.
    waiting: u16,
    /// When a message came last.
    used_us: u64,
    is_ready: bool,
    news: VecDeque<News>,
    topic: String,
    properties: PropertiesBuf,
    scratch: Vec<u8>,
}

/// What becomes of a message.
enum Fate {
    /// Published, and to be acknowledged.
    Open,
    /// Nothing is to be waited for.
    Done,
    /// There is no room for it now.
    NoRoom,
}

/// One client's way out.
struct Out<'a, P> {
    port: &'a mut P,
    end: End,
}

impl<P: Port> Sink for Out<'_, P> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.port.write(self.end, bytes);
    }

    fn event(&mut self, _event: Event<'_>) {}
}

impl Relay {
    /// One that takes back what is `stale` where it is connected.
    pub(crate) fn new(settings: Arc<Settings>, shared: Arc<Shared>, stale: Stale) -> Self {
        let dialect = settings.dialects.first().copied().unwrap_or(Dialect::V5);
        let routes = |end| Routes::from(end, &settings.topics);
        Self {
            local: Side::new(routes(End::Local), stale.local, Dialect::V5),
            remote: Side::new(routes(End::Remote), stale.remote, dialect),
            settings,
            shared,
            dialect,
            errand: Errand::Prepare,
            waiting: 0,
            used_us: 0,
            is_ready: false,
            news: VecDeque::new(),
            topic: String::new(),
            properties: PropertiesBuf::new(),
            scratch: Vec::new(),
        }
    }

    /// It is over: what is still stale.
    pub(crate) fn into_stale(self) -> Stale {
        Stale { local: self.local.stale, remote: self.remote.stale }
    }

    pub(crate) fn take_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// The client of this end, for its owner's timers.
    pub(crate) fn is_live(&self, end: End) -> bool {
        self.side(end).client.is_live()
    }

    /// When a message came last.
    pub(crate) fn used_us(&self) -> u64 {
        self.used_us
    }

    /// Whether nothing waits for an acknowledgement.
    pub(crate) fn is_settled(&self) -> bool {
        self.local.sources.is_empty() && self.remote.sources.is_empty()
    }

    /// Speaks this to the remote broker from the next connection on.
    pub(crate) fn speak(&mut self, dialect: Dialect) {
        self.dialect = dialect;
    }

    fn side(&self, end: End) -> &Side {
        match end {
            End::Local => &self.local,
            End::Remote => &self.remote,
        }
    }

    fn side_mut(&mut self, end: End) -> &mut Side {
        match end {
            End::Local => &mut self.local,
            End::Remote => &mut self.remote,
        }
    }

    /// The connection of this end is gone, or is to be.
    pub(crate) fn forget(&mut self, end: End) {
        self.side_mut(end).forget();
        self.is_ready = false;
    }

    /// When [`Relay::handle_timeout`] is due.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        self.remote.client.poll_timeout()
    }

    /// Writes PINGREQ if it is due. Says whether it did.
    pub(crate) fn handle_timeout(&mut self, now_us: u64, port: &mut impl Port) -> bool {
        let is_due = self.poll_timeout().is_some_and(|due_us| due_us <= now_us);
        if is_due {
            self.remote.client.handle_timeout(now_us, &mut Out { port, end: End::Remote });
        }
        is_due
    }

    /// Whether what comes from this end can be taken: that of the remote broker has nowhere to go
    /// before the local client is connected.
    pub(crate) fn takes(&self, end: End) -> bool {
        match end {
            End::Local => true,
            End::Remote => {
                let is_joined = self.errand == Errand::Relay && self.local.client.is_live();
                is_joined || !self.remote.client.is_live()
            }
        }
    }

    /// Bytes came in at this end, those not consumed the last time first. Returns how many were
    /// consumed.
    pub(crate) fn received(
        &mut self,
        end: End,
        bytes: &[u8],
        now_us: u64,
        port: &mut impl Port,
    ) -> usize {
        let mut at = 0;
        while at < bytes.len() && !self.is_broken() && self.takes(end) {
            let rest = &bytes[at..];
            match self.side(end).client.peek_message(rest) {
                Ok(Some((publish, bytes))) => {
                    at += bytes;
                    self.message(end, &publish, now_us, port);
                }
                Ok(None) => {
                    let packet = match self.side(end).client.frame(rest) {
                        Ok(None) => break,
                        Ok(Some(frame)) => &rest[..frame.bytes],
                        // What is no packet goes to the client as it is, for its error.
                        Err(_) => rest,
                    };
                    at += packet.len();
                    self.packet(end, packet, now_us, port);
                }
                Err(error) => self.broken(end, Broken::Protocol(error)),
            }
        }
        at
    }

    /// Whether its owner has still to hear that a connection is to be given up.
    fn is_broken(&self) -> bool {
        let ends = |news: &News| matches!(news, News::Broken(..) | News::NotSpoken(_) | News::Full);
        self.news.iter().any(ends)
    }

    fn broken(&mut self, end: End, broken: Broken) {
        self.news.push_back(News::Broken(end, broken));
    }

    fn complain(&mut self, text: String) {
        self.shared.complain(&text);
        self.news.push_back(News::Complaint(text));
    }

    /// Everything but PUBLISH: one packet.
    fn packet(&mut self, end: End, bytes: &[u8], now_us: u64, port: &mut impl Port) {
        let was_live = self.is_live(end);
        if !was_live && self.dialect == Dialect::V5 && bytes == CONNACK_BEFORE_5 {
            return self.refused(end, ReasonCode::UnsupportedProtocolVersion, None);
        }
        let mut out = Out { port: &mut *port, end };
        let mut ear = Ear::new(&mut out);
        let result = self.side_mut(end).client.handle(bytes, now_us, &mut ear);
        let Ear { heard, why, .. } = ear;
        if let Err(error) = result {
            return self.broken(end, Broken::Protocol(error));
        }
        match heard {
            Heard::Nothing => {}
            Heard::Connected { session_present, limits } => {
                self.connected(end, session_present, limits, now_us, port);
            }
            Heard::Refused(reason) => self.refused(end, reason, why),
            Heard::Unsubscribed => self.subscribed(end, &[], None, now_us, port),
            Heard::Subscribed(codes) => self.subscribed(end, &codes, why.as_deref(), now_us, port),
            Heard::Acknowledged { tag, reason } => {
                self.acknowledged(end, tag, (reason, why), now_us, port);
            }
            Heard::Disconnected(reason) => self.broken(end, Broken::Disconnected(reason, why)),
        }
    }

    fn refused(&mut self, end: End, reason: ReasonCode, why: Option<String>) {
        match (end, reason) {
            (End::Remote, ReasonCode::UnsupportedProtocolVersion) => {
                self.news.push_back(News::NotSpoken(self.dialect));
            }
            _ => self.broken(end, Broken::Refused(reason, why)),
        }
    }

    fn connected(
        &mut self,
        end: End,
        session_present: bool,
        limits: ServerLimits,
        now_us: u64,
        port: &mut impl Port,
    ) {
        let dialect = if end == End::Local { Dialect::V5 } else { self.dialect };
        let side = self.side_mut(end);
        side.limits = limits;
        side.subscribe(dialect, session_present, now_us, &mut Out { port: &mut *port, end });
        self.news.push_back(News::Live(end));
        self.look_ready(now_us, port);
    }

    fn subscribed(
        &mut self,
        end: End,
        codes: &[u8],
        why: Option<&str>,
        now_us: u64,
        port: &mut impl Port,
    ) {
        let refused = codes.iter().find(|code| **code >= ReasonCode::UnspecifiedError as u8);
        if let Some(&code) = refused {
            let reason = ReasonCode::from_u8(code).unwrap_or(ReasonCode::UnspecifiedError);
            let said = weir_connection::named(reason, why);
            let filters: Vec<&str> =
                self.side(end).routes.filters().into_iter().map(|(filter, _)| filter).collect();
            let text = format!("a subscription is refused, one of {}: {said}", filters.join(", "));
            self.complain(text);
        }
        if self.side_mut(end).subscribed() {
            self.look_ready(now_us, port);
        }
    }

    /// Says that everything is there, once it is.
    fn look_ready(&mut self, now_us: u64, port: &mut impl Port) {
        let is_ready = match self.errand {
            Errand::Relay => self.local.is_ready && self.remote.is_ready,
            Errand::Prepare | Errand::Watch => self.local.is_ready,
        };
        if !is_ready || self.is_ready {
            return;
        }
        (self.is_ready, self.used_us) = (true, now_us);
        let is_there = self.errand == Errand::Relay;
        self.say_state(End::Local, is_there, now_us, port);
        if is_there {
            self.say_state(End::Remote, true, now_us, port);
        }
        self.news.push_back(News::Ready);
    }

    fn say_state(&mut self, end: End, is_there: bool, now_us: u64, port: &mut impl Port) {
        let settings = Arc::clone(&self.settings);
        let state = &settings.state;
        let is_said = if end == End::Local { state.is_local } else { state.is_remote };
        if !is_said || self.errand == Errand::Watch {
            return;
        }
        let Self { local, remote, scratch, .. } = self;
        let side = if end == End::Local { local } else { remote };
        let may_wait = side.client.can_publish(QoS::AtLeastOnce)
            && side.limits.receive_maximum > 1
            && side.limits.qos_max >= QoS::AtLeastOnce;
        let qos = if may_wait { QoS::AtLeastOnce } else { QoS::AtMostOnce };
        let payload: &[u8] = if is_there { b"1" } else { b"0" };
        let message = (&*state.topic, payload, qos, side.limits.takes_retained);
        let out = &mut Out { port, end };
        // It is live: it has just become ready.
        let _ = side.client.publish(message, NO_SOURCE, now_us, scratch, out);
    }

    /// A message came.
    fn message(&mut self, end: End, publish: &Publish<'_>, now_us: u64, port: &mut impl Port) {
        self.used_us = now_us;
        if end == End::Local && self.errand != Errand::Relay {
            return self.wait(publish);
        }
        let side = self.side_mut(end);
        if publish.packet_id.is_some() && (side.is_deferring || side.sources.len() >= OPEN_MAX) {
            side.is_deferring = true;
            return;
        }
        let begin = |packet_id| side.sources.begin(packet_id, publish.qos);
        let number = publish.packet_id.map(begin);
        let fate = self.pass_on(end, publish, number.unwrap_or(NO_SOURCE), now_us, port);
        let side = self.side_mut(end);
        match (fate, number) {
            (_, None) => return,
            (Fate::Open, Some(number)) => side.sources.add_result(number),
            (Fate::Done, Some(_)) => side.acknowledge(now_us, &mut Out { port, end }),
            (Fate::NoRoom, Some(_)) => {
                side.sources.take_back();
                side.is_deferring = true;
            }
        }
        self.look_full(end);
    }

    /// Counts a message that stays with the local broker.
    fn wait(&mut self, publish: &Publish<'_>) {
        let Start::Lazy { threshold, .. } = self.settings.start else { return };
        if self.errand == Errand::Watch && publish.packet_id.is_some() {
            self.waiting = self.waiting.saturating_add(1);
            if self.waiting == threshold {
                self.news.push_back(News::Waits);
            }
        }
    }

    /// Publishes a message of this end at the other.
    fn pass_on(
        &mut self,
        end: End,
        publish: &Publish<'_>,
        tag: u64,
        now_us: u64,
        port: &mut impl Port,
    ) -> Fate {
        let Self { local, remote, topic, properties, scratch, shared, settings, .. } = self;
        let counts = &shared.counts;
        let drop = |count| {
            counts.add(count);
            Fate::Done
        };
        let (from, to) = if end == End::Local { (local, remote) } else { (remote, local) };
        if from.routes.map(publish.topic, topic).is_none() {
            return drop(Count::DroppedUnmatched);
        }
        if pass_on(publish.properties, properties) > HOPS_MAX {
            return drop(Count::DroppedHops);
        }
        let properties = properties.as_properties();
        let bytes =
            PUBLISH_BYTES + topic.len() + properties.as_bytes().len() + publish.payload.len();
        if bytes > to.limits.packet_bytes_max || !weir_wire::topic::is_valid_name(topic) {
            return drop(Count::DroppedTooLarge);
        }
        let qos = publish.qos.min(QOS_MAX).min(to.limits.qos_max);
        if qos == QoS::AtMostOnce
            && publish.qos == qos
            && port.pending(end.other()) > OUTPUT_BYTES_MAX
        {
            return drop(Count::DroppedFull);
        }
        let may_retain = to.limits.takes_retained && (end == End::Remote || settings.retains);
        let message = (&**topic, publish.payload, qos, publish.retain && may_retain);
        let out = &mut Out { port, end: end.other() };
        match to.client.publish_with(message, properties, tag, now_us, scratch, out) {
            Err(_) => Fate::NoRoom,
            Ok(()) if qos == QoS::AtMostOnce => drop(relayed(end)),
            Ok(()) => Fate::Open,
        }
    }

    /// The broker of this end has answered a message that came from the other.
    fn acknowledged(
        &mut self,
        end: End,
        tag: u64,
        (reason, why): (ReasonCode, Option<String>),
        now_us: u64,
        port: &mut impl Port,
    ) {
        if tag == NO_SOURCE {
            if reason.is_error() {
                let said = weir_connection::named(reason, why.as_deref());
                self.complain(format!("its state is not said at {end:?}: {said}"));
            }
            return;
        }
        let from = end.other();
        match reason {
            // There is no room for it now: it stays where it is.
            ReasonCode::QuotaExceeded | ReasonCode::ServerBusy => {
                return self.broken(end, Broken::NotNow(reason, why));
            }
            // What is refused now is refused again: to wait would hold all behind it for ever.
            reason if reason.is_error() => {
                self.shared.counts.add(Count::DroppedRefused);
                self.shared.complain(&weir_connection::named(reason, why.as_deref()));
            }
            _ => self.shared.counts.add(relayed(from)),
        }
        let side = self.side_mut(from);
        side.sources.result_done(tag);
        side.acknowledge(now_us, &mut Out { port, end: from });
        self.look_full(from);
    }

    fn look_full(&mut self, end: End) {
        if self.side(end).is_to_be_renewed() {
            self.news.push_back(News::Full);
        }
    }
}

/// What a message counts as that has come from this end and is relayed.
const fn relayed(from: End) -> Count {
    match from {
        End::Local => Count::Out,
        End::Remote => Count::In,
    }
}

#[cfg(test)]
mod tests;
