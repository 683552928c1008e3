//! A session goes to another node, where its client is: nothing of it is lost, and nothing comes
//! twice.
//!
//! Who has it tells who gets it of its subscriptions. The receiver subscribes as well, and mails
//! every shard of all nodes, behind those letters, that the session moves. Each shard answers both:
//! what it has routed before is for where the session was, what it routes from then on for where it
//! goes. Once all have answered, and nothing of the client's own waits for an acknowledgement any
//! more, the session is sealed and sent: what is in flight, then what waits. What came to the
//! receiver meanwhile goes behind that. The receiver says when it has all of it, in its log as
//! well if it keeps one; then the session ends where it was, and its claimant has its receipt.
//!
//! If the receiver's node is lost, the session stays where it is; if the sender's is, what came of
//! it is dropped. Where logs are copied to other nodes, the old place goes on to get what is for
//! the new one until that has all: else what was acknowledged would be lost with the new one, or,
//! as it is in no log there before, with the old one.
//!
//! A member of a shared subscription is chosen by whoever routes a message, so a message goes to
//! one of the two whatever was answered. Once the session is sealed, what the old member is chosen
//! for goes on to the new one. It is a member until the session is over there: if the receiver's
//! node or the sender's is lost, the group has a member at any time.

mod anew;
mod parts;
mod switching;
mod twice;

use super::Shard;
use super::claims::tell_held;
use super::outlet::Outlet;
use crate::anew::SessionAnew;
use crate::answers::{Reply, SubscribeReply};
use crate::base::Renamed;
use crate::claims::{Claimant, Coming, Leaving, Source, Way};
use crate::keys::{Claim, Micros, SessionKey, ShardId};
use crate::mail::{Mail, SessionMail, SessionPart};
use crate::name::Name;
use crate::page::{PageIn, PageOut};
use crate::parcel::{MovedSession, MovedSubscription};
use crate::queue::Queue;
use crate::record::run;
use crate::session::Absence;
use crate::shard_set::ShardSet;
use crate::sink::Sink;
use crate::timers::Timer;
use parts::{Head, state};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use weir_wire::PacketId;
use weir_wire::packet::RetainHandling;

/// What a letter takes of what waits, at most.
const PART_MESSAGES: usize = 512;
const PART_BYTES: u64 = 64 * 1024;

/// Sessions of a shard that leave at a time.
const LEAVING_MAX: usize = 64;

/// Steps of a letter that a session moves.
const LETTER_STEPS: u64 = 2;

impl Shard {
    /// Begins to hand an absent session over.
    pub(super) fn hand_over(&mut self, key: SessionKey, to: Claimant, sink: &mut impl Sink) {
        // All have said by now that it is not theirs.
        self.send_put_off_will(key, sink);
        let absence = self.take_absence(key);
        self.tell_will_over(key, sink);
        let absence = absence.as_deref();
        let expires_at = absence.and_then(|absence| absence.expires_at);
        let subscriptions = self.leaving_subscriptions(key);
        let session = &self.clients[key];
        let anew = SessionAnew {
            client_id: &session.client_id,
            expiry_s: session.expiry_s,
            // For whoever takes it over for no client.
            will: absence.and_then(|absence| absence.will.as_deref()),
            deadlines: absence.map(|absence| (absence.expires_at, absence.will_at)),
            subscriptions: &subscriptions,
            unreleased: std::iter::empty(),
            window: &session.window,
        };
        let mut records = run::Writer::new(self.claims.wall());
        anew.tell_head(&mut |record| records.add(record));
        let (way, held) = ((to.claim, self.place.id), self.claims.rank(key));
        let leaving = Leaving {
            client_id: (&*session.client_id).into(),
            key: Some(key),
            to,
            switched: ShardSet::default(),
            expires_at,
            recorded_at: None,
            is_sealed: false,
            queue: VecDeque::new(),
            keeps_all: self.unreceived.is_copied,
            twice: VecDeque::new(),
        };
        self.claims.leaving.insert(way, leaving);
        self.claims.set_way(key, way);
        let records = records.finish();
        let mail = SessionMail::Leaving { claim: to.claim, held, records };
        sink.mail(to.shard, Mail::Session(mail));
    }

    /// A session begins to come.
    pub(super) fn on_leaving(
        &mut self,
        way @ (claim, from): Way,
        held: Claim,
        records: &[u8],
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Ok(head) = Head::read(records, self.claims.wall()) else {
            return self.stats.letters_unfit += 1;
        };
        self.claims.note(claim);
        if let Some(key) = self.clients.find(&head.client_id) {
            if self.claims.rank_beside(key, claim) > held {
                // Whoever sends it was lost when the client began anew.
                let is_taken = SessionMail::Taken { claim };
                return sink.mail(from, Mail::Session(is_taken));
            }
            self.drop_stale(key, now, sink);
        }
        let adopted = self.adopted(&head.client_id, claim, head.absence);
        let key = self.clients.add(&head.client_id, None);
        self.clients[key].expiry_s = head.expiry_s;
        self.claims.hold(key, claim);
        let coming = Coming {
            key,
            held,
            switched: ShardSet::default(),
            state: Vec::new(),
            queue: VecDeque::new(),
            is_whole: false,
            adopted,
        };
        self.claims.coming.insert(way, coming);
        self.claims.set_way(key, way);
        self.subscribe_for_nobody(key, head.subscriptions, now, sink);
        for shard in self.place.others() {
            self.slices.add(LETTER_STEPS);
            sink.mail(shard, Mail::Session(SessionMail::Moving { claim, from }));
        }
        self.on_moving(self.place.id, way, now, sink);
    }

    /// No client waits until all have noted it, but the next who subscribes to the same may.
    fn subscribe_for_nobody(
        &mut self,
        key: SessionKey,
        all: Vec<MovedSubscription>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.answers.begin();
        let mut done = self.subscribe_again(key, all, None, sink);
        if !self.answers.has_mailed() {
            return self.take_effect(key, &mut done, now);
        }
        let reply = SubscribeReply { session: key, packet_id: PacketId::FIRST, done };
        self.answers.insert(None, Reply::Subscribe(Box::new(reply)), 0, now);
    }

    /// The session's subscriptions. One whose retained messages are still to come gets them where
    /// the session goes: all of them, since who has sent which is not known there.
    fn leaving_subscriptions(&mut self, key: SessionKey) -> Vec<MovedSubscription> {
        let mut subscriptions = self.moved_subscriptions(key);
        let Some(replays) = self.clients[key].replays() else { return subscriptions };
        let names: BTreeSet<(&str, Option<&str>)> =
            replays.all_mut().map(|replay| &*replay).map(|replay| id_of(replay.name())).collect();
        for MovedSubscription { name, options, .. } in &mut subscriptions {
            if Name::parse(name).is_some_and(|name| names.contains(&id_of(name))) {
                options.retain_handling = RetainHandling::Send;
            }
        }
        subscriptions
    }

    pub(super) fn on_switched(
        &mut self,
        shard: ShardId,
        way: Way,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        if let Some(coming) = self.claims.coming.get_mut(&way) {
            coming.switched.insert(shard);
            self.take_over_if_all_is_there(way, now, sink);
        } else if let Some(leaving) = self.claims.leaving.get_mut(&way) {
            leaving.switched.insert(shard);
            self.seal_if_all_is_there(way, sink);
        }
    }

    /// Sessions that waited for something else than letters.
    pub(super) fn seal_those_that_wait(&mut self, sink: &mut impl Sink) {
        let ways = std::mem::take(&mut self.claims.unseen);
        ways.into_iter().for_each(|way| self.seal_if_all_is_there(way, sink));
    }

    fn seal_if_all_is_there(&mut self, way: Way, sink: &mut impl Sink) {
        let Some(Leaving { key: Some(key), is_sealed: false, switched, recorded_at, .. }) =
            self.claims.leaving.get_mut(&way)
        else {
            return;
        };
        let key = *key;
        let mut all = self.place.others();
        all.insert(self.place.id);
        if !all.all(|shard| switched.contains(shard)) {
            return;
        }
        // What its client has published is to be everywhere before it can ask again elsewhere.
        if self.answers.has_unseen(key) {
            self.claims.unseen.insert(way);
            return;
        }
        // And what was handled or refused here is so for good: if this node were lost, what stands
        // in for it would handle that anew, and the session would be elsewhere, with what it got.
        let recorded_at = *recorded_at.get_or_insert(self.log.last());
        if self.unreceived.is_copied && recorded_at > self.log.committed() {
            self.claims.unseen.insert(way);
        } else {
            self.seal(key, way, sink);
        }
    }

    /// Nothing comes to a session any more: it is sent.
    fn seal(&mut self, key: SessionKey, way: Way, sink: &mut impl Sink) {
        let session = &self.clients[key];
        let cold = session.cold.as_ref();
        let anew = SessionAnew {
            client_id: &session.client_id,
            expiry_s: session.expiry_s,
            will: None,
            deadlines: Some((None, None)),
            subscriptions: &[],
            unreleased: cold.iter().flat_map(|cold| &cold.unreleased).copied(),
            window: &session.window,
        };
        let mut records = run::Writer::new(self.claims.wall());
        anew.tell_state(&mut Renamed::default(), &mut |record| records.add(record));
        let mut queue = sources(session.queue());
        let (part, claim) = (SessionPart::State(records.finish()), way.0);
        if let Some(leaving) = self.claims.leaving.get_mut(&way) {
            leaving.take_out_twice(&mut queue);
            (leaving.is_sealed, leaving.queue) = (true, queue);
            sink.mail(leaving.to.shard, Mail::Session(SessionMail::Part { claim, part }));
        }
        self.send_queue(way, sink);
    }

    /// Sends what waits for a sealed session, up to the next page, which is asked for.
    fn send_queue(&mut self, way: Way, sink: &mut impl Sink) {
        let Self { claims, paging, .. } = self;
        let wall = claims.wall();
        let (claim, Some(leaving)) = (way.0, claims.leaving.get_mut(&way)) else { return };
        let send = |part, sink: &mut _| {
            let mail = Mail::Session(SessionMail::Part { claim, part });
            Sink::mail(sink, leaving.to.shard, mail);
        };
        while let Some(source) = leaving.queue.front_mut() {
            match source {
                Source::Memory(deliveries) if deliveries.is_empty() => {
                    leaving.queue.pop_front();
                }
                Source::Memory(deliveries) => {
                    let page = PageOut::of(deliveries, PART_MESSAGES, PART_BYTES);
                    let (count, mut bytes) = (page.messages(), Vec::new());
                    page.encode(wall, &mut bytes);
                    deliveries.drain(..count);
                    send(SessionPart::Queue(bytes.into()), sink);
                }
                Source::Page(page) => {
                    let ticket = paging.next_ticket();
                    claims.pages.insert(ticket, way);
                    return sink.page_in(ticket, page.id, page.bytes);
                }
            }
        }
        send(SessionPart::End, sink);
    }

    /// A page was read of a session that leaves.
    pub(super) fn page_of_leaving(&mut self, way: Way, page: PageIn, sink: &mut impl Sink) {
        if let Some(leaving) = self.claims.leaving.get_mut(&way)
            && let Some(source @ Source::Page(_)) = leaving.queue.front_mut()
        {
            let Source::Page(wanted) = *source else { return };
            let skipped = page.0.len().saturating_sub(wanted.messages as usize);
            *source = Source::Memory(page.0.into_iter().skip(skipped).collect());
            self.send_queue(way, sink);
        }
    }

    /// Some of a session that comes.
    pub(super) fn on_part(
        &mut self,
        way @ (claim, from): Way,
        part: SessionPart,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let wall = self.claims.wall();
        let coming = self.claims.coming.get_mut(&way);
        match (part, coming) {
            (SessionPart::State(records), Some(coming)) => coming.state = records.into(),
            (SessionPart::Queue(bytes), Some(coming)) => match PageIn::decode(&bytes, wall) {
                Ok(page) => coming.queue.extend(page.0),
                Err(_) => self.stats.letters_unfit += 1,
            },
            // It is over there: nothing of it is to come, and a group may choose it here no longer.
            (SessionPart::End, Some(coming)) if coming.state.is_empty() => {
                self.take_over(way, now, sink);
            }
            (SessionPart::End, Some(coming)) => {
                coming.is_whole = true;
                self.take_over_if_all_is_there(way, now, sink);
            }
            // It is over here, or was never wanted.
            (SessionPart::End, None) => {
                sink.mail(from, Mail::Session(SessionMail::Taken { claim }));
            }
            (_, None) => {}
        }
    }

    /// All of a session is here, and nothing is on its way that it had where it comes from: what
    /// a shard had routed before can come here later than it came there.
    fn take_over_if_all_is_there(&mut self, way: Way, now: Micros, sink: &mut impl Sink) {
        let Some(coming) = self.claims.coming.get(&way).filter(|coming| coming.is_whole) else {
            return;
        };
        let mut all = self.place.others();
        all.insert(self.place.id);
        if all.all(|shard| coming.switched.contains(shard)) {
            self.take_over(way, now, sink);
        }
    }

    fn take_over(&mut self, way: Way, now: Micros, sink: &mut impl Sink) {
        let Some(coming) = self.claims.coming.remove(&way) else { return };
        let (key, client_id) = (coming.key, Box::from(&*self.clients[coming.key].client_id));
        self.claims.note_came_of(key, coming.held);
        self.begin_answer();
        match state(&coming.state, self.claims.wall(), now) {
            Some(moved) => self.fill(coming, moved, now, sink),
            None => self.end_session(key, sink),
        }
        if self.must_wait() {
            self.insert_answer(None, Reply::Taken { client_id, way }, 0, now);
        } else {
            self.say_taken(&client_id, way, now, sink);
        }
    }

    /// A session is here for good: only now it may go on to another node, which can be the one that
    /// it came from. That has it until it hears of this.
    pub(super) fn say_taken(
        &mut self,
        client_id: &str,
        way @ (claim, from): Way,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        sink.mail(from, Mail::Session(SessionMail::Taken { claim }));
        if let Some(key) =
            self.clients.find(client_id).filter(|&it| self.claims.way(it) == Some(way))
        {
            self.claims.end_way(key);
        }
        self.answer_claimants(client_id, now, sink);
    }

    /// The session has what it had, and behind that what came meanwhile.
    fn fill(
        &mut self,
        Coming { key, queue, adopted, .. }: Coming,
        moved: MovedSession,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.stats.sessions_taken += 1;
        let session = &mut self.clients[key];
        let mut newer = std::mem::replace(&mut session.window, moved.window);
        let newer = newer.queue_mut().map(|queue| std::mem::take(&mut queue.deliveries));
        queue.into_iter().chain(newer.into_iter().flatten()).for_each(|it| session.enqueue(it));
        session.note_absence();
        if !moved.unreleased.is_empty() {
            session.cold().unreleased = moved.unreleased;
        }
        self.outlet().keep_within_bounds(key, sink);
        match adopted {
            Some(adopted) => self.stay_absent(key, adopted, now, sink),
            None => self.be_absent(key, now),
        }
        self.log_taken(key, sink);
    }

    /// It ends after its time, as if its connection had ended now.
    fn be_absent(&mut self, key: SessionKey, now: Micros) {
        let expiry_s = self.clients[key].expiry_s;
        let expires_at = (expiry_s != u32::MAX).then(|| now + Micros::from_secs(expiry_s));
        self.expire_at(key, expires_at);
    }

    fn expire_at(&mut self, key: SessionKey, expires_at: Option<Micros>) {
        if let Some(at) = expires_at {
            self.timers.set(at, Timer::Expiry(key));
            let absence = Absence { will: None, will_at: None, expires_at };
            self.clients[key].cold().absence = Some(Box::new(absence));
        }
    }

    /// Whoever gets a session has it.
    pub(super) fn on_taken(
        &mut self,
        from: ShardId,
        claim: Claim,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(leaving) = self.take_leaving(claim, from) else { return };
        self.begin_answer();
        if let Some(key) = leaving.key {
            self.claims.end_way(key);
            self.stats.sessions_given += 1;
            let had_groups = self.claims.is_stand_in && self.is_member(key);
            self.end_session(key, sink);
            if had_groups {
                self.stay_until_all_have_heard(now, sink);
            }
        }
        self.claims.ending.remove(&leaving.client_id);
        self.claim_done(leaving.to, now);
        self.tell_where(&leaving, sink);
        self.answer_claimants(&leaving.client_id, now, sink);
        self.hand_over_next(now, sink);
    }

    /// The session that leaves by this claim, if that is where it goes.
    fn take_leaving(&mut self, claim: Claim, to: ShardId) -> Option<Leaving> {
        let way = (claim, self.place.id);
        let goes_there = self.claims.leaving.get(&way).is_some_and(|it| it.to.shard == to);
        goes_there.then(|| self.claims.leaving.remove(&way)).flatten()
    }

    /// Whether a client's session leaves only when others have: one takes letters between all
    /// shards of all nodes, and clients of all of these wait behind them.
    pub(super) fn leaves_later(&self, client_id: &str) -> bool {
        self.claims.leaving.len() >= LEAVING_MAX && self.clients.find(client_id).is_some()
    }

    /// Sessions leave that were put off, as many as may.
    fn hand_over_next(&mut self, now: Micros, sink: &mut impl Sink) {
        while self.claims.leaving.len() < LEAVING_MAX
            && let Some(client_id) = self.claims.put_off.pop_front()
        {
            self.answer_claimants(&client_id, now, sink);
        }
    }

    /// Who has claimed meanwhile what has gone elsewhere asks there again: whoever has it may have
    /// said before that it has none.
    fn tell_where(&self, Leaving { client_id, to, .. }: &Leaving, sink: &mut impl Sink) {
        let waiting = self.claims.waiting.get(client_id).into_iter().flatten();
        for claimant in waiting.filter(|claimant| claimant.claim < to.claim) {
            tell_held(claimant.shard, client_id, to.claim, false, sink);
        }
    }

    /// A session is over while it moves.
    #[cold]
    pub(super) fn end_moving(&mut self, key: SessionKey, sink: &mut impl Sink) {
        let Some(way) = self.claims.way(key) else { return };
        self.claims.end_way(key);
        self.look_at_held_picks();
        let (claim, from) = way;
        if self.claims.coming.remove(&way).is_some_and(|coming| coming.is_whole) {
            // Whoever had it has sent all of it, and waits for this.
            sink.mail(from, Mail::Session(SessionMail::Taken { claim }));
        }
        if let Some(leaving) = self.claims.leaving.get_mut(&way) {
            leaving.key = None;
            leaving.queue.clear();
            self.claims.ending.insert(leaving.client_id.clone());
            let mail = SessionMail::Part { claim, part: SessionPart::End };
            sink.mail(leaving.to.shard, Mail::Session(mail));
        }
    }

    /// A node is lost: what was to go there stays, and what was to come from there does not come.
    pub(super) fn stop_moves(&mut self, node: &Range<u16>, now: Micros, sink: &mut impl Sink) {
        let is_lost = |shard: ShardId| node.contains(&shard.0);
        self.claims.forget_claimants(is_lost);
        let ways: Vec<Way> = self.claims.coming.keys().copied().collect();
        for way in ways.into_iter().filter(|way| is_lost(way.1)) {
            let Some(coming) = self.claims.coming.remove(&way) else { continue };
            self.claims.end_way(coming.key);
            let client_id = self.clients[coming.key].client_id.clone();
            self.end_session(coming.key, sink);
            self.answer_claimants(&client_id, now, sink);
        }
        self.claims.end_ways_from(is_lost);
        let goes = |leaving: &Leaving| is_lost(leaving.to.shard);
        let ways: Vec<Way> =
            self.claims.leaving.iter().filter(|(_, it)| goes(it)).map(|(way, _)| *way).collect();
        for way in ways {
            let Some(leaving) = self.claims.leaving.remove(&way) else { continue };
            leaving.key.into_iter().for_each(|key| self.expire_at(key, leaving.expires_at));
            self.stay(&leaving, now, sink);
        }
    }

    /// Those that are here are others: sessions that wait for nobody else go on. Who is in the
    /// place of a lost node is waited for as that was: it may still mail what is for them.
    pub(super) fn go_on_moving(&mut self, now: Micros, sink: &mut impl Sink) {
        let ways: Vec<Way> = self.claims.leaving.keys().copied().collect();
        ways.into_iter().for_each(|way| self.seal_if_all_is_there(way, sink));
        let ways: Vec<Way> = self.claims.coming.keys().copied().collect();
        ways.into_iter().for_each(|way| self.take_over_if_all_is_there(way, now, sink));
        self.hand_over_next(now, sink);
    }

    /// A session that was to go stays.
    fn stay(&mut self, leaving: &Leaving, now: Micros, sink: &mut impl Sink) {
        if let Some(key) = leaving.key {
            self.claims.end_way(key);
            self.outlet().keep_within_bounds(key, sink);
        }
        self.claims.ending.remove(&leaving.client_id);
        self.answer_claimants(&leaving.client_id, now, sink);
    }
}

impl Outlet<'_> {
    /// Drops the oldest of what waits over the bounds.
    fn keep_within_bounds(&mut self, key: SessionKey, sink: &mut impl Sink) {
        while self.is_over(key) {
            self.drop_oldest(key, sink);
        }
    }
}

/// What tells the subscription of a replay from others.
fn id_of(name: Name<'_>) -> (&str, Option<&str>) {
    (name.topic.filter, name.encoded)
}

/// Where what waits is, in its order.
fn sources(queue: Option<&Queue>) -> VecDeque<Source> {
    let Some(queue) = queue else { return VecDeque::new() };
    let mut all = VecDeque::from([Source::Memory(queue.deliveries.clone())]);
    if let Some(paged) = &queue.paged {
        all.extend(paged.pages.iter().map(|&page| Source::Page(page)));
        all.push_back(Source::Memory(paged.tail.clone()));
    }
    all.retain(|source| !matches!(source, Source::Memory(none) if none.is_empty()));
    all
}
