//! Messages of QoS 1 and 2 that came in and are not acknowledged yet, in the order they came.
//!
//! PUBACKs and PUBRECs leave in that order \[MQTT-4.6.0-2\], \[MQTT-4.6.0-3\]: a message whose
//! results are all acknowledged waits for those before it. A message is named by a number that is
//! never used again, so an answer that belongs to a connection that is gone finds nothing.

use std::collections::VecDeque;
use weir_wire::{PacketId, QoS};

/// Messages of one connection that may be open: as many as there are packet identifiers.
///
/// It is not our Receive Maximum. Mosquitto 2.0 sends more than that once messages have queued,
/// and whatever it had sent it sends again in a resumed session.
pub const OPEN_MAX: usize = u16::MAX as usize;

/// The messages of one connection that its owner acknowledges itself, once their results are
/// acknowledged elsewhere: [`crate::Client::peek_message`].
#[derive(Debug, Default)]
pub struct Sources {
    open: VecDeque<Source>,
    /// Number of the oldest.
    oldest: u64,
    /// Number of the next.
    next: u64,
}

#[derive(Debug)]
struct Source {
    packet_id: PacketId,
    qos: QoS,
    /// Results that the broker has not acknowledged.
    results: u32,
}

impl Sources {
    /// A message came. Returns its number. Not to be called after [`Sources::take_back`] on the
    /// same connection.
    pub fn begin(&mut self, packet_id: PacketId, qos: QoS) -> u64 {
        debug_assert_eq!(self.next, self.oldest + self.open.len() as u64);
        self.open.push_back(Source { packet_id, qos, results: 0 });
        self.next += 1;
        self.next - 1
    }

    /// The newest message is not taken after all: it stays unacknowledged.
    pub fn take_back(&mut self) {
        self.open.pop_back();
    }

    /// The message has one more result to wait for.
    pub fn add_result(&mut self, number: u64) {
        if let Some(source) = self.get_mut(number) {
            source.results += 1;
        }
    }

    /// A result of the message is acknowledged.
    pub fn result_done(&mut self, number: u64) {
        if let Some(source) = self.get_mut(number) {
            source.results = source.results.saturating_sub(1);
        }
    }

    /// Takes the oldest message, if it waits for nothing: it is to be acknowledged now. Not to be
    /// called between [`Sources::begin`] and the message's last [`Sources::add_result`].
    pub fn pop_done(&mut self) -> Option<(PacketId, QoS)> {
        self.open.front().filter(|source| source.results == 0)?;
        self.oldest += 1;
        self.open.pop_front().map(|source| (source.packet_id, source.qos))
    }

    /// The connection is gone: what is open will come again on another. Returns how many.
    pub fn forget(&mut self) -> u64 {
        let count = self.open.len() as u64;
        self.oldest = self.next;
        self.open.clear();
        count
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Source> {
        let at = number.checked_sub(self.oldest)?;
        self.open.get_mut(usize::try_from(at).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn begin(sources: &mut Sources, packet_id: u16) -> u64 {
        sources.begin(PacketId::new(packet_id).unwrap(), QoS::AtLeastOnce)
    }

    fn done(sources: &mut Sources) -> Vec<u16> {
        std::iter::from_fn(|| sources.pop_done()).map(|(packet_id, _)| packet_id.value()).collect()
    }

    #[test]
    fn a_message_without_results_waits_for_those_before_it() {
        let mut sources = Sources::default();
        let first = begin(&mut sources, 7);
        sources.add_result(first);
        sources.add_result(first);
        begin(&mut sources, 3);
        assert_eq!(done(&mut sources), [0; 0]);
        sources.result_done(first);
        assert_eq!(done(&mut sources), [0; 0], "one of two");
        sources.result_done(first);
        assert_eq!(done(&mut sources), [7, 3]);
        assert_eq!(sources.len(), 0);
    }

    #[test]
    fn an_answer_of_an_old_connection_acknowledges_nothing_of_the_new_one() {
        let mut sources = Sources::default();
        let old = begin(&mut sources, 1);
        sources.add_result(old);
        assert_eq!(sources.forget(), 1);
        let new = begin(&mut sources, 1);
        sources.add_result(new);
        sources.result_done(old);
        assert_eq!(done(&mut sources), [0; 0]);
        sources.result_done(new);
        assert_eq!(done(&mut sources), [1]);
    }

    #[test]
    fn an_answer_for_a_message_that_was_taken_back_finds_nothing() {
        let mut sources = Sources::default();
        let first = begin(&mut sources, 1);
        sources.add_result(first);
        let back = begin(&mut sources, 2);
        sources.add_result(back);
        sources.take_back();
        sources.result_done(back);
        sources.result_done(first);
        assert_eq!(done(&mut sources), [1]);
        sources.forget();
        let again = begin(&mut sources, 2);
        sources.add_result(again);
        sources.result_done(back);
        assert_eq!(done(&mut sources), [0; 0]);
    }

    proptest! {
        /// Whatever the order of the answers, messages are acknowledged in theirs, each once, and
        /// none before its last answer.
        #[test]
        fn acknowledgements_keep_the_order_of_messages(
            results in prop::collection::vec(0_u32..4, 1..40),
            seed in any::<u64>(),
        ) {
            let mut sources = Sources::default();
            let mut answers = Vec::new();
            for (at, &count) in results.iter().enumerate() {
                let number = begin(&mut sources, at as u16 + 1);
                for _ in 0..count {
                    sources.add_result(number);
                    answers.push(number);
                }
            }
            let mut left = results.clone();
            let mut acknowledged = done(&mut sources);
            let mut random = seed;
            while !answers.is_empty() {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let number = answers.swap_remove((random >> 33) as usize % answers.len());
                sources.result_done(number);
                left[number as usize] -= 1;
                let more = done(&mut sources);
                for packet_id in &more {
                    prop_assert_eq!(left[usize::from(*packet_id) - 1], 0);
                }
                acknowledged.extend(more);
            }
            let all: Vec<u16> = (1..=results.len() as u16).collect();
            prop_assert_eq!(acknowledged, all);
        }
    }
}
