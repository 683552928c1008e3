//! What a use case needs of a broker, as its file has it.

use super::file::UseCase;
use weir_load::plan::ProtocolVersion;

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
}

impl Needs {
    /// Of a use case.
    pub fn of(use_case: &UseCase) -> Self {
        let filters = || use_case.group.iter().flat_map(|group| &group.subscriptions);
        let publishing = || use_case.group.iter().filter_map(|group| group.publish.as_ref());
        Self {
            version: use_case.mqtt_version,
            shared: filters().any(|one| one.filter.starts_with("$share/")),
            qos: publishing().map(|publish| publish.qos).max().unwrap_or(0),
            retained: publishing().any(|publish| publish.retain),
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
    }
}
