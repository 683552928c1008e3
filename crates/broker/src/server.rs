//! The broker as a whole: listen, run, stop.

mod cluster;
mod disks;
mod ready;
mod renewing;
mod stand_in;
mod watchdog;

use crate::admission::{AdmissionControl, is_out};
use crate::auth::access::{self, AccessWay};
use crate::auth::hasher::{self, Book, HasherWay, SharedBook};
use crate::auth::{Access, Authenticator};
use crate::bridges::Way;
use crate::cluster::NoPlace;
use crate::config::{Config, ConfigError, IoBackend, Opened};
use crate::content::{Conditions, FlowOfShard};
use crate::control::{BanBook, Shards};
use crate::doorman::{Doorman, GRACE, PATIENCE};
use crate::journal::NoStore;
use crate::journal::clock::wall;
use crate::keeper::Keeper;
use crate::letter::Letter;
use crate::listener::{Door, Doors, Listener};
use crate::log::{Log, LostLines};
use crate::memory::{Ceiling, Memory};
use crate::patience::Patience;
use crate::reload::{
    Listening, Mesh, NotBound, Reloader, Reloads, ReloadsSeen, Running, Source, wanted,
};
use crate::shell::{Certificates, Farewell, Guard, Latency, Node, Rates, Shell, unread_bytes_max};
use crate::stopper::{Asked, Stopper};
use crate::trace::TraceCounts;
use crate::worker::{Ended, Worker};
use disks::{Disks, OfShard};
use foldhash::fast::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use weir_access::Lasting;
use weir_bridge::Bridges;
use weir_control::{REQUESTS_MAX, Setup};
use weir_core::{Settings, Shard, ShardId};
use weir_flow::Flow;
use weir_reactor::{Address, Backend, Mailbox, Waker};

/// Why the broker cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An address, or what stands in its place, cannot be listened on.
    #[error("cannot listen on {place}: {hint}")]
    Listen {
        /// Which.
        place: String,
        /// Why, and what to do.
        hint: String,
    },
    /// The configured holder of connections cannot be had.
    #[error("{0}; set io = \"auto\" or \"epoll\" to run without it")]
    Io(std::io::Error),
    /// What `[control]` says cannot be served.
    #[error(transparent)]
    Control(#[from] weir_control::ControlError),
    /// What sessions and messages are kept in cannot be used.
    #[error(transparent)]
    Store(#[from] NoStore),
    /// It cannot be a node of its cluster.
    #[error(transparent)]
    Cluster(#[from] NoPlace),
    /// A shard ended by itself, so the others were stopped.
    #[error("shard {shard} ended: {why}; the broker stopped, since its clients were left alone")]
    Shard {
        /// Which.
        shard: u16,
        /// An error of its event loop, or a panic.
        why: String,
    },
    /// The disk of a shard has failed. Nothing was acknowledged that is not on it.
    #[error("the log of shard {shard} cannot be written: {error}")]
    Disk {
        /// Whose.
        shard: u16,
        /// What the system says.
        error: std::io::Error,
    },
    /// The system refuses what every broker needs.
    #[error("the broker cannot run: {0}")]
    System(#[from] std::io::Error),
}

/// A broker that listens and is not yet running.
pub struct Server {
    config: Config,
    /// What the files of passwords and rights say.
    access: Access,
    /// Bans that were added while a broker ran.
    bans: BanBook,
    listeners: Vec<Listener>,
    /// Where they listen, with what is spoken there.
    spoken: Vec<String>,
    addresses: Vec<SocketAddr>,
    doors: Doors,
    bridges: Vec<weir_bridge::Task>,
    warnings: Vec<String>,
    wakers: Vec<Waker>,
    /// What the post is made of, if there are other nodes.
    post: Option<cluster::PostOffice>,
    post_to_be: Option<cluster::PostToBe>,
    asked: Arc<Asked>,
    /// Of the control thread, which listens already where `[control]` says so.
    control: Option<weir_control::Server>,
    lost_lines: LostLines,
    book: Option<SharedBook>,
    admission: Arc<Mutex<AdmissionControl>>,
    reloader: Reloader,
    reloads: Reloads,
}

impl Server {
    /// Listens wherever `config` says.
    ///
    /// # Errors
    /// A setting that cannot be used, an address that is taken or not ours.
    pub fn bind(config: &Config) -> Result<Self, ServeError> {
        let Opened { access, doors, bridges, warnings } = config.open()?;
        config.cluster.check(config.shard_count())?;
        let bans = config.bans()?;
        check_io(config)?;
        let (listeners, listening) = listen(config, doors.to_vec())?;
        let wakers: std::io::Result<Vec<Waker>> =
            (0..config.shard_count()).map(|_| Waker::new()).collect();
        let (mut config, wakers) = (config.clone(), wakers?);
        let post = cluster::PostOffice::bind(&mut config.cluster)?;
        let setup = Setup { sys: config.sys.setup(), ..config.control.setup() };
        let is_told = setup.sys.is_some() || config.control.otlp.is_some();
        let has_control = !config.control.is_off() || is_told;
        let control = has_control.then(|| weir_control::Server::bind(setup)).transpose()?;
        let spoken_of = control.iter().flat_map(weir_control::Server::addresses);
        let of_http = spoken_of.map(|address| format!("{address} (HTTP)"));
        let spoken = listening.spoken().chain(of_http).collect();
        let addresses = listening.heard.values().filter_map(|heard| heard.address).collect();
        let (asked, lost_lines) = (Arc::default(), LostLines::default());
        let book = access.passwords.clone().map(Book::shared);
        let admission = Arc::new(Mutex::new(AdmissionControl::new(
            config.process.clone(),
            config.limits.client_share_percent,
            [access.bans.clone().unwrap_or_default(), bans.bans()],
        )));
        let tokens = control.as_ref().map(weir_control::Server::tokens);
        let mut running = Running::new(config.clone(), listening);
        running.threads.book.clone_from(&book);
        running.threads.sys = control.as_ref().map(weir_control::Server::sys);
        let (reloader, reloads) = Reloader::new(running, Arc::clone(&admission), tokens, &wakers);
        Ok(Self {
            config,
            access,
            bans,
            listeners,
            spoken,
            addresses,
            doors,
            bridges,
            warnings,
            wakers,
            post,
            post_to_be: None,
            asked,
            control,
            lost_lines,
            book,
            admission,
            reloader,
            reloads,
        })
    }

    /// Has the counters say how many lines the log has lost, which its writer knows.
    pub fn count_lost_lines(&mut self, lost: impl Fn() -> u64 + Send + Sync + 'static) {
        self.lost_lines = LostLines(Arc::new(lost));
    }

    /// Where it listens by TCP; the system's choice in the place of port 0.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What is odd about its configuration and the files that that names, a line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Wherever it listens, each with what is spoken there if it is not plain MQTT.
    pub fn spoken(&self) -> &[String] {
        &self.spoken
    }

    /// Has it read its configuration again from there. Without it, only the files that the
    /// configuration names are read again.
    pub fn set_source(&mut self, source: Source) {
        self.reloader.set_source(source);
    }

    /// What has it read the configuration and its files again.
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// What stops it.
    pub fn stopper(&self) -> Stopper {
        Stopper::new(Arc::clone(&self.asked), self.wakers.clone())
    }

    /// Serves until it is stopped: the first shard on this thread, each other on one of its own.
    ///
    /// # Errors
    /// What the system says of threads and of waiting; faults of single connections end those
    /// only. A thread that cannot go on stops all.
    pub fn run(mut self) -> Result<(), ServeError> {
        let control = self.control.take();
        // The folder stays locked until all has been written.
        let doorman = self
            .config
            .store
            .folder()
            .map(|_| Doorman::start(&self.listeners, &self.doors, (GRACE, PATIENCE)));
        let doorman = doorman.transpose()?;
        let (workers, shards, (way, mesh), _disks) = self.workers(control.is_some())?;
        drop(doorman);
        let stopper = self.stopper();
        // Until all that it waits for is known.
        self.asked.shut();
        self.start_bridges(way, &stopper)?;
        let post = self.post_to_be.take().map(|post| cluster::start(post, &stopper)).transpose()?;
        ready::open(&self.asked, &stopper);
        // It answers until this is over.
        let _control =
            control.zip(shards).map(|(control, shards)| control.start(shards)).transpose()?;
        self.reloader.begin(mesh);
        let mut workers = workers.into_iter();
        let first = workers.next();
        let mut threads = Vec::new();
        for worker in workers {
            let name = format!("shard-{}", worker.own().0);
            let stopper = stopper.clone();
            let serve = move || serve(worker, &stopper);
            threads.push(std::thread::Builder::new().name(name).spawn(serve)?);
        }
        // A stand-in does not speak for the process.
        if self.config.cluster.stand_in.is_none() {
            watchdog::start(Arc::clone(&self.asked), stopper.clone(), self.wakers.len() as u16)?;
        }
        let mut result = first.map_or(Ok(()), |worker| serve(worker, &stopper));
        for thread in threads {
            // It catches its own panics.
            result = result.and(thread.join().unwrap_or(Ok(())));
        }
        // What the last clients have left is with the other nodes before the place is given back.
        post.into_iter().for_each(cluster::Running::end);
        result?;
        tracing::info!("stopped");
        Ok(())
    }

    /// Nobody is let in whose messages the bridges would miss: the shards listen once they are
    /// prepared. They relay until the reloader ends.
    fn start_bridges(&mut self, way: Option<Way>, stopper: &Stopper) -> std::io::Result<()> {
        let Some(way) = way else { return Ok(()) };
        self.asked.shut();
        let (asked, stopper) = (Arc::clone(&self.asked), stopper.clone());
        let open = move || ready::open(&asked, &stopper);
        let mut bridges = Bridges::new(Arc::new(way), self.asked.bridges.clone());
        bridges.set(std::mem::take(&mut self.bridges), open)?;
        self.reloader.running().threads.bridges = Some(bridges);
        Ok(())
    }

    /// What is to run.
    pub(crate) fn workers(&mut self, has_control: bool) -> Result<Made, ServeError> {
        let reloads = std::mem::take(&mut self.reloads);
        let bound = std::mem::take(&mut self.listeners);
        let Self { config, wakers, asked, admission, .. } = &*self;
        let shards = wakers.len() as u16;
        let seated = self.post.as_ref().map(|post| post.join(config, shards)).transpose()?;
        let node = seated.as_ref().map_or(Node { first: 0, shards }, Node::of);
        // A hash that nobody outside can guess keeps clients from choosing colliding names.
        let seed = seated.as_ref().map(|seated| seated.seed);
        let seed = seed.unwrap_or_else(|| RandomState::default().hash_one("weir"));
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(std::io::Error::from)?;
        let flows = config.flow.compile().map_err(ConfigError::Flow)?.split(shards.into());
        let mut settings = config.settings();
        settings.features.authentication |= !self.bans.bans().is_empty();
        let number = seated.as_ref().map(|seated| seated.node.place.number);
        let make = |(own, flow)| self.shard((own, node, number), settings.clone(), seed, flow);
        let mut made: Vec<Shard> = (0..shards).zip(flows).map(make).collect();
        let (mut mailboxes, mut post) = match (self.post.as_ref(), seated) {
            (Some(office), Some(seated)) => {
                let (mailboxes, post) = office.open(config, wakers, seated, asked)?;
                (mailboxes, Some(post))
            }
            _ => (weir_reactor::mailboxes(wakers), None),
        };
        let shards_from = (&mut made[..], node.first);
        let (of_shards, disks) = self.disks(shards_from, seed, &mut mailboxes, post.as_mut())?;
        let (letters, to_control): (_, Vec<_>) = match has_control {
            true => {
                let (letters, ends) = weir_reactor::outside(&mut mailboxes, REQUESTS_MAX)?;
                (Some(letters), ends.into_iter().map(Some).collect())
            }
            false => (None, wakers.iter().map(|_| None).collect()),
        };
        let way = self.way(&mut mailboxes)?;
        let mut hashers = self.hashers(secret, &mut mailboxes)?;
        let lasting = Lasting::new(secret);
        let mut access = self.access(&lasting, &mut mailboxes)?;
        let mesh = Mesh {
            addresses: addresses(&mailboxes),
            secret,
            lasting,
            ceiling: Arc::new(Ceiling::new(config.process.memory_bytes_max, shards)),
            bridges: asked.bridges.clone(),
            cluster: post.as_ref().map(|post| post.watch.clone()),
            asked: Arc::clone(asked),
            bans: self.bans.clone(),
            seed,
            keeper: Arc::new(Keeper::new(self.reloader())),
        };
        let letters = letters.map(|letters| mesh.shards(letters, admission));
        let ends = mailboxes.into_iter().zip(to_control);
        let made = made.into_iter().zip(of_shards).zip(reloads);
        let mut workers = Vec::new();
        for (((mailbox, control), own), ((shard, of_shard), reloads)) in
            ends.zip(0..shards).zip(made)
        {
            let answers = (hashers.next(), access.next());
            let guard = self.guard((own, node), &mesh, answers, of_shard);
            let shared: std::io::Result<Vec<_>> = bound.iter().map(Listener::try_clone).collect();
            let (waker, asked) = (wakers[usize::from(own)].clone(), Arc::clone(asked));
            let shell = Shell::new(shard, guard, mailbox, control);
            let of = (waker, config.io.into());
            let times = (Patience::of(config), config.cluster.handover());
            workers.push(Worker::new(shell, shared?, of, (asked, reloads), times));
        }
        self.post_to_be = post;
        Ok((workers, letters, (way, mesh), disks))
    }

    /// What keeps a shard's bounds.
    fn guard(
        &self,
        (own, node): (u16, Node),
        mesh: &Mesh,
        answers: (Option<HasherWay>, Option<AccessWay>),
        (journal, copies): OfShard,
    ) -> Guard {
        let config = &self.config;
        let auth = Authenticator::new(
            &config.auth,
            config.allows_anonymous(),
            mesh.secret,
            answers,
            config.limits.client_share_percent,
        );
        Guard {
            own: ShardId(own),
            node,
            is_fenced: false,
            serves_minority: config.cluster.serves_minority(),
            lease: self.post.as_ref().map(|post| Arc::clone(&post.lease)),
            admission: Arc::clone(&self.admission),
            memory: Memory::new(Arc::clone(&mesh.ceiling)),
            auth,
            log: self.log(),
            unread_bytes_max: unread_bytes_max(&config.limits),
            doors: Arc::clone(&self.doors),
            waiting: HashMap::default(),
            moved: None,
            journal,
            copies,
            sessions_said: config.cluster.stand_in.as_ref().map(|_| None),
            is_disk_short: false,
            rates: Rates::new(&config.limits, &config.process),
            reloaded: ReloadsSeen::default(),
            certificates: Certificates::default(),
            own_conns: HashSet::default(),
            watched: None,
            trace_counts: TraceCounts::default(),
            events: config.sys.events(),
            latency: Latency::default(),
            farewell: Farewell::default(),
        }
    }

    /// Of a shard.
    fn log(&self) -> Log {
        let keeps_drops = !self.config.control.is_off();
        Log::new(self.lost_lines.clone(), self.config.limits.client_share_percent, keeps_drops)
    }

    fn shard(
        &self,
        (own, node, number): (u16, Node, Option<u64>),
        settings: Settings,
        seed: u64,
        flow: Flow,
    ) -> Shard {
        let mut shard = Shard::of_node(ShardId(node.first + own), node.range(), settings, seed);
        if let Some(number) = number {
            let now = weir_core::Micros(weir_reactor::now_us());
            shard.set_clustered(number, now, wall(now));
            let cluster = &self.config.cluster;
            shard.set_copied(cluster.is_copied() || cluster.stand_in.is_some());
            // Until it is known whether a node is away.
            shard.set_absent(cluster.waits_for_absent());
            if cluster.stand_in.is_some() {
                shard.stand_in();
            }
        }
        shard.set_conditions(Box::<Conditions>::default());
        if self.config.auth.knows_users() {
            shard.know_users();
        }
        if let Some(policy) = &self.access.policy {
            shard.set_policy(Arc::clone(policy));
        }
        if !self.config.flow.is_empty() {
            shard.set_rules(Box::new(FlowOfShard(flow)));
        }
        shard
    }

    /// Each shard's way to the hasher, if there are passwords.
    fn hashers(
        &self,
        secret: [u8; 32],
        mailboxes: &mut [Mailbox<Letter>],
    ) -> std::io::Result<std::vec::IntoIter<HasherWay>> {
        let Some(book) = &self.book else { return Ok(Vec::new().into_iter()) };
        Ok(hasher::start(book, secret, mailboxes, is_out(&self.admission))?.into_iter())
    }

    /// The way in of bridges, if there are some.
    fn way(&self, mailboxes: &mut [Mailbox<Letter>]) -> std::io::Result<Option<Way>> {
        let Some(first) = mailboxes.first_mut().filter(|_| !self.bridges.is_empty()) else {
            return Ok(None);
        };
        let (way, joint) = Way::to(first.address())?;
        first.join(joint);
        Ok(Some(way))
    }

    /// Each shard's way to the thread that checks tokens and asks the service, if there is one.
    fn access(
        &self,
        lasting: &Lasting,
        mailboxes: &mut [Mailbox<Letter>],
    ) -> std::io::Result<std::vec::IntoIter<AccessWay>> {
        let setup = self.config.auth.setup();
        if setup.is_empty() {
            return Ok(Vec::new().into_iter());
        }
        let (keys, addresses) = (self.access.keys.clone(), addresses(mailboxes));
        let (asker, ways) =
            access::start(&setup, keys, lasting, &addresses, is_out(&self.admission))?;
        self.reloader.running().threads.asker = Some(asker);
        let join = |(mailbox, (way, joint)): (&mut Mailbox<_>, _)| {
            mailbox.join(joint);
            way
        };
        Ok(mailboxes.iter_mut().zip(ways).map(join).collect::<Vec<_>>().into_iter())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whoever may still ask for a reload does not keep the files of sockets.
        self.reloader.end();
    }
}

fn addresses(mailboxes: &[Mailbox<Letter>]) -> Vec<Address> {
    mailboxes.iter().map(Mailbox::address).collect()
}

/// Listens wherever a configuration says, with what is spoken there.
fn listen(
    config: &Config,
    doors: Vec<Option<Arc<Door>>>,
) -> Result<(Vec<Listener>, Listening), ServeError> {
    let (mut listening, mut passed) = (Listening::default(), weir_reactor::passed());
    let next = listening.next(wanted(config, doors)?, &mut passed);
    let mut next = next.map_err(|NotBound { place, hint }| ServeError::Listen { place, hint })?;
    for (name, _) in passed {
        tracing::warn!(name, "no [[listener]] takes this socket of systemd's: it is closed");
    }
    let listeners = std::mem::take(&mut next.added);
    listening.set(next);
    Ok((listeners, listening))
}

/// Runs a shard to its end. If it ends by itself, by an error or a panic, it stops the others: a
/// broker without one of its shards would leave that one's clients mute.
fn serve(worker: Worker, stopper: &Stopper) -> Result<(), ServeError> {
    let shard = worker.own().0;
    let ended = std::panic::catch_unwind(AssertUnwindSafe(|| worker.run()));
    let error = match ended {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(Ended::Disk(error))) => {
            tracing::error!(shard, %error, "the log cannot be written; stopping");
            ServeError::Disk { shard, error }
        }
        ended => {
            let why = match ended {
                Ok(Err(error)) => error.to_string(),
                _ => "it panicked".to_owned(),
            };
            tracing::error!(shard, why, "a shard ended; stopping");
            ServeError::Shard { shard, why }
        }
    };
    stopper.stop_broken();
    Err(error)
}

/// The threads to be; if there are to be such things, the shards as a control thread sees them, the
/// way in of bridges, and the folder that the shards' logs are in. What reloads need.
pub(crate) type Made = (Vec<Worker>, Option<Shards>, (Option<Way>, Mesh), Disks);

/// Says what the process' limit on open files means for the connections. With `auto`, io_uring is
/// not tried before it is needed.
fn check_io(config: &Config) -> Result<(), ServeError> {
    if config.io == IoBackend::IoUring {
        return Backend::IoUring.check().map_err(ServeError::Io);
    }
    let files = Backend::Epoll.connections_max();
    if files <= config.process.connections_max as usize {
        let beyond = match config.io {
            IoBackend::Auto => "connections beyond them go to io_uring",
            IoBackend::Epoll | IoBackend::IoUring => "they bound the connections",
        };
        tracing::info!("{files} files may be open (ulimit -n); {beyond}");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
