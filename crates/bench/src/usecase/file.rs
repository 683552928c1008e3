//! The file of a use case.

use super::connection::Connection;
use super::step::{Fault, Reconnect, Step};
use super::thresholds::Thresholds;
use crate::profile::Profile;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use weir_load::plan::{Publish, Subscription, Transport};

/// The suite's three; `perf`, what else a broker's speed is judged by; `secure`, the same over TLS
/// and WebSocket, with passwords and access rights; `beyond`, what brokers meet in the field;
/// `storms`, much at once; `faults`, what goes wrong; `cluster`, several nodes.
pub(super) const SETS: [&str; 11] = [
    "basic",
    "enterprise",
    "throughput",
    "perf",
    "secure",
    "durable",
    "beyond",
    "storms",
    "soak",
    "faults",
    "cluster",
];

/// Why a use case cannot be used; one line that says where and what.
#[derive(Debug, thiserror::Error)]
pub enum UseCaseError {
    /// No use case has this name.
    #[error("unknown use case {name:?}; {}`weir bench list` shows all", tip(.name, .nearest))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The one it may be, if one is near.
        nearest: Option<String>,
    },
    /// No set has this name.
    #[error(
        "unknown set {name:?}; {}the sets are {}",
        set_tip(.name, *.is_use_case), SETS.join(", ")
    )]
    UnknownSet {
        /// What was asked for.
        name: String,
        /// Whether it is the name of a use case.
        is_use_case: bool,
    },
    /// The file cannot be read.
    #[error("cannot read the use case {path}: {why}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// The file is not what is expected: unknown key, wrong type, syntax.
    #[error("{path}:{line}: {message}")]
    Parse {
        /// The file.
        path: String,
        /// Its line, from 1.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// A value that the types allow and the suite does not.
    #[error("{path}:{line}: {message}")]
    Value {
        /// The file.
        path: String,
        /// Its line, from 1.
        line: usize,
        /// Which key, and what it has to be.
        message: String,
    },
    /// Not even the smallest scale fits.
    #[error(
        "{name} needs at least {needed} connections and the limit of open files leaves \
         {present}; raise it, for example with: ulimit -n {}", needed + 100
    )]
    Files {
        /// The use case.
        name: String,
        /// Connections at the smallest scale.
        needed: u64,
        /// What the limit leaves.
        present: u64,
    },
    /// A scale that is none.
    #[error("--scale {scale} is not usable: it must be above 0, such as 0.1")]
    Scale {
        /// What was asked for.
        scale: f64,
    },
}

fn set_tip(name: &str, is_use_case: bool) -> String {
    if is_use_case { format!("for one use case: `weir bench run {name}`; ") } else { String::new() }
}

fn tip(name: &str, nearest: &Option<String>) -> String {
    if SETS.contains(&name) {
        return format!("for the set: `weir bench suite {name}`; ");
    }
    nearest.as_ref().map_or_else(String::new, |name| format!("did you mean {name}? "))
}

/// A use case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseCase {
    /// Full name.
    pub name: String,
    /// One of the sets, or nothing.
    #[serde(default)]
    pub set: String,
    /// Counted up when the file changes what is measured.
    pub revision: u32,
    /// One line for a person.
    pub about: String,
    /// 3.1.1 or 5.0.
    pub mqtt_version: weir_load::plan::ProtocolVersion,
    /// Seconds; 0 is off.
    #[serde(default = "keep_alive_s")]
    pub keep_alive_s: u16,
    /// Clean Start or Clean Session.
    #[serde(default = "clean_start")]
    pub clean_start: bool,
    /// New connections per second.
    pub connect_rate_per_s: f64,
    /// A connection without CONNACK after this many seconds has failed.
    #[serde(default = "connect_timeout_s")]
    pub connect_timeout_s: u32,
    /// Publishing before the measure phase, in seconds.
    #[serde(default = "warm_up_s")]
    pub warm_up_s: f64,
    /// The measure phase, in seconds, where the file has a length of its own.
    pub measure_s: Option<f64>,
    /// At most this long is waited for what is owed, in seconds.
    #[serde(default = "drain_s")]
    pub drain_s: f64,
    /// What carries MQTT.
    #[serde(default)]
    pub transport: Transport,
    /// How TLS is spoken, where it is.
    #[serde(default)]
    pub tls: Tls,
    /// What the broker knows of its clients, where the suite starts it.
    #[serde(default)]
    pub access: Access,
    /// Who the clients say they are.
    #[serde(default)]
    pub connection: Connection,
    /// The clients.
    pub group: Vec<Group>,
    /// What the broker has to keep to.
    #[serde(default)]
    pub contract: Contract,
    /// What the broker must not go over.
    #[serde(default)]
    pub thresholds: Thresholds,
    /// What a broker has to be able to do for it.
    #[serde(default)]
    pub needs: Vec<Need>,
    /// How the broker is configured where nobody says how, if it has this profile.
    pub profile: Option<Profile>,
    /// How many nodes the broker has where nobody says how many; else one.
    pub nodes: Option<u32>,
    /// How clients come back that lost their connections, at a step or by themselves.
    pub reconnect: Option<Reconnect>,
    /// What happens while measure lasts.
    #[serde(default)]
    pub step: Vec<Step>,
    /// The file as it is.
    #[serde(skip)]
    pub text: String,
}

const fn keep_alive_s() -> u16 {
    300
}
const fn clean_start() -> bool {
    true
}
const fn connect_timeout_s() -> u32 {
    10
}
const fn warm_up_s() -> f64 {
    3.0
}
const fn drain_s() -> f64 {
    10.0
}

/// How TLS is spoken.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tls {
    /// Whether clients go on with sessions of earlier connections, their own or others'.
    pub resume: bool,
    /// So many certificates are made for clients, which show them in turn; with none they are not
    /// asked for them.
    pub client_certificates: u32,
}

/// Users and rights that a run makes for its broker.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    /// So many users with a password each, who the clients are in turn; with none, nobody is asked.
    pub users: u32,
    /// So many lines of access rights, shared evenly by the users; with none, all may do all.
    pub rules: u32,
}

/// Something that not every broker can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// MQTT 5.0.
    #[serde(rename = "mqtt-5.0")]
    Mqtt5,
    /// Shared subscriptions.
    SharedSubscriptions,
    /// QoS 2.
    #[serde(rename = "qos-2")]
    Qos2,
    /// Retained messages.
    Retained,
    /// Wills.
    Wills,
    /// Sessions that outlive their connections.
    Sessions,
    /// To be started by the suite, as it is killed and started again.
    Restart,
}

impl Need {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mqtt5 => "mqtt-5.0",
            Self::SharedSubscriptions => "shared-subscriptions",
            Self::Qos2 => "qos-2",
            Self::Retained => "retained",
            Self::Wills => "wills",
            Self::Sessions => "sessions",
            Self::Restart => "restart",
        }
    }
}

/// Clients that do the same.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Names it in results.
    pub name: String,
    /// How many at scale 1.
    pub clients: u32,
    /// Template with `{i}` and `{run}`.
    pub client_id: String,
    /// Whether the number follows `--scale`.
    pub scales: bool,
    /// What each subscribes to.
    #[serde(default)]
    pub subscriptions: Vec<Subscription>,
    /// What each publishes.
    pub publish: Option<Publish>,
    /// Clean Start of its clients, if it is not the use case's.
    pub clean_start: Option<bool>,
    /// Seconds its sessions outlive their connections (5.0).
    pub session_expiry_s: Option<u32>,
    /// The node that its first client connects to, from 1; the others follow in turn.
    #[serde(default = "once")]
    pub node: u32,
    /// So many subscriptions of each kind, with `{j}` from 0.
    #[serde(default = "once")]
    pub filters_each: u32,
}

const fn once() -> u32 {
    1
}

/// What the broker has to keep to; a run that breaks it is failed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Contract {
    /// Due messages that need not be accepted, as a share.
    pub rate_tolerance: f64,
    /// Expected deliveries that may be lost, as a share.
    pub lost_share_max: f64,
    /// Deliveries due in measure that may still be owed at its end, as a share: a broker that is
    /// behind by more is at its limit, and its latency is that of a growing queue.
    pub behind_share_max: f64,
    /// Deliveries that may come twice; nothing leaves that open, as QoS 1 does.
    pub duplicated_max: Option<u64>,
    /// Deliveries that may come after a later one of the same publisher, topic and QoS. Shared
    /// groups have no order to keep [MQTT-4.6.0-6 of 5.0].
    pub reordered_max: u64,
    /// Deliveries of this run that may come to a subscriber they are not owed to, or of messages
    /// that were never sent. What others on the same broker publish is not judged.
    pub stray_max: u64,
}

impl Default for Contract {
    fn default() -> Self {
        Self {
            rate_tolerance: 0.01,
            lost_share_max: 0.0,
            behind_share_max: 0.03,
            duplicated_max: None,
            reordered_max: 0,
            stray_max: 0,
        }
    }
}

/// The measure phase where neither the file nor anybody says how long it is. The suite's own 30
/// minutes are for who asks for them.
const MEASURE_S: f64 = 10.0;

/// After the last step, a rate may need so long to be seen again; after its begin, to be seen.
const SETTLE_S: f64 = 3.0;

impl UseCase {
    /// The measure phase in seconds: what is asked for, else the file's own; never too short for
    /// the steps.
    pub fn measure_s(&self, asked_s: Option<f64>) -> f64 {
        asked_s.or(self.measure_s).unwrap_or(MEASURE_S).max(self.measure_s_min())
    }

    /// Why brokers cannot be loaded in turn by it; nothing if they can.
    pub fn not_in_turn(&self) -> Option<&'static str> {
        let mut publishing = self.group.iter().filter_map(|group| group.publish.as_ref());
        if !self.step.is_empty() || self.reconnect.is_some() {
            return Some("it has steps");
        }
        if publishing.clone().next().is_none() {
            return Some("nothing is published");
        }
        (!publishing.all(Publish::is_even)).then_some("it publishes a ramp or wills")
    }

    /// The measure phase lasts at least until its last step is over and a recovery can be seen.
    pub fn measure_s_min(&self) -> f64 {
        // A dead connection is found out by its keep alive, and its answer that does not come.
        let unseen_s = |step: &Step| match step.fault {
            Some(Fault::HalfOpen) => 2.0 * f64::from(self.keep_alive_s),
            _ => 0.0,
        };
        let ends = self.step.iter().map(|step| step.end_s() + unseen_s(step) + SETTLE_S);
        let times = self.group.iter().filter_map(|group| group.publish.as_ref());
        let times = times
            .flat_map(|publish| [publish.from_s.map(|from_s| from_s + SETTLE_S), publish.until_s]);
        ends.chain(times.flatten()).fold(0.0, f64::max)
    }

    /// SHA-256 of the file, hex.
    pub fn sha256(&self) -> String {
        let mut hex = String::new();
        for byte in Sha256::digest(self.text.as_bytes()) {
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }
}
