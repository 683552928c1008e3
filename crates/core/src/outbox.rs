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
//! Between nodes nothing is mailed. Where logs are copied to other nodes, a mark says how far the
//! numbered letters of another node's shard were handled: who begins from the log gets those that
//! had no receipt again, and takes each once. These numbers grow over starts of their sender, so
//! such a mark is kept for ever.

use crate::keys::{Lsn, SessionKey, ShardId, Ticket};
use crate::mail::GroupPick;
use crate::message::Message;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
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
    /// How far: by the name of the message in its log, or, if it is of another node, by the number
    /// of its letter.
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
    pub(crate) message: Arc<Message>,
    /// Those who have not said that they have it.
    pub(crate) targets: Vec<MailTarget>,
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
}

/// Everything of one shard.
#[derive(Debug)]
pub(crate) struct Outbox {
    peers: Vec<Peer>,
    open: BTreeMap<Lsn, Open>,
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
        let (marked, not_whole) = (peer.marked, std::mem::take(&mut peer.not_whole));
        *peer = Peer { marked, not_whole, ..Peer::default() };
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

    /// A message is mailed under this name.
    pub(crate) fn add(&mut self, number: Lsn, message: Arc<Message>, targets: Vec<MailTarget>) {
        for target in &targets {
            self.peers[usize::from(target.shard.0)].open.push_back(number);
        }
        self.open.insert(number, Open { message, targets });
    }

    /// A shard has committed all that it was mailed up to `number`. Returns a message that is done
    /// by that; is to be called until there is none.
    pub(crate) fn take_done(&mut self, by: ShardId, number: Lsn) -> Option<Lsn> {
        let peer = &mut self.peers[usize::from(by.0)];
        while let Some(mailed) = peer.open.pop_front_if(|mailed| *mailed <= number) {
            let Some(open) = self.open.get_mut(&mailed) else { continue };
            open.targets.retain(|target| target.shard != by);
            if open.targets.is_empty() {
                self.open.remove(&mailed);
                return Some(mailed);
            }
        }
        crate::shrink::queue(&mut peer.open);
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
        let Peer { marked, not_whole, .. } = &mut self.peers[usize::from(from.0)];
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

    /// What was handled of everybody's letters.
    pub(crate) fn marks(&self) -> impl Iterator<Item = Mark> + '_ {
        (0..).map(ShardId).zip(&self.peers).flat_map(|(from, Peer { marked, not_whole, .. })| {
            let mark = move |(number, handling)| Mark { from, number, handling };
            // A mark of one that is not whole would say that it is.
            let last = marked.filter(|number| !not_whole.contains_key(number));
            let all = last.map(|number| (number, Handling::Whole)).into_iter();
            all.chain(not_whole.iter().map(|(&number, &handling)| (number, handling))).map(mark)
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
