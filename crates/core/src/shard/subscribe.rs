//! SUBSCRIBE: note the filters, tell the other shards, answer when it is effective.

use super::Shard;
use super::connection::Refusal;
use super::reasons::{check_answer, suback_properties};
use super::rest::{Common, NotGranted, Parked, ParkedPacket, filter_steps};
use super::slices::Work;
use crate::answers::{Reply, SubscribeReply, Subscriptions};
use crate::bounds::LEAN_SUBSCRIPTION_BYTES_MAX;
use crate::conditions::{ConditionId, NoCondition};
use crate::keys::Ticket;
use crate::keys::{ConnKey, Micros, SessionKey};
use crate::name::{BadEncoding, Name};
use crate::routing::{News, Records, Subscribed, Subscriber, Who};
use crate::session::Session;
use crate::sink::{Notice, Sink};
use std::borrow::Cow;
use weir_wire::ReasonCode;
use weir_wire::packet::{RetainHandling, SubAck, Subscribe, SubscribeFilters, SubscriptionOptions};
use weir_wire::topic::TopicFilter;

/// Replays that begin in a step.
const BEGUN_IN_A_STEP: u64 = 8;

/// Subscriptions of a session whose conditions are looked at in a step.
const RECORDS_IN_A_STEP: u64 = 8;

/// Steps of noting that a filter is known everywhere.
const NOTED_STEPS: u64 = 2;

impl Shard {
    pub(super) fn on_subscribe(
        &mut self,
        session: SessionKey,
        subscribe: &Subscribe<'_>,
        now: Micros,
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        let Some(attachment) = self.clients[session].attachment else { return Ok(()) };
        let mut filters = subscribe.filters();
        check_answer(&attachment, filters.rest().len(), || filters.count())?;
        let mut common = Common::of(subscribe);
        let round = self.filters.next_round();
        self.begin_answer();
        let done = self.subscribe_some(session, round, &mut filters, &mut common, sink);
        let (packet_id, rest) = (subscribe.packet_id, filters.rest());
        self.tell_shards(&done.news, self.clients[session].packet_bytes_max(), sink);
        let reply = SubscribeReply { session, packet_id, done };
        let is_parked = !rest.is_empty();
        if !is_parked && !self.must_wait() && !self.holds_answers(attachment.conn) {
            self.write_suback(attachment.conn, reply, now, sink);
            return Ok(());
        }
        let reply = Reply::Subscribe(Box::new(reply));
        let ticket = self.insert_answer(Some(attachment.conn), reply, u32::from(is_parked), now);
        self.hold(attachment.conn, ticket);
        if is_parked {
            let packet = ParkedPacket::Subscribe { common };
            self.park(attachment.conn, Parked::new(ticket, rest, packet), now);
        }
        Ok(())
    }

    /// Goes on with a SUBSCRIBE, as far as the steps of this input allow.
    pub(super) fn subscribe_more(
        &mut self,
        session: SessionKey,
        ticket: Ticket,
        filters: &mut SubscribeFilters<'_>,
        common: &mut Common,
        sink: &mut impl Sink,
    ) {
        let Some(Reply::Subscribe(reply)) = self.answers.reply_mut(ticket) else { return };
        let round = reply.done.round;
        self.begin_answer();
        let done = self.subscribe_some(session, round, filters, common, sink);
        self.tell_shards(&done.news, self.clients[session].packet_bytes_max(), sink);
        self.add_waits(ticket);
        if let Some(Reply::Subscribe(reply)) = self.answers.reply_mut(ticket) {
            reply.done.append(done);
        }
    }

    /// Subscribes to the next filters, as far as the steps of this input allow.
    fn subscribe_some(
        &mut self,
        session: SessionKey,
        round: u64,
        filters: &mut SubscribeFilters<'_>,
        common: &mut Common,
        sink: &mut impl Sink,
    ) -> Subscriptions {
        let is_v5 = self.clients[session].version().is_v5();
        // Compiled once, also if it is refused: a packet may have a hundred thousand filters.
        let text = common.condition.as_deref().filter(|_| common.unfit.is_none());
        let condition = text.map(|text| self.acquire(session, text)).transpose();
        let condition = condition.unwrap_or_else(|unfit| {
            common.unfit = Some(unfit);
            None
        });
        let mut done = Subscriptions { round, ..Subscriptions::default() };
        while !self.slices.is_spent()
            && let Some((text, options)) = filters.next()
        {
            self.slices.add(filter_steps(text));
            let code = match self.subscribe_one(session, text, options, common, &mut done, sink) {
                Ok(()) => options.qos as u8,
                Err(NotGranted { reason, detail }) => {
                    self.note_filter_refused(session, text, (reason, &detail), sink);
                    if done.detail.is_empty() {
                        done.detail = detail;
                    }
                    // The one failure that 3.1.1 knows.
                    let older = ReasonCode::UnspecifiedError;
                    if is_v5 { reason as u8 } else { older as u8 }
                }
            };
            done.codes.push(code);
        }
        if let Some(condition) = condition {
            self.filters.conditions.release(condition);
        }
        let may_warn = is_v5 && filters.rest().is_empty() && done.warning.is_empty();
        if may_warn && self.filters.conditions.left_out_count() > 0 {
            done.warning = self.left_out_warning(session);
        }
        done
    }

    #[cold]
    fn note_filter_refused(
        &mut self,
        session: SessionKey,
        filter: &str,
        (reason, detail): (ReasonCode, &str),
        sink: &mut impl Sink,
    ) {
        self.stats.subscriptions_refused += 1;
        self.stats.refusals.add(reason);
        let client_id = &self.clients[session].client_id;
        sink.notice(Notice::FilterRefused { client_id, filter, reason, detail });
    }

    /// What a client is told whose conditions are too costly for the messages that they are for.
    fn left_out_warning(&mut self, key: SessionKey) -> Cow<'static, str> {
        let records = self.clients[key].subscriptions();
        self.slices.add(records.len() as u64 / RECORDS_IN_A_STEP);
        match self.filters.left_out_of(records) {
            0 => Cow::default(),
            times => format!(
                "left out {times} times: a condition of this client, since all that were to be \
                 checked cost more than a message may take, and its own more than their part"
            )
            .into(),
        }
    }

    /// Tells the other shards of a session's subscriptions. `packet_bytes_max` is what its client
    /// takes, if it is connected.
    pub(super) fn tell_shards(
        &mut self,
        all_news: &[News],
        packet_bytes_max: Option<u32>,
        sink: &mut impl Sink,
    ) {
        self.slices.add((all_news.len() * self.place.others().len()) as u64);
        for shard in self.place.others() {
            for news in all_news {
                let number = self.answers.mailed(shard);
                sink.mail(shard, news.clone().into_mail(packet_bytes_max, number));
            }
        }
    }

    /// Notes one filter, unless it is refused.
    fn subscribe_one(
        &mut self,
        key: SessionKey,
        text: &str,
        options: SubscriptionOptions,
        common: &Common,
        done: &mut Subscriptions,
        sink: &mut impl Sink,
    ) -> Result<(), NotGranted> {
        let levels_max = usize::from(self.bounds.limits.topic_levels_max);
        let Some(name) = Name::parse(text) else {
            let (reason, detail) = (ReasonCode::TopicFilterInvalid, Name::fault(text).into());
            return Err(NotGranted { reason, detail });
        };
        let filter = name.topic;
        let bytes = text.len() - name.encoded.map_or(0, str::len);
        let is_long = bytes > usize::from(self.bounds.limits.topic_bytes_max);
        if is_long || filter.filter.split('/').count() > levels_max {
            return Err(ReasonCode::TopicFilterInvalid.into());
        }
        if let Some(reason) = self.unsupported(filter, common.subscription_id) {
            return Err(reason.into());
        }
        self.keeps(text.len(), sink);
        let session = &self.clients[key];
        let records = session.subscriptions();
        let is_full = records.len() >= self.bounds.limits.subscriptions_max as usize;
        let is_full =
            is_full || self.bounds.is_pressed || self.would_be_over_bytes(records, text.len());
        if is_full && self.filters.position(name, records).is_none() {
            return Err(ReasonCode::QuotaExceeded.into());
        }
        let shapes_max = u64::from(self.bounds.limits.filter_shapes_total_max);
        let has_room =
            |has, total| total < shapes_max && self.bounds.may_take(has, 1, total, shapes_max);
        if !self.filters.has_shape_for(name, records, self.bounds.limits.filter_shapes_max)
            || !self.filters.may_bring(filter.filter, session.address, has_room)
        {
            self.stats.shapes_refused += 1;
            return Err(ReasonCode::QuotaExceeded.into());
        }
        let condition = self.condition(key, name, common)?;
        self.check_share(key, condition)?;
        if let Some(warning) = condition.and_then(|id| self.filters.conditions.warning(id)) {
            done.warning = warning.into();
        }
        let subscriber = Subscriber::new(key, options, common.subscription_id);
        let Subscribed { is_new, news } =
            self.note(key, name, condition, subscriber, done.round, sink);
        self.log_subscribed(key, text, options, common, sink);
        let wants_retained = match options.retain_handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => is_new,
            RetainHandling::DontSend => false,
        };
        // Never to a shared subscription (section 4.8.2).
        if wants_retained && filter.group.is_none() {
            if !is_new {
                self.retained.cancel_replay(&mut self.clients[key], name);
            }
            let replay = self.retained.add_replay(&mut self.clients[key], name, done.round);
            done.first_replay.get_or_insert(replay);
        }
        if !self.place.is_alone() {
            done.news.extend(news);
        }
        Ok(())
    }

    /// Whether the names of a session's subscriptions would be too long with one more of so many
    /// bytes. Few sessions have enough for it to be worth a look.
    fn would_be_over_bytes(&self, records: &Records, more: usize) -> bool {
        let mut bytes_max = self.bounds.limits.subscription_bytes_max;
        if self.bounds.is_lean {
            bytes_max = bytes_max.min(LEAN_SUBSCRIPTION_BYTES_MAX);
        }
        let most = records.len().saturating_mul(usize::from(u16::MAX)) + more;
        most > bytes_max && self.filters.bytes_of(records) + more > bytes_max
    }

    /// Puts a subscription into the index, in the place of one of the same name.
    pub(super) fn note(
        &mut self,
        key: SessionKey,
        name: Name<'_>,
        condition: Option<ConditionId>,
        subscriber: Subscriber,
        round: u64,
        sink: &mut impl Sink,
    ) -> Subscribed {
        let Self { clients, filters, stats, .. } = self;
        clients.subscribed(key, name.topic.filter);
        let Session { client_id, cold, address, .. } = &mut clients[key];
        let who = Who { client_id, address: *address };
        let records = &mut cold.get_or_insert_default().subscriptions;
        // Only a condition beside the name can put the same name into another list.
        let may_move = name.encoded.is_none() && !filters.conditions.is_empty();
        let old = if may_move { filters.position(name, records) } else { None };
        let mut subscribed = filters.subscribe(name, condition, who, subscriber, round, records);
        *stats.subscriptions_like(subscribed.news.as_ref()) += u64::from(subscribed.is_new);
        if let Some(old) = old
            && subscribed.is_new
        {
            self.unsubscribe_at(key, old, sink);
            subscribed.is_new = false;
        }
        subscribed
    }

    fn acquire(&mut self, key: SessionKey, text: &str) -> Result<ConditionId, NotGranted> {
        let Self { filters, bounds, clients, .. } = self;
        let has_room = |part, total| bounds.has_condition_for(part, total);
        let acquired = filters.conditions.acquire(text, clients[key].address, has_room);
        acquired.map_err(|NoCondition { reason, detail }| NotGranted { reason, detail })
    }

    /// The condition that the name or the properties ask for, acquired.
    fn condition(
        &mut self,
        key: SessionKey,
        name: Name<'_>,
        common: &Common,
    ) -> Result<Option<ConditionId>, NotGranted> {
        let reason = ReasonCode::TopicFilterInvalid;
        let refused = |detail: &str| Err(NotGranted { reason, detail: detail.into() });
        let asked = match (name.condition(), common.condition.as_deref()) {
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
        let acquired = asked.and_then(|text| self.acquire(key, &text));
        self.stats.conditions_refused += u64::from(acquired.is_err());
        acquired.map(Some)
    }

    /// Gives a condition back that is one too many for the session.
    fn check_share(
        &mut self,
        key: SessionKey,
        condition: Option<ConditionId>,
    ) -> Result<(), NotGranted> {
        let Some(condition) = condition else { return Ok(()) };
        let records = self.clients[key].subscriptions();
        let max = self.bounds.limits.conditions_per_session_max as usize;
        self.slices.add(records.len() as u64 / RECORDS_IN_A_STEP);
        if self.filters.has_condition_for(condition, records, max) {
            return Ok(());
        }
        self.filters.conditions.release(condition);
        self.stats.conditions_refused += 1;
        let detail = "too many distinct conditions of one client".into();
        Err(NotGranted { reason: ReasonCode::QuotaExceeded, detail })
    }

    /// The features that a filter asks for and the broker does not offer.
    fn unsupported(
        &self,
        filter: TopicFilter<'_>,
        subscription_id: Option<u32>,
    ) -> Option<ReasonCode> {
        let features = &self.bounds.features;
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
    pub(super) fn take_effect(
        &mut self,
        session: SessionKey,
        done: &mut Subscriptions,
        now: Micros,
    ) {
        if let Some(first) = done.first_replay
            && let Some(session) = self.clients.get_mut(session)
        {
            let count = self.retained.begin_replays(session, first, done.round);
            self.slices.add(count as u64 / BEGUN_IN_A_STEP);
        }
        self.end_asking();
        self.close_round(done.round, std::mem::take(&mut done.news), now);
    }

    /// The filters of a round need not be told again, which may be noted in later turns.
    pub(super) fn close_round(&mut self, round: u64, mut news: Vec<News>, now: Micros) {
        while !self.slices.is_spent()
            && let Some(one) = news.pop()
        {
            self.slices.add(NOTED_STEPS);
            if let News::Interest(filter) = one {
                self.filters.round_noted(&filter, round);
            }
        }
        if !news.is_empty() {
            self.slices.put_off(Work::Round(round, news), now);
        }
    }

    /// SUBACK, then the retained messages.
    pub(super) fn write_suback(
        &mut self,
        conn: ConnKey,
        mut subscribe: SubscribeReply,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.take_effect(subscribe.session, &mut subscribe.done, now);
        let SubscribeReply { packet_id, done, .. } = &subscribe;
        let codes = &done.codes;
        let session = &self.clients[subscribe.session];
        let properties = suback_properties(session, done.reason(), codes.len());
        let properties = properties.as_properties();
        let mut bytes = Vec::new();
        SubAck { packet_id: *packet_id, properties, codes }.encode(session.version(), &mut bytes);
        sink.write(conn, &bytes);
        self.replay(subscribe.session, now, sink);
    }
}
