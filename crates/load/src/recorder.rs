//! Histograms and counters, of the whole run and of the running interval.

use crate::distribution::Distribution;
use crate::histogram::{histogram, sketch};
use crate::outcome::{Interval, Latencies, Phase, Summary, Traffic};
use hdrhistogram::Histogram;

/// One latency, of the run and of the interval.
#[derive(Debug)]
pub(crate) struct Timing {
    pub(crate) all: Histogram<u64>,
    interval: Histogram<u32>,
}

impl Timing {
    fn new() -> Self {
        Self { all: histogram(), interval: sketch() }
    }

    #[inline]
    pub(crate) fn record(&mut self, latency_us: u64, is_measured: bool) {
        self.interval.saturating_record(latency_us);
        if is_measured {
            self.all.saturating_record(latency_us);
        }
    }

    fn take_interval(&mut self) -> Summary {
        let histogram = &mut self.interval;
        if histogram.is_empty() {
            return Summary::default();
        }
        let summary = summarize(histogram);
        histogram.reset();
        summary
    }
}

/// What a connect is made of.
#[derive(Debug)]
pub(crate) struct ConnectParts {
    tcp: Histogram<u64>,
    handshake: Histogram<u64>,
    connack: Histogram<u64>,
}

impl Default for ConnectParts {
    fn default() -> Self {
        Self { tcp: histogram(), handshake: histogram(), connack: histogram() }
    }
}

impl ConnectParts {
    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.handshake.len()
    }

    /// Of one connection, by when it was asked for, TCP was there, the transport was open and
    /// CONNACK came.
    pub(crate) fn record(&mut self, times_us: [u64; 4]) {
        let [asked_us, reached_us, opened_us, accepted_us] = times_us;
        self.tcp.saturating_record(reached_us.saturating_sub(asked_us));
        self.handshake.saturating_record(opened_us.saturating_sub(reached_us));
        self.connack.saturating_record(accepted_us.saturating_sub(opened_us));
    }
}

/// Connect, subscribe, acknowledge, end to end, lag: of one interval.
#[derive(Clone, Debug)]
pub(crate) struct Sketches(pub(crate) [Histogram<u32>; 5]);

/// The six numbers of a histogram.
pub(crate) fn summarize(histogram: &Histogram<u32>) -> Summary {
    if histogram.is_empty() {
        return Summary::default();
    }
    Summary {
        count: histogram.len(),
        mean_us: histogram.mean(),
        p50_us: histogram.value_at_quantile(0.5),
        p90_us: histogram.value_at_quantile(0.9),
        p99_us: histogram.value_at_quantile(0.99),
        max_us: histogram.max(),
    }
}

/// What is counted as it happens; an interval is the difference of two of these.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Handshakes that are over.
    pub(crate) opened: u64,
    pub(crate) connected: u64,
    pub(crate) connect_failures: u64,
    pub(crate) subscribed: u64,
    pub(crate) subscribe_failures: u64,
    pub(crate) published: u64,
    pub(crate) acknowledged: u64,
    pub(crate) publish_failures: u64,
    pub(crate) received: u64,
    pub(crate) duplicated: u64,
    pub(crate) crossed: u64,
    pub(crate) reordered: u64,
    pub(crate) bytes_out: u64,
    pub(crate) bytes_in: u64,
}

impl Counts {
    /// What has come of the broker and is timed.
    pub(crate) fn answers(&self) -> u64 {
        self.opened
            + self.connected
            + self.subscribed
            + self.subscribe_failures
            + self.acknowledged
            + self.publish_failures
            + self.received
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let &Self { published, received, duplicated, crossed, .. } = self;
        Traffic { published, received, duplicated, crossed }
    }
}

/// What is so at the end of an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauges {
    pub(crate) phase: Phase,
    pub(crate) connections: u64,
    pub(crate) subscribers: u64,
    pub(crate) publishers: u64,
    pub(crate) outstanding: u64,
    pub(crate) cpu_us: u64,
}

/// Everything measured of one run.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) counts: Counts,
    pub(crate) connect: Timing,
    /// Parts of it, where there is a handshake.
    pub(crate) parts: ConnectParts,
    pub(crate) subscribe: Timing,
    pub(crate) acknowledge: Timing,
    pub(crate) end_to_end: Timing,
    pub(crate) from_send: Histogram<u64>,
    pub(crate) acknowledge_from_intended: Histogram<u64>,
    pub(crate) lag: Timing,
    pub(crate) turn: Histogram<u64>,
    pub(crate) intervals: Vec<Interval>,
    pub(crate) distributions: Vec<Distribution>,
    before: Counts,
    cpu_us_before: u64,
    start_us: u64,
}

impl Recorder {
    pub(crate) fn new(start_us: u64, cpu_us: u64) -> Self {
        Self {
            counts: Counts::default(),
            connect: Timing::new(),
            parts: ConnectParts::default(),
            subscribe: Timing::new(),
            acknowledge: Timing::new(),
            end_to_end: Timing::new(),
            from_send: histogram(),
            acknowledge_from_intended: histogram(),
            lag: Timing::new(),
            turn: histogram(),
            intervals: Vec::new(),
            distributions: Vec::new(),
            before: Counts::default(),
            cpu_us_before: cpu_us,
            start_us,
        }
    }

    /// The first interval begins here.
    pub(crate) fn begin(&mut self, start_us: u64, cpu_us: u64) {
        self.start_us = start_us;
        self.cpu_us_before = cpu_us;
    }

    /// The histograms of the running interval.
    pub(crate) fn sketches(&self) -> Sketches {
        let timings =
            [&self.connect, &self.subscribe, &self.acknowledge, &self.end_to_end, &self.lag];
        Sketches(timings.map(|timing| timing.interval.clone()))
    }

    /// When the running interval began.
    pub(crate) fn interval_start_us(&self) -> u64 {
        self.start_us
    }

    /// Ends the running interval at `end_us` and begins the next.
    pub(crate) fn end_interval(&mut self, end_us: u64, gauges: Gauges) -> Interval {
        let (now, before) = (self.counts, self.before);
        let length_us = end_us.saturating_sub(self.start_us).max(1);
        let cpu_us = gauges.cpu_us.saturating_sub(self.cpu_us_before);
        let (connect, end_to_end) = (&self.connect.interval, &self.end_to_end.interval);
        self.distributions.push(Distribution::of(connect, end_to_end));
        let interval = Interval {
            start_us: self.start_us,
            length_us,
            phase: gauges.phase,
            connections: gauges.connections,
            subscribers: gauges.subscribers,
            publishers: gauges.publishers,
            connected: now.connected - before.connected,
            connect_failures: now.connect_failures - before.connect_failures,
            subscribed: now.subscribed - before.subscribed,
            subscribe_failures: now.subscribe_failures - before.subscribe_failures,
            published: now.published - before.published,
            acknowledged: now.acknowledged - before.acknowledged,
            publish_failures: now.publish_failures - before.publish_failures,
            received: now.received - before.received,
            outstanding: gauges.outstanding,
            duplicated: now.duplicated - before.duplicated,
            reordered: now.reordered - before.reordered,
            bytes_out: now.bytes_out - before.bytes_out,
            bytes_in: now.bytes_in - before.bytes_in,
            connect_latency: self.connect.take_interval(),
            subscribe_latency: self.subscribe.take_interval(),
            acknowledge_latency: self.acknowledge.take_interval(),
            end_to_end_latency: self.end_to_end.take_interval(),
            generator_lag: self.lag.take_interval(),
            generator_cpu_cores: cpu_us as f64 / length_us as f64,
        };
        self.before = now;
        self.cpu_us_before = gauges.cpu_us;
        self.start_us = end_us;
        self.intervals.push(interval);
        interval
    }

    pub(crate) fn latencies(&self) -> Latencies {
        Latencies {
            connect: self.connect.all.clone(),
            tcp_connect: self.parts.tcp.clone(),
            handshake: self.parts.handshake.clone(),
            connack: self.parts.connack.clone(),
            subscribe: self.subscribe.all.clone(),
            acknowledge: self.acknowledge.all.clone(),
            acknowledge_from_intended: self.acknowledge_from_intended.clone(),
            end_to_end: self.end_to_end.all.clone(),
            end_to_end_from_send: self.from_send.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_answer_counts_once() {
        let counts = Counts {
            opened: 7_000_000,
            connected: 1,
            subscribed: 20,
            subscribe_failures: 300,
            acknowledged: 4_000,
            publish_failures: 50_000,
            received: 600_000,
            ..Counts::default()
        };
        assert_eq!(counts.answers(), 7_654_321);
    }

    /// Counts each of which is `factor` times its own number.
    fn counts(factor: u64) -> Counts {
        Counts {
            opened: 0,
            connected: factor,
            connect_failures: 2 * factor,
            subscribed: 3 * factor,
            subscribe_failures: 4 * factor,
            published: 5 * factor,
            acknowledged: 6 * factor,
            publish_failures: 7 * factor,
            received: 8 * factor,
            duplicated: 9 * factor,
            crossed: 0,
            reordered: 10 * factor,
            bytes_out: 11 * factor,
            bytes_in: 12 * factor,
        }
    }

    #[test]
    fn an_interval_has_what_has_come_to_its_own_time() {
        let gauges = |cpu_us| Gauges {
            phase: Phase::Measure,
            connections: 21,
            subscribers: 22,
            publishers: 23,
            outstanding: 24,
            cpu_us,
        };
        let mut recorder = Recorder::new(0, 0);
        recorder.begin(1_000_000, 500);
        recorder.counts = counts(100);
        let first = recorder.end_interval(1_500_000, gauges(250_500));
        assert_eq!((first.start_us, first.length_us), (1_000_000, 500_000));
        assert_eq!((first.published, first.generator_cpu_cores), (500, 0.5));
        recorder.counts = counts(101);
        let second = recorder.end_interval(1_600_000, gauges(275_500));
        let expected = Interval {
            start_us: 1_500_000,
            length_us: 100_000,
            phase: Phase::Measure,
            connections: 21,
            subscribers: 22,
            publishers: 23,
            connected: 1,
            connect_failures: 2,
            subscribed: 3,
            subscribe_failures: 4,
            published: 5,
            acknowledged: 6,
            publish_failures: 7,
            received: 8,
            outstanding: 24,
            duplicated: 9,
            reordered: 10,
            bytes_out: 11,
            bytes_in: 12,
            generator_cpu_cores: 0.25,
            ..Interval::default()
        };
        assert_eq!(second, expected);
        assert_eq!(recorder.interval_start_us(), 1_600_000);
        assert_eq!((recorder.intervals.len(), recorder.distributions.len()), (2, 2));
    }
}
