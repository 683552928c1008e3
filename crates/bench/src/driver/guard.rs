//! The guard of a broker: a process between the suite and the broker that leaves nothing of the
//! broker behind, whatever becomes of the suite.
//!
//! It starts the broker, takes every process that loses its parent there (a broker's daemons
//! too), and ends them all as soon as the pipe from the suite ends: because the suite wants it, or
//! because the suite was killed. On its standard output it says `started PID`, `failed WHY` and
//! `ended HOW`, a line each; what the broker prints goes to its standard error.
//!
//! A program that is spoken to by lines is guarded by [`guard_through`]: its input and output are
//! the guard's own, and the guard says nothing but by its exit status.

use crate::monitor::{is_going, tree};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use weir_say::noteln;

/// How long a guard may take to say that it has started the broker.
const START_MAX: Duration = Duration::from_secs(20);

/// How long SIGKILL is tried, and a guard is waited for beyond its broker's own time.
const KILL_MAX: Duration = Duration::from_secs(5);

/// How long a broker that is on its way out may take: its memory is given back, or written to disk.
const EXIT_MAX: Duration = Duration::from_secs(20);

/// Between two looks at something that no event tells.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What `weir bench guard` does: runs `command` until it and all that it started have ended, which
/// it makes them do once standard input ends: SIGTERM, and after `patience` SIGKILL.
pub fn guard(command: &[OsString], patience: Duration) -> ExitCode {
    let say = |line: &str| {
        let mut out = std::io::stdout();
        // The suite may be gone: then nobody needs to hear it.
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    };
    let broker = match start(command) {
        Ok(child) => Pid::from_child(&child),
        Err(error) => {
            say(&format!("failed {error}"));
            return ExitCode::FAILURE;
        }
    };
    say(&format!("started {}", broker.as_raw_nonzero()));
    std::thread::spawn(move || {
        // Whatever comes is of no interest, and an error is an end, too.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        end_all(patience);
        std::process::exit(1);
    });
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == broker => {
                say(&format!("ended {}", ExitStatus::from_raw(status.as_raw())));
            }
            Ok(_) | Err(Errno::INTR) => {}
            // No child is left, and no child of a child.
            Err(_) => return ExitCode::SUCCESS,
        }
    }
}

fn start(command: &[OsString]) -> std::io::Result<Child> {
    let log = || std::io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    guarded(command)?.stdin(Stdio::null()).stdout(log()?).stderr(log()?).spawn()
}

/// A command whose processes, and theirs, come to this one when they lose their parent.
fn guarded(command: &[OsString]) -> std::io::Result<Command> {
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own))?;
    let [program, arguments @ ..] = command else {
        return Err(std::io::Error::other("there is no command"));
    };
    let mut command = Command::new(program);
    // A group of its own: faults are done to it as a whole.
    command.args(arguments).process_group(0);
    Ok(command)
}

/// As [`guard`], of a program that is spoken to: what comes on standard input goes on to it, and it
/// writes to this process's standard output and error itself. Exits as the program did (128 and the
/// number of a signal), or with 127 if it could not be started.
pub fn guard_through(command: &[OsString], patience: Duration) -> ExitCode {
    let started = guarded(command).and_then(|mut command| command.stdin(Stdio::piped()).spawn());
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            let program = command.first().map(|program| program.to_string_lossy());
            noteln!("weir: {} cannot be started: {error}", program.unwrap_or_default());
            return ExitCode::from(127);
        }
    };
    let (program, to) = (Pid::from_child(&child), child.stdin.take());
    std::thread::spawn(move || {
        let Some(mut to) = to else { return };
        let mut line = Vec::new();
        let mut input = std::io::stdin().lock();
        while matches!(input.read_until(b'\n', &mut line), Ok(1..)) {
            // One that has ended is heard of by its status.
            let _ = to.write_all(&line);
            line.clear();
        }
        drop(to);
        end_all(patience);
        std::process::exit(1);
    });
    let mut code = 1;
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => {
                let status = ExitStatus::from_raw(status.as_raw());
                code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return ExitCode::from(code as u8),
        }
    }
}

/// Ends every process below this one. The thread that waits for them ends this process when none
/// is left, as a rule before this returns.
fn end_all(patience: Duration) {
    let signal_all = |signal| {
        for (process, _) in tree(std::process::id()).iter().skip(1) {
            // One that has gone by now needs no signal.
            let _ = Pid::from_raw(process.pid).map(|pid| kill_process(pid, signal));
        }
    };
    signal_all(Signal::TERM);
    // A stopped process hears SIGTERM only when it goes on.
    signal_all(Signal::CONT);
    std::thread::sleep(patience);
    noteln!("weir: the program did not end within {patience:?} of SIGTERM; killing it");
    let deadline = Instant::now() + KILL_MAX;
    while Instant::now() < deadline {
        signal_all(Signal::KILL);
        std::thread::sleep(LOOK_EVERY);
    }
}

/// A guard and its broker, from the suite's side. Dropping it ends both.
#[derive(Debug)]
pub(super) struct Guarded {
    child: Child,
    /// Its end is what the guard waits for.
    pipe: Option<ChildStdin>,
    broker: Pid,
    /// How the broker ended, once the guard has said so.
    ended: Receiver<String>,
    exit: Option<String>,
    patience: Duration,
}

impl Guarded {
    /// The command of a guard, run by the program `weir`, to which the broker's command is added.
    pub(super) fn command(weir: &std::path::Path, patience: Duration) -> Command {
        let mut command = Command::new(weir);
        let patience_ms = patience.as_millis().to_string();
        command.args(["bench", "guard", "--patience-ms", &patience_ms, "--"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for us; we end the broker in our own time.
        command.process_group(0);
        command
    }

    /// Of a guard that was just started, once it has started the broker.
    pub(super) fn new(mut child: Child, patience: Duration) -> std::io::Result<Self> {
        let (pipe, out) = (child.stdin.take(), child.stdout.take());
        let (started, ended) = listen(out);
        let first = started.recv_timeout(START_MAX);
        let number =
            |line: &str| line.strip_prefix("started ")?.parse().ok().and_then(Pid::from_raw);
        let why = match &first {
            Ok(line) => match number(line) {
                Some(broker) => {
                    return Ok(Self { child, pipe, broker, ended, exit: None, patience });
                }
                None => line.strip_prefix("failed ").unwrap_or(line).to_owned(),
            },
            Err(RecvTimeoutError::Disconnected) => "its guard ended".into(),
            Err(RecvTimeoutError::Timeout) => "its guard does not answer".into(),
        };
        // A guard that has started nothing has nothing to end.
        let _ = child.kill();
        let _ = child.wait();
        Err(std::io::Error::other(why))
    }

    /// The broker's process.
    pub(super) fn broker(&self) -> u32 {
        self.broker.as_raw_nonzero().get().unsigned_abs()
    }

    /// Has the broker end (SIGTERM), and does not wait.
    pub(super) fn begin_to_end(&mut self) {
        drop(self.pipe.take());
    }

    /// Kills the broker and all that it started (SIGKILL), and waits until they are gone.
    pub(super) fn kill(self) {
        for (process, _) in tree(self.child.id()).iter().skip(1) {
            // One that has gone by now needs no signal.
            let _ = Pid::from_raw(process.pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        // Whatever was started meanwhile ends with the guard.
        drop(self);
    }

    /// How the broker's process ended, if it did within `patience`. One that is on its way out is
    /// waited for beyond that.
    pub(super) fn exited(&mut self, patience: Duration) -> Option<&str> {
        if self.exit.is_none() {
            let wait = if is_going(self.broker()) { EXIT_MAX } else { patience };
            // The guard's thread says in any case how it ended.
            self.exit = self.ended.recv_timeout(wait).ok();
        }
        self.exit.as_deref()
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let deadline = Instant::now() + self.patience + KILL_MAX + KILL_MAX;
        while Instant::now() < deadline {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(LOOK_EVERY),
                Ok(Some(status)) if status.success() => return,
                _ => break,
            }
        }
        // Somebody ended the guard, or it is stuck: what can be done from here.
        tracing::warn!("the broker's guard did not shut down cleanly; killing the broker");
        let _ = kill_process_group(self.broker, Signal::KILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hands on the first line, and how the broker ended.
fn listen(out: Option<impl Read + Send + 'static>) -> (Receiver<String>, Receiver<String>) {
    let (first, started) = channel();
    let (exit, ended) = channel();
    std::thread::spawn(move || {
        let Some(out) = out else { return };
        let mut first = Some(first);
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if let Some(how) = line.strip_prefix("ended ") {
                // Nobody may want to know.
                let _ = exit.send(format!("the broker's process ended by itself: {how}"));
            } else if let Some(first) = first.take() {
                // Nobody waits any longer where it took too long.
                let _ = first.send(line);
            }
        }
        let _ = exit.send("the broker's guard was ended from outside".into());
    });
    (started, ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first line that the suite hears, and how the broker ended.
    fn heard(said: &'static str) -> (Option<String>, Vec<String>) {
        let (started, ended) = listen(Some(said.as_bytes()));
        let first = started.recv().ok();
        (first, ended.iter().collect())
    }

    #[test]
    fn what_a_guard_says_is_heard_and_its_own_end_too() {
        let outside = "the broker's guard was ended from outside".to_owned();
        let by_itself = "the broker's process ended by itself: exit status: 3".to_owned();
        let (first, ends) = heard("started 77\nended exit status: 3\n");
        assert_eq!(
            (first.as_deref(), ends),
            (Some("started 77"), vec![by_itself, outside.clone()])
        );
        let (first, ends) = heard("failed why\nmore\n");
        assert_eq!((first.as_deref(), ends), (Some("failed why"), vec![outside.clone()]));
        assert_eq!(heard(""), (None, vec![outside]));
        let (started, ended) = listen(None::<&[u8]>);
        assert!(started.recv().is_err() && ended.recv().is_err());
    }

    /// What a shell says in the place of a guard.
    fn guarded_by(script: &str) -> std::io::Result<Guarded> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        Guarded::new(command.spawn().unwrap(), Duration::from_millis(1))
    }

    #[test]
    fn a_guard_that_has_started_nothing_says_why() {
        for (script, why) in [
            ("echo failed no such program; cat", "no such program"),
            ("echo hallo; cat", "hallo"),
            ("echo started 0; cat", "started 0"),
            ("exit 3", "its guard ended"),
        ] {
            assert_eq!(guarded_by(script).map(|_| ()).unwrap_err().to_string(), why, "{script}");
        }
    }

    #[test]
    fn the_end_of_a_broker_is_told_as_often_as_it_is_asked_for() {
        let mut guarded = guarded_by("echo started $$; read end; exit 0").unwrap();
        assert_eq!(guarded.broker(), guarded.child.id());
        assert_eq!(guarded.exited(Duration::ZERO), None);
        drop(guarded);
        let mut ended = guarded_by("echo started $$; echo ended killed; read end; exit 0").unwrap();
        let told = Some("the broker's process ended by itself: killed");
        assert_eq!(ended.exited(EXIT_MAX), told);
        assert_eq!(ended.exited(Duration::ZERO), told);
        let child = ended.child.id();
        ended.kill();
        assert!(is_going(child), "it is left behind");
    }
}
