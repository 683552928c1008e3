//! How long to wait before a connection is made again.

/// Rests between two tries, in microseconds: each is twice the one before.
const REST_MIN_US: u64 = 50_000;
const REST_MAX_US: u64 = 1_000_000;

/// A connection that lasted so long was a good one: the next rest is the shortest again.
const STEADY_US: u64 = 5_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    rest_us: u64,
    /// Since when there is a connection.
    since_us: Option<u64>,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { rest_us: REST_MIN_US, since_us: None }
    }

    /// There is a connection.
    pub(crate) fn made(&mut self, now_us: u64) {
        self.since_us = Some(now_us);
    }

    /// It is lost, or could not be made. Says when to try again.
    pub(crate) fn lost(&mut self, now_us: u64) -> u64 {
        if self.since_us.take().is_some_and(|since_us| now_us >= since_us + STEADY_US) {
            self.rest_us = REST_MIN_US;
        }
        let again_us = now_us + self.rest_us;
        self.rest_us = (2 * self.rest_us).min(REST_MAX_US);
        again_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_up_to_a_bound_and_begin_anew_after_a_connection_that_lasted() {
        let mut backoff = Backoff::new();
        for rest_us in [50_000, 100_000, 200_000, 400_000, 800_000, 1_000_000, 1_000_000] {
            assert_eq!(backoff.lost(7), 7 + rest_us);
        }
        backoff.made(7);
        assert_eq!(backoff.lost(4_000_000), 5_000_000, "it was no good");
        backoff.made(7);
        assert_eq!(backoff.lost(5_000_007), 5_050_007);
    }
}
