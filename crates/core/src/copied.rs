//! Retained messages that came from other nodes not long ago: if such a node is lost, others may
//! not have got them.

use crate::keys::{ShardId, Version};
use crate::message::Message;
use std::collections::VecDeque;
use std::sync::Arc;

/// As much as comes until a node is known to be lost, as far as that is bearable.
const MESSAGES_MAX: usize = 65_536;
const BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The last of them, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Copied {
    last: VecDeque<(ShardId, Copy)>,
    bytes: u64,
}

/// One, with its version.
pub(crate) type Copy = (Arc<Message>, Version);

impl Copied {
    pub(crate) fn note(&mut self, from: ShardId, copy: Copy) {
        self.bytes += copy.0.bytes();
        self.last.push_back((from, copy));
        while self.last.len() > MESSAGES_MAX || self.bytes > BYTES_MAX {
            let Some((_, (oldest, _))) = self.last.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    /// Those of a node that is lost.
    pub(crate) fn take_from(&mut self, is_lost: impl Fn(ShardId) -> bool) -> VecDeque<Copy> {
        let (lost, rest): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.last).into_iter().partition(|(from, _)| is_lost(*from));
        self.last = rest;
        self.bytes = self.last.iter().map(|(_, (message, _))| message.bytes()).sum();
        lost.into_iter().map(|(_, copy)| copy).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{PropertiesBuf, QoS};

    fn message(bytes: usize) -> Arc<Message> {
        Arc::new(Message {
            topic: "t".into(),
            payload: vec![0; bytes],
            properties: PropertiesBuf::new(),
            qos: QoS::AtMostOnce,
            retain: true,
            expires_at: None,
            stamp: None,
        })
    }

    #[test]
    fn the_last_are_kept_as_far_as_they_are_not_too_long() {
        let mut copied = Copied::default();
        let version = |count| Version { count, node: 0 };
        copied.note(ShardId(1), (message(BYTES_MAX as usize / 2), version(1)));
        copied.note(ShardId(2), (message(10), version(2)));
        copied.note(ShardId(1), (message(BYTES_MAX as usize / 2), version(3)));
        let taken = copied.take_from(|from| from == ShardId(1));
        let counts: Vec<u64> = taken.iter().map(|(_, version)| version.count).collect();
        assert_eq!(counts, [3]);
        assert_eq!(copied.bytes, 11);
        (0..MESSAGES_MAX).for_each(|_| copied.note(ShardId(3), (message(0), version(4))));
        assert!(copied.take_from(|from| from == ShardId(2)).is_empty());
        assert_eq!(copied.take_from(|_| true).len(), MESSAGES_MAX);
    }
}
