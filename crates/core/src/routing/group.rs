//! A shared subscription's group: its members on all shards, and whose turn it is.

use crate::ShardId;
use crate::conditions::{Charges, ConditionId, Holder};
use crate::keys::SessionKey;
use crate::mail::GroupPick;
use crate::routing::{Standing, Subscriber};
use crate::shard_set::ShardSet;
use crate::share::ShareStrategy;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;
use weir_chance::{Chance, mix};
use weir_wire::topic::SHARE_PREFIX;

/// How often a message may be chosen again because its member left while the mail was on its way:
/// each time takes a shard whose last member left in that time, so few are ever needed.
pub(crate) const HOPS_MAX: u8 = 64;

/// How often a message may be chosen again because its member could not take it at once.
const BUSY_HOPS_MAX: u8 = 1;

/// What a member takes that may not be there any more: no packet, so that all others are before it.
const DOUBTED: Option<u32> = Some(0);

/// The members of `$share/{name}/{filter}`: this shard's own, and those that others told of. If the
/// group has a condition, that is part of the name.
#[derive(Debug)]
pub(crate) struct Group {
    /// The whole topic filter, `$share/{name}/{filter}`.
    pub(crate) share: Arc<str>,
    name_bytes: usize,
    /// What its messages have to fulfil. Nothing as well if the name has a condition that there
    /// was no room for here: then this shard has no member, and members' shards check.
    pub(crate) condition: Option<ConditionId>,
    pub(crate) members: Vec<Member>,
    remote: Vec<Remote>,
    strategy: ShareStrategy,
    /// Round robin: who is next, own members first.
    next: usize,
}

/// A member, and a hash of its client identifier: its name to other shards, and in weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) id: u64,
    pub(crate) subscriber: Subscriber,
}

/// A member on another shard.
#[derive(Clone, Copy, Debug)]
struct Remote {
    shard: ShardId,
    id: u64,
    /// Bytes of a packet that it takes while it is connected.
    packet_bytes_max: Option<u32>,
}

/// Who was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Picked {
    Here(Subscriber),
    There {
        shard: ShardId,
        member: u64,
    },
    /// Nobody: the group's condition does not hold.
    Unwanted,
}

impl Group {
    pub(crate) fn new(name: &str, filter: &str, strategy: ShareStrategy) -> Self {
        let share = format!("{SHARE_PREFIX}{name}/{filter}").into();
        let name_bytes = name.len();
        let (members, remote) = (Vec::new(), Vec::new());
        Self { share, name_bytes, condition: None, members, remote, strategy, next: 0 }
    }

    pub(crate) fn name(&self) -> &str {
        &self.share[SHARE_PREFIX.len()..SHARE_PREFIX.len() + self.name_bytes]
    }

    /// Adds its members as those who have its condition.
    pub(super) fn charge(&self, charges: &mut Charges) {
        let Some(condition) = self.condition else { return };
        let here = self.members.iter().map(|member| Holder::Here(member.subscriber.session));
        let there = self.remote.iter().map(|remote| Holder::There(remote.id));
        here.chain(there).for_each(|holder| charges.add(holder, condition));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.remote.is_empty()
    }

    /// Notes a member of another shard.
    pub(crate) fn join(&mut self, shard: ShardId, id: u64, packet_bytes_max: Option<u32>) {
        self.leave(shard, id);
        self.remote.push(Remote { shard, id, packet_bytes_max });
    }

    /// What a session's member here is called.
    #[cold]
    pub(crate) fn id_of(&self, session: SessionKey) -> u64 {
        let member = self.members.iter().find(|member| member.subscriber.session == session);
        member.map_or(0, |member| member.id)
    }

    /// Whether a shard has this member, too.
    pub(crate) fn has_at(&self, shard: ShardId, id: u64) -> bool {
        self.remote.iter().any(|remote| (remote.shard, remote.id) == (shard, id))
    }

    /// The shards that have other members.
    pub(crate) fn shards(&self) -> impl Iterator<Item = ShardId> {
        self.remote.iter().map(|remote| remote.shard)
    }

    pub(crate) fn leave(&mut self, shard: ShardId, id: u64) {
        self.remote.retain(|remote| (remote.shard, remote.id) != (shard, id));
    }

    /// Shards are gone, with their members.
    pub(crate) fn leave_all(&mut self, gone: &ShardSet) {
        self.remote.retain(|remote| !gone.contains(remote.shard));
    }

    /// Another shard is in the place of one with members, and may have them: they are chosen if
    /// there are no others.
    pub(crate) fn doubt(&mut self, node: &Range<u16>) {
        let its = self.remote.iter_mut().filter(|remote| node.contains(&remote.shard.0));
        its.for_each(|remote| remote.packet_bytes_max = DOUBTED);
    }

    /// It has told all members that it has.
    pub(crate) fn leave_doubted(&mut self, shard: ShardId) {
        self.remote.retain(|it| (it.shard, it.packet_bytes_max) != (shard, DOUBTED));
    }

    /// Notes what a member of another shard takes; nothing while it is absent.
    pub(crate) fn set_presence(&mut self, shard: ShardId, id: u64, packet_bytes_max: Option<u32>) {
        let mut all = self.remote.iter_mut();
        if let Some(remote) = all.find(|remote| (remote.shard, remote.id) == (shard, id)) {
            remote.packet_bytes_max = packet_bytes_max;
        }
    }

    /// What the choice hangs on, of a message on `topic` from `client_id`.
    pub(crate) fn key(&self, topic: &str, client_id: Option<&[u8]>, hasher: &FixedState) -> u64 {
        match self.strategy {
            ShareStrategy::RoundRobin | ShareStrategy::Random => 0,
            ShareStrategy::Hash => hasher.hash_one(topic),
            ShareStrategy::StickyClient => hasher.hash_one(client_id.unwrap_or(topic.as_bytes())),
            ShareStrategy::StickyLevel(level) => {
                let level = topic.split('/').nth(usize::from(level.get()) - 1);
                hasher.hash_one(level.unwrap_or(topic))
            }
        }
    }

    /// What `no_room` says of its members, if it says so of all: of members of other shards this
    /// shard knows only that the connected ones may have room.
    pub(crate) fn no_room<T>(&self, no_room: impl Fn(&Subscriber) -> Option<T>) -> Option<T> {
        if self.remote.iter().any(|remote| remote.packet_bytes_max.is_some()) {
            return None;
        }
        let mut said = None;
        for member in &self.members {
            said = Some(no_room(&member.subscriber)?);
        }
        said
    }

    fn is_sticky(&self) -> bool {
        !matches!(self.strategy, ShareStrategy::RoundRobin | ShareStrategy::Random)
    }

    /// Chooses a member as [`ShareStrategy`] says for a message of so many bytes; nothing if there
    /// is none. Whether a member of another shard has room is known there only: here it counts as
    /// ready while connected.
    pub(crate) fn pick(
        &mut self,
        key: u64,
        bytes: u64,
        chance: &mut Chance,
        standing: impl Fn(&Subscriber) -> Standing,
    ) -> Option<Picked> {
        self.pick_of(self.members.len() + self.remote.len(), key, bytes, chance, standing)
    }

    /// What another shard chose came here: its member if that can take it, or a new choice. Only
    /// this shard knows how its own members stand.
    pub(crate) fn pick_again(
        &mut self,
        pick: &GroupPick,
        bytes: u64,
        chance: &mut Chance,
        standing_of: impl Fn(&Subscriber) -> Standing,
    ) -> Option<Picked> {
        let is_sticky = self.is_sticky();
        let mut hops_max = if is_sticky { HOPS_MAX } else { BUSY_HOPS_MAX };
        if let Some(named) = self.members.iter().find(|member| member.id == pick.member) {
            let standing = standing_of(&named.subscriber);
            if standing == Standing::Ready || (is_sticky && standing.is_connected()) {
                return Some(Picked::Here(named.subscriber));
            }
            if standing == Standing::Absent && !self.has_connected(bytes, &standing_of) {
                // One that is absent elsewhere is no better, and may be the same in two places
                // while it moves.
                return Some(Picked::Here(named.subscriber));
            }
            if standing == Standing::TooLarge {
                // By a few bytes that only this shard knows of: others may choose it again.
                hops_max = BUSY_HOPS_MAX;
            }
        }
        if pick.hops < hops_max || self.members.is_empty() {
            return self.pick(pick.key, bytes, chance, standing_of);
        }
        // It has travelled enough: somebody here queues it.
        self.pick_of(self.members.len(), pick.key, bytes, chance, standing_of)
    }

    /// Whether a member is connected that may take so many bytes.
    fn has_connected(&self, bytes: u64, standing: impl Fn(&Subscriber) -> Standing) -> bool {
        let has_room = |max: u32| bytes <= u64::from(max);
        self.members.iter().any(|member| standing(&member.subscriber).is_connected())
            || self.remote.iter().any(|remote| remote.packet_bytes_max.is_some_and(has_room))
    }

    /// Chooses among the first `count`: own members, then the others.
    fn pick_of(
        &mut self,
        count: usize,
        key: u64,
        bytes: u64,
        chance: &mut Chance,
        standing: impl Fn(&Subscriber) -> Standing,
    ) -> Option<Picked> {
        if count == 0 {
            return None;
        }
        let Self { members, remote, .. } = self;
        let standing = |at: usize| match members.get(at) {
            Some(member) => standing(&member.subscriber),
            None => match remote[at - members.len()].packet_bytes_max {
                Some(max) if bytes > u64::from(max) => Standing::TooLarge,
                Some(_) => Standing::Ready,
                None => Standing::Absent,
            },
        };
        let id = |at: usize| match members.get(at) {
            Some(member) => member.id,
            None => remote[at - members.len()].id,
        };
        let at = match self.strategy {
            ShareStrategy::RoundRobin => in_turn(self.next, count, standing),
            ShareStrategy::Random => at_random(count, chance, standing),
            ShareStrategy::StickyClient | ShareStrategy::StickyLevel(_) | ShareStrategy::Hash => {
                by_weight(count, |at| mix(id(at) ^ key), standing)
            }
        };
        self.next = at + 1;
        Some(match members.get(at) {
            Some(member) => Picked::Here(member.subscriber),
            None => {
                let Remote { shard, id, .. } = remote[at - members.len()];
                Picked::There { shard, member: id }
            }
        })
    }
}

/// The first from `next` on with the best standing.
fn in_turn(next: usize, count: usize, standing: impl Fn(usize) -> Standing) -> usize {
    let start = next % count;
    let (mut best, mut best_standing) = (start, Standing::TooLarge);
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
    let (mut best, mut best_standing, mut equals) = (first, Standing::TooLarge, 0);
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

/// The one with the highest weight that is connected; failing that, that takes the message at all;
/// failing that, with the highest weight.
fn by_weight(
    count: usize,
    weight: impl Fn(usize) -> u64,
    standing: impl Fn(usize) -> Standing,
) -> usize {
    let heaviest = |members: &mut dyn Iterator<Item = usize>| members.max_by_key(|&at| weight(at));
    let chosen = heaviest(&mut (0..count)).unwrap_or_default();
    if standing(chosen).is_connected() {
        return chosen;
    }
    let connected = heaviest(&mut (0..count).filter(|&at| standing(at).is_connected()));
    let takes = |&at: &usize| standing(at) != Standing::TooLarge;
    connected.or_else(|| heaviest(&mut (0..count).filter(takes))).unwrap_or(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SessionKey;
    use weir_wire::packet::SubscriptionOptions;

    fn group(strategy: ShareStrategy, members: u32) -> Group {
        let mut group = Group::new("g", "t", strategy);
        for session in 0..members {
            let options = SubscriptionOptions::default();
            let subscriber = Subscriber::new(SessionKey(session), options, None);
            group.members.push(Member { id: mix(u64::from(session) + 1), subscriber });
        }
        group
    }

    /// The session chosen for the message with this key.
    fn pick(
        group: &mut Group,
        key: u64,
        chance: &mut Chance,
        standing: impl Fn(&Subscriber) -> Standing,
    ) -> usize {
        match group.pick(mix(key), 0, chance, standing) {
            Some(Picked::Here(subscriber)) => subscriber.session.0 as usize,
            other => panic!("{other:?}"),
        }
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
            counts[pick(group, key, &mut chance, standing)] += 1;
        }
        counts
    }

    const ALL: [ShareStrategy; 3] =
        [ShareStrategy::RoundRobin, ShareStrategy::Random, ShareStrategy::Hash];

    #[test]
    fn a_group_without_members_chooses_nobody() {
        for strategy in ALL {
            let mut chance = Chance::new(1);
            let picked = group(strategy, 0).pick(0, 0, &mut chance, |_| Standing::Ready);
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
    fn an_absent_member_that_was_chosen_is_chosen_again_unless_another_is_connected() {
        for strategy in ALL {
            let mut group = group(strategy, 1);
            let id = group.members[0].id;
            // It moves, so another shard has it as well.
            group.join(ShardId(7), id, None);
            group.join(ShardId(8), id + 1, None);
            let pick = GroupPick { share: "$share/g/t".into(), member: id, key: 3, hops: 0 };
            let mut chance = Chance::new(1);
            let mut again =
                |group: &mut Group| group.pick_again(&pick, 10, &mut chance, |_| Standing::Absent);
            for _ in 0..20 {
                let picked = again(&mut group);
                assert!(matches!(picked, Some(Picked::Here(_))), "{strategy:?}: {picked:?}");
            }
            group.set_presence(ShardId(8), id + 1, Some(100));
            let there = Picked::There { shard: ShardId(8), member: id + 1 };
            assert_eq!(again(&mut group), Some(there), "{strategy:?}");
        }
    }

    #[test]
    fn who_cannot_take_at_once_is_chosen_in_turn_as_well() {
        for standing in [Standing::Busy, Standing::Absent] {
            let counts = counts(&mut group(ShareStrategy::RoundRobin, 5), 50, 5, |_| standing);
            assert_eq!(counts, [10; 5], "{standing:?}");
        }
    }

    #[test]
    fn a_member_that_leaves_or_joins_moves_its_own_keys_only() {
        let mut before = group(ShareStrategy::Hash, 8);
        let mut after = group(ShareStrategy::Hash, 8);
        after.members.swap_remove(3);
        let mut moved = 0;
        for key in 0..8000 {
            let pick = |group| pick(group, key, &mut Chance::new(0), |_| Standing::Ready);
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
        let key = |strategy, topic, client_id: Option<&str>| {
            group(strategy, 1).key(topic, client_id.map(str::as_bytes), &hasher)
        };
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
