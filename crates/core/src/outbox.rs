//! What a shard owes others, and has had from them, so that a crash between two commits neither
//! loses a message of QoS 2 nor brings it twice.
//!
//! A durable publisher's message that is for other shards is *mailed*: the log has it, with whom it
//! is for, in the commit that notes its identifier, and the letters leave after that commit. Their
//! receiver marks in its own log how far it has handled what a shard mailed, in the commit of what
//! it made of it, and says so once that is safe. Then the sender logs that it is done.
//!
//! The name of a mailed message is the [`Lsn`] of its record. Letters of this kind leave in the
//! order of their names, so a mark is one number. A name is of one log, and a start begins every
//! log anew without mailed messages and marks: so no name is ever looked for in another's log.
//!
//! Where logs are copied to other nodes, messages are mailed between nodes as well. Names are
//! numbers there that grow over starts of their sender. Whoever begins from its log mails to other
//! nodes what is not done under the names that it had, and each is taken once: the marks of other
//! nodes' shards are kept for ever. A receipt says that a message is safe there.
//!
//! What is not mailed has a mark as well, of the numbers of letters: who begins from the log of
//! their receiver gets those that had no receipt again, and takes each once.

use crate::keys::{Lsn, SessionKey, ShardId, Ticket};
use crate::mail::GroupPick;
use crate::message::Message;
use crate::shard_set::ShardSet;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Mailed messages that are not done, of which there may be so many: beyond, a publisher waits
/// until all shards have committed its message.
const OPEN_MAX: usize = 4_096;

/// Letters of a shard of another node that were not handled as a whole, of which so many are known:
/// that it did not hear of older ones, after so many, is not to be expected.
const NOT_WHOLE_MAX: usize = 1_024;

/// Whom a message is for on another shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailTarget {
    /// The shard.
    pub shard: ShardId,
    /// As in [`crate::Mail::Publish`].
    pub to_subscribers: bool,
    /// As in [`crate::Mail::Publish`].
    pub picks: SmallVec<[GroupPick; 1]>,
}

/// What was handled of the letters of another shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The shard.
    pub from: ShardId,
    /// How far: by the name of the message in its log, or, if it is of another node and not mailed,
    /// by the number of its letter.
    pub number: Lsn,
    /// What became of this one. Those before it were handled as a whole, or have marks of their
    /// own.
    pub handling: Handling,
}

/// What became of a letter with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// All that it is for is served, and in the log.
    Whole,
    /// It was not taken.
    Refused,
    /// Members of groups are not served yet.
    PutOff,
    /// A shard of another node has mailed it, and all that it is for is in the log.
    Mailed,
}

/// Letters that wait for a commit.
#[derive(Debug)]
pub(crate) struct Letters {
    pub(crate) message: Arc<Message>,
    pub(crate) targets: Vec<MailTarget>,
    /// What the message is called, if it is mailed.
    pub(crate) number: Option<Lsn>,
    /// Whose message it is, if it is one of this shard's.
    pub(crate) publisher: Option<SessionKey>,
    /// The acknowledgement that waits for their receipts.
    pub(crate) ack: Option<Ticket>,
}

/// A mailed message that is not done.
#[derive(Debug)]
pub(crate) struct Open {
    /// Where the log has it.
    pub(crate) lsn: Lsn,
    pub(crate) message: Arc<Message>,
    /// Those who have not said that they have it.
    pub(crate) targets: Vec<MailTarget>,
    /// Those of other nodes that are mailed it as they come: it is from before the start, or from
    /// before this node was cut off.
    pub(crate) restored: ShardSet,
}

#[derive(Debug, Default)]
struct Peer {
    /// What it was mailed and has not said to have, in order.
    open: VecDeque<Lsn>,
    /// All that it has mailed up to this one was handled here.
    marked: Option<Lsn>,
    /// Marks that are not committed: the record, and what it says.
    uncommitted: VecDeque<(Lsn, Lsn)>,
    /// The last of its letters that were not handled as a whole.
    not_whole: BTreeMap<Lsn, Handling>,
    /// All that it has mailed up to this one was handled here, if it is of another node.
    marked_far: Option<Lsn>,
}

/// Everything of one shard.
#[derive(Debug)]
pub(crate) struct Outbox {
    peers: Vec<Peer>,
    open: BTreeMap<Lsn, Open>,
    /// The last name that was given which is not that of its record.
    last_name: u64,
    /// Letters that are on their way again with what is from before the start.
    restored: BTreeSet<(Lsn, ShardId)>,
    /// Whom the present message is for elsewhere.
    pub(crate) gathered: Vec<MailTarget>,
    /// The letters of the present request, until its acknowledgement is there; then those of what
    /// rules make of it.
    pub(crate) present: Vec<Letters>,
    /// Publishers some of whose letters wait for a commit, with how many: what they publish after
    /// that does not overtake it.
    waiting: BTreeMap<SessionKey, u32>,
    /// Letters of anybody that wait.
    waiting_count: u32,
    /// Receipts of what others have subscribed to that stand behind such letters.
    pub(crate) noting: u32,
}

impl Outbox {
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            peers: (0..shards).map(|_| Peer::default()).collect(),
            open: BTreeMap::new(),
            last_name: 0,
            restored: BTreeSet::new(),
            gathered: Vec::new(),
            present: Vec::new(),
            waiting: BTreeMap::new(),
            waiting_count: 0,
            noting: 0,
        }
    }

    /// There are more shards.
    pub(crate) fn grow(&mut self, shards: usize) {
        if self.peers.len() < shards {
            self.peers.resize_with(shards, Peer::default);
        }
    }

    /// A shard is gone, and has nothing more that is owed to it.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        // What it was before may come once more from whoever is in its place.
        let peer = &mut self.peers[usize::from(shard.0)];
        peer.uncommitted = VecDeque::new();
    }

    /// The letters of the message that the present request publishes.
    #[inline]
    pub(crate) fn own(&self) -> Option<&Letters> {
        self.present.first().filter(|letters| letters.publisher.is_some())
    }

    /// Whether letters of anybody wait.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting_count > 0
    }

    /// Whether what others have subscribed to can be noted at once: no letter waits, and nothing
    /// that stands behind one.
    pub(crate) fn may_note(&self) -> bool {
        !self.has_waiting() && self.noting == 0
    }

    /// Whether letters of this publisher wait.
    #[inline]
    pub(crate) fn waits(&self, publisher: SessionKey) -> bool {
        self.waiting.contains_key(&publisher)
    }

    pub(crate) fn begin_wait(&mut self, publisher: Option<SessionKey>) {
        self.waiting_count += 1;
        if let Some(publisher) = publisher {
            *self.waiting.entry(publisher).or_default() += 1;
        }
    }

    pub(crate) fn end_wait(&mut self, publisher: Option<SessionKey>) {
        self.waiting_count -= 1;
        let Some(publisher) = publisher else { return };
        let Some(count) = self.waiting.get_mut(&publisher) else { return };
        *count -= 1;
        if *count == 0 {
            self.waiting.remove(&publisher);
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.open.len() < OPEN_MAX
    }

    /// Names are higher than `number`.
    pub(crate) fn go_on_from(&mut self, number: u64) {
        self.last_name = number.max(self.last_name);
    }

    /// The name of the next message, which is known to other nodes.
    pub(crate) fn next_name(&mut self) -> Lsn {
        self.last_name += 1;
        Lsn(self.last_name)
    }

    /// A message is mailed under this name.
    pub(crate) fn add(&mut self, number: Lsn, open: Open) {
        for target in &open.targets {
            self.grow(usize::from(target.shard.0) + 1);
            self.peers[usize::from(target.shard.0)].open.push_back(number);
        }
        self.open.insert(number, open);
    }

    /// What is to be mailed again to a shard of another node that has come, by names.
    pub(crate) fn restored_for(&mut self, shard: ShardId) -> Vec<(Lsn, Arc<Message>, MailTarget)> {
        let is_for_it = |target: &&MailTarget| target.shard == shard;
        let all = self.open.iter().filter(|(_, open)| open.restored.contains(shard));
        let its = all.filter_map(|(&name, open)| {
            let target = open.targets.iter().find(is_for_it)?;
            Some((name, Arc::clone(&open.message), target.clone()))
        });
        let its: Vec<_> = its.collect();
        self.restored.extend(its.iter().map(|&(name, ..)| (name, shard)));
        its
    }

    /// Shards of another node are lost to this one, which is cut off itself: what is open for them
    /// waits until they are there again, as after a start.
    pub(crate) fn keep_for(&mut self, is_lost: impl Fn(ShardId) -> bool) {
        for open in self.open.values_mut() {
            let shards = open.targets.iter().map(|target| target.shard);
            open.restored.extend(shards.filter(|&shard| is_lost(shard)));
        }
        self.restored.retain(|&(_, shard)| !is_lost(shard));
    }

    /// Whether letters with this message are still to go to a shard when they may leave: not if it
    /// is over, or goes there when that comes.
    pub(crate) fn is_to_go(&self, number: Lsn, to: ShardId) -> bool {
        self.open.get(&number).is_some_and(|open| {
            !open.restored.contains(to) && open.targets.iter().any(|target| target.shard == to)
        })
    }

    /// Nothing that was mailed is this shard's any more. Returns the names.
    pub(crate) fn void(&mut self) -> Vec<Lsn> {
        self.restored.clear();
        self.peers.iter_mut().for_each(|peer| peer.open.clear());
        std::mem::take(&mut self.open).into_keys().collect()
    }

    /// Whether such letters are on their way.
    #[inline]
    pub(crate) fn waits_for_restored(&self) -> bool {
        !self.restored.is_empty()
    }

    /// A message that some shards are still to have.
    pub(crate) fn open_mut(&mut self, number: Lsn) -> Option<&mut Open> {
        self.open.get_mut(&number)
    }

    /// A shard has this mailed message, and perhaps not those before it. Says whether all have.
    pub(crate) fn had(&mut self, by: ShardId, number: Lsn) -> bool {
        let peer = &mut self.peers[usize::from(by.0)];
        let Ok(at) = peer.open.binary_search(&number) else { return false };
        peer.open.remove(at);
        crate::shrink::queue(&mut peer.open);
        self.is_done(by, number)
    }

    fn is_done(&mut self, by: ShardId, number: Lsn) -> bool {
        let Some(open) = self.open.get_mut(&number) else { return false };
        self.restored.remove(&(number, by));
        open.targets.retain(|target| target.shard != by);
        let is_done = open.targets.is_empty();
        if is_done {
            self.open.remove(&number);
        }
        is_done
    }

    /// A shard has committed all that it was mailed up to `number`. Returns a message that is done
    /// by that; is to be called until there is none.
    pub(crate) fn take_done(&mut self, by: ShardId, number: Lsn) -> Option<Lsn> {
        let at = usize::from(by.0);
        while let Some(mailed) = self.peers[at].open.pop_front_if(|mailed| *mailed <= number) {
            if self.is_done(by, mailed) {
                return Some(mailed);
            }
        }
        crate::shrink::queue(&mut self.peers[at].open);
        None
    }

    /// The first that is not done behind `after`.
    pub(crate) fn next_open(&self, after: Lsn) -> Option<(Lsn, &Open)> {
        let behind = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        self.open.range(behind).next().map(|(&number, open)| (number, open))
    }

    /// What a shard mailed was handled here, and this record says so.
    pub(crate) fn mark(&mut self, from: ShardId, number: Lsn, record: Lsn) {
        let peer = &mut self.peers[usize::from(from.0)];
        debug_assert!(peer.marked.is_none_or(|marked| marked < number), "letters keep their order");
        peer.marked = Some(number);
        peer.uncommitted.push_back((record, number));
    }

    /// All letters of a shard of another node up to this one were handled here.
    pub(crate) fn mark_letter(&mut self, Mark { from, number, handling }: Mark) {
        self.grow(usize::from(from.0) + 1);
        let Peer { marked, not_whole, marked_far, .. } = &mut self.peers[usize::from(from.0)];
        if handling == Handling::Mailed {
            *marked_far = Some(number).max(*marked_far);
            return;
        }
        if handling == Handling::Whole {
            not_whole.remove(&number);
        } else {
            not_whole.insert(number, handling);
        }
        if not_whole.len() > NOT_WHOLE_MAX {
            not_whole.pop_first();
        }
        *marked = Some(number).max(*marked);
    }

    /// What became of this letter of a shard of another node, if it came here.
    pub(crate) fn handling(&self, from: ShardId, number: Lsn) -> Option<Handling> {
        let Peer { marked, not_whole, .. } = self.peers.get(usize::from(from.0))?;
        let handling = not_whole.get(&number).copied();
        marked.filter(|marked| number <= *marked).map(|_| handling.unwrap_or(Handling::Whole))
    }

    /// Whether a message that a shard of another node has mailed was handled here.
    pub(crate) fn has_marked_far(&self, from: ShardId, number: Lsn) -> bool {
        let peer = self.peers.get(usize::from(from.0));
        peer.is_some_and(|peer| peer.marked_far.is_some_and(|marked| number <= marked))
    }

    /// What was handled of everybody's letters.
    pub(crate) fn marks(&self) -> impl Iterator<Item = Mark> + '_ {
        (0..).map(ShardId).zip(&self.peers).flat_map(|(from, peer)| {
            let Peer { marked, not_whole, marked_far, .. } = peer;
            let far = marked_far.map(|number| (number, Handling::Mailed)).into_iter();
            let mark = move |(number, handling)| Mark { from, number, handling };
            // A mark of one that is not whole would say that it is.
            let last = marked.filter(|number| !not_whole.contains_key(number));
            let all = last.map(|number| (number, Handling::Whole)).into_iter();
            far.chain(all)
                .chain(not_whole.iter().map(|(&number, &handling)| (number, handling)))
                .map(mark)
        })
    }

    /// A shard that is to be told how far its messages are safe here, after this commit.
    pub(crate) fn take_safe(&mut self, committed: Lsn) -> Option<(ShardId, Lsn)> {
        for (from, peer) in (0..).map(ShardId).zip(&mut self.peers) {
            let mut safe = None;
            while let Some((_, number)) =
                peer.uncommitted.pop_front_if(|(record, _)| *record <= committed)
            {
                safe = Some(number);
            }
            if let Some(number) = safe {
                crate::shrink::queue(&mut peer.uncommitted);
                return Some((from, number));
            }
        }
        None
    }
}
