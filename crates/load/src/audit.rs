//! From received messages to the ledger, and from the ledger to the sums of the outcome.

use crate::audience::Audiences;
use crate::ledger::{Arrival, Ledger};
use crate::outcome::{ANOMALIES_MAX, Anomaly, AnomalyKind, Messages};
use crate::plan::Plan;
use crate::template::expand;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use weir_wire::topic::TopicFilter;

/// Sequences below this were published in warm-up.
const UNSET: u32 = u32::MAX;

/// One who is owed messages: a subscription, or a shared group as a whole.
#[derive(Debug)]
struct Receiver {
    audience: u32,
    /// The first of its pairs in the ledger.
    pairs: usize,
    /// Client that stands for it in anomalies.
    client: u32,
}

/// One client's part in a receiver.
#[derive(Debug)]
struct Part {
    receiver: u32,
    /// For a member of a shared group: one past the highest sequence it got, by publisher.
    own_next: Option<Box<[u32]>>,
}

/// What is known of a publisher.
#[derive(Debug)]
struct Published {
    client: u32,
    /// First sequence of the measure phase.
    first_measured: u32,
    /// Receivers that are owed each of its messages.
    receivers: u32,
}

/// What became of a publisher's messages at the end, as the engine knows it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fate {
    /// Due, sent or not.
    pub(crate) due: u32,
    /// Handed to the network: all sequences below.
    pub(crate) sent: u32,
    /// Refused by the broker, sorted.
    pub(crate) refused: Vec<u32>,
    /// Never acknowledged, sorted.
    pub(crate) unacknowledged: Vec<u32>,
}

/// The audit of a run.
#[derive(Debug)]
pub(crate) struct Audit {
    run: u16,
    audiences: Audiences,
    receivers: Vec<Receiver>,
    /// By client: its parts, usually one.
    parts: Vec<Vec<Part>>,
    publishers: Vec<Published>,
    ledger: Ledger,
    warm_up: Messages,
    measure: Messages,
    anomalies: Vec<Anomaly>,
    unlisted: u64,
    /// Deliveries that came and were owed, of both phases.
    delivered: u64,
    /// Drain is over: what comes now is late.
    is_late: bool,
}

/// What a message was, for the counters of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    First,
    Reordered,
    Duplicated,
    Stray,
}

impl Audit {
    /// Finds out who hears whom. `topics` are the publishers' clients and topics, in order.
    pub(crate) fn new(plan: &Plan, topics: &[(u32, &str)]) -> Self {
        let mut audiences = Audiences::new(topics.iter().map(|&(_, topic)| topic));
        let mut receivers: Vec<Receiver> = Vec::new();
        let mut parts: Vec<Vec<Part>> = Vec::new();
        let mut groups: HashMap<Box<str>, u32, FixedState> = HashMap::default();
        let mut pairs = 0;
        for group in &plan.groups {
            for index in 0..group.clients {
                let client = parts.len() as u32;
                let mut own = Vec::new();
                for subscription in &group.subscriptions {
                    let text = expand(&subscription.filter, index, plan.run);
                    let Some(filter) = TopicFilter::parse(&text) else { continue };
                    let known = groups.get(&text).copied().filter(|_| filter.group.is_some());
                    let receiver = known.unwrap_or_else(|| {
                        let audience = audiences.of(filter);
                        receivers.push(Receiver { audience, pairs, client });
                        pairs += audiences.get(audience).publishers().len();
                        receivers.len() as u32 - 1
                    });
                    let own_next = filter.group.is_some().then(|| {
                        groups.insert(text.clone(), receiver);
                        let audience = audiences.get(receivers[receiver as usize].audience);
                        vec![0; audience.publishers().len()].into_boxed_slice()
                    });
                    own.push(Part { receiver, own_next });
                }
                parts.push(own);
            }
        }
        let mut publishers: Vec<Published> = topics
            .iter()
            .map(|&(client, _)| Published { client, first_measured: UNSET, receivers: 0 })
            .collect();
        for receiver in &receivers {
            for &publisher in audiences.get(receiver.audience).publishers() {
                publishers[publisher as usize].receivers += 1;
            }
        }
        Self {
            run: plan.run,
            audiences,
            receivers,
            parts,
            publishers,
            ledger: Ledger::new(pairs),
            warm_up: Messages::default(),
            measure: Messages::default(),
            anomalies: Vec::new(),
            unlisted: 0,
            delivered: 0,
            is_late: false,
        }
    }

    /// Receivers that are owed each message of this publisher.
    #[inline]
    pub(crate) fn receivers_of(&self, publisher: u32) -> u32 {
        self.publishers[publisher as usize].receivers
    }

    /// The first sequence that is measured.
    pub(crate) fn measure_from(&mut self, publisher: u32, sequence: u32) {
        self.publishers[publisher as usize].first_measured = sequence;
    }

    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(crate) fn ledger_bytes(&self) -> u64 {
        let own: usize = self
            .parts
            .iter()
            .flatten()
            .filter_map(|part| part.own_next.as_ref())
            .map(|own_next| own_next.len() * 4)
            .sum();
        self.ledger.bytes() + own as u64
    }

    pub(crate) fn end_drain(&mut self) {
        self.is_late = true;
    }

    /// A message came to `client` with this stamp. Says what it was, and whether it is measured.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        client: u32,
        stamp: Option<crate::stamp::Stamp>,
        dup: bool,
    ) -> (Received, bool) {
        let stamp = stamp.filter(|stamp| {
            stamp.run == self.run && (stamp.publisher as usize) < self.publishers.len()
        });
        let Some(stamp) = stamp else { return (self.stray(), false) };
        let Self { audiences, receivers, parts, .. } = self;
        let found = parts[client as usize].iter_mut().find_map(|part| {
            let receiver = &receivers[part.receiver as usize];
            let place = audiences.get(receiver.audience).place(stamp.publisher)?;
            Some((receiver.pairs + place, part.own_next.as_mut().map(|next| &mut next[place])))
        });
        let Some((pair, own_next)) = found else { return (self.stray(), false) };
        let is_measured =
            stamp.sequence >= self.publishers[stamp.publisher as usize].first_measured;
        let messages = if is_measured { &mut self.measure } else { &mut self.warm_up };
        messages.received += 1;
        let arrival = self.ledger.note(pair, stamp.sequence);
        let is_after_later = match own_next {
            None => arrival == Arrival::AfterLater,
            // In a group only the order at each member is owed.
            Some(own_next) => {
                let is_after_later = stamp.sequence < *own_next;
                *own_next = (*own_next).max(stamp.sequence + 1);
                is_after_later && arrival != Arrival::Again
            }
        };
        if arrival == Arrival::Again {
            messages.duplicated += 1;
            messages.duplicated_with_dup += u64::from(dup);
            self.list(AnomalyKind::Duplicated, client, stamp.publisher, stamp.sequence);
            return (Received::Duplicated, is_measured);
        }
        if self.is_late {
            messages.late_after_drain += 1;
            return (Received::First, is_measured);
        }
        messages.delivered += 1;
        self.delivered += 1;
        if is_after_later {
            messages.reordered += 1;
            self.list(AnomalyKind::Reordered, client, stamp.publisher, stamp.sequence);
            return (Received::Reordered, is_measured);
        }
        (Received::First, is_measured)
    }

    fn stray(&mut self) -> Received {
        // Whose it was is not known; it belongs to the whole run.
        self.measure.stray += 1;
        self.measure.received += 1;
        Received::Stray
    }

    fn list(&mut self, kind: AnomalyKind, subscriber: u32, publisher: u32, sequence: u32) {
        if self.anomalies.len() >= ANOMALIES_MAX {
            self.unlisted += 1;
            return;
        }
        let publisher = self.publishers[publisher as usize].client;
        self.anomalies.push(Anomaly { kind, subscriber, publisher, sequence });
    }

    /// Closes the books. `fates` are the publishers', in order.
    pub(crate) fn finish(mut self, fates: &[Fate]) -> Books {
        for (publisher, fate) in fates.iter().enumerate() {
            self.count_published(publisher, fate);
        }
        for at in 0..self.receivers.len() {
            self.count_received(at, fates);
        }
        // What came after drain is noted in the ledger, but it was lost to whoever waited for it.
        self.warm_up.lost += self.warm_up.late_after_drain;
        self.measure.lost += self.measure.late_after_drain;
        Books {
            warm_up: self.warm_up,
            measure: self.measure,
            anomalies: self.anomalies,
            anomalies_unlisted: self.unlisted,
        }
    }

    fn count_published(&mut self, publisher: usize, fate: &Fate) {
        let Published { first_measured, receivers, .. } = self.publishers[publisher];
        // (warm-up, measure) of the sequences below a bound, and of a list.
        let below = |bound: u32| {
            let warm_up = bound.min(first_measured);
            (u64::from(warm_up), u64::from(bound - warm_up))
        };
        let of = |list: &[u32]| {
            let measured = list.iter().filter(|&&sequence| sequence >= first_measured).count();
            ((list.len() - measured) as u64, measured as u64)
        };
        let (due, sent) = (below(fate.due), below(fate.sent));
        let (refused, open) = (of(&fate.refused), of(&fate.unacknowledged));
        let add = |messages: &mut Messages, [due, sent, refused, open]: [u64; 4]| {
            let accepted = sent - refused - open;
            messages.intended += due;
            messages.sent += sent;
            messages.unsent += due - sent;
            messages.refused += refused;
            messages.unacknowledged += open;
            messages.accepted += accepted;
            messages.expected += accepted * u64::from(receivers);
        };
        add(&mut self.warm_up, [due.0, sent.0, refused.0, open.0]);
        add(&mut self.measure, [due.1, sent.1, refused.1, open.1]);
    }

    fn count_received(&mut self, at: usize, fates: &[Fate]) {
        let Receiver { audience, pairs, client } = self.receivers[at];
        for place in 0..self.audiences.get(audience).publishers().len() {
            let publisher = self.audiences.get(audience).publishers()[place];
            let fate = &fates[publisher as usize];
            let first_measured = self.publishers[publisher as usize].first_measured;
            let is_accepted = |sequence: u32| {
                fate.refused.binary_search(&sequence).is_err()
                    && fate.unacknowledged.binary_search(&sequence).is_err()
            };
            let lost: Vec<u32> = self
                .ledger
                .missing(pairs + place, fate.sent)
                .flatten()
                .filter(|&sequence| is_accepted(sequence))
                .collect();
            for sequence in lost {
                let is_measured = sequence >= first_measured;
                let messages = if is_measured { &mut self.measure } else { &mut self.warm_up };
                messages.lost += 1;
                self.list(AnomalyKind::Lost, client, publisher, sequence);
            }
            for &sequence in fate.refused.iter().chain(&fate.unacknowledged) {
                if self.ledger.has(pairs + place, sequence) {
                    let is_measured = sequence >= first_measured;
                    let messages = if is_measured { &mut self.measure } else { &mut self.warm_up };
                    messages.delivered_unaccepted += 1;
                    messages.delivered = messages.delivered.saturating_sub(1);
                }
            }
        }
    }
}

/// The closed books of a run.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) warm_up: Messages,
    pub(crate) measure: Messages,
    pub(crate) anomalies: Vec<Anomaly>,
    pub(crate) anomalies_unlisted: u64,
}
