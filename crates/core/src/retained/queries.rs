//! Other shards' queries for retained messages, which wait for what they know of.

use super::Retained;
use super::store::Page;
use crate::keys::{Micros, ShardId};
use crate::mail::{RetainedPage, RetainedQuery};
use crate::partitions::Partitions;
use weir_wire::topic::TopicFilter;

/// Queries that came before a message they know of. Each session has one open at most.
#[derive(Debug, Default)]
pub(crate) struct Queries {
    held: Vec<(ShardId, RetainedQuery)>,
    /// They go on in a later turn, and not before.
    pub(crate) is_put_off: bool,
}

/// The answer to a query.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) to: ShardId,
    pub(crate) page: RetainedPage,
    /// Steps of looking at topics for it.
    pub(crate) looked_at: usize,
}

impl Queries {
    pub(crate) fn hold(&mut self, from: ShardId, query: RetainedQuery) {
        self.held.push((from, query));
    }

    /// A shard is gone: what it may have published does not come any more.
    pub(crate) fn forget(&mut self, shard: ShardId) {
        for (_, query) in &mut self.held {
            if let Some(needed) = query.needed.get_mut(usize::from(shard.0)) {
                *needed = 0;
            }
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Retained {
    /// Whether a query can be answered, from this place on: which.
    pub(crate) fn next_query(&self, from: usize) -> Option<usize> {
        let is_due =
            |(_, query): &(ShardId, RetainedQuery)| self.stamps.has_received(&query.needed);
        let held = self.queries.held.get(from..)?;
        held.iter().position(is_due).map(|at| from + at)
    }

    /// Answers the query at a place that [`Retained::next_query`] said.
    pub(crate) fn answer_query(
        &mut self,
        at: usize,
        partitions: &Partitions,
        now: Micros,
    ) -> Answered {
        let (to, query) = self.queries.held.remove(at);
        let filter = TopicFilter { group: None, filter: &query.filter };
        let messages_max = query.messages_max as usize;
        let among = query.partitions.as_deref().map(|wanted| (wanted, partitions));
        let Page { messages, next, looked_at, .. } =
            self.page(filter, query.after.as_deref(), among, messages_max, now);
        let (received, ticket) = (self.stamps.received(), query.ticket);
        Answered { to, page: RetainedPage { messages, next, received, ticket }, looked_at }
    }
}
