//! Where a broker is: a URL of MQTT, or `HOST[:PORT]`.

use crate::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use weir_client::{Scheme, Url};

/// A broker and who to be there; no part is decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// What carries MQTT.
    pub scheme: Scheme,
    /// A name or an address; one of IPv6 without its brackets.
    pub host: String,
    /// Of TCP.
    pub port: u16,
    /// Of WebSocket alone: what it asks its server for.
    pub path: Option<String>,
    /// The file of a unix socket, in the place of host and port.
    pub socket: Option<PathBuf>,
    /// Who to be there, if anybody.
    pub user_name: Option<String>,
    /// The secret of that user, if there is one.
    pub password: Option<String>,
}

impl Address {
    /// By TCP, as nobody.
    pub fn plain(host: String, port: u16) -> Self {
        let (user_name, password, path, socket) = (None, None, None, None);
        Self { scheme: Scheme::Mqtt, host, port, path, socket, user_name, password }
    }

    /// The addresses of the host that can be reached from `source`; none of a unix socket.
    ///
    /// # Errors
    /// There is none; what the resolver says.
    pub fn resolve(&self, source: Option<IpAddr>) -> Result<Vec<SocketAddr>, Error> {
        if self.socket.is_some() {
            return Ok(Vec::new());
        }
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found = found.map_err(|error| self.unreachable(error.to_string()))?;
        // An address of the other family cannot be reached from the one given.
        let is_near = |address: &SocketAddr| {
            source.is_none_or(|source| source.is_ipv4() == address.is_ipv4())
        };
        let addresses: Vec<_> = found.filter(is_near).collect();
        if addresses.is_empty() {
            return Err(self.unreachable("it has no address that could be reached".into()));
        }
        Ok(addresses)
    }

    pub(crate) fn unreachable(&self, cause: String) -> Error {
        Error::Unreachable { address: self.to_string(), cause }
    }
}

impl std::str::FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_url = text.contains("://");
        let url: Url = if is_url { text.parse() } else { format!("mqtt://{text}").parse() }?;
        if url.topic.is_some() {
            return Err("it must have no topic");
        }
        Ok(url.into())
    }
}

/// Without the topic, if it has one.
impl From<Url> for Address {
    fn from(url: Url) -> Self {
        let port = url.port();
        let Url { scheme, host, user_name, password, path, .. } = url;
        Self { scheme, host, port, path, socket: None, user_name, password }
    }
}

/// Without the user, whose password is a secret.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, socket, .. } = self;
        if let Some(path) = socket {
            return write!(f, "{}", path.display());
        }
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_but_the_host_may_be_missing() {
        for (text, shown, user, password) in [
            ("h", "h:1883", None, None),
            ("h:7", "h:7", None, None),
            ("mqtt://h/", "h:1883", None, None),
            ("mqtt://u@h:1", "h:1", Some("u"), None),
            ("mqtt://u:p@w:x@[::1]:7", "[::1]:7", Some("u"), Some("p@w:x")),
            ("mqtt://[::1]", "[::1]:1883", None, None),
            ("wss://u@h/path", "h:443", Some("u"), None),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.user_name.as_deref(), user, "{text}");
            assert_eq!(address.password.as_deref(), password, "{text}");
        }
    }

    #[test]
    fn what_is_no_such_address_is_refused_with_a_reason() {
        for (text, part) in [
            ("http://h", "it must be mqtt://"),
            ("", "no host"),
            ("mqtt://h/topic", "no topic"),
            ("h:99999", "port"),
        ] {
            let rule = text.parse::<Address>().unwrap_err();
            assert!(rule.contains(part), "{text}: {rule}");
        }
    }
}
