//! The thread that has a shard's disk. All work goes through it in the order in which it was given.

use super::room::Room;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use weir_core::ShardId;
use weir_reactor::{Mailbox, Outside, outside};
use weir_store::disk::Folder;
use weir_store::{Chore, Commit, Sync};

/// Letters on their way to a shard: a commit, a sync, a chore, a look and a failure at most.
const LETTERS_MAX: usize = 8;

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Work {
    Commit(Commit),
    Sync(Sync),
    Chore(Chore),
    /// To see how much room there is.
    Look,
}

/// What was done.
#[derive(Debug)]
pub(crate) enum Flushed {
    Commit(Commit),
    Sync(Sync),
    Chore(Chore),
    Looked,
    /// The disk has failed. Nothing is known of it any more, and nothing more is done.
    Failed(io::Error),
}

/// The shard's end: the thread ends with it, once it has done what it was given.
#[derive(Debug)]
pub(crate) struct Flusher {
    works: Option<Sender<Work>>,
    thread: Option<JoinHandle<()>>,
    room: Arc<Room>,
}

impl Flusher {
    /// A thread for the disk of a shard, which it answers by letters to its mailbox.
    ///
    /// # Errors
    /// What the system says of a thread and two open files.
    pub(crate) fn start<T: From<Flushed> + Send + 'static>(
        shard: ShardId,
        folder: Folder,
        room: Arc<Room>,
        mailbox: &mut Mailbox<T>,
    ) -> io::Result<Self> {
        let (works, given) = channel();
        let (back, _) = outside::<T, ()>(std::slice::from_mut(mailbox), LETTERS_MAX)?;
        let name = format!("flusher-{}", shard.0);
        let looked_at = Arc::clone(&room);
        let run = move || run(folder, &looked_at, &given, back);
        let thread = std::thread::Builder::new().name(name).spawn(run)?;
        Ok(Self { works: Some(works), thread: Some(thread), room })
    }

    /// What the file system has free.
    pub(super) fn room(&self) -> &Room {
        &self.room
    }

    /// To be done behind all that was given before.
    pub(crate) fn give(&self, work: Work) {
        if let Some(works) = &self.works {
            // A thread that has ended has said so.
            let _ = works.send(work);
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.works = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run<T: From<Flushed>>(
    mut disk: Folder,
    room: &Room,
    given: &Receiver<Work>,
    mut back: Outside<T, ()>,
) {
    while let Ok(work) = given.recv() {
        let flushed = perform(work, &mut disk, room);
        let is_over = matches!(flushed, Flushed::Failed(_));
        // There is always room: a shard waits for what it has given.
        if back.send(0, flushed.into()).is_err() || is_over {
            return;
        }
    }
}

fn perform(work: Work, disk: &mut Folder, room: &Room) -> Flushed {
    let flushed = match work {
        Work::Commit(commit) => commit.perform(disk).map(|()| Flushed::Commit(commit)),
        Work::Sync(sync) => sync.perform(disk).map(|()| Flushed::Sync(sync)),
        Work::Chore(mut chore) => chore.perform(disk).map(|()| {
            // Only chores make and remove files.
            room.look();
            Flushed::Chore(chore)
        }),
        Work::Look => {
            room.look();
            Ok(Flushed::Looked)
        }
    };
    flushed.unwrap_or_else(Flushed::Failed)
}
