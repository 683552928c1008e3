//! Counters of one shard.

/// Everything is counted since the shard was made, but for those that say "now".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections accepted.
    pub connections_opened: u64,
    /// Connections refused in CONNACK.
    pub connections_refused: u64,
    /// Connections ended by the broker for a fault or a bound.
    pub connections_ended: u64,
    /// Sessions taken over by a newer connection.
    pub takeovers: u64,
    /// PUBLISH packets received.
    pub publishes_in: u64,
    /// PUBLISH packets refused: by a bound, a full queue or store, an invalid payload.
    pub publishes_refused: u64,
    /// PUBLISH packets sent, redeliveries included.
    pub publishes_out: u64,
    /// QoS 0 dropped because the receiver's output was full.
    pub dropped_output_full: u64,
    /// Dropped because the receiver's packet size limit is smaller.
    pub dropped_too_large: u64,
    /// Dropped from the full queue of an absent session.
    pub dropped_queue_full: u64,
    /// Dropped because it expired in a queue.
    pub dropped_expired: u64,
    /// QoS 0 not kept for an absent session.
    pub dropped_absent_qos0: u64,
    /// Members of shared subscriptions chosen again on another shard: the first choice had left,
    /// or could not take the message at once.
    pub shared_rechosen: u64,
    /// Messages for a shared subscription whose last member left while they were on their way.
    pub dropped_no_member: u64,
    /// Not retained because the store was full.
    pub retained_refused: u64,
    /// Retained messages delivered live and forgotten while a query for retained messages was on
    /// its way: somebody may have got one of them again, or an older one after it.
    pub recent_forgotten: u64,
    /// SUBSCRIBE filters refused.
    pub subscriptions_refused: u64,
    /// Sessions whose queue was full: the connection, or the absent session, was ended.
    pub queue_overflows: u64,
    /// Sessions now.
    pub sessions: u64,
    /// Connections now.
    pub connections: u64,
    /// Retained messages now.
    pub retained: u64,
    /// Topic filters that this shard or another wants, now.
    pub filters: u64,
    /// What waits for the answer of another shard now.
    pub awaited: u64,
}
