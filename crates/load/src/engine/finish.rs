//! From a run to its outcome.

use super::Engine;
use crate::audit::{Counted, Fate, Track};
use crate::outcome::{
    Access, Anomaly, Connections, End, Generator, Handshakes, Latencies, Operations, Outcome,
    PhaseSpan, Silence, Traffic,
};
use crate::schedule::streams;

/// What a slice has to say at its end.
pub(crate) struct SliceOutcome {
    pub(crate) end: End,
    pub(crate) phases: Vec<PhaseSpan>,
    pub(crate) connections: Connections,
    pub(crate) handshakes: Handshakes,
    pub(crate) subscriptions: Operations,
    pub(crate) access: Option<Access>,
    pub(crate) latencies: Latencies,
    pub(crate) generator: Generator,
    pub(crate) silences: Vec<Silence>,
    pub(crate) silences_unlisted: u64,
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
        let (silences, silences_unlisted) = self.silences.found();
        let (handshakes, sessions) = (self.handshakes(), self.sessions());
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
            handshakes,
            subscriptions: book.subscriptions,
            access: book.access,
            warm_up: books.warm_up,
            measure: books.measure,
            traffic,
            latencies,
            intervals: book.recorder.intervals,
            distributions: book.recorder.distributions,
            generator,
            silences,
            silences_unlisted,
            anomalies: books.anomalies,
            anomalies_unlisted: books.anomalies_unlisted,
            unclocked: 0,
            course: runner.into_outcome(sessions),
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
        let (silences, silences_unlisted) = self.silences.found();
        let handshakes = self.handshakes();
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
            handshakes,
            subscriptions: book.subscriptions,
            access: book.access,
            latencies,
            traffic,
            generator,
            silences,
            silences_unlisted,
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

    fn handshakes(&self) -> Handshakes {
        let (full, resumed) = self.transports.handshakes();
        Handshakes { full, resumed }
    }

    fn traffic(&self) -> Traffic {
        let (begin, end) = self.edges;
        end.traffic.since(begin.traffic)
    }
}
