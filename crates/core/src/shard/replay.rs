//! Retained messages for new subscriptions, as far as their sessions can take them.

use super::Shard;
use super::delivery::Receiver;
use super::groups::standing;
use crate::conditions::ConditionId;
use crate::keys::{Micros, SessionKey, ShardId};
use crate::mail::{Mail, RetainedPage, RetainedQuery};
use crate::message::{Delivery, Message};
use crate::name::Name;
use crate::retained::{PAGE_MESSAGES_MAX, Page, Replay, Stamp, Step};
use crate::routing::{Standing, Subscriber};
use crate::session::Session;
use crate::sink::Sink;
use crate::timers::Timer;
use hashbrown::HashSet;
use std::sync::Arc;
use weir_wire::QoS;
use weir_wire::topic::TopicFilter;

/// Bytes of this shard's store that are checked for a condition in one input, before the last page.
/// What is not wanted fills no output, so that nothing else would end it.
const CHECKED_BYTES_MAX: u64 = 1024 * 1024;

/// What a page counts for, however little is in it: it may have gone by as many topics.
const CHECKED_PAGE_BYTES: u64 = 64 * 1024;

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
    /// Notes that a subscription is to get retained messages. Returns the replay's name.
    pub(super) fn add_replay(&mut self, key: SessionKey, name: Name<'_>) -> u64 {
        self.replays += 1;
        let replays = self.sessions[key.0 as usize].extra().replays.get_or_insert_default();
        replays.in_turn.push_back(Replay::new(self.replays, name));
        self.replays
    }

    /// What the session's subscription of this name has not got yet it will not get.
    pub(super) fn cancel_replay(&mut self, key: SessionKey, name: Name<'_>) {
        if let Some(replays) = self.sessions[key.0 as usize].replays() {
            replays.in_turn.retain(|replay| replay.name() != name);
        }
    }

    /// The subscription is effective everywhere. `mark` is when it was made.
    pub(super) fn begin_replay(&mut self, key: SessionKey, id: u64, mark: u64) {
        let Self { sessions, stamps, recent, .. } = self;
        let replays = sessions.get_mut(key.0 as usize).and_then(Session::replays);
        let Some(replay) =
            replays.and_then(|all| all.in_turn.iter_mut().find(|replay| replay.id == id))
        else {
            return;
        };
        let filter = TopicFilter { group: None, filter: &replay.filter };
        let is_match = |&(topic, _): &(&str, Stamp)| filter.matches(topic);
        let early = recent.since(mark).filter(is_match).map(|(_, stamp)| stamp).collect();
        replay.begin(stamps.seen(), early);
    }

    /// Notes what is delivered live as retained, for those who asked the owner a moment ago.
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

    /// Goes on with the session's retained messages: takes or asks for pages while it has room.
    pub(super) fn replay(&mut self, key: SessionKey, now: Micros, sink: &mut impl Sink) {
        let mut checked_bytes = 0;
        while let Some(replay) = self.front_replay(key)
            && replay.step == Step::Ready
        {
            let (id, owners_done) = (replay.id, replay.owners_done);
            let (after, text) = (replay.after.clone(), replay.filter.clone());
            let Some(wanted) = self.wanted_by(key) else {
                self.drop_replay(key);
                continue;
            };
            let messages_max = self.room(key, wanted.subscriber.qos, sink);
            if messages_max == 0 {
                return;
            }
            if checked_bytes >= CHECKED_BYTES_MAX {
                return self.timers.set(now + Micros(1), Timer::Replay(key));
            }
            let filter = TopicFilter { group: None, filter: &text };
            let owner = self.replay_owner(filter, owners_done);
            if owner == self.id {
                let page = self.retained.page(filter, after.as_deref(), messages_max, now);
                if wanted.condition.is_some() {
                    checked_bytes += CHECKED_PAGE_BYTES + page.bytes();
                }
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

    fn front_replay(&mut self, key: SessionKey) -> Option<&mut Replay> {
        let session = self.sessions.get_mut(key.0 as usize)?;
        let replays = &mut session.extra.as_mut()?.replays;
        if replays.take_if(|all| all.in_turn.is_empty()).is_some() {
            session.drop_extra_if_unused();
        }
        session.replays()?.in_turn.front_mut()
    }

    fn drop_replay(&mut self, key: SessionKey) {
        if let Some(all) = self.sessions[key.0 as usize].replays() {
            all.in_turn.pop_front();
        }
    }

    /// The subscription whose replay is the session's first, as it is now.
    fn wanted_by(&self, key: SessionKey) -> Option<Wanted> {
        let session = &self.sessions[key.0 as usize];
        let replay = session.extra.as_ref()?.replays.as_ref()?.in_turn.front()?;
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
        let Some(mut replay) = replays.and_then(|all| all.in_turn.pop_front()) else { return };
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
            all.in_turn.push_front(replay);
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

    /// Answers the queries whose needed messages have come.
    pub(super) fn answer_pages(&mut self, now: Micros, sink: &mut impl Sink) {
        let Self { queries, stamps, retained, .. } = self;
        let is_ready = |held: &mut QueryHeld| stamps.has_received(&held.query.needed);
        for QueryHeld { from, query } in queries.extract_if(.., is_ready) {
            let filter = TopicFilter { group: None, filter: &query.filter };
            let messages_max = query.messages_max as usize;
            let Page { messages, next } =
                retained.page(filter, query.after.as_deref(), messages_max, now);
            let (received, ticket) = (stamps.received(), query.ticket);
            let page = RetainedPage { messages, next, received, ticket };
            sink.mail(from, Mail::RetainedPage(page));
        }
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
                    let page = Page { messages, next };
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
