//! What a use case asks of a broker's listener, and how clients come in by it.

use super::file::Values;
use serde::Deserialize;
use weir_load::plan::{Credentials, Route, Transport};

/// How the clients of a run come in.
#[derive(Clone, Debug, Default)]
pub struct Login {
    /// What is between TCP and MQTT.
    pub route: Route,
    /// Who they say they are.
    pub credentials: Credentials,
    /// If above 0, they are so many users in turn, by numbers behind the name.
    pub users: u32,
}

impl Login {
    /// Of the first client.
    pub(crate) fn first(&self) -> Credentials {
        let Credentials { user_name, password } = self.credentials.clone();
        let user_name = user_name.map(|name| match self.users {
            0 => name,
            _ => format!("{name}-0"),
        });
        Credentials { user_name, password }
    }
}

/// What a run asks of the broker that it starts: by itself plain TCP, for whoever comes.
#[derive(Clone, Debug, Default)]
pub struct Demand {
    /// For the clients.
    pub login: Login,
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
        }
    }
}
