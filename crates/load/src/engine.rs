//! The engine: clients on a reactor, driven through the phases of a plan.

mod book;
mod deadlines;
mod finish;
mod handler;
mod health;
mod inspection;
mod phase_clock;
mod phases;
mod publishing;
mod sending;
mod setup;
mod silences;
mod step_runner;
mod tokens;
mod watch;

pub(crate) use finish::SliceOutcome;
pub(crate) use setup::topics_of;

use crate::audit::Fate;
use crate::baton::Baton;
use crate::cpu::{ThreadCpu, thread_cpu_us};
use crate::outcome::{ABSENT_US_MAX, End, Interval, LATE_US_MIN, Outcome, Phase, Traffic};
use crate::plan::{Plan, Transports};
use crate::recorder::{Gauges, Sketches};
use crate::steps::Cue;
use crate::{LoadError, Stop};
use book::{Book, State};
use deadlines::Deadlines;
use phase_clock::PhaseClock;
use publishing::Publishing;
use silences::Silences;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;
use step_runner::StepRunner;
use tokens::Tokens;
use watch::{Watch, Window};
use weir_client::Client;
use weir_reactor::{Backend, Reactor, Waker, now_us};

/// The loop looks up at least this often: an absence is seen where the loop is later than it meant
/// to be, and one within a rest is not.
const TURN_MAX: Duration = Duration::from_millis(5);

pub(crate) struct Engine<'a> {
    plan: &'a Plan,
    /// Of a slice that others go along with.
    baton: Option<&'a Baton>,
    transports: Transports,
    cue: Cue,
    clients: Vec<Client>,
    tokens: Tokens,
    book: Book,
    clock: PhaseClock,
    connecting: Connecting,
    /// SUBACKs are awaited of them.
    subscribing: Deadlines,
    publishing: Publishing,
    pings: BinaryHeap<Reverse<(u64, u32)>>,
    runner: StepRunner,
    watch: Watch,
    silences: Silences,
    /// When connecting began.
    began_us: u64,
    /// The start and the end of connecting.
    connected: (Edge, Edge),
    /// The start and the end of measure.
    edges: (Edge, Edge),
    /// What became of the publishers' messages, once the books of a slice are closed.
    fates: Vec<(u32, Fate)>,
    /// Cleared with the end of drain.
    has_intervals: bool,
    ending: Ending,
}

/// Which clients have begun to connect.
#[derive(Debug, Default)]
struct Connecting {
    /// The next client.
    next: usize,
    /// Clients passed over, as they join later.
    skipped: u32,
    /// When there was last no room for another.
    held_us: u64,
    /// When all that wait were last looked at.
    looked_us: u64,
    /// CONNACK is awaited of them.
    open: Deadlines,
}

/// How the run ends, once that is decided.
#[derive(Debug, Default)]
struct Ending {
    end: Option<End>,
    /// When it was decided.
    decided_us: u64,
    /// Set with the first DISCONNECT.
    is_leaving: bool,
    is_over: bool,
}

/// What had been used, sent and received at one end of measure.
#[derive(Clone, Copy, Debug, Default)]
struct Edge {
    at_us: u64,
    cpu: ThreadCpu,
    traffic: Traffic,
}

/// Runs a plan to its end.
pub(crate) fn run(
    plan: &Plan,
    stop: &Stop,
    cue: &Cue,
    on_interval: &mut dyn FnMut(&Interval),
) -> Result<Outcome, LoadError> {
    let mut engine = Engine::new(plan, None)?;
    engine.cue = cue.clone();
    engine.turn_until_over(stop, &mut |tick| on_interval(tick.interval))?;
    Ok(engine.into_outcome())
}

/// Runs a slice of a plan to its end, together with others. `on_planned` hears when it could begin.
pub(crate) fn run_slice(
    plan: &Plan,
    baton: &Baton,
    stop: &Stop,
    on_planned: &mut dyn FnMut(u64),
    on_tick: &mut dyn FnMut(&Tick<'_>),
) -> Result<SliceOutcome, LoadError> {
    let mut engine = Engine::new(plan, Some(baton))?;
    on_planned(engine.book.connections.planned);
    let Some(begin_us) = baton.wait_for_begin(stop) else {
        engine.stop_run(End::Stopped);
        return Ok(engine.into_slice());
    };
    engine.begin_at(begin_us);
    engine.turn_until_over(stop, on_tick)?;
    Ok(engine.into_slice())
}

/// An interval as it ends, and what it takes to add it to those of other slices.
pub(crate) struct Tick<'a> {
    pub(crate) interval: &'a Interval,
    /// Histograms of the interval; of a slice only.
    pub(crate) sketches: Option<Sketches>,
    /// Deliveries owed for what this slice has published so far, and come to it so far.
    pub(crate) owed: u64,
    pub(crate) delivered: u64,
}

impl Engine<'_> {
    fn turn_until_over(
        &mut self,
        stop: &Stop,
        on_tick: &mut dyn FnMut(&Tick<'_>),
    ) -> Result<(), LoadError> {
        let mut reactor = Reactor::with_backend(Waker::new()?, Backend::Auto)?;
        self.watch.start(now_us(), thread_cpu_us());
        self.connected.0 = self.edge();
        while !self.ending.is_over {
            if stop.is_stopped() && self.ending.end.is_none() {
                self.stop_run(End::Stopped);
            }
            if stop.is_finishing() && self.ending.end.is_none() && !self.clock.is_finished() {
                self.finish(now_us());
            }
            self.advance(reactor.io());
            let rest = self.timeout();
            self.watch.rest(rest.as_micros() as u64);
            reactor.turn(Some(rest), self)?;
            self.note_turn(reactor.io().turn_us());
            self.tick_interval(reactor.io(), on_tick);
        }
        Ok(())
    }

    /// Everything is counted from here.
    fn begin_at(&mut self, begin_us: u64) {
        self.began_us = begin_us;
        self.clock.restart(begin_us);
        self.book.recorder.begin(begin_us, thread_cpu_us());
    }
}

impl Engine<'_> {
    /// How long the reactor may wait.
    fn timeout(&self) -> Duration {
        let now_us = now_us();
        let mut wait_us = TURN_MAX.as_micros() as u64;
        if self.clock.is_publishing() {
            wait_us = wait_us.min(self.clock.end_us().saturating_sub(now_us));
        }
        if self.has_intervals {
            wait_us = wait_us.min(self.interval_end_us().saturating_sub(now_us));
        }
        if let Some(due_us) = self.next_due_us(now_us) {
            wait_us = wait_us.min(due_us.saturating_sub(now_us));
        }
        if let Some(due_us) = self.next_act_us() {
            wait_us = wait_us.min(due_us.saturating_sub(now_us));
        }
        if let Some(due_us) = self.next_connect_us() {
            wait_us = wait_us.min(due_us.saturating_sub(now_us));
        }
        Duration::from_micros(wait_us)
    }

    /// Notes how long the turn was that began at `turn_us`.
    fn note_turn(&mut self, turn_us: u64) {
        if let Some(baton) = self.baton {
            baton.tell(&self.status());
        }
        self.beat();
        self.note_absence(turn_us);
        self.note_silence();
        if self.clock.phase() == Phase::Measure {
            self.book.recorder.turn.saturating_record(now_us().saturating_sub(turn_us));
        }
    }

    /// If the loop was absent before the turn that began at `turn_us`, notes what waited for it.
    fn note_absence(&mut self, turn_us: u64) {
        let Some(absent_us) = self.watch.absent_us() else { return };
        self.silences.skip(absent_us);
        let due = [self.next_connect_us(), self.next_act_us()].into_iter().flatten();
        let others = due.filter(|&due_us| due_us + LATE_US_MIN < turn_us).count() as u64;
        let pings = if absent_us > ABSENT_US_MAX { self.pings_overdue(turn_us) } else { 0 };
        let is_measured = self.clock.measure_us().is_some_and(|(start_us, _)| turn_us >= start_us);
        let window = if self.clock.is_setting_up() {
            Window::Setup
        } else if is_measured && self.is_counting() {
            Window::Measure
        } else {
            Window::Neither
        };
        self.watch.note(self.book.recorder.counts.answers(), others + pings, window);
    }

    /// PINGREQs that came late by more than any keep alive minds, or too late: the broker has ended
    /// the connection, as it must.
    fn pings_overdue(&self, turn_us: u64) -> u64 {
        let is_late = |due_us: u64| due_us + ABSENT_US_MAX < turn_us;
        // What a client has sent since then put its PINGREQ off.
        let is_overdue = |&&Reverse((due_us, client)): &&Reverse<(u64, u32)>| {
            is_late(due_us) && self.clients[client as usize].poll_timeout().is_none_or(is_late)
        };
        self.pings.iter().filter(is_overdue).count() as u64
    }

    /// Whether what comes now counts as in time.
    fn is_counting(&self) -> bool {
        self.ending.end.is_none() && !self.book.audit.is_closed()
    }

    /// Notes whether the broker is silent. What a slice publishes may be owed to another, so there
    /// only acknowledgements are waited for.
    fn note_silence(&mut self) {
        let is_measured = matches!(self.clock.phase(), Phase::Measure | Phase::Drain);
        if !(is_measured || self.clock.is_setting_up()) || !self.is_counting() {
            return self.silences.end(now_us());
        }
        let counts = &self.book.recorder.counts;
        let owed = if self.baton.is_none() { self.book.owed } else { 0 };
        let awaited = (self.connecting.open.len() + self.subscribing.len()) as u64;
        let asked = owed
            + self.book.open
            + counts.acknowledged
            + counts.publish_failures
            + awaited
            + counts.opened
            + counts.connected
            + counts.subscribed
            + counts.subscribe_failures;
        self.silences.note(now_us(), counts.answers(), asked);
    }

    fn gauges(&self) -> Gauges {
        let groups = &self.plan.groups;
        let (mut subscribers, mut publishers) = (0, 0);
        for slot in self.book.slots.iter().filter(|slot| slot.state == State::Ready) {
            let group = &groups[usize::from(slot.group)];
            subscribers += u64::from(!group.subscriptions.is_empty());
            publishers += u64::from(group.publish.is_some());
        }
        Gauges {
            phase: self.clock.phase(),
            connections: self.book.live,
            subscribers,
            publishers,
            outstanding: self.book.owed.saturating_sub(self.book.audit.delivered()),
            cpu_us: thread_cpu_us(),
        }
    }

    fn interval_end_us(&self) -> u64 {
        self.book.recorder.interval_start_us() + u64::from(self.plan.interval_ms) * 1_000
    }

    /// Ends every interval whose time is over, and the last one with the end of drain. After a
    /// stall of several intervals the first of them holds what it brought.
    fn tick_interval(&mut self, io: &weir_reactor::Io, on_tick: &mut dyn FnMut(&Tick<'_>)) {
        let now_us = now_us();
        while self.has_intervals && now_us >= self.interval_end_us() {
            self.end_interval(self.interval_end_us(), io, on_tick);
        }
        if self.has_intervals && (self.ending.end.is_some() || self.book.audit.is_closed()) {
            self.has_intervals = false;
            self.end_interval(now_us, io, on_tick);
        }
    }

    fn end_interval(
        &mut self,
        end_us: u64,
        io: &weir_reactor::Io,
        on_tick: &mut dyn FnMut(&Tick<'_>),
    ) {
        let stats = io.stats();
        self.book.recorder.counts.bytes_in = stats.bytes_in;
        self.book.recorder.counts.bytes_out = stats.bytes_out;
        let gauges = self.gauges();
        let sketches = self.baton.map(|_| self.book.recorder.sketches());
        let interval = self.book.recorder.end_interval(end_us, gauges);
        let (owed, delivered) = (self.book.owed, self.book.audit.delivered());
        on_tick(&Tick { interval: &interval, sketches, owed, delivered });
    }
}
