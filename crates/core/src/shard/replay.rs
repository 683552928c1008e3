//! Retained messages for new subscriptions, as far as their sessions can take them.

use super::Shard;
use super::outlet::{Receiver, standing};
use super::slices::Work;
use crate::conditions::ConditionId;
use crate::keys::{Micros, SessionKey, ShardId, Stamp};
use crate::mail::{Mail, RetainedPage, RetainedQuery};
use crate::message::{Delivery, Message};
use crate::replays::{Next, Replay, ReplayState};
use crate::retained::{Answered, PAGE_MESSAGES_MAX, Page};
use crate::routing::{Standing, Subscriber};
use crate::session::Session;
use crate::sink::Sink;
use std::sync::Arc;
use weir_wire::QoS;
use weir_wire::topic::TopicFilter;

/// Steps of a page, beside the topics that are looked at for it and the messages on it.
const PAGE_STEPS: u64 = 8;

/// Bytes that are checked for a condition in a step.
const CHECKED_BYTES: u64 = 128;

/// Bytes that are copied in a step.
const COPIED_BYTES: u64 = 1024;

/// The subscription that a replay is for, and its condition.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    subscriber: Subscriber,
    condition: Option<ConditionId>,
}

impl Shard {
    /// Notes what is delivered live as retained, for those who asked the owner a moment ago.
    #[inline]
    pub(super) fn note_recent(&mut self, topic: &str, stamp: Option<Stamp>) {
        if let Some(stamp) = stamp
            && self.is_asking()
        {
            self.stats.recent_forgotten += u64::from(self.retained.note_recent(topic, stamp));
        }
    }

    fn is_asking(&self) -> bool {
        self.answers.has_subscribes() || self.retained.is_asking()
    }

    /// Forgets what nobody asks for any more.
    pub(super) fn end_asking(&mut self) {
        if !self.is_asking() {
            self.retained.end_asking();
        }
    }

    /// Goes on with the session's retained messages: takes or asks for pages while it has room,
    /// and the input has steps left.
    pub(super) fn replay(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        if self.waits_for_thaw(key) {
            return;
        }
        while let Some(replay) = self.front_replay(key)
            && replay.state == ReplayState::Ready
        {
            let (id, text) = (replay.id, replay.filter.clone());
            if self.is_put_off(key) {
                return;
            }
            if self.slices.is_spent() {
                return self.put_off_replay(key, now);
            }
            self.slices.add(PAGE_STEPS);
            let (wanted, next) = (self.wanted_by(key), self.next_of_replay(key));
            let Some((wanted, next)) = wanted.zip(next) else {
                self.retained.drop_replay(&mut self.clients[key]);
                continue;
            };
            let messages_max = self.room(key, wanted.subscriber.qos, sink);
            if messages_max == 0 {
                return;
            }
            let filter = TopicFilter { group: None, filter: &text };
            let Next { owner, after, partitions } = next;
            if owner == self.place.id && self.retained.has_own(owner) {
                let Self { retained, place, .. } = self;
                let among = partitions.as_deref().map(|wanted| (wanted, &place.partitions));
                let page = retained.page(filter, after.as_deref(), among, messages_max, now);
                let bytes = if wanted.condition.is_some() { CHECKED_BYTES } else { COPIED_BYTES };
                self.slices.add((page.looked_at + page.messages.len()) as u64);
                self.slices.add(page.bytes() / bytes);
                self.take_page(key, wanted, page, now, sink);
                continue;
            }
            if let Some(replay) = self.front_replay(key) {
                replay.state = ReplayState::Asked;
            }
            let ticket = self.retained.ask(key, id);
            let messages_max = messages_max as u32;
            let needed = self.retained.stamps.needed(owner);
            let query =
                RetainedQuery { filter: text, after, partitions, messages_max, needed, ticket };
            if owner != self.place.id {
                return sink.mail(owner, Mail::RetainedQuery(query));
            }
            // What another node's shard has published is on its way by way of that node's owner.
            return self.retained.queries.hold(owner, query);
        }
    }

    fn is_put_off(&mut self, key: SessionKey) -> bool {
        self.clients[key].replays().is_some_and(|replays| replays.is_put_off)
    }

    fn put_off_replay(&mut self, key: SessionKey, now: Micros) {
        if let Some(replays) = self.clients[key].replays() {
            replays.is_put_off = true;
            self.slices.put_off(Work::Replay(key), now);
        }
    }

    /// The turn of a session's retained messages has come.
    pub(super) fn replay_in_turn(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        let session = self.clients.get_mut(key);
        if let Some(replays) = session.and_then(Session::replays) {
            replays.is_put_off = false;
            self.replay(key, now, sink);
        }
    }

    fn front_replay(&mut self, key: SessionKey) -> Option<&mut Replay> {
        let session = self.clients.get_mut(key)?;
        let replays = &mut session.cold.as_mut()?.replays;
        if replays.take_if(|all| all.is_empty()).is_some() {
            session.drop_cold_if_unused();
        }
        session.replays()?.front_mut()
    }

    /// The subscription whose replay is the session's first, as it is now.
    fn wanted_by(&self, key: SessionKey) -> Option<Wanted> {
        let session = &self.clients[key];
        let replay = session.cold.as_ref()?.replays.as_ref()?.front()?;
        let records = session.subscriptions();
        let record = records[self.filters.position(replay.name(), records)?];
        let condition = self.filters.condition(record);
        Some(Wanted { subscriber: self.filters.subscriber(record), condition })
    }

    /// Where the session's first replay goes on.
    fn next_of_replay(&self, key: SessionKey) -> Option<Next> {
        self.clients[key].cold.as_ref()?.replays.as_ref()?.front()?.next(&self.place)
    }

    /// How many messages the session can take at once. Its queue is for what is published: what is
    /// retained can wait in its store.
    fn room(&self, key: SessionKey, qos: QoS, sink: &impl Sink) -> usize {
        let session = &self.clients[key];
        let Some(attachment) = session.attachment else { return 0 };
        if standing(session, &self.bounds, sink) != Standing::Ready {
            return 0;
        }
        if qos == QoS::AtMostOnce {
            return PAGE_MESSAGES_MAX;
        }
        session.window.room(attachment.open_max).min(PAGE_MESSAGES_MAX)
    }

    /// Delivers a page, but for what the subscriber gets live; as much of it as the session takes.
    /// The rest will be asked for again.
    fn take_page(
        &mut self,
        key: SessionKey,
        Wanted { subscriber, condition }: Wanted,
        page: Page,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let replays = self.clients[key].replays();
        let Some(mut replay) = replays.and_then(|all| all.take_front()) else { return };
        let mut through = None;
        let mut is_whole = true;
        // A condition may cost much more than what is counted by the length of a message.
        let (mut checked, checked_max) = (0, u64::from(self.bounds.limits.input_steps_max));
        for message in &page.messages {
            if self.room(key, subscriber.qos.min(message.qos), sink) == 0 {
                is_whole = false;
                break;
            }
            let is_due = message.stamp.is_none_or(|stamp| replay.is_due(stamp));
            if is_due && self.is_wanted(condition, message) {
                self.send_retained(subscriber, message, now, sink);
            }
            through = Some(message);
            let steps = self.filters.conditions.take_steps();
            self.slices.add(steps);
            checked += steps;
            if checked > checked_max {
                is_whole = false;
                break;
            }
        }
        let next =
            if is_whole { page.next } else { through.map(|message| message.topic.as_str().into()) };
        match next {
            Some(next) => replay.went_on(next),
            None if is_whole => replay.owner_done(),
            None => {}
        }
        let is_over = replay.is_over(&self.place);
        if let Some(all) = self.clients[key].replays() {
            all.put_back(replay);
        }
        if is_over {
            self.retained.drop_replay(&mut self.clients[key]);
        }
    }

    /// A retained message that is read for one subscription.
    fn is_wanted(&mut self, condition: Option<ConditionId>, message: &Arc<Message>) -> bool {
        let Some(condition) = condition else { return true };
        let delivery = Delivery::from_message(message, None);
        self.filters.conditions.next_message();
        self.filters.conditions.check(condition, &delivery.content())
    }

    fn send_retained(
        &mut self,
        subscriber: Subscriber,
        message: &Arc<Message>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let ids = [subscriber.subscription_id];
        let mut delivery = Delivery::from_message(message, None);
        self.encoder.begin();
        let receiver = Receiver {
            session: subscriber.session,
            qos: subscriber.qos.min(message.qos),
            // [MQTT-3.3.1-8]
            retain: true,
            subscription_ids: if ids[0] == 0 { &[] } else { &ids },
        };
        self.outlet().deliver(receiver, &mut delivery, now, sink);
    }

    /// Another shard asks for a page of this shard's store.
    pub(super) fn on_query(
        &mut self,
        from: ShardId,
        query: RetainedQuery,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.retained.queries.hold(from, query);
        self.answer_queries(now, sink);
    }

    /// Answers the queries whose needed messages have come, while the input has steps left.
    pub(super) fn answer_queries(&mut self, now: Micros, sink: &mut impl Sink) {
        let Self { retained, slices, place, .. } = self;
        if retained.queries.is_empty() || retained.queries.is_put_off {
            return;
        }
        let (mut from, mut own) = (0, Vec::new());
        while let Some(at) = retained.next_query(from) {
            if slices.is_spent() {
                retained.queries.is_put_off = true;
                slices.put_off(Work::Queries, now);
                break;
            }
            let Answered { to, page, looked_at } =
                retained.answer_query(at, &place.partitions, now);
            slices.add(PAGE_STEPS + (looked_at + page.messages.len()) as u64);
            if to == place.id {
                own.push(page);
            } else {
                sink.mail(to, Mail::RetainedPage(page));
            }
            from = at;
        }
        own.into_iter().for_each(|page| self.on_page(page, now, sink));
    }

    /// The turn of other shards' queries has come.
    pub(super) fn answer_in_turn(&mut self, now: Micros, sink: &mut impl Sink) {
        self.retained.queries.is_put_off = false;
        self.answer_queries(now, sink);
    }

    /// A page has come.
    pub(super) fn on_page(&mut self, mut page: RetainedPage, now: Micros, sink: &mut impl Sink) {
        let Some(asked) = self.retained.take_asked(page.ticket) else { return };
        let key = asked.session;
        self.retained.drop_outdated(&asked, &mut page);
        if let Some(replay) = self.front_replay(key).filter(|replay| replay.id == asked.replay) {
            replay.state = ReplayState::Ready;
            let RetainedPage { messages, next, .. } = page;
            match self.wanted_by(key) {
                Some(wanted) => {
                    let page = Page { messages, next, ..Page::default() };
                    self.take_page(key, wanted, page, now, sink);
                }
                None => self.retained.drop_replay(&mut self.clients[key]),
            }
        }
        self.end_asking();
        // Also if nobody wants the page any more: what comes behind it may have waited for it.
        self.replay(key, now, sink);
    }
}
