//! Where the nodes of a broker and what they need listen, and what each is told of it.

use super::file::{BrokerFile, Values, fill};
use super::nodes::Nodes;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port that a node may be given, and how many there are: Linux gives connections those
/// from 32768 on.
const PORT_MIN: u16 = 20_000;
const PORTS: u16 = 12_000;

/// Where the nodes of a run and what they need listen.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Of each node: MQTT, then the other ports of its file.
    nodes: Vec<Vec<SocketAddr>>,
    /// Of each service: its ports.
    pub(super) services: Vec<Vec<SocketAddr>>,
}

impl Places {
    /// Free ports for so many nodes.
    ///
    /// # Errors
    /// The system has none.
    pub(super) fn free(file: &BrokerFile, nodes: usize) -> std::io::Result<Self> {
        // All are held until all are found, so that no two are the same.
        let mut held = Vec::new();
        let mut free = |count: usize| -> std::io::Result<Vec<SocketAddr>> {
            let listeners: Vec<_> = (0..count).map(|_| listen()).collect::<Result<_, _>>()?;
            let addresses = listeners.iter().map(TcpListener::local_addr).collect();
            held.extend(listeners);
            addresses
        };
        let each = 1 + names(file, nodes).len();
        let own = (0..nodes).map(|_| free(each)).collect::<Result<_, _>>()?;
        let services = cluster(file, nodes).map_or(&[][..], |of| &of.service);
        let services = services.iter().map(|service| free(service.ports.len()));
        Ok(Self::of(file, own, services.collect::<Result<_, _>>()?))
    }

    /// Of nodes that each have `1 + ports` addresses.
    pub(super) fn of(
        file: &BrokerFile,
        mut nodes: Vec<Vec<SocketAddr>>,
        services: Vec<Vec<SocketAddr>>,
    ) -> Self {
        let shared = cluster(file, nodes.len()).map_or(&[][..], |of| &of.shared);
        let names = names(file, nodes.len());
        for (at, _) in names.iter().enumerate().filter(|(_, name)| shared.contains(name)) {
            let first = nodes[0][1 + at];
            nodes.iter_mut().for_each(|of| of[1 + at] = first);
        }
        Self { nodes, services }
    }

    /// Ports from 20000 on, so many nodes of 100 each, services behind them.
    #[cfg(test)]
    pub(super) fn numbered(file: &BrokerFile, nodes: u16) -> Self {
        let place = |at: u16| SocketAddr::from(([127, 0, 0, 1], 20_000 + at));
        let each = 1 + names(file, usize::from(nodes)).len() as u16;
        let own = (0..nodes).map(|node| (0..each).map(|at| place(100 * node + at)).collect());
        let services = cluster(file, usize::from(nodes)).map_or(&[][..], |of| &of.service);
        let services = services.iter().map(|service| {
            (0..service.ports.len() as u16).map(|at| place(100 * nodes + at)).collect()
        });
        Self::of(file, own.collect(), services.collect())
    }

    /// How many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Where a node listens: MQTT, then the other ports of its file.
    pub(super) fn of_node(&self, at: usize) -> &[SocketAddr] {
        &self.nodes[at]
    }

    /// What the braces stand for in what a node is told.
    pub(super) fn values(&self, file: &BrokerFile, at: usize) -> Values {
        let names = names(file, self.nodes());
        let node = |at: usize| -> Values {
            let addresses = &self.nodes[at];
            let mqtt = addresses[0];
            let own = [
                ("address", mqtt.to_string()),
                ("host", mqtt.ip().to_string()),
                ("port", mqtt.port().to_string()),
                ("node", (at + 1).to_string()),
                ("nodes", self.nodes().to_string()),
            ];
            let ports = names.iter().zip(&addresses[1..]);
            let ports = ports.map(|(name, at)| (format!("port_{name}"), at.port().to_string()));
            own.map(|(key, value)| (key.to_owned(), value)).into_iter().chain(ports).collect()
        };
        let mut values = node(at);
        let first = node(0).into_iter().filter(|(key, _)| key.starts_with("port"));
        values.extend(first.map(|(key, value)| (format!("first_{key}"), value)));
        if let Some(of) = cluster(file, self.nodes()) {
            for (service, addresses) in of.service.iter().zip(&self.services) {
                let ports = service.ports.iter().zip(addresses);
                values.extend(
                    ports.map(|(name, at)| (format!("port_{name}"), at.port().to_string())),
                );
            }
            let all: Vec<Values> = (0..self.nodes()).map(node).collect();
            for (name, text) in &of.list {
                let texts: Vec<String> = all.iter().map(|values| fill(text, values)).collect();
                values.insert(name.clone(), texts.join(", "));
            }
        }
        values
    }
}

/// A port that nobody has, below those that the system gives to connections: a node that is started
/// again in a run finds no client there.
fn listen() -> std::io::Result<TcpListener> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Two drivers at a time begin far from each other.
    let first = std::process::id().wrapping_mul(61);
    let next = || first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % u32::from(PORTS);
    let ports = (0..PORTS).map(|_| PORT_MIN + next() as u16);
    let mut free = ports.filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
    free.next().map_or_else(|| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)), Ok)
}

/// What the file says of several nodes, if there are several.
fn cluster(file: &BrokerFile, nodes: usize) -> Option<&Nodes> {
    file.nodes.as_ref().filter(|_| nodes > 1)
}

/// Names of a node's ports beside that of MQTT.
fn names(file: &BrokerFile, nodes: usize) -> Vec<String> {
    let own = cluster(file, nodes).map_or(&[][..], |of| &of.ports);
    file.ports.iter().chain(own).cloned().collect()
}
