//! What is there, as the records that say it: what a base has of it, and a log that is written by
//! hand, without a shard.

use crate::base::Renamed;
use crate::keys::{Lsn, Micros};
use crate::message::{Message, Queued};
use crate::page::PageRef;
use crate::parcel::{Content, MovedSession, MovedSubscription, Parcel};
use crate::record::Record;
use crate::session::Will;
use crate::window::Window;
use std::sync::Arc;
use weir_wire::PacketId;

impl Parcel {
    /// Tells of the records of a session or a retained message, in the order in which a base has
    /// them; `log` gives each its number. A message that several sessions are to get is told once,
    /// and `named` remembers its number. A client that was let in has no records.
    pub fn tell_records(&self, named: &mut Renamed, log: &mut impl FnMut(&Record<'_>) -> Lsn) {
        match &self.0 {
            Content::Session(moved) => {
                session(moved).tell(named, log);
            }
            Content::Retained(message) => {
                log(&retained_record(message));
            }
            Content::Admitted(_) => {}
        }
    }
}

fn session(moved: &MovedSession) -> SessionAnew<'_, impl Iterator<Item = PacketId>> {
    let absence = moved.absence.as_deref();
    let deadlines = absence.map(|absence| (absence.expires_at, absence.will_at));
    SessionAnew {
        client_id: &moved.client_id,
        expiry_s: moved.expiry_s,
        will: absence.and_then(|absence| absence.will.as_deref()),
        deadlines: Some(deadlines.unwrap_or_default()),
        subscriptions: &moved.subscriptions,
        unreleased: moved.unreleased.iter().copied(),
        window: &moved.window,
    }
}

/// A session as it is.
pub(crate) struct SessionAnew<'a, U> {
    pub(crate) client_id: &'a str,
    pub(crate) expiry_s: u32,
    pub(crate) will: Option<&'a Will>,
    /// When it ends and when its will is due; nothing while it is connected.
    pub(crate) deadlines: Option<(Option<Micros>, Option<Micros>)>,
    pub(crate) subscriptions: &'a [MovedSubscription],
    /// Messages of QoS 2 received and not yet released.
    pub(crate) unreleased: U,
    /// With the queue behind it.
    pub(crate) window: &'a Window,
}

impl<U: Iterator<Item = PacketId>> SessionAnew<'_, U> {
    /// Tells all of it; `log` gives each record its number. A message that several sessions are to
    /// get is told once, and `named` remembers its number. Returns what the session is called, and
    /// the bytes of the messages that were told.
    pub(crate) fn tell(
        self,
        named: &mut Renamed,
        log: &mut impl FnMut(&Record<'_>) -> Lsn,
    ) -> (Lsn, u64) {
        let window = self.window;
        let (session, mut bytes) = self.tell_state(named, log);
        bytes += waiting(session, window, named, log);
        (session, bytes)
    }

    /// Tells who it is, and to what it is subscribed.
    pub(crate) fn tell_head(&self, log: &mut impl FnMut(&Record<'_>) -> Lsn) -> Lsn {
        let &Self { client_id, expiry_s, will, deadlines, subscriptions, .. } = self;
        let (session, will) = (Lsn::NONE, will.map(Will::record));
        let session = log(&Record::Session { session, client_id, expiry_s, will });
        if let Some((expires_at, will_at)) = deadlines {
            log(&Record::Absent { session, expires_at, will_at });
        }
        for MovedSubscription { name, condition, options, subscription_id } in subscriptions {
            let (condition, options) = (condition.as_deref(), *options);
            let subscription_id = *subscription_id;
            log(&Record::Subscribed { session, name, condition, options, subscription_id });
        }
        session
    }

    /// Tells all but what waits; returns as [`SessionAnew::tell`] does.
    pub(crate) fn tell_state(
        self,
        named: &mut Renamed,
        log: &mut impl FnMut(&Record<'_>) -> Lsn,
    ) -> (Lsn, u64) {
        let session = self.tell_head(log);
        for packet_id in self.unreleased {
            log(&Record::Noted { session, packet_id });
        }
        (session, in_flight(session, self.window, named, log))
    }
}

fn in_flight(
    session: Lsn,
    window: &Window,
    named: &mut Renamed,
    log: &mut impl FnMut(&Record<'_>) -> Lsn,
) -> u64 {
    let mut bytes = 0;
    for (packet_id, _, delivery) in window.in_flight() {
        if let Some(delivery) = delivery {
            bytes += queued(session, delivery, Some(packet_id), named, log);
        } else {
            log(&Record::Received { session, packet_id });
        }
    }
    if let Some(packet_id) = window.last_done() {
        // Its client may remember it: the next delivery has one behind it.
        log(&Record::Received { session, packet_id });
        log(&Record::Done { session, packet_id });
    }
    bytes
}

fn waiting(
    session: Lsn,
    window: &Window,
    named: &mut Renamed,
    log: &mut impl FnMut(&Record<'_>) -> Lsn,
) -> u64 {
    let mut bytes = 0;
    let queue = window.queue();
    for delivery in queue.iter().flat_map(|queue| &queue.deliveries) {
        bytes += queued(session, delivery, None, named, log);
    }
    let paged = queue.and_then(|queue| queue.paged.as_deref());
    for &PageRef { id: page, messages, bytes } in paged.iter().flat_map(|paged| &paged.pages) {
        log(&Record::Page { session, page, messages, bytes });
    }
    for delivery in paged.iter().flat_map(|paged| &paged.tail) {
        bytes += queued(session, delivery, None, named, log);
    }
    bytes
}

fn queued(
    session: Lsn,
    delivery: &Queued,
    packet_id: Option<PacketId>,
    named: &mut Renamed,
    log: &mut impl FnMut(&Record<'_>) -> Lsn,
) -> u64 {
    let Queued { message, qos, retain, subscription_ids } = delivery;
    let (message, bytes) = tell_message(message, named, log);
    let subscription_ids = subscription_ids.as_deref().unwrap_or_default().into();
    let (qos, retain) = (*qos, *retain);
    log(&Record::Queued { session, message, qos, retain, subscription_ids, packet_id });
    bytes
}

/// Tells a message, unless it was told. Returns what it is called, and the bytes that were told.
pub(crate) fn tell_message(
    message: &Arc<Message>,
    named: &mut Renamed,
    log: &mut impl FnMut(&Record<'_>) -> Lsn,
) -> (Lsn, u64) {
    if let Some(lsn) = named.find(message) {
        return (lsn, 0);
    }
    let lsn = log(&Record::Message {
        topic: &message.topic,
        payload: &message.payload,
        properties: message.properties.as_properties().as_bytes(),
        qos: message.qos,
        retain: message.retain,
        expires_at: message.expires_at,
    });
    named.note(message, lsn);
    (lsn, message.bytes())
}

/// What is told of a message that is kept, or that clears its topic.
pub(crate) fn retained_record(message: &Message) -> Record<'_> {
    let Message { topic, payload, properties, qos, expires_at, .. } = message;
    if payload.is_empty() {
        return Record::Cleared { topic };
    }
    let properties = properties.as_properties().as_bytes();
    let (qos, expires_at) = (*qos, *expires_at);
    Record::Retained { topic, payload, properties, qos, expires_at }
}
