//! The letters for another node, from when they are written until it has taken them.

use crate::frame::{BATCH_BYTES_MIN, Batch};
use std::collections::VecDeque;
use weir_core::{Mail, ShardId, Wall};

/// From so many bytes on a batch is closed; a longer letter is alone in its own. Most fit into what
/// a node reads at a time.
const BATCH_BYTES: usize = 48 * 1024;

/// Memory of batches that were taken, for the next ones: so many, of so many bytes at most.
const SPARE_MAX: usize = 8;
const SPARE_BYTES_MAX: usize = 2 * BATCH_BYTES;

/// Batches that the other node has not taken, the oldest first. Each was encoded once, and is sent
/// from here on every connection until it is acknowledged.
#[derive(Debug)]
pub(super) struct Kept {
    batches: VecDeque<Batch>,
    /// How many of them have left on this connection.
    sent: usize,
    /// The number of the next letter.
    next: u64,
    /// That of the last letter that the other node has taken.
    acknowledged: u64,
    /// That of the last letter that has left on any connection.
    last_sent: u64,
    /// Of all batches, with what each takes beside its own.
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

/// The other node says that it has taken what was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NeverSent;

impl Kept {
    pub(super) fn new() -> Self {
        Self {
            batches: VecDeque::new(),
            sent: 0,
            next: 1,
            acknowledged: 0,
            last_sent: 0,
            bytes: 0,
            spare: Vec::new(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Letters that are not acknowledged.
    pub(super) fn letters(&self) -> u64 {
        self.next - 1 - self.acknowledged
    }

    /// Whether any has left.
    pub(super) fn has_left(&self) -> bool {
        self.last_sent > 0
    }

    /// Bytes of the longest batch.
    pub(super) fn longest(&self) -> usize {
        self.batches.iter().map(Batch::bytes).max().unwrap_or(0)
    }

    /// Whether there is something to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.batches.len()
    }

    /// Takes a letter. False if a frame with it alone would be too long.
    pub(super) fn push(
        &mut self,
        way: (ShardId, ShardId),
        mail: &Mail,
        wall: Wall,
        frame_bytes_max: usize,
    ) -> bool {
        // It has at least these.
        if mail.bytes() + BATCH_BYTES_MIN > frame_bytes_max {
            return false;
        }
        if self.sent < self.batches.len()
            && let Some(open) = self.batches.back_mut()
            && open.bytes() < BATCH_BYTES
        {
            let before = open.bytes();
            if open.push(way, mail, wall, frame_bytes_max) {
                self.bytes += open.bytes() - before;
                self.next += 1;
                return true;
            }
        }
        let mut batch = Batch::new(self.spare.pop().unwrap_or_default(), self.next);
        let has_room = batch.push(way, mail, wall, frame_bytes_max);
        if has_room {
            self.bytes += weight(&batch);
            self.next += 1;
            self.batches.push_back(batch);
        } else {
            self.save(batch);
        }
        has_room
    }

    /// The next batch that is to leave, and how many of its letters have left before.
    pub(super) fn send(&mut self, taken: u64) -> Option<(&[u8], u64)> {
        let batch = self.batches.get_mut(self.sent)?;
        self.sent += 1;
        let again = (self.last_sent + 1).saturating_sub(batch.first());
        let again = again.min(u64::from(batch.letters()));
        self.last_sent = self.last_sent.max(batch.end() - 1);
        Some((batch.seal(taken), again))
    }

    /// The other node has taken letters up to this number.
    pub(super) fn acknowledge(&mut self, number: u64) -> Result<(), NeverSent> {
        if number > self.last_sent {
            return Err(NeverSent);
        }
        self.acknowledged = self.acknowledged.max(number);
        while let Some(batch) = self.batches.pop_front_if(|batch| batch.end() <= number + 1) {
            self.sent = self.sent.saturating_sub(1);
            self.bytes -= weight(&batch);
            self.save(batch);
        }
        Ok(())
    }

    /// There is a new connection: what is kept is sent again.
    pub(super) fn rewind(&mut self) {
        self.sent = 0;
    }

    /// Drops all of it, and begins to count anew. Says how many letters were not acknowledged.
    pub(super) fn clear(&mut self) -> u64 {
        let lost = self.letters();
        *self = Self { spare: std::mem::take(&mut self.spare), ..Self::new() };
        lost
    }

    fn save(&mut self, batch: Batch) {
        let bytes = batch.into_bytes();
        if self.spare.len() < SPARE_MAX && bytes.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(bytes);
        }
    }
}

/// What a batch counts against the window.
fn weight(batch: &Batch) -> usize {
    batch.bytes() + size_of::<Batch>()
}
