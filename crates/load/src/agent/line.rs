//! The lines between an agent and the one who leads it.

use crate::audit::{Counted, Fate, Track};
use crate::baton::Status;
use crate::engine::SliceOutcome;
use crate::outcome::{
    Access, Anomaly, Connections, End, Handshakes, Interval, Lateness, Operations, PhaseSpan,
    Silence, Traffic,
};
use crate::plan::Plan;
use crate::plan::Slice;
use crate::recorder::Sketches;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Read};

/// Version of the lines; both ends speak the same or not at all.
pub const PROTOCOL: u32 = 7;

/// Longest line: one pair of which every second message of an hour at 4,000/s is lost.
const LINE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Numbers in one line of tracks, fates or anomalies.
const NUMBERS_PER_LINE: usize = 16 * 1024;

/// What an agent is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Order {
    /// What to do. The slices are those of agents with another clock.
    Plan { protocol: u32, plan: Box<Plan>, unclocked: Vec<Slice> },
    /// Connecting begins.
    Begin(When),
    /// Publishing begins.
    Go(When),
    /// All that is owed has come, everywhere.
    Settle {},
    /// The run ends here.
    Stop {},
}

/// A time, for those who share the clock and for those who do not.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct When {
    /// Microseconds of CLOCK_MONOTONIC, if it is shared.
    pub(super) at_us: Option<u64>,
    /// From the receipt of this line otherwise.
    pub(super) in_us: u64,
}

/// Who an agent is: the first thing it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the agent.
    pub protocol: u32,
    /// Version and commit of the program.
    pub version: String,
    /// Name of its host.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// Two with the same text read the same CLOCK_MONOTONIC.
    pub clock: String,
    /// That clock, in microseconds.
    pub now_us: u64,
    /// Open files it is allowed.
    pub open_files_max: u64,
    /// Processors it may use.
    pub cores: u32,
}

/// What an agent says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Said {
    Hello(Hello),
    /// It could begin with so many clients.
    Planned {
        clients: u64,
    },
    /// Every 200 ms.
    Beat(Status),
    Tick(Box<TickLine>),
    Fates(Vec<(u32, Fate)>),
    Tracks(Vec<Track>),
    Anomalies(Vec<Anomaly>),
    /// The last line.
    Outcome(Box<OutcomeLine>),
    /// The last line, if it cannot do what it was told.
    Failed {
        why: String,
    },
}

/// An interval of one slice.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TickLine {
    /// Its number, from 0.
    pub(super) number: u64,
    pub(super) interval: Interval,
    /// In the order of [`Sketches`]; empty where nothing was measured.
    pub(super) sketches: [String; 5],
    pub(super) owed: u64,
    pub(super) delivered: u64,
}

/// What is not in lines of its own.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OutcomeLine {
    pub(super) end: End,
    pub(super) phases: Vec<PhaseSpan>,
    pub(super) connections: Connections,
    pub(super) handshakes: Handshakes,
    pub(super) subscriptions: Operations,
    pub(super) access: Option<Access>,
    /// Connect and its three parts, subscribe, acknowledge, the same from the intended time, end to
    /// end, the same from the actual send, lag, turn.
    pub(super) histograms: [String; 11],
    pub(super) cpu_user_us: u64,
    pub(super) cpu_system_us: u64,
    pub(super) wall_us: u64,
    pub(super) ledger_bytes: u64,
    pub(super) late_setup: Lateness,
    pub(super) late_measure: Lateness,
    pub(super) invalid: Vec<String>,
    pub(super) silences: Vec<Silence>,
    pub(super) silences_unlisted: u64,
    pub(super) unclocked: u64,
    pub(super) traffic: Traffic,
    pub(super) counted: Counted,
}

impl TickLine {
    pub(super) fn texts(sketches: Option<&Sketches>) -> [String; 5] {
        match sketches {
            Some(Sketches(histograms)) => histograms.each_ref().map(to_text),
            None => Default::default(),
        }
    }
}

/// The outcome of a slice as lines, the last of them an [`OutcomeLine`].
pub(super) fn outcome_lines(outcome: SliceOutcome) -> Vec<Said> {
    let SliceOutcome { fates, tracks, anomalies, .. } = outcome;
    let mut lines = Vec::new();
    let of_fate = |(_, fate): &(u32, Fate)| 4 + fate.refused.len() + fate.unacknowledged.len();
    lines.extend(cut(fates, of_fate).into_iter().map(Said::Fates));
    let of_track = |track: &Track| 4 + 2 * (track.holes.len() + track.late.len());
    lines.extend(cut(tracks, of_track).into_iter().map(Said::Tracks));
    lines.extend(cut(anomalies, |_| 4).into_iter().map(Said::Anomalies));
    let (latencies, generator) = (&outcome.latencies, &outcome.generator);
    let histograms = [
        &latencies.connect,
        &latencies.tcp_connect,
        &latencies.handshake,
        &latencies.connack,
        &latencies.subscribe,
        &latencies.acknowledge,
        &latencies.acknowledge_from_intended,
        &latencies.end_to_end,
        &latencies.end_to_end_from_send,
        &generator.lag,
        &generator.turn,
    ];
    lines.push(Said::Outcome(Box::new(OutcomeLine {
        histograms: histograms.map(to_text),
        cpu_user_us: generator.cpu_user_us,
        cpu_system_us: generator.cpu_system_us,
        wall_us: generator.wall_us,
        ledger_bytes: generator.ledger_bytes,
        late_setup: generator.late_setup,
        late_measure: generator.late_measure,
        invalid: generator.invalid.clone(),
        silences: outcome.silences,
        silences_unlisted: outcome.silences_unlisted,
        end: outcome.end,
        phases: outcome.phases,
        connections: outcome.connections,
        handshakes: outcome.handshakes,
        subscriptions: outcome.subscriptions,
        access: outcome.access,
        unclocked: outcome.unclocked,
        traffic: outcome.traffic,
        counted: outcome.counted,
    })));
    lines
}

/// A list in pieces of about [`NUMBERS_PER_LINE`].
fn cut<T>(list: Vec<T>, numbers: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut pieces: Vec<Vec<T>> = Vec::new();
    let mut room = 0;
    for one in list {
        let needed = numbers(&one);
        match pieces.last_mut() {
            Some(piece) if needed <= room => piece.push(one),
            _ => {
                pieces.push(vec![one]);
                room = NUMBERS_PER_LINE;
            }
        }
        room = room.saturating_sub(needed);
    }
    pieces
}

/// HdrHistogram V2, deflated, base64; nothing of an empty one.
pub(super) fn to_text<T: Counter>(histogram: &Histogram<T>) -> String {
    let mut bytes = Vec::new();
    let is_written = !histogram.is_empty()
        && V2DeflateSerializer::new().serialize(histogram, &mut bytes).is_ok();
    if is_written { STANDARD.encode(bytes) } else { String::new() }
}

/// Adds what [`to_text`] made of a histogram; or nothing if it is not one.
pub(super) fn add_text<T: Counter>(sum: &mut Histogram<T>, text: &str) -> Option<()> {
    if text.is_empty() {
        return Some(());
    }
    let bytes = STANDARD.decode(text).ok()?;
    let histogram: Histogram<T> = Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
    sum.add(histogram).ok()
}

/// The next line without its end, or nothing at the end of the stream.
///
/// # Errors
/// What the system says of reading, or a line that is too long.
pub(super) fn read_line(input: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() as u64 + 1 == LINE_BYTES_MAX => {
            Err(std::io::Error::other("a line is too long"))
        }
        // The end of the stream cuts what was being said.
        Some(_) => Ok(None),
    }
}

/// The beginning of a line that is not understood, for a person.
pub(super) fn shown(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line).chars().take(80).collect();
    format!("{text:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_add_up_over_the_wire() {
        let mut all = crate::histogram::histogram();
        for part in 0..3u64 {
            let mut histogram = crate::histogram::histogram();
            (0..1_000).for_each(|value| histogram.record(value * 37 + part).unwrap());
            add_text(&mut all, &to_text(&histogram)).unwrap();
        }
        assert_eq!(all.len(), 3_000);
        assert_eq!(add_text(&mut all, &to_text(&crate::histogram::histogram())), Some(()));
        assert_eq!(add_text(&mut all, "not one"), None);
    }

    #[test]
    fn a_list_is_cut_without_a_loss() {
        let list: Vec<usize> = (0..100_000).collect();
        let pieces = cut(list.clone(), |one| one % 7);
        assert!(pieces.len() > 10);
        let is_short =
            |piece: &Vec<usize>| piece.iter().map(|one| one % 7).sum::<usize>() <= NUMBERS_PER_LINE;
        assert!(pieces.iter().all(is_short));
        assert_eq!(pieces.concat(), list);
    }

    #[test]
    fn a_line_that_is_not_understood_is_shown_by_its_beginning() {
        assert_eq!(shown(b"hal\tlo"), "\"hal\\tlo\"");
        assert_eq!(shown(&[b'x'; 200]), format!("{:?}", "x".repeat(80)));
    }

    #[test]
    fn lines_end_where_they_end() {
        let mut input = &b"one\n\ntwo\nhal"[..];
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input).unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(lines, ["one", "", "two"]);
    }
}
