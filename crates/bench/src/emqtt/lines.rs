//! A line for each second and counter, as `SECONDs NAME total=N rate=R/sec`, with what the tool
//! it is comparable to does not say behind.

use std::fmt::Write as _;
use weir_load::Interval;
use weir_load::outcome::{Phase, Summary};

/// Which counters are told in every second, even where they stand still: a second in which nothing
/// came is a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) connects: bool,
    pub(super) publishes: bool,
    pub(super) acknowledges: bool,
    pub(super) receives: bool,
}

/// One counter of the intervals.
struct Counter {
    name: &'static str,
    count: fn(&Interval) -> u64,
    /// Whether it has a line even where it stands still.
    is_told: fn(&Told, &Interval) -> bool,
    /// What stands behind the rate.
    behind: fn(&Interval) -> String,
}

fn is_publishing(interval: &Interval) -> bool {
    matches!(interval.phase, Phase::WarmUp | Phase::Measure)
}

/// Told only when it moves.
fn never(_: &Told, _: &Interval) -> bool {
    false
}

fn nothing(_: &Interval) -> String {
    String::new()
}

/// In the order of their lines.
const COUNTERS: [Counter; 8] = [
    Counter {
        name: "conn",
        count: |interval| interval.connected,
        is_told: |told, _| told.connects,
        behind: |interval| times(&interval.connect_latency),
    },
    Counter {
        name: "conn_fail",
        count: |interval| interval.connect_failures,
        is_told: never,
        behind: nothing,
    },
    Counter {
        name: "sub",
        count: |interval| interval.subscribed,
        is_told: never,
        behind: |interval| times(&interval.subscribe_latency),
    },
    Counter {
        name: "sub_fail",
        count: |interval| interval.subscribe_failures,
        is_told: never,
        behind: nothing,
    },
    Counter {
        name: "pub",
        count: |interval| interval.published,
        is_told: |told, interval| told.publishes && is_publishing(interval),
        behind: |interval| lag(&interval.generator_lag),
    },
    Counter {
        name: "pub_fail",
        count: |interval| interval.publish_failures,
        is_told: never,
        behind: nothing,
    },
    Counter {
        name: "puback",
        count: |interval| interval.acknowledged,
        is_told: |told, interval| told.acknowledges && is_publishing(interval),
        behind: |interval| times(&interval.acknowledge_latency),
    },
    Counter {
        name: "recv",
        count: |interval| interval.received,
        is_told: |told, interval| told.receives && is_publishing(interval),
        behind: |interval| times(&interval.end_to_end_latency),
    },
];

/// The counters since the begin of a run.
#[derive(Debug)]
pub(super) struct Lines {
    told: Told,
    start_us: Option<u64>,
    totals: [u64; COUNTERS.len()],
}

impl Lines {
    pub(super) fn new(told: Told) -> Self {
        Self { told, start_us: None, totals: Default::default() }
    }

    /// The lines of an interval as it ends.
    pub(super) fn of(&mut self, interval: &Interval) -> String {
        let start_us = *self.start_us.get_or_insert(interval.start_us);
        let end_us = interval.start_us + interval.length_us;
        // The last interval may be shorter; it belongs to the second that it has begun.
        let at_s = end_us.saturating_sub(start_us).div_ceil(1_000_000);
        let seconds = interval.length_us as f64 / 1e6;
        let mut text = String::new();
        for (Counter { name, count, is_told, behind }, total) in
            COUNTERS.iter().zip(&mut self.totals)
        {
            let count = count(interval);
            *total += count;
            if count > 0 || is_told(&self.told, interval) {
                let (rate, behind) = (count as f64 / seconds, behind(interval));
                let _ = writeln!(text, "{at_s}s {name} total={total} rate={rate:.2}/sec{behind}");
            }
        }
        text
    }
}

/// Behind a line: the interval's latencies, if it has any.
fn times(summary: &Summary) -> String {
    if summary.count == 0 {
        return String::new();
    }
    let [p50, p99, max] = [summary.p50_us, summary.p99_us, summary.max_us].map(millis);
    format!(" p50={p50} p99={p99} max={max}")
}

/// Behind a line of publishing: how late the generator itself was.
fn lag(summary: &Summary) -> String {
    if summary.count == 0 {
        return String::new();
    }
    format!(" generator_lag_p99={}", millis(summary.p99_us))
}

pub(super) fn millis(us: u64) -> String {
    format!("{:.2}ms", us as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(start_us: u64, phase: Phase) -> Interval {
        Interval { start_us, length_us: 1_000_000, phase, ..Interval::default() }
    }

    #[test]
    fn totals_add_up_and_a_rate_is_of_its_second() {
        let mut lines = Lines::new(Told { connects: true, ..Told::default() });
        let first = Interval { connected: 100, ..interval(7_000_000, Phase::Connect) };
        assert_eq!(lines.of(&first), "1s conn total=100 rate=100.00/sec\n");
        let half = Interval {
            connected: 50,
            connect_failures: 2,
            length_us: 500_000,
            ..interval(8_000_000, Phase::Connect)
        };
        assert_eq!(
            lines.of(&half),
            "2s conn total=150 rate=100.00/sec\n2s conn_fail total=2 rate=4.00/sec\n"
        );
    }

    #[test]
    fn a_second_in_which_nothing_came_has_a_line() {
        let mut lines = Lines::new(Told { receives: true, ..Told::default() });
        assert_eq!(lines.of(&interval(0, Phase::Subscribe)), "");
        let second = interval(1_000_000, Phase::Measure);
        assert_eq!(lines.of(&second), "2s recv total=0 rate=0.00/sec\n");
    }

    #[test]
    fn latencies_stand_behind_the_counter_they_belong_to() {
        let mut lines = Lines::new(Told { publishes: true, ..Told::default() });
        let summary =
            |p99_us| Summary { count: 9, p50_us: 250, p99_us, max_us: 3_000, ..Summary::default() };
        let busy = Interval {
            published: 9,
            acknowledged: 9,
            generator_lag: summary(40),
            acknowledge_latency: summary(2_000),
            ..interval(0, Phase::Measure)
        };
        assert_eq!(
            lines.of(&busy),
            "1s pub total=9 rate=9.00/sec generator_lag_p99=0.04ms\n\
             1s puback total=9 rate=9.00/sec p50=0.25ms p99=2.00ms max=3.00ms\n"
        );
    }
}
