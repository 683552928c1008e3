//! What happened. Times are microseconds of the monotonic clock unless a name says otherwise.

use crate::histogram::histogram;
use crate::plan::Transport;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole run, measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How the run ended.
    pub end: End,
    /// When each phase began and ended, in order; a phase not reached is absent.
    pub phases: Vec<PhaseSpan>,
    /// CONNECT to CONNACK.
    pub connections: Connections,
    /// Handshakes of TLS.
    pub handshakes: Handshakes,
    /// SUBSCRIBE to SUBACK.
    pub subscriptions: Operations,
    /// How clients reached the broker and who they said they were; nothing if none got so far.
    pub access: Option<Access>,
    /// What was published in warm-up, and what became of it.
    pub warm_up: Messages,
    /// What was published in measure, and what became of it.
    pub measure: Messages,
    /// What went and came between the begin and the end of measure, whenever it was due.
    pub traffic: Traffic,
    /// Latencies of the measure phase (connect and subscribe: of the whole run).
    pub latencies: Latencies,
    /// One entry an interval of the plan, from the first connect to the end of drain.
    pub intervals: Vec<Interval>,
    /// The latencies of each of `intervals` in full.
    pub distributions: Vec<crate::Distribution>,
    /// How the generator itself did.
    pub generator: Generator,
    /// The broker's silences, up to [`SILENCES_MAX`] of each process that generated load.
    pub silences: Vec<Silence>,
    /// Silences beyond that bound.
    pub silences_unlisted: u64,
    /// Single messages that were lost, duplicated or reordered, up to [`ANOMALIES_MAX`].
    pub anomalies: Vec<Anomaly>,
    /// Anomalies beyond that bound.
    pub anomalies_unlisted: u64,
    /// Deliveries that are in no latency: their publisher and their subscriber do not share a
    /// clock.
    pub unclocked: u64,
    /// What became of clients that lost their connections, and the pulse if one was asked for.
    pub course: crate::steps::StepsOutcome,
    /// The agents that ran it, a line for each; empty for a run of one process.
    pub agents: Vec<String>,
}

/// What the CONNECTs of a run went over, and what they said of who the client is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Access {
    /// What carried them.
    pub transport: Transport,
    /// Whether they had a User Name.
    pub has_user_name: bool,
    /// Whether they had a Password.
    pub has_password: bool,
}

/// Messages by when they were seen, not by when they were due. To a turn of the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Written to the broker.
    pub published: u64,
    /// Read from it.
    pub received: u64,
    /// Of these, again.
    pub duplicated: u64,
    /// Of these, to a client of another node than their publisher's when they came.
    pub crossed: u64,
}

impl Traffic {
    /// What has come to this since `earlier`.
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            published: self.published - earlier.published,
            received: self.received - earlier.received,
            duplicated: self.duplicated - earlier.duplicated,
            crossed: self.crossed - earlier.crossed,
        }
    }
}

/// How many anomalies are listed one by one.
pub const ANOMALIES_MAX: usize = 100_000;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    /// All phases ran.
    Completed,
    /// Somebody asked it to stop.
    Stopped,
    /// The broker went away, or never was there: what was seen, for a person.
    BrokerGone(String),
    /// Too many connections or subscriptions failed to measure anything: what was seen.
    SetupFailed(String),
    /// A part of the generator itself was lost: which, and what with it. Says nothing of the
    /// broker.
    AgentLost(String),
}

/// A part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Connections are made.
    #[default]
    Connect,
    /// Subscriptions are made.
    Subscribe,
    /// Publishing, not yet measured.
    WarmUp,
    /// Publishing, measured.
    Measure,
    /// Waiting for what is owed.
    Drain,
}

/// When a phase was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseSpan {
    /// Which.
    pub phase: Phase,
    /// Its begin.
    pub start_us: u64,
    /// Its end.
    pub end_us: u64,
}

/// What became of the planned connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// In the plan.
    pub planned: u64,
    /// Accepted by CONNACK.
    pub connected: u64,
    /// Never accepted, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Accepted and ended by the other side before the run's end, by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// Handshakes of TLS that came to their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Handshakes {
    /// With certificates.
    pub full: u64,
    /// By a ticket of an earlier session.
    pub resumed: u64,
}

/// Operations that are asked and answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operations {
    /// Asked.
    pub asked: u64,
    /// Granted.
    pub granted: u64,
    /// Of these, with another QoS than was asked for, by both.
    #[serde(default)]
    pub other_qos: BTreeMap<String, u64>,
    /// Refused or never answered, by reason.
    pub failed: BTreeMap<String, u64>,
}

/// Deliveries that came, and were not what was published, by what differs. One may differ in more
/// than one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Altered {
    /// Under another topic.
    pub topic: u64,
    /// Longer or shorter.
    pub length: u64,
    /// With other bytes.
    pub content: u64,
    /// At another QoS than the lower of publication and subscription.
    pub qos: u64,
    /// With a RETAIN flag that it must not have, or without one that it must have.
    pub retain: u64,
}

impl Altered {
    /// Each with its name.
    pub fn named(&self) -> [(&'static str, u64); 5] {
        let Self { topic, length, content, qos, retain } = *self;
        [
            ("topic", topic),
            ("length", length),
            ("content", content),
            ("QoS", qos),
            ("RETAIN flag", retain),
        ]
    }

    /// What single messages are listed as for it.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = AnomalyKind> {
        let all = [
            (self.topic, AnomalyKind::AlteredTopic),
            (self.length, AnomalyKind::AlteredLength),
            (self.content, AnomalyKind::AlteredContent),
            (self.qos, AnomalyKind::AlteredQos),
            (self.retain, AnomalyKind::AlteredRetain),
        ];
        all.into_iter().filter(|(count, _)| *count > 0).map(|(_, kind)| kind)
    }

    /// Adds what others saw.
    pub(crate) fn add(&mut self, other: &Self) {
        self.topic += other.topic;
        self.length += other.length;
        self.content += other.content;
        self.qos += other.qos;
        self.retain += other.retain;
    }
}

/// The ledger's sums. A delivery is one message to one subscriber, or to one shared group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Messages {
    /// Due on the schedule.
    pub intended: u64,
    /// Handed to the network.
    pub sent: u64,
    /// Due but never sent: the window, the connection or the generator stood in the way.
    pub unsent: u64,
    /// At QoS 1 and 2, sent and acknowledged with success. At QoS 0 the same as sent.
    pub accepted: u64,
    /// At QoS 1 and 2, sent and refused with a reason code.
    pub refused: u64,
    /// At QoS 1 and 2, sent and never acknowledged.
    pub unacknowledged: u64,
    /// Deliveries owed: for every accepted message, one to each matching subscriber or group.
    pub expected: u64,
    /// Deliveries owed and come, each counted once.
    pub delivered: u64,
    /// Deliveries owed that never came.
    pub lost: u64,
    /// Deliveries that nobody can speak for, counted neither as owed nor as lost: those under way
    /// when the run was cut short, and those to clients of an agent that was lost.
    #[serde(default)]
    pub unaudited: u64,
    /// Deliveries that came again.
    pub duplicated: u64,
    /// Of these, with the DUP flag set.
    pub duplicated_with_dup: u64,
    /// Deliveries that came after a later one of the same publisher to the same subscriber.
    pub reordered: u64,
    /// Of these, to a member of a shared group: MQTT promises no order there.
    #[serde(default)]
    pub reordered_shared: u64,
    /// Deliveries that were not what was published.
    #[serde(default)]
    pub altered: Altered,
    /// Deliveries that came only after drain had ended; also counted as lost, or as unaudited.
    pub late_after_drain: u64,
    /// Deliveries of messages that the broker never accepted, or of which only a lost agent knew
    /// whether it had; not counted as delivered.
    pub delivered_unaccepted: u64,
    /// Received messages that are none of this run's, or not for this subscriber.
    pub stray: u64,
    /// Of these, the broker's doing: of this run, and never sent or not for this subscriber.
    /// Others may come from whoever else uses the broker.
    #[serde(default)]
    pub stray_own: u64,
    /// Received PUBLISH packets in all, counted at the socket: must equal delivered + duplicated
    /// + late_after_drain + delivered_unaccepted + stray over both phases.
    pub received: u64,
}

/// Latencies in microseconds, three significant digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// connect() to CONNACK.
    pub connect: Histogram<u64>,
    /// Of these, where there is a handshake: connect() until TCP is there.
    pub tcp_connect: Histogram<u64>,
    /// From there until TLS, WebSocket or both are open. What the generator computes for it is in
    /// it.
    pub handshake: Histogram<u64>,
    /// From there, where CONNECT is sent, to CONNACK.
    pub connack: Histogram<u64>,
    /// SUBSCRIBE to SUBACK.
    pub subscribe: Histogram<u64>,
    /// PUBLISH sent to PUBACK or PUBCOMP.
    pub acknowledge: Histogram<u64>,
    /// Intended time to PUBACK or PUBCOMP, as far back as send times are remembered.
    pub acknowledge_from_intended: Histogram<u64>,
    /// Intended time to receipt: the latency of the result.
    pub end_to_end: Histogram<u64>,
    /// Actual send to receipt.
    pub end_to_end_from_send: Histogram<u64>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            connect: histogram(),
            tcp_connect: histogram(),
            handshake: histogram(),
            connack: histogram(),
            subscribe: histogram(),
            acknowledge: histogram(),
            acknowledge_from_intended: histogram(),
            end_to_end: histogram(),
            end_to_end_from_send: histogram(),
        }
    }
}

/// One interval of the series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Begin of the interval.
    pub start_us: u64,
    /// Length of the interval; the last may be shorter.
    pub length_us: u64,
    /// The phase at its end.
    pub phase: Phase,
    /// Connections open at its end.
    pub connections: u64,
    /// Subscribers and publishers connected at its end.
    pub subscribers: u64,
    /// Publishers connected at its end.
    pub publishers: u64,
    /// New connections, and connections that failed or were dropped.
    pub connected: u64,
    /// Connections that failed or were dropped.
    pub connect_failures: u64,
    /// Subscriptions granted.
    pub subscribed: u64,
    /// Subscriptions refused.
    pub subscribe_failures: u64,
    /// Messages sent.
    pub published: u64,
    /// Messages acknowledged with success (QoS 1 and 2).
    pub acknowledged: u64,
    /// Messages refused.
    pub publish_failures: u64,
    /// Messages received.
    pub received: u64,
    /// Deliveries owed so far minus deliveries come so far, at its end.
    pub outstanding: u64,
    /// Received again, or after a later one.
    pub duplicated: u64,
    /// Received after a later one.
    pub reordered: u64,
    /// Bytes written to sockets.
    pub bytes_out: u64,
    /// Bytes read from sockets.
    pub bytes_in: u64,
    /// connect() to CONNACK in this interval.
    pub connect_latency: Summary,
    /// SUBSCRIBE to SUBACK in this interval.
    pub subscribe_latency: Summary,
    /// PUBLISH to PUBACK or PUBCOMP in this interval.
    pub acknowledge_latency: Summary,
    /// Intended time to receipt, of what was received in this interval.
    pub end_to_end_latency: Summary,
    /// The generator's own part of being late: due to picked up.
    pub generator_lag: Summary,
    /// CPU of the generator's threads, in cores.
    pub generator_cpu_cores: f64,
}

/// A histogram in six numbers, microseconds. All zero where `count` is.
#[expect(missing_docs, reason = "the names say it")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub count: u64,
    pub mean_us: f64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
}

/// Above this share of a core the generator was busy all the time, and what it saw as latency may
/// be its own.
pub const CPU_SHARE_MAX: f64 = 0.95;

/// One message in a hundred may be picked up this late: a scheduler's stall on a shared machine,
/// not a generator behind its schedule. It does not follow the latency that is measured, of which
/// the lag is a part.
pub const LAG_P99_US_MAX: u64 = 10_000;

/// Being late by less is the scheduling of any shared machine.
pub const LATE_US_MIN: u64 = 10_000;

/// The longest absence that a run may have and still speak of the broker: the highest latency is
/// wrong by this at most.
pub const ABSENT_US_MAX: u64 = 50_000;

/// So many of its samples may have been delayed by absences: the p99 told is then at most the true
/// p99.1.
pub const DELAYED_SHARE_MAX: f64 = 0.001;

/// How often the generator's loop did not run for more than [`LATE_US_MIN`] although something
/// waited for it: a message, connect or step that was due, an answer that lay unread, or, beyond
/// [`ABSENT_US_MAX`], a PINGREQ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lateness {
    /// Latencies and lags that were taken.
    pub samples: u64,
    /// Messages, answers and the like that waited for the generator.
    pub delayed: u64,
    /// Times it was absent.
    pub absences: u64,
    /// The sum of their lengths.
    pub absent_us: u64,
    /// The longest.
    pub absent_us_max: u64,
    /// When that one ended.
    pub longest_at_us: u64,
}

impl Lateness {
    /// Adds an absence that ended at `at_us`.
    pub(crate) fn add(&mut self, at_us: u64, absent_us: u64, delayed: u64) {
        let longest_at_us = at_us;
        self.merge(&Self {
            samples: 0,
            delayed,
            absences: 1,
            absent_us,
            absent_us_max: absent_us,
            longest_at_us,
        });
    }

    /// Adds what another slice was late.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.samples += other.samples;
        self.delayed += other.delayed;
        self.absences += other.absences;
        self.absent_us += other.absent_us;
        if other.absent_us_max > self.absent_us_max {
            (self.absent_us_max, self.longest_at_us) = (other.absent_us_max, other.longest_at_us);
        }
    }
}

/// A broker that sends nothing for so long, although something new is owed, was silent.
pub const SILENT_US_MIN: u64 = 500_000;

/// Silences that are listed.
pub const SILENCES_MAX: usize = 100;

/// A time in which nothing at all came from the broker, although an acknowledgement, of a CONNECT
/// or a SUBSCRIBE too, or a delivery was owed and the generator listened. Warm-up is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Silence {
    /// When what was owed was asked for.
    pub start_us: u64,
    /// From there to the next answer.
    pub length_us: u64,
}

/// How the generator itself did in the measure phase.
#[derive(Clone, Debug)]
pub struct Generator {
    /// CPU time in user mode.
    pub cpu_user_us: u64,
    /// CPU time in the kernel.
    pub cpu_system_us: u64,
    /// Length of the measure phase.
    pub wall_us: u64,
    /// Due to picked up, without what the broker or a full window held back.
    pub lag: Histogram<u64>,
    /// Length of one turn of the loop: how long a message may lie unread because of us.
    pub turn: Histogram<u64>,
    /// Its absences while clients connected and subscribed.
    pub late_setup: Lateness,
    /// Its absences in measure, and in drain while messages were owed.
    pub late_measure: Lateness,
    /// Memory of the ledger in bytes.
    pub ledger_bytes: u64,
    /// Why the generator was the limit; empty when it was not.
    pub invalid: Vec<String>,
}

impl Default for Generator {
    fn default() -> Self {
        Self {
            cpu_user_us: 0,
            cpu_system_us: 0,
            wall_us: 0,
            lag: histogram(),
            turn: histogram(),
            late_setup: Lateness::default(),
            late_measure: Lateness::default(),
            ledger_bytes: 0,
            invalid: Vec::new(),
        }
    }
}

/// A single message that did not arrive once, in order and as it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Anomaly {
    /// What is wrong with it.
    pub kind: AnomalyKind,
    /// Index of the subscriber among all clients of the plan. For a loss in a shared group: of
    /// the group's first member.
    pub subscriber: u32,
    /// Index of the publisher among all clients of the plan.
    pub publisher: u32,
    /// Sequence number of the message at its publisher, from 0.
    pub sequence: u32,
}

/// What is wrong with a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum AnomalyKind {
    /// Never came.
    Lost,
    /// Came again.
    Duplicated,
    /// Came after a later one.
    Reordered,
    /// Came under another topic.
    AlteredTopic,
    /// Came longer or shorter.
    AlteredLength,
    /// Came with other bytes.
    AlteredContent,
    /// Came at another QoS.
    AlteredQos,
    /// Came with a RETAIN flag that it must not have, or without.
    AlteredRetain,
}
