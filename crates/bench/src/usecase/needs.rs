//! What a use case needs of a broker, as its file has it.

use super::file::{Need, UseCase};
use weir_load::plan::{ProtocolVersion, Transport};

/// What a broker has to be able to do for a use case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Spoken by every client.
    pub version: ProtocolVersion,
    /// Shared subscriptions.
    pub shared: bool,
    /// Highest QoS of a publisher.
    pub qos: u8,
    /// Retained messages.
    pub retained: bool,
    /// Content-filtered subscriptions.
    pub content_filters: bool,
    /// What carries MQTT.
    pub transport: Transport,
    /// Clients show certificates.
    pub client_certificates: bool,
    /// Clients are users with passwords.
    pub users: bool,
    /// What they may do is in a file.
    pub rules: bool,
}

impl Needs {
    /// This version and nothing else, over TCP.
    pub const fn version(version: ProtocolVersion) -> Self {
        Self {
            version,
            shared: false,
            qos: 0,
            retained: false,
            content_filters: false,
            transport: Transport::Plain,
            client_certificates: false,
            users: false,
            rules: false,
        }
    }

    /// Of a use case.
    pub fn of(use_case: &UseCase) -> Self {
        let filters = || use_case.group.iter().flat_map(|group| &group.subscriptions);
        let publishing = || use_case.group.iter().filter_map(|group| group.publish.as_ref());
        let is_declared = |need| use_case.needs.contains(&need);
        let declared_qos = if is_declared(Need::Qos2) { 2 } else { 0 };
        Self {
            version: use_case.mqtt_version,
            shared: filters().any(|one| one.filter.starts_with("$share/"))
                || is_declared(Need::SharedSubscriptions),
            qos: publishing().map(|publish| publish.qos).max().unwrap_or(0).max(declared_qos),
            transport: use_case.transport,
            client_certificates: use_case.tls.client_certificates > 0,
            users: use_case.access.users > 0,
            rules: use_case.access.rules > 0,
            content_filters: filters().any(|one| one.asked.is_some()),
            retained: publishing().any(|publish| publish.retain) || is_declared(Need::Retained),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_follow_from_the_file() {
        let of = |name| Needs::of(&UseCase::builtin(name).unwrap());
        let p2p = of("p2p-1K-1K-1K-1K");
        assert_eq!((p2p.version, p2p.shared, p2p.qos), (ProtocolVersion::V311, false, 1));
        let shared = of("sharedsub-1K-5-1K-1K");
        assert_eq!((shared.version, shared.shared), (ProtocolVersion::V5, true));
        assert_eq!(of("conn-tcp-10K-100").qos, 0);
        assert!(of("content-filters").content_filters && !p2p.content_filters);
    }
}
