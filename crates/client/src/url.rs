//! Where a broker is, how it is reached and who to be there:
//! `mqtt[s]://[USER[:PASSWORD]@]HOST[:PORT][/TOPIC]`, or `ws[s]://` with a path in its place.

/// The parts of a URL, none of them decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// What carries MQTT.
    pub scheme: Scheme,
    /// Before the `@`, to its first colon.
    pub user_name: Option<String>,
    /// From there to the last `@`.
    pub password: Option<String>,
    /// A name or an address; one of IPv6 without its brackets.
    pub host: String,
    /// The port, if it is given.
    pub port: Option<u16>,
    /// What follows the place, if anything does: a topic, or a topic filter. None of WebSocket.
    pub topic: Option<String>,
    /// Of WebSocket alone: what it asks its server for.
    pub path: Option<String>,
}

/// What carries MQTT to a broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheme {
    /// TCP.
    #[default]
    Mqtt,
    /// TLS.
    Mqtts,
    /// WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Scheme {
    const ALL: [Self; 4] = [Self::Mqtt, Self::Mqtts, Self::Ws, Self::Wss];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mqtt => "mqtt",
            Self::Mqtts => "mqtts",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// The port where none is given.
    pub const fn port(self) -> u16 {
        match self {
            Self::Mqtt => 1883,
            Self::Mqtts => 8883,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }

    /// Whether TLS is part of it.
    pub const fn has_tls(self) -> bool {
        matches!(self, Self::Mqtts | Self::Wss)
    }

    /// Whether WebSocket is part of it.
    pub const fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

impl Url {
    /// The port of MQTT without TLS.
    pub const PORT: u16 = Scheme::Mqtt.port();

    /// What WebSocket asks for where nothing is said, as the standard's examples and most brokers
    /// have it.
    pub const PATH: &str = "/mqtt";

    /// The port that is given, or that of the scheme.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(self.scheme.port())
    }
}

impl std::str::FromStr for Url {
    /// What it must be.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, rest) = text.split_once("://").ok_or(FORM)?;
        let scheme = Scheme::ALL.into_iter().find(|scheme| scheme.name() == name).ok_or(FORM)?;
        let (place, behind) =
            rest.split_once('/').map_or((rest, None), |(place, behind)| (place, Some(behind)));
        let (topic, path) = match behind {
            _ if !scheme.is_websocket() => (behind.filter(|topic| !topic.is_empty()), None),
            None => (None, Some(Self::PATH.to_owned())),
            Some(path) => (None, Some(format!("/{path}"))),
        };
        if path.as_ref().is_some_and(|path| !path.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err("its path must be of ASCII without spaces; write others as %XX");
        }
        // The last one, so that a password may hold an @.
        let (user, place) =
            place.rsplit_once('@').map_or((None, place), |(user, place)| (Some(user), place));
        let (user_name, password) = match user.map(|user| user.split_once(':').ok_or(user)) {
            None => (None, None),
            Some(Ok((name, password))) => (Some(name), Some(password)),
            Some(Err(name)) => (Some(name), None),
        };
        let (host, port) = split_port(place)?;
        if host.is_empty() {
            return Err("it names no host");
        }
        if host.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(
                "its host is a number; a process id is written as mqtt://HOST:PORT?pid=PID",
            );
        }
        let port = port.map(str::parse).transpose().map_err(|_| "its port is no port number")?;
        Ok(Self {
            scheme,
            user_name: user_name.map(str::to_owned),
            password: password.map(str::to_owned),
            host: host.to_owned(),
            port,
            topic: topic.map(str::to_owned),
            path,
        })
    }
}

const FORM: &str =
    "it must be mqtt://[USER[:PASSWORD]@]HOST[:PORT], or the same with mqtts://, ws:// or wss://";

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

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> [String; 5] {
        let url: Url = text.parse().unwrap();
        let shown = |part: Option<String>| part.unwrap_or_else(|| "-".into());
        let port = url.port.map(|port| port.to_string());
        [shown(url.user_name), shown(url.password), url.host, shown(port), shown(url.topic)]
    }

    #[test]
    fn every_part_but_the_host_may_be_missing() {
        assert_eq!(parts("mqtt://h"), ["-", "-", "h", "-", "-"]);
        assert_eq!(parts("mqtt://h/a/+/b"), ["-", "-", "h", "-", "a/+/b"]);
        assert_eq!(parts("mqtt://u@h:1/t"), ["u", "-", "h", "1", "t"]);
        assert_eq!(parts("mqtt://u:p@w:x@h:1883/t"), ["u", "p@w:x", "h", "1883", "t"]);
        assert_eq!(parts("mqtt://[::1]:1883/t"), ["-", "-", "::1", "1883", "t"]);
        assert_eq!(parts("mqtt://[::1]/t"), ["-", "-", "::1", "-", "t"]);
    }

    #[test]
    fn a_scheme_has_its_port_and_websocket_its_path() {
        for (text, scheme, port, path) in [
            ("mqtt://h/t", Scheme::Mqtt, 1883, None),
            ("mqtts://u:p@h/t", Scheme::Mqtts, 8883, None),
            ("ws://h", Scheme::Ws, 80, Some("/mqtt")),
            ("ws://h:8083/", Scheme::Ws, 8083, Some("/")),
            ("wss://[::1]/a/b?c=d", Scheme::Wss, 443, Some("/a/b?c=d")),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.scheme, url.port()), (scheme, port), "{text}");
            assert_eq!(url.path.as_deref(), path, "{text}");
            assert_eq!(url.topic.is_some(), text.ends_with("/t"), "{text}");
        }
    }

    #[test]
    fn what_is_no_such_url_is_refused_with_a_reason() {
        for (text, part) in [
            ("http://h", "it must be mqtt://"),
            ("wss://h/a b", "its path"),
            ("ws:h", "wss://"),
            ("mqtt:///t", "no host"),
            ("mqtt://h:99999", "port"),
            ("mqtt://[::1", "no ]"),
            ("mqtt://127.0.0.1:1883@4711", "mqtt://HOST:PORT?pid=PID"),
        ] {
            let rule = text.parse::<Url>().unwrap_err();
            assert!(rule.contains(part), "{text}: {rule}");
        }
    }
}
