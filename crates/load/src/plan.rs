//! What to do: clients, their subscriptions and schedules, and the phases of the run.

mod route;
pub(crate) mod slice;

pub use route::{Route, Transport, Transports};
pub use slice::{Shared, Slice, deal};
pub use weir_transport::tls::{ClientSettings, IdentityText};

use crate::shifts::Shifts;
use crate::steps::StepPlan;
use crate::template::expand;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use weir_wire::Version;

/// A whole run, as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The broker under test; of one with several nodes, the first.
    pub target: SocketAddr,
    /// Its other nodes.
    #[serde(default)]
    pub others: Vec<SocketAddr>,
    /// Spoken by every client.
    pub version: ProtocolVersion,
    /// Number of this run, in every stamp: a message of another run is counted as stray.
    pub run: u16,
    /// Keep alive in seconds; 0 is off.
    pub keep_alive_s: u16,
    /// Clean Start or Clean Session.
    pub clean_start: bool,
    /// What carries MQTT.
    #[serde(default)]
    pub route: Route,
    /// Who every client says it is.
    pub credentials: Credentials,
    /// If above 0, clients are so many users in turn, whose names have `-0`, `-1` and so on behind
    /// that of the credentials.
    #[serde(default)]
    pub users: u32,
    /// Where connections come from; `None` leaves it to the system.
    pub sources: Option<Sources>,
    /// How connections are made.
    pub connect: ConnectPlan,
    /// The clients, connected in this order.
    pub groups: Vec<Group>,
    /// How long each phase takes.
    pub phases: Phases,
    /// Length of an interval of the series, in milliseconds.
    pub interval_ms: u32,
    /// Which of the clients are run here; all, unless agents share the plan.
    #[serde(default)]
    pub slice: Slice,
    /// What happens to clients while the run lasts.
    #[serde(default)]
    pub course: StepPlan,
    /// Publishing in turn with other runs; only even streams can.
    #[serde(default)]
    pub shifts: Option<Shifts>,
}

impl Plan {
    /// Clients of MQTT 5.0 with clean sessions over plain TCP, without credentials. Whoever wants
    /// something else says so with `..Plan::new(...)`.
    pub fn new(target: SocketAddr, groups: Vec<Group>, phases: Phases) -> Self {
        Self {
            target,
            others: Vec::new(),
            version: ProtocolVersion::V5,
            run: 1,
            keep_alive_s: 60,
            clean_start: true,
            route: Route::default(),
            credentials: Credentials::default(),
            users: 0,
            sources: None,
            connect: ConnectPlan { rate_per_s: 2_000.0, timeout_ms: 5_000 },
            groups,
            phases,
            interval_ms: 250,
            slice: Slice::WHOLE,
            course: StepPlan::default(),
            shifts: None,
        }
    }

    /// Nodes of the broker.
    pub(crate) fn nodes(&self) -> u32 {
        1 + self.others.len() as u32
    }

    /// Where a node listens.
    pub(crate) fn node(&self, node: u32) -> SocketAddr {
        let other = (node as usize).checked_sub(1).and_then(|at| self.others.get(at));
        other.copied().unwrap_or(self.target)
    }

    /// The slice `index` of `of` equal ones: the same plan, of which others run the rest.
    pub fn slice(&self, index: u32, of: u32) -> Self {
        Self { slice: Slice::new(index, of), ..self.clone() }
    }
}

/// The protocol of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProtocolVersion {
    /// MQTT 3.1.1.
    #[serde(rename = "3.1.1")]
    V311,
    /// MQTT 5.0.
    #[serde(rename = "5.0")]
    V5,
}

impl ProtocolVersion {
    /// As the wire names it.
    pub(crate) const fn on_wire(self) -> Version {
        match self {
            Self::V311 => Version::V311,
            Self::V5 => Version::V5,
        }
    }
}

/// Who a client says it is, if anybody. Agents are told over their lines; no result holds it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// User Name of CONNECT.
    pub user_name: Option<String>,
    /// Password of CONNECT.
    pub password: Option<String>,
}

/// Without the password, so that no log can have it.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = self.password.as_ref().map(|_| "***");
        let mut shown = f.debug_struct("Credentials");
        shown.field("user_name", &self.user_name).field("password", &password).finish()
    }
}

/// Source addresses in rotation: `first`, `first + 1` and so on, each for `connections_each`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sources {
    /// The first address, such as 127.0.1.1.
    pub first: Ipv4Addr,
    /// Connections from one address before the next is used.
    pub connections_each: u32,
}

/// How connections are made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectPlan {
    /// New connections a second, evenly spread.
    pub rate_per_s: f64,
    /// A connection without CONNACK after this time has failed.
    pub timeout_ms: u32,
}

/// Clients that do the same.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Names the group in results.
    pub name: String,
    /// How many.
    pub clients: u32,
    /// A template: `{i}` is the client's index in its group, from 0, `{i+N}` that plus N; `{run}`
    /// the run's number.
    pub client_id: String,
    /// What each subscribes to, once connected.
    #[serde(default)]
    pub subscriptions: Vec<Subscription>,
    /// What each publishes, from warm-up to the end of measure.
    #[serde(default)]
    pub publish: Option<Publish>,
    /// Clean Start of its clients, if it is not the plan's.
    #[serde(default)]
    pub clean_start: Option<bool>,
    /// Seconds its sessions outlive their connections (5.0).
    #[serde(default)]
    pub session_expiry_s: Option<u32>,
    /// The node of its first client, from 0; the others follow in turn. Counted around.
    #[serde(default)]
    pub node: u32,
}

impl Group {
    /// Whether its clients share a subscription with others.
    pub fn is_shared(&self) -> bool {
        self.subscriptions.iter().any(|one| one.filter.starts_with("$share/"))
    }
}

/// One subscription of each client in a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscription {
    /// A template, as in [`Group::client_id`]. May be shared: `$share/{group}/{filter}`.
    pub filter: String,
    /// Highest QoS wanted, 0 to 2.
    pub qos: u8,
    /// What the SUBSCRIBE says in the place of the filter, where the broker is to deliver by it
    /// just what the filter matches: a condition on content. A template as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
}

impl Subscription {
    /// A filter that is subscribed to as it is.
    pub fn plain(filter: impl Into<String>, qos: u8) -> Self {
        Self { filter: filter.into(), qos, asked: None }
    }
}

/// What each client in a group publishes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publish {
    /// A template, as in [`Group::client_id`].
    pub topic: String,
    /// 0 to 2.
    pub qos: u8,
    /// Messages a second of one client; the clients' phases are spread evenly.
    pub rate_per_s: f64,
    /// Payload in bytes, at least the stamp's 16.
    pub payload_bytes: u32,
    /// Whether messages are to be retained.
    #[serde(default)]
    pub retain: bool,
    /// The last client's payload is so large, and those between are spread evenly by ratio.
    #[serde(default)]
    pub payload_bytes_to: Option<u32>,
    /// What is behind the stamp.
    #[serde(default)]
    pub payload: Payload,
    /// The rate grows or falls evenly to this one at the end.
    #[serde(default)]
    pub rate_to_per_s: Option<f64>,
    /// Publishing begins so many seconds after the begin of measure, not with warm-up.
    #[serde(default)]
    pub from_s: Option<f64>,
    /// It ends so many seconds after the begin of measure, not with measure.
    #[serde(default)]
    pub until_s: Option<f64>,
    /// At most so many messages of each client.
    #[serde(default)]
    pub count: Option<u32>,
    /// The message is the client's will: when it is due, the client's connection is cut.
    #[serde(default)]
    pub will: bool,
}

/// What a payload is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// The stamp's 16 bytes, and dots.
    #[default]
    Bytes,
    /// A JSON object like a telemetry message, the stamp in it as text.
    Json,
}

impl Publish {
    /// Whether it publishes at one rate from begin to end: no ramp, no wills.
    pub fn is_even(&self) -> bool {
        self.rate_to_per_s.is_none() && !self.will
    }

    /// Bytes of one PUBLISH of the group's first client on the wire, in run `run` (section 3.3 of
    /// both standards).
    pub fn bytes_on_wire(&self, version: ProtocolVersion, run: u16) -> u32 {
        let topic = expand(&self.topic, 0, run).len() as u32;
        let packet_id = if self.qos > 0 { 2 } else { 0 };
        let properties = u32::from(version == ProtocolVersion::V5);
        let rest = 2 + topic + packet_id + properties + self.payload_bytes;
        let length_bytes = match rest {
            0..=127 => 1,
            128..=16_383 => 2,
            16_384..=2_097_151 => 3,
            _ => 4,
        };
        1 + length_bytes + rest
    }
}

/// How long each phase takes, in milliseconds. Connect and subscribe take as long as they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phases {
    /// Publishing, audited but not in the histograms.
    pub warm_up_ms: u64,
    /// Publishing, measured; without publishers the connections are held.
    pub measure_ms: u64,
    /// At most this long is waited for what is still owed.
    pub drain_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publish_is_as_long_on_the_wire_as_its_parts() {
        let of = |qos, payload_bytes| Publish {
            topic: "test/{i}".into(),
            qos,
            payload_bytes,
            ..Publish::default()
        };
        let bytes = |qos, payload, version| of(qos, payload).bytes_on_wire(version, 7);
        // Fixed header 2, topic 2 + 6, payload 16; a packet identifier 2, no properties 1.
        assert_eq!(bytes(0, 16, ProtocolVersion::V311), 26);
        assert_eq!(bytes(1, 16, ProtocolVersion::V311), 28);
        assert_eq!(bytes(1, 16, ProtocolVersion::V5), 29);
        // The remaining length takes a second byte from 128 on, a third from 16,384 on.
        assert_eq!(bytes(0, 119, ProtocolVersion::V311), 129);
        assert_eq!(bytes(0, 120, ProtocolVersion::V311), 131);
        assert_eq!(bytes(0, 16_376, ProtocolVersion::V311), 16_388);
    }
}
