//! Wills of clients of another node, which this shard publishes if that node is lost.

use crate::keys::{Claim, Micros, ShardId};
use crate::session::Will;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Wills that went while their node was lost, of which it is told when it is back.
const GONE_MAX: usize = 65_536;

/// By client identifier: a client has one will at most.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    wills: BTreeMap<Box<str>, WatchedWill>,
    /// Those whose nodes are lost.
    due: BTreeSet<(Micros, Box<str>)>,
    /// Those that were due when the client came again, and when: it may have a new will before
    /// these are published.
    overdue: VecDeque<(Micros, Will)>,
    /// Those of this shard's own clients, of sessions from a log that are over before all other
    /// nodes can have said that they have published them.
    put_off: BTreeMap<Box<str>, (Claim, Will)>,
    /// When all of these are due.
    put_off_until: Micros,
    /// Those that were published, or are not to be any more, while their nodes were lost.
    gone: Vec<(ShardId, Box<str>, Claim)>,
}

#[derive(Debug)]
pub(crate) struct WatchedWill {
    /// Where the client is, or its session.
    holder: ShardId,
    /// By which claim.
    claim: Claim,
    will: Will,
    /// Seconds from the loss of its node until it is due.
    wait_s: u32,
    /// When it is, once its node is lost.
    due_at: Option<Micros>,
    /// The client has come to another node, and whether to begin anew. If the node of the will is
    /// lost by then, it does not say any more what becomes of it.
    came: Option<bool>,
    /// Whoever is in the place of its node knows that it is due here.
    is_told: bool,
}

impl Watched {
    pub(crate) fn is_empty(&self) -> bool {
        self.wills.is_empty() && self.gone.is_empty()
    }

    pub(crate) fn watch(
        &mut self,
        client_id: Box<str>,
        (holder, claim): (ShardId, Claim),
        will: Will,
        wait_s: u32,
    ) {
        let is_due = |it: &WatchedWill| it.due_at.is_some();
        if claim == Claim::NONE && self.wills.get(&client_id).is_some_and(is_due) {
            // A log has brought it again, whose shard has not heard yet that it is not its own.
            return;
        }
        self.forget(&client_id);
        let (due_at, came, is_told) = (None, None, false);
        let watched = WatchedWill { holder, claim, will, wait_s, due_at, came, is_told };
        self.wills.insert(client_id, watched);
    }

    fn forget(&mut self, client_id: &str) -> Option<WatchedWill> {
        let (client_id, watched) = self.wills.remove_entry(client_id)?;
        if let Some(at) = watched.due_at {
            self.due.remove(&(at, client_id));
        }
        Some(watched)
    }

    /// A shard says that it has published a will, or that it is not to be published any more; it
    /// has no say in one that is due here, as its node was lost.
    pub(crate) fn over(&mut self, client_id: &str, holder: ShardId) {
        let is_its = |it: &WatchedWill| it.holder == holder && it.due_at.is_none();
        if self.wills.get(client_id).is_some_and(is_its) {
            self.forget(client_id);
        }
    }

    /// Another shard watches the wills of this one.
    pub(crate) fn unwatch(&mut self, holder: ShardId) {
        self.wills.retain(|_, it| it.holder != holder || it.due_at.is_some());
    }

    /// A node is lost: its clients' wills are due after their delay, but for clients that have come
    /// to another one already.
    pub(crate) fn lost(&mut self, is_lost: impl Fn(ShardId) -> bool, now: Micros) {
        let mut over = Vec::new();
        for (client_id, it) in &mut self.wills {
            // Whoever was told may not have said it to its log.
            it.is_told &= !is_lost(it.holder);
            if it.due_at.is_none() && is_lost(it.holder) {
                let at = match it.came {
                    Some(true) => now,
                    _ => now + Micros::from_secs(it.wait_s),
                };
                it.due_at = Some(at);
                self.due.insert((at, client_id.clone()));
                if it.came == Some(false) {
                    over.push((client_id.clone(), it.claim));
                }
            }
        }
        over.iter().for_each(|(client_id, claim)| self.came(client_id, *claim, false, now));
    }

    /// Its node is lost, and the client has come to another: a will that waits is not due any more
    /// [MQTT-3.1.3-9], or at once if the session is not taken up.
    pub(crate) fn came(&mut self, client_id: &str, by: Claim, is_clean: bool, now: Micros) {
        let Some(it) = self.wills.get_mut(client_id) else { return };
        let Some(due_at) = it.due_at else {
            // The holder says itself what becomes of it, whoever comes there.
            if it.claim < by && by.shard() != it.holder {
                it.came = Some(it.came.unwrap_or_default() || is_clean);
            }
            return;
        };
        let Some(watched) = self.forget(client_id) else { return };
        self.note_gone(client_id.into(), &watched);
        if is_clean || due_at <= now {
            self.overdue.push_back((now, watched.will));
        }
    }

    /// A client's session is over that had come by this claim, and its will is due then.
    pub(crate) fn put_off(
        &mut self,
        client_id: Box<str>,
        (claim, will): (Claim, Will),
        due_at: Micros,
    ) {
        self.put_off.insert(client_id, (claim, will));
        self.put_off_until = due_at;
    }

    /// All that are put off are due then.
    pub(crate) fn put_off_until(&mut self, due_at: Micros) {
        self.put_off_until = due_at;
    }

    /// Another node has published a will of this client, which it had by this claim, or from a
    /// log.
    pub(crate) fn drop_put_off(&mut self, client_id: &str, by: Claim) {
        let is_it = |(claim, _): &(Claim, Will)| *claim <= by || by == Claim::NONE;
        if self.put_off.get(client_id).is_some_and(is_it) {
            self.put_off.remove(client_id);
        }
    }

    /// How many are put off.
    pub(crate) fn waiting(&self) -> usize {
        self.put_off.len()
    }

    pub(crate) fn next(&self) -> Option<Micros> {
        let overdue = self.overdue.front().map(|&(at, _)| at);
        let put_off = (!self.put_off.is_empty()).then_some(self.put_off_until);
        self.due.first().map(|&(at, _)| at).into_iter().chain(overdue).chain(put_off).min()
    }

    /// The next will that is due.
    pub(crate) fn take_due(&mut self, now: Micros) -> Option<Will> {
        let next = self.next().filter(|&at| at <= now)?;
        if self.put_off_until <= now
            && let Some((_, (_, will))) = self.put_off.pop_first()
        {
            return Some(will);
        }
        if self.due.first().is_none_or(|&(at, _)| at > next) {
            return self.overdue.pop_front().map(|(_, will)| will);
        }
        let (_, client_id) = self.due.pop_first()?;
        let watched = self.wills.remove(&client_id)?;
        self.note_gone(client_id, &watched);
        Some(watched.will)
    }

    fn note_gone(&mut self, client_id: Box<str>, watched: &WatchedWill) {
        if self.gone.len() < GONE_MAX && !watched.is_told {
            self.gone.push((watched.holder, client_id, watched.claim));
        }
    }

    /// A node is back: the wills of its clients that are this shard's to publish, or were.
    pub(crate) fn taken_from(
        &mut self,
        is_back: impl Fn(ShardId) -> bool,
    ) -> Vec<(Box<str>, Claim)> {
        let gone = self.gone.extract_if(.., |(holder, ..)| is_back(*holder));
        let mut all: Vec<(Box<str>, Claim)> =
            gone.map(|(_, client_id, claim)| (client_id, claim)).collect();
        for (client_id, it) in &mut self.wills {
            if it.due_at.is_some() && is_back(it.holder) {
                it.is_told = true;
                all.push((client_id.clone(), it.claim));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Origin;
    use weir_wire::{PropertiesBuf, QoS};

    fn will(topic: &str) -> Will {
        Will {
            topic: topic.into(),
            payload: Box::default(),
            properties: PropertiesBuf::new(),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay_s: 0,
            origin: Origin::OTHER_SHARDS,
            message_expiry_s: None,
        }
    }

    #[test]
    fn a_will_is_published_once_its_node_is_lost_and_its_delay_is_over() {
        let mut watched = Watched::default();
        let holder = ShardId(3);
        for (name, wait_s) in [("now", 0), ("later", 5), ("back", 9), ("clean", 9), ("over", 0)] {
            watched.watch(name.into(), (holder, Claim(1)), will(name), wait_s);
        }
        watched.watch("other".into(), (ShardId(4), Claim(1)), will("other"), 0);
        watched.over("over", holder);
        watched.over("now", ShardId(4));
        assert_eq!(watched.next(), None);
        watched.lost(|shard| shard == holder, Micros(0));
        // It begins again from its log, and hears then whose the will is.
        watched.watch("later".into(), (holder, Claim::NONE), will("later"), 1);
        watched.over("later", holder);
        watched.came("back", Claim(2), false, Micros(1));
        watched.came("now", Claim(2), false, Micros(1));
        watched.came("clean", Claim(2), true, Micros(1));
        watched.came("other", Claim(2), true, Micros(1));
        watched.watch("clean".into(), (holder, Claim(2)), will("its next"), 0);
        watched.over("clean", holder);
        let mut take = |now| watched.take_due(now).map(|will| will.topic);
        assert_eq!(take(Micros(1)).as_deref(), Some("now"));
        assert_eq!(take(Micros(1)).as_deref(), Some("clean"));
        assert_eq!(take(Micros(1)), None);
        let mut taken = watched.taken_from(|shard| shard == holder);
        taken.sort();
        let names: Vec<&str> = taken.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["back", "clean", "later", "now"]);
        assert_eq!(watched.next(), Some(Micros::from_secs(5)));
        assert!(watched.take_due(Micros::from_secs(5)).is_some());
        watched.unwatch(ShardId(4));
        // It was told when the node was back, and is not of the node's next wills.
        assert!(watched.taken_from(|_| true).is_empty());
        assert!(watched.is_empty());
    }

    #[test]
    fn a_client_may_come_before_it_is_known_that_its_node_is_lost() {
        let mut watched = Watched::default();
        let holder = ShardId(3);
        for (name, wait_s) in [("now", 0), ("back", 5), ("clean", 5), ("before", 5), ("there", 5)] {
            watched.watch(name.into(), (holder, Claim(7)), will(name), wait_s);
        }
        watched.came("now", Claim(8), false, Micros(1));
        watched.came("back", Claim(8), false, Micros(1));
        watched.came("clean", Claim(8), true, Micros(1));
        // It has come to where its will is since.
        watched.came("before", Claim(6), false, Micros(1));
        // A connection that ended before it was let in has claimed it there.
        watched.came("there", Claim(9 << 8 | 3), true, Micros(1));
        watched.lost(|shard| shard == holder, Micros(2));
        let mut take = |now| watched.take_due(now).map(|will| will.topic);
        assert_eq!(take(Micros(2)).as_deref(), Some("clean"));
        assert_eq!(take(Micros(2)).as_deref(), Some("now"));
        assert_eq!(take(Micros(2)), None);
        let later = Micros(2) + Micros::from_secs(5);
        assert_eq!(take(later).as_deref(), Some("before"));
        assert_eq!(take(later).as_deref(), Some("there"));
        assert_eq!(take(Micros(u64::MAX)), None);
        assert_eq!(watched.taken_from(|_| true).len(), 5);
    }
}
