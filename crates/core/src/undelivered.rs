//! What was mailed between shards and did not get there before a crash, from the logs of all.

use crate::keys::{Lsn, Micros, ShardId};
use crate::message::Message;
use crate::outbox::MailTarget;
use crate::rebuild::Rebuild;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A message that a shard was mailed and had not handled by the end of its log. It is for those
/// who were in that log, wherever they are now.
#[derive(Debug)]
pub struct Undelivered {
    pub(crate) message: Arc<Message>,
    pub(crate) target: MailTarget,
    /// The clients whose sessions the log has.
    pub(crate) clients: Arc<BTreeSet<Box<str>>>,
}

impl Undelivered {
    /// Of the logs of all shards, each with its shard; in the order of their sending.
    pub fn of(logs: &[(ShardId, Rebuild)], now: Micros) -> Vec<Self> {
        let mut clients: BTreeMap<ShardId, Arc<BTreeSet<Box<str>>>> = BTreeMap::new();
        let mut all = Vec::new();
        for (from, log) in logs {
            for (number, message, targets) in log.mailed() {
                let is_missing = |target: &&MailTarget| {
                    !logs
                        .iter()
                        .any(|(shard, log)| *shard == target.shard && log.has_marked(*from, number))
                };
                for target in targets.iter().filter(is_missing) {
                    let is_its = |(shard, _): &&(ShardId, Rebuild)| *shard == target.shard;
                    let clients = clients.entry(target.shard).or_insert_with(|| {
                        let log = logs.iter().find(is_its).map(|(_, log)| log);
                        Arc::new(log.into_iter().flat_map(Rebuild::clients).collect())
                    });
                    if !message.is_expired(now) {
                        let (message, target) = (Arc::clone(message), target.clone());
                        all.push(Self { message, target, clients: Arc::clone(clients) });
                    }
                }
            }
        }
        all
    }
}

/// Mailed messages and marks, as the records of one log have them so far.
#[derive(Debug, Default)]
pub(crate) struct Mailed {
    /// By name, with the place of the record.
    open: BTreeMap<Lsn, (Lsn, Arc<Message>, Vec<MailTarget>)>,
    /// By sender, with the place of the record.
    marks: BTreeMap<ShardId, (Lsn, Lsn)>,
}

impl Mailed {
    pub(crate) fn add(
        &mut self,
        lsn: Lsn,
        number: Lsn,
        message: Arc<Message>,
        targets: Vec<MailTarget>,
    ) {
        let name = if number == Lsn::NONE { lsn } else { number };
        self.open.insert(name, (lsn, message, targets));
    }

    pub(crate) fn done(&mut self, number: Lsn) {
        self.open.remove(&number);
    }

    pub(crate) fn mark(&mut self, lsn: Lsn, from: ShardId, number: Lsn) {
        let mark = self.marks.entry(from).or_insert((lsn, number));
        *mark = (lsn, number.max(mark.1));
    }

    /// All that was there has been logged anew.
    pub(crate) fn end_base(&self, base: Lsn) -> Result<(), &'static str> {
        let mut places = self.open.values().map(|&(lsn, ..)| lsn);
        if places.any(|lsn| lsn < base) || self.marks.values().any(|&(lsn, _)| lsn < base) {
            return Err("a mailed message, or a mark, was not logged anew");
        }
        Ok(())
    }

    pub(crate) fn has_marked(&self, from: ShardId, number: Lsn) -> bool {
        self.marks.get(&from).is_some_and(|&(_, marked)| number <= marked)
    }

    pub(crate) fn open(&self) -> impl Iterator<Item = (Lsn, &Arc<Message>, &[MailTarget])> {
        self.open.iter().map(|(&number, (_, message, targets))| (number, message, &**targets))
    }
}
