//! What outlives the thread.

use crate::counts::Counts;
use hyper::body::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What outlives one thread, for the next one: of the same process, and with other settings.
#[derive(Clone, Debug)]
pub struct Lasting {
    /// Of hashes; nobody else knows it.
    pub(crate) secret: [u8; 32],
    pub(crate) counts: Arc<Counts>,
    /// The keys of tokens that were fetched last, and where.
    fetched: Arc<Mutex<Option<(String, Bytes)>>>,
}

impl Lasting {
    /// Of a process that has this secret, which nobody else knows.
    pub fn new(secret: [u8; 32]) -> Self {
        Self { secret, counts: Arc::default(), fetched: Arc::default() }
    }

    pub(crate) fn fetched(&self) -> MutexGuard<'_, Option<(String, Bytes)>> {
        self.fetched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
