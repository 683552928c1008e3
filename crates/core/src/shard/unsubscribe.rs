//! UNSUBSCRIBE.

use super::Shard;
use super::connection::Refusal;
use super::reasons::check_answer;
use super::rest::{Parked, ParkedPacket, filter_steps};
use crate::answers::Reply;
use crate::keys::{Micros, SessionKey};
use crate::name::Name;
use crate::record::Record;
use crate::sink::Sink;
use smallvec::SmallVec;
use weir_wire::packet::{UnsubAck, Unsubscribe, UnsubscribeFilters};
use weir_wire::{PacketId, Properties, ReasonCode, Version};

impl Shard {
    pub(super) fn on_unsubscribe(
        &mut self,
        key: SessionKey,
        unsubscribe: &Unsubscribe<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        let Some(attachment) = self.clients[key].attachment else { return Ok(()) };
        let (mut codes, mut filters) = (Vec::new(), unsubscribe.filters());
        check_answer(&attachment, filters.rest().len(), || filters.count())?;
        self.begin_answer();
        self.unsubscribe_some(key, &mut filters, &mut codes, sink);
        let (packet_id, rest) = (unsubscribe.packet_id, filters.rest());
        if rest.is_empty() {
            let bytes = unsuback(attachment.version, packet_id, &codes);
            self.reply_logged(attachment.conn, &bytes, now, sink);
        } else {
            let packet = ParkedPacket::Unsubscribe { packet_id, codes };
            let reply = Reply::Packet(SmallVec::new());
            self.park_answer(
                attachment.conn,
                reply,
                |ticket| Parked::new(ticket, rest, packet),
                now,
            );
        }
        Ok(())
    }

    /// Takes out the subscriptions of the next filters, as far as the steps of this input allow.
    pub(super) fn unsubscribe_some(
        &mut self,
        key: SessionKey,
        filters: &mut UnsubscribeFilters<'_>,
        codes: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) {
        while !self.slices.is_spent()
            && let Some(text) = filters.next()
        {
            self.slices.add(filter_steps(text));
            codes.push(self.unsubscribe_one(key, text, sink) as u8);
        }
    }

    fn unsubscribe_one(&mut self, key: SessionKey, text: &str, sink: &mut impl Sink) -> ReasonCode {
        let Some(name) = Name::parse(text) else { return ReasonCode::TopicFilterInvalid };
        let records = self.clients[key].subscriptions();
        let Some(at) = self.filters.position(name, records) else {
            return ReasonCode::NoSubscriptionExisted;
        };
        if name.topic.group.is_none() {
            self.retained.cancel_replay(&mut self.clients[key], name);
        }
        self.unsubscribe_at(key, at, sink);
        self.log.append_of(key, |session| Record::Unsubscribed { session, name: text }, sink);
        ReasonCode::Success
    }
}

pub(super) fn unsuback(version: Version, packet_id: PacketId, codes: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    UnsubAck { packet_id, properties: Properties::EMPTY, codes }.encode(version, &mut bytes);
    bytes
}
