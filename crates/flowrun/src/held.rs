//! Results that wait because the broker's window is full: packed into one memory that is used
//! again, first in first out.

use std::collections::VecDeque;
use weir_wire::QoS;

/// Bytes of results that may wait: topics, payloads and what is noted of each.
pub(crate) const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Memory that is given back once nothing waits, if there is more of it.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// A result that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held<'a> {
    pub(crate) topic: &'a str,
    pub(crate) payload: &'a [u8],
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) tag: u64,
}

/// The results of one connection that wait.
#[derive(Debug, Default)]
pub(crate) struct HeldResults {
    entries: VecDeque<Entry>,
    bytes: Vec<u8>,
    /// Bytes before this are of results that left.
    from: usize,
}

#[derive(Debug)]
struct Entry {
    topic_bytes: u16,
    payload_bytes: u32,
    qos: QoS,
    retain: bool,
    tag: u64,
}

impl HeldResults {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Appends a result; says whether there was room for it.
    pub(crate) fn push(&mut self, held: &Held<'_>) -> bool {
        let (Ok(topic_bytes), Ok(payload_bytes)) =
            (u16::try_from(held.topic.len()), u32::try_from(held.payload.len()))
        else {
            return false;
        };
        let more = held.topic.len() + held.payload.len() + size_of::<Entry>();
        let noted = self.entries.len() * size_of::<Entry>();
        if self.bytes.len() - self.from + noted + more > HELD_BYTES_MAX {
            return false;
        }
        // Half of it is of results that left: what is moved was paid for by those.
        if self.from > self.bytes.len() / 2 {
            self.bytes.drain(..self.from);
            self.from = 0;
        }
        self.bytes.extend_from_slice(held.topic.as_bytes());
        self.bytes.extend_from_slice(held.payload);
        let (qos, retain, tag) = (held.qos, held.retain, held.tag);
        self.entries.push_back(Entry { topic_bytes, payload_bytes, qos, retain, tag });
        true
    }

    /// The oldest.
    pub(crate) fn front(&self) -> Option<Held<'_>> {
        let &Entry { topic_bytes, payload_bytes, qos, retain, tag } = self.entries.front()?;
        let (topic, rest) = self.bytes[self.from..].split_at(topic_bytes.into());
        let topic = std::str::from_utf8(topic).ok()?;
        Some(Held { topic, payload: &rest[..payload_bytes as usize], qos, retain, tag })
    }

    /// Forgets the oldest.
    pub(crate) fn pop(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.from += usize::from(entry.topic_bytes) + entry.payload_bytes as usize;
        }
        if self.entries.is_empty() {
            self.clear();
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES_MAX);
        self.from = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(tag: u64, payload: &[u8]) -> Held<'_> {
        Held { topic: "a/b", payload, qos: QoS::AtLeastOnce, retain: tag % 2 == 1, tag }
    }

    #[test]
    fn results_come_out_as_they_went_in() {
        let mut results = HeldResults::default();
        let payloads: Vec<Vec<u8>> = (0..200_u8).map(|n| vec![n; usize::from(n) * 7]).collect();
        let mut next = 0;
        for (tag, payload) in payloads.iter().enumerate() {
            assert!(results.push(&held(tag as u64, payload)));
            // Two in for one out: there are always some from before a move.
            if tag % 2 == 1 {
                assert_eq!(results.front(), Some(held(next, &payloads[next as usize])));
                results.pop();
                next += 1;
            }
        }
        while let Some(front) = results.front() {
            assert_eq!(front, held(next, &payloads[next as usize]));
            results.pop();
            next += 1;
        }
        assert_eq!(next, 200);
        assert!(results.is_empty() && results.front().is_none());
    }

    #[test]
    fn there_is_a_bound_and_what_left_is_not_in_it() {
        let mut results = HeldResults::default();
        let payload = vec![1; HELD_BYTES_MAX / 2 - 3 - size_of::<Entry>()];
        assert!(results.push(&held(0, &payload)));
        assert!(results.push(&held(1, &payload)));
        assert!(!results.push(&held(2, b"")), "its topic is too much");
        assert_eq!(results.len(), 2);
        results.pop();
        assert!(results.push(&held(2, &payload)));
        assert_eq!(results.front().unwrap().tag, 1);
    }
}
