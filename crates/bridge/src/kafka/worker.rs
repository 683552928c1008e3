//! A sink on its thread: connects to Kafka and then to its session, gives both up when one is lost,
//! rests, and connects again.

use super::cluster::{Cluster, Refused, Sent};
use super::lanes::{Item, Lanes};
use super::record::{TOPIC_HEADER, bytes_of, record_of};
use super::settings::KafkaSettings;
use super::tap::{Taker, Tap};
use crate::backoff::Backoff;
use crate::counts::{Count, Shared};
use crate::relay::{Broken, Errand};
use crate::{Inlet, Prepared};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use weir_connection::{ANSWER_MAX_US, until};
use weir_reactor::now_us;
use weir_wire::ReasonCode;
use weir_wire::packet::Publish;

/// Bytes of records that wait or are on their way before no more is taken from the session.
const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What is read from the own broker at once.
const READ_BYTES: usize = 64 * 1024;

/// How often Kafka is looked at: a sink that nothing comes to would not see that it is gone.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Why a sink does not go on.
enum Gone {
    /// Something is lost, which may come back.
    Lost(String),
    /// The own broker ends.
    Stopping,
}

impl From<String> for Gone {
    fn from(why: String) -> Self {
        Self::Lost(why)
    }
}

/// The connection to the own broker.
struct Line {
    stream: UnixStream,
    /// What has come and is no whole packet yet.
    input: Vec<u8>,
    buffer: Vec<u8>,
}

/// One sink.
struct Sink<'a> {
    settings: &'a KafkaSettings,
    shared: &'a Shared,
    inlet: &'a dyn Inlet,
    tap: Tap,
    backoff: Backoff,
    /// A message was refused since Kafka was connected to: the log has had one line about it.
    has_told: bool,
}

/// Puts what comes into the lanes.
struct Sorter<'a> {
    settings: &'a KafkaSettings,
    shared: &'a Shared,
    cluster: &'a Cluster,
    lanes: &'a mut Lanes,
}

/// Takes nothing while the session is prepared: nothing is offered then.
struct Nobody;

impl Taker for Nobody {
    fn take(&mut self, _: &Publish<'_>, _: Option<usize>, _: Option<u64>) -> bool {
        false
    }
}

impl Taker for Sorter<'_> {
    fn take(&mut self, publish: &Publish<'_>, route: Option<usize>, source: Option<u64>) -> bool {
        let Some(route) = route else {
            self.shared.counts.add(Count::DroppedUnmatched);
            return false;
        };
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let key = self.settings.topics[route].key;
        let record = record_of(publish, key, i64::try_from(now_ms).unwrap_or_default());
        let item = Item { bytes: bytes_of(&record), record, source };
        self.lanes.push(self.cluster.lane(route, publish.topic), item, now_us());
        true
    }
}

/// Runs a sink until the end is asked for.
///
/// # Errors
/// What the system says of the thread's runtime.
pub(crate) fn run(
    settings: &KafkaSettings,
    shared: &Shared,
    stop: &Notify,
    (inlet, prepared): (&dyn Inlet, Arc<Prepared>),
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // A hasher of the standard library has keys that nobody knows.
    let seed = RandomState::new().hash_one(&settings.name);
    let sink = Sink {
        settings,
        shared,
        inlet,
        tap: Tap::new(settings.local_client_id.clone(), &settings.subscriptions()),
        backoff: Backoff::new(&settings.retry, seed),
        has_told: false,
    };
    runtime.block_on(async {
        tokio::select! {
            () = stop.notified() => {}
            () = sink.run(prepared) => {}
        }
    });
    // The resolver of the system may still be busy.
    runtime.shutdown_background();
    Ok(())
}

impl Sink<'_> {
    async fn run(mut self, prepared: Arc<Prepared>) {
        let mut is_prepared = false;
        let mut prepared = Some(prepared);
        loop {
            let ended = match is_prepared {
                true => self.serve().await,
                false => self.prepare().await,
            };
            drop(prepared.take());
            match ended {
                Ok(()) => is_prepared = true,
                Err(Gone::Stopping) => return,
                Err(Gone::Lost(why)) => self.rest(&why).await,
            }
        }
    }

    async fn rest(&mut self, why: &str) {
        let rest = self.backoff.rest();
        self.shared.failed(&self.settings.place(), why);
        let again_ms = rest.as_millis();
        tracing::warn!(kafka = self.settings.name, "{why}; trying again in {again_ms} ms");
        sleep(rest).await;
    }

    /// Makes the session, so that nothing is missed while Kafka is not there.
    async fn prepare(&mut self) -> Result<(), Gone> {
        self.open(Errand::Prepare, 1, &mut Nobody).await.map(drop)
    }

    /// Connects, and relays until something is lost.
    async fn serve(&mut self) -> Result<(), Gone> {
        let Self { settings, shared, .. } = *self;
        let cluster = Cluster::connect(settings).await?;
        let mut lanes = Lanes::new(cluster.lanes(), settings.batch);
        // The first messages come before the broker has answered SUBSCRIBE.
        let mut sorter = Sorter { settings, shared, cluster: &cluster, lanes: &mut lanes };
        let line = self.open(Errand::Relay, settings.in_flight_max, &mut sorter).await?;
        let place = self.settings.place();
        self.shared.connected(&place);
        self.has_told = false;
        tracing::info!(kafka = self.settings.name, place, "Kafka connected");
        let since_us = now_us();
        let ended = self.relay(cluster, lanes, line).await;
        self.shared.disconnected();
        self.backoff.lasted(now_us().saturating_sub(since_us));
        Err(ended)
    }

    /// Connects to the own broker, and waits until the session is there.
    async fn open(
        &mut self,
        errand: Errand,
        window: u16,
        taker: &mut impl Taker,
    ) -> Result<Line, Gone> {
        let opened = self.inlet.connect().and_then(Line::new);
        let mut line = opened.map_err(|error| format!("no way into the own broker: {error}"))?;
        self.tap.open(errand, window, now_us());
        let greet = async {
            while !self.tap.is_ready() {
                tokio::select! {
                    _ = line.stream.readable() => line.read(&mut self.tap, taker),
                    _ = line.stream.writable(), if !self.tap.output().is_empty() => {
                        line.write(&mut self.tap)
                    }
                }?;
            }
            Ok(())
        };
        let most = Duration::from_micros(ANSWER_MAX_US);
        timeout(most, greet)
            .await
            .unwrap_or_else(|_| Err(Gone::Lost("the own broker does not answer".to_owned())))?;
        if let Some(complaint) = self.tap.take_complaint() {
            tracing::warn!(kafka = self.settings.name, "{complaint}");
            self.shared.complain(&complaint);
        }
        Ok(line)
    }

    /// From the session to Kafka, until one of them is lost. What has come already is in the lanes.
    async fn relay(&mut self, mut cluster: Cluster, mut lanes: Lanes, mut line: Line) -> Gone {
        let mut away = JoinSet::new();
        let mut watch = pin!(cluster.watch(LOOK_EVERY));
        loop {
            while let Some((lane, items)) = lanes.take(now_us()) {
                away.spawn(cluster.send(lane, items));
            }
            let due = lanes.poll_timeout();
            let done = tokio::select! {
                _ = line.stream.readable(), if lanes.bytes() < WAITING_BYTES_MAX => {
                    let Self { settings, shared, tap, .. } = self;
                    let (cluster, lanes) = (&cluster, &mut lanes);
                    let mut sorter = Sorter { settings, shared, cluster, lanes };
                    line.read(tap, &mut sorter)
                }
                _ = line.stream.writable(), if !self.tap.output().is_empty() => {
                    line.write(&mut self.tap)
                }
                Some(sent) = away.join_next() => match sent {
                    Ok(sent) => {
                        cluster.keep(&sent);
                        lanes.settled(sent.lane, sent.bytes);
                        self.settle(sent, &mut line)
                    }
                    Err(error) => Err(Gone::Lost(format!("a batch has failed: {error}"))),
                },
                () = sleep(due.map_or(Duration::MAX, until)), if due.is_some() => Ok(()),
                gone = &mut watch => Err(Gone::Lost(gone)),
            };
            if let Err(gone) = done {
                return gone;
            }
        }
    }

    /// Acknowledges what Kafka has, and what it refuses for good.
    fn settle(&mut self, sent: Sent, line: &mut Line) -> Result<(), Gone> {
        let now_us = now_us();
        let Sent { taken, refused, failed, .. } = sent;
        for source in taken {
            self.shared.counts.add(Count::Out);
            source.into_iter().for_each(|source| self.tap.settle(source, now_us));
        }
        for Refused { item, count, why } in refused {
            self.shared.counts.add(count);
            self.shared.complain(&why);
            if !std::mem::replace(&mut self.has_told, true) {
                let headers = &item.record.headers;
                let topic = headers.get(TOPIC_HEADER).map(|it| String::from_utf8_lossy(it));
                let topic = topic.unwrap_or_default();
                let kafka = &self.settings.name;
                tracing::warn!(kafka, "a message on {topic} is dropped, and more may be: {why}");
            }
            item.source.into_iter().for_each(|source| self.tap.settle(source, now_us));
        }
        match failed {
            None => Ok(()),
            Some(why) => {
                // What is there is not to come again.
                line.write(&mut self.tap)?;
                Err(Gone::Lost(why))
            }
        }
    }
}

impl Line {
    fn new(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let stream = UnixStream::from_std(stream)?;
        Ok(Self { stream, input: Vec::new(), buffer: vec![0; READ_BYTES] })
    }

    /// Takes what has come.
    fn read(&mut self, tap: &mut Tap, taker: &mut impl Taker) -> Result<(), Gone> {
        match self.stream.try_read(&mut self.buffer) {
            Ok(0) => return Err(Gone::Lost("the own broker has closed the connection".into())),
            Ok(bytes) => self.input.extend_from_slice(&self.buffer[..bytes]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(lost(error)),
        }
        match tap.received(&self.input, now_us(), taker) {
            Ok(consumed) => {
                self.input.drain(..consumed);
                Ok(())
            }
            Err(Broken::Disconnected(ReasonCode::ServerShuttingDown, _)) => Err(Gone::Stopping),
            Err(broken) => Err(Gone::Lost(broken.said_of("the own broker"))),
        }
    }

    /// Writes as much as there is room for.
    fn write(&mut self, tap: &mut Tap) -> Result<(), Gone> {
        match self.stream.try_write(tap.output()) {
            Ok(bytes) => tap.wrote(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(lost(error)),
        }
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err hands over")]
fn lost(error: io::Error) -> Gone {
    Gone::Lost(format!("the own broker: {error}"))
}
