//! Which clients send and get most, counted while somebody wants to know.
//!
//! [`crate::window`] has the shards count.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Clients of each order that a shard tells of, and that an answer may have.
pub const TALKERS_MAX: u16 = 100;

/// What was exchanged with clients.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
pub struct Traffic {
    /// PUBLISH packets that came.
    pub messages_in: u64,
    /// PUBLISH packets that were written.
    pub messages_out: u64,
    /// Bytes of all MQTT packets that came.
    pub bytes_in: u64,
    /// Bytes of all MQTT packets that were written.
    pub bytes_out: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.messages_in += other.messages_in;
        self.messages_out += other.messages_out;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }
}

/// A client, and what was exchanged with it.
#[derive(
    Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct Talker {
    /// Its client identifier.
    pub client_id: String,
    /// The user that it is, where the broker asks who clients are and it is still connected.
    pub user: Option<String>,
    /// In the window.
    #[serde(flatten)]
    pub traffic: Traffic,
}

/// What a shard is to do about a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopWish {
    /// Begin to count.
    Begin,
    /// Count no more, and say what was counted.
    End,
}

/// What was counted: by a shard, or by all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Of all clients.
    pub total: Traffic,
    /// Those with most, by each number of [`Traffic`]: so many of each, in no order.
    pub talkers: Vec<Talker>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Self) {
        self.total += other.total;
        self.talkers.extend(other.talkers);
    }

    /// With each client once: one may have moved, or come again.
    pub(crate) fn merged(self) -> Self {
        let mut by_name: HashMap<String, Talker> = HashMap::new();
        for talker in self.talkers {
            match by_name.get_mut(&talker.client_id) {
                Some(known) => {
                    known.traffic += talker.traffic;
                    known.user = known.user.take().or(talker.user);
                }
                None => _ = by_name.insert(talker.client_id.clone(), talker),
            }
        }
        Self { talkers: by_name.into_values().collect(), ..self }
    }

    /// Those with most by `key`, the first with most of all, at most so many; none with nothing.
    pub(crate) fn first(&self, key: impl Fn(&Traffic) -> u64, talkers_max: u16) -> Vec<Talker> {
        let mut all: Vec<_> = self.talkers.iter().filter(|it| key(&it.traffic) > 0).collect();
        all.sort_by_key(|it| (Reverse(key(&it.traffic)), &it.client_id));
        all.into_iter().take(talkers_max.into()).cloned().collect()
    }
}

/// A window that is over.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) seconds: f64,
    pub(crate) tally: Tally,
}

/// Nothing while it goes on; then nothing in it, if the shards did not begin.
pub(crate) type Outcome = Option<Option<Arc<Window>>>;

/// The window that goes on, if there is one.
#[derive(Default)]
pub(crate) struct Windows(Mutex<Option<watch::Receiver<Outcome>>>);

impl Windows {
    /// The one that goes on, or the one that `begin` begins.
    pub(crate) fn join(
        &self,
        begin: impl FnOnce() -> watch::Receiver<Outcome>,
    ) -> watch::Receiver<Outcome> {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = current.as_ref().filter(|it| it.borrow().is_none()).cloned();
        goes_on.unwrap_or_else(|| current.insert(begin()).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn talker(client_id: &str, messages_in: u64, bytes_out: u64) -> Talker {
        let traffic = Traffic { messages_in, bytes_out, ..Traffic::default() };
        Talker { client_id: client_id.into(), user: None, traffic }
    }

    #[test]
    fn a_client_of_two_shards_is_one_and_the_first_has_most() {
        let shard = |talkers: Vec<Talker>| {
            let mut total = Traffic::default();
            talkers.iter().for_each(|talker| total += talker.traffic);
            Tally { total, talkers }
        };
        let mut all = shard(vec![talker("a", 3, 7), talker("b", 5, 0)]);
        all.add(shard(vec![talker("a", 4, 1), talker("c", 0, 9)]));
        let all = all.merged();
        assert_eq!((all.total.messages_in, all.total.bytes_out), (12, 17));
        assert_eq!(all.first(|it| it.messages_in, 9), [talker("a", 7, 8), talker("b", 5, 0)]);
        assert_eq!(all.first(|it| it.bytes_out, 1), [talker("c", 0, 9)]);
    }
}
