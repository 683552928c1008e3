//! What a stand-in still has: once the node that runs it knows all that it has to know, that is
//! offered all sessions, and without any the stand-in ends.

use weir_cluster::Slot;

pub(super) struct Offering {
    /// The node that runs it.
    pub(super) keeper: Slot,
    /// By shard; nothing of one that has not said it.
    sessions: Vec<Option<usize>>,
    has_offered: bool,
}

impl Offering {
    pub(super) fn new(keeper: Slot, shards: usize) -> Self {
        Self { keeper, sessions: vec![None; shards], has_offered: false }
    }

    pub(super) fn note(&mut self, shard: usize, sessions: usize) {
        self.sessions[shard] = Some(sessions);
    }

    /// Whether they are to be offered now, which is so once.
    pub(super) fn begins(&mut self) -> bool {
        !std::mem::replace(&mut self.has_offered, true)
    }

    /// Whether nothing is left.
    pub(super) fn is_over(&self) -> bool {
        self.has_offered && self.sessions.iter().all(|&sessions| sessions == Some(0))
    }
}
