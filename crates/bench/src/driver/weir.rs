//! The built-in broker: this program, as a process of its own, like any other broker.

use super::process::{Running, ask, free_address, write_configuration};
use super::{Driver, DriverError, Profile};
use crate::result::Broker;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "Weir";

/// `weir broker`.
pub(super) struct Weir;

/// This program, or the one that `WEIR_EXE` names.
fn program() -> Result<PathBuf, DriverError> {
    if let Some(path) = std::env::var_os("WEIR_EXE") {
        return Ok(path.into());
    }
    std::env::current_exe().map_err(|source| DriverError::System { broker: NAME.into(), source })
}

fn version(program: &Path) -> String {
    let text = ask(program, "--version");
    text.trim().strip_prefix("weir ").unwrap_or("unknown").to_owned()
}

impl Driver for Weir {
    fn name(&self) -> &str {
        "weir"
    }

    /// Beyond its open files it takes what io_uring lets it.
    fn connections_max(&self) -> u64 {
        weir_load::connections_max()
    }

    fn is_local(&self) -> bool {
        true
    }

    fn start(
        &self,
        profile: Profile,
        folder: &Path,
        core: Option<usize>,
    ) -> Result<Running, DriverError> {
        let program = program()?;
        let target = free_address(NAME)?;
        let configuration = format!("listen = [\"{target}\"]\n");
        let path = folder.join("broker.toml");
        write_configuration(NAME, &path, &configuration)?;
        let mut command = Command::new(&program);
        command.arg("broker").arg("--config").arg(&path);
        let mut profile_changes = vec!["listen: where the suite connects".to_owned()];
        if profile == Profile::Tuned {
            profile_changes.push("nothing else: its tuned profile is its default".into());
        }
        let broker = Broker {
            driver: self.name().into(),
            name: NAME.into(),
            version: version(&program),
            profile: profile.to_string(),
            profile_changes,
            command: vec!["weir".into(), "broker".into(), "--config".into(), "broker.toml".into()],
            configuration,
            address: target.to_string(),
        };
        Running::start(command, target, broker, folder, core)
    }
}
