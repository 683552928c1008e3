//! The program of a stack, and the lines it is spoken to by.
//!
//! It is started with `--host --port --workflow --in --out --qos --rate`, connects, and prints
//! `ready NAME LIBRARY RUNTIME JSON`. It reads `start`, `counts` and `stop`; to the last two it
//! answers `counts received=N matched=N published=N failed=N` (`connects=N`, too, where it connects
//! at a rate), and ends with 0 after the last. Whatever it does else, it is ended here with all
//! that it started, and the error says what it did and how its log ends.

use crate::catalog::{Stack, Workflow};
use crate::replay::RESULT_TOPIC;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use weir_bench::driver::{last_lines, spawn};
use weir_bench::monitor::{now_us, tree};

/// How long it may take to end after its last line.
const END_MAX: Duration = Duration::from_secs(10);

/// How long it may take to end at SIGTERM.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long its guard may take beyond that.
const GUARD_MAX: Duration = Duration::from_secs(10);

/// Between two looks at what no event tells.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Longest line, and most lines that wait to be read: one that prints more waits itself.
const LINE_BYTES_MAX: u64 = 1024;
const LINES_MAX: usize = 16;

/// As much of a wrong line as an error shows.
const SHOWN_CHARS_MAX: usize = 80;

/// What an adapter did wrong.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// It could not be started.
    #[error("{stack} cannot be started: {source}")]
    System {
        /// Its name.
        stack: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// It said nothing.
    #[error("{stack} did not say `{wanted}` within {seconds:.0} s{log}")]
    Silent {
        /// Its name.
        stack: String,
        /// The line it owed.
        wanted: &'static str,
        /// How long it was waited for.
        seconds: f64,
        /// How its log ends.
        log: String,
    },
    /// It printed something else.
    #[error("{stack} printed {line:?} where `{wanted}` was due{log}")]
    WrongLine {
        /// Its name.
        stack: String,
        /// The line it owed.
        wanted: &'static str,
        /// What it printed, as much as is shown.
        line: String,
        /// How its log ends.
        log: String,
    },
    /// It ended.
    #[error("{stack} ended before it said `{wanted}`: {how}{log}")]
    Ended {
        /// Its name.
        stack: String,
        /// The line it owed.
        wanted: &'static str,
        /// How.
        how: String,
        /// How its log ends.
        log: String,
    },
    /// It said that it was done, and went on or failed.
    #[error("{stack} answered `stop` and then {how}{log}")]
    BadEnd {
        /// Its name.
        stack: String,
        /// What it did.
        how: String,
        /// How its log ends.
        log: String,
    },
}

/// Who it is, of its `ready`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) name: String,
    pub(crate) library: String,
    pub(crate) runtime: String,
    pub(crate) json: String,
}

/// What it counted since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AdapterCounts {
    pub(crate) received: u64,
    pub(crate) matched: u64,
    pub(crate) published: u64,
    pub(crate) failed: u64,
    pub(crate) connects: u64,
}

/// How it is to be started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start<'a> {
    pub(crate) stack: &'a Stack,
    pub(crate) server: SocketAddr,
    pub(crate) workflow: Workflow,
    pub(crate) qos: u8,
    /// Of the workflows that have a pace of their own; 0 for the others.
    pub(crate) rate_per_s: f64,
    /// The program that guards it: `weir`.
    pub(crate) weir: &'a Path,
    pub(crate) core: Option<usize>,
    /// Gets what it prints to standard error.
    pub(crate) log: &'a Path,
    /// How long it may take to be ready, and to answer: under load its turn comes late.
    pub(crate) patience: Duration,
}

enum Line {
    Text(String),
    TooLong(String),
}

/// An adapter that is ready. Dropping it ends it and all that it started.
pub(crate) struct Adapter {
    name: String,
    log: PathBuf,
    guard: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Line>,
    pid: u32,
    is_connecting: bool,
    patience: Duration,
}

impl Adapter {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(start: &Start<'_>) -> Result<(Self, Ready), AdapterError> {
        let mut adapter = launch(start)
            .map_err(|source| AdapterError::System { stack: start.stack.name.clone(), source })?;
        let line = adapter.line("ready")?;
        let ready = ready(&line).ok_or_else(|| adapter.wrong("ready", &line))?;
        adapter.pid = adapter.find()?;
        Ok((adapter, ready))
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it begin with what has a pace of its own.
    pub(crate) fn begin(&mut self) {
        self.tell("start");
    }

    /// What it has counted, and when it said so, in microseconds of the monotonic clock.
    pub(crate) fn counts(&mut self) -> Result<(AdapterCounts, u64), AdapterError> {
        self.tell("counts");
        let counts = self.counted()?;
        Ok((counts, now_us()))
    }

    /// Ends it in good order.
    pub(crate) fn stop(mut self) -> Result<AdapterCounts, AdapterError> {
        self.tell("stop");
        let counts = self.counted()?;
        let bad =
            |how: String, log| Err(AdapterError::BadEnd { stack: self.name.clone(), how, log });
        let status = wait(&mut self.guard, END_MAX);
        // What it still had to say has been read by now, or it is still at it.
        match self.lines.recv_timeout(LOOK_EVERY) {
            Ok(Line::Text(line) | Line::TooLong(line)) => {
                return bad(format!("printed {line:?}"), self.log_end());
            }
            Err(_) => {}
        }
        match status {
            Some(status) if status.success() => Ok(counts),
            Some(status) => bad(format!("ended with {status}"), self.log_end()),
            None => bad(format!("did not end within {} s", END_MAX.as_secs()), self.log_end()),
        }
    }

    fn tell(&mut self, word: &str) {
        if let Some(input) = &mut self.input {
            // One that is gone is noticed when it does not answer.
            let _ = writeln!(input, "{word}").and_then(|()| input.flush());
        }
    }

    fn counted(&mut self) -> Result<AdapterCounts, AdapterError> {
        let line = self.line("counts")?;
        counts(&line, self.is_connecting).ok_or_else(|| self.wrong("counts", &line))
    }

    fn line(&mut self, wanted: &'static str) -> Result<String, AdapterError> {
        let (stack, time_max) = (self.name.clone(), self.patience);
        match self.lines.recv_timeout(time_max) {
            Ok(Line::Text(line)) => Ok(line),
            Ok(Line::TooLong(line)) => Err(self.wrong(wanted, &line)),
            Err(RecvTimeoutError::Timeout) => {
                let (seconds, log) = (time_max.as_secs_f64(), self.log_end());
                Err(AdapterError::Silent { stack, wanted, seconds, log })
            }
            Err(RecvTimeoutError::Disconnected) => {
                let how = wait(&mut self.guard, END_MAX);
                let how = how.map_or("it closed its output".into(), |status| status.to_string());
                Err(AdapterError::Ended { stack, wanted, how, log: self.log_end() })
            }
        }
    }

    fn wrong(&self, wanted: &'static str, line: &str) -> AdapterError {
        let line = line.chars().take(SHOWN_CHARS_MAX).collect();
        AdapterError::WrongLine { stack: self.name.clone(), wanted, line, log: self.log_end() }
    }

    /// The adapter's process: the child of its guard.
    fn find(&mut self) -> Result<u32, AdapterError> {
        let guard = self.guard.id();
        let is_child = |ppid: i32| u32::try_from(ppid) == Ok(guard);
        let found = tree(guard).into_iter().find(|(_, stat)| is_child(stat.ppid));
        found.and_then(|(process, _)| u32::try_from(process.pid).ok()).ok_or_else(|| {
            let (stack, log) = (self.name.clone(), self.log_end());
            AdapterError::Ended { stack, wanted: "counts", how: "it is gone".into(), log }
        })
    }

    fn log_end(&self) -> String {
        last_lines(&self.log)
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        drop(self.input.take());
        if wait(&mut self.guard, PATIENCE + GUARD_MAX).is_some() {
            return;
        }
        // Its guard is stuck: what can be done from here.
        for (process, _) in tree(self.guard.id()) {
            // One that has gone by now needs no signal.
            let _ = Pid::from_raw(process.pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        let _ = self.guard.wait();
    }
}

fn launch(start: &Start<'_>) -> std::io::Result<Adapter> {
    let Start { stack, server, workflow, qos, rate_per_s, .. } = start;
    let mut command = Command::new(start.weir);
    let patience_ms = PATIENCE.as_millis().to_string();
    command.args(["bench", "guard", "--through", "--patience-ms", &patience_ms, "--"]);
    command.args(&stack.command);
    command.args(["--host", &server.ip().to_string(), "--port", &server.port().to_string()]);
    command.args(["--workflow", workflow.name(), "--in", FEED_FILTER, "--out", RESULT_TOPIC]);
    command.args(["--qos", &qos.to_string(), "--rate", &format!("{rate_per_s}")]);
    command.args(&stack.arguments).envs(&stack.environment);
    if stack.cache.is_dir() {
        command.current_dir(&stack.cache);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(start.log)?);
    // Ctrl-C is for us; we end the adapter in our own time.
    command.process_group(0);
    let mut guard = spawn(&mut command, start.core)?;
    let (input, output) = (guard.stdin.take(), guard.stdout.take());
    let lines = listen(output);
    let (name, log) = (stack.name.clone(), start.log.to_owned());
    let is_connecting = *workflow == Workflow::Connect;
    let patience = start.patience;
    Ok(Adapter { name, log, guard, input, lines, pid: 0, is_connecting, patience })
}

/// What the stack subscribes to.
const FEED_FILTER: &str = "ud/#";

/// Reads lines on a thread of their own, as fast as they are asked for.
fn listen(output: Option<impl Read + Send + 'static>) -> Receiver<Line> {
    let (sender, lines) = sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        let Some(output) = output else { return };
        let mut output = BufReader::new(output);
        loop {
            let mut bytes = Vec::new();
            let read = output.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
            if !matches!(read, Ok(1..)) {
                return;
            }
            let is_whole = bytes.ends_with(b"\n");
            let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            let line = if is_whole { Line::Text(text) } else { Line::TooLong(text) };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn wait(child: &mut Child, time_max: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + time_max;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
            _ => return None,
        }
    }
}

fn ready(line: &str) -> Option<Ready> {
    let mut words = line.strip_prefix("ready ")?.split_whitespace().map(str::to_owned);
    let mut word = || words.next();
    let (name, library, runtime, json) = (word()?, word()?, word()?, word()?);
    words.next().is_none().then_some(Ready { name, library, runtime, json })
}

fn counts(line: &str, is_connecting: bool) -> Option<AdapterCounts> {
    let mut counts = AdapterCounts::default();
    let mut seen = Vec::new();
    for pair in line.strip_prefix("counts ")?.split_whitespace() {
        let (key, value) = pair.split_once('=')?;
        let place = match key {
            "received" => &mut counts.received,
            "matched" => &mut counts.matched,
            "published" => &mut counts.published,
            "failed" => &mut counts.failed,
            "connects" => &mut counts.connects,
            _ => return None,
        };
        *place = value.parse().ok()?;
        seen.push(key);
    }
    let has = |key| seen.contains(&key);
    let is_whole = match is_connecting {
        true => has("connects"),
        false => ["received", "matched", "published", "failed"].into_iter().all(has),
    };
    is_whole.then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_line_has_five_words() {
        let of = ready("ready python-paho 2.1.0 CPython-3.11 orjson-3.10").unwrap();
        assert_eq!((&*of.library, &*of.json), ("2.1.0", "orjson-3.10"));
        for line in ["ready a b c", "ready a b c d e", "Ready a b c d", ""] {
            assert_eq!(ready(line), None, "{line}");
        }
    }

    #[test]
    fn counts_are_whole_numbers_under_their_names() {
        let line = "counts received=10 matched=1 published=1 failed=0";
        let expected =
            AdapterCounts { received: 10, matched: 1, published: 1, ..Default::default() };
        assert_eq!(counts(line, false), Some(expected));
        assert_eq!(counts(line, true), None);
        assert_eq!(counts("counts connects=7", true).map(|of| of.connects), Some(7));
        let wrong =
            ["counts received=10", "counts received=x", "counts a=1", "received=1", "counts"];
        assert!(wrong.iter().all(|line| counts(line, false).is_none()));
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let lines = listen(Some(std::io::Cursor::new(vec![b'x'; 5_000])));
        let Line::TooLong(line) = lines.recv().unwrap() else { panic!("a whole line") };
        assert_eq!(line.len() as u64, LINE_BYTES_MAX);
    }
}
