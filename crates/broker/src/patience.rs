//! What a thread waits for, so that more leaves or comes at a time.

use crate::config::Config;
use std::time::Duration;
use weir_reactor::Io;

/// The longest waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Of output for more of it.
    gather: Duration,
    /// Of input for more of it.
    rest: Duration,
}

impl Patience {
    /// As the configuration says.
    pub(crate) fn of(config: &Config) -> Self {
        let gather = Duration::from_millis(config.latency_budget_ms.into());
        Self { gather, rest: Duration::from_micros(config.rest_us.into()) }
    }

    /// A thread goes by them from now on.
    pub(crate) fn apply(self, io: &mut Io) {
        io.set_gather(self.gather);
        io.set_rest(self.rest);
    }
}
