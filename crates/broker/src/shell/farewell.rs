//! Connections that have to go, some at a time: those of a listener that is gone, once they have
//! had a little time, and all of them while the broker is drained.

use super::{Output, Shell};
use std::sync::Arc;
use weir_control::{DrainOrder, DrainState};
use weir_core::{ConnKey, Drain, Micros, Shard, Unwelcome};
use weir_reactor::{Io, ListenerId};

/// How long the connections of a listener stay that is gone.
const STAY: Micros = Micros(10_000_000);

/// Connections that are looked at in one turn, and those that are ended in one.
const LOOKS_MAX: usize = 16_384;
const ENDS_MAX: usize = 256;

/// When those are ended that came meanwhile, and were let in before the order came.
const LOOK_AGAIN: Micros = Micros(1_000_000);

const SECOND: u64 = 1_000_000;

/// Of a shard.
#[derive(Debug, Default)]
pub(crate) struct Farewell {
    /// The listener that each connection came in by. What is not there came by the first.
    by: Vec<ListenerId>,
    /// Connections by listener, but for the first.
    counts: Vec<u64>,
    gone: Vec<Gone>,
    draining: Option<Draining>,
    /// Clients that were sent away, in all drains.
    pub(super) sent_away: u64,
}

/// A listener.
#[derive(Clone, Copy, Debug)]
struct Gone {
    id: ListenerId,
    /// When its connections are to go on going; nothing once all were looked at.
    at: Option<Micros>,
    /// Where to go on.
    from: ConnKey,
}

/// Clients are sent away.
#[derive(Debug)]
struct Draining {
    per_second: u32,
    at: Micros,
    from: ConnKey,
    ended: u64,
}

impl Farewell {
    /// How far a drain is.
    pub(super) fn drain_state(&self, shard: &Shard) -> DrainState {
        DrainState {
            is_draining: self.draining.is_some(),
            ended: self.draining.as_ref().map_or(0, |draining| draining.ended),
            connections: shard.stats().connections,
        }
    }

    /// A connection has come.
    pub(super) fn came(&mut self, conn: ConnKey, by: ListenerId) {
        let at = conn.0 as usize;
        if by != ListenerId(0) && self.by.len() <= at {
            self.by.resize(at + 1, ListenerId(0));
        }
        if let Some(place) = self.by.get_mut(at) {
            *place = by;
        }
        if by != ListenerId(0) {
            *self.count(by) += 1;
        }
    }

    /// A connection is over, or goes to another shard. Says what it came in by.
    pub(super) fn left(&mut self, conn: ConnKey) -> ListenerId {
        let Some(place) = self.by.get_mut(conn.0 as usize) else { return ListenerId(0) };
        let by = std::mem::replace(place, ListenerId(0));
        if by != ListenerId(0) {
            *self.count(by) -= 1;
        }
        by
    }

    fn count(&mut self, of: ListenerId) -> &mut u64 {
        let at = usize::from(of.0);
        let length = self.counts.len().max(at + 1);
        self.counts.resize(length, 0);
        &mut self.counts[at]
    }

    /// The listener that it came in by.
    pub(super) fn by(&self, conn: ConnKey) -> ListenerId {
        self.by.get(conn.0 as usize).copied().unwrap_or(ListenerId(0))
    }

    /// A listener is there no more.
    pub(super) fn gone(&mut self, id: ListenerId, now: Micros) {
        self.gone.push(Gone { id, at: Some(now + STAY), from: ConnKey(0) });
    }

    /// Whether the time is over of those who came as this connection did.
    pub(super) fn is_gone(&self, conn: ConnKey) -> bool {
        let by = self.by(conn);
        self.gone.iter().any(|gone| gone.id == by && gone.at.is_none())
    }

    /// When somebody has to go.
    pub(super) fn due(&self) -> Option<Micros> {
        let gone = self.gone.iter().filter_map(|gone| gone.at);
        gone.chain(self.draining.as_ref().map(|draining| draining.at)).min()
    }

    /// Connections of each listener, by its number.
    pub(super) fn counts(&self, connections: u64) -> Vec<u64> {
        let others: u64 = self.counts.iter().sum();
        let first = connections.saturating_sub(others);
        std::iter::once(first).chain(self.counts.iter().skip(1).copied()).collect()
    }
}

impl Shell {
    /// Ends those whose turn it is.
    pub(super) fn see_off(&mut self, io: &mut Io) {
        let (shard, mut output) = self.parts(io);
        let now = output.now();
        let due = |gone: &Gone| gone.at.is_some_and(|at| at <= now);
        if let Some(at) = output.guard.farewell.gone.iter().position(due) {
            output.end_of_listener(at, shard);
        }
        output.send_away(shard);
    }
}

impl Output<'_> {
    /// Ends some of a listener that is gone.
    fn end_of_listener(&mut self, at: usize, shard: &mut Shard) {
        let now = self.now();
        let farewell = &mut self.guard.farewell;
        let Gone { id, from, .. } = farewell.gone[at];
        let (mut ended, mut next) = (Vec::new(), None);
        for (looks, conn) in shard.conns_from(from).enumerate() {
            if looks == LOOKS_MAX || ended.len() == ENDS_MAX {
                next = Some(conn);
                break;
            }
            if farewell.by(conn) == id {
                ended.push(conn);
            }
        }
        farewell.gone[at] = Gone { id, at: next.map(|_| now), from: next.unwrap_or(ConnKey(0)) };
        shard.end_unwelcome(&ended, Unwelcome::ListenerGone, now, self);
    }

    /// Sends some clients away, if it is time.
    fn send_away(&mut self, shard: &mut Shard) {
        let now = self.now();
        let Some(draining) = &self.guard.farewell.draining else { return };
        if draining.at > now {
            return;
        }
        let (from, per_second) = (draining.from, u64::from(draining.per_second));
        // A hundredth of a second's worth.
        let count = (per_second / 100).clamp(1, ENDS_MAX as u64);
        let (sent, next) = shard.send_away(from, count as usize, now, self);
        let Some(draining) = &mut self.guard.farewell.draining else { return };
        draining.ended += sent as u64;
        draining.from = next.unwrap_or(ConnKey(0));
        let wait = if next.is_some() { Micros(count * SECOND / per_second) } else { LOOK_AGAIN };
        draining.at = now + wait;
        self.guard.farewell.sent_away += sent as u64;
    }

    /// Does what the control thread wants of a drain. Says how far it is.
    pub(super) fn drain(&mut self, order: DrainOrder, shard: &mut Shard) -> DrainState {
        let now = self.now();
        match order {
            DrainOrder::Look => {}
            DrainOrder::End => {
                shard.set_drain(None);
                self.guard.farewell.draining = None;
            }
            DrainOrder::Begin { is_moved, reference, per_second } => {
                let reference = reference.map(Into::into);
                shard.set_drain(Some(Arc::new(Drain { is_moved, reference })));
                let ended = self.guard.farewell.draining.as_ref().map_or(0, |it| it.ended);
                let (from, per_second) = (ConnKey(0), per_second.max(1));
                let draining = Draining { per_second, at: now, from, ended };
                self.guard.farewell.draining = Some(draining);
            }
        }
        self.guard.farewell.drain_state(shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_known_by_its_listener_and_the_first_costs_nothing() {
        let mut farewell = Farewell::default();
        farewell.came(ConnKey(9), ListenerId(0));
        assert!(farewell.by.is_empty());
        farewell.came(ConnKey(3), ListenerId(2));
        assert_eq!([2, 3, 9].map(|at| farewell.by(ConnKey(at)).0), [0, 2, 0]);
        assert_eq!(farewell.counts(5), [4, 0, 1]);
        assert_eq!([3, 3, 9].map(|at| farewell.left(ConnKey(at)).0), [2, 0, 0]);
        assert_eq!(farewell.counts(4), [4, 0, 0]);
        farewell.came(ConnKey(3), ListenerId(0));
        assert_eq!(farewell.by(ConnKey(3)), ListenerId(0), "the key is another connection's now");
        farewell.gone(ListenerId(0), Micros(5));
        assert_eq!(farewell.due(), Some(Micros(5) + STAY));
        assert!(!farewell.is_gone(ConnKey(3)));
    }
}
