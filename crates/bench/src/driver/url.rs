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
        // In [::1] the colons are the address's own.
        let port = place.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let address = match port {
            _ if place.is_empty() => return Err(fail("there is no host in it".into())),
            None => format!("{place}:{PORT}"),
            Some((_, port)) if port.parse::<u16>().is_ok_and(|port| port > 0) => place.to_owned(),
            Some((_, port)) => {
                return Err(fail(format!("{port:?} is not a port; it must be 1 to 65535")));
            }
        };
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
        mqtt::answers(self.target).map_err(|error| DriverError::NotThere {
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
}
