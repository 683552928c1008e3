//! The configuration and the files that it names, read again while the broker runs: all is read and
//! checked, new listeners are bound, and only then does anything change. If something is wrong,
//! nothing does.

mod letter;
mod listening;

pub(crate) use letter::{ForShard, NewSettings, Reload, ReloadsSeen};
pub(crate) use listening::{Listening, NotBound, wanted};

use crate::admission::{AdmissionControl, is_out, open as open_admission};
use crate::auth::access::Tag;
use crate::auth::hasher::{Book, SharedBook, open, start_later};
use crate::config::{Change, Config, ConfigError, Opened, Plan};
use crate::kept_file::KeptFile;
use crate::letter::Letter;
use crate::listener::{Doors, Listener};
use crate::patience::Patience;
use letter::{Applied, Done, Look};
use listening::Next;
use std::collections::BTreeSet;
use std::error::Error as _;
use std::fmt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use weir_access::Asker;
use weir_control::{ConfigChange, NotKept, Reloaded, Reread, TokenBook};
use weir_flow::Flow;
use weir_reactor::{Address, ListenerId, Transport, Waker};

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
    /// To the thread that checks tokens, once it runs.
    asker: Arc<OnceLock<Asker<Tag>>>,
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
    pub(crate) book: Option<SharedBook>,
    /// Nothing until the shards have their mailboxes.
    mesh: Option<Mesh>,
    /// Somebody has asked before that.
    is_asked: bool,
}

/// What a thread needs that comes later.
pub(crate) struct Mesh {
    pub(crate) addresses: Vec<Address>,
    pub(crate) secret: [u8; 32],
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
    pub(crate) fn new(config: Config, listening: Listening, book: Option<SharedBook>) -> Self {
        Self { config, source: None, listening, book, mesh: None, is_asked: false }
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

impl Reloader {
    pub(crate) fn new(
        running: Running,
        asker: Arc<OnceLock<Asker<Tag>>>,
        admission: Arc<Mutex<AdmissionControl>>,
        tokens: Option<TokenBook>,
        wakers: &[Waker],
    ) -> (Self, Reloads) {
        let (to, reloads) = wakers.iter().map(|_| channel()).unzip();
        let (running, wakers) = (Mutex::new(running), wakers.to_vec());
        (Self(Arc::new(Inner { running, asker, admission, tokens, to, wakers })), reloads)
    }

    /// Has everything go by the configuration and its files as they are now. What cannot be used is
    /// said, and then nothing changes.
    pub fn reload(&self) -> Reloaded {
        self.0.reload(&mut self.running())
    }

    /// Puts this text in the place of the configuration file, and has everything go by it; with
    /// `is_dry_run` only says what that would change.
    pub(crate) fn replace_config(&self, text: &str, is_dry_run: bool) -> Result<Reloaded, NotKept> {
        let mut running = self.running();
        let file = running.source.as_ref().and_then(|source| source.file.clone());
        let no_file = "the broker runs by no configuration file of its own words";
        let file = file.ok_or_else(|| NotKept::NoFile(no_file.into()))?;
        if running.mesh.is_none() {
            return Err(NotKept::Failed("the broker is still starting; try again".into()));
        }
        let failed = |error| NotKept::Failed(format!("cannot write {}: {error}", file.display()));
        let prepared = match self.0.prepare(&running, Some(text)) {
            Err(Fault { what, error }) => return Ok(Reloaded::failed(&what, error)),
            Ok(prepared) => prepared,
        };
        if is_dry_run {
            return Ok(Reloaded { read: Vec::new(), changes: shown(&prepared.plan) });
        }
        let kept = KeptFile::open(&file).map_err(failed)?;
        kept.replace(text).map_err(failed)?;
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

    /// The broker is over: its listeners are gone, with the files of their sockets.
    pub(crate) fn end(&self) {
        self.running().listening.heard.clear();
    }

    pub(crate) fn running(&self) -> MutexGuard<'_, Running> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn reload(&self, running: &mut Running) -> Reloaded {
        if running.mesh.is_none() {
            running.is_asked = true;
            let what = "everything, as soon as the broker has started".to_owned();
            return Reloaded { read: vec![Reread { what, error: None }], changes: Vec::new() };
        }
        self.take_up(running, APPLIED_MAX)
    }

    fn take_up(&self, running: &mut Running, wait_max: Duration) -> Reloaded {
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

    fn finish(&self, running: &mut Running, prepared: Prepared, wait_max: Duration) -> Reloaded {
        let changes = shown(&prepared.plan);
        log_changes(&prepared.plan);
        let read = self.read(running, &prepared);
        match self.apply(running, prepared, wait_max) {
            Ok(()) => Reloaded { read, changes },
            Err(error) => {
                let Fault { what, error } = Fault::of_system("a thread for passwords", error);
                Reloaded::failed(&what, error)
            }
        }
    }

    /// What was read.
    fn read(&self, running: &Running, prepared: &Prepared) -> Vec<Reread> {
        let reread = |what: String| Reread { what, error: None };
        let file = running.source.as_ref().and_then(|source| source.file.as_ref());
        let config = file.map(|file| reread(format!("the configuration {}", file.display())));
        let doors = prepared.opened.doors.iter().flatten();
        let certificates = doors.filter_map(|door| door.certificate()).map(|certificate| {
            tracing::info!(certificate = %certificate.display(), "read the certificate again");
            reread(format!("the certificate {}", certificate.display()))
        });
        let has_files = prepared.plan.config.auth.has_files();
        let access = has_files.then(|| reread("users, rights and bans".to_owned()));
        config.into_iter().chain(certificates).chain(access).collect()
    }

    /// Has everything go by it. The one thing that can still fail comes first.
    fn apply(
        &self,
        running: &mut Running,
        prepared: Prepared,
        wait_max: Duration,
    ) -> std::io::Result<()> {
        let Prepared { plan: Plan { config, .. }, opened, next, flows, sockets } = prepared;
        let Opened { access, warnings, .. } = opened;
        let hashers = self.hashers(running, access.passwords.is_some())?;
        let (old, shards) = (&running.config, self.to.len());
        let mut gone = users_gone(old, &config);
        let passwords = access.passwords.clone().unwrap_or_default();
        if let Some(book) = &running.book {
            let before = open(book).replace(Arc::clone(&passwords));
            gone.extend(before.changed(&passwords).map(str::to_owned));
        }
        self.asker.get().into_iter().for_each(|asker| asker.reload(access.keys.clone()));
        open_admission(&self.admission).set_limits(config.process.clone());
        if let Some(tokens) = &self.tokens {
            tokens.set(config.control.tokens());
        }
        if config.auth.has_files() || old.auth != config.auth {
            tracing::info!(users_changed = gone.len(), "users and rights are read again");
        }
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        if let Some(source) = running.source.as_ref().filter(|_| old.log != config.log) {
            (source.set_log_level)(config.log.level.as_deref());
        }
        let has_added = !next.added.is_empty();
        let (removed, transports) = (next.removed.clone(), next.transports.clone());
        let doors = running.listening.set(next);
        let asks_for_certificates = doors.iter().flatten().any(|door| door.asks_for_certificates());
        let settings = settings(old, &config, (doors, transports, removed));
        let has_bans = old.auth.bans_file.is_some() || config.auth.bans_file.is_some();
        let all = Arc::new(Reload {
            policy: access.policy,
            bans: has_bans.then(|| access.bans.unwrap_or_default()),
            gone,
            certificates: asks_for_certificates.then(|| Look::new(shards)),
            settings: Some(Box::new(settings)),
            applied: Applied::default(),
        });
        if has_added {
            running.listening.spoken().for_each(|place| tracing::info!("listening on {place}"));
        }
        running.config = config;
        let mut flows = flows.map(Vec::into_iter);
        let mut hashers = hashers.into_iter();
        for (to, listeners) in self.to.iter().zip(sockets) {
            let flow = flows.as_mut().and_then(Iterator::next);
            let (all, hasher) = (Arc::clone(&all), hashers.next());
            // A shard that has ended needs none.
            let done = Done(Arc::clone(&all));
            let _ = to.send(ForShard { all, listeners, flow, hasher, done });
        }
        self.wakers.iter().for_each(Waker::wake);
        if !wait_max.is_zero() && !all.applied.wait(shards, wait_max) {
            tracing::warn!("not all threads go by the new configuration yet");
        }
        Ok(())
    }

    /// Each shard's way to a hasher that begins now, because there is a file of passwords for the
    /// first time.
    fn hashers(&self, running: &mut Running, has_passwords: bool) -> std::io::Result<Hashers> {
        let Some(Mesh { addresses, secret }) =
            running.mesh.as_ref().filter(|_| has_passwords && running.book.is_none())
        else {
            return Ok(Vec::new());
        };
        let book = Book::shared(Arc::default());
        let hashers = start_later(&book, *secret, addresses, is_out(&self.admission))?;
        running.book = Some(book);
        Ok(hashers)
    }
}

/// What shards are told of the configuration, and of the listeners that it makes.
fn settings(
    old: &Config,
    new: &Config,
    (doors, transports, removed): (Doors, Vec<(ListenerId, Transport)>, Vec<ListenerId>),
) -> NewSettings {
    NewSettings {
        ends_anonymous: old.allows_anonymous() && !new.allows_anonymous(),
        ends_named: !old.auth.checks_names() && new.auth.password_file.is_some(),
        clears_policy: old.auth.acl_file.is_some() && new.auth.acl_file.is_none(),
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

type Hashers = Vec<(crate::auth::hasher::HasherWay, weir_reactor::Joint<Letter>)>;

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
