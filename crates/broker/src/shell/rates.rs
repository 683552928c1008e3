//! How fast connections may send, where that is bounded, each by itself and those of an address
//! together: one that sends faster is not read for a while. What is not read stays with the system
//! and its sender.

use super::{Guard, Shell};
use crate::admission::{Budget, ProcessLimits, open};
use foldhash::fast::RandomState;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use weir_core::{ConnKey, Limits, Micros};
use weir_reactor::{Io, Token};

const SECOND: Micros = Micros(1_000_000);

/// Messages and bytes per second; 0 is any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PerSecond([u32; 2]);

impl PerSecond {
    fn is_bounded(self) -> bool {
        self.0 != [0; 2]
    }

    /// How long it takes to send so much.
    fn costs(self, sent: [u64; 2]) -> [Micros; 2] {
        let cost = |at: usize| {
            let us = sent[at].saturating_mul(SECOND.0).checked_div(self.0[at].into());
            Micros(us.unwrap_or(0))
        };
        [cost(0), cost(1)]
    }
}

/// The rates of a shard's connections.
#[derive(Debug)]
pub(crate) struct Rates {
    of_connection: PerSecond,
    of_address: PerSecond,
    by: HashMap<u32, Sender, RandomState>,
    paused: HashMap<u32, Micros, RandomState>,
    /// The same, by time.
    due: BTreeSet<(Micros, u32)>,
    /// How often a connection was not read for its rate.
    pub(super) pauses: u64,
}

/// A connection that has sent something.
#[derive(Debug)]
struct Sender {
    /// When it would have sent what it has at the rates that it may.
    paid_at: [Micros; 2],
    /// Of its address, if that has rates.
    budget: Option<Arc<Budget>>,
}

impl Rates {
    /// Nothing if no rate is bounded.
    pub(crate) fn new(limits: &Limits, process: &ProcessLimits) -> Option<Box<Self>> {
        let of_connection =
            PerSecond([limits.messages_per_second_max, limits.bytes_per_second_max]);
        let of_address = PerSecond([
            process.messages_per_second_per_address_max,
            process.bytes_per_second_per_address_max,
        ]);
        let (by, paused, due) = (HashMap::default(), HashMap::default(), BTreeSet::new());
        let rates = Self { of_connection, of_address, by, paused, due, pauses: 0 };
        (of_connection.is_bounded() || of_address.is_bounded()).then(|| Box::new(rates))
    }

    /// Has connections go by other rates from now on. Returns those that waited and may be read
    /// again, which go by them when they have sent more.
    pub(super) fn change(
        rates: &mut Option<Box<Self>>,
        limits: &Limits,
        process: &ProcessLimits,
    ) -> Vec<Token> {
        let new = Self::new(limits, process);
        let bounds = |rates: &Self| (rates.of_connection, rates.of_address);
        if rates.as_deref().map(bounds) == new.as_deref().map(bounds) {
            return Vec::new();
        }
        let old = std::mem::replace(rates, new);
        let pauses = old.as_ref().map_or(0, |old| old.pauses);
        if let Some(rates) = rates {
            rates.pauses = pauses;
        }
        old.iter().flat_map(|old| old.paused.keys().copied().map(Token)).collect()
    }

    /// The connection is over.
    pub(super) fn forget(&mut self, token: u32) {
        self.by.remove(&token);
        if let Some(until) = self.paused.remove(&token) {
            self.due.remove(&(until, token));
        }
    }

    fn is_paused(&self, token: u32) -> bool {
        self.paused.contains_key(&token)
    }

    /// The connection has sent so many messages and bytes; `budget` knows that of its address. Says
    /// whether it may send no more for now.
    fn took(
        &mut self,
        token: u32,
        sent: [u64; 2],
        now: Micros,
        budget: impl FnOnce() -> Option<Arc<Budget>>,
    ) -> bool {
        let Self { of_connection, of_address, by, .. } = self;
        let sender = match by.entry(token) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let budget = of_address.is_bounded().then(budget).flatten();
                entry.insert(Sender { paid_at: [Micros(0); 2], budget })
            }
        };
        for (paid_at, cost) in sender.paid_at.iter_mut().zip(of_connection.costs(sent)) {
            *paid_at = (*paid_at).max(now) + cost;
        }
        let together = sender.budget.as_ref().map(|it| it.pay(of_address.costs(sent), now));
        let all = sender.paid_at.into_iter().chain(together.into_iter().flatten());
        // A second's worth may come at once.
        let until = all.map(|paid_at| Micros(paid_at.0.saturating_sub(SECOND.0))).max();
        let Some(until) = until.filter(|until| *until > now) else { return false };
        self.pauses += 1;
        self.paused.insert(token, until);
        self.due.insert((until, token));
        true
    }

    /// When the next one may send again.
    pub(super) fn next(&self) -> Option<Micros> {
        self.due.first().map(|&(at, _)| at)
    }

    /// One that may send again by now.
    pub(super) fn take_due(&mut self, now: Micros) -> Option<Token> {
        let &(_, token) = self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.pop_first();
        self.paused.remove(&token);
        Some(Token(token))
    }
}

impl Guard {
    pub(super) fn rate_pauses(&self) -> u64 {
        self.rates.as_ref().map_or(0, |rates| rates.pauses)
    }

    pub(super) fn forget_rate(&mut self, token: u32) {
        if let Some(rates) = &mut self.rates {
            rates.forget(token);
        }
    }
}

impl Shell {
    /// Takes what came, unless its connection has to wait. Says how many bytes are consumed.
    #[cold]
    pub(super) fn received_at_a_rate(&mut self, io: &mut Io, token: Token, bytes: &[u8]) -> usize {
        let is_paused = |rates: &Rates| rates.is_paused(token.0);
        if self.guard.rates.as_deref().is_some_and(is_paused) {
            // Somebody else has had it read.
            io.pause(token);
            return 0;
        }
        let before = self.shard.publishes_in();
        let consumed = self.received_at_once(io, token, bytes);
        let messages = self.shard.publishes_in() - before;
        let (now, place) = (Micros(io.now_us()), self.guard.place(token.0));
        let Guard { rates, admission, .. } = &mut self.guard;
        if let Some(rates) = rates
            && self.shard.is_live(ConnKey(token.0))
            && rates.took(token.0, [messages, consumed as u64], now, || {
                open(admission).budget(place, now)
            })
        {
            io.pause(token);
        }
        consumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(messages: u32, bytes: u32) -> Box<Rates> {
        let limits = Limits {
            messages_per_second_max: messages,
            bytes_per_second_max: bytes,
            ..Limits::default()
        };
        Rates::new(&limits, &ProcessLimits::default()).unwrap()
    }

    fn took(rates: &mut Rates, token: u32, messages: u64, bytes: u64, now: Micros) -> bool {
        rates.took(token, [messages, bytes], now, || panic!("no rate of an address is bounded"))
    }

    /// Connections of one address on two shards, each of which is read whenever it may be.
    #[test]
    fn the_connections_of_an_address_share_its_rate_over_all_shards() {
        let process =
            ProcessLimits { bytes_per_second_per_address_max: 1_000, ..Default::default() };
        let budget = Arc::<Budget>::default();
        let new = || Rates::new(&Limits::default(), &process).unwrap();
        let mut shards = [new(), new()];
        let mut bytes = 0;
        let mut sends = |rates: &mut Rates, token, now| {
            bytes += 300;
            rates.took(token, [7, 300], now, || Some(Arc::clone(&budget)))
        };
        for rates in &mut shards {
            (0..3).for_each(|token| while !sends(rates, token, SECOND) {});
        }
        while let Some(now) = shards.iter().filter_map(|rates| rates.next()).min()
            && now < Micros(61_000_000)
        {
            for rates in &mut shards {
                while let Some(Token(token)) = rates.take_due(now) {
                    while !sends(rates, token, now) {}
                }
            }
        }
        // A minute's worth, a second's at the start, and one read of each connection.
        assert!((59_000..=61_000 + 6 * 300).contains(&bytes), "{bytes}");
        // Another address has its own.
        assert!(!shards[0].took(9, [0, 1_000], SECOND, || Some(Arc::default())));
    }

    #[test]
    fn a_second_s_worth_comes_at_once_and_more_waits_for_its_time() {
        let mut rates = rates(100, 0);
        let start = SECOND;
        assert!(!took(&mut rates, 1, 100, 1 << 40, start));
        assert!(took(&mut rates, 1, 50, 0, start));
        assert!(!took(&mut rates, 2, 100, 0, start), "each by itself");
        assert_eq!(rates.next(), Some(start + Micros(500_000)));
        assert!(rates.is_paused(1) && rates.take_due(start).is_none());
        assert_eq!(rates.take_due(start + Micros(500_000)), Some(Token(1)));
        assert!(!rates.is_paused(1) && rates.next().is_none());
        assert_eq!(rates.pauses, 1);
    }

    /// However it comes, no more comes in a time than the rate, and a second's worth.
    #[test]
    fn the_rate_holds_over_time() {
        let mut rates = rates(0, 1_000);
        let (mut now, mut bytes) = (SECOND, 0);
        while now < Micros(61_000_000) {
            bytes += 700;
            if took(&mut rates, 1, 0, 700, now) {
                now = rates.next().unwrap();
                rates.take_due(now);
            }
        }
        assert!((60_000..=62_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn whoever_waited_is_read_again_by_other_rates() {
        let limits = |max| Limits { messages_per_second_max: max, ..Limits::default() };
        let process = ProcessLimits::default();
        let mut rates = Rates::new(&limits(1), &process);
        let waits = |rates: &mut Option<Box<Rates>>| {
            rates.as_mut().is_some_and(|rates| took(rates, 7, 5, 0, SECOND))
        };
        assert!(waits(&mut rates));
        assert_eq!(Rates::change(&mut rates, &limits(1), &process), []);
        assert_eq!(Rates::change(&mut rates, &limits(100), &process), [Token(7)]);
        assert!(!waits(&mut rates) && rates.as_ref().unwrap().pauses == 1);
        assert_eq!(Rates::change(&mut rates, &limits(0), &process), []);
        assert!(rates.is_none());
        assert_eq!(Rates::change(&mut rates, &limits(0), &process), []);
    }

    #[test]
    fn who_is_gone_is_not_read_again() {
        let mut rates = rates(1, 1);
        assert!(took(&mut rates, 7, 5, 5, SECOND));
        rates.forget(7);
        assert!(rates.next().is_none() && rates.by.is_empty() && !rates.is_paused(7));
        assert!(Rates::new(&Limits::default(), &ProcessLimits::default()).is_none());
    }
}
