//! SUBSCRIBE: note the filters, tell the other shards, answer when it is effective.

use super::Shard;
use super::connection::{ConnSerial, Refusal};
use super::delivery::version_of;
use super::reasons::check_answer;
use crate::keys::{Micros, SessionKey};
use crate::mail::Mail;
use crate::routing::{News, Subscriber};
use crate::session::Session;
use crate::sink::Sink;
use weir_wire::packet::{RetainHandling, SubAck, Subscribe, SubscriptionOptions};
use weir_wire::topic::TopicFilter;
use weir_wire::{PacketId, Properties, Property, ReasonCode};

/// A SUBACK that waits until every shard has noted the filters: SUBACK means effective.
#[derive(Debug)]
pub(super) struct AwaitingShards {
    session: SessionKey,
    conn: ConnSerial,
    packet_id: PacketId,
    codes: Vec<u8>,
    /// Replays that begin when the subscriptions are effective.
    replays: Vec<u64>,
    /// When they were made, among what came live.
    mark: u64,
    /// What the other shards are told, and in which round of letters.
    news: Vec<News>,
    round: u64,
    /// Letters not yet answered.
    open: usize,
}

impl Shard {
    pub(super) fn on_subscribe(
        &mut self,
        session: SessionKey,
        subscribe: &Subscribe<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        let Some(link) = self.sessions[session.0 as usize].link else { return Ok(()) };
        let Some(conn) = self.serial_of(link.conn) else { return Ok(()) };
        let subscription_id = subscribe.properties.find(|property| match property {
            Property::SubscriptionIdentifier(id) => Some(id),
            _ => None,
        });
        // Checked before any filter is noted: what is noted has to be told.
        let is_local_and_shared = |(text, options): (&str, SubscriptionOptions)| {
            options.no_local && TopicFilter::parse(text).is_some_and(|found| found.group.is_some())
        };
        if subscribe.filters().any(is_local_and_shared) {
            // [MQTT-3.8.3-4]
            return Err(Refusal::protocol("No Local on a shared subscription"));
        }
        check_answer(&link, subscribe.filters().count())?;
        self.rounds += 1;
        let mut awaiting = AwaitingShards {
            session,
            conn,
            packet_id: subscribe.packet_id,
            codes: Vec::new(),
            replays: Vec::new(),
            mark: self.recent.mark(),
            news: Vec::new(),
            round: self.rounds,
            open: 0,
        };
        for (text, options) in subscribe.filters() {
            let code =
                match self.subscribe_one(session, text, options, subscription_id, &mut awaiting) {
                    Ok(()) => options.qos as u8,
                    Err(reason) => {
                        self.stats.subscriptions_refused += 1;
                        self.stats.refusals.add(reason);
                        // The one failure that 3.1.1 knows.
                        let older = ReasonCode::UnspecifiedError;
                        if link.version.is_v5() { reason as u8 } else { older as u8 }
                    }
                };
            awaiting.codes.push(code);
        }
        if awaiting.news.is_empty() || self.shards == 1 {
            self.answer_subscribe(&awaiting, now, sink);
        } else {
            self.tell_shards(awaiting, sink);
        }
        Ok(())
    }

    fn tell_shards(&mut self, mut awaiting: AwaitingShards, sink: &mut impl Sink) {
        awaiting.open = awaiting.news.len() * (usize::from(self.shards) - 1);
        let ticket = self.awaiting_shards.vacant_key() as u32;
        for shard in self.other_shards() {
            for news in &awaiting.news {
                let mail = match news.clone() {
                    News::Interest(filter) => Mail::Interest { filter, ticket },
                    News::Member(share, member) => Mail::Joined { share, member, ticket },
                };
                sink.mail(shard, mail);
            }
        }
        self.awaiting_shards.insert(awaiting);
    }

    /// Notes one filter, unless it is refused.
    fn subscribe_one(
        &mut self,
        key: SessionKey,
        text: &str,
        options: SubscriptionOptions,
        subscription_id: Option<u32>,
        awaiting: &mut AwaitingShards,
    ) -> Result<(), ReasonCode> {
        let levels_max = usize::from(self.limits.topic_levels_max);
        let Some(filter) = TopicFilter::parse(text) else {
            return Err(ReasonCode::TopicFilterInvalid);
        };
        let is_long = text.len() > usize::from(self.limits.topic_bytes_max);
        if is_long || filter.filter.split('/').count() > levels_max {
            return Err(ReasonCode::TopicFilterInvalid);
        }
        if let Some(reason) = self.unsupported(filter, subscription_id) {
            return Err(reason);
        }
        let session = &mut self.sessions[key.0 as usize];
        let records = session.subscriptions();
        let is_full = records.len() >= self.limits.subscriptions_max as usize;
        if (is_full || self.is_pressed) && self.filters.position(filter, records).is_none() {
            return Err(ReasonCode::QuotaExceeded);
        }
        let Session { client_id, extra, .. } = session;
        let records = &mut extra.get_or_insert_default().subscriptions;
        let subscriber = Subscriber::new(key, options, subscription_id);
        let round = awaiting.round;
        let subscribed = self.filters.subscribe(filter, client_id, subscriber, round, records);
        let wants_retained = match options.retain_handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => subscribed.is_new,
            RetainHandling::DontSend => false,
        };
        // Never to a shared subscription (section 4.8.2).
        if wants_retained && filter.group.is_none() {
            if !subscribed.is_new {
                self.cancel_replay(key, filter.filter);
            }
            awaiting.replays.push(self.add_replay(key, filter.filter));
        }
        awaiting.news.extend(subscribed.news);
        Ok(())
    }

    /// The features that a filter asks for and the broker does not offer.
    fn unsupported(
        &self,
        filter: TopicFilter<'_>,
        subscription_id: Option<u32>,
    ) -> Option<ReasonCode> {
        let features = &self.features;
        if filter.group.is_some() && !features.shared_subscriptions {
            Some(ReasonCode::SharedSubscriptionsNotSupported)
        } else if filter.has_wildcard() && !features.wildcard_subscriptions {
            Some(ReasonCode::WildcardSubscriptionsNotSupported)
        } else if subscription_id.is_some() && !features.subscription_identifiers {
            Some(ReasonCode::SubscriptionIdentifiersNotSupported)
        } else {
            None
        }
    }

    /// Another shard has noted one letter of this ticket.
    pub(super) fn noted(&mut self, ticket: u32, now: Micros, sink: &mut impl Sink) {
        let Some(awaiting) = self.awaiting_shards.get_mut(ticket as usize) else { return };
        awaiting.open -= 1;
        if awaiting.open > 0 {
            return;
        }
        let awaiting = self.awaiting_shards.remove(ticket as usize);
        for news in &awaiting.news {
            if let News::Interest(filter) = news {
                self.filters.round_noted(filter, awaiting.round);
            }
        }
        self.answer_subscribe(&awaiting, now, sink);
    }

    /// SUBACK, unless the connection is gone, then the retained messages, unless the session is.
    fn answer_subscribe(&mut self, awaiting: &AwaitingShards, now: Micros, sink: &mut impl Sink) {
        for &replay in &awaiting.replays {
            self.begin_replay(awaiting.session, replay, awaiting.mark);
        }
        self.end_asking();
        let AwaitingShards { conn, packet_id, codes, .. } = awaiting;
        if self.is_there(*conn)
            && let Some(key) = self.session_of(conn.conn)
        {
            let mut bytes = Vec::new();
            SubAck { packet_id: *packet_id, properties: Properties::EMPTY, codes }
                .encode(version_of(&self.sessions[key.0 as usize]), &mut bytes);
            sink.write(conn.conn, &bytes);
        }
        self.replay(awaiting.session, now, sink);
    }
}
