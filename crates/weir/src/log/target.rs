//! What lines are written to in the end, and what is said there of those that got lost.

use super::{BYTES_PER_SECOND_MAX, Format, Losses};
use anyhow::Context as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// Between two lines that say how many got lost.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Standard error or a file.
#[derive(Debug)]
pub(super) enum Target {
    Stderr,
    File { path: PathBuf, file: Mutex<File>, format: Format, reopen: Arc<AtomicBool> },
}

impl Target {
    pub(super) fn open(
        path: Option<&Path>,
        format: Format,
        reopen: Arc<AtomicBool>,
    ) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::Stderr) };
        let file =
            append(path).with_context(|| format!("cannot open the log file {}", path.display()))?;
        Ok(Self::File { path: path.into(), file: file.into(), format, reopen })
    }

    /// Writes a whole line.
    pub(super) fn write(&self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().write_all(line),
            Self::File { path, file, format, reopen } => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                if reopen.swap(false, Ordering::AcqRel) {
                    match append(path) {
                        Ok(anew) => *file = anew,
                        Err(error) => {
                            let text = format!(
                                "cannot open the log file {} again: {error}; going on with the \
                                 one that was open",
                                path.display()
                            );
                            file.write_all(plain(*format, &text).as_bytes())?;
                        }
                    }
                }
                file.write_all(line)
            }
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// The writer on the log's thread, which says how many lines got lost since it last did.
pub(super) struct Teller {
    target: Target,
    format: Format,
    losses: Arc<Losses>,
    /// How many were told of, by cause.
    told: [u64; 2],
    told_at: Option<Instant>,
}

impl Teller {
    pub(super) fn new(target: Target, format: Format, losses: Arc<Losses>) -> Self {
        Self { target, format, losses, told: [0; 2], told_at: None }
    }

    fn tell_lost(&mut self) -> io::Result<()> {
        let lost = [self.losses.untaken(), self.losses.over()];
        let [untaken, over] = [lost[0] - self.told[0], lost[1] - self.told[1]];
        if untaken > 0 {
            self.tell(&format!("{untaken} lines of the log were lost: nobody took them"))?;
        }
        if over > 0 {
            let bytes_max = BYTES_PER_SECOND_MAX;
            self.tell(&format!(
                "{over} lines of the log were lost: clients caused more than {bytes_max} bytes \
                 per second"
            ))?;
        }
        self.told = lost;
        Ok(())
    }

    fn tell(&self, text: &str) -> io::Result<()> {
        self.target.write(plain(self.format, text).as_bytes())
    }
}

impl Write for Teller {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let told = if self.told_at.is_none_or(|at| at.elapsed() >= TOLD_EVERY) {
            self.told_at = Some(Instant::now());
            self.tell_lost()
        } else {
            Ok(())
        };
        if told.and_then(|()| self.target.write(line)).is_err() {
            self.losses.add_unwritten();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let _ = self.tell_lost();
    }
}

/// A line that `tracing` did not make.
pub(super) fn plain(format: Format, text: &str) -> String {
    let mut time = String::new();
    // Without a clock a line has no time.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    match format {
        Format::Text => format!("{time}  WARN weir::log: {text}\n"),
        Format::Json => {
            let line = serde_json::json!({
                "timestamp": time,
                "level": "WARN",
                "message": text,
                "target": "weir::log",
            });
            format!("{line}\n")
        }
    }
}
