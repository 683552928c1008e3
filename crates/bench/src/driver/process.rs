//! A broker's process: start, wait until it answers, end without leaving anything behind.

mod again;

use super::DriverError;
use crate::mqtt;
use crate::result::Broker;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a broker may take to answer its first CONNECT.
const READY_MAX: Duration = Duration::from_secs(10);

/// How long it may take to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(5);

/// Between two looks at something that no event tells.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A broker that answers. Dropping it ends its process.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub target: SocketAddr,
    /// Its process, if it is to be watched.
    pub pid: Option<u32>,
    /// What is disclosed of it.
    pub broker: Broker,
    child: Option<Child>,
    /// How to start it again, if the suite has started it.
    again: Option<again::Again>,
}

impl Running {
    /// A broker that somebody else runs, and its process if that is to be watched.
    pub(super) fn elsewhere(target: SocketAddr, pid: Option<u32>, broker: Broker) -> Self {
        Self { target, pid, broker, child: None, again: None }
    }

    /// Starts `command` with its output in `folder/broker.log` and waits for it at `target`.
    pub(super) fn start(
        mut command: Command,
        target: SocketAddr,
        broker: Broker,
        folder: &Path,
        core: Option<usize>,
    ) -> Result<Self, DriverError> {
        let system = |source| DriverError::System { broker: broker.name.clone(), source };
        let path = folder.join("broker.log");
        let log = File::create(&path).map_err(system)?;
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(system)?).stderr(log);
        // Ctrl-C is for us; we end the broker in our own time.
        command.process_group(0);
        let child = spawn(&mut command, core).map_err(system)?;
        let pid = child.id();
        let again = Some(again::Again { command, core, log: path.clone() });
        let mut running = Self { target, pid: Some(pid), broker, child: Some(child), again };
        running.wait_until_ready(&path)?;
        Ok(running)
    }

    fn wait_until_ready(&mut self, log: &Path) -> Result<(), DriverError> {
        let deadline = Instant::now() + READY_MAX;
        loop {
            let why = match mqtt::answers(self.target) {
                // Somebody else may have taken the port, and ours ended for it.
                Ok(()) if self.exited().is_none() => return Ok(()),
                Ok(()) => "another program listens there".into(),
                Err(error) => error.to_string(),
            };
            let exit = self.exited();
            if exit.is_some() || Instant::now() >= deadline {
                let why = exit.unwrap_or(why) + &last_lines(log);
                let (broker, address) = (self.broker.name.clone(), self.target.to_string());
                return Err(DriverError::NotReady { broker, address, why });
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// How the process ended, if it did by itself.
    pub fn exited(&mut self) -> Option<String> {
        let status = self.child.as_mut()?.try_wait().ok()??;
        Some(format!("the broker's process ended by itself: {status}"))
    }

    /// Ends the broker: SIGTERM, and SIGKILL if it does not heed that.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // Once it is waited for, its id may be another's: no signal after that.
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        // It leads a group of its own; what it has started ends with it. It may be gone by now;
        // waiting tells.
        let group = Pid::from_child(&child);
        let _ = kill_process_group(group, Signal::TERM);
        // A stopped process hears SIGTERM only when it goes on.
        let _ = kill_process_group(group, Signal::CONT);
        let deadline = Instant::now() + STOP_MAX;
        while Instant::now() < deadline {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(LOOK_EVERY),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        tracing::warn!(pid = child.id(), "the broker did not end at SIGTERM; it is killed");
        let _ = kill_process_group(group, Signal::KILL);
        // Whatever became of the group: the wait below must end.
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// The end of a log, for an error.
fn last_lines(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().filter(|line| !line.is_empty()).take(2).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("; its log ends: {}", lines.into_iter().rev().collect::<Vec<_>>().join(" / "))
}

/// Starts a process that is on `core` from its first instruction on: a broker counts its cores and
/// makes its threads as soon as it runs. It inherits what the calling thread has for that moment.
fn spawn(command: &mut Command, core: Option<usize>) -> std::io::Result<Child> {
    let Some(core) = core else { return command.spawn() };
    let before = rustix::thread::sched_getaffinity(None)?;
    pin(None, core);
    let child = command.spawn();
    rustix::thread::sched_setaffinity(None, &before)?;
    child
}

/// Keeps a thread on one processor: this one if none is named.
pub(super) fn pin(thread: Option<Pid>, core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(thread, &cores) {
        tracing::warn!(%error, "the broker could not be pinned");
    }
}

/// An address of this host that nobody listens on at the moment.
pub(super) fn free_address(broker: &str) -> Result<SocketAddr, DriverError> {
    let system = |source| DriverError::System { broker: broker.into(), source };
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).map_err(system)
}

/// Writes a broker's configuration into the result folder.
pub(super) fn write_configuration(
    broker: &str,
    path: &Path,
    text: &str,
) -> Result<(), DriverError> {
    let system = |source| DriverError::System { broker: broker.into(), source };
    std::fs::write(path, text).map_err(system)
}

/// The first of these programs on PATH, or where daemons are.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let daemons = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(daemons)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// What a program prints when asked with `argument`; empty if it cannot be asked.
pub(super) fn ask(program: &Path, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into_owned())
}
