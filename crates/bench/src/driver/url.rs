//! A broker that somebody else runs.

use super::process::{Running, pin};
use super::{Driver, DriverError, Profile};
use crate::mqtt;
use crate::result::Broker;
use crate::usecase::Needs;
use procfs::process::Process;
use rustix::process::Pid;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use weir_load::plan::ProtocolVersion;

const PORT: u16 = 1883;

/// `mqtt://host:port`; `mqtt://host:port@pid` if it is a process of this host that can be watched;
/// `name=` before either.
pub(super) struct Url {
    name: String,
    target: SocketAddr,
    pid: Option<u32>,
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, DriverError> {
        let fail = |why: String| DriverError::Url { url: text.into(), why };
        let (name, url) = text.split_once('=').unwrap_or((text, text));
        let Some(place) = url.strip_prefix("mqtt://") else {
            return Err(fail("it must be mqtt://HOST:PORT".into()));
        };
        let (place, pid) = match place.rsplit_once('@') {
            None => (place, None),
            Some((place, pid)) => match pid.parse() {
                Ok(pid) => (place, Some(pid)),
                Err(_) => return Err(fail(format!("{pid:?} behind the @ is not a process id"))),
            },
        };
        let target = target(place.trim_end_matches('/')).map_err(fail)?;
        Ok(Self { name: name.into(), target, pid })
    }

    /// What a process that somebody else started is disclosed with.
    fn broker(&self, command: Vec<String>, profile_changes: Vec<String>) -> Broker {
        let configuration = match self.pid {
            Some(_) => "started by somebody else: what its command line says is all that is known",
            None => "",
        };
        Broker {
            driver: "url".into(),
            name: self.name.clone(),
            version: "unknown".into(),
            runtime: String::new(),
            profile: "unknown".into(),
            profile_changes,
            command,
            configuration: configuration.into(),
            address: self.target.to_string(),
        }
    }

    /// The process's command line, and what was changed of it: where it runs.
    fn take(&self, pid: u32, core: Option<usize>) -> Result<(Vec<String>, Vec<String>), String> {
        let process = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok());
        let process = process.ok_or_else(|| format!("there is no process {pid}"))?;
        let command = process.cmdline().unwrap_or_default();
        if command.is_empty() {
            return Err(format!("process {pid} has no command line: it is not a broker"));
        }
        let Some(core) = core else { return Ok((command, Vec::new())) };
        for task in process.tasks().into_iter().flatten().flatten() {
            if let Some(thread) = Pid::from_raw(task.tid) {
                pin(Some(thread), core);
            }
        }
        Ok((command, vec![format!("all its threads on core {core}: where the suite pins brokers")]))
    }
}

/// The address of `host`, `host:port`.
fn target(place: &str) -> Result<SocketAddr, String> {
    // In [::1] the colons are the address's own.
    let port = place.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
    let address = match port {
        _ if place.is_empty() => return Err("there is no host in it".into()),
        None => format!("{place}:{PORT}"),
        Some((_, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => place.to_owned(),
        Some((_, port)) => return Err(format!("{port:?} is not a port; it must be 1 to 65535")),
    };
    let found = address.to_socket_addrs().map_err(|error| error.to_string())?;
    // IPv4 first: sources rotate over IPv4 addresses.
    let mut found: Vec<SocketAddr> = found.collect();
    found.sort_by_key(|address| !address.is_ipv4());
    found.first().copied().ok_or_else(|| "the host has no address".into())
}

impl Driver for Url {
    fn name(&self) -> &str {
        &self.name
    }

    /// Its limits are its host's to know.
    fn connections_max(&self) -> u64 {
        u64::MAX
    }

    fn is_local(&self) -> bool {
        self.pid.is_some()
    }

    fn is_restartable(&self) -> bool {
        false
    }

    /// Nothing is known of it: the run tells.
    fn lacks(&self, _needs: &Needs) -> Result<Option<String>, DriverError> {
        Ok(None)
    }

    fn about(&self, _profile: Profile) -> Result<Broker, DriverError> {
        Ok(self.broker(Vec::new(), Vec::new()))
    }

    fn start(
        &self,
        _profile: Profile,
        _folder: &Path,
        core: Option<usize>,
    ) -> Result<Running, DriverError> {
        mqtt::answers(self.target, ProtocolVersion::V311).map_err(|error| {
            DriverError::NotThere { address: self.target.to_string(), why: error.to_string() }
        })?;
        let (command, changes) = match self.pid {
            None => (Vec::new(), Vec::new()),
            Some(pid) => self
                .take(pid, core)
                .map_err(|why| DriverError::Url { url: self.name.clone(), why })?,
        };
        Ok(Running::elsewhere(self.target, self.pid, self.broker(command, changes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_may_be_left_out() {
        for (url, target) in [
            ("mqtt://127.0.0.1", "127.0.0.1:1883"),
            ("mqtt://127.0.0.1:77/", "127.0.0.1:77"),
            ("mqtt://[::1]", "[::1]:1883"),
            ("mqtt://[::1]:77", "[::1]:77"),
        ] {
            assert_eq!(Url::parse(url).unwrap().target.to_string(), target);
        }
    }

    #[test]
    fn a_name_and_a_process_may_be_given() {
        let url = Url::parse("mine=mqtt://127.0.0.1:77@4711").unwrap();
        assert_eq!((url.name(), url.pid, url.is_local()), ("mine", Some(4711), true));
        assert_eq!(url.target.to_string(), "127.0.0.1:77");
        let url = Url::parse("mqtt://127.0.0.1:77").unwrap();
        assert_eq!((url.name(), url.pid, url.is_local()), ("mqtt://127.0.0.1:77", None, false));
        let error = Url::parse("mqtt://127.0.0.1:77@me").map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("\"me\"") && error.contains("process"), "{error}");
    }
}
