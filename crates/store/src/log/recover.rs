//! Opening a log: what is there is checked and told, the last segment is written anew, and an empty
//! one begun.

mod anew;
mod content;

use super::Log;
use super::chores::Chores;
use crate::chore::make_spare;
use crate::commit::Opening;
use crate::disk::{Disk, FileName};
use crate::format::header::{COPY_AT, HEADER_AT, Header, NoHeader, VERSION};
use crate::format::{SECTOR, Salt};
use crate::record::{Damage, Record};
use crate::segments::{Segment, Segments};
use crate::{CommitNumber, Lsn, SegmentNumber, Settings};
use anew::ANEW;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use weir_chance::Chance;

/// Why a log was not opened.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    /// The disk failed, or has no space for the segment that a start begins.
    #[error("{0}")]
    Disk(#[from] io::Error),
    /// What was acknowledged is damaged.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A later version of the program wrote it.
    #[error(
        "segment {segment} has format {version}, and this program knows format {VERSION} only; it \
         takes the version of Weir that wrote it, or a later one"
    )]
    NewerFormat {
        /// Where it was seen.
        segment: SegmentNumber,
        /// What it says.
        version: u32,
    },
    /// It is another shard's.
    #[error("segment {segment} is of shard {found}, and this is the log of shard {wanted}")]
    OtherShard {
        /// Where it was seen.
        segment: SegmentNumber,
        /// What it says.
        found: u16,
        /// Whose log was to be opened.
        wanted: u16,
    },
    /// The broker was started too often for the numbers that there are.
    #[error("the log has been opened {} times, and cannot be once more", Lsn::START_MAX)]
    StartsUsedUp,
}

/// What to do about damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// The log is not opened.
    #[default]
    Refuse,
    /// The log is opened without what is damaged.
    Salvage,
}

/// How much of a segment is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scan {
    /// Footers, where there are some: tails are not told of, and not checked.
    #[default]
    Heads,
    /// Every record.
    Records,
}

/// What opening a log has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Segments.
    pub segments: usize,
    /// Records that were told of.
    pub records: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes of the records that were found whole of a commit that was not.
    pub cut_bytes: u64,
    /// What was left out: with [`OnDamage::Salvage`] only.
    pub damages: Vec<Damage>,
}

impl Log {
    /// Opens the log on a disk, or begins one. Tells of each record that is there, in order: of the
    /// lowest number first. Afterwards the caller says by [`Log::adopt`] what is referred to.
    /// All that was told is safe when this returns.
    pub fn open(
        disk: &mut impl Disk,
        settings: Settings,
        on_damage: OnDamage,
        scan: Scan,
        tell: impl FnMut(&Record<'_>),
    ) -> Result<(Self, Found), NotOpened> {
        settings.check();
        let chance = Chance::new(settings.seed);
        let segments = Segments::new(settings.seed);
        let (found, buffer) = (Found::default(), Vec::new());
        let mut opening =
            Opener { disk, settings, on_damage, scan, tell, chance, segments, found, buffer };
        let files = opening.tidy()?;
        let headers = opening.headers(&files.segments)?;
        opening.set_aside(&files.segments, &headers)?;
        let commit = opening.segments(&headers)?;
        opening.begin(&headers, commit, files)
    }

    /// The numbers of the stores that the files in a folder were made for, as far as they say so.
    pub fn stores(disk: &mut impl Disk) -> io::Result<BTreeSet<u64>> {
        let mut stores = BTreeSet::new();
        for (name, _) in disk.list()? {
            let FileName::Segment(_) = name else { continue };
            for offset in [HEADER_AT, COPY_AT] {
                let mut sector = [0; SECTOR];
                disk.read_at(name, offset, &mut sector)?;
                stores.extend(Header::decode(&sector).map(|header| header.store));
            }
        }
        Ok(stores)
    }

    /// Reads a log that is not to be opened, and changes nothing: what a check does.
    pub fn scan(
        disk: &mut impl Disk,
        shard: u16,
        on_damage: OnDamage,
        tell: impl FnMut(&Record<'_>),
    ) -> Result<Found, NotOpened> {
        let settings = Settings { shard, ..Settings::default() };
        let (chance, segments) = (Chance::new(0), Segments::new(0));
        let (scan, found, buffer) = (Scan::Records, Found::default(), Vec::new());
        let mut opening =
            Opener { disk, settings, on_damage, scan, tell, chance, segments, found, buffer };
        let files = opening.disk.list()?;
        let headers = opening.headers(&files)?;
        for at in 0..headers.len() {
            let content = opening.segment(&headers[at], at + 1 == headers.len())?;
            opening.buffer = content.bytes;
        }
        Ok(opening.found)
    }
}

struct Opener<'a, D, T> {
    disk: &'a mut D,
    settings: Settings,
    on_damage: OnDamage,
    scan: Scan,
    tell: T,
    chance: Chance,
    segments: Segments,
    found: Found,
    /// What the last segment was read into: the next one is, too.
    buffer: Vec<u8>,
}

/// The files of a log.
#[derive(Default)]
struct Files {
    segments: Vec<(FileName, u64)>,
    spares: VecDeque<u64>,
    /// A name that no spare has.
    next_file: u64,
    /// The last segment that there ever was.
    last: SegmentNumber,
}

/// A segment whose header was read.
struct Known {
    header: Header,
    file_bytes: u64,
}

/// What was read of a segment.
struct Content {
    /// The file, or as much of it as is of use.
    bytes: Vec<u8>,
    segment: Segment,
}

impl<D: Disk, T: FnMut(&Record<'_>)> Opener<'_, D, T> {
    /// Removes what was not finished, and says what else there is.
    fn tidy(&mut self) -> Result<Files, NotOpened> {
        let mut files = Files { next_file: ANEW + 1, ..Files::default() };
        for (name, bytes) in self.disk.list()? {
            let is_whole = bytes == u64::from(self.settings.segment_bytes);
            match name {
                FileName::Segment(number) => {
                    files.last = files.last.max(number);
                    files.segments.push((name, bytes));
                }
                FileName::Damaged(number) => files.last = files.last.max(number),
                FileName::Spare(number)
                    if is_whole && files.spares.len() < self.settings.spares =>
                {
                    files.spares.push_back(number);
                }
                FileName::Spare(_) | FileName::Unfinished(_) => self.disk.remove(name)?,
            }
            if let FileName::Spare(number) | FileName::Unfinished(number) = name {
                files.next_file = files.next_file.max(number + 1);
            }
        }
        Ok(files)
    }

    /// The segments in order, without those that others cover.
    fn headers(&mut self, files: &[(FileName, u64)]) -> Result<Vec<Known>, NotOpened> {
        let mut all = Vec::new();
        for &(name, file_bytes) in files {
            let FileName::Segment(number) = name else { continue };
            match self.header(number)? {
                Some(header) => all.push(Known { header, file_bytes }),
                None => self.damaged(number, HEADER_AT as u32)?,
            }
        }
        all.sort_by_key(|known| known.header.number);
        let mut covered = SegmentNumber(0);
        all.retain(|known| {
            let is_new = known.header.number > covered;
            covered = covered.max(known.header.covers);
            is_new
        });
        Ok(all)
    }

    /// What a segment was merged from goes before anything else: it would outlive that segment. A
    /// file that cannot be read gets a name that no start looks at.
    fn set_aside(&mut self, files: &[(FileName, u64)], headers: &[Known]) -> Result<(), NotOpened> {
        let mut count = 0;
        for &(name, _) in files {
            let FileName::Segment(number) = name else { continue };
            if headers.iter().any(|known| known.header.number == number) {
                continue;
            }
            if self.found.damages.iter().any(|damage| damage.segment == number) {
                self.disk.rename(name, FileName::Damaged(number))?;
            } else {
                self.disk.remove(name)?;
            }
            count += 1;
        }
        if count > 0 { Ok(self.disk.sync_folder()?) } else { Ok(()) }
    }

    fn header(&mut self, number: SegmentNumber) -> Result<Option<Header>, NotOpened> {
        for offset in [HEADER_AT, COPY_AT] {
            let mut sector = [0; SECTOR];
            self.disk.read_at(FileName::Segment(number), offset, &mut sector)?;
            match Header::decode(&sector) {
                Ok(header) if header.number == number => {
                    let (found, wanted) = (header.shard, self.settings.shard);
                    if found != wanted {
                        return Err(NotOpened::OtherShard { segment: number, found, wanted });
                    }
                    return Ok(Some(header));
                }
                Err(NoHeader::Newer(version)) => {
                    return Err(NotOpened::NewerFormat { segment: number, version });
                }
                Ok(_) | Err(NoHeader::Bad) => {}
            }
        }
        Ok(None)
    }

    fn damaged(&mut self, segment: SegmentNumber, offset: u32) -> Result<(), Damage> {
        let damage = Damage { segment, offset };
        self.found.damages.push(damage);
        if self.on_damage == OnDamage::Refuse { Err(damage) } else { Ok(()) }
    }

    /// Reads all segments, and writes the last one anew. Returns the last commit.
    fn segments(&mut self, headers: &[Known]) -> Result<CommitNumber, NotOpened> {
        let mut commit = CommitNumber(0);
        for (at, known) in headers.iter().enumerate() {
            let is_tail = at + 1 == headers.len();
            let damages = self.found.damages.len();
            let mut content = self.segment(known, is_tail)?;
            commit = commit.max(content.segment.last_commit);
            let is_hurt = self.found.damages.len() > damages;
            if is_tail || is_hurt {
                self.write_anew(&known.header, &mut content)?;
            }
            self.buffer = content.bytes;
            let number = content.segment.number;
            let tombs = std::mem::take(&mut content.segment.found_tombs);
            self.segments.push(content.segment);
            tombs.into_iter().for_each(|since| self.segments.bury(number, since));
        }
        Ok(commit)
    }

    /// Begins an empty segment with numbers that were never given.
    fn begin(
        mut self,
        headers: &[Known],
        last_commit: CommitNumber,
        mut files: Files,
    ) -> Result<(Log, Found), NotOpened> {
        let covered = headers.last().map_or(SegmentNumber(0), |known| known.header.covers);
        let start_of = |known: &Known| known.header.first_lsn.start();
        // Each segment whose header is lost may have been the first of a start.
        let is_lost = |damage: &&Damage| u64::from(damage.offset) == HEADER_AT;
        let lost = self.found.damages.iter().filter(is_lost).count() as u32;
        let start = headers.iter().map(start_of).max().unwrap_or(0) + 1 + lost;
        if start > Lsn::START_MAX {
            return Err(NotOpened::StartsUsedUp);
        }
        let spare = match files.spares.pop_front() {
            Some(spare) => spare,
            None => {
                files.next_file += 1;
                make_spare(self.disk, files.next_file - 1, self.settings.segment_bytes)?;
                files.next_file - 1
            }
        };
        let number = covered.max(files.last).next();
        let header = Header {
            shard: self.settings.shard,
            is_synced: self.settings.is_synced,
            number,
            covers: number,
            salt: Salt::new(self.chance.bits()),
            first_lsn: Lsn::new(start, 1),
            first_commit: last_commit.next(),
            generation: 0,
            commit_align: self.settings.commit_align,
            store: self.settings.store,
            file_bytes: self.settings.segment_bytes,
        };
        Opening { sealed: None, spare, header: header.encode() }.perform(self.disk, number)?;
        self.segments.push(Segment::new(&header, self.settings.segment_bytes.into()));
        let chores = Chores::new(files.spares, files.next_file);
        let next = header.first_commit;
        let log = Log::new(self.settings, self.segments, chores, self.chance, next);
        Ok((log, self.found))
    }
}
