//! How long messages are in the broker: from the turn that read them until they are with the
//! system.
//!
//! Nothing is measured per message. All that is sent in a turn was read after the turn began (or
//! came from another thread by then), and has left when the turn is over, so a turn's length is the
//! most that each of its messages took. What gathers leaves with a later turn: it counts from the
//! beginning of the turn in which the first of it came.
//!
//! What a message waits for before a thread reads it is not in it, nor what waits in a queue for a
//! client, nor, of a message for another thread's client, its part of the turn of the thread that
//! read it.

use super::Shell;
use weir_reactor::{Durations, Io};

#[derive(Debug, Default)]
pub(crate) struct Latency {
    pub(crate) durations: Durations,
    /// Messages that were sent, and those that gathered, up to the last turn.
    sent: u64,
    gathered: u64,
    /// Those that gather now, and since when.
    gathering: u64,
    since_us: u64,
}

impl Latency {
    /// A turn is over, after so many messages were sent in all.
    #[inline]
    pub(crate) fn turned(&mut self, sent: u64, io: &Io) {
        self.note(sent, io.gathered(), io.gathers(), (io.turn_us(), io.done_us()));
    }

    fn note(&mut self, sent: u64, gathered: u64, gathers: bool, (turn_us, done_us): (u64, u64)) {
        if sent == self.sent && (self.gathering == 0 || gathers) {
            return;
        }
        let waiting = gathered - self.gathered;
        // What gathers and could not be sent after all is in the one number alone.
        let at_once = (sent - self.sent).saturating_sub(waiting);
        (self.sent, self.gathered) = (sent, gathered);
        self.durations.add(done_us.saturating_sub(turn_us), at_once);
        if self.gathering == 0 {
            self.since_us = turn_us;
        }
        self.gathering += waiting;
        if !gathers {
            let waited_us = done_us.saturating_sub(self.since_us);
            self.durations.add(waited_us, std::mem::take(&mut self.gathering));
        }
    }
}

impl Shell {
    /// A turn is over.
    pub(crate) fn turned(&mut self, io: &Io) {
        self.guard.latency.turned(self.shard.publishes_out(), io);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often messages took at most 50, 100 and 200 us.
    fn counts(latency: &Latency) -> [u64; 3] {
        let [first, second, third, ..] = latency.durations.counts;
        [first, second, third]
    }

    #[test]
    fn what_a_turn_sends_took_as_long_as_the_turn() {
        let mut latency = Latency::default();
        latency.note(0, 0, false, (0, 1_000));
        latency.note(3, 0, false, (1_000, 1_040));
        latency.note(3, 0, false, (2_000, 2_090));
        latency.note(5, 0, false, (3_000, 3_090));
        assert_eq!(counts(&latency), [3, 2, 0]);
        assert_eq!(latency.durations.us_sum, 3 * 40 + 2 * 90);
    }

    #[test]
    fn what_gathers_took_until_it_left() {
        let mut latency = Latency::default();
        // One of three leaves at once.
        latency.note(3, 2, true, (1_000, 1_040));
        assert_eq!(counts(&latency), [1, 0, 0]);
        latency.note(3, 2, true, (1_050, 1_060));
        latency.note(4, 3, true, (1_060, 1_090));
        assert_eq!(counts(&latency), [1, 0, 0]);
        latency.note(4, 3, false, (1_150, 1_180));
        assert_eq!(counts(&latency), [1, 0, 3]);
        latency.note(4, 3, false, (1_200, 1_300));
        assert_eq!(counts(&latency), [1, 0, 3]);
    }
}
