//! The control thread: where it is served, what it asks the shards, and what they answer.
//!
//! It is no shard, and asks by letters. A shard answers with what it has at hand; making texts of
//! that is done on the control thread.

mod bans;
mod config;

use crate::admission::{AdmissionControl, AdmissionStats};
use crate::auth::hasher::PasswordCounts;
use crate::drops::Kept;
use crate::journal::JournalCounts;
use crate::letter::Letter;
use crate::log::LogCounts;
use crate::post::ClusterWatch;
use crate::stopper::Asked;
use crate::trace::{self, Taken, TraceCounts};
pub use config::{ControlConfig, OtlpConfig, TokenConfig};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use weir_bridge::{BridgeState, BridgeWatch};
use weir_control::{
    BanPage, Bridge, Changed, Client, ClientPage, Cluster, Counters, Forgotten, Full, Histogram,
    Keeper, Link, Message, NewBan, NotForgotten, NotPublished, Outlook, Port, Request,
    RetainedPage, Subscription, SubscriptionPage, TraceOf, Traced, Unchanged, Whom,
};
use weir_core::{
    ClientState, Kicked, NotMoved, OwnMessage, Partition, Partitions, ShardId, Stats,
    SubscriptionState,
};
use weir_reactor::{BOUNDS_US, Durations, IoStats, Outside};
use weir_wire::QoS;

pub(crate) use bans::BanBook;

/// What a shard answers, each to the request of the same name.
#[derive(Debug)]
pub(crate) enum Answer {
    Clients(weir_core::ClientPage),
    Client(Option<ClientState>),
    Kicked(Kicked),
    ClientEnded(bool),
    Subscriptions(Option<weir_core::SubscriptionPage>),
    Retained(Option<weir_core::MessagePage>),
    Published(Result<(), weir_core::NotPublished>),
    PublishedSys(Result<(), weir_core::NotPublished>),
    Counters(Box<ShardCounters>),
    Partitions(weir_control::Partitions),
    Moved(Result<(Partition, ShardId), NotMoved>),
    EndedBanned(u64),
    Drain(weir_control::DrainState),
    Listeners(Vec<u64>),
    Drops(Vec<Kept>),
    Trace(Box<Taken>),
    Top(Box<weir_control::Tally>),
    Outlook(Option<Box<weir_core::Outlook>>),
}

/// All counts of one shard, and those of the process as it sees them.
#[derive(Debug)]
pub(crate) struct ShardCounters {
    pub(crate) stats: Stats,
    /// Answers that found no room on their way to the control thread.
    pub(crate) answers_dropped: u64,
    pub(crate) io: IoStats,
    pub(crate) admission: AdmissionStats,
    pub(crate) log: LogCounts,
    pub(crate) passwords: PasswordCounts,
    /// Where tokens are checked or a service is asked.
    pub(crate) access: Option<Arc<weir_access::Counts>>,
    /// How often a connection was not read for its rate.
    pub(crate) rate_pauses: u64,
    /// Connections ended because their certificates count no more.
    pub(crate) certificates_ended: u64,
    pub(crate) traced: TraceCounts,
    /// Clients that came or went and were not said, because there were too many.
    pub(crate) events_dropped: u64,
    pub(crate) drain: weir_control::DrainState,
    /// Connections that drains have ended.
    pub(crate) connections_sent_away: u64,
    /// How long messages were in the broker.
    pub(crate) latency: Durations,
    /// Of TLS, of all threads: full, resumed and failed ones.
    pub(crate) handshakes: [u64; 3],
    /// Where there is a store.
    pub(crate) journal: Option<JournalCounts>,
    pub(crate) rss_bytes: u64,
    pub(crate) rss_bytes_max: u64,
}

/// The shards as the control thread sees them.
#[derive(Debug)]
pub(crate) struct Shards {
    pub(crate) letters: Outside<Letter, Answer>,
    pub(crate) count: u16,
    pub(crate) partitions: Partitions,
    pub(crate) bans: BanBook,
    pub(crate) admission: Arc<Mutex<AdmissionControl>>,
    pub(crate) keeper: Arc<dyn Keeper>,
    pub(crate) bridges: BridgeWatch,
    pub(crate) cluster: Option<ClusterWatch>,
    pub(crate) asked: Arc<Asked>,
}

impl Port for Shards {
    fn shards(&self) -> u16 {
        self.count
    }

    fn owner(&self, client_id: &str) -> u16 {
        self.partitions.owner(client_id).0
    }

    fn ask(&mut self, shard: u16, request: Request) -> Result<(), Full> {
        self.letters.send(shard.into(), Letter::Ask(request)).map_err(|_| Full)
    }

    fn ban(&mut self, ban: NewBan) -> Result<Changed, Unchanged> {
        self.bans.ban(ban, &self.admission)
    }

    fn unban(&mut self, whom: &Whom) -> Result<Changed, Unchanged> {
        self.bans.unban(whom, &self.admission)
    }

    fn bans(&self, from: usize, bans_max: usize) -> BanPage {
        self.bans.page(from, bans_max, &self.admission)
    }

    fn bridges(&self) -> Vec<Bridge> {
        self.bridges.states().into_iter().map(shown_bridge).collect()
    }

    fn cluster(&self) -> Option<Cluster> {
        self.cluster.as_ref().map(ClusterWatch::cluster)
    }

    fn forget_node(&mut self, name: &str, said: Forgotten) {
        match &self.cluster {
            Some(cluster) => cluster.forget(name, said),
            None => said(Err(NotForgotten::NoCluster)),
        }
    }

    fn is_shut(&self) -> Option<&'static str> {
        if !self.asked.is_open() {
            return Some("not ready: waiting for what other nodes have, or for bridges");
        }
        let is_fenced = self.cluster.as_ref().is_some_and(ClusterWatch::is_fenced);
        if is_fenced {
            return Some("not ready: this node has lost its cluster; look whether etcd answers");
        }
        let is_stopped = self.cluster.is_some() && self.asked.stop.load(Ordering::Acquire);
        is_stopped.then_some("not ready: this node is being stopped")
    }

    fn check_trace(&self, of: &TraceOf) -> Result<(), String> {
        trace::check(of)
    }

    fn keeper(&self) -> Arc<dyn Keeper> {
        Arc::clone(&self.keeper)
    }

    fn take_answers(&mut self, take: &mut dyn FnMut(u16, weir_control::Answer)) {
        let Self { letters, partitions, .. } = self;
        letters.receive(|shard, answer| {
            if let Answer::Moved(Ok((partition, to))) = answer {
                partitions.set_holder(partition, to);
            }
            take(shard as u16, answer.into());
        });
    }

    fn wakes(&self) -> io::Result<UnixStream> {
        self.letters.wakes()
    }
}

impl From<Answer> for weir_control::Answer {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Clients(page) => {
                let clients = page.clients.into_iter().map(shown).collect();
                Self::Clients(ClientPage { clients, behind: page.behind, next: page.next })
            }
            Answer::Client(client) => Self::Client(client.map(shown)),
            Answer::Kicked(kicked) => Self::Kicked(shown_kicked(kicked)),
            Answer::ClientEnded(was_there) => Self::ClientEnded(was_there),
            Answer::Subscriptions(page) => Self::Subscriptions(page.map(|page| SubscriptionPage {
                subscriptions: page.subscriptions.into_iter().map(shown_subscription).collect(),
                next: page.next,
            })),
            Answer::Retained(page) => Self::Retained(page.map(|page| RetainedPage {
                messages: page.messages.iter().map(|message| shown_message(message)).collect(),
                next: page.next.map(Into::into),
            })),
            Answer::Published(published) => Self::Published(published.map_err(not_published)),
            Answer::PublishedSys(published) => Self::PublishedSys(published.map_err(not_published)),
            Answer::Counters(counters) => Self::Counters((*counters).into()),
            Answer::EndedBanned(count) => Self::EndedBanned(count),
            Answer::Drain(state) => Self::Drain(state),
            Answer::Listeners(counts) => Self::Listeners(counts),
            Answer::Drops(kept) => Self::Drops(kept.into_iter().map(Into::into).collect()),
            Answer::Trace(taken) => {
                let Taken { events, dropped } = *taken;
                let events = events.iter().map(trace::event).collect();
                Self::Trace(Traced { events, dropped })
            }
            Answer::Top(tally) => Self::Top(tally),
            Answer::Outlook(outlook) => {
                Self::Outlook(outlook.map(|it| Box::new(shown_outlook(*it))))
            }
            Answer::Partitions(partitions) => Self::Partitions(partitions),
            Answer::Moved(moved) => Self::Moved(moved.map(|_| ()).map_err(not_moved)),
        }
    }
}

impl From<ShardCounters> for Counters {
    fn from(counters: ShardCounters) -> Self {
        let ShardCounters {
            stats,
            answers_dropped,
            io,
            admission,
            log,
            passwords,
            access,
            rate_pauses,
            certificates_ended,
            traced,
            events_dropped,
            drain,
            connections_sent_away,
            latency,
            handshakes: [handshakes_full, handshakes_resumed, handshakes_failed],
            journal,
            rss_bytes,
            rss_bytes_max,
        } = counters;
        let of_access = access.iter().flat_map(|counts| counts.by_name());
        let of_shell = [
            ("answers_dropped", answers_dropped),
            ("turns", io.turns),
            ("reads", io.reads),
            ("bytes_in", io.bytes_in),
            ("writes", io.writes),
            ("bytes_out", io.bytes_out),
            ("held_back", io.held_back),
            ("put_off", io.put_off),
            ("accept_errors", io.accept_errors),
            ("transport_errors", io.transport_errors),
            ("log_lines_left_out", log.left_out),
            ("passwords_hashed", passwords.hashed),
            ("passwords_known", passwords.known),
            ("passwords_wrong", passwords.wrong),
            ("passwords_busy", passwords.busy),
            ("rate_pauses", rate_pauses),
            ("certificates_ended", certificates_ended),
            ("trace_packets", traced.copied),
            ("trace_dropped", traced.dropped),
            ("sys_events_dropped", events_dropped),
            ("connections_sent_away", connections_sent_away),
            ("draining", drain.is_draining.into()),
            ("drain_sent_away", drain.ended),
            ("drain_connections_left", if drain.is_draining { drain.connections } else { 0 }),
        ];
        let of_store = journal.into_iter().flat_map(JournalCounts::by_name);
        Self {
            shard: stats.by_name().chain(of_shell).chain(of_store).collect(),
            refusals: stats.refusals.by_name().collect(),
            histograms: vec![
                histogram("latency", &latency),
                histogram("turn_length", &io.turn_lengths),
            ],
            process: [
                ("handshakes_full", handshakes_full),
                ("handshakes_resumed", handshakes_resumed),
                ("handshakes_failed", handshakes_failed),
                ("log_lines_lost", log.lost),
                ("rss_bytes", rss_bytes),
                ("rss_bytes_max", rss_bytes_max),
            ]
            .into_iter()
            .chain(admission.by_name())
            .chain(of_access)
            .collect(),
        }
    }
}

/// But for its queue, which its shard has.
fn shown_bridge(state: BridgeState) -> Bridge {
    let BridgeState { name, client_id, remote, is_connected, last_error, counts } = state;
    Bridge {
        name,
        client_id,
        remote,
        connected: is_connected,
        last_error,
        counters: counts.into_iter().map(|(name, count)| (name.to_owned(), count)).collect(),
        ..Bridge::default()
    }
}

fn shown_kicked(kicked: Kicked) -> weir_control::Kicked {
    match kicked {
        Kicked::Ended => weir_control::Kicked::Ended,
        Kicked::Absent => weir_control::Kicked::Absent,
        Kicked::Unknown => weir_control::Kicked::Unknown,
    }
}

fn not_moved(why: NotMoved) -> weir_control::NotMoved {
    match why {
        NotMoved::UnderWay | NotMoved::NotLeader => weir_control::NotMoved::UnderWay,
        NotMoved::UnknownShard => weir_control::NotMoved::UnknownShard,
        NotMoved::IsThere => weir_control::NotMoved::IsThere,
        NotMoved::Logged => weir_control::NotMoved::Logged,
        NotMoved::Clustered => weir_control::NotMoved::Clustered,
    }
}

fn not_published(why: weir_core::NotPublished) -> NotPublished {
    match why {
        weir_core::NotPublished::Refused(reason, detail) => {
            let detail = if detail.is_empty() { reason.name() } else { detail };
            NotPublished::Refused(detail.to_owned())
        }
        weir_core::NotPublished::Busy => NotPublished::Busy,
    }
}

fn histogram(name: &'static str, durations: &Durations) -> Histogram {
    let Durations { counts, us_sum } = durations;
    Histogram { name, bounds_us: &BOUNDS_US, counts: counts.to_vec(), us_sum: *us_sum }
}

fn shown_subscription(subscription: SubscriptionState) -> Subscription {
    let SubscriptionState { filter, condition, options, subscription_id } = subscription;
    Subscription {
        filter: filter.into(),
        condition: condition.map(Into::into),
        qos: options.qos as u8,
        no_local: options.no_local,
        retain_as_published: options.retain_as_published,
        subscription_id,
    }
}

fn shown_outlook(outlook: weir_core::Outlook) -> Outlook {
    let weir_core::Outlook {
        client,
        may_read,
        subscriptions,
        matching,
        queue_messages_max,
        queue_bytes_max,
        in_flight_max,
        output_bytes,
        output_bytes_max,
        is_memory_short,
    } = outlook;
    Outlook {
        client: shown(client),
        may_read,
        subscriptions: subscriptions.into_iter().map(shown_subscription).collect(),
        matching,
        queue_messages_max,
        queue_bytes_max,
        in_flight_max,
        output_bytes: output_bytes as u64,
        output_bytes_max: output_bytes_max as u64,
        is_memory_short,
    }
}

fn shown_message(message: &weir_core::Message) -> Message {
    Message {
        topic: message.topic.clone(),
        payload: message.payload.clone(),
        qos: message.qos as u8,
        retain: message.retain,
    }
}

/// What a shard is to publish. The control thread has looked at the QoS.
pub(crate) fn own_message(message: Message) -> OwnMessage {
    let Message { topic, payload, qos, retain } = message;
    OwnMessage {
        topic: topic.into(),
        payload: payload.into(),
        qos: QoS::from_u8(qos).unwrap_or_default(),
        retain,
    }
}

fn shown(client: ClientState) -> Client {
    let connection = client.connection.map(|link| {
        let version = link.version.name().into();
        Link { version, keep_alive_s: link.keep_alive_s }
    });
    Client {
        client_id: client.client_id.into(),
        user: client.user.map(Into::into),
        connection,
        session_expiry_s: (client.session_expiry_s != u32::MAX).then_some(client.session_expiry_s),
        subscriptions: client.subscriptions,
        queued_messages: client.queued_messages,
        queued_bytes: client.queued_bytes,
        in_flight: client.in_flight,
    }
}

#[cfg(test)]
mod tests;
