//! One use case on one broker: start, measure, stop, keep.

use crate::agents::Agents;
use crate::assemble::Seen;
use crate::driver::{Driver, Profile, Running};
use crate::faults::Conductor;
use crate::host::{self, Pinning};
use crate::live::Live;
use crate::monitor::{self, Monitor, Sample};
use crate::result::{RunResult, Suite};
use crate::usecase::{self, Scaled, Times, UseCase};
use crate::{assemble, folder};
use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weir_load::agent::Fleet;
use weir_load::{Cue, Interval, LoadError, Outcome, Plan, Stop};

/// How often the broker is looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// What all runs of one command share.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// 1 is the suite's size.
    pub scale: f64,
    /// Measure phase, in seconds; `None` is the use case's own.
    pub measure_s: Option<f64>,
    /// Warm-up, in seconds; `None` is the use case's own.
    pub warm_up_s: Option<f64>,
    /// Connections that every broker of the command can hold, so that all are run at one scale.
    pub brokers_hold: u64,
    /// Configuration of the broker.
    pub profile: Profile,
    /// Whether broker and load are pinned to cores of their own.
    pub is_pinned: bool,
    /// Who runs the load.
    pub agents: Agents,
    /// Folder that gets a folder a run.
    pub out: PathBuf,
    /// Version and commit of the program.
    pub version: String,
    /// Version and commit of the program.
    pub commit: String,
    /// The command line.
    pub command: Vec<String>,
}

/// Set when the user asked to stop (SIGINT, SIGTERM).
pub type Interrupted = Arc<AtomicBool>;

/// Notes SIGINT and SIGTERM instead of dying of them, so that brokers are stopped and results kept.
///
/// # Errors
/// What the system says of installing the handlers.
pub fn note_signals() -> anyhow::Result<Interrupted> {
    let interrupted = Interrupted::default();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .context("cannot install a signal handler")?;
    }
    Ok(interrupted)
}

/// Runs one use case on one broker and keeps the result in a folder of its own.
///
/// # Errors
/// What stands in the way before anything is measured: the folder, the broker, the scale. What goes
/// wrong later is in the result.
pub fn run_one(
    use_case: &UseCase,
    driver: &dyn Driver,
    options: &RunOptions,
    interrupted: &Interrupted,
) -> anyhow::Result<(RunResult, PathBuf)> {
    let is_local = driver.is_local();
    let pinning = Pinning::plan(options.is_pinned && is_local).of_agents(options.agents.local);
    let fleet = options.agents.start(&pinning)?;
    let holds = fleet.as_ref().map(Fleet::holds).unwrap_or_default();
    let connections_max = usecase::connections_max(&holds).min(options.brokers_hold);
    let scaled = usecase::scale(use_case, options.scale, connections_max)?;
    let folder = folder::create(&options.out, &use_case.name, driver.name())?;
    let host = host::facts(&pinning.text);
    let (_, host_used_bytes) = host::memory_bytes();
    let started = driver.start(options.profile, &folder, pinning.broker_core);
    let mut running = started.inspect_err(|_| folder::remove_if_empty(&folder))?;
    announce(&scaled, &running, &folder, holds.len());

    let times = Times::new(use_case, options.warm_up_s, options.measure_s);
    // The stamp's run number tells this run's messages from another's.
    let run = (std::process::id() ^ jiff::Timestamp::now().as_second() as u32) as u16;
    let conductor = Conductor::new(&use_case.step, &running)?;
    let plan = usecase::plan(&scaled, conductor.target(running.target), run, times);
    if fleet.is_some() && !plan.course.is_empty() {
        bail!("a use case with steps is run by one process; leave --agents and --agent out");
    }
    let monitor = Monitor::start(running.pid, pinning.broker_core, SAMPLE_EVERY);
    let Some(baseline) = monitor.first(Duration::from_secs(5)) else {
        bail!("the broker's process cannot be watched; is /proc mounted?");
    };
    let mut seen = Seen {
        started: jiff::Timestamp::now(),
        baseline: Sample { host_used_bytes, ..baseline },
        samples: Vec::new(),
        pss_bytes: None,
        round_trip_us: (host::round_trip_us(running.target), None),
        broker_exit: None,
        happened: Vec::new(),
        has_proxy: conductor.has_proxy(),
    };
    let load = Load { plan: &plan, core: pinning.load_core, fleet, conductor: &conductor };
    let outcome = drive(load, &monitor, interrupted, &mut running, &mut seen)?;
    seen.round_trip_us.1 = host::round_trip_us(running.target);
    seen.samples = monitor.stop();
    seen.broker_exit = running.exited();
    let broker = running.broker.clone();
    running.stop();

    let suite = Suite {
        version: options.version.clone(),
        commit: options.commit.clone(),
        command: options.command.clone(),
        started: seconds(seen.started),
        ended: seconds(jiff::Timestamp::now()),
    };
    let result = assemble::result(suite, &scaled, &plan, broker, host, &outcome, &seen);
    folder::keep(&folder, &result, &outcome)?;
    Ok((result, folder))
}

/// RFC 3339 in UTC, to the second.
pub(crate) fn seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Says what is going to happen, before it does.
fn announce(scaled: &Scaled<'_>, running: &Running, folder: &Path, agents: usize) {
    let broker = &running.broker;
    eprintln!(
        "{} on {} {} ({}, profile {})",
        scaled.use_case.name, broker.name, broker.version, broker.address, broker.profile
    );
    if let Some(reason) = &scaled.reason {
        eprintln!("  note: {reason}");
    }
    if agents > 0 {
        eprintln!("  {agents} agents share the load");
    }
    eprintln!("  results go to {}", folder.display());
}

/// A plan and who runs it.
struct Load<'a> {
    plan: &'a Plan,
    core: Option<usize>,
    fleet: Option<Fleet>,
    conductor: &'a Conductor<'a>,
}

impl Load<'_> {
    fn run(self, stop: &Stop, cue: &Cue, sender: &Sender<Interval>) -> Result<Outcome, LoadError> {
        // A viewer that is gone need not hear of intervals: they are in the outcome too.
        let mut on_interval = |interval: &Interval| {
            let _ = sender.send(*interval);
        };
        match self.fleet {
            Some(fleet) => fleet.run(self.plan, stop, &mut on_interval),
            None => {
                if let Some(core) = self.core {
                    host::pin_this_thread(core);
                }
                weir_load::run_cued(self.plan, stop, cue, &mut on_interval)
            }
        }
    }
}

/// Runs the plan on a thread of its own and shows what happens.
fn drive(
    load: Load<'_>,
    monitor: &Monitor,
    interrupted: &Interrupted,
    running: &mut Running,
    seen: &mut Seen,
) -> anyhow::Result<Outcome> {
    let (sender, intervals) = channel::<Interval>();
    let stop = Stop::default();
    let (plan, conductor, cue) = (load.plan, load.conductor, Cue::default());
    let (until_over, over) = channel::<()>();
    let running = Mutex::new(running);
    let outcome = std::thread::scope(|scope| {
        let (load_stop, load_cue) = (stop.clone(), cue.clone());
        let load = scope.spawn(move || load.run(&load_stop, &load_cue, &sender));
        let (steps_cue, steps_running) = (cue.clone(), &running);
        let steps =
            scope.spawn(move || conductor.conduct(&steps_cue, &over, steps_running, monitor));
        watch(plan, &intervals, monitor, interrupted, &stop, &running, seen);
        let outcome = load.join();
        cue.end();
        drop(until_over);
        seen.happened = steps.join().unwrap_or_default();
        outcome
    });
    match outcome {
        Ok(outcome) => Ok(outcome?),
        Err(_) => bail!("the load generator broke down; please report this"),
    }
}

/// Until the load ends: the moving line, the user's wish to stop, the broker's last memory.
fn watch(
    plan: &Plan,
    intervals: &Receiver<Interval>,
    monitor: &Monitor,
    interrupted: &Interrupted,
    stop: &Stop,
    running: &Mutex<&mut Running>,
    seen: &mut Seen,
) {
    let phases = plan.phases;
    let seconds = [phases.warm_up_ms, phases.measure_ms, phases.drain_ms].map(|ms| ms / 1_000);
    let connections = plan.groups.iter().map(|group| u64::from(group.clients)).sum();
    let mut live = Live::new(seconds, connections, plan.connect.rate_per_s);
    let mut measured_ms = 0;
    loop {
        match intervals.recv_timeout(Duration::from_millis(200)) {
            Ok(interval) => {
                if interval.phase == weir_load::outcome::Phase::Measure {
                    measured_ms += interval.length_us / 1_000;
                    // Once, near the end: walking its pages disturbs the broker.
                    let near_end_ms = measured_ms + 2 * u64::from(plan.interval_ms);
                    if seen.pss_bytes.is_none() && near_end_ms >= phases.measure_ms {
                        let pid = running.lock().ok().and_then(|running| running.pid);
                        seen.pss_bytes = pid.and_then(monitor::pss);
                    }
                }
                live.show(&interval, monitor.latest());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if interrupted.load(Ordering::Relaxed) {
            stop.stop();
        }
    }
    live.end();
}
