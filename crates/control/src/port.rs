//! What is asked of a broker, and what it answers.

use crate::bans::{BanPage, Changed, NewBan, Unchanged, Whom};
use crate::bridges::Bridge;
use crate::cluster::{Cluster, Forgotten, NotForgotten};
use crate::drops::{Drop, DropQuery};
use crate::keeper::Keeper;
use crate::read::json_bytes;
use crate::top::{Tally, TopWish};
use crate::traces::{TraceOf, TraceWish, Traced};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Clients that one request to a shard may ask for: so few that a shard, which serves nobody else
/// meanwhile, is soon through with them.
pub const PAGE_CLIENTS_MAX: u16 = 256;

/// Kinds of requests. At most one of each is under way to a shard, so this is the room that the
/// port needs for requests to a shard, and for its answers.
pub const REQUESTS_MAX: usize = 18;

/// A broker of some shards. It never makes its caller wait.
pub trait Port: Send + 'static {
    /// How many shards there are.
    fn shards(&self) -> u16;

    /// The shard that has the session of a client, if there is one.
    fn owner(&self, client_id: &str) -> u16;

    /// Sends a request to a shard. Its answer comes with [`Port::take_answers`], or never, if the
    /// broker ends.
    ///
    /// # Errors
    /// The port has no room for it.
    fn ask(&mut self, shard: u16, request: Request) -> Result<(), Full>;

    /// Bans somebody from now on, in the place of the same ban that was added before. Who is
    /// connected stays until shards are asked to [`Request::EndBanned`].
    ///
    /// # Errors
    /// It is no ban, or one too many.
    fn ban(&mut self, ban: NewBan) -> Result<Changed, Unchanged>;

    /// Takes a ban back.
    ///
    /// # Errors
    /// There is none, or it cannot be taken back here.
    fn unban(&mut self, whom: &Whom) -> Result<Changed, Unchanged>;

    /// Bans that are in force, at most `bans_max`, from a place that [`BanPage::next`] said; the
    /// first page is from 0.
    fn bans(&self, from: usize, bans_max: usize) -> BanPage;

    /// How each bridge is, but for its queue.
    fn bridges(&self) -> Vec<Bridge> {
        Vec::new()
    }

    /// The cluster, if the broker is a node of one.
    fn cluster(&self) -> Option<Cluster> {
        None
    }

    /// Has the place of a node that will not come back be free. Says so once that is done.
    fn forget_node(&mut self, _name: &str, said: Forgotten) {
        said(Err(NotForgotten::NoCluster));
    }

    /// Why clients are not let in, if they are not.
    fn is_shut(&self) -> Option<&'static str> {
        None
    }

    /// Whether somebody can be traced like that.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check_trace(&self, of: &TraceOf) -> Result<(), String>;

    /// Who keeps the configuration and its files.
    fn keeper(&self) -> Arc<dyn Keeper>;

    /// Hands over each answer that has come, with the shard that gave it.
    fn take_answers(&mut self, take: &mut dyn FnMut(u16, Answer));

    /// Where a byte can be read once an answer has come that [`Port::take_answers`] has not handed
    /// over. Whoever waits reads what is there first.
    ///
    /// # Errors
    /// What the system says of one more open file.
    fn wakes(&self) -> io::Result<UnixStream>;
}

/// There is no room for a request now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What a shard is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Some of its clients.
    Clients {
        /// 0, or what the page before said.
        from: u32,
        /// So many at most, and [`PAGE_CLIENTS_MAX`].
        clients_max: u16,
    },
    /// The client of this identifier.
    Client(Box<str>),
    /// The end of this client's connection.
    Kick(Box<str>),
    /// The end of this client's connection and session.
    EndClient(Box<str>),
    /// Some subscriptions of a client.
    Subscriptions {
        /// Whose.
        client_id: Box<str>,
        /// 0, or what the page before said.
        from: u32,
        /// So many at most.
        subscriptions_max: u16,
    },
    /// Some of the retained messages that it keeps.
    Retained {
        /// A topic filter that their topics match.
        filter: Box<str>,
        /// Behind this topic.
        after: Option<Box<str>>,
        /// So many at most.
        messages_max: u16,
    },
    /// That it publishes a message of whoever asks.
    Publish(Message),
    /// That it publishes what the broker says of itself, to a topic below `$SYS`, retained.
    PublishSys {
        /// Where.
        topic: Box<str>,
        /// What.
        payload: Box<str>,
    },
    /// Its counters.
    Counters,
    /// Which partitions it holds.
    Partitions,
    /// That a partition goes to another shard; shard 0 is asked, and answers when it is there.
    Move {
        /// Which.
        partition: u8,
        /// The other shard.
        to: u16,
    },
    /// The end of its connections that this ban is of.
    EndBanned(Whom),
    /// That it sends its clients away, or stops that.
    Drain(DrainOrder),
    /// How many connections have come by which listener.
    Listeners,
    /// What it dropped and refused lately.
    Drops(DropQuery),
    /// Something about traces, and the packets that it has copied for all of them.
    Trace(TraceWish),
    /// Something about a window in which it counts who sends and gets most.
    Top(TopWish),
    /// What decides whether a message gets to a client.
    Outlook {
        /// The client's identifier.
        client_id: Box<str>,
        /// The message's topic.
        topic: Box<str>,
    },
}

/// What it answers, each to the request of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Some of its clients.
    Clients(ClientPage),
    /// The client, if the shard has it.
    Client(Option<Client>),
    /// What became of the wish.
    Kicked(Kicked),
    /// Whether there was such a client.
    ClientEnded(bool),
    /// Some of them, if the shard has the client.
    Subscriptions(Option<SubscriptionPage>),
    /// Some of them; nothing if that is no topic filter.
    Retained(Option<RetainedPage>),
    /// Whether it is.
    Published(Result<(), NotPublished>),
    /// Whether it is.
    PublishedSys(Result<(), NotPublished>),
    /// Its counters.
    Counters(Counters),
    /// What it holds.
    Partitions(Partitions),
    /// The partition is there, or why it will not be.
    Moved(Result<(), NotMoved>),
    /// So many were ended.
    EndedBanned(u64),
    /// How far that is.
    Drain(DrainState),
    /// Connections by the number of the listener.
    Listeners(Vec<u64>),
    /// What it dropped and refused lately, the newest first.
    Drops(Vec<Drop>),
    /// What it has copied since it was asked last.
    Trace(Traced),
    /// What it has counted, if that was wanted.
    Top(Box<Tally>),
    /// Nothing if the shard has no such client.
    Outlook(Option<Box<Outlook>>),
}

/// What is wanted of a drain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrainOrder {
    /// To know how far it is.
    Look,
    /// It begins, or goes on with what is said now.
    Begin {
        /// Whether clients are never to come back (0x9D), and not only for now (0x9C).
        is_moved: bool,
        /// The server to which they are to go.
        reference: Option<String>,
        /// Clients of this shard that are sent away in a second.
        per_second: u32,
    },
    /// It is over: clients are let in again.
    End,
}

/// How far a drain is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainState {
    /// Whether clients are sent away.
    pub is_draining: bool,
    /// How many were.
    pub ended: u64,
    /// How many connections there are.
    pub connections: u64,
}

/// What a shard holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Partitions {
    /// The numbers of its partitions.
    pub held: Vec<u8>,
    /// Sessions of clients in them.
    pub sessions: u64,
}

/// Why a partition is not moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMoved {
    /// Another one is on its way.
    UnderWay,
    /// There is no such shard.
    UnknownShard,
    /// The shard holds it already.
    IsThere,
    /// Its sessions are in a log on disk that stays where it is.
    Logged,
    /// Other nodes of the cluster have it where it is.
    Clustered,
}

/// Some clients of a shard. May be short of them, or empty, with more behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientPage {
    /// In no order.
    pub clients: Vec<Client>,
    /// Where to go on behind each of them.
    pub behind: Vec<u32>,
    /// Where to go on; nothing if that was all.
    pub next: Option<u32>,
}

/// What is known of a client now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Client {
    /// Its client identifier.
    pub client_id: String,
    /// The user that it is or was last, where the broker asks who clients are.
    pub user: Option<String>,
    /// Its connection; nothing while it is absent.
    pub connection: Option<Link>,
    /// Seconds that its session outlives the connection; nothing is for ever.
    pub session_expiry_s: Option<u32>,
    /// How many subscriptions it has.
    pub subscriptions: u32,
    /// Messages that wait to be sent to it.
    pub queued_messages: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Messages of QoS 1 and 2 that were sent to it and are not yet acknowledged.
    pub in_flight: u16,
}

impl Client {
    /// Bytes of what the client itself has chosen, as JSON has it.
    pub(crate) fn name_bytes(&self) -> usize {
        json_bytes(&self.client_id) + self.user.as_deref().map_or(0, json_bytes)
    }
}

/// What is known of a client's connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The version of MQTT, such as `5.0`.
    pub version: String,
    /// Its keep alive in seconds; 0 is off.
    pub keep_alive_s: u16,
}

/// A subscription of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subscription {
    /// The filter, with `$share` and its group.
    pub filter: String,
    /// The condition on the content, if it came beside the filter.
    pub condition: Option<String>,
    /// The highest QoS that the client wants.
    pub qos: u8,
    /// Whether it does not want what it has published itself.
    pub no_local: bool,
    /// Whether it wants to see if a message was published as retained.
    pub retain_as_published: bool,
    /// The identifier that the client gave it.
    pub subscription_id: Option<u32>,
}

/// What decides now whether a message of some topic gets to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The client.
    pub client: Client,
    /// Whether its rights let it read the topic.
    pub may_read: bool,
    /// Its subscriptions that match, the first of them only if there are many.
    pub subscriptions: Vec<Subscription>,
    /// How many match.
    pub matching: u32,
    /// Messages that may wait for it.
    pub queue_messages_max: u64,
    /// Their bytes.
    pub queue_bytes_max: u64,
    /// Deliveries of QoS 1 and 2 that may be open at a time; nothing while it is absent.
    pub in_flight_max: Option<u16>,
    /// Bytes that wait in its connection's output.
    pub output_bytes: u64,
    /// Over it, what is sent at QoS 0 is dropped.
    pub output_bytes_max: u64,
    /// Whether memory is short, so that bounds are lower than they are set.
    pub is_memory_short: bool,
}

/// Some subscriptions of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionPage {
    /// In no order.
    pub subscriptions: Vec<Subscription>,
    /// Where to go on; nothing if that was all.
    pub next: Option<u32>,
}

/// A message: a retained one, or one to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Where.
    pub topic: String,
    /// What.
    pub payload: Vec<u8>,
    /// With which QoS.
    pub qos: u8,
    /// Whether it is retained.
    pub retain: bool,
}

/// Some retained messages of a shard. May be short of them, or empty, with more behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetainedPage {
    /// In the order of topics.
    pub messages: Vec<Message>,
    /// The topic behind which to go on; nothing if that was all.
    pub next: Option<String>,
}

/// Why a message is not published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotPublished {
    /// No client could publish it either.
    Refused(String),
    /// A partition moves just now.
    Busy,
}

/// What became of the wish to end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kicked {
    /// It is ended.
    Ended,
    /// There is none: only the client's session is there.
    Absent,
    /// The shard has no such client.
    Unknown,
}

/// Counters by name, each list in an order of its own that stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Of the shard.
    pub shard: Vec<(&'static str, u64)>,
    /// What the shard refused, by reason.
    pub refusals: Vec<(&'static str, u64)>,
    /// Of the process, as this shard sees it.
    pub process: Vec<(&'static str, u64)>,
    /// How long things took on the shard.
    pub histograms: Vec<Histogram>,
}

/// How often something took how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Histogram {
    /// What.
    #[serde(skip)]
    pub name: &'static str,
    /// In microseconds, ascending: at most so long, and longer than the one before.
    pub bounds_us: &'static [u64],
    /// How often, by bound; one more than these, for what took longer than any.
    pub counts: Vec<u64>,
    /// All of it together, in microseconds.
    pub us_sum: u64,
}

impl Histogram {
    /// With what another shard says of the same.
    pub(crate) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.us_sum += other.us_sum;
    }
}

impl Request {
    /// Which kind it is, below [`REQUESTS_MAX`].
    pub(crate) fn kind(&self) -> usize {
        match self {
            Self::Clients { .. } => 0,
            Self::Client(_) => 1,
            Self::Kick(_) => 2,
            Self::Counters => 3,
            Self::Partitions => 4,
            Self::Move { .. } => 5,
            Self::EndClient(_) => 6,
            Self::Subscriptions { .. } => 7,
            Self::Retained { .. } => 8,
            Self::Publish(_) => 9,
            Self::EndBanned(_) => 10,
            Self::Drops(_) => 11,
            Self::Outlook { .. } => 12,
            Self::PublishSys { .. } => 13,
            Self::Trace(_) => 14,
            Self::Drain(_) => 15,
            Self::Listeners => 16,
            Self::Top(_) => 17,
        }
    }
}

impl Answer {
    /// Which kind of request it answers.
    pub(crate) fn kind(&self) -> usize {
        match self {
            Self::Clients(_) => 0,
            Self::Client(_) => 1,
            Self::Kicked(_) => 2,
            Self::Counters(_) => 3,
            Self::Partitions(_) => 4,
            Self::Moved(_) => 5,
            Self::ClientEnded(_) => 6,
            Self::Subscriptions(_) => 7,
            Self::Retained(_) => 8,
            Self::Published(_) => 9,
            Self::EndedBanned(_) => 10,
            Self::Drops(_) => 11,
            Self::Outlook(_) => 12,
            Self::PublishedSys(_) => 13,
            Self::Trace(_) => 14,
            Self::Drain(_) => 15,
            Self::Listeners(_) => 16,
            Self::Top(_) => 17,
        }
    }
}
