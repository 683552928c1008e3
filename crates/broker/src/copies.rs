//! Copies of other nodes' logs, and the thread that has them.
//!
//! What a shard of another node has recorded comes by letters to one of this node's shards, which
//! hands it to this thread. That writes it into a log of its own in the folder of the store, all
//! that has come in one go with one sync, and says up to where it is safe. If the other node is
//! lost, its sessions are opened from there (`server::stand_in`).

mod former;
mod log;

pub(crate) use former::{Wanted, former, make_folder, remove_folder};

use crate::journal::{COPIES, NoStore, StoreConfig};
use crate::letter::Letter;
use log::CopyOf;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_cluster::Incarnation;
use weir_core::{LogMail, ShardId};
use weir_reactor::{Mailbox, Outside, outside};

/// Letters on their way to a shard: it is told of each copy once a turn at most.
const LETTERS_MAX: usize = 256;

/// What is taken up before it is written.
const BATCH_MAX: usize = 256;

/// How long to wait with what a shard had no room for.
const AGAIN: Duration = Duration::from_millis(1);

/// What is to be done.
#[derive(Debug)]
enum Work {
    /// A letter of this shard of another node, which has come to this one's.
    Letter { by: usize, from: ShardId, mail: LogMail },
    /// Nothing more is taken for these shards, so that what is there can be read.
    Close { shards: Range<u16>, closed: Sender<()> },
    /// This node is a member: the copies are of these memberships from now on, and what is there
    /// of before and not wanted goes, if that is known.
    GoOn { memberships: Vec<Incarnation>, wanted: Option<Wanted> },
    /// The broker ends.
    End,
}

/// A shard's way to the copies, and that of whoever opens them.
#[derive(Clone, Debug)]
pub(crate) struct CopiesWay {
    to: Sender<Work>,
    root: PathBuf,
    kept: Arc<Kept>,
}

/// What there is of others: the thread writes it, and the post reads it.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Logs that copies are taken of.
    pub(crate) logs: AtomicU64,
    /// What those take on the disk.
    pub(crate) disk_bytes: AtomicU64,
}

impl CopiesWay {
    /// Takes a letter that came to the shard of this thread.
    pub(crate) fn take(&self, by: usize, from: ShardId, mail: LogMail) {
        // A thread that has ended has said so.
        let _ = self.to.send(Work::Letter { by, from, mail });
    }

    /// What there is of others.
    pub(crate) fn kept(&self) -> Arc<Kept> {
        Arc::clone(&self.kept)
    }

    /// This node is a member: the copies are of these memberships from now on, and what is there of
    /// before and not wanted goes, if that is known.
    pub(crate) fn go_on(&self, memberships: Vec<Incarnation>, wanted: Option<Wanted>) {
        let _ = self.to.send(Work::GoOn { memberships, wanted });
    }

    /// The folders of the copies of these shards' logs. Nothing is written there any more.
    pub(crate) fn close(&self, shards: &Range<u16>) -> Vec<(u16, PathBuf)> {
        let (closed, is_closed) = channel();
        let _ = self.to.send(Work::Close { shards: shards.clone(), closed });
        // It fails where the thread has ended, and then nothing is written either.
        let _ = is_closed.recv();
        let path = |shard: u16| (shard, path_of(&self.root, ShardId(shard)));
        shards.clone().map(path).filter(|(_, path)| path.is_dir()).collect()
    }
}

fn path_of(root: &Path, ShardId(shard): ShardId) -> PathBuf {
    root.join(COPIES).join(shard.to_string())
}

/// The thread: it ends with this.
#[derive(Debug)]
pub(crate) struct Copies {
    way: CopiesWay,
    thread: Option<JoinHandle<()>>,
}

impl Copies {
    /// A thread that takes copies into the store's folder, for the shards of these mailboxes.
    ///
    /// # Errors
    /// Of the disk, and what the system says of a thread and two open files.
    pub(crate) fn start(
        root: &Path,
        config: &StoreConfig,
        packet_bytes_max: u32,
        mailboxes: &mut [Mailbox<Letter>],
    ) -> Result<Self, NoStore> {
        let copies = root.join(COPIES);
        make_folder(&copies).map_err(NoStore::disk(&copies))?;
        let (to, given) = channel();
        let kept = Arc::<Kept>::default();
        let way = CopiesWay { to, root: root.into(), kept: Arc::clone(&kept) };
        let start = || {
            let (back, _) = outside::<Letter, ()>(mailboxes, LETTERS_MAX)?;
            let turns = Turns {
                root: root.into(),
                config: config.clone(),
                packet_bytes_max,
                copies: BTreeMap::new(),
                unsaid: Vec::new(),
                back,
                kept,
            };
            let run = move || turns.run(&given);
            std::thread::Builder::new().name("copies".into()).spawn(run)
        };
        let thread = start().map_err(NoStore::disk(&copies))?;
        Ok(Self { way, thread: Some(thread) })
    }

    pub(crate) fn way(&self) -> CopiesWay {
        self.way.clone()
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let _ = self.way.to.send(Work::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Turns {
    root: PathBuf,
    config: StoreConfig,
    packet_bytes_max: u32,
    copies: BTreeMap<ShardId, CopyOf>,
    /// For shards that had no room: by which, and to whom.
    unsaid: Vec<(usize, ShardId, LogMail)>,
    back: Outside<Letter, ()>,
    kept: Arc<Kept>,
}

impl Turns {
    fn run(mut self, given: &Receiver<Work>) {
        loop {
            let first = match self.unsaid.is_empty() {
                true => given.recv().map_err(|_| RecvTimeoutError::Disconnected),
                false => given.recv_timeout(AGAIN),
            };
            let first = match first {
                Err(RecvTimeoutError::Disconnected) => return,
                first => first.ok(),
            };
            let works: Vec<Work> =
                first.into_iter().chain(given.try_iter()).take(BATCH_MAX).collect();
            for work in works {
                match work {
                    Work::Letter { by, from, mail } => self.take(by, from, mail),
                    Work::Close { shards, closed } => {
                        self.close(&shards);
                        // Whoever wanted it may have ended.
                        let _ = closed.send(());
                    }
                    Work::GoOn { memberships, wanted } => self.go_on(&memberships, wanted.as_ref()),
                    Work::End => return,
                }
            }
            self.write();
            self.say();
            self.count();
        }
    }

    fn count(&self) {
        let bytes = self.copies.values().map(CopyOf::disk_bytes).sum();
        self.kept.logs.store(self.copies.len() as u64, Ordering::Relaxed);
        self.kept.disk_bytes.store(bytes, Ordering::Relaxed);
    }

    fn take(&mut self, by: usize, from: ShardId, mail: LogMail) {
        match mail {
            LogMail::Begin { copy } => self.begin(by, from, copy),
            LogMail::Records { copy, nth, records } => {
                let log = self.copies.get_mut(&from).filter(|log| log.copy == copy);
                if let Some(Err(error)) = log.map(|log| log.append(nth, &records)) {
                    self.fail(from, &error);
                }
            }
            LogMail::Safe { .. } | LogMail::Failed { .. } => {}
        }
    }

    fn begin(&mut self, by: usize, from: ShardId, copy: u64) {
        self.copies.remove(&from);
        let path = path_of(&self.root, from);
        match CopyOf::begin(&path, &self.config, self.packet_bytes_max, (by, from), copy) {
            Ok(log) => drop(self.copies.insert(from, log)),
            Err(error) => self.say_failed(by, from, copy, &error),
        }
    }

    /// Writes what has come.
    fn write(&mut self) {
        let mut failed = Vec::new();
        for (&from, log) in &mut self.copies {
            match log.write() {
                Ok(Some(last)) => {
                    let mail = LogMail::Safe { copy: log.copy, last };
                    // Of one copy only the last matters.
                    self.unsaid.retain(|(_, to, _)| *to != from);
                    self.unsaid.push((log.by, from, mail));
                }
                Ok(None) => {}
                Err(error) => failed.push((from, error)),
            }
        }
        failed.into_iter().for_each(|(from, error)| self.fail(from, &error));
    }

    /// A copy cannot go on: whoever has the log goes on without it.
    fn fail(&mut self, from: ShardId, error: &io::Error) {
        if let Some(CopyOf { by, copy, .. }) = self.copies.remove(&from) {
            self.say_failed(by, from, copy, error);
        }
    }

    fn say_failed(&mut self, by: usize, from: ShardId, copy: u64, error: &io::Error) {
        tracing::error!(shard = from.0, %error, "the copy of another node's log cannot be written");
        self.unsaid.push((by, from, LogMail::Failed { copy }));
    }

    fn close(&mut self, shards: &Range<u16>) {
        self.copies.retain(|shard, _| !shards.contains(&shard.0));
    }

    fn go_on(&self, memberships: &[Incarnation], wanted: Option<&Wanted>) {
        let is_in_use = |shard| self.copies.contains_key(&ShardId(shard));
        let removed =
            wanted.map_or(Ok(()), |wanted| former::remove_others(&self.root, wanted, is_in_use));
        // If nothing says of which memberships they are, they are of no use after a start.
        if let Err(error) = removed.and_then(|()| former::note(&self.root, memberships)) {
            tracing::warn!(%error, "what is kept of other nodes is of no use after a start");
        }
    }

    fn say(&mut self) {
        let Self { unsaid, back, .. } = self;
        unsaid.retain(|(by, to, mail)| back.send(*by, Letter::Kept(*to, mail.clone())).is_err());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_which_a_letter_is_missing_is_said_to_have_failed() {
        let (_folder, mut mailboxes, copies) = started();
        let (from, copy) = (ShardId(9), 7);
        copies.way().take(0, from, LogMail::Begin { copy });
        copies.way().take(0, from, LogMail::Records { copy, nth: 0, records: Box::default() });
        copies.way().take(0, from, LogMail::Records { copy, nth: 2, records: Box::default() });
        assert_eq!(next_said(&mut mailboxes), (from, LogMail::Failed { copy }));
    }

    fn started() -> (tempfile::TempDir, Vec<Mailbox<Letter>>, Copies) {
        let folder = tempfile::tempdir().unwrap();
        let mut mailboxes = weir_reactor::mailboxes(&[weir_reactor::Waker::new().unwrap()]);
        let config = StoreConfig::default();
        let copies = Copies::start(folder.path(), &config, 1 << 20, &mut mailboxes).unwrap();
        (folder, mailboxes, copies)
    }

    fn next_said(mailboxes: &mut [Mailbox<Letter>]) -> (ShardId, LogMail) {
        loop {
            std::thread::yield_now();
            mailboxes[0].look(1);
            let mut said = None;
            mailboxes[0].receive(|_, _, letter| said = Some(letter));
            if let Some(Letter::Kept(to, mail)) = said {
                return (to, mail);
            }
        }
    }

    #[test]
    fn a_copy_that_cannot_begin_is_said_to_have_failed() {
        let (folder, mut mailboxes, copies) = started();
        let from = ShardId(9);
        std::fs::write(path_of(folder.path(), from), "not a folder").unwrap();
        copies.way().take(0, from, LogMail::Begin { copy: 7 });
        assert_eq!(next_said(&mut mailboxes), (from, LogMail::Failed { copy: 7 }));
    }
}
