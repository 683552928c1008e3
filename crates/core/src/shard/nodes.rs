//! Other nodes: what is told one that is there from now on, and what is forgotten of one that is
//! lost.
//!
//! Their shards are to this one what the shards of its own node are, with the differences that
//! follow. They come and go. They hold no session of this node's clients. And each node keeps all
//! retained messages: the shard that owns a topic has it copied to the one that owns it on each
//! other node.
//!
//! A node that comes gets a list of all that is here, in slices between the other inputs: filters,
//! members of groups, retained messages. What changes meanwhile is told as always.
//! [`Mail::Listed`] is the end: a node that has it of all shards that are here serves clients.

use super::Shard;
use super::claims::tell_held;
use super::connect::OWN_CLIENT_IDS;
use super::slices::{Forget, List, Work};
use crate::copied::Copy;
use crate::keys::{Claim, Micros, SessionKey, ShardId, Version};
use crate::mail::{Mail, SessionMail};
use crate::message::Message;
use crate::own::is_brokers_own;
use crate::record::Wall;
use crate::routing::InterestsAt;
use crate::sink::Sink;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Steps of a filter that is looked at, and of a letter.
const FILTER_STEPS: u64 = 1;
pub(super) const LETTER_STEPS: u64 = 2;

/// What other shards want, of which so much is looked at in a step.
const INTERESTS_IN_A_STEP: u64 = 16;

/// Steps of a retained message, which is searched for.
const RETAINED_STEPS: u64 = 8;

impl Shard {
    /// Makes it a shard of a node among others. What it numbers begins behind `number`, which is
    /// higher than all that this shard gave before it was started, and the same for all shards of a
    /// node. No clock can say that, as it may be set back: the nodes agree on it. `wall` is between
    /// the clock of inputs and that of the world. Comes before the first input.
    pub fn set_clustered(&mut self, number: u64, now: Micros, wall: Wall) {
        self.claims.set_clustered(now, wall);
        self.clients.begin_assigned(number);
        self.retained.set_clustered(&self.place.node, number);
        self.go_on_from(number);
        self.filters.set_others();
    }

    /// Another node is here: its shards have these identifiers. They are told of all that is here.
    /// If they were here before, all shards of this node have been told since that they were lost.
    pub fn node_joined(&mut self, node: Range<u16>, now: Micros, sink: &mut impl Sink) {
        self.join(node, false, now, sink);
    }

    /// As [`Shard::node_joined`]: who is here serves a lost node's sessions, which this one has not
    /// known. Of a session that is here as well it may have the later.
    pub fn stand_in_joined(&mut self, node: Range<u16>, now: Micros, sink: &mut impl Sink) {
        self.join(node, true, now, sink);
    }

    fn join(&mut self, node: Range<u16>, is_stand_in: bool, now: Micros, sink: &mut impl Sink) {
        self.slices.begin();
        self.finish_forgetting(&node);
        let shards = usize::from(node.end);
        self.answers.receipts.grow(shards);
        self.outbox.grow(shards);
        self.retained.stamps.grow(shards);
        let Some(visit) = self.place.add_node(node.clone()) else { return };
        self.begin_list(&node, sink);
        node.clone().for_each(|shard| self.mail_restored(ShardId(shard), sink));
        self.claim_of(&node, now, sink);
        self.list_all(node, (visit, is_stand_in), now, sink);
        self.settle(now, sink);
    }

    pub(super) fn begin_list(&self, node: &Range<u16>, sink: &mut impl Sink) {
        let number = self.retained.stamps.own();
        for shard in node.clone().map(ShardId) {
            sink.mail(shard, Mail::Listing { number });
        }
        self.tell_closing(node, sink);
    }

    pub(super) fn list_all(
        &mut self,
        node: Range<u16>,
        (visit, is_replaced): (u64, bool),
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.move_from(&node, now, sink);
        self.say_switched(&node, sink);
        self.tell_taken_wills(&node, sink);
        self.choose_watcher(now);
        if is_replaced {
            node.clone().for_each(|shard| self.answers.receipts.begin_list(ShardId(shard)));
        }
        let list =
            List { to: node, visit, is_replaced, filter: 0, session: 0, topic: None, cleared: 0 };
        self.go_on_listing(Box::new(list), now, sink);
    }

    /// Another node is lost: nothing comes from its shards, and nothing that waits for them waits
    /// any longer. What its clients wanted is forgotten.
    pub fn node_lost(&mut self, node: Range<u16>, now: Micros, sink: &mut impl Sink) {
        self.slices.begin();
        if !self.place.remove_node(&node) {
            return;
        }
        self.claims.closing.remove_all(&node);
        self.filters.gone.extend(node.clone().map(ShardId));
        self.filters.unlisted.remove_all(&node);
        self.forget_of(&node, now, sink);
        self.go_on_moving(now, sink);
        if self.keeps_mail() {
            self.outbox.keep_for(|shard| node.contains(&shard.0));
        }
        node.clone().for_each(|shard| self.choose_for_lost(ShardId(shard), now, sink));
        for shard in node.clone().map(ShardId) {
            for ticket in self.answers.receipts.forget(shard) {
                self.met(ticket, now, sink);
            }
            self.outbox.forget(shard);
        }
        self.answer_all_claimants(now, sink);
        self.answer_queries(now, sink);
        let interests = InterestsAt::default();
        self.go_on_forgetting(Box::new(Forget { node, filter: 0, interests }), now);
        self.settle(now, sink);
    }

    /// What is kept of a node that is not here any more, beside what waits for it.
    pub(super) fn forget_of(&mut self, node: &Range<u16>, now: Micros, sink: &mut impl Sink) {
        self.stop_moves(node, now, sink);
        self.take_wills(node, now);
        let copies = self.copied.take_from(|shard| node.contains(&shard.0));
        self.copy_again(copies, now, sink);
        self.choose_watcher(now);
        node.clone().for_each(|shard| self.retained.forget_shard(ShardId(shard)));
    }

    /// How many shards of other nodes that are here have told all that they have.
    pub fn lists(&self) -> usize {
        self.place.others().filter(|&shard| self.answers.receipts.is_listed(shard)).count()
    }

    /// Whether this node has become a member, or is one again, and does not know all that the
    /// others have. No session goes elsewhere until then: what a node that is not here yet has
    /// mailed, or mails again, may be for it.
    pub fn set_joining(&mut self, is_joining: bool, now: Micros, sink: &mut impl Sink) {
        self.slices.begin();
        self.claims.is_joining = is_joining;
        if !is_joining {
            self.answer_all_claimants(now, sink);
        }
        self.settle(now, sink);
    }

    /// Whether a node is away whose sessions nobody serves, and a client that does not ask to begin
    /// anew, and has no session elsewhere, is refused meanwhile: that may be there.
    pub fn set_absent(&mut self, is_any: bool) {
        self.claims.is_any_absent = is_any;
    }

    /// Whether other nodes are lost to this one because it is no member. If it is one again, and
    /// nobody has opened the copy of its log, it mails them what it has mailed before.
    pub(super) fn keeps_mail(&self) -> bool {
        self.claims.is_joining && self.unreceived.is_copied
    }

    /// Whether some of them have not, or may be still to come, or have not got the list of what is
    /// here and all that is from before a start.
    pub(super) fn has_unlisted(&self) -> bool {
        if self.claims.is_joining || self.outbox.waits_for_restored() {
            return true;
        }
        let mut others = self.place.others();
        others.remove_all(&self.place.node);
        let receipts = &self.answers.receipts;
        others.any(|shard| !receipts.is_listed(shard) || receipts.waits_for_list(shard))
    }

    /// A letter that only shards of other nodes send.
    pub(super) fn mail_of_node(
        &mut self,
        from: ShardId,
        mail: Mail,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        match mail {
            Mail::Copy { message, version, number } => {
                self.on_copy(from, message, (version, number), now, sink);
            }
            Mail::Listing { number } => self.retained.stamps.begin(from, number),
            Mail::Listed { received } => self.on_listed(from, &received, now, sink),
            // Of a copy of a log: whoever has the disk has taken it.
            _ => {}
        }
    }

    pub(super) fn go_on_listing(&mut self, mut list: Box<List>, now: Micros, sink: &mut impl Sink) {
        if self.place.visit(&list.to) != Some(list.visit) {
            return;
        }
        if self.list_filters(&mut list, sink)
            && self.list_sessions(&mut list, sink)
            && self.list_retained(&mut list, sink)
            && self.list_cleared(&mut list, sink)
        {
            let received = self.retained.stamps.received();
            for shard in list.to.clone().map(ShardId) {
                sink.mail(shard, Mail::Listed { received: received.clone() });
                if list.is_replaced {
                    self.end_list(shard, sink);
                }
            }
        } else {
            self.slices.put_off(Work::List(list), now);
        }
    }

    /// Who is in the place of a lost node may have sessions by later claims than those that are
    /// here, and says so as it gets the list: nothing is certain before it has all of that, which
    /// the receipt of a claim for nobody says.
    fn end_list(&mut self, shard: ShardId, sink: &mut impl Sink) {
        let number = self.answers.receipts.end_list(shard);
        ask_for_receipt(shard, number, sink);
    }

    /// Says whether those were all.
    fn list_filters(&mut self, list: &mut List, sink: &mut impl Sink) -> bool {
        while list.filter < self.filters.end() {
            if self.slices.is_spent() {
                return false;
            }
            self.slices.add(FILTER_STEPS);
            let at = list.filter;
            list.filter = self.filters.behind(at);
            for (news, session) in self.filters.news_at(at) {
                let packet_bytes_max =
                    session.and_then(|session| self.clients[session].packet_bytes_max());
                for shard in list.to.clone().map(ShardId) {
                    self.slices.add(LETTER_STEPS);
                    let number = self.answers.receipts.number(shard);
                    sink.mail(shard, news.clone().into_mail(packet_bytes_max, number));
                }
            }
        }
        true
    }

    /// Says whether those were all. A session that moves is at most another node's by then.
    fn list_sessions(&mut self, list: &mut List, sink: &mut impl Sink) -> bool {
        while list.session < self.clients.end() {
            if self.slices.is_spent() {
                return false;
            }
            self.slices.add(LETTER_STEPS);
            let Some(key) = self.clients.step(&mut list.session) else { continue };
            // Who is in the place of a lost node may have a session from its log that its client
            // has begun anew since, to leave it with its connection. So may two such of each other.
            let is_told = self.clients[key].outlives_connection() && !self.claims.is_stand_in;
            if list.is_replaced || is_told {
                self.tell_of_session(key, &list.to, sink);
            }
        }
        true
    }

    /// Tells another node of a session, unless it moves.
    pub(super) fn tell_of_session(&self, key: SessionKey, to: &Range<u16>, sink: &mut impl Sink) {
        let session = &self.clients[key];
        let is_own = session.client_id.starts_with(OWN_CLIENT_IDS);
        if !is_own && self.claims.way(key).is_none() {
            let owner = self.place.owner_at(to, &session.client_id);
            tell_held(owner, &session.client_id, self.claims.rank(key), false, sink);
        }
    }

    /// Says whether those were all.
    fn list_retained(&mut self, list: &mut List, sink: &mut impl Sink) -> bool {
        while let Some(message) = self.retained.next(list.topic.as_deref()) {
            if self.slices.is_spent() {
                return false;
            }
            self.slices.add(RETAINED_STEPS);
            list.topic = Some(message.topic.as_str().into());
            if is_brokers_own(&message.topic) || self.minority.is_apart(&message.topic) {
                continue;
            }
            // Whoever subscribes there has not seen it as it was published.
            let message = Arc::new(Message { stamp: None, ..Message::clone(message) });
            let version = self.retained.version(&message.topic);
            let owner = self.place.owner_at(&list.to, &message.topic);
            sink.mail(owner, Mail::Copy { message, version, number: None });
        }
        true
    }

    /// Says whether those were all. Who keeps a message still, which was cleared here while that
    /// node was away, may list it there before it hears of that.
    fn list_cleared(&mut self, list: &mut List, sink: &mut impl Sink) -> bool {
        while !self.slices.is_spent() {
            let Some((topic, version)) = self.retained.next_cleared(&mut list.cleared) else {
                return true;
            };
            self.slices.add(RETAINED_STEPS);
            let owner = self.place.owner_at(&list.to, topic);
            let message = Arc::new(Message::clearing(topic));
            sink.mail(owner, Mail::Copy { message, version, number: None });
        }
        false
    }

    /// A shard has told all that there is.
    fn on_listed(&mut self, from: ShardId, received: &[u64], now: Micros, sink: &mut impl Sink) {
        self.retained.stamps.receive_all(received);
        self.answers.receipts.note_listed(from);
        if self.filters.unlisted.contains(from) {
            self.filters.have_listed(from);
        }
        self.answer_all_claimants(now, sink);
        self.answer_queries(now, sink);
    }

    /// Has each other node keep a retained message that this one keeps, or clear the topic.
    pub(super) fn copy_elsewhere(
        &mut self,
        message: &Arc<Message>,
        is_awaited: bool,
        sink: &mut impl Sink,
    ) {
        if is_brokers_own(&message.topic) || self.note_apart(&message.topic) {
            return;
        }
        let is_cleared = message.payload.is_empty();
        let Some(version) = self.retained.next_version(&message.topic, is_cleared) else { return };
        let Self { place, answers, .. } = self;
        for owner in place.owners_elsewhere(&message.topic) {
            let number = is_awaited.then(|| answers.mailed(owner));
            sink.mail(owner, Mail::Copy { message: Arc::clone(message), version, number });
        }
    }

    /// What a node that is lost had copied here it may not have copied everywhere: all that are
    /// left are to keep the same.
    pub(super) fn copy_again(
        &mut self,
        mut copies: VecDeque<Copy>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        while let Some((message, version)) = copies.pop_front() {
            // A newer one has been copied by whoever gave it that version.
            if self.retained.version(&message.topic) != version {
                self.slices.add(LETTER_STEPS);
                continue;
            }
            // One that has expired clears: who does not know of it gives too low a version to what
            // comes after it.
            let message = match message.is_expired(now) {
                true => Arc::new(Message::clearing(&message.topic)),
                false => message,
            };
            for owner in self.place.owners_elsewhere(&message.topic) {
                self.slices.add(LETTER_STEPS);
                let (message, number) = (Arc::clone(&message), None);
                sink.mail(owner, Mail::Copy { message, version, number });
            }
            if self.slices.is_spent() && !copies.is_empty() {
                return self.slices.put_off(Work::Copies(copies), now);
            }
        }
    }

    /// Owners on other nodes have the number of a message that is not kept, for which whoever
    /// subscribes there would wait.
    pub(super) fn tell_refused(&mut self, of: &Message, sink: &mut impl Sink) {
        if !self.retained.is_clustered() || is_brokers_own(&of.topic) {
            return;
        }
        let message = Arc::new(Message { payload: Vec::new(), ..of.clone() });
        for owner in self.place.owners_elsewhere(&of.topic) {
            let (message, version) = (Arc::clone(&message), Version::default());
            sink.mail(owner, Mail::Copy { message, version, number: None });
        }
    }

    /// Another node keeps a message that this one is to keep too.
    fn on_copy(
        &mut self,
        from: ShardId,
        message: Arc<Message>,
        (version, number): (Version, Option<u64>),
        now: Micros,
        sink: &mut impl Sink,
    ) {
        self.begin_answer();
        let is_cleared = message.payload.is_empty();
        let is_refused = is_cleared && version == Version::default();
        let is_newer =
            !is_refused && self.retained.take_version(&message.topic, version, is_cleared);
        if is_newer {
            self.copied.note(from, (Arc::clone(&message), version));
        } else if !is_cleared {
            self.tell_cleared(from, &message, version, sink);
        }
        let to_log = Arc::clone(&message);
        let is_changed = self.retained.copy(message, is_newer);
        self.log_kept(&to_log, is_changed, sink);
        if let Some(number) = number {
            self.answer_letter(from, number, now);
        }
        self.answer_queries(now, sink);
    }

    /// A node that was away keeps a message whose topic was cleared meanwhile, which no list names.
    fn tell_cleared(&self, to: ShardId, of: &Message, version: Version, sink: &mut impl Sink) {
        if let Some(version) = self.retained.cleared_after(&of.topic, version) {
            let (payload, stamp) = (Vec::new(), None);
            let message = Arc::new(Message { payload, stamp, ..of.clone() });
            sink.mail(to, Mail::Copy { message, version, number: None });
        }
    }

    pub(super) fn go_on_forgetting(&mut self, mut forget: Box<Forget>, now: Micros) {
        if self.forget_some(&mut forget) {
            self.filters.have_forgotten(&forget.node);
        } else {
            self.slices.put_off(Work::Forget(forget), now);
        }
    }

    /// Says whether that was all.
    fn forget_some(&mut self, forget: &mut Forget) -> bool {
        while forget.filter < self.filters.end() {
            if self.slices.is_spent() {
                return false;
            }
            self.slices.add(FILTER_STEPS);
            let at = forget.filter;
            forget.filter = self.filters.behind(at);
            self.filters.forget_at(at);
        }
        while let Some(entries) = self.filters.forget_interests_at(&mut forget.interests) {
            self.slices.add(FILTER_STEPS + entries as u64 / INTERESTS_IN_A_STEP);
            if self.slices.is_spent() {
                return false;
            }
        }
        true
    }

    /// It is back before all was forgotten.
    fn finish_forgetting(&mut self, node: &Range<u16>) {
        if !node.clone().any(|shard| self.filters.gone.contains(ShardId(shard))) {
            return;
        }
        (0..self.filters.end()).for_each(|at| self.filters.forget_at(at));
        let mut interests = InterestsAt::default();
        while self.filters.forget_interests_at(&mut interests).is_some() {}
        self.filters.have_forgotten(node);
        self.slices.drop_forgetting(node);
    }
}

/// A letter that changes nothing, whose receipt says how things are there: a claim for nobody.
pub(super) fn ask_for_receipt(shard: ShardId, number: u64, sink: &mut impl Sink) {
    let (client_id, claim, is_clean) = (Box::default(), Claim::NONE, false);
    let mail = SessionMail::Claim { client_id, claim, is_clean, number };
    sink.mail(shard, Mail::Session(mail));
}
