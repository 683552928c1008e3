//! From received messages to the ledger, and from the ledger to the sums of the outcome.

mod slices;

pub(crate) use slices::{Counted, Joint, Track};

use crate::audience::Audiences;
use crate::cast::{Cast, Part, Receiver};
use crate::outcome::{ANOMALIES_MAX, Altered, Anomaly, AnomalyKind, Messages};
use crate::plan::Plan;
use crate::plan::Slice;
use crate::stamp::Stamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_ledger::{Arrival, Ledger};

/// Until publishing begins, everything is warm-up.
const UNSET: u32 = u32::MAX;

/// What is known of a publisher.
#[derive(Debug)]
struct Published {
    client: u32,
    /// First sequence of the measure phase.
    first_measured: u32,
    /// Receivers that are owed each of its messages.
    receivers: u32,
    /// Receivers of each of its messages that only a lost agent could speak for.
    unheard: u32,
}

/// What became of a publisher's messages at the end, as the engine knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fate {
    /// Nothing is known of it: its agent was lost.
    #[serde(skip)]
    pub(crate) is_lost: bool,
    /// Due, sent or not.
    pub(crate) due: u32,
    /// Handed to the network: all sequences below.
    pub(crate) sent: u32,
    /// Refused by the broker, sorted.
    pub(crate) refused: Vec<u32>,
    /// Never acknowledged, sorted.
    pub(crate) unacknowledged: Vec<u32>,
}

impl Fate {
    /// Whether its numbers can be: lists ascend and lie within what was sent.
    pub(crate) fn is_consistent(&self) -> bool {
        let is_ascending = |list: &[u32]| list.is_sorted_by(|one, next| one < next);
        let lists = [&self.refused, &self.unacknowledged];
        self.sent <= self.due
            && lists.iter().all(|list| is_ascending(list))
            && lists.iter().all(|list| list.last().is_none_or(|&last| last < self.sent))
            && self.refused.len() + self.unacknowledged.len() <= self.sent as usize
    }

    /// Whether the broker took the message, so that its deliveries are owed.
    fn is_accepted(&self, sequence: u32) -> bool {
        !self.is_lost
            && self.refused.binary_search(&sequence).is_err()
            && self.unacknowledged.binary_search(&sequence).is_err()
    }
}

impl Fate {
    /// Counts a delivery that came after drain.
    fn late(&self, sequence: u32, messages: &mut Messages) {
        if self.is_accepted(sequence) {
            messages.late_after_drain += 1;
        } else {
            messages.delivered_unaccepted += 1;
        }
    }
}

/// The audit of a run.
#[derive(Debug)]
pub(crate) struct Audit {
    run: u16,
    audiences: Audiences,
    receivers: Vec<Receiver>,
    /// By client: its parts, usually one.
    parts: Vec<Vec<Part>>,
    /// Index of each of these clients among all of the plan.
    clients: Vec<u32>,
    publishers: Vec<Published>,
    ledger: Ledger,
    warm_up: Messages,
    measure: Messages,
    anomalies: Vec<Anomaly>,
    unlisted: u64,
    /// Deliveries that came and were owed, of both phases.
    delivered: u64,
    /// What went wrong in measure, by receiver.
    troubles: BTreeMap<u32, Troubles>,
    closed: Option<Closed>,
}

/// What went wrong with what one receiver is owed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Troubles {
    pub(crate) lost: u64,
    pub(crate) duplicated: u64,
}

/// Drain is over: what comes now is late.
#[derive(Debug)]
enum Closed {
    /// What was known of the publishers then.
    Here(Vec<Fate>),
    /// Of a slice: the books are closed where all slices are joined. What had come by then.
    Elsewhere(Ledger),
}

/// What a message was, for the counters of the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    First,
    Reordered,
    Duplicated,
    /// For the first time, but after drain.
    Late,
    Stray,
}

impl Audit {
    /// Finds out who hears whom. `topics` are the publishers' clients and topics, in order; `own`
    /// are the slices whose receivers are audited.
    pub(crate) fn new(plan: &Plan, topics: &[(u32, &str)], own: &[Slice]) -> Self {
        let cast = Cast::new(plan, topics.iter().map(|&(_, topic)| topic), own);
        Self::of_cast(cast, plan.run, topics)
    }

    fn of_cast(cast: Cast, run: u16, topics: &[(u32, &str)]) -> Self {
        let heard = cast.heard(topics.len());
        let published = |(&(client, _), &receivers): (&(u32, &str), &u32)| Published {
            client,
            first_measured: UNSET,
            receivers,
            unheard: 0,
        };
        let Cast { audiences, receivers, parts, clients, pairs, .. } = cast;
        Self {
            run,
            audiences,
            receivers,
            parts,
            clients,
            publishers: topics.iter().zip(&heard).map(published).collect(),
            ledger: Ledger::new(pairs),
            warm_up: Messages::default(),
            measure: Messages::default(),
            anomalies: Vec::new(),
            unlisted: 0,
            delivered: 0,
            troubles: BTreeMap::new(),
            closed: None,
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

    /// Whether a publisher's message belongs to the measure phase.
    #[inline]
    pub(crate) fn is_measured(&self, publisher: u32, sequence: u32) -> bool {
        sequence >= self.publishers[publisher as usize].first_measured
    }

    /// A message came to `client`, counted in the slice, with this stamp, whose sequence its
    /// publisher has sent. Says what it was, and whether it is measured.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        client: u32,
        stamp: Option<Stamp>,
        dup: bool,
    ) -> (Received, bool) {
        let is_own = stamp.is_some_and(|stamp| stamp.run == self.run);
        let known = stamp.filter(|stamp| (stamp.publisher as usize) < self.publishers.len());
        let Some(stamp) = known.filter(|_| is_own) else { return (self.stray(is_own), false) };
        let Some((receiver, pair, own_next)) = self.place(client, stamp) else {
            return (self.stray(true), false);
        };
        let is_measured = self.is_measured(stamp.publisher, stamp.sequence);
        let messages = if is_measured { &mut self.measure } else { &mut self.warm_up };
        messages.received += 1;
        let arrival = self.ledger.note(pair, stamp.sequence);
        let is_after_later = match own_next {
            None => arrival == Arrival::AfterLater,
            // In a group only the order at each member is owed.
            Some(own_next) => stamp.sequence < own_next && arrival != Arrival::Again,
        };
        if arrival == Arrival::Again {
            messages.duplicated += 1;
            messages.duplicated_with_dup += u64::from(dup);
            if is_measured {
                self.troubles.entry(receiver).or_default().duplicated += 1;
            }
            let client = self.clients[client as usize];
            self.list(AnomalyKind::Duplicated, client, stamp.publisher, stamp.sequence);
            return (Received::Duplicated, is_measured);
        }
        if let Some(closed) = &self.closed {
            match closed {
                Closed::Here(fates) => {
                    fates[stamp.publisher as usize].late(stamp.sequence, messages);
                }
                Closed::Elsewhere(_) => {}
            }
            return (Received::Late, is_measured);
        }
        messages.delivered += 1;
        self.delivered += 1;
        if is_after_later {
            messages.reordered += 1;
            messages.reordered_shared += u64::from(own_next.is_some());
            let client = self.clients[client as usize];
            self.list(AnomalyKind::Reordered, client, stamp.publisher, stamp.sequence);
            return (Received::Reordered, is_measured);
        }
        (Received::First, is_measured)
    }

    /// What has just been received as a part of the run was not what was published.
    #[cold]
    pub(crate) fn note_altered(&mut self, client: u32, stamp: Stamp, altered: Altered) {
        self.messages_of(stamp.publisher, stamp.sequence).altered.add(&altered);
        let client = self.clients[client as usize];
        for kind in altered.kinds() {
            self.list(kind, client, stamp.publisher, stamp.sequence);
        }
    }

    /// The receiver and the pair that a message to `client` belongs to and, in a shared group, one
    /// past the highest sequence this member had before. A client with several parts that all hear
    /// the publisher gets the message for the first that lacks it.
    #[inline]
    fn place(&mut self, client: u32, stamp: Stamp) -> Option<(u32, usize, Option<u32>)> {
        let Self { audiences, receivers, parts, ledger, .. } = self;
        let parts = &mut parts[client as usize];
        let pair_of = |part: &Part| {
            let receiver = &receivers[part.receiver as usize];
            let place = audiences.get(receiver.audience).place(stamp.publisher)?;
            Some((place, receiver.pairs + place))
        };
        let lacks =
            |part: &Part| pair_of(part).is_some_and(|(_, pair)| !ledger.has(pair, stamp.sequence));
        let at = match parts.len() {
            0 | 1 => 0,
            _ => parts
                .iter()
                .position(lacks)
                .or_else(|| parts.iter().position(|part| pair_of(part).is_some()))?,
        };
        let part = parts.get_mut(at)?;
        let (place, pair) = pair_of(part)?;
        let own_next = part.own_next.as_mut().map(|own_next| {
            let before = own_next[place];
            own_next[place] = before.max(stamp.sequence + 1);
            before
        });
        Some((part.receiver, pair, own_next))
    }

    /// A message came whose stamp names what was never sent.
    #[cold]
    pub(crate) fn unsent(&mut self, stamp: Stamp) -> Received {
        self.stray(stamp.run == self.run)
    }

    /// A message that is owed to nobody came; `is_own` says whether it is of this run.
    fn stray(&mut self, is_own: bool) -> Received {
        // In which phase it was sent is not known; it belongs to the whole run.
        self.measure.stray += 1;
        self.measure.stray_own += u64::from(is_own);
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

    /// Ends the time in which messages may come: what is missing now is lost, but for what was
    /// under way when a run was cut short. `fates` are the publishers', in order.
    pub(crate) fn close(&mut self, fates: Vec<Fate>, is_cut_short: bool) {
        for (publisher, fate) in fates.iter().enumerate() {
            self.count_published(publisher, fate);
        }
        for at in 0..self.receivers.len() {
            self.count_received(at, &fates, is_cut_short);
        }
        // In which phase they were is not known; a run that loses so many is measured mostly.
        self.measure.lost += self.ledger.written_off();
        self.unlisted += self.ledger.written_off();
        self.closed = Some(Closed::Here(fates));
    }

    /// Ends the time in which messages may come to this slice: what is missing is found where all
    /// slices are joined.
    pub(crate) fn close_slice(&mut self) {
        self.closed = Some(Closed::Elsewhere(self.ledger.clone()));
    }

    /// What went wrong in measure: the client that the receiver stands for, and whether it is a
    /// shared group.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = (u32, bool, Troubles)> {
        self.troubles.iter().map(|(&receiver, &of)| {
            let Receiver { client, is_shared, .. } = self.receivers[receiver as usize];
            (client, is_shared, of)
        })
    }

    /// Those listed so far.
    pub(crate) fn anomalies(&self) -> &[Anomaly] {
        &self.anomalies
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// The sums. The audit is closed.
    pub(crate) fn into_books(self) -> Books {
        debug_assert!(self.is_closed(), "sums are read from closed books");
        Books {
            warm_up: self.warm_up,
            measure: self.measure,
            anomalies: self.anomalies,
            anomalies_unlisted: self.unlisted,
        }
    }

    fn count_published(&mut self, publisher: usize, fate: &Fate) {
        let Published { first_measured, receivers, unheard, .. } = self.publishers[publisher];
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
            messages.unaudited += accepted * u64::from(unheard);
        };
        add(&mut self.warm_up, [due.0, sent.0, refused.0, open.0]);
        add(&mut self.measure, [due.1, sent.1, refused.1, open.1]);
    }

    fn count_received(&mut self, at: usize, fates: &[Fate], is_cut_short: bool) {
        let Receiver { audience, pairs, client, is_whole, is_shared, .. } = self.receivers[at];
        for place in 0..self.audiences.get(audience).publishers().len() {
            let publisher = self.audiences.get(audience).publishers()[place];
            let fate = &fates[publisher as usize];
            // What a later message has passed never comes. The members of a shared group overtake
            // each other.
            let passed = match (is_cut_short, is_shared) {
                (false, _) => u32::MAX,
                (true, false) => self.ledger.track(pairs + place).0,
                (true, true) => 0,
            };
            let missing = self.ledger.missing(pairs + place, fate.sent).flatten();
            let missing: Vec<u32> =
                missing.filter(|&sequence| fate.is_accepted(sequence)).collect();
            for sequence in missing {
                let messages = self.messages_of(publisher, sequence);
                if is_whole && sequence < passed {
                    messages.lost += 1;
                    if self.is_measured(publisher, sequence) {
                        self.troubles.entry(at as u32).or_default().lost += 1;
                    }
                    self.list(AnomalyKind::Lost, client, publisher, sequence);
                } else {
                    messages.unaudited += 1;
                    messages.expected -= u64::from(is_whole);
                }
            }
            if !is_whole {
                self.expect_arrived(pairs + place, publisher, fate);
            }
            for &sequence in fate.refused.iter().chain(&fate.unacknowledged) {
                if self.ledger.has(pairs + place, sequence) {
                    let messages = self.messages_of(publisher, sequence);
                    messages.delivered_unaccepted += 1;
                    messages.delivered -= 1;
                }
            }
            self.count_unknown(pairs + place, publisher, fate);
        }
    }

    /// Of a shared group some of whose members nobody can speak for, as much is owed as has come.
    fn expect_arrived(&mut self, pair: usize, publisher: u32, fate: &Fate) {
        let arrived: Vec<u32> = self.ledger.arrived(pair, 0).flatten().collect();
        for sequence in arrived.into_iter().filter(|&sequence| sequence < fate.sent) {
            if fate.is_accepted(sequence) {
                self.messages_of(publisher, sequence).expected += 1;
            }
        }
    }

    /// What came and was never sent, as far as is known: nothing, unless slices are joined.
    fn count_unknown(&mut self, pair: usize, publisher: u32, fate: &Fate) {
        let unknown: Vec<u32> = self.ledger.arrived(pair, fate.sent).flatten().collect();
        for sequence in unknown {
            let messages = self.messages_of(publisher, sequence);
            messages.delivered -= 1;
            if fate.is_lost {
                messages.delivered_unaccepted += 1;
            } else {
                messages.received -= 1;
                self.stray(true);
            }
        }
    }

    /// The phase a message belongs to.
    fn messages_of(&mut self, publisher: u32, sequence: u32) -> &mut Messages {
        let is_measured = self.is_measured(publisher, sequence);
        if is_measured { &mut self.measure } else { &mut self.warm_up }
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
