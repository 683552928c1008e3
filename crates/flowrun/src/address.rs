//! Where a broker is: `mqtt://[USER[:PASSWORD]@]HOST[:PORT]`, or `HOST[:PORT]`.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

/// The port of MQTT without TLS.
const PORT: u16 = 1883;

/// A broker and who to be there; no part is decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<String>,
}

impl Address {
    /// Every address of the host.
    ///
    /// # Errors
    /// The host has none; what the resolver says.
    pub(crate) fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let addresses: Vec<_> = found.map_err(|error| error.to_string())?.collect();
        if addresses.is_empty() { Err("it has no address".into()) } else { Ok(addresses) }
    }
}

impl std::str::FromStr for Address {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("mqtts://") {
            return Err("TLS is not supported; use mqtt://");
        }
        let place = text.strip_prefix("mqtt://").unwrap_or(text);
        let place = place.strip_suffix('/').unwrap_or(place);
        if place.contains('/') {
            return Err(FORM);
        }
        // The last one, so that a password may hold an @.
        let (user, place) =
            place.rsplit_once('@').map_or((None, place), |(user, place)| (Some(user), place));
        let (user_name, password) = match user.map(|user| user.split_once(':').ok_or(user)) {
            None => (None, None),
            Some(Ok((name, password))) => (Some(name.to_owned()), Some(password.to_owned())),
            Some(Err(name)) => (Some(name.to_owned()), None),
        };
        let (host, port) = split_port(place)?;
        if host.is_empty() {
            return Err("it names no host");
        }
        let port = port.map_or(Ok(PORT), str::parse).map_err(|_| "its port is no port number")?;
        Ok(Self { user_name, password, host: host.to_owned(), port })
    }
}

const FORM: &str = "it must be mqtt://[USER[:PASSWORD]@]HOST[:PORT]";

fn split_port(place: &str) -> Result<(&str, Option<&str>), &'static str> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("its [ has no ]")?;
        return match rest.strip_prefix(':') {
            None if rest.is_empty() => Ok((host, None)),
            None => Err(FORM),
            port => Ok((host, port)),
        };
    }
    Ok(place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))))
}

/// Without the user, whose password is a secret.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port, .. } = self;
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
            ("mqtts://h", "TLS"),
            ("mqtt://", "no host"),
            ("mqtt://h/topic", "it must be mqtt://"),
            ("mqtt://h:99999", "port"),
            ("mqtt://[::1", "no ]"),
        ] {
            let rule = text.parse::<Address>().unwrap_err();
            assert!(rule.contains(part), "{text}: {rule}");
        }
    }
}
