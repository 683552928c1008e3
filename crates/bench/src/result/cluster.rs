//! What a run on several nodes of one broker brought, as it is kept.

use super::Resources;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Several nodes of one broker.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ClusterResult {
    /// The nodes, and behind them what they needed beside them.
    pub nodes: Vec<NodeResult>,
    /// Deliveries in measure.
    pub received: u64,
    /// Of these, to a subscriber on another node than the publisher's.
    pub crossed: u64,
    /// Subscribers by what became of their sessions; empty where agents made the load.
    pub sessions: Vec<SessionsResult>,
}

/// A node, or a service that nodes need.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct NodeResult {
    /// Such as "node 1" or "etcd".
    pub name: String,
    /// host:port of MQTT; empty for a service.
    pub address: String,
    /// Its resources in the measure phase; CPU per delivery is by all deliveries. Absent where its
    /// processes cannot be seen.
    pub resources: Option<Resources>,
}

/// Subscribers whose sessions had the same fate, and what of measure was owed to them.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SessionsResult {
    /// connected (all the time), resumed, clean (its client came back and wanted a new one), new
    /// (its client came back, and the broker had it no more), away (its client did not come back)
    /// or shared (of a member of a shared group, to which deliveries are owed as a whole).
    pub session: String,
    /// Subscribers.
    pub clients: u64,
    /// Deliveries that never came.
    pub lost: u64,
    /// Deliveries that came again.
    pub duplicated: u64,
    /// What the broker promises of their messages; absent where it is not known.
    pub promise: Option<Promise>,
}

/// What a broker promises of acknowledged messages for a subscriber, where a node is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Promise {
    /// For which subscribers, by what became of their sessions.
    pub session: String,
    /// Whether none is lost.
    pub survives: bool,
    /// What the broker's documentation says.
    pub says: String,
}

impl ClusterResult {
    /// The part of deliveries that went from one node to another; nothing if none came.
    pub fn crossed_share(&self) -> Option<f64> {
        (self.received > 0).then(|| self.crossed as f64 / self.received as f64)
    }

    /// Why a run has not passed: what was promised and not kept, a line each.
    pub(crate) fn broken(&self) -> Vec<String> {
        let is_broken = |of: &&SessionsResult| {
            of.lost > 0 && of.promise.as_ref().is_some_and(|promise| promise.survives)
        };
        let line = |of: &SessionsResult| {
            let (lost, session) = (of.lost, &of.session);
            format!(
                "{lost} deliveries to clients whose session was {session} were lost, and the \
                 broker promises to lose none"
            )
        };
        self.sessions.iter().filter(is_broken).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_breaks_a_promise_where_there_is_one() {
        let of = |lost, survives: Option<bool>| SessionsResult {
            session: "connected".into(),
            lost,
            promise: survives.map(|survives| Promise { survives, ..Promise::default() }),
            ..SessionsResult::default()
        };
        let sessions = vec![of(1, Some(true)), of(2, Some(false)), of(3, None), of(0, Some(true))];
        let cluster = ClusterResult { sessions, ..ClusterResult::default() };
        let [line] = &cluster.broken()[..] else { panic!("one: {:?}", cluster.broken()) };
        assert!(line.starts_with("1 deliveries to clients whose session was connected"), "{line}");
        assert_eq!(cluster.crossed_share(), None);
        let half = ClusterResult { received: 4, crossed: 2, ..cluster };
        assert_eq!(half.crossed_share(), Some(0.5));
    }
}
