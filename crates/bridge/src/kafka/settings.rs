//! What a Kafka sink is made of.

use crate::side::QOS_MAX;
use crate::topics::{Direction, Topic};
use std::ops::RangeInclusive;
use std::time::Duration;
use weir_transport::tls::Client;

/// One Kafka sink; checked.
#[derive(Clone, Debug)]
pub struct KafkaSettings {
    /// For the log, and for whoever asks.
    pub name: String,
    /// Some of the cluster's brokers as `HOST:PORT`: they know the others.
    pub brokers: Vec<String>,
    /// Its client identifier in the own broker, which nobody else may use.
    pub local_client_id: String,
    /// What goes to Kafka. The first whose filter fits a message counts.
    pub topics: Vec<KafkaTopic>,
    /// How TLS is spoken, if it is.
    pub tls: Option<Client>,
    /// Who it is to Kafka, if anybody.
    pub sasl: Option<KafkaSasl>,
    /// Messages of QoS 1 that are on their way.
    pub in_flight_max: u16,
    /// Bounds of what goes to a partition at once.
    pub batch: Batch,
    /// How long it waits before it tries again.
    pub retry: RangeInclusive<Duration>,
}

impl KafkaSettings {
    /// The brokers, for people.
    pub(crate) fn place(&self) -> String {
        format!("kafka://{}", self.brokers.join(","))
    }

    /// What is subscribed to.
    pub(crate) fn subscriptions(&self) -> Vec<Topic> {
        let of = |topic: &KafkaTopic| Topic {
            pattern: topic.filter.clone(),
            direction: Direction::Out,
            qos: QOS_MAX,
            local_prefix: String::new(),
            remote_prefix: String::new(),
        };
        self.topics.iter().map(of).collect()
    }
}

/// Messages that go to a Kafka topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaTopic {
    /// Which.
    pub filter: String,
    /// Where they go.
    pub topic: String,
    /// What their records have as their key.
    pub key: RecordKey,
}

/// The key of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKey {
    /// The MQTT topic.
    Topic,
    /// None. The partition is still the MQTT topic's.
    None,
}

/// Who a sink is to Kafka.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaSasl {
    /// How it says so.
    pub mechanism: Mechanism,
    /// The user.
    pub user_name: String,
    /// The secret of that user.
    pub password: String,
}

/// Without the secret.
impl std::fmt::Debug for KafkaSasl {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { mechanism, user_name, .. } = self;
        let mut table = out.debug_struct("KafkaSasl");
        table.field("mechanism", mechanism).field("user_name", user_name).finish_non_exhaustive()
    }
}

/// A mechanism of SASL.
#[expect(missing_docs, reason = "the names are those of RFC 4616 and RFC 7677")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    Plain,
    ScramSha256,
    ScramSha512,
}

/// When records that wait go to their partition: once there are so many, or so many bytes, or the
/// first has waited so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Records.
    pub messages_max: usize,
    /// Keys, values and headers.
    pub bytes_max: usize,
    /// How long the first waits.
    pub linger: Duration,
}
