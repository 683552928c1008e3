//! The rules, and the messages that they have made and that are still to be published.

use crate::content::{Derived, Rules};
use std::ops::Range;
use weir_wire::QoS;

/// The rules, if there are any, with two levels of results in memory that is kept.
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    pub(crate) port: Option<Box<dyn Rules>>,
    pub(crate) results: [Results; 2],
}

/// What the rules made of one level of messages.
#[derive(Debug, Default)]
pub(crate) struct Results {
    bytes: Vec<u8>,
    all: Vec<Made>,
}

#[derive(Debug)]
struct Made {
    topic: Range<usize>,
    payload: Range<usize>,
    qos: QoS,
    retain: bool,
}

impl Results {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.all.clear();
    }

    pub(crate) fn push(&mut self, derived: Derived<'_>) {
        let Derived { topic, payload, qos, retain } = derived;
        let topic = self.keep(topic.as_bytes());
        let payload = self.keep(payload);
        self.all.push(Made { topic, payload, qos, retain });
    }

    fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// The one at `at`, in the order they were made.
    pub(crate) fn get(&self, at: usize) -> Option<Derived<'_>> {
        let Made { topic, payload, qos, retain } = self.all.get(at)?;
        let topic = std::str::from_utf8(&self.bytes[topic.clone()]).ok()?;
        Some(Derived { topic, payload: &self.bytes[payload.clone()], qos: *qos, retain: *retain })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_there_until_it_is_cleared() {
        let mut results = Results::default();
        let one = Derived { topic: "a/é", payload: b"", qos: QoS::AtMostOnce, retain: true };
        let two = Derived { topic: "b", payload: b"xy", qos: QoS::AtLeastOnce, retain: false };
        results.push(one);
        results.push(two);
        assert_eq!((results.get(0), results.get(1)), (Some(one), Some(two)));
        assert_eq!((results.get(2), results.len()), (None, 2));
        results.clear();
        assert_eq!((results.get(0), results.len()), (None, 0));
    }
}
