//! The built-in broker: this program, as a process of its own, like any other broker.

use super::process::{Running, ask, free_address, write_configuration};
use super::{Driver, DriverError, Profile};
use crate::result::Broker;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "Weir";

/// What the `tuned` profile sets, each with its reason.
const TUNED: &[(&str, &str)] = &[(
    "gather_ms = 20",
    "less CPU a message of a busy fan-out, for up to 20 ms of latency there instead of 10",
)];

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
        let mut configuration = format!("listen = [\"{target}\"]\n");
        let mut profile_changes = vec!["listen: where the suite connects".to_owned()];
        if profile == Profile::Tuned {
            for (line, reason) in TUNED {
                configuration += &format!("{line}\n");
                profile_changes.push(format!("{line}: {reason}"));
            }
        }
        let path = folder.join("broker.toml");
        write_configuration(NAME, &path, &configuration)?;
        let mut command = Command::new(&program);
        command.arg("broker").arg("--config").arg(&path);
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
