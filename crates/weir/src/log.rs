//! Where the log goes: standard error or a file, as text or JSON, without ever holding up or
//! ending the program.
//!
//! The broker's lines go through a bounded queue to a thread of their own, so that a full disk, a
//! pipe that nobody reads or one that is closed costs lines and nothing else. What got lost is said
//! as soon as a line can be written again.

mod lines;
mod target;

use lines::{Lines, Writer};
use std::fmt;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;
use target::{Target, Teller};
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use weir_broker::check_log_level;

/// Lines that wait to be written; a line that finds no room is dropped and counted.
const QUEUE_LINES_MAX: usize = 1024;

/// Bytes of lines that clients cause, per second on average.
const BYTES_PER_SECOND_MAX: u64 = 64 * 1024;

/// How long the end of the program waits for the last lines.
const END_MAX: Duration = Duration::from_millis(300);

/// Options of the log, the same for all commands.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogArgs {
    /// What is logged: off, error, warn, info, debug or trace, and TARGET=LEVEL for parts of it,
    /// such as info,clients=warn for fewer lines of clients; instead of the variable WEIR_LOG
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

    /// Logs to this file, unless one is given.
    pub(crate) fn default_to(&mut self, file: &Path) {
        self.log_file.get_or_insert_with(|| file.into());
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
}

/// Checks what `EnvFilter` does not: to it a misspelt level is a target of that name.
pub(crate) fn level(text: &str) -> Result<String, String> {
    check_log_level(text)?;
    EnvFilter::builder().parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Changes what is logged.
#[derive(Clone)]
pub(crate) struct Filter {
    /// An option or the variable says what is logged, whatever a configuration says.
    is_given: bool,
    set: Arc<dyn Fn(EnvFilter) + Send + Sync>,
}

impl fmt::Debug for Filter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Filter").field("is_given", &self.is_given).finish_non_exhaustive()
    }
}

impl Filter {
    /// Has the log show what a configuration says, unless somebody else does. It was checked.
    pub(crate) fn set(&self, level: Option<&str>) {
        if !self.is_given {
            (self.set)(EnvFilter::new(level.unwrap_or(DEFAULT_LEVEL)));
        }
    }
}

/// What is logged where nobody says it. What the client of Kafka sees we say ourselves.
const DEFAULT_LEVEL: &str = "info,rskafka=off";

/// Keeps the log until the program ends.
#[derive(Debug)]
pub(crate) struct Log {
    reopen: Arc<AtomicBool>,
    losses: Arc<Losses>,
    filter: Filter,
    guard: Option<WorkerGuard>,
}

/// Lines that nobody will read, by cause.
#[derive(Debug, Default)]
struct Losses {
    /// Those that found no room in the queue.
    queue: OnceLock<ErrorCounter>,
    unwritten: AtomicU64,
    over: AtomicU64,
}

impl Losses {
    /// Those that found no room in the queue or could not be written.
    fn untaken(&self) -> u64 {
        let dropped = self.queue.get().map_or(0, ErrorCounter::dropped_lines);
        dropped as u64 + self.unwritten.load(Ordering::Relaxed)
    }

    /// Those over the bytes that clients may cause.
    fn over(&self) -> u64 {
        self.over.load(Ordering::Relaxed)
    }

    fn add_unwritten(&self) {
        self.unwritten.fetch_add(1, Ordering::Relaxed);
    }

    fn add_over(&self) {
        self.over.fetch_add(1, Ordering::Relaxed);
    }
}

impl Log {
    /// Opens the file again at the next line: the one there was may have been moved away.
    pub(crate) fn reopener(&self) -> impl Fn() + Send + use<> {
        let reopen = Arc::clone(&self.reopen);
        move || reopen.store(true, Ordering::Release)
    }

    /// What changes what is logged.
    pub(crate) fn filter(&self) -> Filter {
        self.filter.clone()
    }

    /// How many lines have got lost so far.
    pub(crate) fn lost_lines(&self) -> impl Fn() -> u64 + Send + Sync + use<> {
        let losses = Arc::clone(&self.losses);
        move || losses.untaken() + losses.over()
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
    let of_variable = || std::env::var("WEIR_LOG").ok().filter(|text| !text.is_empty());
    let directives = match &args.log_level {
        Some(text) => Some(text.clone()),
        None => of_variable()
            .map(|text| level(&text))
            .transpose()
            .map_err(|rule| anyhow::anyhow!("WEIR_LOG: {rule}"))?,
    };
    let filter = EnvFilter::new(directives.as_deref().unwrap_or(DEFAULT_LEVEL));
    let has_colour = args.log_file.is_none()
        && io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let reopen = Arc::new(AtomicBool::new(false));
    let losses = Arc::new(Losses::default());
    let target = Target::open(args.log_file.as_deref(), args.log_format, Arc::clone(&reopen))?;
    let (writer, guard) = match is_queued {
        true => {
            let teller = Teller::new(target, args.log_format, Arc::clone(&losses));
            let (queue, guard) = NonBlockingBuilder::default()
                .buffered_lines_limit(QUEUE_LINES_MAX)
                .lossy(true)
                .thread_name("log")
                .finish(teller);
            let _ = losses.queue.set(queue.error_counter());
            (Writer::Queue(queue), Some(guard))
        }
        false => (Writer::Direct(Arc::new(target)), None),
    };
    let lines = tracing_subscriber::fmt()
        .with_writer(Lines::new(writer, args.log_format, Arc::clone(&losses)))
        .with_ansi(has_colour)
        .with_env_filter(filter)
        // It would be said with a panic where standard error is closed.
        .log_internal_errors(false);
    let is_given = directives.is_some();
    let set: Arc<dyn Fn(EnvFilter) + Send + Sync> = match args.log_format {
        Format::Text => {
            let lines = lines.with_filter_reloading();
            let handle = lines.reload_handle();
            lines.init();
            Arc::new(move |filter| _ = handle.reload(filter))
        }
        Format::Json => {
            let lines = lines.json().flatten_event(true).with_filter_reloading();
            let handle = lines.reload_handle();
            lines.init();
            Arc::new(move |filter| _ = handle.reload(filter))
        }
    };
    if is_queued {
        log_panics();
    }
    Ok(Log { reopen, losses, filter: Filter { is_given, set }, guard })
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
