//! A shared subscription's group: its members, and whose turn it is.

use crate::chance::{Chance, mix};
use crate::routing::{Standing, Subscriber};
use crate::share::ShareStrategy;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;

/// The members of `$share/{name}/{filter}` on this shard.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) name: Box<str>,
    pub(crate) members: Vec<Member>,
    strategy: ShareStrategy,
    /// Round robin: who is next.
    next: usize,
}

/// A member, and a hash of its client identifier: its name in weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) id: u64,
    pub(crate) subscriber: Subscriber,
}

impl Group {
    pub(crate) fn new(name: &str, strategy: ShareStrategy) -> Self {
        Self { name: name.into(), members: Vec::new(), strategy, next: 0 }
    }

    /// What the choice hangs on, of a message on `topic` from `client_id`.
    pub(crate) fn key(&self, topic: &str, client_id: Option<&str>, hasher: &FixedState) -> u64 {
        match self.strategy {
            ShareStrategy::RoundRobin | ShareStrategy::Random => 0,
            ShareStrategy::Hash => hasher.hash_one(topic),
            ShareStrategy::StickyClient => hasher.hash_one(client_id.unwrap_or(topic)),
            ShareStrategy::StickyLevel(level) => {
                let level = topic.split('/').nth(usize::from(level.get()) - 1);
                hasher.hash_one(level.unwrap_or(topic))
            }
        }
    }

    /// Chooses a member as [`ShareStrategy`] says; nothing if there is none.
    pub(crate) fn pick(
        &mut self,
        key: u64,
        chance: &mut Chance,
        standing: impl Fn(&Subscriber) -> Standing,
    ) -> Option<Subscriber> {
        if self.members.is_empty() {
            return None;
        }
        let standing = |at: usize| standing(&self.members[at].subscriber);
        let at = match self.strategy {
            ShareStrategy::RoundRobin => {
                let at = in_turn(self.next, self.members.len(), standing);
                self.next = at + 1;
                at
            }
            ShareStrategy::Random => at_random(self.members.len(), chance, standing),
            ShareStrategy::StickyClient | ShareStrategy::StickyLevel(_) | ShareStrategy::Hash => {
                let weight = |at: usize| mix(self.members[at].id ^ key);
                by_weight(self.members.len(), weight, standing)
            }
        };
        Some(self.members[at].subscriber)
    }
}

/// The first from `next` on with the best standing.
fn in_turn(next: usize, count: usize, standing: impl Fn(usize) -> Standing) -> usize {
    let start = next % count;
    let (mut best, mut best_standing) = (start, Standing::Absent);
    for at in (start..count).chain(0..start) {
        let standing = standing(at);
        if standing == Standing::Ready {
            return at;
        }
        if standing > best_standing {
            (best, best_standing) = (at, standing);
        }
    }
    best
}

/// Any of those with the best standing.
fn at_random(count: usize, chance: &mut Chance, standing: impl Fn(usize) -> Standing) -> usize {
    let first = chance.below(count);
    if standing(first) == Standing::Ready {
        return first;
    }
    // Somebody cannot take it: one pass keeps each of the best so far with the same chance.
    let (mut best, mut best_standing, mut equals) = (first, Standing::Absent, 0);
    for at in 0..count {
        let standing = standing(at);
        if standing > best_standing {
            (best, best_standing, equals) = (at, standing, 1);
        } else if standing == best_standing {
            equals += 1;
            if chance.below(equals) == 0 {
                best = at;
            }
        }
    }
    best
}

/// The one with the highest weight that is connected; failing that, with the highest weight.
fn by_weight(
    count: usize,
    weight: impl Fn(usize) -> u64,
    standing: impl Fn(usize) -> Standing,
) -> usize {
    let heaviest = |members: &mut dyn Iterator<Item = usize>| members.max_by_key(|&at| weight(at));
    let chosen = heaviest(&mut (0..count)).unwrap_or_default();
    if standing(chosen) > Standing::Absent {
        return chosen;
    }
    let connected = heaviest(&mut (0..count).filter(|&at| standing(at) > Standing::Absent));
    connected.unwrap_or(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SessionKey;
    use weir_wire::packet::SubscriptionOptions;

    fn group(strategy: ShareStrategy, members: u32) -> Group {
        let mut group = Group::new("g", strategy);
        for session in 0..members {
            let options = SubscriptionOptions::default();
            let subscriber = Subscriber::new(SessionKey(session), options, None);
            group.members.push(Member { id: mix(u64::from(session) + 1), subscriber });
        }
        group
    }

    /// How often each of `sessions` is chosen in `picks` messages with the keys 0, 1, 2...
    fn counts(
        group: &mut Group,
        picks: u64,
        sessions: usize,
        standing: impl Fn(u32) -> Standing,
    ) -> Vec<u32> {
        let mut chance = Chance::new(1);
        let mut counts = vec![0; sessions];
        for key in 0..picks {
            let standing = |member: &Subscriber| standing(member.session.0);
            let picked = group.pick(mix(key), &mut chance, standing).unwrap();
            counts[picked.session.0 as usize] += 1;
        }
        counts
    }

    const ALL: [ShareStrategy; 3] =
        [ShareStrategy::RoundRobin, ShareStrategy::Random, ShareStrategy::Hash];

    #[test]
    fn a_group_without_members_chooses_nobody() {
        for strategy in ALL {
            let mut chance = Chance::new(1);
            let picked = group(strategy, 0).pick(0, &mut chance, |_| Standing::Ready);
            assert_eq!(picked, None);
        }
    }

    #[test]
    fn members_that_can_take_share_evenly() {
        let exact = counts(&mut group(ShareStrategy::RoundRobin, 7), 1000, 7, |_| Standing::Ready);
        assert!(exact.iter().all(|count| (142..=143).contains(count)), "{exact:?}");
        for strategy in ALL {
            let counts = counts(&mut group(strategy, 10), 10_000, 10, |_| Standing::Ready);
            assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn who_cannot_take_is_passed_over_and_the_others_still_share_evenly() {
        let busy = |session| if session % 4 == 0 { Standing::Busy } else { Standing::Ready };
        for strategy in [ShareStrategy::RoundRobin, ShareStrategy::Random] {
            let counts = counts(&mut group(strategy, 4), 9000, 4, busy);
            assert_eq!(counts[0], 0, "{strategy:?}");
            // In turn, the neighbour of the one passed over takes its turn as well.
            let fewest = if strategy == ShareStrategy::Random { 2800 } else { 2250 };
            assert!(counts[1..].iter().all(|&count| count >= fewest), "{strategy:?} {counts:?}");
        }
        let hash = counts(&mut group(ShareStrategy::Hash, 4), 1000, 4, busy);
        assert!(hash[0] > 200, "the choice holds while the member is connected: {hash:?}");
    }

    #[test]
    fn nobody_ready_means_somebody_connected_and_nobody_connected_means_somebody() {
        let one = |session| if session == 2 { Standing::Busy } else { Standing::Absent };
        for strategy in ALL {
            assert_eq!(counts(&mut group(strategy, 5), 50, 5, one), [0, 0, 50, 0, 0]);
            let absent = counts(&mut group(strategy, 5), 50, 5, |_| Standing::Absent);
            assert_eq!(absent.iter().sum::<u32>(), 50);
        }
    }

    #[test]
    fn a_member_that_leaves_or_joins_moves_its_own_keys_only() {
        let mut before = group(ShareStrategy::Hash, 8);
        let mut after = group(ShareStrategy::Hash, 8);
        after.members.swap_remove(3);
        let mut moved = 0;
        for key in 0..8000 {
            let pick = |group: &mut Group| {
                group.pick(mix(key), &mut Chance::new(0), |_| Standing::Ready).unwrap().session.0
            };
            let (old, new) = (pick(&mut before), pick(&mut after));
            if old == 3 {
                moved += 1;
                assert_ne!(new, 3);
            } else {
                assert_eq!(old, new, "a key of a member that stays");
            }
        }
        assert!((800..1200).contains(&moved), "an eighth of the keys: {moved}");
    }

    #[test]
    fn the_key_is_the_publisher_the_level_or_the_topic() {
        let hasher = FixedState::with_seed(1);
        let key = |strategy, topic, client_id| group(strategy, 1).key(topic, client_id, &hasher);
        let level = ShareStrategy::StickyLevel(std::num::NonZeroU16::new(2).unwrap());
        for (strategy, same, other) in [
            (ShareStrategy::StickyClient, ("x/y", Some("a")), ("a/b/c", Some("b"))),
            (level, ("x/b", Some("b")), ("a/c/c", Some("a"))),
            (ShareStrategy::Hash, ("a/b/c", Some("b")), ("a/b/d", Some("a"))),
        ] {
            let first = key(strategy, "a/b/c", Some("a"));
            assert_eq!(first, key(strategy, same.0, same.1), "{strategy:?}");
            assert_ne!(first, key(strategy, other.0, other.1), "{strategy:?}");
        }
        assert_ne!(key(level, "short", None), key(level, "other", None));
    }
}
