//! What a shard says of its clients when it is asked.

use crate::message::Message;
use std::sync::Arc;
use weir_wire::packet::SubscriptionOptions;
use weir_wire::{QoS, ReasonCode, Version};

/// What is known of a client now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientState {
    /// Its client identifier.
    pub client_id: Box<str>,
    /// The user that it is or was last, where users are known.
    pub user: Option<Box<str>>,
    /// What its connection is; nothing while it is absent.
    pub connection: Option<ConnectionState>,
    /// Seconds the session outlives its connection; `u32::MAX` is for ever.
    pub session_expiry_s: u32,
    /// Its subscriptions.
    pub subscriptions: u32,
    /// Messages that wait to be sent.
    pub queued_messages: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Deliveries of QoS 1 and 2 that were sent on this connection and are not yet done.
    pub in_flight: u16,
}

/// What is known of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionState {
    /// The version of MQTT it speaks.
    pub version: Version,
    /// Its keep alive, as agreed; zero is off.
    pub keep_alive_s: u16,
}

/// Some clients of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientPage {
    /// In no order that means anything.
    pub clients: Vec<ClientState>,
    /// Where to go on behind each of them.
    pub behind: Vec<u32>,
    /// Where to go on; nothing if that was all.
    pub next: Option<u32>,
}

/// What became of the wish to end a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kicked {
    /// It is ended.
    Ended,
    /// There is none: only its session is there.
    Absent,
    /// The shard has no client of this identifier.
    Unknown,
}

/// A subscription of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionState {
    /// The filter as a SUBSCRIBE names it, with `$share` and its group, and with a condition if
    /// that is a part of the name.
    pub filter: Box<str>,
    /// The condition, if it came beside the name.
    pub condition: Option<Box<str>>,
    /// What the client asked for.
    pub options: SubscriptionOptions,
    /// The identifier that the client gave it.
    pub subscription_id: Option<u32>,
}

/// Some of a client's subscriptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionPage {
    /// In no order that means anything.
    pub subscriptions: Vec<SubscriptionState>,
    /// Where to go on; nothing if that was all.
    pub next: Option<u32>,
}

/// What decides now whether a message of some topic gets to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// The client.
    pub client: ClientState,
    /// Whether its rights let it read the topic.
    pub may_read: bool,
    /// Its subscriptions that match, the first of them only if there are many.
    pub subscriptions: Vec<SubscriptionState>,
    /// How many match.
    pub matching: u32,
    /// Messages that may wait for it.
    pub queue_messages_max: u64,
    /// Their bytes.
    pub queue_bytes_max: u64,
    /// Deliveries of QoS 1 and 2 that may be open at a time; nothing while it is absent.
    pub in_flight_max: Option<u16>,
    /// Bytes that wait in its connection's output.
    pub output_bytes: usize,
    /// Over it, what is sent at QoS 0 is dropped.
    pub output_bytes_max: usize,
    /// Whether memory is short, so that bounds are lower than they are set.
    pub is_memory_short: bool,
}

/// Some retained messages of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessagePage {
    /// In the order of topics.
    pub messages: Vec<Arc<Message>>,
    /// The topic behind which to go on; nothing if that was all.
    pub next: Option<Box<str>>,
}

/// A message that whoever runs the broker publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnMessage {
    /// Where.
    pub topic: Box<str>,
    /// What.
    pub payload: Box<[u8]>,
    /// With which QoS.
    pub qos: QoS,
    /// Whether it is retained; without a payload it clears the topic's message.
    pub retain: bool,
}

/// Why a message of whoever runs the broker is not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotPublished {
    /// What forbids it to clients forbids it here too.
    Refused(ReasonCode, &'static str),
    /// A partition moves just now.
    Busy,
}
