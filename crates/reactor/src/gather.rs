//! Letting output gather while the thread is busy: a send costs about the same however many
//! messages it carries.
//!
//! Time is cut into ticks. Output of a connection that got several messages in the tick before
//! waits for the tick's end, so a connection that gets messages often is flushed once per tick, and
//! one that gets them rarely is never kept waiting. Nothing waits while the thread has time.
//!
//! A tick is as long as the budget of latency while sends are a large part of the work, and
//! shorter where few connections get many messages: to wait longer would save nothing there.

use crate::token::Token;

/// Busy from this share of the time on, and no more from below the other. It is the share that work
/// would take with all sends that gathering saves; or else gathering would end itself.
const BUSY_PERCENT: u64 = 40;
const IDLE_PERCENT: u64 = 30;

/// A window counts for so much of the share: one in which the host gave the core to somebody else
/// looks busy and is not.
const SMOOTHING: u64 = 4;
const PERCENT_MAX: u64 = 400;

/// The share is looked at this often. Every turn counts: turns come in patterns, such as a message
/// and then its acknowledgement, so every fourth may always be the same one.
const WINDOW_US: u64 = 50_000;

/// About what a send takes, in microseconds, and the part of the time from which on sends are worth
/// a longer tick, or no more as long a one. A tick twice as long has half the sends.
const SEND_US: u64 = 6;
const MANY_SENDS_PERCENT: u64 = 10;
const FEW_SENDS_PERCENT: u64 = 4;

/// No tick is shorter, unless the budget is.
const TICK_US_MIN: u64 = 1_000;

/// So many messages a second are often, and at least so many in a tick: fewer would wait for
/// little or nothing.
const OFTEN_PER_S: u64 = 200;
const OFTEN_MIN: u8 = 2;

/// Output as long as this does not wait: more would not make it cheaper.
pub(crate) const GATHERED_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// The longest tick; 0 if nothing ever waits.
    budget_us: u64,
    /// Length of a tick.
    tick_us: u64,
    /// So many messages in a tick are often.
    often: u8,
    tick_end_us: u64,
    /// Counts ticks, in the few bits that a socket has for it.
    tick: u8,
    /// Share of the time that work would take if nothing gathered, smoothed.
    percent: u64,
    is_busy: bool,
    /// Wait for the end of the tick.
    waiting: Vec<Token>,
    /// Messages so far that joined others and so were no send of their own, and those that were the
    /// first to wait.
    joined: u64,
    first: u64,
    sample: Sample,
}

/// How often a connection gets messages, as far as the last two ticks know.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// The last tick with a message, and how many it had so far.
    tick: u8,
    messages: u8,
    /// Whether the tick before that had many.
    was_often: bool,
}

impl Pace {
    #[inline]
    fn is_often(&mut self, tick: u8, often: u8) -> bool {
        if self.tick != tick {
            self.was_often = self.messages >= often && tick.wrapping_sub(self.tick) == 1;
            (self.tick, self.messages) = (tick, 0);
        }
        self.messages = self.messages.saturating_add(1);
        self.was_often
    }
}

/// How busy the thread is.
#[derive(Debug, Default)]
struct Sample {
    window_end_us: u64,
    work_us: u64,
    all_us: u64,
    /// Messages that had joined others, and sends of the thread: all that there were when the
    /// window began.
    joined_before: u64,
    sends_before: u64,
    /// When the last turn began, and when its work was done.
    turn: Option<(u64, u64)>,
}

impl Gather {
    /// Output waits for at most so long.
    pub(crate) fn set_budget_us(&mut self, budget_us: u64) {
        self.budget_us = budget_us;
        self.set_tick_us(budget_us);
    }

    fn set_tick_us(&mut self, tick_us: u64) {
        self.tick_us = tick_us;
        let often = tick_us.saturating_mul(OFTEN_PER_S) / 1_000_000;
        self.often = u8::try_from(often).unwrap_or(u8::MAX).max(OFTEN_MIN);
    }

    /// The work of the turn that began at `turn_us` is done, what follows is waiting.
    #[inline]
    pub(crate) fn work_done(&mut self, turn_us: u64, done_us: u64) {
        if self.budget_us > 0 {
            self.sample.turn = Some((turn_us, done_us));
        }
    }

    /// A turn begins, after so many sends of the thread. Says whether what waits is to leave.
    #[inline]
    pub(crate) fn turn_begins(&mut self, now_us: u64, sends: u64) -> bool {
        if self.budget_us == 0 {
            return false;
        }
        if let Some((began_us, done_us)) = self.sample.turn.take() {
            self.note(began_us, done_us, now_us, sends);
        }
        if now_us < self.tick_end_us {
            return false;
        }
        // After a pause nobody had messages in the tick before.
        let ticks = (now_us - self.tick_end_us) / self.tick_us + 1;
        self.tick = self.tick.wrapping_add(ticks.min(2) as u8);
        self.tick_end_us = now_us + self.tick_us;
        true
    }

    fn note(&mut self, began_us: u64, done_us: u64, now_us: u64, sends: u64) {
        let sample = &mut self.sample;
        sample.work_us += done_us.saturating_sub(began_us);
        sample.all_us += now_us.saturating_sub(began_us);
        if now_us < sample.window_end_us {
            return;
        }
        let percent = sample.work_us * 100 / sample.all_us.max(1);
        let sent = sends.saturating_sub(sample.sends_before).max(1);
        let joined = self.joined - sample.joined_before;
        let unsaved = (percent * (sent + joined) / sent).min(PERCENT_MAX);
        self.percent = (self.percent * (SMOOTHING - 1) + unsaved) / SMOOTHING;
        self.is_busy = self.percent >= if self.is_busy { IDLE_PERCENT } else { BUSY_PERCENT };
        let sends_percent = sent * SEND_US * 100 / sample.all_us.max(1);
        let window_end_us = now_us + WINDOW_US;
        let (sends_before, joined_before) = (sends, self.joined);
        *sample = Sample { window_end_us, sends_before, joined_before, ..Sample::default() };
        let shortest_us = TICK_US_MIN.min(self.budget_us);
        match sends_percent {
            // Whoever is busy next is not to gather little first.
            _ if !self.is_busy => self.set_tick_us(self.budget_us),
            ..FEW_SENDS_PERCENT => self.set_tick_us((self.tick_us / 2).max(shortest_us)),
            MANY_SENDS_PERCENT.. => self.set_tick_us((self.tick_us * 2).min(self.budget_us)),
            _ => {}
        }
    }

    /// A message for a connection. Says whether it waits for the tick's end.
    #[inline]
    pub(crate) fn waits(&self, pace: &mut Pace) -> bool {
        self.is_busy && pace.is_often(self.tick, self.often)
    }

    pub(crate) fn wait(&mut self, token: Token) {
        self.first += 1;
        self.waiting.push(token);
    }

    /// A message goes with others that wait.
    #[inline]
    pub(crate) fn joined(&mut self) {
        self.joined += 1;
    }

    /// Messages so far that waited.
    pub(crate) fn messages(&self) -> u64 {
        self.first + self.joined
    }

    /// What waits, with its memory; [`Gather::put_back`] returns that.
    pub(crate) fn take(&mut self) -> Vec<Token> {
        std::mem::take(&mut self.waiting)
    }

    pub(crate) fn put_back(&mut self, mut empty: Vec<Token>) {
        empty.clear();
        self.waiting = empty;
    }

    /// When what waits is to leave, if anything does.
    pub(crate) fn due_us(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.tick_end_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many windows, with so much work and so many sends each, `joined` messages more.
    fn windows(gather: &mut Gather, count: u64, percent: u64, sends: u64, joined: u64) {
        for _ in 0..count {
            let began_us = gather.sample.window_end_us.max(WINDOW_US);
            (0..joined).for_each(|_| gather.joined());
            let sent = gather.sample.sends_before + sends;
            gather.note(began_us, began_us + percent, began_us + 100, sent);
        }
    }

    /// A gather that was busy for a while, and the time.
    fn busy() -> (Gather, u64) {
        let mut gather = Gather::default();
        gather.set_budget_us(5_000);
        windows(&mut gather, 3, 90, 100, 0);
        assert!(gather.is_busy);
        gather.turn_begins(1_000, 0);
        (gather, 1_000)
    }

    fn make_often(gather: &Gather, pace: &mut Pace) {
        for _ in 0..gather.often {
            gather.waits(pace);
        }
    }

    #[test]
    fn only_a_connection_with_many_messages_in_the_tick_before_waits() {
        let (mut gather, mut now_us) = busy();
        let (mut often, mut rarely) = (Pace::default(), Pace::default());
        let mut tick = |often_waits: bool| {
            assert_eq!(gather.waits(&mut often), often_waits);
            assert_eq!(gather.waits(&mut often), often_waits);
            assert!(!gather.waits(&mut rarely), "one a tick");
            now_us += 5_000;
            assert!(gather.turn_begins(now_us, 0));
        };
        tick(false);
        tick(true);
        tick(true);
    }

    #[test]
    fn long_ticks_are_for_those_who_get_more_in_them() {
        let often = |wait_us| {
            let mut gather = Gather::default();
            gather.set_budget_us(wait_us);
            gather.often
        };
        assert_eq!([1_000, 10_000, 20_000, 1_000_000].map(often), [2, 2, 4, 200]);
        assert_eq!(often(u64::MAX), u8::MAX);
    }

    #[test]
    fn after_a_pause_nobody_waits() {
        let (mut gather, now_us) = busy();
        let mut pace = Pace::default();
        make_often(&gather, &mut pace);
        gather.turn_begins(now_us + 50_000, 0);
        assert!(!gather.waits(&mut pace));
    }

    #[test]
    fn nobody_waits_while_there_is_time() {
        let (mut gather, now_us) = busy();
        let mut pace = Pace::default();
        make_often(&gather, &mut pace);
        gather.turn_begins(now_us + 5_000, 0);
        assert!(gather.waits(&mut pace));
        windows(&mut gather, 10, 1, 100, 0);
        assert!(!gather.waits(&mut pace));
    }

    #[test]
    fn a_tick_is_as_long_as_sends_are_worth() {
        let (mut gather, _) = busy();
        let mut windows_of = |sends_per_ms: u64| {
            for _ in 0..10 {
                let began_us = gather.sample.window_end_us.max(WINDOW_US);
                let sent = gather.sample.sends_before + sends_per_ms * 50;
                gather.note(began_us, began_us + 45_000, began_us + 50_000, sent);
            }
            gather.tick_us
        };
        assert_eq!(windows_of(5), 1_000, "3 % of the time");
        assert_eq!(windows_of(10), 1_000, "6 %");
        assert_eq!(windows_of(50), 5_000, "30 %, up to the budget");
        windows(&mut gather, 20, 5, 1, 0);
        assert!(!gather.is_busy && gather.tick_us == 5_000, "the next ones begin with all of it");
    }

    #[test]
    fn one_busy_window_is_the_hosts_doing() {
        let mut gather = Gather::default();
        windows(&mut gather, 20, 5, 100, 0);
        windows(&mut gather, 1, 100, 100, 0);
        assert!(!gather.is_busy);
        windows(&mut gather, 3, 60, 100, 0);
        assert!(gather.is_busy);
    }

    #[test]
    fn what_gathering_saves_counts_as_busy() {
        let (mut gather, _) = busy();
        windows(&mut gather, 100, 10, 100, 400);
        assert!(gather.is_busy, "10 % with 100 sends is 50 % with 500");
        windows(&mut gather, 10, 10, 100, 0);
        assert!(!gather.is_busy, "nothing joined, so nothing is saved");
    }

    #[test]
    fn a_tick_ends_what_waits() {
        let (mut gather, now_us) = busy();
        assert_eq!(gather.due_us(), None);
        gather.wait(Token(7));
        assert_eq!(gather.due_us(), Some(now_us + 5_000));
        assert!(!gather.turn_begins(now_us + 4_999, 0));
        assert!(gather.turn_begins(now_us + 5_000, 0));
        assert_eq!(gather.take(), [Token(7)]);
    }

    struct Nobody;

    impl crate::Handler for Nobody {
        fn received(&mut self, _io: &mut crate::Io, _token: Token, bytes: &[u8]) -> usize {
            bytes.len()
        }
        fn closed(&mut self, _io: &mut crate::Io, _token: Token, _cause: crate::Closed) {}
        fn turn_end(&mut self, _io: &mut crate::Io) {}
    }

    #[test]
    fn gathered_output_leaves_with_the_tick_or_with_output_that_does_not_wait() {
        use std::io::Read;
        use std::time::Duration;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut reactor = crate::Reactor::new().unwrap();
        let token = reactor
            .io()
            .connect(&crate::Transport::Plain, listener.local_addr().unwrap(), None)
            .unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let turn = |reactor: &mut crate::Reactor| {
            reactor.turn(Some(Duration::ZERO), &mut Nobody).unwrap();
            reactor.io().stats().bytes_out
        };
        turn(&mut reactor);
        // The tick is longer than the test may take.
        reactor.io().set_gather(Duration::from_secs(1000));
        windows(&mut reactor.io().gather, 3, 90, 100, 0);
        reactor.io().gather.often = OFTEN_MIN;
        // What this thread really does is not looked at.
        reactor.io().gather.sample.window_end_us = u64::MAX;
        turn(&mut reactor);
        let tick = |reactor: &mut crate::Reactor| {
            reactor.io().gather.tick_end_us = crate::now_us();
            turn(reactor)
        };
        reactor.io().write_gathered(token, b"a");
        reactor.io().write_gathered(token, b"");
        assert_eq!(turn(&mut reactor), 1, "it is new");
        tick(&mut reactor);
        reactor.io().write_gathered(token, b"b");
        reactor.io().write_gathered(token, b"c");
        assert_eq!(turn(&mut reactor), 1, "waits");
        reactor.io().write(token, b"d");
        assert_eq!(turn(&mut reactor), 4, "all leave with the one that does not wait");
        reactor.io().write_gathered(token, b"e");
        assert_eq!(turn(&mut reactor), 4, "waits");
        assert_eq!(tick(&mut reactor), 5, "the tick is over");
        reactor.io().write_gathered(token, &[b'f'; GATHERED_BYTES_MAX]);
        assert_eq!(turn(&mut reactor), 5 + GATHERED_BYTES_MAX as u64, "long enough");
        let mut came = [0; 5];
        peer.read_exact(&mut came).unwrap();
        assert_eq!(&came, b"abcde");
    }

    #[test]
    fn without_a_wait_nothing_is_measured() {
        let mut gather = Gather::default();
        (0..100).for_each(|_| gather.work_done(0, 1));
        let mut pace = Pace::default();
        make_often(&gather, &mut pace);
        assert!(!gather.turn_begins(1_000_000, 0) && !gather.waits(&mut pace));
    }
}
