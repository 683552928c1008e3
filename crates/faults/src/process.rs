//! A process that was started here: a node or an etcd.

use crate::clock::Clock;
use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;

/// A process, and its clock once that was stepped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    clock: Option<Clock>,
}

impl From<Child> for Process {
    fn from(child: Child) -> Self {
        Self { child, clock: None }
    }
}

impl Process {
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it by SIGKILL.
    pub(crate) fn end(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Has its wall clock show so many seconds more than it is.
    pub(crate) fn step_clock(&mut self, seconds: i64) -> anyhow::Result<()> {
        let pid = Pid::from_child(&self.child);
        let stepped = match &self.clock {
            Some(clock) => clock.step(seconds),
            None => Clock::of(pid).and_then(|clock| self.clock.insert(clock).step(seconds)),
        };
        stepped.with_context(|| format!("cannot step the clock of process {pid:?}"))
    }
}
