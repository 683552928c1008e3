//! Whose conditions are checked first where all that a message brings up cost too much.
//!
//! A client is charged with each of its conditions, the cheapest first, and one that several
//! clients have is charged to each of them. A condition's place is the lowest sum that a client
//! has come to with it. So of n clients, one whose conditions cost at most an nth of what there is
//! gets a verdict of each, whatever the others ask for.

use super::ConditionId;
use crate::content::CostlyCondition;
use crate::keys::SessionKey;

/// Who has a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Holder {
    /// A session of this shard.
    Here(SessionKey),
    /// A member of a group on another shard, by the hash of its client identifier.
    There(u64),
}

/// Who has which condition, of those that a message brings up.
#[derive(Debug, Default)]
pub(crate) struct Charges {
    held: Vec<(Holder, ConditionId)>,
    charged: Vec<Charged>,
}

/// A condition with the client that comes to the lowest sum with it.
#[derive(Clone, Copy, Debug)]
struct Charged {
    condition: CostlyCondition,
    sum: u64,
    holder: Option<Holder>,
}

impl Charges {
    /// One that has this condition, or several. They are asked for only when it matters.
    pub(crate) fn add(&mut self, holder: Holder, condition: ConditionId) {
        self.held.push((holder, condition));
    }

    pub(super) fn clear(&mut self) {
        self.held.clear();
        self.charged.clear();
    }

    /// Puts conditions into the order in which they are checked.
    pub(super) fn order(&mut self, costly: &mut [CostlyCondition]) {
        let Self { held, charged } = self;
        costly.sort_unstable_by_key(|condition| condition.slot);
        let nobody =
            |&condition: &CostlyCondition| Charged { condition, sum: u64::MAX, holder: None };
        charged.extend(costly.iter().map(nobody));
        let place = |id: ConditionId| costly.binary_search_by_key(&id.0, |costly| costly.slot);
        // By client, and within one by cost; what is cheap is not among them.
        held.retain(|&(_, id)| place(id).is_ok());
        held.sort_unstable_by_key(|&(holder, id)| {
            (holder, place(id).map(|at| costly[at].steps), id)
        });
        held.dedup();
        let mut sum = 0_u64;
        for (at, &(holder, id)) in held.iter().enumerate() {
            let Ok(place) = place(id) else { continue };
            if at == 0 || held[at - 1].0 != holder {
                sum = 0;
            }
            sum = sum.saturating_add(costly[place].steps);
            let one = &mut charged[place];
            if sum < one.sum {
                (one.sum, one.holder) = (sum, Some(holder));
            }
        }
        charged.sort_unstable_by_key(|one| (one.sum, one.condition.slot));
        for (condition, one) in costly.iter_mut().zip(charged) {
            *condition = one.condition;
        }
    }

    /// Whom the condition was charged to in the end, if it was put into order.
    pub(crate) fn holder(&self, id: ConditionId) -> Option<Holder> {
        self.charged.iter().find(|one| one.condition.slot == id.0)?.holder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn here(session: u32) -> Holder {
        Holder::Here(SessionKey(session))
    }

    /// The slots in their order, of conditions with these costs and holders.
    fn order(costs: &[u64], held: &[(u32, u32)]) -> (Vec<u32>, Charges) {
        let mut charges = Charges::default();
        held.iter().for_each(|&(session, slot)| charges.add(here(session), ConditionId(slot)));
        let costly = |(slot, &steps)| CostlyCondition { slot, steps };
        let mut costly: Vec<CostlyCondition> = (0..).zip(costs).map(costly).collect();
        charges.order(&mut costly);
        (costly.iter().map(|condition| condition.slot).collect(), charges)
    }

    #[test]
    fn a_client_with_one_goes_before_one_with_many() {
        let (order, charges) = order(&[5, 4, 3, 6], &[(1, 0), (1, 1), (1, 2), (2, 3)]);
        assert_eq!(order, [2, 3, 1, 0]);
        assert_eq!(charges.holder(ConditionId(3)), Some(here(2)));
    }

    #[test]
    fn what_two_clients_have_goes_when_the_first_of_them_has_its_turn() {
        let (order, charges) =
            order(&[5, 5, 5, 7], &[(1, 0), (1, 1), (1, 2), (2, 2), (2, 2), (3, 3)]);
        assert_eq!(order, [0, 2, 3, 1]);
        assert_eq!(charges.holder(ConditionId(2)), Some(here(2)));
        assert_eq!(charges.holder(ConditionId(1)), Some(here(1)));
    }

    proptest! {
        #[test]
        fn who_asks_for_no_more_than_an_equal_part_gets_all_of_it(
            costs in prop::collection::vec(1_u64..100, 1..30),
            held in prop::collection::vec((0_u32..6, 0_u32..30), 1..60),
            budget in 50_u64..2_000,
        ) {
            let count = costs.len() as u32;
            let held = held.iter().map(|&(who, slot)| (who, slot % count));
            let held: Vec<(u32, u32)> = held.collect();
            let (order, _) = order(&costs, &held);
            let mut left = budget;
            let mut checked = std::collections::BTreeSet::new();
            for slot in order {
                if let Some(rest) = left.checked_sub(costs[slot as usize]) {
                    left = rest;
                    checked.insert(slot);
                }
            }
            let of = |who: u32| {
                let own = held.iter().filter(move |&&(holder, _)| holder == who);
                own.map(|&(_, slot)| slot).collect::<std::collections::BTreeSet<u32>>()
            };
            let clients = (0..6).filter(|&who| !of(who).is_empty()).count() as u64;
            for who in 0..6 {
                let demand: u64 = of(who).iter().map(|&slot| costs[slot as usize]).sum();
                if demand <= budget / clients {
                    prop_assert!(of(who).is_subset(&checked), "client {} of {}", who, clients);
                }
            }
        }
    }
}
