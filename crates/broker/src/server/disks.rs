//! What a server has on its disk: the logs of its shards, and copies of other nodes' logs.

use super::cluster::PostToBe;
use super::{ServeError, Server};
use crate::config::Config;
use crate::copies::{Copies, CopiesWay};
use crate::journal::{self, Flusher, Generations, Journal, OnDamage, Pager, Started};
use crate::letter::Letter;
use std::sync::Arc;
use weir_core::{Partitions, Shard, ShardId};
use weir_reactor::Mailbox;

/// The log of each shard, if they have any, and the folder that they are in.
type Logs = (Vec<Option<Box<Journal>>>, Option<Store>);

/// What all shards share of the folder: the pages in it, and its lock.
pub(super) type Store = (Pager, Generations);

/// What there is on the disk: of this node, and of others.
pub(crate) type Disks = (Option<Store>, Option<Copies>);

/// What a shard has of it: its log, and its way to the copies.
pub(super) type OfShard = (Option<Box<Journal>>, Option<CopiesWay>);

impl Server {
    /// Has the shards take up what the store has of them, and makes room for copies.
    pub(super) fn disks(
        &self,
        shards_from: (&mut [Shard], u16),
        seed: u64,
        mailboxes: &mut [Mailbox<Letter>],
        post: Option<&mut PostToBe>,
    ) -> Result<(Vec<OfShard>, Disks), ServeError> {
        let (journals, store) = self.journals(shards_from, seed, mailboxes)?;
        let copies = self.copies(mailboxes)?;
        let way = copies.as_ref().map(Copies::way);
        if let (Some(post), Some(way)) = (post, &way) {
            post.copy_logs(&self.config, way.clone());
        }
        let of_shards = journals.into_iter().map(|journal| (journal, way.clone())).collect();
        Ok((of_shards, (store, copies)))
    }

    /// Has the shards take up what the store has of them. Returns their logs, with a flusher each.
    fn journals(
        &self,
        (shards, first): (&mut [Shard], u16),
        seed: u64,
        mailboxes: &mut [Mailbox<Letter>],
    ) -> Result<Logs, ServeError> {
        let Config { store, limits, cluster, .. } = &self.config;
        let Some(root) = store.folder() else {
            return Ok((shards.iter().map(|_| None).collect(), None));
        };
        if store.on_damage == OnDamage::Salvage {
            journal::salvage_at_start(root)?;
        }
        for shard in shards.iter_mut() {
            shard.keep_log();
            // A copy has no pages: where there is one, queues are in memory.
            if !cluster.is_copied() {
                shard.keep_pages(store.paged_bounds());
            }
        }
        let copies = cluster.stand_in.as_ref().map_or(&[][..], |stand_in| &stand_in.copies);
        let partitions = Partitions::spread(shards.len() as u16, seed);
        let Started { logs, room, generations, pages } = journal::start(
            store,
            (root, copies),
            limits.packet_bytes_max,
            (shards, first),
            &partitions,
        )?;
        let pager = pages.run(mailboxes)?;
        let mut journals = Vec::new();
        for ((own, mailbox), (mut journal, disk)) in (0..).zip(mailboxes).zip(logs) {
            journal.flush_by(Flusher::start(ShardId(own), disk, Arc::clone(&room), mailbox)?);
            journals.push(Some(Box::new(journal)));
        }
        Ok((journals, Some((pager, generations))))
    }

    /// The thread that has copies of other nodes' logs, if there is a place for them.
    fn copies(&self, mailboxes: &mut [Mailbox<Letter>]) -> Result<Option<Copies>, ServeError> {
        let Config { store, limits, cluster, .. } = &self.config;
        let is_node = !cluster.is_off() && cluster.stand_in.is_none();
        let Some(root) = store.folder().filter(|_| is_node) else { return Ok(None) };
        Ok(Some(Copies::start(root, store, limits.packet_bytes_max, mailboxes)?))
    }
}
