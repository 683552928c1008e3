//! Messages on their way to other shards. Their memory comes back by itself: who holds the last
//! other reference to one lets go of it, and it carries another message.

use crate::message::{Delivery, Message};
use std::collections::VecDeque;
use std::sync::Arc;

/// Messages that are remembered at a time.
const MESSAGES_MAX: usize = 1024;

/// A longer payload gets memory of its own: making it costs less than copying it.
const PAYLOAD_BYTES_MAX: usize = 1024;

/// The messages that were lent, in the order they left.
#[derive(Debug, Default)]
pub(crate) struct MessagePool {
    lent: VecDeque<Arc<Message>>,
}

impl MessagePool {
    /// The delivery's message, in memory that was used before where there is some.
    pub(crate) fn lend(&mut self, delivery: &Delivery<'_>) -> Arc<Message> {
        if delivery.payload.len() > PAYLOAD_BYTES_MAX {
            return Arc::new(delivery.to_message());
        }
        let message = self.take_back(delivery).unwrap_or_else(|| Arc::new(delivery.to_message()));
        self.lent.push_back(Arc::clone(&message));
        message
    }

    /// The message that left first, filled anew, if nobody has it any more.
    fn take_back(&mut self, delivery: &Delivery<'_>) -> Option<Arc<Message>> {
        let mut oldest = self.lent.pop_front()?;
        match Arc::get_mut(&mut oldest) {
            // Somebody may keep it, and should not keep the memory of a longer one with it.
            Some(message) if message.payload.capacity() <= 4 * delivery.payload.len() + 128 => {
                delivery.fill(message);
                Some(oldest)
            }
            Some(_) => None,
            // It is still on its way; or it is kept, and is forgotten once there are many.
            None => {
                if self.lent.len() < MESSAGES_MAX - 1 {
                    self.lent.push_back(oldest);
                }
                None
            }
        }
    }
}

impl Delivery<'_> {
    /// As [`Delivery::shared`], for another shard, which rarely keeps it for long.
    pub(crate) fn lent(&mut self, pool: &mut MessagePool) -> &Arc<Message> {
        if self.shared_slot().is_none() {
            *self.shared_slot() = Some(pool.lend(self));
        }
        self.shared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_wire::{Properties, QoS};

    fn lend(pool: &mut MessagePool, topic: &str, payload: &[u8]) -> Arc<Message> {
        let message = (QoS::AtMostOnce, false);
        let properties = Properties::EMPTY;
        pool.lend(&Delivery::from_parts(topic, payload, properties, message, None, None))
    }

    #[test]
    fn a_message_that_came_back_carries_the_next_one() {
        let mut pool = MessagePool::default();
        let first = lend(&mut pool, "a", b"1");
        let at = Arc::as_ptr(&first);
        let second = lend(&mut pool, "b", b"2");
        assert_ne!(Arc::as_ptr(&second), at, "the first is still away");
        assert_eq!((&*first.topic, &*first.payload), ("a", &b"1"[..]));
        drop((first, second));
        let third = lend(&mut pool, "ccc", b"33");
        let fourth = lend(&mut pool, "d", b"");
        assert_eq!((&*third.topic, &*third.payload), ("ccc", &b"33"[..]));
        assert_eq!((&*fourth.topic, &*fourth.payload), ("d", &b""[..]));
        assert!([Arc::as_ptr(&third), Arc::as_ptr(&fourth)].contains(&at));
    }

    #[test]
    fn what_is_kept_is_forgotten_in_the_end() {
        let mut pool = MessagePool::default();
        let kept: Vec<_> = (0..3 * MESSAGES_MAX).map(|_| lend(&mut pool, "a", b"1")).collect();
        assert!(pool.lent.len() <= MESSAGES_MAX, "{}", pool.lent.len());
        assert_eq!(Arc::strong_count(&kept[0]), 1);
    }

    #[test]
    fn the_memory_of_a_long_message_does_not_go_to_a_short_one() {
        let mut pool = MessagePool::default();
        drop(lend(&mut pool, "a", &[1; PAYLOAD_BYTES_MAX]));
        assert!(lend(&mut pool, "a", b"1").payload.capacity() < PAYLOAD_BYTES_MAX);
        drop(lend(&mut pool, "a", &[1; PAYLOAD_BYTES_MAX + 1]));
        assert_eq!(pool.lent.len(), 1, "longer ones are not remembered");
    }
}
