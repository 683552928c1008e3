//! The `[[bridge]]` tables.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_bridge::{Dialect, Direction, Remote, Settings, Start, StateTopic, Topic};
use weir_connection::{Address, TlsArgs, TlsFault};
use weir_core::OWN_CLIENT_IDS;
use weir_wire::QoS;

/// One `[[bridge]]` table: messages that are relayed between this broker and another.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeConfig {
    /// What it is called here: in the log, and in the names of its queue and its state.
    pub name: String,
    /// Where the other broker is, such as `mqtts://hub.example:8883`: with `mqtt://`, `mqtts://`,
    /// `ws://` or `wss://`. Of several addresses, the next is tried where one does not answer.
    pub addresses: Vec<String>,
    /// What is relayed: a table for each topic filter, of which the first that fits a message
    /// counts.
    pub topics: Vec<BridgeTopic>,
    /// Whether all addresses are equal. If not, it goes back to the first once that answers.
    #[serde(default)]
    pub round_robin: bool,
    /// Its client identifier in the other broker; by default the name of this host with a dot and
    /// `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its user name in the other broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// The password of that user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// A file with that password, instead of `password`. A line's end behind it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// What it speaks to the other broker.
    #[serde(default)]
    pub version: BridgeVersion,
    /// Whether it says at MQTT 3.1.1 that it is a bridge, by the highest bit of the protocol's
    /// number, as Mosquitto does; by default it does. If the other broker does not know that, it is
    /// told no more.
    #[serde(default = "yes")]
    pub try_private: bool,
    /// Whether its session in the other broker ends with each connection: what is published there
    /// meanwhile is lost.
    #[serde(default)]
    pub clean_start: bool,
    /// The same of its session in this broker, which is its queue; by default what `clean_start`
    /// says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_clean_start: Option<bool>,
    /// After how many seconds of silence the other broker is asked whether it is there; by default
    /// 60. 0 is never.
    #[serde(default = "keep_alive_s")]
    pub keep_alive_s: u16,
    /// Messages of QoS 1 that may be on their way in each direction, by default 1,000. What a
    /// broker takes may be less.
    #[serde(default = "in_flight_max")]
    pub in_flight_max: u16,
    /// When it is connected.
    #[serde(default)]
    pub start: BridgeStart,
    /// Messages of QoS 1 that have to wait before a lazy bridge connects; by default 10.
    #[serde(default = "threshold")]
    pub threshold: u16,
    /// How long a lazy bridge stays connected while there is nothing to relay, in seconds; by
    /// default 60.
    #[serde(default = "idle_s")]
    pub idle_s: u32,
    /// How long it rests at first before it tries to connect again, in milliseconds, less up to a
    /// half by chance; by default 1,000. Each rest is twice the one before.
    #[serde(default = "retry_ms_min")]
    pub retry_ms_min: u32,
    /// How long it rests at most, in milliseconds; by default 30,000.
    #[serde(default = "retry_ms_max")]
    pub retry_ms_max: u32,
    /// Where a retained message says whether it is connected, by `1` or `0`.
    #[serde(default)]
    pub notifications: Notifications,
    /// The topic of that message; by default `$SYS/broker/connection/CLIENT/state` with its client
    /// identifier in the other broker, as Mosquitto has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notification_topic: Option<String>,
    /// Whether what is retained here is relayed so that it is retained there; by default it is.
    #[serde(default = "yes")]
    pub outgoing_retain: bool,
    /// A `[bridge.tls]` table: how TLS is spoken to addresses that begin with `mqtts://` or
    /// `wss://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<BridgeTls>,
}

/// One `[[bridge.topics]]` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BridgeTopic {
    /// A topic filter without the prefixes. It may be empty: then the prefixes are the topics.
    pub pattern: String,
    /// Which way.
    #[serde(default)]
    pub direction: BridgeDirection,
    /// The highest QoS with which messages are relayed: 0 or 1. 2 is the same as 1: what is relayed
    /// arrives at least once.
    #[serde(default)]
    pub qos: u8,
    /// What topics begin with in this broker, and not in the other.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub local_prefix: String,
    /// What topics begin with in the other broker, and not in this.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub remote_prefix: String,
}

/// A direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BridgeDirection {
    /// From this broker to the other.
    #[default]
    Out,
    /// From the other broker to this.
    In,
    /// Both ways. A message does not go back to where it came from.
    Both,
}

/// A version of MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BridgeVersion {
    /// 5.0, or 3.1.1 if the other broker refuses that.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// 5.0.
    #[serde(rename = "5")]
    V5,
    /// 3.1.1.
    #[serde(rename = "3.1.1")]
    V311,
}

/// When a bridge is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BridgeStart {
    /// Always.
    #[default]
    Automatic,
    /// Once `threshold` messages wait, until nothing was relayed for `idle_s`.
    Lazy,
}

/// Who is told whether a bridge is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Notifications {
    /// Nobody.
    None,
    /// This broker.
    #[default]
    Local,
    /// The other broker too.
    Both,
}

/// The `[bridge.tls]` table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BridgeTls {
    /// PEM file with certificates of the authorities that may vouch for the other broker. Without
    /// it and `ca_folder`, those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// A folder with such files, whose names end in `.crt` or `.pem`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_folder: Option<PathBuf>,
    /// PEM file with the certificate that it shows to the other broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// PEM file with the key of that certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Whether the other broker's certificate may be for another host. Somebody in between who has
    /// any certificate of these authorities can then read everything.
    pub insecure: bool,
    /// The application protocol to ask for, such as `mqtt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpn: Option<String>,
}

const fn yes() -> bool {
    true
}

const fn keep_alive_s() -> u16 {
    60
}

const fn in_flight_max() -> u16 {
    1_000
}

const fn threshold() -> u16 {
    10
}

const fn idle_s() -> u32 {
    60
}

pub(super) const fn retry_ms_min() -> u32 {
    1_000
}

pub(super) const fn retry_ms_max() -> u32 {
    30_000
}

/// A key, its value, and what it has to be.
pub(super) type Fault = (&'static str, String, String);

pub(super) fn fault(key: &'static str, value: impl fmt::Display, rule: impl Into<String>) -> Fault {
    (key, value.to_string(), rule.into())
}

/// Of what cannot be the name of a bridge or a sink.
pub(super) fn name_fault(key: &'static str, text: &str) -> Option<Fault> {
    let is_name = (1..=64).contains(&text.len())
        && !text.contains(|char: char| matches!(char, '/' | '+' | '#') || char.is_control());
    let rule = "it must be 1 to 64 bytes, without / + #";
    (!is_name).then(|| fault(key, format!("{text:?}"), rule))
}

/// Of a password that is given twice.
pub(super) fn twice_fault(
    key: &'static str,
    password: Option<&String>,
    file: Option<&Path>,
) -> Option<Fault> {
    let is_twice = password.is_some() && file.is_some();
    is_twice.then(|| fault(key, "set", "it goes without password_file"))
}

/// Of numbers that must be something.
pub(super) fn zero_fault<const N: usize>(numbers: [(&'static str, u32); N]) -> Option<Fault> {
    let (key, _) = numbers.into_iter().find(|&(_, number)| number == 0)?;
    Some(fault(key, 0, "it must be at least 1"))
}

/// Rests between two tries, in milliseconds.
#[derive(Clone, Copy)]
pub(super) struct Retry {
    pub(super) ms_min: u32,
    pub(super) ms_max: u32,
}

impl Retry {
    /// Of a longest rest that is shorter than the first.
    pub(super) fn fault(self, table: &'static str, key: &'static str) -> Option<Fault> {
        let rule = || format!("it must be at least {table}.retry_ms_min");
        (self.ms_max < self.ms_min).then(|| fault(key, self.ms_max, rule()))
    }

    pub(super) fn rests(self) -> RangeInclusive<Duration> {
        let of = |ms: u32| Duration::from_millis(ms.into());
        of(self.ms_min)..=of(self.ms_max)
    }
}

impl BridgeConfig {
    /// What is wrong with all of them without a look at their files.
    pub(crate) fn fault_of(all: &[Self]) -> Option<Fault> {
        let twin = |(at, one): (usize, &Self)| {
            let is_twin = |other: &Self| other.name == one.name;
            all[..at]
                .iter()
                .any(is_twin)
                .then(|| fault("bridge.name", &one.name, "another bridge has this name"))
        };
        all.iter().enumerate().find_map(|(at, one)| one.fault().or_else(|| twin((at, one))))
    }

    fn fault(&self) -> Option<Fault> {
        if let Some(found) = name_fault("bridge.name", &self.name) {
            return Some(found);
        }
        if self.addresses.is_empty() {
            return Some(fault("bridge.addresses", "[]", "name at least one, such as mqtt://HOST"));
        }
        for address in &self.addresses {
            let rule = match address.parse::<Address>() {
                Ok(place) if place.user_name.is_none() => continue,
                Ok(_) => "name the user in user_name, and the password in password_file",
                Err(rule) => rule,
            };
            return Some(fault("bridge.addresses", shown(address), rule));
        }
        if self.topics.is_empty() {
            return Some(fault("bridge.topics", "[]", "name what is to be relayed"));
        }
        if let Some(found) = self.topics.iter().find_map(BridgeTopic::fault) {
            return Some(found);
        }
        let texts = [
            ("bridge.client_id", &self.client_id),
            ("bridge.user_name", &self.user_name),
            ("bridge.password", &self.password),
        ];
        for (key, text) in texts {
            if let Some(length) = text.as_ref().map(String::len).filter(|it| *it > 65_535) {
                return Some(fault(key, format!("{length} bytes"), "65535 bytes are allowed"));
            }
        }
        let file = self.password_file.as_deref();
        if let Some(found) = twice_fault("bridge.password", self.password.as_ref(), file) {
            return Some(found);
        }
        let has_password = self.password.is_some() || self.password_file.is_some();
        if has_password && self.user_name.is_none() {
            return Some(fault("bridge.user_name", "not set", "a password goes with a user name"));
        }
        self.number_fault().or_else(|| self.state_fault())
    }

    /// What is odd about it, a line each.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let Self { name, topics, .. } = self;
        let twos = topics.iter().filter(|topic| topic.qos == 2);
        let said = move |topic: &BridgeTopic| {
            format!("bridge {name}: {:?} is relayed with QoS 1, not 2", topic.pattern)
        };
        twos.map(said)
    }

    fn number_fault(&self) -> Option<Fault> {
        zero_fault([
            ("bridge.in_flight_max", self.in_flight_max.into()),
            ("bridge.threshold", self.threshold.into()),
            ("bridge.idle_s", self.idle_s),
            ("bridge.retry_ms_min", self.retry_ms_min),
        ])
        .or_else(|| self.retry().fault("bridge", "bridge.retry_ms_max"))
    }

    fn retry(&self) -> Retry {
        Retry { ms_min: self.retry_ms_min, ms_max: self.retry_ms_max }
    }

    fn state_fault(&self) -> Option<Fault> {
        let topic = self.state_topic();
        if self.notifications == Notifications::None || weir_wire::topic::is_valid_name(&topic) {
            return None;
        }
        Some(fault("bridge.notification_topic", topic, "it must be a topic name"))
    }

    fn client_id(&self) -> String {
        let of_host = || format!("{}.{}", host_name(), self.name);
        self.client_id.clone().unwrap_or_else(of_host)
    }

    fn state_topic(&self) -> String {
        let usual = || format!("$SYS/broker/connection/{}/state", self.client_id());
        self.notification_topic.clone().unwrap_or_else(usual)
    }

    /// What is to run, with what is in its files now.
    pub(crate) fn settings(&self) -> Result<Settings, Fault> {
        let address = |text: &String| {
            let place: Address =
                text.parse().map_err(|rule: &str| fault("bridge.addresses", shown(text), rule))?;
            let tls = match place.scheme.has_tls() {
                true => self.tls.as_ref().map(BridgeTls::arguments).unwrap_or_default(),
                false => TlsArgs::default(),
            };
            let transport = place.transport(&tls).map_err(|fault| tls_fault(fault, TLS_KEYS))?;
            Ok(Remote { address: place, transport })
        };
        let dialects = match (self.version, self.try_private) {
            (BridgeVersion::Auto, true) => vec![Dialect::V5, Dialect::Bridge311, Dialect::V311],
            (BridgeVersion::Auto, false) => vec![Dialect::V5, Dialect::V311],
            (BridgeVersion::V5, _) => vec![Dialect::V5],
            (BridgeVersion::V311, true) => vec![Dialect::Bridge311, Dialect::V311],
            (BridgeVersion::V311, false) => vec![Dialect::V311],
        };
        Ok(Settings {
            mark: self.mark(),
            name: self.name.clone(),
            remotes: self.addresses.iter().map(address).collect::<Result<_, _>>()?,
            is_round_robin: self.round_robin,
            local_client_id: format!("{OWN_CLIENT_IDS}bridge/{}", self.name),
            client_id: self.client_id(),
            user_name: self.user_name.clone(),
            password: secret_of(
                self.password.as_ref(),
                self.password_file.as_deref(),
                "bridge.password_file",
            )?,
            dialects,
            clean_start: self.clean_start,
            local_clean_start: self.local_clean_start.unwrap_or(self.clean_start),
            keep_alive_s: self.keep_alive_s,
            in_flight_max: self.in_flight_max,
            start: match self.start {
                BridgeStart::Automatic => Start::Automatic,
                BridgeStart::Lazy => Start::Lazy {
                    threshold: self.threshold,
                    idle: Duration::from_secs(self.idle_s.into()),
                },
            },
            retry: self.retry().rests(),
            state: StateTopic {
                topic: self.state_topic(),
                is_local: self.notifications != Notifications::None,
                is_remote: self.notifications == Notifications::Both,
            },
            retains: self.outgoing_retain,
            topics: self.topics.iter().map(BridgeTopic::topic).collect(),
        })
    }

    /// Another number where anything in the table is another, or in a file that it names.
    fn mark(&self) -> u64 {
        let tls = self.tls.clone().unwrap_or_default();
        let folder = tls.ca_folder.iter().flat_map(std::fs::read_dir).flatten().flatten();
        let mut authorities: Vec<PathBuf> = folder.map(|entry| entry.path()).collect();
        authorities.sort_unstable();
        let files =
            [&self.password_file, &tls.ca, &tls.certificate, &tls.key].into_iter().flatten();
        let mut hasher = DefaultHasher::new();
        toml::to_string(self).unwrap_or_default().hash(&mut hasher);
        for file in files.chain(&authorities) {
            // What cannot be read is an error elsewhere.
            (file, std::fs::read(file).ok()).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// A password, or what is in its file now.
pub(super) fn secret_of(
    password: Option<&String>,
    file: Option<&Path>,
    key: &'static str,
) -> Result<Option<String>, Fault> {
    let Some(file) = file else { return Ok(password.cloned()) };
    let bad = |rule: String| fault(key, file.display(), rule);
    let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    match secret.len() {
        1..=65_535 => Ok(Some(secret.to_owned())),
        _ => Err(bad("it must hold a password of 1 to 65535 bytes".into())),
    }
}

/// Without the secrets.
impl fmt::Debug for BridgeConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses: Vec<String> = self.addresses.iter().map(|it| shown(it)).collect();
        let mut table = out.debug_struct("BridgeConfig");
        table.field("name", &self.name).field("addresses", &addresses).finish_non_exhaustive()
    }
}

/// An address without a user, whose password is a secret.
fn shown(address: &str) -> String {
    match address.rsplit_once('@') {
        Some((_, place)) => format!("...@{place}"),
        None => address.to_owned(),
    }
}

/// What the system calls this host.
fn host_name() -> String {
    let name = crate::host::name().replace(['/', '+', '#'], "-");
    if name.is_empty() { "weir".to_owned() } else { name }
}

/// By that of the keys which is as wrong as the option; the last is that of the table.
pub(super) fn tls_fault(fault: TlsFault, keys: [&'static str; 7]) -> Fault {
    let TlsFault { option, value, why } = fault;
    let options = ["--cafile", "--capath", "--cert", "--key", "--insecure", "--tls-alpn"];
    let at = options.iter().position(|it| *it == option).unwrap_or(options.len());
    self::fault(keys[at], value, why)
}

/// Of [`tls_fault`].
const TLS_KEYS: [&str; 7] = [
    "bridge.tls.ca",
    "bridge.tls.ca_folder",
    "bridge.tls.certificate",
    "bridge.tls.key",
    "bridge.tls.insecure",
    "bridge.tls.alpn",
    "bridge.tls",
];

impl BridgeTls {
    pub(super) fn arguments(&self) -> TlsArgs {
        TlsArgs {
            cafile: self.ca.clone(),
            capath: self.ca_folder.clone(),
            cert: self.certificate.clone(),
            key: self.key.clone(),
            insecure: self.insecure,
            tls_alpn: self.alpn.clone(),
            ..TlsArgs::default()
        }
    }
}

impl BridgeTopic {
    fn fault(&self) -> Option<Fault> {
        if self.qos > 2 {
            return Some(fault("bridge.topics.qos", self.qos, "it must be 0, 1 or 2"));
        }
        let rule = self.topic().fault()?;
        Some(fault("bridge.topics.pattern", format!("{:?}", self.pattern), rule))
    }

    fn topic(&self) -> Topic {
        Topic {
            pattern: self.pattern.clone(),
            direction: match self.direction {
                BridgeDirection::Out => Direction::Out,
                BridgeDirection::In => Direction::In,
                BridgeDirection::Both => Direction::Both,
            },
            qos: QoS::from_u8(self.qos).unwrap_or_default(),
            local_prefix: self.local_prefix.clone(),
            remote_prefix: self.remote_prefix.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    const BRIDGE: &str = r#"
        [[bridge]]
        name = "up"
        addresses = ["mqtts://hub.example", "ws://192.0.2.1:80/mqtt"]
        user_name = "ann"
        password = "secret"
        topics = [{ pattern = "a/#", direction = "both", qos = 1, remote_prefix = "site/" }]
        [bridge.tls]
        insecure = true
    "#;

    fn read(text: &str) -> Result<Config, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::read(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_bridge_is_read_back_and_its_password_is_shown_to_nobody() {
        let config = read(BRIDGE).unwrap();
        assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
        assert!(!format!("{config:?}").contains("secret"));
        let settings = config.bridge[0].settings().unwrap();
        assert_eq!(settings.local_client_id, "$weir/bridge/up");
        assert!(settings.client_id.ends_with(".up"), "{}", settings.client_id);
        let state = format!("$SYS/broker/connection/{}/state", settings.client_id);
        assert_eq!((settings.state.topic, settings.state.is_remote), (state, false));
        assert_eq!(settings.password.as_deref(), Some("secret"));
        assert_eq!(settings.dialects.len(), 3);
        assert!(!settings.clean_start && !settings.local_clean_start);
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_key() {
        for (old, new, key) in [
            ("\"up\"", "\"a/b\"", "bridge.name"),
            ("\"mqtts://hub.example\"", "\"http://h\"", "bridge.addresses"),
            ("mqtts://hub.example", "mqtts://ann:pw@hub.example", "bridge.addresses"),
            ("qos = 1", "qos = 3", "bridge.topics.qos"),
            ("a/#", "a/#/b", "bridge.topics.pattern"),
            ("a/#", "$share/g/a", "bridge.topics.pattern"),
            ("user_name = \"ann\"", "", "bridge.user_name"),
            ("user_name", "retry_ms_min = 0\nuser_name", "bridge.retry_ms_min"),
            ("user_name", "retry_ms_max = 999\nuser_name", "bridge.retry_ms_max"),
            ("user_name", "in_flight_max = 0\nuser_name", "bridge.in_flight_max"),
            ("user_name", "password_file = \"/p\"\nuser_name", "bridge.password"),
            ("user_name", "notification_topic = \"#\"\nuser_name", "bridge.notification_topic"),
        ] {
            let error = read(&BRIDGE.replacen(old, new, 1)).unwrap_err();
            assert!(error.contains(&format!("{key} = ")), "{error}");
            assert!(!error.contains("pw@"), "{error}");
        }
        let error = read(&format!("{BRIDGE}{BRIDGE}")).unwrap_err();
        assert!(error.contains("another bridge has this name"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named_with_its_key() {
        let file = "ca = \"/nowhere/ca.pem\"";
        let config = read(&BRIDGE.replace("insecure = true", file)).unwrap();
        let (key, value, _) = config.bridge[0].settings().unwrap_err();
        assert_eq!((key, &*value), ("bridge.tls.ca", "/nowhere/ca.pem"));
        let file = "password_file = \"/nowhere/p\"";
        let config = read(&BRIDGE.replace("password = \"secret\"", file)).unwrap();
        let (key, value, _) = config.bridge[0].settings().unwrap_err();
        assert_eq!((key, &*value), ("bridge.password_file", "/nowhere/p"));
    }

    #[test]
    fn qos_2_is_warned_of() {
        let config = read(&BRIDGE.replace("qos = 1", "qos = 2")).unwrap();
        let warnings: Vec<String> = config.bridge[0].warnings().collect();
        assert_eq!(warnings, ["bridge up: \"a/#\" is relayed with QoS 1, not 2"]);
    }
}
