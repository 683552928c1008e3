//! Published messages of QoS 1 and 2 that are not yet done.

use std::collections::VecDeque;
use weir_wire::PacketId;

/// Identifiers are given in order, so an answer finds its message by distance from the oldest.
#[derive(Debug)]
pub(crate) struct Open {
    oldest: PacketId,
    next: PacketId,
    tags: VecDeque<Option<Tagged>>,
    count: u16,
}

/// One open message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tagged {
    pub(crate) tag: u64,
    pub(crate) step: Step,
}

/// Which answer is awaited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// PUBACK.
    Acknowledge,
    /// PUBREC.
    Receive,
    /// PUBCOMP.
    Complete,
}

/// A message that is published and not yet acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenMessage {
    /// The identifier it was published under.
    pub packet_id: PacketId,
    /// As it was given to [`crate::Client::publish`].
    pub tag: u64,
    /// Whether PUBREC has come: PUBREL is what is to be written again, not PUBLISH.
    pub is_released: bool,
}

impl Default for Open {
    fn default() -> Self {
        Self { oldest: PacketId::FIRST, next: PacketId::FIRST, tags: VecDeque::new(), count: 0 }
    }
}

impl Open {
    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    /// Whether another identifier is free: all but one may be between the oldest and the newest.
    pub(crate) fn has_room(&self, maximum: u16) -> bool {
        self.count < maximum && self.tags.len() < usize::from(u16::MAX) - 1
    }

    pub(crate) fn push(&mut self, tagged: Option<Tagged>) -> PacketId {
        let packet_id = self.next;
        self.next = packet_id.next();
        if tagged.is_none() && self.tags.is_empty() {
            // Nothing is open: an identifier of SUBSCRIBE need not be remembered.
            self.oldest = self.next;
            return packet_id;
        }
        self.count += u16::from(tagged.is_some());
        self.tags.push_back(tagged);
        packet_id
    }

    pub(crate) fn get_mut(&mut self, packet_id: PacketId) -> Option<&mut Tagged> {
        let at = usize::from(packet_id.steps_from(self.oldest));
        self.tags.get_mut(at)?.as_mut()
    }

    /// Takes out a message that is done, if it is at `step`.
    pub(crate) fn finish(&mut self, packet_id: PacketId, step: Step) -> Option<u64> {
        let at = usize::from(packet_id.steps_from(self.oldest));
        let slot = self.tags.get_mut(at)?;
        let tag = slot.filter(|tagged| tagged.step == step)?.tag;
        *slot = None;
        self.count -= 1;
        while self.tags.front().is_some_and(Option::is_none) {
            self.tags.pop_front();
            self.oldest = self.oldest.next();
        }
        Some(tag)
    }

    /// All open messages, oldest first.
    pub(crate) fn messages(&self) -> impl Iterator<Item = OpenMessage> + '_ {
        let mut next = self.oldest;
        self.tags.iter().filter_map(move |tagged| {
            let packet_id = next;
            next = next.next();
            let Tagged { tag, step } = (*tagged)?;
            Some(OpenMessage { packet_id, tag, is_released: step == Step::Complete })
        })
    }

    /// The tags of all open messages, oldest first.
    pub(crate) fn tags(&self) -> impl Iterator<Item = u64> + '_ {
        self.tags.iter().flatten().map(|tagged| tagged.tag)
    }
}
