//! SUBSCRIBE: note the filters, tell the other shards, answer when it is effective.

use super::Shard;
use super::connection::Refusal;
use super::delivery::version_of;
use super::reasons::{check_answer, suback_properties};
use crate::answers::{Reply, SubscribeReply};
use crate::conditions::{ConditionId, NoCondition};
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::mail::Mail;
use crate::name::{BadEncoding, Name};
use crate::routing::{News, Subscribed, Subscriber};
use crate::session::Session;
use crate::sink::Sink;
use weir_wire::packet::{RetainHandling, SubAck, Subscribe, SubscriptionOptions};
use weir_wire::topic::TopicFilter;
use weir_wire::{Property, ReasonCode};

/// The user property of a SUBSCRIBE that holds a condition for its filters.
const CONDITION_PROPERTY: &str = "filter";

/// What the properties of a SUBSCRIBE say of all its filters.
#[derive(Debug, Default)]
struct Common<'a> {
    subscription_id: Option<u32>,
    condition: Option<&'a str>,
    /// Why it cannot be used.
    unfit: Option<NotGranted>,
    /// More conditions than one.
    has_several: bool,
}

impl<'a> Common<'a> {
    fn of(subscribe: &Subscribe<'a>) -> Self {
        let mut common = Self::default();
        for property in subscribe.properties.iter() {
            match property {
                Property::SubscriptionIdentifier(id) => common.subscription_id = Some(id),
                Property::UserProperty(CONDITION_PROPERTY, text) => {
                    common.has_several = common.condition.replace(text).is_some();
                }
                _ => {}
            }
        }
        common
    }
}

/// Why a filter is refused.
#[derive(Clone, Debug)]
struct NotGranted {
    reason: ReasonCode,
    /// In words, where it is about a condition.
    detail: Box<str>,
}

impl From<ReasonCode> for NotGranted {
    fn from(reason: ReasonCode) -> Self {
        Self { reason, detail: Box::default() }
    }
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
        let mut common = Common::of(subscribe);
        // Checked before any filter is noted: what is noted has to be told.
        let is_local_and_shared = |(text, options): (&str, SubscriptionOptions)| {
            options.no_local && TopicFilter::parse(text).is_some_and(|found| found.group.is_some())
        };
        if subscribe.filters().any(is_local_and_shared) {
            // [MQTT-3.8.3-4]
            return Err(Refusal::protocol("No Local on a shared subscription"));
        }
        check_answer(&link, subscribe.filters().count())?;
        // Compiled once, also if it is refused: a packet may have a hundred thousand filters.
        let condition = common.condition.map(|text| self.acquire(text)).transpose();
        let condition = condition.unwrap_or_else(|unfit| {
            common.unfit = Some(unfit);
            None
        });
        self.rounds += 1;
        let mut awaiting = SubscribeReply {
            session,
            packet_id: subscribe.packet_id,
            codes: Vec::new(),
            detail: Box::default(),
            replays: Vec::new(),
            mark: self.recent.mark(),
            news: Vec::new(),
            round: self.rounds,
        };
        for (text, options) in subscribe.filters() {
            let code =
                match self.subscribe_one(session, text, options, &common, &mut awaiting, sink) {
                    Ok(()) => options.qos as u8,
                    Err(NotGranted { reason, detail }) => {
                        self.stats.subscriptions_refused += 1;
                        self.stats.refusals.add(reason);
                        if awaiting.detail.is_empty() {
                            awaiting.detail = detail;
                        }
                        // The one failure that 3.1.1 knows.
                        let older = ReasonCode::UnspecifiedError;
                        if link.version.is_v5() { reason as u8 } else { older as u8 }
                    }
                };
            awaiting.codes.push(code);
        }
        if let Some(condition) = condition {
            self.filters.conditions.release(condition);
        }
        self.answers.begin();
        if self.shards > 1 {
            self.tell_shards(&awaiting.news, sink);
        }
        if self.answers.has_mailed() || self.holds_answers(link.conn) {
            let reply = Reply::Subscribe(Box::new(awaiting));
            let ticket = self.answers.insert(link.conn, reply, 0, now);
            self.hold(link.conn, ticket);
        } else {
            self.write_suback(link.conn, &awaiting, now, sink);
        }
        Ok(())
    }

    fn tell_shards(&mut self, all_news: &[News], sink: &mut impl Sink) {
        for shard in self.other_shards() {
            for news in all_news {
                let number = self.answers.mailed(shard);
                let mail = match news.clone() {
                    News::Interest(filter) => Mail::Interest { filter, number },
                    News::Member(share, member) => Mail::Joined { share, member, number },
                };
                sink.mail(shard, mail);
            }
        }
    }

    /// Notes one filter, unless it is refused.
    fn subscribe_one(
        &mut self,
        key: SessionKey,
        text: &str,
        options: SubscriptionOptions,
        common: &Common<'_>,
        awaiting: &mut SubscribeReply,
        sink: &mut impl Sink,
    ) -> Result<(), NotGranted> {
        let levels_max = usize::from(self.limits.topic_levels_max);
        let Some(name) = Name::parse(text) else {
            return Err(ReasonCode::TopicFilterInvalid.into());
        };
        let filter = name.topic;
        let bytes = text.len() - name.encoded.map_or(0, str::len);
        let is_long = bytes > usize::from(self.limits.topic_bytes_max);
        if is_long || filter.filter.split('/').count() > levels_max {
            return Err(ReasonCode::TopicFilterInvalid.into());
        }
        if let Some(reason) = self.unsupported(filter, common.subscription_id) {
            return Err(reason.into());
        }
        let session = &self.sessions[key.0 as usize];
        let records = session.subscriptions();
        let is_full = records.len() >= self.limits.subscriptions_max as usize;
        if (is_full || self.is_pressed) && self.filters.position(name, records).is_none() {
            return Err(ReasonCode::QuotaExceeded.into());
        }
        let condition = self.condition(name, common)?;
        let subscriber = Subscriber::new(key, options, common.subscription_id);
        let Subscribed { is_new, news } =
            self.note(key, name, condition, subscriber, awaiting.round, sink);
        let wants_retained = match options.retain_handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => is_new,
            RetainHandling::DontSend => false,
        };
        // Never to a shared subscription (section 4.8.2).
        if wants_retained && filter.group.is_none() {
            if !is_new {
                self.cancel_replay(key, name);
            }
            awaiting.replays.push(self.add_replay(key, name));
        }
        awaiting.news.extend(news);
        Ok(())
    }

    /// Puts a subscription into the index, in the place of one of the same name.
    fn note(
        &mut self,
        key: SessionKey,
        name: Name<'_>,
        condition: Option<ConditionId>,
        subscriber: Subscriber,
        round: u64,
        sink: &mut impl Sink,
    ) -> Subscribed {
        let Self { sessions, filters, .. } = self;
        let Session { client_id, extra, .. } = &mut sessions[key.0 as usize];
        let records = &mut extra.get_or_insert_default().subscriptions;
        // Only a condition beside the name can put the same name into another list.
        let may_move = name.encoded.is_none() && !filters.conditions.is_empty();
        let old = if may_move { filters.position(name, records) } else { None };
        let mut subscribed =
            filters.subscribe(name, condition, client_id, subscriber, round, records);
        if let Some(old) = old
            && subscribed.is_new
        {
            self.unsubscribe_at(key, old, sink);
            subscribed.is_new = false;
        }
        subscribed
    }

    fn acquire(&mut self, text: &str) -> Result<ConditionId, NotGranted> {
        let acquired = self.filters.conditions.acquire(text, self.limits.conditions_max);
        acquired.map_err(|NoCondition { reason, detail }| NotGranted { reason, detail })
    }

    /// The condition that the name or the properties ask for, acquired.
    fn condition(
        &mut self,
        name: Name<'_>,
        common: &Common<'_>,
    ) -> Result<Option<ConditionId>, NotGranted> {
        let reason = ReasonCode::TopicFilterInvalid;
        let refused = |detail: &str| Err(NotGranted { reason, detail: detail.into() });
        let asked = match (name.condition(), common.condition) {
            (None, None) => return Ok(None),
            (None, Some(_)) if name.topic.group.is_some() => refused(
                "a shared subscription has its condition in its name: \
                 $share/{name}/$filter/{condition}/{filter}",
            ),
            (None, Some(_)) if common.has_several => refused("more than one user property filter"),
            (None, Some(text)) => match &common.unfit {
                Some(unfit) => Err(unfit.clone()),
                None => Ok(text.into()),
            },
            (Some(_), Some(_)) => refused("a condition in the name and one beside it"),
            (Some(Err(BadEncoding)), None) => refused("the condition is not percent-encoded UTF-8"),
            (Some(Ok(text)), None) => Ok(text),
        };
        let acquired = asked.and_then(|text| self.acquire(&text));
        self.stats.conditions_refused += u64::from(acquired.is_err());
        acquired.map(Some)
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

    /// The subscriptions are effective: their retained messages may go.
    pub(super) fn begin_replays(&mut self, subscribe: &SubscribeReply) {
        for news in &subscribe.news {
            if let News::Interest(filter) = news {
                self.filters.round_noted(filter, subscribe.round);
            }
        }
        for &replay in &subscribe.replays {
            self.begin_replay(subscribe.session, replay, subscribe.mark);
        }
        self.end_asking();
    }

    /// SUBACK, then the retained messages.
    pub(super) fn write_suback(
        &mut self,
        conn: ConnKey,
        subscribe: &SubscribeReply,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.begin_replays(subscribe);
        let SubscribeReply { packet_id, codes, detail, .. } = subscribe;
        let session = &self.sessions[subscribe.session.0 as usize];
        let properties = suback_properties(session, detail, codes.len());
        let properties = properties.as_properties();
        let mut bytes = Vec::new();
        SubAck { packet_id: *packet_id, properties, codes }.encode(version_of(session), &mut bytes);
        sink.write(conn, &bytes);
        self.replay(subscribe.session, now, sink);
    }
}
