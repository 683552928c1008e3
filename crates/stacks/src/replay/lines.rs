//! The lines between the replay server and the one who runs it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// Highest rate that is taken, messages a second.
const RATE_PER_S_MAX: f64 = 20e6;

/// Most messages of one play: the ledger has two bits for each.
const MESSAGES_MAX: f64 = 500e6;

/// Most messages of a segment.
const PER_SEGMENT_MAX: u32 = 1_000;

/// Largest window: half of all packet identifiers, so that a free one is soon found.
const WINDOW_MAX: u32 = 32_768;

/// Where a stack is told to publish.
pub const RESULT_TOPIC: &str = "cells";

/// What the server is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Play to the stack that has subscribed.
    Play(Play),
    /// Say what was counted so far.
    Counts {},
}

/// How the feed is to be played.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Play {
    /// Messages a second.
    pub rate_per_s: f64,
    /// Seconds before measure.
    pub warm_up_s: f64,
    /// Seconds of measure.
    pub measure_s: f64,
    /// Seconds after measure at the same rate, so that the end of measure is under load.
    pub tail_s: f64,
    /// Longest wait, in seconds, for what is owed after the last message.
    pub drain_s: f64,
    /// Messages that are due together and leave in one write.
    pub per_segment: u32,
    /// QoS 1 messages that may be unacknowledged; the stack's Receive Maximum may be less.
    pub window: u32,
    /// Whether messages with a whole cell must come back.
    pub returns: bool,
}

/// A play that cannot be.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlayError(&'static str);

impl Play {
    /// Messages in all: whole segments.
    pub fn messages(&self) -> u64 {
        let seconds = self.warm_up_s + self.measure_s + self.tail_s;
        let segments = (self.rate_per_s * seconds / f64::from(self.per_segment)).ceil();
        segments as u64 * u64::from(self.per_segment)
    }

    /// Whether it can be played.
    ///
    /// # Errors
    /// What is out of its bounds.
    pub fn check(&self) -> Result<(), PlayError> {
        let seconds = [self.warm_up_s, self.measure_s, self.tail_s, self.drain_s];
        if !(self.rate_per_s > 0.0 && self.rate_per_s <= RATE_PER_S_MAX) {
            return Err(PlayError("the rate must be above 0 and at most 20,000,000 per second"));
        }
        if !seconds.iter().all(|of| (0.0..=86_400.0).contains(of)) || self.measure_s <= 0.0 {
            return Err(PlayError("times must be 0 to 86,400 s, and measure above 0"));
        }
        if !(1..=PER_SEGMENT_MAX).contains(&self.per_segment) {
            return Err(PlayError("a segment has 1 to 1,000 messages"));
        }
        if !(1..=WINDOW_MAX).contains(&self.window) {
            return Err(PlayError("the window is 1 to 32,768"));
        }
        if self.messages() as f64 > MESSAGES_MAX {
            return Err(PlayError("more than 500,000,000 messages: play for less time"));
        }
        Ok(())
    }
}

/// What the server says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Said {
    /// The first line: where it listens.
    Listening {
        /// `HOST:PORT`.
        address: String,
    },
    /// A stack subscribed and can be played to.
    Subscribed {
        /// Its client identifier.
        client_id: String,
        /// Protocol level of its CONNECT: 3, 4 or 5.
        level: u8,
        /// What it subscribed to; it gets the whole feed all the same.
        filter: String,
        /// Granted QoS: 0 or 1.
        qos: u8,
    },
    /// A play begins; times are microseconds of the monotonic clock.
    Playing {
        /// When the first message is due.
        start_us: u64,
        /// From when to when measure lasts.
        measure_us: (u64, u64),
    },
    /// The last message has been written, `at_us` of the monotonic clock.
    Sent {
        /// When.
        at_us: u64,
    },
    /// The books of a play are closed.
    Played(Box<Played>),
    /// An answer to [`Order::Counts`].
    Counts(Counts),
    /// An order could not be followed.
    Failed {
        /// Why.
        why: String,
    },
}

/// What was counted since the server was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// CONNECT packets answered.
    pub connects: u64,
    /// Connections that ended with DISCONNECT.
    pub disconnects: u64,
    /// Connections that ended without.
    pub dropped: u64,
    /// Connections refused because there were too many, and subscriptions beside the one.
    pub refused: u64,
    /// Packets that were malformed or out of place; each ended its connection.
    pub malformed: u64,
    /// PUBLISH packets of the stack.
    pub published: u64,
    /// Their payloads, in bytes.
    pub published_bytes: u64,
    /// Of these to another topic than [`RESULT_TOPIC`].
    pub astray: u64,
    /// Of these with RETAIN.
    pub retained: u64,
}

/// What came of a play.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Played {
    /// Messages written, of all phases.
    pub sent: u64,
    /// Messages that were due and that the stack did not let be written in time.
    #[serde(default)]
    pub unsent: u64,
    /// Of those written, due in measure.
    pub measured: u64,
    /// Messages that had to come back.
    pub required: u64,
    /// Of these came back.
    pub delivered: u64,
    /// Of these never did.
    pub lost: u64,
    /// Results that had come before.
    pub duplicated: u64,
    /// Results that nobody asked for: of a message without a whole cell, of none of this play, or
    /// not of the feed at all.
    pub alien: u64,
    /// Results with other bytes, or of another QoS, than their message.
    pub altered: u64,
    /// Results that came after one of a later message.
    pub reordered: u64,
    /// Messages the stack acknowledged, at QoS 1.
    pub acknowledged: u64,
    /// Messages it did not, at QoS 1.
    pub unacknowledged: u64,
    /// Acknowledgements of nothing.
    pub acknowledged_alien: u64,
    /// Messages that were due and waited for the window.
    pub held_by_window: u64,
    /// Messages that were due and waited for the stack to read.
    pub held_by_output: u64,
    /// Calls of send.
    pub sends: u64,
    /// Intended time to receipt of the result, of messages due in measure, microseconds: a
    /// histogram as [`encode`] writes it.
    pub latency: String,
    /// Intended time to PUBACK, the same.
    pub acknowledge: String,
    /// Intended time to write, of messages due in measure that had nothing to wait for: the
    /// server's own lateness.
    pub lag: String,
    /// CPU of the server's thread in measure, microseconds.
    pub cpu_us: u64,
    /// Over what time.
    pub cpu_wall_us: u64,
    /// When the last message was written, monotonic clock.
    pub sent_us: u64,
    /// When nothing more was owed, or the wait for it was over.
    pub settled_us: u64,
    /// Why it ended early: the stack was gone.
    pub gone: Option<String>,
}

/// A histogram as V2, deflated, base64; empty text for one without values.
pub(super) fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Writing into memory fails for want of memory only.
    let is_written = !histogram.is_empty()
        && V2DeflateSerializer::new().serialize(histogram, &mut bytes).is_ok();
    if is_written { STANDARD.encode(bytes) } else { String::new() }
}

impl Played {
    /// A histogram of its texts; nothing of one without values.
    pub fn histogram(text: &str) -> Option<Histogram<u64>> {
        let bytes = STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty())?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAY: Play = Play {
        rate_per_s: 1_000.0,
        warm_up_s: 0.5,
        measure_s: 1.0,
        tail_s: 0.0,
        drain_s: 1.0,
        per_segment: 10,
        window: 100,
        returns: true,
    };

    #[test]
    fn a_line_comes_back_as_it_was_and_a_key_too_many_is_refused() {
        let order = Order::Play(PLAY);
        let line = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&line).unwrap(), order);
        let wrong = line.replacen("\"window\"", "\"windows\"", 1);
        assert!(serde_json::from_str::<Order>(&wrong).is_err(), "{wrong}");
        let said = Said::Played(Box::default());
        let line = serde_json::to_string(&said).unwrap();
        assert_eq!(serde_json::from_str::<Said>(&line).unwrap(), said);
    }

    #[test]
    fn a_play_has_whole_segments_and_bounds() {
        assert_eq!(PLAY.messages(), 1_500);
        assert_eq!(Play { rate_per_s: 999.0, ..PLAY }.messages(), 1_500);
        PLAY.check().unwrap();
        let wrong = [
            Play { rate_per_s: 0.0, ..PLAY },
            Play { rate_per_s: f64::NAN, ..PLAY },
            Play { measure_s: 0.0, ..PLAY },
            Play { warm_up_s: -1.0, ..PLAY },
            Play { per_segment: 0, ..PLAY },
            Play { window: 65_535, ..PLAY },
            Play { rate_per_s: 10e6, measure_s: 1_000.0, ..PLAY },
        ];
        assert!(wrong.iter().all(|play| play.check().is_err()));
    }
}
