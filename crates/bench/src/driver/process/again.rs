//! A broker that is stopped, goes on, is killed and started again while a run lasts.

use super::{Running, spawn};
use crate::driver::DriverError;
use crate::monitor::tree_pids;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Command;

/// How to start a broker once more.
#[derive(Debug)]
pub(super) struct Again {
    pub(super) command: Command,
    pub(super) core: Option<usize>,
    pub(super) log: PathBuf,
}

impl Running {
    /// Whether it can be started again: the suite has started it.
    pub fn is_restartable(&self) -> bool {
        self.again.is_some()
    }

    /// Stops its processes where they are (SIGSTOP).
    ///
    /// # Errors
    /// A process that may not be signalled, or none at all.
    pub fn freeze(&self) -> Result<(), DriverError> {
        self.signal_all(Signal::STOP)
    }

    /// Lets them go on (SIGCONT).
    ///
    /// # Errors
    /// As [`Running::freeze`].
    pub fn thaw(&self) -> Result<(), DriverError> {
        self.signal_all(Signal::CONT)
    }

    fn signal_all(&self, signal: Signal) -> Result<(), DriverError> {
        let system = |errno: Errno| DriverError::System {
            broker: self.broker.name.clone(),
            source: errno.into(),
        };
        let pids = self.pid.map(tree_pids).unwrap_or_default();
        if pids.is_empty() {
            return Err(system(Errno::SRCH));
        }
        for pid in pids.into_iter().filter_map(Pid::from_raw) {
            match kill_process(pid, signal) {
                // One that has just ended need not be stopped.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(errno) => return Err(system(errno)),
            }
        }
        Ok(())
    }

    /// Kills its processes (SIGKILL) and waits until they are gone.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // It leads a group of its own; it may be gone by now, and waiting tells.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Starts it again as it was started, on the same files and at the same address, and waits
    /// until it answers.
    ///
    /// # Errors
    /// As at its first start.
    pub fn start_again(&mut self) -> Result<(), DriverError> {
        let broker = self.broker.name.clone();
        let system = |source| DriverError::System { broker: broker.clone(), source };
        let Some(again) = &mut self.again else {
            return Err(system(std::io::ErrorKind::Unsupported.into()));
        };
        let log = OpenOptions::new().append(true).open(&again.log).map_err(system)?;
        again.command.stdout(log.try_clone().map_err(system)?).stderr(log);
        let child = spawn(&mut again.command, again.core).map_err(system)?;
        let log = again.log.clone();
        self.pid = Some(child.id());
        self.child = Some(child);
        self.wait_until_ready(&log)
    }
}
