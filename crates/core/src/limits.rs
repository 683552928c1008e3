//! The bounds of one shard, each with its default.

pub(crate) mod quotas;

use serde::{Deserialize, Serialize};

/// Every bound has a rule for what happens at it and a counter in [`crate::Stats`]. The first
/// paragraph of each comment is what docs/broker.md says; docs/limits.md has rules and counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// What one client may take of a bound that all clients share; the rest is for the others. A
    /// client is an address; on the broker's own host it is a client identifier, since a proxy
    /// there brings everybody.
    ///
    /// Of IPv6 an address is a network of 64 bits. 100 is all. More: 0x97.
    pub client_share_percent: u8,
    /// Sessions per thread, connected or not.
    ///
    /// More: CONNACK 0x97.
    pub sessions_max: u32,
    /// Largest packet accepted. The default has room for a payload of 1 MiB with the longest topic
    /// name and as much of properties.
    ///
    /// Larger: the connection ends with 0x95.
    pub packet_bytes_max: u32,
    /// How long a new connection may take to send its CONNECT, and a client to authenticate again
    /// once it has begun.
    pub connect_timeout_s: u32,
    /// Messages that a connection may publish per second. 0 is any number.
    ///
    /// A burst of one second's is taken. Over it, the connection is read no more until it may send
    /// again: nothing is dropped.
    pub messages_per_second_max: u32,
    /// Bytes that a connection may send per second. 0 is any number.
    ///
    /// The same.
    pub bytes_per_second_max: u32,
    /// Answers to one client that may wait for another thread, or behind one that does.
    ///
    /// At the bound no more is read from it.
    pub answers_held_max: u32,
    /// How long an answer to a client may wait for another thread.
    ///
    /// Longer: the connection ends with 0x83, so that the client asks again.
    pub answer_wait_s_max: u32,
    /// Longest client identifier.
    ///
    /// Longer: CONNACK 0x85.
    pub client_id_bytes_max: u16,
    /// Messages of QoS 1 and 2 that were sent to a client and are not yet acknowledged. The
    /// client's Receive Maximum may lower it.
    ///
    /// At the bound, deliveries wait in the session's queue.
    pub in_flight_max: u16,
    /// QoS 2 messages that a client may have in flight to the broker, which tells it so (Receive
    /// Maximum).
    ///
    /// More: 0x93.
    pub receive_maximum: u16,
    /// Messages that wait in the queue of a session.
    ///
    /// Over it, `queue_full_connected` and `queue_full_absent` say what happens.
    pub queue_messages_max: u32,
    /// Payload, topic and properties of the messages in the queue of a session. As many bytes may
    /// be in flight to a session that outlives its connection.
    ///
    /// The rule is that of `queue_messages_max`; in flight, deliveries wait in the queue.
    pub queue_bytes_max: u64,
    /// What happens when the queue of a connected session is full.
    pub queue_full_connected: WhenConnected,
    /// What happens when the queue of an absent session is full, or that of a client that has come
    /// back and has not caught up yet.
    ///
    /// Another shard's message cannot be refused: the oldest is dropped for it.
    pub queue_full_absent: WhenAbsent,
    /// Output of a connection that waits for the network.
    ///
    /// Over it, QoS 0 is dropped for this connection and QoS 1 and 2 wait in the queue. While its
    /// client reads, four times as much may wait for the end of a turn.
    pub output_bytes_max: usize,
    /// Subscriptions of one session.
    ///
    /// More: SUBACK 0x97.
    pub subscriptions_max: u32,
    /// Filters and conditions of the subscriptions of one session.
    ///
    /// More: SUBACK 0x97.
    pub subscription_bytes_max: usize,
    /// Distinct shapes of the topic filters of one session: where their wildcards are, how many
    /// levels they have, and the group that shares them. A filter without wildcards that is not
    /// shared has no shape.
    ///
    /// Each may cost a search for a topic's filters one probe. More: SUBACK 0x97.
    pub filter_shapes_max: u32,
    /// Distinct shapes of all topic filters of a thread's clients, whatever groups share them.
    ///
    /// More: SUBACK 0x97 for a filter that brings a new one.
    pub filter_shapes_total_max: u32,
    /// Work that one packet may cause at once where the rest can wait for its turn, in steps of
    /// about a tenth of a microsecond.
    ///
    /// What can wait: topics looked at for retained messages, filters of a SUBSCRIBE or
    /// UNSUBSCRIBE. The packets of one input may cost 16 times as many.
    pub input_steps_max: u32,
    /// Distinct conditions of subscriptions, per thread. 0 refuses every condition.
    ///
    /// More: SUBACK 0x97.
    pub conditions_max: u32,
    /// Distinct conditions of one session, so that no client takes what others need.
    ///
    /// More: SUBACK 0x97.
    pub conditions_per_session_max: u32,
    /// How often a message that a rule made may be given to the rules again.
    ///
    /// What is deeper is published, and no rule sees it.
    pub rule_depth_max: u8,
    /// Messages that rules make of one PUBLISH, in all.
    ///
    /// More are dropped.
    pub rule_results_max: u32,
    /// Levels of a topic name or filter.
    ///
    /// More: 0x90 or 0x8F.
    pub topic_levels_max: u16,
    /// Length of a topic name or filter. The default is the protocol's own bound.
    ///
    /// Longer: 0x90 or 0x8F.
    pub topic_bytes_max: u16,
    /// Topic aliases that a client may use.
    ///
    /// Higher: 0x94.
    pub topic_alias_maximum: u16,
    /// Topic aliases that the broker uses towards a client that allows them.
    ///
    /// Further topics go by their name.
    pub topic_alias_out_max: u16,
    /// Retained messages, per thread.
    ///
    /// More: not retained, PUBACK or PUBREC 0x97. Where another shard owns the topic, those who are
    /// subscribed have it by the time the publisher is told.
    pub retained_messages_max: u32,
    /// Payload, topic and properties of the retained messages, per thread.
    ///
    /// The rule is that of `retained_messages_max`.
    pub retained_bytes_max: u64,
    /// How long the session of an absent client is kept at most. 4294967295 is for ever.
    pub session_expiry_s_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            client_share_percent: 75,
            sessions_max: 2_000_000,
            packet_bytes_max: (1024 + 128) * 1024,
            connect_timeout_s: 10,
            messages_per_second_max: 0,
            bytes_per_second_max: 0,
            answers_held_max: 4096,
            answer_wait_s_max: 60,
            client_id_bytes_max: 1024,
            in_flight_max: 1024,
            receive_maximum: 1024,
            queue_messages_max: 10_000,
            queue_bytes_max: 16 * 1024 * 1024,
            queue_full_connected: WhenConnected::EndConnection,
            queue_full_absent: WhenAbsent::DropOldest,
            output_bytes_max: 1024 * 1024,
            subscriptions_max: 10_000,
            subscription_bytes_max: 4 * 1024 * 1024,
            filter_shapes_max: 128,
            filter_shapes_total_max: 4_096,
            input_steps_max: 2_048,
            conditions_max: 1_000,
            conditions_per_session_max: 250,
            rule_depth_max: 8,
            rule_results_max: 1_000,
            topic_levels_max: 128,
            topic_bytes_max: u16::MAX,
            topic_alias_maximum: 16,
            topic_alias_out_max: 16,
            retained_messages_max: 1_000_000,
            retained_bytes_max: 1024 * 1024 * 1024,
            session_expiry_s_max: u32::MAX,
        }
    }
}

impl Limits {
    /// Whether a full queue lets a message be refused.
    pub(crate) fn may_refuse(&self) -> bool {
        self.queue_full_connected == WhenConnected::RefusePublisher
            || self.queue_full_absent == WhenAbsent::RefusePublisher
    }
}

/// What happens to a connected session whose queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenConnected {
    /// Its connection ends with DISCONNECT 0x97.
    ///
    /// The message that found no room stands for one dropped.
    #[default]
    EndConnection,
    /// The PUBLISH that would overfill it is refused: PUBACK or PUBREC 0x97; before 5.0, which
    /// has no such answer, the publisher's connection ends once what it has published before is
    /// acknowledged. Sessions on other threads than the publisher's follow the default.
    RefusePublisher,
}

/// What happens to an absent session whose queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenAbsent {
    /// Its oldest message is dropped.
    ///
    /// It is counted and named.
    #[default]
    DropOldest,
    /// The session ends.
    EndSession,
    /// The PUBLISH is refused, as above.
    RefusePublisher,
}
