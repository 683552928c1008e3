//! A part of a plan's clients: every agent knows the whole plan and runs its slice of it.
//!
//! Clients are dealt in rounds, so that each slice has its part of every group, and keep their
//! place on the one schedule, their index and their publisher's number.

use crate::LoadError;
use crate::plan::{Group, Plan};
use serde::{Deserialize, Serialize};

/// Cards of a round where shares are unequal.
const ROUND: u64 = 1_000;

/// Which of a plan's clients are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    /// Clients are dealt in rounds of so many.
    pub round: u32,
    /// The slice's clients of a round begin with this one, from 0,
    pub first: u32,
    /// and are so many.
    pub share: u32,
    /// Who runs the members of shared groups.
    pub shared: Shared,
}

/// Who runs the clients of a plan's group that has a shared subscription. In one slice together
/// they are audited as in a single process; apart, their slices' ledgers are mostly holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shared {
    /// They are dealt like all others: too many for one slice.
    #[default]
    Dealt,
    /// This slice, all of them.
    Here,
    /// Another slice.
    Elsewhere,
}

impl Default for Slice {
    fn default() -> Self {
        Self::WHOLE
    }
}

impl Slice {
    /// All clients.
    pub const WHOLE: Self = Self { round: 1, first: 0, share: 1, shared: Shared::Dealt };

    /// The slice `index` of `of` equal ones.
    pub const fn new(index: u32, of: u32) -> Self {
        let shared = match (of, index) {
            (1, _) => Shared::Dealt,
            (_, 0) => Shared::Here,
            _ => Shared::Elsewhere,
        };
        Self { round: of, first: index, share: 1, shared }
    }

    /// Whether it is all of the plan.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.share == self.round
    }

    /// Whether the client of this group, with this index among all clients of the plan, is in it.
    pub fn has(&self, group: &Group, client: u32) -> bool {
        match (group.is_shared(), self.shared) {
            (true, Shared::Here) => true,
            (true, Shared::Elsewhere) => false,
            _ => self.is_dealt(client),
        }
    }

    fn is_dealt(&self, client: u32) -> bool {
        (client % self.round).wrapping_sub(self.first) < self.share
    }

    /// The first client from `client` on, among all clients of the plan, that is in it. It may be
    /// of another group, or beyond the last.
    #[inline]
    pub(crate) fn next(&self, group: &Group, client: u32) -> u64 {
        if self.is_whole() || self.has(group, client) {
            return u64::from(client);
        }
        if self.share == 0 || (group.is_shared() && self.shared != Shared::Dealt) {
            return u64::MAX;
        }
        let card = client % self.round;
        let wait = if card < self.first { self.first } else { self.round + self.first };
        u64::from(client) + u64::from(wait - card)
    }

    /// How many of the plan's clients are in it.
    pub fn clients(&self, plan: &Plan) -> u64 {
        let mut first = 0;
        let mut count = 0;
        for group in &plan.groups {
            let clients = first..first + group.clients;
            count += clients.filter(|&client| self.has(group, client)).count() as u64;
            first += group.clients;
        }
        count
    }

    /// Which clients these are, for a person.
    pub fn describe(&self, plan: &Plan) -> String {
        let all: u64 = plan.groups.iter().map(|group| u64::from(group.clients)).sum();
        let (own, last) = (self.clients(plan), (self.first + self.share).saturating_sub(1));
        let dealt = match self.share {
            1 => format!("the one at place {} of every {}", self.first, self.round),
            _ => format!("those at places {} to {last} of every {}", self.first, self.round),
        };
        let has_shared = plan.groups.iter().any(Group::is_shared);
        let shared = match self.shared {
            Shared::Here if has_shared => ", and all that share subscriptions",
            Shared::Elsewhere if has_shared => ", but none that share subscriptions",
            _ => "",
        };
        format!("{own} of {all} clients ({dealt}{shared})")
    }
}

/// Cuts a plan into slices for those who hold at most so many clients each: equal ones, or if that
/// is too much for one of them, in proportion to what each holds. Clients that share subscriptions
/// stay together if one of them holds them all.
///
/// # Errors
/// More clients than all together hold, or nobody to hold them.
pub fn deal(plan: &Plan, holds: &[u64]) -> Result<Vec<Slice>, LoadError> {
    let count = |groups: &mut dyn Iterator<Item = &Group>| -> u64 {
        groups.map(|group| u64::from(group.clients)).sum()
    };
    let all = count(&mut plan.groups.iter());
    let shared = count(&mut plan.groups.iter().filter(|group| group.is_shared()));
    let held: u64 = holds.iter().fold(0, |sum, &hold| sum.saturating_add(hold));
    if holds.is_empty() || held < all {
        let (agents, own) = (holds.len(), held);
        let text = format!("it has {all} clients, and the {agents} agents hold {own} together");
        return Err(LoadError::Plan(text));
    }
    let keeper = (0..holds.len()).rev().max_by_key(|&at| holds[at]);
    let keeper = keeper.filter(|&at| holds.len() > 1 && shared > 0 && holds[at] >= shared);
    let mut rest = holds.to_vec();
    if let Some(keeper) = keeper {
        rest[keeper] -= shared;
    }
    let ways = [
        cut(keeper, vec![1; holds.len()]),
        cut(keeper, shares(ROUND, &rest)),
        // Nothing else fits: ranges, in which no round is broken off.
        cut(None, shares(all.max(holds.len() as u64), holds)),
    ];
    let fits = |slices: &Vec<Slice>| {
        slices.iter().zip(holds).all(|(slice, &hold)| slice.clients(plan) <= hold)
    };
    let text = || format!("its {all} clients cannot be dealt to agents that hold {holds:?}");
    ways.into_iter().find(fits).ok_or_else(|| LoadError::Plan(text()))
}

fn cut(keeper: Option<usize>, shares: Vec<u32>) -> Vec<Slice> {
    let round = shares.iter().sum();
    let mut first = 0;
    let slice = |(at, share): (usize, u32)| {
        let shared = match keeper {
            None => Shared::Dealt,
            Some(keeper) if keeper == at => Shared::Here,
            Some(_) => Shared::Elsewhere,
        };
        let slice = Slice { round, first, share, shared };
        first += share;
        slice
    };
    shares.into_iter().enumerate().map(slice).collect()
}

/// A round dealt in proportion to what each holds.
fn shares(round: u64, holds: &[u64]) -> Vec<u32> {
    let held = holds.iter().map(|&hold| u128::from(hold)).sum::<u128>().max(1);
    let mut dealt = 0;
    let mut before = 0;
    // The rounding goes on from one to the next, so that all together it is the round.
    let share = |&hold: &u64| {
        before += u128::from(hold);
        let until = (before * u128::from(round)).div_ceil(held) as u32;
        let share = until - dealt;
        dealt = until;
        share
    };
    holds.iter().map(share).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::{ConnectPlan, Phases, Subscription};
    use proptest::prelude::*;

    pub(crate) fn plan(groups: &[(u32, bool)]) -> Plan {
        let group = |&(clients, is_shared): &(u32, bool)| Group {
            name: "group".into(),
            clients,
            client_id: "c{i}".into(),
            subscriptions: is_shared
                .then(|| Subscription::plain("$share/g/t", 0))
                .into_iter()
                .collect(),
            publish: None,
            ..Group::default()
        };
        Plan {
            keep_alive_s: 0,
            connect: ConnectPlan { rate_per_s: 1.0, timeout_ms: 1 },
            interval_ms: 1,
            ..Plan::new(
                ([127, 0, 0, 1], 1).into(),
                groups.iter().map(group).collect(),
                Phases { warm_up_ms: 0, measure_ms: 1, drain_ms: 0 },
            )
        }
    }

    proptest! {
        #[test]
        fn every_client_is_in_one_slice_and_nobody_has_more_than_it_holds(
            groups in prop::collection::vec((0u32..3_000, any::<bool>()), 1..4),
            holds in prop::collection::vec(0u64..4_000, 1..6),
        ) {
            let plan = plan(&groups);
            let all: u64 = groups.iter().map(|&(clients, _)| u64::from(clients)).sum();
            let Ok(slices) = deal(&plan, &holds) else {
                prop_assert!(holds.iter().sum::<u64>() < all);
                return Ok(());
            };
            for (slice, &hold) in slices.iter().zip(&holds) {
                prop_assert!(slice.clients(&plan) <= hold);
            }
            let mut first = 0;
            for group in &plan.groups {
                for client in first..first + group.clients {
                    let holders = slices.iter().filter(|slice| slice.has(group, client)).count();
                    prop_assert_eq!(holders, 1);
                }
                first += group.clients;
            }
            for slice in &slices {
                let next = slice.next(&plan.groups[0], 0);
                let found = (0..groups[0].0).find(|&client| slice.has(&plan.groups[0], client));
                let within = (next < u64::from(groups[0].0)).then_some(next as u32);
                prop_assert_eq!(found, within);
            }
        }
    }

    #[test]
    fn members_of_shared_groups_stay_together_where_they_fit() {
        let plan = plan(&[(10, true), (90, false)]);
        let clients = |holds: &[u64]| -> Vec<u64> {
            deal(&plan, holds).unwrap().iter().map(|slice| slice.clients(&plan)).collect()
        };
        assert_eq!(clients(&[60, 60]), [55, 45]);
        assert_eq!(clients(&[20, 80]), [20, 80]);
        assert!(deal(&plan, &[50, 49]).unwrap_err().to_string().contains("100 clients"));
        assert!(deal(&plan, &[100]).unwrap()[0].is_whole());
        assert_eq!(clients(&[5, 5, 90]), [5, 5, 90]);
    }

    #[test]
    fn a_slice_says_whose_clients_it_has() {
        let plain = plan(&[(10, false), (2, false)]);
        let slices = deal(&plain, &[6, 6]).unwrap();
        let told: Vec<String> = slices.iter().map(|slice| slice.describe(&plain)).collect();
        let expected = |at| format!("6 of 12 clients (the one at place {at} of every 2)");
        assert_eq!(told, [expected(0), expected(1)]);
        let shared = plan(&[(4, false), (3, true)]);
        let told: Vec<String> =
            deal(&shared, &[5, 5]).unwrap().iter().map(|slice| slice.describe(&shared)).collect();
        let expected = [
            "5 of 7 clients (the one at place 0 of every 2, and all that share subscriptions)",
            "2 of 7 clients (the one at place 1 of every 2, but none that share subscriptions)",
        ];
        assert_eq!(told, expected);
        let wide = Slice { round: 9, first: 2, share: 3, shared: Shared::Dealt };
        let text = wide.describe(&plain);
        assert!(text.ends_with(" of 12 clients (those at places 2 to 4 of every 9)"), "{text}");
    }

    #[test]
    fn agents_that_hold_just_enough_are_enough_and_one_less_is_not() {
        let of = plan(&[(10, false), (3, true)]);
        assert!(deal(&of, &[13]).is_ok() && deal(&of, &[7, 6]).is_ok());
        let error = deal(&of, &[6, 6]).unwrap_err().to_string();
        assert!(error.contains("13 clients, and the 2 agents hold 12 together"), "{error}");
        assert!(deal(&of, &[]).is_err());
        let keeps: Vec<Shared> = deal(&of, &[10, 10]).unwrap().iter().map(|s| s.shared).collect();
        assert_eq!(keeps, [Shared::Here, Shared::Elsewhere]);
        let alone = deal(&of, &[20]).unwrap();
        assert_eq!(alone, [Slice { round: 1, first: 0, share: 1, shared: Shared::Dealt }]);
    }
}
