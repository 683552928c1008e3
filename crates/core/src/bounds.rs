//! What clients may ask for and use, as it is now: less while memory is short.

use crate::features::Features;
use crate::limits::Limits;
use crate::session::Session;

/// Output of one connection while pressed, in bytes.
const PRESSED_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// A part of a packet while pressed, in bytes; more ends the connection.
const PRESSED_PARTIAL_BYTES_MAX: usize = 16 * 1024;

/// Limits, features, and whether memory is short.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) limits: Limits,
    pub(crate) features: Features,
    /// The memory ceiling is reached: nothing is taken that has to be kept.
    pub(crate) is_pressed: bool,
    /// The limit of this name, lowered while pressed.
    pub(crate) output_bytes_max: usize,
}

impl Bounds {
    pub(crate) fn new(limits: Limits, features: Features) -> Self {
        let output_bytes_max = limits.output_bytes_max;
        Self { limits, features, is_pressed: false, output_bytes_max }
    }

    pub(crate) fn set_pressed(&mut self, is_pressed: bool) {
        self.is_pressed = is_pressed;
        self.output_bytes_max = if is_pressed {
            self.limits.output_bytes_max.min(PRESSED_OUTPUT_BYTES_MAX)
        } else {
            self.limits.output_bytes_max
        };
    }

    /// Whether so many bytes of a packet may wait for their rest.
    pub(crate) fn allows_partial(&self, bytes: usize) -> bool {
        !self.is_pressed || bytes <= PRESSED_PARTIAL_BYTES_MAX
    }

    /// Whether a session's queue is over a bound.
    pub(crate) fn is_over(&self, session: &Session) -> bool {
        self.would_be_over(session, 0, 0)
    }

    /// Whether a session's queue would be over a bound with so much more in it.
    pub(crate) fn would_be_over(&self, session: &Session, messages: usize, bytes: u64) -> bool {
        let queue = session.queue();
        let (queued, queued_bytes) =
            queue.map_or((0, 0), |queue| (queue.deliveries.len(), queue.bytes));
        queued + messages > self.limits.queue_messages_max as usize
            || queued_bytes + bytes > self.limits.queue_bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_allowed_while_memory_is_short() {
        let mut bounds = Bounds::new(Limits::default(), Features::default());
        let relaxed = bounds.output_bytes_max;
        assert!(bounds.allows_partial(1_000_000));
        bounds.set_pressed(true);
        assert!(bounds.output_bytes_max < relaxed && !bounds.allows_partial(1_000_000));
        bounds.set_pressed(false);
        assert_eq!(bounds.output_bytes_max, relaxed);
    }
}
