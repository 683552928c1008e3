//! A run: lives of a broker, one after the other, and the ledger at the end.

use crate::ledger::{RetainedTally, Sent, Tally};
use crate::life::Life;
use crate::link::Place;
use crate::names::Stream;
use crate::power::{Disk, FileSystem};
use crate::publisher::Publisher;
use crate::result::{Crash, CrashResult, SCHEMA};
use crate::retained;
use crate::subscriber::Subscriber;
use anyhow::{Context, bail};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use weir_bench::driver::{Driver, Profile, Running, data_folder};
use weir_bench::interrupt::Interrupted;
use weir_bench::made::start_over;
use weir_bench::usecase::Needs;
use weir_chance::Chance;
use weir_load::plan::{ProtocolVersion, Transport};
use weir_say::noteln;
use weir_wire::{QoS, Version};

/// Of the most messages that are acknowledged in a life, one in so many is the fewest.
const LIFE_MESSAGES_MIN: usize = 10;

/// One subscriber in so many is away in a life.
const AWAY_ONE_IN: usize = 4;

/// A broker that acknowledges nothing for so long is stuck.
const STUCK: Duration = Duration::from_secs(60);

/// How long what has not come at the end is waited for, beyond the time in which the broker sends
/// again.
const SILENCE: Duration = Duration::from_secs(5);

/// How long a broker that has just answered may take to answer once more, and how long a packet
/// may take to leave.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Between two looks at whether the user wants to stop, or a client has failed.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What ends a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// SIGKILL.
    Kill,
    /// The disk keeps what was synced, and the broker is gone.
    PowerCut,
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "kill" => Ok(Self::Kill),
            "power-cut" => Ok(Self::PowerCut),
            _ => Err("a step is kill or power-cut".into()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Kill => "kill",
            Self::PowerCut => "power-cut",
        })
    }
}

/// How to crash.
#[derive(Clone, Debug)]
pub struct Options {
    /// What ends a life.
    pub step: Step,
    /// What a power cut is done to.
    pub file_system: FileSystem,
    /// What clients speak.
    pub transport: Transport,
    /// How often.
    pub kills: u32,
    /// Most messages that are acknowledged in a life.
    pub messages: u32,
    /// For the moments, the absences and the order of messages.
    pub seed: u64,
    /// How many clients publish.
    pub publishers: usize,
    /// How many clients subscribe.
    pub subscribers: usize,
    /// At least one.
    pub qos: Vec<QoS>,
    /// Messages per second in all; nothing leaves it to the window.
    pub rate: Option<f64>,
    /// The program and its version.
    pub suite: String,
    /// What was typed.
    pub command: Vec<String>,
}

/// Crashes a broker, with its files in `folder`. Nothing if the user did not want to wait for it.
///
/// # Errors
/// A broker that does not start, or not again, or cannot do what the load needs.
pub fn run(
    driver: &dyn Driver,
    options: &Options,
    folder: &Path,
    interrupted: &Interrupted,
) -> anyhow::Result<Option<CrashResult>> {
    if !driver.is_restartable() {
        bail!("it is not started by the suite, and so it cannot be crashed");
    }
    let (version, qos) = able(driver, options)?;
    let profile = match driver.has(Profile::Durable) {
        true => Profile::Durable,
        false => {
            let name = driver.name();
            noteln!("{name} has no profile durable: it is configured as it is by default");
            Profile::Default
        }
    };
    let started = (jiff::Timestamp::now().to_string(), Instant::now());
    // It goes after the broker, which has files on it.
    let mut disk = disk_of(options, folder)?;
    let running = start_over(driver, options.transport, profile, folder)?;
    if disk.is_some() && !running.has_data() {
        let name = driver.name();
        bail!("{name} has no folder for its data: its command line has to name {{data}}");
    }
    let mut run = Run::new(running, options, version, &qos, interrupted);
    let mut crashes = Vec::new();
    for number in 1..=options.kills {
        let Some((acknowledged, away)) = run.live(false, disk.as_ref())? else { return Ok(None) };
        if let Some(disk) = &mut disk {
            disk.restore().with_context(|| format!("after crash {number}"))?;
        }
        let crashed = Instant::now();
        run.running
            .start_again()
            .with_context(|| format!("after crash {number} of {}", options.kills))?;
        let down_s = crashed.elapsed().as_secs_f64();
        run.look()?;
        let name = driver.name();
        noteln!(
            "{name}: {} {number} of {} after {acknowledged} acknowledged messages; back after \
             {down_s:.2} s",
            options.step,
            options.kills
        );
        crashes.push(Crash { acknowledged, away, down_s });
    }
    if run.live(true, None)?.is_none() {
        return Ok(None);
    }
    Ok(Some(CrashResult {
        schema: SCHEMA,
        suite: options.suite.clone(),
        command: options.command.clone(),
        started: started.0,
        took_s: started.1.elapsed().as_secs_f64(),
        step: options.step.to_string(),
        file_system: disk.is_some().then(|| options.file_system.to_string()),
        seed: options.seed,
        publishers: options.publishers,
        subscribers: options.subscribers,
        transport: options.transport.name().into(),
        mqtt: if version.is_v5() { "5.0" } else { "3.1.1" }.into(),
        rate: options.rate,
        broker: run.running.broker.clone(),
        crashes,
        tally: run.tally(),
    }))
}

/// The disk of the broker's data, if its power is to be cut.
fn disk_of(options: &Options, folder: &Path) -> anyhow::Result<Option<Disk>> {
    Ok(match options.step {
        Step::Kill => None,
        Step::PowerCut => Some(Disk::new(options.file_system, folder, data_folder(folder)?)?),
    })
}

/// The version and the QoS that the broker can be loaded with.
fn able(driver: &dyn Driver, options: &Options) -> anyhow::Result<(Version, Vec<QoS>)> {
    let lacks =
        |version, qos: u8| driver.lacks(&Needs { qos, retained: true, ..Needs::version(version) });
    let (version, asked) = match lacks(ProtocolVersion::V5, 0)? {
        None => (Version::V5, ProtocolVersion::V5),
        Some(_) => (Version::V311, ProtocolVersion::V311),
    };
    let (mut qos, mut missing) = (Vec::new(), None);
    for &one in &options.qos {
        match lacks(asked, one as u8)? {
            None => qos.push(one),
            Some(what) => missing = Some(what),
        }
    }
    let name = driver.name();
    match missing {
        Some(what) if qos.is_empty() => bail!("{name} does not support {what}"),
        Some(what) => noteln!("{name} does not support {what}: it is loaded without"),
        None => {}
    }
    Ok((version, qos))
}

/// A broker, its clients, and what they know.
struct Run<'a> {
    running: Running,
    options: &'a Options,
    interrupted: &'a Interrupted,
    place: Place,
    streams: Vec<Stream>,
    publishers: Vec<Publisher>,
    subscribers: Vec<Subscriber>,
    retained: RetainedTally,
    acknowledged: u64,
    is_first: bool,
    chance: Chance,
}

impl<'a> Run<'a> {
    fn new(
        running: Running,
        options: &'a Options,
        version: Version,
        qos: &[QoS],
        interrupted: &'a Interrupted,
    ) -> Self {
        let spoken = if version.is_v5() { ProtocolVersion::V5 } else { ProtocolVersion::V311 };
        let (target, login) = (running.target_of(spoken), running.login.clone());
        let publishers = options.publishers;
        let subscriber = |number| Subscriber::new(number, publishers, qos);
        Self {
            running,
            options,
            interrupted,
            place: Place { target, version, login, reach_max: ANSWER_MAX, answer_max: ANSWER_MAX },
            streams: Stream::all(publishers, qos),
            publishers: (0..publishers).map(|it| Publisher::new(it, qos, options.seed)).collect(),
            subscribers: (0..options.subscribers).map(subscriber).collect(),
            retained: RetainedTally::default(),
            acknowledged: 0,
            is_first: true,
            chance: Chance::new(options.seed),
        }
    }

    /// One life, and the crash that ends it unless it is the last. Returns how many messages are
    /// acknowledged by then and how many subscribers were away; nothing if the user wants to stop.
    fn live(&mut self, is_last: bool, disk: Option<&Disk>) -> anyhow::Result<Option<(u64, usize)>> {
        let most = self.options.messages as usize;
        let fewest = most / LIFE_MESSAGES_MIN;
        let goal = (fewest + self.chance.below(most - fewest)) as u64;
        let (reached, goal_reached) = channel();
        let acknowledged = self.acknowledged;
        let goal = acknowledged + goal;
        let mut life = Life::new(self.place.clone(), goal, acknowledged, reached);
        life.is_last = is_last;
        life.rate = self.options.rate.map(|rate| rate / self.options.publishers as f64);
        life.silence = SILENCE + self.running.resends_max;
        // All are there once, so that all have a session, and at the end.
        let can_be_away = !self.is_first && !is_last;
        self.is_first = false;
        let (chance, mut away) = (&mut self.chance, 0);
        let mut present = Vec::new();
        for subscriber in &mut self.subscribers {
            if chance.below(AWAY_ONE_IN) == 0 && can_be_away {
                away += 1;
                continue;
            }
            subscriber.join(&life.place)?;
            present.push(subscriber);
        }
        let (running, interrupted) = (&mut self.running, self.interrupted);
        let publishers = &mut self.publishers;
        let life = &life;
        let is_whole = std::thread::scope(|scope| {
            let hearing: Vec<_> =
                present.into_iter().map(|of| scope.spawn(move || of.listen(life))).collect();
            let loading: Vec<_> = publishers
                .iter_mut()
                .map(|of| scope.spawn(move || of.load(life).map(|()| owed(of))))
                .collect();
            let is_over = || loading.iter().any(ScopedJoinHandle::is_finished);
            let waited = wait(life, &goal_reached, interrupted, &is_over);
            if !is_last || !matches!(waited, Ok(true)) {
                life.end();
            }
            let crashed = if is_last { Ok(()) } else { crash(running, disk) };
            let mut owed = 0;
            let mut failed = None;
            for thread in loading {
                match thread.join().expect("a publisher panics only by a bug") {
                    Ok(messages) => owed += messages,
                    Err(error) => failed = Some(error),
                }
            }
            if failed.is_some() {
                life.end();
            }
            life.owe(owed);
            for thread in hearing {
                if let Err(error) = thread.join().expect("a subscriber panics only by a bug") {
                    failed = Some(error);
                }
            }
            failed.map_or(crashed.and(waited), Err)
        })?;
        self.acknowledged = life.acknowledged();
        Ok(is_whole.then_some((self.acknowledged, away)))
    }

    /// Looks at the retained messages.
    fn look(&mut self) -> anyhow::Result<()> {
        retained::check(&self.place, &mut self.publishers, &mut self.retained)
            .context("cannot look at the retained messages")
    }

    fn tally(&self) -> Tally {
        let sent: Vec<Sent> = self.publishers.iter().flat_map(Publisher::sent).cloned().collect();
        let received: Vec<_> = self.subscribers.iter().map(|of| of.received.clone()).collect();
        let updates = self.publishers.iter().map(|of| of.updates().owed()).sum();
        let (publishers, subscribers) = (&self.publishers, &self.subscribers);
        let dropped = publishers.iter().map(|of| of.dropped).sum::<u64>()
            + subscribers.iter().map(|of| of.dropped).sum::<u64>();
        Tally {
            retained: RetainedTally { acknowledged: updates, ..self.retained },
            publisher_sessions_lost: publishers.iter().map(|of| of.sessions_lost).sum(),
            subscriber_sessions_lost: subscribers.iter().map(|of| of.sessions_lost).sum(),
            dropped,
            ..Tally::of(&self.streams, &sent, &received)
        }
    }
}

/// Ends the broker, and what its disk keeps.
fn crash(running: &mut Running, disk: Option<&Disk>) -> anyhow::Result<()> {
    let cut = disk.map_or(Ok(()), |disk| {
        // Power ends all at once: what a broker says whose disk is gone must not count.
        running.freeze()?;
        disk.cut()
    });
    running.kill();
    cut
}

fn owed(publisher: &Publisher) -> u64 {
    publisher.sent().map(Sent::owed).sum()
}

/// Waits until enough is acknowledged. Says whether it is, or the user wants to stop.
fn wait(
    life: &Life,
    reached: &Receiver<()>,
    interrupted: &Interrupted,
    is_over: &dyn Fn() -> bool,
) -> anyhow::Result<bool> {
    let mut last = (life.acknowledged(), Instant::now());
    loop {
        match reached.recv_timeout(LOOK_EVERY) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(true),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if interrupted.load(Ordering::Relaxed) {
            return Ok(false);
        }
        // Before the goal a publisher ends by a failure only, which it returns itself.
        if is_over() {
            return Ok(true);
        }
        let acknowledged = life.acknowledged();
        if acknowledged > last.0 {
            last = (acknowledged, Instant::now());
        }
        if last.1.elapsed() > STUCK {
            bail!("the broker has acknowledged nothing for {} s", STUCK.as_secs());
        }
    }
}
