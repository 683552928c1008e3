//! Wills of a node that is lost: the next node has a copy of each, and publishes it then.
//!
//! The next node is the one behind it in the order of shards, of those that are here. Each shard
//! tells the one of that node that its client's identifier belongs to of every will that begins and
//! ends to wait; when the next node is another, of all that it has. Once its node's lease has
//! ended, a will is due after its delay, unless the client has come to another node.
//!
//! A node that is back has the same wills in its log. It waits with them until it has been told
//! which are not its own any more. So does whoever has its log in its place, and with handing its
//! sessions over too: those wills that nobody has watched go with them.

use super::Shard;
use super::connection::connect_again;
use super::slices::{WillWalk, Work};
use crate::keys::{Claim, ConnKey, Micros, SessionKey, ShardId};
use crate::mail::{Mail, SessionMail};
use crate::rebuild::kept_will;
use crate::record::Record;
use crate::record::codec::{Reader, put_will};
use crate::session::Will;
use crate::sink::Sink;
use crate::timers::Timer;
use crate::watched::Watched;
use std::ops::Range;

/// How long wills from a log wait for other nodes: as long as it takes to be a member.
const TAKEN_UP_AFTER: Micros = Micros(8_000_000);

/// Wills that are published in a turn, at most.
const TURN_MAX: usize = 16;

/// Steps of one that is told.
const TOLD_STEPS: u64 = 4;

impl Shard {
    /// A session has a will that waits.
    #[cold]
    pub(super) fn tell_will(
        &mut self,
        key: SessionKey,
        conn: Option<ConnKey>,
        now: Micros,
        sink: &mut impl Sink,
    ) {
        let Some(node) = self.claims.watcher.clone() else { return };
        let session = &mut self.clients[key];
        let expiry_s = session.expiry_s;
        let live = conn.and_then(|conn| self.connections.live(conn));
        let (will, wait_s) = match (live, session.absence()) {
            (Some(live), _) => {
                let will = live.cold.as_ref().and_then(|cold| cold.will.as_deref());
                (will, will.map_or(0, |will| will.delay_s.min(expiry_s)))
            }
            (None, Some(absence)) => {
                let at = absence.will_at.unwrap_or(now);
                (absence.will.as_deref(), now.secs_until(at))
            }
            (None, None) => (None, 0),
        };
        let Some(will) = will else { return };
        let mut bytes = Vec::new();
        put_will(&mut bytes, &will.record());
        let client_id: Box<str> = (&*self.clients[key].client_id).into();
        let owner = self.place.owner_at(&node, &client_id);
        let (claim, will) = (self.claims.held(key), bytes.into());
        self.claims.told.insert(key);
        sink.mail(owner, Mail::Session(SessionMail::Will { client_id, claim, will, wait_s }));
    }

    /// A session's will waits no longer.
    #[inline]
    pub(super) fn tell_will_over(&mut self, key: SessionKey, sink: &mut impl Sink) {
        if !self.claims.told.is_empty() {
            self.will_over(key, sink);
        }
    }

    /// If it was told of.
    #[cold]
    fn will_over(&mut self, key: SessionKey, sink: &mut impl Sink) {
        let Some(node) = self.claims.watcher.clone().filter(|_| self.claims.told.remove(&key))
        else {
            return;
        };
        let client_id: Box<str> = (&*self.clients[key].client_id).into();
        let owner = self.place.owner_at(&node, &client_id);
        sink.mail(owner, Mail::Session(SessionMail::WillOver { client_id }));
    }

    /// The nodes that are here are others: another may be the next.
    pub(super) fn choose_watcher(&mut self, now: Micros) {
        let next = self.place.next_node();
        if next == self.claims.watcher {
            return;
        }
        let old = std::mem::replace(&mut self.claims.watcher, next);
        self.claims.told.clear();
        self.slices
            .put_off(Work::Wills(WillWalk { to: self.claims.watcher.clone(), old, at: 0 }), now);
    }

    /// Tells the next node of all wills, and then the one that it was before to forget them.
    pub(super) fn tell_all_wills(&mut self, mut walk: WillWalk, now: Micros, sink: &mut impl Sink) {
        while walk.to.is_some() && walk.at < self.clients.end() {
            if walk.to != self.claims.watcher {
                break;
            }
            if self.slices.is_spent() {
                return self.slices.put_off(Work::Wills(walk), now);
            }
            self.slices.add(TOLD_STEPS);
            if let Some(key) = self.clients.step(&mut walk.at) {
                self.tell_will(key, self.connection_of(key), now, sink);
            }
        }
        for shard in walk.old.into_iter().flatten().map(ShardId) {
            if self.place.has(shard)
                && self.claims.watcher.as_ref().is_none_or(|it| !it.contains(&shard.0))
            {
                sink.mail(shard, Mail::Session(SessionMail::Unwatch));
            }
        }
    }

    /// Whether a will from a log is still to wait for what other nodes say of it; then it is due
    /// again later.
    pub(super) fn waits_for_nodes(&self, key: SessionKey, now: Micros) -> Option<Micros> {
        let at = self.claims.began()? + TAKEN_UP_AFTER;
        (self.claims.held(key) == Claim::NONE && now < at).then_some(at)
    }

    /// Publishes a will from a log that was due, and has waited for other nodes.
    pub(super) fn send_put_off_will(&mut self, key: SessionKey, sink: &mut impl Sink) {
        let Some(began) = self.claims.began().filter(|_| self.claims.held(key) == Claim::NONE)
        else {
            return;
        };
        let at = began + TAKEN_UP_AFTER;
        let absence = self.clients[key].absence();
        if absence.is_some_and(|it| it.will.is_some() && it.will_at == Some(at)) {
            self.timers.clear(at, Timer::Will(key));
            self.send_will(key, sink);
        }
    }

    /// If all other nodes have said which wills are theirs.
    pub(super) fn send_wills_that_are_put_off(&mut self, now: Micros) {
        if self.watched.waiting() > 0 && self.place.has_nodes() && !self.has_unlisted() {
            self.change_watched(|watched| watched.put_off_until(now));
        }
    }

    /// A session is over, and its will is due. One from a log waits until all other nodes have said
    /// which are theirs, or as long as it would otherwise.
    pub(super) fn owe_will_at_end(&mut self, key: SessionKey, will: Will, sink: &mut impl Sink) {
        let have_all_said = self.place.has_nodes() && !self.has_unlisted();
        match self.claims.began().filter(|_| !have_all_said) {
            Some(began) if self.claims.held(key) == Claim::NONE => {
                if self.may_publish_will(key, &will, sink) {
                    let client_id = (&*self.clients[key].client_id).into();
                    let (at, claim) = (began + TAKEN_UP_AFTER, self.claims.rank(key));
                    self.change_watched(|watched| watched.put_off(client_id, (claim, will), at));
                }
            }
            _ => self.owe_will(key, will, sink),
        }
    }

    /// Another node has published the will of a session here, or is to. The session may have come
    /// since, and have another.
    pub(super) fn on_will_taken(&mut self, client_id: &str, claim: Claim, sink: &mut impl Sink) {
        self.change_watched(|watched| watched.drop_put_off(client_id, claim));
        let Some(key) = self.clients.find(client_id) else { return };
        let held = self.claims.held(key);
        if held == claim || (held == Claim::NONE && self.claims.rank(key) <= claim) {
            self.drop_will(key, sink);
        }
    }

    /// The will that waits in the client's absence will not be published.
    pub(super) fn drop_will(&mut self, key: SessionKey, sink: &mut impl Sink) {
        let Some(absence) = self.clients[key].absence() else { return };
        let (will_at, expires_at) = (absence.will_at.take(), absence.expires_at);
        absence.will = None;
        if let Some(at) = will_at {
            self.timers.clear(at, Timer::Will(key));
            let absent = |session| Record::Absent { session, expires_at, will_at: None };
            self.log.append_of(key, absent, sink);
        }
        // Another one may watch it.
        self.tell_will_over(key, sink);
    }

    /// A shard of another node has this one watch a will.
    pub(super) fn on_will(
        &mut self,
        client_id: &str,
        held: (ShardId, Claim),
        (will, wait_s): (&[u8], u32),
        now: Micros,
    ) {
        let mut reader = Reader::new(will);
        let Ok(will) = reader.will() else {
            self.stats.letters_unfit += 1;
            return;
        };
        let came = self.coming_to(client_id, held.1);
        self.change_watched(|watched| {
            watched.watch(client_id.into(), held, *kept_will(&will), wait_s);
            if let Some((claim, is_clean)) = came {
                watched.came(client_id, claim, is_clean, now);
            }
        });
    }

    /// By which claim a client waits here to be let in that is held by a lower one, and whether
    /// with a clean start.
    fn coming_to(&mut self, client_id: &str, held: Claim) -> Option<(Claim, bool)> {
        let asking = self.asking(client_id).filter(|asking| asking.claim > held)?;
        let connect = connect_again(&asking.admitted.as_ref()?.connect)?;
        Some((asking.claim, connect.clean_start))
    }

    /// It has published one, or it is not to be published any more.
    pub(super) fn will_is_over(&mut self, client_id: &str, holder: ShardId) {
        self.change_watched(|watched| watched.over(client_id, holder));
    }

    /// A node is lost: its clients' wills are this shard's to publish.
    pub(super) fn take_wills(&mut self, node: &Range<u16>, now: Micros) {
        self.change_watched(|watched| watched.lost(|shard| node.contains(&shard.0), now));
    }

    /// A client has come to another node than the one that was lost, or may be.
    pub(super) fn came_elsewhere(
        &mut self,
        client_id: &str,
        claim: Claim,
        is_clean: bool,
        now: Micros,
    ) {
        if !self.watched.is_empty() {
            self.change_watched(|watched| watched.came(client_id, claim, is_clean, now));
        }
    }

    /// The timer is that of the first will that is due.
    fn change_watched<T>(&mut self, change: impl FnOnce(&mut Watched) -> T) -> T {
        let before = self.watched.next();
        let changed = change(&mut self.watched);
        let after = self.watched.next();
        if before != after {
            before.into_iter().for_each(|at| self.timers.clear(at, Timer::Watched));
            after.into_iter().for_each(|at| self.timers.set(at, Timer::Watched));
        }
        changed
    }

    /// A node is back: its shards are told of wills that are not theirs any more.
    pub(super) fn tell_taken_wills(&mut self, node: &Range<u16>, sink: &mut impl Sink) {
        if self.watched.is_empty() {
            return;
        }
        for (client_id, claim) in self.watched.taken_from(|shard| node.contains(&shard.0)) {
            let owner = self.place.owner_at(node, &client_id);
            sink.mail(owner, Mail::Session(SessionMail::WillTaken { client_id, claim }));
        }
    }

    /// Publishes wills that are due, some in a turn.
    pub(super) fn watched_due(&mut self, now: Micros) {
        for _ in 0..TURN_MAX {
            let Some(will) = self.change_watched(|watched| watched.take_due(now)) else { break };
            self.stats.wills_taken += 1;
            self.due.wills.push(will);
        }
        // The timer that has brought this is gone.
        self.watched.next().into_iter().for_each(|at| self.timers.set(at, Timer::Watched));
    }
}
