//! The processes that share the load of a run: how many, where, and what they hold together.

use crate::host::Pinning;
use std::path::PathBuf;
use weir_load::agent::{AgentCommand, Fleet};

/// Who runs the load. Without agents it is a thread of this process.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    /// Processes of this host.
    pub local: u32,
    /// What each of them is: this very program.
    pub program: PathBuf,
    /// Lines for the shell, each of which starts an agent anywhere.
    pub commands: Vec<String>,
}

impl Agents {
    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.local == 0 && self.commands.is_empty()
    }

    /// Starts them, those of this host on the load's core.
    ///
    /// # Errors
    /// One that does not start, or is no agent of this version.
    pub(crate) fn start(&self, pinning: &Pinning) -> anyhow::Result<Option<Fleet>> {
        if self.is_empty() {
            return Ok(None);
        }
        let program = self.program.display().to_string();
        let local = AgentCommand {
            command: vec![program, "agent".into()],
            text: "weir agent".into(),
            core: pinning.load_core,
        };
        let mut commands = vec![local; self.local as usize];
        commands.extend(self.commands.iter().map(|line| AgentCommand::shell(line)));
        Ok(Some(Fleet::start(&commands)?))
    }
}
