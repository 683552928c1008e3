//! The bounds of a line, and of what clients may make of lines in a second.

use super::target::{Target, plain};
use super::{BYTES_PER_SECOND_MAX, Format, Losses};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tracing::Metadata;
use tracing_appender::non_blocking::NonBlocking;
use tracing_subscriber::fmt::MakeWriter;

/// Bytes of a line; of a longer one only the length is written, whole and so in its format.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// The same at once, after a time with fewer.
const BURST_BYTES_MAX: u64 = 1024 * 1024;

/// Where lines go first.
#[derive(Clone, Debug)]
pub(super) enum Writer {
    Queue(NonBlocking),
    Direct(Arc<Target>),
}

/// Gives each line a bound before it goes anywhere.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    writer: Writer,
    format: Format,
    losses: Arc<Losses>,
    allowance: Arc<Mutex<Allowance>>,
    /// Whether this line is one that a client caused.
    is_of_client: bool,
}

impl Lines {
    pub(super) fn new(writer: Writer, format: Format, losses: Arc<Losses>) -> Self {
        let allowance = Arc::new(Mutex::new(Allowance::new(Instant::now())));
        Self { writer, format, losses, allowance, is_of_client: false }
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }

    fn make_writer_for(&self, line: &Metadata<'_>) -> Self {
        Self { is_of_client: line.target() == weir_broker::CLIENTS, ..self.clone() }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let replaced;
        let shown = if line.len() > LINE_BYTES_MAX {
            replaced = plain(self.format, &format!("a line of {} bytes is left out", line.len()));
            replaced.as_bytes()
        } else {
            line
        };
        if self.is_of_client {
            let mut allowance = self.allowance.lock().unwrap_or_else(PoisonError::into_inner);
            if !allowance.take(shown.len() as u64, Instant::now()) {
                self.losses.add_over();
                return Ok(line.len());
            }
        }
        match &mut self.writer {
            Writer::Queue(queue) => queue.write_all(shown)?,
            Writer::Direct(target) => target.write(shown)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes that may be written, and grow with the time.
#[derive(Debug)]
struct Allowance {
    bytes: u64,
    at: Instant,
}

impl Allowance {
    fn new(now: Instant) -> Self {
        Self { bytes: BURST_BYTES_MAX, at: now }
    }

    fn take(&mut self, bytes: u64, now: Instant) -> bool {
        let passed_us = now.duration_since(self.at).as_micros() as u64;
        let grown = passed_us.saturating_mul(BYTES_PER_SECOND_MAX) / 1_000_000;
        // Parts of a byte are not lost: time that gave none counts again.
        if grown > 0 {
            self.at = now;
            self.bytes = self.bytes.saturating_add(grown).min(BURST_BYTES_MAX);
        }
        let is_allowed = bytes <= self.bytes;
        self.bytes -= if is_allowed { bytes } else { 0 };
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn after_a_burst_lines_have_so_many_bytes_per_second() {
        let begun = Instant::now();
        let mut allowance = Allowance::new(begun);
        let line = 1024;
        let mut count = |at: Instant| (0..10_000).filter(|_| allowance.take(line, at)).count();
        assert_eq!(count(begun), 1024);
        assert_eq!(count(begun + Duration::from_secs(1)), 64);
        assert_eq!(count(begun + Duration::from_millis(1500)), 32);
        assert_eq!(count(begun + Duration::from_secs(3600)), 1024);
    }
}
