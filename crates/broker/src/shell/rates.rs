//! How fast connections may send, where that is bounded: one that sends faster is not read for a
//! while. What is not read stays with the system and its sender.

use super::Shell;
use foldhash::fast::RandomState;
use std::collections::{BTreeSet, HashMap};
use weir_core::{ConnKey, Limits, Micros};
use weir_reactor::{Io, Token};

const SECOND: Micros = Micros(1_000_000);

/// The rates of a shard's connections.
#[derive(Debug)]
pub(crate) struct Rates {
    messages_max: u64,
    bytes_max: u64,
    /// By token: when each would have sent what it has at the rate that it may.
    paid_at: HashMap<u32, [Micros; 2], RandomState>,
    paused: HashMap<u32, Micros, RandomState>,
    /// The same, by time.
    due: BTreeSet<(Micros, u32)>,
    /// How often a connection was not read for its rate.
    pub(super) pauses: u64,
}

impl Rates {
    /// Nothing if no rate is bounded.
    pub(crate) fn new(limits: &Limits) -> Option<Box<Self>> {
        let messages_max = u64::from(limits.messages_per_second_max);
        let bytes_max = u64::from(limits.bytes_per_second_max);
        let (paid_at, paused, due) = (HashMap::default(), HashMap::default(), BTreeSet::new());
        let rates = Self { messages_max, bytes_max, paid_at, paused, due, pauses: 0 };
        (messages_max + bytes_max > 0).then(|| Box::new(rates))
    }

    /// The connection is over.
    pub(super) fn forget(&mut self, token: u32) {
        self.paid_at.remove(&token);
        if let Some(until) = self.paused.remove(&token) {
            self.due.remove(&(until, token));
        }
    }

    fn is_paused(&self, token: u32) -> bool {
        self.paused.contains_key(&token)
    }

    /// The connection has sent that. Says whether it may send no more for now.
    fn took(&mut self, token: u32, messages: u64, bytes: u64, now: Micros) -> bool {
        let taken = [(messages, self.messages_max), (bytes, self.bytes_max)];
        let mut until = now;
        for (paid_at, (taken, max)) in self.paid_at.entry(token).or_default().iter_mut().zip(taken)
        {
            let Some(cost_us) = taken.saturating_mul(SECOND.0).checked_div(max) else { continue };
            *paid_at = (*paid_at).max(now) + Micros(cost_us);
            // A second's worth may come at once.
            until = until.max(Micros(paid_at.0.saturating_sub(SECOND.0)));
        }
        if until <= now {
            return false;
        }
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
        if let Some(rates) = &mut self.guard.rates
            && self.shard.is_live(ConnKey(token.0))
            && rates.took(token.0, messages, consumed as u64, Micros(io.now_us()))
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
        Rates::new(&limits).unwrap()
    }

    #[test]
    fn a_second_s_worth_comes_at_once_and_more_waits_for_its_time() {
        let mut rates = rates(100, 0);
        let start = SECOND;
        assert!(!rates.took(1, 100, 1 << 40, start));
        assert!(rates.took(1, 50, 0, start));
        assert!(!rates.took(2, 100, 0, start), "each by itself");
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
            if rates.took(1, 0, 700, now) {
                now = rates.next().unwrap();
                rates.take_due(now);
            }
        }
        assert!((60_000..=62_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn who_is_gone_is_not_read_again() {
        let mut rates = rates(1, 1);
        assert!(rates.took(7, 5, 5, SECOND));
        rates.forget(7);
        assert!(rates.next().is_none() && rates.paid_at.is_empty() && !rates.is_paused(7));
        assert!(Rates::new(&Limits::default()).is_none());
    }
}
