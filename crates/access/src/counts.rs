//! What tokens and services came to, counted by the thread and read by others.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the start, and how things stand.
        #[derive(Debug, Default)]
        pub struct Counts {
            $($(#[$doc])* pub(crate) $name: AtomicU64,)*
        }

        impl Counts {
            /// Each with its name.
            pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*].into_iter()
            }
        }
    };
}

counts! {
    /// Tokens whose signature was checked.
    tokens_checked,
    /// Tokens that had been checked not long before.
    tokens_known,
    /// Tokens that let nobody in.
    tokens_wrong,
    /// Sets of keys that were fetched.
    keys_fetched,
    /// Sets of keys that could not be.
    keys_failed,
    /// Whether the service answered the last time.
    auth_service_up,
    /// Clients that the service was asked about.
    auth_service_asked,
    /// Clients let in by what the service said not long before.
    auth_service_known,
    /// Clients that it let in.
    auth_service_allowed,
    /// Clients that it did not let in.
    auth_service_denied,
    /// Clients that it knows nothing of.
    auth_service_ignored,
    /// Questions without an answer that could be used.
    auth_service_failed,
    /// Those of them that took too long.
    auth_service_timed_out,
    /// Clients refused because too many waited.
    auth_service_busy,
    /// Clients that wait for an answer, to tokens as well.
    auth_service_queue,
    /// How long all answers of the service took together, in microseconds.
    auth_service_us_sum,
    /// How long the longest took.
    auth_service_us_max,
}

pub(crate) fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

impl Counts {
    /// An answer was taken: another client may wait.
    pub fn answered(&self) {
        self.auth_service_queue.fetch_sub(1, Ordering::Relaxed);
    }

    /// The service has answered after this time.
    pub(crate) fn took(&self, time: Duration) {
        let us = time.as_micros() as u64;
        self.auth_service_us_sum.fetch_add(us, Ordering::Relaxed);
        self.auth_service_us_max.fetch_max(us, Ordering::Relaxed);
    }
}
