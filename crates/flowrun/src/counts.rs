//! What a connection counted: its own numbers, and where other threads read them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter; its place in [`Counts`] is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Messages that came in and were looked at.
    Received,
    /// Of those, with DUP: they may have come before.
    Redelivered,
    /// Rules that matched a message.
    Matched,
    /// Results written to the broker.
    Published,
    /// Results of QoS 1 that the broker acknowledged.
    Acknowledged,
    /// Results of QoS 1 that the broker refused.
    Refused,
    /// Matches that a rule dropped, by its action, sample or throttle.
    Dropped,
    /// Rules that a fault kept from a verdict or a result: no JSON, a missing field, a topic
    /// that is none.
    Invalid,
    /// Results longer than the broker takes.
    TooLarge,
    /// Results dropped because there was no room for them while the broker's window was full: of
    /// messages of QoS 0, and of a message whose results alone are too much.
    Overflowed,
    /// Messages that came after the end was asked for; those of QoS 1 stay with the broker.
    Left,
    /// Messages taken although the broker had as many open as our Receive Maximum allows.
    BeyondWindow,
    /// Messages that came when there was no room for them or their results: they stay with the
    /// broker, for another connection.
    Deferred,
    /// Messages unacknowledged when their connection was lost; the broker sends them again if it
    /// keeps the session.
    Unsettled,
    /// Connections that were lost.
    Lost,
}

/// Every counter, with the word for it, and whether it is shown when it is 0.
const COUNTS: &[(Count, &str, bool)] = &[
    (Count::Received, "received", true),
    (Count::Redelivered, "redelivered", false),
    (Count::Matched, "matched", true),
    (Count::Published, "published", true),
    (Count::Acknowledged, "acknowledged", false),
    (Count::Refused, "refused", false),
    (Count::Dropped, "dropped", false),
    (Count::Invalid, "invalid", true),
    (Count::TooLarge, "too large", false),
    (Count::Overflowed, "overflowed", false),
    (Count::Left, "left", false),
    (Count::BeyondWindow, "beyond window", false),
    (Count::Deferred, "deferred", false),
    (Count::Unsettled, "unsettled", false),
    (Count::Lost, "lost connections", false),
];

/// Numbers of one thread, or sums of several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts([u64; COUNTS.len()]);

impl Counts {
    #[inline]
    pub(crate) fn add(&mut self, count: Count, more: u64) {
        self.0[count as usize] += more;
    }

    pub(crate) fn of(&self, count: Count) -> u64 {
        self.0[count as usize]
    }

    /// What came since `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] - earlier.0[at]))
    }

    /// `12,000 received/s, 1,200 matched/s`: those that are always shown, as rates.
    pub(crate) fn rates(&self, seconds: f64) -> String {
        let rate = |&(count, name, _): &(Count, &str, bool)| {
            format!("{:.0} {name}/s", self.of(count) as f64 / seconds)
        };
        COUNTS.iter().filter(|(_, _, is_shown)| *is_shown).map(rate).collect::<Vec<_>>().join(", ")
    }
}

/// `received 10, matched 1, published 1, invalid 0`, with the rare ones where they happened.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = COUNTS.iter().filter(|&&(count, _, is_shown)| is_shown || self.of(count) > 0);
        for (at, &(count, name, _)) in shown.enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{name} {}", self.of(count))?;
        }
        Ok(())
    }
}

/// One thread's numbers as others see them: as of the end of its last turn.
#[derive(Debug, Default)]
pub(crate) struct Shared([AtomicU64; COUNTS.len()]);

impl Shared {
    pub(crate) fn store(&self, counts: &Counts) {
        self.0.iter().zip(counts.0).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
    }

    pub(crate) fn add_to(&self, sum: &mut Counts) {
        self.0.iter().zip(&mut sum.0).for_each(|(from, to)| *to += from.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_stands_at_its_number() {
        for (at, (count, _, _)) in COUNTS.iter().enumerate() {
            assert_eq!(*count as usize, at, "{count:?}");
        }
    }

    #[test]
    fn rare_counters_are_shown_once_they_count() {
        let mut counts = Counts::default();
        counts.add(Count::Received, 10);
        assert_eq!(counts.to_string(), "received 10, matched 0, published 0, invalid 0");
        counts.add(Count::Refused, 2);
        let text = "received 10, matched 0, published 0, refused 2, invalid 0";
        assert_eq!(counts.to_string(), text);
        let shared = Shared::default();
        shared.store(&counts);
        let mut sum = counts;
        shared.add_to(&mut sum);
        assert_eq!(sum.since(&counts), counts);
        let rates = sum.since(&counts).rates(2.0);
        assert_eq!(rates, "5 received/s, 0 matched/s, 0 published/s, 0 invalid/s");
    }
}
