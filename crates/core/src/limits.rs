//! The bounds of one shard, each with its default.

pub(crate) mod quotas;

use serde::{Deserialize, Serialize};

/// Every bound has a rule for what happens at it and a counter in [`crate::Stats`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// What one client may take of a bound that all clients share, in percent; the rest is for the
    /// others. A client is an address, of IPv6 a network of 64 bits; on the broker's own host it
    /// is a client identifier, since a proxy there brings everybody. 100 is all. More: 0x97.
    pub client_share_percent: u8,
    /// Sessions, connected or not, per shard. More: CONNACK 0x97.
    pub sessions_max: u32,
    /// Largest packet taken, in bytes: by default a payload of 1 MiB with the longest topic name
    /// and as much of properties. Larger: the connection ends with 0x95.
    pub packet_bytes_max: u32,
    /// Seconds from accept to CONNECT. Later: the connection is closed.
    pub connect_timeout_s: u32,
    /// Answers to one client that wait: for another shard, or behind one that does. At the bound no
    /// more is read from it.
    pub answers_held_max: u32,
    /// Seconds that an answer to a client waits for another shard. Longer: the connection ends with
    /// 0x83, so that the client asks again.
    pub answer_wait_s_max: u32,
    /// Longest client identifier, in bytes. Longer: CONNACK 0x85.
    pub client_id_bytes_max: u16,
    /// Deliveries of QoS 1 and 2 sent to a client and not yet acknowledged; the client's Receive
    /// Maximum may lower it. At the bound, deliveries wait in the session's queue.
    pub in_flight_max: u16,
    /// Receive Maximum told to clients: QoS 2 messages they may have open. More: 0x93.
    pub receive_maximum: u16,
    /// Messages that wait in a session's queue. Over it, the next two settings say what happens.
    pub queue_messages_max: u32,
    /// Bytes of payload, topic and properties in a session's queue; same rule. As many may be in
    /// flight to a session that may resume; at the bound, deliveries wait in the queue.
    pub queue_bytes_max: u64,
    /// What a full queue means for a connected session.
    pub queue_full_connected: WhenConnected,
    /// What a full queue means for an absent session, and for one that came back until its queue
    /// was empty once. Another shard's message cannot be refused: the oldest is dropped for it.
    pub queue_full_absent: WhenAbsent,
    /// Bytes of output that wait for a connection's socket. Over it, QoS 0 is dropped for this
    /// connection and QoS 1 and 2 wait in the queue.
    pub output_bytes_max: usize,
    /// Subscriptions of one session. More: SUBACK 0x97.
    pub subscriptions_max: u32,
    /// Bytes of the filters and conditions of one session's subscriptions. More: SUBACK 0x97.
    pub subscription_bytes_max: usize,
    /// Distinct shapes of one session's filters: where their wildcards are, how many levels they
    /// have, and their groups; those without either count for none. Each may cost a search for a
    /// topic's filters one probe. More: SUBACK 0x97.
    pub filter_shapes_max: u32,
    /// Distinct shapes of all filters that a shard's clients have, groups left aside. More: SUBACK
    /// 0x97 for a filter that brings a new one.
    pub filter_shapes_total_max: u32,
    /// Steps of work, about a tenth of a microsecond each, that one input may cost where the rest
    /// can wait for later turns: topics looked at for retained messages, filters of a SUBSCRIBE or
    /// UNSUBSCRIBE. The packets of one input may cost 16 times as many.
    pub input_steps_max: u32,
    /// Distinct conditions of content-filtered subscriptions, a shard. More: SUBACK 0x97.
    pub conditions_max: u32,
    /// Distinct conditions of one session, so that no client takes what others need. More: SUBACK
    /// 0x97.
    pub conditions_per_session_max: u32,
    /// How often a message that a rule made may be given to the rules again: what is deeper is
    /// published, and no rule sees it.
    pub rule_depth_max: u8,
    /// Messages that rules make of one PUBLISH, in all. More are dropped.
    pub rule_results_max: u32,
    /// Levels of a topic name or filter. More: 0x90 or 0x8F.
    pub topic_levels_max: u16,
    /// Length of a topic name or filter, in bytes; the protocol's own bound is the default.
    /// Longer: 0x90 or 0x8F.
    pub topic_bytes_max: u16,
    /// Topic aliases a client may set up. Higher: 0x94.
    pub topic_alias_maximum: u16,
    /// Topic aliases the broker sets up towards a client that allows it; further topics go by
    /// their name.
    pub topic_alias_out_max: u16,
    /// Retained messages. More: not retained, PUBACK or PUBREC 0x97. Where another shard owns the
    /// topic, those who are subscribed have it by the time the publisher is told.
    pub retained_messages_max: u32,
    /// Bytes of retained messages; same rule.
    pub retained_bytes_max: u64,
    /// Longest time an absent session is kept, in seconds; `u32::MAX` is for ever.
    pub session_expiry_s_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            client_share_percent: 75,
            sessions_max: 2_000_000,
            packet_bytes_max: (1024 + 128) * 1024,
            connect_timeout_s: 10,
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

/// What happens to a connected session whose queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenConnected {
    /// Its connection ends with 0x97. The message that found no room stands for one dropped.
    #[default]
    EndConnection,
    /// The PUBLISH that would overfill it is refused: PUBACK or PUBREC 0x97; before 5.0, which
    /// has no such answer, the publisher's connection ends. Only the publisher's own shard is
    /// asked: on others the rule is the default.
    RefusePublisher,
}

/// What happens to an absent session whose queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenAbsent {
    /// Its oldest message is dropped, counted and named.
    #[default]
    DropOldest,
    /// The session ends.
    EndSession,
    /// As [`WhenConnected::RefusePublisher`].
    RefusePublisher,
}
