//! From a run to its outcome.

use super::Engine;
use crate::audit::{Counted, Fate, Track};
use crate::outcome::{
    Access, Anomaly, CPU_SHARE_MAX, Connections, End, Generator, LAG_P99_US_MAX, Latencies,
    Operations, Outcome, PhaseSpan, Traffic,
};
use crate::schedule::streams;

/// Of fewer messages or turns the highest in a hundred is one stall, which says nothing.
const SAMPLES_MIN: u64 = 100;

/// One turn in a hundred may be this long; within it a received message lies unread.
const TURN_P99_US_MAX: u64 = 50_000;

/// What a slice has to say at its end.
pub(crate) struct SliceOutcome {
    pub(crate) end: End,
    pub(crate) phases: Vec<PhaseSpan>,
    pub(crate) connections: Connections,
    pub(crate) subscriptions: Operations,
    pub(crate) access: Option<Access>,
    pub(crate) latencies: Latencies,
    pub(crate) generator: Generator,
    pub(crate) unclocked: u64,
    pub(crate) traffic: Traffic,
    pub(crate) counted: Counted,
    /// Of the publishers run here, by number.
    pub(crate) fates: Vec<(u32, Fate)>,
    pub(crate) tracks: Vec<Track>,
    pub(crate) anomalies: Vec<Anomaly>,
}

impl Engine<'_> {
    /// Closes the books: what has not come by now is lost.
    pub(super) fn close_books(&mut self) {
        if !self.book.audit.is_closed() {
            self.fates = self.all_fates();
            if self.baton.is_some() {
                self.book.audit.close_slice();
            } else {
                let fates = std::mem::take(&mut self.fates).into_iter().map(|(_, fate)| fate);
                self.book.audit.close(fates.collect(), self.ending.end == Some(End::Stopped));
                self.close_course();
            }
        }
    }

    pub(super) fn into_outcome(self) -> Outcome {
        let (generator, traffic) = (self.generator(), self.traffic());
        let Self { book, ending, clock, runner, .. } = self;
        let end = match ending.end {
            // Told at the end, when all have been seen to go.
            Some(End::BrokerGone(_)) => End::BrokerGone(book.seen_of_broker()),
            end => end.unwrap_or(End::Completed),
        };
        let latencies = book.recorder.latencies();
        let books = book.audit.into_books();
        Outcome {
            end,
            phases: clock.into_spans(),
            connections: book.connections,
            subscriptions: book.subscriptions,
            access: book.access,
            warm_up: books.warm_up,
            measure: books.measure,
            traffic,
            latencies,
            intervals: book.recorder.intervals,
            distributions: book.recorder.distributions,
            generator,
            anomalies: books.anomalies,
            anomalies_unlisted: books.anomalies_unlisted,
            unclocked: 0,
            course: runner.into_outcome(),
            agents: Vec::new(),
        }
    }

    /// Of the publishers run here.
    fn all_fates(&self) -> Vec<(u32, Fate)> {
        let publishers = self.book.publishers.iter().enumerate();
        let here = publishers.filter(|(_, publisher)| publisher.is_here());
        here.map(|(at, _)| (at as u32, self.fate(at))).collect()
    }

    pub(super) fn into_slice(mut self) -> SliceOutcome {
        self.close_books();
        let (generator, traffic) = (self.generator(), self.traffic());
        let totals: Vec<u32> = streams(self.plan, 0)
            .iter()
            .flat_map(|stream| {
                (0..stream.group.clients).map(|place| stream.schedule.total_of(place))
            })
            .collect();
        let Self { book, ending, clock, fates, .. } = self;
        let end = match ending.end {
            Some(End::BrokerGone(_)) => End::BrokerGone(book.seen_of_broker()),
            end => end.unwrap_or(End::Completed),
        };
        let latencies = book.recorder.latencies();
        let tracks = book.audit.tracks(&totals);
        let (counted, anomalies) = book.audit.into_counted();
        SliceOutcome {
            end,
            phases: clock.into_spans(),
            connections: book.connections,
            subscriptions: book.subscriptions,
            access: book.access,
            latencies,
            traffic,
            generator,
            unclocked: book.unclocked,
            counted,
            fates,
            tracks,
            anomalies,
        }
    }

    fn fate(&self, at: usize) -> Fate {
        let publisher = &self.book.publishers[at];
        let mut refused = publisher.refused.clone();
        refused.sort_unstable();
        let client = &self.clients[publisher.client as usize];
        let mut unacknowledged: Vec<u32> = client.open_tags().map(|tag| tag as u32).collect();
        unacknowledged.extend(&publisher.orphans);
        unacknowledged.sort_unstable();
        // A run that came to its end owed its whole schedule; one that was cut short owed what it
        // had picked up.
        let due = match (&self.ending.end, self.publishing.total_of(publisher)) {
            (None, Some(total)) => total,
            _ => publisher.due,
        };
        Fate { is_lost: false, due, sent: publisher.sent, refused, unacknowledged }
    }

    fn traffic(&self) -> Traffic {
        let (begin, end) = self.edges;
        end.traffic.since(begin.traffic)
    }

    fn generator(&self) -> Generator {
        let (begin, end) = self.edges;
        let cpu = end.cpu.since(begin.cpu);
        let wall_us = end.at_us.saturating_sub(begin.at_us);
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
        let latency_us = recorder.end_to_end.all.value_at_quantile(0.99);
        let lag_us_max = LAG_P99_US_MAX.max(latency_us / 10);
        if lag.len() >= SAMPLES_MIN && lag_us > lag_us_max {
            invalid.push(format!(
                "the load generator was late: p99 of its lag is {:.1} ms (limit {:.0} ms)",
                lag_us as f64 / 1e3,
                lag_us_max as f64 / 1e3
            ));
        }
        let turn_us = turn.value_at_quantile(0.99);
        if turn.len() >= SAMPLES_MIN && turn_us > TURN_P99_US_MAX {
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
