//! The shell's part in the shard's log: when it is written, and what becomes of what was.

use super::{Guard, Output, Shell};
use crate::journal::{Flushed, Paged};
use weir_core::{Micros, Shard};
use weir_reactor::Io;

impl Shell {
    /// Why the shard cannot go on: its disk has failed.
    pub(crate) fn take_failure(&mut self) -> Option<std::io::Error> {
        self.guard.journal.as_mut()?.take_failure()
    }

    /// Whether everything that was recorded is on its disk.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.guard.journal.as_ref().is_none_or(|journal| journal.is_at_rest())
    }

    /// Has the log do what is due, and sees whether its disk has room.
    pub(super) fn journal_turn_end(&mut self, io: &mut Io) {
        let (shard, mut output) = self.parts(io);
        let now = output.now();
        let Some(journal) = &mut output.guard.journal else { return };
        if journal.wants_base(shard.dead_page_bytes(), now) {
            shard.begin_base(now, &mut output);
        }
        let Guard { journal: Some(journal), memory, is_disk_short, own, .. } = &mut self.guard
        else {
            return;
        };
        journal.turn_end(now);
        let was_short = std::mem::replace(is_disk_short, journal.is_short());
        if was_short == *is_disk_short {
            return;
        }
        let (shard, bytes) = (own.0, journal.counts().disk_bytes);
        if was_short {
            tracing::info!(shard, bytes, "the disk has room again");
        } else {
            tracing::warn!(shard, bytes, "the disk has no room: refusing what has to be kept");
        }
        let is_pressed = *is_disk_short || memory.is_short(now);
        self.shard.set_pressed(is_pressed);
    }
}

impl Output<'_> {
    /// The flusher has done something: answers may leave, files may go.
    pub(super) fn flushed(&mut self, flushed: Flushed, shard: &mut Shard, now: Micros) {
        let journal = &mut self.guard.journal;
        if let Some(lsn) = journal.as_mut().and_then(|journal| journal.flushed(flushed, now)) {
            shard.committed(lsn, now, self);
        }
        let journal = self.guard.journal.as_mut();
        if let Some(first) = journal.and_then(|journal| journal.reclaim(shard.base(), now)) {
            shard.forgotten(first, self);
        }
    }

    /// A page was written, or read.
    pub(super) fn paged(&mut self, paged: Paged, shard: &mut Shard, now: Micros) {
        match paged {
            Paged::Out(ticket, page) => shard.paged_out(ticket, page, now, self),
            Paged::In(ticket, page) => shard.paged_in(ticket, page, now, self),
            Paged::Failed(error) => {
                if let Some(journal) = &mut self.guard.journal {
                    journal.fail(error);
                }
            }
        }
    }
}
