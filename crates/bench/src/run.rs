//! One use case on one broker: start, measure, stop, keep.

mod unsupported;
mod void;

use crate::agents::Agents;
use crate::assemble::Seen;
use crate::cluster::Nodes;
use crate::driver::{Demand, Driver, DriverError, Login, Profile, Running};
use crate::faults::FaultInjector;
use crate::host::{self, Pinning};
use crate::interrupt::Interrupted;
use crate::live::events::{Ended, Event, PhaseLength, Started};
use crate::live::{Live, Teller};
use crate::monitor::disturbance::{self, Known};
use crate::monitor::{self, Monitor, Sample};
use crate::repeat::Abreast;
use crate::result::{Disclosed, InvalidRun, Repetition, RunResult, Suite, phase_name};
use crate::usecase::{self, Scaled, Step, Times, UseCase};
use crate::{assemble, disclosure, folder, made};
use anyhow::bail;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use void::Void;
use weir_load::agent::Fleet;
use weir_load::outcome::{End, Phase};
use weir_load::{Cue, Interval, LoadError, Outcome, Plan, Seat, Stop};

/// How often the broker is looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(500);

/// How long a broker whose connections were dropped may take to end.
const GOING_MAX: Duration = Duration::from_secs(2);

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
    /// Nodes of the broker; `None` is the use case's own, or one.
    pub nodes: Option<u32>,
    /// Configuration of the broker; `None` is the use case's own, or default.
    pub profile: Option<Profile>,
    /// Whether broker and load are pinned to cores of their own.
    pub is_pinned: bool,
    /// Who runs the load.
    pub agents: Agents,
    /// Which repeat the next run is; absent where runs are not repeated.
    pub repetition: Option<Repetition>,
    /// Runs that came out invalid, in whose place the next one is made.
    pub invalid_before: Vec<InvalidRun>,
    /// With whom it takes turns, if with anyone.
    pub abreast: Option<Abreast>,
    /// Whether others run beside it: then a broker that does not start is a failed run, and no end
    /// of the command.
    pub is_one_of_many: bool,
    /// Folder that gets a folder a run.
    pub out: PathBuf,
    /// Who hears of what happens.
    pub live: Live,
    /// Version and commit of the program.
    pub version: String,
    /// Version and commit of the program.
    pub commit: String,
    /// The command line.
    pub command: Vec<String>,
}

impl RunOptions {
    /// How a broker is configured for a use case: as asked for, else as the use case is meant to be
    /// run, if the broker can be.
    fn profile_of(&self, use_case: &UseCase, driver: &dyn Driver) -> Profile {
        let meant = use_case.profile.filter(|&profile| driver.has(profile));
        self.profile.or(meant).unwrap_or(Profile::Default)
    }

    /// How many nodes a broker has for a use case, or why it cannot have so many.
    fn nodes_of(&self, use_case: &UseCase, driver: &dyn Driver) -> Result<u32, String> {
        driver.nodes(self.nodes.or(use_case.nodes).unwrap_or(1))
    }

    fn start(
        &self,
        use_case: &UseCase,
        driver: &dyn Driver,
        folder: &Path,
        core: Option<usize>,
    ) -> Result<Running, DriverError> {
        let profile = self.profile_of(use_case, driver);
        let demand = made::demand(use_case, folder).map_err(|error| DriverError::System {
            broker: driver.name().into(),
            source: std::io::Error::other(format!("{error:#}")),
        })?;
        let demand = Demand { nodes: self.nodes_of(use_case, driver).unwrap_or(1), ..demand };
        let mut running = driver.start_for(&demand, profile, folder, core)?;
        running.broker.profile_changes.extend(self.not_as_meant(use_case, driver));
        Ok(running)
    }

    /// What is disclosed where a use case is not run as it is meant to be.
    fn not_as_meant(&self, use_case: &UseCase, driver: &dyn Driver) -> Option<String> {
        let meant = use_case.profile?;
        match self.profile {
            Some(asked) if asked != meant => {
                Some(format!("not the use case's profile {meant}: --profile {asked}"))
            }
            None if !driver.has(meant) => {
                Some(format!("not the use case's profile {meant}: the driver has none"))
            }
            _ => None,
        }
    }
}

/// A run that was made, and whose files could not be written, as on a disk that is full: what it
/// took hours to measure can still be printed.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Unkept {
    pub(crate) result: Box<RunResult>,
    pub(crate) folder: PathBuf,
    why: String,
}

impl Unkept {
    pub(crate) fn new(result: RunResult, folder: PathBuf, why: &anyhow::Error) -> Self {
        Self { result: Box::new(result), folder, why: format!("{why:#}") }
    }
}

/// Runs one use case on one broker and keeps the result in a folder of its own.
///
/// # Errors
/// What stands in the way before anything is measured: the folder, the broker, the scale. What goes
/// wrong later is in the result, but for files that cannot be written: see [`Unkept`].
pub fn run_one(
    use_case: &UseCase,
    driver: &dyn Driver,
    options: &RunOptions,
    interrupted: &Interrupted,
) -> anyhow::Result<(RunResult, PathBuf)> {
    // Given back whatever happens: the others do not wait for a broker that does not start.
    let seat = options.abreast.as_ref().map(|of| of.barrier.seat());
    let with_credentials = driver.with_credentials(&use_case.connection.credentials()?);
    let driver = with_credentials.as_deref().unwrap_or(driver);
    let void = Void { use_case, driver, options };
    match unsupported::lacks(use_case, driver, options) {
        Ok(None) => {}
        Ok(Some(lacks)) => return void.unsupported(&lacks),
        Err(error) => return void.unstarted(None, error),
    }
    let pinning = Pinning::plan(options.is_pinned && driver.is_local());
    let pinning = pinning.of_agents(options.agents.local);
    let fleet = options.agents.start(&pinning)?;
    let holds = fleet.as_ref().map(Fleet::holds).unwrap_or_default();
    let connections_max = usecase::connections_max(&holds).min(options.brokers_hold);
    let scaled = usecase::scale(use_case, options.scale, connections_max)?;
    let folder = folder::create(&options.out, &use_case.name, driver.name())?;
    let (host, (_, host_used_bytes)) = (host::facts(&pinning.text), host::memory_bytes());
    let mut running = match options.start(use_case, driver, &folder, pinning.broker_core) {
        Ok(running) => running,
        Err(error) => return void.unstarted(Some(folder), error),
    };
    let targets = running.targets_of(use_case.mqtt_version);
    let injector = FaultInjector::new(&use_case.step, &targets)?;
    let plan = plan_of(&scaled, &injector.targets(targets), &running, options);
    let run_by = (driver.name(), holds.len(), &*folder);
    let started = started_of(&scaled, &plan, &running, run_by);
    options.live.tell(&Event::Started(Box::new(started)));
    // The kernel's network thread of a core that others use as well is nobody's.
    let own_core = pinning.broker_core.filter(|_| seat.is_none());
    let monitor = Monitor::start(running.pids(), own_core, SAMPLE_EVERY);
    let Some(baseline) = monitor.first(Duration::from_secs(5)) else {
        bail!("the broker's process cannot be watched; is /proc mounted?");
    };
    let mut seen = Seen {
        started: jiff::Timestamp::now(),
        baseline: Sample { host_used_bytes, ..baseline },
        group: monitor.group.clone(),
        round_trip_us: (host::round_trip_us(running.target, &running.login), None),
        disclosed: disclosed(options, &running, &folder),
        has_proxy: injector.has_proxy(),
        ..Seen::default()
    };
    let (core, steps) = (pinning.load_core, &use_case.step[..]);
    let load = Load { plan: &plan, core, fleet, injector: &injector, steps, seat };
    let shared = Mutex::new(&mut running);
    let mut watched =
        Watched { monitor: &monitor, running: &shared, seen: &mut seen, measured_us: 0 };
    let outcome = drive(load, &mut watched, &options.live, interrupted)?;
    seen.round_trip_us.1 = host::round_trip_us(running.target, &running.login);
    (seen.trees, seen.samples) = (monitor.trees(), monitor.stop());
    disclosure::after(&mut seen.disclosed, &running, &folder, &outcome);
    let silence = running.silence(use_case.mqtt_version);
    seen.broker_exit = running.exited(exit_patience(&outcome, silence.as_ref())).or(silence);
    let (broker, pid) = (running.broker.clone(), running.pid);
    seen.nodes = Nodes::of(&running);
    running.stop();
    let suite = suite(options, seen.started);
    let mut result = assemble::result(suite, &scaled, &plan, broker, host, &outcome, &seen);
    add(&mut result, options, &seen.samples, measure_us(&outcome), pid);
    let kept = folder::keep(&folder, &result, &outcome);
    options.live.tell(&Event::Ended(Box::new(Ended::of(&result))));
    ran(result, folder, kept)
}

/// A run and its folder, or, if that could not be written, the run in an error.
fn ran(
    result: RunResult,
    folder: PathBuf,
    kept: anyhow::Result<()>,
) -> anyhow::Result<(RunResult, PathBuf)> {
    match kept {
        Ok(()) => Ok((result, folder)),
        Err(error) => Err(Unkept::new(result, folder, &error).into()),
    }
}

/// What is disclosed of a run that is about to begin.
fn disclosed(options: &RunOptions, running: &Running, folder: &Path) -> Disclosed {
    let mut disclosed = disclosure::before(running, folder);
    if let Some(Repetition { seed, .. }) = &options.repetition {
        disclosed.seed = format!("{seed}, for the order of repeats; nothing else is random");
    }
    disclosed
}

/// Adds to a result what does not come from the load: which repeat it is, what cannot be measured,
/// and who else was on the host.
fn add(
    result: &mut RunResult,
    options: &RunOptions,
    samples: &[Sample],
    measure_us: (u64, u64),
    pid: Option<u32>,
) {
    result.repetition = options.repetition.clone();
    tell_invalid_before(result, &options.invalid_before);
    if result.resources.is_some() && result.bytes_per_connection().is_none() {
        let why = "not measurable at this scale: memory did not grow with the connections";
        result.not_measured.insert("memory per connection".into(), why.into());
    }
    let known = Known {
        // Agents elsewhere, a broker elsewhere and other runs at the same time take CPU, too.
        is_whole: pid.is_some() && options.agents.commands.is_empty() && options.abreast.is_none(),
        has_agents: !options.agents.is_empty(),
    };
    disturbance::tell(result, samples, measure_us, known);
}

fn tell_invalid_before(result: &mut RunResult, runs: &[InvalidRun]) {
    let number = |at: usize| format!("in place of an invalid run ({} of {})", at + 1, runs.len());
    let tell = |(at, run): (usize, &InvalidRun)| {
        format!("{}: {}: {}", number(at), run.folder, run.reasons.join("; "))
    };
    result.verdict.reasons.extend(runs.iter().enumerate().map(tell));
    result.invalid_before = runs.to_vec();
}

/// The measure phase, microseconds of the monotonic clock.
fn measure_us(outcome: &Outcome) -> (u64, u64) {
    let found = outcome.phases.iter().find(|span| span.phase == Phase::Measure);
    found.map_or((0, 0), |span| (span.start_us, span.end_us))
}

/// How long the end of the broker's process is waited for. Where connections were dropped it may
/// be a script that has yet to hear of the end of what it started.
fn exit_patience(outcome: &Outcome, silence: Option<&String>) -> Duration {
    let is_gone = silence.is_some() || matches!(outcome.end, End::BrokerGone(_));
    if is_gone || !outcome.connections.dropped.is_empty() { GOING_MAX } else { Duration::ZERO }
}

fn plan_of(
    scaled: &Scaled<'_>,
    targets: &[SocketAddr],
    running: &Running,
    options: &RunOptions,
) -> Plan {
    let times = Times::new(scaled.use_case, options.warm_up_s, options.measure_s)
        .with_resends(running.resends_max);
    // The stamp's run number tells this run's messages from another's.
    let run = (std::process::id() ^ jiff::Timestamp::now().as_second() as u32) as u16;
    let shifts = options.abreast.as_ref().map(|of| of.shifts);
    let Login { route, credentials, users } = running.login.clone();
    let plan = usecase::plan(scaled, targets[0], run, times);
    let others = targets[1..].to_vec();
    Plan { others, route, credentials, users, shifts, ..plan }
}

/// What ran it, from `started` until now.
fn suite(options: &RunOptions, started: jiff::Timestamp) -> Suite {
    Suite {
        version: options.version.clone(),
        commit: options.commit.clone(),
        command: options.command.clone(),
        started: Suite::time(started),
        ended: Suite::time(jiff::Timestamp::now()),
    }
}

/// What is known before the run begins; it has a driver, so many agents and a folder.
fn started_of(
    scaled: &Scaled<'_>,
    plan: &Plan,
    running: &Running,
    (driver, agents, folder): (&str, usize, &Path),
) -> Started {
    let case = scaled.run_description(plan);
    let broker = &running.broker;
    let connections: u64 = plan.groups.iter().map(|group| u64::from(group.clients)).sum();
    let seconds = |ms: u64| Some(ms as f64 / 1e3);
    let phases = [
        (Phase::Connect, Some(connections as f64 / plan.connect.rate_per_s)),
        (Phase::Subscribe, None),
        (Phase::WarmUp, seconds(plan.phases.warm_up_ms)),
        (Phase::Measure, seconds(plan.phases.measure_ms)),
        (Phase::Drain, seconds(plan.phases.drain_ms)),
    ];
    let length = |(phase, length_s)| PhaseLength { name: phase_name(phase), length_s };
    Started {
        use_case: case.name,
        about: case.about,
        broker: broker.title(),
        address: broker.address.clone(),
        profile: broker.profile.clone(),
        is_watched: running.pid.is_some(),
        note: scaled.reason.clone(),
        connections,
        publish_rate_per_s: case.publish_rate_planned,
        deliver_rate_per_s: case.deliver_rate_planned,
        phases: phases.map(length).to_vec(),
        driver: driver.into(),
        agents,
        folder: folder.display().to_string(),
    }
}

/// A plan and who runs it.
struct Load<'a> {
    plan: &'a Plan,
    core: Option<usize>,
    fleet: Option<Fleet>,
    injector: &'a FaultInjector<'a>,
    steps: &'a [Step],
    seat: Option<Seat>,
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

/// The broker while it is measured, and what was seen of it.
struct Watched<'a> {
    monitor: &'a Monitor,
    /// Killed and started again by the steps of a use case.
    running: &'a Mutex<&'a mut Running>,
    seen: &'a mut Seen,
    /// Of the measure phase so far.
    measured_us: u64,
}

/// Runs the plan on a thread of its own and tells what happens.
fn drive(
    mut load: Load<'_>,
    watched: &mut Watched<'_>,
    live: &Live,
    interrupted: &Interrupted,
) -> anyhow::Result<Outcome> {
    let (sender, intervals) = channel::<Interval>();
    let stop = Stop::default();
    let (plan, injector, steps) = (load.plan, load.injector, load.steps);
    let cue = Cue::seated(load.seat.take());
    let ((until_over, over), (until_measured, measured)) = (channel::<()>(), channel::<()>());
    let outcome = std::thread::scope(|scope| {
        let (load_stop, load_cue) = (stop.clone(), cue.clone());
        let load = scope.spawn(move || load.run(&load_stop, &load_cue, &sender));
        let (steps_cue, running, monitor) = (cue.clone(), watched.running, watched.monitor);
        let conducted = scope.spawn(move || injector.conduct(&steps_cue, &over, running, monitor));
        let (edges_cue, measure_us) = (cue.clone(), plan.phases.measure_ms * 1_000);
        scope.spawn(move || {
            if let Some(start_us) = edges_cue.wait() {
                monitor.look_at_edges(start_us, start_us + measure_us, &measured);
            }
        });
        let mut teller = Teller::new(live, steps);
        let mut on_interval = |interval: &Interval| {
            watched.near_end(plan, interval);
            teller.interval(interval, &monitor.newest());
        };
        watch(&intervals, interrupted, &stop, &mut on_interval);
        let outcome = load.join();
        cue.end();
        drop((until_over, until_measured));
        watched.seen.happened = conducted.join().unwrap_or_default();
        outcome
    });
    match outcome {
        Ok(outcome) => Ok(outcome?),
        Err(_) => bail!("the load generator broke down; please report this"),
    }
}

/// Until the load ends: its intervals, and the user's wish to stop.
fn watch(
    intervals: &Receiver<Interval>,
    interrupted: &Interrupted,
    stop: &Stop,
    on_interval: &mut dyn FnMut(&Interval),
) {
    loop {
        match intervals.recv_timeout(Duration::from_millis(200)) {
            Ok(interval) => on_interval(&interval),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if interrupted.load(Ordering::Relaxed) {
            stop.stop();
        }
    }
}

impl Watched<'_> {
    /// Looks at the broker's memory once more near the end of measure: walking its pages disturbs
    /// it.
    fn near_end(&mut self, plan: &Plan, interval: &Interval) {
        if interval.phase != Phase::Measure || self.seen.pss_bytes.is_some() {
            return;
        }
        self.measured_us += interval.length_us;
        let near_end_ms = self.measured_us / 1_000 + 2 * u64::from(plan.interval_ms);
        if near_end_ms >= plan.phases.measure_ms {
            let pids = self.running.lock().map(|running| running.pids()).unwrap_or_default();
            self.seen.pss_bytes = monitor::pss(&pids);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
