//! PUBLISH from a client.

use super::acks::plain_ack;
use super::connection::Refusal;
use super::reasons::reason_string;
use super::retain::Kept;
use super::{Next, Shard};
use crate::answers::{AckReply, Reply};
use crate::bounds::{Bounds, CEILING, LEAN_ALIAS_BYTES_MAX};
use crate::keys::Ticket;
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::message::{Delivery, passed_on};
use crate::own::is_brokers_own;
use crate::sink::{Notice, Sink};
use weir_wire::packet::{Ack, Publish};
use weir_wire::{PacketId, PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode};

/// PUBACK or PUBREC with a reason and an empty property length.
const ACK_BYTES: usize = 6;

/// Output of a client that is not told why in words: it does not read what it is told.
const BEHIND_BYTES: usize = 16 * 1024;

/// A message that the broker does not take, said to its publisher alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotTaken {
    pub(super) reason: ReasonCode,
    pub(super) detail: &'static str,
}

impl Shard {
    pub(super) fn on_publish(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        publish: &Publish<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<Next, Refusal> {
        let aliased = self.begin_publish(conn, publish, sink)?;
        let topic = aliased.as_deref().unwrap_or(publish.topic);
        if !self.is_new(session, publish)? {
            self.acknowledge_again(conn, session, publish, now, sink)?;
            return Ok(Next::Continue);
        }
        if !self.clients.may_write(session, topic) {
            self.forbid(conn, session, publish, topic, now, sink)?;
            return Ok(Next::Continue);
        }
        let taken = match self.check_message(topic, publish.qos, publish.retain) {
            Ok(()) => self.take(conn, session, topic, publish, now, sink),
            Err(Refusal {
                reason: reason @ (ReasonCode::TopicNameInvalid | ReasonCode::NotAuthorized),
                detail,
            }) => Err(NotTaken { reason, detail }),
            Err(refusal) => {
                self.release_refused(session, publish.packet_id, publish.qos);
                return Err(refusal);
            }
        };
        match taken {
            Ok((reason, ticket)) => {
                if publish.qos == QoS::ExactlyOnce && !self.asks_others(ticket) {
                    self.log_noted(session, publish.packet_id, sink);
                }
                let result =
                    self.acknowledge(conn, session, publish, (reason, ""), ticket, now, sink);
                // Nobody waits for a message of QoS 0.
                self.post_present(None, now);
                result
            }
            Err(not_taken) => {
                if self.put_back(conn, session, publish, sink) {
                    return Ok(Next::Again);
                }
                self.refuse_message(conn, session, publish, topic, not_taken, now, sink)
            }
        }?;
        Ok(Next::Continue)
    }

    /// Puts a message back that is not taken, to look at it again once the client's answers have
    /// left, if there are some. Where no packet says that it is not taken the connection ends: what
    /// was sent before would be new when it comes again, and all of it would, each time.
    #[cold]
    pub(super) fn put_back(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        publish: &Publish<'_>,
        sink: &mut impl Sink,
    ) -> bool {
        if !self.is_refused_by_end(session, publish) || !self.holds_answers(conn) {
            return false;
        }
        let Some(live) = self.connections.live_mut(conn) else { return false };
        live.cold().is_put_back = true;
        sink.pause(conn);
        self.release_refused(session, publish.packet_id, publish.qos);
        self.stats.not_received(publish.qos);
        true
    }

    fn is_refused_by_end(&self, session: SessionKey, publish: &Publish<'_>) -> bool {
        publish.qos == QoS::AtMostOnce || !self.clients[session].version().is_v5()
    }

    /// Delivered already: only the acknowledgement is owed again [MQTT-4.3.3-10].
    #[cold]
    pub(super) fn acknowledge_again(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        publish: &Publish<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        if self.waits_again(conn, session, publish, now) {
            return self.check_held_acks(conn, session);
        }
        self.begin_answer();
        let reason = (ReasonCode::Success, "");
        self.acknowledge(conn, session, publish, reason, None, now, sink)
    }

    /// Tells the publisher that its message is not taken, or ends its connection where no packet
    /// says so.
    #[cold]
    #[expect(clippy::too_many_arguments, reason = "an input of the shard with its answer")]
    pub(super) fn refuse_message(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        publish: &Publish<'_>,
        topic: &str,
        not_taken: NotTaken,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        self.release_refused(session, publish.packet_id, publish.qos);
        self.note_refused(Some(conn), session, topic, not_taken, sink);
        let NotTaken { reason, detail } = not_taken;
        if self.is_refused_by_end(session, publish) {
            return Err(Refusal::new(reason, detail));
        }
        self.stats.refusals.add(reason);
        self.acknowledge(conn, session, publish, (reason, detail), None, now, sink)
    }

    pub(super) fn note_refused(
        &mut self,
        conn: Option<ConnKey>,
        session: SessionKey,
        topic: &str,
        NotTaken { reason, detail }: NotTaken,
        sink: &mut impl Sink,
    ) {
        self.stats.publishes_refused += 1;
        let client_id = &self.clients[session].client_id;
        sink.notice(Notice::Refused { conn, client_id, topic, reason, detail });
    }

    /// Retains and routes a new message. Says with which reason it is acknowledged, and which
    /// answer that has to wait for, or why the broker did nothing with it.
    fn take(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        topic: &str,
        publish: &Publish<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(ReasonCode, Option<Ticket>), NotTaken> {
        let (kept, expires_at) = if publish.properties.is_empty() {
            (PropertiesBuf::new(), None)
        } else {
            check_payload_format(publish.properties, publish.payload)
                .map_err(|Refusal { reason, detail }| NotTaken { reason, detail })?;
            passed_on(publish.properties, now)
        };
        let mut delivery = Delivery::from_parts(
            topic,
            publish.payload,
            kept.as_properties(),
            (publish.qos, publish.retain),
            expires_at,
            Some(session),
        );
        self.filters.conditions.next_message();
        self.check_room_elsewhere(&delivery, sink)?;
        self.check_room(&delivery, sink)?;
        delivery.is_awaited = publish.packet_id.is_some();
        delivery.is_gathered = self.is_gathered(session, publish.qos, publish.retain);
        let mut ticket = None;
        let kept = match publish.retain {
            true => {
                let origin = self.clients.origin(session);
                let publisher = publish.packet_id.map(|id| (conn, session, id));
                self.retain(&mut delivery, origin, publisher, now, sink)
            }
            false => Kept::Yes,
        };
        match kept {
            Kept::Yes => {}
            Kept::Asked(asked) => ticket = Some(asked),
            Kept::No(why) => {
                let (reason, detail) = (ReasonCode::QuotaExceeded, why.detail());
                if publish.qos != QoS::AtMostOnce {
                    self.picks.clear();
                    return Err(NotTaken { reason, detail });
                }
                // Live subscribers get a message that cannot be refused in words.
                let client_id = &self.clients[session].client_id;
                let conn = Some(conn);
                sink.notice(Notice::Refused { conn, client_id, topic, reason, detail });
            }
        }
        let is_matched = self.route(&mut delivery, now, sink);
        self.mail_gathered(&mut delivery, ticket.is_some(), sink);
        self.apply_rules(&delivery, |shard| shard.clients.origin(session), now, sink);
        let reason =
            if is_matched { ReasonCode::Success } else { ReasonCode::NoMatchingSubscribers };
        Ok((reason, ticket))
    }

    /// The bounds and features that a PUBLISH and a will have in common.
    pub(super) fn check_message(&self, topic: &str, qos: QoS, retain: bool) -> Result<(), Refusal> {
        if qos > self.bounds.features.qos_max {
            return Err(Refusal::new(ReasonCode::QoSNotSupported, ""));
        }
        // [MQTT-3.2.2-14]
        if retain && !self.bounds.features.retain {
            return Err(Refusal::new(ReasonCode::RetainNotSupported, ""));
        }
        if topic.len() > usize::from(self.bounds.limits.topic_bytes_max) {
            return Err(Refusal::new(ReasonCode::TopicNameInvalid, "the topic name is too long"));
        }
        let levels_max = usize::from(self.bounds.limits.topic_levels_max);
        // A topic of n levels has n - 1 separators, so a short one need not be counted.
        if topic.len() >= levels_max && topic.split('/').count() > levels_max {
            return Err(Refusal::new(ReasonCode::TopicNameInvalid, "too many topic levels"));
        }
        if is_brokers_own(topic) {
            let detail = "topics below $SYS are the broker's own";
            return Err(Refusal::new(ReasonCode::NotAuthorized, detail));
        }
        Ok(())
    }

    /// Counts it, and says the topic of one that has only an alias, unless its QoS is not
    /// supported [MQTT-3.2.2-11].
    #[inline(always)]
    pub(super) fn begin_publish(
        &mut self,
        conn: ConnKey,
        publish: &Publish<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<Box<str>>, Refusal> {
        self.stats.received(publish.qos);
        let aliased = self.resolve_alias(conn, publish, sink)?;
        if publish.qos > self.bounds.features.qos_max {
            return Err(Refusal::new(ReasonCode::QoSNotSupported, ""));
        }
        Ok(aliased)
    }

    /// Whether it was not taken before. If so, its answer begins.
    #[inline(always)]
    pub(super) fn is_new(
        &mut self,
        session: SessionKey,
        publish: &Publish<'_>,
    ) -> Result<bool, Refusal> {
        if publish.qos == QoS::ExactlyOnce && !self.note_unreleased(session, publish)? {
            return Ok(false);
        }
        self.begin_answer();
        Ok(true)
    }

    /// The topic of a PUBLISH that has only an alias; notes a new alias [MQTT-3.3.2-8 to -12].
    fn resolve_alias(
        &mut self,
        conn: ConnKey,
        publish: &Publish<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<Box<str>>, Refusal> {
        if publish.properties.is_empty() {
            return Ok(None);
        }
        let mut alias = None;
        for property in publish.properties.iter() {
            match property {
                Property::TopicAlias(number) => alias = Some(number),
                // [MQTT-3.3.4-6]
                Property::SubscriptionIdentifier(_) => {
                    return Err(Refusal::protocol("a subscription identifier from a client"));
                }
                _ => {}
            }
        }
        let Some(alias) = alias else { return Ok(None) };
        let invalid = Refusal::new(ReasonCode::TopicAliasInvalid, "");
        if alias == 0 || alias > self.bounds.limits.topic_alias_maximum {
            return Err(invalid);
        }
        self.keeps(publish.topic.len(), sink);
        let Bounds { is_pressed, is_lean, .. } = self.bounds;
        let is_long = is_lean && publish.topic.len() > LEAN_ALIAS_BYTES_MAX;
        let Some(live) =
            self.connections.get_mut(conn).and_then(|connection| connection.live_mut())
        else {
            return Ok(None);
        };
        let aliases = &mut live.cold().aliases_in;
        if publish.topic.is_empty() {
            let unknown = Refusal::protocol("a topic alias that was not set up");
            return aliases.topic(alias).map(|topic| Some(topic.into())).ok_or(unknown);
        }
        if (is_pressed || is_long) && aliases.topic(alias) != Some(publish.topic) {
            return Err(Refusal::new(ReasonCode::QuotaExceeded, CEILING));
        }
        aliases.set(alias, publish.topic);
        Ok(None)
    }

    /// Says whether a QoS 2 message is new.
    fn note_unreleased(&mut self, key: SessionKey, publish: &Publish<'_>) -> Result<bool, Refusal> {
        let Some(packet_id) = publish.packet_id else { return Ok(true) };
        let session = &mut self.clients[key];
        let is_new = session.note_unreleased(packet_id);
        let is_v5 = session.attachment.is_some_and(|attachment| attachment.version.is_v5());
        // Older clients are told no Receive Maximum; their identifiers are the bound.
        if is_v5 && session.unreleased() > usize::from(self.bounds.limits.receive_maximum) {
            if is_new {
                session.release(packet_id);
            }
            return Err(Refusal::new(ReasonCode::ReceiveMaximumExceeded, ""));
        }
        Ok(is_new)
    }

    /// A message that is not taken is not delivered already when it comes again, on whichever
    /// connection: the acknowledgement that refuses it may never be sent.
    pub(super) fn release_refused(
        &mut self,
        key: SessionKey,
        packet_id: Option<PacketId>,
        qos: QoS,
    ) {
        if qos == QoS::ExactlyOnce
            && let Some(packet_id) = packet_id
        {
            self.clients[key].release(packet_id);
        }
    }

    /// Acknowledges a PUBLISH once it is where it has to be, after all that the connection's client
    /// sent before it. `ticket` is the answer that waits for the owner of the topic already.
    #[expect(clippy::too_many_arguments, reason = "an input of the shard with its answer")]
    pub(super) fn acknowledge(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        publish: &Publish<'_>,
        (reason, detail): (ReasonCode, &'static str),
        ticket: Option<Ticket>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        let Some(packet_id) = publish.packet_id else { return Ok(()) };
        if ticket.is_none() && !self.must_wait() && !self.holds_answers(conn) {
            self.write_ack(conn, session, (packet_id, publish.qos), (reason, detail), sink);
            return Ok(());
        }
        let (qos, retained) = (publish.qos, None);
        let is_to_note = qos == QoS::ExactlyOnce && !reason.is_error() && self.asks_others(ticket);
        let mut ack = AckReply { session, packet_id, qos, reason, detail, retained, is_to_note };
        let ticket = match ticket {
            None => self.insert_answer(Some(conn), Reply::Ack(ack), 0, now),
            Some(ticket) => {
                self.add_waits(ticket);
                if let Some(Reply::Ack(asked)) = self.answers.reply_mut(ticket) {
                    ack.retained = asked.retained.take();
                    *asked = ack;
                }
                ticket
            }
        };
        self.post_present(Some(ticket), now);
        self.hold(conn, ticket);
        // It is among them, so that it goes the way of all answers of a connection that ends.
        self.check_held_acks(conn, session)
    }

    /// Whether other shards have a say in the present message, those included that `ticket` waits
    /// for.
    #[inline]
    fn asks_others(&self, ticket: Option<Ticket>) -> bool {
        ticket.is_some() || self.answers.has_mailed() || self.has_letters_to_ask()
    }

    /// No more acknowledgements wait than the client was told it may have open.
    fn check_held_acks(&self, conn: ConnKey, session: SessionKey) -> Result<(), Refusal> {
        let is_v5 = self.clients[session].version().is_v5();
        // Older clients are told no Receive Maximum; their identifiers are the bound.
        let held_max =
            usize::from(if is_v5 { self.bounds.limits.receive_maximum } else { u16::MAX });
        let Some(held) = self.connections.held_answers(conn).filter(|held| held.len() > held_max)
        else {
            return Ok(());
        };
        let is_ack = |&&ticket: &&Ticket| {
            self.answers.get(ticket).is_some_and(|answer| matches!(answer.reply, Reply::Ack(_)))
        };
        if held.iter().filter(is_ack).count() > held_max {
            return Err(Refusal::new(ReasonCode::ReceiveMaximumExceeded, ""));
        }
        Ok(())
    }

    pub(super) fn write_ack(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        (packet_id, qos): (PacketId, QoS),
        (reason, detail): (ReasonCode, &'static str),
        sink: &mut impl Sink,
    ) {
        let attachment = self.clients[session].attachment;
        let kind = if qos == QoS::AtLeastOnce {
            PacketKind::PubAck
        } else {
            if reason.is_error() {
                // The exchange ends with a PUBREC that refuses.
                self.clients[session].release(packet_id);
            }
            PacketKind::PubRec
        };
        // Older versions never carry a reason.
        match attachment {
            Some(attachment) if reason != ReasonCode::Success && attachment.version.is_v5() => {
                let is_behind = sink.pending(conn) > BEHIND_BYTES;
                let detail = if is_behind { "" } else { detail };
                let properties = reason_string(&attachment, detail, ACK_BYTES);
                let mut bytes = Vec::new();
                Ack { packet_id, reason, properties: properties.as_properties() }.encode(
                    kind,
                    attachment.version,
                    &mut bytes,
                );
                sink.write(conn, &bytes);
            }
            _ => sink.write(conn, &plain_ack(kind, packet_id)),
        }
    }
}

/// A payload that says it is UTF-8 has to be (section 3.3.2.3.2).
pub(super) fn check_payload_format(
    properties: Properties<'_>,
    payload: &[u8],
) -> Result<(), Refusal> {
    let is_text = |property| matches!(property, Property::PayloadFormatIndicator(1)).then_some(());
    if properties.find(is_text).is_some() && std::str::from_utf8(payload).is_err() {
        return Err(Refusal::new(ReasonCode::PayloadFormatInvalid, "the payload is not UTF-8"));
    }
    Ok(())
}
