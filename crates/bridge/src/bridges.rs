//! All bridges: a thread for each, which can be given another bridge of the same name, or be told
//! to take its subscriptions back and end.

use crate::counts::{BridgeState, Shared};
use crate::settings::Settings;
use crate::side::Stale;
use crate::worker::{Job, Worker};
use crate::{Inlet, Prepared, Task};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use weir_reactor::Waker;

/// All bridges, which end with this.
pub struct Bridges {
    inlet: Arc<dyn Inlet>,
    watch: BridgeWatch,
    running: Vec<Running>,
    /// Those that were taken out, and may not have ended yet.
    leaving: Vec<Running>,
    /// What relays to Kafka, which no reload changes.
    #[cfg(feature = "kafka")]
    sinks: Vec<crate::kafka::Sink>,
}

/// A bridge that is there.
struct Running {
    settings: Arc<Settings>,
    thread: Thread,
    shared: Arc<Shared>,
    /// Whether it was told to run.
    is_told: bool,
}

/// The thread of a bridge, which ends with this.
struct Thread {
    orders: Arc<Orders>,
    handle: Option<JoinHandle<()>>,
}

/// What a thread is to do next.
enum Order {
    Run(Arc<Settings>, Arc<Prepared>),
    Leave(Arc<Prepared>),
    Stop,
}

/// From whoever has the bridges to a thread.
struct Orders {
    next: Mutex<Option<Order>>,
    given: Condvar,
    /// Whether there is one: what runs is to end.
    is_given: AtomicBool,
    waker: Waker,
}

/// How bridges are.
#[derive(Clone, Debug, Default)]
pub struct BridgeWatch(Arc<Mutex<Vec<Watched>>>);

#[derive(Debug)]
struct Watched {
    name: String,
    client_id: String,
    shared: Arc<Shared>,
}

impl BridgeWatch {
    /// Each of them, in the order of the configuration.
    pub fn states(&self) -> Vec<BridgeState> {
        self.lock().iter().map(|it| it.shared.state(&it.name, &it.client_id)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bridges {
    /// None yet. They come in by `inlet`, and are seen by `watch`.
    pub fn new(inlet: Arc<dyn Inlet>, watch: BridgeWatch) -> Self {
        Self {
            inlet,
            watch,
            running: Vec::new(),
            leaving: Vec::new(),
            #[cfg(feature = "kafka")]
            sinks: Vec::new(),
        }
    }

    /// Has these be all. One that is the same as before is left alone; one of the same name that is
    /// another has the session of the one before. One that is not among these takes its
    /// subscriptions in the own broker back, and its session stays: the client identifiers of these
    /// are returned.
    ///
    /// `prepared` is called once all that are new, or others, have their sessions in the own
    /// broker, and those that are gone have no subscriptions there, or once they have found that
    /// this cannot be done now: what is published from then on is theirs to relay.
    ///
    /// # Errors
    /// What the system says of threads. Then everything is as it was.
    pub fn set(
        &mut self,
        all: Vec<Task>,
        prepared: impl FnOnce() + Send + Sync + 'static,
    ) -> io::Result<Vec<String>> {
        let prepared = Arc::new(Prepared(Some(Box::new(prepared))));
        let all = self.start_sinks(all, &prepared)?;
        let is_wanted = |it: &Running| all.iter().any(|other| other.name == it.settings.name);
        // One that is back does not meet itself. This waits for it.
        self.leaving.retain(|it| !it.thread.has_ended() && !is_wanted(it));
        let is_new = |settings: &&Arc<Settings>| self.position(&settings.name).is_none();
        let start = |settings: &Arc<Settings>| Running::start(settings, &self.inlet);
        let added: Vec<Running> = all.iter().filter(is_new).map(start).collect::<Result<_, _>>()?;
        self.running.extend(added);
        let mut next = Vec::new();
        for settings in all {
            let Some(at) = self.position(&settings.name) else { continue };
            let mut running = self.running.swap_remove(at);
            running.run(settings, &prepared);
            next.push(running);
        }
        let mut gone = std::mem::replace(&mut self.running, next);
        // One that had ended by itself, and was started again, is not gone.
        gone.retain(|it| self.running.iter().all(|next| next.settings.name != it.settings.name));
        gone.iter().for_each(|it| it.thread.orders.give(Order::Leave(Arc::clone(&prepared))));
        let ids = gone.iter().map(|it| it.settings.local_client_id.clone()).collect();
        self.leaving.extend(gone);
        let watched = |it: &Running| Watched {
            name: it.settings.name.clone(),
            client_id: it.settings.local_client_id.clone(),
            shared: Arc::clone(&it.shared),
        };
        let watched = self.running.iter().map(watched);
        #[cfg(feature = "kafka")]
        let watched = watched.chain(self.sinks.iter().map(|sink| {
            let (name, client_id) = (sink.name.clone(), sink.client_id.clone());
            Watched { name, client_id, shared: Arc::clone(&sink.shared) }
        }));
        *self.watch.lock() = watched.collect();
        Ok(ids)
    }

    /// Starts what relays to Kafka, unless it is there. Returns the bridges.
    fn start_sinks(
        &mut self,
        all: Vec<Task>,
        prepared: &Arc<Prepared>,
    ) -> io::Result<Vec<Arc<Settings>>> {
        let mut bridges = Vec::new();
        for task in all {
            match task {
                Task::Bridge(settings) => bridges.push(Arc::from(settings)),
                #[cfg(feature = "kafka")]
                Task::Kafka(settings) => {
                    if self.sinks.iter().all(|sink| sink.name != settings.name) {
                        let (inlet, prepared) = (Arc::clone(&self.inlet), Arc::clone(prepared));
                        self.sinks.push(crate::kafka::Sink::start(settings, inlet, prepared)?);
                    }
                }
            }
        }
        #[cfg(not(feature = "kafka"))]
        let _ = prepared;
        Ok(bridges)
    }

    fn position(&self, name: &str) -> Option<usize> {
        let is_it = |it: &Running| it.settings.name == name && !it.thread.has_ended();
        self.running.iter().position(is_it)
    }
}

impl Running {
    /// Has a thread, which waits to be told what to do.
    fn start(settings: &Arc<Settings>, inlet: &Arc<dyn Inlet>) -> io::Result<Self> {
        let (shared, inlet) = (Arc::<Shared>::default(), Arc::clone(inlet));
        let orders = Arc::new(Orders::new()?);
        let (own, shared_there) = (Arc::clone(&orders), Arc::clone(&shared));
        let run = move || {
            if let Err((name, error)) = serve(&own, &shared_there, &*inlet) {
                tracing::error!(bridge = name, %error, "the bridge has ended");
                shared_there.failed("", &error.to_string());
            }
        };
        let handle = std::thread::Builder::new().name("bridge".into()).spawn(run)?;
        let thread = Thread { orders, handle: Some(handle) };
        Ok(Self { settings: Arc::clone(settings), thread, shared, is_told: false })
    }

    /// Runs by these settings, unless it does already.
    fn run(&mut self, settings: Arc<Settings>, prepared: &Arc<Prepared>) {
        if self.is_told && self.settings.mark == settings.mark {
            return;
        }
        (self.settings, self.is_told) = (Arc::clone(&settings), true);
        self.thread.orders.give(Order::Run(settings, Arc::clone(prepared)));
    }
}

/// A thread of a bridge: does one thing after the other.
fn serve(
    orders: &Orders,
    shared: &Arc<Shared>,
    inlet: &dyn Inlet,
) -> Result<(), (String, io::Error)> {
    // What the bridge has subscribed to so far, and has not taken back.
    let mut stale = Stale::default();
    let mut last: Option<Arc<Settings>> = None;
    loop {
        let (job, settings, prepared) = match (orders.take(), &last) {
            (Order::Run(settings, prepared), _) => (Job::Relay, settings, prepared),
            (Order::Leave(prepared), Some(last)) => (
                Job::Leave,
                Arc::new(Settings { topics: Vec::new(), ..(**last).clone() }),
                prepared,
            ),
            (Order::Leave(_), None) | (Order::Stop, _) => return Ok(()),
        };
        if let Some(last) = &last {
            stale.add(&last.topics);
        }
        stale.take_out(&settings.topics);
        let of = (inlet, prepared);
        let worker = Worker::new(&settings, shared, &orders.is_given, of, (job, stale));
        let run = worker.run(orders.waker.clone());
        stale = run.map_err(|error| (settings.name.clone(), error))?;
        if job == Job::Leave {
            return Ok(());
        }
        last = Some(settings);
    }
}

impl Orders {
    fn new() -> io::Result<Self> {
        let (next, given) = (Mutex::default(), Condvar::new());
        Ok(Self { next, given, is_given: AtomicBool::new(false), waker: Waker::new()? })
    }

    /// In the place of what was to be done next.
    fn give(&self, order: Order) {
        let mut next = self.lock();
        let before = next.replace(order);
        // Behind the lock: said later, it would be of an order that was taken already, and end it.
        self.is_given.store(true, Ordering::Release);
        drop(next);
        self.given.notify_one();
        self.waker.wake();
        // It may tell somebody: not behind the lock.
        drop(before);
    }

    fn take(&self) -> Order {
        let mut next = self.lock();
        loop {
            if let Some(order) = next.take() {
                self.is_given.store(false, Ordering::Release);
                return order;
            }
            next = self.given.wait(next).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Order>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Thread {
    fn has_ended(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.orders.give(Order::Stop);
        // It has said why, if it could not go on.
        let _ = self.handle.take().map(JoinHandle::join);
    }
}

impl Drop for Bridges {
    fn drop(&mut self) {
        // All at once, and then each is waited for.
        let all = self.running.iter().chain(&self.leaving);
        all.for_each(|it| it.thread.orders.give(Order::Stop));
        #[cfg(feature = "kafka")]
        self.sinks.iter().for_each(crate::kafka::Sink::stop);
    }
}
