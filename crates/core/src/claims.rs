//! What a shard of a node among others knows of claims: who waits to be let in, and which sessions
//! are on their way from one node to another.

use crate::keys::{Claim, Lsn, Micros, PageTicket, SessionKey, ShardId, Ticket};
use crate::mail::GroupPick;
use crate::message::{Message, Queued};
use crate::page::PageRef;
use crate::parcel::Admitted;
use crate::record::Wall;
use crate::session::Absence;
use crate::shard_set::ShardSet;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Names a session on its way: by which claim, and the shard that it comes from.
pub(crate) type Way = (Claim, ShardId);

/// Empty where there are no other nodes.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Nothing if this node is no node among others.
    wall: Option<Wall>,
    /// When this shard began.
    began: Micros,
    /// A node is away with sessions that nobody serves, and clients wait for these.
    pub(crate) is_any_absent: bool,
    last: u64,
    /// By which claim each session is here.
    held: Vec<Claim>,
    /// By which claim sessions had come that a log has brought.
    brought: BTreeMap<SessionKey, Claim>,
    /// By which claims sessions were held where they came from, until their clients are let in.
    came_of: BTreeMap<SessionKey, Claim>,
    /// Clients that wait here to be let in, or have left before they were.
    pub(crate) asking: BTreeMap<Box<str>, Ticket>,
    /// Claims of other shards that wait for what goes on here of the client.
    pub(crate) waiting: BTreeMap<Box<str>, Vec<Claimant>>,
    pub(crate) leaving: BTreeMap<Way, Leaving>,
    /// Those of them that wait for what their clients have published, or for the log, and for
    /// nothing else.
    pub(crate) unseen: BTreeSet<Way>,
    /// Clients whose sessions leave once others have: whoever has claimed them waits.
    pub(crate) put_off: VecDeque<Box<str>>,
    /// Clients whose session was over while it left: whoever was to get it does not know yet.
    pub(crate) ending: BTreeSet<Box<str>>,
    pub(crate) coming: BTreeMap<Way, Coming>,
    /// To whom it is not said yet that a session moves, as its node is not here.
    pub(crate) unsaid: Vec<(ShardId, Way)>,
    /// Sessions that leave or come.
    moving: BTreeMap<SessionKey, Way>,
    /// What this shard says that it has switched once letters that wait have left.
    pub(crate) switching: BTreeSet<Way>,
    /// Pages of sessions that leave.
    pub(crate) pages: BTreeMap<PageTicket, Way>,
    /// The shards of the node that watches this one's wills.
    pub(crate) watcher: Option<Range<u16>>,
    /// Sessions with a will that it knows of.
    pub(crate) told: BTreeSet<SessionKey>,
    /// This is a stand-in, which tells nobody of its sessions before it offers them.
    pub(crate) is_stand_in: bool,
    /// The nodes whose sessions are taken over.
    pub(crate) adopts_from: Vec<Range<u16>>,
    /// Messages for members of groups that are held, oldest first.
    pub(crate) held_picks: VecDeque<HeldPicks>,
    /// How many of its sessions are claimed and not here yet.
    pub(crate) adopting: usize,
    /// Those that are claimed after that, and the shards that have them.
    pub(crate) to_adopt: VecDeque<(ShardId, Box<str>)>,
    /// The shard that has routed the present message.
    pub(crate) source: Option<ShardId>,
    /// Not all members of the cluster are known here yet, since this node has become one.
    pub(crate) is_joining: bool,
    /// This node is stopped.
    pub(crate) is_closing: bool,
    /// The first shard of each other node that is.
    pub(crate) closing: ShardSet,
    /// When something was last claimed that was here.
    pub(crate) claimed_at: Micros,
}

/// A client that waits to be let in.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) client_id: Box<str>,
    pub(crate) claim: Claim,
    /// Nothing if the session is to come for no client.
    pub(crate) admitted: Option<Box<Admitted>>,
    /// Another shard has a session by a claim as high as this.
    pub(crate) newer: Option<Claim>,
    /// The client has come to another node since.
    pub(crate) is_outbid: bool,
    /// How often it was claimed.
    pub(crate) tries: u8,
}

/// Whoever has claimed a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimant {
    pub(crate) shard: ShardId,
    pub(crate) claim: Claim,
    pub(crate) is_clean: bool,
    /// Of the letter, which is pending.
    pub(crate) number: u64,
}

/// A message that is held for members of groups (`shard/held_picks.rs`).
#[derive(Debug)]
pub(crate) struct HeldPicks {
    pub(crate) picks: SmallVec<[GroupPick; 1]>,
    pub(crate) message: Arc<Message>,
    /// Whoever waits for it waits for a receipt of this shard, by this number.
    pub(crate) number: Option<u64>,
    /// What the message is called, if it is mailed: until a member is chosen it is for this shard.
    pub(crate) mailed: Option<Lsn>,
}

/// A session that leaves. It is here until whoever gets it says that it has it.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) client_id: Box<str>,
    /// Nothing once it is over.
    pub(crate) key: Option<SessionKey>,
    pub(crate) to: Claimant,
    /// What comes from these shards is not for it any more.
    pub(crate) switched: ShardSet,
    /// When it would have been over.
    pub(crate) expires_at: Option<Micros>,
    /// Once all is for where it goes: where the log says what came here before.
    pub(crate) recorded_at: Option<Lsn>,
    /// All has come that is to come.
    pub(crate) is_sealed: bool,
    /// What of its queue is still to be sent.
    pub(crate) queue: VecDeque<Source>,
    /// It goes on to get what is for it where it goes.
    pub(crate) keeps_all: bool,
    /// What waits here only for if it stays: whoever gets it has this, too.
    pub(crate) twice: VecDeque<Arc<Message>>,
}

impl Leaving {
    /// It gets a message that whoever gets it has as well. Its queue has no more than
    /// `messages_max`, the last ones.
    pub(crate) fn note_twice(&mut self, message: &Arc<Message>, messages_max: u32) {
        // Several subscriptions bring it once.
        if self.twice.back().is_some_and(|last| Arc::ptr_eq(last, message)) {
            return;
        }
        self.twice.push_back(Arc::clone(message));
        if self.twice.len() > messages_max as usize {
            self.twice.pop_front();
        }
    }

    /// Takes these out of what is sent. A session may get a message by other subscriptions beside,
    /// behind it.
    pub(crate) fn take_out_twice(&mut self, queue: &mut VecDeque<Source>) {
        let twice = std::mem::take(&mut self.twice);
        let mut left: BTreeSet<*const Message> = twice.iter().map(Arc::as_ptr).collect();
        for source in queue {
            if let Source::Memory(deliveries) = source {
                deliveries.retain(|queued| !left.remove(&Arc::as_ptr(&queued.message)));
            }
        }
    }
}

/// Where deliveries are that wait.
#[derive(Debug)]
pub(crate) enum Source {
    Memory(VecDeque<Queued>),
    Page(PageRef),
}

/// A session that comes.
#[derive(Debug)]
pub(crate) struct Coming {
    pub(crate) key: SessionKey,
    /// By which claim it was held where it comes from.
    pub(crate) held: Claim,
    /// What comes from these shards is for it.
    pub(crate) switched: ShardSet,
    /// Records of its state.
    pub(crate) state: Vec<u8>,
    pub(crate) queue: VecDeque<Queued>,
    /// All that it had is here.
    pub(crate) is_whole: bool,
    /// Nothing if its client has come.
    pub(crate) adopted: Option<Adopted>,
}

/// Until when a session is absent that comes for no client, with its will.
#[derive(Debug)]
pub(crate) struct Adopted(pub(crate) Box<Absence>);

impl Claims {
    /// There may be other nodes. `wall` is between `now` and the clock of the world.
    pub(crate) fn set_clustered(&mut self, began: Micros, wall: Wall) {
        (self.began, self.wall) = (began, Some(wall));
    }

    /// When this shard began, if there may be other nodes.
    pub(crate) fn began(&self) -> Option<Micros> {
        self.wall.map(|_| self.began)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.wall.is_some()
    }

    pub(crate) fn wall(&self) -> Wall {
        self.wall.unwrap_or_default()
    }

    /// A claim that is higher than all that are known here, and no other shard's.
    pub(crate) fn next(&mut self, shard: ShardId, now: Micros) -> Claim {
        let wall_us = now.0.saturating_add_signed(self.wall().0);
        self.last = wall_us.max(self.last + 1).min(u64::MAX >> SHARD_BITS);
        Claim(self.last << SHARD_BITS | u64::from(shard.0))
    }

    /// There is this one.
    pub(crate) fn note(&mut self, claim: Claim) {
        self.last = self.last.max(claim.0 >> SHARD_BITS);
    }

    /// By which claim a session is here; [`Claim::NONE`] if a log has brought it.
    pub(crate) fn held(&self, key: SessionKey) -> Claim {
        self.held.get(key.0 as usize).copied().unwrap_or_default()
    }

    /// The same, but for one that a log has brought the claim by which it had come before.
    pub(crate) fn rank(&self, key: SessionKey) -> Claim {
        self.held(key).max(self.brought.get(&key).copied().unwrap_or_default())
    }

    /// A log has brought a session, which had come by this claim.
    pub(crate) fn bring(&mut self, key: SessionKey, claim: Claim) {
        if claim != Claim::NONE {
            self.note(claim);
            self.brought.insert(key, claim);
        }
    }

    /// What there is here of a session that another shard offers for this claim: by which claim it
    /// was held where that came from. Where two nodes have it, since one of them was lost before
    /// the other heard that it has it, the higher one's is newer.
    pub(crate) fn rank_beside(&self, key: SessionKey, claim: Claim) -> Claim {
        let coming = self.way(key).and_then(|way| self.coming.get(&way)).map(|it| it.held);
        let came = || self.came_of.get(&key).copied().filter(|_| self.held(key) == claim);
        let stays = || if self.way(key).is_some() { Claim(u64::MAX) } else { self.rank(key) };
        coming.or_else(came).unwrap_or_else(stays)
    }

    /// All of a session has come that was held by this claim.
    pub(crate) fn note_came_of(&mut self, key: SessionKey, held: Claim) {
        self.came_of.insert(key, held);
    }

    pub(crate) fn hold(&mut self, key: SessionKey, claim: Claim) {
        if !self.brought.is_empty() {
            self.brought.remove(&key);
        }
        if !self.came_of.is_empty() {
            self.came_of.remove(&key);
        }
        let at = key.0 as usize;
        if self.held.len() <= at && claim != Claim::NONE {
            self.held.resize(at + 1, Claim::NONE);
        }
        if let Some(held) = self.held.get_mut(at) {
            *held = claim;
        }
    }

    /// Whether any session leaves or comes.
    #[inline]
    pub(crate) fn is_any_moving(&self) -> bool {
        !self.moving.is_empty()
    }

    /// Whether any session does, or a shard waits to hear of one.
    pub(crate) fn is_any_under_way(&self) -> bool {
        let is_awaited = !(self.asking.is_empty() && self.waiting.is_empty());
        self.is_any_moving() || is_awaited || !self.ending.is_empty()
    }

    /// The way that a session is on.
    pub(crate) fn way(&self, key: SessionKey) -> Option<Way> {
        self.moving.get(&key).copied()
    }

    /// When a session that leaves would have been over.
    pub(crate) fn leaving_until(&self, key: SessionKey) -> Option<Micros> {
        self.leaving_of(key)?.expires_at
    }

    /// Whether a session comes that is not whole here yet.
    pub(crate) fn comes(&self, key: SessionKey) -> bool {
        self.way(key).is_some_and(|way| self.coming.contains_key(&way))
    }

    /// Where a session is that leaves or comes, if not here: it is sent from a place once it is
    /// sealed there.
    pub(crate) fn place_elsewhere(&self, key: SessionKey) -> Option<ShardId> {
        let way = self.way(key)?;
        if let Some(leaving) = self.leaving.get(&way) {
            return leaving.recorded_at.is_some().then_some(leaving.to.shard);
        }
        self.coming.get(&way).filter(|coming| coming.state.is_empty()).map(|_| way.1)
    }

    /// Whether it leaves, and what comes is not sent after it any more.
    #[cold]
    pub(crate) fn is_sealed(&self, key: SessionKey) -> bool {
        self.leaving_of(key).is_some_and(|leaving| leaving.is_sealed)
    }

    /// Whether it leaves with what it has by now, once that is committed.
    #[cold]
    pub(crate) fn goes(&self, key: SessionKey) -> bool {
        self.leaving_of(key).is_some_and(|leaving| leaving.recorded_at.is_some())
    }

    fn leaving_of(&self, key: SessionKey) -> Option<&Leaving> {
        self.leaving.get(&self.way(key)?)
    }

    /// What is known of a session that leaves.
    pub(crate) fn leaving_mut(&mut self, key: SessionKey) -> Option<&mut Leaving> {
        self.leaving.get_mut(self.moving.get(&key)?)
    }

    pub(crate) fn set_way(&mut self, key: SessionKey, way: Way) {
        self.moving.insert(key, way);
    }

    pub(crate) fn end_way(&mut self, key: SessionKey) {
        self.moving.remove(&key);
    }

    /// Sessions that are whole here, and whose shard before is lost, are here for good: nobody
    /// waits for them to be in the log.
    pub(crate) fn end_ways_from(&mut self, is_lost: impl Fn(ShardId) -> bool) {
        let Self { moving, coming, .. } = self;
        moving.retain(|_, way| !is_lost(way.1) || coming.contains_key(way));
    }

    /// Whether a session gets nothing of what this shard has routed: it has not begun to, or has it
    /// where it goes.
    ///
    /// `is_behind` if letters with it wait for a commit: they leave behind what this shard still
    /// has to say of sessions that move.
    pub(crate) fn leaves_out(&self, key: SessionKey, own: ShardId, is_behind: bool) -> bool {
        let Some(way) = self.way(key) else { return false };
        let from = self.source.unwrap_or(own);
        let will_have = is_behind && self.source.is_none() && self.switching.contains(&way);
        let has = |switched: &ShardSet| will_have || switched.contains(from);
        match (self.leaving.get(&way), self.coming.get(&way)) {
            (Some(leaving), _) => has(&leaving.switched),
            (None, Some(coming)) => !has(&coming.switched),
            (None, None) => false,
        }
    }

    /// Nobody of these shards waits any more.
    pub(crate) fn forget_claimants(&mut self, is_lost: impl Fn(ShardId) -> bool) {
        self.waiting.retain(|_, all| {
            all.retain(|claimant| !is_lost(claimant.shard));
            !all.is_empty()
        });
    }
}

/// Bits of a claim that say whose it is.
const SHARD_BITS: u32 = 8;

impl Claim {
    /// Who has made it.
    pub(crate) fn shard(self) -> ShardId {
        ShardId((self.0 & ((1 << SHARD_BITS) - 1)) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_higher_than_those_that_are_known_and_nobody_elses() {
        let mut claims = Claims::default();
        claims.set_clustered(Micros(0), Wall(1_000));
        let first = claims.next(ShardId(3), Micros(5));
        assert_eq!(first, Claim(1_005 << 8 | 3));
        let second = claims.next(ShardId(3), Micros(5));
        assert!(second > first);
        let mut others = Claims::default();
        others.set_clustered(Micros(0), Wall(0));
        assert!(others.next(ShardId(4), Micros(9)) < second);
        others.note(second);
        let third = others.next(ShardId(4), Micros(9));
        assert!(third > second && third.shard() == ShardId(4));
        claims.note(Claim(u64::MAX));
        assert_eq!(claims.next(ShardId(3), Micros(5)).0 & 0xFF, 3);
    }

    #[test]
    fn a_session_is_held_by_the_last_claim() {
        let mut claims = Claims::default();
        claims.hold(SessionKey(2), Claim(9));
        claims.hold(SessionKey(5), Claim::NONE);
        let held = [1, 2, 5].map(|key| claims.held(SessionKey(key)));
        assert_eq!(held, [Claim::NONE, Claim(9), Claim::NONE]);
        claims.hold(SessionKey(2), Claim::NONE);
        assert_eq!(claims.held(SessionKey(2)), Claim::NONE);
    }
}
