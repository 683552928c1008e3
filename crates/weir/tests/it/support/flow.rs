//! `weir flow run` as a process of its own, with a session that outlives it.

use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// `weir flow run`; killed with the value.
pub(crate) struct Flow(Child);

impl Drop for Flow {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Flow {
    pub(crate) fn start(rules: &Path, address: &str, client_id: &str) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["flow", "run", rules.to_str().unwrap(), "--quiet"])
            .args(["--broker", address, "--client-id", client_id])
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Asks it to end. Returns its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        kill_process(self.pid(), Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }
}
