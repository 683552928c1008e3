//! How many connections come in a second: a bucket that holds one second's, of which no host may
//! have more than its share.

use crate::shrink::KEPT;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::net::IpAddr;
use weir_core::{Micros, share_of};

/// A second, or a connection in millionths.
const ONE: u64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Rate {
    /// Connections per second; 0 is any number.
    per_second: u64,
    /// As many of them may be of one host.
    per_second_of_host: u64,
    /// Connections allowed now, in millionths.
    tokens: u64,
    filled_at: Micros,
    /// When a host that had some of late may have a whole second's share at once again.
    whole_at: HashMap<IpAddr, u64, RandomState>,
    /// Hosts that had some of late are sought when there are so many.
    sweep_at: usize,
}

impl Rate {
    pub(super) fn new(per_second: u32, share_percent: u8) -> Self {
        Self {
            per_second: per_second.into(),
            per_second_of_host: share_of(per_second.into(), share_percent),
            tokens: u64::from(per_second) * ONE,
            filled_at: Micros(0),
            whole_at: HashMap::default(),
            sweep_at: KEPT,
        }
    }

    /// Whether another connection of `host` may come in now.
    pub(super) fn take(&mut self, host: IpAddr, now: Micros) -> bool {
        if self.per_second == 0 {
            return true;
        }
        let passed_us = now.0.saturating_sub(self.filled_at.0).min(ONE);
        self.tokens = (self.tokens + passed_us * self.per_second).min(self.per_second * ONE);
        self.filled_at = now;
        if self.tokens < ONE || !self.take_of_host(host, now) {
            return false;
        }
        self.tokens -= ONE;
        true
    }

    fn take_of_host(&mut self, host: IpAddr, now: Micros) -> bool {
        if self.per_second_of_host == self.per_second || host.is_loopback() {
            return true;
        }
        let whole_at = self.whole_at.get(&host).map_or(now.0, |&at| at.max(now.0));
        let whole_at = whole_at + ONE / self.per_second_of_host;
        if whole_at > now.0 + ONE {
            return false;
        }
        self.whole_at.insert(host, whole_at);
        if self.whole_at.len() > self.sweep_at {
            self.whole_at.retain(|_, at| *at > now.0);
            self.sweep_at = KEPT.max(2 * self.whole_at.len());
            self.whole_at.shrink_to(self.sweep_at);
        }
        true
    }
}
