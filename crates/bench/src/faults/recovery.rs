//! From a pulse to the times of a recovery: pure functions of what was counted every 10 ms.

use weir_load::steps::{BEAT_US, Beat, Pulse};

/// The rate before a fault is that of so much time before it, or what there is.
const BEFORE_US: u64 = 1_000_000;

/// The rate is back when, over a window, it is at least this share of what it was.
const BACK_SHARE: f64 = 0.9;

/// A window is so long, and long enough for so many messages at the rate before.
const WINDOW_US: u64 = 200_000;
const WINDOW_MESSAGES: f64 = 20.0;

/// What a fault did, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Recovery {
    /// Messages a second that were received before.
    pub(super) rate_before: f64,
    /// Begin of the fault to the first connection that ended.
    pub(super) detect_s: Option<f64>,
    /// Longest time without a delivery.
    pub(super) silence_s: f64,
    /// End of the fault to the first delivery.
    pub(super) first_delivery_s: Option<f64>,
    /// End of the fault to the rate of before, kept up for a window.
    pub(super) rate_back_s: Option<f64>,
    /// End of the fault to the last client that came back.
    pub(super) all_back_s: Option<f64>,
    pub(super) connections_lost: u64,
    pub(super) clients_back: u64,
    /// Deliveries that never came.
    pub(super) lost: u64,
}

/// What is seen of a fault from `begin_us` to `end_us`; after `until_us` another one is looked at.
pub(super) fn recovery(pulse: &Pulse, begin_us: u64, end_us: u64, until_us: u64) -> Recovery {
    let beat_of = |at_us: u64| (at_us.saturating_sub(pulse.start_us) / BEAT_US) as usize;
    let beats = &pulse.beats;
    let stop = beat_of(until_us).min(beats.len());
    let begin = beat_of(begin_us).min(stop);
    let end = beat_of(end_us).clamp(begin, stop);
    let before_from = begin.saturating_sub((BEFORE_US / BEAT_US) as usize);
    let seconds = |from_us: u64, beat: usize| {
        // A beat is seen at its end; what lies within one is not told apart.
        let at_us = pulse.start_us + (beat as u64 + 1) * BEAT_US;
        at_us.saturating_sub(from_us) as f64 / 1e6
    };
    let received: u64 = beats[before_from..begin].iter().map(|beat| u64::from(beat.received)).sum();
    let per_beat = received as f64 / (begin - before_from).max(1) as f64;
    let here = &beats[begin..stop];
    let after = &beats[end..stop];
    let sum = |of: fn(&Beat) -> u32| here.iter().map(|beat| u64::from(of(beat))).sum();
    let gone = here.iter().position(|beat| beat.gone > 0);
    let first = after.iter().position(|beat| beat.received > 0);
    let last_back = here.iter().rposition(|beat| beat.back > 0);
    Recovery {
        rate_before: per_beat * 1e6 / BEAT_US as f64,
        detect_s: gone.map(|at| seconds(begin_us, begin + at)),
        silence_s: silence(&beats[begin..stop]) as f64 * BEAT_US as f64 / 1e6,
        first_delivery_s: first.map(|at| seconds(end_us, end + at)),
        rate_back_s: back(after, per_beat).map(|at| seconds(end_us, end + at)),
        all_back_s: last_back.map(|at| seconds(end_us, begin + at)),
        connections_lost: sum(|beat| beat.gone),
        clients_back: sum(|beat| beat.back),
        lost: sum(|beat| beat.lost),
    }
}

/// Most beats in a row without a delivery, up to the last delivery there is.
fn silence(beats: &[Beat]) -> usize {
    let last = beats.iter().rposition(|beat| beat.received > 0).map_or(beats.len(), |at| at + 1);
    let runs = beats[..last].split(|beat| beat.received > 0);
    runs.map(<[Beat]>::len).max().unwrap_or(0)
}

/// The first beat of the first window with the rate of before; nothing if that was none.
fn back(after: &[Beat], per_beat: f64) -> Option<usize> {
    if per_beat <= 0.0 {
        return None;
    }
    let for_messages = (WINDOW_MESSAGES / per_beat).ceil() as usize;
    let length = for_messages.max((WINDOW_US / BEAT_US) as usize);
    let wanted = per_beat * length as f64 * BACK_SHARE;
    let is_back = |window: &[Beat]| {
        window.iter().map(|beat| f64::from(beat.received)).sum::<f64>() >= wanted
            && window[0].received > 0
    };
    after.windows(length).position(is_back)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// 10 messages a beat; none from `from` to `to`, in beats.
    fn pulse(from: usize, to: usize) -> Pulse {
        let beat = |at: usize| Beat {
            received: if (from..to).contains(&at) { 0 } else { 10 },
            ..Beat::default()
        };
        Pulse { start_us: 5 * SECOND, beats: (0..1_000).map(beat).collect() }
    }

    #[test]
    fn a_freeze_is_a_silence_of_its_length_and_the_rate_is_back_at_once() {
        let found = recovery(&pulse(200, 500), 7 * SECOND, 10 * SECOND, u64::MAX);
        assert_eq!(found.rate_before, 1_000.0);
        assert_eq!((found.silence_s, found.detect_s), (3.0, None));
        assert_eq!(found.first_delivery_s, Some(0.01));
        assert_eq!(found.rate_back_s, Some(0.01));
    }

    #[test]
    fn a_slow_recovery_is_timed_from_the_end_of_the_fault() {
        let mut pulse = pulse(200, 500);
        // A trickle for a second, then all of it.
        pulse.beats[500..600].iter_mut().for_each(|beat| beat.received = 1);
        pulse.beats[230].gone = 40;
        pulse.beats[550].back = 30;
        pulse.beats[580].back = 10;
        pulse.beats[210].lost = 3;
        let found = recovery(&pulse, 7 * SECOND, 10 * SECOND, u64::MAX);
        assert_eq!(found.first_delivery_s, Some(0.01));
        let back_s = found.rate_back_s.unwrap();
        assert!((0.9..=1.01).contains(&back_s), "{back_s}");
        assert_eq!(found.detect_s, Some(0.31));
        assert_eq!(found.all_back_s, Some(0.81));
        assert_eq!((found.connections_lost, found.clients_back, found.lost), (40, 40, 3));
    }

    #[test]
    fn what_never_comes_back_has_no_time() {
        let found = recovery(&pulse(200, 1_000), 7 * SECOND, 8 * SECOND, u64::MAX);
        assert_eq!((found.first_delivery_s, found.rate_back_s), (None, None));
        assert_eq!(found.silence_s, 8.0);
    }

    #[test]
    fn the_next_fault_is_not_looked_at_and_an_empty_pulse_is_nothing() {
        let mut pulse = pulse(200, 300);
        pulse.beats[900].gone = 1;
        let found = recovery(&pulse, 7 * SECOND, 8 * SECOND, 13 * SECOND);
        assert_eq!(found.connections_lost, 0);
        let none = Pulse::default();
        assert_eq!(recovery(&none, SECOND, SECOND, u64::MAX), Recovery::default());
    }

    #[test]
    fn a_slow_rate_gets_a_longer_window() {
        let mut pulse = pulse(0, 1_000);
        (0..1_000).step_by(20).for_each(|at| pulse.beats[at].received = 1);
        pulse.beats[200..400].iter_mut().for_each(|beat| beat.received = 0);
        let found = recovery(&pulse, 7 * SECOND, 9 * SECOND, u64::MAX);
        assert_eq!(found.rate_before, 5.0);
        assert_eq!(found.rate_back_s, Some(0.01));
    }
}
