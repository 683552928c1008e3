//! The `[[kafka]]` tables.
//!
//! They are read whether or not Kafka is compiled in: a program without it says so.

use super::config::{
    BridgeConfig, BridgeTls, Fault, Retry, fault, name_fault, retry_ms_max, retry_ms_min,
    twice_fault, zero_fault,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use weir_wire::topic::{SHARE_PREFIX, TopicFilter};

/// What a program without Kafka says.
#[cfg(not(feature = "kafka"))]
const NOT_BUILT: &str = "this program is built without Kafka: \
    cargo install --locked --path crates/weir --features kafka";

/// One `[[kafka]]` table: messages that go to topics of a Kafka cluster.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaConfig {
    /// What it is called: in the log, and in the name of its queue. No bridge may have the same.
    pub name: String,
    /// Some of the cluster's brokers, as `HOST:PORT`. They know the others.
    pub brokers: Vec<String>,
    /// What goes there: a table for each topic filter, of which the first that fits a message
    /// counts.
    pub topics: Vec<KafkaTopicConfig>,
    /// How it says who it is. Without it, it is nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl: Option<KafkaMechanism>,
    /// Its user in Kafka.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// The password of that user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// A file with that password, instead of `password`. A line's end behind it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// Messages of QoS 1 that may be on their way; by default 10,000.
    #[serde(default = "in_flight_max")]
    pub in_flight_max: u16,
    /// Records that go to a partition at once, at most; by default 1,000.
    #[serde(default = "batch_messages_max")]
    pub batch_messages_max: u32,
    /// Bytes that go to a partition at once, at most; by default 900,000. The brokers of a cluster
    /// take 1,048,588 unless their `message.max.bytes` says otherwise. A message that is longer
    /// goes alone.
    #[serde(default = "batch_bytes_max")]
    pub batch_bytes_max: u32,
    /// How long a message waits for others that go with it, in milliseconds; by default 5. While a
    /// batch is on its way to a partition, the next one gathers anyway.
    #[serde(default = "linger_ms")]
    pub linger_ms: u16,
    /// How long it rests at first before it tries to connect again, in milliseconds, less up to a
    /// half by chance; by default 1,000. Each rest is twice the one before.
    #[serde(default = "retry_ms_min")]
    pub retry_ms_min: u32,
    /// How long it rests at most, in milliseconds; by default 30,000.
    #[serde(default = "retry_ms_max")]
    pub retry_ms_max: u32,
    /// A `[kafka.tls]` table: TLS is spoken if it is there, also if it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<BridgeTls>,
}

/// One `[[kafka.topics]]` table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KafkaTopicConfig {
    /// Which messages.
    pub filter: String,
    /// The topic in Kafka. It must be there.
    pub topic: String,
    /// The key of their records.
    #[serde(default)]
    pub key: KafkaKey,
}

/// The key of a record. In either case the MQTT topic chooses the partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KafkaKey {
    /// The MQTT topic.
    #[default]
    Topic,
    /// None.
    None,
}

/// A mechanism of SASL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KafkaMechanism {
    /// The password as it is: with TLS only.
    #[serde(rename = "plain")]
    Plain,
    /// A proof of it.
    #[serde(rename = "scram-sha-256")]
    ScramSha256,
    /// A proof of it, by a longer hash.
    #[serde(rename = "scram-sha-512")]
    ScramSha512,
}

const fn in_flight_max() -> u16 {
    10_000
}

const fn batch_messages_max() -> u32 {
    1_000
}

const fn batch_bytes_max() -> u32 {
    900_000
}

const fn linger_ms() -> u16 {
    5
}

impl KafkaConfig {
    /// What is wrong with all of them without a look at their files.
    pub(crate) fn fault_of(all: &[Self], bridges: &[BridgeConfig]) -> Option<Fault> {
        let mut names: BTreeSet<&str> = bridges.iter().map(|bridge| &*bridge.name).collect();
        all.iter().find_map(|one| {
            let twin = || fault("kafka.name", &one.name, "a bridge or another sink has this name");
            one.fault().or_else(|| (!names.insert(&one.name)).then(twin))
        })
    }

    fn fault(&self) -> Option<Fault> {
        #[cfg(not(feature = "kafka"))]
        return Some(fault("kafka.name", format!("{:?}", self.name), NOT_BUILT));
        #[cfg(feature = "kafka")]
        return self.value_fault();
    }

    #[cfg_attr(not(feature = "kafka"), expect(dead_code, reason = "there is one fault, always"))]
    fn value_fault(&self) -> Option<Fault> {
        if let Some(found) = name_fault("kafka.name", &self.name) {
            return Some(found);
        }
        if self.brokers.is_empty() {
            return Some(fault("kafka.brokers", "[]", "name at least one, such as HOST:9092"));
        }
        if let Some(broker) = self.brokers.iter().find(|broker| !is_place(broker)) {
            let rule = "it must be HOST:PORT, such as kafka.example:9092";
            return Some(fault("kafka.brokers", format!("{broker:?}"), rule));
        }
        if self.topics.is_empty() {
            return Some(fault("kafka.topics", "[]", "name what is to go to Kafka"));
        }
        self.topics
            .iter()
            .find_map(KafkaTopicConfig::fault)
            .or_else(|| self.user_fault())
            .or_else(|| self.number_fault())
    }

    fn user_fault(&self) -> Option<Fault> {
        let has_password = self.password.is_some() || self.password_file.is_some();
        let file = self.password_file.as_deref();
        if let Some(found) = twice_fault("kafka.password", self.password.as_ref(), file) {
            return Some(found);
        }
        match self.sasl {
            Some(_) if self.user_name.is_none() => {
                Some(fault("kafka.user_name", "not set", "sasl needs a user name"))
            }
            Some(_) if !has_password => {
                Some(fault("kafka.password_file", "not set", "sasl needs a password"))
            }
            Some(KafkaMechanism::Plain) if self.tls.is_none() => {
                let rule = "it would send the password in the clear: \
                    add [kafka.tls], or take \"scram-sha-256\"";
                Some(fault("kafka.sasl", "\"plain\"", rule))
            }
            None if self.user_name.is_some() || has_password => {
                Some(fault("kafka.sasl", "not set", "user and password need a mechanism"))
            }
            _ => None,
        }
    }

    fn number_fault(&self) -> Option<Fault> {
        zero_fault([
            ("kafka.in_flight_max", self.in_flight_max.into()),
            ("kafka.batch_messages_max", self.batch_messages_max),
            ("kafka.batch_bytes_max", self.batch_bytes_max),
            ("kafka.retry_ms_min", self.retry_ms_min),
        ])
        .or_else(|| self.retry().fault("kafka", "kafka.retry_ms_max"))
    }

    fn retry(&self) -> Retry {
        Retry { ms_min: self.retry_ms_min, ms_max: self.retry_ms_max }
    }
}

/// Without the secret.
impl fmt::Debug for KafkaConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = out.debug_struct("KafkaConfig");
        table.field("name", &self.name).field("brokers", &self.brokers).finish_non_exhaustive()
    }
}

/// Whether it is a host and a port. A host of IPv6 needs a name: its colons would not do.
fn is_place(text: &str) -> bool {
    let Some((host, port)) = text.split_once(':') else { return false };
    !host.is_empty()
        && host.chars().all(|char| char.is_ascii_alphanumeric() || "-._".contains(char))
        && port.parse::<u16>().is_ok_and(|port| port > 0)
}

impl KafkaTopicConfig {
    fn fault(&self) -> Option<Fault> {
        let Self { filter, topic, .. } = self;
        if TopicFilter::parse(filter).is_none() || filter.starts_with(SHARE_PREFIX) {
            let rule = "it must be a topic filter, and not $share";
            return Some(fault("kafka.topics.filter", format!("{filter:?}"), rule));
        }
        // As Kafka has it.
        let is_topic = (1..=249).contains(&topic.len())
            && topic.chars().all(|char| char.is_ascii_alphanumeric() || "._-".contains(char))
            && !matches!(topic.as_str(), "." | "..");
        let rule = "it must be 1 to 249 letters, digits, dots, underscores and dashes";
        (!is_topic).then(|| fault("kafka.topics.topic", format!("{topic:?}"), rule))
    }
}

/// What a sink is made of.
#[cfg(feature = "kafka")]
mod settings {
    use super::*;
    use crate::bridges::config::{secret_of, tls_fault};
    use std::time::Duration;
    use weir_bridge::kafka::{Batch, KafkaSasl, KafkaSettings, KafkaTopic, Mechanism, RecordKey};
    use weir_core::OWN_CLIENT_IDS;

    impl KafkaConfig {
        /// What is to run, with what is in its files now.
        pub(crate) fn settings(&self) -> Result<KafkaSettings, Fault> {
            let tls = self.tls.as_ref().map(|tls| tls.arguments().client()).transpose();
            Ok(KafkaSettings {
                name: self.name.clone(),
                brokers: self.brokers.clone(),
                local_client_id: format!("{OWN_CLIENT_IDS}kafka/{}", self.name),
                topics: self.topics.iter().map(KafkaTopicConfig::topic).collect(),
                tls: tls.map_err(|fault| tls_fault(fault, KEYS))?,
                sasl: self.credentials()?,
                in_flight_max: self.in_flight_max,
                batch: Batch {
                    messages_max: self.batch_messages_max as usize,
                    bytes_max: self.batch_bytes_max as usize,
                    linger: Duration::from_millis(self.linger_ms.into()),
                },
                retry: self.retry().rests(),
            })
        }

        fn credentials(&self) -> Result<Option<KafkaSasl>, Fault> {
            let Some(mechanism) = self.sasl else { return Ok(None) };
            let file = self.password_file.as_deref();
            let secret = secret_of(self.password.as_ref(), file, "kafka.password_file")?;
            Ok(Some(KafkaSasl {
                mechanism: match mechanism {
                    KafkaMechanism::Plain => Mechanism::Plain,
                    KafkaMechanism::ScramSha256 => Mechanism::ScramSha256,
                    KafkaMechanism::ScramSha512 => Mechanism::ScramSha512,
                },
                user_name: self.user_name.clone().unwrap_or_default(),
                password: secret.unwrap_or_default(),
            }))
        }
    }

    /// Of [`tls_fault`].
    const KEYS: [&str; 7] = [
        "kafka.tls.ca",
        "kafka.tls.ca_folder",
        "kafka.tls.certificate",
        "kafka.tls.key",
        "kafka.tls.insecure",
        "kafka.tls.alpn",
        "kafka.tls",
    ];

    impl KafkaTopicConfig {
        fn topic(&self) -> KafkaTopic {
            KafkaTopic {
                filter: self.filter.clone(),
                topic: self.topic.clone(),
                key: match self.key {
                    KafkaKey::Topic => RecordKey::Topic,
                    KafkaKey::None => RecordKey::None,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    const SINK: &str = r#"
        [[kafka]]
        name = "lake"
        brokers = ["kafka.example:9092", "192.0.2.1:9093"]
        topics = [{ filter = "plant/#", topic = "plant.all", key = "none" }]
        sasl = "scram-sha-256"
        user_name = "weir"
        password = "hush"
        [kafka.tls]
    "#;

    fn read(text: &str) -> Result<Config, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::read(file.path()).map_err(|error| error.to_string())
    }

    #[cfg(not(feature = "kafka"))]
    #[test]
    fn a_program_without_kafka_says_so_and_how_to_get_one() {
        let error = read(SINK).unwrap_err();
        assert!(error.contains("kafka.name = \"lake\""), "{error}");
        assert!(error.contains("built without Kafka: cargo install"), "{error}");
    }

    #[cfg(feature = "kafka")]
    mod with_kafka {
        use super::*;

        #[test]
        fn a_sink_is_read_back_and_its_password_is_shown_to_nobody() {
            let config = read(SINK).unwrap();
            assert_eq!(read(&toml::to_string(&config).unwrap()).unwrap(), config);
            let settings = config.kafka[0].settings().unwrap();
            assert_eq!(settings.local_client_id, "$weir/kafka/lake");
            assert_eq!(settings.sasl.as_ref().unwrap().password, "hush");
            assert!(settings.tls.is_some());
            for shown in [format!("{config:?}"), format!("{settings:?}")] {
                assert!(!shown.contains("hush"), "{shown}");
            }
        }

        #[test]
        fn what_cannot_be_used_is_named_with_its_key() {
            for (old, new, key) in [
                ("\"lake\"", "\"a/b\"", "kafka.name"),
                ("\"kafka.example:9092\"", "\"kafka.example\"", "kafka.brokers"),
                ("\"kafka.example:9092\"", "\"[::1]:9092\"", "kafka.brokers"),
                ("plant/#", "plant/#/x", "kafka.topics.filter"),
                ("plant/#", "$share/g/plant", "kafka.topics.filter"),
                ("plant.all", "plant/all", "kafka.topics.topic"),
                ("user_name = \"weir\"", "", "kafka.user_name"),
                ("password = \"hush\"", "", "kafka.password_file"),
                ("sasl = \"scram-sha-256\"", "", "kafka.sasl"),
                (
                    "user_name",
                    "linger_ms = 0\nbatch_bytes_max = 0\nuser_name",
                    "kafka.batch_bytes_max",
                ),
                ("user_name", "in_flight_max = 0\nuser_name", "kafka.in_flight_max"),
                ("user_name", "retry_ms_max = 1\nuser_name", "kafka.retry_ms_max"),
                ("user_name", "password_file = \"/p\"\nuser_name", "kafka.password"),
            ] {
                let error = read(&SINK.replacen(old, new, 1)).unwrap_err();
                assert!(error.contains(&format!("{key} = ")), "{key}: {error}");
            }
            let plain = SINK.replace("scram-sha-256", "plain").replace("[kafka.tls]", "");
            assert!(read(&plain).unwrap_err().contains("in the clear"));
            let bridge = "[[bridge]]\nname = \"lake\"\naddresses = [\"mqtt://h\"]\n\
                 topics = [{ pattern = \"a\" }]\n";
            for twin in [SINK, bridge] {
                let error = read(&format!("{SINK}{twin}")).unwrap_err();
                assert!(error.contains("a bridge or another sink has this name"), "{error}");
            }
        }

        #[test]
        fn a_file_that_is_not_there_is_named_with_its_key() {
            let tls = SINK.replace("[kafka.tls]", "[kafka.tls]\nca = \"/nowhere/ca.pem\"");
            let (key, value, _) = read(&tls).unwrap().kafka[0].settings().unwrap_err();
            assert_eq!((key, &*value), ("kafka.tls.ca", "/nowhere/ca.pem"));
            let file = SINK.replace("password = \"hush\"", "password_file = \"/nowhere/p\"");
            let (key, value, _) = read(&file).unwrap().kafka[0].settings().unwrap_err();
            assert_eq!((key, &*value), ("kafka.password_file", "/nowhere/p"));
        }
    }
}
