//! A shared subscription's group on one shard.

use crate::routing::Subscriber;

/// The members of `$share/{name}/{filter}` on this shard, served in turn.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: Box<str>,
    pub(crate) members: Vec<Subscriber>,
    next: usize,
}

impl Group {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.into(), members: Vec::new(), next: 0 }
    }

    /// The next member in turn that `accepts` takes; failing that, the next in turn at all.
    pub(crate) fn pick(&mut self, accepts: impl Fn(&Subscriber) -> bool) -> Option<Subscriber> {
        let count = self.members.len();
        if count == 0 {
            return None;
        }
        let start = self.next % count;
        let at = (0..count)
            .map(|step| (start + step) % count)
            .find(|&at| accepts(&self.members[at]))
            .unwrap_or(start);
        self.next = at + 1;
        Some(self.members[at])
    }
}
