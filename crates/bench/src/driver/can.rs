//! What a broker can do, and what of it a use case needs.

use crate::usecase::Needs;
use serde::Deserialize;
use weir_load::plan::{ProtocolVersion, Transport};

/// What a broker can do, as its makers say it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Can {
    /// Of 3.1, 3.1.1 and 5.0.
    pub versions: Vec<String>,
    /// Shared subscriptions.
    pub shared: bool,
    /// Highest QoS it keeps to; a broker that grants less than was asked has less.
    pub qos_max: u8,
    /// Retained messages.
    pub retained: bool,
    /// Subscriptions with a condition on content, as Weir names them: `$filter/...`.
    #[serde(default)]
    pub content_filters: bool,
    /// What carries MQTT to it, as its driver sets it up.
    #[serde(default = "tcp")]
    pub transports: Vec<Transport>,
    /// Over TLS, to ask clients for certificates.
    #[serde(default)]
    pub client_certificates: bool,
    /// Users with the passwords of a file.
    #[serde(default)]
    pub users: bool,
    /// Access rights of a file.
    #[serde(default)]
    pub rules: bool,
    /// What is new in later versions of the broker, oldest first.
    #[serde(default)]
    since: Vec<Since>,
}

/// What a version of the broker, and all that follow, can do beyond those before.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Since {
    version: String,
    #[serde(default)]
    versions: Option<Vec<String>>,
    #[serde(default)]
    shared: Option<bool>,
    #[serde(default)]
    qos_max: Option<u8>,
}

impl Can {
    /// Everything: of a broker that nothing is known of, the run tells.
    pub(super) fn everything() -> Self {
        let versions = ["3.1", "3.1.1", "5.0"].map(str::to_owned).to_vec();
        Self {
            versions,
            shared: true,
            qos_max: 2,
            retained: true,
            content_filters: true,
            transports: vec![Transport::Plain, Transport::Tls, Transport::Ws, Transport::Wss],
            client_certificates: true,
            users: true,
            rules: true,
            since: Vec::new(),
        }
    }

    /// The same of one version of the broker. One that is not known is taken for the oldest.
    pub(super) fn of_version(&self, version: &str) -> Self {
        let mut can = Self { since: Vec::new(), ..self.clone() };
        for since in &self.since {
            if numbers(version) >= numbers(&since.version) {
                can.versions = since.versions.clone().unwrap_or(can.versions);
                can.shared = since.shared.unwrap_or(can.shared);
                can.qos_max = since.qos_max.unwrap_or(can.qos_max);
            }
        }
        can
    }

    /// What a use case needs and the broker has not, if there is anything.
    pub(super) fn lacks(&self, needs: &Needs) -> Option<String> {
        let version = match needs.version {
            ProtocolVersion::V311 => "3.1.1",
            ProtocolVersion::V5 => "5.0",
        };
        let mut missing = Vec::new();
        if !self.versions.iter().any(|known| known == version) {
            missing.push(format!("MQTT {version}"));
        }
        if needs.shared && !self.shared {
            missing.push("shared subscriptions".into());
        }
        if needs.qos > self.qos_max {
            missing.push(format!("QoS {}", needs.qos));
        }
        if needs.retained && !self.retained {
            missing.push("retained messages".into());
        }
        if needs.content_filters && !self.content_filters {
            missing.push("content-filtered subscriptions".into());
        }
        if !self.transports.contains(&needs.transport) {
            missing.push(format!(
                "a listener of the driver's for transport {}",
                needs.transport.name()
            ));
        }
        let of_driver = [
            ("certificates of clients", needs.client_certificates && !self.client_certificates),
            ("users with passwords", needs.users && !self.users),
            ("a file of access rights", needs.rules && !self.rules),
        ];
        let lacking = of_driver.into_iter().filter(|(_, is_missing)| *is_missing);
        missing.extend(lacking.map(|(name, _)| format!("{name} as the driver sets it up")));
        (!missing.is_empty()).then(|| missing.join(", "))
    }
}

fn tcp() -> Vec<Transport> {
    vec![Transport::Plain]
}

/// The numbers of a version, the first of them first.
fn numbers(version: &str) -> Vec<u64> {
    let part = version.split(['-', '+']).next().unwrap_or_default();
    part.split('.').map_while(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn can() -> Can {
        let text = "versions = ['3.1.1']\nshared = false\nqos_max = 1\nretained = true\n\
                    since = [{ version = '2.10', qos_max = 2 },\n\
                    { version = '3.0', versions = ['3.1.1', '5.0'], shared = true }]";
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_is_missing_is_named() {
        let plain = Needs { qos: 1, retained: true, ..Needs::version(ProtocolVersion::V311) };
        assert_eq!(can().lacks(&plain), None);
        let secure = Needs { transport: Transport::Wss, users: true, ..plain };
        let lacks = can().lacks(&secure).unwrap();
        assert!(lacks.contains("transport wss") && lacks.contains("users"), "{lacks}");
        assert!(!lacks.contains("rights") && !lacks.contains("certificates"), "{lacks}");
        let all = Needs { version: ProtocolVersion::V5, shared: true, qos: 2, ..plain };
        assert_eq!(can().lacks(&all).unwrap(), "MQTT 5.0, shared subscriptions, QoS 2");
        let filters = Needs { content_filters: true, ..plain };
        assert_eq!(can().lacks(&filters).unwrap(), "content-filtered subscriptions");
        assert_eq!(Can { retained: false, ..can() }.lacks(&plain).unwrap(), "retained messages");
        assert_eq!(Can::everything().lacks(&all), None);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let qos = |version| can().of_version(version).qos_max;
        assert_eq!([qos("2.9.10"), qos("2.10.0"), qos("2.10"), qos("10.1")], [1, 2, 2, 2]);
        assert_eq!(qos("unknown"), 1);
        assert!(can().of_version("3.0.1-rc.2").shared && !can().of_version("2.11").shared);
    }
}
