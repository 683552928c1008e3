//! A parcel from a log as the records that say the same: what a log that is written by hand,
//! without a shard, has of it.

use super::{Content, MovedSession, MovedSubscription, Parcel};
use crate::base::Renamed;
use crate::keys::Lsn;
use crate::message::{Message, Queued};
use crate::page::PageRef;
use crate::record::Record;
use crate::session::{Absence, Will};
use std::sync::Arc;
use weir_wire::PacketId;

impl Parcel {
    /// Tells of the records of a session or a retained message, in the order in which a base has
    /// them; `log` gives each its number. A message that several sessions are to get is told once,
    /// and `named` remembers its number. A client that was let in has no records.
    pub fn tell_records(&self, named: &mut Renamed, log: &mut impl FnMut(&Record<'_>) -> Lsn) {
        match &self.0 {
            Content::Session(moved) => session(moved, named, log),
            Content::Retained(message) => {
                let Message { topic, payload, properties, qos, expires_at, .. } = &**message;
                let properties = properties.as_properties().as_bytes();
                let (qos, expires_at) = (*qos, *expires_at);
                log(&Record::Retained { topic, payload, properties, qos, expires_at });
            }
            Content::Admitted(_) => {}
        }
    }
}

fn session(moved: &MovedSession, named: &mut Renamed, log: &mut impl FnMut(&Record<'_>) -> Lsn) {
    let MovedSession { client_id, expiry_s, window, absence, subscriptions, .. } = moved;
    let absence = absence.as_deref();
    let will = absence.and_then(|absence| absence.will.as_deref());
    let session = log(&Record::Session {
        session: Lsn::NONE,
        client_id,
        expiry_s: *expiry_s,
        will: will.map(Will::record),
    });
    let deadlines = absence.map(|&Absence { expires_at, will_at, .. }| (expires_at, will_at));
    let (expires_at, will_at) = deadlines.unwrap_or_default();
    log(&Record::Absent { session, expires_at, will_at });
    for MovedSubscription { name, condition, options, subscription_id } in subscriptions {
        let (condition, options) = (condition.as_deref(), *options);
        let subscription_id = *subscription_id;
        log(&Record::Subscribed { session, name, condition, options, subscription_id });
    }
    for &packet_id in &moved.unreleased {
        log(&Record::Noted { session, packet_id });
    }
    for (packet_id, _, delivery) in window.in_flight() {
        match delivery {
            Some(delivery) => queued(session, delivery, Some(packet_id), named, log),
            None => drop(log(&Record::Received { session, packet_id })),
        }
    }
    let queue = window.queue();
    for delivery in queue.iter().flat_map(|queue| &queue.deliveries) {
        queued(session, delivery, None, named, log);
    }
    let paged = queue.and_then(|queue| queue.paged.as_deref());
    for &PageRef { id: page, messages, bytes } in paged.iter().flat_map(|paged| &paged.pages) {
        log(&Record::Page { session, page, messages, bytes });
    }
    for delivery in paged.iter().flat_map(|paged| &paged.tail) {
        queued(session, delivery, None, named, log);
    }
}

fn queued(
    session: Lsn,
    delivery: &Queued,
    packet_id: Option<PacketId>,
    named: &mut Renamed,
    log: &mut impl FnMut(&Record<'_>) -> Lsn,
) {
    let Queued { message, qos, retain, subscription_ids } = delivery;
    let message = named.find(message).unwrap_or_else(|| {
        let lsn = log(&record(message));
        named.note(message, lsn);
        lsn
    });
    let subscription_ids = subscription_ids.as_deref().unwrap_or_default().into();
    let (qos, retain) = (*qos, *retain);
    log(&Record::Queued { session, message, qos, retain, subscription_ids, packet_id });
}

fn record(message: &Arc<Message>) -> Record<'_> {
    Record::Message {
        topic: &message.topic,
        payload: &message.payload,
        properties: message.properties.as_properties().as_bytes(),
        qos: message.qos,
        retain: message.retain,
        expires_at: message.expires_at,
    }
}
