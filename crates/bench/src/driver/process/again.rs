//! A broker that is stopped, goes on, is killed and started again while a run lasts.

use super::{Launch, Running, spawn};
use crate::driver::DriverError;
use crate::driver::guard::Guarded;
use crate::monitor::tree_pids;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, OpenOptions};
use std::path::PathBuf;
use std::time::Duration;

/// How to start a broker, and to start it once more.
#[derive(Debug)]
pub(super) struct Again {
    weir: PathBuf,
    command: Vec<String>,
    environment: Vec<(String, String)>,
    folder: PathBuf,
    core: Option<usize>,
    stop_max: Duration,
    pub(super) ready_max: Duration,
    pub(super) log: PathBuf,
}

impl Again {
    pub(super) fn of(launch: &Launch<'_>) -> Self {
        Self {
            weir: launch.weir.into(),
            command: launch.command.to_vec(),
            environment: launch.environment.to_vec(),
            folder: launch.folder.into(),
            core: launch.core,
            stop_max: launch.stop_max,
            ready_max: launch.ready_max,
            log: launch.folder.join("broker.log"),
        }
    }

    /// Of a program that nodes need; what it says goes to `NAME.log`.
    pub(super) fn of_service(name: &str, command: Vec<String>, launch: &Launch<'_>) -> Self {
        let log = launch.folder.join(format!("{name}.log"));
        Self { command, log, environment: Vec::new(), ..Self::of(launch) }
    }

    /// Starts a guard, and it the broker; what both say goes to `log`.
    pub(super) fn launch(&self, log: File) -> std::io::Result<Guarded> {
        let mut command = Guarded::command(&self.weir, self.stop_max);
        command.args(&self.command).current_dir(&self.folder).stderr(log);
        command.envs(self.environment.iter().map(|(key, value)| (key, value)));
        Guarded::new(spawn(&mut command, self.core)?, self.stop_max)
    }
}

impl Running {
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

    /// Ends its processes as an operator would (SIGTERM), and waits until they are gone.
    pub fn end(&mut self) {
        drop(self.guarded.take());
    }

    /// Kills its processes (SIGKILL) and waits until they are gone.
    pub fn kill(&mut self) {
        if let Some(guarded) = self.guarded.take() {
            guarded.kill();
        }
    }

    /// Starts it again as it was started, on the same files and at the same address, and waits
    /// until it answers.
    ///
    /// # Errors
    /// As at its first start.
    pub fn start_again(&mut self) -> Result<(), DriverError> {
        self.launch_again()?;
        self.answer()
    }

    /// The same without waiting: of several nodes none may answer before others are there.
    ///
    /// # Errors
    /// As at its first start.
    pub(crate) fn launch_again(&mut self) -> Result<(), DriverError> {
        let broker = self.broker.name.clone();
        let system = |source| DriverError::System { broker: broker.clone(), source };
        let Some(again) = &self.again else {
            return Err(system(std::io::ErrorKind::Unsupported.into()));
        };
        let log = OpenOptions::new().append(true).open(&again.log).map_err(system)?;
        let guarded = again.launch(log).map_err(system)?;
        self.pid = Some(guarded.broker());
        self.guarded = Some(guarded);
        Ok(())
    }
}
