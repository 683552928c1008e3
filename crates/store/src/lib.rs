//! The log of one shard: what must outlive a crash, on a disk, before it is acknowledged.
//!
//! [`Log`] is a value without I/O: it takes records and says what is to be written where. What it
//! says ([`Commit`], [`Chore`], [`Read`]) is performed on a [`Disk`] by whoever has that, and told
//! back. One commit is on its way at a time; a record is safe when its commit was performed.
//!
//! At the end of a turn, a shard takes a commit and hands it to the thread that has the disk. When
//! it comes back, [`Log::committed`] says up to where answers may leave. All work goes through that
//! thread in the order in which it was taken: a read finds what was committed before it, and
//! nothing that was moved since ([`Page::Moved`]).
//!
//! The log knows kinds and bytes only; what a broker's records say is the core's to know.
//!
//! Opening a log ([`Log::open`]) does its I/O itself: nobody is served yet.

mod bytes;
mod chore;
mod commit;
pub mod disk;
mod format;
mod log;
mod lsn;
mod record;
mod segments;
mod settings;
mod walk;

pub use chore::Chore;
pub use commit::{Commit, Sync};
pub use disk::{Disk, FileName};
pub use log::{Found, Log, NotAppended, NotOpened, OnDamage, Page, Read, Scan};
pub use lsn::{CommitNumber, Lsn, SegmentNumber};
pub use record::{Body, Damage, Kind, Record};
pub use settings::Settings;
