//! The engines, each behind one call: messages inserted, messages deleted, and a sync.

use fjall::PersistMode;
use heed::types::Bytes;
use okaywal::{LogVoid, WriteAheadLog};
use redb::TableDefinition;
use std::collections::VecDeque;
use std::error::Error;
use std::path::Path;
use weir_store::disk::Folder;
use weir_store::{Body, Log, Lsn, OnDamage, Scan, Settings};

/// Session and number of a message.
pub(crate) type Key = [u8; 12];

type Done = Result<(), Box<dyn Error>>;
type Opened = Result<Box<dyn Engine>, Box<dyn Error>>;

/// Something that keeps messages.
pub(crate) trait Engine {
    /// Inserts each of `inserted` with `value` and deletes each of `deleted`. What it returns of is
    /// on the disk.
    fn commit(&mut self, inserted: &[Key], value: &[u8], deleted: &[Key]) -> Done;
}

/// All of them, and how each is opened in an empty folder.
pub(crate) const ALL: [(&str, fn(&Path) -> Opened); 5] = [
    ("weir-store", own),
    ("okaywal", wal),
    ("fjall", fjall),
    ("heed (LMDB)", heed),
    ("redb", redb),
];

const MESSAGE: u8 = 1;
const DONE: u8 = 2;

/// The log of the broker.
struct Own {
    disk: Folder,
    log: Log,
    /// Messages that wait, the oldest first: here they are deleted in this order.
    waiting: VecDeque<Lsn>,
}

fn own(path: &Path) -> Opened {
    let mut disk = Folder::open(&path.join("log"))?;
    let settings = Settings::default();
    let (log, _) = Log::open(&mut disk, settings, OnDamage::Refuse, Scan::Heads, |_| {})?;
    Ok(Box::new(Own { disk, log, waiting: VecDeque::new() }))
}

impl Engine for Own {
    fn commit(&mut self, inserted: &[Key], value: &[u8], deleted: &[Key]) -> Done {
        for key in inserted {
            let body = Body { head: key, tail: value };
            self.waiting.push_back(self.log.append(MESSAGE, body, 1)?);
        }
        for key in deleted {
            let lsn = self.waiting.pop_front().ok_or("nothing waits")?;
            self.log.append_tombstone(DONE, lsn, Body { head: key, tail: &[] })?;
            self.log.release(lsn);
        }
        loop {
            if let Some(commit) = self.log.take_commit() {
                commit.perform(&mut self.disk)?;
                self.log.committed(commit);
            } else if let Some(mut chore) = self.log.take_chore() {
                chore.perform(&mut self.disk)?;
                let oldest = self.waiting.front().copied();
                let waits = |kind, lsn| kind == MESSAGE && oldest.is_some_and(|of| lsn >= of);
                self.log.chore_done(chore, |record| waits(record.kind, record.lsn))?;
            } else {
                return Ok(());
            }
        }
    }
}

/// A write-ahead log. It forgets at its checkpoints what a broker would have to write once more, so
/// it is shown as cheaper than it would be.
struct Wal(WriteAheadLog);

fn wal(path: &Path) -> Opened {
    Ok(Box::new(Wal(WriteAheadLog::recover(path.join("log"), LogVoid)?)))
}

impl Engine for Wal {
    fn commit(&mut self, inserted: &[Key], value: &[u8], deleted: &[Key]) -> Done {
        let mut entry = self.0.begin_entry()?;
        let mut record = Vec::with_capacity(value.len() + 12);
        for key in inserted {
            record.clear();
            record.extend_from_slice(key);
            record.extend_from_slice(value);
            entry.write_chunk(&record)?;
        }
        for key in deleted {
            entry.write_chunk(key)?;
        }
        entry.commit()?;
        Ok(())
    }
}

/// A log-structured merge tree.
struct Fjall {
    database: fjall::Database,
    messages: fjall::Keyspace,
}

fn fjall(path: &Path) -> Opened {
    let database = fjall::Database::builder(path.join("tree")).open()?;
    let messages = database.keyspace("messages", fjall::KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { database, messages }))
}

impl Engine for Fjall {
    fn commit(&mut self, inserted: &[Key], value: &[u8], deleted: &[Key]) -> Done {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for key in inserted {
            batch.insert(&self.messages, *key, value);
        }
        for key in deleted {
            batch.remove(&self.messages, *key);
        }
        Ok(batch.commit()?)
    }
}

/// A copy-on-write B+ tree in C, mapped into memory.
struct Heed {
    environment: heed::Env,
    messages: heed::Database<Bytes, Bytes>,
}

fn heed(path: &Path) -> Opened {
    let mut options = heed::EnvOpenOptions::new();
    options.map_size(1 << 30);
    // SAFETY: nobody else has the folder, and nobody changes its files while they are mapped.
    let environment = unsafe { options.open(path)? };
    let mut write = environment.write_txn()?;
    let messages = environment.create_database(&mut write, None)?;
    write.commit()?;
    Ok(Box::new(Heed { environment, messages }))
}

impl Engine for Heed {
    fn commit(&mut self, inserted: &[Key], value: &[u8], deleted: &[Key]) -> Done {
        let mut write = self.environment.write_txn()?;
        for key in inserted {
            self.messages.put(&mut write, key, value)?;
        }
        for key in deleted {
            self.messages.delete(&mut write, key)?;
        }
        Ok(write.commit()?)
    }
}

/// A copy-on-write B+ tree in Rust.
struct Redb(redb::Database);

const MESSAGES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("messages");

fn redb(path: &Path) -> Opened {
    Ok(Box::new(Redb(redb::Database::create(path.join("tree.redb"))?)))
}

impl Engine for Redb {
    fn commit(&mut self, inserted: &[Key], value: &[u8], deleted: &[Key]) -> Done {
        let write = self.0.begin_write()?;
        {
            let mut messages = write.open_table(MESSAGES)?;
            for key in inserted {
                messages.insert(&key[..], value)?;
            }
            for key in deleted {
                messages.remove(&key[..])?;
            }
        }
        Ok(write.commit()?)
    }
}
