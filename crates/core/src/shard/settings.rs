//! Settings that are changed while the shard runs.

use super::Shard;
use crate::keys::Micros;
use crate::limits::Limits;
use crate::share::SharePolicy;

impl Shard {
    /// Has it go by other bounds from now on. Connections keep what they were told when they began:
    /// of the largest packet, Receive Maximum and Topic Alias Maximum the highest holds that any
    /// client was told.
    pub fn set_limits(&mut self, limits: &Limits) {
        self.bounds.set_limits(limits);
        self.answers.set_wait_max(Micros::from_secs(limits.answer_wait_s_max));
        self.slices.set_steps_max(limits.input_steps_max);
    }

    /// Has shared subscriptions that begin from now on choose members by another rule.
    pub fn set_share(&mut self, share: SharePolicy) {
        self.filters.share = share;
    }

    /// Whether every CONNECT from now on has to pass the authentication port.
    pub fn set_authentication(&mut self, is_on: bool) {
        self.bounds.features.authentication = is_on;
    }
}
