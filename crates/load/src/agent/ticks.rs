//! The intervals of all slices, added up by their number.

use super::line::{TickLine, add_text};
use crate::distribution::Distribution;
use crate::histogram::sketch;
use crate::outcome::Interval;
use crate::recorder::summarize;
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, BTreeSet};

/// An agent may be so many intervals ahead of the slowest.
const AHEAD_MAX: u64 = 256;

/// One interval, of those who have told it.
struct Sum {
    interval: Interval,
    sketches: [Histogram<u32>; 5],
    owed: u64,
    delivered: u64,
    told: BTreeSet<usize>,
}

/// Intervals that are not whole yet.
#[derive(Default)]
pub(super) struct Ticks {
    /// Begin of the first, on the clock of the one who leads.
    begin_us: u64,
    interval_us: u64,
    open: BTreeMap<u64, Sum>,
    /// The next to be whole.
    next: u64,
}

impl Ticks {
    pub(super) fn new(begin_us: u64, interval_ms: u32) -> Self {
        let interval_us = u64::from(interval_ms) * 1_000;
        Self { begin_us, interval_us, ..Self::default() }
    }

    /// Adds one slice's interval.
    ///
    /// # Errors
    /// One that cannot be: twice, too early, or not of this protocol.
    pub(super) fn add(&mut self, agent: usize, line: &TickLine) -> Result<(), &'static str> {
        let number = line.number;
        if number < self.next || number > self.next + AHEAD_MAX {
            return Err("an interval out of time");
        }
        let start_us = self.begin_us + number * self.interval_us;
        let sum = self.open.entry(number).or_insert_with(|| Sum::new(start_us, line));
        if !sum.told.insert(agent) {
            return Err("an interval twice");
        }
        sum.add(line).ok_or("a histogram that is not one")
    }

    /// The next interval that all of `awaited` have told, or nobody is awaited for.
    pub(super) fn take(&mut self, awaited: &[usize]) -> Option<(Interval, Distribution)> {
        let sum = self.open.get(&self.next)?;
        if !awaited.iter().all(|agent| sum.told.contains(agent)) {
            return None;
        }
        let sum = self.open.remove(&self.next)?;
        self.next += 1;
        Some(sum.finish())
    }
}

impl Sum {
    fn new(start_us: u64, line: &TickLine) -> Self {
        let of = &line.interval;
        let sums = Interval { start_us, phase: of.phase, ..Interval::default() };
        let sketches = std::array::from_fn(|_| sketch());
        Self { interval: sums, sketches, owed: 0, delivered: 0, told: BTreeSet::new() }
    }

    fn add(&mut self, line: &TickLine) -> Option<()> {
        let (sum, of) = (&mut self.interval, &line.interval);
        sum.length_us = sum.length_us.max(of.length_us);
        // The one furthest behind says where all are.
        sum.phase = sum.phase.min(of.phase);
        sum.connections += of.connections;
        sum.subscribers += of.subscribers;
        sum.publishers += of.publishers;
        sum.connected += of.connected;
        sum.connect_failures += of.connect_failures;
        sum.subscribed += of.subscribed;
        sum.subscribe_failures += of.subscribe_failures;
        sum.published += of.published;
        sum.acknowledged += of.acknowledged;
        sum.publish_failures += of.publish_failures;
        sum.received += of.received;
        sum.duplicated += of.duplicated;
        sum.reordered += of.reordered;
        sum.bytes_out += of.bytes_out;
        sum.bytes_in += of.bytes_in;
        sum.generator_cpu_cores += of.generator_cpu_cores;
        self.owed += line.owed;
        self.delivered += line.delivered;
        let pairs = self.sketches.iter_mut().zip(&line.sketches);
        pairs.map(|(sketch, text)| add_text(sketch, text)).collect()
    }

    fn finish(self) -> (Interval, Distribution) {
        let [connect, _, _, end_to_end, _] = &self.sketches;
        let distribution = Distribution::of(connect, end_to_end);
        let [connect, subscribe, acknowledge, end_to_end, lag] =
            self.sketches.each_ref().map(summarize);
        let interval = Interval {
            outstanding: self.owed.saturating_sub(self.delivered),
            connect_latency: connect,
            subscribe_latency: subscribe,
            acknowledge_latency: acknowledge,
            end_to_end_latency: end_to_end,
            generator_lag: lag,
            ..self.interval
        };
        (interval, distribution)
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::to_text;
    use super::*;
    use crate::outcome::Phase;

    /// The interval `number` of an agent, each of whose figures is `factor` times its own number.
    fn line(number: u64, factor: u64, phase: Phase) -> TickLine {
        let interval = Interval {
            start_us: 77,
            length_us: 100 * factor,
            phase,
            connections: factor,
            subscribers: 2 * factor,
            publishers: 3 * factor,
            connected: 4 * factor,
            connect_failures: 5 * factor,
            subscribed: 6 * factor,
            subscribe_failures: 7 * factor,
            published: 8 * factor,
            acknowledged: 9 * factor,
            publish_failures: 10 * factor,
            received: 11 * factor,
            outstanding: 99,
            duplicated: 12 * factor,
            reordered: 13 * factor,
            bytes_out: 14 * factor,
            bytes_in: 15 * factor,
            generator_cpu_cores: 0.25 * factor as f64,
            ..Interval::default()
        };
        let sketches = std::array::from_fn(|place| {
            let mut of = sketch();
            of.record_n(10 * (place as u64 + 1), factor as u32).unwrap();
            to_text(&of)
        });
        TickLine { number, interval, sketches, owed: 60 * factor, delivered: 50 * factor }
    }

    #[test]
    fn figures_of_all_agents_add_up_and_the_slowest_says_the_phase() {
        let mut ticks = Ticks::new(1_000_000, 250);
        ticks.add(1, &line(0, 2, Phase::Measure)).unwrap();
        assert!(ticks.take(&[0, 1]).is_none(), "one has not told it");
        ticks.add(0, &line(0, 1, Phase::WarmUp)).unwrap();
        let (sum, distribution) = ticks.take(&[0, 1]).unwrap();
        let latency = |us: u64| crate::outcome::Summary {
            count: 3,
            mean_us: us as f64,
            p50_us: us,
            p90_us: us,
            p99_us: us,
            max_us: us,
        };
        let expected = Interval {
            start_us: 1_000_000,
            length_us: 200,
            outstanding: 30,
            connect_latency: latency(10),
            subscribe_latency: latency(20),
            acknowledge_latency: latency(30),
            end_to_end_latency: latency(40),
            generator_lag: latency(50),
            ..line(0, 3, Phase::WarmUp).interval
        };
        assert_eq!(sum, expected);
        assert_eq!(distribution.connect().unwrap().max(), 10);
        assert_eq!(distribution.end_to_end().unwrap().max(), 40);
    }

    #[test]
    fn intervals_come_in_order_and_without_those_who_are_lost() {
        let mut ticks = Ticks::new(1_000_000, 250);
        ticks.add(0, &line(1, 1, Phase::Measure)).unwrap();
        assert!(ticks.take(&[0]).is_none(), "not the first one");
        ticks.add(0, &line(0, 1, Phase::Measure)).unwrap();
        let starts: Vec<u64> =
            std::iter::from_fn(|| ticks.take(&[0])).map(|(of, _)| of.start_us).collect();
        assert_eq!(starts, [1_000_000, 1_250_000]);
        ticks.add(1, &line(2, 1, Phase::Measure)).unwrap();
        assert!(ticks.take(&[0]).is_none());
        assert!(ticks.take(&[]).is_some(), "nobody is awaited any longer");
        assert!(ticks.take(&[]).is_none());
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        let mut ticks = Ticks::new(0, 250);
        ticks.add(0, &line(0, 1, Phase::Measure)).unwrap();
        assert_eq!(ticks.add(0, &line(0, 1, Phase::Measure)), Err("an interval twice"));
        ticks.take(&[0]).unwrap();
        assert_eq!(ticks.add(0, &line(0, 1, Phase::Measure)), Err("an interval out of time"));
        assert_eq!(ticks.add(0, &line(AHEAD_MAX + 1, 1, Phase::Measure)), Ok(()));
        let ahead = ticks.add(0, &line(AHEAD_MAX + 2, 1, Phase::Measure));
        assert_eq!(ahead, Err("an interval out of time"));
        let mut broken = line(1, 1, Phase::Measure);
        broken.sketches[4] = "none".into();
        assert_eq!(ticks.add(0, &broken), Err("a histogram that is not one"));
    }
}
