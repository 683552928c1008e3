//! The task that tells the shards of traces, and takes what they have copied.
//!
//! It alone asks them, so that they hear of beginnings and ends in order. It is there while a trace
//! goes on.

use crate::asks::Asks;
use crate::port::{Answer, Full, Request};
use crate::traces::{TraceOf, TraceShown, TraceWish};
use std::sync::Arc;
use std::time::Duration;

/// The time between two looks at what the shards have copied.
const LOOK: Duration = Duration::from_millis(100);

/// How long the shards may take to hear of a new one.
const START_MAX: Duration = Duration::from_secs(5);

/// Why there is no trace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotStarted {
    /// As many go on as may.
    TooMany,
    /// The shards take no request now.
    Busy,
}

/// Begins a trace, and waits until all shards have heard of it.
pub(crate) async fn start(
    asks: &Arc<Asks>,
    of: TraceOf,
    length: Duration,
    bytes_max: usize,
) -> Result<TraceShown, NotStarted> {
    let added = asks.traces.add(of, length, bytes_max);
    let (id, is_first) = added.ok_or(NotStarted::TooMany)?;
    if is_first {
        tokio::spawn(look(Arc::clone(asks)));
    }
    let heard = async {
        loop {
            let news = asks.traces.news();
            tokio::pin!(news);
            // From now on, so that none is missed.
            news.as_mut().enable();
            if !asks.traces.is_new(id) {
                return;
            }
            news.await;
        }
    };
    if tokio::time::timeout(START_MAX, heard).await.is_err() {
        asks.traces.end(id);
    }
    asks.traces.one(id).ok_or(NotStarted::Busy)
}

async fn look(asks: Arc<Asks>) {
    loop {
        for (id, wish) in asks.traces.wishes() {
            let has_begun = matches!(wish, TraceWish::Start { .. });
            // What is not heard is said again.
            if ask_all(&asks, wish).await.is_ok() {
                asks.traces.heard(id, has_begun);
            }
        }
        if asks.traces.rests() {
            return;
        }
        tokio::time::sleep(LOOK).await;
        // One that takes no request now is asked again.
        let _ = ask_all(&asks, TraceWish::GoOn).await;
    }
}

/// Asks all shards, and takes what they have copied.
async fn ask_all(asks: &Asks, wish: TraceWish) -> Result<(), Full> {
    let mut all = Vec::new();
    for answer in asks.ask_all(&Request::Trace(wish)).await? {
        if let Answer::Trace(traced) = answer {
            all.push(traced);
        }
    }
    asks.traces.take(all);
    Ok(())
}
