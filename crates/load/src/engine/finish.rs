//! From a run to its outcome.

use super::Engine;
use crate::audit::Fate;
use crate::outcome::{End, Generator, Outcome, Phase};

/// Above this share of a core the generator was busy all the time, and what it saw as latency may
/// be its own.
const CPU_SHARE_MAX: f64 = 0.95;

/// One message in a hundred may be picked up this late: a scheduler's stall on a shared machine,
/// not a generator behind its schedule.
const LAG_P99_US_MAX: u64 = 10_000;

/// One turn in a hundred may be this long; within it a received message lies unread.
const TURN_P99_US_MAX: u64 = 50_000;

impl Engine<'_> {
    pub(super) fn into_outcome(self) -> Outcome {
        let fates: Vec<Fate> = (0..self.book.publishers.len()).map(|at| self.fate(at)).collect();
        let generator = self.generator();
        let Self { book, end, phases, .. } = self;
        let latencies = book.recorder.latencies();
        let books = book.audit.finish(&fates);
        Outcome {
            end: end.unwrap_or(End::Completed),
            phases,
            connections: book.connections,
            subscriptions: book.subscriptions,
            warm_up: books.warm_up,
            measure: books.measure,
            latencies,
            intervals: book.recorder.intervals,
            generator,
            anomalies: books.anomalies,
            anomalies_unlisted: books.anomalies_unlisted,
        }
    }

    fn fate(&self, at: usize) -> Fate {
        let publisher = &self.book.publishers[at];
        let mut refused = publisher.refused.clone();
        refused.sort_unstable();
        let client = &self.clients[publisher.client as usize];
        let mut unacknowledged: Vec<u32> = client.open_tags().map(|tag| tag as u32).collect();
        unacknowledged.sort_unstable();
        Fate { due: publisher.due, sent: publisher.sent, refused, unacknowledged }
    }

    fn generator(&self) -> Generator {
        let cpu = self.cpu.1.since(self.cpu.0);
        let measure = self.phases.iter().find(|span| span.phase == Phase::Measure);
        let wall_us = measure.map_or(0, |span| span.end_us - span.start_us);
        let recorder = &self.book.recorder;
        let (lag, turn) = (recorder.lag.all.clone(), recorder.turn.clone());
        let mut invalid = Vec::new();
        let share = (cpu.user_us + cpu.system_us) as f64 / wall_us.max(1) as f64;
        if wall_us > 0 && share > CPU_SHARE_MAX {
            invalid.push(format!(
                "the load generator used {:.0} % of its core (limit {:.0} %)",
                share * 100.0,
                CPU_SHARE_MAX * 100.0
            ));
        }
        let lag_us = lag.value_at_quantile(0.99);
        if lag_us > LAG_P99_US_MAX {
            invalid.push(format!(
                "the load generator was late: p99 of its lag is {:.1} ms (limit {:.0} ms)",
                lag_us as f64 / 1e3,
                LAG_P99_US_MAX as f64 / 1e3
            ));
        }
        let turn_us = turn.value_at_quantile(0.99);
        if turn_us > TURN_P99_US_MAX {
            invalid.push(format!(
                "the load generator read too seldom: p99 of its loop is {:.1} ms (limit {:.0} ms)",
                turn_us as f64 / 1e3,
                TURN_P99_US_MAX as f64 / 1e3
            ));
        }
        Generator {
            cpu_user_us: cpu.user_us,
            cpu_system_us: cpu.system_us,
            wall_us,
            lag,
            turn,
            ledger_bytes: self.book.audit.ledger_bytes(),
            invalid,
        }
    }
}
