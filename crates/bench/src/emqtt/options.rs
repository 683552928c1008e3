//! From the options to a plan of the load generator.

use crate::driver::{UrlTls, route};
use crate::usecase::{PAYLOAD_BYTES_MAX, sources};
use std::net::SocketAddr;
use weir_load::plan::{
    ConnectPlan, Credentials, Group, Phases, Plan, ProtocolVersion, Publish, Subscription,
};
use weir_load::{STAMP_BYTES, Slice, Url};

/// Longest run: what is kept a second is bounded by it. Ctrl-C or a limit ends a run before.
const RUN_MS_MAX: u64 = 7 * 24 * 3_600 * 1_000;

/// What is owed is waited for so long.
const DRAIN_MS: u64 = 10_000;

/// Without CONNACK for so long a connection has failed.
const CONNECT_TIMEOUT_MS: u32 = 10_000;

/// New connections per second where no pause between them is asked for.
const CONNECT_RATE_MAX: f64 = 100_000.0;

/// One line and one row a second.
const INTERVAL_MS: u32 = 1_000;

/// The options that all three have.
#[derive(Clone, Debug, PartialEq)]
pub struct Common {
    /// Where the broker is; who to be there is said by `credentials` alone.
    pub url: Url,
    /// How TLS is spoken, where it is.
    pub tls: Option<UrlTls>,
    /// 4 is MQTT 3.1.1, 5 is 5.0; 3 (MQTT 3.1) is refused.
    pub version: u8,
    /// Clients, numbered from `start_number` + 1.
    pub clients: u32,
    /// Added to every client's number.
    pub start_number: u32,
    /// New connections per second; 0 leaves it to `connect_interval_ms`.
    pub connect_rate_per_s: u32,
    /// Pause between two new connections.
    pub connect_interval_ms: u64,
    /// Who every client says it is.
    pub credentials: Credentials,
    /// Keep alive in seconds.
    pub keep_alive_s: u16,
    /// Clean Start or Clean Session.
    pub is_clean: bool,
    /// Of client identifiers; the host's name without one.
    pub prefix: Option<String>,
}

/// What the clients do.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Hold their connections.
    Connect,
    /// Publish.
    Publish {
        /// With `%i`, `%c`, `%u`.
        topic: String,
        /// 0 to 2.
        qos: u8,
        /// At least the stamp's 16.
        payload_bytes: u32,
        /// Between two messages of one client.
        interval_ms: u64,
        /// Messages of all clients together; 0 has no end.
        limit: u64,
        /// Whether they are to be retained.
        is_retained: bool,
        /// Who hears them, of this very run: then every delivery is audited.
        audience: Option<Audience>,
    },
    /// Subscribe, and count what comes.
    Subscribe {
        /// With `%i`, `%c`, `%u`; one subscription of each client each.
        filters: Vec<String>,
        /// 0 to 2.
        qos: u8,
    },
}

/// Subscribers beside the publishers.
#[derive(Clone, Debug, PartialEq)]
pub struct Audience {
    /// How many, numbered as the publishers are.
    pub subscribers: u32,
    /// With `%i`, `%c`, `%u`; without one, the topic with `+` for each level that has a variable.
    pub filter: Option<String>,
}

/// All of a command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Whom, how many, how fast.
    pub common: Common,
    /// What they do.
    pub work: Work,
}

/// A plan, and what is not quite as asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// For the load generator.
    pub plan: Plan,
    /// One line each, for a person.
    pub notes: Vec<String>,
}

/// What is wrong with the options; one line that says what to do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EmqttError {
    /// The load generator does not speak it.
    #[error("-V {0} is not supported: use -V 4 (MQTT 3.1.1) or -V 5 (MQTT 5.0)")]
    Version(u8),
    /// Nothing to do.
    #[error("{0} 0 means no clients: give at least 1")]
    NoClients(&'static str),
    /// Out of the range of packet and schedule.
    #[error("{option} {value} is not possible: {must}")]
    Value {
        /// As on the command line.
        option: &'static str,
        /// As given.
        value: u64,
        /// What it must be, or what to use.
        must: &'static str,
    },
    /// A variable of a topic that is not known, or has no value.
    #[error("-t {topic}: {variable} {why}")]
    Variable {
        /// As given.
        topic: String,
        /// Such as `%s`.
        variable: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The host's name.
    #[error("-h {host}: {why}")]
    Host {
        /// As given.
        host: String,
        /// What the system says of it.
        why: String,
    },
}

impl Options {
    /// The plan of these options against `target`, with the number `run` in its stamps.
    ///
    /// # Errors
    /// Options that contradict MQTT or the load generator.
    pub fn plan(&self, target: SocketAddr, run: u16) -> Result<Planned, EmqttError> {
        let common = &self.common;
        let version = match common.version {
            4 => ProtocolVersion::V311,
            5 => ProtocolVersion::V5,
            other => return Err(EmqttError::Version(other)),
        };
        if common.clients == 0 {
            return Err(EmqttError::NoClients("-c"));
        }
        let route = route(&common.url, common.tls.as_ref()).map_err(|why| common.host(why))?;
        let mut notes = Vec::new();
        let (groups, measure_ms) = self.groups(&mut notes)?;
        let clients = groups.iter().map(|group| u64::from(group.clients)).sum();
        let plan = Plan {
            target,
            others: Vec::new(),
            version,
            run,
            keep_alive_s: common.keep_alive_s,
            clean_start: common.is_clean,
            route,
            users: 0,
            credentials: common.credentials.clone(),
            sources: sources(target, clients),
            connect: ConnectPlan {
                rate_per_s: common.connect_rate(),
                timeout_ms: CONNECT_TIMEOUT_MS,
            },
            groups,
            phases: Phases { warm_up_ms: 0, measure_ms, drain_ms: DRAIN_MS },
            interval_ms: INTERVAL_MS,
            slice: Slice::WHOLE,
            course: Default::default(),
            shifts: None,
        };
        Ok(Planned { plan, notes })
    }

    /// The clients, and for how long.
    fn groups(&self, notes: &mut Vec<String>) -> Result<(Vec<Group>, u64), EmqttError> {
        let common = &self.common;
        match &self.work {
            Work::Connect => Ok((vec![common.group("conn", common.clients)], RUN_MS_MAX)),
            Work::Subscribe { filters, qos } => {
                let mut group = common.group("sub", common.clients);
                group.subscriptions = subscriptions(common, filters, *qos, &group.client_id)?;
                Ok((vec![group], RUN_MS_MAX))
            }
            Work::Publish { topic, qos, payload_bytes, interval_ms, limit, .. } => {
                check_publish(*payload_bytes, *interval_ms)?;
                let mut publishers = common.group("pub", common.clients);
                let rate_per_s = 1e3 / *interval_ms as f64;
                publishers.publish = Some(Publish {
                    topic: common.expand(topic, &publishers.client_id)?,
                    qos: *qos,
                    rate_per_s,
                    payload_bytes: *payload_bytes,
                    retain: matches!(self.work, Work::Publish { is_retained: true, .. }),
                    ..Publish::default()
                });
                let mut groups = self.audience(topic, *qos)?;
                groups.push(publishers);
                let each_ms = *interval_ms as f64 / f64::from(common.clients);
                Ok((groups, length_ms(*limit, each_ms, notes)))
            }
        }
    }

    /// The subscribers beside the publishers, if any.
    fn audience(&self, topic: &str, qos: u8) -> Result<Vec<Group>, EmqttError> {
        let Work::Publish { audience: Some(audience), .. } = &self.work else {
            return Ok(Vec::new());
        };
        if audience.subscribers == 0 {
            return Err(EmqttError::NoClients("--subscribers"));
        }
        let common = &self.common;
        let mut group = common.group("sub", audience.subscribers);
        let filter = audience.filter.clone().unwrap_or_else(|| wild(topic));
        group.subscriptions = subscriptions(common, &[filter], qos, &group.client_id)?;
        Ok(vec![group])
    }
}

/// A stamp fits, and there is a rate.
fn check_publish(payload_bytes: u32, interval_ms: u64) -> Result<(), EmqttError> {
    let fail = |option, value, must| Err(EmqttError::Value { option, value, must });
    if (payload_bytes as usize) < STAMP_BYTES {
        let must = "a payload begins with a stamp of 16 bytes, so -s must be at least 16";
        return fail("-s", u64::from(payload_bytes), must);
    }
    if payload_bytes > PAYLOAD_BYTES_MAX {
        let must = "an MQTT packet has at most 256 MiB, including its topic of up to 64 KiB";
        return fail("-s", u64::from(payload_bytes), must);
    }
    if interval_ms == 0 {
        let must = "messages are due on a schedule, so it must be at least 1; more clients (-c) \
                    make a higher rate";
        return fail("-I", interval_ms, must);
    }
    Ok(())
}

/// How long `limit` messages take, one every `each_ms`, in whole milliseconds.
fn length_ms(limit: u64, each_ms: f64, notes: &mut Vec<String>) -> u64 {
    if limit == 0 {
        return RUN_MS_MAX;
    }
    let due_in = |length_ms: f64| (length_ms / each_ms).ceil() as u64;
    let exact_ms = limit as f64 * each_ms;
    let mut length_ms = exact_ms.floor();
    if due_in(length_ms) < limit {
        length_ms = exact_ms.ceil();
    }
    let length_ms = length_ms.clamp(1.0, RUN_MS_MAX as f64);
    let due = due_in(length_ms);
    if due != limit {
        notes.push(format!(
            "-L {limit}: {due} messages will be due, because publishing ends on a whole millisecond"
        ));
    }
    length_ms as u64
}

fn subscriptions(
    common: &Common,
    filters: &[String],
    qos: u8,
    client_id: &str,
) -> Result<Vec<Subscription>, EmqttError> {
    let one = |filter: &String| Ok(Subscription::plain(common.expand(filter, client_id)?, qos));
    filters.iter().map(one).collect()
}

/// The topic with `+` for each level that has a variable.
fn wild(topic: &str) -> String {
    let level = |level: &str| if level.contains('%') { "+".to_owned() } else { level.to_owned() };
    topic.split('/').map(level).collect::<Vec<_>>().join("/")
}

impl Common {
    pub(super) fn host(&self, why: impl Into<String>) -> EmqttError {
        EmqttError::Host { host: self.url.host.clone(), why: why.into() }
    }

    fn connect_rate(&self) -> f64 {
        match (self.connect_rate_per_s, self.connect_interval_ms) {
            (0, 0) => CONNECT_RATE_MAX,
            (0, interval_ms) => 1e3 / interval_ms as f64,
            (rate_per_s, _) => f64::from(rate_per_s),
        }
    }

    /// Clients without anything to do yet. `kind` is in their identifiers.
    fn group(&self, kind: &str, clients: u32) -> Group {
        let number = self.number();
        let client_id = match &self.prefix {
            Some(prefix) => format!("{prefix}_bench_{kind}_{number}"),
            None => format!("{}_bench_{kind}_{number}_{{run}}", host_name()),
        };
        let name = kind.into();
        Group { name, clients, client_id, ..Group::default() }
    }

    /// The client's number as a template: from 1, after the start number.
    fn number(&self) -> String {
        format!("{{i+{}}}", self.start_number.saturating_add(1))
    }

    /// A topic or filter as a template of the load generator.
    fn expand(&self, topic: &str, client_id: &str) -> Result<String, EmqttError> {
        let mut parts = topic.split('%');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let fail = |why| {
                let variable: String = part.chars().take_while(|c| *c != '/').collect();
                let (topic, variable) = (topic.to_owned(), format!("%{variable}"));
                Err(EmqttError::Variable { topic, variable, why })
            };
            let value = match part.chars().next() {
                Some('i') => self.number(),
                Some('c') => client_id.to_owned(),
                Some('u') => match &self.credentials.user_name {
                    Some(user_name) => user_name.clone(),
                    None => return fail("needs a user name: give -u"),
                },
                Some('s' | 'r') => {
                    return fail(
                        "is not supported: a publisher keeps its topic; use %i with more clients",
                    );
                }
                _ => return fail("is not a variable: %i, %c and %u are"),
            };
            text.push_str(&value);
            text.push_str(&part[1..]);
        }
        Ok(text)
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "weir".into(),
        name => name.into(),
    }
}

#[cfg(test)]
mod tests;
