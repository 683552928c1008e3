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
