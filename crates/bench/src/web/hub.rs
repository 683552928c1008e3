//! From the stream of events to those who listen: the state so far, then every event.

use crate::live::events::Event;
use crate::live::state::State;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::broadcast;

/// Events that a slow listener may be behind. One that is further behind is cut off; its page
/// comes again and begins with the state.
const EVENTS_MAX: usize = 256;

/// The state of a command and those who hear of its events.
pub(crate) struct Hub {
    state: Mutex<State>,
    /// Taken at the end; then those who listen hear what is left, and no more.
    events: Mutex<Option<broadcast::Sender<Arc<str>>>>,
}

impl Default for Hub {
    fn default() -> Self {
        let events = Mutex::new(Some(broadcast::channel(EVENTS_MAX).0));
        Self { state: Mutex::default(), events }
    }
}

impl Hub {
    /// Notes an event and passes it on; does not wait for anybody.
    pub(crate) fn tell(&self, event: &Event) {
        // Locked until it is passed on, so that who joins misses none and hears none twice.
        let mut state = lock(&self.state);
        state.handle(event);
        if let Some(events) = &*lock(&self.events)
            && events.receiver_count() > 0
            && let Ok(text) = serde_json::to_string(event)
        {
            // Who listened may have gone meanwhile.
            let _ = events.send(text.into());
        }
    }

    /// Nothing more will be told.
    pub(super) fn close(&self) {
        lock(&self.events).take();
    }

    /// The state so far as JSON, and every event from then on; absent after the end.
    pub(super) fn join(&self) -> Option<(String, broadcast::Receiver<Arc<str>>)> {
        let state = lock(&self.state);
        let receiver = lock(&self.events).as_ref()?.subscribe();
        let text = serde_json::to_string(&*state).unwrap_or_else(|_| "{}".into());
        Some((text, receiver))
    }

    /// Looks at the state.
    pub(super) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&lock(&self.state))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
