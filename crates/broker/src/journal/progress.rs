//! How far a start has come: a line of the log each second, for starts that take longer.

use super::generations::file_bytes;
use super::no_store::NoStore;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a line is written.
const EVERY: Duration = Duration::from_secs(1);

/// After so many records the clock is looked at.
const RECORDS: u64 = 4_096;

#[derive(Debug)]
pub(super) struct Progress {
    bytes: u64,
    bytes_read: u64,
    records: u64,
    begun: Instant,
    said: Instant,
}

impl Progress {
    /// Of a start that reads these logs.
    pub(super) fn of(logs: &[(u16, PathBuf)]) -> Result<Self, NoStore> {
        let mut bytes = 0;
        for (_, path) in logs {
            bytes += file_bytes(path)?;
        }
        let now = Instant::now();
        Ok(Self { bytes, bytes_read: 0, records: 0, begun: now, said: now })
    }

    /// A record was read.
    #[inline]
    pub(super) fn record(&mut self, bytes: u32) {
        self.bytes_read += u64::from(bytes);
        self.records += 1;
        if self.records.is_multiple_of(RECORDS) && self.is_due() {
            // Files have room behind their records, so this is no more than a bound.
            let megabytes = (self.bytes_read >> 20, self.bytes >> 20);
            tracing::info!(
                records = self.records,
                "the store is read: {} of at most {} MiB",
                megabytes.0,
                megabytes.1
            );
        }
    }

    /// So many parcels are written anew.
    pub(super) fn written(&mut self, parcels: usize, all: usize) {
        if self.is_due() {
            tracing::info!("the store is written anew: {parcels} of {all} parcels");
        }
    }

    pub(super) fn records(&self) -> u64 {
        self.records
    }

    pub(super) fn took(&self) -> Duration {
        self.begun.elapsed()
    }

    fn is_due(&mut self) -> bool {
        let is_due = self.said.elapsed() >= EVERY;
        if is_due {
            self.said = Instant::now();
        }
        is_due
    }
}
