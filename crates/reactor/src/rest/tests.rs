//! Rests beside peers of different kinds, on a clock of their own.

use super::*;

const REST_US: u64 = 500;
/// What a turn takes, and each read of it.
const TURN_US: u64 = 20;
const READ_US: u64 = 4;
const WRITE_US: u64 = 4;

/// A thread that serves connections: as many as have something are read in a turn.
struct Thread {
    rest: Rest,
    now_us: u64,
    counts: Counts,
    /// The longest rest.
    longest_us: u64,
}

impl Thread {
    fn new() -> Self {
        let mut rest = Rest::default();
        rest.set_max_us(REST_US);
        Self { rest, now_us: 1_000_000, counts: Counts::default(), longest_us: 0 }
    }

    /// One turn with so many reads.
    fn turn(&mut self, reads: u64) {
        self.turn_with(reads, 0);
    }

    fn turn_with(&mut self, reads: u64, writes: u64) {
        let began_us = self.now_us;
        self.now_us += TURN_US + reads * READ_US + writes * WRITE_US;
        self.counts.turns += 1;
        self.counts.writes += writes;
        self.counts.reads += reads;
        self.counts.bytes += reads * 20;
        let rest_us = self.rest.turn_over(began_us, self.now_us, self.counts);
        self.longest_us = self.longest_us.max(rest_us);
        self.now_us += rest_us;
    }

    /// Messages that come at a rate whatever the thread does, each by a connection of its own.
    /// Returns reads a turn.
    fn open_loop(&mut self, per_s: u64, for_us: u64) -> f64 {
        let (begin_us, before) = (self.now_us, self.counts);
        let mut taken = 0;
        while self.now_us < begin_us + for_us {
            let due = (self.now_us - begin_us) * per_s / 1_000_000;
            if due == taken {
                // It waits for the next one.
                self.now_us = begin_us + ((taken + 1) * 1_000_000).div_ceil(per_s);
                continue;
            }
            let reads = due - std::mem::replace(&mut taken, due);
            self.turn(reads);
        }
        let turns = self.counts.turns - before.turns;
        (self.counts.reads - before.reads) as f64 / turns.max(1) as f64
    }

    /// Peers that each say the next thing 20 us after the answer to the last one. Returns how many
    /// times a second one of them does.
    fn closed_loop(&mut self, peers: u64, for_us: u64) -> u64 {
        let (begin_us, before) = (self.now_us, self.counts.reads);
        while self.now_us < begin_us + for_us {
            self.turn(peers);
            self.now_us += 20;
        }
        (self.counts.reads - before) * 1_000_000 / (for_us * peers)
    }
}

#[test]
fn many_connections_that_have_something_often_gather() {
    let mut thread = Thread::new();
    let gathered = thread.open_loop(20_000, 10_000_000);
    assert!(gathered > 8.0, "{gathered}");
    assert!(thread.longest_us <= REST_US);
    // The rest follows the rate: it gathers enough, and does not go on to the bound.
    let mut thread = Thread::new();
    thread.open_loop(100_000, 10_000_000);
    assert!(thread.longest_us < 200, "{}", thread.longest_us);
}

#[test]
fn what_comes_rarely_is_never_kept_waiting() {
    let mut thread = Thread::new();
    thread.open_loop(5_000, 10_000_000);
    assert_eq!(thread.longest_us, 0);
}

#[test]
fn rests_end_when_less_comes() {
    let mut thread = Thread::new();
    thread.open_loop(20_000, 1_000_000);
    assert!(thread.rest.phase.rests());
    thread.open_loop(1_000, 200_000);
    thread.longest_us = 0;
    thread.open_loop(1_000, 1_000_000);
    assert_eq!(thread.longest_us, 0);
}

/// A message to so many; each acknowledges it, 6 us after the one before. Returns the turns.
fn fan_out(thread: &mut Thread, receivers: u64) -> u64 {
    let (begin_us, before) = (thread.now_us, thread.counts);
    thread.turn_with(1, receivers);
    let mut taken = 0;
    while taken < receivers {
        let due = ((thread.now_us - begin_us) / 6).min(receivers);
        let reads = due - std::mem::replace(&mut taken, due);
        if reads > 0 { thread.turn(reads) } else { thread.now_us += 1 }
    }
    thread.counts.turns - before.turns
}

#[test]
fn acknowledgements_of_a_large_fan_out_gather() {
    let mut thread = Thread::new();
    for _ in 0..10 {
        let turns = fan_out(&mut thread, 1_000);
        assert!(turns < 12, "{turns} turns");
        // Then the thread is as it was before: whoever comes alone does not wait.
        thread.longest_us = 0;
        thread.now_us += 1_000_000;
        thread.turn(1);
        thread.turn(1);
        assert_eq!(thread.longest_us, 0);
    }
    // One to a few is over before a rest would be.
    fan_out(&mut thread, 100);
    assert_eq!(thread.longest_us, 0);
}

#[test]
fn peers_that_wait_for_answers_keep_their_rate() {
    for peers in [1, 2, 5, 10, 20] {
        let mut thread = Thread::new();
        let unrested = 1_000_000 / (TURN_US + peers * READ_US + 20);
        let rate = thread.closed_loop(peers, 20_000_000);
        assert!(rate * 100 > unrested * 97, "{peers} peers: {rate} of {unrested}");
    }
}

#[test]
fn a_peer_that_waits_for_answers_ends_the_rests_of_others() {
    let mut thread = Thread::new();
    thread.open_loop(20_000, 1_000_000);
    assert!(thread.rest.phase.rests());
    // Ten more come than there are others: rests halve what comes.
    let rate = thread.closed_loop(10, 20_000_000);
    assert!(rate * 100 > 1_000_000 / 80 * 80, "{rate}");
}

#[test]
fn without_a_bound_there_is_no_rest() {
    let mut thread = Thread::new();
    thread.rest.set_max_us(0);
    thread.open_loop(50_000, 1_000_000);
    assert_eq!(thread.longest_us, 0);
    assert_eq!(thread.rest.phase, Phase::Off);
}
