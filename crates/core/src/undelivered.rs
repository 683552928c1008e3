//! What was mailed between shards and did not get there before a crash, from the logs of all.

use crate::keys::{Lsn, Micros, ShardId};
use crate::message::Message;
use crate::outbox::MailTarget;
use crate::rebuild::Rebuild;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A message that shards were mailed and had not handled by the end of the logs.
#[derive(Debug)]
pub struct Undelivered {
    pub(crate) message: Arc<Message>,
    pub(crate) to: Late,
}

/// Whom it is for still.
#[derive(Debug)]
pub(crate) enum Late {
    /// Those who were in the log of a shard, wherever they are now.
    Here {
        target: MailTarget,
        /// The clients whose sessions the log has.
        clients: Arc<BTreeSet<Box<str>>>,
    },
    /// Shards of other nodes, whose logs have it by this name if it has come to them.
    Elsewhere { from: ShardId, number: Lsn, targets: Vec<MailTarget> },
}

impl Undelivered {
    /// Of the logs of all shards, each with its shard; in the order of their sending.
    pub fn of(logs: &[(ShardId, Rebuild)], now: Micros) -> Vec<Self> {
        let mut clients: BTreeMap<ShardId, Arc<BTreeSet<Box<str>>>> = BTreeMap::new();
        let mut all = Vec::new();
        for (from, log) in logs {
            for (number, message, targets) in log.mailed().filter(|it| !it.1.is_expired(now)) {
                let is_here =
                    |target: &MailTarget| logs.iter().any(|(shard, _)| *shard == target.shard);
                let (targets, others): (Vec<_>, Vec<_>) =
                    targets.iter().cloned().partition(is_here);
                if !others.is_empty() {
                    let to = Late::Elsewhere { from: *from, number, targets: others };
                    all.push(Self { message: Arc::clone(message), to });
                }
                let is_missing = |target: &MailTarget| {
                    !logs
                        .iter()
                        .any(|(shard, log)| *shard == target.shard && log.has_marked(*from, number))
                };
                for target in targets.into_iter().filter(is_missing) {
                    let is_its = |(shard, _): &&(ShardId, Rebuild)| *shard == target.shard;
                    let clients = clients.entry(target.shard).or_insert_with(|| {
                        let log = logs.iter().find(is_its).map(|(_, log)| log);
                        Arc::new(log.into_iter().flat_map(Rebuild::clients).collect())
                    });
                    let to = Late::Here { target, clients: Arc::clone(clients) };
                    all.push(Self { message: Arc::clone(message), to });
                }
            }
        }
        all
    }
}
