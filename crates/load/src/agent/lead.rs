//! Leads the agents through one plan: cuts it, lets all begin each phase together, adds up what
//! they tell, and notices who is lost.

use super::fleet::{Event, Fleet};
use super::line::{Order, OutcomeLine, PROTOCOL, Said, When};
use super::merge::{Report, merge};
use super::serve::hello;
use super::ticks::Ticks;
use crate::audit::{Fate, Track};
use crate::baton::Status;
use crate::distribution::Distribution;
use crate::outcome::{Anomaly, End, Interval, Outcome};
use crate::plan::Plan;
use crate::plan::{Slice, deal};
use crate::{LoadError, Stop};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};
use weir_reactor::now_us;

/// An agent that says nothing for so long is lost; it beats five times as often.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Between two looks at who is silent. Time in which this thread did not run does not count.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// From an order to the moment it names: enough for it to reach every agent and be heard by its
/// loop, which looks up every 50 ms.
const LEAD_US: u64 = 250_000;

/// How long agents may take to tell their outcome once they were stopped.
const OUTCOME_MAX: Duration = Duration::from_secs(30);

/// How long after the last phase has run out they may do so without being stopped.
const OVERTIME_MAX: Duration = Duration::from_secs(30);

/// What is known of one agent.
struct Led {
    slice: Slice,
    status: Status,
    is_planned: bool,
    /// Our time in which it has said nothing.
    silent: Duration,
    fates: Vec<(u32, Fate)>,
    tracks: Vec<Track>,
    anomalies: Vec<Anomaly>,
    outcome: Option<Box<OutcomeLine>>,
    /// How it was lost.
    lost: Option<String>,
}

impl Led {
    fn is_over(&self) -> bool {
        self.outcome.is_some() || self.lost.is_some()
    }
}

/// How far all of them are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Plan,
    Connect,
    Publish,
    Settled,
}

struct Lead<'a> {
    plan: &'a Plan,
    fleet: Fleet,
    led: Vec<Led>,
    clock: String,
    stage: Stage,
    ticks: Ticks,
    intervals: Vec<Interval>,
    distributions: Vec<Distribution>,
    /// When all must be over, once publishing has begun.
    deadline: Option<Instant>,
    stopped_at: Option<Instant>,
    is_asked_to_stop: bool,
    /// Why the run ended, if not as planned.
    end: Option<End>,
}

impl Fleet {
    /// Runs `plan` by all agents. `on_interval` hears every interval that all have told.
    ///
    /// # Errors
    /// A plan that cannot be cut for these agents or that they refuse. An agent that is lost later
    /// is in the outcome.
    pub fn run(
        self,
        plan: &Plan,
        stop: &Stop,
        on_interval: &mut dyn FnMut(&Interval),
    ) -> Result<Outcome, LoadError> {
        let slices = deal(plan, &self.holds())?;
        let mut lead = Lead::new(plan, self, &slices);
        lead.order_plan();
        while !lead.led.iter().all(Led::is_over) {
            lead.hear(on_interval)?;
            if stop.is_stopped() {
                lead.is_asked_to_stop = true;
                lead.stop();
            }
            lead.advance();
            lead.give_up();
        }
        lead.take_intervals(on_interval);
        lead.into_outcome()
    }
}

impl<'a> Lead<'a> {
    fn new(plan: &'a Plan, fleet: Fleet, slices: &[Slice]) -> Self {
        let led = |&slice: &Slice| Led {
            slice,
            status: Status::default(),
            is_planned: false,
            silent: Duration::ZERO,
            fates: Vec::new(),
            tracks: Vec::new(),
            anomalies: Vec::new(),
            outcome: None,
            lost: None,
        };
        Self {
            plan,
            fleet,
            led: slices.iter().map(led).collect(),
            clock: hello("").clock,
            stage: Stage::Plan,
            ticks: Ticks::new(0, plan.interval_ms),
            intervals: Vec::new(),
            distributions: Vec::new(),
            deadline: None,
            stopped_at: None,
            is_asked_to_stop: false,
            end: None,
        }
    }

    fn order_plan(&self) {
        for (agent, led) in self.fleet.agents.iter().zip(&self.led) {
            let others = self.fleet.agents.iter().zip(&self.led);
            let foreign = others.filter(|(other, _)| other.hello.clock != agent.hello.clock);
            let unclocked = foreign.map(|(_, other)| other.slice).collect();
            let plan = Box::new(Plan { slice: led.slice, ..self.plan.clone() });
            agent.order(&Order::Plan { protocol: PROTOCOL, plan, unclocked });
        }
    }

    fn order_all(&self, order: &Order) {
        let here = self.fleet.agents.iter().zip(&self.led).filter(|(_, led)| !led.is_over());
        here.for_each(|(agent, _)| agent.order(order));
    }

    /// Names a moment to all, each by the clock it has.
    fn order_at(&self, at_us: u64, order: fn(When) -> Order) {
        for (agent, led) in self.fleet.agents.iter().zip(&self.led) {
            let at_us = agent.shares_clock(&self.clock).then_some(at_us);
            if !led.is_over() {
                agent.order(&order(When { at_us, in_us: LEAD_US }));
            }
        }
    }

    /// Hears what has been said, or waits a moment for it.
    fn hear(&mut self, on_interval: &mut dyn FnMut(&Interval)) -> Result<(), LoadError> {
        let waited = Instant::now();
        match self.fleet.events.recv_timeout(LOOK_EVERY) {
            Ok((at, event)) => {
                self.heard(at, event)?;
                // All of it, before anybody is called silent.
                while let Ok((at, event)) = self.fleet.events.try_recv() {
                    self.heard(at, event)?;
                }
                self.take_intervals(on_interval);
            }
            Err(RecvTimeoutError::Timeout) => {}
            // All have ended, and each has said so.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK_EVERY),
        }
        let waited = waited.elapsed().min(LOOK_EVERY);
        for at in 0..self.led.len() {
            self.led[at].silent += waited;
            if self.led[at].silent > SILENCE_MAX && !self.led[at].is_over() {
                self.lose(at, "said nothing for a second");
            }
        }
        Ok(())
    }

    fn heard(&mut self, at: usize, event: Event) -> Result<(), LoadError> {
        let led = &mut self.led[at];
        if led.is_over() {
            return Ok(());
        }
        if matches!(event, Event::Said(_)) {
            led.silent = Duration::ZERO;
        }
        match event {
            Event::Said(Said::Beat(status)) => led.status = status,
            Event::Said(Said::Planned { .. }) => led.is_planned = true,
            Event::Said(Said::Tick(line)) => {
                if let Err(what) = self.ticks.add(at, &line) {
                    self.lose(at, &format!("told what cannot be: {what}"));
                }
            }
            Event::Said(Said::Fates(fates)) => led.fates.extend(fates),
            Event::Said(Said::Tracks(tracks)) => led.tracks.extend(tracks),
            Event::Said(Said::Anomalies(anomalies)) => led.anomalies.extend(anomalies),
            Event::Said(Said::Outcome(outcome)) => {
                let is_early = !matches!(outcome.end, End::Completed | End::Stopped);
                if is_early && self.end.is_none() {
                    self.end = Some(outcome.end.clone());
                }
                led.outcome = Some(outcome);
                if is_early {
                    self.stop();
                }
            }
            Event::Said(Said::Failed { why }) if !led.is_planned => {
                return Err(self.fleet.agents[at].error(&format!("says: {why}")));
            }
            Event::Said(Said::Failed { why }) => self.lose(at, &format!("says: {why}")),
            Event::Said(Said::Hello(_)) => self.lose(at, "says hello again"),
            Event::Garbage(what) => self.lose(at, &what),
            Event::Ended => {
                let how = self.fleet.agents[at].how_it_ended();
                self.lose(at, &how);
            }
        }
        Ok(())
    }

    /// Goes on without one of them, to the end of the run.
    fn lose(&mut self, at: usize, how: &str) {
        let (agent, led) = (&self.fleet.agents[at], &mut self.led[at]);
        let Status { connected, sent, received, .. } = led.status;
        let text = format!(
            "{} {how}{}; noticed {:.1} s after its last word. With it went {}: it had {connected} \
             connections, had sent {sent} and received {received} messages",
            agent.name,
            agent.last_words(),
            led.silent.as_secs_f64(),
            led.slice.describe(self.plan),
        );
        led.lost = Some(text.clone());
        if !matches!(self.end, Some(End::AgentLost(_))) {
            self.end = Some(End::AgentLost(text));
        }
        self.stop();
    }

    fn stop(&mut self) {
        if self.stopped_at.is_none() {
            self.stopped_at = Some(Instant::now());
            self.order_all(&Order::Stop {});
        }
    }

    /// Who does not tell its outcome in time is lost.
    fn give_up(&mut self) {
        if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            self.stop();
        }
        if self.stopped_at.is_some_and(|at| at.elapsed() > OUTCOME_MAX) {
            for at in 0..self.led.len() {
                if !self.led[at].is_over() {
                    self.lose(at, "did not stop");
                }
            }
        }
    }

    /// Lets all begin the next phase when all are there.
    fn advance(&mut self) {
        if self.stopped_at.is_some() {
            return;
        }
        let all = |is: fn(&Led) -> bool| self.led.iter().all(|led| led.is_over() || is(led));
        match self.stage {
            Stage::Plan if all(|led| led.is_planned) => {
                let at_us = now_us() + LEAD_US;
                self.ticks = Ticks::new(at_us, self.plan.interval_ms);
                self.order_at(at_us, Order::Begin);
                self.stage = Stage::Connect;
            }
            Stage::Connect if all(|led| led.status.is_ready) => {
                self.order_at(now_us() + LEAD_US, Order::Go);
                let phases = &self.plan.phases;
                let length_ms = phases.warm_up_ms + phases.measure_ms + phases.drain_ms;
                let length = Duration::from_millis(length_ms) + OVERTIME_MAX;
                self.deadline = Instant::now().checked_add(length);
                self.stage = Stage::Publish;
            }
            Stage::Publish if all(|led| led.status.is_drained) => {
                let sum = |of: fn(&Status) -> u64| self.led.iter().map(|led| of(&led.status)).sum();
                let (owed, delivered): (u64, u64) = (sum(|s| s.owed), sum(|s| s.delivered));
                if delivered >= owed {
                    self.order_all(&Order::Settle {});
                    self.stage = Stage::Settled;
                }
            }
            _ => {}
        }
    }

    fn take_intervals(&mut self, on_interval: &mut dyn FnMut(&Interval)) {
        let led = self.led.iter().enumerate();
        let awaited: Vec<usize> = led.filter(|(_, led)| !led.is_over()).map(|(at, _)| at).collect();
        while let Some((interval, distribution)) = self.ticks.take(&awaited) {
            on_interval(&interval);
            self.intervals.push(interval);
            self.distributions.push(distribution);
        }
    }

    fn into_outcome(self) -> Result<Outcome, LoadError> {
        let Self {
            plan,
            fleet,
            led,
            clock,
            intervals,
            distributions,
            is_asked_to_stop,
            mut end,
            ..
        } = self;
        let mut agents = Vec::new();
        let mut reports = Vec::new();
        let mut is_stopped = is_asked_to_stop;
        for (agent, led) in fleet.agents.iter().zip(led) {
            agents.push(agent.describe(&clock, &led.slice.describe(plan)));
            let Some(outcome) = led.outcome else { continue };
            is_stopped |= outcome.end == End::Stopped;
            let is_shared = agent.shares_clock(&clock);
            let ahead_us = agent.heard_us as i64 - agent.hello.now_us as i64;
            reports.push(Report {
                slice: led.slice,
                name: agent.name.clone(),
                ahead_us: if is_shared { 0 } else { ahead_us },
                fates: led.fates,
                tracks: led.tracks,
                anomalies: led.anomalies,
                outcome,
            });
        }
        if is_asked_to_stop && !matches!(end, Some(End::AgentLost(_))) {
            end = Some(End::Stopped);
        }
        let end = end.unwrap_or(if is_stopped { End::Stopped } else { End::Completed });
        merge(plan, &mut reports, end, (intervals, distributions), agents)
    }
}
