//! Retained messages for new subscriptions, as far as their sessions can take them.

use super::Shard;
use super::delivery::Receiver;
use super::groups::standing;
use super::slices::Work;
use crate::conditions::ConditionId;
use crate::keys::Stamp;
use crate::keys::{Micros, SessionKey, ShardId};
use crate::mail::{Mail, RetainedPage, RetainedQuery};
use crate::message::{Delivery, Message};
use crate::name::Name;
use crate::retained::{PAGE_MESSAGES_MAX, Page, Replay, Seen, Step};
use crate::routing::{Standing, Subscriber};
use crate::session::Session;
use crate::sink::Sink;
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;
use weir_wire::QoS;
use weir_wire::topic::TopicFilter;

/// Steps of a page, beside the topics that are looked at for it and the messages on it.
const PAGE_STEPS: u64 = 8;

/// Replays that begin in a step.
const BEGUN_IN_A_STEP: u64 = 8;

/// Bytes that are checked for a condition in a step.
const CHECKED_BYTES: u64 = 128;

/// Bytes that are copied in a step.
const COPIED_BYTES: u64 = 1024;

/// A page that is on its way from its owner.
#[derive(Debug)]
pub(super) struct PageAsked {
    session: SessionKey,
    /// Names the replay, as the session's key may be given again.
    replay: u64,
    /// When it was asked for, among what came live.
    mark: u64,
}

/// Another shard's query that comes before a message it knows of. Each of its sessions has one
/// query open at most.
#[derive(Debug)]
pub(super) struct QueryHeld {
    from: ShardId,
    query: RetainedQuery,
}

/// The subscription that a replay is for, and its condition.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    subscriber: Subscriber,
    condition: Option<ConditionId>,
}

impl Shard {
    /// Notes that a subscription of this round is to get retained messages; there is no
    /// replay of its name. Returns the number of the new one.
    pub(super) fn add_replay(&mut self, key: SessionKey, name: Name<'_>, round: u64) -> u64 {
        self.replays += 1;
        let Self { sessions, hasher, recent, .. } = self;
        let replays = sessions[key.0 as usize].extra().replays.get_or_insert_default();
        replays.push(Replay::new(self.replays, name, round, recent.mark()), hasher);
        self.replays
    }

    /// What the session's subscription of this name has not got yet it will not get.
    pub(super) fn cancel_replay(&mut self, key: SessionKey, name: Name<'_>) {
        let Self { sessions, hasher, .. } = self;
        if let Some(replays) = sessions[key.0 as usize].replays() {
            replays.cancel(name, hasher);
        }
    }

    /// The subscriptions of a round are effective everywhere; `first` is its first replay.
    pub(super) fn begin_replays(&mut self, key: SessionKey, first: u64, round: u64) {
        let Self { sessions, stamps, recent, hasher, slices, .. } = self;
        let Some(replays) = sessions.get_mut(key.0 as usize).and_then(Session::replays) else {
            return;
        };
        let mut seen =
            Seen { numbers: stamps.seen(), recent: HashMap::with_hasher(hasher.clone()) };
        seen.recent.extend(recent.marks());
        let begun = replays.begin(first, round, &Arc::new(seen));
        slices.add((begun + recent.len()) as u64 / BEGUN_IN_A_STEP);
    }

    /// Notes what is delivered live as retained, for those who asked the owner a moment ago.
    #[inline]
    pub(super) fn note_recent(&mut self, topic: &str, stamp: Option<Stamp>) {
        if let Some(stamp) = stamp
            && self.is_asking()
        {
            self.stats.recent_forgotten += u64::from(self.recent.push(topic, stamp));
        }
    }

    fn is_asking(&self) -> bool {
        self.answers.has_subscribes() || !self.pages.is_empty()
    }

    /// Forgets what nobody asks for any more.
    pub(super) fn end_asking(&mut self) {
        if !self.is_asking() {
            self.recent.clear();
        }
    }

    /// Goes on with the session's retained messages: takes or asks for pages while it has room,
    /// and the input has steps left.
    pub(super) fn replay(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        while let Some(replay) = self.front_replay(key)
            && replay.step == Step::Ready
        {
            let (id, owners_done) = (replay.id, replay.owners_done);
            let (after, text) = (replay.after.clone(), replay.filter.clone());
            if self.is_put_off(key) {
                return;
            }
            if self.slices.is_spent() {
                return self.put_off_replay(key, now);
            }
            self.slices.add(PAGE_STEPS);
            let Some(wanted) = self.wanted_by(key) else {
                self.drop_replay(key);
                continue;
            };
            let messages_max = self.room(key, wanted.subscriber.qos, sink);
            if messages_max == 0 {
                return;
            }
            let filter = TopicFilter { group: None, filter: &text };
            let owner = self.replay_owner(filter, owners_done);
            if owner == self.id {
                let page = self.retained.page(filter, after.as_deref(), messages_max, now);
                let bytes = if wanted.condition.is_some() { CHECKED_BYTES } else { COPIED_BYTES };
                self.slices.add((page.looked_at + page.messages.len()) as u64);
                self.slices.add(page.bytes() / bytes);
                self.take_page(key, wanted, page, &HashSet::default(), now, sink);
                continue;
            }
            if let Some(replay) = self.front_replay(key) {
                replay.step = Step::Asked;
            }
            let mark = self.recent.mark();
            let ticket = self.pages.insert(PageAsked { session: key, replay: id, mark });
            let messages_max = messages_max as u32;
            let needed = self.stamps.needed(owner);
            let query = RetainedQuery { filter: text, after, messages_max, needed, ticket };
            return sink.mail(owner, Mail::RetainedQuery(query));
        }
    }

    fn is_put_off(&mut self, key: SessionKey) -> bool {
        self.sessions[key.0 as usize].replays().is_some_and(|replays| replays.is_put_off)
    }

    fn put_off_replay(&mut self, key: SessionKey, now: Micros) {
        if let Some(replays) = self.sessions[key.0 as usize].replays() {
            replays.is_put_off = true;
            self.slices.put_off(Work::Replay(key), now);
        }
    }

    /// The turn of a session's retained messages has come.
    pub(super) fn replay_in_turn(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        let session = self.sessions.get_mut(key.0 as usize);
        if let Some(replays) = session.and_then(Session::replays) {
            replays.is_put_off = false;
            self.replay(key, now, sink);
        }
    }

    fn front_replay(&mut self, key: SessionKey) -> Option<&mut Replay> {
        let session = self.sessions.get_mut(key.0 as usize)?;
        let replays = &mut session.extra.as_mut()?.replays;
        if replays.take_if(|all| all.is_empty()).is_some() {
            session.drop_extra_if_unused();
        }
        session.replays()?.front_mut()
    }

    fn drop_replay(&mut self, key: SessionKey) {
        let Self { sessions, hasher, .. } = self;
        if let Some(all) = sessions[key.0 as usize].replays() {
            all.drop_front(hasher);
        }
    }

    /// The subscription whose replay is the session's first, as it is now.
    fn wanted_by(&self, key: SessionKey) -> Option<Wanted> {
        let session = &self.sessions[key.0 as usize];
        let replay = session.extra.as_ref()?.replays.as_ref()?.front()?;
        let records = session.subscriptions();
        let record = records[self.filters.position(replay.name(), records)?];
        let condition = self.filters.condition(record);
        Some(Wanted { subscriber: self.filters.subscriber(record), condition })
    }

    /// The owner of a filter's only topic; for a wildcard each shard in turn, this one first.
    fn replay_owner(&self, filter: TopicFilter<'_>, owners_done: u16) -> ShardId {
        if filter.has_wildcard() {
            let id = (u32::from(self.id.0) + u32::from(owners_done)) % u32::from(self.shards);
            ShardId(id as u16)
        } else {
            self.owner(filter.filter)
        }
    }

    /// How many messages the session can take at once. Its queue is for what is published: what is
    /// retained can wait in its store.
    fn room(&self, key: SessionKey, qos: QoS, sink: &impl Sink) -> usize {
        let session = &self.sessions[key.0 as usize];
        let Some(link) = session.link else { return 0 };
        if standing(session, self.output_bytes_max, sink) != Standing::Ready {
            return 0;
        }
        if qos == QoS::AtMostOnce {
            return PAGE_MESSAGES_MAX;
        }
        session.window.room(link.open_max).min(PAGE_MESSAGES_MAX)
    }

    /// Delivers a page, but for what the subscriber gets live and what is `outdated`; as much of
    /// it as the session takes. The rest will be asked for again.
    fn take_page(
        &mut self,
        key: SessionKey,
        Wanted { subscriber, condition }: Wanted,
        page: Page,
        outdated: &HashSet<&str, foldhash::fast::FixedState>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let replays = self.sessions[key.0 as usize].replays();
        let Some(mut replay) = replays.and_then(|all| all.take_front()) else { return };
        let mut through = None;
        let mut is_whole = true;
        for message in &page.messages {
            if self.room(key, subscriber.qos.min(message.qos), sink) == 0 {
                is_whole = false;
                break;
            }
            let is_due = message.stamp.is_none_or(|stamp| replay.is_due(stamp));
            if is_due && !outdated.contains(&*message.topic) && self.is_wanted(condition, message) {
                self.send_retained(subscriber, message, now, sink);
            }
            through = Some(message);
        }
        if !is_whole {
            replay.after = through.map(|message| message.topic.as_str().into()).or(replay.after);
        } else if page.next.is_some() {
            replay.after = page.next;
        } else {
            replay.after = None;
            replay.owners_done += 1;
        }
        let is_wild = replay.filter.contains(['+', '#']);
        let owners = if is_wild { self.shards } else { 1 };
        let is_over = replay.owners_done == owners;
        if let Some(all) = self.sessions[key.0 as usize].replays() {
            all.put_back(replay);
        }
        if is_over {
            self.drop_replay(key);
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
        self.deliver(receiver, &mut delivery, now, sink);
    }

    /// Another shard asks for a page of this shard's store.
    pub(super) fn on_query(
        &mut self,
        from: ShardId,
        query: RetainedQuery,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.queries.push(QueryHeld { from, query });
        self.answer_pages(now, sink);
    }

    /// Answers the queries whose needed messages have come, while the input has steps left.
    pub(super) fn answer_pages(&mut self, now: Micros, sink: &mut impl Sink) {
        let Self { queries, stamps, retained, slices, .. } = self;
        if queries.is_empty() || slices.has_queries {
            return;
        }
        let mut has_more = false;
        let mut at = 0;
        while let Some(held) = queries.get(at) {
            if !stamps.has_received(&held.query.needed) {
                at += 1;
                continue;
            }
            if slices.is_spent() {
                has_more = true;
                break;
            }
            let QueryHeld { from, query } = queries.remove(at);
            let filter = TopicFilter { group: None, filter: &query.filter };
            let messages_max = query.messages_max as usize;
            let Page { messages, next, looked_at } =
                retained.page(filter, query.after.as_deref(), messages_max, now);
            slices.add(PAGE_STEPS + (looked_at + messages.len()) as u64);
            let (received, ticket) = (stamps.received(), query.ticket);
            let page = RetainedPage { messages, next, received, ticket };
            sink.mail(from, Mail::RetainedPage(page));
        }
        if has_more {
            slices.has_queries = true;
            slices.put_off(Work::Queries, now);
        }
    }

    /// The turn of other shards' queries has come.
    pub(super) fn answer_in_turn(&mut self, now: Micros, sink: &mut impl Sink) {
        self.slices.has_queries = false;
        self.answer_pages(now, sink);
    }

    /// A page has come.
    pub(super) fn on_page(&mut self, page: RetainedPage, now: Micros, sink: &mut impl Sink) {
        let RetainedPage { messages, next, received, ticket } = page;
        let Some(PageAsked { session: key, replay: id, mark }) = self.pages.remove(ticket) else {
            return;
        };
        let recent = std::mem::take(&mut self.recent);
        if self.front_replay(key).is_some_and(|replay| replay.id == id) {
            let mut outdated = HashSet::with_hasher(self.hasher.clone());
            let is_newer = |stamp: Stamp| {
                received.get(usize::from(stamp.shard.0)).is_some_and(|&last| stamp.number > last)
            };
            let newer = recent.since(mark).filter(|&(_, stamp)| is_newer(stamp));
            outdated.extend(newer.map(|(topic, _)| topic));
            if let Some(replay) = self.front_replay(key) {
                replay.step = Step::Ready;
            }
            match self.wanted_by(key) {
                Some(wanted) => {
                    let page = Page { messages, next, looked_at: 0 };
                    self.take_page(key, wanted, page, &outdated, now, sink);
                }
                None => self.drop_replay(key),
            }
        }
        self.recent = recent;
        self.end_asking();
        // Also if nobody wants the page any more: what comes behind it may have waited for it.
        self.replay(key, now, sink);
    }
}
