//! Which clients send and get most, counted while somebody wants to know.
//!
//! One window at a time: whoever asks while it goes on gets what it counts. A task has the shards
//! begin and end it, also when nobody waits for it any more.

use crate::asks::Asks;
use crate::port::{Answer, Full, Request};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::AddAssign;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Clients of each order that a shard tells of, and that an answer may have.
pub const TALKERS_MAX: u16 = 100;

/// How long the task waits before it asks a shard again that takes no request.
const AGAIN: Duration = Duration::from_millis(100);

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
    fn add(&mut self, other: Self) {
        self.total += other.total;
        self.talkers.extend(other.talkers);
    }

    /// With each client once: one may have moved, or come again.
    fn merged(self) -> Self {
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

/// Nothing while it goes on.
type Outcome = Option<Result<Arc<Window>, Full>>;

/// The window that goes on, if there is one.
#[derive(Default)]
pub(crate) struct Windows(Mutex<Option<watch::Receiver<Outcome>>>);

/// Waits for the window that goes on, or for one of this length.
pub(crate) async fn window(asks: &Arc<Asks>, length: Duration) -> Result<Arc<Window>, Full> {
    let mut outcome = {
        let mut current = asks.windows.0.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = current.as_ref().filter(|it| it.borrow().is_none()).cloned();
        goes_on.unwrap_or_else(|| {
            let (tell, outcome) = watch::channel(None);
            tokio::spawn(count(Arc::clone(asks), length, tell));
            current.insert(outcome).clone()
        })
    };
    let outcome = outcome.wait_for(Option::is_some).await.map_err(|_| Full)?;
    outcome.clone().unwrap_or(Err(Full))
}

async fn count(asks: Arc<Asks>, length: Duration, tell: watch::Sender<Outcome>) {
    let begun = asks.ask_all(&Request::Top(TopWish::Begin)).await;
    let began = Instant::now();
    if begun.is_ok() {
        tokio::time::sleep(length).await;
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut tally = Tally::default();
    for shard in 0..asks.shards() {
        // One that takes no request now is asked again: else it would count for ever.
        loop {
            match asks.ask(shard, Request::Top(TopWish::End)).await {
                Ok(Answer::Top(of_shard)) => break tally.add(*of_shard),
                _ => tokio::time::sleep(AGAIN).await,
            }
        }
    }
    // Whoever waited may be gone.
    let window = Window { seconds, tally: tally.merged() };
    let _ = tell.send(Some(begun.map(|_| Arc::new(window))));
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
