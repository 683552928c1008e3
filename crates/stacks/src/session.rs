//! One stack and one replay server: opened, measured at one rate or several, closed.

use crate::adapter::{Adapter, AdapterCounts, AdapterError, Ready, Start};
use crate::catalog::{Stack, Workflow};
use crate::record::{Point, PointLedger, ReplaySide, StackUsed, Standing};
use crate::replay::{Counts, PAYLOAD_BYTES, Play, Played};
use crate::replay_process::Replay;
use anyhow::{Context as _, bail};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weir_bench::interrupt::Interrupted;
use weir_bench::monitor::{self, Monitor, Sample, now_us};
use weir_bench::{latency, slope};

/// How often the stack is looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// Longest sleep before a wish to stop is heard.
const SLEEP_MAX_US: u64 = 50_000;

/// Between two questions for counts when all has been sent.
const ASK_EVERY_US: u64 = 10_000;

/// The rate goes on for so long after measure.
const TAIL_S: f64 = 0.25;

/// What was due last has to have come within this, and this share of the play.
const LATE_US: f64 = 100_000.0;
const LATE_SHARE: f64 = 0.02;

/// A warm stack needs no more than this before measure: its buffers fill.
const LEAD_IN_S: f64 = 0.5;

/// The window that a stack's counts span, as a share of measure: one that answers later than this
/// is too busy to say when it did what.
const WINDOW_SHARES: RangeInclusive<f64> = 0.5..=2.0;

/// A stack with a pace of its own has to reach this share of the rate.
const PACE_SHARE: f64 = 0.97;

/// A replay server that is later was the limit itself. One that uses all of its core is not: it
/// writes what is due at each turn, and the longer a turn takes the more that is.
const REPLAY_LAG_US_MAX: u64 = 5_000;

/// Payloads of the workflow publish are as long as those of the feed, but for this.
const PAYLOAD_SLACK_BYTES: f64 = 10.0;

/// What all sessions of a command share.
pub(crate) struct Context<'a> {
    /// This program.
    pub(crate) weir: &'a Path,
    /// The stack's processor.
    pub(crate) core: Option<usize>,
    pub(crate) interrupted: &'a Interrupted,
    pub(crate) per_segment: u32,
    pub(crate) window: u32,
    /// What 99 of 100 results have to keep, from the intended time, in microseconds.
    pub(crate) p99_us_max: u64,
    /// How long an adapter may take to be ready, and to answer.
    pub(crate) patience: Duration,
}

/// What a session is for.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) stack: &'a Stack,
    pub(crate) workflow: Workflow,
    pub(crate) qos: u8,
    pub(crate) rate_per_s: f64,
    pub(crate) length: Length,
    /// Gets what the adapter prints to standard error.
    pub(crate) log: &'a Path,
}

/// How long, in seconds.
#[derive(Clone, Copy)]
pub(crate) struct Length {
    pub(crate) warm_up_s: f64,
    pub(crate) measure_s: f64,
    /// Wait for what is owed after the last message.
    pub(crate) drain_s: f64,
}

/// A stack that is ready.
pub(crate) struct Session<'a> {
    context: &'a Context<'a>,
    // Ends before the server does, so that it can say goodbye.
    adapter: Adapter,
    replay: Replay,
    pub(crate) ready: Ready,
    level: Option<u8>,
    /// It was played to and has caught up with it.
    is_warm: bool,
}

/// One end of the window.
#[derive(Clone, Copy)]
struct Edge {
    counts: AdapterCounts,
    at_us: u64,
}

impl<'a> Session<'a> {
    /// Starts both processes.
    pub(crate) fn open(context: &'a Context<'a>, task: &Task<'_>) -> anyhow::Result<Self> {
        let mut replay = Replay::start(context.weir)?;
        let start = Start {
            stack: task.stack,
            server: replay.address,
            workflow: task.workflow,
            qos: task.qos,
            rate_per_s: if task.workflow.is_played() { 0.0 } else { task.rate_per_s },
            weir: context.weir,
            core: context.core,
            log: task.log,
            patience: context.patience,
        };
        let (adapter, ready) = Adapter::start(&start)?;
        let mut level = None;
        if task.workflow.is_played() {
            let (of, qos) = replay.subscribed()?;
            level = Some(of);
            anyhow::ensure!(
                qos == task.qos,
                "{} subscribed with QoS {qos}, and was to with {}",
                task.stack.name,
                task.qos
            );
        }
        Ok(Self { context, adapter, replay, ready, level, is_warm: false })
    }

    /// Starts both processes and plays for `warm_up_s` at `rate_per_s`, so that what compiles while
    /// it runs has done so, and nothing is owed when measure begins. A stack that does not catch up
    /// with that is started anew, and is to be measured as it is; one with a pace of its own has no
    /// feed to be warmed up with.
    pub(crate) fn open_warm(
        context: &'a Context<'a>,
        task: &Task<'_>,
        rate_per_s: f64,
        warm_up_s: f64,
    ) -> anyhow::Result<Self> {
        let mut session = Self::open(context, task)?;
        if !task.workflow.is_played() || warm_up_s <= 0.0 {
            return Ok(session);
        }
        let length = Length { warm_up_s: 0.0, measure_s: warm_up_s, ..task.length };
        session.is_warm = session.played(&Task { rate_per_s, length, ..*task })?.is_idle();
        if session.is_warm {
            return Ok(session);
        }
        drop(session);
        Self::open(context, task)
    }

    /// How long the feed of a fixed rate goes on before measure, where `warm_up_s` was asked for.
    pub(crate) const fn lead_in_s(&self, warm_up_s: f64) -> f64 {
        if self.is_warm { LEAD_IN_S } else { warm_up_s }
    }

    /// Ends the adapter in good order.
    pub(crate) fn close(self) -> Result<AdapterCounts, AdapterError> {
        // The server goes on until the adapter has ended.
        let Self { adapter, replay, .. } = self;
        let counts = adapter.stop();
        drop(replay);
        counts
    }

    fn edge(&mut self, monitor: &Monitor) -> Result<Edge, AdapterError> {
        let (counts, at_us) = self.adapter.counts()?;
        monitor.look();
        Ok(Edge { counts, at_us })
    }

    /// The feed at one rate.
    pub(crate) fn played(&mut self, task: &Task<'_>) -> anyhow::Result<Point> {
        let (begin, _) = self.adapter.counts()?;
        let length = task.length;
        let play = Play {
            rate_per_s: task.rate_per_s,
            warm_up_s: length.warm_up_s,
            measure_s: length.measure_s,
            tail_s: TAIL_S,
            drain_s: length.drain_s,
            per_segment: self.context.per_segment,
            window: self.context.window,
            returns: task.workflow == Workflow::Workflow,
        };
        let monitor = watch(&self.adapter)?;
        let before = self.replay.counts()?;
        let times = self.replay.play(play)?;
        self.sleep_until(times.measure_us.0)?;
        let from = self.edge(&monitor)?;
        self.sleep_until(times.measure_us.1)?;
        let to = self.edge(&monitor)?;
        let rest_s = TAIL_S + length.drain_s + 30.0;
        let played = self.replay.played(Duration::from_secs_f64(rest_s))?;
        let deadline_us = played.sent_us.max(now_us()) + (length.drain_s * 1e6) as u64;
        let end = self.counted(begin, &played, deadline_us)?;
        let samples = monitor.stop();
        let due_us = times.measure_us.1 as f64 + TAIL_S * 1e6;
        let length_us = (length.warm_up_s + length.measure_s + TAIL_S) * 1e6;
        let late_us = end.at_us.max(played.settled_us) as f64 - due_us;
        let is_late = late_us > LATE_US + LATE_SHARE * length_us;
        let mut point = self.point(task, (from, to), &samples);
        point.replay = replay_side(&played);
        point.latency = summary(&played.latency);
        point.acknowledge = summary(&played.acknowledge);
        let all = since(begin, end.counts);
        point.ledger = ledger(&played, all);
        note_strays(&mut point.ledger, &before, &self.replay.counts()?);
        let end = is_late.then(|| format!("what was due last came {:.0} ms late", late_us / 1e3));
        let late = end.or_else(|| late_within(&point, self.context.p99_us_max));
        judge_played(&mut point, &played, late);
        judge_window(&mut point, length.measure_s);
        Ok(point)
    }

    /// Asks until the stack has counted all that was sent, or the time is over.
    fn counted(
        &mut self,
        begin: AdapterCounts,
        played: &Played,
        deadline_us: u64,
    ) -> anyhow::Result<Edge> {
        loop {
            let (counts, at_us) = self.adapter.counts()?;
            let is_all = counts.received - begin.received >= played.sent;
            if is_all || at_us >= deadline_us || played.gone.is_some() {
                return Ok(Edge { counts, at_us });
            }
            self.sleep_until(at_us + ASK_EVERY_US)?;
        }
    }

    /// What has a pace of its own, at the rate it was started with.
    pub(crate) fn paced(mut self, task: &Task<'_>) -> anyhow::Result<Point> {
        let before = self.replay.counts()?;
        let monitor = watch(&self.adapter)?;
        self.adapter.begin();
        let begin_us = now_us() + (task.length.warm_up_s * 1e6) as u64;
        self.sleep_until(begin_us)?;
        let (from, came_from) = (self.edge(&monitor)?, self.replay.counts()?);
        self.sleep_until(from.at_us + (task.length.measure_s * 1e6) as u64)?;
        let (to, came_to) = (self.edge(&monitor)?, self.replay.counts()?);
        let samples = monitor.stop();
        let mut point = self.point(task, (from, to), &samples);
        // What a library has taken has not left yet.
        let came = arrived(task.workflow, &came_to) - arrived(task.workflow, &came_from);
        point.handled = point.handled.min(came);
        judge_window(&mut point, task.length.measure_s);
        let Self { context, adapter, mut replay, .. } = self;
        let end = adapter.stop()?;
        let deadline_us = now_us() + (task.length.drain_s * 1e6) as u64;
        let (sent, came, after) = loop {
            let after = replay.counts()?;
            let sent = match task.workflow {
                Workflow::Connect => end.connects,
                _ => end.published,
            };
            let came = arrived(task.workflow, &after) - arrived(task.workflow, &before);
            if came >= sent || now_us() >= deadline_us {
                judge_payloads(&mut point, &before, &after);
                break (sent, came, after);
            }
            sleep_until(now_us() + ASK_EVERY_US, context.interrupted)?;
        };
        point.ledger = PointLedger {
            sent,
            received: came,
            lost: sent.saturating_sub(came),
            failed: end.failed,
            ..PointLedger::default()
        };
        note_strays(&mut point.ledger, &before, &after);
        judge_paced(&mut point);
        Ok(point)
    }

    fn point(&self, task: &Task<'_>, (from, to): (Edge, Edge), samples: &[Sample]) -> Point {
        let operations = |of: AdapterCounts| match task.workflow {
            Workflow::Subscribe | Workflow::Workflow => of.received,
            Workflow::Publish => of.published,
            Workflow::Connect => of.connects,
        };
        let wall_us = (to.at_us - from.at_us) as f64;
        let cpu = monitor::at(samples, from.at_us, to.at_us);
        let highest = |of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or(0);
        Point {
            stack: task.stack.name.clone(),
            workflow: task.workflow,
            qos: task.qos,
            rate_per_s: task.rate_per_s,
            round: 0,
            position: 0,
            purpose: None,
            standing: Standing::Kept,
            reasons: Vec::new(),
            level: self.level,
            window_s: wall_us / 1e6,
            is_window_missed: false,
            handled: operations(to.counts).saturating_sub(operations(from.counts)),
            cpu_user_us: cpu.cpu_user_cores * wall_us,
            cpu_system_us: cpu.cpu_system_cores * wall_us,
            latency: None,
            acknowledge: None,
            rss_max_bytes: highest(|sample| sample.rss_bytes),
            rss_slope: slope::of_memory(samples, from.at_us, to.at_us),
            threads_max: highest(|sample| sample.threads),
            ledger: PointLedger::default(),
            replay: ReplaySide::default(),
        }
    }

    fn sleep_until(&self, at_us: u64) -> anyhow::Result<()> {
        sleep_until(at_us, self.context.interrupted)
    }
}

fn watch(adapter: &Adapter) -> anyhow::Result<Monitor> {
    let monitor = Monitor::start(Some(adapter.pid()), None, SAMPLE_EVERY);
    monitor
        .first(Duration::from_secs(5))
        .context("the stack cannot be watched; is /proc there?")?;
    Ok(monitor)
}

fn sleep_until(at_us: u64, interrupted: &Interrupted) -> anyhow::Result<()> {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        let rest_us = at_us.saturating_sub(now_us());
        if rest_us == 0 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_micros(rest_us.min(SLEEP_MAX_US)));
    }
}

/// What came to the server of a stack with a pace of its own.
fn arrived(workflow: Workflow, counts: &Counts) -> u64 {
    if workflow == Workflow::Connect { counts.connects } else { counts.published }
}

fn since(begin: AdapterCounts, end: AdapterCounts) -> AdapterCounts {
    AdapterCounts {
        received: end.received.saturating_sub(begin.received),
        matched: end.matched.saturating_sub(begin.matched),
        published: end.published.saturating_sub(begin.published),
        failed: end.failed.saturating_sub(begin.failed),
        connects: end.connects.saturating_sub(begin.connects),
    }
}

fn summary(text: &str) -> Option<weir_bench::result::LatencyResult> {
    Played::histogram(text).map(|histogram| latency::summarize(&histogram))
}

fn replay_side(played: &Played) -> ReplaySide {
    let lag = Played::histogram(&played.lag);
    ReplaySide {
        cpu_cores: played.cpu_us as f64 / played.cpu_wall_us.max(1) as f64,
        lag_p99_us: lag.map_or(0, |lag| lag.value_at_quantile(0.99)),
        messages_per_send: played.sent as f64 / played.sends.max(1) as f64,
        held_by_window: played.held_by_window,
        held_by_output: played.held_by_output,
        settled_us: match played.unsent {
            0 => played.settled_us.saturating_sub(played.sent_us),
            _ => 0,
        },
    }
}

/// What did not come is lost only if the stack says that it has done all its work.
fn ledger(played: &Played, counts: AdapterCounts) -> PointLedger {
    let is_all_received = counts.received >= played.sent;
    let is_all_published = counts.published >= played.required;
    let missing = played.required - played.delivered.min(played.required);
    let is_done = is_all_received && is_all_published;
    let came = played.delivered + played.duplicated + played.alien;
    let lost = if is_done { missing } else { 0 };
    PointLedger {
        sent: played.sent,
        received: counts.received,
        required: played.required,
        matched: counts.matched,
        unsent: played.unsent,
        delivered: played.delivered,
        lost,
        behind: played.sent.saturating_sub(counts.received) + if is_done { 0 } else { missing },
        duplicated: played.duplicated,
        alien: played.alien,
        altered: played.altered,
        reordered: played.reordered,
        astray: 0,
        retained: 0,
        overstated: counts.published.saturating_sub(came + lost),
        unacknowledged: played.unacknowledged,
        failed: counts.failed,
    }
}

/// What came of a stack in a way in which it was not to come.
fn note_strays(ledger: &mut PointLedger, before: &Counts, after: &Counts) {
    ledger.astray = after.astray - before.astray;
    ledger.retained = after.retained - before.retained;
}

/// What is wrong whether the stack is played to or publishes by itself.
fn strays(of: &PointLedger) -> [(&'static str, u64); 3] {
    [
        ("messages published to another topic", of.astray),
        ("messages published with RETAIN", of.retained),
        ("operations failed", of.failed),
    ]
}

/// Results that were late in the middle of a play, though the last of them were not.
fn late_within(point: &Point, p99_us_max: u64) -> Option<String> {
    let latency = point.latency.as_ref().or(point.acknowledge.as_ref())?;
    let (p99, max) = (latency.p99_us as f64 / 1e3, p99_us_max as f64 / 1e3);
    (latency.p99_us > p99_us_max).then(|| {
        format!("one in a hundred came {p99:.0} ms late or more, where {max:.0} ms may be")
    })
}

fn judge_played(point: &mut Point, played: &Played, late: Option<String>) {
    let of = point.ledger;
    let mut wrong = Vec::new();
    let mut count = |what: &str, of: u64| {
        if of > 0 {
            wrong.push(format!("{of} {what}"));
        }
    };
    count("results lost", of.lost);
    count("results duplicated", of.duplicated);
    count("results that nobody asked for", of.alien);
    count("results altered", of.altered);
    count("results out of order", of.reordered);
    strays(&of).into_iter().for_each(|(what, of_them)| count(what, of_them));
    count("acknowledgements of nothing", played.acknowledged_alien);
    count("messages received more than were sent", of.received.saturating_sub(of.sent));
    // It counts what it has done, or its figures mean nothing.
    count("results of messages it did not count", of.delivered.saturating_sub(of.received));
    if of.behind == 0 && played.unsent == 0 {
        count("messages never acknowledged", of.unacknowledged);
        count("results counted that never came", of.overstated);
        if point.workflow == Workflow::Workflow && of.matched != of.required {
            wrong.push(format!("{} cells found of {}", of.matched, of.required));
        }
    }
    wrong.extend(played.gone.clone());
    let side = point.replay;
    let is_limit = side.lag_p99_us > REPLAY_LAG_US_MAX;
    let unsent = (played.unsent > 0).then(|| format!("{} could not be sent", played.unsent));
    let behind = (of.behind > 0).then(|| format!("{} messages behind at the end", of.behind));
    let slow: Vec<String> = late.into_iter().chain(unsent).chain(behind).collect();
    (point.standing, point.reasons) = if !wrong.is_empty() {
        (Standing::Wrong, wrong)
    } else if is_limit {
        let (cores, lag) = (side.cpu_cores, side.lag_p99_us);
        let why = format!("the replay server used {cores:.2} cores and was {lag} us late (p99)");
        (Standing::ReplayLimit, vec![why])
    } else if !slow.is_empty() {
        (Standing::Overloaded, slow)
    } else {
        (Standing::Kept, Vec::new())
    };
}

/// Costs are of a window between two answers of the stack: where it is far from what was asked for,
/// they say nothing.
fn judge_window(point: &mut Point, measure_s: f64) {
    if WINDOW_SHARES.contains(&(point.window_s / measure_s)) {
        return;
    }
    let window_s = point.window_s;
    point.reasons.push(format!("its counts came late: {window_s:.2} s of {measure_s} s"));
    point.is_window_missed = true;
    point.standing = point.standing.max(Standing::Overloaded);
}

fn judge_payloads(point: &mut Point, before: &Counts, after: &Counts) {
    let published = after.published - before.published;
    if point.workflow == Workflow::Publish && published > 0 {
        let bytes = (after.published_bytes - before.published_bytes) as f64 / published as f64;
        if (bytes - PAYLOAD_BYTES as f64).abs() > PAYLOAD_SLACK_BYTES {
            point.reasons.push(format!("payloads of {bytes:.0} bytes, not {PAYLOAD_BYTES}"));
        }
    }
}

fn judge_paced(point: &mut Point) {
    let of = point.ledger;
    if point.handled_per_s() < PACE_SHARE * point.rate_per_s {
        // What it could not get rid of by the end is no loss, it is what it was behind with.
        let (did, due) = (point.handled_per_s(), point.rate_per_s);
        point.standing = Standing::Overloaded;
        point.reasons.push(format!("{did:.0} per second of {due:.0}"));
        return;
    }
    if of.lost > 0 {
        point.reasons.push(format!("{} of {} never came", of.lost, of.sent));
    }
    for (what, of_them) in strays(&of) {
        if of_them > 0 {
            point.reasons.push(format!("{of_them} {what}"));
        }
    }
    // What was under way at the end may have come uncounted.
    if of.received > of.sent + of.sent / 100 + 1 {
        point.reasons.push(format!("{} came, of {} that it counted", of.received, of.sent));
    }
    if !point.reasons.is_empty() {
        point.standing = Standing::Wrong;
    }
}

impl Task<'_> {
    /// A point of which nothing is known but why.
    pub(crate) fn broken(&self, why: String) -> Point {
        Point {
            stack: self.stack.name.clone(),
            workflow: self.workflow,
            qos: self.qos,
            rate_per_s: self.rate_per_s,
            round: 0,
            position: 0,
            purpose: None,
            standing: Standing::Broken,
            reasons: vec![why],
            level: None,
            window_s: 0.0,
            is_window_missed: false,
            handled: 0,
            cpu_user_us: 0.0,
            cpu_system_us: 0.0,
            latency: None,
            acknowledge: None,
            rss_max_bytes: 0,
            rss_slope: None,
            threads_max: 0,
            ledger: PointLedger::default(),
            replay: ReplaySide::default(),
        }
    }
}

impl StackUsed {
    /// Takes what it says of itself.
    pub(crate) fn note(&mut self, ready: &Ready) {
        // The name is that of the adapter; the variant's is ours.
        self.library = ready.library.clone();
        self.runtime = ready.runtime.clone();
        self.json = ready.json.clone();
    }
}

#[cfg(test)]
mod tests;
