//! What clients may ask for and use, as it is now: less while memory is short.

use crate::features::Features;
use crate::limits::Limits;
use crate::paging::PagedBounds;
use crate::queue::Queue;
use crate::session::Session;
use crate::shares::{Part, share_of};

/// Why nothing is taken that has to be kept.
pub(crate) const CEILING: &str = "the memory ceiling is reached";

/// Output of one connection while pressed, in bytes.
const PRESSED_OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// A part of a packet while pressed, in bytes; of a PUBLISH the rest is skipped, any other packet
/// ends the connection.
const PRESSED_PARTIAL_BYTES_MAX: usize = 16 * 1024;

/// What one client may have while memory is about to be short, in bytes: whoever has more gets no
/// more, so that there is some for all others.
pub(crate) const LEAN_QUEUE_BYTES_MAX: u64 = 256 * 1024;
pub(crate) const LEAN_SUBSCRIPTION_BYTES_MAX: usize = 64 * 1024;
pub(crate) const LEAN_WILL_BYTES_MAX: usize = 4 * 1024;
pub(crate) const LEAN_ALIAS_BYTES_MAX: usize = 256;

/// By what the output of one connection is divided then.
const LEAN_OUTPUT_DIVISOR: usize = 4;

/// An origin that has no more than this part of a bound may have a little more then, however large
/// its part of what there is.
const LEAN_PART: u64 = 1_000;

/// Limits, features, and whether memory is short.
#[derive(Debug)]
pub(crate) struct Bounds {
    pub(crate) limits: Limits,
    /// What clients are told when they connect.
    pub(crate) told: Told,
    pub(crate) features: Features,
    /// The memory ceiling is reached: nothing is taken that has to be kept.
    pub(crate) is_pressed: bool,
    /// Memory is about to be short: whoever has much gets no more.
    pub(crate) is_lean: bool,
    /// One of the two.
    pub(crate) is_short: bool,
    /// Whether a message may be refused for what waits: memory is short, or the settings say so.
    pub(crate) may_refuse: bool,
    /// The limit of this name, lowered while memory is short.
    pub(crate) output_bytes_max: usize,
    /// What waits for a session that is in the log, if that is kept on the disk.
    pub(crate) on_disk: Option<PagedBounds>,
}

/// Bounds of which clients of 5.0 are told. What is held is the most that a client was told: one
/// that keeps to what it heard is never ended for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) packet_bytes_max: u32,
    pub(crate) receive_maximum: u16,
    pub(crate) topic_alias_maximum: u16,
}

impl Told {
    fn of(limits: &Limits) -> Self {
        let &Limits { packet_bytes_max, receive_maximum, topic_alias_maximum, .. } = limits;
        Self { packet_bytes_max, receive_maximum, topic_alias_maximum }
    }
}

impl Bounds {
    pub(crate) fn new(limits: Limits, features: Features) -> Self {
        let output_bytes_max = limits.output_bytes_max;
        let may_refuse = limits.may_refuse();
        let (is_pressed, is_lean, is_short) = (false, false, false);
        let on_disk = None;
        Self {
            told: Told::of(&limits),
            limits,
            features,
            is_pressed,
            is_lean,
            is_short,
            may_refuse,
            output_bytes_max,
            on_disk,
        }
    }

    /// Others from now on.
    pub(crate) fn set_limits(&mut self, limits: &Limits) {
        let (told, old) = (Told::of(limits), &self.limits);
        self.limits = Limits {
            packet_bytes_max: told.packet_bytes_max.max(old.packet_bytes_max),
            receive_maximum: told.receive_maximum.max(old.receive_maximum),
            topic_alias_maximum: told.topic_alias_maximum.max(old.topic_alias_maximum),
            ..limits.clone()
        };
        self.told = told;
        self.changed();
    }

    pub(crate) fn set_pressed(&mut self, is_pressed: bool) {
        self.is_pressed = is_pressed;
        self.changed();
    }

    pub(crate) fn set_lean(&mut self, is_lean: bool) {
        self.is_lean = is_lean;
        self.changed();
    }

    fn changed(&mut self) {
        let output_bytes_max = self.limits.output_bytes_max;
        self.is_short = self.is_pressed || self.is_lean;
        self.may_refuse = self.is_short || self.limits.may_refuse();
        self.output_bytes_max = match () {
            () if self.is_pressed => output_bytes_max.min(PRESSED_OUTPUT_BYTES_MAX),
            () if self.is_lean => output_bytes_max / LEAN_OUTPUT_DIVISOR,
            () => output_bytes_max,
        };
    }

    /// Whether an origin that has so much of something may have so much more, where there are
    /// `total` of it and may be `max`.
    pub(crate) fn may_take(&self, has: u64, more: u64, total: u64, max: u64) -> bool {
        let percent = self.limits.client_share_percent;
        let has_most = has > total / 2 && has + more > max / LEAN_PART && percent < 100;
        has + more <= share_of(max, percent) && !(self.is_lean && has_most)
    }

    /// Whether there may be another condition of whoever has this part of all.
    pub(crate) fn has_condition_for(&self, part: Part, total: usize) -> bool {
        let (total, max) = (total as u64, u64::from(self.limits.conditions_max));
        total < max && self.may_take(part.count, 1, total, max)
    }

    /// Whether so many bytes of a packet may wait for their rest.
    pub(crate) fn allows_partial(&self, bytes: usize) -> bool {
        !self.is_pressed || bytes <= PRESSED_PARTIAL_BYTES_MAX
    }

    /// Whether a session's queue is over a bound.
    pub(crate) fn is_over(&self, session: &Session) -> bool {
        self.would_be_over(session, 0, 0)
    }

    /// Whether a session's queue is over twice a bound.
    pub(crate) fn is_over_twice(&self, session: &Session) -> bool {
        let (messages, bytes) = session.queue().map_or((0, 0), Queue::total);
        let (messages_max, bytes_max) = self.queue_max(session);
        messages > 2 * messages_max || bytes > bytes_max.saturating_mul(2)
    }

    /// Whether a session's queue would be over a bound with so much more in it.
    pub(crate) fn would_be_over(&self, session: &Session, messages: usize, bytes: u64) -> bool {
        let (queued, queued_bytes) = session.queue().map_or((0, 0), Queue::total);
        let (messages_max, bytes_max) = self.queue_max(session);
        queued + messages as u64 > messages_max || queued_bytes + bytes > bytes_max
    }

    /// Messages, and their bytes, that may wait for a session.
    #[inline]
    pub(crate) fn queue_max(&self, session: &Session) -> (u64, u64) {
        match self.on_disk {
            Some(PagedBounds { queue_messages_max, queue_bytes_max })
                if session.outlives_connection() =>
            {
                (queue_messages_max, queue_bytes_max)
            }
            _ => (self.limits.queue_messages_max.into(), self.limits.queue_bytes_max),
        }
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
        bounds.set_lean(true);
        assert!(bounds.output_bytes_max < relaxed && bounds.allows_partial(1_000_000));
    }

    #[test]
    fn what_clients_were_told_holds_after_it_was_lowered() {
        let mut bounds = Bounds::new(Limits::default(), Features::default());
        let limits = Limits {
            receive_maximum: 7,
            packet_bytes_max: 4 << 20,
            output_bytes_max: 65_536,
            ..Limits::default()
        };
        bounds.set_pressed(true);
        bounds.set_limits(&limits);
        assert_eq!((bounds.told.receive_maximum, bounds.limits.receive_maximum), (7, 1024));
        assert_eq!(
            (bounds.told.packet_bytes_max, bounds.limits.packet_bytes_max),
            (4 << 20, 4 << 20)
        );
        bounds.set_pressed(false);
        assert_eq!(bounds.output_bytes_max, 65_536);
    }

    #[test]
    fn whoever_has_most_gets_no_more_while_memory_is_about_to_be_short() {
        let mut bounds = Bounds::new(Limits::default(), Features::default());
        // Of a million there are 100,000.
        let mut may_take = |has, is_lean| {
            bounds.set_lean(is_lean);
            bounds.may_take(has, 1, 100_000, 1_000_000)
        };
        for (has, relaxed, lean) in [
            (0, true, true),
            (1_000, true, true),
            (50_000, true, true),
            (50_001, true, false),
            (749_999, true, false),
            (750_000, false, false),
        ] {
            assert_eq!((may_take(has, false), may_take(has, true)), (relaxed, lean), "{has}");
        }
        bounds.set_lean(true);
        assert!(bounds.may_take(900, 1, 900, 1_000_000), "it is not much");
        bounds.limits.client_share_percent = 100;
        assert!(bounds.may_take(100_000, 1, 100_000, 1_000_000), "there are no shares");
    }
}
