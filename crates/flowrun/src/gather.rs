//! Letting messages gather: a turn of the loop costs several times what a message does, whether it
//! brings one or forty.

use std::time::Duration;
use weir_wire::QoS;

/// Messages that have to come within a rest, for a rest to be worth it.
const OFTEN: u64 = 2;

/// Says after which turns a thread rests.
///
/// Turns begin no sooner than the rest after each other while messages come often, so one waits
/// for so long at most. A message that comes alone is taken at once. A turn with messages of QoS 1
/// is not rested after: the broker's window may be full, and then nothing comes before they are
/// acknowledged. Nor does the caller rest while anything is open on the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gather {
    rest_us: u64,
    /// Messages of QoS 0 that this turn brought, and whether it brought others.
    messages: u64,
    is_owed: bool,
    /// When the last turn with messages began.
    last_us: u64,
}

impl Gather {
    /// With rests of that length; none if it is 0.
    pub(crate) const fn new(rest_us: u64) -> Self {
        Self { rest_us, messages: 0, is_owed: false, last_us: 0 }
    }

    /// A message came.
    #[inline]
    pub(crate) fn took(&mut self, qos: QoS) {
        self.messages += 1;
        self.is_owed |= qos != QoS::AtMostOnce;
    }

    /// How long to rest after the turn that began then.
    pub(crate) fn rest(&mut self, began_us: u64, now_us: u64) -> Duration {
        let messages = std::mem::take(&mut self.messages);
        let is_owed = std::mem::take(&mut self.is_owed);
        if messages == 0 {
            return Duration::ZERO;
        }
        let since_us = began_us.saturating_sub(std::mem::replace(&mut self.last_us, began_us));
        let is_often = messages.saturating_mul(self.rest_us) >= since_us.saturating_mul(OFTEN);
        if is_owed || !is_often {
            return Duration::ZERO;
        }
        Duration::from_micros((began_us + self.rest_us).saturating_sub(now_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST_US: u64 = 1_000;

    /// Rests after turns that begin after so long and bring so many messages, each 10 us long.
    fn rests(turns: &[(u64, u64)], qos: QoS) -> Vec<u64> {
        let mut gather = Gather::new(REST_US);
        let mut began_us = 1_000_000;
        let mut rest_us = |&(after_us, messages): &(u64, u64)| {
            began_us += after_us;
            (0..messages).for_each(|_| gather.took(qos));
            gather.rest(began_us, began_us + 10).as_micros() as u64
        };
        turns.iter().map(&mut rest_us).collect()
    }

    #[test]
    fn what_comes_often_is_rested_for_and_what_comes_alone_is_not() {
        let qos = QoS::AtMostOnce;
        assert_eq!(rests(&[(0, 1), (1_000, 1), (600, 1), (5_000, 9)], qos), [0, 0, 0, 0]);
        assert_eq!(rests(&[(0, 1), (50, 1), (1_060, 20), (1_060, 21)], qos), [0, 990, 990, 990]);
        assert_eq!(rests(&[(0, 1), (50, 0), (50, 1)], qos), [0, 0, 990], "a turn without messages");
    }

    #[test]
    fn what_is_to_be_acknowledged_is_not_waited_for() {
        assert_eq!(rests(&[(0, 1), (50, 30), (50, 30)], QoS::AtLeastOnce), [0, 0, 0]);
    }

    #[test]
    fn a_rest_of_nothing_is_none() {
        let mut gather = Gather::new(0);
        (0..9).for_each(|_| gather.took(QoS::AtMostOnce));
        assert_eq!(gather.rest(0, 0), Duration::ZERO);
        // A turn that took longer than the rest.
        let mut gather = Gather::new(REST_US);
        (0..9_000).for_each(|_| gather.took(QoS::AtMostOnce));
        assert_eq!(gather.rest(1_000, 9_000), Duration::ZERO);
    }
}
