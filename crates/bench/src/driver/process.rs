//! A broker's process: start, wait until it answers, end without leaving anything behind.

mod again;
mod nodes;
use super::DriverError;
use super::guard::{Guarded, LOOK_EVERY};
use crate::login::Login;
use crate::mqtt;
use crate::result::{Broker, Promise};
use again::Again;
use rustix::process::Pid;
use std::fs::File;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use weir_load::plan::ProtocolVersion;

/// How often a broker that takes connections and ends them is asked whether it is still there.
const SILENCE_TRIES: u32 = 50;

/// How much longer one is waited for that says by its CONNACK that it is not ready: it reads what
/// it has on a disk, which may be slow.
const UNAVAILABLE_MAX: Duration = Duration::from_secs(60);

/// How long one attempt to connect to a node that has to join others may take.
const LISTENS_MAX: Duration = Duration::from_secs(1);

/// How long a broker that refuses a subscription is taken for one that is not ready.
const REFUSES_MAX: Duration = Duration::from_secs(5);

/// A broker that answers. Dropping it ends its process. Of one with several nodes it is the first,
/// and has the others.
#[derive(Debug)]
pub struct Running {
    /// What it promises where a node is lost, as far as its driver says.
    pub promises: Vec<Promise>,
    /// Where it listens.
    pub target: SocketAddr,
    /// How clients are to come in.
    pub login: Login,
    /// Its process, if it is to be watched.
    pub pid: Option<u32>,
    /// What is disclosed of it.
    pub broker: Broker,
    /// Within how long it sends again what was not acknowledged.
    pub resends_max: Duration,
    target_v5: Option<SocketAddr>,
    guarded: Option<Guarded>,
    /// How to start it again, if the suite has started it.
    again: Option<Again>,
    /// A folder of the broker's that goes with it.
    data: Option<PathBuf>,
    /// Its other nodes.
    others: Vec<Self>,
    /// What the nodes need beside them; they end after the nodes.
    services: Vec<Service>,
}

/// A program that nodes need beside them.
#[derive(Debug)]
pub(super) struct Service {
    name: String,
    guarded: Guarded,
    /// A folder that goes with it.
    data: PathBuf,
}

/// What is needed to start a broker.
pub(super) struct Launch<'a> {
    /// The program that guards it: `weir`.
    pub(super) weir: &'a Path,
    /// Program and arguments.
    pub(super) command: &'a [String],
    /// Environment beside the suite's own.
    pub(super) environment: &'a [(String, String)],
    /// The run's folder, which gets `broker.log`; the broker runs in it.
    pub(super) folder: &'a Path,
    /// How clients come in.
    pub(super) login: &'a Login,
    /// Made for the broker, and taken away after it.
    pub(super) data: Option<PathBuf>,
    /// Where it will listen.
    pub(super) target: SocketAddr,
    /// Where it will listen for MQTT 5.0, if that is elsewhere.
    pub(super) target_v5: Option<SocketAddr>,
    pub(super) core: Option<usize>,
    pub(super) ready_max: Duration,
    pub(super) stop_max: Duration,
    pub(super) resends_max: Duration,
}

impl Running {
    /// A broker that somebody else runs, and its process if that is to be watched.
    pub(super) fn elsewhere(
        target: SocketAddr,
        login: Login,
        pid: Option<u32>,
        broker: Broker,
    ) -> Self {
        Self {
            target,
            login,
            pid,
            broker,
            resends_max: Duration::ZERO,
            target_v5: None,
            guarded: None,
            again: None,
            data: None,
            others: Vec::new(),
            services: Vec::new(),
            promises: Vec::new(),
        }
    }

    /// Starts a broker, which may not answer yet.
    pub(super) fn launch(launch: Launch<'_>, broker: Broker) -> Result<Self, DriverError> {
        let system = |source| DriverError::System { broker: broker.name.clone(), source };
        let again = Again::of(&launch);
        let log = File::create(&again.log).map_err(system)?;
        if let Some(data) = &launch.data {
            std::fs::create_dir_all(data).map_err(system)?;
        }
        let guarded = again.launch(log).map_err(system)?;
        let Launch { target, target_v5, resends_max, .. } = launch;
        let (pid, guarded, data) = (Some(guarded.broker()), Some(guarded), launch.data);
        let again = Some(again);
        let login = launch.login.clone();
        let (others, services) = (Vec::new(), Vec::new());
        Ok(Self {
            target,
            login,
            pid,
            broker,
            resends_max,
            target_v5,
            guarded,
            again,
            data,
            others,
            services,
            promises: Vec::new(),
        })
    }

    /// Where it listens for a version.
    pub fn target_of(&self, version: ProtocolVersion) -> SocketAddr {
        match version {
            ProtocolVersion::V5 => self.target_v5.unwrap_or(self.target),
            ProtocolVersion::V311 => self.target,
        }
    }

    /// Whether it has a folder of its own for what it keeps.
    pub const fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// Waits until it answers at all of its addresses; of its other nodes it says nothing.
    pub(crate) fn answer(&mut self) -> Result<(), DriverError> {
        let Some(again) = &self.again else { return Ok(()) };
        let (deadline, log) = (Instant::now() + again.ready_max, again.log.clone());
        self.wait_until_ready(self.target, ProtocolVersion::V311, deadline, &log)?;
        match self.target_v5 {
            Some(target) => self.wait_until_ready(target, ProtocolVersion::V5, deadline, &log),
            None => Ok(()),
        }
    }

    /// Waits until something listens at its address, and says nothing there: a node that has to
    /// join others may have to do so before it has ever seen a client.
    pub(super) fn listen(&mut self) -> Result<(), DriverError> {
        let Some(again) = &self.again else { return Ok(()) };
        let (deadline, log) = (Instant::now() + again.ready_max, again.log.clone());
        while let Err(error) = TcpStream::connect_timeout(&self.target, LISTENS_MAX) {
            let exit = self.exited(Duration::ZERO);
            if exit.is_some() || Instant::now() >= deadline {
                let why = exit.unwrap_or_else(|| error.to_string());
                return Err(self.not_ready(self.target, &why, &log));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn not_ready(&self, target: SocketAddr, why: &str, log: &Path) -> DriverError {
        let why = why.to_owned() + &last_lines(log);
        let (broker, address) = (self.broker.name.clone(), target.to_string());
        DriverError::NotReady { broker, address, why }
    }

    fn wait_until_ready(
        &mut self,
        target: SocketAddr,
        version: ProtocolVersion,
        deadline: Instant,
        log: &Path,
    ) -> Result<(), DriverError> {
        let (mut refused_at, mut deadline) = (None, deadline);
        let last_deadline = deadline + UNAVAILABLE_MAX;
        loop {
            let why = match mqtt::serves(target, version, &self.login) {
                // Its rights may refuse this topic for good.
                Ok(false)
                    if refused_at.get_or_insert_with(Instant::now).elapsed() < REFUSES_MAX =>
                {
                    "it refuses subscriptions, or messages".into()
                }
                // Somebody else may have taken the port, and ours ended for it.
                Ok(_) if self.exited(Duration::ZERO).is_none() => return Ok(()),
                Ok(_) => "another program listens there".into(),
                Err(error) => {
                    if error.kind() == ErrorKind::ResourceBusy {
                        deadline = last_deadline;
                    }
                    error.to_string()
                }
            };
            let exit = self.exited(Duration::ZERO);
            if exit.is_some() || Instant::now() >= deadline {
                return Err(self.not_ready(target, &exit.unwrap_or(why), log));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// How the process ended, if it did by itself within `patience`. One that is on its way out is
    /// waited for: afterwards it is known whether the broker is there.
    pub fn exited(&mut self, patience: Duration) -> Option<String> {
        let own = self.guarded.as_mut().and_then(|own| own.exited(patience)).map(str::to_owned);
        let others = self.others.iter_mut().zip(2..).find_map(|(node, number)| {
            node.exited(Duration::ZERO).map(|why| format!("node {number}: {why}"))
        });
        own.or(others)
    }

    /// Why nobody listens there any longer, if that is so. One that takes its time is only busy.
    pub fn silence(&self, version: ProtocolVersion) -> Option<String> {
        let others = || self.others.iter().find_map(|node| node.silence(version));
        self.own_silence(version).or_else(others)
    }

    fn own_silence(&self, version: ProtocolVersion) -> Option<String> {
        let target = self.target_of(version);
        for _ in 0..SILENCE_TRIES {
            match mqtt::answers(target, version, &self.login).map_err(|error| error.kind()) {
                Err(ErrorKind::ConnectionRefused) => {
                    return Some(format!("nothing listens at {target} after the run"));
                }
                // On its way out: whether it is, the next try tells.
                Err(ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof) => {}
                _ => return None,
            }
            std::thread::sleep(LOOK_EVERY);
        }
        None
    }

    /// Ends the broker: SIGTERM, and SIGKILL if it does not heed that.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // All at once: a node may wait for its clients to come to others that stay.
        let others = self.others.iter_mut().filter_map(|node| node.guarded.as_mut());
        self.guarded.iter_mut().chain(others).for_each(Guarded::begin_to_end);
        drop(self.guarded.take());
        if let Some(data) = self.data.take() {
            remove(&data);
        }
        // The nodes first: some say goodbye there.
        self.others.clear();
        for Service { guarded, data, .. } in self.services.drain(..) {
            drop(guarded);
            remove(&data);
        }
    }
}

fn remove(data: &Path) {
    // What somebody has mounted there is for whoever did so to take away.
    if let Err(error) = std::fs::remove_dir_all(data)
        && error.kind() != ErrorKind::ResourceBusy
    {
        tracing::warn!(%error, "{} could not be removed", data.display());
    }
}

/// The end of a log, for an error.
pub fn last_lines(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().rev().filter(|line| !line.is_empty()).take(2).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("; its log ends: {}", lines.into_iter().rev().collect::<Vec<_>>().join(" / "))
}

/// Starts a process that is on `core` from its first instruction on: a broker counts its cores and
/// makes its threads as soon as it runs. It inherits what the calling thread has for that moment.
pub fn spawn(command: &mut Command, core: Option<usize>) -> std::io::Result<Child> {
    let Some(core) = core else { return command.spawn() };
    let before = rustix::thread::sched_getaffinity(None)?;
    pin(None, core);
    let child = command.spawn();
    rustix::thread::sched_setaffinity(None, &before)?;
    child
}

/// Keeps a thread on one processor: this one if none is named.
pub(super) fn pin(thread: Option<Pid>, core: usize) {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    if let Err(error) = rustix::thread::sched_setaffinity(thread, &cores) {
        tracing::warn!(%error, "the broker could not be pinned");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn a_broker_that_is_gone_after_the_last_message_is_not_silent_about_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let stop = weir_load::Stop::default();
        let at_end = stop.clone();
        let broker = std::thread::spawn(move || weir_load::null::serve(listener, 0.0, &stop));
        let running = Running::elsewhere(target, Login::default(), None, Broker::default());
        assert_eq!(running.silence(ProtocolVersion::V5), None);
        at_end.stop();
        broker.join().unwrap().unwrap();
        let why = running.silence(ProtocolVersion::V5).unwrap();
        assert!(why.contains("nothing listens at 127.0.0.1:"), "{why}");
    }

    #[test]
    fn a_broker_that_says_it_is_not_ready_is_waited_for_beyond_its_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let stop = weir_load::Stop::default();
        let at_end = stop.clone();
        let broker = std::thread::spawn(move || {
            let (mut first, _) = listener.accept().unwrap();
            first.write_all(&[0x20, 2, 0, 3]).unwrap();
            // Until it is gone: what it sent is of no interest.
            let _ = std::io::copy(&mut first, &mut std::io::sink());
            weir_load::null::serve(listener, 0.0, &stop)
        });
        let mut running = Running::elsewhere(target, Login::default(), None, Broker::default());
        let (version, deadline) = (ProtocolVersion::V311, Instant::now());
        running.wait_until_ready(target, version, deadline, Path::new("none")).unwrap();
        at_end.stop();
        broker.join().unwrap().unwrap();
    }
}
