//! What was mailed between shards and did not get there before a crash, from the logs of all.

use crate::keys::{Micros, ShardId};
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
