//! Who is owed what: the receivers of a plan, and the clients' parts in them.

use crate::audience::Audiences;
use crate::plan::Slice;
use crate::plan::{Group, Plan};
use crate::template::expand;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use weir_wire::topic::TopicFilter;

/// One who is owed messages: a subscriber, or a shared group as a whole.
#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) audience: u32,
    /// The first of its pairs in the ledger.
    pub(crate) pairs: usize,
    /// Client of the plan that stands for it in anomalies.
    pub(crate) client: u32,
    /// Its number among all receivers of the plan.
    pub(crate) number: u32,
    /// Whether no member of it is elsewhere.
    pub(crate) is_whole: bool,
    /// Whether it is a shared group.
    pub(crate) is_shared: bool,
}

/// One client's part in a receiver.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) receiver: u32,
    /// For a member of a shared group: one past the highest sequence it got, by publisher.
    pub(crate) own_next: Option<Box<[u32]>>,
}

/// A shared group, by its whole filter.
#[derive(Debug)]
struct SharedGroup {
    number: u32,
    audience: u32,
    client: u32,
    /// Its place among the receivers here, if a member is here.
    receiver: Option<u32>,
    has_foreign: bool,
    /// Slices with a member.
    slices: Vec<u16>,
}

/// The receivers that have a member in the slices asked for, and their clients' parts.
#[derive(Debug)]
pub(crate) struct Cast {
    pub(crate) audiences: Audiences,
    pub(crate) receivers: Vec<Receiver>,
    /// By client, of those in the slices: its parts, usually one.
    pub(crate) parts: Vec<Vec<Part>>,
    /// Index of each of these clients among all of the plan.
    pub(crate) clients: Vec<u32>,
    pub(crate) pairs: usize,
    /// Receivers by the slices that have a member of them.
    pub(crate) holders: Vec<(u16, u32)>,
    /// By audience: the receivers of the whole plan that have it.
    counts: Vec<u32>,
    groups: HashMap<Box<str>, SharedGroup, FixedState>,
    /// Receivers numbered so far.
    numbered: u32,
}

impl Cast {
    /// `topics` are the publishers', in order.
    pub(crate) fn new<'a>(
        plan: &Plan,
        topics: impl Iterator<Item = &'a str>,
        own: &[Slice],
    ) -> Self {
        let mut cast = Self {
            audiences: Audiences::new(topics),
            receivers: Vec::new(),
            parts: Vec::new(),
            clients: Vec::new(),
            pairs: 0,
            holders: Vec::new(),
            counts: Vec::new(),
            groups: HashMap::default(),
            numbered: 0,
        };
        let mut client = 0;
        for group in &plan.groups {
            for index in 0..group.clients {
                let slice = own.iter().position(|slice| slice.has(group, client));
                let slice = slice.map(|at| at as u16);
                cast.add_client(group, client, (index, plan.run), slice);
                client += 1;
            }
        }
        for group in cast.groups.values().filter(|group| group.has_foreign) {
            if let Some(receiver) = group.receiver {
                cast.receivers[receiver as usize].is_whole = false;
            }
        }
        cast
    }

    /// By publisher: receivers of the whole plan that are owed its messages.
    pub(crate) fn heard(&self, publishers: usize) -> Vec<u32> {
        let mut heard = vec![0; publishers];
        for (audience, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            for &publisher in self.audiences.get(audience as u32).publishers() {
                heard[publisher as usize] += count;
            }
        }
        heard
    }

    /// All plain filters of a client make one receiver: where they overlap, one delivery is owed,
    /// as MQTT allows a broker, and a second one counts as a duplicate.
    fn add_client(
        &mut self,
        group: &Group,
        client: u32,
        (index, run): (u32, u16),
        slice: Option<u16>,
    ) {
        let mut own = Vec::new();
        let mut plain = Vec::new();
        for subscription in &group.subscriptions {
            let text = expand(&subscription.filter, index, run);
            // Checked before: a plan with an invalid filter does not run.
            let Some(filter) = TopicFilter::parse(&text) else { continue };
            if filter.group.is_none() {
                plain.push(self.audiences.of(filter));
                continue;
            }
            let receiver = self.shared(&text, filter, client, slice);
            if let Some(receiver) = receiver.filter(|_| slice.is_some()) {
                let audience = self.receivers[receiver as usize].audience;
                let publishers = self.audiences.get(audience).publishers().len();
                let own_next = Some(vec![0; publishers].into_boxed_slice());
                own.push(Part { receiver, own_next });
            }
        }
        if let Some(audience) = self.audiences.union(plain) {
            let number = self.number(audience);
            if let Some(slice) = slice {
                let receiver = self.add_receiver(audience, client, number, false);
                self.holders.push((slice, receiver));
                own.push(Part { receiver, own_next: None });
            }
        }
        if slice.is_some() {
            self.parts.push(own);
            self.clients.push(client);
        }
    }

    /// The receiver of a shared group, if it has a member here.
    fn shared(
        &mut self,
        text: &str,
        filter: TopicFilter<'_>,
        client: u32,
        slice: Option<u16>,
    ) -> Option<u32> {
        if !self.groups.contains_key(text) {
            let audience = self.audiences.of(filter);
            let number = self.number(audience);
            let (receiver, slices) = (None, Vec::new());
            let group =
                SharedGroup { number, audience, client, receiver, has_foreign: false, slices };
            self.groups.insert(text.into(), group);
        }
        let group = self.groups.get(text)?;
        let (audience, first, number) = (group.audience, group.client, group.number);
        let known = group.receiver;
        let receiver = match (known, slice) {
            (None, Some(_)) => Some(self.add_receiver(audience, first, number, true)),
            _ => known,
        };
        let group = self.groups.get_mut(text)?;
        group.receiver = receiver;
        match slice {
            None => group.has_foreign = true,
            Some(slice) if !group.slices.contains(&slice) => {
                group.slices.push(slice);
                self.holders.extend(receiver.map(|receiver| (slice, receiver)));
            }
            Some(_) => {}
        }
        receiver
    }

    fn number(&mut self, audience: u32) -> u32 {
        let at = audience as usize;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
        self.numbered += 1;
        self.numbered - 1
    }

    fn add_receiver(&mut self, audience: u32, client: u32, number: u32, is_shared: bool) -> u32 {
        let (pairs, is_whole) = (self.pairs, true);
        self.receivers.push(Receiver { audience, pairs, client, number, is_whole, is_shared });
        self.pairs += self.audiences.get(audience).publishers().len();
        self.receivers.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::slice::tests::plan;

    /// Receivers and pairs of a plan in slices: each receiver is numbered the same everywhere.
    #[test]
    fn every_slice_numbers_receivers_alike() {
        let mut plan = plan(&[(5, true), (7, false)]);
        plan.groups[1].subscriptions = vec![crate::plan::Subscription::plain("t", 0)];
        let topics = || ["t", "u"].into_iter();
        let whole = Cast::new(&plan, topics(), &[Slice::WHOLE]);
        assert_eq!((whole.receivers.len(), whole.pairs), (8, 8));
        assert_eq!(whole.heard(2), [8, 0]);
        let mut numbers = Vec::new();
        for at in 0..3 {
            let cast = Cast::new(&plan, topics(), &[Slice::new(at, 3)]);
            assert_eq!(cast.heard(2), [8, 0]);
            for receiver in &cast.receivers {
                let same = &whole.receivers[receiver.number as usize];
                assert_eq!((same.number, same.client), (receiver.number, receiver.client));
                assert!(receiver.is_whole);
                numbers.push(receiver.number);
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7]);
        let apart = Slice { shared: crate::Shared::Dealt, ..Slice::new(0, 3) };
        let cast = Cast::new(&plan, topics(), &[apart]);
        assert!(!cast.receivers[0].is_whole, "other members are elsewhere");
    }
}
