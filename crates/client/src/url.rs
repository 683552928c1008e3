//! Where a broker is, and who to be there: `mqtt://[USER[:PASSWORD]@]HOST[:PORT][/TOPIC]`.

/// The parts of a URL, none of them decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Before the `@`, to its first colon.
    pub user_name: Option<String>,
    /// From there to the last `@`.
    pub password: Option<String>,
    /// A name or an address; one of IPv6 without its brackets.
    pub host: String,
    /// The port, if it is given.
    pub port: Option<u16>,
    /// What follows the place, if anything does: a topic, or a topic filter.
    pub topic: Option<String>,
}

impl Url {
    /// The port of MQTT without TLS.
    pub const PORT: u16 = 1883;
}

impl std::str::FromStr for Url {
    /// What it must be.
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with("mqtts://") {
            return Err("TLS is not built yet; use mqtt://");
        }
        let rest = text.strip_prefix("mqtt://").ok_or(FORM)?;
        let (place, topic) = rest.split_once('/').unwrap_or((rest, ""));
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
            user_name: user_name.map(str::to_owned),
            password: password.map(str::to_owned),
            host: host.to_owned(),
            port,
            topic: (!topic.is_empty()).then(|| topic.to_owned()),
        })
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
    fn what_is_no_such_url_is_refused_with_a_reason() {
        for (text, part) in [
            ("http://h", "it must be mqtt://"),
            ("mqtts://h", "TLS"),
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
