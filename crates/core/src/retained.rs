//! Retained messages: those of the topics that this shard owns, and what is known of the others'.

mod queries;
mod recent;
mod seek;
mod stamps;
mod store;
mod versions;

pub(crate) use queries::Answered;
pub(crate) use store::{PAGE_MESSAGES_MAX, Page};

use crate::bounds::Bounds;
use crate::keys::{Micros, SessionKey, ShardId, Stamp, Ticket, Version};
use crate::mail::{NotRetained, RetainedPage};
use crate::message::Message;
use crate::name::Name;
use crate::partitions::{Partition, PartitionSet, Partitions};
use crate::replays::{Replay, Seen};
use crate::session::Session;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use queries::Queries;
use recent::Recent;
use slotmap::SlotMap;
use stamps::Stamps;
use std::ops::Range;
use std::sync::Arc;
use store::Store;
use versions::Versions;
use weir_wire::topic::TopicFilter;

/// The retained messages of one shard, with all that makes each subscriber get each of them once.
#[derive(Debug)]
pub(crate) struct Retained {
    store: Store,
    pub(crate) stamps: Stamps,
    recent: Recent,
    /// Pages that are on their way from their owners.
    asked: SlotMap<Ticket, PageAsked>,
    pub(crate) queries: Queries,
    /// Replays so far.
    replays: u64,
    /// If other nodes keep the same.
    versions: Option<Box<Versions>>,
    seed: u64,
    hasher: FixedState,
}

/// A page that is on its way from its owner.
#[derive(Debug)]
pub(crate) struct PageAsked {
    pub(crate) session: SessionKey,
    /// Names the replay, as the session's key may be given again.
    pub(crate) replay: u64,
    /// When it was asked for, among what came live.
    mark: u64,
}

impl Retained {
    pub(crate) fn new(id: ShardId, shards: u16, seed: u64) -> Self {
        Self {
            store: Store::default(),
            stamps: Stamps::new(id, shards),
            recent: Recent::default(),
            asked: SlotMap::with_key(),
            queries: Queries::default(),
            replays: 0,
            versions: None,
            seed,
            hasher: FixedState::with_seed(seed),
        }
    }

    /// Other nodes keep the same messages; `node` are the shards of this one, whose numbers are
    /// higher than `number`.
    pub(crate) fn set_clustered(&mut self, node: &Range<u16>, number: u64) {
        self.versions = Some(Box::new(Versions::new(node.start, self.seed, number)));
        node.clone().for_each(|shard| self.stamps.begin(ShardId(shard), number));
    }

    pub(crate) fn is_clustered(&self) -> bool {
        self.versions.is_some()
    }

    /// A shard is gone.
    pub(crate) fn forget_shard(&mut self, shard: ShardId) {
        self.stamps.forget(shard);
        self.queries.forget(shard);
    }

    /// That of the message of a topic that is kept.
    pub(crate) fn version(&self, topic: &str) -> Version {
        self.versions.as_ref().map_or(Version::default(), |versions| versions.of(topic))
    }

    /// That of one that is kept from now on, if other nodes are to keep it too.
    pub(crate) fn next_version(&mut self, topic: &str, is_cleared: bool) -> Option<Version> {
        Some(self.versions.as_mut()?.next(topic, is_cleared))
    }

    /// Whether another node's message is newer than what is kept.
    pub(crate) fn take_version(&mut self, topic: &str, version: Version, is_cleared: bool) -> bool {
        self.versions.as_mut().is_some_and(|versions| versions.take(topic, version, is_cleared))
    }

    /// Another node keeps a message; if it `is_newer` than the one here, this one does so too. It
    /// was acknowledged there: no bound turns it away. Says whether the store is another one now.
    pub(crate) fn copy(&mut self, message: Arc<Message>, is_newer: bool) -> bool {
        if let Some(stamp) = message.stamp.filter(|stamp| self.stamps.has(stamp.shard)) {
            self.stamps.receive(stamp);
        }
        if !is_newer {
            return false;
        }
        if message.payload.is_empty() {
            return self.store.clear(&message.topic);
        }
        self.store.put(message);
        true
    }

    /// The version of a topic that was cleared after `version`, if it was.
    pub(crate) fn cleared_after(&self, topic: &str, version: Version) -> Option<Version> {
        let known = self.version(topic);
        (known > version && !self.store.has(topic)).then_some(known)
    }

    /// The next topic that was cleared lately and has nothing, with the version of that.
    pub(crate) fn next_cleared(&self, at: &mut u64) -> Option<(&str, Version)> {
        let versions = self.versions.as_ref()?;
        while let Some(topic) = versions.next_cleared(at) {
            if !self.store.has(topic) {
                return Some((topic, versions.of(topic)));
            }
        }
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.store.len()
    }

    /// Pages that are waited for.
    pub(crate) fn awaited(&self) -> usize {
        self.asked.len()
    }

    /// Changes this shard's own store. An empty payload clears \[MQTT-3.3.1-6\]. Says whether it
    /// is another one now.
    pub(crate) fn keep(
        &mut self,
        message: Arc<Message>,
        bounds: &Bounds,
    ) -> Result<bool, NotRetained> {
        if let Some(stamp) = message.stamp {
            self.stamps.receive(stamp);
        }
        if message.payload.is_empty() {
            return Ok(self.store.clear(&message.topic));
        }
        self.store.set(message, bounds).map(|()| true)
    }

    /// The message of a topic in this shard's own store.
    pub(crate) fn of(&self, topic: &str) -> Option<&Arc<Message>> {
        self.store.of(topic)
    }

    /// The first message behind the topic `after`, of this shard's own store.
    pub(crate) fn next(&self, after: Option<&str>) -> Option<&Arc<Message>> {
        self.store.next(after)
    }

    /// Whether all that this shard, which is `own`, knows of as its owner is in its store: what
    /// other nodes publish need not be.
    pub(crate) fn has_own(&self, own: ShardId) -> bool {
        !self.is_clustered() || self.stamps.has_received(&self.stamps.needed(own))
    }

    /// Forgets a message of this shard's own store that is expired.
    pub(crate) fn drop_expired(&mut self, topic: &str) {
        self.store.clear(topic);
        self.note_expired(topic);
    }

    /// Its version is remembered for as long as that of a topic that was cleared.
    fn note_expired(&mut self, topic: &str) {
        if let Some(versions) = &mut self.versions {
            versions.expired(topic);
        }
    }

    /// Takes a message from the shard that held its topic before. It was acknowledged: no bound
    /// turns it away.
    pub(crate) fn adopt(&mut self, message: Arc<Message>) {
        if let Some(stamp) = message.stamp {
            self.stamps.receive(stamp);
        }
        self.store.put(message);
    }

    /// Takes a partition's messages out of the store, of the next `count` topics behind `after`.
    /// Returns where to go on, if there are more.
    pub(crate) fn take_partition(
        &mut self,
        partition: Partition,
        partitions: &Partitions,
        after: Option<&str>,
        count: usize,
    ) -> (Vec<Arc<Message>>, Option<Box<str>>) {
        self.store.take_some(after, count, |topic| partitions.of(topic) == partition)
    }

    /// A page of this shard's own store; of some partitions only, if it is said which.
    pub(crate) fn page(
        &mut self,
        filter: TopicFilter<'_>,
        after: Option<&str>,
        among: Option<(&PartitionSet, &Partitions)>,
        messages_max: usize,
        now: Micros,
    ) -> Page {
        let is_other = |topic: &str| {
            among.is_some_and(|(wanted, partitions)| !wanted.contains(partitions.of(topic)))
        };
        let page = self.store.page(filter, after, is_other, messages_max, now);
        page.expired.iter().for_each(|topic| self.note_expired(topic));
        page
    }

    /// Notes what is delivered live as retained, for those who asked its owner a moment ago. Says
    /// whether an older one was forgotten for it.
    pub(crate) fn note_recent(&mut self, topic: &str, stamp: Stamp) -> bool {
        self.recent.push(topic, stamp)
    }

    /// Whether a page is waited for.
    pub(crate) fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Nobody asks for anything: what came live is forgotten.
    pub(crate) fn end_asking(&mut self) {
        self.recent.clear();
    }

    /// Notes that a subscription of this round is to get retained messages; there is no replay of
    /// its name. Returns the number of the new one.
    pub(crate) fn add_replay(&mut self, session: &mut Session, name: Name<'_>, round: u64) -> u64 {
        self.replays += 1;
        let replays = session.cold().replays.get_or_insert_default();
        let replay = Replay::new(self.replays, name, round, self.recent.mark());
        replays.push(replay, &self.hasher);
        self.replays
    }

    /// Takes the replays of a session that came from another shard, in their order.
    pub(crate) fn adopt_replays(&mut self, session: &mut Session, all: Vec<Replay>) {
        for mut replay in all {
            self.replays += 1;
            replay.id = self.replays;
            session.cold().replays.get_or_insert_default().push(replay, &self.hasher);
        }
    }

    /// What the session's subscription of this name has not got yet it will not get.
    pub(crate) fn cancel_replay(&self, session: &mut Session, name: Name<'_>) {
        if let Some(replays) = session.replays() {
            replays.cancel(name, &self.hasher);
        }
    }

    /// The session's first replay is over.
    pub(crate) fn drop_replay(&self, session: &mut Session) {
        if let Some(replays) = session.replays() {
            replays.drop_front(&self.hasher);
        }
    }

    /// The subscriptions of a round are effective everywhere; `first` is its first replay. Says how
    /// much there was to look at.
    pub(crate) fn begin_replays(&mut self, session: &mut Session, first: u64, round: u64) -> usize {
        let Some(replays) = session.replays() else { return 0 };
        let numbers = self.stamps.seen();
        let mut seen = Seen { numbers, recent: HashMap::with_hasher(self.hasher.clone()) };
        seen.recent.extend(self.recent.marks());
        replays.begin(first, round, &Arc::new(seen)) + self.recent.len()
    }

    /// A page of a session's replay is asked for. Returns what names the answer.
    pub(crate) fn ask(&mut self, session: SessionKey, replay: u64) -> Ticket {
        let mark = self.recent.mark();
        self.asked.insert(PageAsked { session, replay, mark })
    }

    /// A page has come: whose it is, unless nobody waits for it.
    pub(crate) fn take_asked(&mut self, ticket: Ticket) -> Option<PageAsked> {
        self.asked.remove(ticket)
    }

    /// Takes from a page what is older than what came live since it was asked for, and had not come
    /// to its owner when it answered.
    pub(crate) fn drop_outdated(&self, asked: &PageAsked, page: &mut RetainedPage) {
        let RetainedPage { messages, received, .. } = page;
        let is_newer = |stamp: Stamp| {
            received.get(usize::from(stamp.shard.0)).is_some_and(|&last| stamp.number > last)
        };
        let mut outdated = HashSet::with_hasher(self.hasher.clone());
        let newer = self.recent.since(asked.mark).filter(|&(_, stamp)| is_newer(stamp));
        outdated.extend(newer.map(|(topic, _)| topic));
        messages.retain(|message| !outdated.contains(&*message.topic));
    }
}
