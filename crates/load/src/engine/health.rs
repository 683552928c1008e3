//! How the generator itself did, and whether it was the limit.

use super::Engine;
use super::watch::fault;
use crate::cpu::ThreadCpu;
use crate::outcome::{ABSENT_US_MAX, CPU_SHARE_MAX, Generator, LAG_P99_US_MAX, Lateness};
use crate::plan::Transport;
use hdrhistogram::Histogram;

/// One turn in a hundred may be this long; within it a received message lies unread.
const TURN_P99_US_MAX: u64 = 50_000;

/// One connect in a hundred may be late.
const LATE_CONNECTS_SHARE_MAX: f64 = 0.01;

/// Connecting for a shorter time says little of how busy it was.
const CONNECTING_US_MIN: u64 = 500_000;

impl Engine<'_> {
    pub(super) fn generator(&self) -> Generator {
        let (begin, end) = self.edges;
        let cpu = end.cpu.since(begin.cpu);
        let wall_us = end.at_us.saturating_sub(begin.at_us);
        let (late_setup, late_measure) = self.lateness();
        let recorder = &self.book.recorder;
        let (lag, turn) = (recorder.lag.all.clone(), recorder.turn.clone());
        let connected = recorder.connect.all.len();
        let measure_us = self.clock.measure_us().map_or(0, |(start_us, _)| start_us);
        let faults = [
            busy(cpu, wall_us, ""),
            self.busy_connecting(),
            behind_schedule(&lag),
            seldom(&turn),
            late_connects(self.watch.late_connects, connected),
            fault(&late_setup, "connect", self.began_us),
            fault(&late_measure, "measure", measure_us),
        ];
        Generator {
            cpu_user_us: cpu.user_us,
            cpu_system_us: cpu.system_us,
            wall_us,
            lag,
            turn,
            late_setup,
            late_measure,
            ledger_bytes: self.book.audit.ledger_bytes(),
            invalid: faults.into_iter().flatten().collect(),
        }
    }

    /// A handshake costs the generator as much as the broker: its time says nothing of the broker
    /// where the generator had no time for it.
    fn busy_connecting(&self) -> Option<String> {
        let (begin, end) = self.connected;
        let wall_us = end.at_us.saturating_sub(begin.at_us);
        let is_judged =
            self.plan.route.transport() != Transport::Plain && wall_us >= CONNECTING_US_MIN;
        let busy = || busy(end.cpu.since(begin.cpu), wall_us, " while clients connected");
        is_judged.then(busy).flatten()
    }

    fn lateness(&self) -> (Lateness, Lateness) {
        let (recorder, watch) = (&self.book.recorder, &self.watch);
        let connects = recorder.connect.all.len() + recorder.parts.len();
        let setup = connects + recorder.subscribe.all.len();
        let answers = recorder.end_to_end.all.len() + recorder.acknowledge.all.len();
        let measure = recorder.lag.all.len() + answers;
        (Lateness { samples: setup, ..watch.setup }, Lateness { samples: measure, ..watch.measure })
    }
}

/// A generator that ran, or waited for a core to run on, all the time.
fn busy(cpu: ThreadCpu, wall_us: u64, when: &str) -> Option<String> {
    let percent = |us: u64| us as f64 / wall_us.max(1) as f64 * 100.0;
    let (used, waited) = (percent(cpu.user_us + cpu.system_us), percent(cpu.waited_us));
    (wall_us > 0 && used + waited > CPU_SHARE_MAX * 100.0).then(|| {
        format!(
            "the load generator used {used:.0} % of its core and waited for one {waited:.0} % of \
             the time{when} (limit {:.0} % together)",
            CPU_SHARE_MAX * 100.0
        )
    })
}

fn behind_schedule(lag: &Histogram<u64>) -> Option<String> {
    too_long("was late", "lag", lag, LAG_P99_US_MAX)
}

fn seldom(turn: &Histogram<u64>) -> Option<String> {
    too_long("read too seldom", "loop", turn, TURN_P99_US_MAX)
}

fn too_long(what: &str, of: &str, times: &Histogram<u64>, p99_us_max: u64) -> Option<String> {
    let p99_us = times.value_at_quantile(0.99);
    (p99_us > p99_us_max).then(|| {
        format!(
            "the load generator {what}: p99 of its {of} is {:.1} ms (limit {:.0} ms)",
            p99_us as f64 / 1e3,
            p99_us_max as f64 / 1e3
        )
    })
}

fn late_connects(late: u64, connected: u64) -> Option<String> {
    (late as f64 > connected as f64 * LATE_CONNECTS_SHARE_MAX).then(|| {
        format!(
            "the load generator was late: it made {late} connects more than {} ms after they were \
             due (limit {:.0} % of the {connected} that came about)",
            ABSENT_US_MAX / 1_000,
            LATE_CONNECTS_SHARE_MAX * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::histogram;

    fn all(count: u64, us: u64, few: u64, few_us: u64) -> Histogram<u64> {
        let mut all = histogram();
        all.record_n(us, count).unwrap();
        all.record_n(few_us, few).unwrap();
        all
    }

    #[test]
    fn a_generator_that_runs_or_waits_for_a_core_all_the_time_was_the_limit() {
        let of = |user_us, waited_us| {
            busy(ThreadCpu { user_us, system_us: 100_000, waited_us }, 1_000_000, "")
        };
        assert_eq!(of(850_000, 0), None);
        assert!(of(850_001, 0).unwrap().contains("used 95 % of its core"));
        let text = of(300_000, 560_000).unwrap();
        assert!(text.contains("used 40 %") && text.contains("waited for one 56 %"), "{text}");
        let cpu = ThreadCpu { user_us: 1_000_000, ..ThreadCpu::default() };
        let text = busy(cpu, 1_000_000, " while clients connected").unwrap();
        assert!(text.contains("of the time while clients connected (limit 95 %"), "{text}");
        assert_eq!(busy(ThreadCpu { user_us: 1, system_us: 0, waited_us: 0 }, 0, ""), None);
    }

    #[test]
    fn lag_is_judged_from_the_first_message_on_and_whatever_the_latency() {
        assert_eq!(behind_schedule(&histogram()), None);
        assert_eq!(behind_schedule(&all(1, 9_990, 0, 1)), None);
        assert!(behind_schedule(&all(1, 10_100, 0, 1)).unwrap().contains("p99 of its lag is 10."));
        assert_eq!(behind_schedule(&all(99, 10, 1, 1_000_000)), None);
        assert!(behind_schedule(&all(98, 10, 2, 1_000_000)).is_some());
    }

    #[test]
    fn a_loop_that_reads_too_seldom_was_the_limit() {
        assert_eq!(seldom(&all(1, 49_900, 0, 1)), None);
        assert!(seldom(&all(1, 50_200, 0, 1)).unwrap().contains("p99 of its loop is 50."));
    }

    #[test]
    fn one_connect_in_a_hundred_may_be_late() {
        assert_eq!(late_connects(0, 0), None);
        assert_eq!(late_connects(1, 100), None);
        assert!(late_connects(2, 100).unwrap().contains("2 connects more than 50 ms"));
    }
}
