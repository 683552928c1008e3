//! What all connections of a host may send together. The shards that have them share one value for
//! each host, without a lock.

use crate::shrink::KEPT;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_core::Micros;

/// When a host would have sent its messages and its bytes, at the rates that it may.
#[derive(Debug, Default)]
pub(crate) struct Budget([AtomicU64; 2]);

impl Budget {
    /// The host has sent what takes so long at its rates. Returns when each of them is paid.
    pub(crate) fn pay(&self, costs: [Micros; 2], now: Micros) -> [Micros; 2] {
        let pay = |(at, cost)| self.pay_one(at, cost, now);
        [(0, costs[0]), (1, costs[1])].map(pay)
    }

    fn pay_one(&self, at: usize, Micros(cost_us): Micros, Micros(now_us): Micros) -> Micros {
        let add = |paid_at: u64| paid_at.max(now_us).saturating_add(cost_us);
        // Nothing else is read by what it says.
        let before =
            self.0[at].fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| Some(add(it)));
        Micros(before.map_or(0, add))
    }

    fn is_paid(&self, now: Micros) -> bool {
        self.0.iter().all(|paid_at| paid_at.load(Ordering::Relaxed) <= now.0)
    }
}

/// Those of all hosts that have sent something of late.
#[derive(Debug)]
pub(super) struct Budgets {
    of: HashMap<IpAddr, Arc<Budget>, RandomState>,
    /// Those that nobody needs any more are sought when there are so many.
    sweep_at: usize,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { of: HashMap::default(), sweep_at: KEPT }
    }
}

impl Budgets {
    /// The host's. It stays until what it has sent is paid, so that nobody begins anew by a new
    /// connection.
    pub(super) fn of(&mut self, host: IpAddr, now: Micros) -> Arc<Budget> {
        if self.of.len() >= self.sweep_at {
            self.of.retain(|_, budget| Arc::strong_count(budget) > 1 || !budget.is_paid(now));
            self.sweep_at = KEPT.max(2 * self.of.len());
            self.of.shrink_to(self.sweep_at);
        }
        Arc::clone(self.of.entry(host).or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn a_budget_stays_while_somebody_has_it_or_it_is_not_paid() {
        let mut budgets = Budgets::default();
        let now = Micros(1_000);
        let held = budgets.of(host(1), now);
        budgets.of(host(2), now).pay([Micros(500), Micros(0)], now);
        (3..2 * KEPT as u32).for_each(|number| drop(budgets.of(host(number), now)));
        assert!(budgets.of.len() <= KEPT);
        assert!(Arc::ptr_eq(&budgets.of(host(1), now), &held));
        assert_eq!(budgets.of(host(2), now).pay([Micros(1), Micros(0)], now)[0], Micros(1_501));
        (3..4 * KEPT as u32).for_each(|number| drop(budgets.of(host(number), Micros(2_000))));
        assert_eq!(budgets.of(host(2), now).pay([Micros(1), Micros(0)], now)[0], Micros(1_001));
    }

    #[test]
    fn threads_that_pay_at_once_pay_all() {
        let budget = Budget::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        budget.pay([Micros(2), Micros(3)], Micros(5));
                    }
                });
            }
        });
        let paid = budget.pay([Micros(0); 2], Micros(0));
        assert_eq!(paid, [Micros(5 + 80_000), Micros(5 + 120_000)]);
    }
}
