//! The task that has the shards count who sends and gets most.
//!
//! One window at a time: whoever asks while it goes on gets what it counts. The task ends it also
//! when nobody waits for it any more.

use crate::asks::Asks;
use crate::port::{Answer, Full, Request};
use crate::top::{Outcome, Tally, TopWish, Window};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long the task waits before it asks a shard again that takes no request.
const AGAIN: Duration = Duration::from_millis(100);

/// Waits for the window that goes on, or for one of this length.
pub(crate) async fn window(asks: &Arc<Asks>, length: Duration) -> Result<Arc<Window>, Full> {
    let mut outcome = asks.windows.join(|| {
        let (tell, outcome) = watch::channel(None);
        tokio::spawn(count(Arc::clone(asks), length, tell));
        outcome
    });
    let outcome = outcome.wait_for(Option::is_some).await.map_err(|_| Full)?;
    outcome.clone().flatten().ok_or(Full)
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
    let window = Window { seconds, tally: tally.merged() };
    // Whoever waited may be gone.
    let _ = tell.send(Some(begun.is_ok().then(|| Arc::new(window))));
}
