//! How a client reaches a server: the layers of its connections.

use crate::{Layers, Recipe, Transport, tls, ws};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_chance::Chance;

/// TLS, WebSocket, or both over TCP, to one server.
#[derive(Debug)]
pub struct Route {
    /// A name or an address; one of IPv6 without its brackets.
    pub host: String,
    /// Of the server.
    pub port: u16,
    /// Below WebSocket, or alone.
    pub tls: Option<tls::Client>,
    /// Of WebSocket.
    pub path: Option<String>,
    /// Where the chance of each connection comes from: nobody may know it who chooses what is sent.
    pub seed: u64,
}

impl Route {
    /// Of all its connections; nothing if TLS is wanted and no certificate can be for the host.
    pub fn transport(self) -> Option<Transport> {
        if let Some(tls) = &self.tls {
            tls.layer(&self.host)?;
        }
        if self.tls.is_none() && self.path.is_none() {
            return Some(Transport::Plain);
        }
        let seeds = AtomicU64::new(self.seed);
        Some(Transport::Layered(Arc::new(Layering { route: self, seeds })))
    }

    fn host_header(&self) -> String {
        let usual = if self.tls.is_some() { 443 } else { 80 };
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }
}

#[derive(Debug)]
struct Layering {
    route: Route,
    seeds: AtomicU64,
}

impl Recipe for Layering {
    fn layers(&self) -> Layers {
        let Self { route, seeds } = self;
        let tls = route.tls.as_ref().and_then(|tls| tls.layer(&route.host));
        let websocket = route.path.as_ref().map(|path| {
            // The sequences of seeds next to each other have nothing in common.
            let seed = Chance::new(seeds.fetch_add(1, Ordering::Relaxed)).bits();
            ws::client(&route.host_header(), path, Chance::new(seed))
        });
        Layers::new(tls.into_iter().chain(websocket))
    }
}
