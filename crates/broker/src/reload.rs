//! The configuration and the files that it names, read again while the broker runs: all is read and
//! checked, new listeners are bound, and only then does anything change. If something is wrong,
//! nothing does.

mod letter;
mod listening;
mod threads;

pub(crate) use letter::{ForShard, NewSettings, Reload, ReloadsSeen};
pub(crate) use listening::{Listening, NotBound, wanted};
pub(crate) use threads::Threads;

use crate::admission::{AdmissionControl, open as open_admission};
use crate::auth::hasher::open;
use crate::config::secrets::{self, Unknown};
use crate::config::{Change, Config, ConfigError, Opened, Plan};
use crate::control::{Answer, BanBook, Shards};
use crate::kept_file::KeptFile;
use crate::letter::Letter;
use crate::listener::{Doors, Listener};
use crate::memory::Ceiling;
use crate::patience::Patience;
use crate::post::ClusterWatch;
use crate::stopper::Asked;
use letter::{Done, Look};
use listening::Next;
use std::collections::BTreeSet;
use std::error::Error as _;
use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use threads::{Relaying, Started, ends_vouched};
use weir_access::Lasting;
use weir_bridge::BridgeWatch;
use weir_control::{ConfigChange, Keeper, NotKept, Reloaded, Reread, TokenBook};
use weir_core::Partitions;
use weir_flow::Flow;
use weir_reactor::{Address, ListenerId, Outside, Transport, Waker};

/// How long a reload waits until all shards go by it. They do so in their next turn.
const APPLIED_MAX: Duration = Duration::from_secs(5);

/// Reads a configuration, or does as if its file had this text.
pub type ReadConfig = Box<dyn Fn(Option<&str>) -> Result<Config, String> + Send + Sync>;

/// Changes what is logged.
pub type SetLogLevel = Box<dyn Fn(Option<&str>) + Send + Sync>;

/// Where a configuration comes from.
pub struct Source {
    /// The file, if it is one in Weir's own words, which may be replaced.
    pub file: Option<PathBuf>,
    /// Reads it again with what options say, or does the same with a text in the file's place.
    pub read: ReadConfig,
    /// Has the log show what this says, or by default nothing, if no option says it.
    pub set_log_level: SetLogLevel,
}

/// Reads the configuration and its files again. A clone does the same.
#[derive(Clone, Debug)]
pub struct Reloader(Arc<Inner>);

struct Inner {
    /// One reload after the other, so that all shards get them in the same order.
    running: Mutex<Running>,
    admission: Arc<Mutex<AdmissionControl>>,
    tokens: Option<TokenBook>,
    to: Vec<Sender<ForShard>>,
    wakers: Vec<Waker>,
}

/// What there is.
pub(crate) struct Running {
    pub(crate) config: Config,
    pub(crate) source: Option<Source>,
    pub(crate) listening: Listening,
    pub(crate) threads: Threads,
    /// Nothing until the shards have their mailboxes.
    mesh: Option<Mesh>,
    /// Somebody has asked before that.
    is_asked: bool,
}

/// What a thread needs that comes later.
#[derive(Clone)]
pub(crate) struct Mesh {
    pub(crate) addresses: Vec<Address>,
    pub(crate) secret: [u8; 32],
    pub(crate) lasting: Lasting,
    pub(crate) ceiling: Arc<Ceiling>,
    pub(crate) bridges: BridgeWatch,
    /// If this broker is a node of one.
    pub(crate) cluster: Option<ClusterWatch>,
    pub(crate) asked: Arc<Asked>,
    pub(crate) bans: BanBook,
    /// Of what spreads clients over shards.
    pub(crate) seed: u64,
    /// Of files, for the control thread.
    pub(crate) keeper: Arc<dyn Keeper>,
}

impl Mesh {
    /// The shards as a control thread sees them that asks by these letters.
    pub(crate) fn shards(
        &self,
        letters: Outside<Letter, Answer>,
        admission: &Arc<Mutex<AdmissionControl>>,
    ) -> Shards {
        let count = self.addresses.len() as u16;
        Shards {
            letters,
            count,
            partitions: Partitions::spread(count, self.seed),
            bans: self.bans.clone(),
            admission: Arc::clone(admission),
            keeper: Arc::clone(&self.keeper),
            bridges: self.bridges.clone(),
            cluster: self.cluster.clone(),
            asked: Arc::clone(&self.asked),
        }
    }
}

/// What each shard waits for.
pub(crate) type Reloads = Vec<Receiver<ForShard>>;

/// All that a reload needs, with nothing done yet that others would notice.
struct Prepared {
    plan: Plan,
    opened: Opened,
    next: Next,
    flows: Option<Vec<Option<Flow>>>,
    /// Of the new listeners, by shard.
    sockets: Vec<Vec<Listener>>,
}

/// What cannot be used.
struct Fault {
    what: String,
    error: String,
}

impl Fault {
    fn of_config(error: &ConfigError) -> Self {
        let why = error.source().map(|why| format!(": {why}")).unwrap_or_default();
        let text = format!("{error}{why}");
        let what = match error {
            ConfigError::Tls { address, .. } => {
                tracing::error!(error = text, "the certificate stays as it was");
                format!("certificates of {address}")
            }
            ConfigError::Auth(_) => {
                tracing::error!("users and rights stay as they were: {text}");
                "users, rights and bans".to_owned()
            }
            _ => {
                tracing::error!("the configuration stays as it was: {text}");
                "the configuration".to_owned()
            }
        };
        Self { what, error: text }
    }

    fn of_system(what: &str, error: impl fmt::Display) -> Self {
        tracing::error!(%error, "the configuration stays as it was");
        Self { what: what.into(), error: error.to_string() }
    }
}

impl Running {
    pub(crate) fn new(config: Config, listening: Listening) -> Self {
        let threads = Threads::default();
        Self { config, source: None, listening, threads, mesh: None, is_asked: false }
    }

    /// The configuration file.
    fn file(&self) -> Result<PathBuf, NotKept> {
        let file = self.source.as_ref().and_then(|source| source.file.clone());
        let no_file = "the broker runs by no configuration file of its own words";
        file.ok_or_else(|| NotKept::NoFile(no_file.into()))
    }

    /// Reads and checks; binds what is new.
    fn prepare(&self, new: Config, shards: usize) -> Result<Prepared, Fault> {
        let plan = Plan::new(&self.config, new);
        let opened = plan.config.open().map_err(|error| Fault::of_config(&error))?;
        let flows = if plan.config.flow == self.config.flow {
            None
        } else {
            let compiled = plan.config.flow.compile().map_err(ConfigError::Flow);
            let flow = compiled.map_err(|error| Fault::of_config(&error))?;
            Some(match plan.config.flow.is_empty() {
                true => (0..shards).map(|_| None).collect(),
                false => flow.split(shards as u32).into_iter().map(Some).collect(),
            })
        };
        let wanted = wanted(&plan.config, opened.doors.to_vec());
        let wanted = wanted.map_err(|error| Fault::of_config(&error))?;
        // What systemd has passed was given at the start.
        let next =
            self.listening.next(wanted, &mut Vec::new()).map_err(|NotBound { place, hint }| {
                Fault::of_system("the configuration", format!("cannot listen on {place}: {hint}"))
            })?;
        let clones = || next.added.iter().map(Listener::try_clone).collect();
        let sockets = (0..shards).map(|_| clones()).collect::<std::io::Result<_>>();
        let sockets = sockets.map_err(|error| Fault::of_system("new listeners", error))?;
        Ok(Prepared { plan, opened, next, flows, sockets })
    }
}

impl Running {
    /// It is this configuration from now on, and these listeners. Returns what shards are told.
    fn take_up(&mut self, config: Config, next: Next) -> NewSettings {
        let has_added = !next.added.is_empty();
        let (removed, transports) = (next.removed.clone(), next.transports.clone());
        let doors = self.listening.set(next);
        if has_added {
            self.listening.spoken().for_each(|place| tracing::info!("listening on {place}"));
        }
        let settings = settings(&self.config, &config, (doors, transports, removed));
        self.config = config;
        settings
    }
}

impl Reloader {
    pub(crate) fn new(
        running: Running,
        admission: Arc<Mutex<AdmissionControl>>,
        tokens: Option<TokenBook>,
        wakers: &[Waker],
    ) -> (Self, Reloads) {
        let (to, reloads) = wakers.iter().map(|_| channel()).unzip();
        let (running, wakers) = (Mutex::new(running), wakers.to_vec());
        (Self(Arc::new(Inner { running, admission, tokens, to, wakers })), reloads)
    }

    /// Has everything go by the configuration and its files as they are now. What cannot be used is
    /// said, and then nothing changes.
    pub fn reload(&self) -> Reloaded {
        self.0.reload(&mut self.running())
    }

    /// The text of the configuration file, without what is secret.
    pub(crate) fn config_file(&self) -> Result<String, NotKept> {
        let file = self.running().file()?;
        let failed = |error: &dyn fmt::Display| {
            NotKept::Failed(format!("cannot read {}: {error}", file.display()))
        };
        let text = std::fs::read_to_string(&file).map_err(|error| failed(&error))?;
        secrets::masked(&text).map_err(|error| failed(&error))
    }

    /// Puts this text in the place of the configuration file, and has everything go by it; with
    /// `is_dry_run` only says what that would change.
    pub(crate) fn replace_config(&self, text: &str, is_dry_run: bool) -> Result<Reloaded, NotKept> {
        let mut running = self.running();
        let file = running.file()?;
        if running.mesh.is_none() {
            return Err(NotKept::Failed("the broker is still starting; try again".into()));
        }
        let failed = |error| NotKept::Failed(format!("cannot write {}: {error}", file.display()));
        let old = std::fs::read_to_string(&file).unwrap_or_default();
        let text = match secrets::unmasked(text, &old) {
            Ok(text) => text,
            Err(Unknown { line, key }) => {
                let text = format!(
                    "{}:{line}: {key}: *** stands for a secret that the file has, and it has none \
                     there: write the secret itself",
                    file.display()
                );
                return Ok(Reloaded::failed("the configuration", text));
            }
        };
        let prepared = match self.0.prepare(&running, Some(&text)) {
            Err(Fault { what, error }) => return Ok(Reloaded::failed(&what, error)),
            Ok(prepared) => prepared,
        };
        if is_dry_run {
            return Ok(Reloaded { read: Vec::new(), changes: shown(&prepared.plan) });
        }
        let kept = KeptFile::open(&file).map_err(failed)?;
        kept.replace(&text).map_err(failed)?;
        Ok(self.0.finish(&mut running, prepared, APPLIED_MAX))
    }

    /// Has the configuration come from there.
    pub(crate) fn set_source(&self, source: Source) {
        self.running().source = Some(source);
    }

    /// The shards have their mailboxes. What was asked before is done now.
    pub(crate) fn begin(&self, mesh: Mesh) {
        let mut running = self.running();
        running.mesh = Some(mesh);
        if std::mem::take(&mut running.is_asked) {
            // Nobody turns yet, so nobody is waited for.
            self.0.take_up(&mut running, Duration::ZERO);
        }
    }

    /// The broker is over: its listeners are gone, with the files of their sockets, and its bridges
    /// have left.
    pub(crate) fn end(&self) {
        let mut running = self.running();
        running.listening.heard.clear();
        running.mesh = None;
        let threads = std::mem::take(&mut running.threads);
        // They are waited for by nobody who wants the rest.
        drop(running);
        drop(threads);
    }

    pub(crate) fn running(&self) -> MutexGuard<'_, Running> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn reload(self: &Arc<Self>, running: &mut Running) -> Reloaded {
        if running.mesh.is_none() {
            running.is_asked = true;
            let what = "everything, as soon as the broker has started".to_owned();
            return Reloaded { read: vec![Reread { what, error: None }], changes: Vec::new() };
        }
        self.take_up(running, APPLIED_MAX)
    }

    fn take_up(self: &Arc<Self>, running: &mut Running, wait_max: Duration) -> Reloaded {
        match self.prepare(running, None) {
            Ok(prepared) => self.finish(running, prepared, wait_max),
            Err(Fault { what, error }) => Reloaded::failed(&what, error),
        }
    }

    /// Reads and checks everything, with this text in the place of the file's if there is one.
    fn prepare(&self, running: &Running, text: Option<&str>) -> Result<Prepared, Fault> {
        let new = match &running.source {
            None => Ok(running.config.clone()),
            Some(source) => (source.read)(text),
        };
        let new = new.map_err(|error| Fault::of_system("the configuration", error))?;
        running.prepare(new, self.to.len())
    }

    fn finish(
        self: &Arc<Self>,
        running: &mut Running,
        prepared: Prepared,
        wait_max: Duration,
    ) -> Reloaded {
        let changes = shown(&prepared.plan);
        log_changes(&prepared.plan);
        let doors = prepared.opened.doors.to_vec();
        let read = read(running, &prepared);
        match self.apply(running, prepared, wait_max) {
            Ok(()) => {
                for file in doors.iter().flatten().filter_map(|door| door.certificate()) {
                    tracing::info!(certificate = %file.display(), "read the certificate again");
                }
                Reloaded { read, changes }
            }
            Err(error) => {
                let Fault { what, error } = Fault::of_system("a thread beside the shards", error);
                Reloaded::failed(&what, error)
            }
        }
    }

    /// Has everything go by it. What can still fail comes first.
    fn apply(
        self: &Arc<Self>,
        running: &mut Running,
        prepared: Prepared,
        wait_max: Duration,
    ) -> std::io::Result<()> {
        let Prepared { plan: Plan { config, .. }, mut opened, next, flows, sockets } = prepared;
        let Running { config: old, threads, mesh, source, .. } = &mut *running;
        let Some(mesh) = mesh else { return Ok(()) };
        let reloader = Reloader(Arc::clone(self));
        let mut started = threads.start((old, &config), &mut opened, mesh, &reloader)?;
        let relaying = threads.take(&mut started);
        mesh.ceiling.set(config.process.memory_bytes_max);
        let Opened { access, warnings, .. } = opened;
        let mut gone = users_gone(old, &config);
        let passwords = access.passwords.clone().unwrap_or_default();
        if let Some(book) = &threads.book {
            let before = open(book).replace(Arc::clone(&passwords));
            gone.extend(before.changed(&passwords).map(str::to_owned));
        }
        if let Some(asker) = &threads.asker {
            asker.reload(access.keys.clone());
        }
        let share_percent = config.limits.client_share_percent;
        open_admission(&self.admission).set_limits(config.process.clone(), share_percent);
        if let Some(tokens) = &self.tokens {
            tokens.set(config.control.tokens());
        }
        if let Some(sys) = &threads.sys {
            sys.set(config.sys.setup());
        }
        let are_users_read = config.auth.has_files() || old.auth != config.auth;
        let users_changed = are_users_read.then_some(gone.len());
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        if let Some(source) = source.as_ref().filter(|_| old.log != config.log) {
            (source.set_log_level)(config.log.level.as_deref());
        }
        let has_bans = old.auth.bans_file.is_some() || config.auth.bans_file.is_some();
        let bans = has_bans.then(|| access.bans.unwrap_or_default());
        let settings = running.take_up(config, next);
        let asks_for_certificates =
            settings.doors.iter().flatten().any(|door| door.asks_for_certificates());
        let all = Reload {
            policy: access.policy,
            bans,
            gone,
            certificates: asks_for_certificates.then(|| Look::new(self.to.len())),
            settings: Some(Box::new(settings)),
            ..Reload::default()
        };
        self.send(all, (flows, started, sockets), wait_max);
        // Whoever reads this is served by it.
        if let Some(users_changed) = users_changed {
            tracing::info!(users_changed, "users and rights are read again");
        }
        if let Some(relaying) = relaying {
            self.settle_bridges(relaying, wait_max);
        }
        Ok(())
    }

    /// Tells each shard, and waits until they go by it.
    fn send(&self, all: Reload, (flows, started, sockets): Parts, wait_max: Duration) {
        let all = Arc::new(all);
        let mut flows = flows.map(Vec::into_iter);
        let Started { hashers, access, joints, to_control, .. } = started;
        let (mut hashers, mut access) = (hashers.into_iter(), access.into_iter());
        let mut to_control = to_control.into_iter();
        let (mut joints, mut sockets) = (joints.into_iter(), sockets.into_iter());
        for to in &self.to {
            let for_shard = ForShard {
                listeners: sockets.next().unwrap_or_default(),
                flow: flows.as_mut().and_then(Iterator::next),
                hasher: hashers.next(),
                access: access.next(),
                control: to_control.next(),
                joints: joints.next().unwrap_or_default(),
                done: Done(Arc::clone(&all)),
                all: Arc::clone(&all),
            };
            // A shard that has ended needs none.
            let _ = to.send(for_shard);
        }
        self.wakers.iter().for_each(Waker::wake);
        if !wait_max.is_zero() && !all.applied.wait(self.to.len(), wait_max) {
            tracing::warn!("not all threads go by the new configuration yet");
        }
    }

    /// Waits until bridges that are new are prepared. What waits in the queues of those that are
    /// gone is known once they have ended.
    fn settle_bridges(&self, relaying: Relaying, wait_max: Duration) {
        if !wait_max.is_zero() {
            relaying.wait();
        }
        if !relaying.gone.is_empty() {
            let all = Reload { bridges_gone: relaying.gone, ..Reload::default() };
            self.send(all, (None, Started::default(), Vec::new()), wait_max);
        }
    }
}

/// What is each shard's own of a reload: rules, ways to threads, and sockets.
type Parts = (Option<Vec<Option<Flow>>>, Started, Vec<Vec<Listener>>);

/// What shards are told of the configuration, and of the listeners that it makes.
fn settings(
    old: &Config,
    new: &Config,
    (doors, transports, removed): (Doors, Vec<(ListenerId, Transport)>, Vec<ListenerId>),
) -> NewSettings {
    NewSettings {
        ends_anonymous: old.allows_anonymous() && !new.allows_anonymous(),
        ends_named: !old.auth.checks_names() && new.auth.checks_names(),
        ends_vouched: ends_vouched(old, new),
        sys: new.sys.clone(),
        allows_anonymous: new.allows_anonymous(),
        has_authentication: new.settings().features.authentication,
        limits: new.limits.clone(),
        process: new.process.clone(),
        share: new.share.clone(),
        patience: Patience::of(new),
        auth: new.auth.clone(),
        doors,
        transports,
        removed,
    }
}

/// Users whose verifiers in the configuration are others now, or gone.
fn users_gone(old: &Config, new: &Config) -> BTreeSet<String> {
    let has_changed =
        |(user, verifier): &(&String, &String)| new.auth.users.get(*user) != Some(*verifier);
    old.auth.users.iter().filter(has_changed).map(|(user, _)| user.clone()).collect()
}

/// What changes, as the API says it.
fn shown(plan: &Plan) -> Vec<ConfigChange> {
    let shown = |change: &Change| ConfigChange {
        key: change.key.clone(),
        is_live: change.is_live,
        from: change.from.clone(),
        to: change.to.clone(),
    };
    plan.changes.iter().map(shown).collect()
}

fn log_changes(plan: &Plan) {
    for change in &plan.changes {
        if change.is_live {
            tracing::info!("the configuration has changed: {change}");
        } else {
            tracing::warn!("the configuration has changed, and takes a restart: {change}");
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Inner").field("shards", &self.to.len()).finish_non_exhaustive()
    }
}

/// What was read.
fn read(running: &Running, prepared: &Prepared) -> Vec<Reread> {
    let reread = |what: String| Reread { what, error: None };
    let file = running.source.as_ref().and_then(|source| source.file.as_ref());
    let config = file.map(|file| reread(format!("the configuration {}", file.display())));
    let doors = prepared.opened.doors.iter().flatten();
    let certificates = doors.filter_map(|door| door.certificate());
    let certificates =
        certificates.map(|file| reread(format!("the certificate {}", file.display())));
    let has_files = prepared.plan.config.auth.has_files();
    let access = has_files.then(|| reread("users, rights and bans".to_owned()));
    config.into_iter().chain(certificates).chain(access).collect()
}
