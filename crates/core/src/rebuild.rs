//! From the records of a log to what they say is there: sessions and retained messages, as parcels
//! for whichever shard is to hold them.
//!
//! It is fed all records of one log in their order, only of whole commits. The log may have lost
//! its beginning, up to the last base that is done: what comes before the first base is skipped,
//! and so is what names a session from before it, which is logged anew later in that base.
//! Everything else has to fit. Of a session that is over nothing is left, so its memory is that of
//! what is there.

mod mailed;
mod messages;
mod waiting;

pub use waiting::NoPage;

use crate::keys::{Claim, Lsn, Micros, Origin, PageId, ShardId};
use crate::message::{Message, Queued};
use crate::outbox::{MailTarget, Mark};
use crate::page::{PageIn, PageRef};
use crate::parcel::{Content, MovedSession, MovedSubscription, Parcel};
use crate::record::{Record, WillRecord};
use crate::session::{Absence, Will};
use crate::window::{SPAN_MAX, Window};
use mailed::Mailed;
use messages::Messages;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use waiting::{Fetched, Kept, Open, Waiting};
use weir_wire::packet::{RetainHandling, SubscriptionOptions};
use weir_wire::{PacketId, PropertiesBuf, QoS};

/// What the records so far say.
#[derive(Debug, Default)]
pub struct Rebuild {
    sessions: BTreeMap<Lsn, Rebuilt>,
    by_client: BTreeMap<Box<str>, Lsn>,
    /// A session whose copy was begun last, and may be there in part only: its records are not one
    /// commit where a file of the log ends.
    copied: Option<(Lsn, Rebuilt)>,
    /// Those that a record of this commit, or of this base, may refer to.
    messages: Messages,
    /// By topic, with the place of the record.
    retained: BTreeMap<Box<str>, (Lsn, Arc<Message>)>,
    mailed: Mailed,
    /// The first base.
    first: Option<Lsn>,
    /// The base that is not done yet.
    base: Option<Lsn>,
    /// Records of sessions that were over.
    ignored: u64,
    /// Records of what is from before the first base.
    skipped: u64,
}

/// A record that does not fit what those before it say: the log is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// Where it is.
    pub lsn: Lsn,
    /// What is wrong with it.
    pub what: &'static str,
}

impl fmt::Display for Unfit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "record {} does not fit those before it: {}", self.lsn.0, self.what)
    }
}

impl std::error::Error for Unfit {}

/// A session as its records have it so far.
#[derive(Debug)]
struct Rebuilt {
    client_id: Box<str>,
    expiry_s: u32,
    /// Of its last connection.
    will: Option<Box<Will>>,
    /// Nothing while it is connected.
    absence: Option<Deadlines>,
    /// By the whole name.
    subscriptions: BTreeMap<Box<str>, Subscribed>,
    /// Oldest first; those that are done are taken out.
    in_flight: VecDeque<Open>,
    /// The last identifier that was given to a delivery.
    last_id: Option<PacketId>,
    queue: Waiting,
    /// Sorted.
    unreleased: Vec<PacketId>,
    /// By which it has come from another node, if it has.
    claim: Claim,
}

#[derive(Clone, Copy, Debug)]
struct Deadlines {
    expires_at: Option<Micros>,
    will_at: Option<Micros>,
}

#[derive(Debug)]
struct Subscribed {
    condition: Option<Box<str>>,
    options: SubscriptionOptions,
    subscription_id: Option<u32>,
}

impl Rebuild {
    /// Takes the next record.
    ///
    /// # Errors
    /// It does not fit; nothing was changed by it.
    pub fn apply(&mut self, lsn: Lsn, record: Record<'_>) -> Result<(), Unfit> {
        self.apply_fitting(lsn, record).map_err(|what| Unfit { lsn, what })
    }

    /// The commit ends: its messages are those of the sessions that were to get them.
    pub fn commit_end(&mut self) {
        // What says that the copy is whole may be lost in a damaged log: this says it as well.
        self.copied = None;
        if self.base.is_none() {
            self.messages.clear();
        }
    }

    /// Records that named a session that was over by then. Of a log that was written in one go
    /// there are none.
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Records from before the first base, or that named a session from before it.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Whether there was a base, and the first is done: else the log is not all there. Of a later
    /// one it does not matter, as all that it would have logged anew is there.
    pub fn is_whole(&self) -> bool {
        self.first.is_some() && self.base != self.first
    }

    /// What was mailed to other shards, and that not all have said to have.
    pub(crate) fn mailed(&self) -> impl Iterator<Item = (Lsn, &Arc<Message>, &[MailTarget])> {
        self.mailed.open()
    }

    /// Whether what a shard has mailed was handled.
    pub(crate) fn has_marked(&self, from: ShardId, number: Lsn) -> bool {
        self.mailed.has_marked(from, number)
    }

    /// What was handled of what each shard has mailed.
    pub fn marks(&self) -> impl Iterator<Item = Mark> {
        self.mailed.marks()
    }

    /// Whose sessions are there.
    pub(crate) fn clients(&self) -> impl Iterator<Item = Box<str>> + '_ {
        self.by_client.keys().cloned()
    }

    /// The pages that [`Rebuild::finish`] will read: what was fetched from them was not all sent.
    pub fn fetched(&self) -> BTreeSet<PageId> {
        let of = |session: &Rebuilt| -> Vec<PageId> {
            let open = session.in_flight.iter().filter_map(Open::page);
            session.queue.fetched().chain(open).collect()
        };
        let copied = self.copied.iter().map(|(_, session)| session);
        self.sessions.values().chain(copied).flat_map(of).collect()
    }

    /// Goes on without these pages. Tells whose messages were on them, and how many.
    pub fn forget_pages(
        &mut self,
        is_lost: impl Fn(PageId) -> bool,
        mut tell: impl FnMut(&str, u64),
    ) {
        self.take_back_copy();
        for session in self.sessions.values_mut() {
            let open = session.in_flight.len();
            session.in_flight.retain(|open| !open.page().is_some_and(&is_lost));
            let lost = (open - session.in_flight.len()) as u64 + session.queue.forget(&is_lost);
            if lost > 0 {
                tell(&session.client_id, lost);
            }
        }
    }

    /// The sessions that are there, in the order in which they began, then the retained messages.
    /// Whoever was connected is absent since `now`. What was fetched from a page before the end is
    /// read again; other pages stay where they are.
    ///
    /// # Errors
    /// What `read` says, or that there is less on a page than was.
    pub fn finish<E>(
        mut self,
        now: Micros,
        mut read: impl FnMut(PageId) -> Result<PageIn, E>,
    ) -> Result<Vec<Parcel>, NoPage<E>> {
        self.take_back_copy();
        let mut parcels = Vec::new();
        for session in self.sessions.into_values() {
            parcels.extend(session.into_parcel(now, &mut read)?);
        }
        let retained = self.retained.into_values().map(|(_, message)| message);
        let retained = retained.filter(move |message| !message.is_expired(now));
        parcels.extend(retained.map(|message| Parcel(Content::Retained(message))));
        Ok(parcels)
    }

    fn skip(&mut self) -> Result<(), &'static str> {
        self.skipped += 1;
        Ok(())
    }

    fn apply_fitting(&mut self, lsn: Lsn, record: Record<'_>) -> Result<(), &'static str> {
        let is_from_before = match self.first {
            None => !matches!(record, Record::Base),
            Some(first) => record.session().is_some_and(|session| session < first),
        };
        if is_from_before {
            return self.skip();
        }
        match record {
            Record::Base if self.base.is_some() => return Err("a base begins within another"),
            Record::Base => {
                self.first.get_or_insert(lsn);
                self.base = Some(lsn);
            }
            Record::BaseEnd => self.end_base()?,
            Record::Message { topic, payload, properties, qos, retain, expires_at } => {
                let message = message((topic, payload, properties), (qos, retain), expires_at);
                self.messages.add(lsn, message);
            }
            Record::Retained { topic, payload, properties, qos, expires_at } => {
                let message = message((topic, payload, properties), (qos, true), expires_at);
                self.retained.insert(topic.into(), (lsn, message));
            }
            Record::Mailed { number, message, targets } => {
                let message = self.messages.of(message).ok_or("its message is not there")?;
                self.mailed.add(lsn, number, Arc::clone(message), targets.into_owned());
            }
            Record::Marked { .. }
            | Record::Refused { .. }
            | Record::PutOff { .. }
            | Record::MarkedFar { .. } => {
                self.mailed.mark(lsn, &record);
            }
            Record::Delivered { number } => self.mailed.done(number),
            Record::Cleared { topic } => {
                // Until the first base is done it may be from before it.
                if self.retained.remove(topic).is_none() && self.is_whole() {
                    return Err("no message of this topic is retained");
                }
            }
            Record::Session { session: Lsn::NONE, client_id, expiry_s, will } => {
                self.begin(lsn, client_id, expiry_s, will.as_ref());
            }
            Record::Gone { session } => self.end(session),
            Record::Session { session, .. }
            | Record::Absent { session, .. }
            | Record::Subscribed { session, .. }
            | Record::Unsubscribed { session, .. }
            | Record::Queued { session, .. }
            | Record::Sent { session, .. }
            | Record::Dropped { session }
            | Record::Received { session, .. }
            | Record::Done { session, .. }
            | Record::Noted { session, .. }
            | Record::Released { session, .. }
            | Record::Claimed { session, .. }
            | Record::Paged { session, .. }
            | Record::Fetched { session, .. }
            | Record::Page { session, .. } => match self.sessions.get_mut(&session) {
                Some(session) => session.apply(record, &self.messages)?,
                None => self.ignored += 1,
            },
        }
        Ok(())
    }

    fn end(&mut self, session: Lsn) {
        if self.copied.take_if(|(copied, _)| *copied == session).is_some() {
            // Under its old name only.
        } else if let Some(gone) = self.sessions.remove(&session) {
            self.by_client.remove(&gone.client_id);
        } else {
            self.ignored += 1;
        }
    }

    /// All that was there has been logged anew.
    fn end_base(&mut self) -> Result<(), &'static str> {
        let base = self.base.ok_or("no base is on its way")?;
        if self.sessions.first_key_value().is_some_and(|(&session, _)| session < base) {
            return Err("a session was not logged anew");
        }
        self.mailed.end_base(base)?;
        (self.base, self.copied) = (None, None);
        // One that was not logged anew had expired.
        self.retained.retain(|_, &mut (lsn, _)| lsn > base);
        Ok(())
    }

    /// At the end of the log: the last copy may have been cut, and what it was made of is all
    /// there.
    fn take_back_copy(&mut self) {
        if let Some((lsn, session)) = self.copied.take()
            && let Some(copy) = self.by_client.insert(session.client_id.clone(), lsn)
        {
            self.sessions.remove(&copy);
            self.sessions.insert(lsn, session);
        }
    }

    /// A session begins from nothing, whatever this client had before.
    fn begin(&mut self, lsn: Lsn, client_id: &str, expiry_s: u32, will: Option<&WillRecord<'_>>) {
        self.copied = None;
        if let Some(older) = self.by_client.insert(client_id.into(), lsn) {
            // A base copies what is there, which counts until the copy is whole. Beside that, a
            // session that another begins in the place of is gone before.
            let session = self.sessions.remove(&older).filter(|_| self.base.is_some());
            self.copied = session.map(|session| (older, session));
        }
        let session = Rebuilt {
            client_id: client_id.into(),
            expiry_s,
            will: will.map(kept_will),
            absence: None,
            subscriptions: BTreeMap::new(),
            in_flight: VecDeque::new(),
            last_id: None,
            queue: Waiting::default(),
            unreleased: Vec::new(),
            claim: Claim::NONE,
        };
        self.sessions.insert(lsn, session);
    }
}

impl Rebuilt {
    fn apply(&mut self, record: Record<'_>, messages: &Messages) -> Result<(), &'static str> {
        match record {
            Record::Session { expiry_s, will, .. } => {
                self.expiry_s = expiry_s;
                self.will = will.as_ref().map(kept_will);
                self.absence = None;
            }
            Record::Absent { expires_at, will_at, .. } => {
                self.absence = Some(Deadlines { expires_at, will_at });
                self.will.take_if(|_| will_at.is_none());
            }
            Record::Subscribed { name, condition, options, subscription_id, .. } => {
                let condition = condition.map(Into::into);
                let subscribed = Subscribed { condition, options, subscription_id };
                self.subscriptions.insert(name.into(), subscribed);
            }
            Record::Unsubscribed { name, .. } => {
                self.subscriptions.remove(name).ok_or("there is no such subscription")?;
            }
            Record::Queued { message, qos, retain, subscription_ids, packet_id, .. } => {
                let message = messages.of(message).ok_or("its message is not there")?;
                let (message, ids) = (Arc::clone(message), boxed(subscription_ids));
                let queued = Queued { message, qos, retain, subscription_ids: ids };
                match packet_id {
                    Some(packet_id) => self.open(packet_id, Some(Kept::Here(queued)))?,
                    None => self.queue.push(queued),
                }
            }
            Record::Sent { packet_id, .. } => {
                let oldest = self.queue.oldest()?;
                self.open(packet_id, Some(oldest))?;
                self.queue.drop_oldest()?;
            }
            Record::Dropped { .. } => self.queue.drop_oldest()?,
            Record::Paged { page, messages, bytes, behind, .. } => {
                self.queue.put_on_page(PageRef { id: page, messages, bytes }, behind)?;
            }
            Record::Fetched { page, .. } => self.queue.fetch(page)?,
            Record::Page { page, messages, bytes, .. } => {
                self.queue.push_page(PageRef { id: page, messages, bytes })?;
            }
            Record::Received { packet_id, .. } => self.receive(packet_id)?,
            Record::Done { packet_id, .. } => {
                let at = self.position(packet_id).ok_or(NOT_IN_FLIGHT)?;
                self.in_flight.remove(at);
            }
            Record::Claimed { claim, .. } => self.claim = claim,
            Record::Noted { packet_id, .. } => self.note(packet_id),
            Record::Released { packet_id, .. } => self.release(packet_id),
            Record::Message { .. }
            | Record::Mailed { .. }
            | Record::Marked { .. }
            | Record::Refused { .. }
            | Record::PutOff { .. }
            | Record::MarkedFar { .. }
            | Record::Delivered { .. }
            | Record::Gone { .. }
            | Record::Base
            | Record::BaseEnd
            | Record::Retained { .. }
            | Record::Cleared { .. } => {}
        }
        Ok(())
    }

    fn note(&mut self, packet_id: PacketId) {
        if let Err(at) = self.unreleased.binary_search(&packet_id) {
            self.unreleased.insert(at, packet_id);
        }
    }

    fn release(&mut self, packet_id: PacketId) {
        if let Ok(at) = self.unreleased.binary_search(&packet_id) {
            self.unreleased.remove(at);
        }
    }

    /// Identifiers are given in order, and never over more than the span of a window. Of one
    /// without a message only the identifier is owed.
    fn open(&mut self, packet_id: PacketId, message: Option<Kept>) -> Result<(), &'static str> {
        if let (Some(first), Some(last)) = (self.in_flight.front(), self.in_flight.back()) {
            let span = usize::from(packet_id.steps_from(first.packet_id));
            let is_behind = span > usize::from(last.packet_id.steps_from(first.packet_id));
            if !is_behind || span >= SPAN_MAX {
                return Err("its packet identifier is out of order");
            }
        }
        if let Some(Kept::Here(Queued { qos: QoS::AtMostOnce, .. })) = message {
            return Err("a delivery at QoS 0 is not in flight");
        }
        self.in_flight.push_back(Open { packet_id, message });
        self.last_id = Some(packet_id);
        Ok(())
    }

    /// Of a delivery that is not known, only this was logged anew.
    fn receive(&mut self, packet_id: PacketId) -> Result<(), &'static str> {
        let Some(at) = self.position(packet_id) else { return self.open(packet_id, None) };
        let delivery = &mut self.in_flight[at];
        if let Some(Kept::Here(Queued { qos: QoS::AtLeastOnce, .. })) = delivery.message {
            return Err("PUBREC of a delivery at QoS 1");
        }
        delivery.message = None;
        Ok(())
    }

    fn position(&self, packet_id: PacketId) -> Option<usize> {
        let first = self.in_flight.front()?.packet_id;
        let distance = packet_id.steps_from(first);
        let found =
            self.in_flight.binary_search_by_key(&distance, |it| it.packet_id.steps_from(first));
        found.ok()
    }

    /// Nothing if it is over and nobody is to hear of it.
    fn into_parcel<E>(
        self,
        now: Micros,
        read: &mut impl FnMut(PageId) -> Result<PageIn, E>,
    ) -> Result<Option<Parcel>, NoPage<E>> {
        let Self { client_id, expiry_s, will, absence, subscriptions, .. } = self;
        let Deadlines { expires_at, will_at } = absence.unwrap_or_else(|| {
            let after = |seconds| now + Micros::from_secs(seconds);
            let expires_at = (expiry_s != u32::MAX).then(|| after(expiry_s));
            let will_at = will.as_ref().map(|will| after(will.delay_s.min(expiry_s)));
            Deadlines { expires_at, will_at }
        });
        if will.is_none() && expires_at.is_some_and(|at| at <= now) {
            return Ok(None);
        }
        let has_absence = expires_at.is_some() || will_at.is_some();
        let absence = has_absence.then(|| Box::new(Absence { will, will_at, expires_at }));
        let mut fetched = Fetched { read, last: None };
        let in_flight = self.in_flight.into_iter().map(|open| open.resolve(&mut fetched));
        let in_flight = in_flight.collect::<Result<_, _>>()?;
        let queue = self.queue.resolve(now, &mut fetched)?;
        let subscriptions = subscriptions.into_iter().map(|(name, subscribed)| {
            let Subscribed { condition, options, subscription_id } = subscribed;
            // It was looked at when the client subscribed.
            let options =
                SubscriptionOptions { retain_handling: RetainHandling::DontSend, ..options };
            MovedSubscription { name, condition, options, subscription_id }
        });
        let moved = MovedSession {
            known: None,
            claim: self.claim,
            client_id: (&*client_id).into(),
            address: None,
            expiry_s,
            window: Window::restored(in_flight, self.last_id, queue),
            unreleased: self.unreleased,
            absence,
            subscriptions: subscriptions.collect(),
            replays: Vec::new(),
            connection: None,
        };
        Ok(Some(Parcel(Content::Session(Box::new(moved)))))
    }
}

const NOT_IN_FLIGHT: &str = "the delivery is not in flight";

/// Nothing, if there are none.
fn boxed(subscription_ids: Cow<'_, [u32]>) -> Option<Box<[u32]>> {
    let ids: Box<[u32]> = match subscription_ids {
        Cow::Borrowed(ids) => ids.into(),
        Cow::Owned(ids) => ids.into_boxed_slice(),
    };
    Some(ids).filter(|ids| !ids.is_empty())
}

/// Whom it counts for, if it is retained, is not known any more.
fn message(
    (topic, payload, properties): (&str, &[u8], &[u8]),
    (qos, retain): (QoS, bool),
    expires_at: Option<Micros>,
) -> Arc<Message> {
    Arc::new(Message {
        topic: topic.into(),
        payload: payload.into(),
        properties: PropertiesBuf::from_bytes(properties.into()),
        qos,
        retain,
        expires_at,
        stamp: None,
    })
}

/// Whom it counts for is not known any more.
pub(crate) fn kept_will(will: &WillRecord<'_>) -> Box<Will> {
    Box::new(Will {
        topic: will.topic.into(),
        payload: will.payload.into(),
        properties: PropertiesBuf::from_bytes(will.properties.into()),
        qos: will.qos,
        retain: will.retain,
        delay_s: will.delay_s,
        origin: Origin::OTHER_SHARDS,
        message_expiry_s: will.message_expiry_s,
    })
}
