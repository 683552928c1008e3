//! Several nodes of a broker: what each took, what went between them, and what became of sessions,
//! held against what the broker promises.

use crate::driver::Running;
use crate::monitor::{self, Sample, Window};
use crate::numbers::{cores, grouped, mega};
use crate::result::{ClusterResult, NodeResult, Promise, Resources, SessionsResult};
use weir_load::Outcome;
use weir_load::steps::SessionKept;

/// The nodes of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    /// host:port of each.
    addresses: Vec<String>,
    /// Names of what they need beside them.
    services: Vec<String>,
    promises: Vec<Promise>,
}

impl Nodes {
    pub(crate) fn of(running: &Running) -> Self {
        Self {
            addresses: running.addresses().collect(),
            services: running.services().map(str::to_owned).collect(),
            promises: running.promises.clone(),
        }
    }
}

/// What is kept of a run on several nodes; nothing of one on a single one. `trees` are what was
/// seen of the nodes and, behind them, of what they need.
pub(crate) fn result(
    outcome: &Outcome,
    nodes: &Nodes,
    trees: &[Vec<Sample>],
    window: &Window,
) -> Option<ClusterResult> {
    let Nodes { addresses, services, promises } = nodes;
    if addresses.len() < 2 {
        return None;
    }
    let named =
        addresses.iter().zip(1..).map(|(at, number)| (format!("node {number}"), at.clone()));
    let named = named.chain(services.iter().map(|name| (name.clone(), String::new())));
    let resources = |at: usize| {
        let samples = trees.get(at)?;
        Some(monitor::resources(samples, samples.first()?, window, None))
    };
    let node = |(at, (name, address))| NodeResult { name, address, resources: resources(at) };
    let sessions = outcome.course.sessions.iter().map(|(&kept, of)| {
        let session = name(kept);
        SessionsResult {
            session: session.into(),
            clients: of.clients,
            lost: of.lost,
            duplicated: of.duplicated,
            promise: promises.iter().find(|promise| promise.session == session).cloned(),
        }
    });
    Some(ClusterResult {
        nodes: named.enumerate().map(node).collect(),
        received: outcome.traffic.received,
        crossed: outcome.traffic.crossed,
        sessions: sessions.collect(),
    })
}

/// As results and drivers name it.
const fn name(kept: SessionKept) -> &'static str {
    match kept {
        SessionKept::Connected => "connected",
        SessionKept::Resumed => "resumed",
        SessionKept::Clean => "clean",
        SessionKept::New => "new",
        SessionKept::Away => "away",
        SessionKept::Shared => "shared",
    }
}

/// The columns of a node.
pub(crate) const NODES_HEAD: [&str; 6] =
    ["node", "address", "CPU cores", "max", "us/delivery", "mem max"];

/// A node and its figures, as [`NODES_HEAD`] has them.
pub(crate) fn node_row(node: &NodeResult) -> [String; 6] {
    let of = |text: fn(&Resources) -> String| node.resources.as_ref().map_or_else(dash, text);
    [
        node.name.clone(),
        if node.address.is_empty() { dash() } else { node.address.clone() },
        of(|of| cores(of.cpu_cores_avg)),
        of(|of| cores(of.cpu_cores_max)),
        of(|of| of.cpu_us_per_delivery.map_or_else(dash, |us| format!("{us:.2}"))),
        of(|of| mega(of.rss_max_bytes)),
    ]
}

/// The columns of subscribers whose sessions had the same fate.
pub(crate) const SESSIONS_HEAD: [&str; 6] =
    ["session", "clients", "lost", "doubled", "none lost is promised", "kept"];

/// Their figures, as [`SESSIONS_HEAD`] has them.
pub(crate) fn sessions_row(of: &SessionsResult) -> [String; 6] {
    let (promised, kept) = match &of.promise {
        None => ("not known", "-"),
        Some(promise) if !promise.survives => ("no", "-"),
        Some(_) if of.lost > 0 => ("yes", "NO"),
        Some(_) => ("yes", "yes"),
    };
    let counts = [of.clients, of.lost, of.duplicated].map(grouped);
    let [clients, lost, doubled] = counts;
    [of.session.clone(), clients, lost, doubled, promised.into(), kept.into()]
}

/// What went between nodes, and what the broker says of sessions: a sentence each.
pub(crate) fn sentences(cluster: &ClusterResult) -> Vec<String> {
    let crossed = cluster.crossed_share().map(|share| {
        let (crossed, received) = (grouped(cluster.crossed), grouped(cluster.received));
        format!(
            "{crossed} of {received} deliveries went from one node to another: {:.1} %",
            share * 100.0
        )
    });
    let promises = cluster.sessions.iter().filter_map(|of| {
        let promise = of.promise.as_ref()?;
        Some(format!("session {}: {}", of.session, promise.says))
    });
    crossed.into_iter().chain(promises).collect()
}

fn dash() -> String {
    "-".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_lost_is_set_against_what_is_promised() {
        let of = |lost, survives: Option<bool>| {
            let promise = |survives| Promise { survives, says: "so".into(), ..Promise::default() };
            let promise = survives.map(promise);
            SessionsResult { session: "new".into(), lost, promise, ..SessionsResult::default() }
        };
        let told = |lost, survives| {
            let [.., promised, kept] = sessions_row(&of(lost, survives));
            (promised, kept)
        };
        let expected = |promised: &str, kept: &str| (promised.to_owned(), kept.to_owned());
        assert_eq!(told(0, Some(true)), expected("yes", "yes"));
        assert_eq!(told(1, Some(true)), expected("yes", "NO"));
        assert_eq!(told(1, Some(false)), expected("no", "-"));
        assert_eq!(told(1, None), expected("not known", "-"));
        let sessions = vec![of(0, Some(true)), of(0, None)];
        let cluster = ClusterResult { received: 8, crossed: 2, sessions, ..Default::default() };
        let told = sentences(&cluster);
        assert_eq!(
            told,
            ["2 of 8 deliveries went from one node to another: 25.0 %", "session new: so"]
        );
    }

    #[test]
    fn a_service_has_no_address_and_what_was_not_seen_no_figures() {
        let node = NodeResult { name: "etcd".into(), ..NodeResult::default() };
        assert_eq!(node_row(&node), ["etcd", "-", "-", "-", "-", "-"]);
    }
}
