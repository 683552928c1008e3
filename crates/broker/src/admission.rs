//! Who may come in at all: bounds of the whole process, checked once per connection.

use foldhash::fast::RandomState;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use weir_core::Micros;
use weir_wire::ReasonCode;

/// Connections that are open only to be told why they are refused. More are cut at once.
const REFUSALS_MAX: u32 = 1024;

/// The `[process]` table. 0 is "no bound" where nothing else is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessLimits {
    /// Connections at a time.
    ///
    /// More: CONNACK 0x97 (return code 3 before 5.0).
    pub connections_max: u32,
    /// Connections at a time from one address. 0 is no bound.
    ///
    /// More: the same refusal.
    pub connections_per_address_max: u32,
    /// Connections accepted per second, on average. 0 is no bound.
    ///
    /// A burst of one second's is let through. More: CONNACK 0x9F (return code 3 before 5.0).
    pub connects_per_second_max: u32,
    /// Resident memory of the process. 0 is three quarters of the host's.
    ///
    /// Near it nothing is taken that has to be kept: new sessions, retained messages, messages that
    /// would wait for a subscriber, subscriptions: 0x97. At it, connections are cut at accept.
    pub memory_bytes_max: u64,
}

impl Default for ProcessLimits {
    fn default() -> Self {
        Self {
            connections_max: 1_000_000,
            connections_per_address_max: 0,
            connects_per_second_max: 0,
            memory_bytes_max: 0,
        }
    }
}

/// What to do with a connection just accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Serve,
    /// Its CONNECT is answered with this reason.
    Refuse(ReasonCode),
    /// There is no room even to say why.
    Cut,
}

/// What admission control counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AdmissionStats {
    pub(crate) refused_count: u64,
    pub(crate) refused_address: u64,
    pub(crate) refused_rate: u64,
    pub(crate) cut: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Served,
    Refused,
}

/// Where a connection is: its shard and the shell's token there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) shard: u16,
    pub(crate) token: u32,
}

/// A connection between two places.
#[derive(Debug)]
pub(crate) struct Pass {
    held: Held,
    address: Option<IpAddr>,
}

/// Entries for which a table or list keeps its memory.
const KEPT: usize = 1024;

/// Whether so little of its memory is used that half of the rest may go: seldom, so that it costs
/// no more than the removals before it.
fn is_roomy(len: usize, capacity: usize) -> bool {
    capacity > KEPT && len < capacity / 4
}

fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V, RandomState>) {
    if is_roomy(table.len(), table.capacity()) {
        table.shrink_to(table.len() * 2);
    }
}

/// The connections of one process. Shards share it behind a lock, taken when a connection begins,
/// moves or ends.
#[derive(Debug)]
pub(crate) struct AdmissionControl {
    limits: ProcessLimits,
    /// By shard, then token.
    held: Vec<Vec<Option<Held>>>,
    served: u32,
    refused: u32,
    /// Kept only where addresses are bounded.
    addresses: HashMap<Place, IpAddr, RandomState>,
    per_address: HashMap<IpAddr, u32, RandomState>,
    /// Connects allowed now, in millionths.
    tokens: u64,
    filled_at: Micros,
    pub(crate) stats: AdmissionStats,
}

const ONE: u64 = 1_000_000;

impl AdmissionControl {
    pub(crate) fn new(limits: ProcessLimits) -> Self {
        Self {
            tokens: u64::from(limits.connects_per_second_max) * ONE,
            limits,
            held: Vec::new(),
            served: 0,
            refused: 0,
            addresses: HashMap::default(),
            per_address: HashMap::default(),
            filled_at: Micros(0),
            stats: AdmissionStats::default(),
        }
    }

    /// Decides, and holds the connection until [`AdmissionControl::gone`]. A cut one is not held.
    pub(crate) fn admit(
        &mut self,
        place: Place,
        peer: IpAddr,
        is_memory_full: bool,
        now: Micros,
    ) -> Admission {
        let reason = match () {
            () if is_memory_full => return self.cut(),
            () if self.served >= self.limits.connections_max => {
                self.stats.refused_count += 1;
                ReasonCode::QuotaExceeded
            }
            () if self.is_address_full(peer) => {
                self.stats.refused_address += 1;
                ReasonCode::QuotaExceeded
            }
            () if !self.take_token(now) => {
                self.stats.refused_rate += 1;
                ReasonCode::ConnectionRateExceeded
            }
            () => {
                self.hold(place, Held::Served);
                self.served += 1;
                if self.limits.connections_per_address_max > 0 {
                    self.addresses.insert(place, peer);
                    *self.per_address.entry(peer).or_default() += 1;
                }
                return Admission::Serve;
            }
        };
        if self.refused >= REFUSALS_MAX {
            return self.cut();
        }
        self.hold(place, Held::Refused);
        self.refused += 1;
        Admission::Refuse(reason)
    }

    /// The connection is over. Harmless for one that is not held.
    pub(crate) fn gone(&mut self, place: Place) {
        if let Some(pass) = self.leave(place) {
            self.lost(&pass);
        }
    }

    /// The connection ended after it left its place.
    pub(crate) fn lost(&mut self, pass: &Pass) {
        match pass.held {
            Held::Refused => self.refused -= 1,
            Held::Served => self.served -= 1,
        }
        if let Some(address) = pass.address
            && let Some(count) = self.per_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.per_address.remove(&address);
                shrink(&mut self.per_address);
            }
        }
    }

    /// The connection leaves its place, which another may have at once, and is still counted:
    /// until [`AdmissionControl::arrive`] or [`AdmissionControl::lost`].
    pub(crate) fn leave(&mut self, from: Place) -> Option<Pass> {
        let held = self.take(from)?;
        let address = self.addresses.remove(&from);
        if address.is_some() {
            shrink(&mut self.addresses);
        }
        Some(Pass { held, address })
    }

    /// The connection has another place now.
    pub(crate) fn arrive(&mut self, to: Place, pass: &Pass) {
        self.hold(to, pass.held);
        if let Some(address) = pass.address {
            self.addresses.insert(to, address);
        }
    }

    fn take(&mut self, place: Place) -> Option<Held> {
        let held_there = self.held.get_mut(usize::from(place.shard))?;
        let held = held_there.get_mut(place.token as usize)?.take();
        while held_there.pop_if(|last| last.is_none()).is_some() {}
        if is_roomy(held_there.len(), held_there.capacity()) {
            held_there.shrink_to(held_there.len() * 2);
        }
        held
    }

    fn cut(&mut self) -> Admission {
        self.stats.cut += 1;
        Admission::Cut
    }

    fn hold(&mut self, place: Place, held: Held) {
        let (shard, at) = (usize::from(place.shard), place.token as usize);
        if self.held.len() <= shard {
            self.held.resize_with(shard + 1, Vec::new);
        }
        let held_there = &mut self.held[shard];
        if held_there.len() <= at {
            held_there.resize(at + 1, None);
        }
        held_there[at] = Some(held);
    }

    fn is_address_full(&self, peer: IpAddr) -> bool {
        let count_max = self.limits.connections_per_address_max;
        count_max > 0 && self.per_address.get(&peer).is_some_and(|&count| count >= count_max)
    }

    /// A token bucket that holds one second's connects.
    fn take_token(&mut self, now: Micros) -> bool {
        let rate = u64::from(self.limits.connects_per_second_max);
        if rate == 0 {
            return true;
        }
        let passed_us = now.0.saturating_sub(self.filled_at.0).min(ONE);
        self.tokens = (self.tokens + passed_us * rate).min(rate * ONE);
        self.filled_at = now;
        let has_one = self.tokens >= ONE;
        self.tokens -= if has_one { ONE } else { 0 };
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));
    const FULL: Admission = Admission::Refuse(ReasonCode::QuotaExceeded);

    fn at(token: u32) -> Place {
        Place { shard: 0, token }
    }

    fn admission(connections: u32, per_address: u32, per_second: u32) -> AdmissionControl {
        AdmissionControl::new(ProcessLimits {
            connections_max: connections,
            connections_per_address_max: per_address,
            connects_per_second_max: per_second,
            memory_bytes_max: 0,
        })
    }

    #[test]
    fn a_place_that_was_given_up_is_given_again() {
        let mut admission = admission(2, 0, 0);
        let now = Micros(0);
        assert_eq!(admission.admit(at(0), A, false, now), Admission::Serve);
        assert_eq!(admission.admit(at(1), A, false, now), Admission::Serve);
        assert_eq!(admission.admit(at(2), A, false, now), FULL);
        admission.gone(at(0));
        admission.gone(at(2));
        admission.gone(at(2));
        assert_eq!(admission.admit(at(0), A, false, now), Admission::Serve);
        assert_eq!(admission.stats.refused_count, 1);
    }

    #[test]
    fn who_moves_keeps_the_place_among_all() {
        let mut admission = admission(1, 1, 0);
        assert_eq!(admission.admit(at(0), A, false, Micros(0)), Admission::Serve);
        let there = Place { shard: 3, token: 9 };
        let pass = admission.leave(at(0)).unwrap();
        // Counted on its way; its place may be another's already.
        assert_eq!(admission.admit(at(0), B, false, Micros(0)), FULL);
        admission.arrive(there, &pass);
        admission.gone(at(0));
        assert_eq!(admission.admit(at(0), B, false, Micros(0)), FULL);
        admission.gone(at(0));
        admission.gone(there);
        assert_eq!(admission.admit(at(0), A, false, Micros(0)), Admission::Serve);
        let pass = admission.leave(at(0)).unwrap();
        admission.lost(&pass);
        assert_eq!(admission.admit(at(1), A, false, Micros(0)), Admission::Serve);
    }

    #[test]
    fn one_address_does_not_take_the_place_of_another() {
        let mut admission = admission(10, 1, 0);
        let now = Micros(0);
        assert_eq!(admission.admit(at(0), A, false, now), Admission::Serve);
        assert_eq!(admission.admit(at(1), A, false, now), FULL);
        assert_eq!(admission.admit(at(2), B, false, now), Admission::Serve);
        admission.gone(at(0));
        assert_eq!(admission.admit(at(3), A, false, now), Admission::Serve);
        assert_eq!(admission.per_address.len(), 2);
        assert_eq!(admission.stats.refused_address, 1);
    }

    #[test]
    fn after_a_storm_its_memory_is_back() {
        let mut admission = admission(1_000_000, 1_000_000, 0);
        let address = |token: u32| IpAddr::from(token.to_be_bytes());
        for token in 0..100_000 {
            assert_eq!(
                admission.admit(at(token), address(token), false, Micros(0)),
                Admission::Serve
            );
        }
        for token in (1..100_000).rev().step_by(2) {
            admission.gone(at(token));
        }
        for token in (2..100_000).step_by(2) {
            admission.gone(at(token));
        }
        assert_eq!(admission.served, 1);
        let kept = [
            admission.held[0].capacity(),
            admission.addresses.capacity(),
            admission.per_address.capacity(),
        ];
        assert!(kept.iter().all(|&kept| kept < 4 * KEPT), "{kept:?}");
    }

    #[test]
    fn connects_come_at_the_rate_after_the_first_burst() {
        let mut admission = admission(1000, 0, 10);
        let served = |admission: &mut AdmissionControl, now: Micros| {
            (0..100)
                .filter(|&token| admission.admit(at(token), A, false, now) == Admission::Serve)
                .count()
        };
        assert_eq!(served(&mut admission, Micros(5_000_000)), 10);
        assert_eq!(served(&mut admission, Micros(5_000_000)), 0);
        assert_eq!(served(&mut admission, Micros(5_500_000)), 5);
        assert_eq!(
            admission.admit(at(0), A, false, Micros(5_500_000)),
            Admission::Refuse(ReasonCode::ConnectionRateExceeded)
        );
    }

    #[test]
    fn without_memory_or_room_to_answer_a_connection_is_cut() {
        let mut admission = admission(1, 0, 0);
        assert_eq!(admission.admit(at(0), A, true, Micros(0)), Admission::Cut);
        assert_eq!(admission.admit(at(0), A, false, Micros(0)), Admission::Serve);
        for token in 1..=REFUSALS_MAX {
            assert_eq!(admission.admit(at(token), A, false, Micros(0)), FULL);
        }
        assert_eq!(admission.admit(at(REFUSALS_MAX + 1), A, false, Micros(0)), Admission::Cut);
        assert_eq!(admission.stats.cut, 2);
    }
}
