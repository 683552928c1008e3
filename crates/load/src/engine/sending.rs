//! Publishing: what is due is picked up, and sent as soon as the broker lets it.

use super::Engine;
use super::publishing::Picked;
use crate::outcome::Phase;
use weir_reactor::{Io, now_us};

/// Messages picked up in one turn, so that a generator behind its schedule still reads.
const PICKED_PER_TURN_MAX: u32 = 4096;

/// How long after measure messages may still leave that window, socket or generator held back;
/// then they are unsent. A broker that was slow at the very end is not yet a broker that refuses.
const SEND_GRACE_US: u64 = 1_000_000;

/// The time is taken again after this many messages.
const MESSAGES_PER_CLOCK: u32 = 32;

impl Engine<'_> {
    /// Whether messages may leave: while they become due, and a while longer for those held back.
    pub(super) fn is_sending(&self, now: u64) -> bool {
        self.ending.end.is_none()
            && match self.clock.phase() {
                Phase::WarmUp | Phase::Measure => true,
                Phase::Drain => {
                    now < self.clock.start_us() + SEND_GRACE_US && !self.book.audit.is_closed()
                }
                Phase::Connect | Phase::Subscribe => false,
            }
    }

    /// When the loop has to send next.
    pub(super) fn next_due_us(&self, now: u64) -> Option<u64> {
        self.publishing.next_due_us(now).filter(|_| self.is_sending(now))
    }

    /// Picks up what is due.
    pub(super) fn pick_due(&mut self, io: &mut Io) {
        let mut now = now_us();
        if !self.is_sending(now) {
            return;
        }
        for publisher in self.publishing.take_held(&mut self.book, io) {
            self.send_due(publisher, now, io);
        }
        for picked in 1..=PICKED_PER_TURN_MAX {
            let Some(Picked { publisher, due_us, is_will }) = self.publishing.pick(self.plan, now)
            else {
                return;
            };
            self.book.recorder.lag.record(now - due_us, self.clock.is_measured(due_us));
            self.watch.picked(now - due_us);
            self.book.publishers[publisher as usize].due += 1;
            self.book.backlog += 1;
            if is_will {
                self.leave_will(publisher, due_us, now, io);
            } else {
                self.send_due(publisher, now, io);
            }
            if picked % MESSAGES_PER_CLOCK == 0 {
                now = now_us();
            }
        }
    }

    /// The payload of one message, made once more.
    pub(super) fn payload_of(&self, at: u32, sequence: u32) -> Vec<u8> {
        let publisher = &self.book.publishers[at as usize];
        self.publishing.payload_of(self.plan.run, at, publisher, sequence)
    }

    /// Sends what the publisher has due, as far as window and socket allow.
    pub(super) fn send_due(&mut self, at: u32, now: u64, io: &mut Io) {
        if self.is_sending(now) {
            let Self { plan, book, clients, publishing, .. } = self;
            publishing.send((at, plan.run, now), book, clients, io);
        }
    }
}
