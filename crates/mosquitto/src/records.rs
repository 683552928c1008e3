//! What is in the file as records: those of a base, without its beginning and its end.

use crate::file::{Client, Database, Delivery, State, Stored, Subscription};
use crate::route::Arrival;
use std::collections::BTreeMap;
use std::fmt;
use weir_core::{Lsn, Micros, Record};
use weir_wire::topic::TopicFilter;
use weir_wire::{PacketId, QoS};

/// Identifiers between the oldest and the newest of a session's deliveries in flight.
const SPAN_MAX: u16 = 16_384;

/// What was told.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The format of the file.
    pub version: u32,
    /// Sessions.
    pub sessions: u64,
    /// Their subscriptions.
    pub subscriptions: u64,
    /// Messages that wait for their clients.
    pub queued: u64,
    /// Deliveries that were sent and not acknowledged.
    pub in_flight: u64,
    /// Retained messages.
    pub retained: u64,
    /// What was left out, with how many of each.
    pub left_out: BTreeMap<LeftOut, u64>,
}

/// Something in the file that Weir does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// The session's time is over.
    ExpiredSession,
    /// The message's time is over.
    ExpiredMessage,
    /// A delivery at QoS 0 in a queue.
    AtMostOnce,
    /// The file does not have the message, or it is `$SYS`.
    NoMessage,
    /// The file does not have the client.
    NoClient,
    /// The topic filter is none in Weir.
    Filter,
    /// The payload is longer than a store takes.
    TooLong,
    /// The packet identifier is out of order; the message waits in the queue instead.
    Renumbered,
    /// The packet identifier is out of order, and there is no message any more.
    OutOfOrder,
    /// A message at QoS 2 that its client was not told of, and sends again.
    Unanswered,
    /// A chunk of a kind that is not known.
    UnknownChunk,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::ExpiredSession => "sessions that have expired",
            Self::ExpiredMessage => "messages that have expired",
            Self::AtMostOnce => "messages at QoS 0 in queues: Weir keeps none for the absent",
            Self::NoMessage => "deliveries and retained messages whose message is not in the file",
            Self::NoClient => "subscriptions and deliveries whose client is not in the file",
            Self::Filter => {
                "subscriptions whose topic filter means something else, or nothing, here"
            }
            Self::TooLong => "messages that are longer than a store takes",
            Self::Renumbered => {
                "deliveries whose packet identifiers are out of order: they are kept, and are sent \
                 again with another one"
            }
            Self::OutOfOrder => "PUBRELs whose packet identifiers are out of order",
            Self::Unanswered => {
                "messages at QoS 2 that were not acknowledged: their clients send them again"
            }
            Self::UnknownChunk => "chunks of a kind that is not known",
        })
    }
}

impl Database<'_> {
    /// Tells of sessions, then of retained messages; `log` gives each record its number. Times are
    /// microseconds since 1970. Messages with longer payloads are left out.
    ///
    /// # Errors
    /// What `log` says.
    pub fn tell<E>(
        &self,
        now: Micros,
        payload_bytes_max: usize,
        log: impl FnMut(&Record<'_>) -> Result<Lsn, E>,
    ) -> Result<Imported, E> {
        let imported = Imported { version: self.version, ..Imported::default() };
        let mut teller = Teller {
            database: self,
            now,
            payload_bytes_max,
            log,
            named: BTreeMap::new(),
            imported,
        };
        teller.leave_out(LeftOut::NoClient, self.strays);
        teller.leave_out(LeftOut::UnknownChunk, self.unknown);
        for (client, arrivals) in self.clients.iter().zip(self.arrivals()) {
            teller.session(client, &arrivals)?;
        }
        teller.retained()?;
        Ok(teller.imported)
    }
}

struct Teller<'a, L> {
    database: &'a Database<'a>,
    now: Micros,
    payload_bytes_max: usize,
    log: L,
    /// Records of the messages that were told.
    named: BTreeMap<u64, Lsn>,
    imported: Imported,
}

impl<'a, E, L: FnMut(&Record<'_>) -> Result<Lsn, E>> Teller<'a, L> {
    fn leave_out(&mut self, what: LeftOut, count: u64) {
        if count > 0 {
            *self.imported.left_out.entry(what).or_default() += count;
        }
    }

    fn session(&mut self, client: &Client<'_>, arrivals: &[Arrival]) -> Result<(), E> {
        let Client { client_id, expiry_s, expires_at_s, .. } = client;
        let is_for_ever = *expiry_s == u32::MAX;
        let expires_at = match expires_at_s {
            _ if is_for_ever => None,
            Some(seconds) => Some(micros(*seconds)),
            None => Some(self.now + Micros::from_secs(*expiry_s)),
        };
        if expires_at.is_some_and(|at| at <= self.now) {
            self.leave_out(LeftOut::ExpiredSession, 1);
            return Ok(());
        }
        let (session, expiry_s) = (Lsn::NONE, *expiry_s);
        let session = (self.log)(&Record::Session { session, client_id, expiry_s, will: None })?;
        (self.log)(&Record::Absent { session, expires_at, will_at: None })?;
        self.imported.sessions += 1;
        self.subscriptions(session, &client.subscriptions)?;
        self.noted(session, &client.deliveries)?;
        self.in_flight(session, &client.deliveries)?;
        for delivery in &client.deliveries {
            if delivery.state == State::Queued {
                self.deliver(session, delivery, None)?;
            }
        }
        for Arrival { message, qos, retain, subscription_ids } in arrivals {
            let Some(message) = self.message(*message)? else { continue };
            let (qos, retain) = (*qos, *retain);
            let ids = subscription_ids.into();
            self.queue(session, message, (qos, retain), ids, None)?;
        }
        Ok(())
    }

    fn subscriptions(&mut self, session: Lsn, all: &[Subscription<'_>]) -> Result<(), E> {
        for Subscription { name, options, subscription_id } in all {
            let filter = TopicFilter::parse(name).map(|parsed| parsed.filter);
            // That is how Weir writes conditions.
            if filter.is_none_or(|filter| filter.starts_with("$filter/")) {
                self.leave_out(LeftOut::Filter, 1);
                continue;
            }
            let (options, subscription_id) = (*options, *subscription_id);
            let condition = None;
            let record = Record::Subscribed { session, name, condition, options, subscription_id };
            (self.log)(&record)?;
            self.imported.subscriptions += 1;
        }
        Ok(())
    }

    /// Messages from the client whose PUBREL has not come.
    fn noted(&mut self, session: Lsn, all: &[Delivery]) -> Result<(), E> {
        for delivery in all {
            match (delivery.state, PacketId::new(delivery.packet_id)) {
                (State::Incoming, Some(packet_id)) => {
                    (self.log)(&Record::Noted { session, packet_id })?;
                }
                (State::Unanswered, _) => self.leave_out(LeftOut::Unanswered, 1),
                _ => {}
            }
        }
        Ok(())
    }

    fn in_flight(&mut self, session: Lsn, all: &[Delivery]) -> Result<(), E> {
        let mut order = Order::default();
        for delivery in all {
            let is_open = matches!(delivery.state, State::Published | State::Released);
            if !is_open || delivery.qos == QoS::AtMostOnce {
                if is_open {
                    self.leave_out(LeftOut::AtMostOnce, 1);
                }
                continue;
            }
            let packet_id = PacketId::new(delivery.packet_id).filter(|&id| order.takes(id));
            match (packet_id, delivery.state) {
                (Some(packet_id), State::Released) => {
                    (self.log)(&Record::Received { session, packet_id })?;
                    self.imported.in_flight += 1;
                    order.note(packet_id);
                }
                (None, State::Released) => self.leave_out(LeftOut::OutOfOrder, 1),
                (Some(packet_id), _) => {
                    if self.deliver(session, delivery, Some(packet_id))? {
                        order.note(packet_id);
                    }
                }
                (None, _) => {
                    if self.deliver(session, delivery, None)? {
                        self.leave_out(LeftOut::Renumbered, 1);
                    }
                }
            }
        }
        Ok(())
    }

    /// Says whether there was something to deliver.
    fn deliver(
        &mut self,
        session: Lsn,
        delivery: &Delivery,
        packet_id: Option<PacketId>,
    ) -> Result<bool, E> {
        if delivery.qos == QoS::AtMostOnce {
            self.leave_out(LeftOut::AtMostOnce, 1);
            return Ok(false);
        }
        let Some(message) = self.message(delivery.message)? else { return Ok(false) };
        let ids = Vec::from_iter(delivery.subscription_id);
        self.queue(session, message, (delivery.qos, delivery.retain), ids.into(), packet_id)?;
        Ok(true)
    }

    fn queue(
        &mut self,
        session: Lsn,
        message: Lsn,
        (qos, retain): (QoS, bool),
        subscription_ids: std::borrow::Cow<'_, [u32]>,
        packet_id: Option<PacketId>,
    ) -> Result<(), E> {
        let record = Record::Queued { session, message, qos, retain, subscription_ids, packet_id };
        (self.log)(&record)?;
        match packet_id {
            Some(_) => self.imported.in_flight += 1,
            None => self.imported.queued += 1,
        }
        Ok(())
    }

    /// The record of a message, told at the first time; nothing if it is left out.
    fn message(&mut self, number: u64) -> Result<Option<Lsn>, E> {
        if let Some(&lsn) = self.named.get(&number) {
            return Ok(Some(lsn));
        }
        let Some((message, expires_at)) = self.stored(number) else { return Ok(None) };
        let Stored { topic, payload, properties, qos, retain, .. } = message;
        let properties = properties.as_properties().as_bytes();
        let (qos, retain) = (*qos, *retain);
        let record = Record::Message { topic, payload, properties, qos, retain, expires_at };
        let lsn = (self.log)(&record)?;
        self.named.insert(number, lsn);
        Ok(Some(lsn))
    }

    /// A message that is not left out, and when it expires.
    fn stored(&mut self, number: u64) -> Option<(&'a Stored<'a>, Option<Micros>)> {
        let database = self.database;
        let message = database.messages.get(&number);
        let left_out = match message {
            None => Some(LeftOut::NoMessage),
            Some(Stored { payload, .. }) if payload.len() > self.payload_bytes_max => {
                Some(LeftOut::TooLong)
            }
            Some(Stored { expires_at_s: Some(at), .. }) if micros(*at) <= self.now => {
                Some(LeftOut::ExpiredMessage)
            }
            Some(_) => None,
        };
        if let Some(left_out) = left_out {
            self.leave_out(left_out, 1);
            return None;
        }
        message.map(|message| (message, message.expires_at_s.map(micros)))
    }

    /// Also those that a client has published and not released.
    fn retained(&mut self) -> Result<(), E> {
        let database = self.database;
        let incoming = database.clients.iter().flat_map(|client| &client.deliveries);
        let incoming = incoming.filter(|delivery| delivery.state == State::Incoming);
        let incoming = incoming
            .map(|delivery| delivery.message)
            .filter(|number| database.messages.get(number).is_some_and(|message| message.retain));
        let mut by_topic = BTreeMap::new();
        for number in database.retained.iter().copied().chain(incoming) {
            match database.messages.get(&number) {
                Some(message) if !message.topic.starts_with("$SYS") => {
                    by_topic.insert(message.topic, number);
                }
                _ => self.leave_out(LeftOut::NoMessage, 1),
            }
        }
        for number in by_topic.into_values() {
            let Some((message, expires_at)) = self.stored(number) else { continue };
            let Stored { topic, payload, properties, qos, .. } = message;
            // That is how a retained message is taken away.
            if payload.is_empty() {
                continue;
            }
            let properties = properties.as_properties().as_bytes();
            let qos = *qos;
            let record = Record::Retained { topic, payload, properties, qos, expires_at };
            (self.log)(&record)?;
            self.imported.retained += 1;
        }
        Ok(())
    }
}

fn micros(seconds: u64) -> Micros {
    Micros(seconds.saturating_mul(1_000_000))
}

/// Identifiers of deliveries have to come in the order in which they are given.
#[derive(Default)]
struct Order {
    first: Option<PacketId>,
    last: Option<PacketId>,
}

impl Order {
    fn takes(&self, packet_id: PacketId) -> bool {
        let (Some(first), Some(last)) = (self.first, self.last) else { return true };
        let span = packet_id.steps_from(first);
        span > last.steps_from(first) && span < SPAN_MAX
    }

    fn note(&mut self, packet_id: PacketId) {
        self.first.get_or_insert(packet_id);
        self.last = Some(packet_id);
    }
}
