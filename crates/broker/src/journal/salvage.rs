//! A store goes on without what is damaged: what can still be read of it is written anew, and
//! whoever asked is told what is lost.
//!
//! The numbers of records have no gaps but those of records that mean nothing. So where there is
//! damage, a gap says which records are lost, and a later record that names one of them says whose
//! message that was. If a whole base comes behind all damage, nothing is lost.

mod tolerant;

use super::generations::{Generations, file_bytes};
use super::no_store::{Damaged, NoStore};
use super::pages::{self, PagesThere};
use super::read::{Amounts, Walked, fetched, parcels_there, scan, walk};
use super::write::StoreWriter;
use std::fmt;
use std::io::ErrorKind::NotFound;
use std::io::Write;
use std::path::{Path, PathBuf};
use tolerant::Tolerant;
use weir_core::{Lsn, Rebuild, Record};
use weir_store::disk::NoFolder;
use weir_store::{Damage, SegmentNumber};

/// What a salvage did.
#[derive(Debug)]
pub struct Salvaged {
    /// Where the damaged generation is now; nothing if it stays where it was.
    pub aside: Option<PathBuf>,
    /// What is in the new one.
    pub kept: Amounts,
    /// How much was lost, in lines of the report.
    pub losses: u64,
}

/// Something that a salvage goes on without, or is not sure of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Bytes are not as they were written.
    Damaged(Damaged),
    /// All that a thread had kept.
    Log {
        /// The folder of its log.
        path: PathBuf,
        /// Why it cannot be read.
        why: String,
    },
    /// All that is damaged was logged anew behind it.
    Nothing,
    /// Records are lost: from this one on, so many if that is known.
    Records {
        /// The first of them.
        first: Lsn,
        /// How many.
        count: Option<u64>,
    },
    /// A message that is lost was for this client.
    Message {
        /// Its client identifier, if that is not lost too.
        client_id: Option<String>,
        /// The record of the message.
        lsn: Lsn,
    },
    /// A session whose client identifier is lost.
    Session {
        /// Its first record.
        lsn: Lsn,
        /// Subscriptions of it that are known.
        filters: Vec<String>,
        /// Messages that it was to get.
        messages: u64,
    },
    /// A record that means nothing without those that are lost.
    Record {
        /// The client identifier of its session, if it is one of a session.
        client_id: Option<String>,
        /// The record.
        lsn: Lsn,
        /// What is wrong with it.
        why: String,
    },
    /// A session that is kept and was there when records were lost.
    InDoubt {
        /// Its client identifier.
        client_id: String,
    },
}

impl fmt::Display for Loss {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |client_id: &Option<String>| match client_id {
            Some(client_id) => format!("client {client_id:?}"),
            None => "a client whose identifier is lost".into(),
        };
        match self {
            Self::Damaged(damaged) => damaged.fmt(out),
            Self::Log { path, why } => write!(out, "lost: all of {}: {why}", path.display()),
            Self::Nothing => out.write_str("nothing is lost by that: it was logged anew later"),
            Self::Records { first, count: Some(1) } => {
                write!(out, "lost: record {}", Shown(*first))
            }
            Self::Records { first, count: Some(count) } => {
                let last = Shown(Lsn(first.0 + count - 1));
                write!(out, "lost: records {} to {last} ({count})", Shown(*first))
            }
            Self::Records { first, count: None } => {
                write!(out, "lost: the records from {} on", Shown(*first))
            }
            Self::Message { client_id, lsn } => {
                write!(out, "lost: a message for {} (record {})", of(client_id), Shown(*lsn))
            }
            Self::Session { lsn, filters, messages } => write!(
                out,
                "lost: a session whose client identifier is lost (record {}), subscribed to \
                 {filters:?}, with {messages} messages",
                Shown(*lsn)
            ),
            Self::Record { client_id: Some(client_id), lsn, why } => {
                write!(out, "left out: record {} of client {client_id:?}: {why}", Shown(*lsn))
            }
            Self::Record { client_id: None, lsn, why } => {
                write!(out, "left out: record {}: {why}", Shown(*lsn))
            }
            Self::InDoubt { client_id } => write!(
                out,
                "in doubt: client {client_id:?} may lack messages or subscriptions, or get \
                 messages again"
            ),
        }
    }
}

/// A record's number as the log counts: starts, then records.
struct Shown(Lsn);

impl fmt::Display for Shown {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        weir_store::Lsn::from_bits(self.0.0).fmt(out)
    }
}

/// Writes a store anew without what is damaged, into `to` or as its own next generation, and tells
/// what is lost. Nothing is done if nothing is damaged.
///
/// # Errors
/// The store cannot be read, or the new one not be written.
pub fn salvage(
    root: &Path,
    to: Option<&Path>,
    mut tell: impl FnMut(&Loss),
) -> Result<Option<Salvaged>, NoStore> {
    // What is salvaged in its place is not read by others meanwhile.
    let generations = match to {
        Some(_) => Generations::open_to_read(root)?,
        None => Generations::open_to_salvage(root)?,
    };
    let (logs, missing) = generations.logs_there()?;
    let store = generations.store();
    let (mut losses, mut report) = (0, Vec::new());
    let mut lost = |loss: &Loss| {
        losses += 1;
        // To memory: it cannot fail.
        let _ = writeln!(report, "{loss}");
        tell(loss);
    };
    for (path, why) in missing {
        lost(&Loss::Log { path, why });
    }
    let (mut rebuilds, mut longest) = (Vec::new(), 0);
    for (shard, path) in &logs {
        let mut state = survey(*shard, path)?;
        rebuilds.push(match state.whole.take() {
            Some(rebuild) => rebuild,
            None => rebuild(*shard, path, &state, &mut lost)?,
        });
        longest = longest.max(file_bytes(path)?);
    }
    let pages = PagesThere::read(root, &fetched(&rebuilds))?;
    let mut logs = Vec::new();
    for rebuild in rebuilds {
        logs.push(parcels_there(&pages, rebuild, |pages| lost(&Loss::Damaged(pages)))?);
    }
    if losses == 0 && pages.damages().is_empty() {
        return Ok(None);
    }
    // No record is longer than a file, nor a file longer than this.
    let longest = u32::try_from(longest).unwrap_or(u32::MAX).min(RECORD_BYTES_MAX);
    let (mut writer, _source) = match to {
        Some(to) => (StoreWriter::take_over(to, &generations)?, Some(generations)),
        None => (StoreWriter::of(generations, longest)?, None),
    };
    let mut kept = Amounts::default();
    for parcel in logs.iter().flatten() {
        kept.add(parcel);
        writer.put(parcel)?;
    }
    // Before the logs count that go on without what is damaged of them.
    if let Some(to) = to {
        pages::copy(root, to)?;
    }
    pages::repair(to.unwrap_or(root), store)?;
    let aside = match to {
        Some(_) => writer.finish().map(|()| None)?,
        None => Some(writer.finish_aside()?),
    };
    if let Some(aside) = &aside {
        let path = aside.join(REPORT);
        std::fs::write(&path, report).map_err(NoStore::disk(&path))?;
    }
    Ok(Some(Salvaged { aside, kept, losses }))
}

/// A file beside the damaged logs that says what a salvage told.
const REPORT: &str = "salvage.txt";

/// The longest record that a file of the largest size takes, beside other fields.
const RECORD_BYTES_MAX: u32 = 1 << 29;

/// Losses that a start writes into its log; the file has all of them.
const LOGGED_MAX: u64 = 100;

/// Salvages what a broker is about to start with, if there is something.
pub(crate) fn salvage_at_start(root: &Path) -> Result<(), NoStore> {
    let mut logged = 0;
    let tell = |loss: &Loss| {
        logged += 1;
        if logged <= LOGGED_MAX {
            tracing::warn!("store: {loss}");
        }
    };
    let salvaged = match salvage(root, None, tell) {
        // There is nothing to read yet.
        Err(NoStore::NotAStore(_)) => return Ok(()),
        Err(NoStore::Folder(NoFolder::Other { error, .. })) if error.kind() == NotFound => {
            return Ok(());
        }
        salvaged => salvaged?,
    };
    if let Some(Salvaged { aside: Some(aside), losses, .. }) = salvaged {
        let (report, aside) = (aside.join(REPORT), aside.display());
        tracing::warn!(lines = losses, report = %report.display(), %aside, "the store is salvaged");
    }
    Ok(())
}

/// What is known of a log before it is salvaged.
#[derive(Debug)]
struct State {
    damages: Vec<Damage>,
    /// A record that does not fit, and why, if no bytes are damaged.
    unfit: Option<Damaged>,
    /// Where the last base begins that is whole, with its place.
    base: Option<(Lsn, (SegmentNumber, u32))>,
    /// What it amounts to, if nothing is wrong with it.
    whole: Option<Rebuild>,
}

impl State {
    /// Where a log begins that is whole, if all damage is before that.
    fn whole_from(&self) -> Option<Lsn> {
        let (base, place) = self.base?;
        let is_before = |damage: &Damage| (damage.segment, damage.offset) < place;
        (self.unfit.is_none() && self.damages.iter().all(is_before)).then_some(base)
    }
}

/// Reads a log once, to know what is damaged.
fn survey(shard: u16, path: &Path) -> Result<State, NoStore> {
    let (mut begun, mut base) = (None, None);
    let Walked { found, rebuild, unfit } = walk(shard, path, |entry| match &entry.record {
        Ok(Record::Base) => begun = Some((entry.lsn, (entry.segment, entry.offset))),
        Ok(Record::BaseEnd) => base = begun.take().or(base),
        _ => {}
    })?;
    let is_whole = found.damages.is_empty() && unfit.is_none();
    Ok(State { damages: found.damages, unfit, base, whole: is_whole.then_some(rebuild) })
}

/// What can still be read of a log that is not whole.
fn rebuild(
    shard: u16,
    path: &Path,
    state: &State,
    lost: &mut impl FnMut(&Loss),
) -> Result<Rebuild, NoStore> {
    for damage in &state.damages {
        lost(&Loss::Damaged(Damaged::new(path, damage.segment, damage.offset)));
    }
    state.unfit.iter().for_each(|damaged| lost(&Loss::Damaged(damaged.clone())));
    if let Some(base) = state.whole_from() {
        lost(&Loss::Nothing);
        let mut rebuild = Rebuild::default();
        let mut unfit = None;
        scan(shard, path, |entry| {
            if entry.lsn < base || unfit.is_some() {
                return;
            }
            if entry.is_first {
                rebuild.commit_end();
            }
            let applied = entry.record.and_then(|record| {
                rebuild.apply(entry.lsn, record).map_err(|unfit| unfit.to_string())
            });
            unfit = applied.err();
        })?;
        if unfit.is_none() {
            return Ok(rebuild);
        }
    }
    let mut tolerant = Tolerant::new(&state.damages);
    scan(shard, path, |entry| tolerant.apply(entry, lost))?;
    Ok(tolerant.finish(lost))
}

#[cfg(test)]
mod tests;
