//! What happens to clients while a run lasts, as data: they join late, leave, are cut off, take
//! each other's sessions over, or stop reading. And what is seen of it.

use crate::shifts::Seat;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// What happens to clients beside publishing. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepPlan {
    /// A client whose connection ended comes back after this many milliseconds, and tries again
    /// as often. Without it a lost connection stays lost, and half of them lost end the run.
    pub return_after_ms: Option<u32>,
    /// Attempts a second, of all clients that come back together. No more than that bounds how many
    /// wait to be let in, as with clients that know nothing of each other. Without it 1,000 do.
    #[serde(default)]
    pub return_rate_per_s: Option<f64>,
    /// In any order.
    pub steps: Vec<ClientStep>,
    /// Whether a [`Pulse`] is taken, as something happens that is to be measured.
    pub has_pulse: bool,
}

impl StepPlan {
    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// Something that clients of one group do, each in turn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientStep {
    /// Milliseconds from the begin of measure.
    pub at_ms: u64,
    /// Index of the group.
    pub group: u16,
    /// What they do.
    pub action: Action,
    /// Clients that do it: the group's first so many.
    pub clients: u32,
    /// Spread evenly over this time.
    pub over_ms: u64,
    /// How long it lasts: away, or not reading.
    pub for_ms: u64,
    /// Repeated after this time, until measure ends; 0 is once.
    pub every_ms: u64,
}

/// What a client does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Connects only now; it has no connection before.
    Join,
    /// Sends DISCONNECT, and comes back after the step's time.
    Leave,
    /// Its connection is reset, and it comes back after the step's time.
    Cut,
    /// Connects once more under the same client identifier while it is connected.
    TakeOver,
    /// Reads nothing for the step's time.
    Stall,
}

/// Connections that ended while a run lasted, by plan or not, and clients that came back.
#[derive(Clone, Debug)]
pub struct Returns {
    /// Connections that ended by no doing of ours, by cause.
    pub lost: BTreeMap<String, u64>,
    /// Connections that a step ended: cut, left or taken over.
    pub ended: u64,
    /// Attempts to come back that failed, by cause.
    pub attempts_failed: BTreeMap<String, u64>,
    /// Clients that were ready again, each time.
    pub returned: u64,
    /// Of these, times the broker still had the session.
    pub resumed: u64,
    /// Clients that were away when the run ended.
    pub away_at_end: u64,
    /// Messages written again after a return, as they were not acknowledged.
    pub resent: u64,
    /// Connections taken over that the broker never closed.
    pub old_left_open: u64,
    /// End of the connection to ready again, in microseconds: mqttbs's reconnection delay.
    pub delay: Histogram<u64>,
}

impl Default for Returns {
    fn default() -> Self {
        Self {
            lost: BTreeMap::new(),
            ended: 0,
            attempts_failed: BTreeMap::new(),
            returned: 0,
            resumed: 0,
            away_at_end: 0,
            resent: 0,
            old_left_open: 0,
            delay: crate::histogram::histogram(),
        }
    }
}

/// What has become of a subscriber's session, from the best on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionKept {
    /// Its client was connected all the time.
    Connected,
    /// Its client came back, and the broker still had it.
    Resumed,
    /// Its client came back and wanted a clean one.
    Clean,
    /// Its client came back, and the broker had it no more.
    New,
    /// Its client did not come back.
    Away,
    /// It is of a member of a shared group: what is owed is owed to the group.
    Shared,
}

/// Subscribers whose sessions had the same fate, and what of measure was owed to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwedTo {
    /// Subscribers.
    pub clients: u64,
    /// Deliveries that never came.
    pub lost: u64,
    /// Deliveries that came again.
    pub duplicated: u64,
}

/// Subscribers by what has become of their sessions. Agents tell nothing of it.
pub type Sessions = BTreeMap<SessionKept, OwedTo>;

/// Length of one beat.
pub const BEAT_US: u64 = 10_000;

/// Beats of a pulse, an hour of them; what comes later is not in it.
const BEATS_MAX: usize = 360_000;

/// The run in steps of 10 ms from the begin of measure: fine enough to time a recovery.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pulse {
    /// Begin of the first beat, microseconds of the monotonic clock.
    pub start_us: u64,
    /// Each [`BEAT_US`] long.
    pub beats: Vec<Beat>,
}

/// What happened in 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// Messages received.
    pub received: u32,
    /// Messages acknowledged.
    pub acknowledged: u32,
    /// Connections that ended.
    pub gone: u32,
    /// Clients that came back.
    pub back: u32,
    /// Deliveries lost for good, of messages due in this beat.
    pub lost: u32,
}

impl Pulse {
    /// The beat of a time; nothing before the begin or beyond the last.
    pub(crate) fn beat(&mut self, at_us: u64) -> Option<&mut Beat> {
        let at = (at_us.checked_sub(self.start_us)? / BEAT_US) as usize;
        if at >= BEATS_MAX {
            return None;
        }
        if self.beats.len() <= at {
            self.beats.resize(at + 1, Beat::default());
        }
        self.beats.get_mut(at)
    }
}

/// What the steps brought.
#[derive(Clone, Debug, Default)]
pub struct StepsOutcome {
    /// Clients that lost their connections.
    pub returns: Returns,
    /// Empty unless asked for.
    pub pulse: Pulse,
    /// What became of the subscribers' sessions.
    pub sessions: Sessions,
}

/// Tells another thread when measure begins.
#[derive(Clone, Debug, Default)]
pub struct Cue(Arc<Told>);

#[derive(Debug, Default)]
struct Told {
    cued: Mutex<Cued>,
    changed: Condvar,
    /// Of a run that waits for others.
    seat: Option<Seat>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Cued {
    #[default]
    Waiting,
    At(u64),
    Never,
}

impl Cue {
    /// Of a run that begins to publish when all at its barrier do.
    pub fn seated(seat: Option<Seat>) -> Self {
        Self(Arc::new(Told { seat, ..Told::default() }))
    }

    /// When publishing begins, if that is known: after `lead_us`, unless others are waited for.
    pub(crate) fn go_us(&self, now_us: u64, lead_us: u64) -> Option<u64> {
        self.0.seat.as_ref().map_or(Some(now_us + lead_us), |seat| seat.go_us(now_us))
    }

    fn set(&self, cued: Cued) {
        if let Ok(mut state) = self.0.cued.lock()
            && matches!(*state, Cued::Waiting)
        {
            *state = cued;
            self.0.changed.notify_all();
        }
    }

    /// Measure begins at `at_us` of the monotonic clock.
    pub(crate) fn begin(&self, at_us: u64) {
        self.set(Cued::At(at_us));
    }

    /// The run is over; who still waits need not.
    pub fn end(&self) {
        self.set(Cued::Never);
    }

    /// Waits until the time is known, which may lie ahead; nothing if the run ended before.
    pub fn wait(&self) -> Option<u64> {
        let mut state = self.0.cued.lock().ok()?;
        loop {
            match *state {
                Cued::At(at_us) => return Some(at_us),
                Cued::Never => return None,
                // Woken from time to time, in case the other thread broke down.
                Cued::Waiting if Arc::strong_count(&self.0) == 1 => return None,
                Cued::Waiting => {
                    state = self.0.changed.wait_timeout(state, Duration::from_millis(200)).ok()?.0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pulse_has_a_beat_for_every_10_ms_from_its_begin_and_is_bounded() {
        let mut pulse = Pulse { start_us: 1_000, beats: Vec::new() };
        assert!(pulse.beat(999).is_none());
        pulse.beat(31_000).unwrap().received = 7;
        assert_eq!(pulse.beats.len(), 4);
        assert_eq!(pulse.beats[3].received, 7);
        assert!(pulse.beat(1_000 + BEATS_MAX as u64 * BEAT_US).is_none());
    }

    #[test]
    fn a_cue_is_heard_once_and_an_end_does_not_take_it_back() {
        let cue = Cue::default();
        let other = cue.clone();
        let heard = std::thread::spawn(move || other.wait());
        cue.begin(77);
        cue.end();
        assert_eq!(heard.join().unwrap(), Some(77));
        let over = Cue::default();
        over.end();
        assert_eq!(over.wait(), None);
    }
}
