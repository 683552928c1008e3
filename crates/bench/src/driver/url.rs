//! A broker that somebody else runs.

use super::process::Running;
use super::{Driver, DriverError, Profile};
use crate::mqtt;
use crate::result::Broker;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

const PORT: u16 = 1883;

/// `mqtt://host:port`.
pub(super) struct Url {
    text: String,
    target: SocketAddr,
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, DriverError> {
        let fail = |why: String| DriverError::Url { url: text.into(), why };
        let Some(place) = text.strip_prefix("mqtt://") else {
            return Err(fail("it must be mqtt://HOST:PORT".into()));
        };
        let place = place.trim_end_matches('/');
        let has_port = place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { place.to_owned() } else { format!("{place}:{PORT}") };
        let found = address.to_socket_addrs().map_err(|error| fail(error.to_string()))?;
        // IPv4 first: sources rotate over IPv4 addresses.
        let mut found: Vec<SocketAddr> = found.collect();
        found.sort_by_key(|address| !address.is_ipv4());
        let target = *found.first().ok_or_else(|| fail("the host has no address".into()))?;
        Ok(Self { text: text.into(), target })
    }
}

impl Driver for Url {
    fn name(&self) -> &str {
        &self.text
    }

    fn is_local(&self) -> bool {
        false
    }

    fn start(
        &self,
        _profile: Profile,
        _folder: &Path,
        _core: Option<usize>,
    ) -> Result<Running, DriverError> {
        mqtt::answers(self.target).map_err(|error| DriverError::NotReady {
            broker: "the broker".into(),
            address: self.target.to_string(),
            why: error.to_string(),
        })?;
        let broker = Broker {
            driver: "url".into(),
            name: self.text.clone(),
            version: "unknown".into(),
            profile: "unknown".into(),
            profile_changes: Vec::new(),
            command: Vec::new(),
            configuration: String::new(),
            address: self.target.to_string(),
        };
        Ok(Running::elsewhere(self.target, broker))
    }
}
