//! The shell's part in copies of logs: what goes to other nodes and comes from there.

use super::{Guard, Output, Shell};
use crate::journal::CopyTo;
use crate::letter::{CopyBegun, CopyNews, Letter};
use weir_core::{LogMail, Mail, Shard, ShardId};
use weir_reactor::Io;

impl Shell {
    /// Sends what the log has recorded in this turn to the nodes that have its copies.
    pub(super) fn send_copied(&mut self, io: &mut Io) {
        let (_, output) = self.parts(io);
        let Guard { journal: Some(journal), node, .. } = &mut *output.guard else { return };
        while let Some((to, mail)) = journal.take_copied() {
            output.mailbox.send(node.post(), Letter::Far(to, Mail::Log(mail)));
        }
    }

    /// Tells the post of a stand-in how many sessions are left, if that has changed.
    pub(super) fn say_sessions(&mut self, io: &mut Io) {
        let (shard, output) = self.parts(io);
        let sessions = shard.kept_sessions();
        let post = output.guard.node.post();
        if let Some(said) = &mut output.guard.sessions_said
            && *said != Some(sessions)
        {
            *said = Some(sessions);
            output.mailbox.send(post, Letter::Sessions(sessions));
        }
    }
}

impl Output<'_> {
    /// A letter about a copy, of a shard of another node.
    pub(super) fn read_log_mail(&mut self, from: ShardId, mail: LogMail, shard: &mut Shard) {
        match mail {
            LogMail::Begin { .. } | LogMail::Records { .. } => {
                let by = usize::from(self.guard.own.0);
                match &self.guard.copies {
                    Some(copies) => copies.take(by, from, mail),
                    // It has no store, and is asked all the same.
                    None => self.refuse_copy(from, &mail),
                }
            }
            LogMail::Safe { copy, last } => {
                let now = self.now();
                let Some(journal) = &mut self.guard.journal else { return };
                let (safe, is_whole) = journal.copied(copy, last);
                if is_whole {
                    self.say_of_copy(copy, CopyNews::Whole);
                }
                shard.committed(safe, now, self);
            }
            LogMail::Failed { copy } => self.say_of_copy(copy, CopyNews::Failed),
        }
    }

    fn refuse_copy(&mut self, from: ShardId, mail: &LogMail) {
        if let LogMail::Begin { copy } = *mail {
            let mail = Mail::Log(LogMail::Failed { copy });
            self.mailbox.send(self.guard.node.post(), Letter::Far(from, mail));
        }
    }

    fn say_of_copy(&mut self, copy: u64, news: CopyNews) {
        self.mailbox.send(self.guard.node.post(), Letter::Copy(copy, news));
    }

    /// Begins a copy of the log.
    pub(super) fn copy_log(&mut self, CopyBegun { to, copy, waiting }: CopyBegun) {
        let own = self.guard.own.0;
        let Some(journal) = &mut self.guard.journal else { return };
        let count = to.len().max(1) as u16;
        let to = ShardId(to.start + own % count);
        journal.copy_to(CopyTo { to, copy, waiting, own: own.into() });
    }

    /// Nobody waits for this copy any more, or for any.
    pub(super) fn end_copy(&mut self, copy: Option<u64>, shard: &mut Shard) {
        let (now, Some(journal)) = (self.now(), &mut self.guard.journal) else { return };
        let safe = journal.end_copy(copy);
        shard.committed(safe, now, self);
    }
}
