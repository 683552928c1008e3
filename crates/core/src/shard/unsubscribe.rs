//! UNSUBSCRIBE.

use super::Shard;
use super::connection::Refusal;
use super::reasons::check_answer;
use crate::keys::{Micros, SessionKey};
use crate::name::Name;
use crate::sink::Sink;
use weir_wire::packet::{UnsubAck, Unsubscribe};
use weir_wire::{Properties, ReasonCode};

impl Shard {
    pub(super) fn on_unsubscribe(
        &mut self,
        key: SessionKey,
        unsubscribe: &Unsubscribe<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        let Some(link) = self.sessions[key.0 as usize].link else { return Ok(()) };
        check_answer(&link, unsubscribe.filters().count())?;
        let mut codes = Vec::new();
        for text in unsubscribe.filters() {
            let reason = match Name::parse(text) {
                None => ReasonCode::TopicFilterInvalid,
                Some(name) => {
                    let records = self.sessions[key.0 as usize].subscriptions();
                    match self.filters.position(name, records) {
                        None => ReasonCode::NoSubscriptionExisted,
                        Some(at) => {
                            if name.topic.group.is_none() {
                                self.cancel_replay(key, name);
                            }
                            self.unsubscribe_at(key, at, sink);
                            ReasonCode::Success
                        }
                    }
                }
            };
            codes.push(reason as u8);
        }
        let mut bytes = Vec::new();
        UnsubAck { packet_id: unsubscribe.packet_id, properties: Properties::EMPTY, codes: &codes }
            .encode(link.version, &mut bytes);
        self.reply(link.conn, &bytes, now, sink);
        Ok(())
    }
}
