//! What a use case asks of a broker's listener.

use crate::login::Login;
use serde::Deserialize;
use std::collections::BTreeMap;
use weir_load::plan::Transport;

/// What the braces in a driver's file stand for.
pub(crate) type Values = BTreeMap<String, String>;

/// What a run asks of the broker that it starts: by itself plain TCP, for whoever comes.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// For the clients.
    pub login: Login,
    /// How many nodes it has; 0 and 1 are no cluster.
    pub nodes: u32,
    /// A file of access rights is in force.
    pub has_rules: bool,
    /// What the braces of a driver's file stand for: the files that the run has made.
    pub(crate) values: Values,
}

/// Part of a demand, by which a setting is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Part {
    /// Plain TCP.
    Tcp,
    /// TLS below MQTT.
    Tls,
    /// WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
    /// Certificates of the clients.
    ClientCertificates,
    /// Users with passwords.
    Users,
    /// Access rights.
    Rules,
    /// Several nodes.
    Nodes,
}

impl Demand {
    pub(super) fn has(&self, part: Part) -> bool {
        let Login { route, users, .. } = &self.login;
        match part {
            Part::Tcp => route.transport() == Transport::Plain,
            Part::Tls => route.transport() == Transport::Tls,
            Part::Ws => route.transport() == Transport::Ws,
            Part::Wss => route.transport() == Transport::Wss,
            Part::ClientCertificates => !route.identities.is_empty(),
            Part::Users => *users > 0,
            Part::Rules => self.has_rules,
            Part::Nodes => self.nodes > 1,
        }
    }
}
