//! How the clients of a plan reach the broker.

use crate::LoadError;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use weir_transport::tls::{Client, ClientSettings, IdentityText};

/// What is between TCP and MQTT; by itself nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Route {
    /// A name or an address: the broker's certificate has to be for it, and the request for a
    /// WebSocket names it.
    pub host: String,
    /// What the request for a WebSocket asks for, if that is spoken.
    pub path: Option<String>,
    /// How TLS is spoken, if it is.
    pub tls: Option<ClientSettings>,
    /// Certificates that clients show, each to every so manieth of them; none shows none.
    pub identities: Vec<IdentityText>,
}

/// What carries MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP, unencrypted.
    #[default]
    #[serde(rename = "tcp")]
    Plain,
    /// TLS.
    Tls,
    /// WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
}

impl Transport {
    /// From the plainest on.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Tls, Self::Ws, Self::Wss];

    /// Of those with these parts.
    pub const fn of(has_tls: bool, is_websocket: bool) -> Self {
        match (has_tls, is_websocket) {
            (false, false) => Self::Plain,
            (true, false) => Self::Tls,
            (false, true) => Self::Ws,
            (true, true) => Self::Wss,
        }
    }

    /// As use cases and drivers name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "tcp",
            Self::Tls => "tls",
            Self::Ws => "ws",
            Self::Wss => "wss",
        }
    }

    /// Whether TLS is part of it.
    pub const fn has_tls(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// Whether WebSocket is part of it.
    pub const fn is_websocket(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

impl Route {
    /// What of it carries MQTT.
    pub const fn transport(&self) -> Transport {
        Transport::of(self.tls.is_some(), self.path.is_some())
    }
}

/// The layers of a run's connections.
#[derive(Debug)]
pub struct Transports {
    /// One for each identity, or one.
    each: Vec<weir_reactor::Transport>,
    clients: Vec<Client>,
}

impl Transports {
    /// Of connections to `port`.
    ///
    /// # Errors
    /// What of the route cannot be used.
    pub fn new(route: &Route, port: u16) -> Result<Self, LoadError> {
        let fault = |text: String| LoadError::Plan(format!("TLS: {text}"));
        let mut of = Self { each: Vec::new(), clients: Vec::new() };
        let identities: Vec<Option<&IdentityText>> = match &*route.identities {
            [] => vec![None],
            some => some.iter().map(Some).collect(),
        };
        // A hasher of the standard library has keys that nobody knows.
        let seed = RandomState::new().hash_one("masks");
        for identity in identities {
            let settings = route.tls.as_ref();
            let client = settings.map(|settings| Client::with(settings, identity)).transpose();
            let tls = client.map_err(|error| fault(error.to_string()))?;
            of.clients.extend(tls.clone());
            let (host, path) = (route.host.clone(), route.path.clone());
            let transport = weir_transport::Route { host, port, tls, path, seed }.transport();
            let host = &route.host;
            let unfit = || fault(format!("no certificate can be for {host:?}"));
            of.each.push(transport.ok_or_else(unfit)?);
        }
        Ok(of)
    }

    /// That of a client, by its number in the plan.
    pub fn of(&self, client: u32) -> &weir_reactor::Transport {
        &self.each[client as usize % self.each.len()]
    }

    /// Handshakes of TLS so far: those with certificates, and those by a ticket.
    pub(crate) fn handshakes(&self) -> (u64, u64) {
        let all = self.clients.iter().map(Client::handshakes);
        all.fold((0, 0), |sum, of| (sum.0 + of.full(), sum.1 + of.resumed()))
    }
}
