//! The audit across slices: what each saw, and the books that follow from all of it.
//!
//! A publisher may be in another slice than its subscribers, so a slice cannot tell what is lost.
//! It hands over what came; where all is joined, the books are closed as those of one process.

use super::{Audit, Closed, Fate};
use crate::cast::Cast;
use crate::outcome::{ANOMALIES_MAX, Anomaly, AnomalyKind, Messages};
use crate::plan::Plan;
use crate::plan::Slice;
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashSet};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use weir_ledger::Arrival;

/// One publisher's messages at one receiver, as a slice saw them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Track {
    /// The receiver's number among all of the plan.
    pub(crate) receiver: u32,
    /// The publisher's place among those the receiver hears.
    pub(crate) place: u32,
    /// One past the highest sequence that came before the books were closed.
    pub(crate) next: u32,
    /// What is missing below: sorted and apart.
    pub(crate) holes: Vec<(u32, u32)>,
    /// What came for the first time afterwards.
    pub(crate) late: Vec<(u32, u32)>,
}

/// What one slice counted of what it received.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) warm_up: Messages,
    pub(crate) measure: Messages,
    /// Missing, and not remembered one by one.
    pub(crate) written_off: u64,
    /// Anomalies that are not listed.
    pub(crate) unlisted: u64,
}

fn pair_of(range: &Range<u32>) -> (u32, u32) {
    (range.start, range.end)
}

impl Audit {
    /// What came to this slice, of which the books are closed: every pair but those of which all
    /// came in time, which is `totals` by publisher.
    pub(crate) fn tracks(&self, totals: &[u32]) -> Vec<Track> {
        let Some(Closed::Elsewhere(then)) = &self.closed else { return Vec::new() };
        let mut tracks = Vec::new();
        for receiver in &self.receivers {
            let publishers = self.audiences.get(receiver.audience).publishers();
            for (place, &publisher) in publishers.iter().enumerate() {
                let pair = receiver.pairs + place;
                let (next, holes) = then.track(pair);
                let is_same = self.ledger.track(pair) == (next, holes);
                if is_same && holes.is_empty() && next == totals[publisher as usize] {
                    continue;
                }
                let came = self.ledger.arrived(pair, 0).flatten();
                let late = ranges(came.filter(|&sequence| !then.has(pair, sequence)));
                tracks.push(Track {
                    receiver: receiver.number,
                    place: place as u32,
                    next,
                    holes: holes.iter().map(pair_of).collect(),
                    late: late.iter().map(pair_of).collect(),
                });
            }
        }
        tracks
    }

    /// What this slice counted, and the anomalies it saw.
    pub(crate) fn into_counted(self) -> (Counted, Vec<Anomaly>) {
        let written_off = match &self.closed {
            Some(Closed::Elsewhere(then)) => then.written_off(),
            _ => self.ledger.written_off(),
        };
        let Self { warm_up, measure, unlisted, anomalies, .. } = self;
        (Counted { warm_up, measure, written_off, unlisted }, anomalies)
    }
}

/// Ascending numbers as ranges.
fn ranges(numbers: impl Iterator<Item = u32>) -> Vec<Range<u32>> {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end == number => last.end += 1,
            _ => ranges.push(number..number + 1),
        }
    }
    ranges
}

/// The audit of a whole plan, made of what its slices saw.
#[derive(Debug)]
pub(crate) struct Joint {
    audit: Audit,
    /// By slice: its receivers.
    holders: Vec<Vec<u32>>,
    by_number: HashMap<u32, u32, FixedState>,
    totals: Vec<u32>,
    late: Vec<(u32, Range<u32>, usize)>,
}

impl Joint {
    /// `topics` are the publishers' clients and topics in order, `totals` their messages in all,
    /// `slices` those that have something to say.
    pub(crate) fn new(
        plan: &Plan,
        topics: &[(u32, &str)],
        totals: Vec<u32>,
        slices: &[Slice],
    ) -> Self {
        let mut cast = Cast::new(plan, topics.iter().map(|&(_, topic)| topic), slices);
        let mut holders = vec![Vec::new(); slices.len()];
        for (slice, receiver) in std::mem::take(&mut cast.holders) {
            holders[usize::from(slice)].push(receiver);
        }
        let mut audit = Audit::of_cast(cast, plan.run, topics);
        // What is owed to those nobody can speak for is not known.
        for publisher in &mut audit.publishers {
            publisher.unheard = std::mem::take(&mut publisher.receivers);
        }
        for receiver in &audit.receivers {
            for &publisher in audit.audiences.get(receiver.audience).publishers() {
                let publisher = &mut audit.publishers[publisher as usize];
                publisher.unheard -= 1;
                publisher.receivers += u32::from(receiver.is_whole);
            }
        }
        let numbers = audit.receivers.iter().enumerate();
        let by_number = numbers.map(|(at, receiver)| (receiver.number, at as u32)).collect();
        Self { audit, holders, by_number, totals, late: Vec::new() }
    }

    /// The first sequence that is measured.
    pub(crate) fn measure_from(&mut self, publisher: u32, sequence: u32) {
        self.audit.measure_from(publisher, sequence);
    }

    /// Adds what a slice saw.
    ///
    /// # Errors
    /// What no slice of this plan can have seen.
    pub(crate) fn add(
        &mut self,
        slice: usize,
        counted: &Counted,
        tracks: &[Track],
        anomalies: Vec<Anomaly>,
    ) -> Result<(), &'static str> {
        add_received(&mut self.audit.warm_up, &counted.warm_up);
        add_received(&mut self.audit.measure, &counted.measure);
        self.audit.ledger.write_off(counted.written_off);
        self.audit.unlisted += counted.unlisted;
        for anomaly in anomalies {
            if self.audit.anomalies.len() < ANOMALIES_MAX {
                self.audit.anomalies.push(anomaly);
            } else {
                self.audit.unlisted += 1;
            }
        }
        let mut told: HashSet<(u32, u32), FixedState> = HashSet::default();
        for track in tracks {
            let receiver = *self.by_number.get(&track.receiver).ok_or("an unknown receiver")?;
            let (place, next) = (track.place, track.next);
            if !told.insert((receiver, place)) {
                return Err("the same pair twice");
            }
            let holes = ascending(&track.holes, next).ok_or("holes out of order")?;
            let total = self.total_of(receiver, place).ok_or("an unknown publisher")?;
            let late = ascending(&track.late, total).ok_or("sequences out of order")?;
            if next > total {
                return Err("more messages than there are");
            }
            self.merge(receiver, place, next, &holes);
            let pair = self.audit.receivers[receiver as usize].pairs + place as usize;
            self.late.extend(late.into_iter().map(|range| (receiver, range, pair)));
        }
        for receiver in self.holders[slice].clone() {
            let audience = self.audit.receivers[receiver as usize].audience;
            for place in 0..self.audit.audiences.get(audience).publishers().len() as u32 {
                if let Some(total) = self.total_of(receiver, place)
                    && !told.contains(&(receiver, place))
                {
                    self.merge(receiver, place, total, &[]);
                }
            }
        }
        Ok(())
    }

    /// Messages in all of the publisher at this place of the receiver's.
    fn total_of(&self, receiver: u32, place: u32) -> Option<u32> {
        let audience = self.audit.receivers[receiver as usize].audience;
        let publishers = self.audit.audiences.get(audience).publishers();
        publishers.get(place as usize).map(|&publisher| self.totals[publisher as usize])
    }

    /// Merges one pair. What two slices both have came twice.
    fn merge(&mut self, receiver: u32, place: u32, next: u32, holes: &[Range<u32>]) {
        let audit = &mut self.audit;
        let of = &audit.receivers[receiver as usize];
        let publisher = audit.audiences.get(of.audience).publishers()[place as usize];
        let client = of.client;
        let both = audit.ledger.merge(of.pairs + place as usize, next, holes);
        for sequence in both.into_iter().flatten() {
            let messages = audit.messages_of(publisher, sequence);
            messages.delivered -= 1;
            messages.duplicated += 1;
            audit.list(AnomalyKind::Duplicated, client, publisher, sequence);
        }
    }

    /// Closes the books of the whole. `fates` are the publishers', in order.
    pub(crate) fn close(mut self, fates: &[Fate], is_cut_short: bool) -> super::Books {
        self.audit.close(fates.to_vec(), is_cut_short);
        for (receiver, range, pair) in std::mem::take(&mut self.late) {
            let of = &self.audit.receivers[receiver as usize];
            let (client, place) = (of.client, pair - of.pairs);
            let publisher = self.audit.audiences.get(of.audience).publishers()[place];
            for sequence in range {
                let arrival = self.audit.ledger.note(pair, sequence);
                let messages = self.audit.messages_of(publisher, sequence);
                if arrival == Arrival::Again {
                    messages.duplicated += 1;
                    self.audit.list(AnomalyKind::Duplicated, client, publisher, sequence);
                    continue;
                }
                let fate = &fates[publisher as usize];
                if sequence < fate.sent || fate.is_lost {
                    fate.late(sequence, messages);
                } else {
                    messages.received -= 1;
                    self.audit.stray(true);
                }
            }
        }
        self.audit.into_books()
    }
}

/// Sorted ranges, none empty, apart, below `end`; or nothing.
fn ascending(ranges: &[(u32, u32)], end: u32) -> Option<Vec<Range<u32>>> {
    let is_apart = ranges.windows(2).all(|pair| pair[0].1 < pair[1].0);
    let is_below = ranges.iter().all(|&(start, to)| start < to && to <= end);
    (is_apart && is_below).then(|| ranges.iter().map(|&(start, to)| start..to).collect())
}

/// Adds what receiving counts.
fn add_received(sum: &mut Messages, of: &Messages) {
    sum.delivered += of.delivered;
    sum.duplicated += of.duplicated;
    sum.duplicated_with_dup += of.duplicated_with_dup;
    sum.reordered += of.reordered;
    sum.reordered_shared += of.reordered_shared;
    sum.altered.add(&of.altered);
    sum.stray += of.stray;
    sum.stray_own += of.stray_own;
    sum.received += of.received;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::Books;
    use crate::plan::Shared;
    use crate::plan::Subscription;
    use crate::stamp::Stamp;
    use proptest::prelude::*;

    const TOPICS: [(u32, &str); 3] = [(7, "t"), (8, "t"), (9, "u")];
    /// Messages of each publisher in all, and the first that is measured.
    const TOTAL: u32 = 12;
    const FIRST_MEASURED: u32 = 5;

    /// Four who share `t`, three who hear `t`, of which the first hears `u` too, three publishers.
    fn plan() -> Plan {
        let mut plan =
            crate::plan::slice::tests::plan(&[(4, true), (1, false), (2, false), (3, false)]);
        let one = |filter: &str| Subscription::plain(filter, 1);
        plan.groups[1].subscriptions = vec![one("t"), one("u")];
        plan.groups[2].subscriptions = vec![one("t")];
        plan
    }

    fn fresh(plan: &Plan, slices: &[Slice]) -> Audit {
        let mut audit = Audit::new(plan, &TOPICS, slices);
        (0..3).for_each(|publisher| audit.measure_from(publisher, FIRST_MEASURED));
        audit
    }

    #[derive(Clone, Debug)]
    struct Delivery {
        client: u32,
        publisher: u32,
        sequence: u32,
        dup: bool,
    }

    fn receive(audit: &mut Audit, at: u32, of: &Delivery) {
        let Delivery { publisher, sequence, dup, .. } = *of;
        audit.receive(at, Some(Stamp { run: 1, publisher, sequence, intended_us: 0 }), dup);
    }

    /// What came before the books were closed and afterwards, and how the run ended.
    #[derive(Clone, Debug, Default)]
    struct Case {
        early: Vec<Delivery>,
        late: Vec<Delivery>,
        fates: Vec<Fate>,
        is_cut_short: bool,
    }

    fn alone(plan: &Plan, case: &Case) -> Books {
        let Case { early, late, fates, is_cut_short } = case;
        let mut audit = fresh(plan, &[Slice::WHOLE]);
        early.iter().for_each(|delivery| receive(&mut audit, delivery.client, delivery));
        audit.close(fates.clone(), *is_cut_short);
        late.iter().for_each(|delivery| receive(&mut audit, delivery.client, delivery));
        audit.into_books()
    }

    fn joined(plan: &Plan, slices: &[Slice], case: &Case) -> Books {
        let Case { early, late, fates, is_cut_short } = case;
        let mut joint = Joint::new(plan, &TOPICS, vec![TOTAL; 3], slices);
        (0..3).for_each(|publisher| joint.measure_from(publisher, FIRST_MEASURED));
        for (at, slice) in slices.iter().enumerate() {
            let mut audit = fresh(plan, &[*slice]);
            let clients = audit.clients.clone();
            let hear = |audit: &mut Audit, delivery: &Delivery| {
                let own = clients.iter().position(|&client| client == delivery.client);
                own.into_iter().for_each(|own| receive(audit, own as u32, delivery));
            };
            early.iter().for_each(|delivery| hear(&mut audit, delivery));
            audit.close_slice();
            late.iter().for_each(|delivery| hear(&mut audit, delivery));
            let tracks = audit.tracks(&[TOTAL; 3]);
            let (counted, anomalies) = audit.into_counted();
            joint.add(at, &counted, &tracks, anomalies).unwrap();
        }
        joint.close(fates, *is_cut_short)
    }

    fn deliveries() -> impl Strategy<Value = Vec<Delivery>> {
        let one = (0u32..7, 0u32..3, 0u32..TOTAL, any::<bool>()).prop_map(
            |(client, publisher, sequence, dup)| Delivery { client, publisher, sequence, dup },
        );
        prop::collection::vec(one, 0..200)
    }

    fn fates() -> impl Strategy<Value = Vec<Fate>> {
        let of = |parts: Vec<u8>, part: u8| -> Vec<u32> {
            (0..TOTAL).filter(|&sequence| parts[sequence as usize] == part).collect()
        };
        let one = prop::collection::vec(0u8..6, TOTAL as usize).prop_map(move |parts| Fate {
            is_lost: false,
            due: TOTAL,
            sent: TOTAL,
            refused: of(parts.clone(), 0),
            unacknowledged: of(parts, 1),
        });
        prop::collection::vec(one, 3)
    }

    fn courses() -> impl Strategy<Value = Case> {
        let parts = (deliveries(), deliveries(), fates(), any::<bool>());
        parts.prop_map(|(early, late, fates, is_cut_short)| Case {
            early,
            late,
            fates,
            is_cut_short,
        })
    }

    /// The first so many messages of each publisher at each client, in order; of a shared group,
    /// each to one member.
    fn in_order(heard: &[u32]) -> Vec<Delivery> {
        let mut list = Vec::new();
        for publisher in 0..3 {
            for client in 0..7 {
                let heard = heard[(publisher * 7 + client) as usize];
                let own = (0..heard).filter(|sequence| client >= 4 || sequence % 4 == client);
                let one = |sequence| Delivery { client, publisher, sequence, dup: false };
                list.extend(own.map(one));
            }
        }
        list
    }

    proptest! {
        #[test]
        fn slices_together_close_the_books_that_one_process_closes(
            case in courses(), of in 1u32..5,
        ) {
            let plan = plan();
            let one = alone(&plan, &case);
            let slices: Vec<Slice> = (0..of).map(|at| Slice::new(at, of)).collect();
            let many = joined(&plan, &slices, &case);
            prop_assert_eq!(many.warm_up, one.warm_up);
            prop_assert_eq!(many.measure, one.measure);
            let sorted = |mut list: Vec<Anomaly>| {
                list.sort_unstable();
                list
            };
            prop_assert_eq!(sorted(many.anomalies), sorted(one.anomalies));
        }

        #[test]
        fn a_group_whose_members_are_apart_is_joined_too(
            case in courses(), of in 2u32..5,
        ) {
            let plan = plan();
            let one = alone(&plan, &case);
            let dealt = |at| Slice { shared: Shared::Dealt, ..Slice::new(at, of) };
            let slices: Vec<Slice> = (0..of).map(dealt).collect();
            let many = joined(&plan, &slices, &case);
            // Whether the one that came again was out of order, and had DUP, is not known then.
            let known = |of: Messages| {
                let (reordered, reordered_shared, duplicated_with_dup) = (0, 0, 0);
                Messages { reordered, reordered_shared, duplicated_with_dup, ..of }
            };
            prop_assert_eq!(known(many.warm_up), known(one.warm_up));
            prop_assert_eq!(known(many.measure), known(one.measure));
        }
    }

    proptest! {
        #[test]
        fn what_was_under_way_when_a_slice_was_lost_is_unaudited_and_not_lost(
            heard in prop::collection::vec(0u32..=TOTAL, 24), of in 1u32..5, lost in 0u32..5,
        ) {
            let plan = plan();
            let slices: Vec<Slice> = (0..of).map(|at| Slice::new(at, of)).collect();
            let left: Vec<Slice> =
                (0..of).filter(|&at| at != lost).map(|at| slices[at as usize]).collect();
            let fate = |&(client, _): &(u32, &str)| {
                let is_here = left.iter().any(|slice| slice.has(&plan.groups[3], client));
                let sent = if is_here { TOTAL } else { 0 };
                Fate { is_lost: !is_here, due: sent, sent, ..Fate::default() }
            };
            // Some of it comes after the books are closed.
            let mut early = in_order(&heard);
            early.retain(|of| of.publisher < 2 || of.client == 4);
            let is_early = |of: &Delivery| of.sequence < heard[21 + of.publisher as usize];
            let late = early.extract_if(.., |of| !is_early(of)).collect();
            let fates = TOPICS.iter().map(fate).collect();
            let books = joined(&plan, &left, &Case { early, late, fates, is_cut_short: true });
            let mut known = 0;
            for messages in [books.warm_up, books.measure] {
                prop_assert_eq!((messages.lost, messages.stray), (0, 0));
                let came = messages.delivered + messages.late_after_drain;
                prop_assert_eq!(messages.received, came + messages.delivered_unaccepted);
                prop_assert_eq!(messages.expected, messages.delivered);
                known += messages.expected + messages.unaudited;
            }
            prop_assert!(books.anomalies.iter().all(|anomaly| anomaly.kind != AnomalyKind::Lost));
            // The group and three clients hear `t`, one client hears `u`.
            let heard = [4, 4, 1].iter().zip(TOPICS.iter().map(fate));
            let planned: u32 = heard.map(|(receivers, fate)| receivers * fate.sent).sum();
            prop_assert_eq!(known, u64::from(planned));
        }
    }

    #[test]
    fn what_no_slice_can_have_seen_is_refused() {
        let plan = plan();
        let track = Track { receiver: 0, place: 0, next: 3, ..Track::default() };
        for (bad, why) in [
            (Track { receiver: 99, ..track.clone() }, "receiver"),
            (Track { place: 99, ..track.clone() }, "publisher"),
            (Track { next: TOTAL + 1, ..track.clone() }, "more messages"),
            (Track { holes: vec![(1, 2), (2, 3)], ..track.clone() }, "holes"),
            (Track { holes: vec![(2, 4)], ..track.clone() }, "holes"),
            (Track { late: vec![(0, u32::MAX)], ..track.clone() }, "sequences"),
        ] {
            let mut joint = Joint::new(&plan, &TOPICS, vec![TOTAL; 3], &[Slice::WHOLE]);
            let seen = joint.add(0, &Counted::default(), &[bad], Vec::new()).unwrap_err();
            assert!(seen.contains(why), "{seen} is not about {why}");
        }
        let mut joint = Joint::new(&plan, &TOPICS, vec![TOTAL; 3], &[Slice::WHOLE]);
        let twice = [track.clone(), track];
        assert!(joint.add(0, &Counted::default(), &twice, Vec::new()).is_err());
    }
}
