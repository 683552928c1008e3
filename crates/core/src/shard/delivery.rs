//! From a message to its receivers: route, then deliver, keep or drop.

use super::Shard;
use super::acks::plain_ack;
use super::connection::{Connection, Live};
use crate::aliases::AliasOut;
use crate::encoder::{Encoded, Shape};
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::limits::{Limits, WhenAbsent};
use crate::mail::GroupPick;
use crate::message::{Delivery, Message, Queued};
use crate::pages::Pages;
use crate::queue::Queue;
use crate::routing::{FilterId, Subscriber};
use crate::session::{Link, Session};
use crate::sink::{Notice, Sink};
use crate::window::Owed;
use smallvec::SmallVec;
use std::sync::Arc;
use weir_wire::{PacketId, PacketKind, QoS, Version};

/// One receiver of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiver<'a> {
    pub(super) session: SessionKey,
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) subscription_ids: &'a [u32],
}

/// A session whose queue ran over, by what it was then.
#[derive(Clone, Copy, Debug)]
pub(super) enum Overflowed {
    /// Its connection ends; its messages stay if it outlives that.
    Connected(SessionKey),
    /// It ends itself, as the setting for the absent says.
    Absent(SessionKey),
}

impl Shard {
    /// Gives a message of this shard's client, or its will, to every matching session, group and
    /// shard. Says whether there was one.
    pub(super) fn route(
        &mut self,
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> bool {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.filters.find(delivery.topic, &mut found);
        self.note_recent(delivery.topic, delivery.stamp);
        self.encoder.begin();
        if self.deliver_to_subscribers(&found, delivery, now, sink) {
            for &id in &found {
                self.deliver_to_groups(id, delivery, now, sink);
            }
        }
        if self.shards > 1 {
            self.mail_to_shards(&found, delivery, sink);
        }
        let is_matched = !found.is_empty();
        self.found = found;
        is_matched
    }

    /// Gives a message of another shard, which has told the others itself, to whom it is for here.
    pub(super) fn route_mail(
        &mut self,
        message: &Arc<Message>,
        to_subscribers: bool,
        picks: SmallVec<[GroupPick; 1]>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let mut delivery = Delivery::from_message(message, None);
        self.filters.conditions.next_message();
        self.encoder.begin();
        if to_subscribers {
            let mut found = std::mem::take(&mut self.found);
            found.clear();
            self.filters.find(delivery.topic, &mut found);
            self.note_recent(delivery.topic, delivery.stamp);
            self.deliver_to_subscribers(&found, &mut delivery, now, sink);
            self.found = found;
        }
        for pick in picks {
            self.deliver_pick(pick, &mut delivery, now, sink);
        }
        if !self.picks.there.is_empty() {
            self.mail_to_shards(&[], &mut delivery, sink);
        }
    }

    /// Says whether there may be groups beside.
    fn deliver_to_subscribers(
        &mut self,
        found: &[FilterId],
        delivery: &mut Delivery<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> bool {
        let mut targets = std::mem::take(&mut self.targets);
        targets.clear();
        let mut has_lists_beside = false;
        for &id in found {
            let filter = self.filters.get(id);
            targets.extend_from_slice(&filter.subscribers);
            has_lists_beside |= filter.has_lists_beside();
        }
        let mut lists = found.len();
        // What has no condition pays nothing for those that have.
        if has_lists_beside && !self.filters.conditions.is_empty() {
            lists = self.filters.add_filtered(found, &delivery.content(), &mut targets);
        }
        self.slices.add((self.filters.shapes() + found.len() + targets.len()) as u64);
        // Only several lists can bring one session twice.
        if lists == 1 {
            for target in &targets {
                self.deliver_to_one(target, delivery, now, sink);
            }
        } else if !targets.is_empty() {
            self.deliver_merged(&mut targets, delivery, now, sink);
        }
        self.targets = targets;
        has_lists_beside
    }

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
    fn deliver_merged(
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
        let Self { sessions, connections, encoder, stats, .. } = self;
        let session = &mut sessions[to.session.0 as usize];
        let Some(link) = session.link else { return self.keep_for_absent(to, delivery, sink) };
        let shape = Shape {
            version: link.version,
            qos: to.qos,
            retain: to.retain,
            dup: false,
            subscription_ids: to.subscription_ids,
            alias: alias_for(connections, &link, delivery.topic),
        };
        let is_output_full = sink.pending(link.conn) > self.output_bytes_max;
        if to.qos == QoS::AtMostOnce {
            if is_output_full {
                stats.dropped_output_full += 1;
                return drop_notice(session, delivery.topic, "output full", sink);
            }
            let packet = encoder.encode(delivery, shape, now);
            if packet.len() > link.packet_bytes_max as usize {
                stats.dropped_too_large += 1;
                return drop_notice(session, delivery.topic, "over Maximum Packet Size", sink);
            }
            stats.publishes_out += 1;
            send(packet, None, true, link.conn, delivery, sink);
            return alias_sent(connections, &link, delivery.topic, shape.alias);
        }
        if !session.queue_is_empty() || is_output_full || !session.window.has_room(link.open_max) {
            return self.enqueue(to, delivery, sink);
        }
        let packet = encoder.encode(delivery, shape, now);
        if packet.len() > link.packet_bytes_max as usize {
            // [MQTT-3.1.2-25]
            stats.dropped_too_large += 1;
            return drop_notice(session, delivery.topic, "over Maximum Packet Size", sink);
        }
        let kept = session.outlives_connection().then(|| queued(to, delivery));
        let packet_id = session.window.push(to.qos, kept, self.limits.queue_bytes_max);
        stats.publishes_out += 1;
        // Without room what comes next waits for the client's answer to this.
        let may_wait = session.window.has_room(link.open_max);
        send(packet, Some(packet_id), may_wait, link.conn, delivery, sink);
        alias_sent(connections, &link, delivery.topic, shape.alias);
    }

    /// Puts a delivery into a connected session's queue; over the bound the session is ended.
    ///
    /// Not so while it catches up with what it missed: its queue may be full from its absence, so
    /// that the next message would end each connection before it could take anything. Until the
    /// queue was empty once, the absent's rule holds ([`Shard::keep_for_absent`]).
    fn enqueue(&mut self, to: Receiver<'_>, delivery: &mut Delivery<'_>, sink: &mut impl Sink) {
        let session = &mut self.sessions[to.session.0 as usize];
        session.enqueue(queued(to, delivery));
        let may_drop =
            session.catches_up() && self.limits.queue_full_absent != WhenAbsent::EndSession;
        while self.is_over(to.session) {
            self.drop_oldest(to.session, sink);
            if !may_drop {
                return self.overflowed.push(Overflowed::Connected(to.session));
            }
        }
    }

    /// An absent session: QoS 1 and 2 wait for it, over the bound the oldest goes. So it does while
    /// memory is short, for a message whose publisher can no longer be refused.
    fn keep_for_absent(
        &mut self,
        to: Receiver<'_>,
        delivery: &mut Delivery<'_>,
        sink: &mut impl Sink,
    ) {
        if to.qos == QoS::AtMostOnce {
            self.stats.dropped_absent_qos0 += 1;
            return;
        }
        let session = &mut self.sessions[to.session.0 as usize];
        let bytes = session.queue().map_or(0, |queue| queue.bytes);
        session.enqueue(queued(to, delivery));
        if self.is_pressed && delivery.publisher.is_none() {
            self.drop_to(to.session, bytes, sink);
        }
        if self.limits.queue_full_absent == WhenAbsent::EndSession && self.is_over(to.session) {
            self.overflowed.push(Overflowed::Absent(to.session));
        }
        while self.is_over(to.session) {
            self.drop_oldest(to.session, sink);
        }
    }

    pub(super) fn is_over(&self, session: SessionKey) -> bool {
        is_over(&self.sessions[session.0 as usize], &self.limits, 0, 0)
    }

    /// Drops the oldest, but for the newest one, until the queue has no more than so many bytes.
    fn drop_to(&mut self, key: SessionKey, bytes: u64, sink: &mut impl Sink) {
        let has_more = |queue: &Queue| queue.bytes > bytes && queue.deliveries.len() > 1;
        while self.sessions[key.0 as usize].queue().is_some_and(has_more) {
            self.drop_oldest(key, sink);
        }
    }

    fn drop_oldest(&mut self, key: SessionKey, sink: &mut impl Sink) {
        let session = &mut self.sessions[key.0 as usize];
        if let Some(oldest) = session.dequeue() {
            self.stats.dropped_queue_full += 1;
            drop_notice(session, &oldest.message.topic, "queue full", sink);
        }
    }

    /// Sends what is owed, then what waits in the session's queue, as far as window and output
    /// allow.
    pub(super) fn pump(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        if self.sessions[key.0 as usize].window.is_owing() {
            self.send_owed(key, now, sink);
        }
        let Self { sessions, connections, encoder, stats, .. } = self;
        let session = &mut sessions[key.0 as usize];
        let Some(link) = session.link else { return };
        while !session.queue_is_empty()
            && session.window.has_room(link.open_max)
            && sink.pending(link.conn) <= self.output_bytes_max
        {
            let Some(queued) = session.dequeue() else { return };
            if queued.message.is_expired(now) {
                stats.dropped_expired += 1;
                drop_notice(session, &queued.message.topic, "expired", sink);
                continue;
            }
            let mut delivery = Delivery::from_message(&queued.message, None);
            let alias = alias_for(connections, &link, delivery.topic);
            let shape = Shape { alias, ..shape_of(&queued, link, false) };
            encoder.begin();
            let packet = encoder.encode(&delivery, shape, now);
            if packet.len() > link.packet_bytes_max as usize {
                stats.dropped_too_large += 1;
                drop_notice(session, &queued.message.topic, "over Maximum Packet Size", sink);
                continue;
            }
            let kept = session.outlives_connection().then(|| queued.clone());
            let kept_bytes_max = self.limits.queue_bytes_max;
            let packet_id = (queued.qos != QoS::AtMostOnce)
                .then(|| session.window.push(queued.qos, kept, kept_bytes_max));
            stats.publishes_out += 1;
            send(packet, packet_id, false, link.conn, &mut delivery, sink);
            alias_sent(connections, &link, delivery.topic, alias);
        }
        if session.has_replays() {
            self.replay(key, now, sink);
        }
    }

    /// A resumed session: what was open is sent again with DUP, in the order and with the
    /// identifiers it had [MQTT-4.4.0-1], as far as the client's Receive Maximum and its output
    /// allow.
    fn send_owed(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        let Self { sessions, encoder, stats, .. } = self;
        let session = &mut sessions[key.0 as usize];
        let Some(link) = session.link else { return };
        while sink.pending(link.conn) <= self.output_bytes_max
            && let Some(Owed { packet_id, message }) = session.window.take_owed(link.open_max)
        {
            let Some(queued) = message else {
                sink.write(link.conn, &plain_ack(PacketKind::PubRel, packet_id));
                continue;
            };
            let mut delivery = Delivery::from_message(&queued.message, None);
            let shape = shape_of(&queued, link, true);
            let packet = encoder.encode(&delivery, shape, now);
            if packet.len() > link.packet_bytes_max as usize {
                // The client takes less than it did: as if it had been sent and done
                // [MQTT-3.1.2-25].
                session.window.give_up(packet_id);
                stats.dropped_too_large += 1;
                drop_notice(session, &queued.message.topic, "over Maximum Packet Size", sink);
                continue;
            }
            stats.publishes_out += 1;
            send(packet, Some(packet_id), false, link.conn, &mut delivery, sink);
        }
    }
}

/// Whether a session's queue would be over a bound with so much more in it.
pub(super) fn is_over(session: &Session, limits: &Limits, messages: usize, bytes: u64) -> bool {
    let queue = session.queue();
    let (queued, queued_bytes) =
        queue.map_or((0, 0), |queue| (queue.deliveries.len(), queue.bytes));
    queued + messages > limits.queue_messages_max as usize
        || queued_bytes + bytes > limits.queue_bytes_max
}

/// Writes a packet; `may_wait` says that it need not leave at once.
#[inline(always)]
fn send(
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
    let bytes = packet.with(packet_id);
    if may_wait {
        sink.deliver(conn, bytes);
    } else {
        sink.write(conn, bytes);
    }
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

fn shape_of(queued: &Queued, link: Link, dup: bool) -> Shape<'_> {
    Shape {
        version: link.version,
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
fn alias_for(connections: &mut Pages<Connection>, link: &Link, topic: &str) -> AliasOut {
    if link.aliases_max == 0 || topic.len() <= SHORT_TOPIC_BYTES {
        return AliasOut::None;
    }
    choose_alias(connections, link, topic)
}

#[cold]
fn choose_alias(connections: &mut Pages<Connection>, link: &Link, topic: &str) -> AliasOut {
    match live_of(connections, link) {
        Some(live) => live.extra().aliases_out.choose(topic, link.aliases_max),
        None => AliasOut::None,
    }
}

#[inline]
fn alias_sent(connections: &mut Pages<Connection>, link: &Link, topic: &str, alias: AliasOut) {
    if let AliasOut::New(_) = alias
        && let Some(live) = live_of(connections, link)
    {
        live.extra().aliases_out.sent(topic, alias);
    }
}

fn live_of<'a>(connections: &'a mut Pages<Connection>, link: &Link) -> Option<&'a mut Live> {
    connections.get_mut(link.conn.0 as usize)?.live_mut()
}

fn drop_notice(session: &Session, topic: &str, cause: &'static str, sink: &mut impl Sink) {
    sink.notice(Notice::Dropped { client_id: &session.client_id, topic, cause });
}

/// The wire version of a session's acknowledgements.
pub(super) fn version_of(session: &Session) -> Version {
    session.link.map_or(Version::V311, |link| link.version)
}
