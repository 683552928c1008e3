//! PUBLISH from a client.

use super::Shard;
use super::connection::Refusal;
use super::delivery::Origin;
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::message::{Delivery, passed_on};
use crate::retained::RetainedFull;
use crate::sink::Sink;
use std::sync::Arc;
use weir_wire::packet::{Ack, Publish};
use weir_wire::{PacketKind, Properties, PropertiesBuf, Property, QoS, ReasonCode, Version};

impl Shard {
    pub(super) fn on_publish(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        publish: &Publish<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        self.stats.publishes_in += 1;
        let aliased = self.resolve_alias(conn, publish)?;
        let topic = aliased.as_deref().unwrap_or(publish.topic);
        let is_deep = topic.len() > usize::from(self.limits.topic_levels_max)
            && topic.split('/').count() > usize::from(self.limits.topic_levels_max);
        if is_deep {
            return Err(Refusal::new(ReasonCode::TopicNameInvalid, "too many topic levels"));
        }
        if publish.qos == QoS::ExactlyOnce && !self.note_unreleased(session, publish)? {
            // Delivered already: only the acknowledgement is owed again [MQTT-4.3.3-2].
            self.acknowledge(conn, session, publish, ReasonCode::Success, sink);
            return Ok(());
        }
        let (kept, expires_at) = if publish.properties.is_empty() {
            (PropertiesBuf::new(), None)
        } else {
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
        let retained = self.retain(&mut delivery);
        let is_matched = self.route(&mut delivery, Origin::Client, now, sink);
        let reason = match (retained, is_matched) {
            (Err(RetainedFull), _) => ReasonCode::QuotaExceeded,
            (Ok(()), true) => ReasonCode::Success,
            (Ok(()), false) => ReasonCode::NoMatchingSubscribers,
        };
        self.acknowledge(conn, session, publish, reason, sink);
        Ok(())
    }

    /// The topic of a PUBLISH that has only an alias; notes a new alias [MQTT-3.3.2-8 to -12].
    fn resolve_alias(
        &mut self,
        conn: ConnKey,
        publish: &Publish<'_>,
    ) -> Result<Option<Box<str>>, Refusal> {
        if publish.properties.is_empty() {
            return Ok(None);
        }
        let alias = publish.properties.find(|property| match property {
            Property::TopicAlias(alias) => Some(alias),
            _ => None,
        });
        let Some(alias) = alias else { return Ok(None) };
        let invalid = Refusal::new(ReasonCode::TopicAliasInvalid, "");
        if alias == 0 || alias > self.limits.topic_alias_maximum {
            return Err(invalid);
        }
        let at = usize::from(alias) - 1;
        let Some(live) = self.connection_mut(conn).and_then(|connection| connection.live_mut())
        else {
            return Ok(None);
        };
        if publish.topic.is_empty() {
            let topic = live.aliases.get(at).filter(|topic| !topic.is_empty());
            let unknown = Refusal::protocol("a topic alias that was not set up");
            return topic.cloned().map(Some).ok_or(unknown);
        }
        if live.aliases.len() <= at {
            live.aliases.resize_with(at + 1, Box::default);
        }
        live.aliases[at] = publish.topic.into();
        Ok(None)
    }

    /// Says whether a QoS 2 message is new.
    fn note_unreleased(&mut self, key: SessionKey, publish: &Publish<'_>) -> Result<bool, Refusal> {
        let Some(packet_id) = publish.packet_id else { return Ok(true) };
        let session = &mut self.sessions[key.0 as usize];
        let is_new = session.note_unreleased(packet_id);
        let is_v5 = session.link.is_some_and(|link| link.version.is_v5());
        // Older clients are told no Receive Maximum; their identifiers are the bound.
        if is_v5 && session.unreleased.len() > usize::from(self.limits.receive_maximum) {
            return Err(Refusal::new(ReasonCode::ReceiveMaximumExceeded, ""));
        }
        Ok(is_new)
    }

    /// Keeps or clears the topic's retained message, if RETAIN is set.
    pub(super) fn retain(&mut self, delivery: &mut Delivery<'_>) -> Result<(), RetainedFull> {
        if !delivery.retain {
            return Ok(());
        }
        if delivery.payload.is_empty() {
            self.retained.clear(delivery.topic);
            return Ok(());
        }
        let message = Arc::clone(delivery.shared());
        let result = self.retained.set(message, &self.limits);
        self.stats.retained_refused += u64::from(result.is_err());
        result
    }

    fn acknowledge(
        &mut self,
        conn: ConnKey,
        session: SessionKey,
        publish: &Publish<'_>,
        reason: ReasonCode,
        sink: &mut impl Sink,
    ) {
        let Some(packet_id) = publish.packet_id else { return };
        let version = match self.sessions[session.0 as usize].link {
            Some(link) => link.version,
            None => Version::V311,
        };
        let kind = if publish.qos == QoS::AtLeastOnce {
            PacketKind::PubAck
        } else {
            if reason.is_error() {
                // The exchange ends with a PUBREC that refuses.
                self.sessions[session.0 as usize].release(packet_id);
            }
            PacketKind::PubRec
        };
        // Four bytes without a reason; older versions never carry one.
        let [high, low] = packet_id.value().to_be_bytes();
        if reason == ReasonCode::Success || !version.is_v5() {
            return sink.write(conn, &[(kind as u8) << 4, 2, high, low]);
        }
        let mut bytes = Vec::new();
        Ack { packet_id, reason, properties: Properties::EMPTY }.encode(kind, version, &mut bytes);
        sink.write(conn, &bytes);
    }
}
