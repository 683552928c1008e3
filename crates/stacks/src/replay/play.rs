//! A play under way: what is due when, what is in flight, what has come back.

use super::books::Books;
use super::feed::{Feed, Recorded};
use super::lines::{Play, Played, encode};
use hdrhistogram::Histogram;
use weir_load::histogram;
use weir_load::thread_cpu_us;
use weir_reactor::{Io, Token};
use weir_wire::packet::Publish;
use weir_wire::{PacketId, QoS};

/// Output that may wait for the stack to read: what is due beyond it is held as a number.
const PENDING_BYTES_MAX: usize = 512 * 1024;

/// Most that is written in one turn, so that what comes in is read as well.
const TURN_BYTES_MAX: usize = 256 * 1024;

/// How soon it is looked whether the last message has left.
const WRITTEN_US: u64 = 200;

/// Between the order and the first message.
const LEAD_US: u64 = 20_000;

/// Packet identifiers in flight, and the sequence of each.
struct Window {
    /// By packet identifier: the sequence and one, 0 for none.
    sequences: Vec<u64>,
    next: PacketId,
    open: u32,
    open_max: u32,
}

impl Window {
    fn new(open_max: u32) -> Self {
        Self { sequences: vec![0; 1 << 16], next: PacketId::FIRST, open: 0, open_max }
    }

    /// A free identifier for a sequence; nothing while the window is full.
    fn take(&mut self, sequence: u64) -> Option<PacketId> {
        if self.open >= self.open_max {
            return None;
        }
        // At most half of them are taken, so that this ends.
        while self.sequences[usize::from(self.next.value())] != 0 {
            self.next = self.next.next();
        }
        let packet_id = self.next;
        self.sequences[usize::from(packet_id.value())] = sequence + 1;
        self.next = packet_id.next();
        self.open += 1;
        Some(packet_id)
    }

    fn acknowledged(&mut self, packet_id: PacketId) -> Option<u64> {
        let sequence = &mut self.sequences[usize::from(packet_id.value())];
        let taken = std::mem::take(sequence).checked_sub(1)?;
        self.open -= 1;
        Some(taken)
    }
}

/// What keeps a due message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    No,
    ByWindow,
    ByOutput,
    /// The turn has done its share.
    ByTurn,
}

/// A play.
pub(super) struct Playing {
    play: Play,
    token: Token,
    feed: Feed,
    window: Option<Window>,
    books: Books,
    first: u64,
    messages: u64,
    start_us: u64,
    pub(super) measure_us: (u64, u64),
    /// Messages written.
    sent: u64,
    held: Held,
    /// Messages below this number have been counted as held, or were not.
    held_to: u64,
    required: u64,
    sends_before: u64,
    cpu: [Option<(u64, u64)>; 2],
    latency: Histogram<u64>,
    acknowledge: Histogram<u64>,
    lag: Histogram<u64>,
    played: Played,
    is_sent_told: bool,
}

/// What a step of a play has to say.
pub(super) enum Progress {
    Nothing,
    /// The last message has been written.
    Sent(u64),
    /// It is over.
    Over(Box<Played>),
}

impl Playing {
    /// Begins to play from the sequence `first` on.
    pub(super) fn new(
        play: Play,
        (token, feed, qos): (Token, Feed, QoS),
        (recorded, first): (&Recorded, u64),
        (now_us, sends): (u64, u64),
    ) -> Self {
        let messages = play.messages();
        let start_us = now_us + LEAD_US;
        let from_us = start_us + (play.warm_up_s * 1e6) as u64;
        let measure_us = (from_us, from_us + (play.measure_s * 1e6) as u64);
        let required = if play.returns { recorded.cells(first, first + messages) } else { 0 };
        Self {
            play,
            token,
            feed,
            window: (qos != QoS::AtMostOnce).then(|| Window::new(play.window)),
            books: Books::new(first, messages),
            first,
            messages,
            start_us,
            measure_us,
            sent: 0,
            held: Held::No,
            held_to: 0,
            required,
            sends_before: sends,
            cpu: [None; 2],
            latency: histogram(),
            acknowledge: histogram(),
            lag: histogram(),
            played: Played::default(),
            is_sent_told: false,
        }
    }

    pub(super) fn start_us(&self) -> u64 {
        self.start_us
    }

    /// The sequence after the last that was written.
    pub(super) fn end(&self) -> u64 {
        self.first + self.sent
    }

    pub(super) fn is_of(&self, token: Token) -> bool {
        self.token == token
    }

    /// When a message of this play is due; those of a segment are due together.
    fn intended_us(&self, place: u64) -> u64 {
        let segment = u64::from(self.play.per_segment);
        let first = place / segment * segment;
        self.start_us + (first as f64 * 1e6 / self.play.rate_per_s) as u64
    }

    fn is_measured(&self, intended_us: u64) -> bool {
        (self.measure_us.0..self.measure_us.1).contains(&intended_us)
    }

    /// Microseconds until something is due; nothing where that is the stack alone.
    pub(super) fn wait_us(&self, now_us: u64) -> Option<u64> {
        match self.held {
            Held::ByTurn => Some(0),
            // Only the stack can move it on, but not for ever.
            Held::ByWindow | Held::ByOutput => Some(self.give_up_us().saturating_sub(now_us)),
            // What was written leaves at the end of the turn.
            Held::No if self.sent >= self.messages => (!self.is_sent_told).then_some(WRITTEN_US),
            Held::No => Some(self.intended_us(self.sent).saturating_sub(now_us)),
        }
    }

    /// Writes what is due, and closes the books once nothing is owed.
    pub(super) fn step(&mut self, io: &mut Io, now_us: u64) -> Progress {
        self.note_cpu(now_us);
        self.write_due(io, now_us);
        if self.sent < self.messages {
            if now_us < self.give_up_us() {
                return Progress::Nothing;
            }
            return Progress::Over(self.close(io.stats().writes, now_us, None));
        }
        let is_written = io.pending(self.token) == 0;
        if !self.is_sent_told && is_written {
            self.is_sent_told = true;
            self.played.sent_us = now_us;
            return Progress::Sent(now_us);
        }
        let drain_us = (self.play.drain_s * 1e6) as u64;
        let deadline_us = self.give_up_us().max(self.played.sent_us + drain_us);
        let is_settled = is_written && self.owed() == 0 && now_us >= self.measure_us.1;
        if is_settled || now_us >= deadline_us {
            return Progress::Over(self.close(io.stats().writes, now_us, None));
        }
        Progress::Nothing
    }

    /// When a stack that has not let all be sent is waited for no longer.
    fn give_up_us(&self) -> u64 {
        self.intended_us(self.messages - 1) + (self.play.drain_s * 1e6) as u64
    }

    /// Results and acknowledgements that have not come.
    fn owed(&self) -> u64 {
        let open = self.window.as_ref().map_or(0, |window| u64::from(window.open));
        self.required - self.books.counts.delivered + open
    }

    fn note_cpu(&mut self, now_us: u64) {
        let (from_us, to_us) = self.measure_us;
        for (at, due_us) in [from_us, to_us].into_iter().enumerate() {
            if self.cpu[at].is_none() && now_us >= due_us {
                self.cpu[at] = Some((now_us, thread_cpu_us()));
            }
        }
    }

    fn write_due(&mut self, io: &mut Io, now_us: u64) {
        // What became due while the stack kept us waits for it, too.
        self.count_held(now_us);
        self.held = Held::No;
        let mut bytes_left = TURN_BYTES_MAX;
        while self.sent < self.messages {
            let intended_us = self.intended_us(self.sent);
            if intended_us > now_us {
                break;
            }
            let segment = u64::from(self.play.per_segment);
            // What the window cut from a segment comes later.
            let end = ((self.sent / segment + 1) * segment).min(self.messages);
            while self.sent < end {
                self.held = self.write_one(io, &mut bytes_left);
                if self.held != Held::No {
                    self.count_held(now_us);
                    return;
                }
                if self.is_measured(intended_us) {
                    self.played.measured += 1;
                    if self.sent > self.held_to {
                        self.lag.saturating_record((now_us - intended_us).max(1));
                    }
                }
            }
        }
    }

    fn write_one(&mut self, io: &mut Io, bytes_left: &mut usize) -> Held {
        if *bytes_left == 0 {
            return Held::ByTurn;
        }
        if io.pending(self.token) >= PENDING_BYTES_MAX {
            return Held::ByOutput;
        }
        let sequence = self.first + self.sent;
        let packet_id = match &mut self.window {
            Some(window) => match window.take(sequence) {
                None => return Held::ByWindow,
                taken => taken,
            },
            None => None,
        };
        let packet = self.feed.stamp(sequence, packet_id);
        *bytes_left = bytes_left.saturating_sub(packet.len());
        io.write(self.token, packet);
        self.sent += 1;
        Held::No
    }

    /// Counts each message that is due and waits for the stack once, by what it waits for first.
    fn count_held(&mut self, now_us: u64) {
        let passed_us = now_us.saturating_sub(self.start_us) as f64;
        let segments =
            (passed_us * self.play.rate_per_s / 1e6) as u64 / u64::from(self.play.per_segment) + 1;
        let due = (segments * u64::from(self.play.per_segment)).min(self.messages);
        let new = due.saturating_sub(self.held_to.max(self.sent));
        match self.held {
            Held::ByWindow => self.played.held_by_window += new,
            Held::ByOutput => self.played.held_by_output += new,
            // That is the server's own lateness.
            Held::ByTurn | Held::No => return,
        }
        self.held_to = self.held_to.max(due);
    }

    /// A PUBACK of the stack.
    pub(super) fn acknowledged(&mut self, packet_id: PacketId, now_us: u64) {
        let sequence = self.window.as_mut().and_then(|window| window.acknowledged(packet_id));
        let Some(sequence) = sequence else {
            self.played.acknowledged_alien += 1;
            return;
        };
        self.played.acknowledged += 1;
        let intended_us = self.intended_us(sequence - self.first);
        if self.is_measured(intended_us) {
            self.acknowledge.saturating_record(now_us.saturating_sub(intended_us).max(1));
        }
    }

    /// A PUBLISH of the stack: of the QoS that the message came with, or it is altered.
    pub(super) fn result(&mut self, recorded: &Recorded, publish: &Publish<'_>, now_us: u64) {
        let has_qos = (publish.qos != QoS::AtMostOnce) == self.window.is_some();
        let Some(sequence) = self.books.result(recorded, publish.payload, has_qos, self.sent)
        else {
            return;
        };
        let intended_us = self.intended_us(sequence - self.first);
        if self.is_measured(intended_us) {
            self.latency.saturating_record(now_us.saturating_sub(intended_us).max(1));
        }
    }

    /// What came of it.
    pub(super) fn close(&mut self, sends: u64, now_us: u64, gone: Option<String>) -> Box<Played> {
        let results = self.books.counts;
        let of_sent = |required: u64| if self.sent == self.messages { required } else { 0 };
        let mut played = std::mem::take(&mut self.played);
        played.sent = self.sent;
        played.unsent = self.messages - self.sent;
        played.required = of_sent(self.required);
        played.delivered = results.delivered;
        played.lost = played.required.saturating_sub(results.delivered);
        played.duplicated = results.duplicated;
        played.alien = results.alien;
        played.altered = results.altered;
        played.reordered = results.reordered;
        played.unacknowledged = self.window.as_ref().map_or(0, |window| u64::from(window.open));
        played.sends = sends - self.sends_before;
        played.latency = encode(&self.latency);
        played.acknowledge = encode(&self.acknowledge);
        played.lag = encode(&self.lag);
        if let [Some((from_us, cpu_from)), Some((to_us, cpu_to))] = self.cpu {
            played.cpu_us = cpu_to - cpu_from;
            played.cpu_wall_us = to_us - from_us;
        }
        played.settled_us = now_us;
        played.gone = gone;
        Box::new(played)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_gives_each_identifier_once_until_it_is_acknowledged() {
        let mut window = Window::new(2);
        let (one, two) = (window.take(0).unwrap(), window.take(1).unwrap());
        assert_ne!(one, two);
        assert_eq!(window.take(2), None);
        assert_eq!(window.acknowledged(two), Some(1));
        assert_eq!(window.acknowledged(two), None);
        for sequence in 2..200_000 {
            let taken = window.take(sequence).unwrap();
            assert_ne!(taken, one);
            assert_eq!(window.acknowledged(taken), Some(sequence));
        }
        assert_eq!(window.open, 1);
    }
}
