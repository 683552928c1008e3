//! A Kafka cluster: where the topics' partitions are, and how batches get there.

use super::fault::{Fault, text_of};
use super::lanes::Item;
use super::record::partition_of;
use super::settings::{KafkaSasl, KafkaSettings, Mechanism};
use crate::counts::Count;
use rskafka::BackoffConfig;
use rskafka::client::error::{Error, Result};
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long Kafka may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How long a cluster may take to be connected to.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How often the client tries by itself, while the connection to the own broker stays: as long as
/// a leader takes to move. It sees no more of the memory of a batch than that batch.
const RETRY: BackoffConfig = BackoffConfig {
    init_backoff: Duration::from_millis(100),
    max_backoff: Duration::from_secs(1),
    base: 2.0,
    deadline: Some(Duration::from_secs(3)),
};

/// The longest answer that is read. There is nothing long to be asked for.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A cluster that was connected to.
pub(crate) struct Cluster {
    client: Arc<Client>,
    /// Of each topic in the settings, where its lanes begin, and its partitions.
    places: Vec<Place>,
    lanes: Vec<LaneOf>,
}

/// Of a topic.
#[derive(Clone, Copy)]
struct Place {
    first: usize,
    partitions: usize,
}

/// One partition.
#[derive(Clone)]
struct LaneOf {
    topic: Arc<str>,
    partition: i32,
    /// Once it was used.
    client: Option<Arc<PartitionClient>>,
}

/// What became of a batch.
pub(crate) struct Sent {
    pub(crate) lane: usize,
    /// Of the whole batch.
    pub(crate) bytes: usize,
    client: Option<Arc<PartitionClient>>,
    /// Messages that Kafka has.
    pub(crate) taken: Vec<Option<u64>>,
    /// Messages that it refuses for good.
    pub(crate) refused: Vec<Refused>,
    /// Why the rest is not there, if there is one.
    pub(crate) failed: Option<String>,
}

/// A message that Kafka refuses.
pub(crate) struct Refused {
    pub(crate) item: Item,
    pub(crate) count: Count,
    pub(crate) why: String,
}

impl Cluster {
    /// Connects, and asks for the partitions.
    ///
    /// # Errors
    /// A sentence: what does not answer, or which topic is not there.
    pub(crate) async fn connect(settings: &KafkaSettings) -> Result<Self, String> {
        let mut builder = ClientBuilder::new(settings.brokers.clone())
            .client_id(&*settings.local_client_id)
            .max_message_size(ANSWER_BYTES_MAX)
            .backoff_config(RETRY);
        if let Some(tls) = &settings.tls {
            builder = builder.tls_config(tls.config());
        }
        if let Some(sasl) = &settings.sasl {
            builder = builder.sasl_config(credentials(sasl));
        }
        let client = within(CONNECT_MAX, builder.build()).await?;
        let found = partitions(&client).await?;
        let (mut places, mut lanes) = (Vec::new(), Vec::<LaneOf>::new());
        for topic in &settings.topics {
            let name: &str = &topic.topic;
            let ids = found.get(name).filter(|ids| !ids.is_empty()).ok_or_else(|| {
                format!("the topic {name} is not in Kafka, or its user may not see it: create it")
            })?;
            // A topic that stands twice has its partitions once.
            let first = lanes.iter().position(|lane| &*lane.topic == name).unwrap_or_else(|| {
                let of = |&partition| LaneOf { topic: name.into(), partition, client: None };
                let first = lanes.len();
                lanes.extend(ids.iter().map(of));
                first
            });
            places.push(Place { first, partitions: ids.len() });
        }
        Ok(Self { client: Arc::new(client), places, lanes })
    }

    /// How many partitions there are.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Where the messages of an MQTT topic go.
    pub(crate) fn lane(&self, topic: usize, mqtt_topic: &str) -> usize {
        let Place { first, partitions } = self.places[topic];
        first + partition_of(mqtt_topic.as_bytes(), partitions)
    }

    /// Returns once something is wrong with the cluster, or a topic has other partitions.
    pub(crate) fn watch(&self, every: Duration) -> impl Future<Output = String> + use<> {
        let (client, mut before) = (Arc::clone(&self.client), HashMap::<_, Vec<_>>::new());
        for lane in &self.lanes {
            before.entry(lane.topic.to_string()).or_default().push(lane.partition);
        }
        async move {
            loop {
                tokio::time::sleep(every).await;
                let found = match partitions(&client).await {
                    Ok(found) => found,
                    Err(error) => return error,
                };
                if let Some((name, _)) =
                    before.iter().find(|(name, ids)| found.get(*name) != Some(ids))
                {
                    return format!("the topic {name} has other partitions now");
                }
            }
        }
    }

    /// Sends a batch.
    pub(crate) fn send(
        &self,
        lane: usize,
        items: Vec<Item>,
    ) -> impl Future<Output = Sent> + Send + use<> {
        let (client, LaneOf { topic, partition, client: known }) =
            (Arc::clone(&self.client), self.lanes[lane].clone());
        let bytes = items.iter().map(|item| item.bytes).sum();
        async move {
            let mut sent = Sent {
                lane,
                bytes,
                client: known,
                taken: Vec::new(),
                refused: Vec::new(),
                failed: None,
            };
            if sent.client.is_none() {
                let errors = UnknownTopicHandling::Error;
                let made = client.partition_client(&*topic, partition, errors);
                match within(CONNECT_MAX, made).await {
                    Ok(made) => sent.client = Some(Arc::new(made)),
                    Err(error) => sent.failed = Some(error),
                }
            }
            if let Some(to) = sent.client.clone() {
                sent.produce(&to, items).await;
            }
            sent
        }
    }

    /// A batch is settled: what it has connected to is kept.
    pub(crate) fn keep(&mut self, sent: &Sent) {
        self.lanes[sent.lane].client.clone_from(&sent.client);
    }
}

impl Sent {
    /// Sends the records in order. If Kafka refuses some, it is sent halves of them until it is
    /// known which.
    async fn produce(&mut self, to: &PartitionClient, items: Vec<Item>) {
        let mut parts = vec![items];
        while let Some(mut part) = parts.pop() {
            let records = part.iter().map(|item| item.record.clone()).collect();
            let answer = to.produce(records, Compression::NoCompression);
            let error = match timeout(ANSWER_MAX, answer).await {
                Ok(Ok(_)) => {
                    self.taken.extend(part.iter().map(|item| item.source));
                    continue;
                }
                Ok(Err(error)) => error,
                Err(_) => Error::Timeout,
            };
            let fault = Fault::of(&error);
            if fault == Fault::Passing {
                self.failed = Some(text_of(&error));
                return;
            }
            if part.len() > 1 {
                let rest = part.split_off(part.len() / 2);
                parts.extend([rest, part]);
                continue;
            }
            let count = match fault {
                Fault::TooLarge => Count::DroppedTooLarge,
                Fault::Unfit | Fault::Passing => Count::DroppedRefused,
            };
            let refused = |item| Refused { item, count, why: text_of(&error) };
            self.refused.extend(part.into_iter().map(refused));
        }
    }
}

/// The partitions of every topic that may be seen, in order.
async fn partitions(client: &Client) -> Result<HashMap<String, Vec<i32>>, String> {
    let topics = within(CONNECT_MAX, client.list_topics()).await?;
    Ok(topics.into_iter().map(|it| (it.name, it.partitions.into_iter().collect())).collect())
}

async fn within<T>(most: Duration, work: impl Future<Output = Result<T>>) -> Result<T, String> {
    match timeout(most, work).await {
        Ok(done) => done.map_err(|error| text_of(&error)),
        Err(_) => Err(format!("Kafka has not answered in {} s", most.as_secs())),
    }
}

fn credentials(sasl: &KafkaSasl) -> SaslConfig {
    let KafkaSasl { mechanism, user_name, password } = sasl;
    let credentials = Credentials::new(user_name.clone(), password.clone());
    match mechanism {
        Mechanism::Plain => SaslConfig::Plain(credentials),
        Mechanism::ScramSha256 => SaslConfig::ScramSha256(credentials),
        Mechanism::ScramSha512 => SaslConfig::ScramSha512(credentials),
    }
}
