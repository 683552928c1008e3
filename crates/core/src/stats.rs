//! Counters of one shard.

use crate::routing::News;
use std::fmt;
use weir_wire::{QoS, ReasonCode, Version};

/// Everything is counted since the shard was made, but for those that say "now".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Connections accepted.
    pub connections_opened: u64,
    /// CONNECT packets received.
    pub connects_in: u64,
    /// Connections refused in CONNACK.
    pub connections_refused: u64,
    /// Connections ended by the broker for a fault or a bound.
    pub connections_ended: u64,
    /// Every refusal by its reason: connections refused or ended, PUBLISH packets and filters
    /// refused. With it each bound has its counter.
    pub refusals: ByReason,
    /// Connections ended because their clients began to authenticate again and were not done in
    /// time.
    pub reauthentications_late: u64,
    /// Sessions taken over by a newer connection.
    pub takeovers: u64,
    /// PUBLISH packets received.
    pub publishes_in: u64,
    /// Those received with QoS 0.
    pub publishes_in_qos0: u64,
    /// Those received with QoS 1.
    pub publishes_in_qos1: u64,
    /// Those received with QoS 2.
    pub publishes_in_qos2: u64,
    /// PUBLISH packets refused: by a bound, a full queue or store, an invalid payload.
    pub publishes_refused: u64,
    /// PUBLISH packets and wills not taken: their clients may not publish to the topic.
    pub writes_forbidden: u64,
    /// Deliveries not made: their receivers may not read the topic.
    pub reads_forbidden: u64,
    /// PUBLISH packets sent, redeliveries included.
    pub publishes_out: u64,
    /// Those sent with QoS 0.
    pub publishes_out_qos0: u64,
    /// Those sent with QoS 1.
    pub publishes_out_qos1: u64,
    /// Those sent with QoS 2.
    pub publishes_out_qos2: u64,
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
    /// New sessions refused: there were too many, in all or of one address.
    pub sessions_refused: u64,
    /// Not retained because the store was full, or the publisher had its share of it.
    pub retained_refused: u64,
    /// Retained messages delivered live and forgotten while a query for retained messages was on
    /// its way: somebody may have got one of them again, or an older one after it.
    pub recent_forgotten: u64,
    /// SUBSCRIBE filters refused.
    pub subscriptions_refused: u64,
    /// Those of them that were of one shape too many.
    pub shapes_refused: u64,
    /// Those of them whose condition cannot be used, or was one too many.
    pub conditions_refused: u64,
    /// Conditions checked: once a message and distinct condition.
    pub condition_checks: u64,
    /// Conditions left out: all that a message brought up cost more than it may take.
    pub conditions_left_out: u64,
    /// Messages that rules made and the broker published.
    pub rule_results: u64,
    /// Messages that rules made and the broker did not take: a bound, an invalid topic.
    pub rule_results_refused: u64,
    /// Messages that rules made over the bound for one PUBLISH.
    pub rule_results_dropped: u64,
    /// Messages that rules made so deep that no rule saw them again.
    pub rule_depth_reached: u64,
    /// Times that input waited for a partition to move.
    pub freezes: u64,
    /// Sessions whose queue was full: the connection, or the absent session, was ended.
    pub queue_overflows: u64,
    /// Sessions that ended because their clients were absent for too long.
    pub sessions_expired: u64,
    /// Sessions now.
    pub sessions: u64,
    /// Subscriptions of all sessions that are not shared, now.
    pub subscriptions: u64,
    /// Shared subscriptions of all sessions, now.
    pub shared_subscriptions: u64,
    /// Connections now.
    pub connections: u64,
    /// Clients of MQTT 3.1 that are connected now.
    pub connected_v31: u64,
    /// Clients of MQTT 3.1.1 that are connected now.
    pub connected_v311: u64,
    /// Clients of MQTT 5.0 that are connected now.
    pub connected_v5: u64,
    /// Retained messages now.
    pub retained: u64,
    /// Distinct conditions of content-filtered subscriptions now.
    pub conditions: u64,
    /// Topic filters that this shard's clients want, or members of a shared subscription anywhere,
    /// now.
    pub filters: u64,
    /// Topic filters that clients of other shards want, now: each once per shard.
    pub interests: u64,
    /// Answers to clients that wait now, and pages of retained messages asked for.
    pub awaited: u64,
    /// Answers of another shard or of an authentication that came too late: whoever waited for them
    /// was gone.
    pub answers_late: u64,
    /// Letters from shards of a node that is lost.
    pub letters_late: u64,
    /// Letters of sessions that could not be read: another node is wrong.
    pub letters_unfit: u64,
    /// Sessions that went to another node with their clients.
    pub sessions_given: u64,
    /// Sessions that came from another node.
    pub sessions_taken: u64,
    /// Sessions dropped because another node had begun them anew while this one was lost.
    pub sessions_stale: u64,
    /// Wills published for clients of a node that was lost.
    pub wills_taken: u64,
    /// Records written into the log.
    pub records_logged: u64,
    /// Answers that wait for the log, now.
    pub log_waits: u64,
    /// Pages of queues that left memory for the disk.
    pub pages_out: u64,
    /// Pages that came back into memory for their clients.
    pub pages_in: u64,
}

/// A count for each reason code of failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ByReason([u64; REASONS]);

/// The first reason code of failure, and how many there are from it on.
const FIRST: u8 = ReasonCode::UnspecifiedError as u8;
const REASONS: usize = (ReasonCode::WildcardSubscriptionsNotSupported as u8 - FIRST) as usize + 1;

/// All counters but those by reason. One that is missing here does not compile.
macro_rules! counters {
    ($named:ident) => {
        $named![
            connections_opened,
            connections_refused,
            connections_ended,
            reauthentications_late,
            takeovers,
            publishes_in,
            publishes_in_qos0,
            publishes_in_qos1,
            publishes_in_qos2,
            publishes_refused,
            publishes_out,
            publishes_out_qos0,
            publishes_out_qos1,
            publishes_out_qos2,
            dropped_output_full,
            dropped_too_large,
            dropped_queue_full,
            dropped_expired,
            dropped_absent_qos0,
            shared_rechosen,
            dropped_no_member,
            retained_refused,
            recent_forgotten,
            subscriptions_refused,
            conditions_refused,
            condition_checks,
            conditions_left_out,
            rule_results,
            rule_results_refused,
            rule_results_dropped,
            rule_depth_reached,
            freezes,
            queue_overflows,
            sessions,
            connections,
            connected_v31,
            connected_v311,
            connected_v5,
            retained,
            conditions,
            filters,
            interests,
            awaited,
            answers_late,
            letters_late,
            letters_unfit,
            sessions_given,
            sessions_taken,
            sessions_stale,
            wills_taken,
            shapes_refused,
            sessions_refused,
            records_logged,
            log_waits,
            pages_out,
            pages_in,
            writes_forbidden,
            reads_forbidden,
            connects_in,
            sessions_expired,
            subscriptions,
            shared_subscriptions,
        ]
    };
}

impl Stats {
    /// Every counter but those by reason, by the name of its field.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        macro_rules! named {
            ($($field:ident),* $(,)?) => {{
                let Self { refusals: _, $($field),* } = *self;
                [$((stringify!($field), $field)),*]
            }};
        }
        counters!(named).into_iter()
    }
}

/// Counting by the way. Most is QoS 0, so that is what is left: [`Stats::complete`].
impl Stats {
    #[inline(always)]
    pub(crate) fn received(&mut self, qos: QoS) {
        self.publishes_in += 1;
        match qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.publishes_in_qos1 += 1,
            QoS::ExactlyOnce => self.publishes_in_qos2 += 1,
        }
    }

    /// It was, but is looked at again later.
    #[cold]
    pub(crate) fn not_received(&mut self, qos: QoS) {
        self.publishes_in -= 1;
        match qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.publishes_in_qos1 -= 1,
            QoS::ExactlyOnce => self.publishes_in_qos2 -= 1,
        }
    }

    #[inline(always)]
    pub(crate) fn sent(&mut self, qos: QoS) {
        self.publishes_out += 1;
        match qos {
            QoS::AtMostOnce => {}
            QoS::AtLeastOnce => self.publishes_out_qos1 += 1,
            QoS::ExactlyOnce => self.publishes_out_qos2 += 1,
        }
    }

    /// Clients that are connected with this version.
    pub(crate) fn connected(&mut self, version: Version) -> &mut u64 {
        match version {
            Version::V31 => &mut self.connected_v31,
            Version::V311 => &mut self.connected_v311,
            Version::V5 => &mut self.connected_v5,
        }
    }

    pub(crate) fn complete(self) -> Self {
        let rest = |all, one, two| all - one - two;
        Self {
            publishes_in_qos0: rest(
                self.publishes_in,
                self.publishes_in_qos1,
                self.publishes_in_qos2,
            ),
            publishes_out_qos0: rest(
                self.publishes_out,
                self.publishes_out_qos1,
                self.publishes_out_qos2,
            ),
            ..self
        }
    }

    /// The count of subscriptions that have such news for other shards: shared ones always have
    /// some.
    pub(crate) fn subscriptions_like(&mut self, news: Option<&News>) -> &mut u64 {
        match news {
            Some(News::Member(..)) => &mut self.shared_subscriptions,
            Some(News::Interest(_)) | None => &mut self.subscriptions,
        }
    }
}

impl ByReason {
    /// Those that were counted, by name.
    pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let all = ReasonCode::ALL.iter().map(|&reason| (reason.name(), self.count(reason)));
        all.filter(|&(_, count)| count > 0)
    }

    /// How many had this reason.
    pub fn count(&self, reason: ReasonCode) -> u64 {
        Self::place(reason).map_or(0, |at| self.0[at])
    }

    pub(crate) fn add(&mut self, reason: ReasonCode) {
        if let Some(at) = Self::place(reason) {
            self.0[at] += 1;
        }
    }

    /// Nothing for a reason that is no failure.
    fn place(reason: ReasonCode) -> Option<usize> {
        (reason as u8).checked_sub(FIRST).map(usize::from)
    }
}

impl Default for ByReason {
    fn default() -> Self {
        Self([0; REASONS])
    }
}

/// Those that were counted, by name.
impl fmt::Debug for ByReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.by_name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_has_a_count_of_its_own_and_a_success_none() {
        let mut counts = ByReason::default();
        for &reason in ReasonCode::ALL {
            counts.add(reason);
        }
        for &reason in ReasonCode::ALL {
            assert_eq!(counts.count(reason), u64::from(reason.is_error()), "{reason:?}");
        }
    }

    #[test]
    fn only_what_was_counted_is_shown() {
        let mut counts = ByReason::default();
        assert_eq!(format!("{counts:?}"), "{}");
        counts.add(ReasonCode::PacketTooLarge);
        assert_eq!(format!("{counts:?}"), "{\"Packet too large\": 1}");
    }
}
