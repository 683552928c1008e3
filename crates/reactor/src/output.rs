//! What a connection has to send: bytes of its own, and between them long pieces that many
//! connections share and none copies.

use rustix::io::IoSlice;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// A long piece of output, such as the payload that many subscribers get.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Slices that one call takes; what does not fit goes with the next.
pub(crate) const SLICES_MAX: usize = 16;

/// Output buffers kept for reuse, and the largest that is kept.
const POOL_BUFFERS_MAX: usize = 4096;
const POOL_BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Memory of an output that is kept however little of it was used.
const KEPT_BYTES: usize = 4 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Output {
    own: Vec<u8>,
    shared: Option<Box<Shared>>,
    /// Bytes of `own` already sent.
    sent: u32,
    /// Of all shared pieces there were since it was last empty.
    shared_bytes: usize,
}

#[derive(Debug, Default)]
struct Shared {
    pieces: VecDeque<Piece>,
    /// Not sent, of all pieces.
    bytes: usize,
}

struct Piece {
    /// It stands before the byte of `own` with this number.
    at: usize,
    bytes: SharedBytes,
    sent: usize,
}

impl Piece {
    fn rest(&self) -> &[u8] {
        &(*self.bytes).as_ref()[self.sent..]
    }
}

impl fmt::Debug for Piece {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes at {}", self.rest().len(), self.at)
    }
}

/// Empty outputs, whose memory serves the next connection that has something to send.
#[derive(Debug, Default)]
pub(crate) struct Pool(
    #[expect(clippy::vec_box, reason = "an output never moves")] Vec<Box<Output>>,
);

impl Pool {
    #[inline]
    pub(crate) fn take(&mut self) -> Box<Output> {
        self.0.pop().unwrap_or_default()
    }

    /// All of it has been sent.
    #[inline(always)]
    pub(crate) fn put_back(&mut self, mut output: Box<Output>) {
        if output.is_worth_keeping(POOL_BUFFER_BYTES_MAX) && self.0.len() < POOL_BUFFERS_MAX {
            output.clear();
            self.0.push(output);
        }
    }
}

impl Output {
    /// Bytes that are not sent.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        let shared = self.shared.as_ref().map_or(0, |shared| shared.bytes);
        self.own.len() - self.sent as usize + shared
    }

    /// Appends.
    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.own.extend_from_slice(bytes);
    }

    /// Where to append.
    pub(crate) fn own(&mut self) -> &mut Vec<u8> {
        &mut self.own
    }

    /// Appends without a copy.
    pub(crate) fn push_shared(&mut self, bytes: SharedBytes) {
        let shared = self.shared.get_or_insert_default();
        let count = (*bytes).as_ref().len();
        shared.bytes += count;
        self.shared_bytes += count;
        shared.pieces.push_back(Piece { at: self.own.len(), bytes, sent: 0 });
    }

    /// What is to be sent if it is one slice.
    #[inline]
    pub(crate) fn as_one(&self) -> Option<&[u8]> {
        self.shared.is_none().then(|| &self.own[self.sent as usize..])
    }

    /// What is to be sent next, in up to [`SLICES_MAX`] slices; says how many.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut count = 0;
        let mut put = |slice: &'a [u8]| {
            if !slice.is_empty() && count < SLICES_MAX {
                slices[count] = IoSlice::new(slice);
                count += 1;
            }
        };
        let mut at = self.sent as usize;
        for piece in self.shared.iter().flat_map(|shared| &shared.pieces).take(SLICES_MAX) {
            put(&self.own[at..piece.at]);
            put(piece.rest());
            at = piece.at;
        }
        let is_last = self.shared.as_ref().is_none_or(|shared| shared.pieces.len() <= SLICES_MAX);
        if is_last {
            put(&self.own[at..]);
        }
        count
    }

    /// Copies what is to be sent next, at most [`SLICES_MAX`] slices and `bytes_max` bytes of it.
    pub(crate) fn copy_next(&self, bytes_max: usize, to: &mut Vec<u8>) {
        let mut slices = std::array::from_fn(|_| IoSlice::new(&[]));
        let count = self.slices(&mut slices);
        for slice in &slices[..count] {
            let room = bytes_max - to.len();
            to.extend_from_slice(&slice[..slice.len().min(room)]);
        }
    }

    /// So many bytes of what is to be sent next were sent.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: usize) {
        match &self.shared {
            None => self.sent += bytes as u32,
            Some(_) => self.advance_shared(bytes),
        }
    }

    fn advance_shared(&mut self, mut bytes: usize) {
        while let Some(shared) = &mut self.shared {
            let Some(piece) = shared.pieces.front_mut() else { break };
            let own = bytes.min(piece.at - self.sent as usize);
            self.sent += own as u32;
            bytes -= own;
            let of_piece = bytes.min(piece.rest().len());
            piece.sent += of_piece;
            shared.bytes -= of_piece;
            bytes -= of_piece;
            if self.sent as usize != piece.at || !piece.rest().is_empty() {
                return;
            }
            shared.pieces.pop_front();
            if shared.pieces.is_empty() {
                self.shared = None;
            }
        }
        self.sent += bytes as u32;
    }

    /// Frees the sent part of a long output, so that a slow peer costs what it has not read.
    pub(crate) fn drop_sent_prefix(&mut self) {
        let sent = self.sent as usize;
        if sent > self.own.len() / 2 {
            self.own.drain(..sent);
            self.sent = 0;
            for piece in self.shared.iter_mut().flat_map(|shared| &mut shared.pieces) {
                piece.at -= sent;
            }
        }
    }

    /// Copies the shared pieces, for who can send only one slice.
    pub(crate) fn make_one(&mut self) {
        let mut own = Vec::with_capacity(self.pending());
        let mut at = self.sent as usize;
        for piece in self.shared.take().into_iter().flat_map(|shared| shared.pieces) {
            own.extend_from_slice(&self.own[at..piece.at]);
            own.extend_from_slice(piece.rest());
            at = piece.at;
        }
        own.extend_from_slice(&self.own[at..]);
        *self = Self { own, ..Self::default() };
    }

    /// Whether it ever had so many bytes since it was last empty, sent ones included. Those of
    /// its own that were freed do not count.
    pub(crate) fn was_long(&self, bytes: usize) -> bool {
        self.own.len() + self.shared_bytes >= bytes
    }

    /// Whether its memory, once all is sent, is worth keeping for others: it has no more than
    /// `bytes_max`, and it was not one rare moment that made it as large as it is.
    fn is_worth_keeping(&self, bytes_max: usize) -> bool {
        let capacity = self.own.capacity();
        capacity <= bytes_max && (capacity <= KEPT_BYTES || self.own.len() >= capacity / 8)
    }

    /// Makes it empty; it keeps its memory.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.own.clear();
        (self.sent, self.shared_bytes) = (0, 0);
        self.shared = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(output: &Output) -> Vec<u8> {
        let mut slices = std::array::from_fn(|_| IoSlice::new(&[]));
        let count = output.slices(&mut slices);
        slices[..count].iter().flat_map(|slice| slice.to_vec()).collect()
    }

    /// Own and shared parts in turn, with what all of it is.
    fn mixed(parts: usize) -> (Output, Vec<u8>) {
        let (mut output, mut all) = (Output::default(), Vec::new());
        for part in 0..parts {
            let own = vec![part as u8; part % 3];
            output.push(&own);
            all.extend(own);
            let shared = vec![100 + part as u8; 5];
            all.extend(&shared);
            output.push_shared(Arc::new(shared));
        }
        output.push(b"end");
        all.extend(b"end");
        (output, all)
    }

    #[test]
    fn memory_that_a_rare_moment_took_is_not_kept() {
        let mut output = Output::default();
        output.push(&[0; 20_000]);
        assert!(output.is_worth_keeping(64_000));
        assert!(!output.is_worth_keeping(10_000), "too large for anybody");
        output.clear();
        output.push(&[0; 1_000]);
        assert!(!output.is_worth_keeping(64_000), "a twentieth of it is used");
        let mut small = Output::default();
        small.push(&[0; 4_000]);
        small.clear();
        assert!(small.is_worth_keeping(64_000));
    }

    #[test]
    fn whatever_each_call_takes_the_bytes_come_in_order() {
        for step in 1..40 {
            for parts in 0..20 {
                let (mut output, all) = mixed(parts);
                let mut sent: Vec<u8> = Vec::new();
                while output.pending() > 0 {
                    assert_eq!(output.pending(), all.len() - sent.len());
                    let next = next(&output);
                    let taken = next.len().min(step);
                    sent.extend(&next[..taken]);
                    output.advance(taken);
                    output.drop_sent_prefix();
                }
                assert_eq!(sent, all, "{step} at a time, {parts} parts");
            }
        }
    }

    #[test]
    fn made_one_it_is_the_same_bytes() {
        let (mut output, all) = mixed(7);
        output.advance(9);
        output.make_one();
        assert_eq!(output.as_one(), Some(&all[9..]));
    }
}
