//! Eclipse Mosquitto.

use super::process::{Running, ask, find, free_address, write_configuration};
use super::{Driver, DriverError, Profile};
use crate::result::Broker;
use std::path::Path;
use std::process::Command;

const NAME: &str = "Mosquitto";

/// What the `tuned` profile sets, each with its reason.
const TUNED: &[(&str, &str)] = &[
    ("max_queued_messages 0", "no limit: the default of 1000 drops messages of a fast publisher"),
    ("max_inflight_messages 0", "no limit: the default of 20 bounds the rate by the round trip"),
    ("set_tcp_nodelay true", "small packets leave at once"),
    ("persistence false", "nothing is written to disk, as in the published runs"),
];

/// `mosquitto -c FILE`.
pub(super) struct Mosquitto;

fn version(program: &Path) -> String {
    let text = ask(program, "-h");
    // "mosquitto version 2.0.11"
    let first = text.lines().next().unwrap_or_default();
    first.rsplit(' ').next().filter(|word| !word.is_empty()).unwrap_or("unknown").to_owned()
}

impl Driver for Mosquitto {
    fn name(&self) -> &str {
        "mosquitto"
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
        let program = find("mosquitto").ok_or(DriverError::NotInstalled {
            broker: "mosquitto",
            install: "apt-get install mosquitto",
        })?;
        let target = free_address(NAME)?;
        let mut configuration =
            format!("listener {} {}\nallow_anonymous true\n", target.port(), target.ip());
        let mut profile_changes = vec![
            "listener: where the suite connects".to_owned(),
            "allow_anonymous true: the suite has no credentials".to_owned(),
        ];
        if profile == Profile::Tuned {
            for (line, reason) in TUNED {
                configuration += &format!("{line}\n");
                profile_changes.push(format!("{line}: {reason}"));
            }
        }
        let path = folder.join("broker.conf");
        write_configuration(NAME, &path, &configuration)?;
        let mut command = Command::new(&program);
        command.arg("-c").arg(&path);
        let broker = Broker {
            driver: self.name().into(),
            name: NAME.into(),
            version: version(&program),
            profile: profile.to_string(),
            profile_changes,
            command: vec!["mosquitto".into(), "-c".into(), "broker.conf".into()],
            configuration,
            address: target.to_string(),
        };
        Running::start(command, target, broker, folder, core)
    }
}
