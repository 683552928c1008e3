//! What a session gets: sent, queued or dropped, each with a rule and a counter.

use super::acks::plain_ack;
use super::connections::Connections;
use super::due::{Due, Overflowed};
use super::exact::{hold_publish, is_held};
use crate::aliases::AliasOut;
use crate::answers::Answers;
use crate::bounds::Bounds;
use crate::claims::Claims;
use crate::clients::Clients;
use crate::encoder::{Encoded, Encoder, Shape};
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::limits::WhenAbsent;
use crate::log::Log;
use crate::message::{Delivery, Queued};
use crate::paging::Paging;
use crate::queue::Dropped;
use crate::record::Record;
use crate::rights::{Deed, Rights};
use crate::routing::{Standing, Subscriber};
use crate::session::{Attachment, Session};
use crate::sink::{Notice, Sink};
use crate::stats::Stats;
use crate::window::Owed;
use std::sync::Arc;
use weir_wire::{PacketId, PacketKind, QoS};

/// One receiver of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver<'a> {
    pub(super) session: SessionKey,
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) subscription_ids: &'a [u32],
}

/// The way from a shard to its clients: what a delivery needs, and no more.
pub(super) struct Outlet<'a> {
    pub(super) claims: &'a Claims,
    pub(super) clients: &'a mut Clients,
    pub(super) connections: &'a mut Connections,
    pub(super) answers: &'a mut Answers,
    pub(super) encoder: &'a mut Encoder,
    pub(super) bounds: &'a Bounds,
    pub(super) due: &'a mut Due,
    pub(super) log: &'a mut Log,
    pub(super) paging: &'a mut Paging,
    pub(super) stats: &'a mut Stats,
}

impl Outlet<'_> {
    pub(super) fn deliver_to_one(
        &mut self,
        target: &Subscriber,
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        // [MQTT-3.8.3-3]
        if target.no_local && delivery.publisher == Some(target.session) {
            return;
        }
        let ids = [target.subscription_id];
        let receiver = Receiver {
            session: target.session,
            qos: target.qos.min(delivery.qos),
            retain: target.retain_as_published && delivery.retain,
            subscription_ids: if target.subscription_id == 0 { &[] } else { &ids },
        };
        self.deliver(receiver, delivery, now, sink);
    }

    /// One delivery a session, with the highest QoS of its matching subscriptions and all their
    /// identifiers [MQTT-3.3.4-2, 3.3.4-4].
    pub(super) fn deliver_merged(
        &mut self,
        targets: &mut Vec<Subscriber>,
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        targets.retain(|target| !(target.no_local && delivery.publisher == Some(target.session)));
        targets.sort_unstable_by_key(|target| target.session);
        let mut ids = Vec::new();
        for same in targets.chunk_by(|a, b| a.session == b.session) {
            ids.clear();
            ids.extend(same.iter().map(|target| target.subscription_id).filter(|&id| id != 0));
            let qos = same.iter().map(|target| target.qos).max().unwrap_or_default();
            let as_published = same.iter().any(|target| target.retain_as_published);
            let receiver = Receiver {
                session: same[0].session,
                qos: qos.min(delivery.qos),
                retain: as_published && delivery.retain,
                subscription_ids: &ids,
            };
            self.deliver(receiver, delivery, now, sink);
        }
    }

    /// Sends, keeps or drops one delivery.
    pub(super) fn deliver(
        &mut self,
        to: Receiver<'_>,
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Self { clients, connections, answers, encoder, log, stats, bounds, .. } = self;
        if !clients.may_read(to.session, delivery.topic) {
            stats.reads_forbidden += 1;
            return withheld(&clients[to.session], delivery.topic, NO_RIGHT, sink);
        }
        let session = &mut clients[to.session];
        let Some(attachment) = session.attachment else {
            return self.keep_for_absent(to, delivery, sink);
        };
        let shape = Shape {
            version: attachment.version,
            qos: to.qos,
            retain: to.retain,
            dup: false,
            subscription_ids: to.subscription_ids,
            alias: alias_for(connections, &attachment, delivery.topic),
        };
        let is_output_full = sink.pending(attachment.conn) > bounds.output_bytes_max;
        if to.qos == QoS::AtMostOnce {
            if is_output_full && !may_overfill(attachment.conn, bounds, sink) {
                stats.dropped_output_full += 1;
                return drop_notice(session, delivery.topic, "output full", sink);
            }
            let packet = encoder.encode(delivery, shape, now);
            if packet.len() > attachment.packet_bytes_max as usize {
                stats.dropped_too_large += 1;
                return drop_notice(session, delivery.topic, "over Maximum Packet Size", sink);
            }
            stats.sent(QoS::AtMostOnce);
            send(packet, None, true, attachment.conn, delivery, sink);
            return alias_sent(connections, &attachment, delivery.topic, shape.alias);
        }
        if !session.queue_is_empty()
            || is_output_full
            || !session.window.has_room(attachment.open_max)
        {
            return self.enqueue(to, delivery, sink);
        }
        let packet = encoder.encode(delivery, shape, now);
        if packet.len() > attachment.packet_bytes_max as usize {
            // [MQTT-3.1.2-25]
            stats.dropped_too_large += 1;
            return drop_notice(session, delivery.topic, "over Maximum Packet Size", sink);
        }
        let is_kept = session.outlives_connection();
        let kept = is_kept.then(|| queued(to, delivery));
        let packet_id = session.window.push(to.qos, kept, bounds.limits.queue_bytes_max);
        if is_kept
            && log_queued(log, to, Some(packet_id), delivery, sink)
            && is_held(connections, attachment.conn, to.qos)
        {
            return hold_publish(connections, answers, log, (attachment.conn, packet_id), now);
        }
        stats.sent(to.qos);
        // Without room what comes next waits for the client's answer to this.
        let may_wait = session.window.has_room(attachment.open_max);
        send(packet, Some(packet_id), may_wait, attachment.conn, delivery, sink);
        alias_sent(connections, &attachment, delivery.topic, shape.alias);
    }

    /// Puts a delivery into a connected session's queue; over the bound the session is ended.
    ///
    /// Not so while it catches up with what it missed: its queue may be full from its absence, so
    /// that the next message would end each connection before it could take anything. Until the
    /// queue was empty once, the absent's rule holds ([`Shard::keep_for_absent`]).
    fn enqueue(&mut self, to: Receiver<'_>, delivery: &mut Delivery<'_>, sink: &mut impl Sink) {
        if self.drops_for_memory(to, delivery, sink) {
            return;
        }
        self.enqueue_one(to, delivery, sink);
        let session = &self.clients[to.session];
        let may_drop =
            session.catches_up() && self.bounds.limits.queue_full_absent != WhenAbsent::EndSession;
        while self.is_over(to.session) {
            self.drop_oldest(to.session, sink);
            if !may_drop {
                return self.due.overflowed.push(Overflowed::Connected(to.session));
            }
        }
    }

    /// An absent session: QoS 1 and 2 wait for it, over the bound the oldest goes.
    fn keep_for_absent(
        &mut self,
        to: Receiver<'_>,
        delivery: &mut Delivery<'_>,
        sink: &mut impl Sink,
    ) {
        if to.qos == QoS::AtMostOnce {
            self.stats.dropped_absent_qos0 += 1;
            let session = &self.clients[to.session];
            return withheld(session, delivery.topic, "absent, and sent at QoS 0", sink);
        }
        if self.log.is_on() && !self.clients[to.session].outlives_connection() {
            // It waits for its CONNACK, and was durable: if its end is not committed, a crash
            // brings it back without this message.
            self.log.rely_on_all();
        }
        if self.drops_for_memory(to, delivery, sink) {
            return;
        }
        self.enqueue_one(to, delivery, sink);
        if self.bounds.limits.queue_full_absent == WhenAbsent::EndSession
            && self.is_over(to.session)
        {
            self.due.overflowed.push(Overflowed::Absent(to.session));
        }
        while self.is_over(to.session) {
            self.drop_oldest(to.session, sink);
        }
    }

    fn enqueue_one(&mut self, to: Receiver<'_>, delivery: &mut Delivery<'_>, sink: &mut impl Sink) {
        let is_durable = log_queued(self.log, to, None, delivery, sink);
        self.clients[to.session].enqueue(queued(to, delivery));
        if is_durable && self.paging.is_on() {
            self.note_length(to.session);
        }
    }

    /// Whoever gets a session that leaves bounds its queue; here it may be twice as long until
    /// then.
    pub(super) fn is_over(&self, key: SessionKey) -> bool {
        let session = &self.clients[key];
        self.bounds.is_over(session)
            && !(self.claims.is_any_moving()
                && self.claims.is_sealed(key)
                && !self.bounds.is_over_twice(session))
    }

    /// While memory is short, what nobody waits to be told of is not kept: a will, the result of a
    /// rule. What waits already may have been acknowledged to its publisher.
    fn drops_for_memory(
        &mut self,
        to: Receiver<'_>,
        delivery: &Delivery<'_>,
        sink: &mut impl Sink,
    ) -> bool {
        // What is mailed is taken in any case.
        let is_awaited = delivery.publisher.is_some() || delivery.is_gathered;
        let drops = self.bounds.is_pressed && !is_awaited;
        if drops {
            self.stats.dropped_queue_full += 1;
            drop_notice(&self.clients[to.session], delivery.topic, "memory is short", sink);
        }
        drops
    }

    pub(super) fn drop_oldest(&mut self, key: SessionKey, sink: &mut impl Sink) {
        let session = &mut self.clients[key];
        let Some(oldest) = session.drop_oldest() else { return };
        self.log.append_of(key, |session| Record::Dropped { session }, sink);
        self.stats.dropped_queue_full += 1;
        let (topic, page) = match &oldest {
            Dropped::FromMemory(oldest) => (&*oldest.message.topic, None),
            Dropped::FromPage(page) => ("", *page),
        };
        drop_notice(session, topic, "queue full", sink);
        if let Some(page) = page {
            self.bury(page);
        }
    }

    /// Sends what is owed, then what waits in the session's queue, as far as window and output
    /// allow.
    pub(super) fn pump(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        if self.clients[key].window.is_owing() {
            self.send_owed(key, now, sink);
        }
        self.send_queued(key, now, sink);
        if self.clients[key].attachment.is_some() {
            self.fetch_ahead(key, sink);
        }
    }

    fn send_queued(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        let Self { clients, connections, answers, encoder, log, stats, bounds, .. } = self;
        let rights = clients.rights_of(key);
        let session = &mut clients[key];
        let Some(attachment) = session.attachment else { return };
        while !session.queue_is_empty()
            && session.window.has_room(attachment.open_max)
            && sink.pending(attachment.conn) <= bounds.output_bytes_max
        {
            let Some(queued) = session.dequeue() else { return };
            if queued.message.is_expired(now) {
                log.append_of(key, |session| Record::Dropped { session }, sink);
                stats.dropped_expired += 1;
                drop_notice(session, &queued.message.topic, "expired", sink);
                continue;
            }
            if forbids(rights.as_deref(), session, &queued) {
                log.append_of(key, |session| Record::Dropped { session }, sink);
                stats.reads_forbidden += 1;
                withheld(session, &queued.message.topic, NO_RIGHT, sink);
                continue;
            }
            let mut delivery = Delivery::from_message(&queued.message, None);
            let alias = alias_for(connections, &attachment, delivery.topic);
            let shape = Shape { alias, ..shape_of(&queued, attachment, false) };
            encoder.begin();
            let packet = encoder.encode(&delivery, shape, now);
            if packet.len() > attachment.packet_bytes_max as usize {
                log.append_of(key, |session| Record::Dropped { session }, sink);
                stats.dropped_too_large += 1;
                drop_notice(session, &queued.message.topic, "over Maximum Packet Size", sink);
                continue;
            }
            let kept = session.outlives_connection().then(|| queued.clone());
            let kept_bytes_max = bounds.limits.queue_bytes_max;
            let packet_id = (queued.qos != QoS::AtMostOnce)
                .then(|| session.window.push(queued.qos, kept, kept_bytes_max));
            if let Some(packet_id) = packet_id {
                log.append_of(key, |session| Record::Sent { session, packet_id }, sink);
                if log.session(key).is_some() && is_held(connections, attachment.conn, queued.qos) {
                    let delivery = (attachment.conn, packet_id);
                    hold_publish(connections, answers, log, delivery, now);
                    continue;
                }
            }
            stats.sent(queued.qos);
            send(packet, packet_id, false, attachment.conn, &mut delivery, sink);
            alias_sent(connections, &attachment, delivery.topic, alias);
        }
    }

    /// A resumed session: what was open is sent again with DUP, in the order and with the
    /// identifiers it had [MQTT-4.4.0-1], as far as the client's Receive Maximum and its output
    /// allow.
    fn send_owed(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        let Self { clients, encoder, log, stats, bounds, .. } = self;
        let rights = clients.rights_of(key);
        let session = &mut clients[key];
        let Some(attachment) = session.attachment else { return };
        while sink.pending(attachment.conn) <= bounds.output_bytes_max
            && let Some(Owed { packet_id, message }) = session.window.take_owed(attachment.open_max)
        {
            let Some(queued) = message else {
                sink.write(attachment.conn, &plain_ack(PacketKind::PubRel, packet_id));
                continue;
            };
            if forbids(rights.as_deref(), session, &queued) {
                session.window.give_up(packet_id);
                log.append_of(key, |session| Record::Done { session, packet_id }, sink);
                stats.reads_forbidden += 1;
                withheld(session, &queued.message.topic, NO_RIGHT, sink);
                continue;
            }
            let mut delivery = Delivery::from_message(&queued.message, None);
            let shape = shape_of(&queued, attachment, true);
            let packet = encoder.encode(&delivery, shape, now);
            if packet.len() > attachment.packet_bytes_max as usize {
                // The client takes less than it did: as if it had been sent and done
                // [MQTT-3.1.2-25].
                session.window.give_up(packet_id);
                log.append_of(key, |session| Record::Done { session, packet_id }, sink);
                stats.dropped_too_large += 1;
                drop_notice(session, &queued.message.topic, "over Maximum Packet Size", sink);
                continue;
            }
            stats.sent(queued.qos);
            send(packet, Some(packet_id), false, attachment.conn, &mut delivery, sink);
        }
    }
}

/// Whether what waits is no longer for its session: the client is another user's, or the user's
/// rights are others, than when it came.
#[inline]
fn forbids(rights: Option<&Rights>, session: &Session, queued: &Queued) -> bool {
    let allow = |rights: &Rights| {
        rights.allow(Deed::Read, &session.client_id, queued.message.topic.as_str())
    };
    !rights.is_none_or(allow)
}

/// How many times the bound on its output a client that reads may be sent in one turn: what waits
/// then is not its fault.
const TURN_FACTOR: usize = 4;

/// Whether a full output takes another message at QoS 0, which nobody keeps for later.
#[cold]
fn may_overfill(conn: ConnKey, bounds: &Bounds, sink: &impl Sink) -> bool {
    let bytes_max = bounds.output_bytes_max.saturating_mul(TURN_FACTOR);
    !bounds.is_short && sink.pending(conn) <= bytes_max && sink.is_read(conn)
}

/// Writes a packet; `may_wait` says that it need not leave at once.
#[inline(always)]
pub(super) fn send(
    packet: Encoded<'_>,
    packet_id: Option<PacketId>,
    may_wait: bool,
    conn: ConnKey,
    delivery: &mut Delivery<'_>,
    sink: &mut impl Sink,
) {
    if packet.has_tail() {
        return send_long(packet, packet_id, conn, delivery, sink);
    }
    sink.publish(conn, packet.with(packet_id), delivery.topic, may_wait);
}

#[cold]
fn send_long(
    packet: Encoded<'_>,
    packet_id: Option<PacketId>,
    conn: ConnKey,
    delivery: &mut Delivery<'_>,
    sink: &mut impl Sink,
) {
    sink.deliver_long(conn, packet.with(packet_id), delivery.shared());
}

fn queued(to: Receiver<'_>, delivery: &mut Delivery<'_>) -> Queued {
    Queued {
        message: Arc::clone(delivery.shared()),
        qos: to.qos,
        retain: to.retain,
        subscription_ids: (!to.subscription_ids.is_empty()).then(|| to.subscription_ids.into()),
    }
}

/// A durable session gets a message, which waits or, with an identifier, is sent. Says whether the
/// session is one.
#[inline]
fn log_queued(
    log: &mut Log,
    to: Receiver<'_>,
    packet_id: Option<PacketId>,
    delivery: &mut Delivery<'_>,
    sink: &mut impl Sink,
) -> bool {
    let Some(session) = log.session(to.session) else { return false };
    let message = log.message(delivery, sink);
    let Receiver { qos, retain, subscription_ids, .. } = to;
    let subscription_ids = subscription_ids.into();
    let queued = Record::Queued { session, message, qos, retain, subscription_ids, packet_id };
    log.append(&queued, sink);
    true
}

pub(super) fn shape_of(queued: &Queued, attachment: Attachment, dup: bool) -> Shape<'_> {
    Shape {
        version: attachment.version,
        qos: queued.qos,
        retain: queued.retain,
        dup,
        subscription_ids: queued.subscription_ids.as_deref().unwrap_or(&[]),
        alias: AliasOut::None,
    }
}

/// A topic no longer than this is not worth an alias of three bytes.
const SHORT_TOPIC_BYTES: usize = 4;

#[inline]
pub(super) fn alias_for(
    connections: &mut Connections,
    attachment: &Attachment,
    topic: &str,
) -> AliasOut {
    if attachment.aliases_max == 0 || topic.len() <= SHORT_TOPIC_BYTES {
        return AliasOut::None;
    }
    choose_alias(connections, attachment, topic)
}

#[cold]
fn choose_alias(connections: &mut Connections, attachment: &Attachment, topic: &str) -> AliasOut {
    match connections.live_mut(attachment.conn) {
        Some(live) => live.cold().aliases_out.choose(topic, attachment.aliases_max),
        None => AliasOut::None,
    }
}

#[inline]
pub(super) fn alias_sent(
    connections: &mut Connections,
    attachment: &Attachment,
    topic: &str,
    alias: AliasOut,
) {
    if let AliasOut::New(_) = alias
        && let Some(live) = connections.live_mut(attachment.conn)
    {
        live.cold().aliases_out.sent(topic, alias);
    }
}

pub(super) fn drop_notice(
    session: &Session,
    topic: &str,
    cause: &'static str,
    sink: &mut impl Sink,
) {
    let conn = session.attachment.map(|attachment| attachment.conn);
    sink.notice(Notice::Dropped { conn, client_id: &session.client_id, topic, cause });
}

/// Why a client does not get what it may not read.
const NO_RIGHT: &str = "no right to read the topic";

#[cold]
fn withheld(session: &Session, topic: &str, cause: &'static str, sink: &mut impl Sink) {
    sink.notice(Notice::Withheld { client_id: &session.client_id, topic, cause });
}

/// Whether a delivery would be sent at once.
pub(super) fn standing(session: &Session, bounds: &Bounds, sink: &impl Sink) -> Standing {
    let Some(attachment) = session.attachment else { return Standing::Absent };
    let is_ready = session.queue_is_empty()
        && session.window.has_room(attachment.open_max)
        && sink.pending(attachment.conn) <= bounds.output_bytes_max;
    if is_ready { Standing::Ready } else { Standing::Busy }
}
