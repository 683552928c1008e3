//! The configuration file: TOML, every key with a default, an unknown key an error.

use crate::admission::ProcessLimits;
use crate::auth::AuthConfig;
use crate::control::ControlConfig;
use crate::rules::FlowRules;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use weir_core::{Features, Limits, Settings, SharePolicy};
use weir_reactor::Backend;

/// Everything `weir broker` can be told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Addresses to listen on, each `HOST:PORT`.
    pub listen: Vec<String>,
    /// Threads that serve connections, each with a part of the sessions; 0 is one for each core
    /// that the process may run on.
    pub shards: u16,
    /// While a thread is busy more than half its time, messages for a connection that gets several
    /// in so many milliseconds leave together, after at most that; 0 sends each turn's at once.
    pub gather_ms: u16,
    /// What holds the connections.
    pub io: IoBackend,
    /// Bounds of connections, sessions and messages.
    pub limits: Limits,
    /// Bounds of the whole process.
    pub process: ProcessLimits,
    /// What the broker offers.
    pub features: Features,
    /// Who is let in.
    pub auth: AuthConfig,
    /// How shared subscriptions choose a member: `[[share]]` tables, tried in order.
    pub share: SharePolicy,
    /// What the broker makes of messages by their content: `[[flow]]` tables, in order.
    #[serde(skip_serializing_if = "FlowRules::is_empty")]
    pub flow: FlowRules,
    /// How the broker can be asked while it runs.
    #[serde(skip_serializing_if = "ControlConfig::is_off")]
    pub control: ControlConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec!["127.0.0.1:1883".into()],
            shards: 0,
            gather_ms: 10,
            io: IoBackend::default(),
            limits: Limits::default(),
            process: ProcessLimits::default(),
            features: Features::default(),
            auth: AuthConfig::default(),
            share: SharePolicy::default(),
            flow: FlowRules::default(),
            control: ControlConfig::default(),
        }
    }
}

/// What holds the connections: open files, of which the process may have only so many
/// (`ulimit -n`), or direct descriptors of io_uring, which that limit does not bound in all. These
/// need Linux 6.11, and the permission to use io_uring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoBackend {
    /// Open files while there are some left, direct descriptors for the connections beyond.
    #[default]
    Auto,
    /// Open files only.
    Epoll,
    /// Direct descriptors only. The broker does not start where they cannot be had.
    IoUring,
}

impl From<IoBackend> for Backend {
    fn from(io: IoBackend) -> Self {
        match io {
            IoBackend::Auto => Self::Auto,
            IoBackend::Epoll => Self::Epoll,
            IoBackend::IoUring => Self::IoUring,
        }
    }
}

/// Packets this long still fit the protocol when they are encoded again with more properties.
const PACKET_BYTES_MAX: u32 = 256 * 1024 * 1024 - 1024 * 1024;

/// More threads than any host has cores for.
const SHARDS_MAX: u16 = 256;

/// A longer wait than this gains nothing more.
const GATHER_MS_MAX: u16 = 1_000;

/// Below this a connection's output could not hold what the reactor reports as drained.
const OUTPUT_BYTES_MIN: usize = 64 * 1024;

/// Below this the broker would be at its ceiling without a client.
const MEMORY_BYTES_MIN: u64 = 32 * 1024 * 1024;

/// What is wrong with a configuration, and where.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not the TOML that is expected: unknown key, wrong type, syntax.
    #[error("{place}: {message}")]
    Parse {
        /// File and line.
        place: Place,
        /// What is wrong there.
        message: String,
    },
    /// A value is out of its range.
    #[error("{key} = {value} is not usable: {rule}")]
    Value {
        /// The key, with its table.
        key: &'static str,
        /// What it is set to.
        value: String,
        /// What it has to be.
        rule: &'static str,
    },
    /// A rule on content cannot be used, or feeds itself.
    #[error("flow: {0}")]
    Flow(weir_flow::FlowError),
    /// A user's verifier cannot be used.
    #[error("auth.users: {user}: {rule}")]
    User {
        /// The user name.
        user: String,
        /// What it has to be.
        rule: &'static str,
    },
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    path: PathBuf,
    line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.path.display(), self.line)
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// An unreadable file, an unknown key, a value out of range: each names file, key and line.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.into(), source })?;
        let config: Self = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text[..at].matches('\n').count() + 1;
            let message = error.message().replace('\n', " ");
            ConfigError::Parse { place: Place { path: path.into(), line }, message }
        })?;
        config.check()?;
        Ok(config)
    }

    /// What a shard is told.
    pub fn settings(&self) -> Settings {
        let authentication = self.auth.is_on();
        let features = Features { authentication, ..self.features.clone() };
        Settings { limits: self.limits.clone(), features, share: self.share.clone() }
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// The first value out of its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        let limits = &self.limits;
        let positive = [
            ("limits.in_flight_max", u64::from(limits.in_flight_max)),
            ("limits.receive_maximum", u64::from(limits.receive_maximum)),
            ("limits.connect_timeout_s", u64::from(limits.connect_timeout_s)),
            ("limits.client_id_bytes_max", u64::from(limits.client_id_bytes_max)),
            ("limits.queue_messages_max", u64::from(limits.queue_messages_max)),
            ("limits.topic_levels_max", u64::from(limits.topic_levels_max)),
            ("limits.topic_bytes_max", u64::from(limits.topic_bytes_max)),
            ("process.connections_max", u64::from(self.process.connections_max)),
        ];
        for (key, value) in positive {
            if value == 0 {
                return Err(value_error(key, value, "it must be at least 1"));
            }
        }
        if !(16..=PACKET_BYTES_MAX).contains(&limits.packet_bytes_max) {
            let rule = "it must be 16 to 267386880 (255 MiB)";
            return Err(value_error("limits.packet_bytes_max", limits.packet_bytes_max, rule));
        }
        if limits.output_bytes_max < OUTPUT_BYTES_MIN {
            let rule = "it must be at least 65536 (64 KiB)";
            return Err(value_error("limits.output_bytes_max", limits.output_bytes_max, rule));
        }
        if self.shards > SHARDS_MAX {
            let rule = "it must be 0 (one a core) to 256";
            return Err(value_error("shards", self.shards, rule));
        }
        if self.gather_ms > GATHER_MS_MAX {
            return Err(value_error("gather_ms", self.gather_ms, "it must be 0 (never) to 1000"));
        }
        let memory_bytes_max = self.process.memory_bytes_max;
        if memory_bytes_max != 0 && memory_bytes_max < MEMORY_BYTES_MIN {
            let rule = "it must be 0 (three quarters of the host's) or at least 33554432 (32 MiB)";
            return Err(value_error("process.memory_bytes_max", memory_bytes_max, rule));
        }
        if let Some(rule) = self.control.fault() {
            let path = self.control.socket.clone().unwrap_or_default();
            return Err(value_error("control.socket", path.display(), rule));
        }
        self.auth.check().map_err(|(user, rule)| ConfigError::User { user, rule })?;
        self.flow.compile().map_err(ConfigError::Flow)?;
        self.addresses().map(drop)
    }

    /// What is odd about a configuration that can be used, a line each.
    pub fn warnings(&self) -> Vec<String> {
        self.flow.warnings()
    }

    /// How many shards there are.
    pub fn shard_count(&self) -> u16 {
        match self.shards {
            0 => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                cores.min(usize::from(SHARDS_MAX)) as u16
            }
            shards => shards,
        }
    }

    /// The addresses to listen on.
    ///
    /// # Errors
    /// One that is not `HOST:PORT`, or a host without an address.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, ConfigError> {
        if self.listen.is_empty() {
            return Err(value_error("listen", "[]", "name at least one HOST:PORT"));
        }
        let resolve = |text: &String| {
            let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
            found.ok_or_else(|| {
                value_error("listen", text, "it must be HOST:PORT, such as 127.0.0.1:1883")
            })
        };
        self.listen.iter().map(resolve).collect()
    }
}

fn value_error(key: &'static str, value: impl fmt::Display, rule: &'static str) -> ConfigError {
    ConfigError::Value { key, value: value.to_string(), rule }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_core::{ShareRule, ShareStrategy};

    fn read(text: &str) -> Result<Config, ConfigError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::read(file.path())
    }

    #[test]
    fn every_bound_is_in_the_documentation() {
        let text = include_str!("../../../docs/limits.md");
        let all = toml::Table::try_from(Config::default()).unwrap();
        for (table, key) in ["limits", "process"]
            .iter()
            .flat_map(|&table| all[table].as_table().unwrap().keys().map(move |key| (table, key)))
        {
            assert!(text.contains(&format!("`{key}`")), "docs/limits.md lacks {table}.{key}");
        }
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(read("").unwrap(), Config::default());
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line() {
        let error = read("listen = [\"127.0.0.1:1\"]\n[limits]\nqueue_max = 3\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains(":3: ") && text.contains("queue_max"), "{text}");
    }

    #[test]
    fn a_value_out_of_range_is_named_with_its_rule() {
        let text = read("[limits]\nin_flight_max = 0\n").unwrap_err().to_string();
        assert!(text.contains("limits.in_flight_max = 0") && text.contains("at least 1"), "{text}");
    }

    #[test]
    fn what_holds_connections_is_named() {
        for (text, io) in [
            ("", IoBackend::Auto),
            ("io = \"auto\"", IoBackend::Auto),
            ("io = \"epoll\"", IoBackend::Epoll),
            ("io = \"io_uring\"", IoBackend::IoUring),
        ] {
            assert_eq!(read(text).unwrap().io, io);
        }
        let text = read("io = \"iouring\"").unwrap_err().to_string();
        assert!(text.contains(":1: ") && text.contains("io_uring"), "{text}");
    }

    #[test]
    fn a_control_socket_is_read_back_and_a_path_that_no_socket_can_have_is_refused() {
        let config = read("[control]\nsocket = \"/run/weir/ctl\"\n").unwrap();
        assert_eq!(config.control.socket.as_deref(), Some(Path::new("/run/weir/ctl")));
        assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
        for path in [String::new(), "x".repeat(108)] {
            let text = read(&format!("[control]\nsocket = {path:?}\n")).unwrap_err().to_string();
            assert!(text.contains("control.socket = ") && text.contains("107"), "{text}");
        }
    }

    #[test]
    fn an_address_without_a_port_is_refused() {
        let text = read("listen = [\"localhost\"]\n").unwrap_err().to_string();
        assert!(text.contains("HOST:PORT"), "{text}");
    }

    #[test]
    fn share_rules_are_read_in_order_with_their_strategies() {
        let text = r#"
            [[share]]
            prefix = "sensor"
            strategy = { sticky-level = 2 }
            [[share]]
            prefix = ""
            strategy = "sticky-client"
        "#;
        let rule = |prefix: &str, strategy| ShareRule { prefix: prefix.into(), strategy };
        let level = ShareStrategy::StickyLevel(2.try_into().unwrap());
        let rules = vec![rule("sensor", level), rule("", ShareStrategy::StickyClient)];
        let config = read(text).unwrap();
        assert_eq!(config.share.rules, rules);
        assert_eq!(config.settings().share.rules, rules);
        assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn a_wrong_share_strategy_is_named_with_its_line() {
        for (strategy, named) in [("\"fair\"", "fair"), ("{ sticky-level = 0 }", "nonzero")] {
            let text = format!("[[share]]\nprefix = \"\"\nstrategy = {strategy}\n");
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(":3: ") && error.contains(named), "{error}");
        }
    }

    const CELLS: &str = r##"
        [[flow]]
        name = "cells"
        from = "ud/#"
        qos = 1
        when = 'has(payload.p.mcc) && has(payload.p.mnc)'
        to = "cells/{payload.p.mcc}/{topic[1]}"
        payload = 'payload.p'
        publish_qos = 1
        retain = false
        sample = 0.5
        throttle_per_s = 100
        [[flow]]
        name = "count"
        from = "#"
        action = "count"
    "##;

    #[test]
    fn flow_rules_are_read_in_order_and_written_out_read_back() {
        let config = read(CELLS).unwrap();
        let names: Vec<&str> = config.flow.rules.iter().map(|rule| &*rule.name).collect();
        assert_eq!(names, ["cells", "count"]);
        assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn a_wrong_flow_rule_is_named_with_its_place() {
        for (old, new, named) in [
            ("has(payload.p.mcc) &&", "has(payload.p.mcc) &", "rule \"cells\": when: at byte "),
            ("to = \"cells/{payload.p.mcc}", "to = \"ud/{payload.p.mcc}", "loop: \"cells\" -> "),
            ("retain = false", "retained = false", ":10: "),
            ("action = \"count\"", "action = \"cuont\"", "rule \"count\": action: "),
            ("\"ud/#\"", "\"$filter/true/ud/#\"", "rule \"cells\": from: "),
        ] {
            let error = read(&CELLS.replace(old, new)).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn the_default_written_out_reads_back() {
        let text = toml::to_string(&Config::default()).unwrap();
        assert_eq!(read(&text).unwrap(), Config::default());
    }
}
