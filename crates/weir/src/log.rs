//! Where the log goes: standard error or a file, as text or JSON, without ever holding up or
//! ending the program.
//!
//! The broker's lines go through a bounded queue to a thread of their own, so that a full disk, a
//! pipe that nobody reads or one that is closed costs lines and nothing else. What got lost is said
//! as soon as a line can be written again.

use anyhow::Context as _;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait to be written; a line that finds no room is dropped and counted.
const QUEUE_LINES_MAX: usize = 1024;

/// Bytes of a line; of a longer one only the length is written, whole and so in its format.
const LINE_BYTES_MAX: usize = 16 * 1024;

/// How long the end of the program waits for the last lines.
const END_MAX: Duration = Duration::from_millis(300);

/// Options of the log, the same for all commands.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogArgs {
    /// What is logged, of the least severe: error, warn, info, debug or trace, or directives such
    /// as weir_broker=debug; instead of the variable WEIR_LOG
    #[arg(long, global = true, value_name = "LEVEL", value_parser = level)]
    log_level: Option<String>,
    /// Append the log to a file instead of writing it to standard error; the broker opens it again
    /// at SIGHUP
    #[arg(long, global = true, value_name = "FILE")]
    log_file: Option<PathBuf>,
    /// How a line is written
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t)]
    log_format: Format,
}

impl LogArgs {
    /// Logs what helps to find a fault, unless a level is given.
    pub(crate) fn be_verbose(&mut self) {
        self.log_level.get_or_insert_with(|| "debug".into());
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
}

fn level(text: &str) -> Result<String, String> {
    EnvFilter::builder().parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Keeps the log until the program ends.
#[derive(Debug)]
pub(crate) struct Log {
    reopen: Arc<AtomicBool>,
    guard: Option<WorkerGuard>,
}

impl Log {
    /// Opens the file again at the next line: the one there was may have been moved away.
    pub(crate) fn reopener(&self) -> impl Fn() + Send + use<> {
        let reopen = Arc::clone(&self.reopen);
        move || reopen.store(true, Ordering::Release)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        // It waits for the last lines, and longer than we do if they cannot be written.
        let (tell, told) = mpsc::channel();
        let flush = move || {
            drop(guard);
            let _ = tell.send(());
        };
        if std::thread::Builder::new().name("log-end".into()).spawn(flush).is_ok() {
            let _ = told.recv_timeout(END_MAX);
        }
    }
}

/// Begins the log. With `is_queued` no line ever waits for who reads it.
pub(crate) fn init(args: &LogArgs, is_queued: bool) -> anyhow::Result<Log> {
    let directives = args.log_level.clone().or_else(|| std::env::var("WEIR_LOG").ok());
    let filter = directives.and_then(|text| EnvFilter::builder().parse(text).ok());
    let filter = filter.unwrap_or_else(|| EnvFilter::new("info"));
    let has_colour = args.log_file.is_none()
        && io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let reopen = Arc::new(AtomicBool::new(false));
    let target = Target::open(args.log_file.as_deref(), Arc::clone(&reopen))?;
    let (writer, guard) = match is_queued {
        true => {
            let dropped = Arc::new(OnceLock::new());
            let teller = Teller::new(target, args.log_format, Arc::clone(&dropped));
            let (queue, guard) = NonBlockingBuilder::default()
                .buffered_lines_limit(QUEUE_LINES_MAX)
                .lossy(true)
                .thread_name("log")
                .finish(teller);
            let _ = dropped.set(queue.error_counter());
            (Writer::Queue(queue), Some(guard))
        }
        false => (Writer::Direct(Arc::new(target)), None),
    };
    let lines = tracing_subscriber::fmt()
        .with_writer(Lines { writer, format: args.log_format })
        .with_ansi(has_colour)
        .with_env_filter(filter)
        // It would be said with a panic where standard error is closed.
        .log_internal_errors(false);
    match args.log_format {
        Format::Text => lines.init(),
        Format::Json => lines.json().flatten_event(true).init(),
    }
    if is_queued {
        log_panics();
    }
    Ok(Log { reopen, guard })
}

/// A panic is a line of the log: the usual message would wait for a pipe that nobody reads.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        tracing::error!(thread = thread.name(), place, message, "a thread panicked");
    }));
}

/// What lines are written to in the end.
#[derive(Debug)]
enum Target {
    Stderr,
    File { path: PathBuf, file: std::sync::Mutex<File>, reopen: Arc<AtomicBool> },
}

impl Target {
    fn open(path: Option<&Path>, reopen: Arc<AtomicBool>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::Stderr) };
        let file =
            append(path).with_context(|| format!("cannot open the log file {}", path.display()))?;
        Ok(Self::File { path: path.into(), file: file.into(), reopen })
    }

    /// Writes a whole line.
    fn write(&self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Stderr => io::stderr().write_all(line),
            Self::File { path, file, reopen } => {
                let mut file = file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                // Where it cannot be opened, the old one is better than none.
                if reopen.swap(false, Ordering::AcqRel)
                    && let Ok(anew) = append(path)
                {
                    *file = anew;
                }
                file.write_all(line)
            }
        }
    }
}

fn append(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// The writer on the log's thread, which says first how many lines got lost since it last did.
struct Teller {
    target: Target,
    format: Format,
    /// Lines that found no room in the queue.
    dropped: Arc<OnceLock<ErrorCounter>>,
    /// Lines that could not be written.
    failed: usize,
    told: usize,
}

impl Teller {
    fn new(target: Target, format: Format, dropped: Arc<OnceLock<ErrorCounter>>) -> Self {
        Self { target, format, dropped, failed: 0, told: 0 }
    }

    fn tell_lost(&mut self) -> io::Result<()> {
        let dropped = self.dropped.get().map_or(0, ErrorCounter::dropped_lines);
        let lost = dropped + self.failed;
        if lost > self.told {
            let count = lost - self.told;
            let text = format!("{count} lines of the log were lost: nobody took them");
            self.target.write(plain(self.format, &text).as_bytes())?;
            self.told = lost;
        }
        Ok(())
    }
}

impl Write for Teller {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.tell_lost().and_then(|()| self.target.write(line)).is_err() {
            self.failed += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line that `tracing` did not make.
fn plain(format: Format, text: &str) -> String {
    match format {
        Format::Text => format!("WARN weir::log: {text}\n"),
        Format::Json => {
            let line =
                serde_json::json!({ "level": "WARN", "message": text, "target": "weir::log" });
            format!("{line}\n")
        }
    }
}

#[derive(Clone, Debug)]
enum Writer {
    Queue(NonBlocking),
    Direct(Arc<Target>),
}

/// Gives each line a bound before it goes anywhere.
#[derive(Clone, Debug)]
struct Lines {
    writer: Writer,
    format: Format,
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
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
