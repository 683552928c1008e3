//! What a bridge has done, where other threads read it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A counter; its place in [`COUNTS`] is its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// Messages relayed to the remote broker; those of QoS 1 and 2 once it has acknowledged them.
    Out,
    /// Messages relayed to the local broker, likewise.
    In,
    /// Times that the remote broker was connected to.
    Connects,
    /// Connections, or tries to connect, that failed.
    Failures,
    /// Messages that had passed as many bridges as they may.
    DroppedHops,
    /// Messages that are longer than the other end takes, or whose topic would be.
    DroppedTooLarge,
    /// Messages that the other end has refused for good.
    DroppedRefused,
    /// Messages of QoS 0 for which there was no room.
    DroppedFull,
    /// Messages that came by a subscription which is not one of the bridge's any more.
    DroppedUnmatched,
}

/// Every counter with its name.
const COUNTS: [(Count, &str); 9] = [
    (Count::Out, "messages_out"),
    (Count::In, "messages_in"),
    (Count::Connects, "connects"),
    (Count::Failures, "failures"),
    (Count::DroppedHops, "dropped_hops"),
    (Count::DroppedTooLarge, "dropped_too_large"),
    (Count::DroppedRefused, "dropped_refused"),
    (Count::DroppedFull, "dropped_full"),
    (Count::DroppedUnmatched, "dropped_unmatched"),
];

/// The counters of one bridge.
#[derive(Debug, Default)]
pub(crate) struct Counts([AtomicU64; COUNTS.len()]);

impl Counts {
    #[inline]
    pub(crate) fn add(&self, count: Count) {
        self.0[count as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, count: Count) -> u64 {
        self.0[count as usize].load(Ordering::Relaxed)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (count, name)) in COUNTS.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{name}={}", self.of(*count))?;
        }
        Ok(())
    }
}

/// How a bridge is, for its thread and all others.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) counts: Counts,
    is_connected: AtomicBool,
    /// Where, and what was wrong last.
    words: Mutex<Words>,
}

#[derive(Clone, Debug, Default)]
struct Words {
    remote: String,
    last_error: Option<String>,
}

/// How a bridge is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeState {
    /// Its name.
    pub name: String,
    /// Its client identifier in the own broker: that of its queue.
    pub client_id: String,
    /// The place of the remote broker that it is connected to, or has tried last.
    pub remote: String,
    /// Whether messages are relayed at present.
    pub is_connected: bool,
    /// Why it was last not, if it ever was.
    pub last_error: Option<String>,
    /// Its counters by name.
    pub counts: Vec<(&'static str, u64)>,
}

impl Shared {
    pub(crate) fn connected(&self, remote: &str) {
        self.is_connected.store(true, Ordering::Relaxed);
        self.counts.add(Count::Connects);
        self.with_words(|words| words.remote = remote.to_owned());
    }

    pub(crate) fn disconnected(&self) {
        self.is_connected.store(false, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, remote: &str, error: &str) {
        self.disconnected();
        self.counts.add(Count::Failures);
        self.with_words(|words| {
            (words.remote, words.last_error) = (remote.to_owned(), Some(error.to_owned()));
        });
    }

    /// Something is wrong, and does not end the connection.
    pub(crate) fn complain(&self, error: &str) {
        self.with_words(|words| words.last_error = Some(error.to_owned()));
    }

    fn with_words(&self, change: impl FnOnce(&mut Words)) {
        change(&mut self.words.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn state(&self, name: &str, client_id: &str) -> BridgeState {
        let Words { remote, last_error } =
            self.words.lock().unwrap_or_else(PoisonError::into_inner).clone();
        BridgeState {
            name: name.to_owned(),
            client_id: client_id.to_owned(),
            remote,
            is_connected: self.is_connected.load(Ordering::Relaxed),
            last_error,
            counts: COUNTS.iter().map(|(count, name)| (*name, self.counts.of(*count))).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_stands_at_its_number() {
        for (at, (count, name)) in COUNTS.iter().enumerate() {
            assert_eq!(*count as usize, at, "{name}");
        }
    }
}
