//! One publisher: what is due, what is sent, and when it was sent.

use crate::payload::bytes_of;
use crate::plan::Payload;
use std::rc::Rc;
use weir_wire::QoS;

/// Send times remembered for at least this long, so that the latency from the actual send can be
/// told of what comes back meanwhile. Within these bounds of memory.
const SENDS_REMEMBERED_S: f64 = 20.0;
const SENDS_MIN: usize = 4;
const SENDS_MAX: usize = 4096;

/// Messages are due by the schedule and sent as soon as the broker lets them; in between they
/// wait as a number, not as bytes.
#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) client: u32,
    /// Node that its client is connected to; of one that another slice runs, as planned.
    pub(crate) node: u32,
    pub(crate) topic: Rc<str>,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) payload_bytes: u32,
    pub(crate) is_json: bool,
    /// Its messages are its client's wills.
    pub(crate) is_will: bool,
    /// When the message of a cut client was due.
    pub(crate) cut_us: u64,
    /// Not acknowledged when the broker forgot the session, and not published again.
    pub(crate) orphans: Vec<u32>,
    /// Index of its schedule, and its place there.
    pub(crate) schedule: u32,
    pub(crate) place: u32,
    /// Messages due so far; the next to become due has this sequence.
    pub(crate) due: u32,
    /// Messages sent so far; of one that another slice runs, all that it may send.
    pub(crate) sent: u32,
    /// Whether its intended times are of this host's clock.
    pub(crate) is_clocked: bool,
    /// Listed to be tried again in the next turn.
    pub(crate) is_held: bool,
    /// Refused by the broker, in the order of refusal.
    pub(crate) refused: Vec<u32>,
    /// Actual less intended send time in microseconds, by the sequence's lower bits.
    delays_us: Box<[u32]>,
}

impl Publisher {
    pub(crate) fn new(
        client: u32,
        topic: Rc<str>,
        publish: &crate::plan::Publish,
        schedule: u32,
        (place, clients): (u32, u32),
    ) -> Self {
        let sends = (publish.rate_per_s * SENDS_REMEMBERED_S) as usize;
        let sends = sends.clamp(SENDS_MIN, SENDS_MAX).next_power_of_two();
        Self {
            client,
            node: 0,
            topic,
            // Checked before: a plan with another QoS does not run.
            qos: QoS::from_u8(publish.qos).unwrap_or_default(),
            retain: publish.retain,
            payload_bytes: bytes_of(publish, place, clients),
            is_json: publish.payload == Payload::Json,
            is_will: publish.will,
            cut_us: 0,
            orphans: Vec::new(),
            schedule,
            place,
            due: 0,
            sent: 0,
            is_clocked: true,
            is_held: false,
            refused: Vec::new(),
            delays_us: vec![0; sends].into_boxed_slice(),
        }
    }

    /// The same, if another slice runs it: what it may send is known, what it has sent is not.
    pub(crate) fn elsewhere(self, total: u32, is_clocked: bool) -> Self {
        Self { client: u32::MAX, sent: total, is_clocked, delays_us: Box::default(), ..self }
    }

    /// Whether this slice runs it.
    pub(crate) fn is_here(&self) -> bool {
        self.client != u32::MAX
    }

    #[inline]
    pub(crate) fn note_send(&mut self, delay_us: u64) {
        let at = self.sent as usize & (self.delays_us.len() - 1);
        self.delays_us[at] = delay_us.min(u64::from(u32::MAX)) as u32;
        self.sent += 1;
    }

    /// How late a message was sent; nothing if that is no longer remembered.
    #[inline]
    pub(crate) fn delay_us(&self, sequence: u32) -> Option<u64> {
        let is_remembered =
            sequence < self.sent && (self.sent - sequence) as usize <= self.delays_us.len();
        is_remembered
            .then(|| u64::from(self.delays_us[sequence as usize & (self.delays_us.len() - 1)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_of_the_newest_messages_are_remembered() {
        let publish = crate::plan::Publish { rate_per_s: 0.1, ..Default::default() };
        let mut publisher = Publisher::new(0, "t".into(), &publish, 0, (0, 1));
        assert_eq!(publisher.delay_us(0), None);
        (0..6).for_each(|at| publisher.note_send(10 + at));
        let found: Vec<_> = (0..7).map(|sequence| publisher.delay_us(sequence)).collect();
        assert_eq!(found, [None, None, Some(12), Some(13), Some(14), Some(15), None]);
        publisher.note_send(u64::MAX);
        assert_eq!(publisher.delay_us(6), Some(u64::from(u32::MAX)));
    }
}
